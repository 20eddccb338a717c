# SPDX-License-Identifier: Apache-2.0
"""What the daemon stands from its surroundings: too many connections, silence, signals, a pause, a
second daemon, quotas; and a listener that speaks one protocol."""
import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request

import at_once
import wire
from daemon import BIN, SLOWDOWN, Daemon
from wire import Wire, frame, text


def first_bytes(address, data):
    """The one native frame that a connection is answered with, and whether it ended then."""
    raw = Wire(address, magic=data)
    reply = raw.reply()
    ended = raw.reply() is None
    raw.close()
    return reply, ended


class OneProtocol(unittest.TestCase):
    def test_01_native_listener_answers_other_first_bytes_and_closes(self):
        with Daemon("--protocols", "native") as daemon:
            before = daemon.resident_bytes()
            for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0"):
                reply, ended = first_bytes(daemon.address, data)
                self.assertEqual("malformed", reply.code)
                self.assertIn(f"byte {data[0]}; enabled: native", reply.detail)
                self.assertTrue(ended)
            self.assertLess(daemon.resident_bytes() - before, 2 * 2**20 * SLOWDOWN)
            client = Wire(daemon.address)
            self.assertEqual("ok", client.hello().code)
            client.close()

    def test_http_listener_closes_on_native_bytes(self):
        with Daemon("--protocols", "http") as daemon:
            client = Wire(daemon.address)
            self.assertIsNone(client.reply())
            client.close()
            self.assertEqual(200, daemon.http("/livez")[0])


