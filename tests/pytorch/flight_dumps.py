#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/flight anew: the flight records of small jobs of PyTorch that hang.

    ./dev torch newest
    ~/.cache/c10dd/torch/newest/bin/python tests/pytorch/flight_dumps.py tests/fixtures/flight
    python3 tests/pytorch/flight_dumps.py tests/fixtures/flight/nccl nccl

The first is on Gloo. The ranks of the second share the first GPU.

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
from concurrent.futures import ThreadPoolExecutor

# The size of the job and the planted rank.
CASES = {"healthy": (3, None), "missing_rank": (4, 2), "wrong_operation": (4, 1), "wrong_size": (4, 3),
         "wrong_dtype": (4, 0), "crossed_groups": (3, 1), "killed_rank": (4, 3)}
# Gloo's records do not name the ranks of these groups.
GLOO_CASES = {"missing_in_pair": (4, 3), "silent_in_pair": (4, 3), "forgotten_pair": (4, 3), "halves": (4, 3)}
# The groups beside that of all ranks, else [0, 1].
PAIRS = {"missing_in_pair": [[1, 3]], "silent_in_pair": [[1, 3]], "halves": [[0, 1], [2, 3]],
         "forgotten_pair": [[1, 3]]}
PREFIX = {"gloo": "comm_lib_trace_rank_", "nccl": "nccl_trace_rank_"}
HANG_SECONDS = 3


def last_step(case, planted, pair, distributed, torch, device):
    """What the rank does after some good steps. Returns if it goes on."""
    values = torch.ones(4, device=device)
    groups = [distributed.group.WORLD]
    if case == "crossed_groups" and pair is not None:
        groups.insert(0 if planted else 1, pair)
    if case.endswith("_pair"):
        groups = [pair] if pair is not None else []
    if case == "forgotten_pair":  # until the record has no operation of the pair, whose size is not the newest either
        distributed.new_group([0, 1, 3])
        for _ in range(20):
            distributed.all_reduce(values)
    if planted and case in ("missing_rank", "missing_in_pair", "silent_in_pair", "forgotten_pair", "halves"):
        return
    if planted and case == "killed_rank":
        os.kill(os.getpid(), signal.SIGKILL)
    if planted and case == "wrong_operation":
        distributed.reduce(values, dst=0)
        return
    if planted and case == "wrong_size":
        values = torch.ones(6, device=device)
    if planted and case == "wrong_dtype":
        values = torch.ones(4, dtype=torch.float64, device=device)
    for group in groups:
        distributed.all_reduce(values, group=group)


def records_of(backend):
    """The record of this process as a pickle and as JSON, without call stacks on NCCL, as they name a machine's files."""
    from torch._C import _distributed_c10d as c10d
    if backend == "nccl":
        return c10d._dump_nccl_trace(includeStackTraces=False), c10d._dump_nccl_trace_json()
    return c10d._dump_fr_trace(), c10d._dump_fr_trace_json()


def write_record(folder, rank, backend, silent):
    """Writes the record as a pickle and as JSON. Then waits, because the end of a process is another fault."""
    time.sleep(HANG_SECONDS)
    for name, record in () if silent else zip(("", "-json"), records_of(backend)):
        os.makedirs(folder + name, exist_ok=True)
        with open(os.path.join(folder + name, f"{PREFIX[backend]}{rank}"), "wb") as file:
            file.write(record)
    time.sleep(HANG_SECONDS)
    os._exit(0)


def work(case, rank, folder, backend):
    import torch
    from torch import distributed

    size, planted = (CASES | GLOO_CASES)[case]
    device = "cuda:0" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(0)
    distributed.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=size,
                                   timeout=datetime.timedelta(seconds=60))
    pairs = PAIRS.get(case, [[0, 1]])
    made = [distributed.new_group(ranks, group_desc="pair") for ranks in pairs]
    pair = next((group for group, ranks in zip(made, pairs) if rank in ranks), None)
    for _ in range(2):
        distributed.all_reduce(torch.ones(4, device=device))
        distributed.broadcast(torch.ones(4, device=device), src=0)
        if pair is not None:
            distributed.all_reduce(torch.ones(2, device=device), group=pair)
    if backend == "nccl":
        torch.cuda.synchronize()
    silent = case == "silent_in_pair" and rank == planted
    threading.Thread(target=write_record, args=(os.path.join(folder, case), rank, backend, silent)).start()
    try:
        last_step(case, rank == planted, pair, distributed, torch, device)
    except RuntimeError as error:  # Gloo notices some of the faults
        print(f"{case}: rank {rank}: {error}", flush=True)
    time.sleep(60)


def make(case, to, backend):
    """Runs one case, and keeps the records; of missing_rank those in JSON, too."""
    os.makedirs(to, exist_ok=True)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu"))
    from one_gpu import variables_of
    with tempfile.TemporaryDirectory(prefix="flight") as folder:
        script = shutil.copy(__file__, os.path.join(folder, "train.py"))
        environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "16", "OMP_NUM_THREADS": "1"}
        ranks = [subprocess.Popen([sys.executable, script, case, str(rank), folder, backend],
                                  env={**environment, **(variables_of(rank) if backend == "nccl" else {})})
                 for rank in range((CASES | GLOO_CASES)[case][0])]
        for one in ranks:
            one.wait()
        for name in (case, f"{case}-json") if case == "missing_rank" else (case,):
            shutil.rmtree(os.path.join(to, name), ignore_errors=True)
            shutil.copytree(os.path.join(folder, name), os.path.join(to, name))


if __name__ == "__main__":
    if len(sys.argv) <= 3:
        to, used = (sys.argv[1:] + ["gloo"])[:2]
        with ThreadPoolExecutor(max(1, os.cpu_count() // 4)) as pool:
            list(pool.map(lambda each: make(each, to, used), CASES if used == "nccl" else CASES | GLOO_CASES))
    else:
        work(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
