# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""iSER: tgt's target, with a file as disk, and libiscsi's programs as initiators."""
import os
import re
import shutil
import signal
import subprocess
import time

import fabric
import rig
from rig import HOW

BOTH = ('clean', 'loss')
TARGET, INITIATOR = 'iqn.2026-11.example:disk', 'iqn.2026-11.example:client'
BLOCKS = 32768
# Until 1.0.94 tgt wants the initiator's name bound besides its address; over TCP either does. Else it answers 515, "not found".
SETUP = ('--lld iser --op new --mode target --tid 1 -T ' + TARGET, '--lld iser --op new --mode logicalunit --tid 1 --lun 1 -b {disk}',
         '--lld iser --op bind --mode target --tid 1 -I ALL', '--lld iser --op bind --mode target --tid 1 -Q ' + INITIATOR)
# Not whole suites: libiscsi 1.19 takes no transfer of 0 bytes, nor of more than 512 KiB, and dies of the next command.
TESTS = ['ReadCapacity16.Simple', 'TestUnitReady.Simple'] + [
    kind + '.Simple' for kind in ('Read6', 'Read10', 'Read12', 'Read16', 'Write10', 'Write12', 'Write16', 'Verify10', 'Verify16')]
QEMU = '--image-opts driver=raw,file.driver=iscsi,file.transport=iser,file.portal=127.0.0.1,file.target=%s,file.lun=1,' \
       'file.initiator-name=%s' % (TARGET, INITIATOR)
# libiscsi 1.19 takes its connection's memory by malloc(), and some of it to be zero, which it now is. Without this it dies when
# that has been another one's.
PERTURB = {'MALLOC_PERTURB_': '255'}
PERF = 'iscsi-perf -i {i} -m 16 -b 64 -x 0 -t %d {url}'
# tgt's login ends when its answer is acknowledged. Where that is lost, the first command comes before its repetition.
EARLY = 'non-login pdu during login phase'
# name, commands, what each must say, ways, ways without --all
CLIENTS = [
    ('iscsi-inq', ['iscsi-inq -i {i} {url}'], 'Vendor:IET', BOTH, ('clean',)),
    ('iscsi-readcapacity16', ['iscsi-readcapacity16 -i {i} {url}'], 'RETURNED LOGICAL BLOCK ADDRESS:%d' % (BLOCKS - 1), BOTH, ('clean',)),
    ('iscsi-test-cu', ['iscsi-test-cu -i {i} -d -n -t ALL.%s {url}' % t for t in TESTS], r'tests +1 +1 +1 +0', BOTH, ('clean',)),
    # Not with the server killed: libiscsi 1.19 keeps RDMA_CM_EVENT_DISCONNECTED to itself, and waits for a completion for ever.
    ('iscsi-perf', [PERF % 3], 'iops average [1-9]', HOW[:3], BOTH),
    ('qemu-io', ['qemu-io -t none -c "write -P %d %d %d" -c "read -P %d %d %d" %s' % (n, n << 16, size, n, n << 16, size, QEMU)
                 for n, size in ((1, 512), (2, 65536), (0x5a, 262144))], 'read [1-9]', BOTH, ('clean',)),
]

class Target:
    """tgtd of the world's user, with its disk."""

    def __init__(self, world, port, **env):
        self.world = world
        self.disk = world.folder + '/disk'
        with open(self.disk, 'wb') as f:
            f.truncate(BLOCKS * 512)
        world.own(self.disk)
        self.env = {'TGT_IPC_SOCKET': world.folder + '/tgt'}
        ready = world.folder + '/ready'
        # The port for RDMA is the usual one, of this fabric: it takes port=N only where errno happens to be 0.
        self.child = world.start('tgtd -f -C 1 --iser pool_sz_mb=128 --iscsi portal=127.0.0.1:%d' % port, 'tgtd',
                                 URXE_READY_FILE=ready, **self.env, **env)
        self.up = fabric.until(lambda: os.path.exists(ready) and os.path.exists(world.folder + '/tgt.1'), self.child, world.timeout)

    def set_up(self):
        """What is wrong, or None."""
        for words in SETUP if self.up else ():
            done = subprocess.run([*self.world.user, 'tgtadm', '-C', '1', *words.replace('{disk}', self.disk).split()],
                                  env=self.world.environ(**self.env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=30)
            if done.returncode:
                return 'tgtadm %s: %s' % (words, done.stdout.strip())
        return None if self.up else 'tgtd does not listen'

    def fill(self, command):
        url = 'iser://127.0.0.1/%s/1' % TARGET
        return command.replace('{i}', INITIATOR).replace('{url}', url)


PORT = [7700]


def one(commands, says, how):
    """What is wrong with it, or None; and what was said."""
    PORT[0] += 1
    env = rig.LOSS if how == 'loss' else {}
    with rig.World(60) as world:
        target = Target(world, PORT[0], **env)
        problem = target.set_up()
        said = lambda: rig.tail(world, ['client', 'tgtd'])
        if problem:
            return problem, said()
        if how.endswith('killed'):
            return killed(world, target), said()
        for command in commands:
            status, words = world.run(target.fill(command), 'client', **PERTURB, **env)
            if status or status is None:
                return '%s: %s' % (command, 'it hangs' if status is None else 'exit status %d' % status), said()
            if not re.search(says, words):
                return '%s: it does not say %s' % (command, says), said()
        return 'tgtd has ended' if target.child.poll() is not None else None, said()


def killed(world, target):
    """The target serves the next initiator."""
    client = world.start(target.fill(PERF % 600), 'client', **PERTURB)
    if not world.busy(client):
        return 'no traffic before the kill'
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    status, words = world.run(target.fill(PERF % 2), 'again', **PERTURB)
    return None if status == 0 and 'iops average' in words else 'the next client: %s' % ('it hangs' if status is None else words)


def run(report, family, everything):
    for program in ('tgtd', 'iscsi-inq'):
        if not shutil.which(program):
            report.skip(family, program + ' is not installed')
            return
    for name, commands, says, ways, short in CLIENTS:
        for how in ways:
            title = '%s: %s%s' % (family, name, '' if how == 'clean' else ', 1 % loss' if how == 'loss' else ', ' + how)
            if not (everything or how in short) or not report.wanted(title):
                continue
            if not shutil.which(commands[0].split()[0]):
                report.skip(title, commands[0].split()[0] + ' is not installed')
                continue
            start = time.monotonic()
            problem, said = one(commands, says, how)
            if problem and how == 'loss' and EARLY in said:
                report.missing(title, 'tgt refuses a command that comes before the acknowledgement of its last answer to the login')
                continue
            report.result(title, problem, said, time.monotonic() - start)
