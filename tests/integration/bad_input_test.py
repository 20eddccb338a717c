# SPDX-License-Identifier: Apache-2.0
"""Bad input gets a clear error with the limit; never a crash, never a hang, and nobody else is
hurt: after each case the daemon still serves the session of a bystander."""
import json
import os
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import wire
from daemon import BIN, Daemon
from redis_server import redis_server
from wire import Wire, frame, text


class Frames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon().start()
        cls.bystander = Wire(cls.daemon.address)
        assert cls.bystander.hello().code == "ok"

    @classmethod
    def tearDownClass(cls):
        cls.bystander.close()
        assert cls.daemon.stop() == 0, cls.daemon.errors()

    def setUp(self):
        self.wire = Wire(self.daemon.address)

    def tearDown(self):
        self.wire.close()
        self.assertEqual("ok", self.bystander.set("alive", "yes").code)

    def open(self, **options):
        reply = self.wire.hello(**options)
        self.assertEqual("ok", reply.code, reply)

    def refused(self, reply, code, *words, closes=False):
        self.assertIsNotNone(reply, "the connection ended without an answer")
        self.assertEqual(code, reply.code, reply)
        for word in words:
            self.assertIn(str(word), reply.detail)
        if closes:
            self.assertIsNone(self.wire.reply())

    def test_04_unknown_operation_is_answered_and_the_connection_stays(self):
        self.open()
        self.refused(self.wire.call(0xEE, b"abc"), "unknown_op", "238")
        self.assertEqual("ok", self.wire.set("k", "v").code)

    def test_02_oversized_frame_is_refused_on_its_header(self):
        self.open()
        before = self.daemon.resident_bytes()
        self.wire.send(frame(wire.SET, length=0xFFFFFFFF, sequence=1))
        self.refused(self.wire.reply(), "too_large", 0xFFFFFFFF, 16 * 2**20 + 64 * 1024,
                     closes=True)
        self.assertLess(self.daemon.resident_bytes() - before, 8 * 2**20)

    def test_frame_before_hello_is_small(self):
        self.wire.send(frame(wire.HELLO, length=1_000_000))
        self.refused(self.wire.reply(), "too_large", 16384, closes=True)

    def test_03_inner_length_past_the_frame_is_malformed_and_the_session_stays(self):
        session = os.urandom(16)
        self.open(session=session)
        self.assertEqual("ok", self.wire.add("counted", 1, sequence=1).code)
        self.wire.send(frame(wire.SET, struct.pack("<I", 65535) + b"short", sequence=2))
        self.refused(self.wire.reply(), "malformed", "set", closes=True)
        self.wire.close()
        self.wire = Wire(self.daemon.address)
        self.open(session=session)
        self.assertEqual("ok", self.wire.add("counted", 1, sequence=1).code)  # the same again
        self.assertIn(b"\x01\0\0\x001", self.wire.get("counted", sequence=2).body)

    def test_welcome_has_the_version_of_the_daemon(self):
        version = json.loads(self.daemon.http("/v1/version")[1])["version"]
        self.assertIn(wire.text(version), self.wire.hello().body)

    def test_wrong_version_names_both(self):
        self.refused(self.wire.hello(version=(7, 9)), "version_unsupported", 7, 9, "1 to 1",
                     closes=True)

    def test_request_without_hello(self):
        self.refused(self.wire.set("k", "v"), "session_unknown", "hello")

    def test_key_over_the_limit(self):
        self.open()
        self.refused(self.wire.set("k" * 8193, "v"), "too_large", 8193, 8192)
        self.refused(self.wire.set("", "v"), "invalid_argument", "empty")

    def test_value_over_the_limit(self):
        self.open()
        self.refused(self.wire.set("k", b"v" * (8 * 2**20 + 1)), "too_large", 8 * 2**20 + 1,
                     8 * 2**20)
        self.assertEqual("ok", self.wire.set("k", b"v" * (8 * 2**20)).code)

    def test_bad_job_names(self):
        for name in ("", "x" * 256, "a\nb", b"\xff\xfe"):
            with self.subTest(name=name):
                other = Wire(self.daemon.address)
                self.refused(other.hello(job=name), "invalid_argument", 255)
                other.close()

    def test_exchange_with_two_sizes(self):
        self.open()
        other = Wire(self.daemon.address)
        self.assertEqual("ok", other.hello().code)
        self.refused(self.wire.exchange("sizes", 0, 2, ["a"]), "timed_out", "[1]")
        self.refused(other.exchange("sizes", 1, 3, ["b"]), "size_mismatch", 2, 3)
        other.close()

    def test_exchange_with_the_same_rank_twice(self):
        self.open()
        other = Wire(self.daemon.address)
        self.assertEqual("ok", other.hello().code)
        self.refused(self.wire.exchange("twice", 0, 2, ["a"]), "timed_out")
        self.refused(other.exchange("twice", 0, 2, ["b"]), "rank_taken", "rank 0", "which is still connected")
        other.close()

    def test_11_barrier_of_nobody_of_too_many_and_of_two_sizes(self):
        self.open()
        self.refused(self.wire.barrier("b", 0, 0), "invalid_argument", "world size 0")
        self.refused(self.wire.barrier("b", 5, 5), "invalid_argument", "rank 5")
        self.refused(self.wire.barrier("b", 0, 2**32 - 1), "invalid_argument", 131072)
        late = Wire(self.daemon.address)
        self.assertEqual("ok", late.hello().code)
        self.refused(self.wire.barrier("b", 0, 2), "timed_out", "[1]")
        self.refused(late.barrier("b", 1, 3), "size_mismatch", 2, 3)
        # Both are told, now and when they ask again; the next barrier is as good as any.
        self.refused(self.wire.barrier("b", 0, 2), "size_mismatch", "rank 1 on", "rank 0 on")
        self.refused(late.barrier("b", 1, 2), "size_mismatch", "rank 1 on", "rank 0 on")
        late.close()

    def test_10_add_that_overflows_changes_nothing(self):
        self.open()
        self.assertEqual("ok", self.wire.set("n", str(2**63 - 1)).code)
        self.refused(self.wire.add("n", 1), "out_of_range", 2**63 - 1, "unchanged")
        self.assertIn(str(2**63 - 1).encode(), self.wire.get("n").body)
        self.assertEqual("ok", self.wire.set("n", str(-2**63)).code)
        self.refused(self.wire.add("n", -1), "out_of_range", -2**63)
        self.assertEqual("ok", self.wire.set("n", "one").code)
        self.refused(self.wire.add("n", 1), "wrong_type", "decimal")

    def test_12_wait_for_too_many_keys(self):
        self.open()
        keys = struct.pack("<I", 131_073) + text("k") * 131_073
        self.refused(self.wire.call(wire.WAIT, keys + bytes(8)), "too_large", 131_073, 131_072)

    def test_12_negative_time_out_looks_once_and_a_huge_one_is_bounded(self):
        self.open()
        for timeout in (-1, -2**63):
            start = time.monotonic()
            self.refused(self.wire.get("absent", timeout), "not_found")
            self.assertLess(time.monotonic() - start, 10)
        self.wire.sequence += 1
        self.wire.send(frame(wire.WAIT, struct.pack("<I", 1) + text("later") +
                             struct.pack("<q", 2**63 - 1), sequence=self.wire.sequence))
        self.assertEqual("ok", self.bystander.set("later", "now").code)
        self.assertEqual("ok", self.wire.reply().code)

    def test_06_same_sequence_with_another_request(self):
        self.open()
        self.assertEqual("ok", self.wire.add("n", 1, sequence=5).code)
        self.assertEqual("ok", self.wire.add("n", 1, sequence=5).code)
        self.refused(self.wire.add("n", 2, sequence=5), "sequence_reused", 5)
        self.assertIn(b"1", self.wire.get("n").body)

    def test_07_sequence_outside_the_window(self):
        self.open()
        self.refused(self.wire.set("k", "v", sequence=9000), "window_exceeded", 9000, 1024)
        self.assertEqual("ok", self.wire.set("k", "v", sequence=10, acked_below=10).code)
        self.refused(self.wire.set("k", "v", sequence=3), "outcome_unknown", 3, 10)

    def test_19_client_that_has_seen_more_is_told(self):
        self.refused(self.wire.hello(stamp=(12345, 1, 7)), "state_rolled_back", 12345, "new run")

    def test_05_silent_and_slow_connections_end_at_the_hello_deadline(self):
        start = time.monotonic()
        hello = frame(wire.HELLO, wire.hello_body())
        slow = Wire(self.daemon.address, magic=wire.MAGIC)
        self.wire.send(hello[:10])
        ended = False
        for at in range(8):  # a byte of a valid hello each second
            try:
                slow.send(hello[at:at + 1])
            except (BrokenPipeError, ConnectionResetError):
                ended = True
                break
            time.sleep(1)
        self.assertTrue(ended)
        self.assertIsNone(slow.reply())
        self.assertIsNone(self.wire.reply())
        self.assertLess(time.monotonic() - start, 30)
        slow.close()

    def test_unknown_first_byte_closes(self):
        alert = b"\x15\x03\x01\x00\x02\x02\x46"  # of TLS: protocol_version
        for first, reply in ((b"\xff\x00", b""), (b"\x16\x03\x01", alert), (b"\x0c", b""), (b"zzz", b""), (b"\xc1C10X", b"")):
            with self.subTest(first=first):
                raw = socket.create_connection(self.daemon.address, timeout=10)
                raw.sendall(first)
                try:
                    self.assertEqual(reply, raw.recv(100))
                except ConnectionResetError:
                    pass
                raw.close()


