# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What urxe-ports(7) tells a newcomer to type, typed as it stands there."""
import os
import shlex
import subprocess

import lab as L
from vm.table import problem

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tools/man/urxe-ports.7')


def examples(section):
    """The examples below a heading up to the next one, each a list of lines"""
    with open(PAGE) as f:
        text = f.read()
    for heading in ('.SH ', '.SS '):
        if heading + section + '\n' in text:
            body = text.split(heading + section + '\n', 1)[1]
            break
    else:
        raise L.Failed('urxe-ports(7) has no section ' + section)
    body = body.split('\n.S', 1)[0]
    return [[line.replace('\\-', '-') for line in part.split('.fi', 1)[0].split('\n')
             if line and not line.startswith('.')] for part in body.split('.nf\n')[1:]]


def words(lines):
    return [w for line in lines for w in shlex.split(line)]


def follow(guest, lines):
    """Types the lines in the guest; what is wrong, or nothing"""
    for line in lines:
        status, out = guest.run(line, 90)
        if status:
            return problem('status %d of: %s' % (status, line), guest=out)
    return None


def walk(lab, qemu, lines, server=None, **more):
    """A guest with these arguments of QEMU beside its own; rping's server on the host"""
    L.run('ip', 'tuntap', 'add', 'dev', 'tap1', 'mode', 'tap')
    L.run('ip', 'link', 'set', 'tap1', 'mtu', str(L.FRAMES), 'up', 'master', 'br0')
    server = server or L.HostEnd(lab).start('rping -s -P -a ' + L.HOST, 'cm')
    try:
        with L.boot(lab, 'w', 1, lab.image, lab.overlay, more=words(qemu), **more) as guest:
            return follow(guest, lines)
    finally:
        server.end()
        L.run('ip', 'link', 'del', 'tap1')


def on_a_card(lab):
    card, guest = examples('ON A CARD')[0], examples('IN A VM')
    return walk(lab, guest[0], card)


def in_a_vm(lab):
    qemu, lines = examples('IN A VM')
    return walk(lab, qemu, lines)


def with_iommu(lab):
    qemu, lines = examples('With an emulated IOMMU')
    return walk(lab, qemu, lines, kernel='intel_iommu=on')


class Typed:
    """A command of the page, on the host"""

    def __init__(self, lab, line):
        argv = shlex.split(line)
        self.proc = subprocess.Popen([lab.urxe] + argv[1:], stdin=subprocess.DEVNULL)

    def end(self):
        self.proc.kill()
        self.proc.wait()


def with_vhost_user(lab):
    qemu, line = examples('With urxe on the host at the other end of the card')
    return walk(lab, qemu, examples('IN A VM')[1], Typed(lab, line[0]))


TESTS = [
    ('urxe-ports(7): on a card', on_a_card),
    ('urxe-ports(7): in a VM', in_a_vm),
    ('urxe-ports(7): in a VM, with an IOMMU', with_iommu),
    ('urxe-ports(7): in a VM, with urxe on the host', with_vhost_user),
]
