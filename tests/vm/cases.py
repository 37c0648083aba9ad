# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What runs between two ends, on which cards, and which of it is in the short selection.

In commands: {d} device, {g} GID index, of the side that runs them; {a} address, {t} address for TCP,
of the server.
"""
from collections import namedtuple

# ready: how one sees that the server listens: 'cm' (rdma_listen), 'tcp'
# client_re, server_re, count, endless: judge() of ci/lib/vm/table.py has them
Case = namedtuple('Case', 'name server client ready client_re server_re count endless', defaults=(1, False))

# A row of a table of perftest's; on a machine that is busy it takes the clock's rate for 0.
ROW = r'(?m)^ *\d+ +\d+ +([\d.]+|inf) +([\d.]+|inf)\s+([\d.]+|inf)'


def both(name, command, client_re, server_re=''):
    return Case(name, command, command + ' {t}', 'tcp', client_re, server_re)


CASES = [
    Case('rping -V', 'rping -s -a {a} -V -C 20 -S 5000', 'rping -c -a {a} -V -C 20 -S 5000', 'cm', '', ''),
    both('ibv_rc_pingpong', 'ibv_rc_pingpong -d {d} -g {g} -n 100 -s 9000', '100 iters in', '100 iters in'),
    both('ib_write_bw', 'ib_write_bw -F -d {d} -x {g} -n 50 -s 65536', ROW),
    both('ib_read_bw', 'ib_read_bw -F -d {d} -x {g} -n 50 -s 65536', ROW),
    both('ib_send_lat', 'ib_send_lat -F -d {d} -x {g} -n 100 -s 16', ROW),
    both('ib_send_bw -c UD', 'ib_send_bw -c UD -F -d {d} -x {g} -n 20 -s 1024', ROW),
]
MTUS = (1024, 4096)


def rows():
    """(path MTU, case, side of the guest): of two MTUs the guest is client at one and server at the other,
    of rping at both"""
    for m, mtu in enumerate(MTUS):
        for i, case in enumerate(CASES):
            for side in 'cs' if i == 0 else 'cs'[(m + i) % 2]:
                yield mtu, case, side


def name_of(where, mtu, case, side):
    return '%s %d: %s [%s]' % (where, mtu, case.name, side)


def names(where):
    return [name_of(where, *row) for row in rows()]


DRIVERS = ('uio_pci_generic', 'vfio-pci')

# name: as the table says it; model: of QEMU; vhost: by vhost-user, with urxe on the host behind it
Card = namedtuple('Card', 'name model vhost')
CARDS = [
    Card('virtio-net', 'virtio-net-pci', False),
    Card('virtio-net vhost-user', 'virtio-net-pci', True),
    Card('e1000e', 'e1000e', False),
    Card('vmxnet3', 'vmxnet3', False),
    Card('e1000', 'e1000', False),
    Card('igb', 'igb', False),
]

# "CARD DRIVER MTU: CASE [s|c]", [s]: the guest is the server
SHORT = (r'^virtio-net uio_pci_generic 1024: (rping -V|ib_write_bw) \[c\]'
         r'|^virtio-net uio_pci_generic 4096: ib_send_lat \[s\]'
         r'|^virtio-net vhost-user uio_pci_generic 4096: (rping -V|ib_read_bw) \[c\]'
         r'|^e1000e uio_pci_generic 1024: rping -V \[s\]|^e1000e uio_pci_generic 4096: ibv_rc_pingpong \[c\]'
         r'|^vmxnet3 uio_pci_generic 1024: ib_read_bw \[s\]'
         r'|^virtio-net vfio-pci 4096: rping -V \[c\]|^e1000e vfio-pci 1024: ib_send_bw -c UD \[s\]')
