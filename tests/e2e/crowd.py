# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Crowds on the fabric, of an unprivileged user: all connected with all, some killed, one stopped (crowd/).

More by hand: URXE_KILLS, URXE_STOP (seconds), URXE_CROWD (processes of the large one), URXE_SEED.
"""
import os
import subprocess

import node
from fabric import Fabric, TOOL, show, told

CROWD = os.path.join(node.BUILD, 'tests', 'e2e', 'crowd')


def number(name, default):
    return int(os.environ.get(name, default))


def crowd(report, title, options, timeout):
    """Everybody has left at its end: so nothing may be left in the folder, nor in /dev/shm."""
    title = 'crowd: ' + title
    if not report.wanted(title):
        return
    if 'URXE_SEED' in os.environ:
        options = [*options, '-s', os.environ['URXE_SEED']]
    before = set(os.listdir('/dev/shm')) if os.path.isdir('/dev/shm') else set()
    with Fabric() as fabric:
        child = subprocess.Popen([*fabric.user, TOOL, 'run', '--port', 'fabric', '--', CROWD, '-w', str(timeout // 2), *map(str, options)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=fabric.environ(), start_new_session=True)
        fabric.children.append(child)
        problem = None
        try:
            said = child.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            problem, said = 'it hangs', ''
        left = [f for at, _, files in os.walk(fabric.folder + '/urxe') for f in files]
        mine = [f for f in (os.listdir('/dev/shm') if before else ()) if f not in before and 'urxe' in f]
        if not problem and child.returncode:
            problem = 'exit status %d' % child.returncode
        if not problem and left + mine:
            problem = 'left: %s' % ' '.join(left + mine)
        told(report, title, problem, said)
        if not problem:
            show(said.splitlines())


def crowds(report, kind, _why_not):
    full, san = kind == 'full', kind.endswith('sanitized')
    timeout = number('URXE_TIMEOUT', 400 if san else 200)
    kills = number('URXE_KILLS', 500 if full else 40 if san else 150)
    stop = number('URXE_STOP', 60 if full else 3)
    many = number('URXE_CROWD', 16 if san else 100)
    # One is spared.
    crowd(report, '%d kills among 8' % kills, ['-n', 9, '-k', kills], timeout)
    crowd(report, 'one of 8 stopped for %d s' % stop, ['-n', 8, '-t', stop], timeout + 2 * stop)
    crowd(report, '%d all connected with all' % many, ['-n', many, '-m', 8, '-d', 1, '-b', 4096, '-e', '-q'], timeout)
