# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The laboratory of ci/lib/vm/lab.py, with cards for urxe in the guests.

    guest: eth0 10.9.0.N, the kernel's own card ---- TAP --+
    guest: card N of a DPDK driver, 10.9.1.N ------- TAP --+-- br0 10.9.0.254
    host:  urxe on net_af_packet0, 10.9.1.100 ---- va--vb--+

Programs exchange over TCP before they use RDMA: at 10.9.0.x, which are kernels' addresses. RDMA has
10.9.1.x.
"""
import os

from vm import Failed, nic  # noqa: F401: Failed is for those who import this
from vm.guest import Guest
from vm.lab import BRIDGE, LISTENS, PORT, HostProc, net_up, run, rxe_gid  # noqa: F401

HOST = '10.9.1.100'
FRAMES = 4500  # MTU of the wire: room for a path MTU of 4096


def tap(name, model='virtio-net-pci', **more):
    return nic.Tap(name, bridge='br0', mtu=FRAMES, model=model, **more)


def boot(lab, name, number, image, overlay, cards=(), **more):
    """A guest whose eth0 is 10.9.0.NUMBER; cards are the others. One that waits for the state of another
    guest (incoming) has that one's NUMBER and cards of its MACs."""
    settings = {'ip': '10.9.0.%d/24' % number, 'mtu': FRAMES}
    settings.update(more.pop('settings', {}))
    eth0 = tap('t%s0' % name, mac='52:54:00:09:00:%02x' % number)
    guest = Guest.boot(name, image, lab.folder, nics=[eth0, *cards], memory=more.pop('memory', 1024),
                       overlay=overlay, settings=settings, **more)
    if guest.report():
        print('     %s: %s' % (name, '; '.join(guest.report())), flush=True)
    return guest


def bind(guest, card, driver='uio_pci_generic'):
    """Gives a card to DPDK, as users do"""
    if driver == 'vfio-pci':
        # The emulated IOMMU does not remap interrupts.
        guest.check('modprobe vfio_iommu_type1 allow_unsafe_interrupts=1')
    guest.check('urxe bind --driver %s %s' % (driver, card.pci))


class End:
    """Where one side of a case runs: address (RDMA), tcp, device, gid."""

    device, gid = 'urxe0', 0

    def options(self, mtu, more=()):
        return ['--port', self.port, '--mtu', str(mtu), '--ip', self.address + '/24', *more]


class HostEnd(End):
    """urxe on the host."""

    def __init__(self, lab, port=PORT, address=HOST):
        self.lab, self.port, self.address, self.tcp = lab, port, address, BRIDGE
        self.name = 'host'

    def start(self, command, ready=None, mtu=1024, more=()):
        return HostProc(self.lab.urxe, self.lab.folder, self.options(mtu, more), command, ready)


class GuestEnd(End):
    """urxe in a guest, on one of its cards or any port that is named; on the fabric if there is none."""

    inside = ''  # what runs a command where the port is

    def __init__(self, guest, number, port, address):
        self.guest, self.port, self.address = guest, port, address
        self.tcp, self.name = '10.9.0.%d' % number, guest.name

    def options(self, mtu, more=()):
        return super().options(mtu, more) if self.port else ['--mtu', str(mtu), *more]

    def start(self, command, ready=None, mtu=1024, more=()):
        mark = '/tmp/ready'
        self.guest.check('rm -f ' + mark)
        job = self.guest.start('URXE_READY_FILE=%s exec %surxe run %s -- %s' % (
            mark, self.inside, ' '.join(self.options(mtu, more)), command))
        if ready:
            job.until('[ -e %s ]' % mark if ready == 'cm' else '%ssh -c "%s"' % (self.inside, LISTENS[ready]), 30)
        return job


class SocketEnd(GuestEnd):
    """urxe on the UDP socket of a network namespace in a guest, since in the guest's own Soft-RoCE has
    port 4791. The interface that it is given gets the address, as the kernel's."""

    def __init__(self, guest, number, interface, address):
        super().__init__(guest, number, 'udp', address)
        pid = guest.check('busybox unshare -n sleep 1000000 </dev/null >/dev/null 2>&1 &\n'
                          'while [ /proc/$!/ns/net -ef /proc/self/ns/net ]; do sleep 0.05; done; echo $!').split()[-1]
        self.tcp, self.inside = address, 'busybox nsenter -t %s -n ' % pid
        guest.check('ip link set %s netns %s' % (interface, pid))
        for words in ('addr add %s/24 dev %s' % (address, interface),
                      'link set %s arp on mtu %d up' % (interface, FRAMES), 'link set lo up'):
            guest.check(self.inside + 'ip ' + words)

    def options(self, mtu, more=()):
        return ['--port', self.port, '--mtu', str(mtu), *more]


class RxeEnd(End):
    """The kernel's Soft-RoCE in a guest, on its eth0."""

    device = 'rxe0'

    def __init__(self, guest, number):
        self.guest, self.name = guest, guest.name
        self.address = self.tcp = '10.9.0.%d' % number
        self.gid = rxe_gid(guest, '0000:0000:0000:0000:0000:ffff:0a09:%04x' % number)
        self.frames = FRAMES

    def start(self, command, ready=None, mtu=1024, more=()):
        # The kernel asks for the path MTU that its interface allows: a smaller one rejects it (REJ 26).
        frames = FRAMES if mtu > 1024 else 1500
        if frames != self.frames:
            self.guest.check('ip link set eth0 mtu %d' % frames)
            self.frames = frames
        job = self.guest.start(command)
        if ready:
            job.until(LISTENS[ready], 30)
        return job


class Lab:
    """image: with DPDK's drivers; rdma: with rdma-core alone"""

    def __init__(self, folder, build, image, rdma):
        self.folder, self.build, self.image, self.rdma = folder, build, image, rdma
        self.urxe = os.path.join(build, 'tools/urxe')
