# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""DAPL: its own tests, with the providers that connect by rdma_cm (cma) and over TCP (scm)."""
import os
import time

import fabric
import rig
from rig import HOW, Case

BOTH = ('clean', 'loss')
KILLED = HOW[2:]
CONF = ('ofa-v2-cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "%s 0" ""\n'
        'ofa-v2-scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "urxe0 1" ""\n'
        'ofa-v2-ucm u2.0 nonthreadsafe default libdaploucm.so.2 dapl.2.0 "urxe0 1" ""\n')
WHERE = 'interface'


def dtest(provider, **more):
    return Case('dtest ' + provider, 'dtest -P ofa-v2-%s -h {a}' % provider, 'stdbuf -oL dtest -P ofa-v2-' + provider, 'PASSED',
                'Server waiting|waiting for connect|Waiting|waiting', WHERE, **{'timeout': 90, **more})


T = '-T T -s %s -D ofa-v2-cma -i %%d -t 1 -w 1 client SR 1024 4 server SR 1024 4'
CASES = [
    dtest('cma', how=BOTH, short=BOTH),
    dtest('scm', short=('clean',)),
    dtest('ucm', timeout=20, lacks='No valid data was received|does not listen|hangs',
          why='it connects by datagrams to LIDs, which RoCE does not have'),
    # A server has one client after the other.
    Case('dapltest', 'dapltest ' + T % '{a}' % 100, 'stdbuf -oL dapltest -T S -D ofa-v2-cma', 'End of Work', 'rdma', WHERE, how=KILLED, stays=True,
         endless='dapltest ' + T % '{a}' % 100000000, timeout=40),
]
LINES = [
    ('T, send', T.replace('%%d', '100')),
    ('T, write and read', '-T T -s %s -D ofa-v2-cma -i 100 -t 2 -w 2 client SR 256 1 server RW 4096 1 server RR 4096 1 server SR 256 1'),
    ('P, write', '-T P -s %s -D ofa-v2-cma -i 100 RW 4096 2'),
    ('Q', '-T Q -s %s -D ofa-v2-cma'),
]


def conf(world):
    path = world.folder + '/dat.conf'
    with open(path, 'w') as f:
        f.write(CONF % fabric.addresses()['4'][0])
    return {'DAT_OVERRIDE': path}


def dtests(report, family, everything):
    for case in CASES:
        for how in case.how:
            if everything or how in case.short:
                rig.run_case(report, family, case, how, conf)


def dapltests(report, family, everything):
    """One server, its clients one after the other; the last one tells it to end."""
    for how in BOTH if everything else BOTH[:1]:
        # They are one story: all of them or none.
        if not report.wanted('%s: dapltest%s' % (family, ', 1 % loss' if how == 'loss' else '')):
            continue
        with rig.World(40) as world:
            env = {**conf(world), **(rig.LOSS if how == 'loss' else {})}
            server = world.start('stdbuf -oL dapltest -T S -D ofa-v2-cma', 'server', URXE_READY_FILE=world.folder + '/ready', **env)
            if not fabric.until(lambda: os.path.exists(world.folder + '/ready'), server, world.timeout):
                report.result(family + ': dapltest', 'the server does not listen', rig.tail(world, ['server']))
                return
            for name, line in LINES:
                start = time.monotonic()
                status, said = world.run('dapltest ' + line % fabric.addresses()['4'][0], 'client', **env)
                problem = None if status == 0 and 'End of Work' in said else 'it hangs' if status is None else 'exit status %d' % status
                if name == 'Q' and not problem and world.ended(server) != 0:
                    problem = 'the server does not end'
                report.result('%s: dapltest %s%s' % (family, name, ', 1 % loss' if how == 'loss' else ''), problem,
                              rig.tail(world, ['client', 'server']), time.monotonic() - start)
                if problem:
                    break
