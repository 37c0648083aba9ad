#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The same work by urxe and by the kernel's Soft-RoCE in virtual machines, in one run. Started by
`ci/bench --vm`, in namespaces that end with it. Emulated CPUs: ratios count, not figures."""
import argparse
import os
import re
import statistics
import sys

import run as R
import lab as L
from vm import Failed, image, overlay


BARE_FILES = ('tests/bench/bare', 'netio/libdpdk-archives.so')  # with the library that is its link
BARE = os.path.join(overlay.WHERE, BARE_FILES[0])


def perftest(program, args, column):
    """Measure: a column (from 0) of the last row of perftest's table at the client"""
    command = '%s -F -d {d} -x {g} %s' % (program, args)

    def measure(server, client):
        out = together(server, client, command, command + ' {t}', 'tcp')
        rows = [l.split() for l in out.splitlines() if re.match(r'^ *\d+ +\d+ +[\d.]+', l)]
        if not rows:
            raise Failed('%s: no figures\n%s' % (program, out[-300:]))
        return float(rows[-1][column])
    return measure


def together(server, client, server_cmd, client_cmd, ready, endless=False):
    """The client's output"""
    first = server.start(R.fill(server_cmd, server, server), ready, server.mtu)
    second = client.start(R.fill(client_cmd, client, server), None, client.mtu)
    try:
        status = second.wait(120)
        if not status and not endless:
            first.wait(20)
    finally:
        said, out = first.end(), second.end()
    if status:
        raise Failed('%s: status %d\n%s\n%s' % (client_cmd, status, out[-400:], said[-400:]))
    return out


def connect_ms(server, client, count):
    """What cmtime says of rdma_connect(): of all at once, ms"""
    out = together(server, client, 'cmtime -b {a} -c %d' % count, 'cmtime -s {a} -c %d' % count, 'cm', True)
    found = re.search(r'(?m)^connect\s*: *([\d.]+)', out)
    if not found or not float(found.group(1)):
        raise Failed('cmtime: no figures\n' + out[-300:])
    return float(found.group(1))


def connections(server, client, count=100):
    """Connections a second of processes that begin: where the processor is emulated, their code is translated meanwhile,
    which has long been done for a kernel's"""
    return 1000 * count / connect_ms(server, client, count)


def more_connections(server, client, first=100, more=1000):
    """Connections a second: the difference of two runs, so that their starts do not count; of each the best of three,
    as a start may take longer than a thousand connections"""
    few, many = (min(connect_ms(server, client, n) for _ in range(3)) for n in (first, first + more))
    if many <= few:
        raise Failed('cmtime: %.0f ms for %d, %.0f for %d more' % (few, first, many, more))
    return 1000 * more / (many - few)


def pings(server, client):
    """rping's pings a second: the difference of two runs, so that their starts do not count"""
    clock = 'read a b </proc/uptime; echo "at $a"'
    out = together(server, client, 'rping -s -P -a {a}',
                   'sh -c \'%s; rping -c -a {a} -C 100 || exit 1; %s; rping -c -a {a} -C 1100 || exit 1; %s\'' % (
                       clock, clock, clock), 'cm', True)
    at = [float(t) for t in re.findall(r'(?m)^at ([\d.]+)', out)]
    if len(at) != 3 or at[2] - at[1] <= at[1] - at[0]:
        raise Failed('rping: no figures\n' + out[-300:])
    return 1000 / ((at[2] - at[1]) - (at[1] - at[0]))


def bare(args, factor=1):
    """What its link alone carries: tests/bench/bare.c"""
    def measure(server, client):
        out = together(server, client, BARE + ' -s', '%s -c {t} %s' % (BARE, args % {'mtu': client.mtu}), 'cm', True)
        found = re.search(r'(?m)^[\d.]+$', out)
        if not found:
            raise Failed('bare: no figure\n' + out[-300:])
        return float(found.group(0)) * factor
    return measure


