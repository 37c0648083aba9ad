# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One measurement each, as a number: for ci/bench and ci/demo. ValueError says what went wrong."""
import os
import re
import shutil
import subprocess
import tempfile
import time
import typing

import node


def around(command):
    """What becomes of the command of an end: ci/bench --profile has another one here."""
    return command


def around_argv(argv):
    """The same of a program that is run alone."""
    return argv


def pair(server, client, mtu, options=(), link='vhost'):
    result = node.two_node(around(server), around(client), link, mtu, timeout=60, options=options)
    if result.status:
        raise ValueError('%s: exit status %d\n%s' % (client, result.status, result.tail(4)))
    return result


def last_row(result, prog):
    rows = [l.split() for l in result.b.splitlines() if re.match(r'^ *\d+ +\d+ +[\d.]+', l)]
    if not rows:
        raise ValueError('%s: no figures in its output\n%s' % (prog, result.tail(4)))
    return rows[-1]


def perftest(prog, args, mtu, column, link='vhost', options=(), under=('', '')):
    """A column (from 0) of the last row of perftest's table at the client. under: what runs the server, the client"""
    server, client = ('%s%s -d urxe0 -p {p} -F %s' % (u, prog, args) for u in under)
    return float(last_row(pair(server, client + ' 127.0.0.1', mtu, options, link), prog)[column])


def sizes(prog, column, mtu, iters, link, most):
    """{bytes: a column of the client's table} of powers of two up to @most"""
    common = '%s -d urxe0 -p {p} -F -a -n %d --report_gbits' % (prog, iters)
    result = pair(common, common + ' 127.0.0.1', mtu, (), link)
    rows = [l.split() for l in result.b.splitlines() if re.match(r'^ *\d+ +\d+ +[\d.]+', l)]
    if not rows:
        raise ValueError('%s: no figures in its output\n%s' % (prog, result.tail(4)))
    return {int(r[0]): float(r[column]) for r in rows if int(r[0]) <= most}


def latency(prog, size, mtu, iters=20000, link='vhost'):
    """Median of half a round trip, us."""
    return perftest(prog, '-s %d -n %d' % (size, iters), mtu, 4, link)


def bandwidth(prog, size, mtu, iters, link='vhost'):
    """Gb/s of payload."""
    return perftest(prog, '--report_gbits -s %d -n %d' % (size, iters), mtu, 3, link)


def apart(prog, args, mtu, link, column):
    """perftest(), each end with all its threads on a processor of its own"""
    may = sorted(os.sched_getaffinity(0))
    return perftest(prog, args, mtu, column, link, under=['taskset -c %d ' % cpu for cpu in (may[0], may[-1])])


def pinned(prog, mtu, link):
    """Of 64 KiB messages, Gb/s: (each end with all its threads on a processor of its own, that of the same free to move)."""
    gbits = apart(prog, '--report_gbits -s 65536 -n 20000', mtu, link, 3)
    return gbits, gbits / bandwidth(prog, 65536, mtu, 20000, link)


def pinned_lat(prog, size, mtu, link):
    """Median of half a round trip, us, or of a whole one where the server's program takes no part; likewise."""
    return apart(prog, '-s %d -n 20000' % size, mtu, link, 4)


# What the client's end does to frames, in either direction.
FAULTS = ('--drop 0.001', '--drop 0.01', '--drop 0.05', '--reorder 0.01')


def faulty(what, mtu, faults=FAULTS, link='vhost', every=50, seconds=4):
    """Goodput of 64 KiB writes, reads or sends with each of the faults, of that without: the faults happen in every
    second @every ms, so that what the machine does meanwhile meets both alike"""
    prog = node.built('tests', 'bench', 'loss')
    ratios = []
    for fault in faults:
        result = pair('exec %s -s 10.0.0.1' % prog, '%s -c 10.0.0.1 %s %d %d' % (prog, what, every, seconds), mtu,
                      ('--end-server', '--opt-b', '%s --fault-every %d' % (fault, every)), link)
        numbers = [float(n) for n in re.findall(r'(?m)^[\d.]+$', result.b)]
        if len(numbers) != 2 or not numbers[0]:
            raise ValueError('loss: not two numbers\n%s' % result.tail(4))
        ratios.append(numbers[1] / numbers[0])
    return ratios


def tail(prog, size, mtu, fault, iters=100000):
    """Half a round trip that 999 of 1,000 do not exceed, us, with a fault."""
    return perftest(prog, '-s %d -n %d' % (size, iters), mtu, 8, options=('--opt-b', fault))


