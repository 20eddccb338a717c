# SPDX-License-Identifier: Apache-2.0
"""The engine hangs, dies, or has no room: the launches of stock PyTorch, which live in memory, go on. Each of
their calls ends in time."""
import contextlib
import itertools
import signal
import tempfile
import threading
import time
import unittest

import at_once
import wire
from daemon import SLOWDOWN, Daemon
from redis_server import redis_server
from small_disk import SmallDisk, Writer, why_no_small_disk
from tcpstore_wire import Client
from wire import Wire

BOUND = 1.0 * SLOWDOWN  # seconds, for each call
RANK_KEY = b"/default_pg/0//cpu//0/0"
PIDS = itertools.count(1000)


class Calls:
    """The calls of launches that follow each other, and how long each kind has taken at most."""

    def __init__(self, daemon):
        self.daemon, self.counts, self.most = daemon, {}, {}
        self.launches = 0
        self.ranks = []

    @contextlib.contextmanager
    def timed(self, kind):
        begin = time.monotonic()
        yield
        took = time.monotonic() - begin
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.most[kind] = max(took, self.most.get(kind, 0))

    def launch(self):
        """The next launch, of two ranks, in a run of its own."""
        self.end()
        with self.timed("launch"):
            for joined in (1, 2):
                self.join(joined)
        self.ranks[0].set(RANK_KEY, b"address")
        assert self.ranks[0].get(RANK_KEY) == b"address"
        self.launches += 1

    def join(self, expected):
        with self.timed("join"):
            rank = Client.of_process(self.daemon.address, next(PIDS))
            self.ranks.append(rank)
            assert rank.join() == expected, "a run of its own"

    def round(self, number):
        key, (one, other) = b"/key%d" % number, self.ranks[:2]
        with self.timed("set, get"):
            one.set(key, b"value")
            assert one.get(key) == b"value"
        with self.timed("add"):
            assert one.add(b"/counter%d" % number, 2) == 2
        found = []
        waiter = threading.Thread(target=lambda: found.append(other.wait(key + b"/late")))
        waiter.start()
        time.sleep(0.01)
        with self.timed("wait"):
            one.set(key + b"/late", b"")
            waiter.join()
        assert found == [True]

    def go_on(self, seconds):
        """All calls, in turns; every second another launch, which a rank joins late."""
        self.launch()
        end = time.monotonic() + seconds
        for number in itertools.count():
            self.round(number)
            time.sleep(0.02)
            if number % 30 == 15:
                self.join(3)
            if number % 30 == 29:
                if time.monotonic() > end:
                    return
                self.launch()

    def end(self):
        for rank in self.ranks:
            rank.close()
        self.ranks.clear()

    def text(self):
        return ", ".join(f"{kind} {most * 1e3:.1f} ms ({self.counts[kind]})"
                         for kind, most in self.most.items())


class Engines(unittest.TestCase):
    def check(self, what, daemon, seconds):
        calls = Calls(daemon)
        try:
            calls.go_on(seconds)
        finally:
            calls.end()
        print(f"{what}: {calls.launches} launches; slowest: {calls.text()}")
        self.assertGreaterEqual(calls.launches, 2)
        for kind, most in calls.most.items():
            self.assertLess(most, BOUND, kind)

    def with_redis(self, what, stop, seconds):
        """While Redis does not answer; a native client has a request under way."""
        with tempfile.TemporaryDirectory() as folder, redis_server(folder) as (port, redis), Daemon(
                "--shards", "2", engine=f"redis://127.0.0.1:{port}") as daemon:
            with contextlib.closing(Client.of_process(daemon.address, 1)) as before, \
                    contextlib.closing(Wire(daemon.address)) as native:
                self.assertEqual(1, before.join())
                before.set(RANK_KEY, b"address")
                self.assertEqual(b"address", before.get(RANK_KEY))
                self.assertEqual("ok", native.hello().code)
                self.assertEqual("ok", native.set("k", "v").code)
                stop(redis)
                native.send(wire.frame(wire.SET, wire.text("k") + wire.text("w"), sequence=2))
                before.close()
                self.check(what, daemon, seconds)
                self.assertEqual(503, daemon.http("/readyz")[0])
            return daemon.errors()

    def test_redis_that_hangs(self):
        self.with_redis("redis hangs for 10 s", lambda redis: redis.send_signal(signal.SIGSTOP), 10)

    def test_redis_that_is_killed(self):
        self.with_redis("redis is killed", lambda redis: redis.kill(), 4)

    def test_a_run_survives_the_loss_of_the_engine(self):
        with tempfile.TemporaryDirectory() as folder, redis_server(folder) as (port, redis), Daemon(
                "--shards", "2", engine=f"redis://127.0.0.1:{port}") as daemon, \
                contextlib.closing(Client.of_process(daemon.address, 1)) as rank:
            self.assertEqual(1, rank.join())
            rank.set(b"/kept", b"value")
            redis.kill()
            end = time.monotonic() + 20 * SLOWDOWN
            while daemon.http("/readyz")[0] == 200:  # a request makes the daemon notice
                self.assertLess(time.monotonic(), end)
                with contextlib.closing(Wire(daemon.address)) as native:
                    native.hello()
            self.assertEqual(b"value", rank.get(b"/kept"))

    @unittest.skipIf(why_no_small_disk(), why_no_small_disk())
    def test_full_disk(self):
        disk = SmallDisk(64 * 2**20)
        try:
            with Daemon("--shards", "2", "--disk-reserve", "32MiB", "--disk-minimum", "8MiB",
                        "--disk-ballast", "4MiB", engine=f"rocksdb:{disk.folder}/state") as daemon:
                native = Writer(daemon, "native")
                self.addCleanup(lambda: native.wire.close())
                disk.take(leave=0)
                end = time.monotonic() + 10 * SLOWDOWN
                while (code := native.set("k", b"v" * 1000).code) == "ok":
                    self.assertLess(time.monotonic(), end, "the disk is not full")
                    disk.take(leave=0)
                self.assertEqual("disk_full", code)
                self.check("the disk is full", daemon, 3)
                self.assertEqual("disk_full", native.set("k", b"v" * 1000).code)
        finally:
            disk.remove()


if __name__ == "__main__":
    at_once.main()
