# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Results of cases, a line each as they come and a table of all at the end, and what a pair of programs
must have said."""
import re
import time

from . import Broken, Failed


class Skipped(Exception):
    """What was tried is not to be had here; the text says why."""


class Table:
    """Results by name, and which of them are wanted; only: a regular expression, or nothing."""

    def __init__(self, only):
        self.only, self.rows, self.start = only, [], time.monotonic()
        self.broken = set()  # what ran when an emulator broke

    def wanted(self, name):
        return not self.only or re.search(self.only, name)

    def any(self, names):
        return any(self.wanted(n) for n in names)

    def add(self, name, result, why='', seconds=0.0):
        """seconds: of a case that ran"""
        self.rows.append((name, result))
        print('%-4s %s%s' % (result, name, '  %.1f s' % seconds if seconds else ': ' + why), flush=True)
        for line in why.splitlines() if seconds else ():
            print('       ' + line, flush=True)

    def run(self, name, function, always=False):
        """If it is wanted, or always, and has no result yet; the function returns what is wrong, or nothing.
        Broken, when it comes for the first time, goes to the caller, who can begin again."""
        if (not always and not self.wanted(name)) or any(name == n for n, _ in self.rows):
            return
        start = time.monotonic()
        try:
            wrong = function()
        except Skipped as e:
            self.add(name, 'skip', str(e))
            return
        except Broken as e:
            if name not in self.broken:
                self.broken.add(name)
                raise
            wrong = str(e)
        except Failed as e:
            wrong = str(e)
        self.add(name, 'FAIL' if wrong else 'ok', wrong or '', time.monotonic() - start + 0.001)

    def sides(self):
        """{name: {'s' or 'c': result}} of the rows whose name ends with [s] or [c]"""
        found = {}
        for name, result in self.rows:
            if name.endswith(('[s]', '[c]')):
                found.setdefault(name[:-4], {})[name[-2]] = result
        return found

    def matrix(self):
        """Prints a table of all results."""
        raise NotImplementedError

    def summary(self):
        """The exit status"""
        self.matrix()
        count = {k: sum(1 for r in self.rows if r[1] == k) for k in ('ok', 'FAIL', 'skip')}
        print('\n%.0f s\n%d passed, %d failed, %d skipped' % (
            time.monotonic() - self.start, count['ok'], count['FAIL'], count['skip']), flush=True)
        return 1 if count['FAIL'] or not count['ok'] else 0


def judge(case, client_status, client_out, server_status, server_out):
    """What is wrong, or ''. case: client_re must be in the client's output, at least `count` times, server_re
    in the server's; endless: the server does not end by itself."""
    wrong = []
    if client_status:
        wrong.append('client: status %d' % client_status)
    if server_status and not case.endless:
        wrong.append('server: status %d' % server_status)
    found = sum(1 for _ in re.finditer(case.client_re, client_out)) if case.client_re else case.count
    if found < case.count:
        wrong.append('%r %d times in the output of the client, not %d' % (case.client_re, found, case.count))
    if not re.search(case.server_re, server_out):
        wrong.append('no %r in the output of the server' % case.server_re)
    return '; '.join(wrong)


def problem(what, **outs):
    """What is wrong, and below it the last lines of each output"""
    # The pingpongs print two lines for each QP.
    lines = {who: [l for l in out.splitlines() if ' address: ' not in l] for who, out in outs.items()}
    return '\n'.join([what] + ['%s: %s' % (who, l) for who, some in lines.items() for l in some[-12:]])
