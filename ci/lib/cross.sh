#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# In a Debian for cross builds (ci/in-debian --cross ARCHITECTURE): builds, and runs unit and sim. For ci/cross.
set -u
. "$(dirname "$0")/common.sh"

arch=$1 dpdk=enabled endian=little
case $arch in
arm64) cpu=aarch64 ;;
# DPDK is not there.
s390x) cpu=s390x dpdk=disabled endian=big ;;
*) die "unknown: $arch" ;;
esac
triplet=$cpu-linux-gnu
dir=$top/build-$arch
cat >"$dir.ini" <<I
[binaries]
c = '$triplet-gcc'
ar = '$triplet-gcc-ar'
strip = '$triplet-strip'
readelf = '$triplet-readelf'
nm = '$triplet-nm'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = ['/usr/lib/$triplet/pkgconfig', '/usr/share/pkgconfig']
needs_exe_wrapper = false
[host_machine]
system = 'linux'
cpu_family = '$cpu'
cpu = '$cpu'
endian = '$endian'
I
if [ ! -f "$dir/build.ninja" ]; then
	quietly meson setup --cross-file "$dir.ini" -Dwerror=true -Ddpdk=$dpdk "$dir" "$top" || die 'meson setup failed (above)'
fi
# The loader of its libc as a program.
if ! "/lib/$triplet"/ld*.so.1 --help >/dev/null 2>&1; then
	echo 'cross: this kernel runs no programs of another processor (Linux 6.7, or qemu-user-static on the machine)' >&2
	exit 77
fi
quietly ninja -C "$dir" || die 'the build failed (above)'
# What qemu-user does not do: set_robust_list(2), which tells a fabric of deaths; madvise() but for dropping pages, so that
# memory is not seen to be missing, or kept from a child; limits (RLIMIT_NPROC, RLIMIT_AS); signal masks as /proc has them.
# The others want what this user namespace has not: raw sockets, routes, other users.
without='unit-(fabric_join|fabric_kill|fabric_link|fabric_ring|limits|limits_dpdk|cm_ib|cm_mcast|cm_fork_fabric|ethdev|no_dpdk|packet|status)
sim-(gone|mr|model)'
mapfile -t tests < <(meson test -C "$dir" --no-rebuild --suite unit --suite sim --list 2>/dev/null |
	sed -n 's/^.* \/ //p' | grep -vxE "$without")
[ ${#tests[@]} -gt 50 ] || die "${#tests[@]} tests only"
echo "not run, since qemu-user cannot: $without"
meson test -C "$dir" --no-rebuild --timeout-multiplier 4 --print-errorlogs "${tests[@]}" </dev/null
