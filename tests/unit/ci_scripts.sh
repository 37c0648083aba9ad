#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ci_scripts.sh SOURCE: scripts of ci/ see what fails below them, leave nothing, and refuse what they do not know. In a copy, with
# stubs in place of what takes long.
set -u
source=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
unset URXE_BUILD
export TMPDIR="$tmp/tmp"
mkdir -p "$tmp/tmp" "$tmp/tree/tests" "$tmp/bin"
cp -r "$source/ci" "$source/meson.build" "$source/CHANGES.md" "$tmp/tree" || exit 1
cp -r "$source/tests/clients" "$source/tests/e2e" "$tmp/tree/tests" || exit 1

bad() {
	echo "FAIL $*"
	[ ! -e "$tmp/out" ] || sed 's/^/     /' "$tmp/out"
	failed=1
}

# script FILE: from stdin
script() {
	{ echo '#!/bin/sh' && cat; } >"$1" && chmod +x "$1"
}

# stub NAME: a script from stdin, in place of ci/NAME
stub() {
	script "$tmp/tree/ci/$1"
}

# gives STATUS PATTERN SCRIPT ARG...: that it ends so, says so, and leaves nothing
gives() {
	local status want=$1 pattern=$2

	shift 2
	timeout 60 "$tmp/tree/ci/$1" "${@:2}" >"$tmp/out" 2>&1 </dev/null
	status=$?
	if [ $status != "$want" ] || ! grep -qE -e "$pattern" "$tmp/out"; then
		bad "ci/$*: status $status, not $want, or no line like '$pattern' in:"
	fi
	[ -z "$(ls "$TMPDIR")" ] || bad "ci/$*: left $(ls "$TMPDIR")"
}

# What they do not know. None of it installs or builds anything.
gives 2 '^ci/demo ' demo -x
gives 2 '^ci/demo ' demo -n more
gives 0 '^ci/demo ' demo -h
gives 2 "there is no file 'none.c'" lint none.c
gives 2 'no family is called none' clients --install none
gives 2 "found '\(', accepted: a regular expression" vm -n --only '('
gives 2 "found '\(', accepted: a regular expression" interop-rxe -n --only '('
gives 2 "no part is called 'none'" test none
# From another folder, by a relative name.
for name in package cross lint fuzz-coverage; do
	(cd "$tmp/tree/ci" && "./$name" -h) >"$tmp/out" 2>&1 && grep -q "^ci/$name" "$tmp/out" || bad "./$name -h"
done

# Programs of Python refuse what they cannot match
for line in 'ci/lib/bench.py --only (' 'ci/lib/bench.py --only none' 'ci/lib/bench.py -r 0' \
	'tests/e2e/run.py --short --only (' 'tests/clients/run.py --only ('; do
	(cd "$tmp/tree" && timeout 60 python3 -B $line) >"$tmp/out" 2>&1
	status=$?
	[ $status = 2 ] || bad "$line: status $status"
done

# What libFuzzer would do for ever.
for seconds in x 0 5s; do
	! URXE_FUZZ_SECONDS=$seconds "$source/tests/fuzz/run.sh" true "$tmp/fuzz" >"$tmp/out" 2>&1 || bad "run.sh: $seconds seconds"
done
"$source/tests/fuzz/run.sh" true "$tmp/fuzz" >"$tmp/out" 2>&1 || bad 'run.sh'

# A file that is to have a share, and is gone.
echo '{"data": [{"files": []}]}' >"$tmp/summary"
! (cd "$tmp" && python3 -B "$tmp/tree/ci/lib/fuzz_coverage.py" summary coverage) >"$tmp/out" 2>&1 ||
	bad 'fuzz_coverage.py does not miss its files'

# ci/package puts packages where the caller says, and takes away none but its own.
script "$tmp/bin/dpkg-query" <<<"printf 'install ok installed'"
script "$tmp/bin/dpkg-buildpackage" <<<"touch ../urxe_2_amd64.deb ../urxe-dbgsym_2_amd64.deb"
script "$tmp/bin/lintian" <<<:
mkdir "$tmp/debs"
touch "$tmp/debs/other_1_amd64.deb" "$tmp/debs/urxe_1_amd64.deb" "$tmp/debs/liburxe-dev_1_amd64.deb"
(cd "$tmp" && PATH="$tmp/bin:$PATH" tree/ci/package -n debs) >"$tmp/out" 2>&1 || bad 'ci/package'
[ "$(cat "$tmp/out")" = urxe_2_amd64.deb ] || bad 'ci/package does not print its packages'
[ "$(cd "$tmp/debs" && echo *)" = 'other_1_amd64.deb urxe-dbgsym_2_amd64.deb urxe_2_amd64.deb' ] ||
	bad "ci/package: its folder has $(ls "$tmp/debs")"

