# SPDX-License-Identifier: Apache-2.0
"""What a program with the SDK writes to stderr when no daemon is where its URL leads."""
import http.server
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import at_once
from daemon import BIN, SLOWDOWN, Daemon, reserve_port, text_of
from redis_server import redis_server


class Program:
    """c10drun, as a program that connects; what it writes is read while it runs."""

    def __init__(self, port, **environment):
        self.output = tempfile.TemporaryFile()
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [os.path.join(BIN, "c10drun"), "--daemon", f"127.0.0.1:{port}", "--job", "j",
             "--nnodes", "1", "--nproc", "1", "--", "true"],
            env={**os.environ, **environment}, stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return text_of(self.output)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.output.close()


class AbsenceTest(unittest.TestCase):
    def wait_for(self, program, words, seconds=20):
        """Seconds from the start of the program until it has said so."""
        end = time.monotonic() + seconds * SLOWDOWN
        while words not in program.text():
            self.assertLess(time.monotonic(), end, f"no {words!r} in: {program.text()}")
            time.sleep(0.02)
        return time.monotonic() - program.begin

    def serve(self, context=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                 http.server.SimpleHTTPRequestHandler)
        server.RequestHandlerClass.log_message = lambda *words: None
        server.handle_error = lambda *words: None
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True,
                                                do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_address[1]

    def test_an_absent_daemon_is_named_after_two_seconds_and_so_is_its_return(self):
        daemon = Daemon()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        port = int(daemon.command[2].rsplit(":", 1)[1])
        with Program(port) as program:
            took = self.wait_for(program, "(connect: connection refused); still trying")
            self.assertGreaterEqual(took, 1.9)
            self.assertRegex(program.text(), rf"c10dd: the daemon at 127\.0\.0\.1:{port} has not "
                             r"been reachable for [\d.]+ s \(")
            self.assertEqual(program.text().count("c10dd: "), 1, program.text())
            daemon.start()
            self.wait_for(program, f"c10dd: connected to the daemon at 127.0.0.1:{port} after ")

    def test_c10dd_log_off_is_silent(self):
        with Program(reserve_port(), C10DD_LOG="off") as program:
            time.sleep(4)
            self.assertNotIn("c10dd: ", program.text())

    def test_http_is_named(self):
        with Program(self.serve()) as program:
            self.wait_for(program, "the server there speaks HTTP (\"HTTP/1.0 200 OK\"); check "
                          "the port")

    def test_redis_is_named(self):
        for password in ("", "secret"):
            with tempfile.TemporaryDirectory() as folder, redis_server(folder, password) as (port, _), \
                    Program(port) as program:
                self.wait_for(program, "the server there speaks Redis (\"-")

    def test_tls_is_named(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key"), os.path.join(folder, "certificate")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                            "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
                           check=True, capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            with Program(self.serve(context)) as program:
                self.wait_for(program, "the server there speaks TLS")


if __name__ == "__main__":
    at_once.main()
