#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""urxe and the kernel's Soft-RoCE, each as server and as client. Started by ci/interop-rxe, in
network, PID and mount namespaces that end with it."""
import argparse
import os
import re
import shlex
import sys

import answers  # noqa: E402
import cases  # noqa: E402
import crowds  # noqa: E402
import lab as L  # noqa: E402
import special  # noqa: E402
from vm import image, table  # noqa: E402

RPING_RACE = 'rdma_get_cm_event: Bad file descriptor'
# With -R perftest's client connects a second time, maybe before its server listens again: the kernel
# rejects that (8), whoever asks, and perftest's client crashes.
PERFTEST_RACE = 'Event: RDMA_CM_EVENT_REJECTED; error: 8'
TRIES = 3
# Of this folder, compiled: the same binaries there and here
PROGRAMS = ('peer', 'answers', 'crowd')


class Table(table.Table):
    """Names: "NAME [s]" when urxe is the server, "NAME [c]" when it is the client"""

    def matrix(self):
        print('\n%-36s %-12s %s' % ('', 'urxe server', 'urxe client'))
        for name, got in self.sides().items():
            print('%-36s %-12s %s' % (name, got.get('s', '-'), got.get('c', '-')))


def one_left(case, urxe_status, client_out, server_out):
    """One side is done and gone; urxe, whichever it is, has noticed"""
    return case.leaves and urxe_status != 124 and (
        re.search(case.client_re, client_out) or re.search(case.server_re, server_out))


def end_of(status, out):
    """At its end rping destroys the channel that its other thread reads; Debian's librdmacm fails the
    read, and rping exits with -1 though all is done."""
    return 0 if status == 255 and RPING_RACE in out else status


def run_pair(lab, case, sides, server_cmd, client_cmd):
    """Status and output of the client and of the server"""
    server = lab.start(sides[0], server_cmd, case.ready, case.options)
    try:
        if sides[1] == 'u':
            client = lab.start('u', client_cmd, None, case.options)
            client_status = client.wait(case.seconds)
            client_out = client.end()
        else:
            client_status, client_out = lab.guest.run(client_cmd, case.seconds)
        server_status = 0 if case.endless else server.wait(5 if client_status else 15)
    finally:
        server_out = server.end()
    return client_status, client_out, server_status, server_out


def run_case(lab, case, urxe_side, family):
    sides = ('u', 'k') if urxe_side == 's' else ('k', 'u')
    server_cmd = lab.fill(case.server, sides[0], sides[0], family)
    client_cmd = lab.fill(case.client, sides[1], sides[0], family)
    for _ in range(TRIES):
        got = run_pair(lab, case, sides, server_cmd, client_cmd)
        if sides[0] == 'u' or PERFTEST_RACE not in got[1]:
            break
    client_status, client_out, server_status, server_out = got
    found = re.search(r'(?m)^skipped: (.*)', client_out + '\n' + server_out)
    if 77 in (client_status, server_status) and found:
        raise table.Skipped(found.group(1))
    wrong = table.judge(case, end_of(client_status, client_out), client_out, end_of(server_status, server_out),
                        server_out)
    urxe_status = server_status if urxe_side == 's' else client_status
    if not wrong or one_left(case, urxe_status, client_out, server_out):
        return None
    return table.problem(wrong, server=server_cmd + '\n' + server_out,
                         client=client_cmd + '\n' + client_out)


def seeded(group, seeds):
    """The cases, each with the seeds 1 to @seeds of what is lost; as they are for 0"""
    for case in group:
        for seed in range(1, seeds + 1):
            options = [str(seed) if before == '--seed' else o for before, o in zip((None,) + case.options, case.options)]
            yield case._replace(name='%s, seed %d' % (case.name, seed), options=tuple(options))
        if not seeds:
            yield case


def rows(group, prefix):
    """(name, case, side of urxe, family)"""
    for case in group:
        for family in case.families:
            for side in 'sc':
                if side not in case.skip:
                    yield '%s%s%s [%s]' % (prefix, case.name, ' IPv6' if family == '6' else '', side), case, side, family


def run_group(lab, results, group, prefix=''):
    for name, *row in rows(group, prefix):
        results.run(name, lambda r=row: run_case(lab, *r))


def run_lossy_wire(lab, results, seeds):
    """Both sides lose frames: urxe by its options, the kernel by tc."""
    prefix, group = '1 % loss both ways: ', list(seeded(cases.LOSSY_WIRE, seeds))
    if not results.any(name for name, *_ in rows(group, prefix)):
        return
    L.guest_loss(lab.guest, 100)
    try:
        run_group(lab, results, group, prefix)
        results.run(prefix + 'frames were lost [s]', lambda: None if L.guest_dropped(lab.guest) else 'none was',
                    always=True)
    finally:
        L.guest_loss(lab.guest, 0)


def run_udp(lab, results, seeds):
    """The same programs, but for ours, on the kernel's UDP sockets"""
    groups = (('udp: ', [c for c in cases.CASES if not c.name.startswith('peer ')]),
              ('udp, 2 % loss: ', list(seeded(cases.LOSSY, seeds))))
    if results.any(name for prefix, group in groups for name, *_ in rows(group, prefix)):
        with L.Udp(lab):
            for prefix, group in groups:
                run_group(lab, results, group, prefix)