class BareEnd(L.GuestEnd):
    """The port alone, without verbs: it has its peer's address on that port."""

    def __init__(self, *args):
        super().__init__(*args)
        self.tcp = self.address


# title, unit, measure(server end, client end), whether more is better, what a bare link does of it
ROWS = [
    ('ib_send_lat, 16 B', 'us', perftest('ib_send_lat', '-s 16 -n 1000', 4), False, bare('acked 16 1000')),
    # perftest's MB are MiB, and it has Gb/s.
    ('ib_write_bw, 64 KiB', 'MB/s', perftest('ib_write_bw', '-s 65536 -n 1000', 3), True,
     bare('bw %(mtu)d 5000', 1e9 / 8 / 2**20)),
    ('ib_read_bw, 64 KiB', 'MB/s', perftest('ib_read_bw', '-s 65536 -n 1000', 3), True, None),
    ('ib_send_bw, 64 B', 'M/s', perftest('ib_send_bw', '-s 64 -n 20000', 4), True, bare('rate 64 10000')),
    ('cmtime, 100 connect', '/s', connections, True, None),
    ('cmtime, 1,000 more', '/s', more_connections, True, None),
    ('rping', '/s', pings, True, None),
]


def measure(rows, runs, ways, mtu):
    """{(title, way): samples}, each round all of them, so that what the machine does meets all alike"""
    samples = {}
    for _, *ends in ways:
        for end in ends:
            end.mtu = mtu
    for number in range(runs):
        for title, _, function, _, link in rows:
            for way, server, client in ways:
                work = link if isinstance(server, BareEnd) else function
                if not work:
                    continue
                got = samples.setdefault((title, way), [])
                print('     run %d of %d: %s: %s' % (number + 1, runs, title, way), file=sys.stderr, flush=True)
                try:
                    got.append(work(server, client))
                except Failed as e:
                    print('failed: %s, %s: %s' % (title, way, e), flush=True)
    return samples


def show(where, mtu, rows, runs, ways):
    """ways[0] is what the others are compared with"""
    samples = measure(rows, runs, ways, mtu)
    names = [w[0] for w in ways]
    print('\n%s; path MTU %d\n%-22s %s' % (where, mtu, '', ' '.join('%-24s' % n for n in names)))
    for title, unit, _, more, _ in rows:
        cells, base = [], samples.get((title, names[0]))
        for name in names:
            got = samples.get((title, name))
            if not got:
                cells.append('-' if got is None else 'failed')
                continue
            value = statistics.median(got)
            ratio = ''
            if name != names[0] and base:
                ratio = ' x %.2f' % (value / statistics.median(base) if more else statistics.median(base) / value)
            cells.append('%.5g %s%s' % (value, unit, ratio))
        print('%-22s %s' % (title, ' '.join('%-24s' % c for c in cells)))


def with_link(name, *ends):
    """urxe on two ports, and what these could carry at best: of a message that is acknowledged two packets each
    way"""
    return (('urxe, ' + name, *(L.GuestEnd(*e) for e in ends)), (name + ', bare', *(BareEnd(*e) for e in ends)))


def one_guest(lab, rows, runs, mtu):
    """All in one guest: Soft-RoCE with itself, urxe on the fabric, on veth pairs (af_packet, and the
    kernel's sockets), on two cards"""
    cards = [L.tap('tca'), L.tap('tcb')]
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, cards, cpus=2, memory=1536,
                settings={'rxe': 1, 'hugepages': 160}) as g:
        for card in cards:
            L.bind(g, card)
        g.check('ip link add va type veth peer name vb\n'
                'for i in va vb; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6\n'
                'ip link set $i arp off mtu %d up; done\n'
                'ip link add vc type veth peer name vd' % L.FRAMES)
        rxe = L.RxeEnd(g, 1)
        local = L.GuestEnd(g, 1, None, '10.9.0.1')
        ways = [('Soft-RoCE', rxe, rxe), ('urxe, fabric', local, local),
                *with_link('af_packet', *((g, 1, 'net_af_packet0,iface=' + i, '10.9.2.%d' % n)
                                          for n, i in ((1, 'va'), (2, 'vb')))),
                ('urxe, udp', *(L.SocketEnd(g, n, i, '10.9.3.%d' % n) for n, i in ((1, 'vc'), (2, 'vd')))),
                *with_link('virtio-net', *((g, 1, c.pci, '10.9.1.%d' % n)
                                           for n, c in enumerate(cards, 1)))]
        show('one guest of 2 CPUs; Soft-RoCE and the fabric in memory, urxe on veth pairs and two cards',
             mtu, rows, runs, ways)


