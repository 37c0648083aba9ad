#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""urxe and the kernel's Soft-RoCE, each as server and as client. Started by ci/interop-rxe, in
network, PID and mount namespaces that end with it."""
import argparse
import os
import re
import shutil
import sys
import time

import cases
import lab as L
import special

RPING_RACE = 'rdma_get_cm_event: Bad file descriptor'


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


def run_case(lab, case, urxe_side, family):
    sides = ('u', 'k') if urxe_side == 's' else ('k', 'u')
    server_cmd = lab.fill(case.server, sides[0], sides[0], family)
    client_cmd = lab.fill(case.client, sides[1], sides[0], family)
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
    wrong = judge(case, client_status, client_out, server_status, server_out)
    if not wrong:
        return None
    return special.problem(wrong, server=server_cmd + '\n' + server_out,
                           client=client_cmd + '\n' + client_out)


def one(table, name, side, function):
    start = time.monotonic()
    try:
        wrong = function()
    except L.Failed as e:
        wrong = str(e)
    table.add(name, side, 'FAIL' if wrong else 'ok', wrong or '', time.monotonic() - start)


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


def run_all(lab, table):
    for name, side, function in special.TESTS:
        if table.wanted(name, side):
            one(table, name, side, lambda f=function: f(lab))
    run_group(lab, table, cases.CASES)
    run_group(lab, table, cases.LOSSY, '2 % loss: ')
    if any(table.wanted('4500: ' + c.name, s) for c in cases.JUMBO for s in 'sc'):
        L.net_mtu(lab.guest, 4500)
        lab.mtu = 4500
        run_group(lab, table, cases.JUMBO, '4500: ')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--urxe', required=True, help='the urxe command')
    p.add_argument('--peer', required=True, help='folder of the rxe-peer scripts')
    p.add_argument('--program', required=True, help='peer.c, compiled')
    p.add_argument('--folder', required=True, help='for what does not stay')
    p.add_argument('--pcap', help='captures to PCAP.N.pcapng')
    p.add_argument('--only', help='names that match this ("name [s]": urxe is server, [c]: client)')
    p.add_argument('--shell', action='store_true', help='set all up, then a shell')
    args = p.parse_args()
    table = Table(args.only)
    overlay = os.path.join(args.folder, 'overlay')
    os.mkdir(overlay)
    shutil.copy(args.program, os.path.join(overlay, 'peer'))
    guest = L.Guest(args.peer, args.folder)
    lab = L.Lab(guest, args.urxe, args.folder, args.program, args.pcap)
    try:
        L.net_up(1500)
        print(guest.boot(1500, overlay), flush=True)
        lab.find_gids()
        if args.shell:
            return os.system('bash -i')
        run_all(lab, table)
    except L.Failed as e:
        table.add('laboratory', 's', 'FAIL', str(e))
    finally:
        guest.off()
    return table.summary()


if __name__ == '__main__':
    sys.exit(main())
