# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A capture seen by strangers: tshark's dissection, and the ICRC by zlib (IBTA A17.3.3)."""
import os
import struct
import subprocess
import zlib

ROCE_PORT = 4791

# What tshark 4.0 calls malformed though it is not: (regex of the frame's protocols, why).
# tshark guesses at the payload of a SEND, which to RoCE is bytes without a meaning: the guess, not
# the frame, fails. So only what it says of the layers up to the BTH and MADs counts.
TRUSTED = ('eth', 'ethertype', 'vlan', 'ip', 'ipv6', 'icmp', 'icmpv6', 'arp', 'udp', 'infiniband')


def tshark(path, *args):
    done = subprocess.run(['tshark', '-n', '-r', path, *args], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError('tshark: ' + done.stderr.strip())
    return done.stdout


def malformed(path):
    """Lines about the frames that tshark calls malformed, but for its known false alarms."""
    out = tshark(path, '-Y', '_ws.malformed', '-T', 'fields', '-e', 'frame.number', '-e', 'frame.protocols',
                 '-e', 'infiniband.bth.opcode', '-e', '_ws.col.Info')
    found = []
    for line in out.splitlines():
        number, protocols, opcode, info = (line.split('\t') + [''] * 4)[:4]
        layers = [p for p in protocols.split(':') if p not in ('_ws.malformed', 'data')]
        if all(p in TRUSTED for p in layers):
            found.append('frame %s %s opcode %s: %s' % (number, protocols, opcode, info))
    return found


def packets(path):
    """The frames of a capture in any format of Wireshark's; by the program of tshark's that is no second in starting."""
    pcap = path + '.pcap'
    subprocess.run(['editcap', '-F', 'pcap', path, pcap], stdin=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    with open(pcap, 'rb') as f:
        data = f.read()
    os.unlink(pcap)
    order = '<' if data[:4] in (b'\xd4\xc3\xb2\xa1', b'\x4d\x3c\xb2\xa1') else '>'
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack(order + 'I', data[at + 8:at + 12])[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def icrc_wrong(frame):
    """True or False for a RoCEv2 frame, None for any other."""
    at, kind = 14, frame[12:14]
    if kind == b'\x81\x00':
        at, kind = 18, frame[16:18]
    ip = bytearray(frame[at:])
    if kind == b'\x08\x00' and ip[9] == 17:
        end, udp = struct.unpack('>H', ip[2:4])[0], 20
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff  # TOS, TTL, checksum
    elif kind == b'\x86\xdd' and ip[6] == 17:
        end, udp = 40 + struct.unpack('>H', ip[4:6])[0], 40
        ip[0] |= 0x0f  # traffic class, flow label
        ip[1:4] = b'\xff\xff\xff'
        ip[7] = 0xff  # hop limit
    else:
        return None
    if struct.unpack('>H', ip[udp + 2:udp + 4])[0] != ROCE_PORT:
        return None
    ip[udp + 6] = ip[udp + 7] = 0xff  # UDP checksum
    ip[udp + 8 + 4] = 0xff  # BTH: FECN, BECN, reserved
    crc = zlib.crc32(bytes(ip[:end - 4]), zlib.crc32(b'\xff' * 8))
    return struct.pack('<I', crc) != bytes(ip[end - 4:end])


def problems(path):
    """(number of RoCEv2 frames, [what is wrong with them])"""
    wrong, roce = malformed(path), 0
    for number, frame in enumerate(packets(path), 1):
        bad = icrc_wrong(frame)
        roce += bad is not None
        if bad:
            wrong.append('frame %d: ICRC is wrong' % number)
    return roce, wrong
