# SPDX-License-Identifier: Apache-2.0
"""What the daemon says of refused claims, stalled members, checkpoints and strangers at its port, as one log
line each; whom it answers over HTTP; and how it ends when it is told to before it serves."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.parse

import tcpstore_wire
import wire
from daemon import BIN, SLOWDOWN, Daemon, reserve_port
from wire import Wire, frame, text

JOIN, LEAVE, PROGRESS = 50, 52, 56

# One line of the log. A value is a word or is in quotes, so that it ends neither its field nor the line.
LINE = re.compile(r'\S+T\S+ level=\w+(?: [a-z_]+=(?:[^\s"=\\]+|"(?:[^"\\]|\\.)*"))+')
EVENT = re.compile(r' level=\w+ event=([a-z_]+)')
# What is in no line, whoever sent it: control characters, and those that change the direction of text.
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FORGED = (" event=engine_lost engine=none", '" event=engine_lost x="', "a=b", "\\", '\\" event=engine_lost "',
          "\n2026-01-01T00:00:00.000+0000 level=error event=engine_lost", "\x1b[2K\r", "\u202eevent=engine_lost",
          "\u2028event=engine_lost", "\u0085", "\x00", "'", "\x07" * 255)


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
            self.line(daemon, "event=rank_taken job=digits op=barrier code=rank_taken",
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
            self.line(daemon, "event=join_refused", "code=invalid_argument", " skipped=1")
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


class Forgery(unittest.TestCase):
    """Whatever a client sends as a name, each line of the log has its fields, and no line is the client's."""

    def check(self, daemon, *events):
        lines = daemon.errors().rstrip("\n").split("\n")
        seen = {EVENT.search(line)[1] for line in lines if EVENT.search(line)}
        for line in lines:
            self.assertRegex(line, rf"\A{LINE.pattern}\Z")
            self.assertNotRegex(line, HIDDEN)
        self.assertEqual(set(), set(events) - seen)
        self.assertNotIn("engine_lost", seen)

    def native(self, daemon, name):
        with Wire(daemon.address) as client:
            if client.hello(job=name, run=name, host=name).code != "ok":
                self.assertEqual("ok", client.hello(job="j", host=name).code)
            policy = struct.pack("<I", 8) + struct.pack("<II", 1, 1)
            place = text(name) + struct.pack("<Q", 0) + policy + struct.pack("<q?i", -1, False, -1) + \
                text(name) * 2 + struct.pack("<I", 1) + text(name) * 2 + struct.pack("<Q?q", 0, False, 10**10)
            client.call(JOIN, place)
            client.call(JOIN, join(name, 3, 2))
            client.set(name, name)
            client.add(name, 1)
            client.barrier(name, 0, 2, timeout_ns=10**6)
            client.exchange(name, 1, 2, [name], timeout_ns=10**6)
            client.call(PROGRESS, text(name) + struct.pack("<Q", 1) + text(name) + struct.pack("<Qq", 1, 1))
            client.call(LEAVE, text(name) + struct.pack("<QB", 1, 2) + text(name))

    def test_names_of_the_native_protocol(self):
        with Daemon() as daemon:
            for name in FORGED:
                self.native(daemon, name)
            time.sleep(0.5)
            self.check(daemon, "job_loaded", "barrier_timed_out", "join_refused", "generation_formed",
                       "generation_ended")

    def test_a_job_that_is_a_line_of_control_characters_is_refused(self):
        with Daemon() as daemon:
            for name in ("\x07" * 255, "\x1b" * 255, "\u202e" * 85):
                with Wire(daemon.address) as client:
                    self.assertEqual("invalid_argument", client.hello(job=name).code)
            self.check(daemon)

    def test_keys_of_tcpstore(self):
        with Daemon() as daemon:
            for name in FORGED:
                key = b"/default_pg/0//cpu//0/" + name.encode()
                for rank in (b"0", b"1"):
                    client = tcpstore_wire.Client.of_process(daemon.address, 7)
                    client.set(b"/torch.rendezvous." + name.encode() + b"/x", b"v")
                    client.set(b"default_pg/0//cpu//0/" + rank, name.encode())
                    client.set(key, name.encode())
                    client.add(key)  # its value is no number
                    client.close()
            self.check(daemon, "refused")

    def test_paths_and_bodies_of_http(self):
        with Daemon("--endpoint-ports", f"{reserve_port()}-65535") as daemon:
            for name in FORGED:
                word = urllib.parse.quote(name, safe="")
                for path, method in ((f"/{word}", "GET"), (f"/v1/jobs/{word}", "GET"), (f"/v1/jobs/{word}", "DELETE"),
                                     (f"/v1/jobs/{word}/runs/{word}", "DELETE")):
                    daemon.http(path, method)
                body = json.dumps({"name": name, "run": name}).encode()
                daemon.http(f"/v1/jobs/{word}/endpoints", "POST", body)
                daemon.http("/v1/checkpoint", "POST", json.dumps({"path": "/" + name}).encode())
                with socket.create_connection(daemon.address, timeout=10) as raw:
                    raw.sendall(f"GET /{name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(1000):
                        pass
            self.check(daemon, "endpoint_leased")


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