BEHIND_URXED = ('ibv_rc_pingpong', 'ib_write_bw', 'ib_read_bw', 'ib_send_bw -R', 'udaddy', 'ucmatose -c 10')


def run_urxed(lab, results):
    """Programs of ours on a fabric, which urxed leads out of it"""
    prefix = 'urxed: '
    group = [c for c in cases.CASES if c.name in BEHIND_URXED or c.name.startswith('rping -V')]
    apart = {prefix + 'two servers [s]': lambda: special.two_servers(lab),
             prefix + 'killed server [s]': lambda: special.killed_behind_urxed(lab, 'server'),
             prefix + 'killed client [c]': lambda: special.killed_behind_urxed(lab, 'client')}
    if results.any([*apart] + [name for name, *_ in rows(group, prefix)]):
        with L.Gateway(lab):
            for name, function in apart.items():
                results.run(name, function)
            run_group(lab, results, group, prefix)


def run_all(lab, results, seeds, write):
    results.run('answers of rdma_cma.h', lambda: answers.compare(lab, write))
    for name, side, function in special.TESTS + crowds.TESTS:
        results.run('%s [%s]' % (name, side), lambda f=function: f(lab))
    run_group(lab, results, cases.CASES)
    run_group(lab, results, seeded(cases.LOSSY, seeds), '2 % loss: ')
    run_lossy_wire(lab, results, seeds)
    run_udp(lab, results, seeds)
    run_urxed(lab, results)
    if results.any(name for name, *_ in rows(cases.JUMBO, '4500: ')):
        L.net_mtu(lab.guest, 4500)
        lab.mtu = 4500
        run_group(lab, results, cases.JUMBO, '4500: ')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--urxe', required=True, help='the urxe command')
    p.add_argument('--rdma', required=True, nargs=2, help='folders of the image')
    p.add_argument('--programs', required=True, help='the folder of PROGRAMS')
    p.add_argument('--write-answers', action='store_true', help='answers.list is made anew, not compared')
    p.add_argument('--folder', required=True, help='for what does not stay')
    p.add_argument('--pcap', help='captures to PCAP.N.pcapng')
    p.add_argument('--only', help='names that match this ("name [s]": urxe is server, [c]: client)')
    p.add_argument('--seeds', type=int, default=0, metavar='N', help='the checks with loss by the seeds 1 to N')
    p.add_argument('--shell', action='store_true', help='set all up, then a shell')
    args = p.parse_args()
    results = Table(args.only)
    guest = None
    try:
        L.net_up(1500)
        programs = {name: os.path.join(args.programs, name) for name in PROGRAMS}
        guest = L.boot(image.load(*args.rdma), args.folder, 1500, programs)
        print('kernel ' + guest.check('uname -rv').strip(), flush=True)
        lab = L.Lab(guest, args.urxe, args.folder, programs, args.pcap)
        lab.find_gids()
        if args.shell:
            return shell(guest, args.folder)
        run_all(lab, results, args.seeds, args.write_answers)
    except L.Failed as e:
        results.add('laboratory', 'FAIL', str(e))
    finally:
        if guest:
            guest.off()
    return results.summary()


def shell(guest, folder):
    """A shell here, with a command `guest` that runs its one argument there"""
    guest.agent.close()
    command = os.path.join(folder, 'guest')
    with open(command, 'w') as f:
        f.write('#!/bin/sh\nPYTHONPATH=%s exec python3 -B -m vm run %s "$*"\n' % (
            shlex.quote(sys.path[0]), shlex.quote(guest.path('agent'))))
    os.chmod(command, 0o755)
    print("in the guest: guest 'COMMAND'", flush=True)
    return os.system('PATH=%s:$PATH bash -i' % shlex.quote(folder))


if __name__ == '__main__':
    sys.exit(main())
