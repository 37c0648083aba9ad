#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""urxe and the kernel's Soft-RoCE, each as server and as client. Started by ci/interop-rxe, in
network, PID and mount namespaces that end with it."""
import argparse
import os
import re
import shlex
import sys
import time

import cases  # noqa: E402
import lab as L  # noqa: E402
import special  # noqa: E402
from vm import image  # noqa: E402

RPING_RACE = 'rdma_get_cm_event: Bad file descriptor'
# With -R perftest's client connects a second time, maybe before its server listens again: the kernel
# rejects that (8), whoever asks, and perftest's client crashes.
PERFTEST_RACE = 'Event: RDMA_CM_EVENT_REJECTED; error: 8'
TRIES = 3


class Skipped(Exception):
    """A program says that what it tries is not to be had in this guest (status 77)."""


class Table:
    def __init__(self, only):
        self.only, self.rows, self.start = only, [], time.monotonic()

    def wanted(self, name, side):
        return not self.only or re.search(self.only, '%s [%s]' % (name, side))

    def add(self, name, side, result, why='', seconds=0.0):
        """side: of urxe, 's' server, 'c' client"""
        self.rows.append((name, side, result))
        role = 'urxe server' if side == 's' else 'urxe client'
        print('%-4s %-34s %s  %5.1f s' % (result, name, role, seconds), flush=True)
        for line in why.splitlines():
            print('       ' + line, flush=True)

    def summary(self):
        names = list(dict.fromkeys(r[0] for r in self.rows))
        of = {(n, s): r for n, s, r in self.rows}
        print('\n%-36s %-12s %s' % ('', 'urxe server', 'urxe client'))
        for n in names:
            print('%-36s %-12s %s' % (n, of.get((n, 's'), '-'), of.get((n, 'c'), '-')))
        count = {k: sum(1 for r in self.rows if r[2] == k) for k in ('ok', 'FAIL', 'skip')}
        print('\n%.0f s\n%d passed, %d failed, %d skipped' % (
            time.monotonic() - self.start, count['ok'], count['FAIL'], count['skip']), flush=True)
        return 1 if count['FAIL'] or not count['ok'] else 0


def one_left(case, urxe_status, client_out, server_out):
    """One side is done and gone; urxe, whichever it is, has noticed"""
    return case.leaves and urxe_status != 124 and (
        re.search(case.client_re, client_out) or re.search(case.server_re, server_out))


def judge(case, client_status, client_out, server_status, server_out):
    wrong = []
    # At its end rping destroys the channel that its other thread reads; Debian's librdmacm fails the
    # read, and rping exits with -1 though all is done.
    if client_status == 255 and RPING_RACE in client_out:
        client_status = 0
    if server_status == 255 and RPING_RACE in server_out:
        server_status = 0
    if client_status:
        wrong.append('client says %s' % client_status)
    if server_status and not case.endless:
        wrong.append('server says %s' % server_status)
    found = sum(1 for _ in re.finditer(case.client_re, client_out)) if case.client_re else case.count
    if found < case.count:
        wrong.append('%r %d times in the output of the client, not %d' % (case.client_re, found,
                                                                       case.count))
    if case.server_re and not re.search(case.server_re, server_out):
        wrong.append('no %r in the output of the server' % case.server_re)
    return '; '.join(wrong)


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
        raise Skipped(found.group(1))
    wrong = judge(case, *got)
    urxe_status = server_status if urxe_side == 's' else client_status
    if not wrong or one_left(case, urxe_status, client_out, server_out):
        return None
    return special.problem(wrong, server=server_cmd + '\n' + server_out,
                           client=client_cmd + '\n' + client_out)


def one(table, name, side, function):
    start = time.monotonic()
    try:
        wrong = function()
        result = 'FAIL' if wrong else 'ok'
    except Skipped as e:
        result, wrong = 'skip', str(e)
    except L.Failed as e:
        result, wrong = 'FAIL', str(e)
    table.add(name, side, result, wrong or '', time.monotonic() - start)


def run_group(lab, table, group, prefix=''):
    for case in group:
        for family in case.families:
            name = prefix + case.name + (' IPv6' if family == '6' else '')
            for side in 'sc':
                if not table.wanted(name, side):
                    continue
                if side in case.skip:
                    continue
                one(table, name, side, lambda c=case, s=side, f=family: run_case(lab, c, s, f))


def run_lossy_wire(lab, table):
    """Both sides lose frames: urxe by its options, the kernel by tc."""
    prefix = '1 % loss both ways: '
    if not any(table.wanted(prefix + c.name, s) for c in cases.LOSSY_WIRE for s in 'sc'):
        return
    L.guest_loss(lab.guest, 100)
    try:
        run_group(lab, table, cases.LOSSY_WIRE, prefix)
        one(table, prefix + 'frames were lost', 's', lambda: None if L.guest_dropped(lab.guest) else 'none was')
    finally:
        L.guest_loss(lab.guest, 0)


def run_all(lab, table):
    for name, side, function in special.TESTS:
        if table.wanted(name, side):
            one(table, name, side, lambda f=function: f(lab))
    run_group(lab, table, cases.CASES)
    run_group(lab, table, cases.LOSSY, '2 % loss: ')
    run_lossy_wire(lab, table)
    if any(table.wanted('4500: ' + c.name, s) for c in cases.JUMBO for s in 'sc'):
        L.net_mtu(lab.guest, 4500)
        lab.mtu = 4500
        run_group(lab, table, cases.JUMBO, '4500: ')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--urxe', required=True, help='the urxe command')
    p.add_argument('--rdma', required=True, nargs=2, help='folders of the image')
    p.add_argument('--program', required=True, help='peer.c, compiled')
    p.add_argument('--folder', required=True, help='for what does not stay')
    p.add_argument('--pcap', help='captures to PCAP.N.pcapng')
    p.add_argument('--only', help='names that match this ("name [s]": urxe is server, [c]: client)')
    p.add_argument('--shell', action='store_true', help='set all up, then a shell')
    args = p.parse_args()
    table = Table(args.only)
    guest = None
    try:
        L.net_up(1500)
        guest = L.boot(image.load(*args.rdma), args.folder, 1500, args.program)
        print('kernel ' + guest.check('uname -rv').strip(), flush=True)
        lab = L.Lab(guest, args.urxe, args.folder, args.program, args.pcap)
        lab.find_gids()
        if args.shell:
            return shell(guest, args.folder)
        run_all(lab, table)
    except L.Failed as e:
        table.add('laboratory', 's', 'FAIL', str(e))
    finally:
        if guest:
            guest.off()
    return table.summary()


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
