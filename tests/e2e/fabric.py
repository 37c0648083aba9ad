# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Processes of an unprivileged user on the host's own addresses: `urxe run --port fabric`, nothing else configured.

Run by root, the programs run as nobody.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import clocked
import node

NOBODY = 65534
# $URXE_TOOL: another one, that is installed.
TOOL = os.environ.get('URXE_TOOL') or os.path.join(node.BUILD, 'tools', 'urxe')

# name, server, client, {a} from ADDRESSES, what the server must have said before the client starts (None: it listens: for
# RDMA connections, or at the TCP port {p}), what the client must say
PAIRS = [
    ('rping', 'rping -s -a {a} -p {p} -V -C 100', 'rping -c -a {a} -p {p} -V -v -C 100', 'any', None, r'ping data: rdma-ping-'),
    ('rping, wildcard', 'rping -s -p {p} -V -C 100', 'rping -c -a {a} -p {p} -V -v -C 100', '4', None, r'ping data: rdma-ping-'),
    ('ibv_rc_pingpong -g', 'ibv_rc_pingpong -g 0 -c -p {p}', 'ibv_rc_pingpong -g 0 -c -p {p} {a}', '4', None, r'iters in'),
    ('ibv_xsrq_pingpong', 'ibv_xsrq_pingpong -g 0 -p {p}', 'ibv_xsrq_pingpong -g 0 -p {p} {a}', '4', None, r'success'),
    ('ib_write_bw', 'ib_write_bw -n 200 -p {p}', 'ib_write_bw -n 200 -p {p} {a}', '4', None, r'BW average'),
    ('ib_send_bw -R', 'ib_send_bw -R -n 200 -p {p}', 'ib_send_bw -R -n 200 -p {p} {a}', '4', None, r'BW average'),
    ('ucmatose', 'ucmatose -c 20 -C 100', 'ucmatose -s {a} -c 20 -C 100', '4', None, r'return status 0'),
    ('udaddy', 'udaddy -c 20', 'udaddy -s {a} -c 20', '4', None, r'return status 0'),
    ('cmtime', 'timeout -k 1 -s TERM 300 cmtime', 'cmtime -s {a} -c 200', '4', None, r'disconnect'),
    ('rstream', 'rstream -p {p} -T v -I 20 -C 50', 'rstream -s {a} -p {p} -T v -I 20 -C 50', '4', None, r'custom'),
    ('mckey', 'stdbuf -oL mckey -m 239.1.2.3', 'mckey -m 239.1.2.3 -s', 'once', r'joined dgid', r'return status 0'),
]
SERVER_STAYS = ('cmtime',)


def end_all(children):
    """Kills process groups, of those that still run."""
    for child in children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def both(client, server, lines=14):
    """The end of what each of the two said: of rping's pings the last one alone, as errors are before the rest of those."""
    ends = []
    for who, said in (('client', client), ('server', server)):
        said = said.splitlines()
        ends += ['%s: %s\n' % (who, l) for l in [l for l in said[:-1] if 'ping data' not in l][1 - lines:] + said[-1:]]
    return ''.join(ends)


def wait(client, server, timeout, server_stays=False):
    """What is wrong with how both ended, or None. The server of a client that failed has a moment to tell why: it may wait
    for that client for ever, as perftest's do with rdma_cm."""
    try:
        failed = client.wait(timeout)
        if server_stays and server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(5 if failed else timeout)
    except subprocess.TimeoutExpired:
        pass
    ends = ['hangs' if x.poll() is None else x.returncode for x in (client, server)]
    end_all((client, server))
    if ends[0] or (ends[1] and not server_stays):
        return 'exit status %s, the server %s' % tuple(ends)
    return None


watched = [] # folders where sanitizers put their reports


