#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launches of one job by c10dd://, one after the other, each ended by Ctrl-C or SIGKILL at a random moment: none may see a key
of another.

    launches.py [--launches N] [--seed N] [VERSION]

A launch is two ranks. Each counts in its store; a count above 2 would be another launch's. A launch that is let alone must
meet, whatever happened to the one before. The daemon is killed in between, too."""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python"))
from package import ENVIRONMENT  # noqa: E402
from daemon import Daemon, text_of  # noqa: E402
from environments import DEBIAN, python_of  # noqa: E402

RANK = """
import datetime, os, sys, time
import c10dd.torch
store = c10dd.torch.store(sys.argv[1], timeout=datetime.timedelta(seconds=60))
os.write(1, b"count %d\\n" % store.add("count", 1))
time.sleep(float(sys.argv[2]))  # not in the store: PyTorch's own calls do not end by Ctrl-C
"""


class Launch:
    def __init__(self, python, url, seconds):
        self.log = tempfile.TemporaryFile()
        self.processes = [subprocess.Popen([python, "-c", RANK, url, str(seconds)], stdout=self.log, stderr=self.log,
                                           env={**ENVIRONMENT, "C10DD_LOG": "off", "RANK": str(rank), "WORLD_SIZE": "2",
                                                "OMP_NUM_THREADS": "1"}) for rank in range(2)]

    def counts(self):
        return [int(line.split()[1]) for line in text_of(self.log).splitlines() if line.startswith("count ")]

    def until_met(self, seconds=60):
        end = time.monotonic() + seconds
        while len(self.counts()) < 2:
            if time.monotonic() > end or any(process.poll() is not None for process in self.processes):
                raise SystemExit(f"a launch that was let alone did not meet:\n{text_of(self.log)[-3000:]}")
            time.sleep(0.02)

    def end(self, number):
        for process in self.processes:
            process.send_signal(number)
        for process in self.processes:
            process.wait(30)
        self.log.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", default=DEBIAN)
    parser.add_argument("--launches", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    python, chance = python_of(options.version), random.Random(options.seed)
    met = 0
    with tempfile.TemporaryDirectory() as folder, Daemon("--log-level", "warn", engine=f"rocksdb:{folder}/state") as daemon:
        for number in range(options.launches):
            launch = Launch(python, "c10dd://%s:%d/job" % daemon.address, 60)
            if number % 5 == 4:
                launch.until_met()
            else:
                time.sleep(chance.uniform(0.2, 4))
            if chance.random() < 0.2:
                daemon.kill()
                daemon.start()
            counts = launch.counts()
            if counts and max(counts) > 2:
                raise SystemExit(f"launch {number} has seen keys of another: {counts}")
            met += len(counts) == 2
            launch.end(chance.choice([signal.SIGINT, signal.SIGKILL]))
    print(f"{options.launches} launches, {met} had met when they were ended: none has seen a key of another")


main()
