# SPDX-License-Identifier: Apache-2.0
"""Starts the child processes of the demo, reads their output line by line, and stops them."""

import ctypes
import os
import selectors
import signal
import subprocess
import time

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """The demo cannot continue, or a check has failed. The text is printed for the user."""


class Process:
    """One child. Its standard output becomes events; its standard error is written to a file. The
    kernel sends it SIGTERM when this process dies."""

    def __init__(self, name, command, environment, folder):
        self.name = name
        self.log = os.path.join(folder, name.replace(" ", "-") + ".log")
        self.unfinished = b""  # the line that has no end yet
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=environment, preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))

    def error_tail(self):
        """Returns the last lines of its standard error, to be appended to an error text; may be
        empty."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            tail = "".join("\n    " + line.rstrip() for line in log.readlines()[-8:])
        return ":" + tail if tail else ""


class Processes:
    """All children of one demo. Single-threaded: next_event() returns the events of all of them."""

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
            raise Failed(f"cannot find the program {missing.filename}; build the project's own "
                         "programs with ./dev build, install others with ./dev setup") from None
        self.started.append(process)
        self.selector.register(process.child.stdout, selectors.EVENT_READ, process)
        return process

    def next_event(self):
        """Blocks until there is an event and returns it: (process, line), or (process, None) when
        the process has closed its output. Raises Failed after the time limit."""
        while not self.pending:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Failed("the demo did not finish within the time limit; raise --limit")
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
        """Returns the next line of this process, or None; keeps the events of the others."""
        later = []
        while True:
            source, line = self.next_event()
            if source is process:
                self.pending = later + self.pending
                return line
            later.append((source, line))

    def kill(self, process):
        """Sends SIGKILL, and drops the events of the process."""
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
        """Sends SIGTERM, and SIGKILL after 10 s. Drops the events of the process."""
        process.child.terminate()
        try:
            process.child.wait(10)
        except subprocess.TimeoutExpired:
            process.child.kill()
        self._forget(process)

    def stop_all(self):
        """Stops all processes, the last started one first."""
        for process in reversed(list(self.started)):
            self.stop(process)
