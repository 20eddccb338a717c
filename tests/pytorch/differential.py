#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the same random requests to PyTorch's own TCPStore servers and to c10dd, and compares the
replies byte by byte.

Three connections take turns, one request at a time. A request may block (WAIT, BARRIER) until another
connection sets the key, cancel its wait, arrive in pieces, or end its connection. What is left out
for a server, with the reason, is in DEVIATIONS. The keys init/ and those of ranks are left out everywhere: by them
c10dd tells launches apart, which PyTorch's servers do not. So are barriers whose arrivals give different world
sizes: c10dd wakes each arrival at its own number, PyTorch's libuv server looks only at the newest arrival's.

    differential.py [--seeds N] [--first S] [--steps N] [--server NAME]... [--proxy]

With --proxy the requests go to the node proxy of a c10drun, which passes them on to the daemon.
"""
import argparse
import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import BIN, Daemon  # noqa: E402
from environments import python_of  # noqa: E402

MAGIC = struct.pack("<I", 0x3C85F7CE)
PATIENCE = 10.0

# Opcodes by dialect; see protocol/PROTOCOL.md.
V = {"set": 1, "compare_set": 2, "get": 3, "add": 4, "check": 5, "wait": 6, "num_keys": 7,
     "delete": 8, "append": 9, "multi_get": 10, "multi_set": 11, "cancel": 12, "ping": 13,
     "push": 14, "pop": 15, "queue_length": 16, "list": 17, "barrier": 18}
L0 = {"set": 0, "compare_set": 1, "get": 2, "add": 3, "check": 4, "wait": 5, "num_keys": 6,
      "delete": 8}

# name: (version, how the server is made, opcodes, left out). What is left out: name of a case that
# step() can draw, and why the reply of c10dd differs from that of this server.
QUEUES = {name: "this server has no queues: it closes the connection"
          for name in ("push", "pop", "queue_length")}
DEVIATIONS = {
    "get missing": "the poll servers close the connection; c10dd replies as the libuv server does",
    "multi_get missing": "the poll servers close the connection; c10dd replies as libuv's",
    "compare_set wakes": "the poll servers do not wake who waits for a key that COMPARE_SET made",
}
POLL = {name: DEVIATIONS[name] for name in ("get missing", "multi_get missing", "compare_set wakes")}
SERVERS = {
    "1.13.1-poll": ("1.13.1", "", L0, {**POLL, **QUEUES}),
    "newest-poll": ("newest", ", use_libuv=False", V, {**POLL, **QUEUES}),
    "newest-libuv": ("newest", ", use_libuv=True", V, {}),
}

# Makes a store for each line that it reads, and prints its port.
SERVER = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
stores = []
for line in sys.stdin:
    stores[:] = [TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                          timeout=timedelta(seconds=30)%s)]
    print(stores[0].port, flush=True)
"""


def text(data):
    return struct.pack("<Q", len(data)) + data


def words(keys):
    return struct.pack("<Q", len(keys)) + b"".join(text(key) for key in keys)


class Connection:
    """One socket. `log` has every byte that the server has sent."""

    def __init__(self, port, dialect):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.log = b""
        self.waits = None  # the keys, or (key, count), for which the connection waits
        self.open = True
        if dialect is V:
            self.socket.sendall(b"\x00" + MAGIC)

    def send(self, data, pieces):
        for begin, end in zip(pieces, pieces[1:] + [len(data)]):
            self.socket.sendall(data[begin:end])
            if end != len(data):
                time.sleep(0.001)

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                self.open = False
                self.log += b"<closed>"
                return None
            data += more
            self.log += more
        return data

    def read_text(self):
        head = self.read(8)
        return head and self.read(struct.unpack("<Q", head)[0])

    def rest(self):
        """Returns the bytes that the server has sent without a request for them."""
        self.socket.settimeout(0.05)
        try:
            return self.socket.recv(65536)
        except TimeoutError:
            return b""
        except ConnectionError:
            return b"<reset>"


