#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups over c10dd:// that end and begin again inside of processes that live on.

    rejoin.py [--rounds N] [VERSION]

In each round rank 1 dies, rank 0 destroys its group, and rank 0 and a new process of rank 1 meet; every other time the new
process comes first. Then one process initializes and destroys 15 N groups: no descriptor and no thread may be left."""
import argparse
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python"))
from package import ENVIRONMENT  # noqa: E402
from daemon import SLOWDOWN, Daemon  # noqa: E402
from environments import DEBIAN, python_of  # noqa: E402

# Each line of the input is a step, and each step prints a line.
STEPS = """
import datetime, os, sys, threading
import c10dd.torch, torch
import torch.distributed as dist

url, kept = sys.argv[1] or None, []

def init(rank, size, seconds=60):
    dist.init_process_group("gloo", init_method=url, rank=int(rank), world_size=int(size),
                            timeout=datetime.timedelta(seconds=float(seconds)))
    return reduce()

def reduce():
    total = torch.ones(1)
    dist.all_reduce(total)
    return f"sum {int(total.item())}"

def drop():
    kept.clear()

def fork():
    child = os.fork()
    if child == 0:
        threading.Event().wait()
    return child

def destroy():
    dist.destroy_process_group()

def loop(rounds):
    for _ in range(int(rounds)):
        init(0, 1)
        destroy()

def held():
    return f"{len(os.listdir('/proc/self/fd'))} {len(os.listdir('/proc/self/task'))}"

def store(rank, size, seconds):
    kept.append(c10dd.torch.store(url, rank=int(rank), world_size=int(size),
                                  timeout=datetime.timedelta(seconds=float(seconds))))

def begin(*words):
    threading.Thread(target=store, args=words, daemon=True).start()

print("ready", flush=True)
for line in sys.stdin:
    step, *words = line.split()
    try:
        answer = globals()[step](*words)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print("done" if answer is None else answer, flush=True)
"""


class Process:
    """A process that does the steps of STEPS. Each answer is its next line."""

    def __init__(self, python, url, **variables):
        self.process = subprocess.Popen([python, "-c", STEPS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1,
                                        env={**ENVIRONMENT, "C10DD_LOG": "off", "OMP_NUM_THREADS": "1", **variables})
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.answer() == "ready"

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line.rstrip("\n"))
        self.lines.put("ended")

    def begin(self, step):
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()

    def answer(self, seconds=60):
        return self.lines.get(timeout=seconds * SLOWDOWN)

    def do(self, step):
        self.begin(step)
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


def until_held(process, most, seconds=10):
    """Waits until a process holds at most these descriptors and threads. Returns what it holds."""
    end = time.monotonic() + seconds * SLOWDOWN
    while True:
        held = [int(word) for word in process.do("held").split()]
        if all(has <= may for has, may in zip(held, most)) or time.monotonic() > end:
            return held
        time.sleep(0.05)


def survive(python, url, rounds, **variables):
    """Rank 0 lives through all rounds; in each, a new process is rank 1. Raises AssertionError."""
    zero, one = Process(python, url, **variables), Process(python, url, **variables)
    try:
        zero.begin("init 0 2")
        one.begin("init 1 2")
        for number in range(rounds + 1):
            said = [zero.answer(), one.answer()]
            assert said == ["sum 2", "sum 2"], f"round {number}: {said}"
            if number == rounds:
                break
            one.end()
            one = Process(python, url, **variables)
            if number % 2:  # the new process comes first
                one.begin("init 1 2")
                time.sleep(0.2)
            assert zero.do("destroy") == "done"
            zero.begin("init 0 2")
            if number % 2 == 0:
                time.sleep(0.2)
                one.begin("init 1 2")
    finally:
        zero.end()
        one.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", default=DEBIAN)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    python = python_of(options.version)
    with Daemon("--log-level", "warn") as daemon:
        url = "c10dd://%s:%d/job" % daemon.address
        survive(python, url, options.rounds)
        print(f"{options.rounds} rounds: a process that went on and a new one have met in each", flush=True)
        one = Process(python, url + "?name=loop")
        one.do("loop 3")
        before = until_held(one, [0, 0], 1)
        begun = time.monotonic()
        assert one.do(f"loop {15 * options.rounds}") == "done"
        seconds = time.monotonic() - begun
        held = until_held(one, before)
        one.end()
        if any(has > had for has, had in zip(held, before)):
            raise SystemExit(f"{15 * options.rounds} groups: descriptors and threads {before} before, {held} after")
        print(f"{15 * options.rounds} groups in one process, in {seconds:.0f} s: descriptors and threads {held}, before {before}")


if __name__ == "__main__":
    main()
