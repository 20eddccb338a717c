#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md does what it shows: its files and commands are taken out of the page, run against
an installation, and print what stands there.

    C10DD_BIN=build/bin tests/user/tutorial_test.py [--update]

--update writes what the commands print now into the page.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import SLOWDOWN, reserve_port  # noqa: E402
from installed import BUILD, HERE, compiler, run  # noqa: E402

PAGE = os.path.join(HERE, "../../docs/tutorial.md")
BLOCK = re.compile(r"^```(cmake|cpp|console)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
SHOWN_AT = "127.0.0.1:29500"
LIMIT = 120  # of all commands, in seconds
END = "-- end of block"
# What differs from run to run: which of two equal members acts first, and when.
VARIABLE = [(r"rank \d on \S+ \(pid \d+\)", "rank R on HOST (pid N)"),
            (r"from step [1-9]\d*", "from step N"),
            (r"return for [\d.]+ s", "return for S s")]


def read_page():
    with open(PAGE, encoding="utf-8") as page:
        return page.read()


def files_of(page):
    """The files that the page shows, by the name in their first line."""
    return {re.match(r"\S+ (\S+)\n", text)[1]: text
            for kind, text in BLOCK.findall(page) if kind != "console"}


def masked(text):
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return text


class Reader:
    """A shell in a folder with the page's files and an installation in its home, on a free port."""

    def __init__(self, home, files):
        self.address = f"127.0.0.1:{reserve_port()}"
        folder = self.folder = os.path.join(home, "tutorial")
        os.mkdir(folder)
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("C10DD_") and name != "LD_LIBRARY_PATH"}
        self.errors = tempfile.TemporaryFile()
        self.shell = subprocess.Popen(
            ["bash"], cwd=folder, env={**environment, "HOME": home, "CXX": compiler()},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            start_new_session=True)
        self.alarm = threading.Timer(LIMIT * SLOWDOWN, self.kill)
        self.alarm.start()

    def kill(self):
        """Ends the shell and all that it started."""
        try:
            os.killpg(self.shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        self.alarm.cancel()
        self.kill()
        self.shell.wait()
        self.shell.stdin.close()
        self.shell.stdout.close()
        self.errors.close()

    def said_on_stderr(self):
        """What the commands wrote to standard error, and the end of the daemon's log."""
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")[-4000:]
        log = os.path.join(self.folder, "daemon.log")
        if not os.path.exists(log):
            return said
        with open(log, encoding="utf-8", errors="replace") as lines:
            return said + "\ndaemon.log: " + lines.read()[-2000:]

    def type(self, command):
        """The lines that the command prints, with the names that the page uses."""
        self.shell.stdin.write(command.replace(SHOWN_AT, self.address) + f"\necho '{END}'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.rstrip("\n") == END:
                return lines
            line = line.rstrip("\n").replace(self.address, SHOWN_AT)
            lines.append(re.sub(rf"\b{re.escape(socket.gethostname())}\b", "vm", line))
        raise AssertionError(f"no end within {LIMIT * SLOWDOWN} s: {command}\nprinted: {lines}\n"
                             f"stderr: {self.said_on_stderr()}")

    def transcript(self, block):
        """The block's commands, each with what it prints now."""
        lines = []
        for line in block.splitlines():
            if line.startswith("$ "):
                lines += [line, *self.type(line[2:])]
        return "\n".join(lines) + "\n"


class Machine:
    """An installation and a reader of the page. Use as a context manager."""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="c10dd-tutorial-")
        run("cmake", "--install", BUILD, "--prefix", os.path.join(self.home, "c10dd"))
        self.reader = Reader(self.home, files_of(read_page()))
        return self.reader

    def __exit__(self, *exception):
        self.reader.close()
        shutil.rmtree(self.home)


class Tutorial(unittest.TestCase):
    def test_the_commands_print_what_the_page_shows(self):
        with Machine() as reader:
            for kind, text in BLOCK.findall(read_page()):
                if kind == "console":
                    self.assertEqual(masked(text), masked(reader.transcript(text)),
                                     f"stderr: {reader.said_on_stderr()}")


def update():
    with Machine() as reader:
        page = BLOCK.sub(lambda block: block[0] if block[1] != "console" else
                         f"```console\n{reader.transcript(block[2])}```\n", read_page())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main(verbosity=2)
