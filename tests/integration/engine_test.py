#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An engine that hangs, and one that is closed while a job is read from it."""
import contextlib
import os
import re
import signal
import tempfile
import time
import unittest

import wire
import at_once
from daemon import BIN, SLOWDOWN, Daemon
from redis_server import redis_server
from wire import Wire, frame, text

SLOW_SYNC = os.path.join(BIN, "../libexec/c10dd/libc10dd_slow_sync.so")


class Engine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def hello(self, daemon, job="test"):
        with contextlib.closing(Wire(daemon.address)) as client:
            return client.hello(job=job).code

    def test_one_that_hangs_does_not_silence_the_daemon(self):
        # Members of a group take silence for their own loss; an answer, whatever it says, for life.
        with redis_server(self.folder.name) as (port, redis), Daemon(
                engine=f"redis://127.0.0.1:{port}") as daemon:
            self.assertEqual("ok", self.hello(daemon))
            redis.send_signal(signal.SIGSTOP)
            with contextlib.closing(Wire(daemon.address)) as writer:
                writer.hello()
                writer.set("k", "v")  # answered when the engine has been given up
            self.assertEqual(503, daemon.http("/readyz")[0])
            deadline = time.monotonic() + 6
            answers = []
            while time.monotonic() < deadline:
                answers.append(self.hello(daemon))
                time.sleep(0.05)
            print(f"{len(answers)} answers in 6 s")
            self.assertEqual({"unavailable"}, set(answers))
            # To open it again takes 2 s whenever it is tried: a loop that did so gave 15 answers.
            self.assertGreater(len(answers), 30)
            redis.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + 20
            while (code := self.hello(daemon)) != "ok":
                self.assertEqual("unavailable", code)
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def test_one_that_is_read_is_closed_in_peace(self):
        engine = f"rocksdb:{self.folder.name}/state"
        with Daemon("--durability", "os", "--shards", "2", engine=engine) as daemon:
            self.assertEqual("ok", self.hello(daemon, job="on the first shard"))
            with contextlib.closing(Wire(daemon.address)) as writer:
                writer.hello(job="on the other")
                self.assertEqual([], writer.set_many(60_000))
            for wait in (0, 0.005, 0.01, 0.02, 0.04):
                daemon.stop()
                daemon.start()
                with contextlib.closing(Wire(daemon.address)) as reader:
                    reader.send(frame(wire.HELLO, wire.hello_body(job="on the other")))
                    time.sleep(wait)
                    self.assertEqual(0, daemon.stop(), daemon.errors())
                self.assertIn("event=stopped", daemon.errors().splitlines()[-1])
                daemon.start()

    @unittest.skipIf(SLOWDOWN > 1, "sanitizers load before the module that records syncs")
    def test_log_is_synced_as_the_durability_promises(self):
        for durability, expected in ("fsync", 20), ("os", 0), ("none", 0):
            synced = os.path.join(self.folder.name, f"synced_{durability}")
            environment = dict(os.environ, SYNC_LOG_FILE=synced, LD_PRELOAD=SLOW_SYNC)
            engine = f"rocksdb:{self.folder.name}/state_{durability}"

            def log_syncs():
                with open(synced, encoding="utf-8") as paths:
                    return sum(line.rstrip().endswith(".log") for line in paths)

            with self.subTest(durability), Daemon("--durability", durability, engine=engine,
                                                  environment=environment) as daemon:
                with contextlib.closing(Wire(daemon.address)) as writer:
                    writer.hello()
                    before = log_syncs()
                    for n in range(20):
                        self.assertEqual("ok", writer.set("k", str(n)).code)
                    self.assertEqual(expected, log_syncs() - before)
                with contextlib.closing(Wire(daemon.address)) as writer:
                    writer.hello()
                    before = log_syncs()
                    self.assertEqual([], writer.set_many(2_000))
                    together = log_syncs() - before
                    self.assertLess(together, 500, "requests that wait together share a sync")
                    self.assertEqual(expected > 0, together > 0)
                before = log_syncs()
                self.assertEqual(0, daemon.stop())
                if durability == "os":
                    self.assertGreater(log_syncs(), before, "SIGTERM syncs what was not synced")

    @unittest.skipIf(SLOWDOWN > 1, "sanitizers load before the module that holds syncs")
    def test_a_disk_that_hangs_is_reported_and_holds_nobody(self):
        hold = os.path.join(self.folder.name, "hold")
        environment = dict(os.environ, SYNC_HOLD_FILE=hold, LD_PRELOAD=SLOW_SYNC)
        engine = f"rocksdb:{self.folder.name}/state"
        with Daemon("--drain-timeout", "2", engine=engine, environment=environment) as daemon:
            for goes_on in (True, False):
                with contextlib.closing(Wire(daemon.address)) as writer:
                    writer.hello()
                    self.assertEqual("ok", writer.set("k", "v").code)
                    open(hold, "w", encoding="ascii").close()
                    writer.send(frame(wire.SET, text("k") + text("w"), sequence=9))
                    begun = time.monotonic()
                    while (status := daemon.http("/readyz"))[0] == 200:
                        self.assertLess(time.monotonic(), begun + 20)
                        time.sleep(0.1)
                    self.assertGreater(time.monotonic(), begun + 4)
                    self.assertRegex(status[1], "a commit has been running for [5-9] s, limit 5 s")
                    metrics = daemon.http("/metrics")[1]
                    age = re.search(r"c10dd_engine_oldest_commit_seconds{.*} ([0-9.]+)", metrics)
                    self.assertGreater(float(age.group(1)), 4)
                    self.assertIn("c10dd_ready 0", metrics)
                    if not goes_on:
                        break
                    os.unlink(hold)
                    self.assertEqual("ok", writer.reply().code)
                    # the commit thread replies just before it notes that the commit has ended
                    begun = time.monotonic()
                    while daemon.http("/readyz")[0] != 200:
                        self.assertLess(time.monotonic(), begun + 5)
                        time.sleep(0.05)
            begun = time.monotonic()
            self.assertEqual(75, daemon.stop())
            self.assertLess(time.monotonic() - begun, 2.9)
            self.assertIn("event=commit_stuck", daemon.errors())
            self.assertIn("event=stopped_unfinished", daemon.errors())
            os.unlink(hold)
            daemon.start()
            with contextlib.closing(Wire(daemon.address)) as reader:
                reader.hello()
                self.assertEqual("ok", reader.get("k").code)


if __name__ == "__main__":
    at_once.main()
