# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that use verbs and rdma_cm themselves: perftest, rdma-core's examples, qperf."""
import glob
import os
import subprocess
import sys
import time

import fabric
from rig import HOW, TWO_NODES, Case

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
FORKED = os.path.join(TESTS, 'e2e', 'forked.py')
EXAMPLE = '/usr/share/doc/python3-pyverbs/examples/ib_devices.py'

BOTH = ('clean', 'loss')
# A server that only receives is told by nobody that its client has gone: verbs have no word for it.
SENDER_STAYS = ('clean', 'loss', 'server killed')


def perftest(name, options='', **more):
    """A pair of it; where one is killed they run for minutes."""
    command = '%s %s -p {p}' % (name, options)
    count = '' if '-D' in options else ' -n 500'
    return Case(('%s %s' % (name, options)).strip(), command + count + ' {a}', command + count, 'typical|BW average|MsgRate', 'any',
                endless=command + ' -D 600 {a}', endless_server=command + ' -D 600', **more)


PERFTEST = [
    perftest('ib_send_bw', how=SENDER_STAYS + TWO_NODES, short=SENDER_STAYS),
    perftest('ib_write_bw', how=SENDER_STAYS, short=BOTH),
    perftest('ib_read_bw', how=SENDER_STAYS, short=BOTH),
    perftest('ib_atomic_bw', how=BOTH, short=('clean',)),
    perftest('ib_send_lat', how=BOTH, short=('clean',)),
    perftest('ib_write_lat', how=BOTH),
    perftest('ib_read_lat', how=BOTH),
    perftest('ib_atomic_lat', how=BOTH),
    perftest('ib_send_bw', '-R', how=SENDER_STAYS, short=BOTH),
    perftest('ib_write_bw', '-R', how=BOTH + TWO_NODES),
    perftest('ib_send_bw', '-e', how=BOTH),
    perftest('ib_write_bw', '-q 16', how=BOTH),
    perftest('ib_write_bw', '-a', how=('clean',)),
    perftest('ib_send_bw', '-c UD', how=('clean',), short=('clean',)),
    perftest('ib_send_bw', '-c UC', how=('clean',)),
    perftest('ib_send_bw', '-c SRD', how=('clean',), lacks='Unable to create QP', why='SRD is a transport of Amazon\'s adapter'),
    perftest('ib_write_bw', '-D 2', how=BOTH),
    perftest('ib_send_bw', '-b', how=BOTH),
]


def pingpong(name, options=''):
    command = '%s %s -p {p}' % (name, options)
    return Case(('%s %s' % (name, options)).strip(), command + ' -g 0 {a}', command + ' -g 0', 'iters in|success|',
                'tcp', how=BOTH if 'ud' not in name and 'uc' not in name else ('clean',), short=('clean',))


IBVERBS_UTILS = [
    Case('ibv_devices', 'ibv_devices', says='urxe0', short=('clean',)),
    Case('ibv_devinfo', 'ibv_devinfo -v', says='PORT_ACTIVE', short=('clean',)),
    pingpong('ibv_rc_pingpong', '-c'),
    pingpong('ibv_rc_pingpong', '-e'),
    pingpong('ibv_rc_pingpong', '-n 5000 -N'),
    pingpong('ibv_rc_pingpong', '-o'),
    pingpong('ibv_uc_pingpong', '-c'),
    pingpong('ibv_ud_pingpong', '-c'),
    pingpong('ibv_srq_pingpong', '-c'),
    pingpong('ibv_xsrq_pingpong'),
    Case('ibv_rc_pingpong, killed', 'ibv_rc_pingpong -g 0 -n 1000 -p {p} {a}', 'ibv_rc_pingpong -g 0 -n 1000 -p {p}', 'iters in', 'tcp',
         how=HOW[2:], endless='ibv_rc_pingpong -g 0 -n 100000000 -p {p} {a}',
         endless_server='ibv_rc_pingpong -g 0 -n 100000000 -p {p}', survivor='transport retry counter exceeded|Failed status'),
]

