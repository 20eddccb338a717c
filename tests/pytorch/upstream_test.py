#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What upstream.py says of tests that pass, are left out and fail, with Debian's PyTorch and the daemon."""
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))
import at_once  # noqa: E402
from environments import DEBIAN, python_of  # noqa: E402


class UpstreamTest(unittest.TestCase):
    def run_sample(self, *arguments):
        run = subprocess.run([sys.executable, "-B", os.path.join(HERE, "upstream.py"),
                              os.path.join(HERE, "upstream_sample.py"), DEBIAN, *arguments], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        return run.returncode, run.stdout

    def test_each_server_of_a_test_is_a_daemon(self):
        code, said = self.run_sample("-k", "Passes", "-k", "Listed")
        self.assertEqual(0, code, said)
        for line in ("ok Passes.test_master (daemons: 1;", "ok Passes.test_helper (daemons: 1;",
                     "ok Passes.test_two_masters_on_two_ports (daemons: 2;",
                     "ok Passes.test_rendezvous_shares_a_port (daemons: 1;",
                     "skipped Listed.test_address_already_in_use: listed: ",
                     "4 passed, 4 of them with daemons of their own, 1 skipped, 0 failed"):
            self.assertIn(line, said)

    def test_a_failure_that_is_not_listed_fails_the_run(self):
        code, said = self.run_sample("-k", "test_assertion")
        self.assertEqual(1, code, said)
        self.assertIn("FAILED Fails.test_assertion\n", said)
        self.assertIn("event=serving", said, "the log of the daemon")

    def test_a_daemon_that_dies_fails_the_test(self):
        code, said = self.run_sample("-k", "test_the_daemon_dies")
        self.assertEqual(1, code, said)
        self.assertIn("a daemon has ended by itself", said)

    def test_a_run_of_no_test_fails(self):
        code, said = self.run_sample("-k", "no_such_test")
        self.assertEqual(1, code, said)

    def test_own_servers_are_no_daemons(self):
        code, said = self.run_sample("--own", "-k", "test_helper")
        self.assertEqual(1, code, said)
        self.assertIn("FAILED Passes.test_helper\n", said)


if __name__ == "__main__":
    if python_of(DEBIAN) is None:
        print(f"skipped: PyTorch {DEBIAN} is not installed")
        sys.exit(77)
    at_once.main(3)
