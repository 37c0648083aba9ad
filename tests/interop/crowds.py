# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Clients of the kernel's at a server of urxe's whose backlog is full. Each takes the lab and returns what is
wrong, or nothing."""
import os
import socket
import struct
import subprocess
import time
import zlib

import lab as L
from vm.lab import run
from vm.table import problem

BACKLOG = 2


def serve(lab, busy_ms, clients, options=()):
    return lab.start('u', lab.fill('{crowd} s {a} %d %d %d' % (BACKLOG, busy_ms, clients), 'u', 'u'), 'cm', options)


def crowd(lab, clients):
    """A server with a backlog of 2 that takes no request for a second: the kernel's clients wait, and all get in."""
    server = serve(lab, 1000, clients)
    try:
        status, out = lab.guest.run('/crowd c %s %d 0' % (L.HOST4, clients), 100)
        ended = server.wait(30)
    finally:
        said = server.end()
    if status or ended or 'established %d, rejected:\n' % clients not in out:
        return problem('client says %d, server %d' % (status, ended), client=out, urxe=said)
    return None


# ---- who waits: frames of the CM ----

REQ, MRA = 0x10, 0x11
MRA_ASKS = 4.295  # seconds: 4.096 us * 2^20
IP, BTH, MAD, END = 14, 42, 62, 318  # in a frame of IPv4; behind its END the ICRC


def cm_frames(path):
    """[(seconds, attribute, frame)] of the CM's MADs of IPv4 in a capture"""
    pcap = path + '.old'
    subprocess.run(['tshark', '-r', path, '-F', 'pcap', '-w', pcap], stdin=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    with open(pcap, 'rb') as f:
        data = f.read()
    os.unlink(pcap)
    found, at = [], 24
    while at < len(data):
        seconds, fraction, length = struct.unpack_from('<III', data, at)
        frame = data[at + 16:at + 16 + length]
        if length >= END and frame[12:14] == b'\x08\x00' and frame[36:38] == b'\x12\xb7' and frame[MAD + 1] == 7:
            found.append((seconds + fraction / 1e6, int.from_bytes(frame[MAD + 16:MAD + 18], 'big'), frame))
        at += 16 + length
    return found


def one_client(lab, busy_ms):
    """A client of the kernel's at a busy server: what is wrong, and frames of the CM"""
    path = os.path.join(lab.folder, 'crowd.pcapng')
    server = serve(lab, busy_ms, 1, () if lab.pcap else ('--pcap', path))
    try:
        status, out = lab.guest.run('/crowd c %s 1 0' % L.HOST4, 60)
        ended = server.wait(30)
    finally:
        said = server.end()
    frames = cm_frames('%s.%d.pcapng' % (lab.pcap, lab.captures) if lab.pcap else path)
    wrong = problem('client says %d, server %d' % (status, ended), client=out, urxe=said) if status or ended else None
    return wrong, frames


def mra_waits(lab):
    """A client of the kernel's that got MRA asks again after the time that it was asked for, and not before
    (IBTA 12.6.6)."""
    wrong, frames = one_client(lab, 15000)
    reqs, mras = ([when for when, what, _ in frames if what == attribute] for attribute in (REQ, MRA))
    # Later MRAs are duplicates to it: each wait is from the first MRA, or from the REQ before.
    waits = [b - a for a, b in zip(mras[:1] + reqs[1:], reqs[1:])]
    if not wrong and (not waits or min(waits) < MRA_ASKS):
        wrong = 'REQs at %s, MRAs at %s' % (reqs, mras)
    return wrong


# ---- the table of those who wait, full ----

# 16,384 may wait (cm/rdma/backlog.c), fewer of one address; some frames get lost.
ADDRESSES, OF_EACH = 6, 4000


def checksum(header):
    total = sum(struct.unpack('>10H', header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def forged(frame, to, mac, number):
    """A REQ of the kernel's, from another address, of a connection of its own: @number is in the id and the QP's"""
    own = socket.inet_aton(L.VM4)
    f = bytearray(frame[:END].replace(own, to))
    f[6:12] = mac
    f[MAD + 8:MAD + 16] = struct.pack('>Q', number)  # transaction
    f[MAD + 24:MAD + 28] = struct.pack('>I', number)
    f[MAD + 40:MAD + 48] = to + to  # the CA's GUID
    f[MAD + 56:MAD + 59] = struct.pack('>I', number)[1:]
    f[IP + 10:IP + 12] = b'\0\0'
    f[IP + 10:IP + 12] = struct.pack('>H', checksum(bytes(f[IP:IP + 20])))
    masked = bytearray(b'\xff' * 8 + f[IP:])
    for at in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, both checksums, FECN
        masked[8 + at] = 0xff
    return bytes(f) + struct.pack('<I', zlib.crc32(masked))


def fill(frame):
    """REQs of addresses of the bridge's: more than may wait"""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind(('br0', 0))
        mac = s.getsockname()[4]
        for i in range(ADDRESSES):
            address = '10.9.0.%d' % (100 + i)
            run('ip', 'addr', 'replace', address + '/24', 'dev', 'br0')
            run('ping', '-c', '1', '-W', '5', '-I', address, L.HOST4)  # so that urxe knows its MAC
            for n in range(OF_EACH):
                s.send(forged(frame, socket.inet_aton(address), mac, 1 + i * OF_EACH + n))
                if n % 16 == 15:
                    time.sleep(0.001)


def crowded_out(lab):
    """A client for whom there is no room even to wait gets REJ 3, at once."""
    wrong, frames = one_client(lab, 0)
    if wrong:
        return wrong
    server = serve(lab, 1000000, 1)
    try:
        fill(next(frame for _, what, frame in frames if what == REQ))
        status, out = lab.guest.run('/crowd c %s 1 0' % L.HOST4, 60)
    finally:
        said = server.end()
    if status or 'established 0, rejected: 1 with 3\n' not in out:
        return problem('client says %d' % status, client=out, urxe=said)
    return None


# name, side of urxe, function
TESTS = [
    ('backlog of 2, 6 clients', 's', lambda lab: crowd(lab, 6)),
    ('backlog of 2, 128 clients', 's', lambda lab: crowd(lab, 128)),
    ('backlog: no room to wait, REJ 3', 's', crowded_out),
    ('MRA: the kernel waits', 's', mra_waits),
]
