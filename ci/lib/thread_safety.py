#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Who calls a function without the lock that it names, or keeps a lock: clang's -Wthread-safety.

thread_safety.py BUILD	all C files of provider/, cm/, netio/ and include/ that BUILD compiles
(its compile_commands.json); prints what clang-14 finds, a line each, and exits with 1 if any.
The words are in include/urxe/thread_safety.h.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

TOP = os.path.realpath(os.path.dirname(__file__) + '/../..') + '/'
FOLDERS = ('provider', 'cm', 'netio', 'include')
CHECK = ['-fsyntax-only', '-Wno-everything', '-Wthread-safety', '-Werror=thread-safety',
         '-ferror-limit=0']


def check(args, cwd):
    """What clang says of one file; empty: nothing."""
    ran = subprocess.run(['clang-14', *args, *CHECK], cwd=cwd, capture_output=True, text=True)
    if ran.returncode and 'error:' not in ran.stderr:
        return [ran.stderr.strip() or f'clang-14: exit status {ran.returncode}']
    return re.findall(r'(.*error: .*?)(?: \[-W.*)?\n', ran.stderr)


def jobs(build):
    """The flags that matter to a parser, and the folder they are relative to, of each file."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as f:
        for entry in json.load(f):
            path = os.path.realpath(os.path.join(entry['directory'], entry['file']))
            if path.replace(TOP, '').split('/')[0] not in FOLDERS:
                continue
            words = shlex.split(entry['command'])
            flags = [w for w in words if re.match('-(I|D|std=)', w)]
            flags += [w for i, w in enumerate(words) if '-include' in (words[i - 1], w)]
            yield flags + [path], entry['directory']


def main():
    work = {tuple(args): cwd for args, cwd in jobs(sys.argv[1])}
    if not work:
        sys.exit(f'{sys.argv[1]}: no file to check')
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = {line for lines in pool.map(check, work, work.values()) for line in lines}
    for line in sorted(found):
        print(line.replace(TOP, ''))
    sys.exit(bool(found))


if __name__ == '__main__':
    main()
