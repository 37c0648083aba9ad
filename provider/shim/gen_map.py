#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Write the shim's version script from the installed libibverbs.

gen_map.py READELF LIBIBVERBS INTERPOSED OUTPUT

The dynamic linker checks a program's version nodes against the library that carries the SONAME,
which is the shim: so it must define every node of the real library, with the same ancestry, and
the functions of INTERPOSED in the nodes where the real library has their default version.
"""
import re
import subprocess
import sys

NEEDED = ('IBVERBS_PRIVATE_34', 'IBVERBS_1.14')


def run(*cmd):
    return subprocess.run(cmd, check=True, stdout=subprocess.PIPE, text=True).stdout


def version_nodes(readelf, lib):
    """[(node, parent or None)] in the library's order, its own name left out."""
    nodes = []
    in_defs = False
    base = False
    for line in run(readelf, '-W', '--version-info', lib).splitlines():
        if line.startswith('Version '):
            in_defs = line.startswith('Version definition')
        if not in_defs:
            continue
        if m := re.search(r'Flags: (\S+).*\bName: (\S+)', line):
            base = m[1] == 'BASE'
            if not base:
                nodes.append([m[2], None])
        elif (m := re.search(r'Parent \d+: (\S+)', line)) and not base:
            nodes[-1][1] = m[1]
    return nodes


def default_versions(readelf, lib):
    """function -> node, for default versions (name@@node)."""
    found = {}
    for line in run(readelf, '-W', '--dyn-syms', lib).splitlines():
        cols = line.split()
        if len(cols) >= 8 and cols[6] != 'UND' and '@@' in cols[7]:
            name, node = cols[7].split('@@')
            found[name] = node
    return found


def main():
    readelf, lib, interposed, output = sys.argv[1:]
    nodes = version_nodes(readelf, lib)
    missing = [n for n in NEEDED if n not in [node for node, _ in nodes]]
    if missing:
        sys.exit(f'{lib}: no version node {missing[0]}: urxe needs libibverbs of rdma-core 36 to 56')
    versions = default_versions(readelf, lib)
    with open(interposed) as f:
        names = [line.strip() for line in f if line.strip() and not line.startswith('#')]
    for name in names:
        if name not in versions:
            sys.exit(f'{lib}: no function {name}')

    with open(output, 'w') as out:
        for node, parent in nodes:
            out.write(node + ' {\n')
            mine = [n for n in names if versions[n] == node]
            if mine:
                out.write('\tglobal:\n' + ''.join(f'\t\t{n};\n' for n in mine))
            if node == nodes[0][0]:
                out.write('\tlocal: *;\n')
            out.write('}' + (f' {parent}' if parent else '') + ';\n')


main()
