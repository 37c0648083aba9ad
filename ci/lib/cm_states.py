#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The IB CM's state table, its actions and its README say the same; one line for each difference.

A row of cm/core/cm_state.c has OR() or MAY_STAY if its action can choose that, and only then; only that file sets a
state; and cm/core/README.md has the table.
ci/lib/cm_states.py [--write]	--write: put the table into the README
"""
import glob
import re
import sys

TABLE = 'cm/core/cm_state.c'
README = 'cm/core/README.md'
START = '<!-- made by `ci/lib/cm_states.py --write` -->\n'
LAST_CALL = 'DESTROY'
WIDTH = 100


def rows(text):
    """(state, input, action, next states, the row says that it may stay)"""
    state = None
    for m in re.finditer(r'\[URXE_CM_(\w+)\] = \{|IN\((\w+), (\w+), (\w+)(?:, OR\((\w+)\))?(, MAY_STAY)?\)', text):
        if m[1]:
            state = m[1]
        else:
            yield state, m[2], m[3], [n for n in (m[4], m[5]) if n], bool(m[6])


def actions(files):
    """What each action may return."""
    found = {}
    for path in files:
        with open(path) as f:
            text = f.read()
        for m in re.finditer(r'^(?:ACTION\(|int urxe_cm_act_)(\w+)\(?.*?^}', text, re.M | re.S):
            found[m[1]] = m[0]
    return found


def inputs():
    with open('cm/core/cm.h') as f:
        text = f.read()
    return re.findall(r'X\((\w+)\)', text[text.index('define URXE_CM_INPUTS'):text.index('URXE_CM_N_INPUTS')])


def check_row(row, body, is_call):
    state, what, action, nexts, says_stays = row
    stays = 'URXE_CM_STAY' in body or (not is_call and re.search(r'return E[A-Z]+;', body))
    if state in nexts and says_stays:
        yield 'MAY_STAY in a row that stays anyhow'
    elif state not in nexts and stays and not says_stays:
        yield f'{action} may stay, which the row does not show'
    elif says_stays and not stays:
        yield f'the row shows that it may stay, but {action} cannot'
    if ('URXE_CM_OTHER' in body) != (len(nexts) > 1):
        yield f'OR() and {action} differ'


def drawing(table):
    """The table as text: under each state the next ones, and what leads there."""
    states = {}
    for state, what, _, nexts, stays in table:
        for n in nexts:
            states.setdefault(state, {}).setdefault(n, []).append(what + '*' * stays)
    for state, nexts in states.items():
        yield state
        for n, what in nexts.items():
            line = '    %-16s' % ('stays' if n == state else n)
            for word in what:
                if len(line) + 1 + len(word) > WIDTH:
                    yield line
                    line = ' ' * 20
                line += ' ' + word
            yield line


def main():
    with open(TABLE) as f:
        table = list(rows(f.read()))
    files = sorted(glob.glob('cm/core/*.c'))
    does, order = actions(files), inputs()
    calls = order[:order.index(LAST_CALL) + 1]
    for row in table:
        for problem in check_row(row, does[row[2]], row[1] in calls):
            print(f'{TABLE}: {row[0]}, {row[1]}: {problem}')
    for path in files:
        with open(path) as f:
            if path != TABLE and re.search(r'\w(?:->|\.)state = ', f.read()):
                print(f'{path}: sets a state, which {TABLE} alone does')
    with open(README) as f:
        text = f.read()
    new = text[:text.index(START)] + START + '```\n' + '\n'.join(drawing(table)) + '\n```\n'
    if '--write' in sys.argv:
        with open(README, 'w') as f:
            f.write(new)
    elif new != text:
        print(f'{README}: the table is not that of {TABLE}: ci/lib/cm_states.py --write')


if __name__ == '__main__':
    sys.exit(main())
