# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ci/bench: the bare link, urxe and the kernel's TCP in one run; medians, ratios, aims."""
import argparse
import json
import os
import statistics
import sys

sys.dont_write_bytecode = True
import figures  # noqa: E402

MTU = 4096

# Each round measures all of these once, so that what the machine does meanwhile meets all alike.
MEASURES = [
    ('bare', None, None),
    ('write_lat', 'us', lambda: figures.latency('ib_write_lat', 2, MTU)),
    ('send_rate', 'M/s', lambda: figures.rate('ib_send_bw', 64, MTU, 500000)),
    ('write_bw', 'Gb/s', lambda: figures.bandwidth('ib_write_bw', 65536, MTU, 20000)),
    ('read_bw', 'Gb/s', lambda: figures.bandwidth('ib_read_bw', 65536, MTU, 20000)),
    ('pings', '/s', lambda: figures.pings(MTU)),
    ('pings_packet', '/s', lambda: figures.pings(MTU, 'af_packet')),
    ('conn', None, None),
    ('qp_memory', 'KiB', lambda: figures.qp_memory(MTU)),
    ('tcp_lat', 'us', lambda: figures.tcp('lat')),
    ('tcp_spin', 'us', lambda: figures.tcp('spin')),
    ('tcp_bw', 'Gb/s', lambda: figures.tcp('bw')),
]
GROUPS = {
    'bare': (('bare_lat', 'bare_rate', 'bare_bw'),
             lambda: figures.bare(['lat 8 20000', 'rate 64 2000000', 'bw 4096 400000'], MTU)),
    'conn': (('conn_rate', 'conn_p50', 'conn_p99', 'conn_cqs', 'many_rate', 'many_p50', 'many_p99',
              'many_client', 'many_server'), lambda: figures.connections(MTU)),
}

ROWS = [
    ('bare_lat', 'bare link, half a round trip', 'us'),
    ('bare_rate', 'bare link, 64 B packets', 'M/s'),
    ('bare_bw', 'bare link, 4 KiB packets', 'Gb/s'),
    ('write_lat', '2 B write latency (ib_write_lat)', 'us'),
    ('send_rate', '64 B sends (ib_send_bw -s 64)', 'M/s'),
    ('write_bw', '64 KiB writes (ib_write_bw)', 'Gb/s'),
    ('read_bw', '64 KiB reads (ib_read_bw)', 'Gb/s'),
    ('pings', 'pings of rping, which sleeps for events', '/s'),
    ('pings_packet', 'the same over AF_PACKET', '/s'),
    ('conn_rate', 'connections, one after the other', '/s'),
    ('conn_p50', 'rdma_connect() to ESTABLISHED, p50', 'us'),
    ('conn_p99', 'rdma_connect() to ESTABLISHED, p99', 'us'),
    ('conn_cqs', 'each with CQs and channels of its own', '/s'),
    ('many_rate', 'connections, 1,000 at once', '/s'),
    ('many_p50', 'rdma_connect() to ESTABLISHED, p50', 'us'),
    ('many_p99', 'rdma_connect() to ESTABLISHED, p99', 'us'),
    ('many_client', 'memory per connection, client', 'KiB'),
    ('many_server', 'memory per connection, server', 'KiB'),
    ('qp_memory', 'memory per idle RC QP, 128 + 128 WRs', 'KiB'),
    ('tcp_lat', 'kernel TCP, half a round trip, blocking', 'us'),
    ('tcp_spin', 'kernel TCP, half a round trip, spinning', 'us'),
    ('tcp_bw', 'kernel TCP, 64 KiB writes', 'Gb/s'),
]

