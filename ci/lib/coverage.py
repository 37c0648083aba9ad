#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Lines of urxe that a coverage build's tests have run, by folder, and the ten least covered files.

coverage.py BUILD: prints them and writes BUILD/coverage.txt, with every file.
"""
import collections
import json
import os
import subprocess
import sys

FOLDERS = ('include', 'netio', 'provider', 'cm', 'tools')


def measure(build):
    """[(file, lines that ran, lines)], by gcovr."""
    report = os.path.join(build, 'coverage.json')
    cmd = ['gcovr', '--root', '.', '--object-directory', build, '-j', '2', '--json-summary', report]
    for folder in FOLDERS:
        cmd += ['--filter', folder + '/']
    subprocess.run(cmd + [build], check=True, stdout=subprocess.DEVNULL)
    with open(report) as f:
        files = json.load(f)['files']
    return [(f['filename'], f['line_covered'], f['line_total']) for f in files if f['line_total']]


def row(name, ran, lines):
    return f'{100 * ran / lines:6.1f} %  {ran:6} of {lines:6}  {name}'


def report(files):
    folders = collections.defaultdict(lambda: [0, 0])
    for name, ran, lines in files:
        for key in (os.path.dirname(name) + '/', 'all'):
            folders[key][0] += ran
            folders[key][1] += lines
    everything = folders.pop('all')
    files = sorted(files, key=lambda f: f[1] / f[2])
    yield 'lines that ran, by folder:'
    yield from (row(name, *folders[name]) for name in sorted(folders))
    yield row('all', *everything)
    yield '\nthe ten least covered files:'
    yield from (row(*f) for f in files[:10])
    yield '\nall files:'
    yield from (row(*f) for f in files)


def main(build):
    try:
        files = measure(build)
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f'ci/test --coverage: {e}')
    if not files:
        sys.exit('ci/test --coverage: nothing was counted')
    text = '\n'.join(report(files))
    out = os.path.join(build, 'coverage.txt')
    with open(out, 'w') as f:
        f.write(text + '\n')
    print('\n' + text.split('\n\nall files:')[0] + f'\n\nevery file: {out}')


if __name__ == '__main__':
    main(sys.argv[1])