class Fabric:
    """A fabric of its own: in a folder that goes afterwards."""
    settings = {'URXE_NO_SPAWN': '1'}

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='urxe-fabric-')
        watched.append(self.folder)
        self.user = []
        if not os.geteuid():
            os.chown(self.folder, NOBODY, NOBODY)
            self.user = ['setpriv', '--reuid', str(NOBODY), '--regid', str(NOBODY), '--clear-groups']
        self.children = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_all(self.children)
        watched.remove(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def environ(self, **more):
        keep = {k: v for k, v in os.environ.items() if not k.startswith('URXE_')}
        return {**keep, **node.sanitizer_env(self.folder), 'XDG_RUNTIME_DIR': self.folder, **self.settings, **more}

    def start(self, command, name, before=(), **env):
        """@before: what stands before the tool, such as unshare."""
        with open('%s/%s.out' % (self.folder, name), 'w') as out:
            child = subprocess.Popen([*self.user, *before, TOOL, 'run', '--port', 'fabric', '--', 'sh', '-c', 'exec ' + command],
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                     env=self.environ(**env), start_new_session=True)
        self.children.append(child)
        return child

    def said(self, name):
        return node.read('%s/%s.out' % (self.folder, name))

    def left(self):
        """Files that nobody needs any more: sockets and tables of the fabric."""
        return [f for at, _, files in os.walk(self.folder + '/urxe') for f in files if f != 'members']


def show(lines):
    """Below a test's line"""
    print(''.join('     %s\n' % l for l in lines), end='', flush=True)


def listens(port):
    """Does anybody listen at this TCP port?"""
    want = ':%04X ' % port
    lines = node.read('/proc/net/tcp').splitlines() + node.read('/proc/net/tcp6').splitlines()
    return any(want in l.split(None, 1)[1][:50] and l.split()[3] == '0A' for l in lines[1:] if l.strip().split(':')[0].isdigit())


def until(condition, server, timeout):
    """Waits for it; False: the server ended, or the time is over."""
    end = time.monotonic() + timeout
    while not condition():
        if server.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def addresses():
    """An own IPv4 address and one of IPv6, as far as there are, and the loopback ones."""
    out = subprocess.run(['ip', '-o', 'addr', 'show', 'scope', 'global', 'up'], capture_output=True, text=True).stdout
    v4 = re.findall(r' inet ([\d.]+)/', out)[:1]
    v6 = re.findall(r' inet6 ([\da-f:]+)/', out)[:1]
    return {'4': v4 + ['127.0.0.1'], 'any': v4 + v6 + ['127.0.0.1', '::1'], 'once': ['239.1.2.3']}


def pair(fabric, row, address, timeout):
    """What is wrong with it, in words, or None; and what both said."""
    name, server_cmd, client_cmd, _, ready, says = row
    port = node.tcp_port()
    tag = str(port)
    fill = lambda text: text.replace('{a}', address).replace('{p}', tag)
    file = '%s/%s.ready' % (fabric.folder, tag)
    server = fabric.start(fill(server_cmd), tag + 's', URXE_READY_FILE=file)
    up = lambda: re.search(ready, fabric.said(tag + 's')) if ready else os.path.exists(file) or listens(port)
    if not until(up, server, timeout):
        return 'the server does not listen', fabric.said(tag + 's')
    client = fabric.start(fill(client_cmd), tag + 'c')
    problem = wait(client, server, timeout, name in SERVER_STAYS)
    said = fabric.said(tag + 'c')
    if not problem and not re.search(says, said):
        problem = 'the client does not say %s' % says
    return problem, both(said, fabric.said(tag + 's'))


def take_reports():
    """The sanitizers' reports since it was last called"""
    paths = ['%s/%s' % (folder, f) for folder in watched for f in os.listdir(folder) if f.startswith('san')]
    reports = [node.read(p) for p in paths]
    for p in paths:
        os.unlink(p)
    return reports


def told(report, title, problem, said=''):
    """Whatever else is wrong, or nothing: a sanitizer's report is shown, of any program whose folder is watched."""
    reports = take_reports()
    if reports:
        problem = '%sa sanitizer reports' % (problem + '; ' if problem else '')
    lines = said.splitlines()[-28:] + [l for r in reports for l in r.splitlines()[:60]]
    report.result(title, '%s\n%s' % (problem, '\n'.join('     ' + l for l in lines)) if problem else None)


def pairs(report, timeout):
    where = addresses()
    with Fabric() as fabric:
        for row in PAIRS:
            for address in where[row[3]]:
                title = 'fabric: %s %s' % (row[0], address)
                if not report.wanted(title):
                    continue
                if not shutil.which(row[2].split()[0]):
                    report.skip(title, row[2].split()[0] + ' is not installed')
                    continue
                problem, said = clocked.pair(title, lambda: pair(fabric, row, address, timeout))
                told(report, title, problem, said)


def xsrq(report, timeout):
    """A server with three clients reaches the SRQ of each by the target QP of each other one; three such at once."""
    title = 'fabric: ibv_xsrq_pingpong -c 3'
    if not report.wanted(title):
        return
    if not shutil.which('ibv_xsrq_pingpong'):
        report.skip(title, 'ibv_xsrq_pingpong is not installed')
        return
    commands = {port: 'ibv_xsrq_pingpong -g 0 -p %d %s' % (port, extra)
                for port, extra in ((7390, ''), (7391, '-e'), (7392, '-s 20000 -n 50'))}
    # The program's own, of any user: who cannot read it has a domain alone.
    if os.path.exists('/tmp/xrc_domain') and os.access('/tmp/xrc_domain', os.W_OK):
        os.unlink('/tmp/xrc_domain')
    with Fabric() as fabric:
        started = {'s%d' % port: fabric.start(command + ' -c 3', 's%d' % port) for port, command in commands.items()}
        problem = None
        for port, command in commands.items():
            if not until(lambda: listens(port), started['s%d' % port], timeout):
                problem = '%s: does not listen' % command
            started.update({n: fabric.start(command + ' 127.0.0.1', n) for n in ('c%d-%d' % (port, i) for i in range(3))})
        end = time.monotonic() + timeout
        for name, child in started.items():
            try:
                status = child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = 'it hangs'
            if status and not problem:
                problem = '%s: %s' % (name, status)
        told(report, title, problem, ''.join('%s: %s' % (n, fabric.said(n)) for n in started) if problem else '')


def many(report, timeout):
    """Fifty clients at once.

    rping's server keeps one request in mind: of two that come together it takes one twice and forgets the other, whose
    client then waits for ever; and it may end by that, since one of its threads destroys the id that another one uses.
    So a client without an answer is killed, and asks again, and a server that has ended is started again; of a sanitizer's
    reports those of the clients count.
    """
    title = 'fabric: 50 clients at once'
    if not report.wanted(title):
        return
    with Fabric() as fabric:
        file = fabric.folder + '/ready'
        again = ['sh', '-c', 'while :; do "$@"; done', 'sh']
        apart = fabric.folder + '/reports'
        os.mkdir(apart)
        os.chmod(apart, 0o777)
        server = fabric.start('rping -s -P -a 127.0.0.1 -p 7399', 's', again, URXE_READY_FILE=file, **node.sanitizer_env(apart))
        if not until(lambda: os.path.exists(file), server, timeout):
            told(report, title, 'the server does not listen', fabric.said('s'))
            return
        until_served = ['sh', '-c', 'i=0; until timeout -s KILL %d "$@"; do i=$((i+1)); [ $i -lt 60 ] || exit 1; done'
                        % (timeout // 10), 'sh']
        clients = [fabric.start('rping -c -a 127.0.0.1 -p 7399 -V -C 5', 'c%d' % i, until_served) for i in range(50)]
        end = time.monotonic() + 3 * timeout
        bad = []
        for i, client in enumerate(clients):
            try:
                if client.wait(max(0.1, end - time.monotonic())):
                    bad.append('client %d: %s' % (i, fabric.said('c%d' % i)))
            except subprocess.TimeoutExpired:
                bad.append('client %d hangs' % i)
        told(report, title, '%d of 50 failed' % len(bad) if bad else None, '\n'.join(bad))


def last_ack(report, timeout):
    """The receiver of a message ends at once: its sender gets the ACK."""
    title = 'fabric: who receives a message and ends has acknowledged it'
    if not report.wanted(title):
        return
    with Fabric() as fabric:
        child = fabric.start('%s %d' % (node.built('tests/e2e/last_ack'), 8 if node.sanitized() else 20), 's')
        try:
            child.wait(timeout)
            problem = 'exit status %d' % child.returncode if child.returncode else None
        except subprocess.TimeoutExpired:
            problem = 'it hangs'
        told(report, title, problem, fabric.said('s'))


def last_datagrams(report, timeout):
    """Who sends to a group and ends: a member that is stopped meanwhile, and has not heard of it before, gets all."""
    title = 'fabric: who sends to a group and ends has sent'
    if not report.wanted(title):
        return
    with Fabric() as fabric:
        server = fabric.start('stdbuf -oL mckey -m 239.1.2.4', 's')
        problem = None if until(lambda: 'joined dgid' in fabric.said('s'), server, timeout) else 'the server does not join'
        client = fabric.start('stdbuf -oL mckey -m 239.1.2.4 -s', 'c')
        # Then it waits for 3 s.
        if not problem and until(lambda: 'joined dgid' in fabric.said('c'), client, timeout):
            os.killpg(server.pid, signal.SIGSTOP)
            until(lambda: 'return status 0' in fabric.said('c'), client, timeout)
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(0.3)  # it should not end before its datagrams are out
            os.killpg(server.pid, signal.SIGCONT)
        problem = problem or wait(client, server, timeout)
        told(report, title, problem, both(fabric.said('c'), fabric.said('s')))


def killed(report, timeout):
    """The server is killed: its client learns of it at once, its port is free, and nothing is left."""
    title = 'fabric: kill -9'
    if not report.wanted(title):
        return
    problem = None
    with Fabric() as fabric:
        for i in range(3):
            file = '%s/ready%d' % (fabric.folder, i)
            server = fabric.start('rping -s -a 127.0.0.1 -p 7398', 's', URXE_READY_FILE=file)
            if not until(lambda: os.path.exists(file), server, timeout):
                problem = 'round %d: the server does not listen' % i
                break
            client = fabric.start('stdbuf -oL rping -c -v -a 127.0.0.1 -p 7398', 'c')
            if not until(lambda: 'ping data' in fabric.said('c'), client, timeout):
                problem = 'round %d: there is no ping' % i
                break
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            try:
                client.wait(timeout)
            except subprocess.TimeoutExpired:
                problem = 'round %d: the client hangs' % i
                break
        if not problem and fabric.left():
            problem = 'left: %s' % ' '.join(fabric.left())
        told(report, title, problem, fabric.said('s') + fabric.said('c')[-500:])


def loopback_alone(report, timeout):
    """A host that has nothing but its loopback interface."""
    title = 'fabric: a host with loopback alone'
    if not report.wanted(title):
        return
    alone = ['unshare', '-r', '-n']
    with Fabric() as fabric:
        if subprocess.run([*fabric.user, *alone, 'true'], capture_output=True).returncode:
            report.skip(title, 'no network namespace of its own')
            return
        both = ('%s run --port fabric -- rping -s -a 127.0.0.1 -V -C 10 & %s run --port fabric -- ibv_devinfo -v; '
                'until [ -e %s/ready ]; do sleep 0.02; done; '
                'unset URXE_READY_FILE; %s run --port fabric -- rping -c -a 127.0.0.1 -V -C 10 && wait $!'
                % (TOOL, TOOL, fabric.folder, TOOL))
        with open(fabric.folder + '/out', 'w') as out:
            child = subprocess.Popen([*fabric.user, *alone, 'sh', '-c', 'ip link set lo up; ' + both],
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                                     env=fabric.environ(URXE_READY_FILE=fabric.folder + '/ready'))
        fabric.children.append(child)
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        said = node.read(fabric.folder + '/out')
        problem = None
        if child.returncode != 0:
            problem = 'exit status %s' % child.returncode
        elif not re.search(r'GID\[ *0\]:\s+::ffff:127\.0\.0\.1', said):
            problem = 'its address is no GID'
        told(report, title, problem, said)


def parts(report, kind, seconds, sanitized, *tests):
    """A special that is a list of tests: each has @seconds to wait for something, with a sanitizer @sanitized."""
    for test in tests:
        test(report, sanitized if kind.endswith('sanitized') else seconds)


def fabric(report, kind, _why_not):
    parts(report, kind, 40, 120, pairs, xsrq, many, last_ack, last_datagrams, killed, loopback_alone)
