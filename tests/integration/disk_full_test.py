# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up and is freed, round after round: growth is refused with a definite error,
reads and removals go on, service comes back by itself, and nothing acknowledged is lost, also where
the daemon is killed meanwhile or the engine runs out of room in the middle of a write.

    C10DD_DISK_ROUNDS=20 C10DD_BIN=build/bin python3 tests/integration/disk_full_test.py

fills and frees 20 times; without C10DD_DISK_ROUNDS 8 times, which have each disturbance.
"""
import os
import random
import subprocess
import sys
import time
import unittest

import at_once
import wire
from daemon import SLOWDOWN, Daemon
from small_disk import SmallDisk, Writer, why_no_small_disk
from wire import text

SIZE = 64 * 2**20
RESERVE = 32 * 2**20
MINIMUM = 8 * 2**20
ROUNDS = int(os.environ.get("C10DD_DISK_ROUNDS", "8"))
WRITERS = 4
DEPTH = 8
VALUE = 32 * 1024


class DiskFull(unittest.TestCase):
    def setUp(self):
        self.disk = SmallDisk(SIZE)
        self.folder = self.disk.folder
        self.daemon = Daemon("--disk-reserve", str(RESERVE), "--disk-minimum", str(MINIMUM),
                             "--disk-ballast", "4MiB", engine=f"rocksdb:{self.folder}/state")
        self.daemon.start()
        self.writers = [Writer(self.daemon, f"w{n}") for n in range(WRITERS)]
        self.random = random.Random(1)
        self.stored = {}
        self.values = [self.random.randbytes(VALUE) for _ in range(16)]

    def tearDown(self):
        for writer in self.writers:
            writer.wire.close()
        self.daemon.stop()
        errors = self.daemon.errors()
        self.daemon.log.close()
        self.disk.remove()
        if sys.exc_info()[0]:
            print(errors)

    def fill(self, number, disturb):
        """Sets until growth is refused for good; the refused keys."""
        refused, count, quiet = [], 0, 0
        deadline = time.monotonic() + 40 * SLOWDOWN
        # Where the engine makes room just then, all may be refused at first.
        while quiet < 2 or not self.stored:
            self.assertLess(time.monotonic(), deadline)
            full = False
            for writer in self.writers:
                for _ in range(DEPTH):
                    key = f"{number}/{writer.name}/{count}"
                    count += 1
                    writer.request(wire.SET, text(key) + text(self.values[count % 16]),
                                   (key, self.values[count % 16]))
            if disturb and count >= 3 * WRITERS * DEPTH:
                disturb()
                disturb = None
            for writer in self.writers:
                while writer.open:
                    (key, value), reply = writer.answer()
                    if reply.code == "ok":
                        self.stored[key] = value
                        continue
                    self.assertEqual("disk_full", reply.code, reply)
                    refused.append(key)
                    full = True
            quiet = quiet + 1 if full else 0
            if full:
                time.sleep(0.25)  # until the daemon has looked again
        return refused

    def use_up_all(self):
        """Nothing is left, sooner than the daemon looks: a write fails inside the engine."""
        self.disk.take(leave=0)
        for n in range(8):  # more than the engine has allocated in advance
            for writer in self.writers:
                key, value = f"squeezed/{n}/{writer.name}", b"x" * 300_000
                writer.request(wire.SET, text(key) + text(value), (key, value))
        time.sleep(0.3)
        self.disk.give_back()

    def kill(self):
        self.daemon.kill()
        self.daemon.start()

    def refusal(self):
        """Of a set while the disk is full, which ends when the engine has made room."""
        deadline = time.monotonic() + 10 * SLOWDOWN
        while True:
            self.disk.take(leave=RESERVE - 8 * 2**20)
            reply = self.writers[0].set("one more", b"x")
            if reply.code != "ok":
                self.assertEqual("disk_full", reply.code)
                return reply
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def check_shown(self):
        deadline = time.monotonic() + 10 * SLOWDOWN
        while True:
            self.refusal()
            status, body = self.daemon.http("/readyz")
            self.assertEqual(200, status)
            if "note: the disk of" in body and "c10dd_disk_full 1" in self.daemon.http("/metrics")[1]:
                return
            self.assertLess(time.monotonic(), deadline, body)

    def check_while_full(self, refused):
        writer = self.writers[0]
        reply = self.refusal()
        for key in refused[-5:]:
            self.assertEqual("not_found", writer.get(key).code, key)
        limits = f"(writes that add data need {RESERVE}|all changes except removals need {MINIMUM})"
        self.assertRegex(reply.detail, f"{self.folder}.* has [0-9]+ bytes free, but {limits}; remove")
        key = self.random.choice(list(self.stored))
        self.assertEqual("ok", writer.call(wire.REMOVE, text(key)).code)
        del self.stored[key]
        self.assertEqual("not_found", writer.get(key).code)
        barrier = writer.call(wire.BARRIER,
                              text("alone") + wire.struct.pack("<QQIIq", 0, writer.sequence, 0, 1, 0))
        self.assertEqual("ok", barrier.code)
        self.check_shown()

    def check_stored(self):
        writer = self.writers[-1]
        for key, value in self.stored.items():
            reply = writer.get(key)
            self.assertEqual("ok", reply.code, key)
            self.assertEqual(value, reply.body[4:4 + len(value)], key)

    def files(self):
        state = os.path.join(self.folder, "state")
        return subprocess.run(["ls", "-l", state, os.path.join(state, "rows")], check=False,
                              capture_output=True, text=True).stdout

    def free(self, number):
        writer = self.writers[1]
        self.assertEqual("ok", writer.call(wire.REMOVE_PREFIX, text(f"{number}/")).code)
        self.assertEqual("ok", writer.call(wire.REMOVE_PREFIX, text("squeezed/")).code)
        self.disk.give_back()
        self.stored.clear()
        # After a compaction that had no room RocksDB looks every 5 s whether there is some.
        deadline = time.monotonic() + 40 * SLOWDOWN
        while True:
            reply = writer.set("room", b"again")
            if reply.code == "ok":
                return
            self.assertEqual("disk_full", reply.code)
            self.assertLess(time.monotonic(), deadline, "no room though all keys were removed: " +
                            reply.detail + "\n" + self.files() + self.daemon.errors()[-2000:])
            time.sleep(0.05)

    def test_rounds_of_filling_and_freeing(self):
        disturbances = {1: self.kill, 3: self.use_up_all}
        for number in range(ROUNDS):
            refused = self.fill(number, disturbances.get(number % 4))
            self.check_while_full(refused)
            self.check_stored()
            if number % 8 == 6:
                self.kill()
                self.check_stored()
            self.free(number)
        self.assertIn("event=engine_lost", self.daemon.errors(), "no write met a full disk")


class SmallReserve(unittest.TestCase):
    """Removed keys give their room back however small the reserve is."""

    def setUp(self):
        self.disk = SmallDisk(96 * 2**20)
        self.daemon = Daemon("--disk-reserve", "4MiB", "--disk-minimum", "1MiB", "--disk-ballast",
                             "1MiB", engine=f"rocksdb:{self.disk.folder}/state").start()
        self.writer = Writer(self.daemon, "writer")
        self.random = random.Random(1)

    def tearDown(self):
        self.writer.wire.close()
        self.daemon.stop()
        self.daemon.log.close()
        self.disk.remove()

    def pipeline(self, requests):
        """The codes of the answers, in the order in which they come."""
        for op, body in requests:
            self.writer.request(op, body)
            while len(self.writer.open) >= 16:
                yield self.writer.answer()[1].code
        while self.writer.open:
            yield self.writer.answer()[1].code

    def fill(self, number):
        """How many keys fit before growth is refused for good: for so long without a key between,
        since what was removed gives its room back some seconds later."""
        fit = 0
        refused_since = None
        patience = (10 if number > 0 else 2) * SLOWDOWN
        while refused_since is None or time.monotonic() < refused_since + patience:
            sets = [(wire.SET, text(f"{number}/{fit + n}") + text(self.random.randbytes(20_000)))
                    for n in range(16)]
            for code in self.pipeline(sets):
                fit += code == "ok"
                if code == "ok":
                    refused_since = None
                else:
                    self.assertEqual("disk_full", code)
                    refused_since = refused_since or time.monotonic()
            if refused_since:
                time.sleep(0.1)  # until the daemon may have looked again
        return fit

    def test_each_fill_has_as_much_room_as_the_first(self):
        fit = []
        for number in range(3):
            fit.append(self.fill(number))
            for code in self.pipeline((wire.REMOVE, text(f"{number}/{n}"))
                                      for n in range(fit[-1] + 64)):
                self.assertIn(code, ("ok", "not_found"))
            deadline = time.monotonic() + 60 * SLOWDOWN
            while "note:" in (body := self.daemon.http("/readyz")[1]):
                self.assertLess(time.monotonic(), deadline, f"{fit}: {body}")
                time.sleep(0.1)
        print(f"keys that fit: {fit}")
        self.assertGreater(fit[0], 1000)
        self.assertGreater(min(fit), 0.8 * max(fit))


if __name__ == "__main__":
    missing = why_no_small_disk()
    if missing:
        print("skipped:", missing)
        sys.exit(77)
    at_once.main(2)
