# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ci/bench: the bare link, urxe and the kernel's TCP in one run; medians, ratios, aims."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import typing

sys.dont_write_bytecode = True
import figures  # noqa: E402
import layers  # noqa: E402
import node  # noqa: E402

MTU = 4096
LISTED = 16  # work requests in a list

# Processes on a fabric, each of which writes to its partner, or to all others: name, title, tests/bench/crowd.c's arguments
CROWDS = [('%s_%d_%d' % (how, size, n), '%s%d processes%s, %s WRITEs' % (
    '' if n == 2 else '  ', n, '' if n == 2 else ' in pairs' if how == 'pairs' else ', all to all', text), how, n, size)
          for size, text in ((64, '64 B'), (65536, '64 KiB')) for how in ('pairs', 'all')
          for n in ((2, 4, 8, 32) if how == 'pairs' else (4, 8, 32))]

# Each round measures all of these once, so that what the machine does meanwhile meets all alike.
MEASURES = [
    ('bare', None, None),
    ('write_lat', 'us', lambda: figures.latency('ib_write_lat', 2, MTU)),
    ('send_rate', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, 500000)),
    ('send_listed', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, LISTED * 32000, listed=LISTED)),
    ('write_bw', 'Gb/s', lambda: figures.bandwidth('ib_write_bw', 65536, MTU, 20000)),
    ('read_bw', 'Gb/s', lambda: figures.bandwidth('ib_read_bw', 65536, MTU, 20000)),
    ('pinned', None, None),
    ('start_qp', 'ms', lambda: figures.start('net_vhost0,iface=', 'qp')),
    ('start_mr', 'ms', lambda: figures.start('fabric,dir=', 'mr', 1024)),
    ('faulty_write', None, None),
    ('faulty_read', None, None),
    ('faulty_send', None, None),
    ('loss_tail', 'us', lambda: figures.tail('ib_send_lat', 64, MTU, '--drop 0.001')),
    ('pings', '/s', lambda: figures.pings(MTU)),
    ('pings_packet', '/s', lambda: figures.pings(MTU, 'af_packet')),
    ('packet_lat', 'us', lambda: figures.latency('ib_write_lat', 2, MTU, link='af_packet')),
    ('packet_rate', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, 200000, 'af_packet')),
    ('packet_bw', 'Gb/s', lambda: figures.bandwidth('ib_write_bw', 65536, MTU, 10000, 'af_packet')),
    ('packet_bw_1024', 'Gb/s', lambda: figures.bandwidth('ib_write_bw', 65536, 1024, 10000, 'af_packet')),
    ('memif_bare', None, None),
    ('memif_lat', 'us', lambda: figures.latency('ib_write_lat', 2, MTU, link='memif')),
    ('memif_rate', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, 500000, 'memif')),
    ('block', None, None),
    ('fab_block', None, None),
    ('threads', None, None),
    ('fab_threads', None, None),
    ('many', None, None),
    ('many_single', None, None),
    ('fab_many_qps', None, None),
    ('fab_many_single', None, None),
    ('watched', None, None),
    ('watched_short', None, None),
    ('fab_watched', None, None),
    ('fab_watched_short', None, None),
    ('conn', None, None),
    ('qp_memory', 'KiB', lambda: figures.qp_memory(MTU)),
    ('tcp_lat', 'us', lambda: figures.tcp('lat')),
    ('tcp_spin', 'us', lambda: figures.tcp('spin')),
    ('tcp_bw', 'Gb/s', lambda: figures.tcp('bw')),
    ('udp', None, None),
    ('gateway', None, None),
    ('ucx_lat', 'us', lambda: figures.ucx('ucp_put_lat', 8, 50000)),
    ('ucx_rate', 'M/s', lambda: figures.ucx('tag_bw', 64, 500000)),
    ('ucx_bw', 'Gb/s', lambda: figures.ucx('ucp_put_bw', 65536, 50000)),
    ('ofi', None, None),
    ('ring_lat', 'us', lambda: figures.ring('lat', 8, 50000)),
    ('fab_lat', 'us', lambda: figures.latency('ib_write_lat', 2, MTU, link='fabric')),
    ('fab_polled', 'us', lambda: figures.crowd('lat', 30000)),
    ('ring_rate', 'M/s', lambda: figures.ring('rate', 64, 2000000)),
    ('fab_rate', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, 500000, 'fabric')),
    ('fab_listed', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, LISTED * 32000, 'fabric', LISTED)),
    ('ring_bw', 'Gb/s', lambda: figures.ring('bw', 4096, 400000)),
    ('fab_bw', 'Gb/s', lambda: figures.bandwidth('ib_write_bw', 65536, MTU, 20000, 'fabric')),
    ('fab_pinned', None, None),
    ('fab_bare', None, None),
    ('fab_conn', '/s', lambda: figures.conn('-n 10000', r'([\d.]+) a second', MTU, 'fabric')[0]),
    ('fab_many', '/s', lambda: figures.conn('-p 1000 -n 5000', r'([\d.]+) a second', MTU, 'fabric')[0]),
    ('fab_open', 'ms', lambda: figures.crowd('open', 20)),
    ('fab_attach', 'us', lambda: figures.ring('attach', 50)),
    ('fab_claim', 'us', lambda: figures.ring('claim', 50)),
    ('fab_death', 'ms', lambda: figures.ring('death', 20)),
    ('fab_idle', '%', lambda: figures.crowd('idle', 2)),
    *[(name, 'M/s', lambda how=how, n=n, size=size: figures.crowd(how, n, size, 1))
      for name, _, how, n, size in CROWDS],
]
FAULTS = (('drop01', '0.1 % lost', 0.95), ('drop1', '1 % lost', 0.8), ('drop5', '5 % lost', 0.4),
          ('reorder1', '1 % overtaken', 0.95))
