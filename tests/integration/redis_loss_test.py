#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a Redis has lost while the daemon runs, or between two starts of it, is noticed."""
import contextlib
import socket
import tempfile
import time
import unittest

from daemon import Daemon
from redis_server import redis_server
from wire import Wire

PATIENCE = 20


def command(port, *words):
    """Runs a command of Redis, and returns the first bytes of its reply."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as link:
        parts = [word.encode() for word in words]
        link.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return link.recv(4096)


class RedisLoss(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.port, _ = stack.enter_context(redis_server(folder.name))
        self.daemon = stack.enter_context(Daemon(engine=f"redis://127.0.0.1:{self.port}"))

    def retry(self, job, call):
        """Calls with a session of its own until the reply is a success, as a client would."""
        until = time.monotonic() + PATIENCE
        while True:
            code = "no reply"
            with contextlib.suppress(OSError, EOFError), contextlib.closing(Wire(self.daemon.address)) as client:
                code = client.hello(job=job).code
                if code == "ok":
                    reply = call(client)
                    if reply.code == "ok":
                        return reply
                    code = reply.code
            self.assertLess(time.monotonic(), until, f"{job}: {code}\n{self.daemon.errors()}")
            time.sleep(0.05)

    def set(self, job, value):
        self.retry(job, lambda client: client.set("who", value))

    def get(self, job):
        return self.retry(job, lambda client: client.get("who")).body

    def test_after_flushall_no_job_gets_the_rows_of_another(self):
        for job in "ABC":
            self.set(job, f"before {job}")
        self.assertEqual(b"+OK\r\n", command(self.port, "FLUSHALL"))
        for job in "CBA":  # in another order, so that numbers are given anew
            self.set(job, f"after {job}")
        self.assertIn("event=engine_lost", self.daemon.errors())
        for _ in range(2):
            for job in "BCA":
                self.assertIn(f"after {job}".encode(), self.get(job))
            self.daemon.kill()
            self.daemon.start()

    def test_rows_that_were_erased_are_noticed_while_the_daemon_runs(self):
        self.set("A", "1")
        self.assertEqual(b":1\r\n", command(self.port, "DEL", "c10dd:{1}:rows"))
        with contextlib.closing(Wire(self.daemon.address)) as client:
            client.hello(job="A")
            client.set("who", "2")
        self.expect_damage()

    def test_rows_that_were_erased_are_noticed_at_the_next_start(self):
        self.set("A", "1")
        self.set("B", "1")
        self.daemon.kill()
        self.assertEqual(b":1\r\n", command(self.port, "DEL", "c10dd:{1}:rows"))
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
        self.assertRegex(page, r"c10dd:\{1\}:rows has 0 rows, but \d+ are durable: rows were erased or evicted")


if __name__ == "__main__":
    unittest.main()
