# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian packages by name, with all that they depend on, downloaded and not installed.

apt runs with a status file by which nothing is installed, so that it finds everything, and downloads to
a folder of ours. The index is the host's; where that is empty or too old, and for another suite, it is
one of our own, from the mirror that the host's apt uses.
"""
import os
import re
import shutil
import subprocess
from collections import namedtuple

from . import Failed

# file: its name in the folder of packages; digest: what the index says of its content
Package = namedtuple('Package', 'name version file digest')

URI = re.compile(r"^'[^']+' ((\S+?)_(\S+?)_\S+\.deb) \d+ (\S*)", re.M)
KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'


def call(argv, **more):
    """(exit status, stdout, stderr)"""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors='replace',
                              env=dict(os.environ, LC_ALL='C'), **more)
    except FileNotFoundError as e:
        raise Failed('%s is not installed (ci/install-deps --vm)' % argv[0]) from e
    return done.returncode, done.stdout, done.stderr


def output(argv, **more):
    status, out, err = call(argv, **more)
    if status:
        raise Failed('%s: %s' % (' '.join(argv[:2]), (err or out).strip() or 'status %d' % status))
    return out


def codename():
    """Of the host's release: bookworm, trixie, ..."""
    try:
        with open('/etc/os-release') as f:
            return re.search(r'(?m)^VERSION_CODENAME=(\S+)', f.read())[1]
    except (OSError, TypeError) as e:
        raise Failed('/etc/os-release names no release of Debian') from e


def mirror():
    """Where the host's apt gets Debian's main archive from: not to be printed."""
    out = output(['apt-get', 'indextargets', '--format', '$(REPO_URI)|$(RELEASE)|$(COMPONENT)',
                  'Created-By: Packages'])
    for line in out.splitlines():
        uri, release, component = line.split('|')
        if (release, component) == (codename(), 'main'):
            return uri
    raise Failed("the host's apt has no source for %s main" % codename())


def hide(text):
    """Messages of apt without the hosts that they name"""
    return re.sub(r'(\w+://)[^/\s]+', r'\1...', text).strip()


class Apt:
    """folder: for what is downloaded; suite: None for the host's own sources. Not for two at a time."""

    def __init__(self, folder, suite=None):
        if output(['dpkg', '--print-architecture']).strip() != 'amd64':
            raise Failed('machines are made of amd64 packages, and this host is of another kind')
        if suite and not re.fullmatch(r'[a-z0-9][a-z0-9.+-]*', suite):
            raise Failed("'%s' is not the name of a suite" % suite)
        self.suite = suite
        self.debs = os.path.join(folder, 'debs')
        self.own = os.path.join(folder, 'apt-' + (suite or 'host'))
        self.own_index = False
        for path in (self.debs, self.own + '/lists/partial', self.own + '/archives/partial'):
            os.makedirs(path, exist_ok=True)
        self.write('status', '')
        if suite:
            self.write('sources.list', 'deb [signed-by=%s] %s %s main\n' % (KEYRING, mirror(), suite))
            self.update()

    def write(self, name, text):
        with open(os.path.join(self.own, name), 'w') as f:
            f.write(text)

    def apt(self, program, *args, **more):
        """(exit status, stdout, stderr)"""
        values = ['Dir::State::status=%s/status' % self.own, 'Dir::Cache::archives=%s/archives' % self.own,
                  'Dir::Cache::pkgcache=', 'Dir::Cache::srcpkgcache=', 'Debug::NoLocking=1',
                  'APT::Sandbox::User=root', 'APT::Install-Recommends=false',
                  'Acquire::Languages=none', 'Acquire::Retries=3']
        if self.own_index:
            values.append('Dir::State::lists=%s/lists' % self.own)
        if self.suite:
            values += ['Dir::Etc::sourcelist=%s/sources.list' % self.own,
                       'Dir::Etc::sourceparts=/dev/null']
        return call([program, '-q', *(x for v in values for x in ('-o', v)), *args], **more)

    def update(self):
        """Makes an index of our own."""
        self.own_index = True
        status, out, err = self.apt('apt-get', 'update')
        if status:
            raise Failed('apt has no index of %s: %s' % (self.suite or codename(), hide(err or out)))

    def ask(self, program, *args, **more):
        """What apt answers; asked once more with a fresh index when the host's does not do"""
        status, out, err = self.apt(program, *args, **more)
        if status and not self.own_index:
            self.update()
            status, out, err = self.apt(program, *args, **more)
        if status:
            raise Failed('%s %s: %s' % (program, args[0], hide(err or out)))
        return out

    def newest(self, stem):
        """The package librte-net-virtio23 for the stem librte-net-virtio; None when there is none"""
        names = self.ask('apt-cache', 'pkgnames', stem).split()
        found = [n for n in names if re.fullmatch(re.escape(stem) + r'-?\d+(t64)?', n)]
        return max(found, key=lambda n: int(re.search(r'(\d+)(t64)?$', n)[1]), default=None)

    def resolve(self, names):
        """The packages of these names, and what they depend on"""
        out = self.ask('apt-get', '-y', '--print-uris', 'install', *names)
        return sorted(Package(name, version.replace('%3a', ':'), file, digest)
                      for file, name, version, digest in URI.findall(out))

    def follow(self, name, pattern):
        """The package of this name, and what it depends on of names that match the pattern"""
        todo, found = [name], {}
        while todo:
            text = self.ask('apt-cache', 'show', '--no-all-versions', todo.pop())
            field = dict(re.findall(r'(?m)^([\w-]+): (.*)$', text.split('\n\n')[0]))
            version, short = field['Version'], field['Package']
            file = '%s_%s_%s.deb' % (short, version.replace(':', '%3a'), field['Architecture'])
            found[short] = Package(short, version, file, 'SHA256:' + field['SHA256'])
            depends = re.findall(r'(?:^|, )([\w.+-]+)', field.get('Depends', ''))
            todo += [d for d in depends if re.fullmatch(pattern, d) and d not in found]
        return sorted(found.values())

    def download(self, packages):
        """Paths of the files. apt checks each; only what is not there is fetched."""
        missing = [p for p in packages if not os.path.exists(os.path.join(self.debs, p.file))]
        if missing:
            new = os.path.join(self.own, 'new')
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new)
            self.ask('apt-get', 'download', *('%s=%s' % (p.name, p.version) for p in missing), cwd=new)
            for p in missing:
                os.replace(os.path.join(new, p.file), os.path.join(self.debs, p.file))
        return [os.path.join(self.debs, p.file) for p in packages]
