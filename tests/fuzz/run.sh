#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# run.sh FUZZER WORK CORPUS REGRESSIONS [FLAG...]: fuzz for $URXE_FUZZ_SECONDS (10), from what is committed and what
# WORK/corpus has from former runs. (Entropic scheduling takes four fifths of the time with inputs that reach this much.) New inputs go there, a finding to WORK.
set -u
fuzzer=$1 work=$2
shift 2
seconds=${URXE_FUZZ_SECONDS:-10}
# libFuzzer takes what is no number for 0, and that for no end.
case $seconds in
0* | *[!0-9]*) echo "FAIL URXE_FUZZ_SECONDS: found '$seconds', accepted: a number above 0"; exit 1 ;;
esac
mkdir -p "$work/corpus"
"$fuzzer" -max_total_time="$seconds" -max_len=4096 -timeout=20 -entropic=0 -rss_limit_mb=3000 \
	-print_final_stats=1 -artifact_prefix="$work/" "$work/corpus" "$@" >"$work/log" 2>&1
status=$?
if [ $status = 0 ]; then
	tail -n 8 "$work/log"
	echo "ok $(basename "$fuzzer")"
else
	tail -n 80 "$work/log"
	echo "FAIL $(basename "$fuzzer")"
	status=1 # libFuzzer's own for a finding, 77, is a skipped test to meson
fi
exit $status
