#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""urxe on PCI cards of virtual machines. Started by ci/vm, in network, PID and mount namespaces that
end with it."""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../ci/lib'))

from vm import Broken, Failed, image, nic, overlay, table  # noqa: E402
import cases  # noqa: E402
import lab as L  # noqa: E402
import special  # noqa: E402
import walk  # noqa: E402


GUESTS = 4  # one after the other at most, for the same rows


class Table(table.Table):
    def matrix(self):
        """Rows: where it ran; columns: the programs, the guest as client and as server."""
        cells = {}
        for name, got in self.sides().items():
            where, program = name.split(': ', 1)
            cells.setdefault(where, {})[program] = got
        if not cells:
            return
        names = [c.name for c in cases.CASES]
        print('\n%-36s %s' % ('guest as client/server', ' '.join('%-16s' % n for n in names)))
        for where, row in cells.items():
            print('%-36s %s' % (where, ' '.join('%-16s' % '/'.join(
                row.get(n, {}).get(side, '-') for side in 'cs') for n in names)))


def fill(command, end, server):
    values = {'d': end.device, 'g': end.gid, 'a': server.address, 't': server.tcp}
    return re.sub(r'\{(\w)\}', lambda m: str(values[m.group(1)]), command)


def run_case(case, server_end, client_end, mtu, seconds=90):
    """None, or what is wrong"""
    server = server_end.start(fill(case.server, server_end, server_end), case.ready, mtu)
    client = client_end.start(fill(case.client, client_end, server_end), None, mtu)
    try:
        client_status = client.wait(seconds)
        server_status = server.wait(5 if client_status else 20)
    finally:
        said = {'server (%s)' % server_end.name: server.end(), 'client (%s)' % client_end.name: client.end()}
    server_out, client_out = said.values()
    wrong = table.judge(case, client_status, client_out, server_status, server_out)
    return table.problem(wrong, **said) if wrong else None


def run_pairs(results, where, guest_end, other_end):
    for mtu, case, side in cases.rows():
        pair = (other_end, guest_end) if side == 'c' else (guest_end, other_end)
        results.run(cases.name_of(where, mtu, case, side),
                  lambda c=case, p=pair, m=mtu: run_case(c, p[0], p[1], m))


def cards_of(lab, results, driver):
    """(card, its nic) of those that QEMU has and that are wanted"""
    pairs = []
    for i, card in enumerate(cases.CARDS):
        where = '%s %s' % (card.name, driver)
        if not results.any(cases.names(where)):
            continue
        if not nic.offers(card.model):
            results.add(where, 'skip', 'this QEMU has no such card')
        elif card.vhost:
            pairs.append((card, nic.VhostUser(os.path.join(lab.folder, 'vhost-%s' % driver),
                                              model=card.model)))
        else:
            pairs.append((card, L.tap('tc%d' % i, model=card.model)))
    return pairs


def run_cards(lab, results, driver):
    """Each card against urxe on the host; another guest when QEMU itself has failed"""
    pairs = cards_of(lab, results, driver)
    if not pairs:
        return
    for _ in range(GUESTS):
        try:
            run_guest(lab, results, driver, pairs)
            return
        except Broken as e:
            print('     %s: QEMU is at fault; the rest in a new guest' % e, flush=True)
    results.add('%s: %d guests' % (driver, GUESTS), 'FAIL', 'QEMU broke in each')


def run_guest(lab, results, driver, pairs):
    """One guest with all cards"""
    vfio = driver == 'vfio-pci'
    vhost = 'net_vhost0,iface=%s,client=1' + (',iommu-support=1' if vfio else '')
    host = {card.name: L.HostEnd(lab, vhost % device.path) if card.vhost else L.HostEnd(lab)
            for card, device in pairs}
    # QEMU asks the other end of vhost-user what it can before the guest runs; it joins each later one.
    first = [host[card.name].start('rping -s -P -a ' + L.HOST) for card, _ in pairs if card.vhost]
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [n for _, n in pairs], cpus=2, iommu=vfio,
                settings={'hugepages': 0 if vfio else 100}) as guest:
        for proc in first:
            proc.end()
        for number, (card, device) in enumerate(pairs):
            L.bind(guest, device, driver)
            if vfio and not card.model.startswith('virtio'):
                # What urxe bind reserves for virtio others must do without.
                guest.check('echo 0 > /proc/sys/vm/nr_hugepages')
            end = L.GuestEnd(guest, 1, device.pci, '10.9.1.%d' % (1 + number))
            run_pairs(results, '%s %s' % (card.name, driver), end, host[card.name])


def run_two(lab, results):
    """Two guests, both with urxe on a card of virtio-net"""
    where = 'two guests, virtio-net'
    if not results.any(cases.names(where)):
        return
    a, b = L.tap('tca'), L.tap('tcb')
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [a], settings={'hugepages': 64}) as ga, \
            L.boot(lab, 'b', 2, lab.image, lab.overlay, [b], settings={'hugepages': 64}) as gb:
        L.bind(ga, a)
        L.bind(gb, b)
        run_pairs(results, where, L.GuestEnd(ga, 1, a.pci, '10.9.1.1'), L.GuestEnd(gb, 2, b.pci, '10.9.1.2'))


def run_rxe(lab, results):
    """A guest with urxe, a guest with the kernel's Soft-RoCE on its eth0"""
    where = 'guest and rxe, virtio-net'
    if not results.any(cases.names(where)):
        return
    card = L.tap('tca')
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [card], settings={'hugepages': 64}) as ga, \
            L.boot(lab, 'k', 3, lab.rdma, (), memory=512, settings={'rxe': 1}) as gk:
        L.bind(ga, card)
        end = L.GuestEnd(ga, 1, card.pci, '10.9.0.11')
        run_pairs(results, where, end, L.RxeEnd(gk, 3))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--build', required=True, help='the build folder')
    p.add_argument('--folder', required=True, help='for what does not stay')
    p.add_argument('--dpdk', nargs=2, required=True, help='folders of the image with DPDK')
    p.add_argument('--rdma', nargs=2, required=True, help='and of the one with rdma-core alone')
    p.add_argument('--only', help='names that match this')
    p.add_argument('--short', action='store_true', help='the short selection')
    p.add_argument('--shell', action='store_true', help='set up network and image, then a shell')
    args = p.parse_args()
    results = Table(cases.SHORT if args.short else args.only)
    try:
        L.run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'run', '/run')  # sockets of urxe-ports(7) are there
        L.net_up(L.FRAMES)
        img = image.load(*args.dpdk)
        lab = L.Lab(args.folder, args.build, img, image.load(*args.rdma))
        lab.overlay = overlay.urxe(args.build, img)
        if args.shell:
            return os.system('bash -i')
        for driver in cases.DRIVERS:
            run_cards(lab, results, driver)
        run_two(lab, results)
        run_rxe(lab, results)
        for name, function in special.TESTS + walk.TESTS:
            results.run(name, lambda f=function: f(lab))
    except Failed as e:
        results.add('laboratory', 'FAIL', str(e))
    return results.summary()


if __name__ == '__main__':
    sys.exit(main())