FAULTY = [('write', '64 KiB writes'), ('read', '64 KiB reads'), ('send', '64 KiB sends')]


def faulty(kind):
    return (tuple('%s_%s' % (kind, f[0]) for f in FAULTS),
            lambda: figures.faulty(kind, MTU))


def blocking(prefix, link):
    return ((prefix + '_lat', prefix + '_slow', prefix + '_cpu'),
            lambda: (figures.blocking(MTU, link)[0], *figures.blocking(MTU, link, 1000, 1000)))


THREADS = (2, 4, 8)


def threads(prefix, link):
    return ((prefix + '_1', *('%s_%d' % (prefix, n) for n in THREADS)),
            lambda: figures.threads(MTU, link, (1, *THREADS)))


# (name, link, where, messages of a QP at a time)
MANY = (('many', 'vhost', '', 16), ('many_single', 'vhost', '', 1),
        ('fab_many_qps', 'fabric', 'fabric, ', 16), ('fab_many_single', 'fabric', 'fabric, ', 1))
QPS = ((10000, 0.9), (60000, 0.8))


def many(name, link, batch):
    return ((name + '_1', *('%s_%d' % (name, n) for n, _ in QPS)),
            lambda: figures.many(MTU, link, (1, *(n for n, _ in QPS)), batch))


PINNED = ('write', 'read', 'send')


def pinned(prefix, link):
    return ((*('%s_%s%s' % (prefix, kind, of) for kind in PINNED for of in ('', '_ratio')), prefix + '_lat'),
            lambda: (*(n for kind in PINNED for n in figures.pinned('ib_%s_bw' % kind, MTU, link)),
                     figures.pinned_lat('ib_read_lat', 2, MTU, link)))


# (name, link, where, size, in words, how often)
WATCHED = (('watched', 'vhost', '', 1 << 20, '1 MiB', 1000), ('watched_short', 'vhost', '', 1 << 16, '64 KiB', 3000),
           ('fab_watched', 'fabric', 'fabric, ', 1 << 20, '1 MiB', 1000),
           ('fab_watched_short', 'fabric', 'fabric, ', 1 << 16, '64 KiB', 3000))


