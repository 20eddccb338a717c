#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that open hundreds of connections a second from one address and never finish what they begin: a new SDK client of
that address is in within seconds, and one of another address does not notice. C10DD_FLOOD_SECONDS is how long each kind of
attack lasts, if all are tried; C10DD_FLOOD_RATE how many connections a second both attackers open."""
import json
import math
import os
import resource
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import ENVIRONMENT, Cluster
from daemon import SLOWDOWN
from wire import Wire

SECONDS = float(os.environ.get("C10DD_FLOOD_SECONDS", "1"))
RATE = int(os.environ.get("C10DD_FLOOD_RATE", "450"))
ATTACKERS = 2
WARM_UP = 1.2  # seconds until what the attackers hold has grown
PATIENCE = 30  # of a new client
IN_SECONDS, BESIDE = 1.5 * SLOWDOWN, 0.5 * SLOWDOWN  # the slowest new client of the attackers' address, and of another one
KINDS = ("half", "whole", "request") + (("silence", "bytes", "open") if "C10DD_FLOOD_SECONDS" in os.environ else ())


def client_hello():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    channel = context.wrap_bio(ssl.MemoryBIO(), out)
    try:
        channel.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Attacker:
    """A process of its own, until its standard input ends: begins `rate` connections a second, and holds each until the daemon
    closes it. The kinds: says nothing; half a ClientHello; one byte of it after the other; a whole one and no more; shakes hands
    and says nothing after that; shakes hands and says half a request of HTTP."""

    def __init__(self, kind, address, rate):
        self.kind, self.address, self.rate = kind, address, rate
        self.hello = client_hello()
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.poll = select.epoll()
        self.held = {}  # descriptor: [socket, channel, incoming, outgoing, bytes said]
        self.opened = self.refused = self.most = 0

    def open(self):
        one = socket.socket()
        one.setblocking(False)
        try:
            one.connect(self.address)
        except BlockingIOError:
            pass
        except OSError:
            self.refused += 1
            return one.close()
        self.opened += 1
        self.poll.register(one, select.EPOLLIN | select.EPOLLRDHUP)
        channel = into = out = None
        if self.kind in ("open", "request"):
            into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
            channel = self.context.wrap_bio(into, out)
        self.held[one.fileno()] = [one, channel, into, out, 0]
        self.most = max(self.most, len(self.held))
        self.say(one.fileno())

    def say(self, number):
        one, channel, _, out, said = self.held[number]
        words = {"half": self.hello[:len(self.hello) // 2], "bytes": self.hello[said:said + 1], "whole": self.hello}.get(self.kind, b"")
        if channel:
            try:
                channel.do_handshake()
                if self.kind == "request" and said < 9:
                    self.held[number][4] = 9
                    channel.write(b"GET /livez HTTP/1.1\r\nX-Slow: ")
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return self.close(number)
            words = out.read()
        try:
            if words:
                one.sendall(words)
            self.held[number][4] += 1
        except OSError:
            self.close(number)
        return None

    def close(self, number):
        self.held.pop(number)[0].close()

    def look(self):
        for number, events in self.poll.poll(0):
            if number not in self.held:
                continue
            one, channel, into, _, _ = self.held[number]
            try:
                came = one.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                came = b""
            if not came or events & select.EPOLLRDHUP:
                self.close(number)
            elif channel:
                into.write(came)
                self.say(number)

    def run(self):
        begin, slow = time.monotonic(), 0
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0.002)[0]:
            due = (time.monotonic() - begin) * self.rate
            for _ in range(min(int(due) - self.opened - self.refused, 200)):
                self.open()
            self.look()
            if self.kind == "bytes" and time.monotonic() > slow:
                slow = time.monotonic() + 0.2
                for number in list(self.held):
                    self.say(number)
        print(json.dumps({"opened": self.opened, "refused": self.refused, "most": self.most,
                          "rate": self.opened / (time.monotonic() - begin)}))


ENTER = """
import os, sys, time
import c10dd
for line in sys.stdin:
    begin = time.monotonic()
    try:
        with c10dd.connect(os.environ["C10DD_URL"], timeout=float(sys.argv[1])) as client:
            client.store.set("k", "v")
        print(time.monotonic() - begin, flush=True)
    except c10dd.Error as error:
        print("failed after", time.monotonic() - begin, error, flush=True)
"""


def p99(values):
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


class Flood(unittest.TestCase):
    def setUp(self):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if most < 10 * RATE:
            self.skipTest(f"too few open files: {most}")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        self.cluster = Cluster(folder)
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)
        token_file = self.cluster.token("alice", "llm-*")
        with open(token_file, encoding="ascii") as file:
            self.token = file.read().strip()
        self.client = self.process("-c", ENTER, str(PATIENCE), C10DD_TOKEN_FILE=token_file, C10DD_URL=self.cluster.url("llm-1"))

    def process(self, *words, **environment):
        one = subprocess.Popen([sys.executable, "-B", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**ENVIRONMENT, **environment})
        self.addCleanup(self.end, one)
        return one

    @staticmethod
    def end(one):
        if not one.stdin.closed:
            one.stdin.close()
        one.wait(60)
        one.stdout.close()

    def enter(self):
        """How long a new SDK client takes until it is connected and has made a call."""
        print("enter", file=self.client.stdin, flush=True)
        answer = self.client.stdout.readline().strip()
        if answer.startswith("failed"):
            print(answer)
            return math.inf
        return float(answer)

    def enter_from_elsewhere(self):
        begin = time.monotonic()
        with Wire(self.daemon.address, tls=self.cluster.trust(), source="127.0.0.2") as wire:
            self.assertEqual(("ok", "ok"), (wire.hello(job="llm-2", credential=self.token).code, wire.set("k", "v").code))
        return time.monotonic() - begin

    def attack(self, kind):
        attackers = [self.process(os.path.abspath(__file__), "--attack", kind, "%s:%d" % self.daemon.address,
                                  str(RATE // ATTACKERS)) for _ in range(ATTACKERS)]
        for one in attackers:
            self.assertEqual("ready", one.stdout.readline().strip())
        time.sleep(WARM_UP)
        near, far = [], []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            near.append(self.enter())
            far.append(self.enter_from_elsewhere())
        for one in attackers:
            one.stdin.close()
        results = [json.loads(one.stdout.readline()) for one in attackers]
        print(f"{kind}: {sum(one['rate'] for one in results):.0f} connections a second, {sum(one['most'] for one in results)} held, "
              f"{sum(one['refused'] for one in results)} refused; new SDK client of that address: p50 "
              f"{sorted(near)[len(near) // 2] * 1e3:.0f}, p99 {p99(near) * 1e3:.0f} ms of {len(near)}; of another address: p99 "
              f"{p99(far) * 1e3:.0f} ms of {len(far)}")
        self.assertLess(max(near), IN_SECONDS, kind)
        self.assertLess(max(far), BESIDE, kind)

    def test_calm(self):
        print(f"calm: {p99([self.enter() for _ in range(10)]) * 1e3:.0f} ms, from elsewhere "
              f"{p99([self.enter_from_elsewhere() for _ in range(10)]) * 1e3:.0f} ms")


def of_kind(kind):
    return lambda self: self.attack(kind)


for name in KINDS:
    setattr(Flood, f"test_{name}", of_kind(name))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        host, port = sys.argv[3].rsplit(":", 1)
        Attacker(sys.argv[2], (host, int(port)), float(sys.argv[4])).run()
    else:
        unittest.main()
