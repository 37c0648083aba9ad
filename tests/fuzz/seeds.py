#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""seeds.py CAPTURES: writes corpus/, the fuzzers' first inputs.

Frames and MADs are kernel rxe's, from the captures; the rest is made here, in the formats that
fuzz_X.c read. The results are committed: this is run when a format changes.
"""
import os
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CAPTURES = sys.argv[1]
MAC = {1: bytes.fromhex('52540a090001'), 2: bytes.fromhex('52540a090002')}
ALL = b'\xff' * 6


def write(target, name, data):
    folder = os.path.join(HERE, 'corpus', target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)


def pcap(name):
    with open(os.path.join(CAPTURES, name), 'rb') as f:
        data = f.read()
    order = '<' if data[:4] in (b'\xd4\xc3\xb2\xa1', b'\x4d\x3c\xb2\xa1') else '>'
    at = 24
    while at < len(data):
        n = struct.unpack(order + 'I', data[at + 8:at + 12])[0]
        yield data[at + 16:at + 16 + n]
        at += 16 + n


# ---- frames: how the ports are set up, then records (see fuzz_frames.c) ----
PORT2, ASIS, KEEP_MAC, LATER, WIRE, DO = 1, 2, 4, 8, 16, 128


def frame(ctl, data, arg=0):
    return struct.pack('>BBH', ctl, arg, len(data)) + data


def do(what, arg=0):
    return bytes([DO | arg, what])


def v4(dst, proto, data, options=b'', src='10.9.0.77'):
    return (b'\x08\x00' + bytes([0x45 + len(options) // 4, 0]) + struct.pack('>HHHBBH', 0, 1, 0, 64, proto, 0) +
            socket.inet_aton(src) + socket.inet_aton(dst) + options + data)


def v6(dst, proto, data, src='fd00::77', hops=255):
    return (b'\x86\xdd\x60\0\0\0' + struct.pack('>HBB', 0, proto, hops) + socket.inet_pton(socket.AF_INET6, src) +
            socket.inet_pton(socket.AF_INET6, dst) + data)


def arp(op, spa, tpa, sha=b'\x02\0\0\0\0\x77', tha=b'\0' * 6):
    return (b'\x08\x06' + struct.pack('>HHBBH', 1, 0x800, 6, 4, op) + sha + socket.inet_aton(spa) + tha +
            socket.inet_aton(tpa) + b'\0' * 18)


def eth(payload, dst=MAC[1], tag=None):
    vlan = b'' if tag is None else struct.pack('>HH', 0x8100, tag)
    return dst + b'\x02\0\0\0\0\x77' + vlan + payload


def frames():
    for name, only in (('atomic_cswap', 2), ('cm_badkey', 4)):
        out = bytes([0])
        for f in list(pcap(name + '.pcap'))[:only]:
            out += frame(PORT2 if f[:6] == MAC[2] or f[33] == 2 else 0, f)
        write('frames', name, out)
    write('frames', 'arp', bytes([0]) + do(0x10) + frame(0, eth(arp(2, '10.9.0.77', '10.9.0.1'))) +
          frame(KEEP_MAC | WIRE, eth(arp(1, '10.9.0.77', '10.9.0.1'), ALL)) + do(0x18) +
          frame(KEEP_MAC | WIRE | LATER, eth(arp(1, '10.9.0.1', '10.9.0.1'), ALL), 0xa0) +
          do(0x18, LATER) + do(0x19))
    target = socket.inet_pton(socket.AF_INET6, 'fd00::1')
    lladdr = b'\x01\x01\x02\0\0\0\0\x77'
    write('frames', 'nd', bytes([0]) + do(0x12) +
          frame(0, eth(v6('fd00::1', 58, b'\x87\0\0\0' + b'\0' * 4 + target + lladdr))) +
          frame(0, eth(v6('fd00::1', 58, b'\x88\0\0\0\xe0\0\0\0' + socket.inet_pton(socket.AF_INET6, 'fd00::77') +
                          b'\x02' + lladdr[1:]))) +
          frame(LATER, eth(v6('ff02::1:ff00:1', 58, b'\x87\0\0\0' + b'\0' * 4 + target, '::')), 0x80))
    write('frames', 'icmp', bytes([0]) + frame(0, eth(v4('10.9.0.1', 1, b'\x08\0\0\0\0\x01\0\x01' + b'ping' * 8))) +
          frame(0, eth(v4('10.9.0.1', 1, b'\x03\x04\0\0\0\0\x02\x40' + v4('10.9.0.2', 17, b'\xc0\0\x12\xb7\0\x40\0\0')[2:]))) +
          frame(0, eth(v6('fd00::1', 58, b'\x80\0\0\0\0\x01\0\x01' + b'ping' * 8))) +
          frame(0, eth(v6('fd00::1', 58, b'\x02\0\0\0\0\0\x05\0' + v6('fd00::2', 17, b'\xc0\0\x12\xb7\0\x40\0\0')[2:]))))
    # errors about packets of the paths that fuzz_frames.c makes
    sent4 = v4('10.9.0.2', 17, b'\xc0\x01\x12\xb7\x01\x2e\0\0' + b'\x64' + b'\0' * 80, src='10.9.0.1')[2:]
    sent4 = sent4[:2] + b'\x01\x42' + sent4[4:]
    sent6 = v6('fd00::1', 17, b'\xc0\x02\x12\xb7\x01\x2e\0\0' + b'\x64' + b'\0' * 80, src='fd00::2')[2:]
    sent6 = sent6[:4] + b'\x01\x2e' + sent6[6:]
    write('frames', 'icmp_error', bytes([0]) +
          b''.join(frame(0, eth(v4('10.9.0.1', 1, head + sent4))) for head in (
              b'\x03\x01\0\0\0\0\0\0', b'\x03\x03\0\0\0\x10\0\0', b'\x03\x04\0\0\0\0\x01\x40', b'\x0b\0\0\0\0\0\0\0')) +
          b''.join(frame(PORT2, eth(v6('fd00::2', 58, head + sent6), MAC[2])) for head in (
              b'\x01\x03\0\0\0\0\0\0', b'\x01\x04\0\0\x08\0\0\0', b'\x02\0\0\0\0\0\x05\0', b'\x03\0\0\0\0\0\0\0')))
    groups = do(0) + do(2) + do(8)
    write('frames', 'igmp', bytes([0]) + groups +
          frame(KEEP_MAC, eth(v4('224.0.0.1', 2, b'\x11\x0a\0\0\0\0\0\0', b'\x94\x04\0\0'), b'\x01\0\x5e\0\0\x01')) +
          frame(KEEP_MAC | LATER, eth(v4('224.0.0.1', 2, b'\x11\x0a\0\0\0\0\0\0\0\0\0\x01\x01\x02\x03\x04'), b'\x01\0\x5e\0\0\x01'), 0xa0) +
          do(6, LATER))
    mld = b'\x3a\0\x05\x02\0\0\x01\0' + b'\x82\0\0\0\x27\x10\0\0' + b'\0' * 16
    write('frames', 'mld', bytes([0]) + groups +
          frame(KEEP_MAC, eth(v6('ff02::1', 0, mld, 'fe80::77', 1), b'\x33\x33\0\0\0\x01')) +
          frame(KEEP_MAC | LATER, eth(v6('ff02::1', 0, mld + b'\0\0\0\0', 'fe80::77', 1), b'\x33\x33\0\0\0\x01'), 0xa0))
    write('frames', 'vlan', bytes([7]) + frame(0, eth(arp(1, '10.9.0.77', '10.9.0.1'), tag=7)) +
          frame(PORT2, eth(v4('10.9.0.2', 1, b'\x08\0\0\0\0\x01\0\x01ping'), MAC[2], 7)) + do(0x1a) +
          frame(0, eth(v4('10.9.0.1', 17, b'\xc0\0\x12\xb7\0\0\0\0' + b'\x04\0\xff\xff' + b'\0' * 28), tag=7)))


# ---- packets: WHAT, then its bytes (see fuzz_packets.c) ----
RC, UC, UD, XRC = range(4)


def send(kind, side, how, length):
    return struct.pack('>BBH', kind | side << 2, how, length)


def recv(kind, side, at, length):
    return struct.pack('>BBH', kind | side << 2 | 1 << 3, at, length)


def turns(n):
    return bytes([2 << 3, n])


def wait(n):
    return bytes([3 << 3, n])


def packet(kind, side, op, how=0, more=0, rest=b'\0\0'):
    return bytes([kind | side << 2 | 4 << 3, op, how, more]) + rest


def other(what, side, rest=b''):
    return bytes([0x40 | what << 3 | side << 2]) + rest


def six(records):
    return bytes([records[0] | 0x80]) + records[1:]


def packets():
    both = b''.join(recv(k, s, 2, 3000) for k in (RC, UC, UD, XRC) for s in (0, 1))
    write('packets', 'work_rc', both + b''.join(send(RC, 0, op, 2500) for op in range(7)) + wait(15))
    write('packets', 'work_uc_ud', both + b''.join(send(k, 0, op, 900) for k in (UC, UD) for op in range(4)) + wait(15))
    write('packets', 'work_xrc', both * 2 + b''.join(send(XRC, 0, op, 2500) for op in range(7)) + wait(15))
    for kind, name in ((RC, 'rc'), (UC, 'uc'), (XRC, 'xrc')):
        # each request, with a payload and an address that are right
        write('packets', 'requests_' + name, both + b''.join(packet(kind, 1, op, 0, 4 if op in (0, 1, 6, 7) else 2,
              b'\0\x40' + (b'' if op in (0, 1, 6, 7) else b'\0\x20')) for op in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x16, 0x17)))
    write('packets', 'read_atomic', packet(RC, 1, 12, 0, 16, b'\0\0\x10\0') + packet(RC, 1, 0x13) + packet(RC, 1, 0x14) +
          packet(RC, 1, 12, 0x40, 16, b'\xff\0\0\x10\0') + turns(8) + packet(RC, 1, 12, 4, 8, b'\x08\0\0\x40\0'))
    write('packets', 'answers', send(RC, 0, 4, 5000) + send(RC, 0, 2, 5000) + send(RC, 0, 5, 8) + packet(RC, 0, 13, 0, 4) +
          packet(RC, 0, 14, 0, 4) + packet(RC, 0, 15, 0, 2, b'\0\0\0\x40') + packet(RC, 0, 17, 0x40, 0, b'\x01\0\0') +
          packet(RC, 0, 17, 0, 32, b'\0\0\x60\0\0\0\x01') + packet(RC, 0, 18, 0x40, 0, b'\x05\0\0') +
          packet(RC, 0, 17, 0, 32, b'\0\0\x2c\0\0\0\x01') + wait(17) * 2)
    write('packets', 'ud', both + packet(UD, 0, 4, 0, 2, b'\0\0\0\x40') + packet(UD, 1, 5, 0, 4) +
          packet(UD, 1, 4, 0, 0x42, b'\0\0\0\x40\x01\x0c\x01'))
    write('packets', 'edges', both + packet(RC, 1, 10, 4, 4, b'\x01') + packet(UC, 1, 10, 6, 2, b'\x07\0\x40') +
          packet(UC, 1, 6, 5, 4, b'\x10') + packet(XRC, 1, 10, 7, 2, b'\0\1\0\0\0\x40'))
    window = other(0, 1, b'\0\0\0\x40\0') + turns(4)
    write('packets', 'window', both + window + packet(RC, 1, 10, 0x20, 2, b'\0\0\0\x40') + packet(RC, 1, 12, 0x20, 16, b'\0\x40\0\x40') +
          other(0, 1, b'\1') + packet(RC, 1, 10, 0x20, 2, b'\0\0\0\x40') + window)
    group = other(1, 0) + other(1, 1) + both + other(2, 0, b'\2\0') + turns(8) + other(6, 1, bytes([4, 0, 2]) + b'\0\0\0\x40')
    write('packets', 'group', group + other(1, 1) + other(2, 0, b'\2\0') + wait(12))
    write('packets', 'group_v6', six(group + wait(12)))
    rules = other(3, 0, b'\x03') + other(3, 1, b'\xa0') + other(4, 0, b'\x01\x10\0') * 3 + other(4, 0, b'\x82\x10\0') * 3 + other(4, 1, b'\x83\x10\0') * 3
    write('packets', 'rules', rules + both + send(RC, 0, 0, 900) + send(UD, 0, 0, 900) + turns(16) + other(3, 0, b'\0'))
    write('packets', 'rules_v6', six(rules + both + send(RC, 0, 2, 900) + turns(16)))
    write('packets', 'work_v6', six(both + b''.join(send(k, 0, op, 900) for k in (RC, UC, UD) for op in range(4)) + wait(15)))


# ---- mads: records (see fuzz_mads.c) ----
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(11)


def says(what, slot=0, how=0, rest=b''):
    return bytes([what, how, slot]) + rest


def new(slot):
    return bytes([0x80, slot])


def later(n, slot=0):
    return bytes([0x81 | 10 << 3, slot, n])


def call(slot, what):
    return bytes([0x87, slot, what])


def mads():
    seen = set()
    for name in ('cm_badkey', 'cm_migrate', 'cm_priv'):
        for f in pcap(name + '.pcap'):
            if len(f) == 322 and f[42 + 17:42 + 20] and f[14 + 20 + 8 + 20 + 16:][:2] not in seen:
                m = f[14 + 20 + 8 + 20:][:256]
                seen.add(m[16:18])
                write('mads', 'rxe_%02x' % m[17], m)
                write('mads', 'heard_%02x' % m[17], b'\x83\0\x01\0' + m)
    passive = says(REQ) + b'\x11'  # the consumer's answer: REP, in its handler
    write('mads', 'passive', says(REQ) + b'\0' + call(0, 1) + says(RTU) + b'\0' + later(9) + says(RTU) + says(DREQ) + b'\0' + call(0, 6))
    write('mads', 'in_handler', passive + says(RTU) + b'\x15' + says(DREP) + b'\xe0')
    write('mads', 'active', new(1) + call(1, 0) + says(MRA, 1) + b'\0' + says(REP, 1) + b'\x12' + call(1, 5) + says(DREP, 1) + b'\0')
    write('mads', 'refused', new(1) + call(1, 0) + says(REJ, 1) + b'\0' + call(1, 0) + later(9) + later(9) + b'\0' + says(REQ, 0, 4) + b'\xf0')
    write('mads', 'sidr', new(1) + call(1, 8) + says(SIDR_REP, 1) + b'\0' + says(SIDR_REQ) + b'\x19' + says(SIDR_REQ, 0, 4) + b'\0')
    write('mads', 'strangers', passive + says(RTU, 0, 1) + says(RTU, 0, 3) + says(REQ, 0, 1) + b'\x11' + says(REQ, 0, 0) + says(DREQ, 0, 2) +
          says(REQ, 0, 0x20, b'\x1b\x09') + b'\0')
    up = says(REQ) + b'\x11' + says(RTU) + b'\0'
    write('mads', 'lap', up + says(LAP) + b'\0' + call(0, 4) + call(0, 12) + says(LAP) + call(0, 13) + says(DREQ) + b'\0')
    write('mads', 'apr', up + call(0, 11) + says(MRA, 0, 8) + b'\0' + says(APR) + b'\0' + call(0, 13) + call(0, 11) + says(LAP) + later(9) * 9)
    write('mads', 'met', new(1) + call(1, 14) + says(REQ, 1, 2) + b'\x11' + says(REQ, 1, 2) + says(RTU, 1) + b'\0')


# ---- peers: records (see fuzz_peers.c) ----
def ask(src, dst, how=0):
    return bytes([0, src | dst << 2 | how])


def end(slot, what):
    return bytes([1, slot, what])


def turns_of_net(n):
    return bytes([7 | (n - 1) << 3])


def run(ms_shift):
    return bytes([5 | ms_shift << 3])


def peers():
    # the consumers' answers in their handlers follow the record that delivers
    up = ask(0, 1) + turns_of_net(1) + b'\x01' + turns_of_net(1) + b'\x02' + turns_of_net(1) + b'\0'
    write('peers', 'up', up + run(10) + end(0, 5) + run(3) + b'\1')
    write('peers', 'both_disconnect', up + end(0, 5) + end(1, 5) + run(11))
    write('peers', 'lap', up + end(0, 8) + turns_of_net(1) + b'\x04' + turns_of_net(1) + b'\0' + end(1, 9) + turns_of_net(1) + b'\0' + run(11))
    write('peers', 'laps_cross', up + end(0, 8) + end(1, 8) + turns_of_net(4) + b'\0\0' + run(11))
    write('peers', 'alternate', ask(0, 2, 0x20) + turns_of_net(1) + b'\x11' + turns_of_net(1) + b'\x02' + run(8))
    write('peers', 'met', ask(0, 1, 0x10) + ask(1, 0, 0x10) + turns_of_net(2) + b'\x01' + turns_of_net(1) + b'\x02' + turns_of_net(1) + b'\0' + run(11))
    write('peers', 'met_apart', ask(0, 2, 0x10) + run(7) + ask(2, 0, 0x10) + run(2) + b'\x01\x02' + run(11) * 3)
    write('peers', 'sidr', ask(0, 1, 0x40) + ask(1, 2, 0x50) + turns_of_net(2) + b'\x0a' + run(11))
    write('peers', 'doubles', up + b''.join(bytes([2 | 1 << 3, 0]) for _ in range(4)) + ask(1, 0) + bytes([2 | 1 << 3, 0]) + b'\x04' + bytes([2 | 1 << 3, 0, 0]) + b'\1' + run(9))
    write('peers', 'lost', ask(0, 1) + b'\3' + run(9) + b'\x01\x02' + b'\3' + run(11) * 6)
    write('peers', 'forged', up + end(0, 5) + bytes([2 | 3 << 5, 0, 24, 1, 2, 3, 4, 5]) + bytes([2 | 2 << 3, 0, 2]) + run(11))


# ---- agent: records (see fuzz_agent.c) ----
def agent():
    def raw(mad, how=0):
        return struct.pack('>BBH', 0, how, len(mad)) + mad
    seen = set()
    for name in ('cm_badkey', 'cm_migrate', 'cm_slow', 'cm_reject', 'udaddy', 'req_retransmit_noreply', 'sidr_no_listener'):
        for f in pcap(name + '.pcap'):
            if len(f) == 322 and f[47:50] == b'\0\0\1' and (name, f[79]) not in seen:
                seen.add((name, f[79]))
                write('agent', 'rxe_%s_%02x' % (name, f[79]), raw(f[62:318]))
    ours = [REQ, RTU, DREQ]
    write('agent', 'connect', b''.join(bytes([1, what, 0]) + b'\2\4' for what in ours) + b'\3\x12')
    write('agent', 'reject', bytes([1, REQ, 0]) + b'\2\4\4\1' + b'\2\4')
    write('agent', 'sidr', bytes([1, SIDR_REQ, 0]) + b'\2\4\4\0')
    write('agent', 'strange', b''.join(raw(b'\x01\x07\x02\x03' * 60, 1 << i) for i in range(8)) + raw(b'') + raw(b'x' * 1000))


def config():
    write('config', 'whole', b'# a comment\n[urxe]\nlog = debug\neal = --foo 1\n\n[urxe0]\n  port = net_vhost0,iface=/tmp/x\r\n'
          b'ip = 10.0.0.1/24, fd00::1/64\ngw = 10.0.0.254 fd00::ff\nmac = 02:00:00:00:00:1F\nmtu = 4096\nvlan = 7\n'
          b'pcap = /tmp/a b.pcap\ndrop = 0.01\ndup=.5\nreorder = 1\ncorrupt = 0\nseed = 0x10\nqueues = 4\ncm-mra = 5000\npatience = off\n[b]\nport = loop')
    write('config', 'pci', b'[urxe0]\nport = 0000:03:00.0\nip = 192.168.1.1/16\n')
    write('config', 'memif', b'; x\n[a]\nport=net_memif0,role=server,socket=@x\nip=10.0.0.1/31\nip=fe80::1/64\nmtu=9600\n')
    write('config', 'flags', b'[a]\nport=loop\n\0ip\00010.0.0.1/24\0mtu\00256\0pcap\0/tmp/x\0eal\0-v')
    write('config', 'flags_alone', b'\0port\0loop\0ip\00010.0.0.1/24 fd00::1/64\0log\0debug\0gw\0fd00::2')


frames()
packets()
mads()
peers()
agent()
config()
