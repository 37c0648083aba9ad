# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Beyond the host: two machines, which are network namespaces joined by a veth pair, with a fabric each, and an urxed that
carries packets between its fabric and the interface. Run by root, who makes the machines; programs and urxed run as nobody,
urxed with CAP_NET_RAW alone, or with no right and the port `udp`.
"""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import clocked
import fabric
import node

URXED = os.path.join(node.BUILD, 'tools', 'urxed')
NET = {'a': ('10.0.0.1', 'fd00::1'), 'b': ('10.0.0.2', 'fd00::2')}
OWN_NET = {'a': ('10.177.0.1', 'fd77:177::1'), 'b': ('10.177.0.2', 'fd77:177::2')} # not this machine's

# name, server, client, IPv6 too, what the server must have said first (None: it listens), what the client must say
PAIRS = [
    ('rping', 'rping -s -a {a} -p {p} -V -C 200', 'rping -c -a {a} -p {p} -V -v -C 200', True, None, r'rdma-ping-199'),
    ('ib_write_bw', 'ib_write_bw -n 500 -p {p}', 'ib_write_bw -n 500 -p {p} {a}', False, None, r'BW average'),
    ('ib_send_bw -R', 'ib_send_bw -R -n 500 -p {p}', 'ib_send_bw -R -n 500 -p {p} {a}', False, None, r'BW average'),
    ('ib_read_bw', 'ib_read_bw -n 200 -p {p}', 'ib_read_bw -n 200 -p {p} {a}', False, None, r'BW average'),
    ('ibv_rc_pingpong', 'ibv_rc_pingpong -g 0 -c -p {p}', 'ibv_rc_pingpong -g 0 -c -p {p} {a}', False, None, r'iters in'),
    ('ibv_ud_pingpong', 'ibv_ud_pingpong -g 0 -s 1000 -p {p}', 'ibv_ud_pingpong -g 0 -s 1000 -p {p} {a}', False, None,
     r'iters in'),
    ('rstream', 'rstream -p {p} -T v -I 20 -C 50', 'rstream -s {a} -p {p} -T v -I 20 -C 50', False, None, r'custom'),
    ('udaddy', 'udaddy -c 20', 'udaddy -s {a} -c 20', False, None, r'return status 0'),
    ('mckey', 'stdbuf -oL mckey -m 239.1.2.3', 'mckey -m 239.1.2.3 -s', False, r'joined dgid', r'return status 0'),
]


def sh(*command):
    subprocess.run(command, check=True, capture_output=True)


class Machine(fabric.Fabric):
    """A fabric of a user; where it is in a folder of its own, several may be on one machine."""
    enter, pid, port_name = [], 'self', 'fabric' # how to enter it, and a process there

    def popen(self, name, command, **env):
        with open('%s/%s.out' % (self.folder, name), 'w') as out:
            child = subprocess.Popen([*self.enter, *command], stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, env=self.environ(**env), start_new_session=True)
        self.children.append(child)
        return child

    def urxed(self, name, user, *options):
        """An urxed, once it says that it is there; or None."""
        child = self.popen(name, [*user, URXED, '--log', 'info', *options])
        return child if fabric.until(lambda: 'is the way out' in self.said(name), child, 30) else None

    def tool(self, *args):
        return subprocess.run([*self.user, fabric.TOOL, *args], capture_output=True, text=True, env=self.environ()).stdout

    def counters(self):
        """What the user's urxeds have counted, for a test that failed."""
        blocks = [b for b in re.split(r'(?m)^(?=process )', self.tool('status')) if re.match(r'process \d+: urxed', b)]
        return ''.join(l + '\n' for b in blocks for l in b.splitlines() if re.match(r'process|urxe0| +(gateway|port|transport) ', l))

    def start(self, command, name, before=(), **env):
        port = ['--port', self.port_name] if self.port_name else []
        return self.popen(name, [*self.user, *before, fabric.TOOL, 'run', *port, '--', 'sh', '-c', 'exec ' + command], **env)

    def alone(self, port, command, name, **env):
        """A program that has a port of its own."""
        return self.popen(name, [*(self.user if 'iface=v' not in port[1] else []), fabric.TOOL, 'run', *port, '--', 'sh', '-c',
                                 'exec ' + command], **env)


