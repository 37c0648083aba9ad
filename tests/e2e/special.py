# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""End-to-end tests that are no single pair of commands: captures, start order, death, idleness, data
over a bad link, storms of connections, floods of forged MADs.

Where one side must know how far the other is, it waits for a file in {dir}, a folder of the
test's own; an rdma_listen() makes the file that $URXE_READY_FILE names.
"""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

import clocked
import crowd
import doctor
import fabric
import fabric_live
import fabric_places
import gateway
import tutorial
import kernel_addr
import udp
import udp_over
import view
import spawn
import frames
import node


def asked(report, title, reason):
    """Is the test wanted, and is there no reason why it cannot run here?"""
    if report.wanted(title) and reason:
        report.skip(title, reason)
    return report.wanted(title) and not reason


def wait_for(path):
    return 'until [ -e %s ]; do sleep 0.02; done' % path


# ---- what is on the wire ----

WIRE = [
    ('rping', False, 'rping -s -a 10.0.0.1 -V -C 20', 'rping -c -a 10.0.0.1 -V -C 20', 120),
    ('rping IPv6', True, 'rping -s -a fd00::1 -V -C 20', 'rping -c -a fd00::1 -V -C 20', 120),
    ('SEND of many packets', False, 'ib_send_bw -d urxe0 -p {p} -s 20000 -n 10',
     'ib_send_bw -d urxe0 -p {p} -s 20000 -n 10 127.0.0.1', 200),
    ('WRITE of many packets', False, 'ib_write_bw -R -d urxe0 -p {p} -s 20000 -n 10',
     'ib_write_bw -R -d urxe0 -p {p} -s 20000 -n 10 10.0.0.1', 200),
    ('READ of many packets', False, 'ib_read_bw -d urxe0 -p {p} -s 20000 -n 10',
     'ib_read_bw -d urxe0 -p {p} -s 20000 -n 10 127.0.0.1', 200),
    ('a REJ', False, 'rping -s -a 10.0.0.1 -p 7000', '! rping -c -a 10.0.0.1 -p 7001 -C 1', 2),
]


def flipped_is_seen(path):
    """The check can fail: a frame with one bit changed has a wrong ICRC."""
    for frame in frames.packets(path):
        if frames.icrc_wrong(frame) is False:
            bad = bytearray(frame)
            bad[-6] ^= 1
            return frames.icrc_wrong(bytes(bad)) is True
    return False


def wire(report, _kind, _why_not):
    if not shutil.which('tshark'):
        report.skip('wire', 'tshark is not installed')
        return
    for name, v6, server, client, least in WIRE:
        title = 'wire: ' + name
        if not report.wanted(title):
            continue
        folder = tempfile.mkdtemp(prefix='urxe-wire-')
        end = ('--end-server',) if 'REJ' in name else ()
        result = node.two_node(server, client, v6=v6, options=('--pcap', folder + '/w', *end))
        problem = 'exit status %d' % result.status if result.status else None
        for which in 'ab':
            path = '%s/w.%s.pcapng' % (folder, which)
            if problem:
                break
            if not os.path.exists(path):
                problem = 'node %s left no capture' % which
                break
            roce, wrong = frames.problems(path)
            if wrong:
                problem = '%s: %s' % (which, '; '.join(wrong[:5]))
            elif roce < least:
                problem = '%s: %d RoCEv2 frames, fewer than %d' % (which, roce, least)
            elif not flipped_is_seen(path):
                problem = 'a changed bit is not seen in the ICRC'
        shutil.rmtree(folder, ignore_errors=True)
        report.result(title, problem, result)


# ---- either start order ----


def order(report, _kind, why_not):
    for link in ('vhost', 'memif', 'af_packet'):
        for swap in ((), ('--swap-link',)):
            title = 'order: %s%s, B starts first' % (link, ' with its ends swapped' if swap else '')
            if not asked(report, title, why_not(link)):
                continue
            # B starts first and listens on its link alone; A comes when B has.
            result = node.two_node(
                wait_for('{dir}/ready') + '; rping -c -a 10.0.0.2 -V -C 100',
                'URXE_READY_FILE={dir}/ready rping -s -a 10.0.0.2 -V -C 100', link,
                options=('--client-first', *swap))
            report.result(title, verdict(result), result)


# The server has no processor from when the client knows it until the client has ended, had it not waited; but DPDK's threads
# have, which take the link down then. (Where the machine is so busy that it has all before it is halted, nothing is shown.)
HALTED_MEMBER = '''
stdbuf -oL mckey -m 239.1.2.4 -b 10.0.0.1 & member=$!
until grep -qs joined {dir}/client && {urxe} status --json $(cat {dir}/pid) | grep -q 'neigh_resolved": [1-9]'; do
	kill -0 $member || break
	sleep 0.02
done
{halt} {dir}/client 'return status 0' 200 $member mckey urxe
wait $member
'''


def last_datagrams(report, _kind, why_not):
    for link in ('vhost', 'memif'):
        for swap in ((), ('--swap-link',)):
            title = 'order: %s%s, who sends to a group and ends has sent' % (link, ' with its ends swapped' if swap else '')
            if not asked(report, title, why_not(link) or (os.geteuid() and 'needs root to halt threads')):
                continue
            server = HALTED_MEMBER.replace('{urxe}', node.built('tools/urxe')).replace('{halt}', node.built('tests/e2e/halt'))
            client = 'echo $$ >{dir}/pid; exec stdbuf -oL mckey -m 239.1.2.4 -s -b 10.0.0.2 >{dir}/client'
            result = node.two_node(server, client, link, options=swap)
            report.result(title, verdict(result), result)


def orders(report, kind, why_not):
    order(report, kind, why_not)
    last_datagrams(report, kind, why_not)


def verdict(result):
    if result.reports:
        return 'a sanitizer reports'
    return 'exit status %d' % result.status if result.status else None


# ---- death ----

# Each round: a server, a client in full flow, kill -9 of the server; the client must end by itself
# and say that it failed. After the rounds a server serves a client as if nothing had been.
DEATH_SERVER = '''
: >"$URXE_READY_FILE"
i=0
while [ $i -lt {rounds} ]; do
	URXE_READY_FILE={dir}/ready$i {victim} >/dev/null 2>&1 &
	pid=$!
	until [ -e {dir}/kill$i ]; do sleep 0.02; done
	kill -9 $pid
	wait $pid
	: >{dir}/dead$i
	i=$((i + 1))
done
URXE_READY_FILE={dir}/ready$i {last_server}
'''

DEATH_CLIENT = '''
i=0
while [ $i -lt {rounds} ]; do
	until [ -e {dir}/ready$i ]; do sleep 0.02; done
	timeout -k 1 {limit} {mourner} >{dir}/out$i 2>{dir}/err$i &
	pid=$!
	until [ "$(stat -c %s {dir}/out$i)" -ge {flow} ] || ! kill -0 $pid; do sleep 0.02; done
	: >{dir}/kill$i
	wait $pid
	status=$?
	tail -n 3 {dir}/err$i
	# rping calls a peer that is gone a success, but says so
	grep -qE 'DISCONNECT EVENT|completion failed' {dir}/err$i || { echo "round $i: not noticed"; exit 1; }
	# 124: timeout(1) ended it; 128 and above: a signal did; 255 is rping's own
	[ $status -ge 124 ] && [ $status -lt 255 ] && { echo "round $i: hung or crashed: $status"; exit 1; }
	echo "round $i: the client ended with $status"
	until [ -e {dir}/dead$i ]; do sleep 0.02; done
	i=$((i + 1))
done
until [ -e {dir}/ready$i ]; do sleep 0.02; done
{last_client}
'''


def death(report, kind, why_not):
    for link in ('vhost', 'memif', 'af_packet'):
        # Five seconds a round, ten with a sanitizer: ten rounds on each link by hand.
        rounds = 10 if kind == 'full' else 1 if link != 'vhost' else 2 if kind.endswith('sanitized') else 4
        title = 'death: %s, server killed %d times' % (link, rounds)
        if not asked(report, title, why_not(link)):
            continue
        if kind == 'ci-sanitized' and link != 'vhost':
            continue
        values = {
            'rounds': rounds, 'limit': 60,
            'victim': 'rping -s -a 10.0.0.1 -v', 'mourner': 'rping -c -a 10.0.0.1 -v',
            # At load 15 a sanitized rping took more than the limit for 200,000.
            'flow': 20000 if kind == 'ci-sanitized' else 200000,
            'last_server': 'rping -s -a 10.0.0.1 -V -C 100', 'last_client': 'rping -c -a 10.0.0.1 -V -C 100',
        }
        server, client = DEATH_SERVER, DEATH_CLIENT
        for key, value in values.items():
            server = server.replace('{%s}' % key, str(value))
            client = client.replace('{%s}' % key, str(value))
        result = node.two_node(server, client, link, timeout=60 + 30 * rounds)
        problem = verdict(result)
        if not problem and result.b.count('the client ended with') != rounds:
            problem = 'not all rounds ran'
        report.result(title, problem, result)


# ---- a port that goes ----

# The interface is deleted under both ends in full flow; each must hear of it, and end.
REMOVAL_CLIENT = '''
rping -c -a 10.0.0.1 -v >{dir}/out 2>{dir}/err &
pid=$!
until [ "$(stat -c %s {dir}/out)" -ge 100000 ] || ! kill -0 $pid; do sleep 0.02; done
ip link del vb
wait $pid
grep 'device removal' {dir}/err
'''


def removal(report, kind, why_not):
    title = 'removal: the interface of a port is deleted, the application hears DEVICE_REMOVAL'
    if not asked(report, title, why_not('af_packet')):
        return
    result = node.two_node('rping -s -a 10.0.0.1 -v >/dev/null 2>{dir}/server; grep "device removal" {dir}/server',
                           REMOVAL_CLIENT, 'af_packet')
    report.result(title, verdict(result), result)


# ---- idleness, and waking up ----

# CPU time that all threads of a process had, in ns.
CPU = 'cat /proc/$pid/task/*/schedstat | awk \'{ ns += $1 } END { printf "%.0f", ns }\''
IDLE_CLIENT = '''
pid=$(cat {dir}/pid)
sleep 1
was=$(%s)
sleep {seconds}
is=$(%s)
echo "cpu $((is - was))"
{wake}
''' % (CPU, CPU)


def idle(report, kind, _why_not):
    """An idle listener uses under 1 % of a core, then wakes from rdma_get_cm_event(). ThreadSanitizer's own thread, which
    looks around all the time, takes as much beside other tests."""
    seconds, percent = 5, 5 if node.sanitized() == 'thread' else 1
    for title, server, wake in (
            ('idle: a listener sleeps, then wakes', 'rping -s -a 10.0.0.1 -V -C 10',
             'rping -c -a 10.0.0.1 -V -C 10'),
            ('idle: one that waits in ibv_get_cq_event sleeps, then wakes',
             'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -e -n 10',
             'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -e -n 10 127.0.0.1')):
        if not report.wanted(title):
            continue
        result = node.two_node('echo $$ >{dir}/pid; exec ' + server,
                               IDLE_CLIENT.replace('{seconds}', str(seconds)).replace('{wake}', wake))
        problem = verdict(result)
        if not problem:
            used = [int(l.split()[1]) for l in result.b.splitlines() if l.startswith('cpu ')]
            limit = seconds * percent * 10**9 // 100
            if not used or used[0] >= limit:
                problem = 'used %s ns of CPU in %d s, not under %d' % (used, seconds, limit)
            else:
                title += ' (%.2f %% of a core)' % (used[0] / seconds / 1e7)
        report.result(title, problem, result)


# ---- integrity: every byte, over a link that loses, doubles, reorders and damages frames ----

FAULTS = '--drop 0.01 --dup 0.01 --reorder 0.01 --corrupt 0.01 --seed %d'
TRANSPORTS = ('rc', 'uc', 'ud', 'xrc')
# Of each kind of run: (link, MTU, seeds); $URXE_SEED is where the seeds begin.
INTEGRITY = {
    'ci': [('vhost', 1024, 3), ('memif', 4096, 1), ('af_packet', 4096, 1)],
    'ci-sanitized': [('vhost', 1024, 1)],
    'full': [(link, mtu, 20) for link in ('vhost', 'memif', 'af_packet') for mtu in (1024, 4096)],
}


def integrity(report, kind, why_not):
    first = int(os.environ.get('URXE_SEED', '1'))
    for link, mtu, seeds in INTEGRITY[kind]:
        for transport in TRANSPORTS:
            for seed in range(first, first + seeds):
                title = 'integrity: %s-%d %s, URXE_SEED=%d' % (link, mtu, transport, seed)
                if not asked(report, title, why_not(link)):
                    continue
                line = '%s -p {p} -t %s -s %d' % (node.built('tests/e2e/integrity'), transport, seed)
                result = node.two_node(
                    line, line + ' 127.0.0.1', link, mtu, timeout=160,
                    options=('--opt-a', FAULTS % seed, '--opt-b', FAULTS % (seed + 1)))
                problem = verdict(result)
                if not problem and ('all good' not in result.a or 'all good' not in result.b):
                    problem = 'a side does not say that all was good'
                report.result(title, problem, result)


# ---- storms ----

# (name, connections at once, options of the server, options of urxe run): the program fails unless
# each was established, or rejected by the backlog, and both sides have counted the same.
STORMS = [
    ('as fast as possible', 10000, '', ''),
    ('past a backlog of 16', 10000, '-b 16', ''),
    ('over a link that loses', 2000, '', '--drop 0.02 --dup 0.02 --reorder 0.02 --seed 7'),
]


def storm(report, kind, why_not):
    conn = node.built('tests/bench/conn')
    for link in ('vhost', 'af_packet'):
        for name, count, server, run in STORMS:
            title = 'storm: %s, connections %s' % (link, name)
            if not asked(report, title, why_not(link)):
                continue
            if kind == 'ci-sanitized':
                count = min(count, 1000)
            options = ('--opt-a', run, '--opt-b', run) if run else ()
            result = node.two_node('%s -s 10.0.0.1 %s' % (conn, server),
                                   '%s -c 10.0.0.1 -p %d -n %d' % (conn, count, count), link,
                                   options=options, timeout=180)
            problem = verdict(result)
            said = re.search(r'established (\d+), rejected (\d+), failed 0; server: accepted (\d+), open 0, failed 0',
                             result.b)
            if not problem and not said:
                problem = 'no count, or a bad one'
            elif not problem and int(said.group(1)) + int(said.group(2)) != count:
                problem = 'neither established nor rejected: %d' % (
                    count - int(said.group(1)) - int(said.group(2)))
            elif not problem:
                title += ' (%s established, %s rejected)' % said.groups()[:2]
            report.result(title, problem, result)


# ---- many connections ----

# A sanitizer's memory is several times ours.
MANY = {'ci': 10000, 'ci-sanitized': 1000, 'full': 10000}


def many(report, kind, _why_not):
    title = 'many: %d connections' % MANY[kind]
    if not report.wanted(title):
        return
    line = '%s -p {p} -n %d' % (node.built('tests/e2e/many'), MANY[kind])
    result = node.two_node(line, line + ' 127.0.0.1', timeout=300)
    problem = verdict(result)
    if not problem and ('all good' not in result.a or 'all destroyed' not in result.b):
        problem = 'a side does not say that all was good'
    report.result(title, problem, result)


def flood(report, kind, _why_not):
    """Honest connections while the same host forges MADs by the hundred thousand: none fails, nothing is left."""
    title = 'flood: forged MADs, an honest client is served'
    if not asked(report, title, 'needs CAP_NET_RAW for a raw packet QP' if os.geteuid() else None):
        return
    mac, count = '02:00:00:00:00:aa', 100 if kind == 'ci-sanitized' else 1000
    result = node.two_node(node.built('tests/bench/conn') + ' -s 10.0.0.1',
                           '%s 10.0.0.1 %s %d' % (node.built('tests/e2e/flood'), mac, count),
                           options=('--opt-a', '--mac ' + mac), timeout=180)
    problem = verdict(result)
    said = re.search(r'connections beside (\d+) forged', result.b)
    if not problem and (not said or int(said.group(1)) < count):
        problem = 'no flood'
    elif not problem and 'server: open 0, failed 0' not in result.b:
        problem = 'the server has ids left, or gave some up'
    elif not problem:
        title += ' (%s MADs, %d connections)' % (said.group(1), count)
    report.result(title, problem, result)


def ib_cm(report, _kind, _why_not):
    """ib_cm: two processes load another path by LAP and APR, and go on over it."""
    title = 'ib_cm: an alternate path is loaded and migrated to'
    if not report.wanted(title):
        return
    result = node.two_node(node.built('tests/e2e/ibcm') + ' -s', node.built('tests/e2e/ibcm') + ' 1',
                           options=('--opt-a', '--ip 10.0.1.1/24', '--opt-b', '--ip 10.0.1.2/24'), timeout=60)
    problem = verdict(result)
    if not problem and ('migrated, disconnected' not in result.a or 'migrated, disconnected' not in result.b):
        problem = 'a side does not say that it migrated'
    report.result(title, problem, result)


# ---- addresses that come and go ----

ADDRESS_SERVER = '''
: >"$URXE_READY_FILE"
export URXE_STATUS_DIR={dir}
URXE_READY_FILE={dir}/ready rping -s -V -C 20 &
pid=$!
until [ -e {dir}/ready ]; do sleep 0.02; done
LD_PRELOAD= {urxe} ip add {addr} || kill $pid
: >{dir}/added
wait $pid
'''


def address(report, _kind, _why_not):
    """A server listens on the wildcard; `urxe ip` gives its device an address, and a client finds it there."""
    for name, v6, addr, length in (('IPv4', False, '10.0.0.7', 24), ('IPv6', True, 'fd00::7', 64)):
        title = 'address: one that is added while rping listens, ' + name
        if not report.wanted(title):
            continue
        server = ADDRESS_SERVER.replace('{urxe}', node.built('tools/urxe'))
        server = server.replace('{addr}', '%s/%d' % (addr, length))
        if v6:
            server = server.replace('rping -s', 'rping -s -a ::')
        result = node.two_node(server, wait_for('{dir}/added') + '; rping -c -a %s -V -C 20' % addr,
                               v6=v6, timeout=60)
        report.result(title, verdict(result), result)


# ---- ICMP from routers and from kernels ----

KERNEL_HAS = 'ip addr add 10.0.0.1/24 dev va; '
READY = ': >"$URXE_READY_FILE"; '
# The kernel is a router between vb and vd, whose next link carries 600 bytes.
ROUTER = '''
ip addr add 10.0.0.254/24 dev va
echo 1 >/proc/sys/net/ipv4/conf/va/forwarding
'''
SMALL_LINK = ROUTER + '''
ip link add vc type veth peer name vd
ip addr add 10.9.0.254/24 dev vc
echo 1 >/proc/sys/net/ipv4/conf/vc/forwarding
ip link set vd up
ip link set vc mtu 600 up
serve() {
	URXE_READY_FILE={dir}/$1 {urxe} run --port net_af_packet0,iface=vd --ip 10.9.0.1/24 --gw 10.9.0.254 --mtu $2 -- \\
		rping -s -a 10.9.0.1 -S 1000 -V -C 3
}
: >"$URXE_READY_FILE"
! serve first 1500 && serve second 600
'''
SMALL_CLIENT = wait_for('{dir}/first') + '''
rping -c -a 10.9.0.1 -S 1000 -V -C 3
''' + wait_for('{dir}/second') + '''
{urxe} run --port net_af_packet0,iface=vb --ip 10.0.0.2/24 --gw 10.0.0.254 --mtu 600 -- rping -c -a 10.9.0.1 -S 1000 -V -C 3
'''

# (what, server's side, client, what the client says): the errno tells ICMP from a time-out (-110).
ICMP = [
    ('nobody has RoCEv2 there', KERNEL_HAS + READY, '! rping -c -a 10.0.0.1 -C 1', 'UNREACHABLE, error -111'),
    ('nobody has RoCEv2 there, SIDR', KERNEL_HAS + READY, '! udaddy -s 10.0.0.1', 'UNREACHABLE, error: -111'),
    ('the peer has its address in common with its kernel', KERNEL_HAS + 'rping -s -a 10.0.0.1 -V -C 20',
     'rping -c -a 10.0.0.1 -V -C 20', 'icmp_unreachable'),
    ('no route beyond the router', ROUTER + READY, '! rping -c -a 10.9.0.1 -C 1', 'UNREACHABLE, error -101'),
    ('a link that is too small, and the --mtu that fits', SMALL_LINK, SMALL_CLIENT,
     r'10\.0\.0\.254 drops packets of \d+ bytes to 10\.9\.0\.1, its next link carries 600: start both ends with --mtu 600'),
]


def icmp(report, _kind, why_not):
    """What a kernel reports of our packets, as the other end or as a router between."""
    for name, server, client, says in ICMP:
        title = 'icmp: ' + name
        if not asked(report, title, why_not('af_packet')):
            continue
        urxe = node.built('tools/urxe')
        result = node.two_node(server.replace('{urxe}', urxe), client.replace('{urxe}', urxe), 'af_packet',
                               options=('--opt-b', '--gw 10.0.0.254'), env={'URXE_LOG': 'info'})
        problem = verdict(result)
        if not problem and not re.search(says, result.b):
            problem = 'the client does not say ' + says
        report.result(title, problem, result)


# ---- ports of two kinds on a wire ----

UDP = KERNEL_HAS + '{urxe} run --port udp --ip 10.0.0.1/24 -- '
# What the kernel's sockets send is not cut into packets before it is received, nor is what they receive.
MIXED = ['rping %s -V -S 60000 -C 50', 'ib_write_bw -R -s 65536 -n 500 %s', 'ib_read_bw -R -s 65536 -n 500 %s',
         'ib_send_bw -R -s 64 -n 2000 %s']
# options of the client's port
GSO = ['', ',gso=0', ',qdisc_bypass=0']


def mixed(report, _kind, why_not):
    """The port udp at one end of a veth pair, af_packet at the other."""
    urxe = node.built('tools/urxe')
    release = tuple(int(n) for n in re.findall(r'\d+', os.uname().release)[:2])
    if release < (6, 2):
        report.skip('mixed', 'before Linux 6.2 packet sockets do not receive what UDP sockets send in one')
        return
    for command in MIXED:
        ping = command.startswith('rping')
        for more in GSO:
            title = 'mixed: udp with af_packet%s, %s' % (more, command.split()[0])
            if not asked(report, title, why_not('af_packet')):
                continue
            client = command % ('-c -a 10.0.0.1' if ping else '10.0.0.1')
            if more:
                client = '{urxe} run --port net_af_packet0,iface=vb%s --ip 10.0.0.2/24 -- %s' % (more, client)
            result = clocked.two_node(
                title, (UDP + command % ('-s -a 10.0.0.1' if ping else '')).replace('{urxe}', urxe),
                client.replace('{urxe}', urxe), 'af_packet')
            report.result(title, verdict(result), result)


# ---- a look at running programs ----

# The client is asked while it sends, until it shows what it is asked for; then for its rates.
STATUS_CLIENT = '''
export URXE_STATUS_DIR={dir}
{client} >{dir}/bw 2>&1 &
pid=$!
ask() {
	LD_PRELOAD= {urxe} "$@"
}
shows() {
	for what in {shows}; do grep -q "$what" {dir}/json || return 1; done
}
until ask status --json $pid >{dir}/json 2>&1 && shows; do kill -0 $pid || exit 1; sleep 0.02; done
echo JSON
cat {dir}/json
echo END
ask status $pid || exit 1
ask stat --json -i 0.3 -c {samples} $pid || exit 1
ask stat -i 0.1 -c 1 || exit 1
wait $pid || { cat {dir}/bw; exit 1; }
[ ! -e {dir}/$pid ] || echo "its socket is still there"
'''
# A program that is killed leaves its socket, until somebody looks.
STATUS_KILLED = '''
unset URXE_CONFIG_TEXT
LD_PRELOAD= {urxe} run --port loop --ip 10.0.0.9/24 -- ibv_rc_pingpong -d urxe0 -g 0 -p $(({p} + 1)) >{dir}/pp 2>&1 &
pid=$!
until [ -e {dir}/$pid ]; do kill -0 $pid || exit 1; sleep 0.02; done
kill -9 $pid
wait $pid
[ -e {dir}/$pid ] || echo "the killed one left no socket"
ask status >{dir}/rest || exit 1
[ ! -e {dir}/$pid ] || echo "the killed one's socket is still there"
'''
# (title, link, operation, options of both nodes)
STATUS = [
    ('ib_write_bw over vhost', 'vhost', 'ib_write_bw', ()),
    ('ib_send_bw over memif, 1 % loss', 'memif', 'ib_send_bw', ('--opt-b', '--drop 0.01 --seed 7')),
]


def wrong_status(text, lossy):
    """What is wrong with what the client of ib_*_bw said of itself, or None."""
    rates = [json.loads(l)['rates'] for l in text.splitlines() if l.startswith('{"rates"')]
    try:
        p = json.loads(text[text.index('JSON\n') + 5:text.index('\nEND\n')])['processes'][0]
        qp, sent = p['devices'][0]['qps'][0], [r[0]['tx_packets'] for r in rates if r]
        requester = qp['requester']
    except (ValueError, KeyError, IndexError) as e:
        return 'no status: %r' % e
    # A sanitized peer on a busy machine may stand still for a whole sample, or for three.
    if sum(1 for s in sent if s >= 10) < 2:
        return 'rates: %s' % rates
    if (qp['type'], qp['state'], qp['peer']) != ('RC', 'RTS', '10.0.0.1') or not qp['peer_qpn']:
        return 'QP: %s' % qp
    if not requester['srtt_ns'] or not requester['posted'] or not requester['window']:
        return 'requester: %s' % requester
    if p['devices'][0]['mrs']['bytes'] < 65536 or not p['devices'][0]['cqs']:
        return 'objects: %s' % p['devices'][0]
    if lossy and not (requester['last_nak'] and any(r[0]['naks'] and r[0]['retransmits'] for r in rates if r)):
        return 'loss does not show: %s, %s' % (requester, rates)
    if not re.search(r'RC +RTS +EXPECT_FIRST 10\.0\.0\.1/[0-9a-f]{6} ', text) or 'RX-PKT/S' not in text:
        return 'tables'
    bad = re.search('^(its|the killed one).* socket.*', text, re.M)
    return bad and bad.group(0)


def status(report, _kind, why_not):
    """Programs that use verbs alone, asked by `urxe status` and `urxe stat` while they run."""
    for name, link, program, options in STATUS:
        title = 'status: ' + name
        if not asked(report, title, why_not(link)):
            continue
        command = '%s -d urxe0 -p {p} -D %d -s 65536' % (program, 12 if node.sanitized() else 4)
        client = STATUS_CLIENT.replace('{client}', command + ' 127.0.0.1') + STATUS_KILLED
        client = client.replace('{samples}', '12' if node.sanitized() else '6')
        shows = ['"una": [1-9]', '"posted": [1-9]', '"srtt_ns": [1-9]'] + ['"last_nak": {'] * bool(options)
        client = client.replace('{shows}', shlex.join(shows))
        result = clocked.two_node(title, 'export URXE_STATUS_DIR={dir}; ' + command,
                                  client.replace('{urxe}', node.built('tools/urxe')), link, options=options)
        report.result(title, verdict(result) or wrong_status(result.b, bool(options)), result)


# ---- a look inside while it runs ----

BPFTRACE = "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec bpftrace -B line %s"
# Of loss.bt, at 1 % loss of what the client sends.
SEEN = (r'@faults\[fault_tx_drop\]: \d', r'@not_taken\[rx_duplicate\]: \d', r'@naks_sent\[PSN_SEQUENCE\]: \d',
        r'@naks_received\[PSN_SEQUENCE\]: \d', r'@sent_again_qp\[\d+\]: \d', r'@packets_sent_again:', r'@round_trip_us:')
LINES = (r'QP [0-9a-f]{6}: RTR -> RTS', r'QP [0-9a-f]{6}: fault_tx_drop as configured, PSN \d+',
         r'QP [0-9a-f]{6}: <- NAK PSN_SEQUENCE, PSN \d+, \d of 7 retries left',
         r'QP [0-9a-f]{6}: sends again PSN \d+ alone, count \d+')


def lossy_write(log='warn'):
    return clocked.two_node('ib_write_bw', 'ib_write_bw -d urxe0 -p {p} -s 4096 -n 5000',
                            'ib_write_bw -d urxe0 -p {p} -s 4096 -n 5000 127.0.0.1',
                            options=('--opt-b', '--drop-tx 0.01 --seed 3'), env={'URXE_LOG': log})


def lacking(text, wanted):
    missing = [w for w in wanted if not re.search(w, text)]
    return 'does not show ' + ', '.join(missing) if missing else None


class Watcher:
    """bpftrace with a script of tools/trace, for the provider of this build; all is in place once it is made."""

    def __init__(self, name):
        with open(os.path.join(node.TOP, 'tools', 'trace', name + '.in')) as f:
            text = f.read().replace('@LIB@', os.path.join(node.BUILD, 'provider', 'liburxe-rdmav34.so'))
        self.script = tempfile.NamedTemporaryFile('w', suffix='.bt')
        self.script.write(text)
        self.script.flush()
        self.proc = subprocess.Popen(['unshare', '-m', 'sh', '-c', BPFTRACE % self.script.name], text=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.out = ''
        for line in self.proc.stdout:
            self.out += line
            if line.startswith('urxe: watching'):
                break

    def watches(self):
        return self.out.endswith('Ctrl-C\n')

    def end(self):
        """what it has printed; and, should it not end, where the kernel has it"""
        where, rest, end = '', None, time.monotonic() + 240
        while rest is None and time.monotonic() < end:
            # Again and again: bpftrace looks for what a signal left only when one wakes it. SIGTERM, for a second SIGINT
            # would end it while it prints.
            self.proc.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                rest, _ = self.proc.communicate(timeout=1)
        if rest is None:
            where = ''.join('%s: %s\n' % (f, node.read('/proc/%d/%s' % (self.proc.pid, f)).strip())
                            for f in ('status', 'wchan', 'stack'))
            self.proc.kill()
            rest, _ = self.proc.communicate()
        return self.out + rest + (where and '\nbpftrace did not end in 240 s:\n' + where)


def no_bpftrace():
    """Why it cannot be had, or None."""
    if os.geteuid():
        return 'bpftrace needs root'
    if not shutil.which('bpftrace'):
        return 'bpftrace is not installed'
    done = subprocess.run(['readelf', '-n', os.path.join(node.BUILD, 'provider', 'liburxe-rdmav34.so')],
                          text=True, stdout=subprocess.PIPE)
    if 'Provider: urxe' not in done.stdout:
        return 'built without <sys/sdt.h>'
    done = subprocess.run(['bpftrace', '-e', 'BEGIN { exit() }'], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return None if not done.returncode else 'bpftrace does not work here: ' + done.stdout.strip().splitlines()[-1]


def trace(report, _kind, _why_not):
    """The tracepoints of a program that runs, by bpftrace; and as lines of the log."""
    title = 'trace: --log debug at 1 % loss'
    if report.wanted(title):
        result = lossy_write('debug')
        report.result(title, verdict(result) or lacking(result.b, LINES), result)
    title = 'trace: bpftrace at 1 % loss'
    if not asked(report, title, no_bpftrace()):
        return
    watcher = Watcher('loss.bt')
    if not watcher.watches():
        report.skip(title, 'bpftrace cannot watch here: ' + watcher.end().strip().splitlines()[-1])
        return
    result = lossy_write()
    seen = watcher.end()
    result.own += seen
    report.result(title, verdict(result) or lacking(seen, SEEN), result)


TESTS = {'wire': wire, 'order': orders, 'death': death, 'removal': removal, 'idle': idle, 'integrity': integrity,
         'storm': storm, 'flood': flood, 'many': many, 'ib_cm': ib_cm,
         'address': address, 'icmp': icmp, 'mixed': mixed, 'status': status,
         'trace': trace, 'fabric': fabric.fabric, 'fabric_live': fabric_live.live,
         'fabric_places': fabric_places.places, 'gateway': gateway.gateway, 'spawn': spawn.spawn, 'view': view.view,
         'udp': udp.udp, 'udp_over': udp_over.udp_over, 'kernel_addr': kernel_addr.kernel_addr,
         'crowd': crowd.crowds, 'doctor': doctor.doctor,
         'tutorial': tutorial.tutorial}
