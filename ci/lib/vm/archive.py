# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Archives for the initial RAM disk of a kernel, which takes several one after the other in one file."""
import os
import shutil
import subprocess
import tempfile

from . import Failed


def unpack(deb, folder):
    """The files of a package into a folder, where lib may be a link to usr/lib"""
    with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', deb], stdout=subprocess.PIPE) as files:
        tar = subprocess.run(['tar', '-x', '--keep-directory-symlink', '--no-same-owner', '-C', folder,
                              '--exclude=./usr/share/doc', '--exclude=./usr/share/man',
                              '--exclude=./usr/share/locale'], stdin=files.stdout, check=False)
        files.stdout.close()
    if tar.returncode or files.returncode:
        raise Failed('cannot unpack ' + deb)


def merged(folder):
    """An empty tree whose /bin, /sbin, /lib are links into /usr, as in Debian"""
    for name in ('bin', 'sbin', 'lib', 'lib64'):
        os.makedirs(os.path.join(folder, 'usr', name))
        os.symlink('usr/' + name, os.path.join(folder, name))


def pack(folder, file):
    """The tree as an archive; the same tree gives the same bytes, whoever owns it"""
    names = ['.']
    for at, folders, files in os.walk(folder):
        names += [os.path.relpath(os.path.join(at, n), folder) for n in folders + files]
    for name in names:
        os.utime(os.path.join(folder, name), (0, 0), follow_symlinks=False)
    with open(file, 'wb') as out:
        done = subprocess.run(['cpio', '-o', '-0', '-H', 'newc', '--owner=0:0', '--quiet', '--reproducible'],
                              cwd=folder, input='\0'.join(sorted(names)).encode(), stdout=out,
                              stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise Failed('cpio: ' + done.stderr.decode(errors='replace'))


def pack_files(pairs, file):
    """An archive of (source, path in the guest); sources may be folders"""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(file)) as tree:
        for source, path in pairs:
            to = os.path.join(tree, path.lstrip('/'))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True)
            elif os.path.islink(source):
                os.symlink(os.readlink(source), to)
            else:
                shutil.copy2(source, to)
        pack(tree, file)