def watched(name, link, size, iters):
    return ((name + '_lat', name + '_ratio'), lambda: figures.watched(link, MTU, size, iters))


GROUPS = {
    'ofi': (('ofi_lat', 'ofi_bw'), lambda: (figures.libfabric(64, 50000)[0], figures.libfabric(65536, 10000)[1])),
    'udp': (('udp_lat', 'udp_bare_lat', 'udp_bw_1024', 'udp_tcp_1024', 'udp_bw_4096', 'udp_tcp_4096'), figures.udp),
    'gateway': (('gateway_lat', 'gateway_bw'), lambda: figures.gateway(MTU)),
    'memif_bare': (('memif_bare_lat', 'memif_bare_rate'),
                   lambda: figures.bare(['lat 8 20000', 'rate 64 2000000'], MTU, 'memif')),
    'block': blocking('block', 'vhost'),
    'fab_block': blocking('fab_block', 'fabric'),
    'threads': threads('threads', 'vhost'),
    'fab_threads': threads('fab_threads', 'fabric'),
    **{name: many(name, link, batch) for name, link, _, batch in MANY},
    'pinned': pinned('pinned', 'vhost'),
    'fab_pinned': pinned('fab_pinned', 'fabric'),
    **{name: watched(name, link, size, iters) for name, link, _, size, _, iters in WATCHED},
    'fab_bare': (('fab_bare_lat', 'fab_bare_rate', 'fab_bare_bw'),
                 lambda: figures.bare(['lat 8 20000', 'rate 64 2000000', 'bw 4096 400000'], MTU, 'fabric')),
    **{'faulty_' + kind: faulty(kind) for kind, _ in FAULTY},
    'bare': (('bare_lat', 'bare_rate', 'bare_bw'),
             lambda: figures.bare(['lat 8 20000', 'rate 64 2000000', 'bw 4096 400000'], MTU)),
    'conn': (('conn_rate', 'conn_p50', 'conn_p99', 'conn_cqs', 'many_rate', 'many_p50', 'many_p99',
              'many_client', 'many_server'), lambda: figures.connections(MTU)),
}

