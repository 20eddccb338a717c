# SPDX-License-Identifier: Apache-2.0
"""What the daemon says of refused claims, stalled members, checkpoints and strangers at its port, as one log
line each; whom it answers over HTTP; and how it ends when it is told to before it serves."""
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import wire
from daemon import BIN, SLOWDOWN, Daemon
from wire import Wire, frame, text

JOIN, PROGRESS = 50, 56


def join(group, least, most):
    """With a time-out of 10 s, all else as it is by default."""
    policy = struct.pack("<II", least, most)
    return text(group) + struct.pack("<Q", 0) + struct.pack("<I", len(policy)) + policy + \
        struct.pack("<q?i", -1, False, -1) + text("") * 2 + struct.pack("<IQ?q", 0, 0, False, 10**10)


class Log(unittest.TestCase):
    def line(self, daemon, *words):
        """The line that has them all, once it is there."""
        deadline = time.monotonic() + 10 * SLOWDOWN
        while time.monotonic() < deadline:
            for line in daemon.errors().splitlines():
                if all(word in line for word in words):
                    return line
            time.sleep(0.02)
        return self.fail(f"no line has {words} in {daemon.errors()}")

    def clients(self, daemon, count, **options):
        made = [Wire(daemon.address) for _ in range(count)]
        for client in made:
            self.addCleanup(client.close)
            self.assertEqual("ok", client.hello(**options).code)
        return made

    def test_rank_that_is_taken(self):
        with Daemon() as daemon:
            first, second = self.clients(daemon, 2, job="digits")
            first.send(frame(wire.BARRIER, text("start") + struct.pack("<QQIIq", 0, 0, 1, 2, 10**10),
                             sequence=1))
            self.assertEqual("ok", first.call(wire.PING, b"", sequence=0).code)
            self.assertEqual("rank_taken", second.barrier("start", 1, 2, timeout_ns=10**9).code)
            self.line(daemon, "event=rank_taken job=digits op=barrier code=rank_taken skipped=0",
                      'barrier \\"start\\"', "rank 1")

    def test_join_that_is_refused(self):
        with Daemon() as daemon:
            first, second = self.clients(daemon, 2, job="digits")
            first.send(frame(JOIN, join("team", 2, 2), sequence=1))
            self.assertEqual("ok", first.call(wire.PING, b"", sequence=0).code)
            self.assertEqual("size_mismatch", second.call(JOIN, join("team", 2, 3)).code)
            self.line(daemon, "event=join_refused job=digits op=join code=size_mismatch", "team")

    def test_many_refusals_are_few_lines(self):
        with Daemon() as daemon:
            (client,) = self.clients(daemon, 1, job="digits")
            for _ in range(200):
                self.assertEqual("invalid_argument", client.call(JOIN, join("team", 3, 2)).code)
            time.sleep(1.1)
            self.assertEqual("invalid_argument", client.call(JOIN, join("team", 3, 2)).code)
            self.line(daemon, "event=join_refused", "code=invalid_argument skipped=1")
            self.assertLess(daemon.errors().count("event=join_refused"), 150)

    def test_member_that_stalls(self):
        with Daemon() as daemon:
            (client,) = self.clients(daemon, 1, job="digits", host="node-a")
            self.assertEqual("ok", client.call(JOIN, join("team", 1, 1)).code)
            promise = text("team") + struct.pack("<Q", 1) + text("backward") + \
                struct.pack("<Qq", 12, 300_000_000)
            self.assertEqual("ok", client.call(PROGRESS, promise).code)
            deadline = time.monotonic() + 10 * SLOWDOWN
            while "event=member_stalled" not in daemon.errors() and time.monotonic() < deadline:
                self.assertEqual("ok", client.call(wire.PING, b"", sequence=0).code)
                time.sleep(0.05)
            self.line(daemon, "event=member_stalled job=digits group=team generation=1 ranks=[0]",
                      "rank 0 on node-a (pid ", "in backward of step 12")

    def test_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(engine=f"rocksdb:{folder}/state") as daemon:
                command = [os.path.join(BIN, "c10dd"), "--listen",
                           f"{daemon.address[0]}:{daemon.address[1]}", "--checkpoint"]
                self.assertEqual(0, subprocess.run([*command, f"{folder}/copy"], timeout=60,
                                                   stdout=subprocess.DEVNULL, check=False).returncode)
                line = self.line(daemon, f'event=checkpoint_written path="{folder}/copy" bytes=')
                self.assertGreater(int(line.rsplit("=", 1)[1]), 100)
                self.assertEqual(64, subprocess.run([*command, f"{folder}/copy"], timeout=60,
                                                    stderr=subprocess.DEVNULL, check=False).returncode)
                self.line(daemon, f'event=checkpoint_refused path="{folder}/copy" code=invalid_argument',
                          "already exists")

    def test_pytorch_at_a_port_that_does_not_serve_it(self):
        for first in (0x00, 0x03, 0x0B):
            with Daemon("--protocols", "native,http") as daemon:
                with socket.create_connection(daemon.address, timeout=10) as stranger:
                    stranger.sendall(bytes([first]) + b"\x3c\x85\xf7\xf6")
                    while stranger.recv(100):
                        pass
                self.line(daemon, "event=refused", f"byte {first};",
                          "it looks like tcpstore: add tcpstore to --protocols")
        with Daemon("--protocols", "native,http") as daemon:
            with socket.create_connection(daemon.address, timeout=10) as stranger:
                stranger.sendall(b"\x0c")
                while stranger.recv(100):
                    pass
            self.assertNotIn("tcpstore:", self.line(daemon, "event=refused", "byte 12;"))


class Hosts(unittest.TestCase):
    def status(self, daemon, host):
        with socket.create_connection(daemon.address, timeout=10) as raw:
            raw.sendall(f"GET /v1/jobs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return int(raw.makefile("rb").readline().split()[1])

    def test_loopback_listener_answers_to_its_own_names(self):
        with Daemon() as daemon:
            port = daemon.address[1]
            for host in ("localhost", f"127.0.0.1:{port}", "[::1]"):
                self.assertEqual(200, self.status(daemon, host), host)
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
                self.assertEqual(403, self.status(daemon, host), host)
        with Daemon("--http-hosts", "tunnel.lan") as daemon:
            self.assertEqual(200, self.status(daemon, "tunnel.lan:29500"))
            self.assertEqual(403, self.status(daemon, "evil.example"))


class EarlyEnd(unittest.TestCase):
    def test_told_to_end_before_it_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            never_written = f"{folder}/config"
            os.mkfifo(never_written)
            for number in (signal.SIGTERM, signal.SIGINT):
                process = subprocess.Popen([os.path.join(BIN, "c10dd"), "--config", never_written])
                deadline = time.monotonic() + 5 * SLOWDOWN
                while not self.catches(process.pid, number) and time.monotonic() < deadline:
                    time.sleep(0.001)
                process.send_signal(number)
                self.assertEqual(0, process.wait(20))

    @staticmethod
    def catches(pid, number):
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            caught = next(line for line in status if line.startswith("SigCgt:"))
        return int(caught.split()[1], 16) >> (number - 1) & 1


if __name__ == "__main__":
    unittest.main(verbosity=2)
