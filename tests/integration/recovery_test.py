# SPDX-License-Identifier: Apache-2.0
"""Damaged and older state, as the operator and the clients meet it: the real daemon refuses with
exit code 78 and says why, --accept-rollback is the way on, and clients that saw more are told."""
import contextlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request
import zlib

import at_once
from daemon import BIN, SLOWDOWN, Daemon
from wire import Wire

ROWS = 60


def stamp_of(reply):
    """(incarnation, epoch, revision) of an answer."""
    return tuple(reply.stamp)


class Recovery(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.state = os.path.join(self.folder.name, "state")
        self.seen = None

    def daemon(self, *arguments):
        daemon = Daemon(*arguments, engine=f"rocksdb:{self.state}")
        self.addCleanup(daemon.stop)
        return daemon

    def write(self, daemon, start=0, job="test", pad=""):
        """Acknowledged sets; remembers the newest stamp that a client has seen."""
        wire = Wire(daemon.address)
        self.addCleanup(wire.close)
        self.assertEqual("ok", wire.hello(job=job).code)
        for n in range(start, start + ROWS):
            reply = wire.set(f"key{n}", f"value{n}{pad}")
            self.assertEqual("ok", reply.code, reply)
            self.seen = stamp_of(reply)
        wire.close()

    def fill(self, *arguments):
        with self.daemon(*arguments) as daemon:
            self.write(daemon)

    def file(self, part):
        """The newest file of rows/ whose name has this part."""
        rows = os.path.join(self.state, "rows")
        return os.path.join(rows, max(name for name in os.listdir(rows)
                                      if part in name and name != "LOG"))

    def refuses(self, *words, code=78):
        daemon = self.daemon()
        with self.assertRaises(RuntimeError) as refused:
            daemon.start()
        for word in (f"exit {code}", self.state, *words):
            self.assertIn(str(word), str(refused.exception))
        daemon.process.stdout.close()
        daemon.log.close()

    def hello(self, daemon, **options):
        wire = Wire(daemon.address)
        reply = wire.hello(**options)
        wire.close()
        return reply

    def greeting(self, daemon, stamp):
        return self.hello(daemon, stamp=stamp).code

    def test_bad_input_19_log_damaged_below_the_high_water_mark(self):
        self.fill()
        log = self.file(".log")
        with open(log, "r+b") as file:
            file.seek(os.path.getsize(log) // 2)
            file.write(b"\xff\x00\xff")
        mark = self.mark()
        self.refuses(log, f"the high-water mark is at {mark}", "--accept-rollback")
        self.refuses(log, f"the high-water mark is at {mark}")

        with self.daemon("--accept-rollback") as daemon:
            self.assertIn("event=state_rolled_back", daemon.errors())
            self.assertEqual("state_rolled_back", self.greeting(daemon, self.seen))
            self.write(daemon, start=1000)
        with self.daemon() as daemon:
            self.assertNotIn("event=state_rolled_back", daemon.errors())
            self.assertEqual("ok", self.greeting(daemon, self.seen))

    def mark(self):
        """The sequence of the newer slot; see store/rocks/high_water.cc."""
        with open(os.path.join(self.state, "highwater"), "rb") as file:
            data = file.read()
        slots = [struct.unpack_from("<8sIIQQ", data, at) for at in (0, 4096)]
        return max((turn, sequence) for _, _, _, turn, sequence in slots)[1]

    def test_bad_input_19_newer_format(self):
        self.fill()
        path = os.path.join(self.state, "highwater")
        with open(path, "r+b") as file:
            slot = bytearray(file.read(4096))
            length, = struct.unpack_from("<I", slot, 12)
            struct.pack_into("<I", slot, 8, 7)
            struct.pack_into("<I", slot, 24 + length, zlib.crc32(slot[:24 + length]))
            file.seek(0)
            file.write(slot)
        self.refuses(path, "format 7", "up to 1", "newer daemon")

    def test_lost_files(self):
        self.fill()
        self.fill()  # the second start wrote the first log out as a table
        for part in (".sst", "MANIFEST", "CURRENT", ".log"):
            with self.subTest(part=part):
                path = self.file(part)
                os.rename(path, self.state + ".aside")
                self.refuses()
                os.rename(self.state + ".aside", path)
        with self.daemon() as daemon:
            self.assertEqual("ok", self.greeting(daemon, self.seen))

    def not_ready(self, daemon):
        """What /readyz says, once it says that requests are not served."""
        with contextlib.closing(Wire(daemon.address)) as wire:
            wire.hello()
            deadline = time.monotonic() + 30 * SLOWDOWN
            number = 0
            # Files that are open stay writable: it is noticed when the next one is looked for.
            while (reply := wire.set(f"late{number % 400}", "v" * 100_000)):
                if reply.code != "ok":
                    break
                number += 1
                self.assertLess(time.monotonic(), deadline, "nothing is noticed")
        while True:
            status, body = daemon.http("/readyz")
            if status == 503 and "acknowledged" in body:
                return body
            self.assertLess(time.monotonic(), deadline, body)
            time.sleep(0.05)

    def test_a_state_directory_that_vanished_is_not_made_anew(self):
        away = self.state + ".away"
        with self.daemon() as daemon:
            self.write(daemon)
            os.rename(self.state, away)
            body = self.not_ready(daemon)
            for word in ("state_rolled_back", self.state, "is gone"):
                self.assertIn(word, body)
            self.assertIn("c10dd_ready 0", daemon.http("/metrics")[1])
            reply = self.hello(daemon)
            self.assertEqual("unavailable", reply.code)
            self.assertIn("state_rolled_back", reply.detail)
            self.assertFalse(os.path.exists(self.state), "it was made anew")

            os.rename(away, self.state)  # as a disk that is mounted again
            deadline = time.monotonic() + 30 * SLOWDOWN
            while self.hello(daemon).code != "ok":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.assertEqual(200, daemon.http("/readyz")[0])
            self.assertEqual("ok", self.greeting(daemon, self.seen))
            with contextlib.closing(Wire(daemon.address)) as wire:
                wire.hello()
                for n in range(ROWS):
                    self.assertIn(b"value", wire.get(f"key{n}").body)

            shutil.rmtree(self.state)
            self.assertIn("is gone", self.not_ready(daemon))
            self.assertEqual("unavailable", self.hello(daemon).code)

    def test_first_start_warns_of_nothing(self):
        with self.daemon() as daemon:
            self.assertNotIn("level=warn", daemon.errors())
            self.assertNotIn("level=error", daemon.errors())

    def test_damaged_table_is_named_to_the_operator_and_to_the_clients_of_its_jobs(self):
        with self.daemon() as daemon:
            for job in ("hurt", "whole"):
                self.write(daemon, job=job, pad=f"of {job}" + "." * 500)
        self.fill()  # the second start wrote the first log out as a table
        table = self.file(".sst")
        with open(table, "r+b") as file:
            file.seek(file.read().index(b"value37of hurt"))
            file.write(b"VALUE")
        self.refuses(table, "Corruption")

        with self.daemon("--accept-rollback") as daemon:
            self.assertRegex(daemon.errors(), f"event=state_damaged .*{table}: Corruption")
            self.assertNotIn("event=state_rolled_back", daemon.errors())
            for _ in range(2):
                status, body = daemon.http("/readyz")
                self.assertEqual(200, status)
                self.assertIn("note: degraded", body)
                self.assertIn(table, body)
                reply = self.hello(daemon, job="hurt")
                self.assertEqual("unavailable", reply.code)
                for word in (table, "Corruption", "restore a checkpoint"):
                    self.assertIn(word, reply.detail)
            self.assertEqual("ok", self.hello(daemon, job="whole").code)
            # Who tries again does not make the daemon read it again.
            self.assertEqual(1, daemon.errors().count("event=job_load_failed job=hurt"))
        self.refuses(table, "Corruption")

    def test_checkpoint_is_restored_as_another_incarnation(self):
        copy = os.path.join(self.folder.name, "copy")
        with self.daemon() as daemon:
            self.write(daemon)
            host, port = daemon.address
            request = urllib.request.Request(f"http://{host}:{port}/v1/checkpoint", method="POST",
                                             data=json.dumps({"path": copy}).encode(),
                                             headers={"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                self.assertEqual(200, answer.status)
            self.write(daemon, start=1000)
        self.state = copy
        for first in (True, False):
            with self.daemon() as daemon:
                self.assertEqual(first, "restored from a checkpoint" in daemon.errors())
                self.assertEqual("state_rolled_back", self.greeting(daemon, self.seen))
                wire = Wire(daemon.address)
                self.addCleanup(wire.close)
                self.assertEqual("ok", wire.hello().code)
                self.assertIn(b"value7", wire.get("key7").body)
                self.assertEqual("not_found", wire.get("key1000").code)

    def test_checkpoint_is_asked_for_by_the_program_itself(self):
        def ask(path, listen):
            done = subprocess.run([os.path.join(BIN, "c10dd"), "--listen", listen, "--checkpoint",
                                   path], cwd=self.folder.name, capture_output=True, text=True,
                                  timeout=20, check=False)
            return done.returncode, done.stdout + done.stderr
        copy = os.path.join(self.folder.name, "copy")
        with self.daemon() as daemon:
            self.write(daemon)
            listen = "{}:{}".format(*daemon.address)
            self.assertEqual((0, f"checkpoint written to {copy}\n"), ask("copy", listen))
            self.assertEqual(
                (64, f"c10dd: checkpoint {copy}: the path already exists; choose another one\n"),
                ask("copy", listen))
        code, said = ask("copy", listen)
        self.assertEqual(69, code)
        self.assertIn(f"no daemon answers HTTP at {listen}: Connection refused", said)
        self.state = copy
        with self.daemon() as daemon:
            self.assertIn("restored from a checkpoint", daemon.errors())

    def test_clean_stop_with_durability_none_keeps_everything(self):
        self.fill("--durability", "none")
        with self.daemon("--durability", "none") as daemon:
            self.assertNotIn("event=state_rolled_back", daemon.errors())
            self.assertEqual("ok", self.greeting(daemon, self.seen))

    def test_kill_with_durability_none_is_said_loudly(self):
        daemon = self.daemon("--durability", "none").start()
        self.write(daemon)
        daemon.kill()
        daemon.log.close()
        with self.daemon("--durability", "none") as daemon:
            self.assertIn("event=state_rolled_back", daemon.errors())
            self.assertEqual("state_rolled_back", self.greeting(daemon, self.seen))

    def test_kill_keeps_everything(self):
        for durability in ("fsync", "os"):
            with self.subTest(durability=durability):
                daemon = self.daemon("--durability", durability).start()
                self.write(daemon)
                daemon.kill()
                daemon.log.close()
                with self.daemon("--durability", durability) as daemon:
                    self.assertNotIn("event=state_rolled_back", daemon.errors())
                    self.assertEqual("ok", self.greeting(daemon, self.seen))


if __name__ == "__main__":
    at_once.main()