class Story:
    """A random sequence of requests. Keeps just enough of the state to know which replies come."""

    def __init__(self, seed, port, opcodes, skipped):
        self.random = random.Random(seed)
        self.port = port
        self.opcodes = opcodes
        self.skipped = skipped
        self.keys = {}
        self.queues = {}
        self.all = [Connection(port, opcodes) for _ in range(3)]
        self.connections = list(self.all)
        self.steps = []
        # Keeps the run of c10dd: it ends with its last connection that has sent a request.
        self.observer = Connection(port, opcodes)
        self.all.append(self.observer)
        self.fence(self.observer)

    def key(self):
        return self.random.choice([b"/a", b"/b", b"/c", b"/default_pg/0//cpu//0/x", b"/\xc3\xa9"])

    def value(self):
        size = self.random.choice([0, 1, 2, 8, 300, 5000])
        return bytes(self.random.randrange(256) for _ in range(size))

    def present(self, key):
        return key in self.keys or bool(self.queues.get(key))

    def request(self, connection, name, body, case):
        data = bytes([self.opcodes[name]]) + body
        pieces = sorted({0, *(self.random.randrange(len(data)) for _ in range(self.random.choice([0, 0, 1, 3])))})
        self.steps.append(f"{self.all.index(connection)}: {case} {body[:60]!r}")
        connection.send(data, pieces)

    def wake(self):
        """Reads the byte that each connection gets whose wait is over."""
        for other in self.connections:
            if other.waits is None:
                continue
            if isinstance(other.waits, tuple):
                over = int(self.keys.get(other.waits[0], b"0")) >= other.waits[1]
            else:
                other.waits = [key for key in other.waits if not self.present(key)]
                over = not other.waits
            if over:
                other.waits = None
                other.read(1)

    def fence(self, connection):
        """After a request without reply: the next reply shows that the server has applied it."""
        self.request(connection, "check", words([]), "check")
        connection.read(1)

    def step(self):
        connection = self.random.choice(self.connections)
        if connection.waits is not None:
            return self.blocked(connection)
        cases = [self.set, self.set, self.get, self.add, self.check, self.wait, self.compare_set,
                 self.num_keys, self.delete]
        if self.opcodes is V:
            cases += [self.append, self.multi_get, self.multi_set, self.cancel, self.ping, self.push,
                      self.push, self.pop, self.queue_length, self.barrier, self.list_keys]
        if self.random.random() < 0.02:
            return self.close(connection)
        self.random.choice(cases)(connection)
        return self.wake()

    def blocked(self, connection):
        if self.opcodes is V and self.random.random() < 0.5:
            self.request(connection, "cancel", b"", "cancel")
            connection.read(1)
            connection.waits = None
        elif self.random.random() < 0.1:
            self.close(connection)

    def close(self, connection):
        self.steps.append(f"{self.all.index(connection)}: close")
        connection.socket.close()
        self.connections.remove(connection)
        new = Connection(self.port, self.opcodes)
        self.all.append(new)
        self.connections.append(new)

    # ---- the cases

    def set(self, connection):
        key, value = self.key(), self.value()
        self.request(connection, "set", text(key) + text(value), "set")
        self.keys[key] = value
        self.fence(connection)

    def get(self, connection):
        key = self.key()
        if key not in self.keys and "get missing" in self.skipped:
            return
        self.request(connection, "get", text(key), "get")
        connection.read_text()

    def number(self, key):
        """What ADD takes the value for, or None if it is not a number."""
        value = self.keys.get(key, b"0").split(b"\0")[0].lstrip(b" \t\n\v\f\r")
        digits = value[1:] if value[:1] in (b"+", b"-") else value
        count = len(digits) - len(digits.lstrip(b"0123456789"))
        return int(value[:len(value) - len(digits) + count]) if count else None

    def add(self, connection):
        key, delta = self.random.choice([self.key(), b"/number"]), self.random.randrange(-5, 6)
        number = self.number(key)
        if number is None or abs(number) > 2**62:
            return self.set_number(connection, key)
        self.request(connection, "add", text(key) + struct.pack("<q", delta), "add")
        self.keys[key] = str(number + delta).encode()
        connection.read(8)

    def set_number(self, connection, key):
        value = self.random.choice([b"7", b" 12abc", b"-3", b"+4 "])
        self.request(connection, "set", text(key) + text(value), "set")
        self.keys[key] = value
        self.fence(connection)

    def check(self, connection):
        keys = [self.key() for _ in range(self.random.randrange(4))]
        self.request(connection, "check", words(keys), "check")
        connection.read(1)

    def wait(self, connection):
        keys = [self.random.choice([self.key(), b"/late"]) for _ in range(self.random.randrange(4))]
        self.request(connection, "wait", words(keys), "wait")
        missing = [key for key in keys if not self.present(key)]
        if missing and all(other is connection or other.waits is not None for other in self.connections):
            return self.unblock(connection, missing)
        connection.waits = missing or None
        if not missing:
            connection.read(1)

    def unblock(self, connection, missing):
        """Somebody must be able to go on: cancels at once, or closes where there is no cancel."""
        if self.opcodes is V:
            self.request(connection, "cancel", b"", "cancel")
            connection.read(1)
        else:
            self.close(connection)

    def compare_set(self, connection):
        key, expected, desired = self.key(), self.random.choice([b"", self.value()]), self.value()
        if self.random.random() < 0.5:
            expected = self.keys.get(key, b"")
        makes = key not in self.keys and not expected
        waited = any(isinstance(other.waits, list) and key in other.waits for other in self.connections)
        if waited and (makes or key not in self.keys) and "compare_set wakes" in self.skipped:
            return
        if waited and not makes:
            return  # libuv's server wakes the waiter although the key does not exist
        self.request(connection, "compare_set", text(key) + text(expected) + text(desired), "compare_set")
        if makes or self.keys.get(key) == expected:
            self.keys[key] = desired
        connection.read_text()

    def num_keys(self, connection):
        self.request(connection, "num_keys", b"", "num_keys")
        connection.read(8)

    def delete(self, connection):
        key = self.key()
        self.request(connection, "delete", text(key), "delete")
        self.keys.pop(key, None)
        connection.read(8)

    def append(self, connection):
        key, value = self.key(), self.value()
        self.request(connection, "append", text(key) + text(value), "append")
        self.keys[key] = self.keys.get(key, b"") + value
        self.fence(connection)

    def multi_get(self, connection):
        keys = [self.key() for _ in range(self.random.randrange(4))]
        if "multi_get missing" in self.skipped:
            keys = [key for key in keys if key in self.keys]
        self.request(connection, "multi_get", words(keys), "multi_get")
        for _ in keys:
            if connection.open:
                connection.read_text()

    def multi_set(self, connection):
        pairs = [(self.key(), self.value()) for _ in range(self.random.randrange(4))]
        body = struct.pack("<Q", len(pairs)) + b"".join(text(k) + text(v) for k, v in pairs)
        self.request(connection, "multi_set", body, "multi_set")
        self.keys.update(pairs)
        self.fence(connection)

    def cancel(self, connection):
        self.request(connection, "cancel", b"", "cancel")
        connection.read(1)

    def ping(self, connection):
        self.request(connection, "ping", struct.pack("<I", self.random.randrange(2**32)), "ping")
        connection.read(4)

    def push(self, connection):
        if "push" in self.skipped:
            return
        key, value = b"/queue%d" % self.random.randrange(2), self.value()
        self.request(connection, "push", text(key) + text(value), "push")
        self.queues.setdefault(key, []).append(value)
        self.fence(connection)

    def pop(self, connection):
        if "pop" in self.skipped:
            return
        key = b"/queue%d" % self.random.randrange(2)
        self.request(connection, "pop", text(key), "pop")
        connection.read(8)
        if self.queues.get(key):
            self.queues[key].pop(0)
            connection.read_text()

    def queue_length(self, connection):
        if "queue_length" in self.skipped:
            return
        self.request(connection, "queue_length", text(b"/queue0"), "queue_length")
        connection.read(8)

    def list_keys(self, connection):
        self.request(connection, "list", b"", "list")
        head = connection.read(8)
        before = len(connection.log)
        # PyTorch's servers list the keys in the order of a hash table.
        names = sorted(connection.read_text() for _ in range(struct.unpack("<q", head)[0]))
        connection.log = connection.log[:before] + b"".join(text(name) for name in names)

    def barrier(self, connection):
        # All arrivals of a key give the same world size: PyTorch's servers look only at the newest.
        count = self.random.choice([1, 2, 3])
        key = b"/barrier%d" % count
        if all(other is connection or other.waits is not None for other in self.connections):
            return
        self.request(connection, "barrier", text(key) + struct.pack("<q", count), "barrier")
        self.keys[key] = str(int(self.keys.get(key, b"0")) + 1).encode()
        if int(self.keys[key]) >= count:
            connection.read(1)
        else:
            connection.waits = (key, count)
            time.sleep(0.02)  # no reply shows that the server has counted this arrival

    def run(self, steps):
        for _ in range(steps):
            self.step()
        logs = [one.log + one.rest() if one in self.connections else one.log for one in self.all]
        for one in [*self.connections, self.observer]:
            one.socket.close()
        return logs


