# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs and the shared libraries that they need, from one tree of files."""
import os
import re
import subprocess

LIBRARIES = ('/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/lib')


def needs(path):
    """What the dynamic loader looks for to start the file, its interpreter too; nothing for no ELF"""
    with open(path, 'rb') as f:
        if f.read(4) != b'\x7fELF':
            return []
    out = subprocess.run(['readelf', '-d', '-l', '-W', path], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return re.findall(r'(?:interpreter: |\(NEEDED\).*\[)([^\]]+)\]', out)


class Closure:
    """Paths inside `tree` that add() was given, the targets of links, and the libraries that ELF files
    among them need; in `missing` what no folder of libraries has."""

    def __init__(self, tree='/'):
        self.tree = os.path.realpath(tree).rstrip('/')
        self.paths, self.missing = set(), set()

    def real(self, path):
        """The same path without links among its folders, inside the tree"""
        folder = os.path.realpath(self.tree + os.path.dirname(path))
        return os.path.join(folder[len(self.tree):] or '/', os.path.basename(path))

    def exists(self, path):
        return os.path.lexists(self.tree + path)

    def add(self, path):
        path = self.real(path)
        if path in self.paths:
            return
        here = self.tree + path
        if os.path.islink(here):
            self.paths.add(path)
            target = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(here)))
            if self.exists(target):
                self.add(target)
        elif os.path.isdir(here):
            for name in sorted(os.listdir(here)):
                self.add(os.path.join(path, name))
        else:
            self.paths.add(path)
            for name in needs(here):
                self.library(name)

    def library(self, name):
        places = [name] if name.startswith('/') else [os.path.join(l, name) for l in LIBRARIES]
        found = [p for p in places if self.exists(p)]
        if found:
            self.add(found[0])
        else:
            self.missing.add(name)
