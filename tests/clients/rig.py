# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How a client runs: cases, and processes of an unprivileged user on a fabric of their own."""
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time

import fabric
import node

LOSS = {'URXE_DROP': '0.01', 'URXE_SEED': '7'}
HOW = ('clean', 'loss', 'client killed', 'server killed')
# On two nodes with a link between them, whose addresses the kernel has, too: ci/two-node --kernel-addr, as root
TWO_NODES = ('two nodes', 'two nodes, loss')


@dataclasses.dataclass
class Case:
    """One program alone, or a server and its client.

    Commands: {a} is the address, {p} and {q} are free ports, {dir} a folder of the user's.
    """
    name: str
    client: str
    server: str = ''
    says: str = ''          # the client's output holds it
    ready: str = 'any'      # the server listens: 'tcp', 'rdma', 'any' of them, or its output holds this
    address: str = '127.0.0.1'  # or 'interface': one of an interface's, if the machine has one
    how: tuple = ('clean',)  # which of HOW and TWO_NODES
    short: tuple = ()       # which of them without --all
    stays: bool = False     # the server does not end with its client
    endless: str = ''       # the client where one is killed: what it does then takes for ever
    endless_server: str = ''
    status: int = 0         # the client's
    survivor: str = ''      # its output holds it when the other one was killed
    env: dict = dataclasses.field(default_factory=dict)
    timeout: int = 60
    lacks: str = ''         # expected to fail, and to say this
    why: str = ''           # why so
    flaw: str = ''          # what is wrong now and then, which is not ours: it counts as missing, for this reason
    flaw_why: str = ''