class Http(unittest.TestCase):
    def exchange(self, daemon, data):
        raw = socket.create_connection(daemon.address, timeout=15)
        raw.sendall(data)
        answer = b""
        try:
            while chunk := raw.recv(65536):
                answer += chunk
                if b"\r\n\r\n" in answer and b"200 OK" in answer:
                    break
        except ConnectionResetError:
            pass
        raw.close()
        return answer.decode(errors="replace").split("\r\n")[0]

    def test_http(self):
        with Daemon() as daemon:
            self.assertEqual(200, daemon.http("/livez")[0])
            self.assertEqual(200, daemon.http("/readyz")[0])
            self.assertIn("memory", daemon.http("/v1/version")[1])
            self.assertEqual(404, daemon.http("/nothing")[0])
            self.assertEqual(405, daemon.http("/metrics", "POST")[0])
            big = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 9000 + b"\r\n\r\n"
            self.assertIn(" 431 ", self.exchange(daemon, big))
            smuggle = (b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            self.assertIn(" 400 ", self.exchange(daemon, smuggle))
            long_body = b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n"
            self.assertIn(" 413 ", self.exchange(daemon, long_body))
            self.assertIn(" 400 ", self.exchange(daemon, b"GARBAGE\r\n\r\n"))
            self.assertEqual(200, daemon.http("/livez")[0])


class Start(unittest.TestCase):
    """What the operator reads when the daemon does not start."""

    def fails(self, code, *words, arguments=(), config=None, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            command = [os.path.join(BIN, "c10dd"), *arguments]
            if config is not None:
                path = os.path.join(folder, "c10dd.toml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(config)
                command += ["--config", path]
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False,
                                  env={**os.environ, **(environment or {})})
        self.assertEqual(code, done.returncode, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        return done.stderr

    def test_port_in_use(self):
        with Daemon() as daemon:
            host, port = daemon.address
            self.fails(75, f"{host}:{port}", "--listen",
                       arguments=["--listen", f"{host}:{port}", "--engine", "memory:"])

    def test_state_directory_held_names_the_holder(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(engine=f"rocksdb:{folder}/state") as daemon:
                self.fails(75, daemon.process.pid, f"{folder}/state",
                           arguments=["--listen", "127.0.0.1:0", "--engine",
                                      f"rocksdb:{folder}/state"])

    def test_state_directory_that_is_a_file(self):
        with tempfile.NamedTemporaryFile() as file:
            self.fails(73, file.name,
                       arguments=["--listen", "127.0.0.1:0", "--engine", f"rocksdb:{file.name}"])

    def test_state_directory_not_writable(self):
        self.fails(73, "/proc/c10dd",
                   arguments=["--listen", "127.0.0.1:0", "--engine", "rocksdb:/proc/c10dd"])

    def test_redis_that_is_not_there(self):
        self.fails(69, "127.0.0.1:1", "Connection refused",
                   arguments=["--listen", "127.0.0.1:0", "--engine", "redis://:secret@127.0.0.1:1"])

    def test_redis_that_denies_access(self):
        with tempfile.TemporaryDirectory() as folder, redis_server(folder, "hunter2") as (port, _):
            for login in ("", ":hunter3@", "ada:hunter3@"):
                url = f"redis://{login}127.0.0.1:{port}"
                said = self.fails(77, f"127.0.0.1:{port}",
                                  arguments=["--listen", "127.0.0.1:0", "--engine", url])
                self.assertNotIn("hunter", said)
            with Daemon(engine=f"redis://:hunter2@127.0.0.1:{port}") as daemon:
                self.assertIn("engine: redis", daemon.http("/readyz")[1])
                self.assertNotIn("hunter", daemon.errors())

    def test_port_that_is_not_for_this_user(self):
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
            if os.geteuid() == 0 or int(file.read()) <= 1:
                self.skipTest("this user may listen on every port")
        self.fails(77, "127.0.0.1:1", arguments=["--listen", "127.0.0.1:1", "--engine", "memory:"])

    def test_bad_options(self):
        self.fails(64, "70000", "65535", arguments=["--listen", "127.0.0.1:70000"])
        self.fails(64, "floppy", "rocksdb:", arguments=["--engine", "floppy:/x"])
        self.fails(64, "--no-such", arguments=["--no-such"])
        self.fails(64, "C10DD_DURABILITY", "fsync", environment={"C10DD_DURABILITY": "maybe"})

    def test_bad_configuration_file(self):
        self.fails(64, "lisen", "c10dd.toml:2", config='engine = "memory:"\nlisen = "x"\n')
        self.fails(64, "listen", "c10dd.toml:1", config="listen = 5\n")
        self.fails(64, "c10dd.toml:2", config='engine = "memory:"\nlisten = \n')
        self.fails(64, "missing.toml", arguments=["--config", "/nowhere/missing.toml"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