RDMACM_UTILS = [
    Case('rping', 'rping -c -a {a} -p {p} -V -C 100', 'rping -s -a {a} -p {p} -V -C 100', ready='rdma', how=HOW, short=HOW,
         endless='rping -c -a {a} -p {p} -V', endless_server='rping -s -a {a} -p {p} -V'),
    Case('rping -q', 'rping -c -q -a {a} -p {p} -V -C 100', 'rping -s -q -a {a} -p {p} -V -C 100', ready='rdma', how=BOTH),
    Case('ucmatose', 'ucmatose -s {a} -p {p} -c 20 -C 100', 'ucmatose -p {p} -c 20 -C 100', 'return status 0', 'rdma', how=BOTH,
         short=('clean',)),
    Case('udaddy', 'udaddy -s {a} -c 20', 'udaddy -c 20', 'return status 0', 'rdma', short=('clean',)),
    Case('cmtime', 'cmtime -s {a} -p {p} -c 200', 'cmtime -p {p} -c 200', 'disconnect', 'rdma', how=BOTH, stays=True),
    Case('rdma_xclient', 'rdma_xclient -s {a} -p {p} -c r', 'rdma_xserver -p {p} -c r', 'end 0', 'rdma'),
    Case('rdma_client', 'rdma_client -s {a} -p {p}', 'rdma_server -p {p}', 'end 0', 'rdma', how=BOTH),
    Case('rstream', 'rstream -s {a} -p {p} -T v -I 100 -C 100', 'rstream -p {p} -T v -I 100 -C 100', 'custom', 'rdma', how=BOTH, short=('clean',)),
    Case('rstream -T n', 'rstream -s {a} -p {p} -T n -I 100 -C 100', 'rstream -p {p} -T n -I 100 -C 100', 'custom', 'rdma', how=BOTH),
    Case('rstream -T b', 'rstream -s {a} -p {p} -T b -I 100 -C 100', 'rstream -p {p} -T b -I 100 -C 100', 'custom', 'rdma', how=BOTH),
    Case('riostream', 'riostream -s {a} -p {p} -T v -I 100 -C 100', 'riostream -p {p} -T v -I 100 -C 100', 'custom', 'rdma', how=BOTH, short=('clean',)),
]

# A program for TCP, whose sockets become rsockets.
PRELOAD = next(iter(glob.glob('/usr/lib/*/rsocket/librspreload.so')), 'librspreload.so')


def iperf3(options, **more):
    command = 'env LD_PRELOAD=' + PRELOAD + ' iperf3 -p {p} '
    return Case('iperf3 ' + options, command + '-c {a} ' + options, command + '-s -1', 'iperf Done', 'rdma', how=BOTH, **more)


IPERF3 = [
    iperf3('-n 100M', short=('clean',)),
    iperf3('-n 50M -P 4'),
    iperf3('-n 50M -R'),
    iperf3('-t 1 --bidir', short=('clean',)),
    iperf3('-n 1M -l 100'),
]

LOSSLESS = ('ud', 'uc')


def qperf(tests, how=BOTH, **more):
    return Case('qperf ' + tests, 'qperf -cm 1 -t 1 -lp {p} {a} ' + tests, 'qperf -lp {p}', tests.split()[0] + ':', 'tcp', stays=True,
                endless='qperf -cm 1 -t 600 -lp {p} {a} rc_bw', how=('clean',) if tests[:2] in LOSSLESS else how, **more)


# Without rdma_cm, which it takes for RC alone.
NO_GRH = {'lacks': 'failed to modify QP to RTR: Invalid argument', 'why': 'it connects UC itself, to a LID and without a GRH, which RoCE cannot have'}
QPERF = [
    qperf('rc_lat rc_bw', SENDER_STAYS + TWO_NODES, short=(*BOTH, 'two nodes')),
    qperf('rc_bi_bw'),
    qperf('uc_lat uc_bw', **NO_GRH),
    qperf('rc_rdma_read_lat rc_rdma_read_bw', BOTH + TWO_NODES, short=('clean',)),
    qperf('rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat', short=('clean',)),
    qperf('uc_rdma_write_lat uc_rdma_write_bw', **NO_GRH),
    qperf('rc_compare_swap_mr rc_fetch_add_mr', short=('clean',)),
    qperf('ver_rc_compare_swap ver_rc_fetch_add'),
    qperf('ud_lat ud_bw', lacks='failed to create address handle', why='it makes an address handle without a GRH, which RoCE cannot have'),
]

PYVERBS = [Case('ib_devices.py', '/usr/bin/python3 ' + EXAMPLE, says='urxe0', short=('clean',))] * os.path.exists(EXAMPLE) + [
    Case('multiprocessing: ' + what, '/usr/bin/python3 %s %s' % (FORKED, what), says='all well', how=BOTH if what != 'save' else ('clean',),
         short=('clean',) if what in ('fork', 'spawn', 'cm-server') else (), env={'PYTHONDONTWRITEBYTECODE': '1'})
    for what in ('fork', 'spawn', 'forkserver', 'tcp-server', 'cm-server', 'save')]


def suite(report, family, everything):
    """rdma-core's own tests in Python, as ci/conformance runs them."""
    title = family + ": rdma-core's tests"
    if not everything or not report.wanted(title):
        return
    start = time.monotonic()
    done = subprocess.run([sys.executable, '-B', TESTS + '/conformance/run.py', '--urxe', fabric.TOOL], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 77:
        report.skip(title, done.stdout.strip())
        return
    report.result(title, 'exit status %d' % done.returncode if done.returncode else None, done.stdout[-4000:], time.monotonic() - start)
