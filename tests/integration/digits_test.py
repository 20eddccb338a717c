# SPDX-License-Identifier: Apache-2.0
"""The digits example beside its demo: ranks as threads, refused input, the demo interrupted."""
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

from daemon import BIN, Daemon

SOURCE = os.environ.get("C10DD_SOURCE", os.path.join(os.path.dirname(__file__), "../.."))
EXAMPLE = os.path.join(SOURCE, "examples", "digits")
DATA = os.path.join(EXAMPLE, "data", "digits.csv")
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith("C10DD_") and name not in ("RANK", "WORLD_SIZE")}


def digits(*arguments, data=DATA, **environment):
    return subprocess.run([os.path.join(BIN, "digits"), "--data", data, *arguments],
                          env={**CLEAN, **environment}, timeout=120, capture_output=True,
                          text=True, check=False)


def lines(output, word):
    """The key=value pairs of the lines that begin with the word."""
    return [dict(pair.split("=", 1) for pair in shlex.split(line)[1:])
            for line in output.splitlines() if line.split()[:1] == [word]]


class ThreadsTest(unittest.TestCase):
    def test_three_threads_train_as_one_process_does(self):
        # 3 divides neither the batches nor the last, smaller one.
        alone = digits("--single", "--epochs", "2", "--batch", "100")
        with Daemon() as daemon:
            url = "c10dd://{}:{}/digits".format(*daemon.address)
            team = digits("--threads", "3", "--backend", "loopback", "--epochs", "2", "--batch",
                          "100", "--url", url, "--run", "threads")
        self.assertEqual((alone.returncode, team.returncode), (0, 0), alone.stderr + team.stderr)
        expected = {loss["epoch"]: float(loss["value"]) for loss in lines(alone.stdout, "loss")}
        losses = lines(team.stdout, "loss")
        self.assertEqual((len(expected), len(losses)), (2, 6))
        for loss in losses:
            self.assertAlmostEqual(float(loss["value"]), expected[loss["epoch"]], delta=1e-9)
        self.assertEqual(len({one["parameters"] for one in lines(team.stdout, "result")}), 1)
        self.assertEqual([one["images"] for one in lines(team.stdout, "client")], ["2876"] * 3)


class RefusalTest(unittest.TestCase):
    def refused(self, code, text, *arguments, **environment):
        answer = digits(*arguments, **environment)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertIn(text, answer.stderr)

    def test_what_makes_no_sense(self):
        url = "c10dd://127.0.0.1:1/digits"
        self.refused(64, "the URL of the daemon is missing: set C10DD_URL or --url")
        self.refused(64, "RANK is 2, but WORLD_SIZE is 2: ranks go from 0 to WORLD_SIZE - 1",
                     C10DD_URL=url, RANK="2", WORLD_SIZE="2")
        self.refused(64, "backend loopback connects only threads of one process", "--backend", "loopback",
                     C10DD_URL=url, RANK="0", WORLD_SIZE="2")
        self.refused(1, "nothing.csv: cannot read the file", "--single", data="nothing.csv")
        self.refused(64, "--epochs: Value 0 not in range", "--single", "--epochs", "0")

    def test_a_backend_that_does_not_exist_ends_the_rank_at_once(self):
        with Daemon() as daemon:
            self.refused(1, 'backend "smoke" not found', "--backend", "smoke",
                         C10DD_URL="c10dd://{}:{}/digits".format(*daemon.address))


class InterruptedDemoTest(unittest.TestCase):
    def test_stops_all_that_it_started_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            demo = subprocess.Popen(
                [sys.executable, "-B", os.path.join(EXAMPLE, "demo.py"), "--epochs", "1000"],
                env={**CLEAN, "C10DD_BIN": BIN, "TMPDIR": folder}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            while not demo.stdout.readline().lstrip().startswith("epoch"):
                self.assertIsNone(demo.poll(), "the demo ended early")
            with open(f"/proc/{demo.pid}/task/{demo.pid}/children", encoding="ascii") as children:
                started = [int(pid) for pid in children.read().split()]
            self.assertEqual(len(started), 3)  # the daemon and two ranks
            demo.send_signal(signal.SIGINT)
            _, errors = demo.communicate(timeout=60)
            self.assertEqual((demo.returncode, errors), (130, "demo: interrupted\n"))
            self.assertEqual(os.listdir(folder), [])
            for pid in started:
                with self.assertRaises(ProcessLookupError):
                    os.kill(pid, 0)


if __name__ == "__main__":
    unittest.main()
