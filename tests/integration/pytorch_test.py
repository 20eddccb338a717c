# SPDX-License-Identifier: Apache-2.0
"""Unmodified PyTorch with the daemon as its store: process groups over gloo, all methods of the store,
time-outs of waits, and the end of the daemon. Skipped without PyTorch."""
import os
import subprocess
import sys
import time
import unittest

import at_once
from daemon import SLOWDOWN, Daemon

PYTHON = os.environ.get("C10DD_TORCH_PYTHON", "/usr/bin/python3")
PATIENCE = 60 * SLOWDOWN

GROUPS = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo", **eval(sys.argv[1]))
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.ones(8) * (rank + 1)
dist.all_reduce(tensor)
assert tensor.tolist() == [size * (size + 1) / 2] * 8, tensor
half = dist.new_group(list(range(size // 2)))
if rank < size // 2:
    dist.all_reduce(tensor, group=half)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": other} for other in range(size)], objects
dist.monitored_barrier()
print("done", rank)
"""

STORE = """
import datetime, sys
import torch.distributed as dist
host, port = sys.argv[1], int(sys.argv[2])
make = lambda: dist.TCPStore(host, port, 2, False, timeout=datetime.timedelta(seconds=30),
                             wait_for_workers=False)
store, other = make(), make()
store.set("k", "v")
assert other.get("k") == b"v"
assert store.add("counter", 5) == 5 and other.add("counter", -7) == -2
assert store.get("counter") == b"-2"
assert store.compare_set("cas", "", "x") == b"x"
assert store.compare_set("cas", "y", "z") == b"x"
assert store.compare_set("none", "y", "z") == b"y"
keys = store.num_keys()
assert store.delete_key("k") and not store.delete_key("k")
assert store.num_keys() == keys - 1
prefixed = dist.PrefixStore("a/b", store)
prefixed.set("kk", "")
assert other.get("a/b/kk") == b""
large = "x" * (1 << 20)
store.set("large", large)
assert other.get("large") == large.encode()
for _ in range(1000):
    store.set("many", "y")
assert other.get("many") == b"y"
try:
    store.wait(["never"], datetime.timedelta(seconds=1))
    raise SystemExit("the wait has not timed out")
except RuntimeError:
    pass
assert store.add("after", 1) == 1, "a late reply to the wait"
print("done")
"""

WAITER = """
import sys
import torch.distributed as dist
store = dist.TCPStore(sys.argv[1], int(sys.argv[2]), 2, False, wait_for_workers=False)
print("waits", flush=True)
try:
    store.get("never")
except RuntimeError as error:
    print("failed:", error)
"""


# A process opens further clients of its store and closes them, then closes the last one and opens it again.
REOPENED = """
import datetime, sys
import torch.distributed as dist
def client(**options):
    return dist.TCPStore(sys.argv[1], int(sys.argv[2]), 3, False, timeout=datetime.timedelta(seconds=20), **options)
first = client(wait_for_workers=False)
first.set("begin", "0")
for turn in range(1, 4):
    further = client()
    assert further.get("begin") == b"0", turn
    further.set(f"turn {turn}", str(turn))
    del further
assert [first.get(f"turn {turn}") for turn in range(1, 4)] == [b"1", b"2", b"3"]
del first
assert client().get("turn 3") == b"3"
print("done")
"""

# Processes that use the store one after the other; each has ended before the next one begins.
IN_TURN = """
import datetime, os, sys
import torch.distributed as dist
def client():
    return dist.TCPStore(sys.argv[1], int(sys.argv[2]), 4, False, timeout=datetime.timedelta(seconds=20))
for rank in range(1, 4):
    child = os.fork()
    if child == 0:
        store = client()
        store.set(f"square {rank}", str(rank * rank))
        os._exit(0 if store.add("sum", rank) == rank * (rank + 1) // 2 else 1)
    assert os.waitpid(child, 0)[1] == 0, rank
store = client()
assert [store.get(f"square {rank}") for rank in range(1, 4)] == [b"1", b"4", b"9"]
print("done")
"""

# A process group that is closed and opened again.
AGAIN = """
import sys, time
import torch, torch.distributed as dist
for turn in range(3):
    dist.init_process_group("gloo", **eval(sys.argv[1]))
    tensor = torch.ones(4) * (dist.get_rank() + 1)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0] * 4, (turn, tensor)
    time.sleep(0.5 * dist.get_rank())  # rank 0 opens the next one before rank 1 has closed this one
    dist.destroy_process_group()
print("done", sys.argv[2])
"""


def torch_is_there():
    found = subprocess.run([PYTHON, "-c", "import torch.distributed as d; d.TCPStore"],
                           capture_output=True, check=False)
    return found.returncode == 0


def start(program, *args, **environment):
    return subprocess.Popen([PYTHON, "-c", program, *args], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True,
                            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment)


def requests(daemon, op):
    """How many requests of an operation have come over TCPStore."""
    wanted = f'c10dd_store_requests_total{{op="{op}",protocol="tcpstore"}} '
    for line in daemon.http("/metrics")[1].splitlines():
        if line.startswith(wanted):
            return int(float(line[len(wanted):]))
    return None


class PyTorch(unittest.TestCase):
    def run_ranks(self, daemon, size, method, **environment):
        host, port = daemon.address
        ranks = [start(GROUPS, method.format(host=host, port=port, rank=rank, size=size),
                       MASTER_ADDR=host, MASTER_PORT=str(port), RANK=str(rank),
                       WORLD_SIZE=str(size), **environment) for rank in range(size)]
        outputs = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
        for rank, output in enumerate(outputs):
            self.assertIn(f"done {rank}", output, daemon.errors())
        self.assertEqual("", daemon.errors_of_level("warning"))

    def test_ranks_find_each_other_by_environment_variables(self):
        for shards in ("1", "3"):
            with PatientDaemon("--shards", shards) as daemon:
                self.run_ranks(daemon, 4, "{{'init_method': 'env://'}}",
                               TORCHELASTIC_USE_AGENT_STORE="True",
                               TORCHELASTIC_RESTART_COUNT="0")
                self.assertGreaterEqual(requests(daemon, "add"), 4)
                self.assertGreaterEqual(requests(daemon, "set"), 4)
                self.assertGreaterEqual(requests(daemon, "wait"), 4)

    def test_launches_that_follow_each_other_do_not_meet(self):
        with PatientDaemon("--shards", "3") as daemon:
            for launch in range(1, 4):
                self.run_ranks(daemon, 3, "{{'init_method': 'env://'}}",
                               TORCHELASTIC_USE_AGENT_STORE="True",
                               TORCHELASTIC_RESTART_COUNT="0")
                self.assertIn(f'event=run_began job=torch run=plain-{launch} ', daemon.errors())
            self.assertNotIn("plain-4", daemon.errors())

    def test_ranks_find_each_other_by_a_store(self):
        with PatientDaemon() as daemon:
            self.run_ranks(daemon, 2, "{{'store': dist.TCPStore('{host}', {port}, {size}, False), "
                                      "'rank': {rank}, 'world_size': {size}}}")

    def test_store_does_what_pytorchs_own_does(self):
        with PatientDaemon() as daemon:
            host, port = daemon.address
            output = start(STORE, host, str(port)).communicate(timeout=PATIENCE)[0]
            self.assertEqual("done\n", output, daemon.errors())

    def test_a_store_is_reopened_by_its_process(self):
        self.check_program(REOPENED)

    def test_a_store_is_used_by_one_process_after_the_other(self):
        self.check_program(IN_TURN)

    def check_program(self, program):
        with PatientDaemon("--shards", "2") as daemon:
            host, port = daemon.address
            output = start(program, host, str(port)).communicate(timeout=PATIENCE)[0]
            self.assertEqual("done\n", output, daemon.errors())
            self.assertNotIn("plain-2", daemon.errors())
            self.assertEqual("", daemon.errors_of_level("warning"))

    def test_a_process_group_that_is_opened_again_is_no_warning(self):
        with PatientDaemon("--shards", "2") as daemon:
            host, port = daemon.address
            ranks = [start(AGAIN, "{'init_method': 'env://'}", str(rank), MASTER_ADDR=host, MASTER_PORT=str(port),
                           RANK=str(rank), WORLD_SIZE="2", TORCHELASTIC_USE_AGENT_STORE="True",
                           TORCHELASTIC_RESTART_COUNT="0") for rank in range(2)]
            for rank, process in enumerate(ranks):
                self.assertIn(f"done {rank}", process.communicate(timeout=PATIENCE)[0], daemon.errors())
            self.assertEqual("", daemon.errors_of_level("warning"))

    def test_a_rank_that_waits_fails_when_the_daemon_dies(self):
        with PatientDaemon() as daemon:
            host, port = daemon.address
            waiter = start(WAITER, host, str(port))
            self.assertEqual("waits\n", waiter.stdout.readline())
            time.sleep(0.5 * SLOWDOWN)  # until it waits; if it does not yet, it fails all the same
            daemon.kill()
            killed = time.monotonic()
            output = waiter.communicate(timeout=PATIENCE)[0]
            self.assertTrue(output.startswith("failed:"), output)
            self.assertLess(time.monotonic() - killed, 10 * SLOWDOWN)

    def test_silent_connections_of_old_clients_stay(self):
        with PatientDaemon() as daemon:
            host, port = daemon.address
            waiter = start(WAITER, host, str(port))
            self.assertEqual("waits\n", waiter.stdout.readline())
            time.sleep(7 * SLOWDOWN)  # past the deadline of silent connections, 5 s
            _, metrics = daemon.http("/metrics")
            self.assertIn('c10dd_connections{protocol="tcpstore"} 2\n', metrics)
            waiter.kill()
            waiter.communicate()


class PatientDaemon(Daemon):
    """A daemon whose warnings can be asked for."""

    def errors_of_level(self, level):
        return "\n".join(line for line in self.errors().splitlines() if f"level={level}" in line)


if __name__ == "__main__":
    if not torch_is_there():
        print(f"skipped: {PYTHON} has no torch.distributed")
        sys.exit(77)
    at_once.main(3)
