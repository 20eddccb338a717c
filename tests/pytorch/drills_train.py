# SPDX-License-Identifier: Apache-2.0
"""The trainer of drills.py: some all_reduces, then a long computation, then a good end.

    drills_train.py [INIT_METHOD]

In the folder DRILLS_FOLDER a file `here-RANK` says that a rank computes, and `end` ends the computation. The rank
DRILLS_HELD waits for the file `release` before it joins."""
import os
import sys
import time

import torch
import torch.distributed as dist

FOLDER = os.environ["DRILLS_FOLDER"]


def wait_for(name):
    while not os.path.exists(os.path.join(FOLDER, name)):
        time.sleep(0.05)


def main():
    rank = int(os.environ["RANK"])
    if len(sys.argv) > 1:
        import c10dd.torch  # noqa: F401  registers the scheme, which PyTorch before 2.5 does not do
    if os.environ.get("DRILLS_HELD") == str(rank):
        wait_for("release")
    dist.init_process_group("gloo", init_method=sys.argv[1] if len(sys.argv) > 1 else None)
    for _ in range(5):
        dist.all_reduce(torch.ones(10))
    with open(os.path.join(FOLDER, f"here-{rank}"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    wait_for("end")
    dist.barrier()
    dist.destroy_process_group()


main()
