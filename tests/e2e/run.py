#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""End to end: Debian's own programs as two nodes. One line a test: ok, FAIL or skip.

run.py --group LINK-MTU | --special NAME | --short | --full | --list
       [--only REGEX] [--link LINK --mtu MTU]
"""
import argparse
import os
import re
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', '..', 'ci', 'lib'), HERE]
sys.dont_write_bytecode = True

import clocked  # noqa: E402
import matrix  # noqa: E402
import node  # noqa: E402
import special  # noqa: E402

ADDRESS = {'4': {'a': '10.0.0.1', 'b': '10.0.0.2', 'm': '239.1.2.3'},
           '6': {'a': 'fd00::1', 'b': 'fd00::2', 'm': 'ff0e::1234'},
           'm': {'a': '::ffff:10.0.0.1', 'b': '::ffff:10.0.0.2', 'm': '::ffff:239.1.2.3'}}
FAMILY = {'4': '', '6': ' IPv6', 'm': ' IPv4-mapped'}


def why_not(link):
    """The reason why a link cannot be had here, or None."""
    if link in ('af_packet', 'tap', 'udp'):
        if os.geteuid():
            return 'needs root for a network namespace'
        if not shutil.which('ip'):
            return 'needs ip (iproute2)'
    return None


def fill(text, values):
    for key, value in values.items():
        text = text.replace('{%s}' % key, str(value))
    return text


def missing_program(case):
    for command in (case.server, case.client):
        # what stands before it waits for the other side, or flushes its lines
        prog = command.split('; done; ')[-1].replace('exec ', '').replace('stdbuf -oL ', '').split()[0]
        if not shutil.which(prog):
            return prog
    return None


def wrong(case, result, values):
    """What is wrong with a result, in words, or None."""
    if result.reports:
        return 'a sanitizer reports'
    if result.status:
        return 'exit status %d' % result.status
    for who, text, regex in (('client', result.b, case.client_re), ('server', result.a, case.server_re)):
        found = len(re.findall(regex, text)) if regex else 1
        want = values.get(case.count, case.count) if who == 'client' else 0
        if not found or (want and found != want):
            return '%s says %s %d times, not %s' % (who, regex, found, want or 'once')
    return None


def run_case(report, case, link, mtu, kind, timeout):
    for family in case.families:
        name = '%s-%d %s%s' % (link, mtu, case.name, FAMILY[family])
        if not report.wanted(name):
            continue
        prog = missing_program(case)
        if prog:
            report.skip(name, prog + ' is not installed')
            continue
        values = {**ADDRESS[family], **matrix.ITERATIONS[kind]}
        result = clocked.two_node(name, fill(case.server, values), fill(case.client, values), link, mtu,
                                  family == '6', timeout, case.options)
        report.result(name, wrong(case, result, values), result)


class Report:
    def __init__(self, only):
        self.only = only
        self.failed = self.ran = 0
        self.last = time.monotonic()

    def wanted(self, name):
        return not self.only or re.search(self.only, name)

    def skip(self, name, why):
        self.last = time.monotonic()
        print('skip %s: %s' % (name, why), flush=True)

    def result(self, name, problem, result=None):
        now = time.monotonic()
        took = ' (%.1f s)' % (result.seconds if result else now - self.last)
        self.last = now
        self.ran += 1
        if problem:
            self.failed += 1
            print('FAIL %s: %s%s' % (name, problem, took))
            if result:
                print('\n'.join('     ' + l for l in result.tail().splitlines()))
        else:
            print('ok %s%s' % (name, took))
        sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--group', help='a row of matrix.CI: LINK-MTU')
    p.add_argument('--special', choices=sorted(special.TESTS))
    p.add_argument('--short', action='store_true', help='matrix.SHORT')
    p.add_argument('--full', action='store_true', help='the whole matrix (of --group) and all specials')
    p.add_argument('--list', action='store_true')
    p.add_argument('--only', type=node.regex, help='names that match this')
    args = p.parse_args()
    node.end_cleanly()
    report = Report(args.only)
    san = node.sanitized()
    rows, specials = [], []
    if args.full:
        kind, timeout = 'full', 300
        rows = [r for r in matrix.FULL if args.group in (None, '%s-%d' % r[:2])]
        specials = [] if args.group else sorted(special.TESTS)
    else:
        kind, timeout = 'ci-sanitized' if san else 'ci', node.patience()
        rows = [r for r in (matrix.SANITIZED if san else matrix.CI) if '%s-%d' % r[:2] == args.group]
        rows += matrix.SHORT if args.short else []
        specials = [args.special] if args.special else []
    if args.list:
        for link, mtu, names in matrix.CI:
            print('%s-%d: %s' % (link, mtu, ' '.join(names)))
        print('special: ' + ' '.join(sorted(special.TESTS)))
        return 0
    if not rows and not specials:
        p.error('nothing to run: --group, --special, --short or --full')
    by_name = {c.name: c for c in matrix.CASES + matrix.EXTRA}
    for link, mtu, names in rows:
        reason = why_not(link)
        if reason:
            for name in names:
                report.skip('%s-%d %s' % (link, mtu, name), reason)
            continue
        for name in names:
            run_case(report, by_name[name], link, mtu, kind, timeout)
    for name in specials:
        special.TESTS[name](report, kind, why_not)
    if report.failed:
        return 1
    return 0 if report.ran else 77


if __name__ == '__main__':
    sys.exit(main())
