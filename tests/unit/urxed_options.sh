#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# urxed_options.sh URXED: its command lines; a bad one gets one line and status 2, and nothing is left.
set -u
command=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset URXE_CONFIG URXE_CONFIG_TEXT POSIXLY_CORRECT
export URXE_PORT=fabric # is not looked at
export XDG_RUNTIME_DIR="$tmp"
export URXE_STATUS_DIR="$tmp/status"

. "$(dirname "$0")/command_line.sh"

is 0 '^usage: urxed --port' --help
is 2 "^urxed: options: found '--wrong', accepted: .*--fabric" --wrong
is 2 "^urxed: found 'x', accepted: options" --port net_null0 --ip 10.0.0.1/24 x
is 2 '^urxed: .*port: found none' --ip 10.0.0.1/24
is 2 '^urxed: --port: found none, accepted: one port' --log warn
for port in loop fabric fabric,name=x; do
	is 2 "^urxed: --port: found $port, accepted: one port that leads to the outside" --port $port
done
is 2 '^urxed: --ip: found none, accepted: an address' --port net_vhost0,iface="$tmp/u"
is 2 "^urxed: --fabric: found 'a b' .*accepted: a name, or a folder" --port net_null0 --ip 10.0.0.1/24 --fabric 'a b'
is 2 "^urxed: --idle: found 'x', accepted" --port net_null0 --ip 10.0.0.1/24 --idle x
is 2 "^urxed: .*found no interface 'none'" --port net_af_packet0,iface=none --ip 10.0.0.1/24
is 2 "^urxed: .*ip: found '10.0.0.1'" --port net_null0 --ip 10.0.0.1
printf '[a]\nport = net_null0\nip = 10.0.0.1/24\n[b]\nport = net_null1\nip = 10.0.1.1/24\n' >"$tmp/two"
is 2 '^urxed: a, b: found 2 devices, accepted: one, .*another fabric' --config "$tmp/two"
is 2 "port: found 'net_null0' and 'net_null1' .*accepted: one value" --port net_null0 --port net_null1 --ip 10.0.0.1/24
# A folder of its own, which nobody else joins.
is 0 '^urxed: net_null0 is the way out of the fabric in .*/f; path MTU 1024; addresses of its own: 10.0.0.1$' \
	--port net_null0 --ip 10.0.0.1/24 --fabric "$tmp/f" --idle 0.1
left=$(ls "$tmp/f")
[ -z "$left" ] || { echo "FAIL left: $left"; failed=1; }
chmod 777 "$tmp/f"
is 1 'anybody may write to the fabric.s folder' --port net_null0 --ip 10.0.0.1/24 --fabric "$tmp/f"
exit $failed
