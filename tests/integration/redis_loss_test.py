#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a Redis has lost while the daemon runs, or between two starts of it, is noticed."""
import contextlib
import os
import tempfile
import time
import unittest

import at_once
from daemon import Daemon, SLOWDOWN
from redis_server import redis_server
from resp import command
from wire import Wire

PATIENCE = 20 * SLOWDOWN


class RedisLoss(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.port, _ = self.stack.enter_context(redis_server(folder.name))
        self.daemon = self.start()

    def start(self, *options):
        return self.stack.enter_context(
            Daemon("--lease", "1", *options, engine=f"redis://127.0.0.1:{self.port}"))

    def redis(self, *words):
        return command(self.port, *words)

    def refused(self, *options, code=78):
        """The text of a daemon that does not start on this state."""
        found, text = Daemon("--lease", "1", *options, engine=f"redis://127.0.0.1:{self.port}").refusal()
        self.assertEqual(code, found, text)
        return text

    def wait_for_heartbeats(self, count, daemon):
        until = time.monotonic() + PATIENCE
        while int(self.redis("HGET", "c10dd:pulse", "count")) < count:
            self.assertLess(time.monotonic(), until, daemon.errors())
            time.sleep(0.05)

    def wait_until_stopped(self, daemon, reason):
        """The daemon serves nothing, and /readyz says why."""
        until = time.monotonic() + PATIENCE
        status, page = daemon.http("/readyz")[:2]
        while status == 200 or reason not in page or "state_rolled_back" not in page:
            self.assertLess(time.monotonic(), until, page + daemon.errors())
            time.sleep(0.05)
            status, page = daemon.http("/readyz")[:2]
        self.assertIn("--accept-rollback", page)
        with contextlib.closing(Wire(daemon.address)) as client:
            self.assertNotEqual("ok", client.hello(job="A").code)

    def retry(self, job, call, daemon=None):
        """Calls with a session of its own until the reply is a success, as a client would."""
        until = time.monotonic() + PATIENCE
        while True:
            code = "no reply"
            with contextlib.suppress(OSError, EOFError), contextlib.closing(Wire((daemon or self.daemon).address)) as client:
                code = client.hello(job=job).code
                if code == "ok":
                    reply = call(client)
                    if reply.code == "ok":
                        return reply
                    code = reply.code
            self.assertLess(time.monotonic(), until, f"{job}: {code}\n{self.daemon.errors()}")
            time.sleep(0.05)

    def set(self, job, value, daemon=None):
        self.retry(job, lambda client: client.set("who", value), daemon)

    def get(self, job, daemon=None):
        return self.retry(job, lambda client: client.get("who"), daemon).body

    def test_after_flushall_nothing_is_served_until_an_operator_accepts_it(self):
        other = self.start()
        for job in "ABC":
            self.set(job, f"before {job}", self.daemon if job != "B" else other)
        self.redis("FLUSHALL")
        for daemon in (self.daemon, other):
            self.wait_until_stopped(daemon, "")
        self.assertRegex(self.redis("HGET", "c10dd:pulse", "rolled_back").decode(), r"noticed by 127.0.0.1:\d+")
        self.assertIn("--accept-rollback", self.refused())
        operators = self.start("--accept-rollback")
        self.assertRegex(operators.errors(), "event=state_rolled_back engine=redis incarnation=[0-9a-f]{16} reason=")
        self.assertIsNone(self.redis("HGET", "c10dd:pulse", "rolled_back"))
        for job, daemon in (("C", self.daemon), ("B", operators), ("A", other)):
            self.set(job, f"after {job}", daemon)
            self.assertEqual(200, daemon.http("/readyz")[0])
        for daemon in (self.daemon, other):
            self.assertIn("event=rollback_accepted", daemon.errors())
            daemon.kill()
        operators.kill()
        self.daemon.start()  # in another order: no job gets the rows of another
        for job in "BCA":
            self.assertIn(f"after {job}".encode(), self.get(job))

    def test_flushall_between_two_starts_mixes_no_jobs(self):
        for job in "ABC":
            self.set(job, f"before {job}")
        self.daemon.kill()
        self.redis("FLUSHALL")
        self.daemon.start()  # a daemon without --mark cannot know that there was something
        for job in "CBA":
            self.set(job, f"after {job}")
        self.daemon.kill()
        self.daemon.start()
        for job in "BCA":
            self.assertIn(f"after {job}".encode(), self.get(job))

    def test_a_client_from_before_an_accepted_loss_is_told(self):
        session = os.urandom(16)
        with contextlib.closing(Wire(self.daemon.address)) as client:
            self.assertEqual("ok", client.hello(session=session, job="A").code)
            stamp = client.set("who", "1").stamp
        self.wait_for_heartbeats(5, self.daemon)
        self.redis("HINCRBY", "c10dd:pulse", "count", "-3")
        self.wait_until_stopped(self.daemon, "the state has heartbeat count ")
        self.start("--accept-rollback")
        self.assertIn(b"1", self.get("A"))
        with contextlib.closing(Wire(self.daemon.address)) as client:
            self.assertEqual("state_rolled_back", client.hello(session=session, job="A", stamp=stamp).code)

    def test_the_mark_keeps_what_was_seen_over_restarts(self):
        mark = os.path.join(self.folder, "mark")
        marked = self.start("--mark", mark)
        self.set("A", "1", marked)
        self.assertTrue(os.path.exists(mark))
        self.wait_for_heartbeats(10, marked)
        marked.stop()
        self.daemon.stop()
        count = int(self.redis("HGET", "c10dd:pulse", "count"))
        self.redis("HSET", "c10dd:pulse", "count", "1")
        self.assertRegex(self.refused("--mark", mark), r"the state has heartbeat count 1, but the count was \d+ before")
        self.redis("HSET", "c10dd:pulse", "count", str(count))
        marked.start()
        self.assertIn(b"1", self.get("A", marked))
        marked.stop()
        self.redis("FLUSHALL")
        self.assertRegex(self.refused("--mark", mark), "has incarnation none instead of [0-9a-f]{16}:")
        accepted = self.start("--mark", mark, "--accept-rollback")
        self.set("A", "2", accepted)
        time.sleep(0.5)
        accepted.stop()
        again = self.start("--mark", mark)
        self.assertIn(b"2", self.get("A", again))
        again.stop()
        with open(mark, "r+b") as file:
            file.write(bytes(8192))
        self.assertIn(f"both slots of {mark} are damaged", self.refused("--mark", mark))

    def test_a_mark_that_cannot_be_written_ends_the_start(self):
        for mark in (self.folder, os.path.join(self.folder, "none", "mark")):
            self.assertIn(f"--mark: {mark}", self.refused("--mark", mark, code=64))

    def test_jobs_without_a_name_are_noticed_at_the_start(self):
        self.set("A", "1")
        self.daemon.stop()
        self.redis("SADD", "c10dd:jobs", "77")
        self.assertIn("1 jobs have no name in the job directory, among them number 77", self.refused())
        operators = self.start("--accept-rollback")
        self.assertIn(b"1", self.get("A", operators))
        until = time.monotonic() + PATIENCE
        while self.redis("SISMEMBER", "c10dd:jobs", "77") != 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        operators.stop()
        self.daemon.start()
        self.set("B", "1")
        self.assertEqual(1, self.redis("SISMEMBER", "c10dd:jobs", "78"), "no number is given twice")

    def take_job_back(self, owner=None):
        """Puts the job A back to what it was before its newest change; then also says who owns it."""
        self.set("A", "1")
        rows = self.redis("HGETALL", "c10dd:{1}:rows")
        head = self.redis("HGETALL", "c10dd:{1}:meta")
        self.set("A", "2")
        for key, pairs in (("c10dd:{1}:rows", rows), ("c10dd:{1}:meta", head)):
            self.redis("DEL", key)
            self.redis("HSET", key, *pairs)
        if owner:
            self.redis("HSET", "c10dd:{1}:meta", "owner", owner)
        until = time.monotonic() + PATIENCE
        while "event=rolled_back" not in self.daemon.errors():
            with contextlib.suppress(OSError, EOFError), contextlib.closing(Wire(self.daemon.address)) as client:
                client.hello(job="A")
                client.set("who", "3")
            self.assertLess(time.monotonic(), until, self.daemon.errors())
            time.sleep(0.05)

    def test_a_commit_below_what_was_durable_stops_the_fleet(self):
        self.take_job_back()
        self.wait_until_stopped(self.daemon, 'the engine has lost durable changes of job "A" (number 1), which was at revision ')

    def test_a_claim_below_what_was_durable_stops_the_fleet(self):
        self.take_job_back(owner="1:7")  # so the commit finds another owner, and the job is claimed again
        self.wait_until_stopped(self.daemon, 'job "A" (number 1) is at revision ')

    def test_rows_that_were_erased_are_noticed_while_the_daemon_runs(self):
        self.set("A", "1")
        self.assertEqual(1, self.redis("DEL", "c10dd:{1}:rows"))
        with contextlib.closing(Wire(self.daemon.address)) as client:
            client.hello(job="A")
            client.set("who", "2")
        self.expect_damage()

    def test_rows_that_were_erased_are_noticed_at_the_next_start(self):
        self.set("A", "1")
        self.set("B", "1")
        self.daemon.kill()
        self.assertEqual(1, self.redis("DEL", "c10dd:{1}:rows"))
        self.daemon.start()
        self.expect_damage()
        self.assertIn(b"1", self.get("B"))

    def expect_damage(self):
        """Job A is not served, and the status page says why."""
        until = time.monotonic() + PATIENCE
        while "event=job_load_failed job=A" not in self.daemon.errors():
            with contextlib.suppress(OSError, EOFError), contextlib.closing(Wire(self.daemon.address)) as client:
                client.hello(job="A")
            self.assertLess(time.monotonic(), until, self.daemon.errors())
            time.sleep(0.05)
        with contextlib.closing(Wire(self.daemon.address)) as client:
            self.assertNotEqual("ok", client.hello(job="A").code)
        status, page = self.daemon.http("/readyz")[:2]
        self.assertEqual(200, status)
        self.assertRegex(page, r"c10dd:\{1\}:rows has 0 rows, but must have \d+: rows were erased or evicted")


if __name__ == "__main__":
    at_once.main(3)
