#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stock trainers of PyTorch that hang, by each way to start them: what the daemon says of them.

    drills.py VERSION... [--install] [--way plain|c10drun|scheme|torchrun]... [--drill held|killed|cut|good]...

4 ranks in two network namespaces (drills_train.py). held: one rank does not join. killed: one is killed while the others
compute; a launcher that ends its launch then is right, too. cut: the link of the second node is set down; a launcher may then
wait for another node. good: all end well, and the daemon says nothing. Prints for each drill the seconds until the sentence, and the sentence."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from kills import EACH, PATIENCE, RANKS, Launch, in_two_networks  # noqa: E402
from daemon import Daemon, text_of  # noqa: E402
from environments import numbers_of, python_of  # noqa: E402
from networks import TwoNetworks  # noqa: E402

WAYS = ("plain", "c10drun", "scheme", "torchrun")
DRILLS = ("held", "killed", "cut", "good")
HELD = RANKS - 1
FAR = range(EACH, RANKS)  # the ranks of the second node
CUT_LIMIT = 15
LIMIT = 6  # seconds; a launch that waits, or that a rank has left, is looked at after 2 s
ENDS = 15  # seconds after which a launcher has ended its launch


class Drill(Launch):
    """A launch of drills_train.py."""

    def __init__(self, networks, way, version, python, url, held):
        self.held = str(HELD) if held else ""
        super().__init__(networks, way, version, python, url)

    def start(self, node, words, **variables):
        words = [os.path.join(HERE, "drills_train.py") if word == self.words[0] else word for word in words]
        for number in self.words[1:]:
            words.remove(number)
        return super().start(node, words, DRILLS_FOLDER=self.folder, DRILLS_HELD=self.held, **variables)

    def touch(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="ascii"):
            pass

    def pids(self):
        """The pid of each rank that computes."""
        found = {}
        for rank in range(RANKS):
            try:
                with open(os.path.join(self.folder, f"here-{rank}"), encoding="ascii") as file:
                    found[rank] = int(file.read() or 0)
            except FileNotFoundError:
                pass
        return found

    def computes(self):
        end = time.monotonic() + PATIENCE
        while len(self.pids()) < RANKS or not all(self.pids().values()):
            self.check_alive()
            assert time.monotonic() < end, f"only {self.pids()} compute: {text_of(self.log)[-3000:]}"
            time.sleep(0.05)


def diagnoses(daemon):
    """The diagnosis of each run that does not go on."""
    jobs = json.loads(daemon.http("/v1/jobs")[1])["jobs"]
    return [one["diagnosis"] for one in jobs if one["diagnosis"]["state"] in ("waiting", "stuck")]


def said(daemon):
    return [line for line in daemon.errors().splitlines() if " event=diagnosis " in line]


class Cell:
    def __init__(self, networks, way, version):
        self.networks, self.way, self.version = networks, way, version
        self.python = python_of(version)
        self.number = numbers_of(subprocess.run([self.python, "-c", "import torch; print(torch.__version__)"], check=True,
                                                capture_output=True, text=True).stdout)

    def await_sentence(self, daemon, launch, right, limit):
        """Waits for a right diagnosis. Returns the seconds, and the sentence; or that the launch has ended."""
        begin, seen = time.monotonic(), []
        while time.monotonic() < begin + max(limit, ENDS) + 5:
            for found in diagnoses(daemon):
                if found["sentence"] not in seen:
                    seen.append(found["sentence"])
                if right(found):
                    took = time.monotonic() - begin
                    assert took <= limit, f"after {took:.1f} s: {found['sentence']}"
                    return took, found["sentence"]
            if limit == LIMIT and all(process.poll() is not None for process in launch.processes):
                return time.monotonic() - begin, "(the launch has ended)"
            time.sleep(0.05)
        raise AssertionError(f"not named, but {seen}; the launch printed {text_of(launch.log)[-1500:]}")

    def run(self, drill):
        with tempfile.TemporaryDirectory() as folder, Daemon(
                "--allow-insecure-listen", "--tcpstore-from", "10.213.7.0/24", host=TwoNetworks.NEAR,
                engine=f"rocksdb:{folder}/state") as daemon:
            launch = Drill(self.networks, self.way, self.number, self.python, "c10dd://%s:%d/drill" % daemon.address,
                           drill == "held")
            try:
                return getattr(self, drill)(daemon, launch)
            finally:
                self.networks.set_link(True)
                launch.end()

    def held(self, daemon, launch):
        found = self.await_sentence(daemon, launch, lambda one: one["ranks"] == [HELD], PATIENCE)
        launch.touch("release")
        launch.computes()
        self.ends_well(daemon, launch)
        return found

    def killed(self, daemon, launch):
        launch.computes()
        pid = launch.pids()[1]
        os.kill(pid, signal.SIGKILL)
        # The agent of torchrun may have ended its ranks by then: that of the other node waits for it.
        return self.await_sentence(daemon, launch,
                                   lambda one: one["ranks"] == [1] or f"(pid {pid})" in one["sentence"] or
                                   one["sentence"].startswith('rendezvous of group "torchrun"'), LIMIT)

    def cut(self, daemon, launch):
        launch.computes()
        self.networks.set_link(False)
        return self.await_sentence(daemon, launch,
                                   lambda one: set(one["ranks"]) == set(FAR) or len(one["hosts"]) == 1 or
                                   one["sentence"].startswith("rendezvous of group"), CUT_LIMIT)

    def good(self, daemon, launch):
        launch.computes()
        begun = said(daemon)  # on a busy machine, ranks wait for those that start seconds later
        assert all(" state=waiting " in line for line in begun), begun
        time.sleep(3)
        self.ends_well(daemon, launch)
        time.sleep(2)
        assert said(daemon) == begun, said(daemon)
        return 0, "(nothing)"

    def ends_well(self, daemon, launch):
        launch.touch("end")
        codes = [process.wait(PATIENCE) for process in launch.processes]
        assert not any(codes), f"exit codes {codes}: {text_of(launch.log)[-3000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--drill", action="append", choices=DRILLS)
    options = parser.parse_args()
    def work(networks, version):
        failed = 0
        for way in options.way or WAYS:
            cell = Cell(networks, way, version)
            if way == "torchrun" and cell.number < (2, 5):
                continue
            for drill in options.drill or DRILLS:
                try:
                    took, sentence = cell.run(drill)
                    print(f"{version:8} {way:8} {drill:7} {took:5.1f} s  {sentence}", flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"{version:8} {way:8} {drill:7} FAILED: {error}", flush=True)
        return failed

    return 1 if in_two_networks(options.versions, options.install, work) else 0


if __name__ == "__main__":
    sys.exit(main())
