#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# tool_options.sh URXE: the command lines of all its commands; a bad one gets one line and status 2.
set -u
urxe=$1 command=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset URXE_CONFIG URXE_CONFIG_TEXT URXE_PORT POSIXLY_CORRECT
export URXE_STATUS_DIR="$tmp/none" # nobody runs

. "$(dirname "$0")/command_line.sh"

for c in run shell env status stat top ip doctor link res bind unbind; do
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

is 2 "^urxe: .*view: found 'x' .--view., accepted: auto, preload, always or never" run --view x -- true
is 2 '^urxe: env: --view always: variables give no view' env --view always
is 0 '^ran$' run --view never -- echo ran

printf '[one]\nport = loop\nmtu = 4096\n' >"$tmp/f"
is 0 'path MTU 4096' status --no-start --config "$tmp/f"
is 0 'path MTU 4096' status --config="$tmp/f" --no-start
is 2 "^urxe: status: --config: found nothing, accepted: a value" status --config
is 2 "^urxe: status: found '--json=yes', accepted: " status --json=yes
is 0 '^rdma-core +ok +libibverbs.so.1' doctor
is 0 '^program +ok' doctor /bin/sh
is 1 '^program +MISSING +/nonexistent: No such file' doctor /nonexistent
is 2 "^urxe: doctor: found 'b', accepted: one PROGRAM" doctor a b
cp /bin/true "$tmp/setuid" && chmod u+s "$tmp/setuid"
is 1 '^program +MISSING +set-user-ID' doctor "$tmp/setuid"
is 0 '^program +ok +/.*/sh$' doctor sh
is 1 '^program +MISSING +no-such-program: not in PATH$' doctor no-such-program
is 1 '^program +MISSING +/: no regular file$' doctor /
is 1 '^program +MISSING +/etc/passwd: Permission denied$' doctor /etc/passwd
printf '#!/bin/sh\n' >"$tmp/script" && chmod +x "$tmp/script"
is 0 '^program +ok +/.*/script: a script' doctor "$tmp/script"
echo text >"$tmp/text" && chmod +x "$tmp/text"
is 1 '^program +MISSING +/.*/text: no ELF program' doctor "$tmp/text"
head -c 2000 /bin/sh >"$tmp/part" && chmod +x "$tmp/part"
is 1 '^program +MISSING +/.*/part: no program, or a part' doctor "$tmp/part"
cp /bin/sh "$tmp/other" && printf '\001' | dd of="$tmp/other" bs=1 seek=4 conv=notrunc 2>/dev/null
is 1 '^program +MISSING +/.*/other: 32-bit' doctor "$tmp/other"
if command -v cc >/dev/null; then
	echo 'int main(void) { return 0; }' >"$tmp/main.c"
	mkdir "$tmp/rdma" "$tmp/bare" && : >"$tmp/rdma/libibverbs.so.1"
	rpath="cc -o $tmp/linked $tmp/main.c -Wl,--disable-new-dtags,-rpath,"
	$rpath"$tmp/bare" && is 0 "^program +note +looks in DT_RPATH before .*: $tmp/bare$" doctor "$tmp/linked"
	$rpath"$tmp/bare:\$ORIGIN/rdma" &&
		is 1 "^program +MISSING +its DT_RPATH.* has $tmp/rdma/libibverbs.so.1" doctor "$tmp/linked"
	cc -o "$tmp/linked" "$tmp/main.c" -Wl,--enable-new-dtags,-rpath,"$tmp/rdma" &&
		is 0 '^program +ok' doctor "$tmp/linked"
	: >"$tmp/ld-musl-none.so.1"
	cc -o "$tmp/linked" "$tmp/main.c" -Wl,--dynamic-linker,"$tmp/ld-musl-none.so.1" &&
		is 1 "^program +MISSING +its linker /.*/ld-musl-none.so.1 is not glibc" doctor "$tmp/linked"
	cc -o "$tmp/linked" "$tmp/main.c" -Wl,--dynamic-linker,/none/ld.so &&
		is 1 '^program +MISSING +its linker /none/ld.so: No such file' doctor "$tmp/linked"
