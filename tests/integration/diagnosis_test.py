# SPDX-License-Identifier: Apache-2.0
"""A job that does not go on: the log, HTTP, the metric, c10ddctl and the error of a time-out say the same
sentence, which names the rank that is the cause. What ends well is not accused."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
from package import ENVIRONMENT  # noqa: E402

from c10ddctl_test import address, ctl  # noqa: E402
from daemon import SLOWDOWN, Daemon, reserve_port  # noqa: E402
from tcpstore_wire import Client, wait  # noqa: E402

PATIENCE = 30 * SLOWDOWN
KEY = b"/default_pg/0//cpu//0/"
# A rank of a job. Arrives at the barriers that it reads from its input.
RANK = """
import sys, c10dd
client = c10dd.connect(sys.argv[1], rank=int(sys.argv[2]), world_size=int(sys.argv[3]))
print("here", flush=True)
for line in sys.stdin:
    name, timeout = line.split()
    try:
        client.barrier(name, timeout=float(timeout))
        print("passed", flush=True)
    except c10dd.Error as error:
        print(type(error).__name__, [one.rank for one in error.missing], error, flush=True)
"""


class Rank:
    def __init__(self, test, daemon, rank, size):
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK, f"c10dd://{address(daemon)}/job", str(rank), str(size)],
            env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        test.assertEqual("here\n", self.process.stdout.readline())

    def arrive(self, name, timeout=600):
        self.process.stdin.write(f"{name} {timeout}\n")
        self.process.stdin.flush()

    def reply(self):
        return self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Diagnosis(unittest.TestCase):
    def daemon(self, *args, **more):
        daemon = Daemon(*args, **more).start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        return daemon

    def ranks(self, daemon, size, missing=()):
        return {rank: Rank(self, daemon, rank, size) for rank in range(size) if rank not in missing}

    def diagnosis(self, daemon, job="job"):
        status, page = daemon.http(f"/v1/jobs/{job}")
        runs = json.loads(page)["runs"] if status == 200 else []  # none while the job is loaded
        return runs[0]["diagnosis"] if runs else {"state": None}

    def until(self, daemon, holds, job="job"):
        """Waits until `holds` is true of the diagnosis of the job, and returns the diagnosis."""
        end = time.monotonic() + PATIENCE
        while not holds(found := self.diagnosis(daemon, job)):
            self.assertLess(time.monotonic(), end, (found, daemon.errors()))
            time.sleep(0.05)
        return found

    def said(self, daemon, sentence):
        return self.until(daemon, lambda found: found.get("sentence") == sentence)

    def check_everywhere(self, daemon, job, state, sentence):
        """Checks that each place shows the same bytes."""
        listed = json.loads(daemon.http("/v1/jobs")[1])["jobs"]
        self.assertEqual([sentence], [one["diagnosis"]["sentence"] for one in listed if one["job"] == job])
        metric = [line for line in daemon.http("/metrics")[1].splitlines()
                  if line.startswith("c10dd_job_diagnosis_timestamp_seconds{")]
        self.assertEqual(1, len(metric), metric)
        label = re.search(r'sentence="((?:\\.|[^"\\])*)"', metric[0]).group(1)
        self.assertEqual(sentence, label.replace('\\"', '"').replace("\\\\", "\\"))
        self.assertIn(f'state="{state}"', metric[0])
        quoted = '"' + sentence.replace("\\", "\\\\").replace('"', '\\"') + '"'
        log = [line for line in daemon.errors().splitlines() if " event=diagnosis " in line]
        self.assertTrue(log and log[-1].endswith("detail=" + quoted), daemon.errors())
        code, out, error = ctl("--daemon", address(daemon), "diagnose", job)
        self.assertEqual(({"waiting": 1, "stuck": 2}[state], ""), (code, error), out)
        self.assertIn(sentence, out.splitlines()[0])
        self.assertIn(sentence, ctl("--daemon", address(daemon), "jobs")[1])

    def test_a_stopped_rank_is_named_and_the_time_out_says_so(self):
        daemon = self.daemon()
        ranks = self.ranks(daemon, 4)
        pid = ranks[2].process.pid
        ranks[2].process.send_signal(signal.SIGSTOP)
        for rank in (0, 1, 3):
            ranks[rank].arrive("step", 6)
        host = os.uname().nodename
        sentence = (f'barrier "step" (generation 0, sequence 0) waits for rank 2 on {host} (pid {pid}), '
                    "which is silent; 3 ranks wait")
        self.assertEqual("waiting", self.said(daemon, sentence)["state"], "it may be a pause")
        found = self.until(daemon, lambda found: found["state"] == "stuck")
        self.assertEqual(("stuck", "missing", [2], [host], 3),
                         tuple(found[name] for name in ("state", "kind", "ranks", "hosts", "waiting")))
        self.check_everywhere(daemon, "job", "stuck", sentence)
        for rank in (0, 1, 3):
            reply = ranks[rank].reply()
            self.assertTrue(reply.startswith("TimedOut [2] "), reply)
            self.assertTrue(reply.endswith("; diagnosis: " + sentence), reply)
        self.until(daemon, lambda found: found["state"] in ("running", "idle"))
        self.assertEqual(0, ctl("--daemon", address(daemon), "diagnose", "job")[0])
        self.assertRegex(daemon.errors(), r"event=diagnosis_over job=job .*kind=missing seconds=")

    def test_a_rank_that_pauses_for_less_than_its_ttl_is_named_and_nobody_is_stuck(self):
        daemon = self.daemon()
        ranks = self.ranks(daemon, 4)
        for turn in range(2):
            for rank in (0, 1, 3):
                ranks[rank].arrive("step")
            ranks[2].process.send_signal(signal.SIGSTOP)
            began, seen = time.monotonic(), set()
            while time.monotonic() < began + 2:  # the ttl is 2.5 s
                found = self.diagnosis(daemon)
                seen.add((found["state"], str(found.get("ranks", [])), "silent" in found.get("sentence", "")))
                time.sleep(0.05)
            ranks[2].process.send_signal(signal.SIGCONT)
            ranks[2].arrive("step")
            self.assertEqual({"passed"}, {one.reply() for one in ranks.values()}, turn)
            self.assertIn(("waiting", "[2]", True), seen)
            self.assertEqual(set(), {state for state, _, _ in seen} - {"running", "waiting"}, seen)
        self.assertNotIn("state=stuck", daemon.errors())

    def test_a_killed_rank_and_one_that_never_came(self):
        daemon = self.daemon()
        ranks = self.ranks(daemon, 3, missing=[2])
        ranks[0].arrive("start")
        ranks[1].arrive("start")
        sentence = 'barrier "start" (generation 0, sequence 0) waits for rank 2, which never connected; 2 ranks wait'
        self.said(daemon, sentence)
        self.check_everywhere(daemon, "job", "waiting", sentence)
        late = Rank(self, daemon, 2, 3)
        late.arrive("start")
        self.assertEqual({"passed"}, {one.reply() for one in (ranks[0], ranks[1], late)})
        ranks[0].arrive("step")
        ranks[1].arrive("step")
        late.end()
        found = self.until(daemon, lambda found: found["state"] == "stuck")
        self.assertEqual([2], found["ranks"])
        self.assertIn("whose connection has closed", found["sentence"])

    def test_ranks_that_wait_for_each_other(self):
        daemon = self.daemon()
        ranks = self.ranks(daemon, 2)
        ranks[0].arrive("a")
        ranks[1].arrive("b")
        found = self.until(daemon, lambda found: found["state"] == "stuck")
        self.assertEqual(("deadlock", [0, 1]), (found["kind"], found["ranks"]))
        self.check_everywhere(daemon, "job", "stuck", found["sentence"])

    def test_a_restart_of_the_daemon_accuses_nobody(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        daemon = self.daemon(engine=f"rocksdb:{folder}/state")
        ranks = self.ranks(daemon, 3)
        for _ in range(3):
            ranks[0].arrive("step")
            ranks[1].arrive("step")
            self.until(daemon, lambda found: found["state"] == "waiting")
            daemon.kill()
            daemon.start()
            seen = set()
            end = time.monotonic() + 4
            while time.monotonic() < end:
                found = self.diagnosis(daemon)
                seen.add((found["state"], found.get("sentence", "")))
                time.sleep(0.05)
            self.assertNotIn("stuck", {state for state, _ in seen}, seen)
            ranks[2].arrive("step")
            self.assertEqual({"passed"}, {one.reply() for one in ranks.values()})
            self.until(daemon, lambda found: found["state"] == "running")
        self.assertNotIn("state=stuck", daemon.errors())

    def test_an_option_leaves_the_sentence_out_at_the_address_for_metrics(self):
        for sentences in (True, False):
            port = reserve_port()
            daemon = self.daemon("--listen-metrics", f"127.0.0.1:{port}",
                                 *([] if sentences else ["--metrics-without-sentences"]))
            self.ranks(daemon, 2, missing=[1])[0].arrive("secret")
            self.until(daemon, lambda found: found["state"] == "waiting")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                plain = answer.read().decode()
            labels = re.search(r"c10dd_job_diagnosis_timestamp_seconds{(.*)}", plain)[1]
            self.assertEqual(sentences, "secret" in plain)
            self.assertTrue(sentences or labels == 'kind="missing",state="waiting",train_job="job"', labels)
            self.assertIn('sentence="barrier \\"secret', daemon.http("/metrics")[1], "who may read all jobs reads it")

    # ---- stock PyTorch, over its own protocol

    def stock(self, daemon, rank, size, pid=None):
        client = Client.of_process(daemon.address, pid or 1000 + rank, f"127.0.1.{rank + 1}")
        self.addCleanup(client.close)
        client.join()
        client.set(KEY + str(rank).encode(), bytes(154 + 8 * size))
        self.assertIsNotNone(client.count())  # the daemon has the key
        return client

    def test_the_rank_that_a_launch_waits_for(self):
        daemon = self.daemon()
        clients = [self.stock(daemon, rank, 4) for rank in range(3)]
        for client in clients:
            client.socket.sendall(wait(KEY + b"3"))
        sentence = 'key "/default_pg/0//cpu//0/3" is not set; 3 ranks wait for rank 3, which never connected'
        found = self.until(daemon, lambda found: found.get("sentence") == sentence, "torch")
        self.assertEqual(("waiting", [3]), (found["state"], found["ranks"]))
        self.check_everywhere(daemon, "torch", "waiting", sentence)
        self.stock(daemon, 3, 4)
        self.until(daemon, lambda found: found == {"state": "running"}, "torch")

    def test_a_rank_that_leaves_its_launch_and_a_launch_that_ends_well(self):
        daemon = self.daemon()
        clients = [self.stock(daemon, rank, 4) for rank in range(4)]
        clients[1].close()
        sentence = "the launch waits for rank 1 on 127.0.1.2 (pid 1001), which has left; 3 others are connected"
        found = self.until(daemon, lambda found: found.get("sentence") == sentence, "torch")
        self.assertEqual("waiting", found["state"])  # it may be ending
        found = self.until(daemon, lambda found: found["state"] == "stuck", "torch")
        self.assertEqual(sentence, found["sentence"])
        self.check_everywhere(daemon, "torch", "stuck", sentence)
        for client in clients:
            client.close()
        self.until(daemon, lambda found: found.get("state") != "stuck", "torch")
        quiet = len(daemon.errors())
        clients = [self.stock(daemon, rank, 4, 2000 + rank) for rank in range(4)]
        time.sleep(2.5)
        for client in clients:
            client.close()
            time.sleep(0.2)
        time.sleep(1.5)
        self.assertNotIn("event=diagnosis ", daemon.errors()[quiet:])

    def test_a_rank_whose_watchdog_has_given_up(self):
        daemon = self.daemon()
        clients = [self.stock(daemon, rank, 2) for rank in range(2)]
        clients[1].set(b"/default_pg/0//exception_dump", (1).to_bytes(4, "little"))
        found = self.until(daemon, lambda found: found.get("kind") == "lost", "torch")
        self.assertTrue(found["sentence"].startswith("rank 1 on 127.0.1.2 (pid 1001) has given up a collective"))
        self.check_everywhere(daemon, "torch", "stuck", found["sentence"])

    def test_two_jobs_and_an_unknown_run(self):
        daemon = self.daemon()
        one, = self.ranks(daemon, 1).values()
        self.stock(daemon, 0, 1)
        one.arrive("alone")
        self.assertEqual("passed", one.reply())
        for job in ("job", "torch"):
            self.assertEqual((0, ""), ctl("--daemon", address(daemon), "diagnose", job)[::2])
        code, _, error = ctl("--daemon", address(daemon), "diagnose", "job", "--run", "none")
        self.assertEqual(64, code)
        self.assertIn("none", error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
