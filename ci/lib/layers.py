# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ci/bench --profile ROW: where the processes of a row spend their time, by layer and by function, as perf samples it."""
import collections
import glob
import os
import re
import shlex
import shutil
import subprocess

import figures
import instructions

BUILD = instructions.BUILD
HERTZ = 4999
OURS = ('liburxe', 'libibverbs.so', 'librdmacm.so', 'bare', 'ring', 'hot')
OTHER = (('[kernel', 'kernel'), ('[vdso', 'clock'), ('libisal', 'ICRC'), ('liburcu', 'RCU'), ('libpthread', 'libc'),
         ('libc.', 'libc'), ('ld-linux', 'libc'))


def wrapped(folder):
    """What runs a command (words) under perf; each has a file of its own in the folder."""
    def wrap(argv):
        n = len(glob.glob(os.path.join(folder, '*.data')))
        path = os.path.join(folder, '%d.data' % n)
        open(path, 'wb').close()
        return ['perf', 'record', '-q', '-e', 'cpu-clock', '-F', str(HERTZ), '-o', path, '--', *argv]
    return wrap


def source_of(dso):
    """{function: file} of a library of ours, by its debug information"""
    done = subprocess.run(['nm', '-l', '--defined-only', dso], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return {m[1]: m[2] for m in re.finditer(r'(?m)^\S+ [tTwW] (\S+)\t(\S+):\d+$', done.stdout)}


def driver(symbol):
    return re.match(r'(rte_|virtio_|vhost_|vhost|eth_|memif_|eal_|virtqueue_|desc_|copy_)', symbol)


def layer(dso, symbol, sources):
    name = os.path.basename(dso)
    for start, title in OTHER:
        if name.startswith(start):
            return title
    if 'dpdk' in name or name.startswith('librte'):
        if driver(symbol) or name.startswith('librte'):
            return 'DPDK'
    if not name.startswith(OURS):
        return 'the program'
    path = sources(dso).get(symbol)
    if path and os.path.basename(path) == 'clock.c':
        return 'clock'
    if path and 'link_ethdev' in path:
        return 'ethdev glue'
    if path is None:
        return 'DPDK' if 'dpdk' in name else name
    found = instructions.layer(path, name)
    if found == 'other' or found is None:
        found = os.path.basename(os.path.dirname(path)) + '/' + os.path.basename(path)
    return found


def samples(path):
    """[(percent, dso, function)]"""
    argv = ['perf', 'report', '-i', path, '--no-children', '--sort', 'dso,symbol', '--stdio', '-g', 'none', '-F', 'overhead,dso,sym',
            '--full-source-path', '-v']
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    rows = []
    for m in re.finditer(r'(?m)^\s+([\d.]+)%\s+(\S+)\s+(.*)$', done.stdout):
        rest = re.sub(r'^.*\[[.k]\]\s+', '', m[3]).strip()
        rows.append((float(m[1]), m[2], rest.split()[0] if rest else '?'))
    return rows


def report(path, out):
    cache = {}

    def sources(dso):
        if dso not in cache:
            cache[dso] = source_of(dso)
        return cache[dso]

    layers, functions = collections.Counter(), collections.Counter()
    for percent, dso, symbol in samples(path):
        title = layer(dso, symbol, sources)
        layers[title] += percent
        functions[symbol, title] += percent
    for title, percent in layers.most_common():
        if percent >= 0.5:
            print('  %-28s%6.1f %%' % (title, percent), file=out)
    print('  the functions that take most:', file=out)
    for (symbol, title), percent in functions.most_common(15):
        print('    %5.1f %%  %-36s%s' % (percent, symbol[:35], title), file=out)


def longer(command):
    """Ten times as long, if it is perftest's, which measures the clock of the processor first: for as long as a short
    row takes."""
    return re.sub(r'(\bib_\w+ .* -n )(\d+)', lambda m: m[1] + str(10 * int(m[2])), command)


def profile(name, fn, folder):
    """Runs a row's measurement with each process of it under perf; leaves *.data and report.txt in the folder."""
    if not shutil.which('perf'):
        raise ValueError('perf is not installed (Debian: linux-perf)')
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    wrap = wrapped(os.path.abspath(folder))
    figures.around = lambda command: 'exec ' + shlex.join(wrap(['sh', '-c', longer(command)]))
    figures.around_argv = wrap
    value = fn()
    with open(os.path.join(folder, 'report.txt'), 'w') as out:
        write(name, value, folder, out)


def write(name, value, folder, out):
    print('%s: %s (with perf, which takes its share)' % (name, value), file=out)
    for i, path in enumerate(sorted(glob.glob(os.path.join(folder, '*.data')))):
        if os.path.getsize(path):
            print('\nprocess %d (%s)' % (i, path), file=out)
            report(path, out)
