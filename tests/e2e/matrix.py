# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What runs end to end: data only. run.py runs it.

In commands: {a} is the server's address on the link, {b} the client's, {m} a multicast group, {p} a free TCP port, {n} the number of
iterations. The server runs as node A, the client as node B (ci/two-node).
"""
from collections import namedtuple

import perftest

# name      of the case; families: any of '4', '6' and 'm', IPv4 as an IPv6 address
# client_re must be found in the client's output, as often as count says (0: at least once)
# needs     programs that must be installed
Case = namedtuple('Case', 'name server client families client_re count server_re options')


def case(name, server, client, families='4', client_re='', count=0, server_re='', options=()):
    return Case(name, server, client, families, client_re, count, server_re, options)


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
    case('mckey-no-loopback', 'mckey -l -m {m} -b {a}', 'mckey -l -m {m} -s -b {b}', '46',
         client_re=r'return status 0', server_re=r'return status 0'),
    case('mckey-ipoib', 'mckey -p 0x0002 -m {m} -b {a}', 'mckey -p 0x0002 -m {m} -s -b {b}',
         client_re=r'return status 0', server_re=r'return status 0'),
    case('rping-P', 'rping -s -P -a {a} -p {p} -v', 'rping -c -a {a} -p {p} -V -v -C {n}', '46', options=('--end-server',),
         client_re=r'ping data: rdma-ping-', count='n', server_re=r'server ping data: rdma-ping-'),
    case('rping-d', 'rping -s -d -a {a} -p {p} -V -C 5', 'rping -c -d -a {a} -p {p} -V -C 5', '46',
         client_re=r'RDMA_CM_EVENT_ESTABLISHED', server_re=r'RDMA_CM_EVENT_DISCONNECTED|DISCONNECT EVENT'),
    # Link-local addresses; the scope is the kernel's word for an interface that we do not have, and chooses nothing.
    case('rping-scope', 'rping -s -a fe80::a%lo -V -v -C {n}', 'rping -c -a fe80::a%lo -V -v -C {n}',
         options=('--opt-a', '--ip fe80::a/64', '--opt-b', '--ip fe80::b/64'),
         client_re=r'ping data: rdma-ping-', count='n', server_re=r'server ping data: rdma-ping-'),
    case('cmtime', 'cmtime -b {a}', 'cmtime -s {a} -c 1000', client_re=r'disconnect', options=('--end-server',)),
]

# ucmatose and udaddy: many connections, ids that move to another channel, TOS, other port spaces, addresses as GIDs.
for name, options, families in (('1000', '-c 1000 -C 2', '4'), ('migrate', '-m', '46'), ('tos', '-t 104', '46'),
                                ('ib', '-P ib', '46'), ('gid', '-P ib -f gid', 'm6')):
    CASES.append(case('ucmatose-' + name, 'ucmatose %s -b {a}' % options, 'ucmatose %s -s {a}' % options, families,
                      client_re=r'return status 0', server_re=r'return status 0'))
for name, options in (('', ''), ('-100', ' -c 100'), ('-tos', ' -t 104'), ('-ipoib', ' -P ipoib')):
    CASES.append(case('udaddy' + name, 'udaddy -b {a}' + options, 'udaddy -s {a}' + options, '46',
                      client_re=r'return status 0', server_re=r'return status 0'))

# rsockets: by poll, by calls that wait, by ones that do not; memory that is mapped; names that rdma_cm looks up.
for name, options in (('a', '-T a -T v'), ('b', '-T b -T v'), ('n', '-T n -T v'), ('r', '-T r -S 65536')):
    CASES.append(case('rstream-' + name, 'rstream -b {a} -p {p} -I 20 -C 50 ' + options,
                      'rstream -s {a} -p {p} -I 20 -C 50 ' + options, '46', client_re=r'custom', server_re=r'custom'))
CASES.append(case('riostream', 'riostream -b {a} -p {p} -T v -I 20 -C 50', 'riostream -s {a} -p {p} -T v -I 20 -C 50', '46',
                  client_re=r'custom', server_re=r'custom'))

for op in ('send', 'write', 'read'):
    for kind, figures in (('bw', 1), ('lat', 1)):
        prog = 'ib_%s_%s' % (op, kind)
        for cm, target, suffix in (('', '127.0.0.1', ''), (' -R', '{a}', '-R')):
            CASES.append(case('%s%s' % (prog, suffix),
                              '%s -d urxe0 -p {p} -a -n {it}%s' % (prog, cm),
                              '%s -d urxe0 -p {p} -a -n {it}%s %s' % (prog, cm, target),
                              client_re=perftest.ROW, count=23))

# Other transports: the basic ones of ibverbs-utils.
for name, prog in (('uc_pingpong', 'ibv_uc_pingpong -c'), ('ud_pingpong', 'ibv_ud_pingpong -c'),
                   ('srq_pingpong', 'ibv_srq_pingpong -c'), ('srq_pingpong-e', 'ibv_srq_pingpong -c -e'),
                   ('xsrq_pingpong', 'ibv_xsrq_pingpong'), ('xsrq_pingpong-e', 'ibv_xsrq_pingpong -e')):
    line = prog + ' -d urxe0 -g 0 -p {p} -n {it}'
    CASES.append(case(name, line, line + ' 127.0.0.1', client_re=r'iters in|success', count=1,
                      server_re=r'iters in|success'))
# Their options, of which `ci/test` takes PINGPONG_CI. Not `-t -e`: it takes an event with an empty CQ for an error, and a completion
# that comes after the CQ was armed and is polled at once leaves such an event, on every device.
PINGPONG = {
    'rc': ('-s 100000 -c', '-s 1', '-m 512', '-r 1', '-l 3', '-o -c', '-O -c', '-P -o', '-t', '-j -c', '-N',
           '-N -c -e'),
    'uc': ('-c -e', '-s 100000', '-m 256', '-l 1'),
    'ud': ('-c -e', '-s 1', '-l 1'),
    'srq': ('-q 1', '-q 64', '-s 20000', '-o -c', '-m 512', '-r 20', '-l 1'),
    'xsrq': ('-s 20000', '-o', '-m 256', '-n 100', '-l 1'),
}
PINGPONG_CI = ['rc_pingpong -O -c', 'rc_pingpong -t', 'rc_pingpong -j -c', 'rc_pingpong -N -c -e',
               'uc_pingpong -c -e', 'ud_pingpong -c -e', 'srq_pingpong -q 64']
EXTRA = []
for name, options in PINGPONG.items():
    for option in options:
        # UD's own size is 2048, more than one of the MTUs
        line = 'ibv_%s_pingpong -d urxe0 -g 0 -p {p} -n {pn} %s%s' % (
            name, option, ' -s 1024' if name == 'ud' and '-s' not in option else '')
        EXTRA.append(case('%s_pingpong %s' % (name, option), line, line + ' 127.0.0.1', client_re=r'iters in|success',
                          count=1, server_re=r'iters in|success'))
for name, line, count in perftest.rows():
    EXTRA.append(case('perftest ' + name, line, line + (' {a}' if {'-R', '-z'} & set(line.split()) else ' 127.0.0.1'),
                      client_re=perftest.ROW, count=count))
for name, server, client in perftest.raw_rows():
    EXTRA.append(case(name, server, client, client_re=perftest.ROW, count=1,
                      options=('--client-first', '--opt-a', '--mac ' + perftest.MACS[0],
                               '--opt-b', '--mac ' + perftest.MACS[1])))
EXTRA.append(case('raw_ethernet_fs_rate', 'exec sleep 60',
                  'raw_ethernet_fs_rate -d urxe0 --server -B %s -E %s -J 10.0.0.1 -j 10.0.0.2 -K 1 -k 2 -n 200' %
                  perftest.MACS, client_re=r'(?m)^ *200 +[\d.]+\s+[\d.]+', count=1, options=('--client-first', '--end-server')))

ALL = [c.name for c in CASES]
MORE = PINGPONG_CI + perftest.RAW_CI + ['raw_ethernet_fs_rate'] + ['perftest ' + name for name in perftest.CI]
OTHER = ['perftest ' + name for name in perftest.CI_OTHER]
# librdmacm's own programs.
RDMA_CM = [n for n in ALL if n.startswith(('rping-', 'ucmatose', 'udaddy', 'mckey', 'cmtime', 'rdma_', 'rstream', 'riostream'))]

# Two nodes on one host's UDP are bound to an address each, and no group reaches such a socket.
ONE_HOST = [n for n in OTHER + RDMA_CM if not n.startswith('mckey') and ' -g' not in n and n != 'rping-scope']

# All sizes: perftest measures the clock anew for each, 7 to 11 s a program.
SIZES = [n for n in ALL if n.startswith('ib_')]

# The bounded selection: (link, MTU, names). Each row becomes a test of meson's, e2e-LINK-MTU.
CI = [
    ('vhost', 1024, [n for n in ALL if n not in SIZES] + MORE + ['ib_send_bw-R', 'ib_write_lat', 'ib_read_bw']),
    ('vhost', 4096, OTHER + ['rping', 'rc_pingpong-c', 'rc_pingpong-e', 'ib_write_bw-R']),
    ('memif', 1024, ['rping', 'ib_write_bw']),
    ('memif', 4096, OTHER + ['rping', 'rc_pingpong-e', 'ib_send_bw-R', 'ucmatose']),
    ('af_packet', 1024, OTHER + ['rping', 'rc_pingpong-c', 'ib_send_bw']),
    ('af_packet', 4096, perftest.RAW_CI + ['rping', 'rc_pingpong-e', 'ib_read_bw-R'] + RDMA_CM),
    ('udp', 1024, ONE_HOST + ['rping', 'rc_pingpong-c', 'ib_send_bw', 'devinfo']),
    ('udp', 4096, ['rping', 'rc_pingpong-e', 'ib_read_bw-R', 'ib_write_bw']),
]
# The same in builds with sanitizers, which take several times as long; without all sizes, of which most of the time is
# perftest's, by its clock. e2e-integrity draws sizes there.
SANITIZED = [
    ('vhost', 1024, ['rping', 'rc_pingpong-c', 'rc_pingpong-e', 'ucmatose', 'rdma_server-client', 'cmtime',
                     'mckey', 'rdma_xserver-xclient-XRC', 'ucmatose-gid', 'udaddy-ipoib', 'rstream-a',
                     'perftest ib_send_bw -c XRC -b -q 4', 'perftest ib_atomic_bw -b -q 4',
                     'perftest ib_send_bw -c UD -g -e', 'raw_ethernet_bw -b']),
    ('memif', 4096, ['rping', 'rc_pingpong-e', 'perftest ib_write_lat']),
    ('af_packet', 4096, ['rping', 'rc_pingpong-c', 'perftest ib_read_bw -R']),
    ('udp', 4096, ['rping', 'rc_pingpong-e', 'perftest ib_read_bw -R']),
]
# A minute's worth, for another release's programs and libraries.
SHORT = [
    ('vhost', 1024, ['devinfo', 'rping', 'rc_pingpong-e', 'ud_pingpong', 'srq_pingpong', 'ucmatose',
                     'rdma_server-client', 'mckey', 'rstream-b', 'perftest ib_atomic_bw -b -q 4']),
    ('memif', 4096, ['rping', 'ib_write_bw-R']),
]
FULL = [(link, mtu, ALL + ([] if link == 'memif' else [c.name for c in EXTRA]))
        for link in ('vhost', 'memif', 'af_packet', 'udp') for mtu in (1024, 4096)]

# Iterations: n of message tests, it of perftest with -a (per size, up to 8 MiB), pn with one size; few:
# of the -a of its whole matrix.
ITERATIONS = {
    'full': {'n': 1000, 'it': 100, 'pn': 500, 'few': 10},
    'ci': {'n': 1000, 'it': 10, 'pn': 200, 'few': 5},
    'ci-sanitized': {'n': 100, 'it': 5, 'pn': 50, 'few': 5},
}