def rate(prog, size, mtu, iters, link='vhost', listed=1):
    """Million messages a second, @listed of them in a call of ibv_post_send()"""
    return perftest(prog, '-s %d -n %d -l %d' % (size, iters, listed), mtu, 4, link)


def pings(mtu, link='vhost', count=2000):
    """rping's pings a second, of programs that sleep till an event comes: the difference of a long and a short
    run, so that their starts do not count"""
    client = 'sh -c "' + ''.join('date +%%s.%%N && rping -c -a 10.0.0.1 -C %d && ' % n for n in (100, 100 + count))
    result = pair('exec rping -s -P -a 10.0.0.1', client + 'date +%s.%N"', mtu, ('--end-server',), link)
    at = [float(t) for t in re.findall(r'(?m)^\d+\.\d+$', result.b)]
    if len(at) != 3 or at[2] - at[1] <= at[1] - at[0]:
        raise ValueError('rping: no figures\n' + result.tail(4))
    return count / ((at[2] - at[1]) - (at[1] - at[0]))


def bench_program(name):
    return os.path.join(node.BUILD, 'tests', 'bench', name)


def bare(wanted, mtu, link='vhost'):
    """The bare link: wanted is a list of "lat|rate|bw SIZE COUNT"; a number for each."""
    prog = node.built('tests', 'bench', 'bare')
    client = ' && '.join('%s -c 10.0.0.1 %s' % (prog, w) for w in [*wanted, 'end'])
    result = pair(': >"$URXE_READY_FILE"; exec %s -s' % prog, client, mtu, link=link)
    numbers = re.findall(r'(?m)^[\d.]+$', result.b)
    if len(numbers) != len(wanted):
        raise ValueError('bare: not %d numbers\n%s' % (len(wanted), result.tail(4)))
    return [float(n) for n in numbers]


CONN = r'([\d.]+) a second, connect p50 ([\d.]+) us, p99 ([\d.]+) us'


def conn(options, pattern, mtu, link='vhost'):
    """What tests/bench/conn.c prints, as numbers"""
    prog = node.built('tests', 'bench', 'conn')
    result = pair('%s -s 10.0.0.1 %s' % (prog, '-q' if '-q' in options else ''),
                  '%s -c 10.0.0.1 %s' % (prog, options), mtu, link=link)
    found = re.search(pattern, result.b, re.S)
    if not found:
        raise ValueError('conn: no figures\n' + result.tail(4))
    return tuple(float(x) for x in found.groups())


def connections(mtu, count=10000, at_once=1000):
    """One after the other: (a second, p50 and p99 of rdma_connect() to ESTABLISHED in us); the same with
    completion queues of their own for each; at once: (a second, p50, p99, KiB a connection takes on either side)"""
    return (conn('-n %d' % count, CONN, mtu) + conn('-q -n %d' % count, r'([\d.]+) a second', mtu) +
            conn('-p %d -n %d' % (at_once, 5 * at_once), CONN + r'.*client ([\d.]+) KiB, server ([\d.]+) KiB', mtu))


def blocking(mtu, link='vhost', rounds=20000, every=None):
    """Who sleeps for completion events: (half a round trip in us, % of a processor)"""
    prog = node.built('tests', 'bench', 'block')
    result = pair('exec %s -s 10.0.0.1' % prog, '%s -c 10.0.0.1 %d %s' % (prog, rounds, every or ''), mtu,
                  ('--end-server',), link)
    found = re.search(r'(?m)^([\d.]+) ([\d.]+)$', result.b)
    if not found:
        raise ValueError('block: no figures\n' + result.tail(4))
    return tuple(float(x) for x in found.groups())


def threads(mtu, link='vhost', numbers=(1, 2, 4, 8)):
    """64 B sends of so many threads of a process, of what one sends, measured right before"""
    prog = node.built('tests', 'bench', 'threads')

    def run(n):
        result = pair('exec %s -s 10.0.0.1' % prog, '%s -c 10.0.0.1 %d' % (prog, n), mtu, ('--end-server',), link)
        found = re.search(r'(?m)^([\d.]+)$', result.b)
        if not found:
            raise ValueError('threads: no figure\n' + result.tail(4))
        return float(found.group(1))

    return [run(1)] + [run(n) / run(1) for n in numbers[1:]]


def many(mtu, link='vhost', numbers=(1, 10000, 60000), batch=16, seconds=1):
    """64 B writes of so many QPs in turn, @batch at a time: of one in M/s, of more of what one does, right before"""
    prog = node.built('tests', 'e2e', 'many')

    def run(n):
        common = '%s -p {p} -r 1 -n %d -t %g -b %d' % (prog, n, seconds, batch)
        result = pair(common, common + ' 127.0.0.1', mtu, link=link)
        found = re.search(r'(?m)^([\d.]+) M/s$', result.b)
        if not found:
            raise ValueError('many: no figure\n' + result.tail(4))
        return float(found.group(1))

    one = run(1)
    return [one] + [run(n) / one for n in numbers[1:]]


