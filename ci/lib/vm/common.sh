# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For the scripts of ci/ that run virtual machines to source, after ci/lib/common.sh.

# vm_possible NAME: ends the script, as skipped, where it cannot work
vm_possible() {
	local why=

	[ "$(id -u)" = 0 ] || why='needs root, for namespaces and a TAP'
	[ -n "$why" ] || [ -c /dev/net/tun ] || why='no /dev/net/tun'
	[ -n "$why" ] || unshare --net --mount --pid --fork true 2>/dev/null ||
		why='namespaces cannot be made here'
	[ -z "$why" ] || vm_skip "$1" "$why"
}

vm_skip() {
	echo "skip $1: $2"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

# vm_run SCRIPT ARG...: in namespaces that die with it, whatever becomes of us; --folder and the images are
# added. Ends the script with its status.
vm_run() {
	command -v qemu-system-x86_64 >/dev/null || vm_skip "$(basename "$0")" 'no QEMU (ci/install-deps --vm)'
	vm_dir=$(mktemp -d "${TMPDIR:-/tmp}/urxe-vm.XXXXXX")
	vm_child=
	trap vm_finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	# Here, since the namespace has no network to download by.
	for image in dpdk rdma; do
		PYTHONPATH=ci/lib python3 -B -m vm image $image >"$vm_dir/$image" ||
			vm_skip "$(basename "$0")" 'the image cannot be made (above)'
		mapfile -t "vm_$image" <"$vm_dir/$image"
	done
	setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc \
		sh -c 'python3 "$@"; exit $?' reaper "$@" --folder "$vm_dir" \
		--dpdk "${vm_dpdk[@]}" --rdma "${vm_rdma[@]}" <&0 &
	vm_child=$!
	wait "$vm_child"
	status=$?
	vm_child=
	exit $status
}

vm_finish() {
	trap '' INT TERM HUP
	[ -z "$vm_child" ] || kill -KILL "$vm_child" 2>/dev/null
	wait
	rm -rf "$vm_dir"
}
