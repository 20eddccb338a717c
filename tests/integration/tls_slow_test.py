#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of clients of one address that begin a TLS handshake, a hello or an HTTP request and do not go on: nobody else
notices, and each is closed at its deadline, or sooner if its address has too many. C10DD_SLOW_CLIENTS is how many there are of each kind."""
import json
import math
import os
import resource
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import Cluster, c10dd
from daemon import SLOWDOWN
from wire import MAGIC, Wire

SLOW = int(os.environ.get("C10DD_SLOW_CLIENTS", "300"))
KNOWN = 20
HANDSHAKE, HELLO, REQUEST = 5, 5, 10  # seconds that the daemon waits
SHARE = 256  # of one address that may say nothing for so long
CROWDED = 0.4  # what the others have at least
LATE = 4 * SLOWDOWN
CALM, BUSY = 3, 0.25 * SLOWDOWN  # seconds
TIMES, LEAST = 10, 0.005 * SLOWDOWN  # how much longer a call may take, and what of a calm call counts at least


def call_all_the_time(url):
    """A process of its own: clients that call until the standard input ends. Each line there is the name of what is measured
    next, and is answered when the measurement has begun; at the end comes the result."""
    now, stop, failed = ["start"], threading.Event(), []
    took = {}

    def call(client, number):
        try:
            while not stop.is_set():
                name, begin = now[0], time.monotonic()
                client.store.set(f"k{number}", "v" * 100)
                took.setdefault(name, []).append(time.monotonic() - begin)
                time.sleep(0.02)
        except c10dd.Error as error:
            failed.append(str(error))
    clients = [c10dd.connect(url, timeout=60) for _ in range(KNOWN)]
    threads = [threading.Thread(target=call, args=one) for one in zip(clients, range(KNOWN))]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        now[0] = line.strip()
        print(line, end="", flush=True)
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"took": took, "failed": failed, "connects": [one.stats().connects for one in clients],
                      "failures": [one.stats().failures for one in clients]}))


def p99(values):
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


class Slow:
    """Connections that say a first part and no more, and when they were closed."""

    def __init__(self, address, context):
        self.address, self.context = address, context
        self.selector = selectors.DefaultSelector()
        self.began = {}
        self.lasted = {}  # kind: seconds

    def open(self, kind, first, encrypted=True):
        one = socket.create_connection(self.address, timeout=20)
        if encrypted:
            one = self.context.wrap_socket(one, server_hostname=self.address[0])
        one.sendall(first)
        one.setblocking(False)
        self.began[one] = time.monotonic()
        self.selector.register(one, selectors.EVENT_READ, kind)

    def look(self, patience):
        """Notes which ones were closed."""
        for key, _ in self.selector.select(patience):
            one = key.fileobj
            try:
                if one.recv(4096):
                    continue
            except (ssl.SSLWantReadError, BlockingIOError):
                continue
            except OSError:
                pass
            self.lasted.setdefault(key.data, []).append(time.monotonic() - self.began.pop(one))
            self.selector.unregister(one)
            one.close()

    def close(self):
        for one in self.began:
            one.close()
        self.selector.close()


class Case(unittest.TestCase):
    options = ()

    def setUp(self):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if most < 4 * SLOW:
            self.skipTest(f"too few open files: {most}")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        self.cluster = Cluster(folder, *self.options)
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)
        self.token_file = self.cluster.token("alice", "llm-*")
        with open(self.token_file, encoding="ascii") as file:
            self.token = file.read().strip()
        self.root = self.cluster.token("root", role="admin")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

    def enter(self):
        """How long a new client of another address takes until its session is open and has made a call."""
        begin = time.monotonic()
        with Wire(self.daemon.address, tls=self.cluster.trust(), source="127.0.0.2") as wire:
            self.assertEqual(("ok", "ok"), (wire.hello(job="llm-2", credential=self.token).code, wire.set("k", "v").code))
        return time.monotonic() - begin


class FewFromAnAddress(Case):
    options = ("--max-connections-per-address", "50")
    REFUSED_IN_WORDS = 32  # so many more are listened to, to be refused in their protocol

    def test_an_address_takes_no_more_than_its_share(self):
        before = self.descriptors()
        slow = Slow(self.daemon.address, self.cluster.trust())
        self.addCleanup(slow.close)
        for _ in range(SLOW):
            try:
                slow.open("handshake", b"\x16", encrypted=False)
            except ConnectionError:  # it was closed before it could say anything
                continue
        most = 50 + self.REFUSED_IN_WORDS
        end = time.monotonic() + HANDSHAKE / 2
        while len(slow.began) > most and time.monotonic() < end:
            slow.look(0.1)
        self.assertLessEqual(len(slow.began), most, "the others were closed at once")
        self.assertLessEqual(self.descriptors() - before, most + 2)
        for _ in range(5):
            self.assertLess(self.enter(), 1 * SLOWDOWN)


class SlowClients(Case):
    def setUp(self):
        super().setUp()
        self.callers = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--callers", self.cluster.url("llm-1")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "C10DD_TOKEN_FILE": self.token_file})
        self.addCleanup(self.end_callers)

    def end_callers(self):
        self.callers.stdin.close()
        self.callers.wait(60)
        self.callers.stdout.close()

    def measure(self, name):
        print(name, file=self.callers.stdin, flush=True)
        self.assertEqual(name, self.callers.stdout.readline().strip(), "the known clients run")

    def begin_slow_ones(self):
        slow = Slow(self.daemon.address, self.cluster.trust())
        self.addCleanup(slow.close)
        for number in range(SLOW):
            slow.open("hello", MAGIC if number % 2 else b"")
            slow.open("request", b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        for _ in range(SLOW):
            slow.open("handshake", b"\x16", encrypted=False)
        return slow

    def test_nobody_else_notices_and_each_is_closed_at_its_deadline(self):
        self.measure("calm")
        open_before = self.descriptors()
        self.enter()
        time.sleep(CALM)  # that long the measurement is
        self.measure("beginning")
        slow = self.begin_slow_ones()
        self.measure("slow")
        opened, entered = self.descriptors(), []
        end = time.monotonic() + REQUEST + LATE
        while slow.began and time.monotonic() < end:
            if len(entered) < 5:
                entered.append(self.enter())
            slow.look(0.5)
        self.assertEqual(0, len(slow.began), "all were closed")
        self.measure("calm")
        time.sleep(CALM)
        self.measure("after")
        self.assertEqual("200", str(self.cluster.http("/readyz")[0]))
        until = time.monotonic() + 10 * SLOWDOWN
        while self.descriptors() != open_before and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(open_before, self.descriptors(), "no descriptor is left over")
        self.callers.stdin.close()
        result = json.loads(self.callers.stdout.readline())
        took = result["took"]
        took["beside"] = took["beginning"] + took["slow"]
        tail = {name: p99(took[name]) for name in ("calm", "beside", "beginning")}
        print(f"{opened - open_before} slow connections; p99 of {KNOWN} known clients: " +
              ", ".join(f"{name} {one * 1e3:.2f} ms ({len(took[name])} calls)" for name, one in tail.items()) +
              f"; a new client is in after at most {max(entered) * 1e3:.0f} ms; closed after " +
              ", ".join(f"{min(lasted):.1f} to {max(lasted):.1f} s ({kind})" for kind, lasted in slow.lasted.items()))
        self.assertEqual([], result["failed"])
        self.assertEqual([(1, 0)] * KNOWN, list(zip(result["connects"], result["failures"])))
        self.assertLess(tail["beside"], TIMES * max(tail["calm"], LEAST))
        self.assertLess(tail["beginning"], BUSY, "also while hundreds of handshakes are made")
        self.assertLess(max(entered), 1 * SLOWDOWN)
        for kind, first, last in (("handshake", CROWDED, HANDSHAKE), ("hello", CROWDED, HELLO), ("request", CROWDED, REQUEST)):
            self.assertEqual(SLOW, len(slow.lasted[kind]))
            self.assertGreater(min(slow.lasted[kind]), first, kind)
            self.assertLess(max(slow.lasted[kind]), last + LATE, kind)
        patient = [lasted for all_of_kind in slow.lasted.values() for lasted in all_of_kind if lasted > HELLO - 1]
        self.assertLessEqual(len(patient), SHARE)
        self.check_log_and_metrics()

    def check_log_and_metrics(self):
        text = self.cluster.http("/metrics", self.root)[1]
        for labels, least in (('protocol="native",reason="hello_deadline"', SLOW // 2),
                              ('protocol="unknown",reason="nothing_said"', SLOW // 2),
                              ('protocol="unknown",reason="tls"', SLOW)):
            found = [line for line in text.splitlines() if line.startswith("c10dd_connections_closed_total{" + labels)]
            self.assertEqual(1, len(found), f"{labels}: " + "\n".join(
                line for line in text.splitlines() if line.startswith("c10dd_connections_closed_total")))
            self.assertGreaterEqual(float(found[0].split()[-1]), least, found)
        self.assertLess(len(self.daemon.errors().splitlines()), 3 * SLOW)
        self.assertIn("the client did not end the TLS handshake in time", self.daemon.errors())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--callers"]:
        call_all_the_time(sys.argv[2])
    else:
        unittest.main()
