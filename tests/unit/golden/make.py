#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""make.py CAPTURES >cm_mads.txt: the kernel CM's MADs in the captures, one of each kind.

A line is: the capture, the frame's number, the MAD up to where only zeros follow. Two MADs are of
one kind when they differ in nothing but ids and random values.
"""
import os
import sys

# Per attribute id: (first byte, length) of ids, numbers and addresses, from the MAD's start.
COMMON = [(8, 8), (24, 8)]
SOME = {
    0x10: [(40, 8), (56, 3), (68, 3), (80, 32), (112, 3), (164, 92)],
    0x12: [(36, 8)],
    0x13: [(36, 3), (44, 3), (52, 8)],
    0x15: [(32, 3)],
    0x17: [(40, 216)],
    0x18: [(32, 3)],
}


def mads(path):
    with open(path, 'rb') as f:
        data = f.read()
    at, n = 24, 0
    while at < len(data):
        length = int.from_bytes(data[at + 8:at + 12], 'little')
        frame = data[at + 16:at + 16 + length]
        at, n = at + 16 + length, n + 1
        l4 = 34 if frame[12:14] == b'\x08\x00' else 54
        if frame[l4 + 2:l4 + 4] == b'\x12\xb7' and frame[l4 + 13:l4 + 16] == b'\0\0\1':
            yield n, frame[l4 + 28:l4 + 284]


def main():
    seen = set()
    for name in sorted(os.listdir(sys.argv[1])):
        if not name.endswith('.pcap'):
            continue
        for n, mad in mads(os.path.join(sys.argv[1], name)):
            kind = bytearray(mad)
            for first, length in COMMON + SOME.get(mad[17], []):
                kind[first:first + length] = bytes(length)
            # The length and the end of private data that the capture's program chose stay.
            if mad[17] in (0x10, 0x17):
                kind += bytes([len(mad.rstrip(b'\0'))])
            if bytes(kind) not in seen:
                seen.add(bytes(kind))
                print(name[:-5], n, mad.rstrip(b'\0').hex())


main()
