#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The short form of launchers.py and differential.py, and trainers under c10drun that survive the daemon: PyTorch 1.13.1,
and the newest one where `./dev torch newest` has made its environment."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
import at_once  # noqa: E402
from daemon import BIN, SLOWDOWN, Daemon, text_of  # noqa: E402
from environments import DEBIAN, python_of  # noqa: E402
from package import ENVIRONMENT  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


class TrainersTest(unittest.TestCase):
    def run_tool(self, version, tool, *arguments):
        if python_of(version) is None:
            self.skipTest(f"PyTorch {version} is not installed; ./dev torch {version} installs it")
        run = subprocess.run([sys.executable, "-B", os.path.join(HERE, tool), *arguments], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
        self.assertEqual(0, run.returncode, run.stdout)
        if "SKIPPED" in run.stdout:
            self.skipTest(run.stdout)

    def test_torchrun_meets_in_the_daemon(self):
        self.run_tool(DEBIAN, "launchers.py", DEBIAN, "--launcher", "c10d", "--case", "undisturbed")

    def test_torchrun_starts_its_workers_again(self):
        self.run_tool(DEBIAN, "launchers.py", DEBIAN, "--launcher", "static", "--case", "restarted")

    def test_the_newest_version_trains(self):
        self.run_tool("newest", "launchers.py", "newest", "--launcher", "env", "--case", "undisturbed")

    def test_replies_are_those_of_the_old_server(self):
        self.run_tool(DEBIAN, "differential.py", "--server", "1.13.1-poll", "--seeds", "5")

    def test_replies_through_a_proxy_are_those_of_the_servers(self):
        self.run_tool(DEBIAN, "differential.py", "--proxy", "--server", "1.13.1-poll", "--seeds", "3")

    def commands(self, python, url, steps, size):
        """The launch by c10drun: one process."""
        address, job = url[len("c10dd://"):].split("/")
        yield [os.path.join(BIN, "c10drun"), "--nproc", str(size), "--no-prefix", "--daemon", address, "--job", job,
               os.path.join(HERE, "steps.py"), str(steps), "0.15"], {"PYTHON_EXEC": python}

    def schemes(self, python, url, steps, size):
        """The launch by c10dd://: a process for each rank, as of srun."""
        for rank in range(size):
            yield [python, os.path.join(HERE, "steps.py"), str(steps), "0.15", url], {
                **ENVIRONMENT, "RANK": str(rank), "WORLD_SIZE": str(size)}

    def survives(self, version, commands):
        """A launch while the daemon is killed three times."""
        python = python_of(version)
        if python is None:
            self.skipTest(f"PyTorch {version} is not installed")
        steps, size = 40, 4
        with tempfile.TemporaryDirectory() as folder, Daemon(engine=f"rocksdb:{folder}/state") as daemon, \
                tempfile.TemporaryFile() as said:
            launch = [subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1", **more}, stdout=said, stderr=said)
                      for words, more in commands(python, "c10dd://%s:%d/survives" % daemon.address, steps, size)]
            for process in launch:
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
            self.await_steps(daemon)
            for _ in range(3):
                daemon.kill()
                time.sleep(0.4)
                daemon.start()
                time.sleep(1)
            for process in launch:
                self.assertEqual(0, process.wait(120 * SLOWDOWN), text_of(said))
            out = [line for line in text_of(said).splitlines() if line.startswith("done ")]
        total = sum(float(rank + step) for step in range(steps) for rank in range(size))
        self.assertEqual(sorted(f"done {rank} {steps * size} {total}" for rank in range(size)), sorted(out))

    def await_steps(self, daemon):
        """Until the launch has keys of its first steps."""
        end = time.monotonic() + 90 * SLOWDOWN
        while True:
            self.assertLess(time.monotonic(), end, "no step")
            jobs = json.loads(daemon.http("/v1/jobs")[1])["jobs"]
            if any(job["run"] and job.get("keys", 0) > 20 for job in jobs):
                return
            time.sleep(0.1)

    def test_the_old_version_survives_the_death_of_the_daemon_under_c10drun(self):
        self.survives(DEBIAN, self.commands)

    def test_the_old_version_survives_the_death_of_the_daemon_over_the_scheme(self):
        self.survives(DEBIAN, self.schemes)

    def test_the_newest_version_survives_the_death_of_the_daemon_under_c10drun(self):
        self.survives("newest", self.commands)

    def test_replies_are_those_of_the_newest_servers(self):
        self.run_tool("newest", "differential.py", "--server", "newest-poll", "--server", "newest-libuv",
                      "--seeds", "5")


if __name__ == "__main__":
    at_once.main(3)