def watched(link, mtu, size, iters):
    """To who watches memory, and of that to who polls its CQ: (us, ratio)"""
    polled = latency('ib_send_lat', size, mtu, iters, link)
    written = latency('ib_write_lat', size, mtu, iters, link)
    return written, written / polled


def qp_memory(mtu, qps=10000):
    """Resident KiB of a connected, idle RC QP with room for 128 + 128 work requests"""
    prog = node.built('tests', 'e2e', 'many')
    result = pair('%s -p {p} -r 1 -n %d' % (prog, qps), '%s -p {p} -r 1 -n %d 127.0.0.1' % (prog, qps), mtu)
    found = re.search(r'(\d+) bytes each', result.b)
    if not found:
        raise ValueError('many: no figures\n' + result.tail(4))
    return float(found.group(1)) / 1024


def numbers(argv, timeout=60):
    """What a program prints, which is numbers"""
    done = subprocess.run(around_argv(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          check=False)
    if done.returncode:
        raise ValueError('%s: %s' % (' '.join(argv), done.stderr.strip()))
    return [float(x) for x in done.stdout.split()]


def number(argv, timeout=60):
    """What a program prints, which is one number"""
    one, = numbers(argv, timeout)
    return one


class Mood(typing.NamedTuple):
    """How the machine is at a moment: tests/bench/mood.c"""
    line: float   # ns in which a cache line goes from one processor to the other
    speed: float  # of the slower processor, additions a ns: a neighbour may have half of its core


def mood():
    return Mood(*numbers([bench_program('mood')]))


def tcp(mode, rounds=None, size=None):
    """The kernel's TCP over loopback: 'lat' or 'spin' in us, 'bw' in Gb/s; @size goes with @rounds"""
    return number([bench_program('tcp'), mode, *[str(x) for x in (rounds, size) if x]])


def udp(iters=20000):
    """The port `udp` over the loopback of a namespace, and the kernel's own UDP and TCP there: half a round trip of urxe's
    2 B writes and of datagrams of 64 B in us, then 64 KiB writes of urxe and of TCP in Gb/s, at path MTU 1024 and 4096"""
    def tcp_at(mtu):
        return number(['unshare', '--net', 'sh', '-c', 'ip link set lo up mtu %d && exec "$@"' % mtu, 'sh', bench_program('tcp'), 'bw'])

    return (latency('ib_write_lat', 2, 1024, link='udp'), tcp('udp'),
            bandwidth('ib_write_bw', 65536, 1024, iters, 'udp'), tcp_at(1500),
            bandwidth('ib_write_bw', 65536, 4096, iters, 'udp'), tcp_at(4200))


def until(true, child, seconds, what):
    """Waits; ValueError when it takes too long, or the child ends"""
    end = time.monotonic() + seconds
    while not true():
        if child.poll() is not None or time.monotonic() > end:
            raise ValueError('no ' + what)
        time.sleep(0.005)


class Gateways:
    """Two fabrics, and the urxed of each, which are joined by vhost: the way of two hosts that share a DPDK port"""
    ADDRESS = ('10.177.0.1', '10.177.0.2')

    def __init__(self, mtu):
        self.folder = tempfile.mkdtemp()
        self.children, self.mtu, self.count = [], mtu, 0

    def __enter__(self):
        try:
            for which, port in enumerate(('net_vhost0,iface=%s/u' % self.folder, 'net_virtio_user0,path=%s/u' % self.folder)):
                os.mkdir('%s/%d' % (self.folder, which), 0o700)
                child, log = self.start('urxed%d' % which, [
                    os.path.join(node.BUILD, 'tools', 'urxed'), '--log', 'info', '--fabric', '%s/%d' % (self.folder, which), '--port', port,
                    '--ip', self.ADDRESS[which] + '/24', '--mtu', str(self.mtu)])
                until(lambda log=log: 'is the way out' in node.read(log), child, 30, 'urxed')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.terminate()
            child.wait()
        shutil.rmtree(self.folder)

    def start(self, name, argv, **env):
        log = '%s/%s.log' % (self.folder, name)
        with open(log, 'w') as out:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **env})
        self.children.append(child)
        return child, log

    def perftest(self, prog, args, column):
        """As perftest(), with rdma_cm, from one fabric to the other"""
        def end(which, tail, **env):
            return self.start('%s%d' % (prog, which), [
                os.path.join(node.BUILD, 'tools', 'urxe'), 'run', '--port', 'fabric,dir=%s/%d' % (self.folder, which), '--',
                'sh', '-c', 'exec %s -R -d urxe0 -p %d -F %s %s' % (prog, 18600 + self.count, args, tail)], **env)

        self.count += 1
        ready = '%s/ready%d' % (self.folder, self.count)
        server, log = end(0, '', URXE_READY_FILE=ready)
        until(lambda: os.path.exists(ready), server, 20, 'server: ' + prog)
        client, log = end(1, self.ADDRESS[0])
        try:
            if client.wait(60) or server.wait(20):
                raise ValueError('%s: exit status\n%s' % (prog, node.read(log)[-400:]))
        except subprocess.TimeoutExpired as e:
            raise ValueError('%s hangs' % prog) from e
        return last_numbers(node.read(log), 4)[column]


