#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""c10dd-matrix with pairs of values on every backend: no cell is wrong. With a planted fault, some are.

Large tensors take most of the time, so only the fault that needs them has them."""
import functools
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import BIN  # noqa: E402

CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith("C10DD_") and name not in ("RANK", "WORLD_SIZE")}
PROGRAM = os.path.join(BIN, "c10dd-matrix")
BACKENDS = os.environ["C10DD_BACKENDS"].split(",")
LARGE = "last element behind 64 KiB is not done"
THREADS = "only the first rank of a process is done"
LINE = re.compile(r"(\w+) \(.*\): (\d+) cells, (\d+) wrong, (\d+) pairs not covered")


def matrix(*arguments):
    """What the program prints of each backend: name, cells, wrong cells, pairs not covered."""
    run = subprocess.run([PROGRAM, "--pairs", *arguments], env=CLEAN, timeout=200,
                         capture_output=True, text=True, check=False)
    found = LINE.findall(run.stdout)
    if not found:
        raise AssertionError(f"exit {run.returncode}\n{run.stdout}\n{run.stderr}")
    return run, [(name, *(int(count) for count in counts)) for name, *counts in found]


@functools.cache
def faults():
    """The names of the faults, in the order of their numbers."""
    return subprocess.run([PROGRAM, "--list-plants"], capture_output=True, text=True,
                          check=True).stdout.splitlines()


class MatrixTest(unittest.TestCase):
    def wrong_cells(self, fault, *arguments):
        """How many cells of one backend are wrong with a planted fault."""
        run, [(_, _, wrong, _)] = matrix("--plant", str(faults().index(fault)), *arguments)
        self.assertEqual(1 if wrong else 0, run.returncode, run.stdout + run.stderr)
        return wrong

    def test_every_backend_is_right(self):
        run, found = matrix("--backend", ",".join(BACKENDS))
        self.assertEqual(BACKENDS, [name for name, *_ in found], run.stdout + run.stderr)
        for name, cells, wrong, uncovered in found:
            self.assertGreater(cells, 150, name)
            self.assertEqual(0, wrong, run.stdout + run.stderr)
            self.assertEqual(0, uncovered, name)
        self.assertEqual(0, run.returncode)

    def test_each_planted_fault_is_found(self):
        for fault in faults():
            if fault != LARGE:
                wrong = self.wrong_cells(fault, "--backend", "loopback", "--no-large")
                self.assertGreater(wrong, 0, fault)

    def test_a_fault_of_large_tensors_is_found_by_these_only(self):
        self.assertEqual(0, self.wrong_cells(LARGE, "--backend", "loopback", "--no-large"))
        self.assertGreater(self.wrong_cells(LARGE, "--backend", "loopback"), 0)

    @unittest.skipUnless("gloo" in BACKENDS, "this build has no Gloo")
    def test_a_fault_of_ranks_in_one_process_is_found_by_threads_only(self):
        small = "--backend", "gloo", "--no-large", "--ranks"
        self.assertEqual(0, self.wrong_cells(THREADS, *small, "processes"))
        self.assertGreater(self.wrong_cells(THREADS, *small, "threads"), 0)


if __name__ == "__main__":
    unittest.main()
