# SPDX-License-Identifier: Apache-2.0
"""A trainer as users write it: stock PyTorch, no word of c10dd. Used by launchers.py.

    train.py [--init env|tcp://HOST:PORT|file:///PATH|store=HOST:PORT] [--spawn N] [--hold] [--fail-once]

Checks collectives of the world and of a group, gathers objects, and trains two steps with DDP. With
--hold, waits in the store for a key that nobody sets. With --fail-once, rank 1 fails before the first
collective, unless torchrun has started it again. Prints one line per rank."""
import argparse
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TIMEOUT = datetime.timedelta(seconds=60)


def initialise(how, rank, size):
    if how == "env":
        dist.init_process_group("gloo", timeout=TIMEOUT)
    elif how.startswith("store="):
        host, port = how[len("store="):].rsplit(":", 1)
        store = dist.TCPStore(host, int(port), size, is_master=False, timeout=TIMEOUT)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    else:
        dist.init_process_group("gloo", init_method=how, rank=rank, world_size=size, timeout=TIMEOUT)


def say(text):
    """To standard error, which torchrun 1.13.1 passes on."""
    print(text, file=sys.stderr, flush=True)


def train(size):
    rank = dist.get_rank()
    values = torch.tensor([float(rank + 1)])
    dist.all_reduce(values)
    assert values.item() == size * (size + 1) / 2, values
    even = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        values = torch.ones(1)
        dist.all_reduce(values, group=even)
        assert values.item() == (size + 1) // 2, values
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [one["rank"] for one in objects] == list(range(size)), objects
    dist.monitored_barrier()
    torch.manual_seed(rank)  # DDP must make the parameters equal
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.full((3, 4), float(rank))).sum().backward()
        optimizer.step()
    weights = [None] * size
    dist.all_gather_object(weights, [parameter.tolist() for parameter in model.parameters()])
    assert all(one == weights[0] for one in weights)


def run(rank, size, options):
    if rank is not None:
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(size)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    initialise(options.init, rank, size)
    if options.fail_once and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        say("rank 1 fails")
        os._exit(4)
    train(size)
    if options.hold:
        store = dist.distributed_c10d._get_default_store()
        say(f"rank {rank} waits")
        begin = time.monotonic()
        try:
            store.wait(["nobody-sets-it"], datetime.timedelta(seconds=120))
        except (RuntimeError, OSError) as error:
            first = str(error).splitlines()[0]
            say(f"rank {rank} error after {time.monotonic() - begin:.1f} s: {first}")
            os._exit(3)
    say(f"rank {rank} of {size}: trained")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--init", default="env")
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--fail-once", action="store_true")
    options = parser.parse_args()
    if options.spawn:
        mp.spawn(run, args=(options.spawn, options), nprocs=options.spawn)
    else:
        run(None, None, options)


if __name__ == "__main__":
    main()
