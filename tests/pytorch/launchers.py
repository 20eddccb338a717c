#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs unmodified PyTorch trainers against the daemon, by every launcher, as docs/pytorch.md says.

    launchers.py VERSION... [--install] [--launcher NAME]... [--case undisturbed|killed|restarted]...

Each cell of the table is a launcher and a case: undisturbed; or the daemon is killed while ranks
wait in the store: they must fail within 10 s, and the next launch must train; or a rank fails, and torchrun
starts the workers again: they must train. A cell counts only if
the daemon's metrics show the joins and sets of this launcher over tcpstore, and if no trainer
listens on MASTER_PORT."""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))
from daemon import Daemon  # noqa: E402
from environments import install, numbers_of, python_of  # noqa: E402
from networks import TwoNetworks  # noqa: E402
from page_code import block_of  # noqa: E402

PAGE = pathlib.Path(HERE, "../../docs/pytorch.md")

TRAIN = os.path.join(HERE, "train.py")
RANKS = 4
PATIENCE = 120
MOST_TO_NOTICE = 10.0


def version_of(python):
    text = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], check=True,
                          capture_output=True, text=True).stdout
    return numbers_of(text)


class Launcher:
    """How a launcher is used, and what the daemon must see of one launch."""

    def __init__(self, processes, joins, sets, variables=lambda index: {}, chapter=True, hold="--hold",
                 restarts=False):
        self.processes = processes  # that run the lines of the chapter
        self.joins = joins          # ADDs, at least
        self.sets = sets            # SETs, at least
        self.variables = variables
        self.chapter = chapter
        self.hold = hold
        self.restarts = restarts    # starts workers again


def rank(index):
    return {"RANK": str(index), "WORLD_SIZE": str(RANKS)}


def node(index):
    return {"NODE": str(index)}


LAUNCHERS = {
    "env": Launcher(RANKS, RANKS, RANKS, rank),
    "tcp": Launcher(RANKS, RANKS, RANKS, rank),
    "spawn": Launcher(1, RANKS, RANKS),
    "store": Launcher(RANKS, RANKS, RANKS, rank),
    "static": Launcher(2, RANKS + 2, RANKS, node, restarts=True),
    "c10d": Launcher(2, 0, 1, node, hold=""),
    "file": Launcher(RANKS, 0, 0, rank, chapter=False),
}
# Debian's torchrun 1.13.1 breaks on Python 3.11 without these.
WORKAROUND = {"PET_REDIRECTS": "1", "PET_TEE": "2"}
CASES = ("undisturbed", "killed", "restarted")


def lines_of(launcher, address, folder, case):
    """The lines of the chapter, for this daemon and with the trainer of these tests."""
    if LAUNCHERS[launcher].chapter:
        lines = block_of(PAGE.read_text(encoding="utf-8"), launcher)
    else:
        lines = [f"python train.py --init file://{folder}/store"]
    text = "\n".join(lines).replace("127.0.0.1", address[0]).replace("29500", str(address[1]))
    text = text.replace("train.py", TRAIN)
    more = {"undisturbed": "", "killed": LAUNCHERS[launcher].hold, "restarted": "--fail-once"}
    return f"{text} {more[case]}"


def commands(launcher, python, address, folder, case):
    """[(shell command, variables)] of one launch. A word `python` is this interpreter."""
    it = LAUNCHERS[launcher]
    words = os.path.join(folder, "bin")
    os.makedirs(words)
    for name, arguments in (("python", ""), ("torchrun", " -m torch.distributed.run")):
        with open(os.path.join(words, name), "w", encoding="ascii") as script:
            script.write(f'#!/bin/sh\nexec {python}{arguments} "$@"\n')
        os.chmod(script.name, 0o755)
    alone = case == "killed" and not it.hold  # a node alone waits in the rendezvous
    return [(["sh", "-ec", lines_of(launcher, address, folder, case)],
             {"PATH": f"{words}:{os.environ['PATH']}", **WORKAROUND, "PET_LOG_DIR": f"{folder}/{index}",
              "PET_MAX_RESTARTS": "1" if case == "restarted" else "0", **it.variables(index)}) for index in range(1 if alone else it.processes)]


class OneMachine:
    """The daemon and all ranks on loopback."""
    address = "127.0.0.1"
    options = ()
    prefix = ()

    def close(self):
        pass


class TwoMachines:
    """The ranks in a network namespace of their own, the daemon outside."""
    address = TwoNetworks.NEAR
    options = ("--allow-insecure-listen", "--tcpstore-from", "10.213.7.0/24")

    def __init__(self):
        self.networks = TwoNetworks()
        self.prefix = self.networks.in_far

    def close(self):
        self.networks.close()


def needs_two_machines(launcher, version):
    """Before 2.7 the agent of node 0 always opens a store on MASTER_PORT."""
    return launcher == "static" and version < (2, 7)


class Launch:
    """The processes of one launch."""

    def __init__(self, commands):
        self.output = [tempfile.TemporaryFile() for _ in commands]
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
        self.processes = [
            subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                             env={**clean, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables})
            for (command, variables), out in zip(commands, self.output)]

    def text(self):
        return "".join(os.pread(out.fileno(), 1 << 20, 0).decode(errors="replace") for out in self.output)

    def wait(self, seconds):
        """The exit codes, of those that end in time; ends the others."""
        until = time.monotonic() + seconds
        codes = []
        for process in self.processes:
            try:
                codes.append(process.wait(max(until - time.monotonic(), 0.01)))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the shell, and the ranks that it has started
                process.wait()
                codes.append(None)
        return codes

    def wait_for(self, pattern, count):
        until = time.monotonic() + PATIENCE
        while len(re.findall(pattern, self.text())) < count:
            if time.monotonic() > until or all(p.poll() is not None for p in self.processes):
                raise AssertionError(f"{count} times {pattern!r} is missing:\n{self.text()}")
            time.sleep(0.1)


def requests(daemon, op):
    """How many requests of this operation came over the TCPStore protocol."""
    labels = r'[^}]*op="%s"[^}]*' % op
    found = re.search(rf"^c10dd_store_requests_total{{{labels}}} (\d+)$",
                      "\n".join(line for line in daemon.http("/metrics")[1].splitlines()
                                if 'protocol="tcpstore"' in line), re.M)
    return int(found.group(1)) if found else 0


def listeners(port):
    """The inodes of the sockets that listen on a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    found.add(fields[9])
    return found


