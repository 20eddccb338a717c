# SPDX-License-Identifier: Apache-2.0
"""A client of PyTorch's TCPStore on a raw socket, as PyTorch 2.5 and later send."""
import contextlib
import select
import socket
import struct

from daemon import SLOWDOWN

VALIDATE = b"\x00\xce\xf7\x85\x3c"
(SET, COMPARE_SET, GET, ADD, WAIT, COUNT, MULTI_GET, MULTI_SET, CANCEL_WAIT, PING, LIST_KEYS) = (
    1, 2, 3, 4, 6, 7, 10, 11, 12, 13, 17)


def text(value):
    return struct.pack("<Q", len(value)) + value


def message(op, *texts):
    return bytes([op]) + b"".join(text(value) for value in texts)


def multi_set(pairs):
    texts = b"".join(text(key) + text(value) for key, value in pairs)
    return bytes([MULTI_SET]) + struct.pack("<Q", len(pairs)) + texts


def wait(*keys):
    return bytes([WAIT]) + struct.pack("<Q", len(keys)) + b"".join(text(key) for key in keys)


class Client:
    def __init__(self, address, first=VALIDATE):
        self.socket = socket.create_connection(address, timeout=20 * SLOWDOWN)
        self.socket.sendall(first)

    @classmethod
    def of_process(cls, address, pid):
        """As the process with this number."""
        client = cls(address, VALIDATE + bytes([PING]) + struct.pack("<I", pid))
        assert client.receive(4) == struct.pack("<I", pid)
        return client

    def receive(self, size):
        """As many bytes, or fewer if the daemon closes the connection."""
        reply = b""
        while len(reply) < size:
            with contextlib.suppress(ConnectionError):
                if more := self.socket.recv(size - len(reply)):
                    reply += more
                    continue
            break
        return reply

    def ask(self, data, size):
        self.socket.sendall(data)
        return self.receive(size)

    def count(self):
        return self.ask(bytes([COUNT]), 8)

    def add(self, key, delta=1):
        """The counter after the addition; None if the daemon closes the connection."""
        reply = self.ask(message(ADD, key) + struct.pack("<q", delta), 8)
        return struct.unpack("<q", reply)[0] if len(reply) == 8 else None

    def join(self):
        return self.add(b"init/")

    def set(self, key, value):
        self.socket.sendall(message(SET, key, value))

    def get(self, key):
        size = self.ask(message(GET, key), 8)
        return self.receive(struct.unpack("<Q", size)[0]) if len(size) == 8 else None

    def is_closed(self, within):
        """Whether the daemon ends the connection in time without another byte."""
        readable, _, _ = select.select([self.socket], [], [], within)
        with contextlib.suppress(ConnectionError):
            return bool(readable) and self.socket.recv(1) == b""
        return True

    def close(self):
        self.socket.close()