class World(fabric.Fabric):
    """A fabric for one case."""

    def __init__(self, timeout):
        super().__init__()
        self.timeout = timeout

    def environ(self, **more):
        return super().environ(HOME=self.folder, TMPDIR=self.folder, URXE_STATUS_DIR=self.folder, **{'URXE_VIEW': 'auto', **more})

    def members(self):
        """The processes that have our folder in their environment: ranks of an mpirun and jobs of fio leave their process group."""
        mark, found = b'XDG_RUNTIME_DIR=%s\0' % self.folder.encode(), []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open('/proc/%s/environ' % pid, 'rb') as f:
                    if mark in f.read() + b'\0':
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def __exit__(self, *how):
        for pid in self.members():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        super().__exit__(*how)

    def own(self, path):
        """Gives a file to the user that the programs run as."""
        if self.user:
            os.chown(path, fabric.NOBODY, fabric.NOBODY)
        return path

    def run(self, command, name, **env):
        """(exit status or None, output)"""
        child = self.start(command, name, **env)
        return self.ended(child), self.said(name)

    def ended(self, child):
        """Its exit status; None: it does not end."""
        try:
            return child.wait(self.timeout)
        except subprocess.TimeoutExpired:
            return None

    def end(self, child, by=signal.SIGTERM):
        if child.poll() is None:
            os.killpg(child.pid, by)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()

    def counters(self):
        """Of the processes that are there: pid -> counters of packets."""
        done = subprocess.run([*self.user, fabric.TOOL, 'status', '--json', '--no-start'], env=self.environ(), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
        try:
            found = json.loads(done.stdout)['processes']
        except (ValueError, KeyError):
            return {}
        return {p['pid']: {'command': p['command'],
                           'tx': sum(d['port']['tx_packets'] + d['port']['loop_packets'] for d in p['devices'] if d.get('port')),
                           'bytes': sum(d['port']['tx_bytes'] for d in p['devices'] if d.get('port'))}
                for p in found}

    def busy(self, child, packets=500):
        """Waits until two processes or more have sent so many packets; False: it does not come to that."""
        return fabric.until(lambda: sum(c['tx'] > packets for c in self.counters().values()) >= 2, child, self.timeout)


def first_program(command):
    """What is to be installed for a command."""
    words = command.split()
    while words and (words[0] in ('exec', 'stdbuf', '-oL', 'timeout', 'env') or '=' in words[0]):
        words.pop(0)
    return words[0] if words else ''


def tail(world, names, lines=14):
    """The end, and the begin: in a file what a program writes to stderr comes before what it has said until then."""
    out = []
    for name in names:
        said = world.said(name).splitlines()
        begin = said[:6] + ['...'] if len(said) > lines + 6 else said[:-lines]
        out += ['%s: %s' % (name, l) for l in begin + said[-lines:]]
    return '\n'.join(out)


def is_up(world, case, port):
    file = world.folder + '/ready'
    if case.ready == 'tcp':
        return lambda: fabric.listens(port)
    if case.ready == 'rdma':
        return lambda: os.path.exists(file)
    if case.ready == 'any':
        return lambda: os.path.exists(file) or fabric.listens(port)
    return lambda: re.search(case.ready, world.said('server'))


def alone(world, case, env):
    status, said = world.run(fill(case, case.client, 0, world), 'client', **env)
    return judge(case, status, said), tail(world, ['client'])


def fill(case, text, port, world):
    address = fabric.addresses()['4'][0] if case.address == 'interface' else case.address
    for key, value in (('a', address), ('p', port), ('q', port + 1000), ('dir', world.folder)):
        text = text.replace('{%s}' % key, str(value))
    return text


def judge(case, status, said):
    if status is None:
        return 'it hangs'
    if status != case.status:
        return 'exit status %s' % status
    if not re.search(case.says, said):
        return 'the client does not say %s' % case.says
    return None


PORT = [7600]


def pair(world, case, how, env):
    """What is wrong with it, or None; and what was said."""
    PORT[0] += 1
    port = PORT[0]
    killing = how.endswith('killed')
    server_cmd = case.endless_server or case.server if killing else case.server
    server = world.start(fill(case, server_cmd, port, world), 'server', URXE_READY_FILE=world.folder + '/ready', **env)
    if not fabric.until(is_up(world, case, port), server, world.timeout):
        return 'the server does not listen', tail(world, ['server'])
    client = world.start(fill(case, case.endless or case.client if killing else case.client, port, world), 'client', **env)
    if killing:
        problem = killed(world, case, how, server, client, env)
    else:
        problem = judge(case, world.ended(client), world.said('client'))
        if not problem and not case.stays and world.ended(server) != 0:
            problem = 'the server: %s' % ('it hangs' if server.returncode is None else 'exit status %d' % server.returncode)
        elif not problem and case.stays and server.poll() is not None:
            problem = 'the server ended: exit status %d' % server.returncode
    world.end(client)
    world.end(server)
    return problem, tail(world, ['client', 'server', 'again'])


def two_nodes(case, how):
    """What is wrong with it on two nodes, or None; and what was said."""
    PORT[0] += 1
    words = lambda text: text.replace('{a}', '10.0.0.1').replace('{p}', str(PORT[0])).replace('{q}', str(PORT[0] + 1000))
    options = ['--kernel-addr', *(['--end-server'] if case.stays else [])]
    if 'loss' in how:
        options += ['--opt-a=--drop 0.01 --seed 7', '--opt-b=--drop 0.01 --seed 7']
    result = node.two_node(words(case.server), words(case.client), timeout=2 * case.timeout, options=options, env={'HOME': '/', **case.env})
    return judge(case, None if result.status == 124 else result.status, result.b), result.tail()


def killed(world, case, how, server, client, env):
    """One of them goes in the midst of it; the other one must find out, and, if it serves all comers, serve the next."""
    if not world.busy(client):
        return 'no traffic before the kill'
    dead, left, name = (client, server, 'server') if how == 'client killed' else (server, client, 'client')
    os.killpg(dead.pid, signal.SIGKILL)
    dead.wait()
    if case.stays and name == 'server':
        again = world.start(fill(case, case.client, PORT[0], world), 'again', **env)
        return judge(case, world.ended(again), world.said('again'))
    status = world.ended(left)
    if status is None:
        return 'the %s hangs' % name
    if status in (-signal.SIGSEGV, -signal.SIGBUS):
        return 'the %s died: %s' % (name, signal.Signals(-status).name)
    if not re.search(case.survivor, world.said(name)):
        return 'the %s does not say %s' % (name, case.survivor)
    return None


def run_case(report, family, case, how, prepare=None):
    """One case, in one way. @prepare: makes files in its world, and returns variables."""
    title = '%s: %s%s' % (family, case.name, '' if how == 'clean' else ', ' + how.replace('loss', '1 % loss'))
    if not report.wanted(title):
        return
    if how in TWO_NODES and os.geteuid():
        report.skip(title, 'not root: no network namespaces')
        return
    for command in filter(None, (case.client, case.server)):
        program = first_program(command)
        if not shutil.which(program):
            report.skip(title, program + ' is not installed')
            return
    env = {**case.env, **(LOSS if how == 'loss' else {})}
    start = time.monotonic()
    if how in TWO_NODES:
        problem, said = two_nodes(case, how)
        tell(report, title, case, problem, said, time.monotonic() - start)
        return
    with World(case.timeout) as world:
        env.update(prepare(world) if prepare else {})
        problem, said = pair(world, case, how, env) if case.server else alone(world, case, env)
        if not problem and world.reports():
            problem, said = 'a sanitizer reports', ''.join(node.read(world.folder + '/' + f) for f in world.reports())
    tell(report, title, case, problem, said, time.monotonic() - start)


def tell(report, title, case, problem, said, seconds):
    """Reports it, as what is expected to be missing, or as it is."""
    if case.lacks:
        if not problem:
            problem, said = 'it passes, and was expected to lack something: ' + case.why, ''
        elif re.search(case.lacks, problem + '\n' + said):
            report.missing(title, case.why)
            return
    elif problem and case.flaw and re.search(case.flaw, problem):
        report.missing(title, case.flaw_why)
        return
    report.result(title, problem, said, seconds)
