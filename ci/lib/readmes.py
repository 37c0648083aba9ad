#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What README tables say of files and tests is so; one line for each that is not.

A table whose first column is "file" or "script" names each .c, .py and .sh of the README's folder (and of folders below
that have no README), by itself, by a pattern or by its folder; and nothing that is not there. A column "tests" names
CUnit tests: "file.c test, test; other.c test", of tests/unit/ unless it says otherwise.
In GUIDES each file, folder, function() and URXE_NAME between backquotes is there. What a Markdown file links to is
there, the heading after a # too.
"""
import fnmatch
import os
import re
import sys

SOURCE = ('.c', '.py', '.sh')
GUIDES = ('README.md', 'CONTRIBUTING.md', 'SECURITY.md')
FILE = re.compile(r'[\w./*-]+\.(?:c|h|py|sh)\b|[\w./-]+/(?=\W|$)')


def tables(text):
    """Each table: its header's cells, and its rows'."""
    for block in re.findall(r'(?:^\|.*\n)+', text, re.M):
        rows = [[c.strip() for c in line.strip('|').split('|')] for line in block.splitlines()]
        yield rows[0], rows[2:]


def check_files(readme, rows, files):
    folder = os.path.dirname(readme)
    named = [n for row in rows for n in FILE.findall(row[0])]
    for name in named:
        if not [f for f in files if fnmatch.fnmatch(f, os.path.join(folder, name) + '*' * name.endswith('/'))]:
            yield f'{readme}: names {name}, which is not there'
    for f in files:
        name = os.path.relpath(f, folder or '.')
        if not f.endswith(SOURCE) or name.startswith('..') or nearest(f, files) != readme:
            continue
        if not any(name.startswith(n) if n.endswith('/') else fnmatch.fnmatch(name, n) for n in named):
            yield f'{readme}: does not name {name}'


def nearest(f, files):
    while f:
        f = os.path.dirname(f)
        if os.path.join(f, 'README.md') in files:
            return os.path.join(f, 'README.md')
    return None


def check_tests(readme, header, row, files):
    at = next(i for i, cell in enumerate(header) if cell.startswith('tests'))
    found = re.search(r'[\w/]+\.c\b', header[at])
    path = found and found[0]
    for part in re.split('[,;]', re.sub(r'\([^)]*\)', '', row[at])):
        words = part.split(': ')[-1].split()
        if words and words[0].endswith('.c'):
            path = words.pop(0)
            path = path if '/' in path else 'tests/unit/' + path
            if path not in files:
                yield f'{readme}: names {path}, which is not there'
                path = None
        if path and len(words) == 1 and f'T({words[0]})' not in open(path).read():
            yield f'{readme}: names the test {words[0]}, which {path} does not have'


def check_guide(guide, text, files):
    sources = ''
    for f in files:
        if f.endswith(('.c', '.h')):
            with open(f) as source:
                sources += source.read()
    for quoted in re.findall(r'`([^`\n]+)`', text):
        for name in re.findall(r'(?:^| )((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|h))(?= |$)', quoted):
            if not any(f == name or f.startswith(name.rstrip('/') + '/') for f in files) and \
                    not name.startswith('build'):
                yield f'{guide}: names {name}, which is not there'
        for name in re.findall(r'^(\w+)\(\)$|^(?:struct )?((?:urxe|URXE)_\w+)$|^(\w+_ops|\w+_events)$', quoted):
            if not re.search(r'\b%s\b' % next(filter(None, name)), sources):
                yield f'{guide}: names {quoted}, which is not there'


def headings(text):
    """Their anchors, as GitHub and others make them."""
    text = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    return {re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in re.findall(r'^#+ (.*)', text, re.M)}


def check_links(path, text):
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        name, _, anchor = target.partition('#')
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if '://' in target:
            continue
        if not os.path.isfile(file):
            yield f'{path}: links to {target}, which is not there'
        elif anchor:
            with open(file) as f:
                if anchor not in headings(f.read()):
                    yield f'{path}: links to {target}, a heading that is not there'


def tree():
    """All files, by their paths from here."""
    for folder, below, names in os.walk('.'):
        below[:] = [d for d in below if not d.startswith(('.git', 'build', '__'))]
        yield from (os.path.normpath(os.path.join(folder, n)) for n in names)


def main():
    files = set(tree())
    bad = []
    for readme in sorted(f for f in files if f.endswith('README.md')):
        with open(readme) as f:
            text = f.read()
        for header, rows in tables(text):
            if header[0] in ('file', 'script'):
                bad += check_files(readme, rows, files)
            elif any(cell.startswith('tests') for cell in header):
                for row in rows:
                    bad += check_tests(readme, header, row, files)
    for path in sorted(f for f in files if f.endswith('.md')):
        with open(path) as f:
            bad += check_links(path, f.read())
    for guide in GUIDES:
        with open(guide) as f:
            bad += check_guide(guide, f.read(), files)
    print(*bad, sep='\n', end='\n' * bool(bad))


if __name__ == '__main__':
    sys.exit(main())
