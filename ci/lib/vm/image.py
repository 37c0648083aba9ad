# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a guest boots from, made of Debian packages and kept in $URXE_VM_DIR.

An image is a kernel (kernel.py) and a root, two archives that the kernel unpacks one over the other, so
that any kernel goes with any root. Each lies in a folder whose name has the versions of its packages and
the recipe in it. A folder is made beside its place and renamed when it is whole, under a lock.
"""
import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import namedtuple

from . import Failed, archive, kernel
from .apt import Apt
from .elf import Closure

# kernel, modules, root: files; release: of the kernel; paths: a file with all paths of the root
Image = namedtuple('Image', 'kernel modules root release paths')

HERE = os.path.dirname(os.path.abspath(__file__))
# What the folders are made by, besides packages.
KERNEL_RECIPE = ('archive.py', 'kernel.py')
ROOT_RECIPE = ('archive.py', 'elf.py', 'image.py', 'init')

# Of the first, all programs; the others are in it for files that are named below.
PROGRAMS = ('ibverbs-utils', 'rdmacm-utils', 'perftest')
PACKAGES = PROGRAMS + ('busybox-static', 'dash', 'iproute2', 'ethtool', 'ibverbs-providers', 'strace')
FILES = ('/usr/bin/busybox', '/usr/bin/dash', '/usr/bin/ip', '/usr/sbin/ip', '/usr/sbin/tc', '/usr/bin/rdma',
         '/usr/sbin/rdma', '/usr/bin/ss', '/usr/sbin/ethtool', '/usr/bin/strace',
         '/etc/libibverbs.d/rxe.driver', '/usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so',
         '/etc/rdma', '/etc/iproute2', '/usr/share/iproute2', '/etc/perftest',
         '/usr/lib/x86_64-linux-gnu/libnss_files.so.2', '/usr/lib/x86_64-linux-gnu/libgcc_s.so.1')
# Stems of package names: the number at the end is DPDK's ABI.
DPDK = ('librte-bus-pci', 'librte-bus-vdev', 'librte-mempool-ring', 'librte-mempool-stack', 'librte-net-virtio',
        'librte-net-e1000', 'librte-net-vmxnet3', 'librte-net-af-packet', 'librte-net-vhost', 'librte-net-memif',
        'librte-net-ring', 'librte-net-tap')
DPDK_IF_ANY = ('librte-net-af-xdp',)
DPDK_FILES = ('/usr/bin/lspci', '/usr/bin/setpci', '/usr/share/misc/pci.ids', '/usr/lib/x86_64-linux-gnu/dpdk',
              '/usr/lib/x86_64-linux-gnu/librte_*.so.*')
VARIANTS = ('rdma', 'dpdk')


def home():
    return os.environ.get('URXE_VM_DIR') or os.path.join(os.environ.get('TMPDIR') or '/tmp', 'urxe-vm')


@contextlib.contextmanager
def locked():
    """One builder at a time; the lock ends with its holder, however that ends."""
    os.makedirs(home(), exist_ok=True)
    with open(os.path.join(home(), 'lock'), 'w') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def key(recipe, texts):
    """Of the files of the recipe and of what they work on"""
    h = hashlib.sha256()
    for text in texts:
        h.update(text.encode() + b'\0')
    for name in recipe:
        with open(os.path.join(HERE, name), 'rb') as f:
            h.update(f.read() + b'\0')
    return h.hexdigest()[:16]


def made(name, function):
    """The folder of this name, by function(folder) unless it is there; the lock is held."""
    place = os.path.join(home(), name)
    if not os.path.isdir(place):
        for old in glob.glob(os.path.join(home(), 'new.*')):
            shutil.rmtree(old, ignore_errors=True)
        work = tempfile.mkdtemp(prefix='new.', dir=home())
        try:
            function(work)
            os.rename(work, place)
        except (OSError, subprocess.CalledProcessError) as e:
            raise Failed('cannot make %s: %s' % (place, e)) from e
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return place


def names_of(apt, variant):
    if variant not in VARIANTS:
        raise Failed("no image is called '%s' (%s are)" % (variant, ', '.join(VARIANTS)))
    names = list(PACKAGES)
    if variant == 'dpdk':
        names.append('pciutils')
        for stem in DPDK + DPDK_IF_ANY:
            name = apt.newest(stem)
            if name:
                names.append(name)
            elif stem in DPDK:
                raise Failed('no package %sN is in this release of Debian' % stem)
    return names


def build_root(debs, variant, folder):
    """root.cpio and paths in the folder"""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        stage, root = os.path.join(work, 'stage'), os.path.join(work, 'root')
        archive.merged(stage)
        for deb in debs:
            archive.unpack(deb, stage)
        closure = Closure(stage)
        for pattern in FILES + (DPDK_FILES if variant == 'dpdk' else ()):
            for path in sorted(glob.glob(stage + pattern)):
                closure.add(path[len(stage):])
        for deb in debs:
            if os.path.basename(deb).split('_')[0] in PROGRAMS:
                for path in programs(deb):
                    closure.add(path)
        if closure.missing:
            raise Failed('libraries that no package has: ' + ' '.join(sorted(closure.missing)))
        fill_root(stage, sorted(closure.paths), root)
        with open(os.path.join(folder, 'paths'), 'w') as f:
            f.writelines(p + '\n' for p in sorted(closure.paths))
        archive.pack(root, os.path.join(folder, 'root.cpio'))


def programs(deb):
    """Paths in /usr/bin and /usr/sbin of a package"""
    out = subprocess.run(['dpkg-deb', '-c', deb], stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = [line.split()[5][1:] for line in out.splitlines()]
    return [p for p in paths if p.startswith(('/usr/bin/', '/usr/sbin/')) and not p.endswith('/')]


def fill_root(stage, paths, root):
    archive.merged(root)
    for name in ('proc', 'sys', 'dev', 'tmp', 'run', 'root', 'etc', 'var'):
        os.makedirs(os.path.join(root, name))
    os.symlink('/run', root + '/var/run')
    for path in paths:
        to = root + path
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy2(stage + path, to, follow_symlinks=False)
    os.symlink('dash', root + '/usr/bin/sh')
    applets = subprocess.run([root + '/usr/bin/busybox', '--list'], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.split()
    for name in applets:
        if not any(os.path.lexists('%s/usr/%s/%s' % (root, d, name)) for d in ('bin', 'sbin')):
            # The kernel itself calls /sbin/modprobe.
            os.symlink('/usr/bin/busybox', '%s/usr/%s/%s' % (root, 'sbin' if name == 'modprobe' else 'bin', name))
    for name, text in (('passwd', 'root:x:0:0:root:/root:/bin/sh\n'), ('group', 'root:x:0:\n'),
                       ('hosts', '127.0.0.1 localhost\n'),
                       ('nsswitch.conf', 'hosts: files\npasswd: files\ngroup: files\n')):
        with open('%s/etc/%s' % (root, name), 'w') as f:
            f.write(text)
    shutil.copy2(os.path.join(HERE, 'init'), root + '/init')
    os.chmod(root + '/init', 0o755)


def get_root(variant):
    apt = Apt(home())
    packages = apt.resolve(names_of(apt, variant))
    name = 'root-%s-%s' % (variant, key(ROOT_RECIPE, map(str, packages)))
    return made(name, lambda folder: build_root(apt.download(packages), variant, folder))


def get_kernel(suite=None, debs=()):
    if debs:
        sums = []
        for deb in debs:
            with open(deb, 'rb') as f:
                sums.append(hashlib.file_digest(f, 'sha256').hexdigest())
        return made('kernel-' + key(KERNEL_RECIPE, sums), lambda folder: kernel.build(debs, folder))
    apt = Apt(home(), suite)
    packages = kernel.packages(apt)
    return made('kernel-' + key(KERNEL_RECIPE, map(str, packages)),
                lambda folder: kernel.build(apt.download(packages), folder))


def folders(variant='rdma', suite=None, debs=()):
    """Where the kernel and the root lie, made unless they are there.

    variant: 'rdma' has iproute2, the tests and benchmarks of rdma-core, perftest and strace; 'dpdk' also
    DPDK's drivers and pciutils. suite: whose kernel, such as 'trixie-backports'; None: the host's
    release. debs: files of packages that make up a kernel, instead."""
    for deb in debs:
        if not os.path.isfile(deb):
            raise Failed('no file ' + deb)
    with locked():
        return get_kernel(suite, debs), get_root(variant)


def load(kernel_folder, root_folder):
    with open(kernel_folder + '/release') as f:
        release = f.read().strip()
    return Image(kernel_folder + '/vmlinux', kernel_folder + '/modules.cpio', root_folder + '/root.cpio',
                 release, root_folder + '/paths')


def get(*args, **more):
    """The image of these folders()"""
    return load(*folders(*args, **more))
