#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on two machines, of which those beside the daemon name it by its loopback address."""
import contextlib
import os
import subprocess
import tempfile
import time
import unittest

import at_once
from daemon import BIN, SLOWDOWN, Daemon
from launcher import ENVIRONMENT
from networks import TwoNetworks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits", "data", "digits.csv")


class Loopback(unittest.TestCase):
    def trained(self, near, far, prepare=lambda networks: None, near_ranks=1, environment=None):
        """Trains with ranks on the near machine and one on the far one. Returns each rank's exit code and text, and the
        seconds until all had ended."""
        with contextlib.ExitStack() as stack:
            networks = TwoNetworks(near, far)
            stack.callback(networks.close)
            prepare(networks)
            is_v6 = ":" in near
            daemon = Daemon("--allow-insecure-listen", host="::" if is_v6 else "0.0.0.0", port=29500)
            daemon.command[daemon.command.index("--listen") + 1] = "[::]:29500" if is_v6 else "0.0.0.0:29500"
            daemon.start()
            stack.callback(daemon.log.close)
            stack.callback(daemon.stop)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            ranks = []
            began = time.monotonic()
            for rank in range(near_ranks + 1):
                here = rank < near_ranks
                host = ("[::1]" if is_v6 else "127.0.0.1") if here else (f"[{near}]" if is_v6 else near)
                text = stack.enter_context(open(os.path.join(folder, str(rank)), "w+", encoding="utf-8"))
                ranks.append((subprocess.Popen(
                    [*(() if here else networks.in_far), os.path.join(BIN, "digits"), "--data", DATA, "--epochs", "1",
                     "--url", f"c10dd://{host}:29500/mixed", "--rank", str(rank), "--world-size", str(near_ranks + 1)],
                    stdout=text, stderr=subprocess.STDOUT, env={**ENVIRONMENT, **(environment or {}).get(rank, {})}), text))
            ended = []
            for process, text in ranks:
                stack.callback(process.kill)
                code = process.wait(60 * SLOWDOWN)
                text.seek(0)
                ended.append((code, text.read()))
            return ended, time.monotonic() - began

    def test_is_never_told_to_another_machine(self):
        for near, far in (("10.213.7.1", "10.213.7.2"), ("192.168.213.1", "192.168.213.2"),
                          ("33.213.7.1", "33.213.7.2"), ("fd00:213::1", "fd00:213::2")):
            with self.subTest(near):
                ended, _ = self.trained(near, far, near_ranks=2)
                self.assertEqual([0, 0, 0], [code for code, _ in ended], ended)

    def test_without_a_common_route_all_ranks_fail_at_once_and_say_why(self):
        def apart(networks):
            networks.ip("link add apart0 type veth peer name apart1", *networks.in_far)
            networks.ip("addr add 10.99.7.2/24 dev apart0", *networks.in_far)
            networks.ip("link set apart0 up", *networks.in_far)
        ended, seconds = self.trained("192.168.213.1", "192.168.213.2", apart,
                                      environment={1: {"GLOO_SOCKET_IFNAME": "nosuch0,apart0"}})
        self.assertLess(seconds, 5 * SLOWDOWN)
        for code, text in ended:
            self.assertEqual(1, code, ended)
            self.assertIn("rank 0 has the loopback address 127.0.0.1:", text)
            self.assertIn("which rank 1 at 10.99.7.2:", text)
            self.assertIn("no route to that rank: set interface or hostname", text)


if __name__ == "__main__":
    at_once.main(1)
