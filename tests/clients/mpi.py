# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Open MPI and MPICH: a program of ours (mpi.c), over each way that they have to verbs.

Shared memory and TCP between ranks are switched off, and each rank's counters must have seen the payload: else a success would
say nothing of urxe.
"""
import functools
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

import fabric
import rig
import ucx

HERE = os.path.dirname(os.path.abspath(__file__))
# Ranks of more than there are processors; nobody asks for a terminal or ssh.
OPENMPI = 'mpirun.openmpi --oversubscribe --mca plm isolated --mca mpi_yield_when_idle 1 -n %d '
MPICH = 'mpirun.mpich -launcher fork -n %d '
UCX = {'UCX_TLS': 'rc_v,self'}
UCX_UD = {'UCX_TLS': 'ud_v,self'}
# name, command, variables
STACKS = {
    'Open MPI': [
        ('mtl ofi, rxm', OPENMPI + '--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm" --mca osc pt2pt', {}),
        ('pml ucx, rc', OPENMPI + '--mca pml ucx --mca osc ucx', UCX),
        ('pml ucx, ud', OPENMPI + '--mca pml ucx --mca osc ucx', UCX_UD),
        ('pml ucx, ud, two-sided', OPENMPI + '--mca pml ucx', UCX_UD),
    ],
    'MPICH': [
        ('ch4:ucx, rc', MPICH, {**UCX, 'MPIR_CVAR_NOLOCAL': '1'}),
        ('ch4:ucx, ud', MPICH, {**UCX_UD, 'MPIR_CVAR_NOLOCAL': '1'}),
    ],
}
COMPILER = {'Open MPI': 'mpicc.openmpi', 'MPICH': 'mpicc.mpich'}
# What a rank sends at least: the messages of point_to_point().
PAYLOAD = 5 << 20


def one(program, command, ranks, env, timeout, arguments=''):
    """What is wrong with it, or None; and what was said."""
    with rig.World(timeout) as world:
        gate = world.folder + '/gate'
        os.mkfifo(gate)
        world.own(gate)
        child = world.start('%s %s %s %s' % (command % ranks, program, gate, arguments), 'mpi', **env)
        said = lambda: rig.tail(world, ['mpi'])
        if not fabric.until(lambda: 'all well' in world.said('mpi'), child, timeout):
            return 'it hangs' if child.poll() is None else 'exit status %d' % child.returncode, said()
        sent = sorted(c['bytes'] for c in world.counters().values() if c['command'].startswith('mpi.'))
        with open(gate, 'w'):
            pass
        status = world.ended(child)
        if status != 0:
            return 'it hangs at its end' if status is None else 'exit status %d at its end' % status, said()
        if len(sent) != ranks or sent[0] < PAYLOAD:
            return 'ranks have sent %s bytes: not all over urxe' % sent, said()
        return (None, '') if 'all well, %d ranks' % ranks in world.said('mpi') else ('other ranks', said())


def killed(program, command, who, env, timeout):
    """What is wrong, or None, and what was said: without one of its ranks, or without its mpirun, a job ends, and all of it."""
    with rig.World(timeout) as world:
        child = world.start('%s %s -' % (command % 3, program), 'mpi', **env)
        said = lambda: rig.tail(world, ['mpi'])
        ranks = lambda: [pid for pid, c in world.counters().items() if c['command'].startswith('mpi.') and c['bytes'] > PAYLOAD]
        if not fabric.until(lambda: len(ranks()) == 3, child, timeout):
            return 'no traffic before the kill', said()
        os.kill(ranks()[1] if who == 'a rank' else child.pid, signal.SIGKILL)
        status = world.ended(child)
        if status is None or status == 0:
            return 'mpirun goes on' if status is None else 'mpirun says that all is well', said()
        end = time.monotonic() + timeout
        while world.members():
            if time.monotonic() > end:
                return '%d processes stay' % len(world.members()), said()
            time.sleep(0.1)
        return None, ''


@functools.cache
def pt2pt():
    """Does this Open MPI have it? Since 5 it has not, and no other one-sided access over the mtl."""
    return bool(glob.glob('/usr/lib/*/openmpi/lib/openmpi*/mca_osc_pt2pt.so'))


def run(report, family, everything):
    compiler = COMPILER[family]
    if not shutil.which(compiler):
        report.skip(family, compiler + ' is not installed')
        return
    with tempfile.TemporaryDirectory(prefix='urxe-mpi-') as folder:
        os.chmod(folder, 0o755)
        program = folder + '/mpi.' + compiler.split('.')[-1]
        made = subprocess.run([compiler, '-std=gnu11', '-O2', '-o', program, HERE + '/mpi.c'], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode:
            report.result(family + ': ' + compiler, 'it does not compile', made.stdout)
            return
        for name, command, env in STACKS[family]:
            if 'ucx' in name and ucx.unseen():
                report.missing('%s: %s' % (family, name), ucx.unseen())
                continue
            # osc ucx destroys its UD endpoints without a fence, and so waits 30 s for ACKs of ranks that have gone: with more
            # than two ranks UCX then aborts. With osc pt2pt, pml ucx hangs in MPI_Win_flush(), over UCX's TCP as well.
            two_sided = 'two-sided' if 'two-sided' in name or 'pt2pt' in command and not pt2pt() else ''
            command = command if pt2pt() else command.replace(' --mca osc pt2pt', '')
            for ranks in (2,) if name == 'pml ucx, ud' else (2, 4, 8):
                for how in ('clean', 'loss'):
                    if not everything and (ranks == 8 or how == 'loss' and ranks > 2):
                        continue
                    title = '%s: %s, %d ranks%s' % (family, name, ranks, ', 1 % loss' if how == 'loss' else '')
                    if not report.wanted(title):
                        continue
                    start = time.monotonic()
                    problem, said = one(program, command, ranks, {**env, **(rig.LOSS if how == 'loss' else {})}, 90, two_sided)
                    report.result(title, problem, said, time.monotonic() - start)
            for who in ('a rank', 'mpirun') if everything else ():
                title = '%s: %s, %s killed' % (family, name, who)
                if report.wanted(title):
                    start = time.monotonic()
                    problem, said = killed(program, command, who, env, 90)
                    report.result(title, problem, said, time.monotonic() - start)
