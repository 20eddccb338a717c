# SPDX-License-Identifier: Apache-2.0
"""Tests in the style of PyTorch's own, which upstream_test.py runs through upstream.py. Some fail on purpose."""
import os
import pathlib
import signal
import unittest
import urllib.request

import torch.distributed as dist
from torch.testing._internal.common_distributed import create_tcp_store
from torch.testing._internal.common_utils import find_free_port


def is_daemon(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5) as answer:
        return answer.status == 200


class Passes(unittest.TestCase):
    def test_master(self):
        store = dist.TCPStore("localhost", 0, 1, True)
        store.set("key", "value")
        self.assertEqual(b"value", dist.TCPStore("localhost", store.port, is_master=False).get("key"))
        self.assertIsInstance(store, dist.TCPStore)
        self.assertTrue(is_daemon(store.port))

    def test_helper(self):
        self.assertTrue(is_daemon(create_tcp_store().port))

    def test_two_masters_on_two_ports(self):
        first, second = (dist.TCPStore("localhost", 0, 1, True) for _ in range(2))
        first.set("key", "value")
        self.assertEqual(1, second.num_keys(), "a server of its own has only the key of its clients")

    def test_rendezvous_shares_a_port(self):
        port = find_free_port()
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1")
        store = next(dist.rendezvous("env://"))[0]
        again = next(dist.rendezvous(f"tcp://localhost:{port}?rank=0&world_size=1"))[0]
        store.set("key", "value")
        self.assertEqual(b"value", again.get("key"))
        self.assertTrue(is_daemon(port))


class Listed(unittest.TestCase):
    def test_address_already_in_use(self):
        self.fail("was not left out")


class Fails(unittest.TestCase):
    def test_assertion(self):
        self.assertEqual(b"other", create_tcp_store().compare_set("key", "", "value"))

    def test_the_daemon_dies(self):
        create_tcp_store()
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        os.kill(int(children[-1]), signal.SIGKILL)
