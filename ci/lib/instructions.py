# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Instructions a 64 B message takes, both ends together: tests/bench/hot under callgrind, by what is called and by layer.

The counts are exact, and the same each time and on each machine with the same compiler and libraries: ci/test has
them as a gate, which no noise can trip.
"""
import argparse
import collections
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ.get('URXE_BUILD', 'build')
PROGRAM = os.path.join(BUILD, 'tests', 'bench', 'hot')
STEPS = ('step_post_send', 'step_post_recv', 'step_poll_sender', 'step_poll_receiver')
COUNT = 4096

# What is run, how often, and how many instructions a message may take with Debian 12's gcc: some 5 % above what it
# took when the number was written. Who makes it faster writes smaller ones. None: the clock has a say in it.
WORKS = {
    'send': (COUNT, 2080, 'sends, one QP, 128 under way'),
    'write': (COUNT, 1900, 'writes, one QP, 128 under way'),
    'many': (4 * COUNT, 4640, 'sends, 1,024 QPs in turn'),
    'write_many': (4 * COUNT, 4500, 'writes, 1,024 QPs in turn'),
    'ping': (COUNT, 4990, 'sends to and fro, one at a time'),
    'empty': (COUNT, 263, 'polls that find nothing'),
    'fabric_send': (COUNT, None, 'send, between two nodes of a local fabric'),
    'fabric_write': (COUNT, None, 'write, likewise'),
    'fabric_ping': (COUNT, None, 'ping, likewise'),
    'fabric_empty': (COUNT, None, 'empty, likewise'),
}
GATE = ('gcc 12', 'x86_64')

# Cache lines that a message fetches: misses of a first cache and of a last one, as callgrind simulates them. Where many
# queue pairs are in use this, not instructions, is what a message costs.
CACHES = ('--cache-sim=yes', '--D1=32768,8,64', '--LL=2097152,16,64')
LINES = {'many': 65, 'write_many': 62}

# By the file that a line is of (an inlined one too); what is in none of ours, by its library.
LAYERS = {
    'post': ('post.c', 'wqe.c', 'wqe.h', 'wr.c', 'ring.c', 'rq.c', 'srq.c'),
    'poll': ('cq.c', 'cq_ex.c', 'cq_event.c'),
    'turns': ('progress.c', 'progress.h', 'receive.c', 'serve.h', 'pending.c', 'pending.h', 'service.c', 'wake.c', 'wake.h', 'timer.c'),
    'requester': ('requester.c', 'retry.c', 'cc.h', 'cc.c', 'cc_window.c', 'rate.c', 'apm.c'),
    'responder': ('responder.c', 'responder_tx.c', 'responder_read.c', 'decode.c'),
    'completer': ('completer.c',),
    'memory': ('mkey.c', 'sge.c', 'sge.h', 'table.c', 'table.h', 'memory.h', 'guarded.c', 'guarded.S'),
    'netio out': ('tx.c', 'path.c', 'neigh.c', 'neigh_table.c'),
    'netio in': ('ip.c', 'ip_known.c', 'lane.c', 'raw.c', 'addr.c'),
    'fabric': ('link_fabric.c', 'fabric.c', 'fabric_peer.c', 'fabric_ring.c', 'fabric_ring.h', 'fabric_link.h',
               'fabric_steer.c', 'buf_pool.c', 'clock.c'),
    'ICRC': ('icrc.c', 'icrc_fold.c', 'icrc_table.c', 'libisal'),
    'locks': ('lock.h',),
    'RCU': ('rcu.h', 'rcu.c', 'liburcu', 'ld-linux'),
    'libc': ('libc',),
    'wire.h': ('wire.h',),
}
DRIVER = ('hot.c', 'verbs.h')


def layer(path, obj):
    name = os.path.basename(path)
    if name.endswith('intrin.h'):
        return 'ICRC'
    if name in DRIVER:
        return None
    for title, files in LAYERS.items():
        if name in files or any(os.path.basename(obj).startswith(f) for f in files):
            return title
    return 'other'


def parse(lines):
    """Of callgrind's output: {(file, library): instructions} of their own, {function: instructions with what it calls},
    {cache: lines that it fetched}"""
    own, whole, fetched, events = collections.Counter(), collections.Counter(), collections.Counter(), []
    obj = path = fn = ''
    called = False
    for line in lines:
        key, _, value = line.rstrip('\n').partition('=')
        if key == 'ob':
            obj = value
        elif key in ('fl', 'fi', 'fe'):
            path = value
        elif key == 'fn':
            fn = re.split("['.]", value)[0]
        elif key == 'calls':
            called = True
        elif line.startswith('events:'):
            events = line.split()[1:]
        elif re.match(r'[+\-*\d]', line):
            cost = int(line.split()[1])
            whole[fn] += cost
            if not called:
                own[path, obj] += cost
                count = dict(zip(events, map(int, line.split()[1:])))
                for title, names in (('first', ('D1mr', 'D1mw')), ('last', ('DLmr', 'DLmw'))):
                    fetched[title] += sum(count.get(n, 0) for n in names)
            called = False
    return own, whole, fetched


def run(work, count, out):
    """(messages, own, whole, lines) of one work"""
    argv = ['valgrind', '--tool=callgrind', '--callgrind-out-file=' + out, '--compress-strings=no', '--compress-pos=no']
    argv += ['--toggle-collect=%s*' % s for s in STEPS]  # link-time optimization adds to their names
    argv += CACHES if work in LINES else ()
    done = subprocess.run(argv + [PROGRAM, work, str(count)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode:
        raise ValueError('%s: %s' % (work, done.stderr.strip()))
    with open(out) as f:
        return int(done.stdout), *parse(f)


def measure(work):
    """Instructions a message: {'total':, 'steps': {}, 'layers': {}}"""
    with tempfile.TemporaryDirectory() as folder:
        messages, own, whole, lines = run(work, WORKS[work][0], os.path.join(folder, 'out'))
    layers = collections.Counter()
    for (path, obj), cost in own.items():
        layers[layer(path, obj)] += cost
    driver = layers.pop(None, 0)
    total = sum(layers.values())
    return {'total': total / messages, 'driver': driver / messages,
            'steps': {s[5:]: whole[s] / messages for s in STEPS if whole[s]},
            'layers': {k: v / messages for k, v in layers.most_common()},
            'lines': {k: v / messages for k, v in lines.items() if work in LINES}}


def show(found):
    print('instructions a 64 B message, both ends together; path MTU 1024, gcc\'s build in %s\n' % BUILD)
    print('%-22s' % '' + ''.join('%13s' % w for w in found))
    print('%-22s' % 'all' + ''.join('%13.1f' % f['total'] for f in found.values()))
    for title, key in (('by call (with the driver\'s own)', 'steps'), ('by layer', 'layers'),
                       ('cache lines fetched, of 32 KiB and of 2 MiB', 'lines')):
        print('\n' + title)
        names = collections.Counter()
        for f in found.values():
            for name, cost in f[key].items():
                names[name] = max(names[name], cost)
        for name, _ in names.most_common():
            print('  %-20s' % name + ''.join('%13.1f' % f[key].get(name, 0) for f in found.values()))
    print()
    for work in found:
        print('%-13s %s' % (work, WORKS[work][2]))


def why_not():
    """Why the limits are not for what was built here; None: they are."""
    if not shutil.which('valgrind'):
        return 'valgrind is not installed'
    cc = subprocess.run([PROGRAM, 'compiler'], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    have = cc.stdout.strip(), platform.machine()
    return None if have == GATE else 'the limits are for %s on %s, not %s on %s' % (GATE + have)


def check():
    """Lines as ci/test counts them; how many failed."""
    why = why_not()
    if why:
        print('skip instructions: ' + why)
        return 0
    failed = 0
    for work, (_, limit, _) in WORKS.items():
        if limit is None:
            continue
        found = measure(work)
        rows = [('instructions', found['total'], limit)]
        rows += [('cache lines', found['lines']['first'], LINES[work])] if work in LINES else []
        for what, have, most in rows:
            good = have <= most
            failed += not good
            print('%s %s of %s: %.1f, at most %d' % ('ok' if good else 'FAIL', what, work, have, most))
    return failed


def main():
    p = argparse.ArgumentParser(prog='ci/bench --instructions', description=__doc__)
    p.add_argument('--json', action='store_true', help='print one JSON object instead of the table')
    p.add_argument('--check', action='store_true', help='print a line for each limit; status 1 when one is exceeded')
    p.add_argument('work', nargs='*', help='of %s' % ', '.join(WORKS))
    args = p.parse_args()
    if args.check:
        return 1 if check() else 0
    found = {w: measure(w) for w in args.work or WORKS}
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)
    return 0


if __name__ == '__main__':
    sys.exit(main())
