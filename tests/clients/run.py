#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Everyone's programs on urxe, nothing changed in them. One line a case, then a table by family."""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', '..', 'ci', 'lib'), os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

import families  # noqa: E402
import node  # noqa: E402
import rig  # noqa: E402
import sources  # noqa: E402


class Report:
    """Results by family."""

    def __init__(self, only):
        self.only = only
        self.counts = {}
        self.family = None

    def begin(self, family):
        self.family = family
        self.counts[family] = {'passed': 0, 'failed': 0, 'missing': 0, 'skipped': 0}

    def wanted(self, title):
        return not self.only or re.search(self.only, title)

    def count(self, what):
        self.counts[self.family][what] += 1

    def skip(self, title, why):
        self.count('skipped')
        print('skip %s: %s' % (title, why), flush=True)

    def missing(self, title, why):
        self.count('missing')
        print('missing %s: %s' % (title, why), flush=True)

    def result(self, title, problem, said='', seconds=0.0):
        self.count('failed' if problem else 'passed')
        print('%s %s%s (%.1f s)' % ('FAIL' if problem else 'ok', title, ': ' + problem if problem else '', seconds))
        if problem:
            print('\n'.join('     ' + l for l in said.splitlines()))
        sys.stdout.flush()


def version(package):
    """As it is installed, without Debian's own part; None: it is not."""
    done = subprocess.run(['dpkg-query', '-W', '-f', '${db:Status-Abbrev} ${Version}\n', package],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    words = done.stdout.split()
    return re.sub(r'^\d+:|[-+~]\S*$', '', words[1]) if words and words[0] == 'ii' else None


def run_family(report, row, everything):
    report.begin(row.name)
    if not version(row.packages[0]):
        report.skip(row.name, row.packages[0] + ' is not installed')
        return
    for case in row.cases:
        for how in case.how:
            if everything or how in case.short:
                rig.run_case(report, row.name, case, how)
    for special in row.specials:
        special(report, row.name, everything)


def version_of(row):
    return sources.version(row.source) if row.source else version(row.packages[0])


def table(report, rows):
    width = max(len(r.name) for r in rows)
    print('\n%-*s  %-12s passed failed missing skipped' % (width, 'family', 'version'))
    for row in rows:
        c = report.counts[row.name]
        print('%-*s  %-12s %6d %6d %7d %7d' % (width, row.name, version_of(row) or '-', c['passed'], c['failed'],
                                               c['missing'], c['skipped']))
    total = {k: sum(c[k] for c in report.counts.values()) for k in ('passed', 'failed', 'missing', 'skipped')}
    print('%(passed)d passed, %(failed)d failed, %(skipped)d skipped, %(missing)d missing' % total)
    return total


def main():
    p = argparse.ArgumentParser(description=__doc__, prog='ci/clients')
    p.add_argument('--all', action='store_true', help='each case, with and without loss, and with one side killed')
    p.add_argument('--only', metavar='REGEX', type=node.regex, help='cases whose line matches this')
    p.add_argument('--list', action='store_true', help='the families')
    p.add_argument('family', nargs='*', help='all if none')
    args = p.parse_args()
    rows = families.ROWS
    known = [r.name for r in rows]
    for name in args.family:
        if name not in known:
            p.error('no family is called %s (%s are)' % (name, ', '.join(known)))
    rows = [r for r in rows if not args.family or r.name in args.family]
    if args.list:
        for row in rows:
            print('%s\t%s' % (row.name, ' '.join(row.packages)))
        return 0
    node.end_cleanly()
    report = Report(args.only)
    for row in rows:
        run_family(report, row, args.all or bool(args.only))
    total = table(report, rows)
    if total['failed']:
        return 1
    return 0 if total['passed'] else 77


if __name__ == '__main__':
    sys.exit(main())
