#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""c10dd-matrix with pairs of values on every backend: no cell is wrong. With a planted fault, some are."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import BIN  # noqa: E402

CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith("C10DD_") and name not in ("RANK", "WORLD_SIZE")}
FAULTS = 8
LINE = re.compile(r"(\w+) \(.*\): (\d+) cells, (\d+) wrong, (\d+) pairs not covered")


def matrix(*arguments):
    """What the program prints of each backend: name, cells, wrong cells, pairs not covered."""
    run = subprocess.run([os.path.join(BIN, "c10dd-matrix"), "--pairs", *arguments], env=CLEAN,
                         timeout=200, capture_output=True, text=True, check=False)
    found = LINE.findall(run.stdout)
    if not found:
        raise AssertionError(f"exit {run.returncode}\n{run.stdout}\n{run.stderr}")
    return run, [(name, *(int(count) for count in counts)) for name, *counts in found]


class MatrixTest(unittest.TestCase):
    def test_every_backend_is_right(self):
        backends = os.environ["C10DD_BACKENDS"].split(",")
        run, found = matrix("--backend", ",".join(backends))
        self.assertEqual(backends, [name for name, *_ in found], run.stdout + run.stderr)
        for name, cells, wrong, uncovered in found:
            self.assertGreater(cells, 150, name)
            self.assertEqual(0, wrong, run.stdout + run.stderr)
            self.assertEqual(0, uncovered, name)
        self.assertEqual(0, run.returncode)

    def test_each_planted_fault_is_found(self):
        for fault in range(FAULTS):
            run, [(_, _, wrong, _)] = matrix("--backend", "loopback", "--plant", str(fault))
            self.assertGreater(wrong, 0, f"fault {fault}\n{run.stdout}")
            self.assertEqual(1, run.returncode)


if __name__ == "__main__":
    unittest.main()