class Namespace(Machine):
    """A machine that is a network namespace."""

    def __init__(self, which):
        super().__init__()
        self.which = which
        self.holder = subprocess.Popen(['unshare', '-n', 'sleep', 'infinity'])
        self.children.append(self.holder)
        own = os.readlink('/proc/self/ns/net')
        end = time.monotonic() + 20
        while os.readlink('/proc/%d/ns/net' % self.holder.pid) == own and time.monotonic() < end:
            time.sleep(0.01)
        self.pid = self.holder.pid
        self.enter = ['nsenter', '-t', str(self.pid), '-n']
        self.v4, self.v6 = NET[which]

    def __exit__(self, *args):
        self.holder.kill()
        self.holder.wait()
        super().__exit__(*args)

    def ip(self, *words):
        sh(*self.enter, 'ip', *words)

    def gate(self, name='urxed'):
        """On its interface, or by the kernel's UDP."""
        if self.udp:
            return self.urxed(name, self.user, '--port', 'udp')
        raw = ['setpriv', '--reuid', str(fabric.NOBODY), '--regid', str(fabric.NOBODY), '--clear-groups',
               '--inh-caps', '+net_raw', '--ambient-caps', '+net_raw']
        return self.urxed(name, raw, '--port', 'net_af_packet0,iface=v' + self.which)


class Two:
    """Two machines, each with an address of each family on its end of a veth pair."""

    how = ''

    def __init__(self, udp=False, mtu=1500):
        self.a, self.b = Namespace('a'), Namespace('b')
        self.how = 'udp: ' if udp else ''
        sh('ip', 'link', 'add', 'va', 'mtu', str(mtu), 'netns', str(self.a.holder.pid), 'type', 'veth',
           'peer', 'name', 'vb', 'mtu', str(mtu), 'netns', str(self.b.holder.pid))
        for m in (self.a, self.b):
            m.ip('addr', 'add', m.v4 + '/24', 'dev', 'v' + m.which)
            m.ip('addr', 'add', m.v6 + '/64', 'dev', 'v' + m.which, 'nodad')
            m.ip('link', 'set', 'lo', 'up')
            m.ip('link', 'set', 'v' + m.which, 'up')
            m.ip('route', 'add', 'multicast', '239.0.0.0/8', 'dev', 'v' + m.which)
            m.udp = udp

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.a.__exit__(*args)
        self.b.__exit__(*args)

    def said(self):
        return ''.join('%s: %s\n' % (m.which, m.said('urxed')) for m in (self.a, self.b))


LINKS = {'vhost': ('net_vhost0,iface=%s/u', 'net_virtio_user0,path=%s/u'),
         'memif': ('net_memif0,role=server,socket=%s/m,socket-abstract=no', 'net_memif0,role=client,socket=%s/m,socket-abstract=no')}


class Linked(Two):
    """Two fabrics on this machine, whose gateways have addresses of their own on a link between processes."""

    def __init__(self, link):
        self.a, self.b = Machine(), Machine()
        self.link = [text % self.a.folder for text in LINKS[link]]
        for m, which in ((self.a, 'a'), (self.b, 'b')):
            m.which = which
            m.v4, m.v6 = OWN_NET[which]
            m.port_name = 'fabric,dir=%s/f' % m.folder

    def options(self, m):
        return ['--port', self.link[m is self.b], '--ip', m.v4 + '/24', '--ip', m.v6 + '/64', '--mtu', '4096']

    def gate(self, m):
        return m.urxed('urxed', m.user, '--fabric', m.folder + '/f', *self.options(m))


