#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/flight anew: the flight records of small jobs of PyTorch on Gloo that hang.

    ./dev torch newest
    ~/.cache/c10dd/torch/newest/bin/python tests/pytorch/flight_dumps.py tests/fixtures/flight

In each case but `healthy` one rank does something else than the others. Each process writes its
record as PyTorch would, some seconds after the job began to hang. The unit tests read the records without PyTorch.
"""
import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# The size of the job and the planted rank.
CASES = {"healthy": (3, None), "missing_rank": (4, 2), "wrong_operation": (4, 1), "wrong_size": (4, 3),
         "wrong_dtype": (4, 0), "crossed_groups": (3, 1), "killed_rank": (4, 3)}
PREFIX = "comm_lib_trace_rank_"
HANG_SECONDS = 3


def last_step(case, planted, pair, distributed, torch):
    """What the rank does after some good steps. Returns if it goes on."""
    values = torch.ones(4)
    groups = [distributed.group.WORLD]
    if case == "crossed_groups" and pair is not None:
        groups.insert(0 if planted else 1, pair)
    if planted and case == "missing_rank":
        return
    if planted and case == "killed_rank":
        os.kill(os.getpid(), signal.SIGKILL)
    if planted and case == "wrong_operation":
        distributed.reduce(values, dst=0)
        return
    if planted and case == "wrong_size":
        values = torch.ones(6)
    if planted and case == "wrong_dtype":
        values = torch.ones(4, dtype=torch.float64)
    for group in groups:
        distributed.all_reduce(values, group=group)


def write_record(folder, rank):
    """Writes the record as a pickle and as JSON. Then waits, because the end of a process is another fault."""
    time.sleep(HANG_SECONDS)
    from torch._C import _distributed_c10d as c10d
    for name, record in (("", c10d._dump_fr_trace()), ("-json", c10d._dump_fr_trace_json())):
        os.makedirs(folder + name, exist_ok=True)
        with open(os.path.join(folder + name, f"{PREFIX}{rank}"), "wb") as file:
            file.write(record)
    time.sleep(HANG_SECONDS)
    os._exit(0)


def work(case, rank, folder):
    import torch
    from torch import distributed

    size, planted = CASES[case]
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size,
                                   timeout=datetime.timedelta(seconds=60))
    pair = distributed.new_group([0, 1], group_desc="pair")
    pair = pair if rank < 2 else None
    for _ in range(2):
        distributed.all_reduce(torch.ones(4))
        distributed.broadcast(torch.ones(4), src=0)
        if pair is not None:
            distributed.all_reduce(torch.ones(2), group=pair)
    threading.Thread(target=write_record, args=(os.path.join(folder, case), rank)).start()
    try:
        last_step(case, rank == planted, pair, distributed, torch)
    except RuntimeError as error:  # Gloo notices some of the faults
        print(f"{case}: rank {rank}: {error}", flush=True)
    time.sleep(60)


def make(case, to):
    """Runs one case, and keeps the records; of missing_rank those in JSON, too."""
    with tempfile.TemporaryDirectory(prefix="flight") as folder:
        script = shutil.copy(__file__, os.path.join(folder, "train.py"))
        environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "16", "OMP_NUM_THREADS": "1"}
        ranks = [subprocess.Popen([sys.executable, script, case, str(rank), folder], env=environment)
                 for rank in range(CASES[case][0])]
        for one in ranks:
            one.wait()
        for name in (case, f"{case}-json") if case == "missing_rank" else (case,):
            shutil.rmtree(os.path.join(to, name), ignore_errors=True)
            shutil.copytree(os.path.join(folder, name), os.path.join(to, name))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        for each in CASES:
            make(each, sys.argv[1])
    else:
        work(sys.argv[1], int(sys.argv[2]), sys.argv[3])