ROWS = [
    ('bare_lat', 'bare link, half a round trip', 'us'),
    ('bare_rate', 'bare link, 64 B packets', 'M/s'),
    ('bare_bw', 'bare link, 4 KiB packets', 'Gb/s'),
    ('write_lat', '2 B write latency (ib_write_lat)', 'us'),
    ('send_rate', '64 B sends (ib_send_bw -s 64)', 'M/s'),
    ('send_listed', 'the same, %d in a list (-l %d)' % (LISTED, LISTED), 'M/s'),
    ('write_bw', '64 KiB writes (ib_write_bw)', 'Gb/s'),
    ('read_bw', '64 KiB reads (ib_read_bw)', 'Gb/s'),
    *[('%s_%s' % (kind, name), '%s, %s each way' % (title, what), 'of it')
      for kind, title in FAULTY for name, what, _ in FAULTS],
    *[row for prefix, where in (('pinned', ''), ('fab_pinned', 'fabric, '))
      for row in (*[('%s_%s%s' % (prefix, kind, of), where + title % kind, unit) for kind in PINNED
                    for of, title, unit in (('', '64 KiB %ss, each end on one processor', 'Gb/s'),
                                            ('_ratio', 'of that of %ss by ends that are free to move', 'of it'))],
                  (prefix + '_lat', where + '2 B read latency (ib_read_lat), each end on one processor', 'us'))],
    ('start_qp', 'first ibv_create_qp() of a process', 'ms'),
    ('start_mr', 'ibv_reg_mr() of 1 GiB that is there', 'ms'),
    ('loss_tail', '64 B sends, 0.1 % lost, p99.9 (ib_send_lat)', 'us'),
    ('pings', 'pings of rping, which sleeps for events', '/s'),
    ('pings_packet', 'the same over AF_PACKET', '/s'),
    ('packet_lat', 'AF_PACKET on a veth pair, 2 B write latency', 'us'),
    ('packet_rate', 'the same, 64 B sends', 'M/s'),
    ('packet_bw', 'the same, 64 KiB writes', 'Gb/s'),
    ('packet_bw_1024', 'the same, path MTU 1024', 'Gb/s'),
    ('memif_bare_lat', 'memif, bare link, half a round trip', 'us'),
    ('memif_bare_rate', 'memif, bare link, 64 B packets', 'M/s'),
    ('memif_lat', 'memif, 2 B write latency (ib_write_lat)', 'us'),
    ('memif_rate', 'memif, 64 B sends', 'M/s'),
    *[('%s%s' % (prefix, name), where + title, unit) for prefix, where in (('block', ''), ('fab_block', 'fabric, '))
      for name, title, unit in (('_lat', 'who sleeps for events, half a round trip', 'us'),
                                ('_slow', 'the same 1,000 times a second', 'us'),
                                ('_cpu', 'and its CPU', '%'))],
    *[(name + figure, where + title, unit) for name, _, where, _, size, _ in WATCHED
      for figure, title, unit in (('_lat', size + ' to who watches memory (ib_write_lat)', 'us'),
                                  ('_ratio', 'of that to who polls its CQ (ib_send_lat)', 'x'))],
    *[row for prefix, where in (('threads', ''), ('fab_threads', 'fabric, '))
      for row in ((prefix + '_1', where + '64 B sends of one thread', 'M/s'),
                  *(('%s_%d' % (prefix, n), '%s%d threads of a process, together' % (where, n), 'of one') for n in THREADS))],
    *[row for name, _, where, batch in MANY
      for row in ((name + '_1', '%s64 B writes of one QP, %d at a time' % (where, batch), 'M/s'),
                  *(('%s_%d' % (name, n), '%s%d QPs, each in turn, %d at a time' % (where, n, batch), 'of one') for n, _ in QPS))],
    ('conn_rate', 'connections, one after the other', '/s'),
    ('conn_p50', 'rdma_connect() to ESTABLISHED, p50', 'us'),
    ('conn_p99', 'rdma_connect() to ESTABLISHED, p99', 'us'),
    ('conn_cqs', 'each with CQs and channels of its own', '/s'),
    ('many_rate', 'connections, 1,000 at once', '/s'),
    ('many_p50', 'rdma_connect() to ESTABLISHED, p50', 'us'),
    ('many_p99', 'rdma_connect() to ESTABLISHED, p99', 'us'),
    ('many_client', 'memory per connection, client', 'KiB'),
    ('many_server', 'memory per connection, server', 'KiB'),
    ('qp_memory', 'memory per idle RC QP, 128 + 128 WRs', 'KiB'),
    ('tcp_lat', 'kernel TCP, half a round trip, blocking', 'us'),
    ('tcp_spin', 'kernel TCP, half a round trip, spinning', 'us'),
    ('tcp_bw', 'kernel TCP, 64 KiB writes', 'Gb/s'),
    ('udp_lat', 'udp, 2 B write latency (ib_write_lat)', 'us'),
    ('udp_bare_lat', "the kernel's datagrams, half a round trip, spinning", 'us'),
    ('udp_bw_1024', 'udp, 64 KiB writes, path MTU 1024', 'Gb/s'),
    ('udp_tcp_1024', 'kernel TCP on the same interface', 'Gb/s'),
    ('udp_bw_4096', 'udp, 64 KiB writes, path MTU 4096', 'Gb/s'),
    ('udp_tcp_4096', 'kernel TCP on the same interface', 'Gb/s'),
    ('gateway_lat', 'two fabrics, an urxed each, joined by vhost: 2 B write latency', 'us'),
    ('gateway_bw', 'the same, 64 KiB writes', 'Gb/s'),
    ('ucx_lat', 'UCX over shared memory, 8 B put, half a round trip', 'us'),
    ('ucx_rate', 'UCX over shared memory, 64 B tagged sends', 'M/s'),
    ('ucx_bw', 'UCX over shared memory, 64 KiB puts', 'Gb/s'),
    ('ofi_lat', "libfabric's shm, 64 B, half a round trip", 'us'),
    ('ofi_bw', "libfabric's shm, 64 KiB to and fro", 'Gb/s'),
    ('ring_lat', 'bare ring of the fabric, half a round trip', 'us'),
    ('ring_rate', 'bare ring, 64 B packets', 'M/s'),
    ('ring_bw', 'bare ring, 4 KiB packets', 'Gb/s'),
    ('fab_bare_lat', 'fabric, bare link, half a round trip', 'us'),
    ('fab_bare_rate', 'fabric, bare link, 64 B packets', 'M/s'),
    ('fab_bare_bw', 'fabric, bare link, 4 KiB packets', 'Gb/s'),
    ('fab_lat', 'fabric, 2 B write latency (ib_write_lat)', 'us'),
    ('fab_polled', 'the same by who polls its CQ for the write', 'us'),
    ('fab_rate', 'fabric, 64 B sends', 'M/s'),
    ('fab_listed', 'the same, %d in a list' % LISTED, 'M/s'),
    ('fab_bw', 'fabric, 64 KiB writes', 'Gb/s'),
    *[(name, 'fabric, ' + title.strip() if title[0] != ' ' else title, 'M/s') for name, title, _, _, _ in CROWDS],
    ('fab_conn', 'fabric, connections, one after the other', '/s'),
    ('fab_many', 'fabric, connections, 1,000 at once', '/s'),
    ('fab_open', 'fabric, exec to ibv_open_device()', 'ms'),
    ('fab_attach', 'fabric, attaching a peer', 'us'),
    ('fab_claim', 'fabric, an RDMA port claimed and released', 'us'),
    ('fab_death', 'fabric, kill -9 to the hook of a peer', 'ms'),
    ('fab_idle', 'fabric, CPU of an idle process', '%'),
]

