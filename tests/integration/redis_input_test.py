#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Redis that cannot do what a daemon needs is refused at the start, with a sentence that says what to do."""
import contextlib
import re
import tempfile
import unittest
from pathlib import Path

from daemon import Daemon
from redis_server import Redis, sentinel
from resp import command


class BadServers(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.redis = self.server()

    def server(self, *options):
        return self.stack.enter_context(Redis(self.stack.enter_context(tempfile.TemporaryDirectory()), *options))

    def refused(self, code, url, *options):
        found, text = Daemon(*options, engine=url).refusal()
        self.assertEqual(code, found, text)
        return text

    def url(self, login=""):
        return f"redis://{login}127.0.0.1:{self.redis.port}"

    def test_settings_that_lose_acknowledged_changes(self):
        for name, value, good in (("appendfsync", "everysec", "always"), ("no-appendfsync-on-rewrite", "yes", "no"),
                                  ("appendonly", "no", "yes")):
            command(self.redis.port, "CONFIG", "SET", name, value)
            text = self.refused(64, self.url())
            self.assertIn(f"the setting {name} is {value}, but must be {good}", text)
            self.assertIn("--redis-accept-weak-durability", text)
            command(self.redis.port, "CONFIG", "SET", name, good)
        command(self.redis.port, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "100mb")
        self.assertIn("the setting maxmemory-policy is allkeys-lru with maxmemory 104857600", self.refused(64, self.url()))
        with Daemon("--redis-accept-weak-durability", engine=self.url()) as daemon:
            status, page = daemon.http("/readyz")
            self.assertEqual(200, status, page)
            self.assertIn("none", page)

    def test_a_user_without_a_command(self):
        for missing, code, text in (("-hscan", 77, "may not run HSCAN"), ("-unlink", 77, "may not run UNLINK"),
                                    ("-evalsha", 77, "run the 'evalsha' command"),
                                    ("-config", 64, "cannot read the setting appendonly")):
            command(self.redis.port, "ACL", "SETUSER", "ada", "reset", "on", ">secret", "~c10dd*", "+@all", missing)
            self.assertIn(text, self.refused(code, self.url("ada:secret@")))
        command(self.redis.port, "ACL", "SETUSER", "ada", "reset", "on", ">secret", "~c10dd*", "+@all")
        with Daemon(engine=self.url("ada:secret@")) as daemon:
            self.assertEqual(200, daemon.http("/readyz")[0])

    def test_settings_that_refuse_large_values(self):
        for name, value in (("proto-max-bulk-len", "1048576"), ("client-query-buffer-limit", "2097152")):
            before = command(self.redis.port, "CONFIG", "GET", name)[1].decode()
            command(self.redis.port, "CONFIG", "SET", name, value)
            self.assertIn(f"the setting {name} is {value}, but must be", self.refused(64, self.url()))
            command(self.redis.port, "CONFIG", "SET", name, before)

    def test_the_user_of_the_documentation(self):
        readme = (Path(__file__).resolve().parents[2] / "deploy" / "README.md").read_text()
        rights = re.search(r"`ACL SETUSER c10dd on >PASSWORD (.*)`", readme)[1].split()
        command(self.redis.port, "ACL", "SETUSER", "c10dd", "on", ">secret", *rights)
        with Daemon(engine=self.url("c10dd:secret@")) as daemon:
            self.assertEqual(200, daemon.http("/readyz")[0])

    def test_a_replica(self):
        command(self.redis.port, "REPLICAOF", "127.0.0.1", "1")
        self.assertIn("the server is a replica: use the address of its master", self.refused(69, self.url()))

    def test_sentinels(self):
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        port = self.stack.enter_context(sentinel(folder, self.redis.port))
        hosts = f"127.0.0.1:1,127.0.0.1:{port}"  # the first one is down
        weak = "--redis-accept-weak-durability"
        self.assertIn('the Sentinels do not know a master "nobody"',
                      self.refused(64, f"redis+sentinel://{hosts}/nobody", weak))
        self.assertIn("the server is managed by Sentinel: a failover loses the newest changes",
                      self.refused(64, f"redis+sentinel://{hosts}/training"))
        self.assertIn("the Sentinel at 127.0.0.1:1: Connection refused",
                      self.refused(69, "redis+sentinel://127.0.0.1:1/training", weak))
        self.assertIn("does not name a master", self.refused(64, f"redis+sentinel://{hosts}", weak))
        command(self.redis.port, "CONFIG", "SET", "requirepass", "hunter2")
        with Daemon(weak, engine=f"redis+sentinel://:hunter2@{hosts}/training/prefix") as daemon:
            self.assertEqual(200, daemon.http("/readyz")[0])
            self.assertNotIn("hunter2", daemon.errors())


if __name__ == "__main__":
    unittest.main()
