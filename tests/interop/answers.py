# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""answers.c on urxe and on the kernel, line by line. Where they differ, answers.list must say so, with
a reason: "= REASON", then a line "SPACE STATE CALL | urxe's answer | the kernel's answer" for each that it
is about. A difference that is not in it is wrong, and so is one in it that does not come."""
import os
import re

import lab as L
from vm.table import problem

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'answers.list')
NEW = 'no reason is known yet'
SECONDS = 900
QUIET, PATIENT = 200, 2000  # ms
SHOWN = 40
# Of answers.h. Each has a process of its own, for most of the time is waiting: on urxe with a device of its own,
# which reaches only itself, as the guest's does here.
SPACES = ('TCP', 'TCP_QP', 'UDP', 'UDP_QP', 'SYNC', 'TCP6', 'UDP6', 'FREE')
PORT = 'loop'


def parse(text):
    """{key: answer} of what answers.c prints"""
    return dict(re.findall(r'(?m)^([A-Z]\S* \S+ \S+) -> (.*)$', text))


def load(path):
    """{key: (urxe's, the kernel's, reason)}"""
    listed, reason = {}, NEW
    with open(path) as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip('\n')
            if line.startswith('= '):
                reason = line[2:]
            elif line and not line.startswith('#'):
                field = line.split(' | ')
                if len(field) != 3 or field[0] in listed:
                    raise L.Failed('%s:%d: no "KEY | urxe | kernel", or a second time' % (path, number))
                listed[field[0]] = (field[1], field[2], reason)
    return listed


def save(path, differences, listed):
    """The list as it should be now: reasons stay with lines that were in it."""
    groups = {}
    for key, answers in differences.items():
        groups.setdefault(listed[key][2] if key in listed else NEW, []).append((key, *answers))
    with open(path) as f:
        head = [line for line in f if line.startswith('#')]
    with open(path, 'w') as f:
        f.writelines(head)
        for reason, rows in groups.items():
            f.write('\n= %s\n' % reason)
            f.writelines(' | '.join(row) + '\n' for row in rows)


def whole(lab, quiet, wanted):
    """{side: {key: answer}} of these lists of names, all at once"""
    procs = [(side, lab.start(side, ' '.join((lab.programs[side]['answers'], *L.ADDRESS[side].values(), str(quiet), *names)),
                              port=PORT))
             for side in 'ku' for names in wanted]
    status = [proc.wait(SECONDS) for _, proc in procs]
    out = [proc.end() for _, proc in procs]
    got = {'u': {}, 'k': {}}
    for (side, proc), bad, text in zip(procs, status, out):
        if bad:
            raise L.Failed(problem('status %d of answers.c' % bad, **{proc.where: text}))
        got[side].update(parse(text))
    return got


def wrong_lines(got, listed):
    """{key: what is wrong with it}"""
    ours, theirs = got['u'], got['k']
    wrong = {}
    for key in ours:
        both = ours[key], theirs[key]
        if key in listed and both[0] == both[1]:
            wrong[key] = '%s: listed, but both say %s' % (key, both[0])
        elif both[0] != both[1] and (key not in listed or listed[key][:2] != both):
            wrong[key] = '%s\n    urxe:   %s\n    kernel: %s' % (key, *both) + (
                '\n    listed: %s | %s' % listed[key][:2] if key in listed else '')
    return wrong


def again(lab, keys):
    """These lines once more, with more time: on a busy machine an event may have come late."""
    names = {}
    for key in keys:
        names.setdefault(key.split()[0], []).append(key.replace(' ', '/'))
    return whole(lab, PATIENT, names.values())


def compare(lab, write):
    """What is wrong, or nothing; write: the list is made anew."""
    got = whole(lab, QUIET, [[space] for space in SPACES])
    ours, theirs = got['u'], got['k']
    if ours.keys() != theirs.keys():
        return 'other lines: %s' % sorted(set(ours) ^ set(theirs))[:SHOWN]
    listed = load(LIST)
    wrong = wrong_lines(got, listed)
    if wrong:
        print('     %d answers once more' % len(wrong), flush=True)
        for side, lines in again(lab, wrong).items():
            got[side].update(lines)
        wrong = wrong_lines(got, listed)
    differences = {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]}
    print('     %d answers, %d differ, %d of these are listed' % (
        len(ours), len(differences), len(listed.keys() & differences.keys())), flush=True)
    if write:
        save(LIST, differences, listed)
        return None
    text = [*wrong.values(), *('%s: listed, and nothing has this name' % key for key in listed if key not in ours),
            *('%s: listed without a reason' % key for key, row in listed.items() if row[2] == NEW)]
    return '\n'.join(['%d lines' % len(text)] + text[:SHOWN]) if text else None