fi
if [ "$(id -u)" = 0 ] && command -v setcap >/dev/null && command -v setpriv >/dev/null; then
	cp /bin/true "$tmp/able" && chmod 755 "$tmp"
	if setcap cap_net_raw+ep "$tmp/able" 2>/dev/null && setpriv --reuid 65534 test -x "$urxe"; then
		is 0 '^program +ok' doctor "$tmp/able"
		command=setpriv
		is 1 '^program +MISSING +file capabilities' --reuid 65534 "$urxe" doctor "$tmp/able"
		command=$urxe
	fi
	chmod 700 "$tmp"
fi
is 0 '^# TYPE node_infiniband_state_id gauge' status --prometheus
is 2 '^urxe: status: found --prometheus with --json' status --prometheus --json
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
is 2 "^urxe: --device: found '', accepted: a device's name" run --device '' --port loop true
is 2 "^urxe: --device: found '', accepted: a device's name" env --port loop --device=
is 2 "^urxe: run: found '--d', accepted: .*--dup-tx" run --d 1 true
is 127 '/none: No such file' run --port loop /none

is 2 "^urxe: ip: found no running program" ip add 10.0.0.1/24 --device=d --pid 1
is 2 "^urxe: ip: --pid: found 'x', accepted: a process id" ip --pid=x del fd00::1/64
is 2 "^urxe: ip: found no running program" ip --pid=1 del --device d fd00::1/64
is 2 "^urxe: ip: --device: found '', accepted: a device's name" ip add 10.0.0.1/24 --device=
is 2 "^urxe: ip: found '', accepted: add ADDR" ip
is 2 "^urxe: ip: found 'add', accepted: add ADDR" ip add
is 2 "^urxe: ip: found 'up', accepted: add ADDR" ip up 10.0.0.1/24
is 2 "^urxe: ip: found '10.0.0.1', accepted: ADDR/LEN" ip add 10.0.0.1
is 2 "^urxe: ip: found 'x', accepted: one ADDR/LEN" ip add 10.0.0.1/24 x

# A wrong port is found when it is named.
for p in foo net_bogus0 net_ rings; do
	is 2 "^urxe: urxe0: port: found '$p', accepted: fabric, udp, loop, a PCI address, .*net_vhost" run --port $p true
done
is 2 '^urxe: urxe0: port: found no PCI device 0000:ff:1f.7' run --port ff:1f.7 true
is 2 "^urxe: urxe0: port: found no interface 'none0'" run --port net_af_packet0,iface=none0 true
is 2 "^urxe: urxe0: port: found 'foo'" env --port foo
for p in net_vhost0,iface=$tmp/later,client=1 eth_ring0 virtio_user0,path=$tmp/later; do
	is 0 '^one$' run --port "$p" echo one
done
is 0 '^one$' run --port mine0 --eal '-d librte_mine.so' echo one
if command -v ibv_devinfo >/dev/null; then
	printf '[a]\nport = foo\n[b]\nport = loop\n' >"$tmp/two"
	two=$tmp/two "$urxe" run --port loop sh -c \
		'unset URXE_CONFIG_TEXT; URXE_CONFIG=$two exec ibv_devinfo -l' >"$tmp/out" 2>&1
	if ! grep -q "err: configuration: a: port: found 'foo', accepted" "$tmp/out" ||
		grep -qw a "$tmp/out" && ! grep -qw b "$tmp/out"; then
		echo "FAIL a port of the file that is none:"
		cat "$tmp/out"
		failed=1
	fi
fi

# What a shell makes of urxe env is what urxe run has; nothing in it is obeyed.
nasty="$tmp/it's \$(touch $tmp/obeyed) \`touch $tmp/obeyed\` \"\\x"
one=$("$urxe" run --port loop --pcap "$nasty" sh -c 'echo "$URXE_CONFIG_TEXT,$LD_LIBRARY_PATH,$URXE_PROVIDER"')
other=$(eval "$("$urxe" env --port loop --pcap "$nasty")" && echo "$URXE_CONFIG_TEXT,$LD_LIBRARY_PATH,$URXE_PROVIDER")
if [ -z "$one" ] || [ "$one" != "$other" ] || [ -e "$tmp/obeyed" ]; then
	echo "FAIL urxe env gives '$other', not '$one'"
	failed=1
