# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""urxe-tutorial(7), typed as it stands there by a user without any right: its program, and each of its commands."""
import gzip
import os
import re
import shutil
import subprocess

import fabric
import node

INSTALLED = '/usr/share/man/man7/urxe-tutorial.7.gz'
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tools/man/urxe-tutorial.7')
# What is to be seen, in the order of the page: a part of a command, and what it or the server prints.
SEEN = (('urxe doctor', r'(?m)^urxe +ok'), ('ibv_devinfo', r'hca_id:\s+urxe0'), ('server 127.0.0.1 3 ', r'message 3: hello for the 3th time'),
        ('tshark', r'(?s)ConnectRequest.*RC Send Only.*RC Acknowledge.*DisconnectReply'),
        ('urxe stat', r'RETRANS/S.*\n.* urxe0 '), ('server 127.0.0.1 100000', r'message 100000: hello for the 100000th time'))


def blocks():
    """The examples of the page, as text."""
    with gzip.open(INSTALLED, 'rt') if 'URXE_TOOL' in os.environ else open(PAGE) as f:
        text = f.read()
    for code in re.findall(r'^\.EX\n(.*?)^\.EE', text, re.M | re.S):
        yield code.replace('\\-', '-').replace('\\e', '\\')


class Typist(fabric.Fabric):
    """Types lines; what each has printed is in `out`."""

    def __init__(self):
        super().__init__()
        tools = os.path.dirname(fabric.TOOL)
        self.env = self.environ(PATH=tools + ':' + os.environ['PATH'], HOME=self.folder)
        self.out, self.behind = {}, []

    def type(self, line, timeout):
        """What is wrong, or None."""
        if line == 'wait':
            return self.wait(timeout)
        path = '%s/%d.out' % (self.folder, len(self.out))
        with open(path, 'w') as out:
            child = subprocess.Popen([*self.user, 'sh', '-c', 'exec ' + line.rstrip(' &')], cwd=self.folder, env=self.env,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        self.children.append(child)
        self.out[len(self.out)] = (line, path)
        if not line.endswith('&'):
            status = child.wait(timeout)
            return 'exit status %d of: %s\n%s' % (status, line, node.read(path)[-1000:]) if status else None
        self.behind.append((line, child))
        if 'server' in line and not fabric.until(lambda: 'listening' in node.read(path), child, timeout):
            return 'does not listen: ' + line
        return None

    def wait(self, timeout):
        ended = [(line, child.wait(timeout)) for line, child in self.behind]
        self.behind = []
        bad = ['exit status %d of: %s' % (status, line) for line, status in ended if status]
        return '\n'.join(bad) or None


def walk(typist, timeout):
    for block in blocks():
        if '#include' in block:
            with open(typist.folder + '/hello.c', 'w') as f:
                f.write(block)
            continue
        for line in block.splitlines():
            problem = typist.type(line, timeout)
            if problem:
                return problem
    for part, want in SEEN:
        texts = [node.read(path) for line, path in typist.out.values() if part in line]
        if not texts or not re.search(want, texts[0]):
            return '%s does not print %s, but\n%s' % (part, want, (texts or ['nothing'])[0][-800:])
    return None


def tutorial(report, _kind, _why_not):
    title = 'tutorial: urxe-tutorial(7)'
    if not report.wanted(title):
        return
    missing = [p for p in ('cc', 'tshark', 'ibv_devinfo') if not shutil.which(p)]
    if missing or ('URXE_TOOL' not in os.environ and node.sanitized()):
        report.skip(title, missing[0] + ' is not installed' if missing else 'the page is for a plain build')
        return
    with Typist() as typist:
        try:
            # The messages with losses take 6 s, and 65 have been seen beside a build.
            problem = walk(typist, 300)
        except subprocess.TimeoutExpired as e:
            problem = 'it hangs: %s' % e
        fabric.told(report, title, problem)
