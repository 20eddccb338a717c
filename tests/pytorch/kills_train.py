# SPDX-License-Identifier: Apache-2.0
"""The trainer of kills.py: DDP on the digits. In each step a rank adds, sets, gets another's key and waits for one that comes
late; a thread asks the store each second, as NCCL's does.

    kills_train.py PAUSE STEPS [INIT_METHOD]     STEPS 0: until the file `end` is there

Writes into the file `states` what each rank does: 'A' an add, 'W' a wait, '.' something else; and its step. Prints one line of
JSON at the end."""
import datetime
import hashlib
import json
import mmap
import os
import struct
import sys
import threading
import time

import torch
import torch.distributed as dist

PLACE = 64  # bytes for each rank in `states`


def digits():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/digits/data/digits.csv")
    with open(path, encoding="ascii") as file:
        rows = torch.tensor([[float(cell) for cell in line.split(",")] for line in file])
    return rows[:, :64] / 16, rows[:, 64].long()


class Steps:
    def __init__(self, folder, rank):
        with open(os.path.join(folder, "states"), "r+b") as file:
            self.states = mmap.mmap(file.fileno(), 0)
        self.at = rank * PLACE

    def does(self, what):
        self.states[self.at:self.at + 1] = what

    def begins(self, step):
        struct.pack_into("<Q", self.states, self.at + 8, step)


def watch(store, failures, done):
    """As the thread of NCCL: a client of its own, which asks for a key each second."""
    host, port = (store.host, store.port) if hasattr(store, "port") else (
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    own = dist.TCPStore(host, port, None, False, datetime.timedelta(seconds=300), wait_for_workers=False)
    while not done.wait(1):
        try:
            own.num_keys()
        except Exception as error:  # whatever it is, the test must hear of it
            failures.append(str(error))
            return


def address_of(store):
    """Tells the thread where the store is, also in 1.13, whose stores do not say it."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if "c10dd.torch" in sys.modules:
        proxy = sys.modules["c10dd.torch"]._clients.proxies
        if proxy:
            os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(proxy[-1].port)
    return store


def main():
    pause, steps = float(sys.argv[1]), int(sys.argv[2])
    method = sys.argv[3] if len(sys.argv) > 3 else None
    folder = os.environ["KILLS_FOLDER"]
    if method and not hasattr(torch, "_import_device_backends"):
        import c10dd.torch  # noqa: F401 -- PyTorch before 2.5 does not load it by itself
    dist.init_process_group("gloo", init_method=method, timeout=datetime.timedelta(seconds=300))
    rank, size = dist.get_rank(), dist.get_world_size()
    state = Steps(folder, rank)
    store = dist.distributed_c10d._get_default_store()
    failures, done = [], threading.Event()
    watcher = threading.Thread(target=watch, args=(address_of(store), failures, done), daemon=True)
    watcher.start()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images, labels = digits()
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step, going = 0, True
    while going:
        state.begins(step)
        late = step % size
        if rank == late:
            time.sleep(pause)
        state.does(b"A")
        store.add("count", 1)
        state.does(b".")
        store.set(f"key/{rank}/{step}", str(step))
        state.does(b"W")
        store.wait([f"key/{late}/{step}"])
        state.does(b".")
        assert store.get(f"key/{(rank + 1) % size}/{step}") == str(step).encode()
        chosen = torch.arange(rank + step * size * 16, rank + (step + 1) * size * 16, size) % 1500
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
        step += 1
        goes_on = step < steps if steps else not os.path.exists(os.path.join(folder, "end"))
        flag = torch.tensor([float(goes_on or rank > 0)])
        dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        going = flag.item() == 1
    dist.barrier()
    done.set()
    watcher.join()
    weights = torch.cat([one.detach().flatten() for one in model.parameters()]).numpy().tobytes()
    right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean().item()
    told = json.dumps({"rank": rank, "steps": step, "count": store.add("count", 0), "failures": failures,
                       "weights": hashlib.sha256(weights).hexdigest(), "accuracy": round(right, 3)})
    os.write(1, (told + "\n").encode())  # whole, among the lines of the others
    dist.barrier()


main()
