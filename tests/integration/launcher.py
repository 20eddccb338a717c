# SPDX-License-Identifier: Apache-2.0
"""c10drun processes for tests: started, read, waited for and ended."""
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from daemon import BIN, SLOWDOWN, Daemon

C10DRUN = os.path.join(BIN, "c10drun")
# What the surroundings of the test say must not matter.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not re.match(r"C10DD_|SLURM_|OMPI_|PMI|RANK$|WORLD_SIZE$|TORCHELASTIC_", name)}


def alive(pid):
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def passes_in_one_of_three(test):
    """Of a case whose order holds only while the machine runs. Each try has a job of its own."""
    @functools.wraps(test)
    def tried(case):
        for left in (2, 1, 0):
            try:
                return test(case)
            except AssertionError as failure:
                if left == 0:
                    raise
                print(f"once more, as this may be by chance: {failure}")
                case.doCleanups()
                case.setUp()
    return tried


class Launcher:
    """One c10drun process; what it prints goes into files that can be read meanwhile."""

    def __init__(self, case, *arguments, environment=None):
        self.out = tempfile.NamedTemporaryFile(dir=case.folder)
        self.error = tempfile.NamedTemporaryFile(dir=case.folder)
        self.process = subprocess.Popen(
            [C10DRUN, *arguments], stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.error,
            env={**ENVIRONMENT, "OUT": case.folder, "TMPDIR": case.scratch,
                 **(environment or {})})
        case.addCleanup(self.end)

    @staticmethod
    def _read(file):
        with open(file.name, encoding="utf-8", errors="replace") as again:
            return again.read()

    def printed(self):
        return self._read(self.out)

    def said(self):
        return self._read(self.error)

    def wait(self, seconds=20):
        try:
            return self.process.wait(seconds * SLOWDOWN)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"c10drun does not end; it says:\n{self.said()}\nand prints:\n"
                                 f"{self.printed()}") from None

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.error.close()


class Case(unittest.TestCase):
    jobs = 0

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon().start()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0, cls.daemon.errors()
        cls.daemon.log.close()

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="c10drun-test-")
        self.scratch = os.path.join(self.folder, "scratch")
        os.mkdir(self.scratch)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        Case.jobs += 1
        self.job = f"job-{os.getpid()}-{Case.jobs}"

    def launch(self, script, *options, **more):
        """An agent whose workers run a shell script."""
        return self.launch_program(["sh", "-c", script], *options, **more)

    def launch_program(self, command, *options, **more):
        host, port = self.daemon.address
        return Launcher(self, "--daemon", f"{host}:{port}", "--job", self.job, "--last-call", "1s",
                        "--join-timeout", "20s", *options, "--", *command, **more)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def until(self, condition, what, launcher=None, seconds=20):
        end = time.monotonic() + seconds * SLOWDOWN
        while time.monotonic() < end:
            try:
                value = condition()
            except (FileNotFoundError, ValueError):
                value = None
            if value:
                return value
            time.sleep(0.02)
        said = f"; the launcher says:\n{launcher.said()}" if launcher else ""
        self.fail(f"{what}: not within {seconds} s{said}")

    def lines(self, name):
        return self.read(name).split("\n")[:-1]
