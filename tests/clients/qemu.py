# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""QEMU: live migration over rdma, of a guest that writes memory all the while; both sides' memory is compared."""
import os
import random
import shutil
import signal
import time

import fabric
import rig
from vm import Failed
from vm.console import Qmp

MEMORY, FILLED = 64 << 20, 24 << 20
# Real mode. start: mov bx, 0x1000; page: mov es, bx; inc word [es:0]; add bx, 0x100; cmp bx, 0x9000; jb page; jmp start
SECTOR = bytes.fromhex('bb0010 8ec3 26ff060000 81c30001 81fb0090 72ef ebea').ljust(510, b'\0') + b'\x55\xaa'
COUNTER = 0x10000
PORT = 7500


class Machine:
    """A QEMU of the world's user; @more: of its arguments."""

    def __init__(self, world, name, more='', **env):
        self.world, self.name, self.control = world, name, None
        self.child = world.start(
            'qemu-system-x86_64 -accel tcg -M pc -m %dM -nodefaults -no-user-config -display none -qmp unix:%s/%s.qmp,server=on,wait=off '
            '-drive if=ide,format=raw,snapshot=on,file=%s/sector %s' % (MEMORY >> 20, world.folder, name, world.folder, more), name, **env)
        self.socket = '%s/%s.qmp' % (world.folder, name)

    def connect(self):
        """The socket is there before QEMU listens to it."""
        try:
            self.control = Qmp(self.socket)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def ask(self, command, **arguments):
        if not self.control and not fabric.until(self.connect, self.child, self.world.timeout):
            raise Failed('%s: QEMU does not start' % self.name)
        return self.control.ask(command, **arguments)

    def memory(self, at=0, size=MEMORY):
        path = '%s/%s.memory' % (self.world.folder, self.name)
        self.ask('pmemsave', val=at, size=size, filename=path)
        with open(path, 'rb') as f:
            return f.read()

    def runs_on(self):
        """Its guest counts."""
        before = self.memory(COUNTER, 2)
        return fabric.until(lambda: self.memory(COUNTER, 2) != before, self.child, self.world.timeout)

    def migration(self):
        return self.ask('query-migrate').get('status')


def pair(world, pinned, env, bandwidth=None):
    """The one that runs, and the one that waits for it; the migration has begun."""
    # Not of zeros, which QEMU does not send. The other one has none of it.
    with open(world.folder + '/fill', 'wb') as f:
        f.write(random.Random(7).randbytes(FILLED))
    with open(world.folder + '/sector', 'wb') as f:
        f.write(SECTOR)
    for name in ('fill', 'sector'):
        world.own(world.folder + '/' + name)
    ready = world.folder + '/ready'
    there = Machine(world, 'there', '-S -incoming defer', URXE_READY_FILE=ready, **env)
    here = Machine(world, 'here', '-device loader,force-raw=on,addr=0x1000000,file=%s/fill' % world.folder, **env)
    for machine in (there, here):
        machine.ask('migrate-set-capabilities', capabilities=[{'capability': 'rdma-pin-all', 'state': pinned}])
    # Slow enough to be killed in the midst of it; or with time enough for the last pages on a machine that has other work.
    here.ask('migrate-set-parameters', **({'max-bandwidth': bandwidth} if bandwidth else {'downtime-limit': 2000}))
    if not here.runs_on():
        raise Failed('the guest does not run')
    uri = 'rdma:%s:%d' % ('127.0.0.1', PORT)
    there.ask('migrate-incoming', uri=uri)
    if not fabric.until(lambda: os.path.exists(ready), there.child, world.timeout):
        raise Failed('the destination does not listen')
    here.ask('migrate', uri=uri)
    return here, there


def compare(world, pinned, env):
    here, there = pair(world, pinned, env)
    if not fabric.until(lambda: here.migration() not in ('setup', 'active', 'device', None), here.child, world.timeout):
        return 'the migration does not end: %s' % here.migration() if here.child.poll() is None else 'the source has ended'
    if here.migration() != 'completed':
        return 'the migration: %s' % here.ask('query-migrate')
    if not fabric.until(lambda: there.ask('query-status')['status'] != 'inmigrate', there.child, world.timeout):
        return 'the destination stays "inmigrate"'
    sent = max((c['bytes'] for c in world.counters().values() if c['command'].startswith('qemu')), default=0)
    if sent < FILLED:
        return 'the source has sent %d bytes: not all over urxe' % sent
    before, after = here.memory(), there.memory()
    if before[0x1000000:0x1000000 + FILLED] != random.Random(7).randbytes(FILLED):
        return 'the guest had not what it was given'
    if before != after:
        pages = [i for i in range(0, MEMORY, 4096) if before[i:i + 4096] != after[i:i + 4096]]
        return '%d pages differ, from 0x%x on' % (len(pages), pages[0])
    there.ask('cont')
    return None if there.runs_on() else 'the guest does not run where it has come to'


def killed(world, which, env):
    """The source goes on with its guest; a destination without a source is of no use, and ends."""
    here, there = pair(world, False, env, 1 << 20)
    if not fabric.until(lambda: (here.ask('query-migrate').get('ram') or {}).get('transferred', 0) > 2 << 20, here.child, world.timeout):
        return 'the migration does not begin'
    dead = here if which == 'client killed' else there
    os.killpg(dead.child.pid, signal.SIGKILL)
    dead.child.wait()
    if dead is here:
        status = world.ended(there.child)
        return 'the destination waits for ever' if status is None else None if status == 1 else 'the destination: exit status %d' % status
    if not fabric.until(lambda: here.migration() not in ('active', 'setup'), here.child, world.timeout):
        return 'the source does not find out'
    if here.migration() != 'failed' or here.ask('query-status')['status'] != 'running':
        return 'the source: %s, its guest %s' % (here.migration(), here.ask('query-status')['status'])
    return None if here.runs_on() else 'the guest does not run on'


def run(report, family, everything):
    program = 'qemu-system-x86_64'
    if not shutil.which(program):
        report.skip(family, program + ' is not installed')
        return
    rows = [('migration', 'clean', True), ('migration, pinned', 'clean', True), ('migration', 'loss', False), ('migration, pinned', 'loss', False),
            ('migration', 'server killed', False), ('migration', 'client killed', False)]
    for name, how, short in rows:
        title = '%s: %s%s' % (family, name, '' if how == 'clean' else ', 1 % loss' if how == 'loss' else ', ' + how)
        if not (everything or short) or not report.wanted(title):
            continue
        start = time.monotonic()
        with rig.World(90) as world:
            env = rig.LOSS if how == 'loss' else {}
            try:
                problem = killed(world, how, env) if 'killed' in how else compare(world, 'pinned' in name, env)
            except (Failed, OSError) as e:
                problem = str(e)
            report.result(title, problem, rig.tail(world, ['here', 'there']), time.monotonic() - start)
