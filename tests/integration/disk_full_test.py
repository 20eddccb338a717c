# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up and is freed, round after round: growth is refused with a definite error,
reads and removals go on, service comes back by itself, and nothing acknowledged is lost, also where
the daemon is killed meanwhile or the engine runs out of room in the middle of a write."""
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

import wire
from daemon import SLOWDOWN, Daemon
from wire import Wire, frame, text

SIZE = 64 * 2**20
RESERVE = 32 * 2**20
MINIMUM = 8 * 2**20
ROUNDS = int(os.environ.get("C10DD_DISK_ROUNDS", "20"))
WRITERS = 4
DEPTH = 8
VALUE = 32 * 1024


class Writer:
    """One session that survives the daemon: what has no answer is sent again."""

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name
        self.session = os.urandom(16)
        self.sequence = 0
        self.open = {}  # sequence: (key, frame)
        self.wire = None
        self.connect()

    def connect(self):
        if self.wire:
            self.wire.close()
        deadline = time.monotonic() + 15
        while True:
            try:
                self.wire = Wire(self.daemon.address)
                reply = self.wire.hello(session=self.session)
                if reply and reply.code == "ok":
                    break
                self.wire.close()
            except OSError:
                reply = None
            if time.monotonic() > deadline:
                raise AssertionError(f"no way back to the daemon: {reply}")
            time.sleep(0.05)
        for _, data in self.open.values():
            self.wire.send(data)

    def request(self, op, body, key=None):
        self.sequence += 1
        below = min(self.open, default=self.sequence)
        data = frame(op, body, sequence=self.sequence, acked_below=below)
        self.open[self.sequence] = (key, data)
        try:
            self.wire.send(data)
        except OSError:
            self.connect()

    def answer(self):
        """(key, reply) of some open request, over the death of the connection."""
        while True:
            try:
                reply = self.wire.reply()
            except OSError:
                reply = None
            if reply is not None and reply.sequence in self.open:
                return self.open.pop(reply.sequence)[0], reply
            if reply is not None and reply.code != "unavailable":
                raise AssertionError(f"unexpected: {reply!r} {reply.sequence} {list(self.open)}")
            self.connect()

    def call(self, op, body):
        assert not self.open
        self.request(op, body)
        return self.answer()[1]

    def set(self, key, value):
        return self.call(wire.SET, text(key) + text(value))

    def get(self, key):
        return self.call(wire.GET, text(key) + bytes(8))


class DiskFull(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="c10dd-disk-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", self.folder],
                       check=True)
        self.daemon = Daemon("--disk-reserve", str(RESERVE), "--disk-minimum", str(MINIMUM),
                             "--disk-ballast", "4MiB", engine=f"rocksdb:{self.folder}/state")
        self.daemon.start()
        self.writers = [Writer(self.daemon, f"w{n}") for n in range(WRITERS)]
        self.filler = os.path.join(self.folder, "filler")
        self.random = random.Random(1)
        self.stored = {}
        self.values = [self.random.randbytes(VALUE) for _ in range(16)]

    def tearDown(self):
        for writer in self.writers:
            writer.wire.close()
        self.daemon.stop()
        errors = self.daemon.errors()
        self.daemon.log.close()
        subprocess.run(["umount", self.folder], check=True)
        os.rmdir(self.folder)
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

    def take(self, leave):
        """A file that leaves so many bytes of the file system, or as many as there are; it grows."""
        with open(self.filler, "ab") as file:
            while True:
                disk = os.statvfs(self.folder)
                step = min(disk.f_bavail * disk.f_frsize - leave, 2**20)
                if step <= 0:
                    return
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
                except OSError:  # the daemon was quicker
                    return

    def use_up_all(self):
        """Nothing is left, sooner than the daemon looks: a write fails inside the engine."""
        self.take(leave=0)
        for n in range(8):  # more than the engine has allocated in advance
            for writer in self.writers:
                key, value = f"squeezed/{n}/{writer.name}", b"x" * 300_000
                writer.request(wire.SET, text(key) + text(value), (key, value))
        time.sleep(0.3)
        os.unlink(self.filler)

    def kill(self):
        self.daemon.kill()
        self.daemon.start()

    def refusal(self):
        """Of a set while the disk is full, which ends when the engine has made room."""
        deadline = time.monotonic() + 10 * SLOWDOWN
        while True:
            self.take(leave=RESERVE - 8 * 2**20)
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
            if "note: disk of" in body and "c10dd_disk_full 1" in self.daemon.http("/metrics")[1]:
                return
            self.assertLess(time.monotonic(), deadline, body)

    def check_while_full(self, refused):
        writer = self.writers[0]
        reply = self.refusal()
        for key in refused[-5:]:
            self.assertEqual("not_found", writer.get(key).code, key)
        limits = f"({RESERVE} for growth|{MINIMUM} for any change but removals)"
        self.assertRegex(reply.detail, f"{self.folder}.*: [0-9]+ bytes free, limit {limits}; remove")
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
        if os.path.exists(self.filler):
            os.unlink(self.filler)
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as probe:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", probe],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print("skipped: a tmpfs cannot be mounted here:", done.stderr.strip())
            sys.exit(77)
        subprocess.run(["umount", probe], check=True)
    unittest.main(verbosity=2)