# (what, value, 'at most' or 'at least', aim): from the medians m
AIMS = [
    ('write latency <= 2 x bare link + 0.5 us', 'write_lat', 'at most', lambda m: 2 * m['bare_lat'] + 0.5),
    *[('%s%s >= %s' % (kind, where, what), row, 'at least', lambda m, n=n, of=of: n * m[of])
      for kind, where, row in (('writes', '', 'write_bw'), ('writes', ', each end on one processor', 'pinned_write'),
                               ('reads', '', 'read_bw'), ('reads', ', each end on one processor', 'pinned_read'))
      for what, n, of in (('0.9 x bare link', 0.9, 'bare_bw'), ('2.5 x kernel TCP', 2.5, 'tcp_bw'))],
    ('connections, one after the other >= 50000/s', 'conn_rate', 'at least', lambda m: 50000.0),
    ('connect p99, one after the other <= 1000 us', 'conn_p99', 'at most', lambda m: 1000.0),
    ('first ibv_create_qp() <= 50 ms', 'start_qp', 'at most', lambda m: 50.0),
    ('ibv_reg_mr() of 1 GiB <= 5 ms', 'start_mr', 'at most', lambda m: 5.0),
    ('memory per idle RC QP <= 4 KiB', 'qp_memory', 'at most', lambda m: 4.0),
    *[('%s, %s >= %.2f of lossless' % (title, what, aim), '%s_%s' % (kind, name), 'at least', lambda m, aim=aim: aim)
      for kind, title in FAULTY for name, what, aim in FAULTS],
    ('64 B sends, 0.1 % lost, p99.9 <= 1000 us', 'loss_tail', 'at most', lambda m: 1000.0),
    *[(where + 'who sleeps for events <= 12 us', name + '_lat', 'at most', lambda m: 12.0)
      for where, name in (('', 'block'), ('fabric: ', 'fab_block'))],
    *[(where + 'CPU of who gets 1,000 events a second <= 10 %', name + '_cpu', 'at most', lambda m: 10.0)
      for where, name in (('', 'block'), ('fabric: ', 'fab_block'))],
    *[('%s%d threads of a process >= 0.9 of one' % (where, n), '%s_%d' % (name, n), 'at least', lambda m: 0.9)
      for where, name in (('', 'threads'), ('fabric: ', 'fab_threads')) for n in THREADS],
    *[('%s%d QPs in turn, 16 at a time >= %.1f of one' % (where, n, aim), '%s_%d' % (name, n), 'at least', lambda m, aim=aim: aim)
      for name, _, where, batch in MANY if batch > 1 for n, aim in QPS],
    *[('%s%s to who watches memory <= 1.3 x who polls' % (where, size), name + '_ratio', 'at most', lambda m: 1.3)
      for name, _, where, _, size, _ in WATCHED],
    ('memif: write latency <= vhost', 'memif_lat', 'at most', lambda m: m['write_lat']),
    ('memif: 64 B sends >= vhost', 'memif_rate', 'at least', lambda m: m['send_rate']),
    ('64 B sends >= 5 M/s', 'send_rate', 'at least', lambda m: 5.0),
    ("udp: write latency <= 1.3 x the kernel's datagrams", 'udp_lat', 'at most', lambda m: 1.3 * m['udp_bare_lat']),
    ('udp: 64 KiB writes >= kernel TCP, path MTU 1024', 'udp_bw_1024', 'at least', lambda m: m['udp_tcp_1024']),
    ('udp: 64 KiB writes >= 1.3 x kernel TCP, path MTU 4096', 'udp_bw_4096', 'at least', lambda m: 1.3 * m['udp_tcp_4096']),
    ('fabric: write latency <= 2.8 x bare ring', 'fab_polled', 'at most', lambda m: 2.8 * m['ring_lat']),
    *[('fabric: 64 B sends%s >= 10 M/s' % how, name, 'at least', lambda m: 10.0)
      for name, how in (('fab_rate', ''), ('fab_listed', ', %d in a list' % LISTED))],
    ('fabric: 64 KiB writes >= 3 x kernel TCP', 'fab_bw', 'at least', lambda m: 3 * m['tcp_bw']),
    ('fabric: connections, one after the other >= 50000/s', 'fab_conn', 'at least', lambda m: 50000.0),
    ('fabric: exec to ibv_open_device() <= 5 ms', 'fab_open', 'at most', lambda m: 5.0),
    ('fabric: attaching a peer <= 150 us', 'fab_attach', 'at most', lambda m: 150.0),
    ('fabric: a port claimed <= 1 us', 'fab_claim', 'at most', lambda m: 1.0),
    ('fabric: a death known <= 5 ms', 'fab_death', 'at most', lambda m: 5.0),
    ('fabric: CPU of an idle process <= 0.1 %', 'fab_idle', 'at most', lambda m: 0.1),
    *[('fabric: %s >= 0.7 x 2 processes' % title.strip(), name, 'at least', lambda m, size=size: 0.7 * m['pairs_%d_2' % size])
      for name, title, _, n, size in CROWDS if n > 2],
]
# What a row's ratio is to: the bare link, or ring; of many processes, two.
BESIDE = {'memif_lat': 'memif_bare_lat', 'memif_rate': 'memif_bare_rate',
          'write_lat': 'bare_lat', 'send_rate': 'bare_rate', 'send_listed': 'bare_rate', 'write_bw': 'bare_bw', 'read_bw': 'bare_bw',
          'udp_lat': 'udp_bare_lat', 'udp_bw_1024': 'udp_tcp_1024', 'udp_bw_4096': 'udp_tcp_4096',
          'gateway_lat': 'write_lat', 'gateway_bw': 'write_bw',
          'fab_bare_lat': 'ring_lat', 'fab_bare_rate': 'ring_rate', 'fab_bare_bw': 'ring_bw',
          'fab_lat': 'ring_lat', 'fab_polled': 'ring_lat', 'fab_rate': 'ring_rate', 'fab_listed': 'ring_rate', 'fab_bw': 'ring_bw',
          **{name: 'pairs_%d_2' % size for name, _, _, n, size in CROWDS if n > 2}}


