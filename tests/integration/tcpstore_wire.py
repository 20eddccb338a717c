# SPDX-License-Identifier: Apache-2.0
"""Clients of PyTorch's TCPStore on a raw socket: as PyTorch 2.5 and later send, and as 1.13 does."""
import contextlib
import select
import socket
import struct

from daemon import SLOWDOWN

VALIDATE = b"\x00\xce\xf7\x85\x3c"
(SET, COMPARE_SET, GET, ADD, WAIT, COUNT, MULTI_GET, MULTI_SET, CANCEL_WAIT, PING, LIST_KEYS) = (
    1, 2, 3, 4, 6, 7, 10, 11, 12, 13, 17)
READY = b"\x00"  # the reply to a wait


def text(value):
    return struct.pack("<Q", len(value)) + value


def message(op, *texts):
    return bytes([op]) + b"".join(text(value) for value in texts)


def list_message(op, keys):
    return bytes([op]) + struct.pack("<Q", len(keys)) + b"".join(text(key) for key in keys)


def multi_set(pairs):
    texts = b"".join(text(key) + text(value) for key, value in pairs)
    return bytes([MULTI_SET]) + struct.pack("<Q", len(pairs)) + texts


def wait(*keys):
    return list_message(WAIT, keys)


class Client:
    earlier = 0  # how much lower the codes of operations are in its version

    def __init__(self, address, first=VALIDATE, source=""):
        self.socket = socket.create_connection(address, 20 * SLOWDOWN, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(first)

    @classmethod
    def of_process(cls, address, pid, source=""):
        """As the process with this number."""
        client = cls(address, VALIDATE + bytes([PING]) + struct.pack("<I", pid), source)
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
        return self.ask(bytes([COUNT - self.earlier]), 8)

    def add(self, key, delta=1):
        """The counter after the addition; None if the daemon closes the connection."""
        reply = self.ask(message(ADD - self.earlier, key) + struct.pack("<q", delta), 8)
        return struct.unpack("<q", reply)[0] if len(reply) == 8 else None

    def join(self):
        return self.add(b"init/")

    def set(self, key, value):
        self.socket.sendall(message(SET - self.earlier, key, value))

    def get(self, key):
        size = self.ask(message(GET - self.earlier, key), 8)
        return self.receive(struct.unpack("<Q", size)[0]) if len(size) == 8 else None

    def wait(self, *keys):
        """Returns when all keys exist, with True; False if the daemon closes the connection."""
        return self.ask(list_message(WAIT - self.earlier, keys), 1) == READY

    def get_as_stock(self, key):
        """As PyTorch's `get`, which waits for the key."""
        return self.get(key) if self.wait(key) else None

    def multi_get(self, *keys):
        self.socket.sendall(list_message(MULTI_GET, keys))
        return [self.receive(struct.unpack("<Q", self.receive(8))[0]) for _ in keys]

    def is_closed(self, within):
        """Whether the daemon ends the connection in time without another byte."""
        readable, _, _ = select.select([self.socket], [], [], within)
        with contextlib.suppress(ConnectionError):
            return bool(readable) and self.socket.recv(1) == b""
        return True

    def close(self):
        self.socket.close()


class OldClient(Client):
    """As PyTorch 1.13: no greeting, so no pid, and a second connection that is silent for ever."""
    earlier = 1

    def __init__(self, address, source=""):
        super().__init__(address, b"", source)
        self.listener = None

    def join(self):
        joined = super().join()
        self.listener = socket.create_connection(self.socket.getpeername(), 20 * SLOWDOWN,
                                                 (self.socket.getsockname()[0], 0))
        return joined

    def close(self):
        super().close()
        if self.listener:
            self.listener.close()
