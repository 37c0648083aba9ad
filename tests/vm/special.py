# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is no pair of commands. Each takes the lab and returns what is wrong, or nothing."""
import os
import re
import time

import lab as L
from vm.table import problem

SETTINGS = {'hugepages': 64}
MEMORY = 512
ADDRESS = '10.9.1.1'
MAC = '52:54:00:09:01:01'
# Ends by itself only when something is wrong.
RPING = 'rping -c -a %s -v -V -C 1000000000' % L.HOST


def pings(job):
    """How many pings the client has written of"""
    out = job.guest.run("grep -c 'ping data' %s.log" % job.base)[1].strip()
    return int(out) if out.isdigit() else 0


def wait_for_more(job, than, seconds):
    """Waits until there are pings beyond this many, or its end; how many there are then"""
    end = time.monotonic() + seconds
    while time.monotonic() < end and pings(job) <= than and not job.until('true', 1).strip():
        time.sleep(0.1)
    return pings(job)


def tail(job):
    return job.guest.run('tail -n 8 %s.log' % job.base)[1]


def interrupted(lab, guest, end, what, after=None):
    """rping in the guest goes on after what(); @after: the guest as it is then"""
    server = L.HostEnd(lab).start('rping -s -P -a ' + L.HOST, 'cm', 1024)
    job = end.start(RPING, None, 1024)
    try:
        first = wait_for_more(job, 2, 60)
        if first < 3:
            return problem('no pings before', client=tail(job), server=server.output())
        what()
        if after:
            job.guest = after()
        before = pings(job)
        if wait_for_more(job, before + 2, 60) <= before + 2:
            return problem('no pings after, %d before' % before, client=tail(job), server=server.output())
        return None
    finally:
        server.end()
        try:
            job.end()
        except L.Failed:
            pass


def paused(lab):
    """The guest stands still for 3 seconds"""
    card = L.tap('tca', mac=MAC)

    def pause():
        guest.pause()
        time.sleep(3)
        guest.cont()

    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [card], memory=MEMORY, settings=SETTINGS) as guest:
        L.bind(guest, card)
        return interrupted(lab, guest, L.GuestEnd(guest, 1, card.pci, ADDRESS), pause)


def migrated(lab):
    """The guest moves to another QEMU while rping runs"""
    card, there = L.tap('tca', mac=MAC), L.tap('tcb', mac=MAC)
    uri = 'unix:' + os.path.join(lab.folder, 'migration')
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [card], memory=MEMORY, settings=SETTINGS) as guest:
        L.bind(guest, card)
        target = L.boot(lab, 'b', 1, lab.image, lab.overlay, [there], memory=MEMORY, settings=SETTINGS, incoming=uri)
        try:
            def move():
                # An emulated CPU writes pages that QEMU 7.2 then misses: it stands still meanwhile.
                guest.pause()
                guest.migrate(uri)
                target.cont()
                guest.off()

            return interrupted(lab, guest, L.GuestEnd(guest, 1, card.pci, ADDRESS), move, lambda: target)
        finally:
            target.off()


def doctored(lab):
    """urxe doctor names the card and the command that binds it, which does"""
    card = L.tap('tca', mac=MAC)
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [card], memory=MEMORY, settings=SETTINGS) as guest:
        said = guest.run('urxe doctor')[1]
        found = re.search(r'^card +note +%s \(eth\d+\): bindable\n +-> (urxe bind %s)$' % (card.pci, card.pci), said, re.M)
        if not found:
            return problem('the card is not found bindable', doctor=said)
        guest.check(found[1])
        said = guest.run('urxe doctor')[1]
        if not re.search(r'^card +ok +%s \(no interface\): ' % card.pci, said, re.M):
            return problem('the card is not found bound', doctor=said)
        return None


# urxe(7), "Addresses": what a command in the guest prints of Soft-RoCE
PORT = '/sys/class/infiniband/rxe0/ports/1'
OF_RXE = [
    ('cat %s/gids/0' % PORT, r'fe80:0000:'),
    ('cat %s/gids/1' % PORT, r'0000:0000:0000:0000:0000:ffff:0a09:0001$'),
    ('cat %s/gid_attrs/types/0 %s/gid_attrs/types/1' % (PORT, PORT), r'RoCE v2\nRoCE v2$'),
    ('cat %s/gid_attrs/types/9 2>&1' % PORT, r'.*Invalid argument$'),
    ('cat %s/gid_attrs/ndevs/1' % PORT, r'eth0$'),
    ('ls %s/counters 2>&1' % PORT, r'.*No such file'),
    ('ls %s/hw_counters | wc -l' % PORT, r'16$'),
]


def compared(lab):
    """What urxe(7) has of Soft-RoCE's names and indices is so"""
    with L.boot(lab, 'a', 1, lab.image, lab.overlay, [], memory=MEMORY, settings={'rxe': 1}) as guest:
        for command, prints in OF_RXE:
            said = guest.run(command)[1].strip()
            if not re.match(prints, said):
                return problem('%s: not %s' % (command, prints), said=said)
        return None


TESTS = [
    ("Soft-RoCE's names and indices", compared),
    ("urxe doctor's command binds a card", doctored),
    ('guest paused for 3 s', paused),
    ('guest migrated', migrated),
]