# The machine's mood is a good one where a cache line takes less than FAST ns from one processor to the other, and both
# have WHOLE of the best speed that one was seen to have: their clock goes up and down by a quarter, and beside a busy
# neighbour on the same core one has 0.6.
FAST, WHOLE = 120, 0.7


class Sample(typing.NamedTuple):
    value: float
    moods: tuple  # right before and after


def measure(runs, note):
    """({row: [Sample]}, errors)"""
    samples, errors = {name: [] for name, _, _ in ROWS}, []
    before = None
    for run in range(runs):
        for name, _, fn in MEASURES:
            note('run %d of %d: %s' % (run + 1, runs, name))
            try:
                before = before or figures.mood()
                names, values = (GROUPS[name][0], GROUPS[name][1]()) if name in GROUPS else ([name], [fn()])
                after = figures.mood()
                for key, value in zip(names, values):
                    if value is not None:
                        samples[key].append(Sample(value, (before, after)))
                before = after
            except (ValueError, OSError, subprocess.SubprocessError) as e:
                errors.append('%s, run %d: %s' % (name, run + 1, e))
                before = None
    return samples, errors


def moods_of(samples):
    return [mood for got in samples.values() for sample in got for mood in sample.moods]


def split(samples):
    """({row: figures in the good mood}, {row: the others}), without rows that have none"""
    best = max((mood.speed for mood in moods_of(samples)), default=0)
    both = {}, {}
    for name, got in samples.items():
        for sample in got:
            good = all(m.line < FAST and m.speed >= WHOLE * best for m in sample.moods)
            both[not good].setdefault(name, []).append(sample.value)
    return both


