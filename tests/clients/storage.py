# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""fio's rdma engine."""
from rig import Case

BOTH = ('clean', 'loss')


def fio(verb, job='--thread ', **more):
    """Not verb=send: it asks for no retry when the receiver is not ready, and hangs once its own server has not posted in time.

    Nor with one side killed: fio passes over completions in error and events of rdma_cm, and waits for more for ever.
    """
    common = 'fio %s--ioengine=rdma --port={p} --bs=64k --iodepth=8 ' % job
    server = common + '--name=server --rw=read '
    client = common + '--name=client --hostname={a} --verb=%s --rw=write ' % verb
    size = '--size=20m'
    return Case('fio %s%s' % (verb, '' if job else ', processes'), client + size, server + size, r'err= 0[\s\S]*io=20', 'rdma', **more)


FIO = [fio('write', how=BOTH, short=BOTH), fio('read', how=BOTH, short=('clean',)), fio('write', '', how=BOTH, short=('clean',))]
