#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Lines of urxe that the fuzzers' inputs have run.

fuzz_coverage.py SUMMARY OUT: from what llvm-cov has exported; prints the files that a stranger's
packets reach first, and writes all to OUT. Status 1 when one of the former is below the floor, or is no file.
"""
import collections
import json
import os
import sys

from coverage import FOLDERS, row

FLOOR = 85  # per cent
WATCHED = (
    'provider/responder.c',
    'provider/responder_read.c',
    'provider/responder_tx.c',
    'provider/completer.c',
    'provider/apm.c',
    'provider/flush.c',
    'cm/rdma/conn.c',
    'cm/rdma/backlog.c',
    'cm/device/agent.c',
    'cm/device/agent_recv.c',
    'cm/device/agent_send.c',
)


def read(summary):
    """{file: (lines that ran, lines)}"""
    with open(summary) as f:
        files = json.load(f)['data'][0]['files']
    out = {}
    for entry in files:
        name = os.path.relpath(entry['filename'])
        lines = entry['summary']['lines']
        if name.split('/')[0] in FOLDERS and name.endswith('.c') and lines['count']:
            out[name] = (lines['covered'], lines['count'])
    return out


def share(counts):
    return counts[0] / counts[1]


def report(files):
    folders = collections.defaultdict(lambda: [0, 0])
    for name, counts in files.items():
        for i in (0, 1):
            folders[os.path.dirname(name) + '/'][i] += counts[i]
    yield 'lines that the inputs of the fuzzers run, by folder:'
    yield from (row(name, *folders[name]) for name in sorted(folders))
    yield f'\nfiles that are to have {FLOOR} %:'
    yield from (row(name, *files[name]) for name in WATCHED if name in files)
    yield '\nall files:'
    yield from (row(name, *files[name]) for name in sorted(files, key=lambda n: share(files[n])))


def main(summary, out):
    files = read(summary)
    text = '\n'.join(report(files))
    with open(out, 'w') as f:
        f.write(text + '\n')
    print(text.split('\n\nall files:')[0] + f'\n\nevery file: {out}')
    low = [name for name in WATCHED if name in files and share(files[name]) * 100 < FLOOR]
    for name in low:
        print(f'FAIL {name}: fewer than {FLOOR} % of its lines')
    # Of some fuzzers alone not all are there.
    gone = [name for name in WATCHED if not os.path.exists(name)]
    for name in gone:
        print(f'FAIL {name}: is no more (ci/lib/fuzz_coverage.py)')
    return 1 if low or gone else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
