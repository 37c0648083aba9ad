# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A kernel out of Debian packages: vmlinux, which QEMU starts at once by its PVH note, and an archive of
the modules that guests use."""
import glob
import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

from . import Failed, archive
from .apt import output

# Without these a guest is of no use.
REQUIRED = ('virtio_pci', 'virtio_net', 'virtio_console', 'rdma_rxe', 'ib_uverbs', 'rdma_ucm', 'rdma_cm')
# What a kernel may have built in, by another name, or not at all.
WANTED = ('qemu_fw_cfg', 'e1000', 'e1000e', 'igb', 'igbvf', 'vmxnet3', 'tun', 'uio_pci_generic', 'vfio-pci',
          'vfio_iommu_type1', 'veth', 'macvlan', 'bridge', 'dummy', '8021q', 'sch_netem', 'ib_cm', 'ib_umad',
          'ipv6', 'nf_tables', 'sch_ingress', 'cls_matchall', 'act_gact', 'crc32_pclmul', 'crc32_generic', 'crc32c_intel', 'crc32c_generic')
# A kernel is one package, or since 7 four.
PARTS = r'linux-(image|base|binary|modules)-\d.*'


def packages(apt):
    """The packages of the suite's kernel"""
    return [p for p in apt.follow('linux-image-amd64', PARTS) if p.name != 'linux-image-amd64']


def vmlinux(image):
    """What a bzImage carries (Documentation/arch/x86/boot.rst: setup_sects, payload_offset)"""
    if image[0x202:0x206] != b'HdrS':
        raise Failed('the kernel is no bzImage')
    offset, length = struct.unpack_from('<II', image, 0x248)
    start = ((image[0x1f1] or 4) + 1) * 512 + offset
    # Its last four bytes are the size of the whole when unpacked.
    payload = image[start:start + length - 4]
    if payload.startswith(b'\xfd7zXZ\0'):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b'\x1f\x8b'):
        return zlib.decompressobj(31).decompress(payload)
    if payload.startswith(b'\x28\xb5\x2f\xfd'):
        return subprocess.run(['zstd', '-dcq'], input=payload, stdout=subprocess.PIPE, check=True).stdout
    raise Failed('the kernel is packed in a way that nobody knows here: ' + payload[:4].hex())


def dependencies(tree, release, name):
    """Files of the module and of those that it needs, in the order of loading; None when the kernel has
    no such module, nothing when it is built in"""
    done = subprocess.run(['modprobe', '-d', tree, '-S', release, '--show-depends', name],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return None if done.returncode else re.findall(r'(?m)^insmod (\S+)', done.stdout)


def plain(source, to):
    """Copies a module, unpacked: the loaders of guests need not know how."""
    os.makedirs(os.path.dirname(to), exist_ok=True)
    tool = {'.xz': 'xz', '.zst': 'zstd'}.get(os.path.splitext(source)[1])
    if not tool:
        shutil.copy2(source, to)
        return
    with open(os.path.splitext(to)[0], 'wb') as out:
        subprocess.run([tool, '-dcq', source], stdout=out, check=True)


def find(tree):
    """The bzImage and its release"""
    found = [(f, f.rsplit('/vmlinuz-')[1]) for f in glob.glob(tree + '/boot/vmlinuz-*')]
    # Since 7 it lies with the modules.
    found += [(f, f.split('/')[-2]) for f in glob.glob(tree + '/usr/lib/modules/*/vmlinuz')]
    if len(found) != 1:
        raise Failed('%d kernels in the packages, not one (%s)' % (len(found), ', '.join(r for f, r in found)))
    modules = os.path.join(tree, 'usr/lib/modules', found[0][1])
    for name, package in (('kernel', 'modules'), ('modules.builtin', 'base')):
        if not os.path.exists(os.path.join(modules, name)):
            raise Failed('the packages have the kernel %s without its modules or their list '
                         '(linux-%s-%s)' % (found[0][1], package, found[0][1]))
    return found[0]


def build(debs, folder):
    """Makes vmlinux, modules.cpio, config and release in the folder."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        tree, small = os.path.join(work, 'all'), os.path.join(work, 'modules')
        archive.merged(tree)
        for deb in debs:
            archive.unpack(deb, tree)
        file, release = find(tree)
        with open(file, 'rb') as f:
            image = vmlinux(f.read())
        with open(os.path.join(folder, 'vmlinux'), 'wb') as f:
            f.write(image)
        take_modules(tree, release, small)
        archive.pack(small, os.path.join(folder, 'modules.cpio'))
        for config in glob.glob(tree + '/boot/config-*') + glob.glob(tree + '/usr/lib/modules/*/config'):
            shutil.copy2(config, os.path.join(folder, 'config'))
        with open(os.path.join(folder, 'release'), 'w') as f:
            f.write(release + '\n')


def take_modules(tree, release, small):
    output(['depmod', '-b', tree, release])
    base = 'usr/lib/modules/' + release
    for name in REQUIRED + WANTED:
        files = dependencies(tree, release, name)
        if files is None and name in REQUIRED:
            raise Failed('the kernel %s has no module %s%s' % (
                release, name, ': another flavour?' if 'cloud' in release else ''))
        for file in files or ():
            inside = os.path.relpath(os.path.realpath(file), os.path.join(tree, base))
            plain(file, os.path.join(small, base, inside))
    for file in glob.glob(os.path.join(tree, base, 'modules.builtin*')) + [
            os.path.join(tree, base, 'modules.order')]:
        if os.path.exists(file):
            shutil.copy2(file, os.path.join(small, base))
    output(['depmod', '-b', os.path.join(small, 'usr'), release])