class Pair:
    """A server on one machine, a client on the other one."""

    def __init__(self, server, client, row, address, port, alone=None, **env):
        self.on, self.to, self.row, self.tag, self.env = server, client, row, 'p%d' % port, env
        self.fill = lambda text: text.replace('{a}', address).replace('{p}', str(port))
        self.port, self.client = port, None
        self.file = '%s/%s.ready' % (server.folder, self.tag)
        self.alone = alone
        if os.path.exists(self.file):
            os.unlink(self.file)
        self.server = server.start(self.fill(row[1]), self.tag + 's', URXE_READY_FILE=self.file, **env)

    def listens(self):
        if self.row[4]:
            return re.search(self.row[4], self.on.said(self.tag + 's'))
        return os.path.exists(self.file) or node.tcp_listens(self.port, self.on.pid)

    def ready(self, timeout):
        return fabric.until(self.listens, self.server, timeout)

    def connect(self):
        command = self.fill(self.row[2])
        name = self.tag + 'c'
        self.client = (self.to.alone(self.alone, command, name, **self.env) if self.alone else
                       self.to.start(command, name, **self.env))

    def end(self, timeout):
        """What is wrong, or None."""
        problem = fabric.wait(self.client, self.server, timeout)
        if problem:
            return '%s: %s' % (self.row[0], problem)
        if not re.search(self.row[5], self.to.said(self.tag + 'c')):
            return '%s: the client does not say %s' % (self.row[0], self.row[5])
        return None

    def said(self):
        return fabric.both(self.to.said(self.tag + 'c'), self.on.said(self.tag + 's'))


def run(pairs, timeout):
    """All at once: what is wrong, or None; and what those said who tell it."""
    for p in pairs:
        if not p.ready(timeout):
            return '%s: the server does not listen' % p.row[0], p.said()
    for p in pairs:
        p.connect()
    problems = [(p.end(timeout), p.said()) for p in pairs]
    return next((p for p in problems if p[0]), (None, ''))


def run_alone(title, timeout, *pair):
    """run() of one Pair, as often as perftest's clock wants it."""
    return clocked.pair(title, lambda: run([Pair(*pair)], timeout))


def told(report, title, problem, two, said=''):
    counted = two.a.counters() if problem else ''
    fabric.told(report, title, problem, two.said()[-900:] + counted + said)


def missing(row):
    return next((c for c in (row[1], row[2]) if not shutil.which(c.replace('stdbuf -oL ', '').split()[0])), None)


def one_by_one(report, two, timeout):
    """Each program, both ways; with a sanitizer, which makes starting one slow, in turn the one way and the other."""
    port = 7500
    ways = [('a to b', two.b, two.a), ('b to a', two.a, two.b)]
    for i, row in enumerate(PAIRS):
        for way, on, to in [ways[i % 2]] if node.sanitized() else ways:
            for address in (on.v4, on.v6) if row[3] else (on.v4,):
                title = 'gateway: %s%s, %s, %s' % (two.how, row[0], way, 'IPv6' if ':' in address else 'IPv4')
                if not report.wanted(title):
                    continue
                if missing(row):
                    report.skip(title, missing(row).split()[0] + ' is not installed')
                    continue
                port += 1
                problem, said = run_alone(title, timeout, on, to, row, address, port)
                told(report, title, problem, two, said)


def at_once(report, two, timeout):
    """Four processes on each machine, and a pair that stays on one."""
    title = 'gateway: %sfour pairs at once, both ways, and one on a machine' % two.how
    if not report.wanted(title):
        return
    count = 400 if node.sanitized() else 1000
    long = ('rping', 'rping -s -a {a} -p {p} -V -C %d' % count, 'rping -c -a {a} -p {p} -V -v -C %d' % count, True, None,
            'rdma-ping-%d' % (count - 1))
    write = PAIRS[1]
    pairs = lambda: [Pair(two.b, two.a, long, two.b.v4, 7601), Pair(two.a, two.b, long, two.a.v6, 7602),
                     Pair(two.b, two.a, write, two.b.v4, 7603), Pair(two.a, two.b, write, two.a.v4, 7604),
                     Pair(two.a, two.a, long, two.a.v4, 7605)]
    problem, said = clocked.pair(title, lambda: run(pairs(), timeout))
    told(report, title, problem, two, said)


