#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What programs do with fork(), by pyverbs, under `urxe run` (fabric.py starts it): forked.py CASE

fork, spawn, forkserver  two processes of multiprocessing's talk, whose parent has the device open, and connected
tcp-server               forks for each client, which it gets by TCP; the child is the client's verbs peer
cm-server                likewise; the child listens by rdma_cm, and says at which port
save                     a process with a peer forks again and again while they talk; the child reads its memory,
                         and ends by exit() with all that it inherited
"""
import multiprocessing as mp
import os
import socket
import sys

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cmid import AddrInfo, CMID
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

SIZE = 4096
CLIENTS = 4
ROUNDS = 20
CAP = dict(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)


class End:
    """A device of this process's, with an RC QP and one message's memory for each direction."""

    def __init__(self):
        self.ctx = Context(name='urxe0')
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 16, None, None, 0)
        self.mr = MR(self.pd, 2 * SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.rcq = CQ(self.ctx, 16, None, None, 0)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.rcq, cap=QPCap(**CAP)))

    def name(self):
        return self.qp.qp_num, self.ctx.query_gid(1, 0).gid

    def connect(self, name):
        attr = QPAttr(port_num=1)
        attr.dest_qp_num, attr.path_mtu = name[0], e.IBV_MTU_1024
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 7, 7, 12
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(name[1]), sgid_index=0), is_global=1, port_num=1)
        self.qp.to_rts(attr)

    def await_one(self, cq):
        count, wcs = 0, []
        while not count:
            count, wcs = cq.poll(1)
        if wcs[0].status != e.IBV_WC_SUCCESS:
            raise RuntimeError('completion with status %d' % wcs[0].status)

    def sent(self):
        self.await_one(self.cq)

    def received(self, byte):
        self.await_one(self.rcq)
        if self.mr.read(SIZE, SIZE) != bytes([byte]) * SIZE:
            raise RuntimeError('found other bytes than %d' % byte)

    def post_recv(self):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf + SIZE, SIZE, self.mr.lkey)]))

    def send(self, byte):
        self.mr.write(bytes([byte]) * SIZE, SIZE)
        self.qp.post_send(SendWR(num_sge=1, sg=[SGE(self.mr.buf, SIZE, self.mr.lkey)]))

    def ping(self, byte):
        """Sends, and gets the same back."""
        self.post_recv()
        self.send(byte)
        self.sent()
        self.received(byte)

    def pong(self, byte):
        """With a receive posted: gets a message, and sends it back."""
        self.received(byte)
        self.post_recv()
        self.send(byte)
        self.sent()


def talk(end, active):
    for i in range(ROUNDS):
        end.ping(i) if active else end.pong(i)


def pair():
    """Two QPs of this process's, connected; the second has a receive."""
    a, b = End(), End()
    a.connect(b.name())
    b.connect(a.name())
    b.post_recv()
    return a, b


def self_talk(a, b, byte):
    a.post_recv()
    a.send(byte)
    b.pong(byte)
    a.sent()
    a.received(byte)


def ended_well(children):
    for child in children:
        child.join()
        if child.exitcode:
            raise RuntimeError('a child ended with %s' % child.exitcode)


# ---- multiprocessing ----

def side(active, mine, others, ready):
    end = End()
    mine.put(end.name())
    end.connect(others.get())
    if not active:
        end.post_recv()
    ready.wait()
    talk(end, active)
    ready.wait()


def processes(method):
    a, b = pair()
    self_talk(a, b, 1)
    ctx = mp.get_context(method)
    queues, ready = [ctx.Queue(), ctx.Queue()], ctx.Barrier(2)
    children = [ctx.Process(target=side, args=(i == 1, queues[i], queues[1 - i], ready)) for i in range(2)]
    for child in children:
        child.start()
    self_talk(a, b, 2)
    ended_well(children)
    self_talk(a, b, 3)


# ---- servers that fork ----

def forks_for_each(serve, client):
    listener = socket.create_server(('127.0.0.1', 0))
    ctx = mp.get_context('fork')
    clients = [ctx.Process(target=client, args=(listener.getsockname(),)) for _ in range(CLIENTS)]
    for c in clients:
        c.start()
    # As a server does that has begun.
    a, b = pair()
    children = []
    for i in range(CLIENTS):
        conn, _ = listener.accept()
        child = ctx.Process(target=serve, args=(conn,))
        child.start()
        conn.close()
        children.append(child)
        self_talk(a, b, i)
    ended_well(clients + children)
    self_talk(a, b, CLIENTS)


def exchange(conn, end):
    f = conn.makefile('rw')
    print(*end.name(), file=f, flush=True)
    qpn, gid = f.readline().split()
    end.connect((int(qpn), gid))
    return f


def together(f):
    """Who ends takes an ACK along that is due."""
    print('done', file=f, flush=True)
    f.readline()


def tcp_serve(conn):
    end = End()
    f = exchange(conn, end)
    end.post_recv()
    talk(end, False)
    together(f)


def tcp_client(address):
    end = End()
    f = exchange(socket.create_connection(address), end)
    talk(end, True)
    together(f)


def cm_init():
    return QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(**CAP))


def own_address():
    ctx = Context(name='urxe0')
    raw = bytes.fromhex(ctx.query_gid(1, 0).gid.replace(':', ''))
    ctx.close()
    return '.'.join(str(b) for b in raw[12:])


def cm_serve(conn):
    port = str(20000 + os.getpid() % 20000)
    listener = CMID(creator=AddrInfo(src=own_address(), src_service=port, port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE),
                    qp_init_attr=cm_init())
    listener.listen()
    f = conn.makefile('rw')
    print(port, file=f, flush=True)
    id = listener.get_request()
    mr = id.reg_msgs(SIZE)
    id.post_recv(mr)
    id.accept()
    id.get_recv_comp()
    if mr.read(SIZE, 0) != b'c' * SIZE:
        raise RuntimeError('found another message')
    together(f)


def cm_client(address):
    conn = socket.create_connection(address)
    f = conn.makefile('rw')
    port = f.readline().strip()
    own = own_address()
    id = CMID(creator=AddrInfo(src=own, dst=own, dst_service=port, port_space=ce.RDMA_PS_TCP), qp_init_attr=cm_init())
    id.connect()
    mr = id.reg_msgs(SIZE)
    mr.write(b'c' * SIZE, SIZE)
    id.post_send(mr)
    id.get_send_comp()
    together(f)


# ---- a database that saves ----

def save():
    here, there = socket.socketpair()
    peer = os.fork()
    if not peer:
        here.close()
        tcp_serve(there)
        sys.exit(0)
    there.close()
    end = End()
    f = exchange(here, end)
    for i in range(ROUNDS):
        end.post_recv()
        end.send(i)
        child = os.fork()
        if not child:
            f.detach()
            if end.mr.read(SIZE, 0) != bytes([i]) * SIZE:
                os._exit(1)
            sys.exit(0)  # with the destruction of all that it has of ours
        end.sent()
        end.received(i)
        raise_if(os.waitpid(child, 0)[1])
    together(f)
    raise_if(os.waitpid(peer, 0)[1])


def raise_if(status):
    if status:
        raise RuntimeError('a child ended with status %#x' % status)


def main():
    case = sys.argv[1]
    if case in ('fork', 'spawn', 'forkserver'):
        processes(case)
    elif case == 'tcp-server':
        forks_for_each(tcp_serve, tcp_client)
    elif case == 'cm-server':
        forks_for_each(cm_serve, cm_client)
    else:
        save()
    print('forked: %s: all well' % case)


if __name__ == '__main__':
    main()
