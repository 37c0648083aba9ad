# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The two sockets of a QEMU: the guest's agent behind its virtio console, and QEMU's own control (QMP)."""
import base64
import json
import select
import socket
import threading
import time

from . import Failed


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


class Agent:
    """Commands for the guest's shell, one at a time (init, agent)."""

    def __init__(self, path):
        self.socket, self.lock, self.count = connect(path), threading.Lock(), 0

    def run(self, command, timeout):
        """(exit status, bytes of output); 137 when it was killed after `timeout` seconds; Failed when
        the guest does not answer"""
        with self.lock:
            self.count += 1
            name = 'c%d.%d' % (time.monotonic_ns(), self.count)
            text = base64.b64encode(command.encode()).decode()
            try:
                self.socket.sendall(('%s %d %s\n' % (name, timeout, text)).encode())
                return self.answer(b'\n@@END %s ' % name.encode(), timeout + 20)
            except ConnectionError as e:
                raise Failed('QEMU has ended') from e

    def answer(self, mark, timeout):
        end, got = time.monotonic() + timeout, b''
        while True:
            at = got.rfind(mark)
            if at >= 0 and got.endswith(b'\n'):
                return int(got[at + len(mark):]), got[:at]
            if not select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed('the guest does not answer: ' + got[-500:].decode(errors='replace'))
            data = self.socket.recv(65536)
            if not data:
                raise Failed('QEMU ended amid a command: ' + got[-500:].decode(errors='replace'))
            got += data

    def close(self):
        self.socket.close()


class Qmp:
    def __init__(self, path):
        self.socket = connect(path)
        self.socket.settimeout(60)
        self.file = self.socket.makefile('rb')
        self.file.readline()
        self.ask('qmp_capabilities')

    def ask(self, command, **arguments):
        """What QEMU returns; Failed with its words when it refuses"""
        words = json.dumps({'execute': command, 'arguments': arguments}).encode()
        try:
            self.socket.sendall(words + b'\n')
            return self.answer(command)
        except OSError as e:
            raise Failed('%s: QEMU has ended, or does not answer' % command) from e

    def answer(self, command):
        while True:
            line = self.file.readline()
            if not line:
                raise Failed('QEMU ended amid %s' % command)
            answer = json.loads(line)
            if 'error' in answer:
                raise Failed('%s: %s' % (command, answer['error']['desc']))
            if 'return' in answer:
                return answer['return']

    def close(self):
        self.file.close()
        self.socket.close()
