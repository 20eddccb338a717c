# SPDX-License-Identifier: Apache-2.0
"""Clients of TCPStore on another machine: who may use the daemon, and a host that goes without a word."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from daemon import SLOWDOWN, Daemon
from networks import TwoNetworks
from tcpstore_wire import Client

HERE = os.path.dirname(os.path.abspath(__file__))
RANK_KEY = b"/default_pg/0//cpu//0/0"
# A rank on the far machine. Prints what its join, its set and its get of the key have given, and stays.
RANK = """
import os, sys, time
from tcpstore_wire import Client
rank = Client((sys.argv[1], int(sys.argv[2])))
joined = rank.join()
if joined:
    rank.set(b"/default_pg/0//cpu//0/" + sys.argv[3].encode(), b"address")
    rank.count()
print(joined, flush=True)
sys.stdin.read()
"""


class Networks(unittest.TestCase):
    def setUp(self):
        self.networks = TwoNetworks()
        self.addCleanup(self.networks.close)

    def daemon(self, ranges, listen=None):
        daemon = Daemon("--allow-insecure-listen", "--tcpstore-from", ranges, host=TwoNetworks.NEAR)
        if listen:
            port = daemon.command[daemon.command.index("--listen") + 1].rsplit(":", 1)[1]
            daemon.command[daemon.command.index("--listen") + 1] = f"{listen}:{port}"
        daemon.start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        daemon.address = (TwoNetworks.NEAR, daemon.address[1])
        return daemon

    def far_rank(self, daemon, rank):
        """A rank on the far machine, and how many have joined its run; None if it was refused."""
        host, port = daemon.address
        process = subprocess.Popen([*self.networks.in_far, sys.executable, "-B", "-c", RANK, host, str(port), str(rank)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertTrue(line, daemon.errors())
        return process, None if line == "None\n" else int(line)

    def near_rank(self, daemon):
        client = Client(daemon.address)
        self.addCleanup(client.close)
        return client

    def test_a_peer_outside_the_ranges_is_closed(self):
        daemon = self.daemon("10.99.0.0/16,192.0.2.7")
        self.assertIsNone(self.far_rank(daemon, 0)[1])
        self.assertIn(f"TCPStore is not allowed from {TwoNetworks.FAR}, because it has no "
                      "authentication; add the address to --tcpstore-from", daemon.errors())
        refused = 'c10dd_protocol_errors_total{code="permission_denied",protocol="tcpstore"} 1\n'
        self.assertIn(refused, daemon.http("/metrics")[1])

    def test_a_peer_inside_the_ranges_is_served(self):
        self.assertEqual(1, self.far_rank(self.daemon("10.99.0.0/16,10.213.7.2"), 0)[1])

    def test_a_mapped_address_counts_as_ipv4(self):
        self.assertEqual(1, self.far_rank(self.daemon("10.213.7.0/24", listen="[::]"), 0)[1])

    def test_a_launch_whose_host_has_vanished_looks_alive_to_the_next_one_only(self):
        daemon = self.daemon("10.213.7.0/24")
        ranks = [self.far_rank(daemon, number) for number in (0, 1)]
        self.assertEqual([1, 2], [joined for _, joined in ranks])
        self.networks.set_link(False)
        for process, _ in ranks:  # neither FIN nor RST reaches the daemon
            process.kill()
            process.wait()
        time.sleep(0.2)
        second = [self.near_rank(daemon) for _ in range(2)]
        self.assertEqual([3, 4], [rank.join() for rank in second])
        second[0].set(RANK_KEY, b"other")
        for rank in second:
            self.assertTrue(rank.is_closed(1 * SLOWDOWN))
        self.assertRegex(daemon.errors(), f"event=rank_taken .*was set by {TwoNetworks.FAR}[ ,]")
        third = [self.near_rank(daemon) for _ in range(2)]
        self.assertEqual([1, 2], [rank.join() for rank in third])
        third[0].set(RANK_KEY, b"mine")
        self.assertEqual(b"mine", third[1].get_as_stock(RANK_KEY))

    @staticmethod
    def diagnosis(daemon):
        runs = json.loads(daemon.http("/v1/jobs/torch")[1])["runs"]
        return " ".join(run["diagnosis"].get("sentence", "") for run in runs)

    def seconds_until(self, daemon, blamed):
        """How long it takes until the host of the far rank is blamed, or is blamed no more."""
        began = time.monotonic()
        while True:
            sentence = self.diagnosis(daemon)
            took = time.monotonic() - began
            if ("whose host does not answer" in sentence) == blamed:
                self.assertIn(TwoNetworks.FAR if blamed else "", sentence)
                return took
            self.assertLess(took, 60 * SLOWDOWN, sentence)
            time.sleep(0.1)

    def test_a_host_that_has_vanished_is_known_within_15_s(self):
        daemon = self.daemon("10.213.7.0/24")
        far, joined = self.far_rank(daemon, 1)
        near = self.near_rank(daemon)
        self.assertEqual([1, 2], [joined, near.join()])
        near.set(RANK_KEY, b"address")
        far.send_signal(signal.SIGSTOP)  # its kernel still answers
        end = time.monotonic() + 15
        while time.monotonic() < end:
            self.assertNotIn("does not answer", self.diagnosis(daemon))
            time.sleep(0.5)
        self.networks.set_link(False)
        self.assertLess(self.seconds_until(daemon, True), 15 * SLOWDOWN)
        self.networks.set_link(True)
        self.assertLess(self.seconds_until(daemon, False), 10 * SLOWDOWN)
        far.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
