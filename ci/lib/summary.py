#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Sums up the logs of `meson test` that ci/test gathered in a folder.

SUITE-BUILD.json: meson's testlog.json, one object a line. notes: lines "ok|FAIL|skip NAME".
A test program counts as many tests as it reports: CUnit's summary, or lines "ok NAME",
"FAIL NAME", "skip NAME: why". One that reports none is one test. "note TEXT": something to be told.
"""
import json
import os
import re
import sys

CUNIT = re.compile(r'^\s+tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$', re.M)
CUNIT_FAILED = re.compile(r'^\s+Test: (\S+) \.\.\.(?:(?!^\s+Test:).)*?FAILED', re.M | re.S)
LINES = re.compile(r'^(ok|FAIL|skip)\s+(.*)$', re.M)
# What stands below "FAIL NAME", and of that what may tell why
BELOW = re.compile(r'^FAIL\s+.*\n((?: {5}.*\n?)+)', re.M)
TELLS = re.compile(r'urxed?[\[:]|error|fail|status|Sanitizer|assert', re.I)
NOTE = re.compile(r'^note (.*)$', re.M)
# tests/conformance: its last line, and the names of what failed
COUNTS = re.compile(r'^\d+ [a-z ]+(?:, \d+ [a-z ]+)*$', re.M)
NAMED = re.compile(r'^(?:fail|error|unlisted skip|unexpected \w+): (\S+): ', re.M)
SKIPPED = re.compile(r'skipped: (.*)$', re.M)


def count(test):
    """Of one meson test: (passed, [names of failed], [reasons of skipped])"""
    out = test.get('stdout', '')
    result = test['result']
    passed, failed, skipped = 0, [], []
    for total, _, good, bad, inactive in CUNIT.findall(out):
        passed += int(good)
        names = CUNIT_FAILED.findall(out)
        failed += names if len(names) == int(bad) else ['a test of CUnit'] * int(bad)
    for what, name in LINES.findall(out):
        if what == 'ok':
            passed += 1
        elif what == 'FAIL':
            failed.append(name)
        else:
            skipped.append(name)
    for line in COUNTS.findall(out):
        for number, kind in (part.split(' ', 1) for part in line.split(', ')):
            if kind == 'pass':
                passed += int(number)
            elif kind == 'skip':
                skipped += ['as listed, with its reason, in tests/conformance/skips.txt'] * int(number)
        failed += NAMED.findall(out)
    for why in SKIPPED.findall(out):
        skipped.append(why)
        passed = max(0, passed - 1)
    if result == 'SKIP' and not skipped:
        skipped.append('no reason given')
    elif result not in ('OK', 'SKIP', 'EXPECTEDFAIL') and not failed:
        failed.append('%s, exit status %s' % (result, test.get('returncode')))
    elif not passed and not failed and not skipped:
        passed = 1
    return passed, failed, skipped


def why(text):
    """A few lines of what a failed test printed below its name."""
    lines = [l for l in text.splitlines() if l.strip()]
    return [l[:200] for i, l in enumerate(lines) if i >= len(lines) - 4 or TELLS.search(l)][-12:]


def main(folder):
    rows, failures, reasons, skips, times, told = [], [], [], [], [], []
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.json'):
            continue
        suite, build = name[:-5].rsplit('-', 1)
        row = [build, suite, 0, 0, 0, 0.0]
        with open(os.path.join(folder, name)) as log:
            for line in log:
                test = json.loads(line)
                passed, failed, skipped = count(test)
                title = '%s/%s' % (build, test['name'].split(' / ')[-1])
                row[2] += passed
                row[3] += len(failed)
                row[4] += len(skipped)
                row[5] += test['duration']
                told += ['%s: %s' % (title, n) for n in NOTE.findall(test.get('stdout', ''))]
                times.append((test['duration'], title))
                failures += ['%s: %s' % (title, f) for f in failed]
                reasons += [(title, why(text)) for text in BELOW.findall(test.get('stdout', ''))]
                skips += ['%s: %s' % (title, s) for s in skipped]
        rows.append(row)
    notes = os.path.join(folder, 'notes')
    if os.path.exists(notes):
        row = ['', 'build, lint', 0, 0, 0, 0.0]
        with open(notes) as f:
            text = f.read()
        for what, name in LINES.findall(text):
            row[{'ok': 2, 'FAIL': 3, 'skip': 4}[what]] += 1
            if what == 'FAIL':
                failures.append(name)
            elif what == 'skip':
                skips.append(name)
        rows.append(row)

    print('\n%-9s %-12s %7s %7s %8s %9s' % ('build', 'part', 'passed', 'failed', 'skipped', 'seconds'))
    for row in rows:
        print('%-9s %-12s %7d %7d %8d %9.1f' % tuple(row))
    print('\nslowest:')
    for seconds, title in sorted(times, reverse=True)[:10]:
        print('  %7.1f s  %s' % (seconds, title))
    if told:
        print('\nnotes:\n' + '\n'.join('  ' + n for n in told))
    if skips:
        print('\nskipped, and why:')
        for s in sorted(set(skips)):
            print('  %s%s' % ('%d times ' % skips.count(s) if skips.count(s) > 1 else '', s))
    for title, lines in reasons[:8]:
        print('\n%s:\n%s' % (title, '\n'.join(lines)))
    if failures:
        print('\nFAILED:')
        for f in failures:
            print('  ' + f)
    passed, failed, skipped = (sum(row[i] for row in rows) for i in (2, 3, 4))
    if not passed + failed:
        print('\nnothing ran')
        failed = 1
    print('\n%d passed, %d failed, %d skipped' % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
