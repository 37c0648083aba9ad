#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# In a Debian with nothing but rdmacm-utils: the packages are installed, used, upgraded and removed.
set -eu
as_nobody() {
	mkdir -p -m 700 /tmp/nobody
	chown nobody /tmp/nobody
	cd / && env -i PATH="$PATH" XDG_RUNTIME_DIR=/tmp/nobody HOME=/tmp/nobody setpriv --reuid nobody --regid nogroup --clear-groups "$@"
}
server() {
	as_nobody env URXE_READY_FILE="/tmp/nobody/$1" urxe run -- timeout 120 rping -s -a 127.0.0.1 -p "$2" -V -C 10 &
	server=$!
	while ! [ -e "/tmp/nobody/$1" ]; do kill -0 $server; sleep 0.05; done
}
client() {
	as_nobody urxe run -- timeout 60 rping -c -v -a 127.0.0.1 -p "$1" -V -C 10 | grep -c '^ping data' | grep -x 10
}

apt-get -q -y --no-install-recommends install /srv/urxe_*.deb /srv/liburxe-dev_*.deb /srv/urxe-doc_*.deb
urxe --version
server one 7001
client 7001
wait "$server"
# An upgrade in the midst of it: a server that runs meets a client of the new files.
server two 7002
dpkg -i /srv/urxe_*.deb
client 7002
wait "$server"
[ "$(ibv_devices 2>/dev/null | grep -c urxe)" = 0 ]
# As systemctl enable urxed@nobody does.
wants=/etc/systemd/system/multi-user.target.wants
mkdir -p $wants
ln -s /usr/lib/systemd/system/urxed@.service $wants/urxed@nobody.service
apt-get -q -y purge urxe liburxe-dev urxe-doc
apt-get -q -y purge --autoremove
rm -rf /tmp/nobody
# What ran there (/tmp, /run) goes when the machine does.
left=$(find / -xdev \( -path /proc -o -path /sys -o -path /srv -o -path /tmp -o -path /run -o -path /var/log -o -path /var/cache \) -prune -o -name '*urxe*' -print)
[ -z "$left" ] || { echo "left: $left" >&2; exit 1; }
