#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A launch that knows its daemon by name, while the name servers are silent. C10DD_TEST_SECONDS: for how long."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import at_once
from daemon import SLOWDOWN, Daemon
from launcher import C10DRUN, ENVIRONMENT
from networks import TwoNetworks

SECONDS = int(os.environ.get("C10DD_TEST_SECONDS", "8"))
SILENT = "127.0.0.97"
# Runs a command that sees files of this test in /etc. Its name server never replies.
BESIDE = ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
          'for name in hosts resolv.conf nsswitch.conf; do mount --bind "$0/$name" "/etc/$name"; done; exec "$@"']


class Names(unittest.TestCase):
    def setUp(self):
        networks = TwoNetworks()
        self.addCleanup(networks.close)
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("hosts", "127.0.0.1 daemon.c10dd.test\n")
        self.write("resolv.conf", f"nameserver {SILENT}\noptions timeout:10 attempts:3\n")
        self.write("nsswitch.conf", "hosts: files dns\n")
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((SILENT, 53))
        self.addCleanup(server.close)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def start(self, *command):
        output = open(os.path.join(self.folder, "output"), "w+", encoding="utf-8")
        self.addCleanup(output.close)
        started = subprocess.Popen([*BESIDE, self.folder, *command], env=ENVIRONMENT, stdout=output, stderr=output)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        self.output = output
        return started

    def said(self):
        return os.pread(self.output.fileno(), 1 << 20, 0).decode()

    def connected(self, daemon):
        return re.search(r'^c10dd_connections\{protocol="native"\} [1-9]', daemon.http("/metrics")[1], re.M) is not None

    def until(self, what, seconds):
        end = time.monotonic() + seconds * SLOWDOWN
        while not what():
            self.assertLess(time.monotonic(), end, self.said())
            time.sleep(0.1)

    def test_the_last_good_address_is_used_while_the_name_servers_are_silent(self):
        with Daemon(engine=f"rocksdb:{self.folder}/state", port=29511) as daemon:
            launch = self.start(C10DRUN, "--rdzv-endpoint", "daemon.c10dd.test:29511", "--rdzv-id", "names",
                                "sleep", str(SECONDS + 4))
            self.until(lambda: self.connected(daemon), 10)
            self.write("hosts", "")
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                daemon.stop()
                daemon.start()
                self.until(lambda: self.connected(daemon), 5)
                time.sleep(3)
            self.assertEqual(0, launch.wait(20 * SLOWDOWN), self.said())

    def test_a_name_that_nobody_resolves_is_said_in_time(self):
        self.write("hosts", "")
        began = time.monotonic()
        launch = self.start(C10DRUN, "--rdzv-endpoint", "daemon.c10dd.test:29511", "--rdzv-id", "names",
                            "--connect-timeout", "6", "true")
        self.assertNotEqual(0, launch.wait(30 * SLOWDOWN))
        self.assertLess(time.monotonic() - began, 12 * SLOWDOWN)
        self.assertIn("host name daemon.c10dd.test was not resolved within", self.said())


if __name__ == "__main__":
    at_once.main(1)
