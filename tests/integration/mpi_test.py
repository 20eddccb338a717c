# SPDX-License-Identifier: Apache-2.0
"""The backend mpi, with ranks that mpirun has started: the tutorials, time-outs, aborts, wrong
arguments, and what a user forgets."""
import os
import re
import subprocess
import time
import unittest

from daemon import BIN, Daemon
from tutorials_test import CLEAN, TUTORIALS

RANKS = os.path.join(BIN, "../tests/mpi_ranks")
HOST = "127.0.0.1"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class MpiTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(engine="memory:")
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def start(self, *words, job=None):
        """A program whose ranks use the backend mpi, in a job of the test's own."""
        url = f"c10dd://{HOST}:{self.daemon.address[1]}/{job or self.id().rsplit('.', maxsplit=1)[-1]}"
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**CLEAN, **ROOT, "C10DD_URL": url, "C10DD_BACKEND": "mpi"})

    def mpirun(self, ranks, *words, job=None):
        return self.start("mpirun", "--oversubscribe", "-n", str(ranks), *words, job=job)

    def lines(self, process, code=0):
        """The sorted lines that the ranks have printed."""
        said, _ = process.communicate(timeout=120)
        if code is not None:
            self.assertEqual(code, process.returncode, said)
        return sorted(said.splitlines())

    def ranks(self, command, ranks=2, code=0):
        return self.lines(self.mpirun(ranks, RANKS, command), code)

    def test_tutorials(self):
        for program, ranks, expected in TUTORIALS:
            with self.subTest(program=program, ranks=ranks):
                job = f"{program}-{ranks}"
                process = self.mpirun(ranks, os.path.join(BIN, "tutorial-" + program), job=job)
                self.assertEqual(sorted(expected), self.lines(process))

    def test_ranks_that_differ_are_told_what_the_others_have_issued(self):
        text = ("rank 1 issued all_reduce 0 of 3 float32 sum, but rank 0 issued all_reduce 0 of 4 "
                "float32 sum")
        for line in self.ranks("mismatch", 3):
            self.assertIn(text, line)

    def test_lists_that_differ_are_refused_by_all(self):
        for line in self.ranks("lists", 3):
            self.assertIn("rank 1 sends 1 elements to rank 0, which has a tensor of 0 for them", line)

    def test_lists_that_are_too_long_for_mpi_are_refused_by_all(self):
        for line in self.ranks("long_lists", 3):
            self.assertIn("rank 1 sends 2147483648 elements to rank 0, but MPI takes at most", line)

    def test_a_late_rank_costs_the_time_out_and_the_process(self):
        said = [line for line in self.ranks("late", code=None) if "after" in line or "again" in line]
        self.assertRegex(said[0], r"again: mpi: .*must exit")
        self.assertRegex(said[1], r"rank 0 after [0-2] tenths: .*timed out after 0.5 s")
        self.assertRegex(said[2], r"rank 0 after [5-8] tenths: .*timed out after 0.5 s.*must exit")

    def test_a_rank_that_stops_while_a_group_is_opened_costs_the_time_out_and_the_process(self):
        said = [line for line in self.ranks("late_opening", code=None) if "after" in line]
        self.assertRegex(said[0], r"after \d\d tenths: .*timed out after 1 s: .*must exit")

    def test_an_abort_ends_what_waits(self):
        said = [line for line in self.ranks("abort", code=None) if "after" in line]
        self.assertRegex(said[0], r"rank 0 after 0 tenths: .*aborted: enough")
        self.assertRegex(said[1], r"rank 0 after [2-4] tenths: .*aborted: enough")

    def test_a_message_that_does_not_fit_fails_at_the_receiver(self):
        self.assertEqual(self.ranks("long_message"), [
            "rank 0 after 0 tenths: no error",
            "rank 0 goes on: 2",
            "rank 0: the long one ended",
            "rank 1 after 0 tenths: the message of 5 float32 elements from rank 0 to rank 1, tag 0, "
            "does not fit the tensor of recv, which has 4 float32 elements",
            "rank 1 goes on: 2",
            "rank 1: the long one: the message of 4194304 float32 elements from rank 0 to rank 1, "
            "tag 0, does not fit the tensor of recv, which has 4 float32 elements"])

    def test_a_receive_that_nobody_answers_costs_its_group_only(self):
        said = self.ranks("late_message")
        self.assertRegex(said[0], r"rank 0 after [5-8] tenths: .*timed out after 0.5 s")
        self.assertEqual(said[1:], [f"rank {rank}: another group works" for rank in range(2)])

    def test_groups_that_were_closed_leave_nothing(self):
        self.assertEqual(self.ranks("many"),
                         [f"rank {rank}: 0 more threads, 0 more files" for rank in range(2)])

    def test_a_callback_may_drop_its_group(self):
        self.assertEqual(self.ranks("callback"),
                         [f"rank {rank}: both groups are gone" for rank in range(2)])

    def test_a_callback_may_drop_a_group_with_messages(self):
        said = self.ranks("callback_with_others")
        self.assertRegex(said[0], "rank 0: ok (ok|aborted) aborted")
        self.assertEqual(said[1], "rank 1: sent")

    def test_a_group_may_outlive_mpi(self):
        self.assertEqual(self.ranks("at_exit"), ["rank 0 leaves", "rank 1 leaves"])

    def test_a_process_may_exit_with_an_operation_inside_mpi(self):
        start = time.monotonic()
        self.assertIn("rank 0 leaves", self.ranks("exit_inside", code=None))
        self.assertLess(time.monotonic() - start, 20)

    def test_a_forked_process_leaves_mpi_alone(self):
        said = self.ranks("forked")
        for line in said[:2]:
            self.assertRegex(line, "child: .*this process was forked")
        self.assertEqual(said[2:], [f"rank {rank}: child ended with 0" for rank in range(2)])

    def test_64_mib_both_ways(self):
        self.assertEqual(self.ranks("both_ways"), ["rank 0: right", "rank 1: right"])

    def test_threads_that_share_groups(self):
        self.assertEqual(self.ranks("threads"),
                         [f"rank {rank}: all threads have ended" for rank in range(2)])

    def test_without_mpirun(self):
        for line in self.lines(self.start(
                os.path.join(BIN, "c10drun"), "--standalone", "--no-prefix", "--nproc", "2",
                os.path.join(BIN, "tutorial-messages")), code=1):
            if line.startswith("mpi:"):
                self.assertEqual(line, 'mpi: process group "world": the group has 2 ranks, but MPI has '
                                       'only 1: start the ranks with "mpirun -n 2 PROGRAM"')
                break
        else:
            self.fail("no rank says why")

    def test_other_ranks_than_mpis(self):
        program = os.path.join(BIN, "tutorial-pi")
        swapped = [word for rank in (1, 0) for word in (
            "-n", "1", "-x", f"C10DD_RANK={rank}", "-x", "C10DD_WORLD_SIZE=2", program, ":")]
        said = self.lines(self.start("mpirun", "--oversubscribe", *swapped[:-1]), code=None)
        self.assertTrue(any(re.search("rank 0 is rank 1 in MPI: unset C10DD_RANK", line)
                            for line in said), said)

    def test_two_mpiruns_are_no_group(self):
        program = os.path.join(BIN, "tutorial-pi")
        both = [self.start("mpirun", "-n", "1", "-x", f"C10DD_RANK={rank}", "-x",
                           "C10DD_WORLD_SIZE=2", program) for rank in range(2)]
        for process in both:
            said = self.lines(process, code=None)
            self.assertTrue(any("has 2 ranks, but MPI has only 1" in line for line in said), said)


if __name__ == "__main__":
    unittest.main()
