# SPDX-License-Identifier: Apache-2.0
"""A redis-server of a test's own, with every acknowledged write on disk."""
import contextlib
import os
import shutil
import signal
import subprocess
import unittest

from daemon import reserve_port


def ignore_file_limits():
    """A file that may not grow is an error of write() then, as a full disk is, and no end by a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Redis:
    """One server, which starts again on the same port and folder."""

    def __init__(self, folder, *options, port=None, tls=None):
        """`tls`: a folder with tls.crt, tls.key and ca.crt; then the server speaks only TLS."""
        if shutil.which("redis-server") is None:
            raise unittest.SkipTest("redis-server is not installed")
        self.port = port or reserve_port()
        self.folder = folder
        self.options = options
        self.tls = tls
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", *self.where(), "--bind", "127.0.0.1", "--dir", self.folder,
             "--appendonly", "yes", "--appendfsync", "always", *self.options],
            stdout=subprocess.PIPE, text=True, preexec_fn=ignore_file_limits)
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                return self
        raise RuntimeError(f"redis-server did not start in {self.folder}")

    def where(self):
        if self.tls is None:
            return ("--port", str(self.port))
        files = {name: os.path.join(self.tls, name) for name in ("tls.crt", "tls.key", "ca.crt")}
        return ("--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no", "--tls-cert-file", files["tls.crt"],
                "--tls-key-file", files["tls.key"], "--tls-ca-cert-file", files["ca.crt"])

    def send_signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=20)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)  # a test that failed may have left it stopped
        self.process.terminate()
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # it writes its first append-only file, and does not end
            self.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()


@contextlib.contextmanager
def redis_server(folder, password=""):
    """Its port and its process. Skips the test where Redis is not installed."""
    with Redis(folder, "--requirepass", password) as server:
        yield server.port, server.process


@contextlib.contextmanager
def sentinel(folder, port, *settings):
    """The port of a Sentinel that watches the server on `port` under the name "training"."""
    its_port = reserve_port()
    file = os.path.join(folder, "sentinel.conf")
    with open(file, "w", encoding="ascii") as out:
        out.write(f"port {its_port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor training 127.0.0.1 {port} 1\n" +
                  "".join(f"sentinel {setting}\n" for setting in settings))
    with subprocess.Popen(["redis-server", file, "--sentinel"], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if "+monitor" in line:
                    break
            yield its_port
        finally:
            process.terminate()
            process.communicate(timeout=20)
