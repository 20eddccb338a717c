#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy clients: a viewer, a trainer and strangers make the daemon hold as much as they can, each operation at its
largest, while trainers of another principal work. The memory of the daemon must stay below --max-bytes and a constant,
no trainer may be refused or slowed down, and in the end the ledger must be what it was.

    tests/torture/greedy.py --seconds 600 --patience 660     # exit code 0: all holds
"""
import argparse
import multiprocessing
import os
import socket
import ssl
import struct
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from cluster import Cluster  # noqa: E402
from tcpstore_wire import VALIDATE, WAIT as TCP_WAIT  # noqa: E402
from wire import (BARRIER, EXCHANGE, GET, GOODBYE, HELLO, JOIN, MAGIC, SET, WAIT, Wire, frame, hello_body,  # noqa: E402
                  text)

MULTI_GET, WATCH, QUEUE_POP, WAIT_COUNTER, ACTIVITY = 23, 30, 33, 35, 68
MIB = 1 << 20
MAX_BYTES = 64 * MIB
CONSTANT = 96 * MIB  # what the daemon may use beyond --max-bytes
HOUR = 3_600_000_000_000
KEY = "k" * 8_000


def keys(count, base):
    return struct.pack("<I", count) + b"".join(text(f"{base + n:012d}" + KEY[12:]) for n in range(count))


# Each kind gives, for the n-th request of a session, the operation and its body. A viewer may send the first ones.
READS = {
    "get": lambda n: (GET, text(f"{n:012d}" + KEY[12:]) + struct.pack("<q", HOUR)),
    "wait": lambda n: (WAIT, keys(1_900, n * 1_900) + struct.pack("<qB", HOUR, 0)),
    "multi_get": lambda n: (MULTI_GET, keys(1_900, n * 1_900) + struct.pack("<q", HOUR)),
    "wait_counter": lambda n: (WAIT_COUNTER, text(f"{n:012d}" + KEY[12:]) + struct.pack("<qq", 1, HOUR)),
    "watch": lambda n: (WATCH, text(f"{n:012d}" + KEY[12:]) + struct.pack("<BQIq", 0, 0, 0, HOUR)),
    "watch_prefix": lambda n: (WATCH, text(f"{n:012d}" + KEY[12:]) + struct.pack("<BQIq", 1, 0, 0, HOUR)),
    "small_gets": lambda n: (GET, text(f"{n:06d}") + struct.pack("<q", HOUR)),
}


def join_body(n):
    policy = struct.pack("<IIqqq", 2, 2, 0, 2_500_000_000, 0)
    labels = struct.pack("<I", 1) + text("l") + text("x" * 4_000)
    return (text(f"group{n}") + struct.pack("<Q", 0) + text(policy) + struct.pack("<qBi", -1, 0, -1) + text("") +
            text("") + labels + struct.pack("<QBq", 0, 0, HOUR))


def barrier_body(n):
    return text(f"{n:08d}" + "b" * 240) + struct.pack("<QQIIq", 0, 0, 0, 100_000, HOUR)


def exchange_body(n, size=1_000_000):
    return (text(f"e{n}") + struct.pack("<QQIIBI", 0, 0, 0, 2, 0, 0) + struct.pack("<I", 1) + text("x" * size) +
            struct.pack("<qQ", HOUR, 0))


def activity_body(n):
    rows = b"".join(text(struct.pack("<Q", n * 64 + i + 1) + text("g" * 200) + text("dp") +
                         struct.pack("<QIII", 0, 100, 0, 0)) for i in range(64))
    return struct.pack("<I", 64) + rows + struct.pack("<IIBBI", 0, 0, 0, 0, 0)


WRITES = {
    "queue_pop": lambda n: (QUEUE_POP, text(f"{n:012d}" + KEY[12:]) + struct.pack("<q", HOUR)),
    "barrier": lambda n: (BARRIER, barrier_body(n)),
    "exchange": lambda n: (EXCHANGE, exchange_body(n)),
    "join": lambda n: (JOIN, join_body(n)),
    "activity": lambda n: (ACTIVITY, activity_body(n)),
    "set": lambda n: (SET, text(f"key{n}") + text("v" * 1_000)),
}


class Attacker:
    """One connection that sends requests and reads what comes back, without waiting for it."""

    def __init__(self, target):
        self.target = target
        raw = socket.create_connection(target["address"], timeout=20)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = ssl.create_default_context(cafile=target["ca"]).wrap_socket(raw, server_hostname="127.0.0.1")
        self.socket.settimeout(0.5)
        self.refused = 0
        self.socket.sendall(MAGIC)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.socket.close()

    def hello(self, channel, session=None):
        self.send(frame(HELLO, hello_body(session=session, job=self.target["job"], credential=self.target["token"]),
                        channel=channel))

    def send(self, data):
        """Sends all, and reads what comes back meanwhile."""
        view = memoryview(data)
        while view:
            try:
                self.socket.settimeout(0.5)
                sent = self.socket.send(view[:1 << 20])
                view = view[sent:]
            except (socket.timeout, ssl.SSLWantWriteError):
                pass
            self.drain()

    def drain(self):
        try:
            self.socket.settimeout(0.0)
            while True:
                data = self.socket.recv(1 << 20)
                if not data:
                    raise ConnectionError("closed")
                self.refused += data.count(b"may hold ") + data.count(b"too many ")
        except (BlockingIOError, ssl.SSLWantReadError, socket.timeout):
            pass


def attack_by_requests(target, kind, make):
    """Sessions on one connection, each with many requests that block."""
    with Attacker(target) as attacker:
        for channel in range(1, 20):
            attacker.hello(channel)
            for n in range(200):
                op, body = make(channel * 1_000 + n)
                attacker.send(frame(op, body, channel=channel, sequence=n + 1, acked_below=0))
                if attacker.refused > 500 or time.monotonic() > target["end"]:
                    break
                ping(attacker, channel)
        hold(attacker, target)
        return attacker.refused


def ping(attacker, channel):
    attacker.send(frame(2, channel=channel))


def hold(attacker, target, seconds=4.0):
    end = min(time.monotonic() + seconds, target["end"])
    while time.monotonic() < end:
        attacker.send(frame(2, channel=1))
        time.sleep(0.3)


def attack_by_sessions(target, _):
    with Attacker(target) as attacker:
        for first in range(1, 60_000, 500):
            attacker.send(b"".join(frame(HELLO, hello_body(job=target["job"], credential=target["token"]),
                                         channel=channel) for channel in range(first, first + 500)))
            if attacker.refused > 2_000 or time.monotonic() > target["end"]:
                break
        hold(attacker, target)
        return attacker.refused


def attack_by_jobs(target, _):
    with Attacker(target) as attacker:
        for n in range(20_000):
            attacker.send(frame(HELLO, hello_body(job=f"{target['job']}-{os.getpid()}-{n}",
                                                  credential=target["token"]), channel=n + 1))
            if attacker.refused > 200 or time.monotonic() > target["end"]:
                break
        hold(attacker, target)
        return attacker.refused


def let_go(connections, target, seconds):
    """Holds the connections for a while, then closes them."""
    time.sleep(max(0, min(seconds, target["end"] - time.monotonic())))
    for one in connections:
        getattr(one, "socket", one).close()


def attack_by_half_frames(target, _):
    """Connections with an unfinished frame each: large ones, and many small ones."""
    attackers = []
    try:
        for n in range(300):
            attackers.append(Attacker(target))
            size = 16 * MIB if n % 10 == 0 else 60_000
            attackers[-1].hello(1)
            attackers[-1].send(frame(SET, b"x" * (size - 100 if n % 10 else 4 * MIB), length=size))
            if time.monotonic() > target["end"]:
                break
    except (OSError, ssl.SSLError):
        pass
    let_go(attackers, target, 3)
    return len(attackers)


def attack_by_unread_replies(target, _):
    """Asks again and again for a value of 1 MB, and reads nothing."""
    raw = []
    for _ in range(20):
        one = Attacker(target)
        one.hello(1)
        one.send(frame(SET, text("big") + text("v" * 1_000_000), sequence=1))
        one.socket.settimeout(0.2)
        try:
            for n in range(200):
                one.socket.sendall(frame(GET, text("big") + struct.pack("<q", 0), sequence=n + 2, acked_below=2))
        except (OSError, ssl.SSLError):
            pass
        raw.append(one)
        if time.monotonic() > target["end"]:
            break
    let_go(raw, target, 3)
    return len(raw)


def attack_by_tcpstore(target, _):
    """A stranger on loopback, without a token: waits of PyTorch's TCPStore for long keys."""
    raw = []
    for n in range(100):
        one = socket.create_connection(target["address"], timeout=5)
        keys_of = struct.pack("<Q", 1_000) + b"".join(struct.pack("<Q", 8_000) + f"{n:06d}{i:06d}".encode() + b"k" * 7_988
                                                      for i in range(1_000))
        try:
            one.sendall(VALIDATE + bytes([TCP_WAIT]) + keys_of)
        except OSError:
            pass
        raw.append(one)
        if time.monotonic() > target["end"]:
            break
    let_go(raw, target, 3)
    return len(raw)


