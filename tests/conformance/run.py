#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs rdma-core's own Python tests, as Debian ships them, on a urxe device.

usage: run.py --urxe PATH [--link loop] [--tests DIR] [--out FILE] [TEST...]

The device is urxe0, which most tests open twice in one process, as client and server; those of
rdmacm open it and fork two children, which on the fabric have the same address.
Fails on a failure, an error or a skip that skips.txt does not list with its reason, and, when all
tests ran, on fewer passes than MIN_PASSES. Exit status 77: the tests or pyverbs are not installed.
"""
import argparse
import fnmatch
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'ci', 'lib'))
sys.dont_write_bytecode = True
import node  # noqa: E402

MIN_PASSES = 150
LINKS = {
    'fabric': ['--port', 'fabric'],
    'loop': ['--port', 'loop', '--ip', '10.0.0.1/24'],
}
PYTHON = '/usr/bin/python3'


def unpack(src, dst):
    """Debian compresses what is long."""
    for name in sorted(os.listdir(src)):
        path = os.path.join(src, name)
        if name.endswith('.gz'):
            with gzip.open(path) as f, open(os.path.join(dst, name[:-3]), 'wb') as out:
                shutil.copyfileobj(f, out)
        elif name.endswith('.py'):
            shutil.copy(path, dst)


def read_skips():
    """Lines of `test pattern | message pattern | why`, after comments."""
    skips = []
    with open(os.path.join(HERE, 'skips.txt')) as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if not line or line.startswith('#'):
                continue
            parts = [p.strip() for p in line.split('|')]
            if len(parts) != 3 or not all(parts):
                sys.exit(f'skips.txt:{number}: found {line!r}, accepted: test | message | why')
            skips.append(parts)
    return skips


def listed(skips, test, message):
    return any(fnmatch.fnmatchcase(test, t) and fnmatch.fnmatchcase(message, m) for t, m, _ in skips)


def run_suite(args, folder):
    results = os.path.join(folder, 'results')
    # A fabric of its own: the suite's port numbers are the same each time, and another one may run.
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE='1', URXE_CONFORMANCE_RESULTS=results, XDG_RUNTIME_DIR=folder)
    env.pop('LD_LIBRARY_PATH', None)  # meson's
    cmd = [os.path.abspath(args.urxe), 'run', *LINKS[args.link], '--', PYTHON, '-u',
           os.path.join(HERE, 'suite.py'), os.path.join(folder, 'tests'), '--dev', 'urxe0',
           '--gid', '0'] + args.test
    with open(args.out or os.devnull, 'w') as out:
        suite = subprocess.Popen(cmd, env=env, stdin=subprocess.DEVNULL, stdout=out, cwd=folder,
                                 stderr=subprocess.STDOUT if args.out else None, start_new_session=True)
        try:
            status = suite.wait()
        finally:
            try:
                os.killpg(suite.pid, signal.SIGKILL)  # what it has forked
            except ProcessLookupError:
                pass
            suite.wait()
    try:
        with open(results) as f:
            return status, [json.loads(line) for line in f]
    except FileNotFoundError:
        sys.exit(f'the suite did not start: {" ".join(cmd)} ended with {status}')


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('--urxe', required=True)
    p.add_argument('--link', choices=sorted(LINKS), default='fabric')
    p.add_argument('--tests', default='/usr/share/doc/rdma-core/tests')
    p.add_argument('--out')
    p.add_argument('test', nargs='*')
    args = p.parse_args()

    if not os.path.isdir(args.tests):
        print(f'no tests in {args.tests}: Debian package rdma-core')
        sys.exit(77)
    if subprocess.run([PYTHON, '-c', 'import pyverbs'], stderr=subprocess.DEVNULL).returncode:
        print('pyverbs is missing: Debian package python3-pyverbs')
        sys.exit(77)
    skips = read_skips()
    node.end_cleanly()
    folder = tempfile.mkdtemp(prefix='urxe-conformance-')
    try:
        os.mkdir(os.path.join(folder, 'tests'))
        unpack(args.tests, os.path.join(folder, 'tests'))
        status, results = run_suite(args, folder)
    finally:
        shutil.rmtree(folder)

    count, bad, ended = {}, 0, False
    for r in results:
        if r['result'] == 'end':
            ended = True
            continue
        kind = r['result']
        if kind == 'skip' and not listed(skips, r['test'], r['message']):
            kind = 'unlisted skip'
        elif kind == 'error' and listed(skips, r['test'], r['message']):
            kind = 'listed error'
        count[kind] = count.get(kind, 0) + 1
        if kind not in ('pass', 'skip', 'listed error'):
            bad += 1
            print(f'{kind}: {r["test"]}: {r["message"]}')
    if not ended:
        bad += 1
        last = results[-1]['test'] if results else 'the first'
        print(f'the suite died with status {status} after {last}')
    if not args.test and count.get('pass', 0) < MIN_PASSES:
        bad += 1
        print(f'found {count.get("pass", 0)} passes, accepted: {MIN_PASSES} or more')
    print(', '.join(f'{n} {kind}' for kind, n in sorted(count.items())) or 'no test ran')
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
