#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Manual pages are what they should be; one line for each finding.

man(1) has no warnings; each is installed; pages of ours that it names are there;
each function of a public header is in the NAME of a page; example programs (between .EX and .EE, with an #include)
compile, as GNU C11 with the headers of include/.
"""
import os
import re
import subprocess
import sys
import tempfile

PAGES = 'tools/man'
HEADERS = ('include/urxedv.h', 'include/urxe_cm.h')
ESCAPES = (('\\-', '-'), ('\\(aq', "'"), ('\\&', ''), ('\\e', '\\'))


def warnings(path):
    env = {**os.environ, 'LC_ALL': 'C.UTF-8', 'MANWIDTH': '100'}
    done = subprocess.run(['man', '--warnings', '-l', path], env=env, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    yield from (f'{path}: {line}' for line in done.stderr.splitlines())


def references(path, text, pages):
    plain = text.replace('\\-', '-')
    for name, section in re.findall(r'^\.BR (urxe[\w-]*) \((\d)\)', plain, re.M):
        if f'{name}.{section}' not in pages:
            yield f'{path}: names {name}({section}), which is not there'
    for name in re.findall(r'^\.so man\d/(\S+)', plain, re.M):
        if name not in pages:
            yield f'{path}: is {name}, which is not there'


def functions(header):
    """What it declares: at the start of a line, not in a comment."""
    with open(header) as f:
        return re.findall(r'^(?!typedef|#|static)[a-z][\w ]*[ *](\w+)\(', f.read(), re.M)


def undocumented(texts):
    named = set()
    for text in texts.values():
        names = re.search(r'^\.SH NAME\n(.*?) \\- ', text, re.M | re.S)
        named |= set(re.split(r',\s*', names[1])) if names else set()
    for header in HEADERS:
        found = functions(header)
        if not found:
            yield f'{header}: no functions found'
        yield from (f'{header}: no manual page has {name}' for name in found if name not in named)


def examples(path, text):
    for n, code in enumerate(re.findall(r'^\.EX\n(.*?)^\.EE', text, re.M | re.S)):
        if '#include' not in code:
            continue
        for escape, plain in ESCAPES:
            code = code.replace(escape, plain)
        with tempfile.NamedTemporaryFile('w', suffix='.c') as f:
            f.write(code)
            f.flush()
            done = subprocess.run(['cc', '-std=gnu11', '-fsyntax-only', '-Wall', '-Wextra', '-Werror', '-Iinclude', f.name],
                                  text=True, stderr=subprocess.PIPE)
        yield from (f'{path}: example {n + 1}: {line.split(":", 1)[-1]}' for line in done.stderr.splitlines()
                    if ' error: ' in line or not done.returncode)


def main():
    pages = sorted(os.listdir(PAGES))
    texts = {}
    for page in pages:
        with open(os.path.join(PAGES, page)) as f:
            texts[page] = f.read()
    with open('tools/meson.build') as f:
        installed = re.findall(r"'man/([^']+)'", f.read())
    bad = [f'tools/meson.build: does not install {page}' for page in pages if page not in installed]
    for page, text in texts.items():
        path = os.path.join(PAGES, page)
        # What a page is by .so is found when installed.
        bad += [] if '\n.so ' in text else warnings(path)
        bad += references(path, text, pages)
        bad += examples(path, text)
    bad += undocumented(texts)
    print(*bad, sep='\n', end='\n' * bool(bad))


if __name__ == '__main__':
    sys.exit(main())