# A part that comes half of its way.
stub package <<<"echo 'ok package: one'; echo 'package: the other one does not work' >&2; exit 1"
gives 1 '^1 passed, 1 failed, 0 skipped$' test -n package
stub package <<<"echo 'ok package: one'; echo 'FAIL package: two'; exit 1"
gives 1 '^1 passed, 1 failed, 0 skipped$' test -n package
stub package <<<"echo 'skip package: why'; exit 77"
gives 1 '^0 passed, 1 failed, 1 skipped$' test -n package

# What only computes goes on behind the tests: here one that waits for lint to begin.
script "$tmp/bin/ninja" <<<:
script "$tmp/bin/meson" <<'END'
case $1 in
setup) for dir; do case $dir in */build*) mkdir -p "$dir/meson-logs" && : >"$dir/build.ninja" ;; esac; done ;;
test) . "$TEST" && echo '{"name": "t", "result": "OK", "duration": 1}' >"$3/meson-logs/unit-plain.json" ;;
esac
END
export PATH="$tmp/bin:$PATH" TEST="$tmp/test"
stub lint <<<"n=\$(nice); echo 1 >'$tmp/pid'; [ \$n = 19 ] && echo 'ok lint: one'"
echo "while [ ! -s '$tmp/pid' ]; do sleep 0.05; done" >"$TEST"
gives 0 '^3 passed, 0 failed, 0 skipped$' test -n unit lint
stub lint <<<"echo 'FAIL lint: one'; exit 1"
echo : >"$TEST"
gives 1 '^2 passed, 1 failed, 0 skipped$' test -n unit lint

# What ends ci/test ends what it has started.
stub package <<<"(sleep 60; echo never) & echo \$! >'$tmp/pid'; wait"
stub lint <"$tmp/tree/ci/package"
echo 'sleep 60' >"$TEST"

# killed_in SIGNAL PART...
killed_in() {
	local signal=$1 status script i

	shift
	rm -f "$tmp/pid"
	# As a shell starts it that somebody types into: below another one SIGINT may be ignored, and
	# SIGHUP below nohup(1).
	set -m
	env --default-signal=$signal "$tmp/tree/ci/test" -n "$@" >"$tmp/out" 2>&1 </dev/null &
	script=$!
	set +m
	for ((i = 0; i < 600; i++)); do
		[ ! -s "$tmp/pid" ] || break
		sleep 0.05
	done
	# A signal that comes right before bash's `wait` sleeps is looked at when that ends.
	until [ "$(cut -d' ' -f3 "/proc/$script/stat")" != R ]; do sleep 0.05; done
	kill -$signal "$script"
	wait "$script"
	status=$?
	[ $status -gt 128 ] || bad "ci/test -n $*, SIG$signal: status $status"
	! kill -0 "$(cat "$tmp/pid")" 2>/dev/null || bad "ci/test -n $*, SIG$signal: what it started goes on"
	[ -z "$(ls "$TMPDIR")" ] || bad "ci/test -n $*, SIG$signal: left $(ls "$TMPDIR")"
}
for signal in TERM INT HUP; do
	killed_in $signal package
	killed_in $signal unit lint
done

# ended PID...: they are gone, or will be soon
ended() {
	local i pid

	for ((i = 0; i < 200; i++)); do
		for pid; do
			! kill -0 "$pid" 2>/dev/null || { sleep 0.05; continue 2; }
		done
		[ -n "$(ls "$TMPDIR")" ] || return 0
		sleep 0.05
	done
	return 1
}

# Likewise ci/two-node, even when it is killed: nodes, what they have started, its folder.
mkdir -p "$tmp/build/tools"
printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n' >"$tmp/build/tools/urxe"
chmod +x "$tmp/build/tools/urxe"
node=("$tmp/tree/ci/two-node" --build "$tmp/build")
for signal in TERM INT HUP KILL; do
	rm -f "$tmp/a" "$tmp/b"
	set -m
	"${node[@]}" ": >\"\$URXE_READY_FILE\"; sleep 60 & echo \$! >'$tmp/a'; wait" "sleep 60 & echo \$! >'$tmp/b'; wait" \
		>"$tmp/out" 2>&1 </dev/null &
	script=$!
	set +m
	for ((i = 0; i < 600; i++)); do
		[ ! -s "$tmp/a" ] || [ ! -s "$tmp/b" ] || break
		sleep 0.05
	done
	kill -$signal "$script"
	wait "$script" 2>/dev/null
	status=$?
	[ $status = $((128 + $(kill -l $signal))) ] || bad "ci/two-node, SIG$signal: status $status"
	ended "$(cat "$tmp/a")" "$(cat "$tmp/b")" || bad "ci/two-node, SIG$signal: left processes, or $(ls "$TMPDIR")"
done
# What it opens is not taken for the standard files of the nodes.
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	"${node[@]}" --kernel-addr ': >"$URXE_READY_FILE"' 'ip -o address show dev k0 | grep -q 10.0.0.2/' >"$tmp/out" 2>&1 <&- ||
		bad 'ci/two-node --kernel-addr <&-'
fi

exit $failed
