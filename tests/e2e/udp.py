# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two hosts, each a network namespace with an ordinary address on a veth pair, and programs of a user without any right on
the port `udp`: nothing else is set up. Root makes the namespaces."""
import os
import shutil
import subprocess
import tempfile

import clocked
import fabric
import node

V4, V6 = ('10.77.0.1', '10.77.0.2'), ('fd77::1', 'fd77::2')

# title, family, the server's command, the client's, what the client prints; {a} the server's address, {b} the client's
ROWS = [
    ('rping', 4, 'rping -s -a {a} -V -C 50', 'rping -c -a {a} -V -v -C 50', 'rdma-ping-49:'),
    ('rping IPv6', 6, 'rping -s -a {a} -V -C 50', 'rping -c -a {a} -V -v -C 50', 'rdma-ping-49:'),
    ('rping link-local', 0, 'rping -s -a {a} -V -C 50', 'rping -c -a {a} -V -v -C 50', 'rdma-ping-49:'),
    ('ibv_rc_pingpong', 4, 'ibv_rc_pingpong -d urxe0 -g 0 -c -n 300', 'ibv_rc_pingpong -d urxe0 -g 0 -c -n 300 {a}', 'iters in'),
    ('ib_write_bw', 4, 'ib_write_bw -d urxe0 -x 0 -F -n 300', 'ib_write_bw -d urxe0 -x 0 -F -n 300 {a}', 'BW average'),
    ('ib_read_bw IPv6', 6, 'ib_read_bw -d urxe0 -x 1 -F -n 300', 'ib_read_bw -d urxe0 -x 1 -F -n 300 {4}', 'BW average'),
    ('ib_send_bw -R', 4, 'ib_send_bw -R -F -n 300', 'ib_send_bw -R -F -n 300 {a}', 'BW average'),
    ('udaddy', 4, 'udaddy -b {a} -C 20', 'udaddy -s {a} -C 20', 'return status 0'),
    ('udaddy IPv6', 6, 'udaddy -b {a} -C 20', 'udaddy -s {a} -C 20', 'return status 0'),
    ('mckey', 4, 'mckey -m 239.7.7.7 -b {a}', 'mckey -m 239.7.7.7 -s -b {b}', 'return status 0'),
    ('mckey IPv6', 6, 'mckey -m ff0e::7777 -b {a}', 'mckey -m ff0e::7777 -s -b {b}', 'return status 0'),
]
LOSSY = ('rping', 'rping IPv6', 'ib_write_bw', 'ib_read_bw IPv6', 'ib_send_bw -R', 'ibv_rc_pingpong')
# what it is called, the interfaces' MTU, our options, which rows, whether the second host serves
PLACES = [
    ('MTU 1500', 1500, '', None, False),
    ('MTU 1500, the other way', 1500, '', None, True),
    ('MTU 9000', 9000, '--mtu 4096', None, False),
    ('MTU 1500, where 4096 is configured', 1500, '--mtu 4096', ('ib_write_bw', 'ib_read_bw IPv6', 'ib_send_bw -R'), False),
    ('1 % loss each way', 1500, '--drop 0.01 --seed 7', LOSSY, False),
]


class Hosts:
    """Two network namespaces, which go with the processes that hold them."""
    v4, v6 = V4, V6
    before = (), () # what starts a program on each

    def __init__(self, mtu):
        self.folder = tempfile.mkdtemp(prefix='urxe-udp-')
        fabric.watched.append(self.folder)
        os.chmod(self.folder, 0o777)
        self.children, self.holders = [], []
        self.why = self.set_up(mtu)

    def set_up(self, mtu):
        """Why it cannot be had, or ''."""
        try:
            for _ in range(2):
                self.holders.append(subprocess.Popen(['unshare', '--net', 'sh', '-c', 'echo; exec sleep 3600'],
                                                     stdout=subprocess.PIPE))
                self.holders[-1].stdout.readline()
            pids = [str(h.pid) for h in self.holders]
            self.ip('link', 'add', 'v0', 'mtu', str(mtu), 'netns', pids[0], 'type', 'veth', 'peer', 'name', 'v1', 'mtu', str(mtu),
                    'netns', pids[1])
            for which in (0, 1):
                dev = 'v%d' % which
                for command in (['link', 'set', 'lo', 'up'], ['addr', 'add', V4[which] + '/24', 'dev', dev],
                                ['addr', 'add', V6[which] + '/64', 'dev', dev, 'nodad'],
                                ['addr', 'add', 'fe80::%d/64' % (which + 7), 'dev', dev, 'nodad'],
                                ['link', 'set', dev, 'up'], ['route', 'add', 'default', 'dev', dev],
                                ['-6', 'route', 'add', 'multicast', 'ff0e::/16', 'dev', dev, 'table', 'local']):
                    self.ip(*command, at=which)
        except (OSError, subprocess.CalledProcessError) as e:
            return str(e) + getattr(e, 'stderr', b'').decode().strip()
        return ''

    def at(self, which, *command):
        subprocess.run(['nsenter', '--net', '--target', str(self.holders[which].pid), *command], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)

    def ip(self, *arguments, at=None):
        if at is None:
            subprocess.run(['ip', *arguments], check=True, capture_output=True)
        else:
            self.at(at, 'ip', *arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        fabric.end_all(self.children)
        for holder in self.holders:
            holder.kill()
            holder.wait()
        fabric.watched.remove(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, which, name, options, command, **env):
        keep = {k: v for k, v in os.environ.items() if not k.startswith('URXE_')}
        with open('%s/%s.out' % (self.folder, name), 'w') as out:
            child = subprocess.Popen(
                ['nsenter', '--net', '--target', str(self.holders[which].pid), 'setpriv', '--reuid', str(fabric.NOBODY),
                 '--regid', str(fabric.NOBODY), '--clear-groups', '--bounding-set=-all', *self.before[which], fabric.TOOL, 'run', '--port', 'udp',
                 *options, '--', 'sh', '-c', 'exec stdbuf -oL ' + command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                env={**keep, **node.sanitizer_env(self.folder), **env})
        self.children.append(child)
        return child

    def listens(self, which):
        """Has it a TCP socket that listens?"""
        tables = [node.read('/proc/%d/net/%s' % (self.holders[which].pid, t)) for t in ('tcp', 'tcp6')]
        return any(l.split()[3] == '0A' for t in tables for l in t.splitlines()[1:])

    def said(self, name):
        return node.read('%s/%s.out' % (self.folder, name))


def pair(hosts, name, row, options, server_at, timeout):
    """What is wrong, or None; and what both said."""
    def once():
        problem = run(hosts, row, options, server_at, timeout)
        return problem, fabric.both(hosts.said('client'), hosts.said('server'))
    return clocked.pair(name, once)


def run(hosts, row, options, server_at, timeout):
    """What is wrong, or None."""
    title, family, serve, call, want = row
    addresses = {4: hosts.v4, 6: hosts.v6, 0: ('fe80::7%lo', 'fe80::8%lo')}[family]
    values = {'{a}': addresses[server_at], '{b}': addresses[1 - server_at], '{4}': hosts.v4[server_at]}
    for key, value in values.items():
        serve, call = serve.replace(key, value), call.replace(key, value)
    ready = '%s/%s.ready' % (hosts.folder, title.replace(' ', '_'))
    if os.path.exists(ready):
        os.unlink(ready)
    server = hosts.start(server_at, 'server', options, serve, URXE_READY_FILE=ready)
    joined = (lambda: 'joined dgid' in hosts.said('server')) if title.startswith('mckey') else lambda: False
    if not fabric.until(lambda: os.path.exists(ready) or hosts.listens(server_at) or joined(), server, timeout):
        return 'the server does not listen'
    client = hosts.start(1 - server_at, 'client', options, call)
    problem = fabric.wait(client, server, timeout)
    if problem:
        return problem
    return None if want in hosts.said('client') else 'the client does not print ' + want


def udp(report, _kind, _why_not):
    timeout = node.patience()
    for what, mtu, options, names, turned in PLACES:
        rows = [r for r in ROWS if (not names or r[0] in names) and report.wanted('udp: %s, %s' % (r[0], what))]
        # Starting a program with a sanitizer takes long, and both ways run the same code.
        if not rows or (turned and node.sanitized()):
            continue
        if os.geteuid():
            for row in rows:
                report.skip('udp: %s, %s' % (row[0], what), 'needs root for network namespaces')
            continue
        with Hosts(mtu) as hosts:
            for row in rows:
                title = 'udp: %s, %s' % (row[0], what)
                if hosts.why:
                    report.skip(title, 'no such hosts here: ' + hosts.why)
                    continue
                fabric.told(report, title, *pair(hosts, title, row, options.split(), int(turned), timeout))
