# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""fio's rdma engine."""
from rig import Case

BOTH = ('clean', 'loss')


def fio(verb, job='--thread ', **more):
    """Not with one side killed: fio passes over completions in error and events of rdma_cm, and waits for more for ever."""
    common = 'fio %s--ioengine=rdma --port={p} --bs=64k ' % job
    server = common + '--name=server --rw=read '
    client = common + '--name=client --hostname={a} --verb=%s --rw=write ' % verb
    # It asks for no retry when the receiver is not ready, and hangs then: so there is a receive for each message, before the first.
    depths = ('--iodepth=512 --verify=crc32c ', '--iodepth=8 --verify=crc32c --do_verify=0 ') if verb == 'send' else ('--iodepth=8 ', '--iodepth=8 ')
    size = '--size=20m'
    return Case('fio %s%s' % (verb, '' if job else ', processes'), client + depths[1] + size, server + depths[0] + size,
                r'err= 0[\s\S]*io=20', 'rdma', **more)


FIO = [fio('write', how=BOTH, short=BOTH), fio('read', how=BOTH, short=('clean',)), fio('send', how=BOTH, short=('clean',)),
       fio('write', '', how=BOTH, short=('clean',)), fio('read', '', how=BOTH), fio('send', '', how=BOTH)]
