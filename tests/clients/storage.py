# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""fio's rdma engine."""
from rig import Case

BOTH = ('clean', 'loss')


def fio(verb, **more):
    """Its jobs are threads: as processes they would leave our process group.

    Not verb=send: it asks for no retry when the receiver is not ready, and hangs once its own server has not posted in time.
    """
    common = 'fio --thread --ioengine=rdma --port={p} --bs=64k --size=20m --iodepth=8 '
    return Case('fio %s' % verb, common + '--name=client --hostname={a} --verb=%s --rw=write' % verb,
                common + '--name=server --rw=read', r'err= 0[\s\S]*io=20', 'rdma', how=BOTH, **more)


FIO = [fio('write', short=BOTH), fio('read', short=('clean',))]
