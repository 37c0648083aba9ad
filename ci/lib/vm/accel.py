# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""KVM where it really runs a guest: a /dev/kvm alone proves nothing, inside other machines."""
import functools
import os
import subprocess
import tempfile

TCG = 'tcg,thread=multi,tb-size=256'
# A boot sector: mov al, 0x10; out 0xf4, al; hlt. QEMU's debug device ends with 2 * 0x10 + 1.
SECTOR = (b'\xb0\x10\xe6\xf4\xf4\xeb\xfd'.ljust(510, b'\0')) + b'\x55\xaa'


@functools.lru_cache(maxsize=None)
def best():
    """The argument of QEMU's -accel"""
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return TCG
    with tempfile.NamedTemporaryFile() as disk:
        disk.write(SECTOR)
        disk.flush()
        argv = ['qemu-system-x86_64', '-accel', 'kvm', '-cpu', 'max', '-M', 'q35', '-m', '64', '-nodefaults',
                '-display', 'none', '-no-reboot', '-device', 'isa-debug-exit,iobase=0xf4,iosize=1',
                '-drive', 'if=ide,format=raw,snapshot=on,file=' + disk.name]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return TCG
    return 'kvm' if done.returncode == 33 else TCG
