# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The laboratory: a bridge in our network namespace, with the guests' TAPs and the host's urxe on it.

    guest: eth0 10.9.0.N, the kernel's own card ---- TAP --+
    guest: card N of a DPDK driver, 10.9.1.N ------- TAP --+-- br0 10.9.0.254
    host:  urxe on net_af_packet0, 10.9.1.100 ---- va--vb--+

Programs exchange over TCP before they use RDMA: at 10.9.0.x, which are kernels' addresses. RDMA has
10.9.1.x. Whoever imports this already is in namespaces that die with him (ci/vm).
"""
import os
import re
import signal
import subprocess
import time

from vm import Failed, nic
from vm.guest import Guest

HOST_TCP = '10.9.0.254'
HOST = '10.9.1.100'
FRAMES = 4500  # MTU of the wire: room for a path MTU of 4096


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed('%s: %s' % (' '.join(argv), done.stdout.strip() or done.returncode))
    return done.stdout


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


def net_up():
    run('ip', 'link', 'set', 'lo', 'up')
    run('ip', 'link', 'add', 'br0', 'type', 'bridge', 'forward_delay', '0', 'mcast_snooping', '0')
    run('ip', 'link', 'add', 'va', 'type', 'veth', 'peer', 'name', 'vb')
    # va is urxe's: the kernel is not to answer there.
    for iface in ('va', 'vb'):
        write('/proc/sys/net/ipv6/conf/%s/disable_ipv6' % iface, '1')
    run('ip', 'link', 'set', 'va', 'arp', 'off')
    run('ip', 'link', 'set', 'vb', 'master', 'br0')
    for iface in ('br0', 'va', 'vb'):
        run('ip', 'link', 'set', iface, 'mtu', str(FRAMES), 'up')
    run('ip', 'addr', 'add', HOST_TCP + '/24', 'dev', 'br0')


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


class End:
    """Where one side of a case runs: address (RDMA), tcp, device, gid."""

    device, gid = 'urxe0', 0

    def options(self, mtu, more=()):
        return ['--port', self.port, '--mtu', str(mtu), '--ip', self.address + '/24', *more]


class HostEnd(End):
    """urxe on the host."""

    count = 0

    def __init__(self, lab, port='net_af_packet0,iface=va', address=HOST):
        self.lab, self.port, self.address, self.tcp = lab, port, address, HOST_TCP
        self.name = 'host'

    def start(self, command, ready=None, mtu=1024, more=()):
        return HostProc(self, command, ready, mtu, more)


class HostProc:
    def __init__(self, end, command, ready, mtu, more):
        HostEnd.count += 1
        base = os.path.join(end.lab.folder, 'h%d' % HostEnd.count)
        self.out = base + '.out'
        argv = [end.lab.urxe, 'run', *end.options(mtu, more), '--', 'sh', '-c', 'exec ' + command]
        env = {k: v for k, v in os.environ.items() if not k.startswith('URXE_') or k == 'URXE_LOG'}
        env['URXE_READY_FILE'] = base + '.ready'
        with open(self.out, 'wb') as f:
            self.proc = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=f,
                                         stderr=subprocess.STDOUT, start_new_session=True)
        stop = time.monotonic() + 20
        while ready and self.proc.poll() is None and time.monotonic() < stop:
            if os.path.exists(base + '.ready') if ready == 'cm' else tcp_listens():
                break
            time.sleep(0.02)

    def wait(self, timeout):
        try:
            status = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            return 124
        return status if status >= 0 else 128 - status

    def end(self):
        if self.proc.poll() is None:
            os.killpg(self.proc.pid, signal.SIGKILL)
        self.proc.wait()
        return self.output()

    def output(self):
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


class GuestEnd(End):
    """urxe in a guest, on one of its cards, or on any port that is named."""

    # 0x4844 to 0x48a7: 18500 to 18599
    TCP = "grep -qE '^ *[0-9]+: [0-9A-F]+:48[4-9A][0-9A-F] [0-9A-F:]+ 0A' /proc/net/tcp /proc/net/tcp6"

    def __init__(self, guest, number, port, address):
        self.guest, self.port, self.address = guest, port, address
        self.tcp, self.name = '10.9.0.%d' % number, guest.name

    def start(self, command, ready=None, mtu=1024, more=()):
        mark = '/tmp/ready'
        self.guest.check('rm -f ' + mark)
        job = self.guest.start('URXE_READY_FILE=%s exec urxe run %s -- %s' % (
            mark, ' '.join(self.options(mtu, more)), command))
        if ready:
            job.until({'cm': '[ -e %s ]' % mark, 'tcp': self.TCP}[ready], 30)
        return job


class RxeEnd(End):
    """The kernel's Soft-RoCE in a guest, on its eth0."""

    device = 'rxe0'

    def __init__(self, guest, number):
        self.guest, self.name = guest, guest.name
        self.address = self.tcp = '10.9.0.%d' % number
        out = guest.check('cd /sys/class/infiniband/rxe0/ports/1/gids; '
                          'for i in 0 1 2 3 4 5 6 7; do echo $i $(cat $i); done')
        found = re.findall(r'(?m)^(\d) 0000:0000:0000:0000:0000:ffff:0a09:00', out)
        if not found:
            raise Failed('rxe0 has no GID of its IPv4 address:\n' + out)
        self.gid = int(found[0])

    def start(self, command, ready=None, mtu=1024, more=()):
        job = self.guest.start(command)
        if ready:
            job.until({'cm': 'rdma res show cm_id | grep -q LISTEN', 'tcp': GuestEnd.TCP}[ready], 30)
        return job


class Lab:
    """image: with DPDK's drivers; rdma: with rdma-core alone"""

    def __init__(self, folder, build, image, rdma):
        self.folder, self.build, self.image, self.rdma = folder, build, image, rdma
        self.urxe = os.path.join(build, 'tools/urxe')