def gateway(mtu, iters=20000):
    """2 B writes between two fabrics through an urxed each, half a round trip in us; 64 KiB writes in Gb/s"""
    with Gateways(mtu) as g:
        return (g.perftest('ib_write_lat', '-s 2 -n %d' % iters, 4),
                g.perftest('ib_write_bw', '--report_gbits -s 65536 -n %d' % iters, 3))


def others(server_argv, client_argv, env=None):
    """The client's output of two programs of somebody else's, without urxe; None where they are not installed"""
    if not shutil.which(server_argv[0]):
        return None
    env = {**os.environ, **(env or {})}
    server = subprocess.Popen(server_argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        deadline = time.monotonic() + 10
        while True:
            done = subprocess.run(client_argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, env=env)
            if done.returncode == 0 or time.monotonic() > deadline or server.poll() is not None:
                break
            time.sleep(0.05)  # it does not listen yet
        server.wait(10)
    except subprocess.TimeoutExpired as e:
        raise ValueError('%s: no answer' % client_argv[0]) from e
    finally:
        server.kill()
        server.wait()
    if done.returncode:
        raise ValueError('%s: exit status %d\n%s%s' % (client_argv[0], done.returncode, done.stdout[-300:], done.stderr[-300:]))
    return done.stdout


def last_numbers(text, least):
    """The numbers of the last line that has so many"""
    rows = [re.findall(r'(?<![\w.])\d+(?:\.\d+)?(?![\w.])', l) for l in text.splitlines()]
    rows = [r for r in rows if len(r) >= least]
    if not rows:
        raise ValueError('no figures in:\n' + text[-300:])
    return [float(x) for x in rows[-1]]


def ucx(test, size, iters):
    """UCX over its shared memory alone: '..._lat' in us; '..._bw' in Gb/s, of 64 bytes and less in M/s"""
    argv = ['ucx_perftest', '-p', str(node.tcp_port()), '-t', test, '-s', str(size), '-n', str(iters), '-f']
    text = others(argv[:3], [*argv, '127.0.0.1'], {'UCX_TLS': 'posix,cma,self', 'UCX_LOG_LEVEL': 'error'})
    if text is None:
        return None
    numbers = last_numbers(text, 7)
    if test.endswith('lat'):
        return numbers[-7]
    return numbers[-1] / 1e6 if size <= 64 else numbers[-3] * 8 * 1048576 / 1e9


def libfabric(size, iters):
    """libfabric's own shared memory: (half a round trip in us, Gb/s of the same to and fro)"""
    port = str(node.tcp_port())
    common = ['fi_pingpong', '-p', 'shm', '-e', 'rdm', '-I', str(iters), '-S', str(size)]
    text = others([*common, '-B', port], [*common, '-P', port, '127.0.0.1'])
    if text is None:
        return None, None
    rate, each = last_numbers(text, 3)[-3:-1]
    return each, rate * 8 / 1000


def start(port, *args):
    """A process alone on a port: tests/bench/start.c"""
    with tempfile.TemporaryDirectory(prefix='urxe-start-') as folder:
        return number([os.path.join(node.BUILD, 'tools', 'urxe'), 'run', '--port', port + folder + '/s', '--',
                       bench_program('start'), *map(str, args)])


def ring(*args):
    """The local fabric below ports and verbs: tests/bench/ring.c"""
    return number([bench_program('ring'), *map(str, args)])


def crowd(*args):
    """Processes on a local fabric of their own: tests/bench/crowd.c"""
    with tempfile.TemporaryDirectory(prefix='urxe-crowd-') as folder:
        return number([os.path.join(node.BUILD, 'tools', 'urxe'), 'run', '--port', 'fabric,dir=' + folder, '--mtu', '4096',
                       '--', bench_program('crowd'), *map(str, args)])