# (what, value, 'at most' or 'at least', aim): from the medians m
AIMS = [
    ('write latency <= 2 x bare link + 0.5 us', 'write_lat', 'at most', lambda m: 2 * m['bare_lat'] + 0.5),
    ('write bandwidth >= bare link / 2', 'write_bw', 'at least', lambda m: m['bare_bw'] / 2),
    ('write bandwidth >= 2 x kernel TCP', 'write_bw', 'at least', lambda m: 2 * m['tcp_bw']),
    ('read bandwidth >= bare link / 2', 'read_bw', 'at least', lambda m: m['bare_bw'] / 2),
    ('read bandwidth >= 2 x kernel TCP', 'read_bw', 'at least', lambda m: 2 * m['tcp_bw']),
    ('connections, one after the other >= 20000/s', 'conn_rate', 'at least', lambda m: 20000.0),
    ('connect p99, one after the other <= 1000 us', 'conn_p99', 'at most', lambda m: 1000.0),
    ('memory per idle RC QP <= 32 KiB', 'qp_memory', 'at most', lambda m: 32.0),
    ('64 B sends >= 2 M/s', 'send_rate', 'at least', lambda m: 2.0),
]
BESIDE = {'write_lat': 'bare_lat', 'send_rate': 'bare_rate', 'write_bw': 'bare_bw', 'read_bw': 'bare_bw'}


def measure(runs, note):
    samples, errors = {name: [] for name, _, _ in ROWS}, []
    for run in range(runs):
        for name, _, fn in MEASURES:
            note('run %d of %d: %s' % (run + 1, runs, name))
            try:
                if name in GROUPS:
                    names, group = GROUPS[name]
                    for key, value in zip(names, group()):
                        samples[key].append(value)
                else:
                    samples[name].append(fn())
            except (ValueError, OSError) as e:
                errors.append('%s, run %d: %s' % (name, run + 1, e))
    return samples, errors


def judge(medians):
    found = []
    for what, key, sense, fn in AIMS:
        try:
            aim, value = fn(medians), medians[key]
        except KeyError:
            found.append({'aim': what, 'result': 'not measured'})
            continue
        good = value <= aim if sense == 'at most' else value >= aim
        found.append({'aim': what, 'value': value, sense: aim, 'result': 'PASS' if good else 'FAIL'})
    return found


def show(samples, medians, aims, errors, runs):
    print('median of %d runs; vhost link, path MTU %d, one process per end, %d CPUs, load %.1f\n' % (
        runs, MTU, os.cpu_count(), os.getloadavg()[0]))
    print('%-42s %10s %-5s %22s  %s' % ('', 'median', '', 'lowest .. highest', 'of the bare link'))
    for name, title, unit in ROWS:
        if name not in medians:
            print('%-42s %10s' % (title, 'failed'))
            continue
        beside = BESIDE.get(name)
        ratio = '%.2f' % (medians[name] / medians[beside]) if beside in medians else ''
        print('%-42s %10.2f %-5s %10.2f .. %8.2f  %s' % (
            title, medians[name], unit, min(samples[name]), max(samples[name]), ratio))
    print('\n%-44s %10s %18s' % ('aim', 'measured', ''))
    for a in aims:
        bound = ['%s %.2f' % (s, a[s]) for s in ('at most', 'at least') if s in a]
        print('%-44s %10s %18s  %s' % (a['aim'], '%.2f' % a['value'] if 'value' in a else '-', ''.join(bound), a['result']))
    for e in errors:
        print('\nfailed: ' + e)


def main():
    p = argparse.ArgumentParser(prog='ci/bench', description='Medians of our figures, the bare link\'s and the '
                                'kernel\'s TCP, beside the aims. Status 0 whatever comes out.')
    p.add_argument('-r', '--runs', type=int, default=5)
    p.add_argument('--json', action='store_true', help='print one JSON object instead of the table')
    args = p.parse_args()
    tty = sys.stderr.isatty()
    samples, errors = measure(args.runs, lambda t: print('\r\033[K' + t, end='', file=sys.stderr) if tty else None)
    if tty:
        print('\r\033[K', end='', file=sys.stderr)
    medians = {k: statistics.median(v) for k, v in samples.items() if v}
    aims = judge(medians)
    if args.json:
        print(json.dumps({'runs': args.runs, 'mtu': MTU, 'median': medians, 'samples': samples, 'aims': aims,
                          'units': {n: u for n, _, u in ROWS}, 'errors': errors}, indent=1))
    else:
        show(samples, medians, aims, errors, args.runs)
    return 0


if __name__ == '__main__':
    sys.exit(main())