# What a rank of PyTorch 2.x sometimes prints when it aborts after its last line, also without the daemon.
ABORTED_AT_EXIT = "terminate called without an active exception"


def check_launch(launch, daemon, launcher, before, ours):
    """The launch has trained over the daemon and nowhere else. Returns a remark."""
    opened = set()
    while any(process.poll() is None for process in launch.processes[:1]):
        opened |= listeners(daemon.address[1]) - ours
        time.sleep(0.2)
    if opened:
        raise AssertionError("a trainer listens on MASTER_PORT")
    codes = launch.wait(PATIENCE)
    text = launch.text()
    failed = [code for code in codes if code != 0]
    at_exit = set(failed) <= {134, -signal.SIGABRT} and text.count(ABORTED_AT_EXIT) == len(failed)
    if not at_exit or len(re.findall(r"rank \d of 4: trained", text)) != RANKS:
        raise AssertionError(f"exit codes {codes}\n{text}")
    it = LAUNCHERS[launcher]
    for op, least in (("add", it.joins), ("set", it.sets)):
        seen = requests(daemon, op) - before[op]
        if seen < least or (launcher == "file" and seen > 0):
            raise AssertionError(f"{seen} requests {op} over tcpstore, not {least} or more\n{text}")
    return f" ({len(failed)} ranks aborted in PyTorch's own exit)" if failed else ""


def hold_and_kill(launch, daemon, launcher):
    """Kills the daemon while ranks wait in the store. Returns what happened to them."""
    if not LAUNCHERS[launcher].hold:
        until = time.monotonic() + PATIENCE
        while requests(daemon, "compare_set") == 0:
            if time.monotonic() > until:
                raise AssertionError(f"no agent came\n{launch.text()}")
            time.sleep(0.1)
    else:
        launch.wait_for(r"rank \d waits", RANKS)
    daemon.kill()
    killed = time.monotonic()
    if launcher == "file":
        time.sleep(3)
        if any(process.poll() is not None for process in launch.processes):
            raise AssertionError(f"file:// does not need the daemon\n{launch.text()}")
        launch.wait(0)
        return "no rank noticed"
    codes = launch.wait(2 * MOST_TO_NOTICE)
    took = time.monotonic() - killed
    if not all(codes) or took > MOST_TO_NOTICE:
        raise AssertionError(f"exit codes {codes} after {took:.1f} s\n{launch.text()}")
    return f"error after {took:.1f} s"


def run_case(launcher, case, python, place):
    def launch(case):
        its = commands(launcher, python, daemon.address, tempfile.mkdtemp(dir=folder), case)
        return Launch([([*place.prefix, *command], variables) for command, variables in its])

    with tempfile.TemporaryDirectory() as folder, Daemon(*place.options, host=place.address) as daemon:
        noticed = ""
        if case == "killed":
            noticed = hold_and_kill(launch(case), daemon, launcher) + ", then "
            daemon.start()
        before = {op: requests(daemon, op) for op in ("add", "set")}
        ours = listeners(daemon.address[1])
        last = launch("restarted" if case == "restarted" else "undisturbed")
        remark = check_launch(last, daemon, launcher, before, ours)
        if case == "restarted" and "rank 1 fails" not in last.text():
            raise AssertionError(f"no rank has failed\n{last.text()}")
        return noticed + "trained" + remark


def run_cell(launcher, case, python, version):
    place = TwoMachines() if needs_two_machines(launcher, version) else OneMachine()
    try:
        return run_case(launcher, case, python, place)
    finally:
        place.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--install", action="store_true", help="make the environments that are missing")
    parser.add_argument("--launcher", action="append", choices=LAUNCHERS)
    parser.add_argument("--case", action="append", choices=CASES)
    options = parser.parse_args()
    failed = False
    for version in options.versions:
        python = python_of(version) or (install(version) if options.install else None)
        if python is None:
            print(f"PyTorch {version}: SKIPPED: not installed; ./dev torch {version} installs it")
            continue
        number = version_of(python)
        for launcher in options.launcher or LAUNCHERS:
            for case in options.case or CASES:
                if case == "restarted" and not LAUNCHERS[launcher].restarts:
                    continue
                begin = time.monotonic()
                try:
                    found = run_cell(launcher, case, python, number)
                except AssertionError as error:
                    failed, found = True, f"FAILED: {error}"
                except unittest.SkipTest as reason:
                    found = f"SKIPPED: {reason}"
                print(f"PyTorch {version}, {launcher}, {case}: {found} ({time.monotonic() - begin:.0f} s)",
                      flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
