# SPDX-License-Identifier: Apache-2.0
"""Child processes of the demo: started, listened to line by line, always stopped by their ids."""

import ctypes
import os
import selectors
import signal
import subprocess
import time

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """The demo cannot go on, or one of its checks does not hold; the text is for people."""


class Process:
    """One child. Its standard output comes as events; its standard error goes into a file."""

    def __init__(self, name, command, environment, folder):
        self.name = name
        self.log = os.path.join(folder, name.replace(" ", "-") + ".log")
        self.unfinished = b""
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=environment, preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))

    def last_words(self):
        """To be put after a sentence: the end of its standard error, if there is any."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            words = "".join("\n    " + line.rstrip() for line in log.readlines()[-8:])
        return ":" + words if words else ""


class Processes:
    """All children of one demo. Single-threaded: whoever waits for events hears all of them."""

    def __init__(self, folder, seconds):
        self.folder = folder
        self.deadline = time.monotonic() + seconds
        self.selector = selectors.DefaultSelector()
        self.started = []
        self.pending = []

    def start(self, name, command, environment):
        try:
            process = Process(name, command, environment, self.folder)
        except FileNotFoundError as missing:
            raise Failed(f"{missing.filename}: no such program; ./dev build makes ours, "
                         "./dev setup installs the others") from None
        self.started.append(process)
        self.selector.register(process.child.stdout, selectors.EVENT_READ, process)
        return process

    def next_event(self):
        """(process, line), or (process, None) when it has closed its output."""
        while not self.pending:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Failed("not finished in time; its limit is --limit")
            for key, _ in self.selector.select(left):
                self._read(key.data)
        return self.pending.pop(0)

    def _read(self, process):
        data = os.read(process.child.stdout.fileno(), 65536)
        if not data:
            self.selector.unregister(process.child.stdout)
            self.pending.append((process, None))
            return
        *lines, process.unfinished = (process.unfinished + data).split(b"\n")
        self.pending += [(process, line.decode(errors="replace")) for line in lines]

    def first_line(self, process):
        """The next line of this process; lines of the others stay for later."""
        later = []
        while True:
            who, line = self.next_event()
            if who is process:
                self.pending = later + self.pending
                return line
            later.append((who, line))

    def kill(self, process):
        """SIGKILL; whatever it still had to say is dropped."""
        process.child.kill()
        self._forget(process)

    def _forget(self, process):
        process.child.wait()
        if process.child.stdout in (key.fileobj for key in self.selector.get_map().values()):
            self.selector.unregister(process.child.stdout)
        process.child.stdout.close()
        self.pending = [event for event in self.pending if event[0] is not process]
        self.started.remove(process)

    def stop(self, process):
        """SIGTERM, and SIGKILL if that is not enough."""
        process.child.terminate()
        try:
            process.child.wait(10)
        except subprocess.TimeoutExpired:
            process.child.kill()
        self._forget(process)

    def stop_all(self):
        """Last started, first stopped."""
        for process in reversed(list(self.started)):
            self.stop(process)
