# SPDX-License-Identifier: Apache-2.0
"""Elastic training: a rank dies, the others go on; another comes, all go on together."""
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import at_once
from daemon import BIN, SLOWDOWN, Daemon, text_of
from digits_test import CLEAN, DATA, lines

# Longer than a machine stands still: whose connection has closed is lost sooner than this.
LONG_TTL = 30
EPOCHS = 30 if SLOWDOWN == 1 else 16  # under sanitizers an epoch takes ten seconds


class Rank:
    """A process of the training; its output is read from a file while it grows."""

    def __init__(self, url, output, size="2:4", epochs=EPOCHS, ttl=LONG_TTL):
        self.output = output
        self.process = subprocess.Popen(
            [os.path.join(BIN, "digits"), "--data", DATA, "--url", url, "--elastic", size,
             "--epochs", str(epochs), "--ttl", str(ttl), "--last-call", "3"],
            env=CLEAN, stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return text_of(self.output)

    def generations(self):
        return [(int(one["number"]), int(one["size"])) for one in lines(self.text(), "generation")]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class ElasticTest(unittest.TestCase):
    def setUp(self):
        self.ranks = []
        self.addCleanup(lambda: [rank.end() for rank in self.ranks])

    def start(self, url, **options):
        file = tempfile.TemporaryFile()
        self.addCleanup(file.close)
        self.ranks.append(Rank(url, file, **options))
        return self.ranks[-1]

    def wait_for(self, what, condition, seconds=60):
        end = time.monotonic() + seconds * SLOWDOWN
        while not condition():
            if time.monotonic() > end:
                self.fail(f"{what}: not in {seconds} s\n" +
                          "\n--\n".join(rank.text()[-2000:] for rank in self.ranks))
            time.sleep(0.02)

    def test_four_ranks_lose_one_and_get_another(self):
        with Daemon("--log-level", "info") as daemon:
            url = "c10dd://{}:{}/elastic".format(*daemon.address)
            team = [self.start(url) for _ in range(4)]
            self.wait_for("a first epoch of four", lambda: any(
                lines(rank.text(), "epoch") for rank in team))
            self.wait_for("all have begun", lambda: all(
                rank.generations() == [(1, 4)] for rank in team))
            # Another one becomes rank 0.
            victim = next(rank for rank in team
                          if lines(rank.text(), "generation")[0]["rank"] == "0")
            victim.process.send_signal(signal.SIGKILL)
            victim.process.wait()
            rest = [rank for rank in team if rank is not victim]
            self.wait_for("three go on", lambda: all(
                rank.generations()[-1:] == [(2, 3)] for rank in rest))
            before = len(lines(rest[0].text(), "epoch"))
            self.wait_for("an epoch of three", lambda: sum(
                len(lines(rank.text(), "epoch")) for rank in rest) > before)
            back = self.start(url)
            everybody = rest + [back]
            self.wait_for("four again", lambda: all(
                rank.generations()[-1:] == [(3, 4)] for rank in everybody))
            for rank in everybody:
                self.assertEqual(rank.process.wait(120 * SLOWDOWN), 0, rank.text())
            results = [lines(rank.text(), "result")[0] for rank in everybody]
            self.assertEqual(len({one["parameters"] for one in results}), 1, results)
            self.assertEqual({one["rank"] for one in results}, {"0", "1", "2", "3"})
            for one in results:
                self.assertGreaterEqual(float(one["test_accuracy"]), 0.95)
            log = daemon.errors()
            self.assertRegex(log, r'event=generation_ended .*generation=1 reason="rank \d on \S+ '
                                  rf"\(pid {victim.process.pid}\) is lost")
            self.assertEqual(len(re.findall("event=generation_formed", log)), 3, log)
            status, metrics = daemon.http("/metrics")
            self.assertEqual(status, 200)
            for outcome, count in ("formed", 3), ("ended", 2):
                self.assertIn(f'c10dd_generations_total{{outcome="{outcome}",'
                              f'train_job="elastic"}} {count}', metrics)

    def test_the_daemon_may_die_in_between(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(engine=f"rocksdb:{folder}/state") as daemon:
                url = "c10dd://{}:{}/elastic".format(*daemon.address)
                team = [self.start(url, size="2:2") for _ in range(2)]
                self.wait_for("a first epoch", lambda: any(
                    lines(rank.text(), "epoch") for rank in team))
                daemon.kill()
                time.sleep(1)
                daemon.start()
                for rank in team:
                    self.assertEqual(rank.process.wait(120 * SLOWDOWN), 0, rank.text())
                    self.assertEqual(rank.generations(), [(1, 2)])

    def test_a_paused_rank_is_given_up_and_comes_back_as_a_newcomer(self):
        with Daemon("--log-level", "info") as daemon:
            url = "c10dd://{}:{}/elastic".format(*daemon.address)
            team = [self.start(url, size="2:3", ttl=8) for _ in range(3)]
            self.wait_for("a first epoch of three", lambda: any(
                lines(rank.text(), "epoch") for rank in team))
            paused, *rest = team
            paused.process.send_signal(signal.SIGSTOP)
            self.wait_for("two go on", lambda: all(
                rank.generations()[-1][1] == 2 for rank in rest))
            paused.process.send_signal(signal.SIGCONT)
            self.wait_for("three again", lambda: all(
                rank.generations()[-1][1] == 3 for rank in team))
            for rank in team:
                self.assertEqual(rank.process.wait(120 * SLOWDOWN), 0, rank.text())
            results = [lines(rank.text(), "result")[0] for rank in team]
            self.assertEqual(len({one["parameters"] for one in results}), 1, results)
            # What it was told of while it was paused was over when it woke: it missed a number.
            numbers = [[number for number, _ in rank.generations()] for rank in team]
            self.assertEqual(numbers[1], numbers[2])
            self.assertEqual(numbers[0], [numbers[1][0], numbers[1][-1]])
            self.assertRegex(daemon.errors(), r'reason="rank \d on \S+ '
                                              rf"\(pid {paused.process.pid}\) is lost: silent")

    def test_options_that_make_no_sense(self):
        for size in ("4:2", "0:3", "three", "2:4x"):
            rank = self.start("c10dd://127.0.0.1:1/none", size=size)
            self.assertEqual(rank.process.wait(20), 64)
            self.assertIn("not MIN:MAX with 1 <= MIN <= MAX", rank.text())


if __name__ == "__main__":
    at_once.main(3)
