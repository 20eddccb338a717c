# SPDX-License-Identifier: Apache-2.0
"""What the daemon stands on connections of PyTorch's TCPStore: bytes that are no message, lengths beyond
the limits, many unfinished messages, a client that never reads, a full job, silence."""
import select
import struct
import time
import unittest

from daemon import SLOWDOWN, Daemon
from tcpstore_wire import ADD, COUNT, MULTI_GET, MULTI_SET, SET, VALIDATE, Client, message, text

MIB = 1 << 20


class TcpStoreInput(unittest.TestCase):
    def client(self, daemon, first=VALIDATE):
        client = Client(daemon.address, first)
        self.addCleanup(client.close)
        return client

    def test_bad_bytes_close_their_connection_only(self):
        with Daemon() as daemon:
            good = self.client(daemon)
            self.assertEqual(bytes(8), good.count())
            before = daemon.resident_bytes()
            bad = {b"\x00\xcf\xf7\x85\x3c" + bytes(4): "the key has 1015412687 bytes",
                   VALIDATE + b"\x13": "unknown operation: code 19",
                   VALIDATE + bytes([SET]) + struct.pack("<Q", 1 << 63): "the key has 9223372036854775808 bytes",
                   VALIDATE + bytes([SET]) + text(b"k") + struct.pack("<Q", 8 * MIB + 1):
                       "the value has 8388609 bytes",
                   VALIDATE + bytes([MULTI_GET]) + struct.pack("<Q", 131073): "the message has 131073 keys",
                   VALIDATE + message(SET, b"", b"v"): "key",
                   VALIDATE + message(SET, b"n", b"abc") + message(ADD, b"n") + bytes(8): "n"}
            for data, reason in bad.items():
                client = self.client(daemon, data)
                self.assertTrue(client.is_closed(1 * SLOWDOWN), reason)
                client.close()
                self.assertIn(reason, daemon.errors().splitlines()[-1])
            self.assertEqual(struct.pack("<q", 1), good.count())  # "n"
            self.assertLess(daemon.resident_bytes() - before, 4 * MIB * SLOWDOWN)
            _, metrics = daemon.http("/metrics")
            closed = 'c10dd_connections_closed_total{protocol="tcpstore",reason="refused"} '
            self.assertIn(f"{closed}{len(bad)}\n", metrics)

    def test_probes_of_other_protocols_are_closed_at_once(self):
        probes = {"TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
                  "Redis": b"*1\r\n$4\r\nPING\r\n",
                  "LDAP": bytes.fromhex("300c020101600702010304008000"),
                  "RDP": bytes.fromhex("030000130ee000000000000100080003000000"),
                  "SMB": b"\x00\x00\x00\xa4\xffSMBr" + bytes(160),
                  "X11": b"l\x00\x0b\x00" + bytes(8), "DNS": bytes.fromhex("0006010000010000000000000776")}
        with Daemon() as daemon:
            good = self.client(daemon)
            self.assertEqual(1, good.join())
            before = daemon.resident_bytes()
            for name, data in probes.items():
                client = self.client(daemon, data)
                if name == "TLS":  # it is told so, by an alert
                    self.assertEqual(7, len(client.socket.recv(7)))
                self.assertTrue(client.is_closed(1 * SLOWDOWN), name)
                client.close()
                self.assertIn("event=refused", daemon.errors().splitlines()[-1], name)
            for request, status in ((b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
                                    (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"400"),
                                    (b"HEAD / HTTP/1.0\r\n\r\n", b"200"),
                                    (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"4")):
                client = self.client(daemon, request)
                self.assertRegex(client.receive(12), rb"HTTP/1.[01] " + status, request)
                client.close()
            for _ in range(50):
                self.client(daemon, b"").close()
            self.assertEqual(2, good.add(b"init/"))
            self.assertLess(daemon.resident_bytes() - before, 4 * MIB * SLOWDOWN)

    def test_a_message_that_is_cut_off_has_no_effect(self):
        with Daemon() as daemon:
            other = self.client(daemon)  # as long as it is there, the run is
            self.assertEqual(bytes(8), other.count())
            client = self.client(daemon)
            client.socket.sendall(message(SET, b"k", b"v"))
            half = bytes([MULTI_SET]) + struct.pack("<Q", 2) + text(b"a") + text(b"1") + text(b"b")
            self.assertEqual(struct.pack("<q", 1), client.count())
            client.socket.sendall(half)
            time.sleep(0.2)
            client.close()
            time.sleep(0.2)
            self.assertEqual(struct.pack("<q", 1), other.count())

    def test_a_client_that_never_reads_is_not_sent_everything(self):
        with Daemon() as daemon:
            client = self.client(daemon)
            client.socket.sendall(message(SET, b"k", bytes(8 * MIB)))
            before = daemon.resident_bytes()
            keys = struct.pack("<Q", 1000) + text(b"k") * 1000
            client.socket.sendall(bytes([MULTI_GET]) + keys)
            time.sleep(1 * SLOWDOWN)
            self.assertLess(daemon.resident_bytes() - before, 100 * MIB * SLOWDOWN)
            self.assertEqual(struct.pack("<q", 1), self.client(daemon).count())

    def test_a_full_job_closes_the_connection_that_fills_it(self):
        with Daemon("--max-keys-per-job", "3") as daemon:
            client = self.client(daemon)
            for key in (b"1", b"2", b"3"):
                client.socket.sendall(message(SET, key, b"v"))
            self.assertEqual(struct.pack("<q", 3), client.count())
            client.socket.sendall(message(SET, b"4", b"v"))
            self.assertTrue(client.is_closed(1 * SLOWDOWN))
            self.assertIn("quota_exceeded", daemon.errors())

    def test_only_silent_connections_without_an_old_client_end(self):
        with Daemon() as daemon:
            silent = self.client(daemon, b"").socket
            validated = self.client(daemon)
            half = self.client(daemon, VALIDATE + bytes([SET]) + b"\x05")
            readable, _, _ = select.select([silent], [], [], 8 * SLOWDOWN)
            self.assertEqual([silent], readable)
            self.assertEqual(b"", silent.recv(1))
            self.assertFalse(validated.is_closed(0))
            self.assertFalse(half.is_closed(0))
            self.assertEqual(bytes(8), validated.count())


if __name__ == "__main__":
    unittest.main(verbosity=2)
