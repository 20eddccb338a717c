# SPDX-License-Identifier: Apache-2.0
"""The membership loop of docs/sdk.md, as it stands there, with ranks that are killed."""
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

import at_once
from daemon import BIN, SLOWDOWN, Daemon, text_of

TRAINER = os.path.join(BIN, "../tests/membership_loop")
STEPS = 40
LOST = re.compile(r"rank \d on \S+ \(pid (\d+)\)")


class Trainer:
    """A process that runs the loop; what it writes is read while it runs."""

    def __init__(self, url, steps, elements, *pause):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen([TRAINER, url, str(steps), str(elements), *map(str, pause)],
                                        stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return text_of(self.output)

    def steps(self):
        return len(re.findall(r"^step ", self.text(), re.M))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.output.close()


class MembershipLoopTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon().start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)
        self.trainers = []
        self.addCleanup(lambda: [one.end() for one in self.trainers])

    def start(self, steps, elements, *pause):
        url = "c10dd://%s:%d/job" % self.daemon.address
        self.trainers.append(Trainer(url, steps, elements, *pause))
        return self.trainers[-1]

    def wait_for(self, what, condition, seconds=60):
        end = time.monotonic() + seconds * SLOWDOWN
        while not condition():
            if time.monotonic() > end:
                self.fail(f"{what}: not in {seconds} s\n" +
                          "\n--\n".join(one.text()[-2000:] for one in self.trainers))
            time.sleep(0.01)

    def expect_done(self, trainers, steps):
        """All have ended well, with the weights that every step has made."""
        for one in trainers:
            self.wait_for("end", lambda one=one: one.process.poll() is not None)
            self.assertEqual(one.process.returncode, 0, one.text()[-2000:])
            self.assertIn(f"done {steps} {steps}\n", one.text())

    def lose_in_all_reduce(self):
        """Three meet, one is killed while the others wait for it in all_reduce; the others."""
        others = [self.start(STEPS, 1000), self.start(STEPS, 1000)]
        victim = self.start(STEPS, 1000, 5)
        self.wait_for("pause", lambda: "paused" in victim.text())
        self.wait_for("all_reduce 5", lambda: all(one.steps() == 6 for one in others))
        time.sleep(0.2)
        return others, victim

    def test_a_rank_killed_in_all_reduce_is_named_and_the_others_go_on(self):
        others, victim = self.lose_in_all_reduce()
        victim.kill()
        self.expect_done(others, STEPS)
        for one in others:
            self.assertEqual([int(pid) for pid in LOST.findall(one.text())][:1],
                             [victim.process.pid], one.text())
            self.assertRegex(one.text(), "is lost: its connection closed|not yet confirmed by the daemon")

    def test_a_loss_that_the_daemon_cannot_confirm_is_told_without(self):
        others, victim = self.lose_in_all_reduce()
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            victim.kill()
            self.wait_for("Aborted", lambda: all("failed" in one.text() for one in others))
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        for one in others:
            self.assertRegex(one.text(), r"all_reduce \d+ failed: rank \d on \S+ \(pid "
                             f"{victim.process.pid}\\): connection lost, not yet confirmed by the daemon")
        self.expect_done(others, STEPS)

    def test_ranks_killed_while_they_train_leave_a_team_that_goes_on(self):
        seed = random.randrange(1 << 30)
        moments = random.Random(seed)
        steps = 150
        for attempt in range(3):
            team = [self.start(steps, 300_000) for _ in range(4)]
            with self.subTest(seed=seed, attempt=attempt):
                for victim in team[:2]:
                    target = victim.steps() + moments.randrange(5, 40)
                    self.wait_for("training", lambda v=victim, t=target: v.steps() >= t)
                    time.sleep(moments.uniform(0, 0.02))
                    victim.kill()
                self.expect_done(team[2:], steps)


if __name__ == "__main__":
    at_once.main()