def stopped(report, two, timeout):
    """A process that is stopped while much is on its way to it: the one beside it is served as before. Datagrams, for
    whoever waits for ACKs sends no more."""
    title = 'gateway: a stopped process holds up nobody'
    if not report.wanted(title):
        return
    flood = ('ib_send_bw', 'ib_send_bw -c UD -D 60 -p {p}', 'stdbuf -oL ib_send_bw -c UD -D 60 -p {p} {a}', False, None, '')
    one, other = Pair(two.b, two.a, flood, two.b.v4, 7650), Pair(two.b, two.a, PAIRS[0], two.b.v4, 7651)
    problem, said = 'the servers do not listen', ''
    if one.ready(timeout) and other.ready(timeout):
        one.connect()
        # It has begun when its connection by TCP has brought the client what it needs, and packets go.
        begun = lambda: 'remote address' in two.a.said('p7650c')
        problem = None if fabric.until(begun, one.client, timeout) else 'the flood does not begin'
    if not problem:
        os.killpg(one.server.pid, signal.SIGSTOP)
        problem, said = run([other], timeout)
    for child in (one.client, one.server):
        if child and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    told(report, title, problem, two, said)


def own_port(report, two, timeout):
    """The other end is no urxed."""
    for way in ('client', 'server'):
        title = 'gateway: the %s has a port of its own' % way
        if not report.wanted(title):
            continue
        # Its address is another one than the machine's: both urxed and it are on the interface.
        own = ['--port', 'net_af_packet0,iface=vb', '--ip', '10.0.0.3/24', '--mac', '02:00:00:00:00:03']
        if way == 'client':
            pair = Pair(two.a, two.b, PAIRS[0], two.a.v4, 7701, own)
        else:
            two.b.start_was, two.b.start = two.b.start, lambda c, n, **e: two.b.alone(own, c, n, **e)
            pair = Pair(two.b, two.a, PAIRS[0], '10.0.0.3', 7702)
            two.b.start = two.b.start_was
        problem, said = run([pair], timeout)
        told(report, title, problem, two, said)


# Programs that connect by TCP have no such address there.
OWN = [PAIRS[0], ('ib_write_bw -R', 'ib_write_bw -R -n 500 -p {p}', 'ib_write_bw -R -n 500 -p {p} {a}', False, None, r'BW average'),
       PAIRS[2], PAIRS[6]]


def own_addresses(report, timeout):
    """The gateways' links have addresses of their own, which their fabrics' programs have as well."""
    port = 7900
    for link in LINKS:
        with Linked(link) as two:
            gates = [two.gate(m) for m in (two.a, two.b)]
            for row in OWN:
                for address in (two.b.v4, two.b.v6) if row[3] else (two.b.v4,):
                    title = 'gateway: %s, addresses of its own: %s, %s' % (link, row[0], 'IPv6' if ':' in address else 'IPv4')
                    port += 1
                    if not report.wanted(title):
                        continue
                    problem, said = 'urxed does not start', ''
                    if all(gates):
                        problem, said = run_alone(title, timeout, two.b, two.a, row, address, port)
                    told(report, title, problem, two, said)
            title = 'gateway: %s, the other end has the port alone' % link
            if all(gates) and report.wanted(title):
                os.kill(gates[1].pid, signal.SIGTERM)
                status = gates[1].wait(timeout)
                pair = Pair(two.a, two.b, PAIRS[0], two.a.v4, port + 50, two.options(two.b))
                problem, said = run([pair], timeout)
                told(report, title, 'urxed ended with %d' % status if status else problem, two, said)


