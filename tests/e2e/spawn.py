# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two machines (gateway.py), each with an unprivileged user's programs under `urxe run`, and nothing configured: the urxed that
carries their packets is started by whoever needs it first, the client on its machine and the server on its own.
"""
import glob
import os
import re
import shutil
import signal
import subprocess

import clocked
import fabric
import gateway
import node

ROWS = [r for r in gateway.PAIRS if r[0] in ('rping', 'ib_write_bw', 'ib_send_bw -R', 'ibv_rc_pingpong', 'udaddy', 'mckey')]
MANY = 20
TAKE = "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 4791)); print('has it', flush=True); s.recv(1)"


def gates(machine):
    """The urxeds of its fabric, by what they were started with."""
    found = []
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        words = node.read(path).split('\0')
        if words[0] == gateway.URXED and any(w.startswith(machine.folder) for w in words):
            found.append(int(path.split('/')[2]))
    return found


def leads_out(machine):
    """Has its fabric a gateway that is ready?"""
    return any(node.read(f) for f in glob.glob(machine.folder + '/urxe/fabric-*/gateway'))


def end_gates(machine, timeout):
    for pid in gates(machine):
        os.kill(pid, signal.SIGTERM)
    return fabric.until(lambda: not gates(machine), machine.holder, timeout)


class Two(gateway.Two):
    """Their programs may start an urxed."""

    def __init__(self):
        super().__init__(udp=True)
        for m in (self.a, self.b):
            m.settings, m.port_name = {'URXE_LOG': 'info'}, None
            if node.sanitized():
                # An urxed of such a build takes as long to start on a busy machine as a REQ waits.
                m.settings['URXE_CM_REQ_TOTAL'] = '20000'

    def __exit__(self, *args):
        for m in (self.a, self.b):
            for pid in gates(m):
                os.kill(pid, signal.SIGKILL)
        super().__exit__(*args)

    def said(self):
        return ''


def told(report, title, problem, two, said=''):
    gateway.told(report, 'spawn: ' + title, problem, two, said)


def one_each(two):
    """What is wrong with the urxeds, or None."""
    for m in (two.a, two.b):
        if len(gates(m)) != 1:
            return 'on %s there are %d urxeds' % (m.which, len(gates(m)))
        status = node.read('/proc/%d/status' % gates(m)[0])
        if re.search(r'PPid:\s+(\d+)', status).group(1) in [str(c.pid) for c in m.children]:
            return 'urxed is a child of the program'
    return None


def one_pair(pair, timeout):
    """Without any urxed before it: what is wrong, or None, and what was said."""
    on, to, row = pair[:3]
    for m in (on, to):
        end_gates(m, timeout)
    pair = gateway.Pair(*pair)
    # Nobody repeats datagrams that come before there is one.
    if row[4] and pair.ready(timeout):
        fabric.until(lambda: leads_out(on), pair.server, timeout)
    return gateway.run([pair], timeout)


def pairs(report, two, timeout):
    """Each begins without any urxed."""
    port = 7500
    for row in ROWS:
        for way, (on, to) in {'a to b': (two.b, two.a), 'b to a': (two.a, two.b)}.items():
            for address in (on.v4, on.v6) if row[3] else (on.v4,):
                title = '%s, %s, %s' % (row[0], way, 'IPv6' if ':' in address else 'IPv4')
                port += 1
                if not report.wanted('spawn: ' + title):
                    continue
                if gateway.missing(row):
                    report.skip('spawn: ' + title, gateway.missing(row).split()[0] + ' is not installed')
                    continue
                problem, said = clocked.pair(title, lambda pair=(on, to, row, address, port): one_pair(pair, timeout))
                told(report, title, problem or one_each(two), two, said)


def many(report, two, timeout):
    title = '%d servers at once and their clients at once start one urxed on each machine' % MANY
    if not report.wanted('spawn: ' + title):
        return
    for m in (two.a, two.b):
        end_gates(m, timeout)
    row = ('rping', 'rping -s -a {a} -p {p} -V -C 20', 'rping -c -a {a} -p {p} -V -C 20', True, None, '')
    problem, said = gateway.run([gateway.Pair(two.b, two.a, row, two.b.v4, 7600 + i) for i in range(MANY)], timeout)
    for m, which in ((two.a, 'c'), (two.b, 's')):
        started = sum(m.said('p%d%s' % (7600 + i, which)).count('is started, to lead out') for i in range(MANY))
        if not problem and started != 1:
            problem = 'on %s %d were started' % (m.which, started)
    told(report, title, problem or one_each(two), two, said)


def killed(report, two, timeout):
    """The urxeds are killed under traffic: connections go on with those that come back."""
    title = 'killed under traffic, on either machine'
    if not report.wanted('spawn: ' + title):
        return
    row = ('rping', 'rping -s -a {a} -p {p} -V', 'stdbuf -oL rping -c -a {a} -p {p} -V -v', True, None, '')
    pair = gateway.Pair(two.b, two.a, row, two.b.v4, 7581)
    problem = None if pair.ready(timeout) else 'the server does not listen'
    pings = lambda: two.a.said('p7581c').count('ping data')
    go_on = lambda was: fabric.until(lambda: pings() > was + 100, pair.client, timeout)
    if not problem:
        pair.connect()
        problem = None if go_on(0) else 'there are no pings'
    for m in (two.a, two.b):
        if problem:
            break
        for pid in gates(m):
            os.kill(pid, signal.SIGKILL)
        problem = None if go_on(pings()) else 'the pings end on ' + m.which
    fabric.end_all([c for c in (pair.client, pair.server) if c])
    told(report, title, problem or one_each(two), two, pair.said())


def for_good(report, two, timeout):
    """The gateway is gone, and there will be none: who sends has a completion with an error, and the log says why."""
    title = 'gone for good'
    if not report.wanted('spawn: ' + title):
        return
    for m in (two.a, two.b):
        end_gates(m, timeout)
    last = two.a.urxed('last', two.a.user, '--port', 'udp')
    two.a.settings = {'URXE_NO_SPAWN': '1'}
    row = ('ib_write_bw', 'ib_write_bw -D 60 -p {p}', 'stdbuf -oL ib_write_bw -D 60 -p {p} {a}', False, None, '')
    pair = gateway.Pair(two.b, two.a, row, two.b.v4, 7582)
    problem = None if last and pair.ready(timeout) else 'urxed, or the server, does not start'
    if not problem:
        pair.connect()
        if not fabric.until(lambda: 'remote address' in two.a.said('p7582c'), pair.client, timeout):
            problem = 'it does not begin'
    if last:
        last.kill()
        last.wait()
    try:
        if not problem and not pair.client.wait(timeout):
            problem = 'exit status 0'
    except subprocess.TimeoutExpired:
        problem = 'it hangs'
    said = two.a.said('p7582c')
    if not problem and 'Failed status 12' not in said:
        problem = 'no completion says IBV_WC_RETRY_EXC_ERR'
    if not problem and 'no urxed(1) is running' not in said:
        problem = 'the log does not say why'
    fabric.end_all([c for c in (pair.client, pair.server) if c])
    two.a.settings = two.b.settings
    told(report, title, problem, two, said)


def fails(two, title, report, says, count, timeout, **env):
    """A client that finds no way out is told so, and the log says what to do, once."""
    if not report.wanted('spawn: ' + title):
        return
    client = two.a.start('rping -c -a %s -C 1 -d' % two.b.v4, 'fails', **env)
    try:
        problem = None if client.wait(timeout) else 'exit status 0'
    except subprocess.TimeoutExpired:
        problem = 'it hangs'
    said = two.a.said('fails')
    if not problem and 'ADDR_ERROR, error %d' % -113 not in said:
        problem = 'it is not told EHOSTUNREACH'
    if not problem and len(re.findall(says, said)) != count:
        problem = 'the log says %d times %s' % (len(re.findall(says, said)), says)
    if not problem and gates(two.a):
        problem = 'there is an urxed'
    told(report, title, problem, two, said)


def refused(report, two, timeout):
    for m in (two.a, two.b):
        end_gates(m, timeout)
    fails(two, 'URXE_NO_SPAWN=1', report, 'URXE_NO_SPAWN forbids', 1, timeout, URXE_NO_SPAWN='1')
    with subprocess.Popen([*two.a.enter, 'python3', '-c', TAKE], stdout=subprocess.PIPE) as taker:
        taker.stdout.readline()
        fails(two, 'another program has UDP port 4791', report, 'has UDP port 4791', 1, timeout)
        taker.kill()


def alone(report, two, timeout):
    """Who talks to loopback starts nothing."""
    title = 'loopback alone needs none'
    if not report.wanted('spawn: ' + title):
        return
    end_gates(two.a, timeout)
    problem, said = gateway.run([gateway.Pair(two.a, two.a, gateway.PAIRS[0], '127.0.0.1', 7590)], timeout)
    told(report, title, problem or ('there is an urxed' if gates(two.a) else None), two, said)


def idle(report, two, timeout):
    """It stays while a program is there, and ends when none is. One that would wait a second, not a minute."""
    title = 'it ends some time after the last program'
    if not report.wanted('spawn: ' + title):
        return
    end_gates(two.a, timeout)
    urxed = two.a.folder + '/urxed'
    with open(urxed, 'w') as f:
        f.write('#!/bin/sh\nexec %s "$@" --idle 1\n' % gateway.URXED)
    os.chmod(urxed, 0o755)
    server = two.a.start('env URXE_URXED=%s rping -s -p 7591' % urxed, 'idle')
    problem = None if fabric.until(lambda: gates(two.a), server, timeout) else 'a server starts none'
    if not problem and fabric.until(lambda: not gates(two.a), server, 4):
        problem = 'it has ended while a server listened'
    fabric.end_all([server])
    if not problem and not fabric.until(lambda: not gates(two.a), two.a.holder, timeout):
        problem = 'it does not end'
    told(report, title, problem, two, two.a.said('idle'))


def spawn(report, _kind, _why_not):
    if os.geteuid() or not shutil.which('ip') or not shutil.which('nsenter'):
        report.skip('spawn', 'only root can make machines, by ip and nsenter')
        return
    timeout = node.patience()
    with Two() as two:
        for test in (pairs, many, killed, for_good, refused, alone, idle):
            test(report, two, timeout)