class Connections(unittest.TestCase):
    def test_one_address_takes_no_more_than_its_share(self):
        with Daemon("--max-connections-per-address", "4") as daemon:
            held = [Wire(daemon.address) for _ in range(4)]
            for client in held:
                self.assertEqual("ok", client.hello().code)
            refused = Wire(daemon.address)
            reply = refused.reply()
            self.assertEqual("quota_exceeded", reply.code)
            self.assertIn("127.0.0.1: 5 with this one, limit 4", reply.detail)
            self.assertIsNone(refused.reply())
            other = socket.socket()
            other.bind(("127.0.0.2", 0))
            other.connect(daemon.address)
            other.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b"200 OK", other.recv(100))
            other.close()
            held.pop().close()
            deadline = time.monotonic() + 5
            while daemon_answers(daemon) != "ok":  # a place is free again
                self.assertLess(time.monotonic(), deadline)
            for client in held + [refused]:
                client.close()

    def test_out_of_descriptors_serves_those_it_has(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
        daemon = Daemon("--shards", "1")
        popen = subprocess.Popen
        try:
            subprocess.Popen = lambda *a, **k: popen(*a, preexec_fn=few, **k)
            daemon.start()
        finally:
            subprocess.Popen = popen
        first = Wire(daemon.address)
        self.assertEqual("ok", first.hello().code)
        crowd, refused = [], 0
        for _ in range(200):
            crowd.append(Wire(daemon.address))
        for client in crowd:
            client.socket.settimeout(0.5)
            try:
                client.send(frame(wire.HELLO, wire.hello_body()))
                reply = client.reply()
                refused += reply is None or reply.code == "quota_exceeded"
            except (OSError, TimeoutError):
                refused += 1
        self.assertGreaterEqual(refused, 100)
        self.assertEqual("ok", first.set("k", "v").code)
        for client in crowd:
            client.close()
        self.assertEqual("ok", first.set("k", "v").code)
        deadline = time.monotonic() + 10
        while daemon_answers(daemon) != "ok":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        first.close()
        self.assertEqual(0, daemon.stop(), daemon.errors())
        daemon.log.close()

    def test_silent_connection_is_closed_and_a_pinging_one_stays(self):
        with Daemon("--idle-timeout", "3") as daemon:
            silent, lively = Wire(daemon.address), Wire(daemon.address)
            for client in (silent, lively):
                self.assertEqual("ok", client.hello().code)
            start = time.monotonic()
            ended = None
            while time.monotonic() < start + 30:  # the first look is at the deadline of hello
                self.assertEqual("ok", lively.call(wire.PING, b"").code)
                silent.socket.settimeout(0.3)
                try:
                    if silent.reply() is None:
                        ended = time.monotonic() - start
                        break
                except TimeoutError:
                    pass
            self.assertIsNotNone(ended)
            self.assertEqual("ok", lively.set("k", "v").code)
            silent.close()
            lively.close()

    def test_one_that_reads_gets_many_large_answers_at_once(self):
        value = os.urandom(1024) * 8 * 1024
        with Daemon("--shards", "1") as daemon:
            with contextlib.closing(Wire(daemon.address)) as reader, \
                    contextlib.closing(Wire(daemon.address)) as writer:
                for client in (reader, writer):
                    self.assertEqual("ok", client.hello().code)
                for sequence in range(1, 13):
                    reader.send(frame(wire.GET, text("large") + struct.pack("<q", 60 * 10**9),
                                      sequence=sequence))
                self.assertEqual("not_found", reader.get("none", sequence=13).code)  # all wait
                self.assertEqual("ok", writer.set("large", value).code)
                for sequence in range(1, 13):
                    reply = reader.reply()
                    self.assertEqual((sequence, "ok"), (reply.sequence, reply.code))
                    self.assertIn(value, reply.body)

    def test_one_that_talks_on_after_its_refusal_is_closed(self):
        with Daemon("--shards", "1") as daemon:
            files = f"/proc/{daemon.process.pid}/fd"
            before = len(os.listdir(files))
            talkers = [socket.create_connection(daemon.address) for _ in range(30)]
            for talker in talkers:
                self.addCleanup(talker.close)
                talker.sendall(wire.MAGIC + b"\xff" * 64)
                talker.setblocking(False)
            # Beyond the second for which what they still send is read, so that there is always some.
            end = time.monotonic() + 1.3
            while time.monotonic() < end:
                for talker in talkers:
                    with contextlib.suppress(OSError):
                        talker.send(b"x" * 3000)
            deadline = time.monotonic() + 10
            while len(os.listdir(files)) > before:
                self.assertLess(time.monotonic(), deadline, "connections stay")
                time.sleep(0.05)


def daemon_answers(daemon):
    client = Wire(daemon.address)
    client.socket.settimeout(1)
    try:
        reply = client.hello()
        return reply.code if reply else "closed"
    except OSError:
        return "nothing"
    finally:
        client.close()


class Signals(unittest.TestCase):
    def test_signals_and_a_file_size_limit_do_not_end_it(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(engine=f"rocksdb:{folder}/state") as daemon:
                client = Wire(daemon.address)
                self.assertEqual("ok", client.hello().code)
                for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
                    daemon.process.send_signal(number)
                    self.assertEqual("ok", client.set("k", str(number)).code)
                # A real SIGXFSZ: files may not grow any more, then they may again.
                unlimited = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (4096, -1))
                client.send(frame(wire.SET, text("big") + text(bytes(100_000)), sequence=9))
                time.sleep(0.5)
                self.assertIsNone(daemon.process.poll())
                self.assertEqual(200, daemon.http("/livez")[0])
                resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, unlimited)
                deadline = time.monotonic() + 10
                while daemon.http("/readyz")[0] != 200 or daemon_answers(daemon) != "ok":
                    self.assertLess(time.monotonic(), deadline, daemon.errors())
                    time.sleep(0.05)
                client.close()
                client = Wire(daemon.address)
                self.assertEqual("ok", client.hello().code)
                self.assertIn(str(signal.SIGXFSZ.value).encode(), client.get("k").body)
                client.close()

    def test_paused_daemon_ends_no_session_and_no_connection(self):
        with Daemon("--session-expiry", "1", "--idle-timeout", "1") as daemon:
            clients = [Wire(daemon.address) for _ in range(20)]
            for client in clients:
                self.assertEqual("ok", client.hello().code)
                self.assertEqual("ok", client.call(wire.SET, text(f"own/{id(client)}") + text("v") +
                                                   struct.pack("<q?", 0, True)).code)
            gone = Wire(daemon.address)
            session = os.urandom(16)
            self.assertEqual("ok", gone.hello(session=session).code)
            self.assertEqual("ok", gone.call(wire.SET, text("own/gone") + text("v") +
                                             struct.pack("<q?", 0, True)).code)
            gone.close()
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(4)
            for client in clients:  # they went on with their heartbeats
                client.send(frame(wire.PING))
            daemon.process.send_signal(signal.SIGCONT)
            for client in clients:
                self.assertEqual("ok", client.reply().code)
                self.assertEqual("ok", client.get(f"own/{id(client)}").code)
            # The time that nobody could have come back in did not count.
            back = Wire(daemon.address)
            self.assertEqual("ok", back.hello(session=session).code)
            self.assertEqual("ok", back.get("own/gone").code)
            for client in clients + [back]:
                client.close()

    def test_second_daemon_of_a_directory_names_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            engine = f"rocksdb:{folder}/state"
            with Daemon(engine=engine) as daemon:
                done = subprocess.run(
                    [os.path.join(BIN, "c10dd"), "--listen", "127.0.0.1:0", "--engine", engine],
                    capture_output=True, text=True, timeout=20, check=False)
                self.assertEqual(75, done.returncode)
                self.assertIn(f"held by pid {daemon.process.pid}", done.stderr)


