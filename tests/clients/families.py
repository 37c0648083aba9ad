# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The families of clients, in the order of how many people use them."""
import dataclasses

import dapl
import iser
import mpi
import ofi
import qemu
import storage
import tools
import ucx
import valkey


@dataclasses.dataclass
class Family:
    """@packages: the first one is the family's version. @specials: functions (report, family, everything).

    @source: what sources.py builds it as, whose version it has then.
    """
    name: str
    packages: tuple
    cases: list
    specials: tuple = ()
    source: str = ''


# What sources.py builds with
SOURCES = ('make', 'gcc', 'libc6-dev', 'xz-utils')
ROWS = [
    Family('perftest', ('perftest',), tools.PERFTEST),
    Family('ibverbs-utils', ('ibverbs-utils',), tools.IBVERBS_UTILS),
    Family('rdmacm-utils', ('rdmacm-utils',), tools.RDMACM_UTILS),
    Family('iperf3', ('iperf3', 'librdmacm1'), tools.IPERF3),
    Family('qperf', ('qperf',), tools.QPERF),
    Family('libfabric', ('libfabric-bin', 'libfabric-dev', *SOURCES, 'autoconf', 'automake', 'libtool'), ofi.CASES, (ofi.fabtests,)),
    Family('UCX', ('ucx-utils',), [], (ucx.run,)),
    Family('Open MPI', ('openmpi-bin', 'libopenmpi-dev'), [], (mpi.run,)),
    Family('MPICH', ('mpich', 'libmpich-dev'), [], (mpi.run,)),
    Family('valkey', ('librdmacm-dev', *SOURCES, 'g++', 'pkgconf', 'python3-netifaces'), [], (valkey.run,), 'valkey'),
    Family('fio', ('fio',), storage.FIO),
    Family('QEMU', ('qemu-system-x86',), [], (qemu.run,)),
    Family('tgt, libiscsi', ('tgt', 'libiscsi-bin', 'qemu-utils', 'qemu-block-extra'), [], (iser.run,)),
    Family('DAPL', ('dapl2-utils',), [], (dapl.dtests, dapl.dapltests)),
    Family('pyverbs', ('python3-pyverbs',), tools.PYVERBS, (tools.suite,)),
]