def medians_of(found):
    return {name: statistics.median(values) for name, values in found.items()}


def best_of(samples):
    """{row: median} in the good mood, or of all for a row that never met it"""
    good, others = split(samples)
    return {**medians_of(others), **medians_of(good)}


def in_one_mood(moods, key, fn):
    """(aim, value) in the first of @moods, which are {row: median}, that has all of it; None: none has"""
    for medians in moods:
        try:
            return fn(medians), medians[key]
        except KeyError:
            pass
    return None


def judge(samples):
    """In the good mood, or else in the other; across both where a row met one of them alone"""
    found, moods = [], (*map(medians_of, split(samples)), best_of(samples))
    for what, key, sense, fn in AIMS:
        both = in_one_mood(moods, key, fn)
        if both is None:
            found.append({'aim': what, 'result': 'not measured'})
            continue
        aim, value = both
        good = value <= aim if sense == 'at most' else value >= aim
        found.append({'aim': what, 'value': value, sense: aim, 'result': 'PASS' if good else 'FAIL'})
    return found


def show(samples, medians, aims, errors, runs):
    lines = sorted(m.line for m in moods_of(samples)) or [0]
    speeds = sorted(m.speed for m in moods_of(samples)) or [0]
    print('%d runs; vhost link or fabric, path MTU %d, one process per end, %d CPUs, load %.1f' % (
        runs, MTU, os.cpu_count(), os.getloadavg()[0]))
    print('A cache line goes from one CPU to the other in %.0f..%.0f ns, and the slower CPU makes %.1f..%.1f additions a ns; '
          'fast: medians of samples with less than %d ns and %.1f of the best speed, before and after\n' % (
              lines[0], lines[-1], speeds[0], speeds[-1], FAST, WHOLE))
    halves = split(samples)
    columns = [medians_of(half) for half in halves]
    print('%-48s %10s %4s %10s %4s %-5s %22s  %s' % (
        '', 'fast', 'of', 'slow', 'of', '', 'lowest .. highest', 'of the bare link, the ring, two'))
    for name, title, unit in ROWS:
        if name not in medians:
            print('%-48s %10s' % (title, 'failed' if any(e.startswith(name) for e in errors) else '-'))
            continue
        figures_of, ratios = '', []
        for number, column in enumerate(columns):
            count = len(halves[number].get(name, ()))
            figures_of += ' %10s %4s' % (('%.3g' % column[name], count) if count else ('', ''))
            if count and BESIDE.get(name) in column:
                ratios.append('%.2f' % (column[name] / column[BESIDE[name]]))
        values = [sample.value for sample in samples[name]]
        print('%-48s%s %-5s %10.3g .. %8.3g  %s' % (title, figures_of, unit, min(values), max(values), ', '.join(ratios)))
    print('\n%-64s %10s %18s' % ('aim', 'measured', ''))
    for a in aims:
        bound = ['%s %.2f' % (s, a[s]) for s in ('at most', 'at least') if s in a]
        print('%-64s %10s %18s  %s' % (a['aim'], '%.2f' % a['value'] if 'value' in a else '-', ''.join(bound), a['result']))
    for e in errors:
        print('\nfailed: ' + e)


