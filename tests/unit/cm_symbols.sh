#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Does our librdmacm.so.1 export what the installed one does, with the same version nodes?
# usage: cm_symbols.sh OUR_LIBRARY
set -eu

ours=$1
theirs=
for dir in /usr/lib/"$(uname -m)"-linux-gnu /lib/"$(uname -m)"-linux-gnu /usr/lib64 /usr/lib; do
	if [ -e "$dir/librdmacm.so.1" ]; then
		theirs=$dir/librdmacm.so.1
		break
	fi
done
if [ -z "$theirs" ]; then
	echo "skipped: no librdmacm.so.1 is installed"
	exit 77
fi
command -v nm >/dev/null || { echo "skipped: no nm"; exit 77; }

symbols() {
	nm -D --with-symbol-versions --defined-only "$1" | awk '{print $3}' | sort
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
symbols "$ours" >"$tmp/ours"
symbols "$theirs" >"$tmp/theirs"
case $(grep -c '@@' "$tmp/theirs") in
68) ;;
*)
	echo "skipped: the installed librdmacm.so.1 is not rdma-core 44's"
	exit 77
	;;
esac
diff -u "$tmp/theirs" "$tmp/ours"
readelf -d "$ours" | grep -q 'SONAME.*librdmacm\.so\.1' || { echo "wrong soname"; exit 1; }
