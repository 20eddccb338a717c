# SPDX-License-Identifier: Apache-2.0
"""A disk that stays nearly full, because somebody else's file grows with each byte that is freed,
while a client removes keys. Each removal is answered within 5 s: done, or refused while /readyz
says why. When there is room again, all is answered within 5 s, and nothing was lost.
C10DD_NEARLY_FULL=2GiB: for two minutes, with the default options, on a disk of that size."""
import os
import random
import sys
import threading
import time
import unittest

import wire
from daemon import SLOWDOWN, Daemon
from small_disk import SmallDisk, Writer, why_no_small_disk
from wire import Wire, text

MIB = 2**20
LONG = os.environ.get("C10DD_NEARLY_FULL") == "2GiB"
SIZE = 2048 * MIB if LONG else 64 * MIB
OPTIONS = () if LONG else ("--disk-reserve", "32MiB", "--disk-minimum", "8MiB",
                           "--disk-ballast", "4MiB")
ROWS = 400 * MIB if LONG else 12 * MIB
VALUE = 64 * 1024 if LONG else 8 * 1024
LEFT = 60 * MIB if LONG else MIB // 2  # what the other file leaves
SECONDS = 120 if LONG else 20
PACE = 0.05
BOUND = 5 * SLOWDOWN


class Remover:
    """A client that is told no: each attempt is answered, or BOUND seconds are over."""

    def __init__(self, daemon, job="test"):
        self.daemon, self.job = daemon, job
        self.session = os.urandom(16)
        self.wire = None
        self.sequence = 0

    def ask(self, op, body, sequence):
        """The code of the answer; None if the connection ended without one."""
        try:
            if self.wire is None:
                self.wire = Wire(self.daemon.address)
                self.wire.socket.settimeout(BOUND)
                greeting = self.wire.hello(session=self.session, job=self.job)
                if greeting is None or greeting.code != "ok":
                    self.close()
                    return greeting and greeting.code
            reply = self.wire.call(op, body, sequence=sequence, acked_below=sequence)
            if reply is None or reply.code == "unavailable":
                self.close()
            return reply and reply.code
        except TimeoutError:
            self.close()
            raise
        except OSError:
            self.close()
            return None

    def call(self, op, body):
        """A new request, asked until there is an answer."""
        self.sequence += 1
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            code = self.ask(op, body, self.sequence)
            if code is not None:
                return code
            time.sleep(0.02)
        raise TimeoutError

    def close(self):
        if self.wire:
            self.wire.close()
        self.wire = None


class NearlyFullDisk(unittest.TestCase):
    def setUp(self):
        self.disk = SmallDisk(SIZE)
        self.daemon = Daemon(*OPTIONS, engine=f"rocksdb:{self.disk.folder}/state").start()
        self.random = random.Random(7)
        self.stored = {}
        self.left = LEFT
        self.over = threading.Event()
        self.stranger = threading.Thread(target=self.grow)

    def tearDown(self):
        self.over.set()
        if self.stranger.is_alive():
            self.stranger.join()
        if self.daemon.process.poll() is None:
            self.daemon.kill()
        if sys.exc_info()[0]:
            print(self.daemon.errors()[-4000:])
        self.daemon.log.close()
        self.disk.remove()

    def grow(self):
        while not self.over.wait(0.01):
            self.disk.take(self.left)

    def fill(self):
        writer = Writer(self.daemon, "writer")
        for number in range(ROWS // VALUE):
            key, value = f"key{number}", self.random.randbytes(VALUE)
            writer.request(wire.SET, text(key) + text(value), key)
            self.stored[key] = value
            while len(writer.open) >= 16:
                self.assertEqual("ok", writer.answer()[1].code)
        while writer.open:
            self.assertEqual("ok", writer.answer()[1].code)
        writer.wire.close()

    def why(self):
        """What /readyz says against serving; empty if nothing."""
        status, body = self.daemon.http("/readyz")
        return body if status == 503 or "note:" in body else ""

    def answered(self, client, op, body):
        start = time.monotonic()
        try:
            code = client.call(op, body)
        except TimeoutError:
            self.fail(f"no answer in {BOUND} s; free {self.disk.free()}; {self.why() or 'ready'}")
        self.slowest = max(self.slowest, time.monotonic() - start)
        return code

    def remove_some(self, client, keys):
        """Removes a key each 50 ms for SECONDS; counts what was done and refused."""
        done, refused, jobs = 0, 0, 0
        begun = time.monotonic()
        while time.monotonic() < begun + SECONDS:
            code = self.answered(client, wire.REMOVE, text(keys[-1]))
            # After an unknown outcome the daemon may have removed it already.
            if code in ("ok", "not_found"):
                del self.stored[keys.pop()]
                done += 1
            else:
                self.assertIn(code, ("disk_full", "unavailable"))
                self.assertTrue(self.why(), f"{code}, and /readyz says nothing")
                refused += 1
            if time.monotonic() > begun + 2 * jobs:  # of a job that is not loaded
                jobs += 1
                stranger = Remover(self.daemon, job=f"job {jobs}")
                self.answered(stranger, wire.GET, text("k") + bytes(8))
                stranger.close()
            time.sleep(PACE)
        return done, refused

    def check_stored(self):
        reader = Writer(self.daemon, "reader")
        for number in range(ROWS // VALUE):
            key = f"key{number}"
            reply = reader.get(key)
            value = self.stored.get(key)
            self.assertEqual("ok" if value else "not_found", reply.code, key)
            if value:
                self.assertEqual(value, reply.body[4:4 + len(value)], key)
        reader.wire.close()

    def test_removals_while_another_file_takes_what_is_freed(self):
        self.fill()
        keys = list(self.stored)
        self.random.shuffle(keys)
        client = Remover(self.daemon)
        self.slowest = 0
        self.stranger.start()
        done, refused = self.remove_some(client, keys)
        print(f"{done} removals done, {refused} refused, slowest answer {self.slowest:.2f} s")
        self.assertGreater(done + refused, SECONDS)

        self.over.set()
        self.stranger.join()
        self.disk.give_back()
        back = time.monotonic()
        while self.answered(client, wire.SET, text("room") + text("again")) != "ok":
            self.assertLess(time.monotonic(), back + BOUND, self.why())
            time.sleep(0.05)
        print(f"served {time.monotonic() - back:.2f} s after there was room")
        for number in range(20):
            self.assertEqual("ok", self.answered(client, wire.REMOVE, text(keys[-1])))
            del self.stored[keys.pop()]
            self.assertEqual("ok", self.answered(client, wire.SET, text(f"new{number}") + text("v")))
        client.close()
        self.check_stored()
        self.daemon.kill()
        self.daemon.start()
        self.check_stored()
        self.assertEqual(0, self.daemon.stop())


if __name__ == "__main__":
    missing = why_no_small_disk()
    if missing:
        print("skipped:", missing)
        sys.exit(77)
    unittest.main(verbosity=2)
