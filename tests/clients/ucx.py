# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""UCX: its own information and performance programs."""
import functools
import re
import subprocess

import rig
from rig import TWO_NODES, Case

BOTH = ('clean', 'loss')
# Who only receives is told by nobody that the sender has gone.
SENDER_STAYS = ('clean', 'loss', 'server killed')


@functools.cache
def no_mpi():
    """Debian 13's takes itself for a rank of MPI where it has no terminal."""
    said = subprocess.run('ucx_perftest -h', shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return '-P 0 ' if re.search(r'(?m)^ *-P ', said) else ''


def perftest(tls, test, count=1000, **more):
    """@tls: rc_v is rc_verbs, and ud_verbs to connect; none of them is shared memory or TCP."""
    program = 'ucx_perftest %s-p {p} ' % no_mpi()
    client = program + '-t %s -n %%d {a}' % test
    return Case('ucx_perftest %s %s' % (tls, test), client % count, program, 'Final:', 'tcp', env={'UCX_TLS': tls},
                endless=client % 100000000, **more)


TESTS = ('tag_lat', 'tag_bw', 'ucp_put_lat', 'ucp_put_bw', 'ucp_get', 'ucp_am_lat', 'ucp_am_bw', 'ucp_add', 'ucp_fadd', 'ucp_swap',
         'ucp_cswap', 'stream_lat', 'stream_bw', 'tag_sync_lat')
IO_DEMO = 'io_demo -p {p} -q -d 100:300000 -o read,write -c 1 -y 0 -i %d {a}'
SHORT = ('tag_lat', 'ucp_put_lat', 'ucp_get', 'ucp_cswap')


def cases():
    return [
        perftest(tls, test, how=SENDER_STAYS if test == 'tag_bw' else BOTH, short=BOTH if test == 'tag_lat' else ('clean',) if test in SHORT else ())
        for tls in ('rc_v', 'ud_v') for test in TESTS
    ] + [
        perftest('rc_v', 'tag_bw -s 1048576', 200, how=BOTH),
        perftest('ud_v', 'tag_bw -s 1048576', 20, how=BOTH),  # UCX's own retransmissions take 0.2 s each
        perftest('all', 'tag_lat'),
        # No variable is set. It connects by rdma_cm, and compares what it gets.
        Case('io_demo', IO_DEMO % 500, 'io_demo -p {p} -q -d 100:300000', "exit with status 'OK'", 'rdma',
             how=BOTH + TWO_NODES, short=BOTH, stays=True),
    ]


@functools.cache
def unseen():
    """Why UCX does not see our device, or None."""
    with rig.World(30) as world:
        status, said = world.run('ucx_info -d', 'ucx_info')
    if status == 0 and 'Transport: rc_verbs' in said and 'Transport: ud_verbs' in said:
        return None
    return 'UCX takes a device that /dev/infiniband has a node for, and there is none'


def run(report, family, everything):
    why = unseen()
    if why:
        report.missing(family + ': rc_verbs, ud_verbs', why)
        return
    report.result(family + ': ucx_info -d', None)
    for case in cases():
        for how in case.how:
            if everything or how in case.short:
                rig.run_case(report, family, case, how)