def play(seed, port, opcodes, skipped, steps):
    story = Story(seed, port, opcodes, skipped)
    try:
        return story.run(steps), story.steps
    except (TimeoutError, ConnectionError, TypeError, struct.error) as error:
        return [repr(error).encode(), *(one.log for one in story.all)], story.steps


@contextlib.contextmanager
def port_of(daemon, proxy):
    """The port that the requests go to: of the daemon, or of a proxy as long as this context lasts."""
    if not proxy:
        yield daemon.address[1]
        return
    command = [os.path.join(BIN, "c10drun"), "--daemon", "%s:%d" % daemon.address, "--job", "compared", "--no-prefix",
               "--stdin", "0", "sh", "-c", "echo $MASTER_PORT; read end"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as launch:
        yield int(launch.stdout.readline())
        launch.stdin.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--proxy", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--server", action="append", choices=SERVERS)
    options = parser.parse_args()
    failed = 0
    for name in options.server or SERVERS:
        version, how, opcodes, skipped = SERVERS[name]
        python = python_of(version)
        if python is None:
            print(f"{name}: SKIPPED: PyTorch {version} is not installed; ./dev torch {version} installs it")
            continue
        with subprocess.Popen([python, "-c", SERVER % how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as server:
            different = 0
            for seed in range(options.first, options.first + options.seeds):
                print("new", file=server.stdin, flush=True)
                theirs, steps = play(seed, int(server.stdout.readline()), opcodes, skipped, options.steps)
                with Daemon() as daemon:  # as new as PyTorch's server, which keeps its keys while it lives
                    with port_of(daemon, options.proxy) as port:
                        ours, _ = play(seed, port, opcodes, skipped, options.steps)
                if ours != theirs:
                    different += 1
                    print(f"{name}, seed {seed}: the replies differ\n  " + "\n  ".join(steps))
                    for connection, (our, their) in enumerate(zip(ours, theirs)):
                        if our != their:
                            print(f"  connection {connection}\n    PyTorch {their!r}\n    c10dd   {our!r}")
            server.stdin.close()
            print(f"{name}: {options.seeds} seeds of {options.steps} requests, {different} different", flush=True)
            failed += different
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
