#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Unmodified programs meet the shim and the fake provider.
# programs.sh SHIM_DIR PROVIDER [SANITIZER_RUNTIME]
set -u
shim=$1
provider=$2
runtime=${3:-}
failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A program that was not built with a sanitizer leaks as it always did: that is not looked at.
export ASAN_OPTIONS=detect_leaks=0 URXE_PROVIDER="$provider"

# expect NAME PATTERN ENV... -- CMD...: CMD's output has a line that matches PATTERN
expect() {
	name=$1 pattern=$2
	shift 2
	if env "$@" >"$tmp/out" 2>&1; [ $? -ge 128 ]; then
		echo "FAIL $name: killed by a signal"
	elif grep -Eq "$pattern" "$tmp/out"; then
		echo "ok   $name"
		return
	else
		echo "FAIL $name: no line like '$pattern' in:"
	fi
	sed 's/^/     /' "$tmp/out"
	failed=1
}

have() {
	command -v "$1" >/dev/null || { echo "skip $1 is not installed"; return 1; }
}

path="LD_LIBRARY_PATH=$shim LD_PRELOAD=$runtime"
if have ibv_devices; then
	expect 'ibv_devices' '^ *fake0[[:space:]]+0200aafffebb0001' $path ibv_devices
	expect 'ibv_devices, LD_PRELOAD' '^ *fake0[[:space:]]+0200aafffebb0001' \
		"LD_PRELOAD=${runtime:+$runtime:}$shim/libibverbs.so.1" ibv_devices
	expect 'ibv_devices, LD_BIND_NOW' '^ *fake0[[:space:]]+0200aafffebb0001' $path LD_BIND_NOW=1 ibv_devices
	expect 'ibv_devices, relative library path' '^ *fake0[[:space:]]+0200aafffebb0001' \
		-C "$shim" LD_LIBRARY_PATH=. "LD_PRELOAD=$runtime" ibv_devices
	expect 'ibv_devices, two devices' '^ *fake1[[:space:]]' $path FAKE_DEVICES=2 ibv_devices
	expect 'ibv_devices, bad configuration' 'fake: bad configuration' $path FAKE_DEVICES=error \
		ibv_devices
	expect 'no provider: says so' '^urxe: cannot load the provider: .*/nowhere' $path \
		URXE_PROVIDER=/nowhere ibv_devices
	# A library of another private ABI has not all that the provider needs.
	LC_ALL=C sed 's/verbs_set_ops/verbs_sat_ops/g' "$provider" >"$tmp/other_abi.so"
	expect 'another private ABI: says so' \
		'^urxe: cannot load the provider: .*: urxe needs the private ABI of rdma-core 36 to 56$' $path \
		URXE_PROVIDER="$tmp/other_abi.so" ibv_devices
	expect 'not a provider: says so' '^urxe: .* is not a urxe provider' $path \
		URXE_PROVIDER=libc.so.6 ibv_devices
fi
if have ibv_devinfo; then
	expect 'ibv_devinfo' 'fw_ver:.*fake' $path ibv_devinfo -d fake0
	expect 'ibv_devinfo -v, IPv4 GID' 'GID\[ *0\]:.*::ffff:10\.0\.0\.1, RoCE v2' $path \
		ibv_devinfo -v -d fake0
	expect 'ibv_devinfo -v, IPv6 GID' 'GID\[ *2\]:.*fd00::1, RoCE v2' $path ibv_devinfo -v -d fake0
fi
if have rping; then
	# BIND_NOW: every symbol it imports must be found behind the shim.
	expect 'rping starts' '^rping|address|usage' $path timeout 20 rping -h
fi
if env -u LD_LIBRARY_PATH /usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null; then
	expect 'pyverbs' 'fake0' $path /usr/bin/python3 -c '
import pyverbs.device as d
devices = d.get_device_list()
print([x.name.decode() for x in devices])'
	expect 'pyverbs, context' '^gids 2 ::ffff:0a00:0001|^gids 2 0000:.*:0a00:0001' $path \
		/usr/bin/python3 -c '
import pyverbs.device as d
ctx = d.Context(name="fake0")
ctx.query_device()
entries = ctx.query_gid_table(8)
print("gids", len(entries), ctx.query_gid(1, 0))'
else
	echo "skip pyverbs is not installed"
fi
exit $failed
