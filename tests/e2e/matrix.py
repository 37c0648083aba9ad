# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What runs end to end: data only. run.py runs it.

In commands: {a} is the server's address on the link, {b} the client's, {m} a multicast group, {p} a free TCP port, {n} the number of
iterations. The server runs as node A, the client as node B (ci/two-node).
"""
from collections import namedtuple

# name      of the case; families: '4', '6' or '46'
# client_re must be found in the client's output, as often as count says (0: at least once)
# needs     programs that must be installed
Case = namedtuple('Case', 'name server client families client_re count server_re options')


def case(name, server, client, families='4', client_re='', count=0, server_re='', options=()):
    return Case(name, server, client, families, client_re, count, server_re, options)


# Row of a perftest table: bytes, iterations, and at least three figures.
ROW = r'(?m)^ *\d+ +\d+ +[\d.]+ +[\d.]+\s+[\d.]+'

CASES = [
    case('devinfo', 'exec sleep 60', 'ibv_devinfo -v', client_re=r'GID\[ *0\]:\s+::ffff:10\.0\.0\.2, RoCE v2',
         options=('--client-first', '--end-server')),
    case('rping', 'rping -s -a {a} -V -v -C {n}', 'rping -c -a {a} -V -v -C {n}', '46',
         client_re=r'ping data: rdma-ping-', count='n', server_re=r'server ping data: rdma-ping-'),
    case('rc_pingpong-c', 'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -n {n}',
         'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -n {n} 127.0.0.1', client_re=r'iters in', count=1,
         server_re=r'iters in'),
    case('rc_pingpong-e', 'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -e -n {n}',
         'ibv_rc_pingpong -d urxe0 -g 0 -p {p} -c -e -n {n} 127.0.0.1', client_re=r'iters in', count=1,
         server_re=r'iters in'),
    case('ucmatose', 'ucmatose -b {a} -C 100', 'ucmatose -s {a} -C 100', '46',
         client_re=r'return status 0', server_re=r'return status 0'),
    case('rdma_server-client', 'rdma_server -s {a} -p {p}', 'rdma_client -s {a} -p {p}', '46',
         client_re=r'rdma_client: end 0', server_re=r'rdma_server: end 0'),
    # The server binds to the IPv4 wildcard.
    case('rdma_xserver-xclient', 'rdma_xserver -p {p}', 'rdma_xclient -s {a} -p {p}',
         client_re=r'rdma_xclient: end 0', server_re=r'rdma_xserver: end 0'),
    case('rdma_xserver-xclient-XRC', 'rdma_xserver -p {p} -c x', 'rdma_xclient -s {a} -p {p} -c x',
         client_re=r'rdma_xclient: end 0', server_re=r'rdma_xserver: end 0'),
    case('mckey', 'mckey -m {m} -b {a}', 'mckey -m {m} -s -b {b}', '46',
         client_re=r'return status 0', server_re=r'return status 0'),
    case('mckey-send-only', 'mckey -m {m} -b {a}', 'mckey -m {m} -s -o -b {b}', '46',
         client_re=r'return status 0', server_re=r'return status 0'),
    case('cmtime', 'cmtime', 'cmtime -s {a} -c 50', client_re=r'disconnect', options=('--end-server',)),
]

for op in ('send', 'write', 'read'):
    for kind, figures in (('bw', 1), ('lat', 1)):
        prog = 'ib_%s_%s' % (op, kind)
        for cm, target, suffix in (('', '127.0.0.1', ''), (' -R', '{a}', '-R')):
            CASES.append(case('%s%s' % (prog, suffix),
                              '%s -d urxe0 -p {p} -a -n {it}%s' % (prog, cm),
                              '%s -d urxe0 -p {p} -a -n {it}%s %s' % (prog, cm, target),
                              client_re=ROW, count=23))

# Other transports: basic ones of ibverbs-utils, and one size of perftest's each.
GROUP = '-M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:1'
for name, prog in (('uc_pingpong', 'ibv_uc_pingpong -c'), ('ud_pingpong', 'ibv_ud_pingpong -c'),
                   ('srq_pingpong', 'ibv_srq_pingpong -c'), ('srq_pingpong-e', 'ibv_srq_pingpong -c -e'),
                   ('xsrq_pingpong', 'ibv_xsrq_pingpong'), ('xsrq_pingpong-e', 'ibv_xsrq_pingpong -e')):
    line = prog + ' -d urxe0 -g 0 -p {p} -n {it}'
    CASES.append(case(name, line, line + ' 127.0.0.1', client_re=r'iters in|success', count=1,
                      server_re=r'iters in|success'))
for name, prog in (('XRC-send', 'ib_send_bw -c XRC -b -q 4'), ('XRC-write', 'ib_write_bw -c XRC'),
                   ('XRC-read', 'ib_read_lat -c XRC'), ('XRC-atomic', 'ib_atomic_bw -c XRC'),
                   ('UC-write', 'ib_write_bw -c UC'), ('UD-send', 'ib_send_lat -c UD -s 512'),
                   ('UD-multicast', 'ib_send_lat -c UD -g -s 512 ' + GROUP)):
    line = prog + ' -d urxe0 -x 0 -p {p} -n 1000'
    CASES.append(case(name, line, line + ' 127.0.0.1', client_re=ROW, count=1))

ALL = [c.name for c in CASES]

# The bounded selection: (link, MTU, names). Each row becomes a test of meson's, e2e-LINK-MTU.
CI = [
    ('vhost', 1024, ALL),
    ('vhost', 4096, ['rping', 'rc_pingpong-c', 'rc_pingpong-e', 'ib_send_bw', 'ib_write_bw-R', 'ib_read_bw']),
    ('memif', 1024, ['rping', 'ib_write_bw', 'ib_read_lat']),
    ('memif', 4096, ['rping', 'rc_pingpong-e', 'ib_send_bw-R', 'ib_write_bw', 'ib_read_bw', 'ucmatose']),
    ('af_packet', 1024, ['rping', 'rc_pingpong-c', 'ib_send_lat', 'ib_write_bw', 'ib_read_bw-R']),
    ('af_packet', 4096, ['rping', 'rc_pingpong-e', 'ib_send_bw', 'ib_write_lat-R', 'rdma_server-client']),
]
# The same in builds with sanitizers, which take several times as long.
SANITIZED = [
    ('vhost', 1024, ['rping', 'rc_pingpong-c', 'rc_pingpong-e', 'ucmatose', 'rdma_server-client', 'cmtime',
                     'ib_send_bw', 'ib_write_lat-R', 'ib_read_bw-R']),
    ('memif', 4096, ['rping', 'rc_pingpong-e', 'ib_write_bw']),
    ('af_packet', 4096, ['rping', 'rc_pingpong-c', 'ib_send_bw-R']),
]
FULL = [(link, mtu, ALL) for link in ('vhost', 'memif', 'af_packet') for mtu in (1024, 4096)]

# Iterations: n of message tests, it of perftest (per size, up to 8 MiB).
ITERATIONS = {
    'full': {'n': 1000, 'it': 1000},
    'ci': {'n': 1000, 'it': 10},
    'ci-sanitized': {'n': 100, 'it': 5},
}
