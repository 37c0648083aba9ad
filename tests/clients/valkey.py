# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""valkey with its RDMA module, which Debian has as source alone: its own test, benchmark, and saving amid traffic."""
import os
import re
import shutil
import time

import fabric
import rig
import sources
from rig import HOW, Case

BOTH = ('clean', 'loss')
# Since 9 its clients speak RDMA as well.
PLACES = (('valkey', 'sid'),)
BUILD = r'''
# The dependencies' own settings are of the first target that is made.
make -C src -j2 BUILD_RDMA=module MALLOC=libc OPTIMIZATION=-O1 valkey-server valkey-cli valkey-benchmark valkey-rdma.so
make -C tests/rdma
mkdir -p "$prefix/src" "$prefix/tests/rdma"
cp -p src/valkey-server src/valkey-cli src/valkey-benchmark src/valkey-rdma.so "$prefix/src"
cp -p tests/rdma/Makefile tests/rdma/rdma-test tests/rdma/rdma-test.c tests/rdma/run.py "$prefix/tests/rdma"
'''
SERVER = '{home}/src/valkey-server --port 0 --rdma-bind {a} --rdma-port {p} --loadmodule {home}/src/valkey-rdma.so --dir {dir} --save "" ' \
         '--enable-debug-command local'


def cases(home):
    def case(name, client, says, **more):
        fill = lambda text: text.replace('{home}', home)
        more = {k: fill(v) if isinstance(v, str) else v for k, v in more.items()}
        return Case(name, fill(client), fill(SERVER), says, 'rdma', stays=True, **more)

    bench = '{home}/src/valkey-benchmark --rdma -h {a} -p {p} -c 10 -t set,get -d 1000 -q -n '
    return [
        case('valkey-cli', '{home}/src/valkey-cli --rdma -h {a} -p {p} ping', 'PONG', short=('clean',)),
        case('rdma-test', '{home}/tests/rdma/rdma-test --thread 4 -h {a} -p {p}', r'GET \d+ KVs \[OK\]', how=BOTH, short=('clean',)),
        case('valkey-benchmark', bench + '5000', r'GET: \d', how=HOW, short=('clean', 'client killed', 'server killed'),
             endless=bench + '100000000'),
    ]


def runner(report, family, home):
    """Its own runner looks for a device in /sys, and for an address of the device's interface."""
    title = family + ": tests/rdma/run.py"
    if not report.wanted(title):
        return
    if fabric.listens(6379):
        report.skip(title, 'somebody has its port')
        return
    start = time.monotonic()
    with rig.World(90) as world:
        tree = world.folder + '/valkey'
        shutil.copytree(home, tree)
        # It was written for a server with RDMA in it.
        os.rename(tree + '/src/valkey-server', tree + '/src/server')
        with open(tree + '/src/valkey-server', 'w') as f:
            f.write('#!/bin/sh\nexec %s/src/server --loadmodule %s/src/valkey-rdma.so "$@"\n' % (tree, tree))
        os.chmod(tree + '/src/valkey-server', 0o755)
        for at, _, files in os.walk(tree):
            for path in [at, *(at + '/' + f for f in files)]:
                world.own(path)
        status, said = world.run('/usr/bin/python3 %s/tests/rdma/run.py' % tree, 'runner', PYTHONDONTWRITEBYTECODE='1', PYTHONUNBUFFERED='1')
        if 'No module named' in said:
            report.skip(title, 'python3-netifaces is not installed')
            return
        problem = 'it hangs' if status is None else None if re.search(r'test over \S+ \[OK\]', said) else 'it does not say that all is well'
        report.result(title, problem, rig.tail(world, ['runner']), time.monotonic() - start)


class Server:
    """One that appends to a file, and a way to ask it."""

    def __init__(self, world, home, port, name='server', **env):
        self.world, self.home, self.port, self.env = world, home, port, env
        ready = '%s/%s.ready' % (world.folder, name)
        text = SERVER + ' --appendonly yes'
        for key, value in (('home', home), ('a', '127.0.0.1'), ('p', port), ('dir', world.folder)):
            text = text.replace('{%s}' % key, str(value))
        self.child = world.start(text, name, URXE_READY_FILE=ready, **env)
        self.up = fabric.until(lambda: os.path.exists(ready), self.child, world.timeout)

    def ask(self, words):
        command = '%s/src/valkey-cli --rdma -h 127.0.0.1 -p %d %s' % (self.home, self.port, words)
        return self.world.run(command, 'cli', **self.env)[1].strip()

    def until(self, pattern, words='info persistence'):
        return fabric.until(lambda: re.search(pattern, self.ask(words)), self.child, self.world.timeout)


def save(world, home, env):
    """What is wrong, or None: it forks for a snapshot and to write its log anew, while clients write; then all is there again."""
    server = Server(world, home, 7690, **env)
    if not server.up:
        return 'the server does not listen'
    traffic = world.start('%s/src/valkey-benchmark --rdma -h 127.0.0.1 -p 7690 -c 4 -t set -r 2000 -d 1000 -q -n 100000000' % home, 'traffic', **env)
    if not world.busy(traffic):
        return 'no traffic'
    for word, done in (('bgsave', r'rdb_bgsave_in_progress:0[\s\S]*rdb_last_bgsave_status:ok[\s\S]*rdb_saves:[1-9]'),
                       ('bgrewriteaof', r'aof_rewrite_in_progress:0[\s\S]*aof_last_bgrewrite_status:ok[\s\S]*aof_rewrites:[1-9]')):
        answer = server.ask(word)
        if 'started' not in answer:
            return '%s: %s' % (word, answer)
        if not server.until(done):
            return '%s: it is not done: %s' % (word, server.ask('info persistence'))
    if traffic.poll() is not None:
        return 'the clients have ended'
    world.end(traffic)
    before = server.ask('debug digest').split()[-1]
    if not re.fullmatch('[0-9a-f]{40}', before) or not before.strip('0'):
        return 'no digest: ' + before
    server.ask('shutdown nosave')
    if world.ended(server.child) != 0:
        return 'the server does not end'
    again = Server(world, home, 7691, 'again', **env)
    if not again.up:
        return 'the server does not come again'
    # It answers DEBUG while it still reads the file, of what it has by then.
    if not again.until(r'(?m)^loading:0'):
        return 'it does not read all: ' + again.ask('info persistence')
    after = again.ask('debug digest').split()[-1]
    return None if after == before else 'it had %s, and has %s' % (before, after)


def run(report, family, everything):
    home, why = sources.built('valkey', PLACES, 'src/valkey-rdma.so', BUILD, ('pkg-config', 'g++', '/usr/include/rdma/rdma_cma.h'))
    if not home:
        report.skip(family, why)
        return
    for case in cases(home):
        for how in case.how:
            if everything or how in case.short:
                rig.run_case(report, family, case, how)
    runner(report, family, home)
    for how in BOTH:
        title = family + ': BGSAVE and BGREWRITEAOF amid traffic' + (', 1 % loss' if how == 'loss' else '')
        if not (everything or how == 'clean') or not report.wanted(title):
            continue
        start = time.monotonic()
        with rig.World(60) as world:
            problem = save(world, home, rig.LOSS if how == 'loss' else {})
            report.result(title, problem, rig.tail(world, ['cli', 'traffic', 'server']), time.monotonic() - start)
