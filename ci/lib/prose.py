#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is written for readers has its form; one line for each that has not.

Each C file begins, below the licence line (and the guard of a header), with a comment: the role of the file. Lines of
Markdown have 100 columns at most, rows of tables, which cannot be wrapped, 160: what is longer wants to be a list.
"""
import re
import sys

sys.dont_write_bytecode = True
from readmes import tree  # noqa: E402

COLUMNS, ROW_COLUMNS = 100, 160
ROLE = re.compile(r'/\* SPDX[^\n]*\n\s*(?:#ifndef (\w+)\n#define \1\n\s*)?/\*(?!\*)')


def check_role(path, text):
    if not ROLE.match(text):
        yield f'{path}: no comment below the licence line tells the role of the file'


def check_width(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        most = ROW_COLUMNS if line.startswith('|') else COLUMNS
        if len(line) > most:
            yield f'{path}:{number}: {len(line)} columns, not {most}'


def main():
    bad = []
    for path in sorted(tree()):
        check = check_role if path.endswith(('.c', '.h')) else check_width if path.endswith('.md') else None
        if check:
            with open(path) as f:
                bad += check(path, f.read())
    print(*bad, sep='\n', end='\n' * bool(bad))


if __name__ == '__main__':
    sys.exit(main())
