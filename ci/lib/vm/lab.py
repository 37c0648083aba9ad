# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What laboratories of guests and urxe have in common: a bridge in our network namespace, urxe of the host
on a veth beside the guests' TAPs, and how one sees that a server listens, here or in a guest.

    guest: eth0 10.9.0.N ------------- TAP --+-- br0 10.9.0.254 (the kernel's own: for what programs
    urxe: net_af_packet0,iface=va -- va--vb        exchange over TCP before they use RDMA)

Whoever imports this already is in namespaces that die with him (vm_run of common.sh), so nothing is taken
down here but what may end in order.
"""
import os
import re
import signal
import subprocess
import time

from . import Failed

BRIDGE = '10.9.0.254'
PORT = 'net_af_packet0,iface=va'

# Shell conditions in a guest, of the kernel's Soft-RoCE or of TCP: ports 18500 to 18599 are perftest's and the
# pingpongs', in hexadecimal 4844 to 48a7.
LISTENS = {'cm': 'rdma res show cm_id 2>/dev/null | grep -q LISTEN',
           'tcp': "grep -qE '^ *[0-9]+: [0-9A-F]+:48[4-9A][0-9A-F] [0-9A-F:]+ 0A' /proc/net/tcp /proc/net/tcp6"}


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
        # Where containers are run, new namespaces forward: from va to br0, back to va, until the TTL ends.
        write('/proc/sys/net/ipv4/conf/%s/forwarding' % iface, '0')
    run('ip', 'link', 'set', 'va', 'arp', 'off')
    run('ip', 'link', 'set', 'vb', 'master', 'br0')
    for iface in ('br0', 'va', 'vb'):
        run('ip', 'link', 'set', iface, 'mtu', str(mtu), 'up')
    run('ip', 'addr', 'add', BRIDGE + '/24', 'dev', 'br0')


def tcp_listens():
    """Does anybody in our namespace listen on the TCP ports that perftest and the pingpongs use?"""
    for table in ('tcp', 'tcp6'):
        with open('/proc/self/net/' + table) as f:
            for line in f.readlines()[1:]:
                field = line.split()
                if field[3] == '0A' and re.match(r'185\d\d$', str(int(field[1].split(':')[1], 16))):
                    return True
    return False


def rxe_gid(guest, gid):
    """The index of a GID of rxe0 in a guest; gid: as sysfs has it"""
    out = guest.check('cd /sys/class/infiniband/rxe0/ports/1/gids; '
                      'for i in 0 1 2 3 4 5 6 7; do echo $i $(cat $i); done')
    found = re.findall(r'(?m)^(\d) %s$' % gid, out)
    if not found:
        raise Failed('rxe0 has no GID %s:\n%s' % (gid, out))
    return int(found[0])


class HostProc:
    """A program on urxe, here; made when its server listens, if it has one.

    urxe: the command; folder: for what it writes; options: of `urxe run`; ready: how one sees that it
    listens, 'cm' (rdma_listen) or 'tcp'."""

    where = 'urxe'
    count = 0

    def __init__(self, urxe, folder, options, command, ready=None):
        HostProc.count += 1
        base = os.path.join(folder, 'h%d' % HostProc.count)
        self.out = base + '.out'
        argv = [urxe, 'run', *options, '--', 'sh', '-c', 'exec ' + command]
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
        """The exit status, or 124 when it runs on"""
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
        """Ends it if it runs; its output"""
        if self.proc.poll() is None:
            self.kill()
        self.proc.wait()
        return self.output()

    def output(self):
        with open(self.out, errors='replace') as f:
            return f.read()
