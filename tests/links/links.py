#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""links.py LINKTEST vhost|memif [ROUNDS [SIZE,...]]: frames between two processes, in either start order, and
ten times a peer that is killed with -9 under traffic, on either side: the survivor serves the next.
A second process on a side is refused."""

import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LINKTEST, LINK = sys.argv[1:3]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 10
SIZES = [int(n) for n in sys.argv[4].split(",")] if len(sys.argv) > 4 else [64, 1514, 4214]
SEED = int(os.environ.get("URXE_SEED", random.randrange(1 << 32)))
failures = 0


def ports(folder):
    if LINK == "vhost":
        sock = folder + "/vhost"
        return f"net_vhost0,iface={sock}", f"net_virtio_user0,path={sock}"
    common = f"socket={folder}/memif"
    return f"net_memif0,role=server,{common}", f"net_memif0,role=client,{common}"


def start(port, *what, size=1500):
    return subprocess.Popen([LINKTEST, "-m", "4096", "-s", str(size), "-w", "20", *what[1:], port, what[0]],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def stop(process):
    process.kill()
    return process.communicate()[0]


def check(ok, text, output=""):
    global failures
    print(("ok   " if ok else "FAIL ") + text, flush=True)
    if not ok:
        failures += 1
        print(output)


def ping(port, size=1500, rounds=500):
    p = start(port, "ping", "-c", str(rounds), size=size)
    try:
        out = p.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        return False, stop(p)
    return p.returncode == 0, out


def orders(a, b):
    for first, second in ((a, b), (b, a)):
        for size in SIZES:
            echo = start(first, "echo")
            ok, out = ping(second, size)
            alive = echo.poll() is None
            check(ok and alive, f"{size} bytes, {first.split(',')[0]} first", out + stop(echo))


def kills(survivor_port, victim_port):
    name = survivor_port.split(",socket")[0].split(",iface")[0].split(",path")[0]
    survivor = start(survivor_port, "echo")
    for i in range(ROUNDS):
        victim = start(victim_port, random.choice(("blast", "ping")), "-c", "1000000000")
        # DPDK's memif ends a server whose client goes before it was greeted: it closes the socket,
        # of which its thread for interrupts then makes a panic (README.md has it).
        if "role=server" in survivor_port:
            opened(victim)
        time.sleep(random.uniform(0.2, 0.6))  # no synchronisation: anywhere in its life
        victim.kill()
        victim.communicate()
        if survivor.poll() is not None:
            check(False, f"{name} survives kill {i}", survivor.communicate()[0])
            return
        ok, out = ping(victim_port)
        if not ok:
            check(False, f"{name} serves again after kill {i}", out)
    check(survivor.poll() is None, f"{name} survives {ROUNDS} kills and serves again", stop(survivor))


def opened(process):
    """Waits until it has its port; the number of its child, if it has one"""
    for line in process.stdout:
        if line.startswith("open:"):
            return int(line.rsplit(" ", 1)[1])
    return 0


def refused(port, holder):
    p = start(port, "open")
    try:
        out = p.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        out = stop(p)
    return p.returncode == 1 and f"process {holder.pid} (linktest) has it" in out, out


def one_a_side(a, b):
    """Two ranks with one configuration: the second is told who has the socket. It is free when that
    process is killed, though a child of its lives."""
    for mine, others in ((a, b), (b, a)):
        name = mine.split(",")[0]
        holder = start(mine, "echo", "-f")
        child = opened(holder)
        ok, out = refused(mine, holder)
        check(ok, f"a second {name} is refused", out)
        ok, out = ping(others)
        check(ok, f"the first {name} does not notice", out)
        holder.kill()
        holder.wait()
        again = start(mine, "echo")
        opened(again)
        ok, out = ping(others)
        check(ok, f"{name} is free when its process is killed", out)
        stop(again)
        os.kill(child, signal.SIGKILL)


def memif_server_waits(port):
    """It does not hang up on a client that is slow to connect: two sides that both begin anew, at
    one pace, can go on to miss each other."""
    server = start(port, "echo")
    opened(server)
    init = struct.pack("=HHIB", 3, 2 << 8, 0, 0).ljust(128, b"\0")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(20)
        client.connect(port.split("socket=")[1])
        client.recv(128)  # HELLO
        client.send(init)
        answer = client.recv(128)
        check(answer[:2] == struct.pack("=H", 1), "net_memif0,role=server knows its client", str(answer))
        heard = select.select([client], [], [], 3)[0]
        check(not heard, "net_memif0,role=server waits for a client that is slow",
              str(client.recv(128)) if heard else "")
    stop(server)


def memif_client_waits(port):
    """It does not hang up on a server that is slow to greet, which DPDK's memif does not survive."""
    path = port.split("socket=")[1]
    if os.path.exists(path):  # of a server that was killed
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        server.settimeout(60)
        client = start(port, "ping")
        connection = server.accept()[0]
        gone = select.select([connection], [], [], 3)[0]
        alive = client.poll() is None
        check(not gone and alive, "net_memif0,role=client waits for a server that is slow", stop(client))
        connection.close()
    os.unlink(path)


def main():
    print(f"URXE_SEED={SEED}")
    random.seed(SEED)
    with tempfile.TemporaryDirectory(prefix="urxe-links-") as folder:
        a, b = ports(folder)
        orders(a, b)
        one_a_side(a, b)
        if LINK == "memif":
            memif_server_waits(a)
            memif_client_waits(b)
        kills(a, b)
        kills(b, a)
    return 1 if failures else 0


sys.exit(main())
