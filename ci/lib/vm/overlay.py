# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a guest gets besides its image: a build of urxe, programs, and the host's libraries that they
need and the image does not have."""
import os

from . import Failed
from .elf import Closure

WHERE = '/urxe'  # in the guest; init puts its tools/ on the PATH
BUILT = ('tools/urxe', 'provider/liburxe-rdmav34.so', 'netio/liburxe-dpdk.so',
         'dropin/libibverbs.so.1', 'dropin/librdmacm.so.1')


def libraries(files, image):
    """(source, path) of the host's libraries that these ELF files need beyond the image. DPDK's drivers
    that the host has and the image has not stay there."""
    with open(image.paths) as f:
        have = set(f.read().split('\n'))
    closure = Closure()
    for file in files:
        closure.add(os.path.realpath(file))
    own = {os.path.realpath(f) for f in files}
    return [(p, p) for p in sorted(closure.paths) if p not in have and p not in own]


def program(path, where, image):
    """A program of the host's, with its libraries, at this path in the guest"""
    return [(os.path.realpath(path), where)] + libraries([path], image)


def urxe(build, image, *more):
    """A build folder of urxe, as /urxe: `urxe run ...` works in the guest; and more files of it."""
    built = BUILT + more
    files = [os.path.join(build, name) for name in built]
    for file in files:
        if not os.path.exists(file):
            raise Failed('no %s: is it built?' % file)
    pairs = [(os.path.realpath(f), os.path.join(WHERE, name)) for f, name in zip(files, built)]
    inside = {os.path.dirname(os.path.realpath(f)) for f in files}
    return pairs + [p for p in libraries(files, image) if os.path.dirname(p[0]) not in inside]