def second(report, two):
    title = 'gateway: a second urxed is told who has the fabric'
    if not report.wanted(title):
        return
    pid = re.search(r'process (\d+) is the gateway', (two.a.gate(name='second') or '') and '' or two.a.said('second'))
    told(report, title, None if pid else 'it does not say', two, two.a.said('second'))


def shown(report, two):
    title = 'gateway: urxe status and urxe stat show it'
    if not report.wanted(title):
        return
    out = two.a.tool('status')
    found = re.search(r'process (\d+): urxed', out)
    good = found and re.search(r'gateway +out_packets \d+', out)
    if good:
        out = two.a.tool('status', '--prometheus') + two.a.tool('stat', '-i', '0.1', '-c', '1', found.group(1))
        good = (re.search(r'(?m)^node_infiniband_state_id\{.*pid="%s"\} 4$' % found.group(1), out) and
                re.search(r'(?m)^%s +urxed ' % found.group(1), out))
    told(report, title, None if good else 'it does not', two, out)


def restarted(report, two, timeout):
    """urxed is killed under traffic, and started again: the connection goes on."""
    title = 'gateway: %skilled and restarted under traffic, three times' % two.how
    if not report.wanted(title):
        return two.a.last
    row = ('rping', 'rping -s -a {a} -p {p} -V', 'stdbuf -oL rping -c -a {a} -p {p} -V -v', True, None, '')
    # A busy machine may take longer for an urxed than its peers wait by themselves.
    pair = Pair(two.b, two.a, row, two.b.v4, 7801, URXE_PATIENCE='off')
    problem = None if pair.ready(timeout) else 'the server does not listen'
    pings = lambda: two.a.said('p7801c').count('ping data')
    if not problem:
        pair.connect()
    for i in range(3):
        was = pings()
        if problem or not fabric.until(lambda: pings() > was + 100, pair.client, timeout):
            problem = problem or 'round %d: there are no pings' % i
            break
        os.kill(two.a.last.pid, signal.SIGKILL)
        two.a.last.wait()
        two.a.last = two.a.gate(name='urxed')
        if not two.a.last:
            problem = 'round %d: urxed does not come back' % i
    was = pings()
    if not problem and not fabric.until(lambda: pings() > was + 100, pair.client, timeout):
        problem = 'the pings end'
    for child in (pair.client, pair.server):
        if child and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    told(report, title, problem, two, pair.said())
    return None


def killed(report, two, timeout):
    """The server sends nothing, nor does it look after its client: only a DREQ tells it, which the dead cannot send."""
    title = 'gateway: %sa client is killed: its server is told' % two.how
    if not report.wanted(title):
        return
    line = 'ib_write_bw -R -F -D 600 -p {p}'
    pair = Pair(two.b, two.a, ('ib_write_bw', line, 'stdbuf -oL %s {a}' % line, True, None, ''), two.b.v4, 7802, URXE_PATIENCE='off')
    problem = None if pair.ready(timeout) else 'the server does not listen'
    if not problem:
        pair.connect()
        if not fabric.until(lambda: '#bytes' in two.a.said('p7802c'), pair.client, timeout):
            problem = 'there is no traffic'
    if pair.client and pair.client.poll() is None:
        os.killpg(pair.client.pid, signal.SIGKILL)
    try:
        pair.server.wait(timeout)
    except subprocess.TimeoutExpired:
        problem = problem or 'the server waits on'
        os.killpg(pair.server.pid, signal.SIGKILL)
    told(report, title, problem, two, pair.said())


CROWD = os.path.join(node.BUILD, 'tests', 'e2e', 'crowd')
ROUNDS = 2 if node.sanitized() else 6