def attack_by_silence(target, _):
    """A stranger on loopback: handshakes that never go on, and HTTP requests that never end."""
    raw = []
    for n in range(400):
        try:
            one = socket.create_connection(target["address"], timeout=5)
            one.sendall(b"\x16\x03\x01\x02\x00\x01" if n % 2 else b"GET /v1/jobs HTTP/1.1\r\nX: " + b"y" * 6_000)
            raw.append(one)
        except OSError:
            time.sleep(0.01)
        if time.monotonic() > target["end"]:
            break
    let_go(raw, target, 2)
    return len(raw)


def run_attacks(target, kinds, results):
    """Goes round the kinds until the end."""
    os.sched_setaffinity(0, {0})
    while time.monotonic() < target["end"]:
        for kind, (attack, argument) in kinds.items():
            if time.monotonic() > target["end"]:
                break
            try:
                refused = attack(target, kind, argument) if argument else attack(target, kind)
            except (OSError, ssl.SSLError) as e:
                refused = f"{type(e).__name__}"
            results.put((target["role"], kind, str(refused)))


class Work:
    """A trainer of another principal and job, over the wire: sets, gets, waits and barriers with a second session."""

    def __init__(self, cluster, token):
        with open(token, encoding="ascii") as file:
            credential = file.read().strip()
        self.wires = []
        for rank in range(2):
            wire = Wire(cluster.daemon.address, tls=cluster.trust())
            assert wire.hello(job="good", credential=credential, rank=rank).code == "ok"
            self.wires.append(wire)
        self.n = 0
        self.late = []
        self.failed = []

    def step(self):
        self.n += 1
        one, two = self.wires
        begin = time.monotonic()
        key = f"step{self.n % 50}"
        done = [one.set(key, "v" * 100, acked_below=one.sequence), two.get(key, 1_000_000_000, acked_below=two.sequence),
                one.add("counter", 1, acked_below=one.sequence)]
        for rank, wire in enumerate(self.wires):
            wire.sequence += 1
            wire.send(frame(BARRIER, text("b") + struct.pack("<QQIIq", 0, self.n, rank, 2, 10 ** 10),
                            sequence=wire.sequence, acked_below=wire.sequence - 1))
        done += [wire.reply() for wire in self.wires]
        self.late.append(time.monotonic() - begin)
        self.failed += [repr(reply) for reply in done if reply is None or reply.code != "ok"]

    def leave(self):
        """Ends the sessions, and with them the outcomes that are kept for them."""
        for wire in self.wires:
            wire.sequence += 1
            wire.send(frame(GOODBYE, sequence=wire.sequence, acked_below=wire.sequence))
            wire.reply()
            wire.close()


