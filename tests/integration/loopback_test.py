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
from launcher import C10DRUN, ENVIRONMENT
from networks import TwoNetworks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits", "data", "digits.csv")


class Loopback(unittest.TestCase):
    def trained(self, near, far, prepare=lambda networks: None, near_ranks=1, environment=None, scopes=("", "")):
        """Trains with ranks on the near machine and one on the far one. Returns each rank's exit code and text, and the
        seconds until all had ended. `scopes`: what the machines add to the near address to reach it."""
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
                host = ("[::1]" if is_v6 else "127.0.0.1") if here else (f"[{near}{scopes[1]}]" if is_v6 else near)
                if here and scopes[0]:
                    host = f"[{near}{scopes[0]}]"
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
            self.assertIn("no route to that rank: set the option interface or hostname", text)

    def test_link_local_addresses_work_with_their_interface(self):
        for scopes in (("%near0", "%far0"), ("", "%25far0")):
            with self.subTest(scopes):
                ended, _ = self.trained("fe80::213:1", "fe80::213:2", near_ranks=2, scopes=scopes,
                                        environment={0: {"GLOO_SOCKET_IFNAME": "near0"}, 1: {"GLOO_SOCKET_IFNAME": "near0"}})
                self.assertEqual([0, 0, 0], [code for code, _ in ended], ended)

    def test_a_link_local_address_without_its_interface_is_refused_at_once(self):
        began = time.monotonic()
        done = subprocess.run([os.path.join(BIN, "digits"), "--data", DATA, "--url", "c10dd://[fe80::1]:29500/mixed", "--rank", "0",
                               "--world-size", "2"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(0, done.returncode)
        self.assertLess(time.monotonic() - began, 5 * SLOWDOWN)
        self.assertIn("fe80::1 is a link-local address and needs its interface; write for example [fe80::1%eth0]",
                      done.stderr)

    def test_a_launch_of_two_nodes_tells_the_far_one_no_loopback_address(self):
        networks = TwoNetworks()
        self.addCleanup(networks.close)
        daemon = Daemon("--allow-insecure-listen", host="0.0.0.0", port=29500)
        daemon.start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        lines = []
        launches = [subprocess.Popen([*place, C10DRUN, "--nnodes", "2", "--node-rank", str(rank), "--store", "rank0", "--daemon", address,
                                      "--job", "two", "sh", "-c", "echo $MASTER_ADDR"], env=ENVIRONMENT,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for rank, (place, address) in enumerate((((), "127.0.0.1:29500"),
                                                             (networks.in_far, "10.213.7.1:29500")))]
        for launch in launches:
            out, error = launch.communicate(timeout=60 * SLOWDOWN)
            self.assertEqual(0, launch.returncode, error)
            lines.append(out.strip())
        self.assertEqual(["[0] 10.213.7.1", "[1] 10.213.7.1"], lines)
        leased = subprocess.run([os.path.join(BIN, "c10ddctl"), "--daemon", "127.0.0.1:29500", "lease", "llm"],
                                capture_output=True, text=True, timeout=30, check=True).stdout
        self.assertRegex(leased, r"^MASTER_ADDR=10\.213\.7\.1 MASTER_PORT=\d+\n$")


if __name__ == "__main__":
    at_once.main(1)
