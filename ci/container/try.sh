#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What compose.yaml sets up, by bubblewrap: two nodes with their own processes, network, read-only root and 64 MiB /dev/shm,
# no capability and no way to one, and a folder that they share. There is no container engine in it.
set -u
. "$(dirname "$0")/../lib/common.sh"

for program in bwrap unshare ip rping; do
	command -v "$program" >/dev/null || { echo "skip container: $program is not installed"; exit 77; }
done
build plain || die 'the build failed'
work=$(mktemp -d) || exit 1
pids=()
finish() {
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
	wait
	rm -rf "$work"
}
trap finish EXIT
mkdir -m 700 "$work/fabric"
mkdir "$work/tmp"
# contained COMMAND...: of a user and address of its own
contained() {
	bwrap --unshare-all --share-net --new-session --die-with-parent --cap-drop ALL --uid 1000 --gid 1000 \
		--ro-bind / / --proc /proc --dev /dev --size $((64 << 20)) --tmpfs /dev/shm --tmpfs /tmp \
		--ro-bind "$top" "$top" --bind "$(build_dir plain)" "$(build_dir plain)" \
		--bind "$work/fabric" "$work/fabric" --bind "$work/tmp" "$work/tmp" --setenv URXE_PORT "fabric,dir=$work/fabric" \
		--setenv URXE_READY_FILE "$work/tmp/ready" "$(build_dir plain)/tools/urxe" run -- "$@"
}
export -f contained build_dir
export work top
# with an address, in a network of its own
node() {
	local address=$1

	shift
	unshare --user --map-root-user --net bash -c \
		'ip link set lo up && ip link add eth0 type veth peer name eth1 && ip addr add "$1/24" dev eth0 && ip link set eth0 up &&
			ip link set eth1 up && shift && contained "$@"' node "$address" "$@"
}
unshare --user --map-root-user --net true 2>/dev/null || { echo 'skip container: no namespaces here'; exit 77; }
node 10.5.0.1 timeout 60 rping -s -a 10.5.0.1 -V -C 10 &
pids+=($!)
for ((i = 0; i < 600; i++)); do
	[ ! -e "$work/tmp/ready" ] || break
	kill -0 $! 2>/dev/null || die 'the server has ended'
	sleep 0.05
done
said=$(node 10.5.0.2 timeout 60 rping -c -v -a 10.5.0.1 -V -C 10)
if [ "$(grep -c '^ping data' <<<"$said")" = 10 ] && wait $!; then
	pids=()
	echo 'ok container: two nodes, each with an address of its own, on one fabric'
else
	echo "FAIL container: $said"
	exit 1
fi
