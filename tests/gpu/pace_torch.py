# SPDX-License-Identifier: Apache-2.0
"""The peer of `c10dd-gpu-check pace`: the same loop over torch.distributed. Starts RANKS processes that share the
first GPU, and prints medians in microseconds.

    pace_torch.py [RANKS]
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

from one_gpu import variables_of


def work(rank, size, store):
    import torch
    from torch import distributed
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=size)
    for count in (1, 1 << 18, 16 << 20):
        values = torch.ones(count, device="cuda")
        issued, ended = [], []
        for step in range(60):
            begin = time.perf_counter()
            distributed.all_reduce(values, op=distributed.ReduceOp.MAX)
            at = time.perf_counter()
            torch.cuda.current_stream().synchronize()
            if step >= 10:
                issued.append((at - begin) * 1e6)
                ended.append((time.perf_counter() - begin) * 1e6)
        if rank == 0:
            print(f"  torch, {size} ranks: {count * 4:9} bytes: issued after {statistics.median(issued):.1f} us, "
                  f"ended after {statistics.median(ended):.1f} us", flush=True)
    distributed.destroy_process_group()


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, str(rank), str(size), os.path.join(folder, "store")],
                                  env={**os.environ, **variables_of(rank)})
                 for rank in range(size)]
        return max(one.wait() for one in ranks)


if __name__ == "__main__":
    sys.exit(work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]) if len(sys.argv) == 4 else main())
