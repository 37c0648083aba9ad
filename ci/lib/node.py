#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs ci/two-node and keeps what came out: for ci/demo, ci/bench and tests/e2e."""
import argparse
import errno
import functools
import glob
import importlib.machinery
import importlib.util
import itertools
import os
import random
import re
import select
import shlex
import signal
import socket
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get('URXE_BUILD') or os.path.join(TOP, 'build')
REPORT = re.compile(r'(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:).*')


def built(*path):
    """A program of the build folder, as a shell takes it."""
    return shlex.quote(os.path.join(BUILD, *path))


class Result:
    """status: of two-node; a, b: output of the server and the client; reports: of sanitizers"""

    def __init__(self, status, a, b, own, reports, seconds):
        self.status, self.a, self.b, self.own = status, a, b, own
        self.reports, self.seconds = reports, seconds

    def tail(self, lines=12):
        text = []
        for who, out in (('server', self.a), ('client', self.b), ('two-node', self.own)):
            text += ['%s: %s' % (who, l) for l in out.splitlines()[-lines:]]
        for report in self.reports:
            text += report.splitlines()[:60]
        return '\n'.join(text)


def sanitizer_env(folder):
    """Reports go to files of their own: a process that is killed or muted still leaves one."""
    log = 'log_path=%s/san' % folder
    supp = os.path.join(TOP, 'tests', 'tsan.supp')
    return {
        # Programs that were not built with a sanitizer leak, threads too (rping), as they always did.
        'ASAN_OPTIONS': 'detect_leaks=0:' + log,
        'UBSAN_OPTIONS': 'print_stacktrace=1:' + log,
        # perftest's handler of SIGALRM opens files. Each process would wait for a second at its end.
        'TSAN_OPTIONS': 'die_after_fork=0:atexit_sleep_ms=100:report_thread_leaks=0:report_signal_unsafe=0:' + log +
                        (':suppressions=' + supp if os.path.exists(supp) else ''),
    }


def read(path):
    try:
        with open(path, errors='replace') as f:
            return f.read()
    except OSError:
        return ''


def regex(text):
    """For argparse: that it is one."""
    try:
        re.compile(text)
    except re.error as e:
        raise argparse.ArgumentTypeError('found %r, accepted: a regular expression (%s)' % (text, e)) from e
    return text


def end_cleanly():
    """A signal that ends us is an exit: what stands in `with` and `finally` takes away what we have started."""
    def on_signal(number, _frame):
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)


PORTS, BLOCKS, BLOCK = 20000, 40, 250


def _own_ports():
    """The TCP ports of a block, over and over. It is ours as long as we have the socket of its name."""
    for block in random.sample(range(BLOCKS), BLOCKS):
        with socket.socket(socket.AF_UNIX) as mark:
            try:
                mark.bind('\0urxe-ports-%d' % block)
            except OSError:
                continue
            yield from itertools.cycle(range(PORTS + BLOCK * block, PORTS + BLOCK * (block + 1)))
    raise RuntimeError('%d others have taken all blocks of ports' % BLOCKS)


_ports = _own_ports()


def _unused(port):
    for family, address in ((socket.AF_INET, ''), (socket.AF_INET6, '::')):
        try:
            with socket.socket(family) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                s.bind((address, port))
        except OSError as e:  # a kernel without IPv6 has nobody there
            if e.errno == errno.EADDRINUSE:
                return False
    return True


def tcp_port():
    """A port on which nobody listens, and which no other process has from here that lives: tests run beside each other."""
    for port in itertools.islice(_ports, BLOCK):
        if _unused(port):
            return port
    raise RuntimeError('somebody listens on all ports of a block')


@functools.cache
def _script():
    """ci/two-node as a module: another Python for each run would take a third of a short one's time. Who does not run
    two nodes may lack it."""
    loader = importlib.machinery.SourceFileLoader('two_node', os.path.join(TOP, 'ci', 'two-node'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def _ended(pid, seconds):
    """The exit status of a child, or None if it still runs then."""
    fd = os.pidfd_open(pid)
    try:
        if not select.select([fd], [], [], seconds)[0]:
            return None
    finally:
        os.close(fd)
    return _script().exit_status(pid)


def tcp_listens(port, pid='self'):
    """Does somebody listen on a TCP port of the kernel's, in the network namespace of a process?"""
    return any(address.endswith(':%04X' % port) for address, _ in _script().listeners(pid))


def two_node(server, client, link='vhost', mtu=1024, v6=False, timeout=60, options=(), env=None):
    """Runs both commands. {p} in them is a free TCP port, the same in both; {dir} a folder for both."""
    with tempfile.TemporaryDirectory(prefix='urxe-node-', ignore_cleanup_errors=True) as folder:
        return two_node_in(folder, server, client, link, mtu, v6, timeout, options, env)


def two_node_in(folder, server, client, link, mtu, v6, timeout, options, env):
    port = str(tcp_port())
    out = [os.path.join(folder, x) for x in 'ab']
    argv = ['--build', BUILD, '--link', link, '--mtu', str(mtu), '--timeout', str(timeout), '--out-a', out[0],
            '--out-b', out[1], *options]
    argv += ['--v6'] if v6 else []
    # stderr apart: the halves of a line of stdout do not get parted by it.
    for x, to in zip((server, client), out):
        argv.append('{ %s\n} 2>%s.err' % (x.replace('{p}', port).replace('{dir}', folder), to))
    start = time.monotonic()
    own = os.path.join(folder, 'own')
    with open(own, 'wb') as f:
        pid = _script().begin(argv, f.fileno(), {**os.environ, **sanitizer_env(folder), **(env or {})})
    hangs = ''
    status = None
    try:
        status = _ended(pid, timeout + 30)
    finally:
        if status is None:
            hangs = 'two-node itself hangs'
            os.kill(pid, signal.SIGTERM)
            status = _ended(pid, 15)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            status = _ended(pid, None)
    texts = []
    for path in out:
        texts.append(read(path) + read(path + '.err'))
    own = hangs or read(own).replace('two-node: ', '')
    reports = []
    for path in sorted(glob.glob(folder + '/san*')):
        reports.append(read(path))
    reports += [m.group(0) for t in texts for m in REPORT.finditer(t)]
    return Result(status, texts[0], texts[1], own, reports, time.monotonic() - start)


@functools.cache
def sanitized():
    """'address', 'thread' or '': what the build was made with"""
    import json
    try:
        with open(os.path.join(BUILD, 'meson-info', 'intro-buildoptions.json')) as f:
            value = [o['value'] for o in json.load(f) if o['name'] == 'b_sanitize'][0]
    except (OSError, ValueError, IndexError):
        return ''
    return 'address' if 'address' in value else 'thread' if 'thread' in value else ''


def patience():
    """Seconds after which what has not ended hangs: many times what it takes where others have the processors, too."""
    return 240 if sanitized() else 120
