# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The laboratory of ci/lib/vm/lab.py, with one guest, whose eth0 has rxe0 on it: 10.9.0.1. urxe is
10.9.0.2, on the host.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../ci/lib'))
from vm import Failed, nic, overlay  # noqa: E402
from vm.guest import Background, Guest  # noqa: E402
from vm.lab import BRIDGE, LISTENS, PORT, HostProc, net_up, run, rxe_gid  # noqa: E402, F401

VM4, VM6 = '10.9.0.1', 'fd00::1'
HOST4, HOST6 = '10.9.0.2', 'fd00::2'
ADDRESS = {'u': {'4': HOST4, '6': HOST6}, 'k': {'4': VM4, '6': VM6}}
TCP = {'u': BRIDGE, 'k': VM4}


def net_mtu(guest, mtu):
    for iface in ('tv', 'va', 'vb', 'br0'):
        run('ip', 'link', 'set', iface, 'mtu', str(mtu))
    guest.check('ip link set eth0 mtu %d' % mtu)


def boot(image, folder, mtu, programs):
    """The VM with rxe0, and programs {name: path} as /name. Its console runs one command at a time: servers go
    into the background."""
    settings = {'ip': VM4 + '/24', 'ip6': VM6 + '/64', 'mtu': mtu, 'rxe': 1}
    guest = Guest.boot('v', image, folder, nics=[nic.Tap('tv', bridge='br0', mtu=mtu)], settings=settings,
                       overlay=list(dict.fromkeys(
                           pair for name, path in programs.items() for pair in overlay.program(path, '/' + name, image))))
    if not any(line.startswith('RXE ') for line in guest.report()):
        raise Failed('rxe0 does not come up: ' + guest.logs())
    return guest


def guest_loss(guest, one_of):
    """The guest's kernel does not get one of so many frames; 0: it gets all."""
    guest.check('tc qdisc del dev eth0 ingress 2>/dev/null; true')
    if one_of:
        guest.check('for m in sch_ingress cls_matchall act_gact; do modprobe $m; done; tc qdisc add dev eth0 ingress && '
                    'tc filter add dev eth0 parent ffff: matchall action pass random netrand drop %d' % one_of)


def guest_dropped(guest):
    """How many frames guest_loss() has taken so far"""
    found = re.findall(r'dropped (\d+)', guest.check('tc -s filter show dev eth0 parent ffff:'))
    return sum(map(int, found))


class Udp:
    """Within it urxe's port is `udp`: its addresses are the host's kernel's then, on the bridge."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        run('ip', 'addr', 'add', HOST4 + '/24', 'dev', 'br0')
        run('ip', 'addr', 'add', HOST6 + '/64', 'dev', 'br0', 'nodad')
        self.lab.port = 'udp'
        # The guest learns of the other MAC.
        self.lab.guest.check('ip neigh flush dev eth0; for a in %s %s; do ping -c 1 -w 20 $a; done' % (HOST4, HOST6))

    def __exit__(self, *_):
        self.lab.port = PORT
        for address in (HOST4 + '/24', HOST6 + '/64'):
            run('ip', 'addr', 'del', address, 'dev', 'br0')


class Gateway:
    """Within it urxe's programs are on a fabric, and urxed has the port and its addresses."""

    def __init__(self, lab):
        self.lab, self.meet = lab, os.path.join(lab.folder, 'fabric')

    def __enter__(self):
        os.makedirs(self.meet, mode=0o700, exist_ok=True)
        argv = [os.path.join(os.path.dirname(self.lab.urxe), 'urxed'), '--fabric', self.meet, *self.lab.options(PORT)]
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if 'way out' not in self.proc.stdout.readline():
            raise Failed('urxed does not start: ' + self.end())
        self.lab.port = 'fabric,dir=' + self.meet
        return self

    def end(self):
        """what it has printed"""
        self.proc.terminate()
        return self.proc.communicate(timeout=20)[0]

    def __exit__(self, *_):
        self.lab.port = PORT
        self.end()


class GuestProc(Background):
    """A program in the guest, in the background."""

    where = 'kernel'

    def __init__(self, guest, command, ready):
        super().__init__(guest, command)
        if ready:
            self.until(LISTENS[ready], 10)


class Lab:
    def __init__(self, guest, urxe, folder, programs, pcap=None):
        self.guest, self.urxe, self.folder, self.pcap = guest, urxe, folder, pcap
        self.mtu, self.captures, self.port = 1500, 0, PORT
        self.programs = {'u': programs, 'k': {name: '/' + name for name in programs}}
        self.gids = {'u': {'4': 0, '6': 1}, 'k': {}}

    def find_gids(self):
        """Indices of rxe0's GIDs of its two addresses"""
        want = {'4': '0000:0000:0000:0000:0000:ffff:0a09:0001',
                '6': 'fd00:0000:0000:0000:0000:0000:0000:0001'}
        self.gids['k'] = {family: rxe_gid(self.guest, gid) for family, gid in want.items()}

    def fill(self, command, side, server_side, family='4'):
        """A command of `side` with its device and so on, and the server's addresses"""
        values = {'a': ADDRESS[server_side][family], 't': TCP[server_side],
                  'd': {'u': 'urxe0', 'k': 'rxe0'}[side], 'g': self.gids[side][family],
                  **self.programs[side]}
        return re.sub(r'\{(\w+)\}', lambda m: str(values[m.group(1)]), command)

    def options(self, port=None):
        """Of `urxe run`, of each"""
        port = port or self.port
        if port.startswith('fabric'):
            return ['--port', port]  # the addresses are urxed's
        words = ['--port', port, '--ip', HOST4 + '/24', '--ip', HOST6 + '/64', '--mtu', str(self.mtu)]
        if self.pcap and port == self.port:
            self.captures += 1
            words += ['--pcap', '%s.%d.pcapng' % (self.pcap, self.captures)]
        return words

    def start(self, side, command, ready=None, options=(), port=None):
        """side: 'u' for urxe, on this port, 'k' for the kernel's"""
        if side == 'u':
            return HostProc(self.urxe, self.folder, [*self.options(port), *options], command, ready)
        return GuestProc(self.guest, command, ready)
