#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tracepoints are what urxe-trace(7) says; one line for each finding.

Without arguments: the lists in the headers against the manual page's tables, and against the scripts of tools/trace.
trace.py --library LIBRARY HEADER...: the notes in a library that was built (readelf -n) against the lists.
"""
import glob
import re
import subprocess
import sys

HEADERS = ('provider/trace.h', 'netio/trace.h', 'cm/core/trace.h')
PAGE = 'tools/man/urxe-trace.7'
SCRIPTS = 'tools/trace/*.bt.in'


def listed(header):
    """name -> arguments, of the list in a header"""
    with open(header) as f:
        text = re.search(r'^#define URXE_\w+_POINTS\(X\)((?:.*\\\n)*.*)', f.read(), re.M)
    return {name: re.split(r',\s*', args) for name, args in re.findall(r'X\((\w+), ([\w, ]+)\)', text[1])}


def tables():
    """header -> (name -> arguments), of the tables in the manual page"""
    with open(PAGE) as f:
        sections = re.split(r'^\.SS ', f.read(), flags=re.M)
    for section in sections:
        header = re.search(r'^\.IR (\S+/trace\.h) ', section, re.M)
        if header:
            rows = re.findall(r'^([a-z]\w*)\t([\w ]+)\t', section, re.M)
            yield header[1], {name: args.split() for name, args in rows}


def compare(where, have, what, want):
    yield from (f'{where}: {name} is not in {what}' for name in have if name not in want)
    yield from (f'{where}: lacks {name} of {what}' for name in want if name not in have)
    yield from (f'{where}: {name} has {" ".join(have[name])}, in {what} {" ".join(want[name])}'
                for name in have if name in want and have[name] != want[name])


def scripts(points):
    for path in sorted(glob.glob(SCRIPTS)):
        with open(path) as f:
            text = f.read()
        for section in re.split(r'^usdt:@LIB@:urxe:', text, flags=re.M)[1:]:
            name, body = re.match(r'(\w+)(.*)', section, re.S).groups()
            used = max((int(n) for n in re.findall(r'\barg(\d)', body)), default=-1)
            if name not in points:
                yield f'{path}: {name} is no tracepoint'
            elif used >= len(points[name]):
                yield f'{path}: {name} has no argument {used}'


def notes(library):
    """name -> how many arguments, of each place"""
    out = subprocess.run(['readelf', '-n', library], text=True, stdout=subprocess.PIPE, check=True).stdout
    for provider, name, args in re.findall(r'Provider: (\w+)\s+Name: (\w+)\s+Location.*\s+Arguments: ?(.*)', out):
        if provider == 'urxe':
            yield name, len(args.split())


def check_library(library, headers):
    want = {}
    for header in headers:
        want.update(listed(header))
    have = dict(notes(library))
    yield from (f'{library}: lacks {name}' for name in want if name not in have)
    yield from (f'{library}: {name} is in none of {" ".join(headers)}' for name in have if name not in want)
    yield from (f'{library}: {name} has {have[name]} arguments, listed are {len(want[name])}'
                for name in have if name in want and have[name] != len(want[name]))


def check_texts():
    documented, points = dict(tables()), {}
    for header in HEADERS:
        have = listed(header)
        points.update(have)
        yield from compare(header, have, PAGE, documented.get(header, {}))
    yield from scripts(points)


def main():
    if sys.argv[1:2] == ['--library']:
        found = list(check_library(sys.argv[2], sys.argv[3:]))
    else:
        found = list(check_texts())
    print(*found, sep='\n', end='\n' * bool(found))
    return bool(found) and sys.argv[1:2] == ['--library']


if __name__ == '__main__':
    sys.exit(main())