def crowd_on(two, options):
    """Four processes on each machine, each connected with each on the other one (crowd/)."""
    where = []
    for m in (two.a, two.b):
        user = ' '.join(['env', 'XDG_RUNTIME_DIR=' + m.folder, *m.enter, *m.user, fabric.TOOL, 'run', '--port', 'fabric', '--'])
        where += ['-a', m.v4, '-x', user]
    crowd = subprocess.Popen([CROWD, '-n', '8', '-e', *where, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env=two.a.environ(), start_new_session=True)
    two.a.children.append(crowd)
    return crowd


def crowd_ends(crowd, timeout):
    """What is wrong, or None; and the rest of what it said."""
    try:
        said = crowd.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        os.killpg(crowd.pid, signal.SIGKILL)
        return 'it hangs', ''
    return 'exit status %d' % crowd.returncode if crowd.returncode else None, said


def all_pairs(report, two, timeout):
    """An urxed is killed under the traffic of 16 pairs, and started again: every message is compared, and no connection
    ends. In each round all pairs must go on."""
    title = 'gateway: %s4 x 4 processes, all pairs, urxed killed and restarted %d times' % (two.how, ROUNDS)
    if not report.wanted(title):
        return
    crowd = crowd_on(two, ['-r', str(ROUNDS), '-w', str(timeout)])
    problem, said, rounds = None, [], 0
    for line in crowd.stdout:
        said.append(line)
        if not line.startswith('round '):
            continue
        m = (two.a, two.a, two.b, two.b)[rounds % 4]
        rounds += 1
        os.kill(m.last.pid, signal.SIGKILL)
        m.last.wait()
        m.last = m.gate()
        if not m.last:
            problem = 'urxed does not come back'
            break
        crowd.stdin.write('\n')
        crowd.stdin.flush()
    ended, rest = crowd_ends(crowd, timeout) if not problem else (None, '')
    told(report, title, problem or ended, two, ''.join(said) + rest)


def one_of_them_stopped(report, two, timeout):
    """What comes for it is lost meanwhile; the others' messages go on, through the same urxed."""
    title = 'gateway: %s4 x 4 processes, all pairs, one stopped for 3 s' % two.how
    if report.wanted(title):
        crowd = crowd_on(two, ['-t', '3', '-w', str(timeout)])
        problem, said = crowd_ends(crowd, 4 * timeout)
        told(report, title, problem, two, said)


OTHER = fabric.NOBODY - 1 # a user, and a group


def as_user(uid):
    return ['setpriv', '--reuid', str(uid), '--regid', str(OTHER), '--clear-groups']


def taken(report, two):
    """Whoever wants the port that an urxed has is told who has it, and what to do."""
    for title, user, says in (('its own user', two.a.user, r'urxed \(process %d\) has UDP port 4791.*`urxe run -- COMMAND`'),
                              ('another user', as_user(OTHER), r'a process of user \w+ has UDP port 4791; by urxed\(1\) users of a group')):
        title = 'gateway: udp: taken by urxed, %s is told' % title
        if not report.wanted(title):
            continue
        out = subprocess.run([*two.a.enter, *user, fabric.TOOL, 'run', '--port', 'udp', '--view', 'never', '--', 'ibv_ud_pingpong'],
                             capture_output=True, text=True, env=two.a.environ(), timeout=60)
        said = out.stdout + out.stderr
        good = out.returncode and re.search(says.replace('%d', str(two.a.last.pid)), said)
        told(report, title, None if good else 'it is not', two, said)


def of_a_group(report, two, timeout):
    """A user's urxed leads another user's program outside: the fabric is in a folder of a group that both are in."""
    title = 'gateway: udp: an urxed of another user, by a group'
    if not report.wanted(title):
        return
    os.kill(two.a.last.pid, signal.SIGTERM)
    two.a.last.wait()
    with tempfile.TemporaryDirectory(prefix='urxe-group-') as top:
        os.chmod(top, 0o755)
        meet = top + '/meet'
        os.mkdir(meet)
        os.chown(meet, fabric.NOBODY, OTHER)
        os.chmod(meet, 0o2770)
        two.a.last = two.a.urxed('shared', as_user(fabric.NOBODY), '--port', 'udp', '--fabric', meet)
        problem, said = 'urxed does not start', two.a.said('shared')
        if two.a.last:
            mine = two.a.user
            # Not the first of its groups, so that the view does not map it.
            two.a.user = ['setpriv', '--reuid', str(OTHER), '--regid', str(OTHER - 1), '--groups', str(OTHER)]
            pair = Pair(two.b, two.a, PAIRS[0], two.b.v4, 7851, ['--port', 'fabric,dir=' + meet])
            problem, said = run([pair], timeout)
            two.a.user = mine
    told(report, title, problem, two, said)


def without(report, two, timeout):
    """Nobody leads outside: the program is told at once, and its log says what to do."""
    title = 'gateway: without one a connection fails, and the log says what to do'
    if not report.wanted(title):
        return
    client = two.a.start('rping -c -a %s -C 1' % two.b.v4, 'without')
    try:
        client.wait(timeout)
        problem = None if client.returncode else 'exit status 0'
    except subprocess.TimeoutExpired:
        problem = 'it hangs'
    if not problem and 'urxed' not in two.a.said('without'):
        problem = 'the log does not name urxed'
    told(report, title, problem, two, two.a.said('without'))


def nowhere(report, two, timeout):
    """The other machine has no urxe, which its kernel says by ICMP; or there is none: the CM is told, and does not wait."""
    for what, address in (('a host without urxe', two.b.v4), ('nobody', '10.0.0.99')):
        title = 'gateway: a connection to %s fails' % what
        if not report.wanted(title):
            continue
        client = two.a.start('rping -c -a %s -C 1 -d' % address, 'nowhere')
        try:
            client.wait(timeout)
            problem = None if client.returncode else 'exit status 0'
        except subprocess.TimeoutExpired:
            problem = 'it hangs'
        out = two.a.tool('status')
        if not problem and not ('CM_EVENT_UNREACHABLE' in two.a.said('nowhere') and re.search(r'\berrors [1-9]', out)):
            problem = 'it is not told that nobody is there'
        told(report, title, problem, two, two.a.said('nowhere') + out)


def gateway(report, _kind, _why_not):
    if os.geteuid() or not shutil.which('ip') or not shutil.which('nsenter'):
        report.skip('gateway', 'only root can make machines, by ip and nsenter')
        return
    timeout = node.patience()
    with Two() as two:
        without(report, two, timeout)
        for m in (two.a, two.b):
            m.last = m.gate()
            if not m.last:
                told(report, 'gateway: urxed starts on ' + m.which, 'it does not', two)
                return
            if m is two.a:
                nowhere(report, two, timeout)
        one_by_one(report, two, timeout)
        at_once(report, two, timeout)
        stopped(report, two, timeout)
        own_port(report, two, timeout)
        second(report, two)
        shown(report, two)
        killed(report, two, timeout)
        restarted(report, two, timeout)
        all_pairs(report, two, timeout)
        one_of_them_stopped(report, two, timeout)
    with Two(udp=True) as two:
        for m in (two.a, two.b):
            m.last = m.gate()
        if two.a.last and two.b.last:
            at_once(report, two, timeout)
            killed(report, two, timeout)
            restarted(report, two, timeout)
            # What the other link and e2e-spawn have not shown already is a matter of time, of which a sanitizer takes much.
            if not node.sanitized():
                one_by_one(report, two, timeout)
                all_pairs(report, two, timeout)
                one_of_them_stopped(report, two, timeout)
            taken(report, two)
            of_a_group(report, two, timeout)
        else:
            told(report, 'gateway: udp: urxed starts', 'it does not', two)
    own_addresses(report, timeout)
