# SPDX-License-Identifier: Apache-2.0
"""A redis-server of a test's own, with every acknowledged write on disk."""
import contextlib
import shutil
import signal
import subprocess
import unittest

from daemon import reserve_port


@contextlib.contextmanager
def redis_server(folder, password=""):
    """Its port and its process. Skips the test where Redis is not installed."""
    if shutil.which("redis-server") is None:
        raise unittest.SkipTest("redis-server is not installed")
    port = reserve_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
         "--requirepass", password, "--appendonly", "yes", "--appendfsync", "always"],
        stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "Ready to accept connections" in line:
                break
        yield port, server
    finally:
        server.send_signal(signal.SIGCONT)  # a test that failed may have left it stopped
        server.terminate()
        server.communicate(timeout=20)
