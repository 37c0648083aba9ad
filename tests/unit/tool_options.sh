#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# tool_options.sh URXE: the command lines of all its commands; a bad one gets one line and status 2.
set -u
urxe=$1
failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset URXE_CONFIG URXE_CONFIG_TEXT URXE_PORT POSIXLY_CORRECT
export URXE_STATUS_DIR="$tmp/none" # nobody runs

# is STATUS PATTERN ARG...: what urxe says has a line that matches PATTERN
is() {
	want=$1 pattern=$2
	shift 2
	"$urxe" "$@" >"$tmp/out" 2>&1
	status=$?
	if [ $status != "$want" ] || ! grep -Eq -e "$pattern" "$tmp/out" ||
		{ [ "$want" = 2 ] && [ "$(wc -l <"$tmp/out")" != 1 ]; }; then
		echo "FAIL urxe $*: status $status, not $want, or no single line like '$pattern' in:"
		sed 's/^/     /' "$tmp/out"
		failed=1
	fi
}

for c in run status stat ip bind unbind; do
	is 0 "^usage: urxe $c " $c --help
	is 0 "^usage: urxe $c " $c -h
	is 0 "^usage: urxe $c " help $c
	is 2 "^urxe: $c: found '--wrong', accepted: .*--help" $c --wrong
	is 2 "^urxe: $c: found '--wrong=1', accepted: " $c --wrong=1
	is 2 "^urxe: $c: found '-x', accepted: " $c -x
	is 2 "^urxe: $c: found '-x', accepted: " $c -xh
done

# The folder of the status sockets is a stranger's: both sides say so.
mkdir -m 777 "$tmp/open"
chmod 777 "$tmp/open"
URXE_STATUS_DIR="$tmp/open"
is 0 '^urxe: .*/open: others can write to this folder' status
if command -v ibv_rc_pingpong >/dev/null; then
	loop='--port loop --ip 10.0.0.1/24 -- ibv_rc_pingpong -d urxe0 -g 0 -p 1 127.0.0.1'
	is 1 '^urxe.* others can write to .*/open: no answer' run $loop
	if [ "$(id -u)" = 0 ]; then
		chmod 755 "$tmp/open"
		chown 65534 "$tmp/open"
		is 1 '^urxe.* .*/open belongs to uid 65534: no answer' run $loop
	fi
fi
URXE_STATUS_DIR="$tmp/none"

printf '[one]\nport = loop\nmtu = 4096\n' >"$tmp/f"
is 0 'path MTU 4096' status --no-start --config "$tmp/f"
is 0 'path MTU 4096' status --config="$tmp/f" --no-start
is 2 "^urxe: status: --config: found nothing, accepted: a value" status --config
is 2 "^urxe: status: found '--json=yes', accepted: " status --json=yes
is 2 "^urxe: status: found 'x', accepted: a process id" status --json x
is 2 "^urxe: status: found '2', accepted: one process id" status 1 2
is 1 "^urxe: status: found no process 1 " status --json 1
is 0 '^no devices: nothing is configured' status
is 0 '"processes": \[' status --json --cm
is 1 "^urxe: stat: found no process 1 " stat -i 0.1 -c 1 1
is 0 'uses urxe yet$' stat -i.1 -c1
is 0 '"rates":\[\]' stat --interval=0.1 --count 1 --json
is 2 "^urxe: stat: -i: found '0', accepted: 0.1 to" stat --interval 0
is 2 "^urxe: stat: -i: found 'nan', accepted: 0.1 to" stat -i nan
is 2 "^urxe: stat: -c: found '-1', accepted: a number" stat -c -1
is 2 "^urxe: stat: -c: found nothing, accepted: a value" stat -c
is 2 "^urxe: stat: found '0', accepted: a process id" stat 0
is 2 "^urxe: stat: found '2', accepted: one process id" stat 1 2
is 0 '^one$' status --no-start --config /none --config "$tmp/f"

is 0 '^URXE=.*mtu = 1024' run --port=loop --mtu 1024 --ip 10.0.0.1/24 \
	sh -c 'echo URXE=$(echo "$URXE_CONFIG_TEXT")' --mtu 1
is 0 '^URXE=.*trust-peer = yes' run --port=loop --trust-peer sh -c 'echo URXE=$(echo "$URXE_CONFIG_TEXT")'
is 2 'trust-peer: found .maybe. .*accepted: yes or no' run --port=loop --trust-peer=maybe true
is 0 '^URXE=.*mtu = 4096.*drop = 0.5 drop-rx = 0.25' run --config="$tmp/f" --drop .5 --drop-rx=.25 -- \
	sh -c 'echo URXE=$(echo "$URXE_CONFIG_TEXT")'
is 0 '^URXE=.*\[a\] port = loop.*\[b\] port = loop' run --device=a --port loop --device b --port=loop \
	sh -c 'echo URXE=$(echo "$URXE_CONFIG_TEXT")'
is 2 "^urxe: run: --port: found nothing, accepted: a value" run --port
is 2 "^urxe: urxe0: port: found ''" run --port= true
is 2 "^urxe: run: found no CMD" run --port loop
is 2 "^urxe: run: found '--d', accepted: .*--dup-tx" run --d 1 true
is 127 '/none: No such file' run --port loop /none

is 2 "^urxe: ip: found no running program" ip add 10.0.0.1/24 --device=d --pid 1
is 2 "^urxe: ip: --pid: found 'x', accepted: a process id" ip --pid=x del fd00::1/64
is 2 "^urxe: ip: found no running program" ip --pid=1 del --device d fd00::1/64
is 2 "^urxe: ip: found '', accepted: add ADDR" ip
is 2 "^urxe: ip: found 'add', accepted: add ADDR" ip add
is 2 "^urxe: ip: found 'up', accepted: add ADDR" ip up 10.0.0.1/24
is 2 "^urxe: ip: found '10.0.0.1', accepted: ADDR/LEN" ip add 10.0.0.1
is 2 "^urxe: ip: found 'x', accepted: one ADDR/LEN" ip add 10.0.0.1/24 x

is 0 . bind --list --json
is 2 "^urxe: bind: found none" bind --force
is 2 "^urxe: bind: found both" bind --list 03:00.0
is 2 "^urxe: bind: found --json, accepted: with --list" bind --json 03:00.0
is 2 "^urxe: bind: found --driver 'x'" bind --driver=x 03:00.0
is 2 "^urxe: bind: found --hugepages '-1'" bind --hugepages -1 03:00.0
is 2 "^urxe: bind: found 'x', accepted: a PCI address" bind 03:00.0 x
is 2 "^urxe: unbind: found 'x', accepted: a PCI address" unbind -- x
is 2 "^urxe: unbind: found none" unbind

[ $failed = 1 ] || echo ok
exit $failed
