#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""c10dd-bench runs: scenarios measure, their JSON is complete, nothing is left behind; no request costs
more instructions than its budget. Says nothing about speed: docs/benchmarks.md does.

    C10DD_BENCH_LONG=1 C10DD_BIN=build/bin python3 tests/bench/bench_test.py    also the slow scenarios
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "integration"))
import at_once  # noqa: E402
from daemon import Daemon  # noqa: E402

BENCH = Path(os.environ["C10DD_BIN"]) / "c10dd-bench"
SHORT = ["--seconds", "0.2", "--rounds", "1", "--json", "-"]
REDIS = ["redis"] if shutil.which("redis-server") else []
ETCD = ["etcd", "etcd-shared"] if shutil.which("etcd") else []
TLS = (BENCH.parent.parent / "lib" / "libc10dd_tls.so").exists()
over_tls = unittest.skipUnless(TLS, "built without OpenSSL")
long_form = unittest.skipUnless(
    os.environ.get("C10DD_BENCH_LONG"),
    "of the long form: C10DD_BENCH_LONG=1 C10DD_BIN=build/bin python3 tests/bench/bench_test.py")


class BenchTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="c10dd-bench-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def bench(self, *arguments, code=0, timeout=60):
        done = subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=timeout,
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

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_no_request_costs_more_instructions_than_its_budget(self):
        budgets = Path(__file__).parent / "budgets.txt"
        self.bench("instructions", "--budgets", str(budgets), timeout=240)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_a_case_above_its_budget_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as budgets:
            budgets.write("100 heartbeat, c10dd memory\n")
            budgets.flush()
            done = self.bench("instructions", "--only", "heartbeat", "--budgets", budgets.name,
                              code=1, timeout=240)
        self.assertRegex(done.stderr, r"heartbeat, c10dd memory: \d+ instructions, budget 100\n")
        self.assertRegex(done.stderr, r"heartbeat, c10dd rocksdb: \d+ instructions, no budget\n")

    @staticmethod
    def facts(scenario):
        return {fact["name"]: fact for fact in scenario["facts"]}

    def servers(self, *arguments, peers=tuple(REDIS)):
        """The load runs on echo, c10dd and each of these peers."""
        against = ["--against", ",".join(p for p in peers if "-" not in p)] if peers else []
        scenario = self.scenario(*arguments, *against)
        names = [series["name"] for series in scenario["series"]]
        self.assertEqual(names, ["echo", "c10dd", *peers])
        self.assertEqual(list(scenario["ratios"]), ["c10dd/" + name for name in ("echo", *peers)])
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

    @long_form
    def test_set_durable_on_a_slower_disk(self):
        against = ["--against", "redis"] if REDIS else []
        scenario = self.scenario("set-durable", "--clients", "4", "--sync-delay", "20", *against)
        self.assertEqual(scenario["parameters"]["sync_delay_us"], 20_000)
        for series in scenario["series"][1:]:
            self.assertGreaterEqual(series["median"]["p50_us"], 20_000, series["name"])
        for wrong in (["get"], ["set-durable", "--daemon", "127.0.0.1:1"],
                      ["set-durable", "--against", "etcd"]):
            done = self.bench(*wrong, "--sync-delay", "20", code=64)
            self.assertIn("--sync-delay: ", done.stderr)

    @long_form
    @unittest.skipUnless(ETCD, "etcd is not installed")
    def test_set_durable_against_etcd(self):
        self.servers("set-durable", "--clients", "8", "--depth", "3", peers=REDIS + ETCD)

    @unittest.skipUnless(ETCD, "etcd is not installed")
    def test_etcd_takes_values_larger_than_a_frame(self):
        self.servers("set-durable", "--clients", "2", "--depth", "2", "--value-bytes", "300000",
                     peers=ETCD[:1])

    def test_barrier(self):
        scenario = self.scenario("barrier", "--members", "50", "--connections", "7")
        self.assertEqual(scenario["parameters"], {"seconds": 0.2, "members": 50, "connections": 7, "awake": 0})

    @long_form
    def test_barrier_against_torch(self):
        done = self.bench("barrier", "--members", "8", "--against", "torch", *SHORT)
        (scenario,) = json.loads(done.stdout)["scenarios"]
        if "skipped" in scenario:
            self.assertIn("barrier: SKIPPED: ", done.stderr)
            self.skipTest(scenario["skipped"])
        self.assertEqual(list(scenario["ratios"]), ["all at once/last one late", "all at once/torch"])

    @long_form
    def test_all_reduce_against_torch_and_mpi(self):
        done = self.bench("all-reduce", "--against", "torch,mpi", "--seconds", "0.01", "--rounds",
                          "1", "--json", "-", timeout=120)
        (scenario,) = json.loads(done.stdout)["scenarios"]
        libraries = ["c10dd", "gloo", "c10dd alone"]
        libraries += [name for name in ("torch", "mpi") if f"{name}: " not in scenario.get("skipped", "")]
        for series in scenario["series"]:
            self.assertGreater(series["median"]["p50_us"], 0, series["name"])
        names = {series["name"] for series in scenario["series"]}
        self.assertEqual(names, {f"{size}, {library}" for library in libraries for size in (
            "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB", "64 MiB")})
        facts = self.facts(scenario)
        self.assertGreater(facts["64 KiB, c10dd to gloo, each turn"]["median"], 0)
        for library in libraries[3:]:
            self.assertGreater(facts[f"1 MiB, {library}: p50 of c10dd alone to it"]["median"], 0)

    def test_wait_fanout(self):
        scenario = self.scenario("wait-fanout", "--waiters", "50", "--connections", "7")
        each, last = scenario["series"]
        self.assertEqual(each["median"]["count"], 50 * last["median"]["count"])
        self.assertLessEqual(each["median"]["max_us"], last["median"]["max_us"])

    # ---- PyTorch's TCPStore

    def tcpstore(self, *arguments):
        """The scenario, also against PyTorch's servers; and the names of those that are here."""
        scenario = self.scenario(*arguments, "--against", "torch")
        names = [series["name"] for series in scenario["series"]]
        newest = [name for name in ("torch, poll", "torch, libuv") if name in names]
        self.assertEqual("newest PyTorch" in scenario.get("skipped", ""), not newest)
        old = ["torch 1.13.1 poll"] if "torch 1.13.1 poll" in names else []
        return scenario, names, newest, old

    @long_form
    def test_tcpstore(self):
        scenario, names, newest, old = self.tcpstore("tcpstore-get", "--connections", "3")
        also = ["c10dd as 1.13.1"] if old else []
        endpoints = ["endpoint, os", "endpoint, fsync"]
        self.assertEqual(names, ["echo", "c10dd", *endpoints, *newest, *also, *old])
        self.assertEqual(list(scenario["ratios"]), [
            *("c10dd/" + name for name in ("echo", *endpoints, *newest, *also)), *(
                "c10dd as 1.13.1/" + name for name in old)])
        for name in ("tcpstore-set", "tcpstore-add"):
            _, names, _, _ = self.tcpstore(name, "--connections", "3", "--depth", "4")
            self.assertEqual(names, ["echo", "c10dd", *endpoints, *newest, *also, *old])
        _, names, _, _ = self.tcpstore("tcpstore-multi-get")
        self.assertEqual(names, ["echo", "c10dd", *endpoints, *newest], "1.13.1 has no multi_get")

    @long_form
    def test_gloo_init(self):
        scenario, names, newest, old = self.tcpstore("gloo-init", "--members", "9")
        self.assertEqual(names, ["c10dd", *newest, *(["c10dd as 1.13.1"] if old else []), *old])
        self.assertEqual(scenario["parameters"]["members"], 9)

    def test_storm(self):
        scenario = self.scenario("storm", "--connections", "300", "--against", "torch")
        for series in scenario["series"]:
            self.assertNotIn("not finished", series["how"])
            self.assertGreater(series["median"]["per_second"], 0)
        for fact in scenario["facts"]:
            self.assertGreater(fact["median"], 0)

    def test_restart_load(self):
        scenario = self.scenario("restart-load", "--keys", "3001", "--value-bytes", "100")
        self.assertEqual([series["name"] for series in scenario["series"]],
                         ["log full", "log empty"])
        loaded = self.facts(scenario)["memory of a key, when it was loaded"]
        self.assertGreater(loaded["median"], 132)

    def test_restart_load_of_keys_that_do_not_survive_is_an_error(self):
        done = self.bench("restart-load", "--engine", "memory:", code=1)
        self.assertIn("must survive", done.stderr)

    def test_idle(self):
        scenario = self.scenario("idle", "--connections", "500")
        memory = self.facts(scenario)["memory of a connection with a session"]
        self.assertEqual(memory["unit"], "B")
        self.assertTrue(1000 < memory["median"] <= 8192, memory)

    def test_join(self):
        scenario = self.scenario("join", "--members", "60", "--connections", "7")
        self.assertEqual([series["name"] for series in scenario["series"]],
                         ["join", "barrier, whole", "barrier, last", "barrier, late"])
        self.assertEqual(self.facts(scenario)["memory of an idle member"]["unit"], "B")

    def test_death(self):
        scenario = self.scenario("death", "--members", "30", "--times", "2")
        each, last = scenario["series"]
        self.assertEqual((each["median"]["count"], last["median"]["count"]), (2 * 29, 2))

    @long_form
    def test_silent(self):
        done = self.bench("silent", "--members", "10", "--times", "1", *SHORT)
        (scenario,) = json.loads(done.stdout)["scenarios"]
        if "skipped" in scenario:
            self.assertIn("SKIPPED", done.stderr)
            self.skipTest(scenario["skipped"])
        each, last = scenario["series"]
        self.assertEqual((each["median"]["count"], last["median"]["count"]), (9, 1))

    def test_restart(self):
        scenario = self.scenario("restart", "--members", "50", "--connections", "9")
        serving, resumed = scenario["series"]
        self.assertLess(serving["median"]["max_us"], resumed["median"]["max_us"])

    def test_restart_of_members_that_do_not_survive_is_an_error(self):
        done = self.bench("restart", "--engine", "memory:", code=1)
        self.assertIn("must survive", done.stderr)

    @long_form
    @unittest.skipUnless(REDIS, "redis-server is not installed")
    def test_takeover(self):
        (served,) = self.scenario("takeover", "--clients", "9", "--daemons", "3")["series"]
        self.assertEqual(9, served["median"]["count"])
        self.assertGreater(served["median"]["max_us"], 1_000_000, "the lease is 2 s")
        done = self.bench("takeover", "--engine", "memory:", code=1)
        self.assertIn("leave out --daemon and --engine", done.stderr)

    @unittest.skipUnless(REDIS, "redis-server is not installed")
    def test_a_load_on_several_daemons(self):
        scenario = self.scenario("get", "--engine", "redis:", "--daemons", "2", "--clients", "4")
        self.assertEqual(["echo", "c10dd", "c10dd-fleet"], [one["name"] for one in scenario["series"]])
        self.assertGreater(scenario["series"][2]["median"]["count"], 0)

    @over_tls
    def test_a_load_over_tls(self):
        against = ["--against", ",".join(REDIS)] if REDIS else []
        scenario = self.scenario("get", "--tls", "--clients", "3", "--depth", "2", "--value-bytes", "100000", *against)
        self.assertEqual(["echo", "c10dd", "c10dd-plain", *REDIS], [one["name"] for one in scenario["series"]])
        self.assertEqual(1, scenario["parameters"]["tls"])

    @over_tls
    def test_idle_over_tls(self):
        facts = self.facts(self.scenario("idle", "--tls", "--connections", "1500"))  # fewer do not make up for a burst of handshakes
        limits = {", TLS": 24 * 1024}
        if shutil.which("openssl"):
            limits[", TLS with a certificate"] = 32 * 1024
        for kind, limit in limits.items():
            memory = facts["memory of a connection with a session" + kind]
            self.assertTrue(10_000 < memory["median"] <= limit, memory)

    @over_tls
    def test_restart_over_tls(self):
        serving, resumed = self.scenario("restart", "--tls", "--members", "50", "--connections", "20")["series"]
        self.assertLess(serving["median"]["max_us"], resumed["median"]["max_us"])

    def test_what_cannot_be_measured_over_tls_is_refused(self):
        for wrong in (["join"], ["get", "join"], ["get", "--daemon", "127.0.0.1:1"], ["get", "--daemons", "2"],
                      ["get", "--against", "redis=127.0.0.1:1"], *([] if TLS else [["get"]])):
            done = self.bench(*wrong, "--tls", code=64)
            self.assertRegex(done.stderr, r"^--tls: [^\n]+\n", wrong)

    def test_json_goes_into_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.bench("echo", "get", *SHORT[:-1], str(path))
            names = [scenario["name"] for scenario in json.loads(path.read_text())["scenarios"]]
        self.assertEqual(names, ["echo", "get"])

    def test_no_job_is_left_on_a_daemon_that_was_running(self):
        with Daemon("--run-grace", "1") as daemon:
            self.bench("get", "barrier", "wait-fanout", "--members", "20", "--waiters", "20",
                       "--daemon", "%s:%d" % daemon.address, *SHORT[:4])
            jobs = [{"job": "not asked yet"}]
            deadline = time.monotonic() + 20
            while jobs and time.monotonic() < deadline:
                jobs = json.loads(daemon.http("/v1/jobs")[1])["jobs"]
                time.sleep(0.05)
        self.assertEqual([], jobs)

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
        for peer, scenario, answer, text in (
                ("redis", "get", b"-ERR not today\r\n", "redis: -ERR not today"),
                ("etcd", "set-durable", b"HTTP/1.1 400 Bad Request\r\n", "etcd: the reply is not HTTP/2"),
                # A stream that is reset: RST_STREAM of stream 1, code 7.
                ("etcd", "set-durable", b"\0\0\0\4\0\0\0\0\0" b"\0\0\4\3\0\0\0\0\1\0\0\0\7",
                 "REFUSED_STREAM")):
            with self.subTest(peer=peer, text=text):
                self.assertIn(text, self.answered(peer, scenario, answer))

    def answered(self, peer, scenario, answer):
        """What the program says when this peer answers so."""
        def refuse():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                return  # the program failed before: what it says is the failure
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
                connection.recv(65536)

        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(20)
            thread = threading.Thread(target=refuse)
            thread.start()
            done = self.bench(scenario, *SHORT[:4], "--against",
                              "%s=127.0.0.1:%d" % (peer, server.getsockname()[1]), code=1)
            thread.join()
        return done.stderr

    def test_bad_options_are_named(self):
        for arguments in (["nothing"], ["get", "--depth", "0"], ["get", "--against", "nobody"],
                          ["get", "--against", "redis,redis"], ["get", "--against", "redis=nowhere"], ["get", "--against", "etcd"],
                          ["get", "--against", "torch"], ["barrier", "--against", "mpi"], []):
            self.assertTrue(self.bench(*arguments, code=64).stderr)


if __name__ == "__main__":
    at_once.main(2, first=["test_no_request_costs_more_instructions_than_its_budget"])
