#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers open jobs and endpoints at one daemon of a fleet as fast as it lets them: the other daemon stays ready,
also if it is far from Redis, and a launch of stock PyTorch with ranks at both stays one run. C10DD_CHURN_SECONDS=30 is
the long form."""
import contextlib
import http.client
import json
import os
import socket
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import at_once
import tcpstore_fleet_test
from daemon import Daemon, SLOWDOWN
from redis_server import redis_server
from faulty_link import FaultyLink
from wire import Wire

SECONDS = float(os.environ.get("C10DD_CHURN_SECONDS", "4"))
JOBS_PER_SECOND = 500
CONNECTIONS = 4


def connect(address, timeout=None, _source=None):
    """As socket.create_connection(). The port of the client stays in TIME_WAIT, but a server of another test can be
    bound to it meanwhile."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.settimeout(timeout)
    client.connect(address)
    return client


socket.create_connection = connect  # also for Wire and urllib


class Strangers(contextlib.AbstractContextManager):
    """Threads that call act(number, count) again and again until the end of the block."""

    def __init__(self, act, pause=0.0):
        self.act, self.pause = act, pause
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.go_on, args=(n,)) for n in range(CONNECTIONS)]
        self.counts = [0] * CONNECTIONS

    def go_on(self, number):
        while not self.over.is_set():
            with contextlib.suppress(OSError, EOFError):
                self.act(number, self.counts[number])
            self.counts[number] += 1
            self.over.wait(self.pause)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Churn(tcpstore_fleet_test.StockRanks):
    options = []
    seconds = 60 + 3 * SECONDS
    lease = 2.0  # seconds, the default of --lease

    def test_strangers_at_one_daemon_do_not_disturb_the_other(self):
        ranks = self.start("wait", self.first, self.second)
        for rank in ranks:
            self.assertEqual("reduced\n", rank.stdout.readline(), self.logs())
        with contextlib.closing(Wire(self.second.address)) as client:
            self.assertEqual("ok", client.hello(job="mine").code)
            for name, act, pause in (("jobs", self.open_job, CONNECTIONS / JOBS_PER_SECOND),
                                     ("endpoints", self.come_and_go, 0)):
                with self.subTest(name), Strangers(act, pause) as strangers:
                    self.watch_the_other(client, name)
                print(f"{name}: {sum(strangers.counts)} in {SECONDS} s, slowest call {self.slowest * 1000:.0f} ms")
        pages = [self.plain_runs(daemon) for daemon in self.fleet]
        for runs in pages:  # that of the owner, which the other daemon passes on
            self.assertEqual([2], [run["joined"] for run in runs], f"{pages}\n{self.logs()[-3000:]}")
        for daemon in self.fleet:
            for event in ("engine_lost", "lease_over", "daemon_silent", "launch_split"):
                self.assertNotIn("event=" + event, daemon.errors())
        for rank in ranks:
            self.assertIsNone(rank.poll())
            rank.kill()
            rank.communicate()

    def open_job(self, number, count):
        with contextlib.closing(Wire(self.first.address)) as stranger:
            stranger.hello(job=f"stranger-{number}-{count}")

    def come_and_go(self, number, count):
        """Leases an endpoint, lets a client of it come and go at each daemon, and releases it."""
        url = "http://%s:%d/v1/jobs/strangers/endpoints" % self.first.address
        name = f"e{number}-{count % 500}"
        lease = urllib.request.Request(url, json.dumps({"name": name}).encode(),
                                       {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(lease, timeout=5) as reply:
            port = json.load(reply)["port"]
        for daemon in self.fleet:
            with contextlib.suppress(OSError), socket.create_connection((daemon.address[0], port), timeout=1) as visit:
                visit.sendall(b"\0")
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="DELETE"), timeout=5):
            pass

    def watch_the_other(self, client, name):
        """Asks the daemon that is left alone all the time: for what it has, and for new jobs."""
        self.slowest = 0.0
        end = time.monotonic() + SECONDS
        count = 0
        while time.monotonic() < end:
            began = time.monotonic()
            count += 1
            reply = client.set("k", str(count), acked_below=client.sequence)
            self.assertEqual("ok", reply and reply.code, self.logs()[-2000:])
            if count % 10 == 0:
                with contextlib.closing(Wire(self.second.address)) as newcomer:
                    self.assertEqual("ok", newcomer.hello(job=f"{name}-{count}").code)
                self.assertEqual(200, self.second.http("/readyz")[0])
            self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(0.02)
        self.assertLess(self.slowest, self.lease * SLOWDOWN)


class FarDaemon(unittest.TestCase):
    """One daemon is beside Redis, the other 5 ms away: each change of the near one comes before the far one's."""

    def test_makes_its_changes_beside_a_near_one(self):
        with contextlib.ExitStack() as stack:
            port, _ = stack.enter_context(redis_server(stack.enter_context(tempfile.TemporaryDirectory())))
            link = FaultyLink(port, delay=0.005)
            stack.callback(link.close)
            near = Daemon(engine=f"redis://127.0.0.1:{port}").start()
            stack.callback(near.stop)
            far = Daemon(engine=f"redis://127.0.0.1:{link.port}").start()
            stack.callback(far.stop)
            links = [http.client.HTTPConnection(*near.address, timeout=10) for _ in range(CONNECTIONS)]

            def come_and_go(number, _count):
                for method, path, body in (("POST", "", json.dumps({"name": f"e{number}"})),
                                           ("DELETE", f"/e{number}", None)):
                    links[number].request(method, "/v1/jobs/x/endpoints" + path, body,
                                          {"Content-Type": "application/json"} if body else {})
                    links[number].getresponse().read()

            slowest, count = 0.0, 0
            end = time.monotonic() + SECONDS
            with Strangers(come_and_go) as strangers:
                while time.monotonic() < end:
                    began = time.monotonic()
                    with contextlib.closing(Wire(far.address)) as client:
                        reply = client.hello(job=f"mine-{count}")
                    self.assertEqual("ok", reply and reply.code, far.errors()[-2000:])
                    self.assertEqual(200, far.http("/v1/jobs")[0])
                    slowest = max(slowest, time.monotonic() - began)
                    count += 1
            print(f"far daemon: {count} new jobs beside {2 * sum(strangers.counts)} changes, slowest with its page "
                  f"{slowest * 1000:.0f} ms")
            self.assertGreater(sum(strangers.counts), 10)
            self.assertLess(slowest, 2 * SLOWDOWN)
            for daemon in (near, far):
                self.assertNotIn("event=engine_lost", daemon.errors())


if __name__ == "__main__":
    at_once.main(2)
