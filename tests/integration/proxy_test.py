#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The node proxy of c10drun: clients of PyTorch's TCPStore survive the daemon, whatever happens to it."""
import json
import os
import signal
import tempfile
import threading
import time
import unittest

import at_once
from daemon import SLOWDOWN, Daemon
from launcher import Launcher
from tcpstore_wire import CANCEL_WAIT, GET, Client, OldClient, message, wait

# Tells where the store of the workers is, and keeps it open until a file comes.
HOLD = 'echo $MASTER_PORT >"$OUT/port.tmp"; mv "$OUT/port.tmp" "$OUT/port"; while [ ! -e "$OUT/end" ]; do sleep 0.05; done'


class Proxied(unittest.TestCase):
    engine = "rocksdb"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = self.scratch = folder.name
        self.daemon = Daemon(engine=f"rocksdb:{folder.name}/state" if self.engine == "rocksdb" else "memory:")
        self.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)
        address = "%s:%d" % self.daemon.address
        self.launch = Launcher(self, "--daemon", address, "--job", "kept", "sh", "-c", HOLD)
        self.port = int(self.until(lambda: self.read("port")))

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def until(self, what, seconds=20):
        end = time.monotonic() + seconds * SLOWDOWN
        while not (value := what()):
            self.assertLess(time.monotonic(), end, self.launch.said())
            time.sleep(0.02)
        return value

    def client(self, kind=Client):
        client = kind(("127.0.0.1", self.port))
        self.addCleanup(client.close)
        return client

    def end(self):
        with open(os.path.join(self.folder, "end"), "w", encoding="ascii"):
            pass
        self.assertEqual(0, self.launch.wait(), self.launch.said())


class Survives(Proxied):
    def test_each_change_is_made_once_although_the_daemon_is_killed_again_and_again(self):
        done = threading.Event()
        counts = [0] * 4

        def count(index, client):
            while not done.is_set():
                client.add(b"n")
                counts[index] += 1

        clients = [self.client(kind) for kind in (Client, Client, OldClient, OldClient)]
        threads = [threading.Thread(target=count, args=one) for one in enumerate(clients)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            time.sleep(0.2)
            self.daemon.kill()
            time.sleep(0.1)
            self.daemon.start()
        time.sleep(0.5)
        done.set()
        for thread in threads:
            thread.join()
        self.assertGreater(min(counts), 5)
        self.assertEqual(sum(counts), self.client().add(b"n", 0))
        self.end()

    def test_a_blocked_wait_ends_when_the_key_comes_after_the_daemon_was_killed(self):
        waiter, setter = self.client(), self.client()
        waiter.socket.sendall(wait(b"late"))
        time.sleep(0.2)
        self.daemon.kill()
        setter.set(b"late", b"1")  # it gets no reply
        time.sleep(0.2)
        self.daemon.start()
        self.assertEqual(b"\0", waiter.receive(1))
        self.assertEqual(b"1", setter.get(b"late"))
        self.end()

    def test_a_wait_is_cancelled_while_the_daemon_is_away(self):
        waiter = self.client()
        waiter.socket.sendall(wait(b"never"))
        time.sleep(0.1)
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            self.assertEqual(b"\1", waiter.ask(bytes([CANCEL_WAIT]), 1))
            self.assertLess(time.monotonic() - began, 1 * SLOWDOWN)
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.assertEqual(1, waiter.add(b"n"))
        self.end()

    def test_an_add_waits_for_the_daemon_and_wraps_as_in_pytorch(self):
        client = self.client()
        self.assertEqual(2**63 - 1, client.add(b"n", 2**63 - 1))
        self.daemon.kill()
        threading.Timer(0.5, self.daemon.start).start()
        self.assertEqual(-2**63, client.add(b"n"))
        self.assertEqual(2**63 - 1, client.add(b"n", -1))
        self.assertEqual(b"9223372036854775807", client.get(b"n"))
        self.end()

    def test_a_key_beyond_the_limit_closes_the_connection_and_the_limit_is_told(self):
        client = self.client()
        client.set(b"k" * 8192, b"v")
        self.assertEqual(b"v", client.get(b"k" * 8192))
        client.set(b"k" * 65536, b"v")
        self.assertTrue(client.is_closed(10 * SLOWDOWN))
        self.until(lambda: "set: the key has 65536 bytes, limit 8192" in self.launch.said())
        self.end()

    def test_a_client_that_reads_nothing_costs_no_memory(self):
        client = self.client()
        client.set(b"k", b"v" * (8 << 20))
        client.get(b"k")
        client.socket.settimeout(2)
        try:
            client.socket.sendall(message(GET, b"k") * 300)
        except TimeoutError:
            pass
        time.sleep(1)
        with open(f"/proc/{self.launch.process.pid}/statm", encoding="ascii") as statm:
            resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.assertLess(resident, 200 << 20)
        self.assertEqual(1, self.client().add(b"n"))
        client.close()
        self.end()

    def test_the_page_of_the_job_names_the_rank_that_is_missing(self):
        client, waiter = self.client(), self.client()
        client.set(b"default_pg/0//cpu//0/0", b"x" * (154 + 2 * 8))  # Gloo's, of rank 0 of 2
        waiter.socket.sendall(wait(b"default_pg/0//cpu//0/1"))

        def missing():
            runs = json.loads(self.daemon.http("/v1/jobs/kept")[1])["runs"]
            return [run for run in runs if run["missing"] == [1] and run["waiters"] == 1]

        run, = self.until(missing)
        self.assertIn("ranks seen: [0]; ranks missing: [1]", run["summary"])
        self.end()

    def test_people_are_told_once_of_an_absence(self):
        clients = [self.client() for _ in range(8)]
        for client in clients:
            client.add(b"n")
        self.daemon.kill()
        self.until(lambda: "has not been reachable for" in self.launch.said(), 10)
        self.daemon.start()
        self.until(lambda: "c10dd: connected to the daemon at" in self.launch.said(), 20)
        self.assertEqual(1, self.launch.said().count("has not been reachable for"), self.launch.said())
        self.end()


class Forgets(Proxied):
    engine = "memory"

    def test_a_daemon_that_has_forgotten_the_run_closes_the_clients_and_says_why(self):
        client = self.client()
        self.assertEqual(1, client.add(b"n"))
        self.daemon.stop()
        self.daemon.start()
        self.assertIsNone(client.add(b"n"))
        self.assertIsNone(self.client().add(b"n"), "nor does a later one get an empty store")
        self.until(lambda: "proxy: closed the connection of " in self.launch.said())
        self.end()


if __name__ == "__main__":
    at_once.main(2)