def kernel_interface(guest, card):
    """The name of a card that stays with its kernel driver, up and without addresses of the kernel's"""
    return guest.check(
        'for d in /sys/bus/pci/devices/%s/virtio*/net/*; do i=${d##*/}\n'
        'echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6\n'
        'ip link set $i arp off mtu %d up; echo $i; done' % (card.pci, L.FRAMES)).split()[-1]


def two_guests(lab, rows, runs, mtu):
    """A wire between two kernels: what Soft-RoCE is for, and where it, too, has a device to send by"""
    bound, kept, plain = ([L.tap('t%s%s' % (c, n)) for n in 'ab'] for c in 'cde')
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [bound[0], kept[0], plain[0]],
                settings={'rxe': 1, 'hugepages': 64}) as ga, \
            L.boot(lab, 'b', 2, lab.image, lab.overlay, [bound[1], kept[1], plain[1]],
                   settings={'rxe': 1, 'hugepages': 64}) as gb:
        guests = (ga, gb)
        for g, card in zip(guests, bound):
            L.bind(g, card)
        ports = ['net_af_packet0,iface=' + kernel_interface(g, c) for g, c in zip(guests, kept)]
        ways = [('Soft-RoCE', *(L.RxeEnd(g, n) for n, g in enumerate(guests, 1))),
                *with_link('af_packet', *((g, n, ports[n - 1], '10.9.2.%d' % n)
                                          for n, g in enumerate(guests, 1))),
                ('urxe, udp', *(L.SocketEnd(g, n, kernel_interface(g, c), '10.9.3.%d' % n)
                                for n, (g, c) in enumerate(zip(guests, plain), 1))),
                *with_link('virtio-net', *((g, n, bound[n - 1].pci, '10.9.1.%d' % n)
                                           for n, g in enumerate(guests, 1)))]
        show('two guests of 1 CPU, a bridge between them', mtu, rows, runs, ways)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--build', required=True)
    p.add_argument('--folder', required=True)
    p.add_argument('--dpdk', nargs=2, required=True)
    p.add_argument('--rdma', nargs=2, required=True)
    p.add_argument('-r', '--runs', type=int, default=3)
    p.add_argument('--only', choices=('one', 'two'), help='one guest, or two')
    p.add_argument('--mtu', type=int, choices=(1024, 4096), default=4096,
                   help='of the path: what a plain Ethernet has room for, or a jumbo one (default: %(default)s)')
    p.add_argument('--rows', default='', help='a regular expression: only rows whose title it is found in')
    args = p.parse_args()
    rows = [r for r in ROWS if re.search(args.rows, r[0])]
    if not rows:
        p.error('no row is called so: ' + args.rows)
    try:
        L.run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'run', '/run')
        L.net_up(L.FRAMES)
        img = image.load(*args.dpdk)
        lab = L.Lab(args.folder, args.build, img, image.load(*args.rdma))
        lab.overlay = overlay.urxe(args.build, img, *BARE_FILES)
        print('medians of %d runs, load of the host %.1f; x: of Soft-RoCE, more is better' % (
            args.runs, os.getloadavg()[0]))
        if args.only != 'two':
            one_guest(lab, rows, args.runs, args.mtu)
        if args.only != 'one':
            two_guests(lab, rows, args.runs, args.mtu)
    except Failed as e:
        print('failed: %s' % e)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
