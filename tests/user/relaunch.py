#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job without a run is launched, stopped by Ctrl-C or SIGKILL at a random moment, and launched
again: the second launch is let in soon, and never meets the first. And links are cut for 5 s while
nobody launches anything: nobody is replaced.

    C10DD_BIN=build/bin tests/user/relaunch.py --seeds 50 [--from N] [--trainer PATH]
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import SLOWDOWN, Daemon, text_of  # noqa: E402
from installed import Installed  # noqa: E402
from link import Link  # noqa: E402

RANKS = 3
ENDLESS = 1_000_000  # steps
FIRST_TIMEOUT = 8    # of a launch whose ranks are to notice that others have died
SECOND_TIMEOUT = 60
ENDS_BY_ITSELF = 15
RELEASED = 3          # after the last rank came
RELEASED_RESTART = 12  # when the daemon was restarted between the launches
CUT = 5


class Wrong(Exception):
    """Something that must not happen, in one sentence."""


def require(holds, text):
    if not holds:
        raise Wrong(text)


class Launch:
    """The ranks of one launch of a job. Use as a context manager: kills what is left."""

    def __init__(self, trainer, urls, number, steps, timeout, pauses=(0,) * RANKS):
        # A shell starts background programs with SIGINT ignored, and they would pass that on.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.number = number
        self.files = [tempfile.TemporaryFile() for _ in urls]
        self.ranks = []
        for rank, (url, file, pause) in enumerate(zip(urls, self.files, pauses)):
            time.sleep(pause)
            self.ranks.append(subprocess.Popen(
                [trainer, "work", url, str(rank), str(len(urls)), str(number), str(steps),
                 str(timeout)], stdout=file, stderr=subprocess.STDOUT))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.ranks:
            process.kill()
            process.wait()
        for file in self.files:
            file.close()

    def texts(self):
        return [text_of(file) for file in self.files]

    def times_of(self, word):
        """When each rank said it, of those that have."""
        return [float(line.split()[0]) for text in self.texts() for line in text.splitlines()
                if line.split()[1:2] == [word]]

    def wait(self, seconds):
        """Until all ranks have ended; their exit codes."""
        end = time.monotonic() + seconds * SLOWDOWN
        for rank, process in enumerate(self.ranks):
            try:
                process.wait(max(0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Wrong(f"launch {self.number}: rank {rank} has not ended in {seconds} s"
                            ) from None
        return [process.returncode for process in self.ranks]

    def report(self):
        """What each rank said, of its steps only the last."""
        said = []
        for rank, text in enumerate(self.texts()):
            said.append(f"launch {self.number}, rank {rank}:")
            lines = text.splitlines()
            said += [line for line, after in zip(lines, lines[1:] + [""])
                     if " step " not in line or " step " not in after]
        return "\n".join(said)


def stop_some(launch, dice):
    """Sends SIGINT or SIGKILL to all ranks, or to some, and waits for them; what was done."""
    count = RANKS if dice.random() < 0.5 else dice.randint(1, RANKS - 1)
    victims = sorted(dice.sample(range(RANKS), count))
    sent = dice.choice([signal.SIGINT, signal.SIGKILL])
    for rank in victims:
        launch.ranks[rank].send_signal(sent)
    for rank in victims:
        launch.ranks[rank].wait(10)
    return f"{sent.name} to ranks {victims}"


def check_second(launch, bound):
    """How long its last rank waited for the release."""
    codes = launch.wait(bound + 30)
    for text in launch.texts():
        require("failed:" not in text, "a rank of the second launch failed")
    require(codes == [0] * RANKS, f"the second launch ended with {codes}")
    came, released = max(launch.times_of("arrives")), launch.times_of("released")
    require(min(released) >= came, "a rank was released before the last of its launch came")
    require(max(released) - came <= bound * SLOWDOWN,
            f"released {max(released) - came:.2f} s after the last rank came, limit {bound} s")
    return max(released) - came


def relaunch(seed, daemon, trainer, slack=1):
    """Two launches of a job of their own; what was done and how long the second one waited: at most
    `slack` times what is promised."""
    dice = random.Random(seed)
    urls = ["c10dd://{}:{}/relaunch-{}".format(*daemon.address, seed)] * RANKS
    pauses = [dice.choice([0, dice.uniform(0, 0.4)]) for _ in urls]  # some ranks come alone
    with Launch(trainer, urls, 1, ENDLESS, FIRST_TIMEOUT, pauses) as first:
        try:
            time.sleep(dice.uniform(0, 1))
            done = stop_some(first, dice)
            first.wait(ENDS_BY_ITSELF)
        except Wrong as wrong:
            raise Wrong(f"{wrong}\n{first.report()}") from None
        said = first.report()
    bound = RELEASED
    if seed % 3 == 0:
        daemon.kill()
        daemon.start()
        bound, done = RELEASED_RESTART, done + ", daemon restarted"
    with Launch(trainer, urls, 2, 3, SECOND_TIMEOUT) as second:
        try:
            waited = check_second(second, bound * slack)
        except Wrong as wrong:
            raise Wrong(f"{done}: {wrong}\n{said}\n{second.report()}") from None
    return f"{done}: released after {waited:.2f} s"


def cut_links(seed, daemon, trainer):
    """One launch whose links are cut, or silent, for a while in the middle; what was done."""
    dice = random.Random(seed)
    cut_at = dice.randint(0, 20)
    state = dice.choice(["cut", "silent"])
    victims = sorted(dice.sample(range(RANKS), dice.randint(1, RANKS)))
    links = [Link(daemon.address) for _ in range(RANKS)]
    urls = ["c10dd://{}:{}/cut-{}".format(*link.address, seed) for link in links]
    try:
        for link in links:
            link.start()
        with Launch(trainer, urls, 1, cut_at + 20, SECOND_TIMEOUT) as launch:
            try:
                give_up = time.monotonic() + 30 * SLOWDOWN
                while min(text.count(" step ") for text in launch.texts()) < cut_at:
                    require(time.monotonic() < give_up, f"step {cut_at} not reached in 30 s")
                    time.sleep(0.002)
                for rank in victims:
                    links[rank].state = state
                time.sleep(CUT)
                for rank in victims:
                    links[rank].state = "open"
                codes = launch.wait(60)
                require(codes == [0] * RANKS, f"the launch ended with {codes}")
                for text in launch.texts():
                    require("sessions_lost=0" in text, "a session was lost")
            except Wrong as wrong:
                raise Wrong(f"{state} {victims}: {wrong}\n{launch.report()}") from None
    finally:
        for link in links:
            link.close()
    return f"links of ranks {victims} {state} for {CUT} s at step {cut_at}: nobody replaced"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--trainer", help="one that is built; else it is built here")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="c10dd-relaunch-") as folder:
        trainer = options.trainer or Installed(folder).build_trainer()
        state = os.path.join(folder, "state")
        with Daemon(engine=f"rocksdb:{state}") as daemon:
            for seed in range(options.first, options.first + options.seeds):
                for scenario in (relaunch, cut_links) if seed % 5 == 0 else (relaunch,):
                    try:
                        print(f"seed {seed}: {scenario(seed, daemon, trainer)}", flush=True)
                    except Wrong as wrong:
                        failures += 1
                        print(f"seed {seed}: FAILED: {wrong}", flush=True)
    print(f"{options.seeds} seeds, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
