#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times store.get of the Python package beside PyTorch's TCPStore.get (libuv), in turns, in this process; both servers are
processes of their own. Needs a Python with PyTorch: get_pace.py [--rounds N]. Prints medians and their ratio."""
import argparse
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import package  # noqa: F401 -- finds the package
import c10dd
from daemon import Daemon

SERVER = """import sys, time, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
store.set("k", "v" * 16)
print(store.port, flush=True)
sys.stdin.read()
"""


def median(call, count=2000):
    """The median of so many calls, in microseconds."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with Daemon() as daemon, c10dd.connect("c10dd://%s:%d/pace" % daemon.address) as client:
        theirs = dist.TCPStore("127.0.0.1", int(server.stdout.readline()), None, False, wait_for_workers=False)
        store = client.store
        store.set("k", "v" * 16)
        rounds = [(median(lambda: store.get("k")), median(lambda: theirs.get("k"))) for _ in range(options.rounds)]
    server.stdin.close()
    server.wait()
    ours, their = (statistics.median(column) for column in zip(*rounds))
    print(f"c10dd {ours:.1f} us, TCPStore {their:.1f} us, ratio {statistics.median(a / b for a, b in rounds):.2f} "
          f"(PyTorch {torch.__version__})")


main()
