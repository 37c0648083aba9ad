# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ci/bench --readme: README.md's table of speed, and the plot of bandwidth and latency over message size."""
import datetime
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import figures

MTU = 4096
MOST = 1 << 20
PLOT = 'tests/bench/speed.svg'
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
BEGIN, END = '<!-- ci/bench --readme writes from here -->', '<!-- to here -->'

# What runs at the same work, and in which rows of ci/lib/bench.py its figures are
COLUMNS = ('fabric', 'vhost', 'af_packet, veth', 'udp', 'kernel TCP', 'UCX shm', 'libfabric shm')
TABLE = [
    ('half a round trip, a few bytes, us', '%.2f', ('fab_lat', 'write_lat', 'packet_lat', 'udp_lat', 'tcp_spin', 'ucx_lat', 'ofi_lat')),
    ('the same, both asleep, us', '%.1f', ('fab_block_lat', 'block_lat', None, None, 'tcp_lat', None, None)),
    ('64 B messages, M/s', '%.1f', ('fab_rate', 'send_rate', 'packet_rate', None, None, 'ucx_rate', None)),
    ('64 KiB writes, Gb/s', '%.0f', ('fab_bw', 'write_bw', 'packet_bw', 'udp_bw_4096', 'tcp_bw', 'ucx_bw', None)),
    ('connections a second, in turn', '%.0f', ('fab_conn', 'conn_rate', None, None, None, None, None)),
]
ONLY = '^(fab_lat|write_lat|udp|tcp_.*|ucx_.*|ofi|fab_block|block|fab_rate|send_rate|fab_bw|write_bw|fab_conn|conn|bare|packet_.*)$'


def tcp_sizes(mode, most):
    rounds = (lambda size: max(300, min(20000, (1 << 28) // size)))
    return {1 << n: figures.tcp(mode, rounds(1 << n), 1 << n) for n in range(1, most.bit_length(), 2)}


def bare_sizes(what):
    found = [1 << n for n in range(3, 13)]
    return dict(zip(found, figures.bare(['%s %d 20000' % (what, size) if what == 'lat' else '%s %d 400000' % (what, size)
                                         for size in found], MTU)))


# title, us over bytes, Gb/s over bytes
CURVES = [
    ('urxe, fabric', lambda: figures.sizes('ib_send_lat', 4, MTU, 500, 'fabric', MOST),
     lambda: figures.sizes('ib_write_bw', 3, MTU, 500, 'fabric', MOST)),
    ('urxe, vhost', lambda: figures.sizes('ib_send_lat', 4, MTU, 500, 'vhost', MOST),
     lambda: figures.sizes('ib_write_bw', 3, MTU, 500, 'vhost', MOST)),
    ('bare link of vhost', lambda: bare_sizes('lat'), lambda: bare_sizes('bw')),
    ('kernel TCP, spinning', lambda: tcp_sizes('spin', MOST), lambda: tcp_sizes('bw', MOST)),
]


def curve(measure, runs):
    """{bytes: median}; what fails is left out, with a line"""
    got = {}
    for _ in range(runs):
        try:
            for size, value in measure().items():
                got.setdefault(size, []).append(value)
        except (ValueError, OSError, subprocess.SubprocessError) as e:
            print('failed: %s' % e, file=sys.stderr)
    return {size: statistics.median(v) for size, v in sorted(got.items())}


SCRIPT = '''set terminal svg size 900,380 font "sans,11" background "white"
set output "{out}"
set multiplot layout 1,2
set logscale xy
set logscale x 2
set key top left
set grid
set xlabel "bytes of a message"
set xtics ("8" 8, "64" 64, "512" 512, "4 Ki" 4096, "32 Ki" 32768, "256 Ki" 262144)
set ylabel "half a round trip, us"
plot {latency}
set ylabel "Gb/s"
set key bottom right
plot {bandwidth}
unset multiplot
'''


def plot(curves, out):
    """curves: [(title, {bytes: us}, {bytes: Gb/s})]"""
    with tempfile.TemporaryDirectory(prefix='urxe-plot-') as folder:
        parts = {'latency': [], 'bandwidth': []}
        for number, (title, *lines) in enumerate(curves):
            for kind, line in zip(parts, lines):
                if not line:
                    continue
                path = os.path.join(folder, '%s%d' % (kind, number))
                with open(path, 'w') as f:
                    f.writelines('%d %g\n' % point for point in line.items())
                parts[kind].append('"%s" with linespoints linetype %d pointsize 0.4 title "%s"' % (path, number + 1, title))
        script = SCRIPT.format(out=out, **{k: ', '.join(v) for k, v in parts.items()})
        subprocess.run(['gnuplot'], input=script, text=True, check=True, timeout=60)


def processor():
    with open('/proc/cpuinfo') as f:
        found = re.search(r'model name\s*: (.*)', f.read())
    return found.group(1).strip() if found else platform.machine()


def table(medians, samples, runs):
    lines = sorted(m.line for got in samples.values() for sample in got for m in sample.moods)
    yield '| | %s |' % ' | '.join(COLUMNS)
    yield '|---|%s' % ('---|' * len(COLUMNS))
    for title, form, rows in TABLE:
        yield '| %s | %s |' % (title, ' | '.join(form % medians[r] if r in medians else '' for r in rows))
    yield ''
    text = ('%s; %d CPUs (%s) of a virtual machine, Linux %s; two processes; medians of %d runs, path MTU %d. A cache line '
            'went from one CPU to the other in %.0f to %.0f ns meanwhile, on which all of this hangs; where samples were '
            'taken below 120 ns, with both CPUs near their best speed, those count. The bare link of vhost: %.2f us, %.1f M/s, %.0f Gb/s.' % (
                datetime.date.today(), os.cpu_count(), processor(), platform.release().split('-')[0], runs, MTU,
                lines[0], lines[-1], *(medians.get('bare_' + k, float('nan')) for k in ('lat', 'rate', 'bw'))))
    line = ''
    for word in text.split():
        if len(line) + len(word) > 99:
            yield line
            line = ''
        line += (' ' if line else '') + word
    yield line


def write(medians, samples, runs):
    plot([(title, curve(lat, runs), curve(bw, runs)) for title, lat, bw in CURVES], os.path.join(TOP, PLOT))
    path = os.path.join(TOP, 'README.md')
    with open(path) as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(path, 'w') as f:
        f.write('%s%s\n%s\n\n![Bandwidth and latency over message size](%s)\n%s%s' % (
            before, BEGIN, '\n'.join(table(medians, samples, runs)), PLOT, END, after))
    print('README.md and %s are written' % PLOT)
