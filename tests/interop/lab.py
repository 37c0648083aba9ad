# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The laboratory: a bridge in our network namespace, with the VM's TAP and urxe's veth on it.

     VM: eth0 + rxe0 10.9.0.1 -- TAP tv --+-- br0 10.9.0.254 (the kernel's own: for what programs
     urxe: net_af_packet0 10.9.0.2 -- va--vb        exchange over TCP before they use RDMA)

Whoever imports this already is in namespaces that die with him (ci/interop-rxe), so nothing is taken
down here but what may end in order.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../ci/lib'))
from vm import Failed, nic, overlay  # noqa: E402
from vm.guest import Background, Guest  # noqa: E402

VM4, VM6 = '10.9.0.1', 'fd00::1'
HOST4, HOST6 = '10.9.0.2', 'fd00::2'
TCP4 = '10.9.0.254'
ADDRESS = {'u': {'4': HOST4, '6': HOST6}, 'k': {'4': VM4, '6': VM6}}
TCP = {'u': TCP4, 'k': VM4}


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed('%s: %s' % (' '.join(argv), done.stdout.strip() or done.returncode))
    return done.stdout


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


def net_up(mtu):
    """mtu: of IP packets"""
    run('ip', 'link', 'set', 'lo', 'up')
    run('ip', 'link', 'add', 'br0', 'type', 'bridge', 'forward_delay', '0', 'mcast_snooping', '0')
    run('ip', 'link', 'add', 'va', 'type', 'veth', 'peer', 'name', 'vb')
    # va is urxe's: the kernel is not to answer there.
    for iface in ('va', 'vb'):
        write('/proc/sys/net/ipv6/conf/%s/disable_ipv6' % iface, '1')
    run('ip', 'link', 'set', 'va', 'arp', 'off')
    run('ip', 'link', 'set', 'vb', 'master', 'br0')
    for iface in ('br0', 'va', 'vb'):
        run('ip', 'link', 'set', iface, 'mtu', str(mtu), 'up')
    run('ip', 'addr', 'add', TCP4 + '/24', 'dev', 'br0')


def net_mtu(guest, mtu):
    for iface in ('tv', 'va', 'vb', 'br0'):
        run('ip', 'link', 'set', iface, 'mtu', str(mtu))
    guest.check('ip link set eth0 mtu %d' % mtu)


def boot(image, folder, mtu, program):
    """The VM with rxe0. Its console runs one command at a time: servers go into the background."""
    settings = {'ip': VM4 + '/24', 'ip6': VM6 + '/64', 'mtu': mtu, 'rxe': 1}
    guest = Guest.boot('v', image, folder, nics=[nic.Tap('tv', bridge='br0', mtu=mtu)], settings=settings,
                       overlay=overlay.program(program, '/peer', image))
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


class GuestProc(Background):
    """A program in the guest, in the background."""

    where = 'kernel'
    ready = {'cm': 'rdma res show cm_id 2>/dev/null | grep -q LISTEN',
             'tcp': "ss -Hltn 2>/dev/null | grep -qE ':(185[0-9][0-9]) '"}

    def __init__(self, guest, command, ready):
        super().__init__(guest, command)
        if ready:
            self.until(self.ready[ready], 10)


class HostProc:
    """A program on urxe, here."""

    where = 'urxe'
    count = 0

    def __init__(self, lab, command, ready=None, options=()):
        HostProc.count += 1
        base = os.path.join(lab.folder, 'h%d' % HostProc.count)
        self.out = base + '.out'
        ready_file = base + '.ready'
        argv = [lab.urxe, 'run', '--port', lab.port, '--ip', HOST4 + '/24', '--ip', HOST6 + '/64',
                '--mtu', str(lab.mtu)]
        if lab.pcap:
            argv += ['--pcap', '%s.%d.pcapng' % (lab.pcap, HostProc.count)]
        argv += list(options) + ['--', 'sh', '-c', 'exec ' + command]
        env = {k: v for k, v in os.environ.items() if not k.startswith('URXE_') or k == 'URXE_LOG'}
        env['URXE_READY_FILE'] = ready_file
        with open(self.out, 'wb') as f:
            self.proc = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=f,
                                         stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + 10
        while ready and self.proc.poll() is None and time.monotonic() < end:
            if os.path.exists(ready_file) if ready == 'cm' else tcp_listens():
                break
            time.sleep(0.02)

    def wait(self, timeout):
        try:
            status = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            return 124
        return status if status >= 0 else 128 - status

    def kill(self, name='KILL'):
        try:
            os.killpg(self.proc.pid, getattr(signal, 'SIG' + name))
        except OSError:
            pass

    def end(self):
        if self.proc.poll() is None:
            self.kill()
        self.proc.wait()
        with open(self.out, errors='replace') as f:
            return f.read()


def tcp_listens():
    """Does anybody in our namespace listen on the TCP ports that perftest and the pingpongs use?"""
    for table in ('tcp', 'tcp6'):
        with open('/proc/self/net/' + table) as f:
            for line in f.readlines()[1:]:
                field = line.split()
                if field[3] == '0A' and re.match(r'185\d\d$', str(int(field[1].split(':')[1], 16))):
                    return True
    return False


class Lab:
    def __init__(self, guest, urxe, folder, program, pcap=None):
        self.guest, self.urxe, self.folder, self.pcap = guest, urxe, folder, pcap
        self.port, self.mtu = 'net_af_packet0,iface=va', 1500
        self.program = {'u': program, 'k': '/peer'}
        self.gids = {'u': {'4': 0, '6': 1}, 'k': {}}

    def find_gids(self):
        """Indices of rxe0's GIDs of its two addresses"""
        want = {'4': '0000:0000:0000:0000:0000:ffff:0a09:0001',
                '6': 'fd00:0000:0000:0000:0000:0000:0000:0001'}
        out = self.guest.check('cd /sys/class/infiniband/rxe0/ports/1/gids; '
                               'for i in 0 1 2 3 4 5 6 7; do echo $i $(cat $i); done')
        for family, gid in want.items():
            found = re.findall(r'(?m)^(\d) ' + gid, out)
            if not found:
                raise Failed('rxe0 has no GID ' + gid)
            self.gids['k'][family] = int(found[0])

    def fill(self, command, side, server_side, family='4'):
        """A command of `side` with its device and so on, and the server's addresses"""
        values = {'a': ADDRESS[server_side][family], 't': TCP[server_side],
                  'd': {'u': 'urxe0', 'k': 'rxe0'}[side], 'g': self.gids[side][family],
                  'peer': self.program[side]}
        return re.sub(r'\{(\w+)\}', lambda m: str(values[m.group(1)]), command)

    def start(self, side, command, ready=None, options=()):
        """side: 'u' for urxe, 'k' for the kernel's"""
        if side == 'u':
            return HostProc(self, command, ready, options)
        return GuestProc(self.guest, command, ready)