def p99(values):
    return sorted(values)[int(len(values) * 0.99)] if values else 0.0


def metric(cluster, token, name):
    status, body = cluster.http("/metrics", token=token)
    assert status == 200, status
    for line in body.decode().splitlines() if isinstance(body, bytes) else body.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError("no metric " + name)


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--engine", default="memory:")
    parser.add_argument("--only", help="one kind")
    parser.add_argument("--patience", type=float, default=0, help="seconds until the ledger must have its old value; 0: it need not")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="c10dd-greedy-")
    cluster = Cluster(os.path.join(folder, "c"), "--max-bytes", "64MiB", "--log-level", "warn", hosts=("127.0.0.1",),
                      engine=options.engine.replace("DIR", os.path.join(folder, "state")))
    root = cluster.token("root", role="admin")
    good = cluster.token("alice", jobs="good")
    roles = {"viewer": cluster.token("eve", jobs="evil*", role="viewer"), "trainer": cluster.token("mallory", jobs="evil*")}
    with cluster.daemon as daemon:
        pid = daemon.process.pid
        os.sched_setaffinity(pid, {1 % os.cpu_count()})
        before = metric(cluster, root, "c10dd_held_bytes")
        work = Work(cluster, good)
        mallory = Wire(daemon.address, tls=cluster.trust())
        with open(roles["trainer"], encoding="ascii") as file:
            assert mallory.hello(job="evil", credential=file.read().strip()).code == "ok"  # the viewer's job exists
        for _ in range(300):
            work.step()
        calm, work.late = p99(work.late), []
        at_rest = resident(pid)
        end = time.monotonic() + options.seconds
        reads = {kind: (attack_by_requests, make) for kind, make in READS.items()}
        writes = {kind: (attack_by_requests, make) for kind, make in WRITES.items()}
        common = {"sessions": (attack_by_sessions, None), "half_frames": (attack_by_half_frames, None)}
        plans = {"viewer": {**reads, **common},
                 "trainer": {**writes, **reads, **common, "jobs": (attack_by_jobs, None),
                             "unread_replies": (attack_by_unread_replies, None)},
                 "stranger": {"tcpstore": (attack_by_tcpstore, None), "silence": (attack_by_silence, None)}}
        results = multiprocessing.Queue()
        attackers = []
        for role, kinds in plans.items():
            kinds = {kind: how for kind, how in kinds.items() if options.only in (None, kind)}
            if not kinds:
                continue
            credential = ""
            if role in roles:
                with open(roles[role], encoding="ascii") as file:
                    credential = file.read().strip()
            target = {"role": role, "address": daemon.address, "ca": os.path.join(cluster.ca, "ca.crt"), "job": "evil",
                      "token": credential, "end": end}
            attackers.append(multiprocessing.Process(target=run_attacks, args=(target, kinds, results)))
            attackers[-1].start()
        most, held = 0, 0
        tried = {}
        looked = 0.0
        while time.monotonic() < end:
            work.step()
            most = max(most, resident(pid))
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                held = max(held, metric(cluster, root, "c10dd_held_bytes"))
            while not results.empty():
                role, kind, refused = results.get()
                tried[role, kind] = refused
            time.sleep(0.01)
        for one in attackers:
            one.join(20)
            if one.is_alive():
                one.kill()
        mallory.close()
        work.leave()
        for (role, kind), refused in sorted(tried.items()):
            print(f"{role:9} {kind:15} refused or connections: {refused}")
        deadline = time.monotonic() + options.patience  # sessions and what is watched last for ten minutes
        while (after := metric(cluster, root, "c10dd_held_bytes")) > before and time.monotonic() < deadline:
            time.sleep(0.5)
        p99_under_attack = p99(work.late)
        limit = max(0.1, 3 * calm)
        checks = {
            f"resident memory: {at_rest / MIB:.0f} MiB at rest, at most {most / MIB:.0f} MiB, "
            f"limit {(MAX_BYTES + CONSTANT) / MIB:.0f} MiB": most <= MAX_BYTES + CONSTANT,
            f"held for clients: {before:.0f} bytes before, at most {held / MIB:.1f} MiB, {after:.0f} bytes afterwards":
                after <= before or options.patience == 0,
            f"trainer of another principal: {len(work.late)} rounds, {len(work.failed)} failed {work.failed[:3]}":
                not work.failed,
            f"its rounds: p99 {calm * 1e3:.1f} ms calm, {p99_under_attack * 1e3:.1f} ms under attack, limit "
            f"{limit * 1e3:.0f} ms": p99_under_attack <= limit or options.seconds < 60,
        }
        for what, holds in checks.items():
            print("ok    " if holds else "FAILED", what)
        return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
