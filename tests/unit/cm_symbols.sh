#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Does our librdmacm.so.1 export what the installed one does, with the same version nodes; and, in
# a node of its own, what urxe_cm.h declares?
# usage: cm_symbols.sh OUR_LIBRARY URXE_CM_H
set -eu

ours=$1
header=$2
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
symbols "$ours" >"$tmp/all"
grep -v 'URXE_CM_1\.0' "$tmp/all" >"$tmp/ours"
grep -o '^[a-z].*\bib_[a-z_]*(' "$header" | sed 's/.*\b\(ib_[a-z_]*\)(/\1@@URXE_CM_1.0/' | sort >"$tmp/declared"
grep '@@URXE_CM_1\.0' "$tmp/all" | grep -v '^URXE_CM' >"$tmp/ib_cm"
diff -u "$tmp/declared" "$tmp/ib_cm"
[ "$(wc -l <"$tmp/ib_cm")" = 16 ] || { echo "not 16 functions of ib_cm"; exit 1; }
# What came after the installed one: a program that was built with that loads here as well.
later() {
	node=$1
	shift
	printf "%s@@$node\n" "$@" >"$tmp/want"
	grep "@@$node\$" "$tmp/ours" >"$tmp/have" || :
	diff -u "$tmp/want" "$tmp/have"
	grep -q "@@$node\$" "$tmp/theirs" && return
	grep -v -e "@@$node\$" -e "^$node\$" "$tmp/ours" >"$tmp/left"
	mv "$tmp/left" "$tmp/ours"
}
symbols "$theirs" >"$tmp/theirs"
later RDMACM_1.4 rdma_query_addrinfo rdma_resolve_addrinfo rdma_write_cm_event
later RDMACM_1.5 repoll_create repoll_ctl repoll_wait
case $(grep -c '@@' "$tmp/theirs") in
68 | 71 | 74) ;;
*)
	echo "skipped: the installed librdmacm.so.1 is not one of rdma-core 44 to 64"
	exit 77
	;;
esac
diff -u "$tmp/theirs" "$tmp/ours"
readelf -d "$ours" | grep -q 'SONAME.*librdmacm\.so\.1' || { echo "wrong soname"; exit 1; }
