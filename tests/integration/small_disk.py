# SPDX-License-Identifier: Apache-2.0
"""A client whose session survives the daemon and its engine, and a small disk of its own."""
import os
import subprocess
import tempfile
import time

import wire
from wire import Wire, frame, text


class Writer:
    """One session that survives the daemon: what has no answer is sent again."""

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name
        self.session = os.urandom(16)
        self.sequence = 0
        self.open = {}  # sequence: (key, frame)
        self.wire = None
        self.connect()

    def connect(self):
        if self.wire:
            self.wire.close()
        deadline = time.monotonic() + 15
        while True:
            try:
                self.wire = Wire(self.daemon.address)
                reply = self.wire.hello(session=self.session)
                if reply and reply.code == "ok":
                    break
                self.wire.close()
            except OSError:
                reply = None
            if time.monotonic() > deadline:
                raise AssertionError(f"no way back to the daemon: {reply}")
            time.sleep(0.05)
        for _, data in self.open.values():
            self.wire.send(data)

    def request(self, op, body, key=None):
        self.sequence += 1
        below = min(self.open, default=self.sequence)
        data = frame(op, body, sequence=self.sequence, acked_below=below)
        self.open[self.sequence] = (key, data)
        try:
            self.wire.send(data)
        except OSError:
            self.connect()

    def answer(self):
        """(key, reply) of some open request, over the death of the connection."""
        while True:
            try:
                reply = self.wire.reply()
            except OSError:
                reply = None
            if reply is not None and reply.sequence in self.open:
                return self.open.pop(reply.sequence)[0], reply
            if reply is not None and reply.code != "unavailable":
                raise AssertionError(f"unexpected: {reply!r} {reply.sequence} {list(self.open)}")
            self.connect()

    def call(self, op, body):
        assert not self.open
        self.request(op, body)
        return self.answer()[1]

    def set(self, key, value):
        return self.call(wire.SET, text(key) + text(value))

    def get(self, key):
        return self.call(wire.GET, text(key) + bytes(8))


class SmallDisk:
    """A tmpfs of its own, and a file on it that somebody else lets grow."""

    def __init__(self, size):
        self.folder = tempfile.mkdtemp(prefix="c10dd-disk-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.folder],
                       check=True)
        self.filler = os.path.join(self.folder, "filler")

    def free(self):
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def take(self, leave):
        """Lets the file grow until so many bytes are free, or as many as there are."""
        with open(self.filler, "ab") as file:
            while True:
                step = min(self.free() - leave, 2**20)
                if step <= 0:
                    return
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
                except OSError:  # the daemon was quicker
                    return

    def give_back(self):
        if os.path.exists(self.filler):
            os.unlink(self.filler)

    def remove(self):
        subprocess.run(["umount", self.folder], check=True)
        os.rmdir(self.folder)


def why_no_small_disk():
    """Why a tmpfs cannot be mounted here; empty if it can."""
    with tempfile.TemporaryDirectory() as probe:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", probe],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"a tmpfs cannot be mounted here: {done.stderr.strip()}"
        subprocess.run(["umount", probe], check=True)
        return ""
