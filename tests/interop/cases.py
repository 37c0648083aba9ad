# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What runs between urxe and the kernel: data. run.py runs each case with urxe as server (u) and as
client (c); special.py has what is no pair of commands.

In commands, of the side that runs them: {d} device, {g} GID index, {n} iterations; of the server:
{a} address, {t} address for TCP (IPv4: the pingpongs' servers listen on that alone).
"""
from collections import namedtuple

# families  '4', '6', '46'
# ready     how one sees that the server listens: 'cm' (rdma_listen), 'tcp'
# client_re must be in the client's output, at least `count` times; server_re in the server's
# endless   the server does not end by itself
# options   of `urxe run`
# l3        MTU of the link
# skip      role of urxe ('s', 'c') in which the case says nothing
# leaves    the side that is done first leaves at once, and with it what the other still lacks when a frame
#           was lost: that one may fail, and the kernel's never ends
Case = namedtuple('Case', 'name server client families ready client_re count server_re endless '
                  'options l3 seconds skip leaves')


def case(name, server, client, families='4', ready='cm', client_re='', count=1, server_re='',
         endless=False, options=(), l3=1500, seconds=40, skip='', leaves=False):
    return Case(name, server, client, families, ready, client_re, count, server_re, endless,
                tuple(options), l3, seconds, skip, leaves)


def both(name, command, families='4', **more):
    """Server and client take the same command, the client the server's address behind it."""
    return case(name, command, command + more.pop('target', ' {t}'), families, **more)


def rping(args, n, **more):
    more.setdefault('families', '46')
    return case('rping ' + args, 'rping -s -a {a} %s -C %d' % (args, n),
                'rping -c -a {a} %s -C %d' % (args, n), **more)


# A row of a table of perftest's; on a machine that is busy it takes the clock's rate for 0.
ROW = r'(?m)^ *\d+ +\d+ +([\d.]+|inf) +([\d.]+|inf)\s+([\d.]+|inf)'
PING = dict(client_re=r'ping data: rdma-ping-', server_re=r'server ping data: rdma-ping-')

CASES = [
    rping('-V -v', 50, count=50, **PING),
    rping('-v -S 64', 3, count=3, families='4', **PING),
    rping('-V -S 1000', 10, families='4'),
    rping('-V -S 5001', 10),
    rping('-V -S 65000', 5, families='4'),
    case('rping -P', 'rping -s -P -a {a}',
         'sh -c "for i in 1 2 3; do rping -c -a {a} -V -C 2 || exit 1; done"', endless=True),
    case('ucmatose', 'ucmatose -b {a} -c 1 -C 10 -S 100', 'ucmatose -s {a} -c 1 -C 10 -S 100', '46',
         client_re='return status 0', server_re='return status 0'),
    case('ucmatose -c 10', 'ucmatose -b {a} -c 10 -C 10 -S 3000', 'ucmatose -s {a} -c 10 -C 10 -S 3000',
         client_re='return status 0', server_re='return status 0'),
    case('ucmatose -m', 'ucmatose -b {a} -c 2 -C 4 -m', 'ucmatose -s {a} -c 2 -C 4 -m',
         client_re='return status 0', server_re='return status 0'),
    case('ucmatose -t 96', 'ucmatose -b {a} -c 1 -C 4', 'ucmatose -s {a} -c 1 -C 4 -t 96',
         client_re='return status 0', server_re='return status 0'),
    case('udaddy', 'udaddy -b {a} -c 1 -C 10 -S 100', 'udaddy -s {a} -c 1 -C 10 -S 100', '46',
         client_re='return status 0', server_re='return status 0'),
    case('udaddy -c 5', 'udaddy -b {a} -c 5 -C 3 -S 900', 'udaddy -s {a} -c 5 -C 3 -S 900',
         client_re='return status 0', server_re='return status 0'),
    case('rdma_server', 'rdma_server -s {a}', 'rdma_client -s {a}', '46', client_re='end 0',
         server_re='end 0'),
    case('cmtime', 'cmtime -b {a} -c 20', 'cmtime -s {a} -c 20', client_re='disconnect', endless=True),
    # rsockets: ours, and those of rdma-core. Not rstream -T a: as the client of a server that closes at once, rdma-core's
    # rpoll() may say POLLHUP while bytes are there, which ends rstream.
    case('rstream -T b', 'rstream -b {a} -T b -T v -I 5 -C 20', 'rstream -s {a} -T b -T v -I 5 -C 20', '46', client_re='custom',
         server_re='custom'),
    case('riostream', 'riostream -b {a} -T v -I 5 -C 20', 'riostream -s {a} -T v -I 5 -C 20', client_re='custom', server_re='custom'),
]

for kind, size in (('rc', 3000), ('uc', 3000), ('ud', 512)):
    CASES.append(both('ibv_%s_pingpong' % kind,
                      'ibv_%s_pingpong -d {d} -g {g} -n 50 -s %d' % (kind, size), '46', ready='tcp',
                      client_re='50 iters in', server_re='50 iters in'))
CASES += [
    both('ibv_rc_pingpong -e', 'ibv_rc_pingpong -e -d {d} -g {g} -n 50', ready='tcp',
         client_re='50 iters in', server_re='50 iters in'),
    both('ibv_srq_pingpong', 'ibv_srq_pingpong -d {d} -g {g} -n 50 -q 4 -s 2000', ready='tcp',
         client_re='50 iters in', server_re='50 iters in'),
]

for op in ('write', 'read', 'send', 'atomic'):
    for cm, target in (('', ' {t}'), (' -R', ' {a}')):
        size = '' if op == 'atomic' else ' -s 8192'
        CASES.append(both('ib_%s_bw%s' % (op, cm),
                          'ib_%s_bw -F -d {d} -x {g} -n 20%s%s' % (op, size, cm),
                          '4' if cm else '46', target=target, ready='cm' if cm else 'tcp', client_re=ROW))
CASES += [
    both('ib_atomic_bw -A CMP_AND_SWAP', 'ib_atomic_bw -F -d {d} -x {g} -n 20 -A CMP_AND_SWAP',
         ready='tcp', client_re=ROW),
    both('ib_send_bw -c UD', 'ib_send_bw -c UD -F -d {d} -x {g} -n 20 -s 1024', ready='tcp',
         client_re=ROW),
    both('ib_send_bw -c UC', 'ib_send_bw -c UC -F -d {d} -x {g} -n 20 -s 8192', ready='tcp',
         client_re=ROW),
    both('ib_write_bw -c UC', 'ib_write_bw -c UC -F -d {d} -x {g} -n 20 -s 8192', ready='tcp',
         client_re=ROW),
    both('ib_write_bw -q 4 -b', 'ib_write_bw -q 4 -b -F -d {d} -x {g} -n 20 -s 8192', ready='tcp',
         client_re=ROW),
    both('ib_send_lat -I 64', 'ib_send_lat -I 64 -F -d {d} -x {g} -n 50 -s 16', ready='tcp',
         client_re=ROW),
    both('ib_read_lat', 'ib_read_lat -F -d {d} -x {g} -n 50 -s 2500', ready='tcp', client_re=ROW),
]

for name in ('send imm zero write write-imm read fadd flush bad-rkey bad-read long-send rnr slow '
             'server-disconnects both-disconnect client-exits server-exits reject').split():
    CASES.append(case('peer ' + name, '{peer} s {a} ' + name, '{peer} c {a} ' + name,
                      '46' if name in ('send', 'reject') else '4',
                      skip='c' if name == 'long-send' else ''))
CASES.append(case('peer long-send-rxe', '{peer} s {a} long-send-rxe', '{peer} c {a} long-send-rxe',
                  skip='s'))

JUMBO = [
    rping('-V -S 9000', 10, families='46', l3=4500),
    both('ib_write_bw -R', 'ib_write_bw -R -F -d {d} -n 20 -s 16384', target=' {a}', client_re=ROW,
         l3=4500),
    both('ib_read_bw', 'ib_read_bw -F -d {d} -x {g} -n 20 -s 16384', ready='tcp', client_re=ROW,
         l3=4500),
    both('ib_send_bw', 'ib_send_bw -F -d {d} -x {g} -n 20 -s 16384', ready='tcp', client_re=ROW,
         l3=4500),
    both('ibv_ud_pingpong', 'ibv_ud_pingpong -d {d} -g {g} -n 20 -s 4096', ready='tcp',
         client_re='20 iters in', l3=4500),
]

LOSS = ('--drop', '0.02', '--seed', '7')
LOSSY = [
    rping('-V -S 5001', 30, families='4', options=LOSS),
    both('ib_write_bw', 'ib_write_bw -F -d {d} -x {g} -n 100 -s 8192', ready='tcp', client_re=ROW,
         options=LOSS, seconds=60),
    both('ib_read_bw', 'ib_read_bw -F -d {d} -x {g} -n 100 -s 8192', ready='tcp', client_re=ROW,
         options=LOSS, seconds=60),
    both('ib_send_bw -R', 'ib_send_bw -R -F -d {d} -n 100 -s 8192', target=' {a}', client_re=ROW,
         options=LOSS, seconds=60),
    both('ib_atomic_bw', 'ib_atomic_bw -F -d {d} -x {g} -n 100', ready='tcp', client_re=ROW,
         options=LOSS, seconds=60),
    # provider/quirks.md: ack-in-resend, retry-7
    both('ibv_rc_pingpong', 'ibv_rc_pingpong -d {d} -g {g} -n 300 -s 9000', ready='tcp',
         client_re='300 iters in', server_re='300 iters in', options=LOSS, seconds=120, leaves=True),
    case('ucmatose -c 10', 'ucmatose -b {a} -c 10 -C 10 -S 100', 'ucmatose -s {a} -c 10 -C 10 -S 100',
         client_re='return status 0', server_re='return status 0', options=LOSS),
]

LOSS1 = ('--drop', '0.01', '--seed', '7')
LOSSY_WIRE = [
    both('ibv_%s_pingpong' % kind, 'ibv_%s_pingpong -d {d} -g {g} -n 1000' % kind, ready='tcp',
         client_re='1000 iters in', server_re='1000 iters in', options=LOSS1, seconds=60, leaves=True)
    for kind in ('rc', 'srq')
]