fi
is 0 '^Environment="URXE_CONFIG_TEXT=.*\\npcap = /a%%b' env --format=systemd --port loop --pcap '/a%b"'
is 2 "^urxe: env: --format: found 'x', accepted: sh or systemd" env --port loop --format x
is 2 "^urxe: env: found 'x', accepted: options" env --port loop x
is 2 "^urxe: shell: found 'x', accepted: options" shell --port loop x

# A shell that is no terminal's; and one that is, with the mark in its prompt and its exit status.
SHELL=/bin/sh
export SHELL
echo 'echo "URXE=${URXE_CONFIG_TEXT:+yes}"; exit 7' >"$tmp/in"
is 7 '^URXE=yes' shell --port loop <"$tmp/in"
if command -v script >/dev/null && [ -x /bin/bash ]; then
	printf 'PS1="mine> "\n' >"$tmp/.bashrc"
	echo 'echo "fds=$(ls /proc/self/fd | wc -w)"; exit 5' |
		HOME=$tmp SHELL=/bin/bash script -qec "'$urxe' run --port loop" /dev/null >"$tmp/out" 2>&1
	status=$?
	if [ $status != 5 ] || ! grep -q '(urxe) mine> ' "$tmp/out"; then
		echo "FAIL urxe run on a terminal: status $status, not 5, or no mark:"
		cat "$tmp/out"
		failed=1
	fi
fi

is 0 '^urxe top - .*, 0 devices' top -d .1
is 0 '^{"rates":\[\]}' top -d .1 -n 2 --json
is 2 "^urxe: top: -d: found '0', accepted" top -d 0
is 2 "^urxe: top: -n: found 'x', accepted" top -n x
is 2 "^urxe: top: found 'x', accepted: options" top x

is 0 '^\[]?$' link --json show
is 2 "^urxe: link: found 'x', accepted: show" link x
is 2 "^urxe: link: found 'y', accepted: one DEV" link show x y
is 1 "^urxe: found no device x/1 " link show x/1
is 1 "^urxe: found no device x " res show x
is 2 "^urxe: res: found 'y', accepted: one DEV" res show x y
is 2 "^urxe: res: link: found nothing, accepted: DEV" res show qp link
is 2 "^urxe: res: lqpn: found nothing, accepted: a value" res list cq lqpn
is 2 "^urxe: res: programs say how many PDs they have" res show pd
is 0 '^\[]?$' res -j show mr dev urxe0 pid 1

is 0 . bind --list --json
is 2 "^urxe: bind: found none" bind --force
is 2 "^urxe: bind: found both" bind --list 03:00.0
is 2 "^urxe: bind: found --json, accepted: with --list" bind --json 03:00.0
is 2 "^urxe: bind: found --driver 'x'" bind --driver=x 03:00.0
is 2 "^urxe: bind: found --hugepages '-1'" bind --hugepages -1 03:00.0
is 2 "^urxe: bind: found 'x', accepted: a PCI address" bind 03:00.0 x
is 2 "^urxe: unbind: found 'x', accepted: a PCI address" unbind -- x
is 2 "^urxe: unbind: found none" unbind

# What cannot be printed is no success, whatever prints it.
for c in status 'status --json' 'status --cm' 'status --prometheus' 'stat -i .1 -c 1' 'stat -i .1 -c 1 --json' \
	'top -d .1' 'top -d .1 -n 2 --json' doctor 'bind --list' 'bind --list --json' 'env --port loop' \
	'link --json' 'res show -j' help 'help run' 'run --help' --help --version; do
	timeout 60 "$urxe" $c >/dev/full 2>"$tmp/out"
	status=$?
	if [ $status != 1 ] || [ "$(grep -v 'stat: no program' "$tmp/out")" != 'urxe: standard output: No space left on device' ]; then
		echo "FAIL urxe $c >/dev/full: status $status, not 1, or not one line that says so:"
		cat "$tmp/out"
		failed=1
	fi
done

[ $failed = 1 ] || echo ok
exit $failed
