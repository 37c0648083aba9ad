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

# vm_begin: makes $vm_dir, which goes with the script, as does what vm_run() runs
vm_begin() {
	command -v qemu-system-x86_64 >/dev/null || vm_skip "$(basename "$0")" 'no QEMU (ci/install-deps --vm)'
	vm_dir=$(mktemp -d "${TMPDIR:-/tmp}/urxe-vm.XXXXXX")
	vm_child= vm_images=()
	trap vm_finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# vm_image VARIANT [ARG...]: makes it with these arguments of `vm image`, for vm_run(). Here, since the
# namespace has no network to download by. What was asked for by arguments must be there.
vm_image() {
	local folders

	if ! PYTHONPATH=ci/lib python3 -B -m vm image "$@" >"$vm_dir/$1"; then
		[ $# = 1 ] || die 'the image cannot be made (above)'
		vm_skip "$(basename "$0")" 'the image cannot be made (above)'
	fi
	mapfile -t folders <"$vm_dir/$1"
	vm_images+=("--$1" "${folders[@]}")
}

# vm_run SCRIPT ARG...: in namespaces that die with it, whatever becomes of us; --folder and the images
# (--VARIANT KERNEL ROOT) are added. Ends the script with its status.
vm_run() {
	setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc \
		sh -c 'python3 -B "$@"; exit $?' reaper "$@" --folder "$vm_dir" "${vm_images[@]}" <&0 &
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
