#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of the newest PyTorch that block in `queue_pop`: each pushed item comes to exactly one of them, and
none of them meets an empty queue. Skipped where `./dev torch newest` has not made its environment."""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))
from daemon import SLOWDOWN, Daemon  # noqa: E402
from environments import python_of  # noqa: E402

CLIENTS, ITEMS = 8, 1000
# Forks the clients from one process, because the import takes seconds. For each pause between two pushes,
# prints what each client has got.
PROGRAM = """
import json, multiprocessing, sys, time
from torch.distributed import TCPStore

def store():
    return TCPStore(sys.argv[1], int(sys.argv[2]), is_master=False, wait_for_workers=False, use_libuv=True)

def pop(queue, results):
    mine, items = store(), []
    while (item := mine.queue_pop(queue)) != b"stop":
        items.append(int(item))
    results.put(items)

clients, count = int(sys.argv[3]), int(sys.argv[4])
fork = multiprocessing.get_context("fork")
for pause in sys.argv[5:]:
    results = fork.Queue()
    processes = [fork.Process(target=pop, args=(pause, results)) for _ in range(clients)]
    for process in processes:
        process.start()
    pusher = store()
    for number in range(count):
        pusher.queue_push(pause, str(number))
        time.sleep(float(pause))
    for _ in processes:
        pusher.queue_push(pause, "stop")
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert pusher.queue_len(pause) == 0
    assert [process.exitcode for process in processes] == [0] * clients
    print(json.dumps(found), flush=True)
    del pusher
"""


class Queues(unittest.TestCase):
    def test_each_item_comes_to_one_client(self):
        pauses = ("0.002", "0")
        with Daemon("--shards", "2") as daemon:
            host, port = daemon.address
            run = subprocess.run([PYTHON, "-c", PROGRAM, host, str(port), str(CLIENTS), str(ITEMS), *pauses],
                                 capture_output=True, text=True, timeout=120 * SLOWDOWN, check=False)
            self.assertEqual(0, run.returncode, run.stderr)
            for pause, line in zip(pauses, run.stdout.splitlines(), strict=True):
                found = json.loads(line)
                print(f"{ITEMS} items, pause {pause} s, by client: {[len(items) for items in found]}")
                self.assertEqual(list(range(ITEMS)), sorted(item for items in found for item in items))
                for items in found:
                    self.assertEqual(sorted(items), items, "the queue is first in, first out")
            self.assertNotIn("level=warn", daemon.errors())
            pops = 'c10dd_store_requests_total{op="queue_pop",protocol="tcpstore"} '
            self.assertIn(f"{pops}{len(pauses) * (ITEMS + CLIENTS)}\n", daemon.http("/metrics")[1])


if __name__ == "__main__":
    PYTHON = python_of("newest")
    if PYTHON is None:
        print("skipped: the newest PyTorch is not installed; ./dev torch newest installs it")
        sys.exit(77)
    unittest.main(verbosity=2)
