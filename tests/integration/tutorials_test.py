# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/tutorials, run as their README says, print what they should."""
import os
import subprocess
import unittest

from daemon import BIN

CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith("C10DD_") and name not in ("RANK", "WORLD_SIZE")}


def lines_of(program, ranks):
    """The sorted lines that the ranks print."""
    command = [os.path.join(BIN, "c10drun"), "--standalone", "--no-prefix", "--nproc", str(ranks),
               os.path.join(BIN, "tutorial-" + program)]
    run = subprocess.run(command, env=CLEAN, timeout=120, capture_output=True, text=True,
                         check=False)
    if run.returncode != 0:
        raise AssertionError(f"{program}: exit {run.returncode}\n{run.stdout}\n{run.stderr}")
    return sorted(run.stdout.splitlines())


class TutorialsTest(unittest.TestCase):
    maxDiff = None

    def test_messages(self):
        self.assertEqual(lines_of("messages", 2), [
            "any: 3 elements from rank 1, tag 7",
            "blocking: rank 0 has 43523",
            "blocking: rank 1 has 43523",
            "immediate: rank 0 has 101",
            "immediate: rank 1 has 100"])

    def test_collectives(self):
        self.assertEqual(lines_of("collectives", 2), [
            "all_gather: rank 0 has [1,1]",
            "all_gather: rank 1 has [1,1]",
            "gather: rank 0 has [2,110,2,11]",
            "product: rank 0 has [2,110]",
            "product: rank 1 has [2,11]",
            "scatter: rank 0 has [0,1]",
            "scatter: rank 1 has [2,3]"])

    def test_groups(self):
        self.assertEqual(lines_of("groups", 4), [
            "rank 0: tp world/[0-1] has the sum 1, dp world/[0,2] has the sum 2",
            "rank 1 is rank 1 of world/[3,1]",
            "rank 1: tp world/[0-1] has the sum 1, dp world/[1,3] has the sum 4",
            "rank 2: tp world/[2-3] has the sum 5, dp world/[0,2] has the sum 2",
            "rank 3 is rank 0 of world/[3,1]",
            "rank 3: tp world/[2-3] has the sum 5, dp world/[1,3] has the sum 4"])

    def test_pi(self):
        for ranks in (1, 3):
            self.assertEqual(lines_of("pi", ranks), ["pi is about 3.141592654"])

    def test_ring(self):
        for ranks in (2, 4):
            steps = ranks - 1
            total = 8000 * ranks
            sent = 2 * total * (ranks - 1) // ranks
            self.assertEqual(lines_of("ring", ranks), sorted(
                [f"{phase}: step {i + 1} of {steps}" for i in range(steps)
                 for phase in ("reduce-scatter", "all-gather")] +
                [f"rank {rank}: equal; sent {sent} bytes of {total}" for rank in range(ranks)]))

    def test_tensor_parallel(self):
        self.assertEqual(lines_of("tensor-parallel", 2), sorted(
            f"{how}: rank {rank} has [[76,82],[252,274]]"
            for how in ("columns", "rows") for rank in range(2)))

    def test_pipeline(self):
        self.assertEqual(lines_of("pipeline", 2),
                         ["pipeline: 8 of 8 micro-batches equal the unsplit network"])


if __name__ == "__main__":
    unittest.main()
