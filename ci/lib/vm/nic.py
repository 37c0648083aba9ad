# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Network cards of a guest: what they are joined to on the host, and what the guest sees."""
import os

from . import Failed
from .apt import call, output

# Frames as on a wire: with checksums, and none larger than the MTU.
VIRTIO = ('csum=on,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,host_tso4=off,'
          'host_tso6=off,host_ufo=off')
MODELS = ('virtio-net-pci', 'e1000', 'e1000e', 'igb', 'vmxnet3')


def offers(model):
    """Whether this QEMU has such a card (igb came with 8.0)"""
    out = output(['qemu-system-x86_64', '-device', 'help'])
    return 'name "%s"' % model in out


class Nic:
    """model: of MODELS; mac: or one by the guest's name and the card's number; queues: pairs of them, and
    ring: entries of the receiving ring (virtio, 256 to 1024); options: more of QEMU's -device, a dict."""

    shared = False  # whether the guest's memory must be shared with another process

    def __init__(self, model='virtio-net-pci', mac=None, queues=1, ring=None, options=None):
        if model not in MODELS:
            raise Failed("no card is called '%s' (%s are)" % (model, ', '.join(MODELS)))
        self.model, self.mac, self.queues, self.ring = model, mac, queues, ring
        self.options, self.pci = dict(options or {}), None

    def prepare(self):
        """Makes what must be there before QEMU starts."""

    def netdev(self, name):
        """Arguments of QEMU for the host's side"""
        raise NotImplementedError

    def arguments(self, number, mac, iommu):
        """All arguments of QEMU. The card's address in the guest is fixed here, in self.pci."""
        slot = 0x10 + number
        self.pci = '0000:00:%02x.0' % slot
        words = [self.model, 'netdev=n%d' % number, 'id=nic%d' % number, 'addr=0x%x' % slot,
                 'mac=' + (self.mac or mac)]
        if self.model == 'virtio-net-pci':
            words += self.virtio(iommu)
        words += ['%s=%s' % item for item in self.options.items()]
        return self.netdev('n%d' % number) + ['-device', ','.join(words)]

    def virtio(self, iommu):
        words = [VIRTIO, 'mrg_rxbuf=off']
        if iommu:
            words += ['disable-legacy=on', 'iommu_platform=on']
        if self.queues > 1:
            words += ['mq=on', 'vectors=%d' % (2 * self.queues + 2)]
        if self.ring:
            words.append('rx_queue_size=%d' % self.ring)
        return words


class Tap(Nic):
    """A TAP of the host's, made unless it is there, on a bridge if one is named, or on nothing."""

    def __init__(self, ifname, bridge=None, mtu=1500, **more):
        super().__init__(**more)
        self.ifname, self.bridge, self.mtu = ifname, bridge, mtu

    def prepare(self):
        if call(['ip', 'link', 'show', 'dev', self.ifname])[0]:
            multi = ['multi_queue'] if self.queues > 1 else []
            output(['ip', 'tuntap', 'add', 'dev', self.ifname, 'mode', 'tap', *multi])
        output(['ip', 'link', 'set', self.ifname, 'mtu', str(self.mtu), 'up'])
        if self.bridge:
            output(['ip', 'link', 'set', self.ifname, 'master', self.bridge])

    def netdev(self, name):
        queues = ',queues=%d' % self.queues if self.queues > 1 else ''
        return ['-netdev', 'tap,id=%s,ifname=%s,script=no,downscript=no,vhost=off%s' % (name, self.ifname, queues)]


class Dgram(Nic):
    """Frames, one in each datagram, between two UNIX sockets: QEMU reads `local`, another process, which
    may be another guest, reads `remote`."""

    def __init__(self, local, remote, **more):
        super().__init__(**more)
        self.local, self.remote = local, remote

    def prepare(self):
        if os.path.exists(self.local):
            os.unlink(self.local)

    def netdev(self, name):
        return ['-netdev', 'dgram,id=%s,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s' % (
            name, self.local, self.remote)]


class VhostUser(Nic):
    """The rings themselves, in memory shared with another process, such as urxe with a port net_vhost:
    `--port net_vhost0,iface=PATH,client=1` where QEMU is the server. QEMU waits for the other side before
    the guest starts: so that one is started first."""

    shared = True

    def __init__(self, path, server=True, **more):
        super().__init__(**more)
        self.path, self.server = path, server

    def prepare(self):
        if self.server and os.path.exists(self.path):
            os.unlink(self.path)

    def netdev(self, name):
        how = 'server=on,wait=on' if self.server else 'reconnect=1'
        queues = ',queues=%d' % self.queues if self.queues > 1 else ''
        return ['-chardev', 'socket,id=c%s,path=%s,%s' % (name, self.path, how),
                '-netdev', 'vhost-user,id=%s,chardev=c%s%s' % (name, name, queues)]

    def virtio(self, iommu):
        # Without interrupts: with vectors, two CPUs and rings of 1,024 QEMU 7.2 crashed.
        words = ['disable-legacy=on', 'mrg_rxbuf=off', 'vectors=0']
        if iommu:
            # The other process asks for translations: net_vhost0,...,iommu-support=1
            words += ['iommu_platform=on', 'ats=on']
        if self.queues > 1:
            words.append('mq=on')
        if self.ring:
            words += ['rx_queue_size=%d' % self.ring, 'tx_queue_size=%d' % self.ring]
        return words
