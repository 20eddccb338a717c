# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/tutorials, run as their README says, print what they should."""
import os
import subprocess
import unittest

from daemon import BIN

CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith("C10DD_") and name not in ("RANK", "WORLD_SIZE")}


def ring(ranks):
    total = 8000 * ranks
    sent = 2 * total * (ranks - 1) // ranks
    return [f"{phase}: step {i + 1} of {ranks - 1}" for i in range(ranks - 1)
            for phase in ("reduce-scatter", "all-gather")] + \
        [f"rank {rank}: equal; sent {sent} bytes of {total}" for rank in range(ranks)]


# Program, number of ranks, and what the ranks print, in any order.
TUTORIALS = [
    ("messages", 2, [
        "any: 3 elements from rank 1, tag 7",
        "blocking: rank 0 has 43523",
        "blocking: rank 1 has 43523",
        "immediate: rank 0 has 101",
        "immediate: rank 1 has 100"]),
    ("collectives", 2, [
        "all_gather: rank 0 has [1,1]",
        "all_gather: rank 1 has [1,1]",
        "gather: rank 0 has [2,110,2,11]",
        "product: rank 0 has [2,110]",
        "product: rank 1 has [2,11]",
        "scatter: rank 0 has [0,1]",
        "scatter: rank 1 has [2,3]"]),
    ("groups", 4, [
        "rank 0: tp world/[0-1] has the sum 1, dp world/[0,2] has the sum 2",
        "rank 1 is rank 1 of world/[3,1]",
        "rank 1: tp world/[0-1] has the sum 1, dp world/[1,3] has the sum 4",
        "rank 2: tp world/[2-3] has the sum 5, dp world/[0,2] has the sum 2",
        "rank 3 is rank 0 of world/[3,1]",
        "rank 3: tp world/[2-3] has the sum 5, dp world/[1,3] has the sum 4"]),
    ("pi", 1, ["pi is about 3.141592654"]),
    ("pi", 3, ["pi is about 3.141592654"]),
    ("ring", 2, ring(2)),
    ("ring", 4, ring(4)),
    ("tensor-parallel", 2, [f"{how}: rank {rank} has [[76,82],[252,274]]"
                            for how in ("columns", "rows") for rank in range(2)]),
    ("pipeline", 2, ["pipeline: 8 of 8 micro-batches equal the unsplit network"]),
]


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

    def test_tutorials(self):
        for program, ranks, expected in TUTORIALS:
            with self.subTest(program=program, ranks=ranks):
                self.assertEqual(sorted(expected), lines_of(program, ranks))


if __name__ == "__main__":
    unittest.main()
