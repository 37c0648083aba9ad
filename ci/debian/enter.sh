#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# enter.sh ROOT SCRIPT: in a mount namespace whose root ROOT is. No chroot, in which a user can make no namespaces.
set -eu
if [ "$1" = --inside ]; then
	mount --rbind "$2" "$2"
	cd "$2"
	pivot_root . .
	umount -l .
	cd /
	exec sh -e "$3"
fi
exec unshare --mount --propagation private "$0" --inside "$1" "$2"
