# SPDX-License-Identifier: Apache-2.0
"""Starts the real daemon on a free port and stops it by its process id."""
import os
import signal
import socket
import subprocess
import tempfile
import urllib.request

BIN = os.environ.get("C10DD_BIN", os.path.join(os.path.dirname(__file__), "../../build/bin"))
# What the time that a test waits is multiplied with: sanitizers take their share.
SLOWDOWN = int(os.environ.get("C10DD_TEST_SLOWDOWN", "1"))
# A daemon ends with this if a disk holds up its Redis; its service starts it again, and so do tests.
UNAVAILABLE, NO_REPLY, TRIES = 69, "no reply within", 10


def reserve_port(host="127.0.0.1"):
    """A free port of this address, kept until this process ends by a bound socket that never listens:
    a server with SO_REUSEADDR binds beside it, and nobody else gets it while the server is dead."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind((host, 0))
        port = free.getsockname()[1]
        free.detach()
    return port


def text_of(file):
    """What a child process has written to this file so far; its offset, which is the child's, too,
    stays where it is."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


class Daemon:
    """One daemon process. Use as a context manager, or start() and stop()."""

    def __init__(self, *args, engine="memory:", environment=None, host="127.0.0.1", port=None):
        # The next start must come back to the same place.
        self.command = [os.path.join(BIN, "c10dd"), "--listen", f"{host}:{port or reserve_port(host)}",
                        "--engine", engine, *args]
        self.environment = environment
        self.process = None
        self.address = None
        self.log = tempfile.TemporaryFile()

    def start(self):
        for _ in range(TRIES):
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log,
                                            env=self.environment)
            line = self.process.stdout.readline().decode()
            if line.startswith("listening on "):
                break
            code = self.process.wait(10)
            if code != UNAVAILABLE or NO_REPLY not in self.errors():
                break
        if not line.startswith("listening on "):
            raise RuntimeError(f"the daemon did not start (exit {code}): {self.errors()}")
        host, port = line.split()[-1].rsplit(":", 1)
        self.address = (host, int(port))
        return self

    def refusal(self, *options, patience=30 * SLOWDOWN):
        """(exit code, standard error) of a daemon that must not start."""
        self.log.close()
        for _ in range(TRIES):
            done = subprocess.run([*self.command, *options], capture_output=True, text=True, timeout=patience,
                                  env=self.environment, check=False)
            if done.returncode != UNAVAILABLE or NO_REPLY not in done.stderr:
                break
        return done.returncode, done.stderr

    def errors(self):
        return text_of(self.log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """SIGTERM; returns the exit code."""
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        self.process.stdout.close()
        return code

    def http(self, path, method="GET", body=None):
        """(status, body) of one request, which may have a body in JSON."""
        request = urllib.request.Request(f"http://{self.address[0]}:{self.address[1]}{path}", body,
                                         {"Content-Type": "application/json"} if body else {},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()
        self.log.close()
