#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What the first QP says when the library of DPDK ports is not there, or is another's, or when one
# that it needs is not there: one line.
# usage: dpdk_missing.sh TOOL PROVIDER PROGRAM NEEDY OTHER
set -u
tool=$1 provider=$2 program=$3 needy=$4 other=$5
dir=$(realpath "$(mktemp -d)")
trap 'rm -rf "$dir"' EXIT
cp "$provider" "$dir" || exit 1
bad=0

# says WORDS: what follows "cannot start DPDK: "
says() {
	lines=$("$tool" run --device urxe2 --port net_ring0 --ip 10.0.0.1/24 -- \
		env URXE_PROVIDER="$dir/${provider##*/}" "$program" dpdk 2>&1 >/dev/null)
	case $lines in
	*'
'*) bad=1 ;;
	'urxe['*'] err: urxe2: cannot start DPDK: '$1) return ;;
	esac
	printf 'expected: ...%s\nfound: %s\n' "$1" "$lines"
	bad=1
}

says "there is no liburxe-dpdk.so in $dir/: is urxe installed?: No such file or directory"
cp "$needy" "$dir/liburxe-dpdk.so"
says "librte_net_absent.so.23: cannot open shared object file: No such file or directory \
(Debian's package librte-net-absent23): *"
cp "$other" "$dir/liburxe-dpdk.so"
says "liburxe-dpdk.so in $dir/ is of another version of urxe: *"
exit $bad
