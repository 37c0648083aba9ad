# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For tests of command lines; to be sourced, with the command in $command and a folder in $tmp.
failed=0

# is STATUS PATTERN ARG...: what the command says has a line that matches PATTERN; of status 2 it is one line
is() {
	want=$1 pattern=$2
	shift 2
	timeout 60 "$command" "$@" >"$tmp/out" 2>&1
	status=$?
	if [ $status != "$want" ] || ! grep -Eq -e "$pattern" "$tmp/out" ||
		{ [ "$want" = 2 ] && [ "$(wc -l <"$tmp/out")" != 1 ]; }; then
		echo "FAIL $(basename "$command") $*: status $status, not $want, or no single line like '$pattern' in:"
		sed 's/^/     /' "$tmp/out"
		failed=1
	fi
}
