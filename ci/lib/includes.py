#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Includes go one way: one line for each that does not.

MAY says of a folder what it may include of the tree, besides itself; a file belongs to the longest folder that it is
in. SYSTEM says where a system header alone may be included.
"""
import os
import re
import sys

ABOVE_CORE = ('cm/core', 'provider/gsi.h', 'provider/status.h', 'provider/status_path.h', 'netio/identity.h', 'include')
MAY = {
    'include': (),
    'netio': ('include',),
    'provider': ('netio', 'include'),
    'cm/core': ('include',),
    'cm/device': ABOVE_CORE,
    'cm/rdma': ('cm/device',) + ABOVE_CORE,
    'cm/ib': ('cm/device',) + ABOVE_CORE,
    'cm/rsocket': ('provider/gsi.h', 'include'),
    'tools': ('cm', 'provider', 'netio', 'include'),
    'tests': ('tools', 'cm', 'provider', 'netio', 'include'),
}
SYSTEM = (
    # Nobody else knows a port of DPDK's from a simulated one.
    ('rte_', ('netio', 'tools', 'tests')),
    # The IB CM has no thread and no lock.
    ('pthread.h', ('include', 'netio', 'provider', 'cm/device', 'cm/rdma', 'cm/ib', 'cm/rsocket', 'tools', 'tests')),
)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def within(path, folder):
    return path == folder or path.startswith(folder + '/')


def home(path):
    return max((f for f in MAY if within(path, f)), key=len, default=None)


def target(path, name, files):
    """The file that an include means: beside the includer, in the tree or include/, else the one of that name."""
    places = (os.path.normpath(os.path.join(p, name)) for p in (os.path.dirname(path), '', 'include'))
    return next((t for t in places if t in files), None) or \
        next((f for f in sorted(files) if f.endswith('/' + name)), None)


def wrong(path, bracket, name, files):
    folder = home(path)
    if bracket == '<':
        return any(name.startswith(start) and folder not in folders for start, folders in SYSTEM)
    found = target(path, name, files)
    if not found or home(found) == folder:
        return not found
    return not any(within(found, to) for to in MAY[folder])


def sources():
    for folder, below, names in os.walk('.'):
        below[:] = [d for d in below if not d.startswith(('.git', 'build', '__'))]
        yield from (os.path.normpath(os.path.join(folder, n)) for n in names if n.endswith(('.c', '.h')))


def main():
    files = set(sources())
    for path in sorted(files):
        if not home(path):
            print(f'{path}: in a folder that ci/lib/includes.py does not know')
            continue
        with open(path) as f:
            text = f.read()
        for bracket, name in INCLUDE.findall(text):
            if wrong(path, bracket, name, files):
                print(f'{path}: may not include {name}')


if __name__ == '__main__':
    sys.exit(main())
