#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""c10dd-bench runs: every scenario measures, its JSON is complete, nothing is left behind.

Says nothing about speed: docs/benchmarks.md does.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

BENCH = Path(os.environ["C10DD_BIN"]) / "c10dd-bench"
SHORT = ["--seconds", "0.2", "--rounds", "1", "--json", "-"]
REDIS = ["--redis", "spawn"] if shutil.which("redis-server") else []
SERVERS = ["echo", "c10dd"] + (["redis"] if REDIS else [])


class BenchTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="c10dd-bench-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def bench(self, *arguments, code=0):
        done = subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "TMPDIR": str(self.folder)}, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(os.listdir(self.folder), [], "a temporary directory is left")
        return done

    def scenario(self, *arguments):
        done = self.bench(*arguments, *SHORT)
        self.assertIn("medians of 1 rounds", done.stderr)
        found = json.loads(done.stdout)
        for fact in ("cpu", "cores", "kernel", "state_file_system"):
            self.assertTrue(found["machine"][fact])
        (scenario,) = found["scenarios"]
        for series in scenario["series"]:
            (sample,) = series["rounds"]
            self.assertEqual(sample, series["median"])
            self.assertGreater(sample["count"], 0, series["name"])
            self.assertGreater(sample["p50_us"], 0)
            self.assertLessEqual(sample["p50_us"], sample["p99_us"])
            self.assertLessEqual(sample["p99_us"], sample["max_us"])
        return scenario

    def servers(self, *arguments):
        scenario = self.scenario(*arguments, *REDIS)
        self.assertEqual([series["name"] for series in scenario["series"]], SERVERS)
        self.assertEqual(list(scenario["ratios"]), ["c10dd/echo", "c10dd/redis"][:len(REDIS) or 1])
        self.assertEqual(scenario["name"], arguments[0])

    def test_echo(self):
        self.assertEqual([s["name"] for s in self.scenario("echo")["series"]], ["echo"])

    def test_get(self):
        self.servers("get")

    def test_get_of_values_larger_than_a_read(self):
        self.servers("get", "--value-bytes", "600000", "--connections", "3", "--depth", "4")

    def test_set_at_the_full_depth(self):
        self.servers("set", "--connections", "3", "--depth", "512")

    def test_set_durable(self):
        self.servers("set-durable", "--connections", "10", "--awake")

    def test_barrier(self):
        scenario = self.scenario("barrier", "--members", "50", "--connections", "7")
        self.assertEqual(scenario["parameters"], {"seconds": 0.2, "members": 50, "connections": 7, "awake": 0})

    def test_json_goes_into_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.bench("echo", "get", *SHORT[:-1], str(path))
            names = [scenario["name"] for scenario in json.loads(path.read_text())["scenarios"]]
        self.assertEqual(names, ["echo", "get"])

    def test_a_server_that_is_not_there_is_an_error(self):
        with socket.socket() as unused:  # bound, but it does not listen
            unused.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % unused.getsockname()[1]
            done = self.bench("get", "--daemon", address, code=1)
        self.assertIn(address, done.stderr)

    def test_a_daemon_that_does_not_start_is_an_error(self):
        done = self.bench("get", "--engine", "none:", code=1)
        self.assertIn("c10dd did not start", done.stderr)

    def test_an_answer_that_is_no_success_is_an_error_with_its_text(self):
        def refuse():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"-ERR not today\r\n")

        with socket.create_server(("127.0.0.1", 0)) as server:
            redis = threading.Thread(target=refuse)
            redis.start()
            done = self.bench("get", *SHORT[:4], "--redis",
                              "127.0.0.1:%d" % server.getsockname()[1], code=1)
            redis.join()
        self.assertIn("redis: -ERR not today", done.stderr)

    def test_bad_options_are_named(self):
        for arguments in (["nothing"], ["get", "--depth", "0"], ["get", "--redis", "nowhere"], []):
            self.assertTrue(self.bench(*arguments, code=64).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
