#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The short form of launchers.py and differential.py: PyTorch 1.13.1, and the newest one where
`./dev torch newest` has made its environment."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import at_once  # noqa: E402
from environments import DEBIAN, python_of  # noqa: E402

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

    def test_replies_are_those_of_the_newest_servers(self):
        self.run_tool("newest", "differential.py", "--server", "newest-poll", "--server", "newest-libuv",
                      "--seeds", "5")


if __name__ == "__main__":
    at_once.main(3)
