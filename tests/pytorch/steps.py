# SPDX-License-Identifier: Apache-2.0
"""A stock trainer that uses its store in each step: it counts, sets a key, gets that of the next rank, waits for one
that comes late, and reduces a tensor. Prints `done RANK COUNT SUM`, and with SAY_STEPS=1 each step. Arguments: steps,
seconds of a step, and the init_method, if it is not that of the environment."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist



def say(line):
    """Writes the line as a whole, since the ranks share the output, and Python may run unbuffered."""
    os.write(1, (line + "\n").encode())


steps, pause = int(sys.argv[1]), float(sys.argv[2])
method = sys.argv[3] if len(sys.argv) > 3 else None
if method and method.startswith("c10dd://") and not hasattr(torch, "_import_device_backends"):
    import c10dd.torch  # noqa: F401 -- PyTorch before 2.5 does not load it by itself
dist.init_process_group("gloo", init_method=method, timeout=datetime.timedelta(seconds=120))
rank, size = dist.get_rank(), dist.get_world_size()
store = dist.distributed_c10d._get_default_store()
total = torch.zeros(4, dtype=torch.float64)
for step in range(steps):
    store.add("count", 1)
    if rank == step % size:
        time.sleep(pause)  # the others wait for this rank's key
    store.set(f"key/{rank}/{step}", str(step))
    store.wait([f"key/{other}/{step}" for other in range(size)])
    assert store.get(f"key/{(rank + 1) % size}/{step}") == str(step).encode()
    part = torch.full((4,), float(rank + step), dtype=torch.float64)
    dist.all_reduce(part)
    total += part
    if os.environ.get("SAY_STEPS"):
        say(f"step {step} {rank}")
dist.barrier()
say(f"done {rank} {store.add('count', 0)} {total[0].item()}")
