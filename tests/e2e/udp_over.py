# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The port `udp` where there is more than a wire between two hosts: tunnels, of which each takes bytes of the MTU, and a
container whose packets a process of the user carries (pasta). A tunnel's programs are configured with path MTU 4096."""
import os
import shutil
import subprocess

import fabric
import node
import udp

RPING = ('rping', 4, 'rping -s -a {a} -V -C 50', 'rping -c -a {a} -V -v -C 50', 'rdma-ping-49:')
ROWS = [RPING,
        ('rping IPv6', 6, RPING[2], RPING[3], RPING[4]),
        ('ib_write_bw -R', 4, 'ib_write_bw -R -F -n 300', 'ib_write_bw -R -F -n 300 {a}', 'BW average')]
VXLAN = {'VXLAN over IPv4': udp.V4, 'VXLAN over IPv6': udp.V6}


class Tunnel(udp.Hosts):
    """Two hosts with an interface `t0` each, by which they have other addresses."""
    v4, v6 = ('10.99.0.1', '10.99.0.2'), ('fd99::1', 'fd99::2')

    def __init__(self, make):
        super().__init__(1500)
        try:
            self.why = self.why or make(self) or self.addresses()
        except subprocess.CalledProcessError as e:
            self.why = '%s: %s' % (' '.join(e.cmd[-9:]), e.stderr.decode().strip())

    def addresses(self):
        for which in (0, 1):
            for command in (['addr', 'add', self.v4[which] + '/24', 'dev', 't0'],
                            ['addr', 'add', self.v6[which] + '/64', 'dev', 't0', 'nodad'], ['link', 'set', 't0', 'up']):
                self.ip(*command, at=which)
        return ''


def vxlan(ends):
    def make(hosts):
        for which in (0, 1):
            hosts.ip('link', 'add', 't0', 'type', 'vxlan', 'id', '7', 'local', ends[which], 'remote', ends[1 - which],
                     'dstport', '4789', 'dev', 'v%d' % which, at=which)
        return ''
    return make


def interface(hosts, which, name):
    """An interface of WireGuard's: the kernel's, or a process's; or why there is none."""
    try:
        hosts.ip('link', 'add', name, 'type', 'wireguard', at=which)
        return ''
    except subprocess.CalledProcessError:
        if not shutil.which('wireguard-go'):
            return 'the kernel has no wireguard, and wireguard-go is not installed'
    child = subprocess.Popen(['nsenter', '--net', '--target', str(hosts.holders[which].pid), 'wireguard-go', '-f', name],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)
    hosts.children.append(child)
    said = lambda: subprocess.run(['wg', 'show', name], capture_output=True).returncode == 0
    return '' if fabric.until(said, child, 20) else 'wireguard-go does not start'


def wireguard(hosts):
    if not shutil.which('wg'):
        return 'wg is not installed'
    # The sockets by which it is set are in one folder, whatever the namespace.
    names = ['w%d-%d' % (os.getpid() % 100000, which) for which in (0, 1)]
    keys = [subprocess.run(['wg', 'genkey'], capture_output=True, check=True).stdout for _ in names]
    public = [subprocess.run(['wg', 'pubkey'], input=k, capture_output=True, check=True).stdout.decode().strip() for k in keys]
    for which in (0, 1):
        why = interface(hosts, which, names[which])
        if why:
            return why
        file = '%s/key%d' % (hosts.folder, which)
        with open(file, 'wb', opener=lambda f, flags: os.open(f, flags, 0o600)) as f:
            f.write(keys[which])
        hosts.at(which, 'wg', 'set', names[which], 'listen-port', '51820', 'private-key', file, 'peer', public[1 - which],
                 'allowed-ips', '10.99.0.0/24,fd99::/64', 'endpoint', udp.V4[1 - which] + ':51820')
        hosts.ip('link', 'set', names[which], 'name', 't0', at=which)
    return ''


class Pasta(udp.Hosts):
    """A program on the first host is in a network namespace of the user's own, whose packets pasta carries, without any
    right: with the host's address, which is what lets the ICRC pass."""
    before = ('pasta', '--config-net', '--no-map-gw', '-u', '4791', '-f', '--'), ()

    def __init__(self):
        super().__init__(1500)
        if not shutil.which('pasta'):
            self.why = 'pasta is not installed'
        if not self.why:
            self.ip('route', 'replace', 'default', 'via', self.v4[1], 'dev', 'v0', at=0)


def rows_over(report, what, hosts, rows, options, ways, timeout):
    for row in rows:
        for way in ways:
            title = 'udp: %s over %s%s' % (row[0], what, ', the other way' if way else '')
            if not report.wanted(title):
                continue
            if hosts.why:
                report.skip(title, hosts.why)
                continue
            fabric.told(report, title, *udp.pair(hosts, title, row, options, way, timeout))


def udp_over(report, _kind, _why_not):
    timeout = node.patience()
    if os.geteuid():
        report.skip('udp: over tunnels', 'needs root for network namespaces')
        return
    makers = {**{what: vxlan(ends) for what, ends in VXLAN.items()}, 'WireGuard': wireguard}
    for what, make in makers.items():
        with Tunnel(make) as hosts:
            rows_over(report, what, hosts, ROWS, ['--mtu', '4096'], (0,), timeout)
    with Pasta() as hosts:
        # No IPv6: pasta of 2023 does not pass on what arrives.
        rows_over(report, 'pasta', hosts, [ROWS[0], ROWS[2]], ['--view', 'never'], (0, 1), timeout)