class Quotas(unittest.TestCase):
    def refused(self, reply, *words):
        self.assertEqual("quota_exceeded", reply.code, reply)
        for word in words:
            self.assertIn(str(word), reply.detail)

    def test_each_quota_is_refused_with_both_numbers_and_others_go_on(self):
        with Daemon("--max-keys-per-job", "3", "--max-bytes-per-job", "1KiB", "--max-jobs", "2",
                    "--max-sessions-per-job", "2", "--max-queue-items-per-job", "2",
                    "--max-waits-per-job", "1", "--shards", "2") as daemon:
            one, two, other = (Wire(daemon.address) for _ in range(3))
            self.assertEqual("ok", one.hello(job="a").code)
            self.assertEqual("ok", two.hello(job="a").code)
            self.assertEqual("ok", other.hello(job="b").code)
            third = Wire(daemon.address)
            self.refused(third.hello(job="a"), "session", 2)
            self.refused(third.hello(job="c"), "jobs", 3, 2)
            for n in range(3):
                self.assertEqual("ok", one.set(f"k{n}", "v").code)
            self.refused(one.set("k3", "v"), "keys", 3)
            self.refused(one.set("k0", "v" * 2000), "bytes", 1024)
            for n in range(2):
                self.assertEqual("ok", one.call(wire.QUEUE_PUSH, text("q") + text("i")).code)
            self.refused(one.call(wire.QUEUE_PUSH, text("q") + text("i")), "items", 2)
            two.send(frame(wire.GET, text("absent") + struct.pack("<q", 10**10), sequence=5))
            self.assertEqual("ok", two.call(wire.PING, b"").code)
            self.refused(one.get("absent", 10**9), "blocked requests", 2, 1)
            self.assertEqual("ok", other.set("k", "v" * 500).code)
            self.assertEqual("ok", one.remove("k0").code)
            self.assertEqual("ok", one.set("k3", "v").code)
            for client in (one, two, other, third):
                client.close()

    def test_bytes_of_all_jobs_together(self):
        with Daemon("--max-bytes", "64KiB", "--shards", "2") as daemon:
            clients = [Wire(daemon.address) for _ in range(4)]
            for n, client in enumerate(clients):
                self.assertEqual("ok", client.hello(job=f"job{n}").code)
            codes = []
            for round_ in range(20):
                for client in clients:
                    codes.append(client.set(f"k{round_}", "v" * 2000))
            refused = [reply for reply in codes if reply.code != "ok"]
            self.assertTrue(refused)
            self.refused(refused[-1], "all jobs together", 64 * 1024, "--max-bytes")
            self.assertEqual("ok", clients[0].get("k0").code)
            for client in clients:
                self.assertEqual("ok", client.remove_prefix("k").code)
            self.assertEqual("ok", clients[0].set("again", "v").code)
            for client in clients:
                client.close()


class Http(unittest.TestCase):
    def post(self, daemon, path, body, content_type="application/json"):
        request = urllib.request.Request(f"http://{daemon.address[0]}:{daemon.address[1]}{path}",
                                         data=body, headers={"Content-Type": content_type},
                                         method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def test_checkpoint_is_a_state_that_a_daemon_can_be_started_on(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = f"{folder}/copy"
            with Daemon(engine=f"rocksdb:{folder}/state") as daemon:
                client = Wire(daemon.address)
                self.assertEqual("ok", client.hello().code)
                self.assertEqual("ok", client.set("k", "kept").code)
                self.assertEqual((200, f'{{"path":"{copy}"}}\n'),
                                 self.post(daemon, "/v1/checkpoint",
                                           f'{{"path": "{copy}"}}'.encode()))
                for body in (b"", b"[]", b'{"path": 5}', b'{"path": "relative"}', b"{", b'{"x": "/"}'):
                    status, answer = self.post(daemon, "/v1/checkpoint", body)
                    self.assertEqual(400, status, body)
                    self.assertIn("send for example", answer)
                self.assertEqual(400, self.post(daemon, "/v1/checkpoint", b'{"path": "/x"}',
                                                "text/plain")[0])
                self.assertGreaterEqual(self.post(daemon, "/v1/checkpoint",
                                                  f'{{"path": "{copy}"}}'.encode())[0], 400)
                self.assertIn('"keys":1', daemon.http("/v1/jobs")[1])
                client.close()
            with Daemon(engine=f"rocksdb:{copy}") as daemon:
                client = Wire(daemon.address)
                self.assertEqual("ok", client.hello().code)
                self.assertIn(b"kept", client.get("k").body)
                client.close()

    def test_checkpoint_of_an_engine_without_files(self):
        with Daemon() as daemon:
            status, answer = self.post(daemon, "/v1/checkpoint", b'{"path": "/x"}')
            self.assertEqual(501, status)
            self.assertIn("unsupported", answer)


if __name__ == "__main__":
    at_once.main()
