# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is no pair of commands. Each takes the lab and returns what is wrong, or nothing."""
import time

import lab as L
from vm.table import problem


def ping(lab, command):
    server = lab.start('u', 'rping -s -P -a ' + L.HOST4, 'cm')
    try:
        status, out = lab.guest.run(command, 20)
    finally:
        said = server.end()
    if status or ' 0% packet loss' not in out:
        return problem('ping says %d' % status, ping=out, urxe=said)
    return None


def nobody_urxe_client(lab):
    client = lab.start('u', lab.fill('{peer} c {a} nobody', 'u', 'k'))
    status = client.wait(30)
    said = client.end()
    return problem('client says %d' % status, client=said) if status else None


def nobody_urxe_server(lab):
    server = lab.start('u', 'rping -s -P -a ' + L.HOST4, 'cm')
    try:
        status, out = lab.guest.run('/peer c %s nobody' % L.HOST4, 30)
    finally:
        said = server.end()
    return problem('client says %d' % status, client=out, urxe=said) if status else None


def no_udp_urxe_client(lab):
    client = lab.start('u', 'udaddy -s %s -c 1 -C 1' % L.VM4)
    status = client.wait(30)
    said = client.end()
    # SIDR_REP status 1: service id not supported (table 120)
    if status == 124 or 'UNREACHABLE, error: 1' not in said:
        return problem('no UNREACHABLE with status 1 (%d)' % status, client=said)
    return None


def no_udp_urxe_server(lab):
    server = lab.start('u', 'rping -s -P -a ' + L.HOST4, 'cm')
    try:
        status, out = lab.guest.run('udaddy -s %s -c 1 -C 1' % L.HOST4, 30)
    finally:
        said = server.end()
    if status == 124 or 'UNREACHABLE, error: 1' not in out:
        return problem('no UNREACHABLE with status 1 (%d)' % status, client=out, urxe=said)
    return None


def two_servers(lab):
    """Two processes on the fabric behind one urxed, both of them servers of the kernel's."""
    servers = [lab.start('u', 'rping -s -a %s -p %d -C 20' % (L.HOST4, port), 'cm') for port in (7201, 7202)]
    texts = []
    try:
        for port in (7201, 7202):
            texts.append(lab.guest.run('rping -c -v -a %s -p %d -C 20' % (L.HOST4, port), 40))
    finally:
        said = [server.end() for server in servers]
    if any('rdma-ping-19:' not in out for _, out in texts):
        return problem('a client has not seen its 20 pings', first=texts[0][1], second=texts[-1][1], urxe=said[0] + said[1])
    return None


RPING = ('rping -s -a {a} -S 4000 -C 1000000', 'rping -c -a {a} -S 4000 -C 1000000')
# The kernel's CM watches no idle connection: its survivor needs something to send. And 7 retries are
# no end of retries to its requester.
SENDS = ('ib_send_bw -R --retry_count=2 -F -b -D 60 -s 2000 -d {d} -x {g}',
         'ib_send_bw -R --retry_count=2 -F -b -D 60 -s 2000 -d {d} -x {g} {a}')


def killed(lab, dead, survivor, server_is_dead):
    """The dead side gets SIGKILL amid traffic: the survivor must end, with an error, in time."""
    sides = (dead, survivor) if server_is_dead else (survivor, dead)
    commands = SENDS if survivor == 'k' else RPING
    server_cmd, client_cmd = [lab.fill(c, side, sides[0]) for c, side in zip(commands, sides)]
    server = lab.start(sides[0], server_cmd, 'cm')
    client = lab.start(sides[1], client_cmd)
    try:
        time.sleep(3 if commands is SENDS else 1.5)  # amid traffic, wherever
        victim, other = (server, client) if server_is_dead else (client, server)
        victim.kill()
        status = other.wait(30)
    finally:
        said = {'server': server.end(), 'client': client.end()}
    if status == 124:
        return problem('the survivor (%s) did not notice' % other.where, **said)
    return None


def killed_server(dead):
    return lambda lab: killed(lab, dead, 'k' if dead == 'u' else 'u', True)


def killed_client(dead):
    return lambda lab: killed(lab, dead, 'k' if dead == 'u' else 'u', False)


def vanished(lab):
    """SIGKILL to an idle urxe: it says nothing any more. A new one of the same address must be able
    to connect to the kernel's server all the same."""
    server = lab.start('k', 'rping -s -P -a ' + L.VM4, 'cm')
    try:
        first = lab.start('u', 'rping -c -a %s -S 100 -C 1000000' % L.VM4)
        time.sleep(1)
        first.kill()
        first_said = first.end()
        again = lab.start('u', 'rping -c -a %s -V -C 3' % L.VM4)
        status = again.wait(30)
        said = again.end()
    finally:
        server_said = server.end()
    if status:
        return problem('the second client says %d' % status, first=first_said, second=said,
                       server=server_said)
    return None


def killed_behind_urxed(lab, who):
    """SIGKILL to one behind urxed, with all that it sent acknowledged: the kernel's program gets its DREQ."""
    sides = ('u', 'k') if who == 'server' else ('k', 'u')
    server_cmd, client_cmd = [lab.fill('{peer} %s {a} %s-killed' % (x, who), side, sides[0]) for x, side in zip('sc', sides)]
    server = lab.start(sides[0], server_cmd, 'cm')
    client = lab.start(sides[1], client_cmd)
    try:
        status = (client if who == 'server' else server).wait(40)
    finally:
        said = {'server': server.end(), 'client': client.end()}
    return problem('the kernel\'s side says %d' % status, **said) if status else None


# name, function; 's' or 'c': urxe is server or client
TESTS = [
    ('ping', 's', lambda lab: ping(lab, 'ping -4 -c 3 -W 2 %s' % L.HOST4)),
    ('ping -s 1472', 's', lambda lab: ping(lab, 'ping -4 -c 2 -W 2 -s 1472 %s' % L.HOST4)),
    ('ping IPv6', 's', lambda lab: ping(lab, 'ping -6 -c 3 -W 2 %s' % L.HOST6)),
    ('ping -s 1452 IPv6', 's', lambda lab: ping(lab, 'ping -6 -c 2 -W 2 -s 1452 %s' % L.HOST6)),
    ('no listener: REJ 8', 'c', nobody_urxe_client),
    ('no listener: REJ 8', 's', nobody_urxe_server),
    ('no listener: SIDR', 'c', no_udp_urxe_client),
    ('no listener: SIDR', 's', no_udp_urxe_server),
    ('killed: server', 's', killed_server('u')),
    ('killed: the kernel\'s server', 'c', killed_server('k')),
    ('killed: the kernel\'s client', 's', killed_client('k')),
    ('killed: client', 'c', killed_client('u')),
    ('killed and back', 'c', vanished),
]