def profile(wanted):
    """Of the one measure that has a row, or is called so"""
    for name, _, fn in MEASURES:
        names, group = GROUPS.get(name, ((), None))
        if wanted == name or wanted in names:
            break
    else:
        raise ValueError('%s: no such row; there are %s' % (wanted, ' '.join(n for n, _, _ in ROWS)))
    folder = os.path.join(layers.BUILD, 'profile', wanted)
    layers.profile(wanted, group or fn, folder)
    with open(os.path.join(folder, 'report.txt')) as f:
        print(f.read(), end='')


def main():
    p = argparse.ArgumentParser(prog='ci/bench', description='Medians of our figures, the bare link\'s and the '
                                'kernel\'s TCP, beside the aims. Status 0 whatever comes out.')
    p.add_argument('-r', '--runs', type=int, default=5)
    p.add_argument('--json', action='store_true', help='print one JSON object instead of the table')
    p.add_argument('--only', metavar='REGEX', type=node.regex, default='', help='measure what has it in its name alone: fab|ring|tcp_bw')
    p.add_argument('--readme', action='store_true', help="a short table and sizes, into README.md and tests/bench/speed.svg")
    p.add_argument('--profile', metavar='ROW', help='where its processes spend their time, by layer')
    args = p.parse_args()
    if args.runs < 1:
        p.error('-r: found %d, accepted: 1 or more' % args.runs)
    node.end_cleanly()
    if args.profile:
        try:
            profile(args.profile)
        except (ValueError, OSError, subprocess.SubprocessError) as e:
            sys.exit('ci/bench: %s' % e)
        return 0
    if args.readme:
        import bench_readme
        args.only = bench_readme.ONLY
    MEASURES[:] = [m for m in MEASURES if re.search(args.only, m[0])]
    if not MEASURES:
        p.error('--only: nothing is called so: ' + args.only)
    shown = [n for name, _, _ in MEASURES for n in (GROUPS[name][0] if name in GROUPS else [name])]
    ROWS[:] = [r for r in ROWS if r[0] in shown]
    AIMS[:] = [a for a in AIMS if a[1] in shown]
    tty = sys.stderr.isatty()
    samples, errors = measure(args.runs, lambda t: print('\r\033[K' + t, end='', file=sys.stderr) if tty else None)
    if tty:
        print('\r\033[K', end='', file=sys.stderr)
    medians = best_of(samples)
    aims = judge(samples)
    if args.readme:
        bench_readme.write(medians, samples, args.runs)
    elif args.json:
        print(json.dumps({'runs': args.runs, 'mtu': MTU, 'median': medians, 'samples': samples, 'aims': aims,
                          'units': {n: u for n, _, u in ROWS}, 'errors': errors}, indent=1))
    else:
        show(samples, medians, aims, errors, args.runs)
    return 0


if __name__ == '__main__':
    sys.exit(main())
