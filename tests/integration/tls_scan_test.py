#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sslscan, and a handshake of our own, see of a daemon with --tls: TLS 1.2 and 1.3, ECDHE and AEAD, and none of what TLS has
regretted. The same questions find the faults of a server that has them."""
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import unittest
import xml.etree.ElementTree as ElementTree

from cluster import Cluster

AEAD = re.compile(r"TLS_(AES_\d+_GCM|CHACHA20_POLY1305)_SHA\d+|ECDHE-ECDSA-(AES\d+-GCM-SHA\d+|CHACHA20-POLY1305)")
HEARTBEAT, TICKETS, RENEGOTIATION = 15, 35, 0xff01  # extensions
ECDHE_ECDSA_AES128_GCM, DEFLATE = 0xc02b, 1


def scanned(address):
    """What sslscan finds that a daemon must not have, and what it finds at all."""
    out = subprocess.run(["sslscan", "--xml=-", "%s:%d" % address], capture_output=True, text=True, check=True, timeout=60).stdout
    server = ElementTree.fromstring(out).find("ssltest")
    versions = {one.get("type") + one.get("version") for one in server.iter("protocol") if one.get("enabled") == "1"}
    ciphers = {one.get("cipher") for one in server.iter("cipher")}
    wrong = [f"it speaks {one}" for one in versions - {"tls1.2", "tls1.3"}]
    wrong += [f"it takes {one}" for one in ciphers if not AEAD.fullmatch(one)]
    wrong += ["it renegotiates" for one in server.iter("renegotiation") if one.get("supported") == "1"]
    wrong += ["it compresses" for one in server.iter("compression") if one.get("supported") == "1"]
    wrong += ["it has Heartbleed" for one in server.iter("heartbleed") if one.get("vulnerable") == "1"]
    return sorted(wrong), versions, ciphers


def of_two(number):
    return struct.pack(">H", number)


def with_size(data, size=2):
    return len(data).to_bytes(size, "big") + data


def hello():
    """A record of TLS 1.2 that asks for compression, heartbeats and tickets."""
    extensions = {10: with_size(of_two(23)), 11: with_size(b"\0", 1), 13: with_size(of_two(0x0403)), HEARTBEAT: b"\1",
                  TICKETS: b"", RENEGOTIATION: b"\0"}
    body = of_two(0x0303) + os.urandom(32) + with_size(b"", 1) + with_size(of_two(ECDHE_ECDSA_AES128_GCM)) + \
        with_size(bytes([DEFLATE, 0]), 1) + with_size(b"".join(of_two(kind) + with_size(data) for kind, data in extensions.items()))
    return b"\x16" + of_two(0x0301) + with_size(b"\1" + with_size(body, 3))


def accepted(address):
    """What a server's hello accepts of that: the method of compression, and the extensions."""
    with socket.create_connection(address, timeout=20) as plain, plain.makefile("rb") as stream:
        plain.sendall(hello())
        kind, _, size = struct.unpack(">BHH", stream.read(5))
        body = stream.read(size)[4:]
    assert kind == 0x16, body
    at = 35 + body[34]  # behind version, random number and session
    cipher, method = struct.unpack_from(">HB", body, at)
    assert cipher == ECDHE_ECDSA_AES128_GCM, hex(cipher)
    found, at = set(), at + 5
    while at < len(body):
        one, size = struct.unpack_from(">HH", body, at)
        found.add(one)
        at += 4 + size
    return method, found


class Weak:
    """A server that takes what OpenSSL still has."""

    def __init__(self, files):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_ciphers("ALL:@SECLEVEL=0")
        self.context.minimum_version = ssl.TLSVersion.TLSv1
        self.context.load_cert_chain(os.path.join(files, "tls.crt"), os.path.join(files, "tls.key"))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = self.listener.getsockname()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(plain,), daemon=True).start()

    def answer(self, plain):
        plain.settimeout(5)
        try:
            with self.context.wrap_socket(plain, server_side=True) as encrypted:
                encrypted.recv(1)
        except OSError:
            plain.close()


class Scan(unittest.TestCase):
    def setUp(self):
        if shutil.which("sslscan") is None:
            self.skipTest("sslscan is not installed")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        self.cluster = Cluster(folder)
        self.addCleanup(self.cluster.daemon.log.close)

    def test_a_daemon_has_nothing_old(self):
        daemon = self.cluster.daemon.start()
        self.addCleanup(daemon.stop)
        wrong, versions, ciphers = scanned(daemon.address)
        self.assertEqual([], wrong)
        self.assertEqual({"tls1.2", "tls1.3"}, versions)
        self.assertEqual(6, len(ciphers), ciphers)
        method, extensions = accepted(daemon.address)
        self.assertEqual(0, method, "no compression")
        self.assertEqual(set(), extensions & {HEARTBEAT, TICKETS})
        self.assertIn(RENEGOTIATION, extensions, "it offers secure renegotiation (RFC 5746)")

    def test_a_weak_server_is_found(self):
        weak = Weak(self.cluster.files)
        self.addCleanup(weak.listener.close)
        wrong, versions, ciphers = scanned(weak.address)
        self.assertLess({"tls1.0", "tls1.1"}, versions)
        for one in ("it speaks tls1.0", "it takes ECDHE-ECDSA-AES128-SHA"):
            self.assertIn(one, wrong)
        self.assertGreater(len(ciphers), 6)
        self.assertIn(TICKETS, accepted(weak.address)[1], "it gives tickets")


if __name__ == "__main__":
    unittest.main()
