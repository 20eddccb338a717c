#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The port that c10drun promises to rank 0 is free when rank 0 listens on it, although connections take the ports
that the kernel gives away, of which there are few: in a network of the test's own."""
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import at_once
from daemon import Daemon
from launcher import Launcher
from networks import CLONE_NEWNET, LIBC, check, current

LOW, HIGH = 40000, 40079
CONNECTIONS = 50  # at the same time; the kernel has two ports of three for them
# A server as PyTorch's, which comes some time after the promise.
RANK0 = ["/usr/bin/env", "python3", "-c", "import os, socket, sys, time\n"
         "time.sleep(0.5)\n"
         "server = socket.create_server(('', int(os.environ[sys.argv[1]])))\n"
         "print(server.getsockname()[1], flush=True)\n"]


class PromisedPorts(unittest.TestCase):
    def setUp(self):
        home = current()
        self.addCleanup(os.close, home)
        try:
            check(LIBC.unshare(CLONE_NEWNET))
            self.addCleanup(lambda: check(LIBC.setns(home, CLONE_NEWNET)))
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespaces: {error}")
        self.folder = self.scratch = tempfile.mkdtemp(prefix="c10drun-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    @staticmethod
    def set(name, value):
        with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
            file.write(value)

    def take_ports(self):
        """Connections that begin and end all the time."""
        server = socket.create_server(("127.0.0.1", 901), backlog=1000)
        end = threading.Event()

        def connect():
            mine = []
            while not end.is_set():
                try:
                    mine.append(socket.create_connection(("127.0.0.1", 901)))
                    mine[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its port is free at its end
                except OSError:
                    pass
                if len(mine) > CONNECTIONS:
                    mine.pop(0).close()
                time.sleep(0.002)
            for one in mine:
                one.close()

        def accept():
            accepted = []
            while not end.is_set():
                try:
                    accepted.append(server.accept()[0])
                except TimeoutError:
                    pass
                if len(accepted) > 2 * CONNECTIONS:
                    accepted.pop(0).close()
            server.close()

        server.settimeout(0.1)
        threads = [threading.Thread(target=connect), threading.Thread(target=accept)]
        for thread in threads:
            thread.start()

        def stop():
            end.set()
            for thread in threads:
                thread.join()
        self.addCleanup(stop)

    def launches(self):
        """The ports on which the ranks 0 of 20 launches have listened, ten of each form."""
        daemon = Daemon(port=900)
        daemon.start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        self.take_ports()
        ports = []
        for step in range(5):
            runs = [Launcher(self, "--daemon", "127.0.0.1:900", "--job", f"job{step}-{number}", "--store", store, "--no-prefix", "--",
                             *RANK0, variable)
                    for number, (store, variable) in enumerate(2 * [("rank0", "MASTER_PORT"), ("proxy", "C10DD_RANK0_PORT")])]
            for run in runs:
                self.assertEqual(0, run.wait(), run.said())
                ports.append(int(run.printed()))
                self.assertIn(f":{ports[-1]}, ", run.said())
        return ports

    def test_it_is_outside_of_what_the_kernel_gives_away_and_of_what_is_reserved(self):
        self.set("ip_local_port_range", f"{LOW} {HIGH}")
        self.set("ip_local_reserved_ports", "10000-39999,41000-65535")
        for port in self.launches():
            self.assertTrue(HIGH < port < 41000, port)

    def test_it_is_held_when_the_kernel_gives_all_away(self):
        self.set("ip_local_port_range", "1024 65535")
        self.set("ip_local_reserved_ports", f"1024-{LOW - 1},{HIGH + 1}-65535")
        for port in self.launches():
            self.assertTrue(LOW <= port <= HIGH, port)


if __name__ == "__main__":
    at_once.main(2)
