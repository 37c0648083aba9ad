#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""seeds.py CAPTURES [FOLDER]: writes the fuzzers' first inputs into FOLDER, or corpus/.

Frames and MADs are kernel rxe's, from the captures; the rest is made here, in the formats that
fuzz_X.c read. The results are committed: this is run when a format changes.
"""
import os
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CAPTURES = sys.argv[1]
OUT = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, 'corpus')
MAC = {1: bytes.fromhex('52540a090001'), 2: bytes.fromhex('52540a090002')}
ALL = b'\xff' * 6


def write(target, name, data):
    folder = os.path.join(OUT, target)
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


# ---- packets: what all are like, then records (see fuzz_packets.c) ----
RC, UC, UD, XRC = range(4)
SEND, RECV, STEPS, WAIT, REQUEST, _, ANSWER, _, WINDOW, MEMBER, GROUP_SEND, RAW, GROUP, PATH, QP, EVENT = range(16)
FEW_RETRIES, NO_RETRIES, ONE_READ, SMALL_MTU, SIX = 1, 2, 4, 0x10, 0x80
OP_ATOMIC_WRITE, OP_FLUSH = 0x1d, 0x1c
# "how" of a request: where (4: near the end, 5: before it, 7: anywhere), window's key, PSN near, PSN anywhere
HERE, ACK, BY_WINDOW, NEAR, FAR = 0, 8, 0x20, 0x40, 0x80
# "more"
KEY, LEN, MTU, DMALEN32, DMALEN, AETH, FLIPS, CUT = (1 << i for i in range(8))
# "ext"
NO_MIGREQ, FROM_NET1, TO_NET1, TWICE, IN_FILE, TOGETHER, FETH, SRQN = (1 << i for i in range(8))
# of a FLUSH that we send: global, persistent, of a file's memory
GLOBAL, PERSISTENT, OF_FILE, WRONG_KEY, OF_MR = 1, 2, 4, 8, 0x10


def rec(action, kind=0, side=0, rest=b''):
    return bytes([kind | side << 2 | action << 3]) + rest


def send(kind, side, how, length):
    return rec(SEND, kind, side, struct.pack('>BH', how, length))


def flush(kind, side, how):
    return send(kind, side, 9, 0) + bytes([how])


def recv(kind, side, at, length):
    return rec(RECV, kind, side, struct.pack('>BH', at, length))


def steps(n):
    return rec(STEPS, rest=bytes([n]))


def wait(n):
    return rec(WAIT, rest=bytes([n]))


def packet(kind, side, op, how=0, more=0, ext=0, rest=b''):
    return rec(REQUEST, kind, side, bytes([op, how, more, ext]) + rest)


def answer(kind, side, how=0, rest=b''):
    return rec(ANSWER, kind, side, bytes([how]) + rest)


def path(kind, side, how):
    return rec(PATH, kind, side, bytes([how]))


def change(kind, side, how):
    return rec(QP, kind, side, bytes([how]))


def event(what, side=0):
    return rec(EVENT, 0, side, bytes([what]))


DEAD0, DEAD1, DEAD, ALIVE = (event(i) for i in range(4))
GONE_ALL, GONE_WRITE, GONE_FILE = (event(4 | i << 3, 1) for i in (1, 2, 3))
DISK_FAILS, SYNC = event(13), event(6, 1)


def requests_of(kind):
    """each request, with a payload and an address that are right"""
    full = (0, 1, 6, 7)
    return b''.join(packet(kind, 1, op, ACK, (MTU if op in full else LEN) | DMALEN, 0,
                           (b'' if op in full else b'\0\x20') + (b'\x08\x20' if op == 6 else b'\0\x20'))
                    for op in (0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 6, 9, 10, 11, 0x16, 0x17))


def packets_work(how, name):
    both = b''.join(recv(k, s, 2, 3000) for k in (RC, UC, UD, XRC) for s in (0, 1))
    ways = {
        'rc': both + b''.join(send(RC, 0, op, 2500) for op in range(7)) + wait(15),
        'uc_ud': both + b''.join(send(k, 0, op, 900) for k in (UC, UD) for op in range(4)) + wait(15),
        'xrc': both * 2 + b''.join(send(XRC, 0, op, 2500) for op in (0, 1, 2, 3, 4, 5, 6, 8)) + flush(XRC, 0, GLOBAL) + wait(15),
        'flush': send(RC, 0, 2, 900) + flush(RC, 0, GLOBAL) + flush(RC, 0, PERSISTENT | OF_FILE) + send(RC, 0, 8, 8) +
                 flush(RC, 0, OF_MR | GLOBAL | PERSISTENT | OF_FILE) + send(RC, 0, 4, 20) + wait(15) + flush(RC, 0, GLOBAL | WRONG_KEY) + wait(15),
        'inv': recv(RC, 1, 2, 900) * 2 + rec(WINDOW, 0, 1, b'\0\0\0\x10\0') + steps(20) + send(RC, 0, 7, 90) + steps(20) + send(RC, 0, 7, 90) + wait(12),
        'file': send(RC, 0, 0xc2, 90) + send(RC, 0, 0xc4, 90) + send(RC, 0, 0xc5, 8) + recv(RC, 1, 0x10, 99) + send(RC, 0, 0x40, 90) + wait(15),
    }
    for way, program in ways.items():
        write('packets', 'work_%s%s' % (way, name), bytes([how]) + program)


def packets_requests():
    both = b''.join(recv(k, s, 2, 3000) for k in (RC, UC, UD, XRC) for s in (0, 1)) * 3
    for kind, name in ((RC, 'rc'), (UC, 'uc'), (XRC, 'xrc')):
        for how in (0, SMALL_MTU | FEW_RETRIES):
            write('packets', 'requests_%s_%02x' % (name, how), bytes([how]) + both + requests_of(kind))
    for kind, name in ((RC, 'rc'), (XRC, 'xrc')):
        one = [packet(kind, 1, 12, 0, DMALEN, 0, b'\x10\0'), packet(kind, 1, 0x13), packet(kind, 1, 0x14),
               packet(kind, 1, OP_ATOMIC_WRITE), packet(kind, 1, OP_FLUSH, 0, DMALEN, 0, b'\x10\0'),
               packet(kind, 1, OP_FLUSH, 0, DMALEN, IN_FILE, b'\x10\0') + packet(kind, 1, 10, 0, LEN, 0, b'\0\x08') +
               packet(kind, 1, 10, 0, LEN, 0, b'\0\x08') + SYNC + event(7, 1)]
        write('packets', 'read_atomic_' + name, bytes([0]) + b''.join(one))
        # and each again: a part of the READ too
        again = b''.join(o + packet(kind, 1, op, NEAR, more, ext, b'\xff' + rest) for o, (op, more, ext, rest) in zip(one, (
            (12, DMALEN, 0, b'\x10\0'), (0x13, 0, 0, b''), (0x14, 0, 0, b''), (OP_ATOMIC_WRITE, 0, 0, b''), (OP_FLUSH, DMALEN, 0, b'\x10\0'),
            (OP_FLUSH, DMALEN, IN_FILE, b'\x10\0'))))
        write('packets', 'again_' + name, bytes([0]) + again + packet(kind, 1, 12, 0, DMALEN, 0, b'\x10\0') +
              packet(kind, 1, 12, NEAR | 1, DMALEN, 0, b'\xfe\x08\0\x08\0') + packet(kind, 1, 12, NEAR | 1, DMALEN, 0, b'\xfe\x08\0\0\0'))
        # refused: rights, addresses, keys, lengths, too many at once, what XRC and RC do not know
        for i, bad in enumerate((
                packet(kind, 1, 12, 7, DMALEN32, 0, b'\xff\xff\0\0\xff\xff\xff\xff'), packet(kind, 1, 12, 7, DMALEN, 0, b'\xff\xff\0\0\x10\0'),
                packet(kind, 1, 12, 0, KEY | DMALEN, 0, b'\0\0\0\1\x10\0'), packet(kind, 1, 0x13, 1, 0, 0, b'\0\1'),
                packet(kind, 1, 0x14, 5, 0, 0, b'\x08'), packet(kind, 1, OP_ATOMIC_WRITE, 1, 0, 0, b'\0\1'),
                packet(kind, 1, OP_ATOMIC_WRITE, 5, 0, 0, b'\x08'), packet(kind, 1, OP_ATOMIC_WRITE, 0, LEN, 0, b'\0\4'),
                packet(kind, 1, OP_FLUSH, 0, 0, FETH, b'\0'), packet(kind, 1, OP_FLUSH, 0, 0, FETH, b'\x31'),
                packet(kind, 1, OP_FLUSH, 0, DMALEN, FETH, b'\x10\0\x02'), packet(kind, 1, OP_FLUSH, 0, DMALEN, FETH | IN_FILE, b'\x10\0\x13'),
                packet(kind, 1, OP_FLUSH, 5, DMALEN, 0, b'\x08\x10\0'), packet(kind, 1, OP_FLUSH, 0, DMALEN, TWICE, b'\x10\0'),
                change(kind, 1, 2) + packet(kind, 1, OP_FLUSH), change(kind, 1, 2) + packet(kind, 1, 0x13),
                change(kind, 1, 2) + packet(kind, 1, OP_ATOMIC_WRITE), change(kind, 1, 2) + packet(kind, 1, 12), change(kind, 1, 2) + packet(kind, 1, 10),
                DISK_FAILS + packet(kind, 1, OP_FLUSH, 0, DMALEN, IN_FILE, b'\x10\0') + SYNC + event(7, 1),
                packet(kind, 1, 10, 0, DMALEN32, 0, b'\xff\xff\xff\xff'), packet(kind, 1, 6, 0, LEN, 0, b'\0\4'), packet(kind, 1, 8),
                packet(kind, 1, 0x15 | 0x80), packet(kind, 1, 0x04, 0, 0, 0) * 2, packet(kind, 1, 4, NEAR, 0, 0, b'\5') * 2 + packet(kind, 1, 4))):
            write('packets', 'bad_%s_%02d' % (name, i), bytes([0]) + bad + steps(4))
        for op, name2 in ((12, 'read'), (0x13, 'swap'), (OP_ATOMIC_WRITE, 'aw'), (OP_FLUSH, 'flush')):
            many = packet(kind, 1, op, 0, 0 if op == OP_ATOMIC_WRITE else DMALEN, TOGETHER, b'' if op == OP_ATOMIC_WRITE else b'\x10\0')
            write('packets', 'too_many_%s_%s' % (name2, name), bytes([ONE_READ]) + many * 3 + event(7, 1) + steps(4))
        for i, gone in enumerate((GONE_ALL, GONE_WRITE, GONE_FILE)):
            for op in (12, 0x13, OP_ATOMIC_WRITE, 10, 4):
                write('packets', 'gone_%s_%d_%02x' % (name, i, op), bytes([0]) + recv(kind, 1, 0x10, 99) + gone +
                      packet(kind, 1, op, 0, LEN | DMALEN if op in (10, 4) else DMALEN if op == 12 else 0, IN_FILE,
                             b'\0\x10\0\x10' if op in (10, 4) else b'\0\x10' if op == 12 else b'') + steps(6))
    # a message in which the SRQ goes, or another one is named; the limit
    write('packets', 'srq_gone', bytes([0]) + recv(XRC, 1, 2, 3000) * 2 + change(XRC, 1, 5 | 2 << 3) + packet(XRC, 1, 0, 0, MTU) + change(XRC, 1, 6) +
          packet(XRC, 1, 2, 0, LEN, 0, b'\0\4') + packet(XRC, 1, 4) + steps(4))
    write('packets', 'srq_other', bytes([0]) + recv(XRC, 1, 2, 3000) * 2 + packet(XRC, 1, 0, 0, MTU) + packet(XRC, 1, 1, 0, MTU, SRQN, b'\0\0\0\0') + steps(4))
    write('packets', 'srq_gone_read', bytes([0]) + packet(XRC, 1, 12, 0, DMALEN, TOGETHER, b'\x10\0') + change(XRC, 1, 6) + event(7, 1) + steps(4))


def packets_answers():
    for kind, name in ((RC, 'rc'), (XRC, 'xrc')):
        for i, (how, out) in enumerate(((4, 5000), (2, 5000), (5, 8), (6, 8), (8, 8), (0, 3000))):
            job = DEAD + send(kind, 0, how, out)
            write('packets', 'answers_%s_%d' % (name, i), bytes([0]) + job * 2 + answer(kind, 0) * 6 + ALIVE + wait(15))
            # from behind it, from before it, of nothing, of the wrong sort, of the wrong length
            for j, bad in enumerate((answer(kind, 0, 3), answer(kind, 0, 1, b'\xff'), answer(kind, 0, 1, b'\x7f'), answer(kind, 0, 8, b'\3'),
                                     answer(kind, 0, 8, b'\5'), answer(kind, 0, 0x10, b'\0\7'), answer(kind, 0, 1, b'\2') * 2)):
                write('packets', 'answers_%s_%d_%d' % (name, i, j), bytes([0]) + job * 2 + bad + ALIVE + wait(15))
        write('packets', 'answers_flush_' + name, bytes([0]) + DEAD + flush(kind, 0, GLOBAL) * 2 + answer(kind, 0) + wait(15) + answer(kind, 0) + ALIVE + wait(17))
        # RNR NAKs, sequence NAKs, fatal and reserved ones
        for how in (0, FEW_RETRIES, NO_RETRIES):
            for syndrome in (0x20, 0x2c, 0x60, 0x61, 0x62, 0x63, 0x64, 0x40):
                write('packets', 'naks_%s_%d_%02x' % (name, how, syndrome), bytes([how]) + DEAD + send(kind, 0, 2, 5000) + send(kind, 0, 4, 900) +
                      answer(kind, 0, 4, bytes([syndrome])) * 3 + wait(13) + answer(kind, 0, 5, b'\1' + bytes([syndrome])) + ALIVE + wait(17))
        write('packets', 'gone_' + name, bytes([0]) + DEAD + send(kind, 0, 0x44, 900) + event(12) + answer(kind, 0) + ALIVE + wait(15))
        write('packets', 'gone_atomic_' + name, bytes([0]) + DEAD + send(kind, 0, 0x45, 900) + event(12) + answer(kind, 0) + ALIVE + wait(15))
        write('packets', 'silence_' + name, bytes([NO_RETRIES]) + DEAD + flush(kind, 0, GLOBAL) + wait(17) * 4)
        write('packets', 'drained_' + name, bytes([0]) + DEAD + send(kind, 0, 2, 900) + change(kind, 0, 0) + answer(kind, 0) + change(kind, 0, 0x3f) +
              change(kind, 0, 1) + ALIVE + wait(15))


def packets_paths():
    for kind, name in ((RC, 'rc'), (UC, 'uc'), (XRC, 'xrc')):
        arm = path(kind, 0, 4) + path(kind, 1, 4) + recv(kind, 1, 2, 900) * 4 + send(kind, 0, 2, 20) + wait(12) + send(kind, 0, 2, 20) + wait(12)
        write('packets', 'armed_' + name, bytes([0]) + arm + path(kind, 0, 5) + send(kind, 0, 2, 900) + wait(15) + path(kind, 0, 0) + path(kind, 1, 0))
        write('packets', 'net_dies_' + name, bytes([FEW_RETRIES]) + arm + DEAD0 + send(kind, 0, 2, 900) + wait(17) * 4 + DEAD0 + DEAD1 + send(kind, 0, 2, 900) + wait(17) * 4)
        write('packets', 'forged_' + name, bytes([0]) + path(kind, 1, 4) + packet(kind, 1, 10, 0, 0, FROM_NET1) + packet(kind, 1, 10, 0, 0, NO_MIGREQ) +
              packet(kind, 1, 10, 0, 0, NO_MIGREQ) + packet(kind, 1, 10, 0, 0, NO_MIGREQ | FROM_NET1) + packet(kind, 1, 10, 0, 0, 0) * 2 +
              packet(kind, 1, 10, 0, 0, FROM_NET1) + packet(kind, 1, 10, 0, 0, FROM_NET1 | TO_NET1) + packet(kind, 1, 10, 0, 0, 0) + path(kind, 1, 0))


def packets_others():
    both = b''.join(recv(k, s, 2, 3000) for k in (RC, UC, UD, XRC) for s in (0, 1))
    write('packets', 'ud', bytes([0]) + both + packet(UD, 0, 4, 0, LEN, 0, b'\0\x40') + packet(UD, 1, 5, 0, MTU) +
          packet(UD, 1, 4, 0, LEN | FLIPS, 0, b'\0\x40\x01\x0c\x01'))
    unflushed = packet(RC, 1, OP_FLUSH, 0, DMALEN, IN_FILE, b'\x10\0')
    write('packets', 'unflushed', bytes([0]) + unflushed + packet(RC, 1, 10, NEAR, LEN, 0, b'\1\0\x08') + change(RC, 1, 3) + unflushed)
    write('packets', 'unflushed_done', bytes([0]) + unflushed + SYNC + change(RC, 1, 3))
    write('packets', 'flush_v6', bytes([SIX]) + flush(RC, 0, PERSISTENT | OF_FILE) * 3 + wait(16) * 3 + unflushed)
    write('packets', 'edges', bytes([0]) + both + packet(RC, 1, 10, 4, MTU, 0, b'\x01') + packet(UC, 1, 10, 6, LEN, 0, b'\x07\0\x40') +
          packet(UC, 1, 6, 5, MTU, 0, b'\x10') + packet(XRC, 1, 10, 7, LEN, 0, b'\0\1\0\0\0\x40') + packet(RC, 1, 4, 0, CUT, 0, b'\4'))
    window = rec(WINDOW, 0, 1, b'\0\0\0\x40\0') + steps(4)
    read = packet(RC, 1, 12, BY_WINDOW, DMALEN, 0, b'\0\x40')
    write('packets', 'window', bytes([0]) + both + window + packet(RC, 1, 10, BY_WINDOW, LEN, 0, b'\0\x40') + read +
          rec(WINDOW, 0, 1, b'\1') + packet(RC, 1, 10, BY_WINDOW, LEN, 0, b'\0\x40') + window + packet(RC, 1, 0x17) + packet(RC, 1, 0x17))
    write('packets', 'window_gone', bytes([0]) + window + packet(RC, 1, 12, BY_WINDOW, DMALEN, TOGETHER, b'\x30\0') + rec(WINDOW, 0, 1, b'\1') + event(7, 1) + steps(9))
    group = rec(MEMBER, 0, 0) + rec(MEMBER, 0, 1) + both + rec(GROUP_SEND, rest=b'\2\0') + steps(8) + rec(GROUP, 0, 1, bytes([4, 0, LEN, 0]) + b'\0\x40')
    for how in (0, SIX):
        name = '_v6' if how else ''
        write('packets', 'group' + name, bytes([how]) + group + rec(MEMBER, 0, 1) + rec(GROUP_SEND, rest=b'\2\0') + wait(12))
        rules = (rec(RAW, 1, 0, b'\x03') + rec(RAW, 1, 1, b'\xa0') + rec(RAW, rest=b'\x01\x10\0') * 3 + rec(RAW, rest=b'\x82\x10\0') * 3 +
                 rec(RAW, 0, 1, b'\x83\x10\0') * 3)
        write('packets', 'rules' + name, bytes([how]) + rules + both + send(RC, 0, 0, 900) + send(UD, 0, 0, 900) + steps(16) + rec(RAW, 1, 0, b'\0'))


def packets():
    packets_work(0, '')
    packets_work(SIX | SMALL_MTU, '_v6')
    packets_requests()
    packets_answers()
    packets_paths()
    packets_others()


# ---- mads: settings, then records (see fuzz_mads.c) ----
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(11)


def says(what, slot=0, how=0, rest=b''):
    return bytes([what, how, slot]) + rest


def new(slot):
    return bytes([0x80, slot])


def later(n, slot=0):
    return bytes([0x81 | 10 << 3, slot, n])


def call(slot, what):
    return bytes([0x87, slot, what])


def also(slot, what):
    return bytes([0x86, slot, what])


def mads():
    seen = set()
    for name in ('cm_badkey', 'cm_migrate', 'cm_priv'):
        for f in pcap(name + '.pcap'):
            if len(f) == 322 and f[42 + 17:42 + 20] and f[14 + 20 + 8 + 20 + 16:][:2] not in seen:
                m = f[14 + 20 + 8 + 20:][:256]
                seen.add(m[16:18])
                write('mads', 'rxe_%02x' % m[17], m)
                write('mads', 'heard_%02x' % m[17], b'\0\x83\0\x01\0' + m)
    passive = says(REQ) + b'\x11'  # the consumer's answer: REP, in its handler
    up = passive + says(RTU) + b'\0'
    ask = new(1) + call(1, 0)
    for name, program in (
            ('passive', says(REQ) + b'\0' + call(0, 1) + says(RTU) + b'\0' + later(9) + says(RTU) + says(DREQ) + b'\0' + call(0, 6)),
            ('in_handler', passive + says(RTU) + b'\x15' + says(DREP) + b'\xe0'),
            ('active', ask + says(MRA, 1) + b'\0' + says(REP, 1) + b'\x12' + call(1, 5) + says(DREP, 1) + b'\0'),
            ('refused', ask + says(REJ, 1) + b'\0' + call(1, 0) + later(9) + later(9) + b'\0' + says(REQ, 0, 4) + b'\xf0'),
            ('sidr', new(1) + call(1, 8) + says(SIDR_REP, 1) + b'\0' + says(SIDR_REQ) + b'\x19' + says(SIDR_REQ, 0, 4) + b'\xde\xa3' + says(SIDR_REQ, 0, 4)),
            ('strangers', passive + says(RTU, 0, 1) + says(RTU, 0, 3) + says(REQ, 0, 1) + b'\x11' + says(REQ, 0, 0) + says(DREQ, 0, 2) +
             says(REQ, 0, 0x20, b'\x1b\x09') + b'\0'),
            ('lap', up + says(LAP) + b'\0' + call(0, 4) + call(0, 12) + says(LAP) + call(0, 13) + says(DREQ) + b'\0'),
            ('apr', up + call(0, 11) + says(MRA, 0, 8) + b'\0' + says(APR) + b'\0' + call(0, 13) + call(0, 11) + says(LAP) + later(9) * 9),
            ('met', new(1) + call(1, 14) + says(REQ, 1, 2) + b'\x11' + says(REQ, 1, 2) + says(RTU, 1) + b'\0'),
            ('alternate', says(REQ, 0, 0x10) + b'\x11' + says(RTU) + b'\0' + call(0, 13) + new(1) + call(1, 0x10) + says(REP, 1) + b'\x12' + call(1, 13)),
            ('ignored', says(REQ) + b'\xdf' + says(REQ) + b'\0' + also(0, 0x20) + says(REQ) + b'\0' + also(0, 0x40) + b'\x11' + says(RTU) + b'\0'),
            ('unreachable', ask + also(1, 0xc6) + b'\0' + call(1, 0) + also(1, 0xc2) + later(9) + also(1, 0xc3) + later(9) * 3),
            ('parked', says(REQ, 0, 0x20, b'\x1f\x62') + later(0) + says(SIDR_REQ, 0, 0x20, b'\x1f\x62') + later(0) + new(2) + call(2, 0x2a) + b'\1' + later(9) + b'\0\0'),
            ('sundry', ask + also(1, 0x60) + also(1, 0x80) + also(1, 0xe0) + later(9) * 4)):
        for how in (0, 15):
            write('mads', '%s_%x' % (name, how), bytes([how]) + program)


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
    write('peers', 'ignored', ask(0, 1) + turns_of_net(1) + b'\xfe' + run(9) + b'\x01\x02' + run(11))
    write('peers', 'told_again', ask(0, 1) + turns_of_net(1) + b'\x0b\x01' + turns_of_net(1) + b'\x02' + run(11))
    write('peers', 'unreachable', ask(0, 1) + bytes([3 | 5 << 3, 0]) + ask(0, 1) + bytes([3 | 1 << 3]) + run(11) * 2 + ask(0, 1, 0x40) + bytes([3 | 7 << 3, 0]))
    write('peers', 'migrated', ask(0, 2, 0x20) + turns_of_net(1) + b'\x01' + turns_of_net(1) + b'\x02' + turns_of_net(1) + b'\0' +
          end(0, 12) + end(1, 12) + end(0, 5) + run(9))
    write('peers', 'sundry', ask(0, 1) + end(0, 0xfd) + end(0, 14) + run(11))
    write('peers', 'forged', up + end(0, 5) + bytes([2 | 3 << 5, 0, 24, 1, 2, 3, 4, 5]) + bytes([2 | 2 << 3, 0, 2]) + run(11))


# ---- agent: backlog and manners, then records (see fuzz_agent.c) ----
MAD, MORE_TIME, TIME, CALL, ACTIVE, STRANGERS, ICMP, LISTEN, NET, NOW, REPLY = 1, 5, 4, 6, 8, 10, 11, 12, 13, 14, 15
SHORT_BACKLOG, EAGER, WITH_QP, DEAF = 1, 4, 8, 0x10
ACCEPT, REJECT, DISCONNECT, DESTROY, ESTABLISHED, MIGRATED, ROUTE, CONNECT, ESTABLISH, OPTIONS = range(10)
QP_FIRST = 0x40


def mad(what, how=0, rest=b''):
    return bytes([MAD, what, how]) + rest


def do_call(slot, what, rest=b''):
    return bytes([CALL, slot, what]) + rest


def reply(n, back=0, arg=None):
    return bytes([REPLY, n | back << 2 | (0 if arg is None else 0x20)] + ([] if arg is None else [arg]))


def active(how):
    return bytes([ACTIVE, how]) + bytes([TIME, 9]) * 3


def agent_consumers():
    soon, long = bytes([TIME, 4]), bytes([MORE_TIME, 25])
    for qp in (0, 1):
        go = active(8 | qp << 4)
        arm = bytes([EAGER | (WITH_QP if qp else 0)])
        for name, program in (
                ('up', go + reply(0) + soon + reply(0) + soon + do_call(0, DISCONNECT) + reply(0)),
                ('rejected', go + reply(1)),
                ('smaller_mtu', go + reply(1, 0, 0x94) + soon + reply(0)),
                ('slow', go + reply(2, 0, 0) + long + reply(0)),
                ('silent', go + long * 2),
                ('bad_depth', go + reply(0, 0, 0xff) + soon),
                ('lost', go + reply(0) + soon + bytes([NET, 3]) + long * 8),
                ('rej_when_up', go + reply(0) + soon + reply(3)),
                ('peer_disconnects', go + reply(0) + soon + reply(0) + soon + reply(0)),
                ('both_disconnect', go + reply(0) + soon + do_call(0, DISCONNECT) + reply(1)),
                ('lap', go + reply(0) + soon + reply(1) + soon + reply(0) + do_call(0, MIGRATED | 0x80)),
                ('icmp', go + bytes([ICMP, 4]) + soon), ('icmp_kernel', go + bytes([ICMP, 0x48]) + long),
                ('icmp_forged', go + bytes([ICMP, 0x24, 2, 0]) + soon),
                ('listens', mad(REQ) + soon + reply(0) + soon + do_call(0, DISCONNECT) + reply(0)),
                ('listens_slow', mad(REQ) + long + long),
                ('listens_lap', mad(REQ) + soon + reply(0) + mad(LAP) + soon + do_call(0, MIGRATED | 0x80)),
                ('listens_notify', mad(REQ) + soon + do_call(0, ESTABLISHED) + do_call(0, MIGRATED)),
                ('listens_rej', mad(REQ) + soon + reply(2)), ('listens_dreq', mad(REQ) + soon + reply(3)),
                ('own', active(2 | 8 | qp << 4) + soon * 4 + do_call(1, DISCONNECT) + long),
                ('sidr', active(4 | 8 | qp << 4) + reply(0) + soon), ('sidr_no', active(4 | 8 | qp << 4) + reply(0, 0, 1)),
                ('sidr_silent', active(4 | 8) + long), ('sidr_own', active(6 | 8 | qp << 4) + soon * 4),
                ('sidr_listens', mad(SIDR_REQ) + soon),
                ('migrates', go + reply(0) + soon + reply(1) + soon + do_call(0, MIGRATED | 0x80) + do_call(0, DISCONNECT) + bytes([NET, 0, NET, 0]) + long),
                ('no_carrier', bytes([NET, 2]) + go + bytes([ACTIVE, 9]) + long + bytes([NET, 10, NET, 6]) + long),
                ('readdress', go + bytes([NET, 0]) + reply(0) + bytes([NET, 0])),
                ('options', bytes([ACTIVE, 0x20 | 8 | qp << 4, 1]) + bytes([TIME, 9]) * 3 + reply(0) + soon)):
            write('agent', '%s_%d' % (name, qp), arm + program)
        # an id that goes on as it is told
        by_hand = bytes([0]) + active(0) + do_call(0, ROUTE) + do_call(0, CONNECT | (QP_FIRST if qp else 0) | 0x20, b'\x10\4') + soon + reply(0)
        write('agent', 'by_hand_%d' % qp, by_hand + do_call(0, ESTABLISH) + do_call(0, 10) + do_call(0, DESTROY))
        write('agent', 'no_param_%d' % qp, bytes([0]) + active(0) + do_call(0, ROUTE) + do_call(0, 12 | (QP_FIRST if qp else 0)) + soon + reply(0))
    write('agent', 'too_much', bytes([0]) + active(0) + do_call(0, ROUTE) + do_call(0, CONNECT | 0x20, b'\xff\4') + do_call(0, CONNECT | 0x20, b'\4\xf0'))
    write('agent', 'nowhere', bytes([0]) + bytes([ACTIVE, 1 | 0x40, ACTIVE, 3]) + long * 2)
    write('agent', 'calls', bytes([0]) + mad(REQ) + soon + b''.join(do_call(0, i) for i in (CONNECT, ROUTE, ESTABLISH, DISCONNECT, 11, ACCEPT, DESTROY)))
    write('agent', 'accepts', bytes([0]) + b''.join(mad(REQ, i << 3) + soon + do_call(i, what, rest) for i, (what, rest) in enumerate((
        (ACCEPT | 0x10, b''), (ACCEPT | 0x20, b'\xff\4'), (ACCEPT | 0x20, b'\4\xf0'), (12 | 0x80, b''), (REJECT, b''), (11, b'')))))
    full = b''.join(mad(REQ, i << 3) for i in range(7))
    for how in (SHORT_BACKLOG, SHORT_BACKLOG | EAGER):
        write('agent', 'full_%x' % how, bytes([how | DEAF]) + full + full + soon + bytes([NOW]) + do_call(0, ACCEPT) + soon + do_call(1, REJECT) + soon +
              reply(0, 1) + reply(0, 2) + long + bytes([NOW]) + soon)
    # those who wait: they give up, or are silent; or the listener goes
    held = bytes([SHORT_BACKLOG | DEAF]) + full + bytes([MORE_TIME, 22])  # until they get MRAs
    write('agent', 'waiters_give_up', held + b''.join(reply(0, i) for i in range(8)) + soon + bytes([NOW]) + do_call(0, DESTROY))
    write('agent', 'waiters_silent', held + long * 2 + bytes([NOW]) + do_call(0, DESTROY) + soon + bytes([NOW]))
    write('agent', 'waiters_refused', held + bytes([LISTEN, 0]) + soon + bytes([LISTEN, 1]) + full)
    write('agent', 'sidr_full', bytes([SHORT_BACKLOG | DEAF]) + b''.join(mad(SIDR_REQ, i << 3) for i in range(6)) + soon + bytes([NOW]) + do_call(0, ACCEPT) + long + bytes([NOW]))
    write('agent', 'strangers', bytes([0]) + bytes([STRANGERS, 30, 100 | 0x80, STRANGERS, 31, 0]) + soon + bytes([STRANGERS, 30, 100 | 0x80]) * 2 +
          soon + bytes([MORE_TIME, 20]) + bytes([STRANGERS, 40, 3]) + long)


def agent():
    def raw(m, how=0):
        return struct.pack('>BBH', 0, how, len(m)) + m
    seen = set()
    for name in ('cm_badkey', 'cm_migrate', 'cm_slow', 'cm_reject', 'udaddy', 'req_retransmit_noreply', 'sidr_no_listener'):
        for f in pcap(name + '.pcap'):
            if len(f) == 322 and f[47:50] == b'\0\0\1' and (name, f[79]) not in seen:
                seen.add((name, f[79]))
                write('agent', 'rxe_%s_%02x' % (name, f[79]), b'\0' + raw(f[62:318]))
    write('agent', 'connect', b'\4' + b''.join(mad(what) + b'\4\4' for what in (REQ, RTU, DREQ)) + b'\5\x12')
    write('agent', 'strange', b'\0' + b''.join(raw(b'\x01\x07\x02\x03' * 60, 1 << i) for i in range(8)) + raw(b'') + raw(b'x' * 1000))
    agent_consumers()


# ---- fabric: where the ring begins, then records (see fuzz_fabric.c) ----
def fabric():
    def word(at, value):
        return bytes([1 << 3, at]) + struct.pack('<I', value)
    start = struct.pack('>I', 0)
    read, back = bytes([3 | 7 << 3]), bytes([4])
    write('fabric', 'frames', start + word(0, 60) + word(1, 1000 | 1 << 24) + read + back + word(17, 1 << 26) + read)
    write('fabric', 'wrap', struct.pack('>I', 0xffffff00) + word(60, 100) + read + word(62, 128 | 2 << 24) + word(0, 1600) + read + back)
    write('fabric', 'too_long', start + word(0, 0xffffff) + read + word(0, 13) + read)
    write('fabric', 'both', start + b''.join(bytes([5]) + struct.pack('>H', n) + bytes([6]) for n in (50, 1500, 1000)) +
          bytes([2]) + struct.pack('>HB', 0, 4) + struct.pack('<I', 64) + bytes([5, 1, 0, 7]) + struct.pack('>I', 9))


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
fabric()
