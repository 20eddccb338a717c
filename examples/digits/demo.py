#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a real training job that survives a crash of the daemon.

Starts the daemon on a durable engine and two ranks that train with it. Kills the daemon in the
middle of an epoch, and starts it again when the ranks wait for it. Checks at the end that nothing
was lost or counted twice, and that the result is that of a training in one process. Exit codes: 0
all checks passed, 1 a check or the demo failed, 130 interrupted. Always stops the processes that it
started.
"""

import argparse
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from collective_table import read_collectives, table
from fleet import Fleet
from processes import Failed, Processes

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("C10DD_BIN", HERE.parent.parent / "build" / "bin"))
DATA = HERE / "data" / "digits.csv"
JOB = "digits"
WORLD_SIZE = 2
OUTAGES_MAX = 3
CALLS = {"wait", "add", "barrier"}
ACCURACY_MIN = 0.95
LOSS_DIFFERENCE_MAX = 1e-4
BUCKETS_MIN = 3


def say(text):
    print(text, flush=True)


def parse(line):
    """Returns the word and the {key: value} of a line that digits prints."""
    word, *pairs = line.split()
    return word, dict(pair.split("=", 1) for pair in pairs)


def clean_environment(**more):
    """Returns this environment with `more`, without the variables that configure c10dd."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("C10DD_")}
    return {**kept, **more}


def reserve_port():
    """Returns a free port of 127.0.0.1, and reserves it until the demo ends. A bound socket that
    never listens keeps the port: a server with SO_REUSEADDR can bind it too, but no other program
    gets it while the server is down."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.detach()
    return port


def start_redis(processes, folder):
    """Starts a Redis server that syncs every write. Returns the URL for --engine."""
    port = reserve_port()
    server = processes.start(
        "redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
                  "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize",
                  "no"], clean_environment())
    while True:
        line = processes.first_line(server)
        if line is None:
            raise Failed(f"redis-server did not start{server.error_tail()}")
        if "Ready to accept connections" in line:
            return f"redis://127.0.0.1:{port}"


class Daemon:
    """The daemon c10dd, which is killed and started again on the same port."""

    what = killed = "the daemon"
    outages_max = OUTAGES_MAX

    def __init__(self, processes, engine, name="daemon", options=()):
        self.processes = processes
        self.engine = engine
        self.name = name
        self.options = list(options)
        self.address = f"127.0.0.1:{reserve_port()}"
        self.process = None
        self.killed_at = None
        self.away = 0.0  # seconds in all

    @property
    def addresses(self):
        return self.address

    def serve_again(self):
        self.start()

    def start(self):
        self.process = self.processes.start(
            self.name, [str(BIN / "c10dd"), "--listen", self.address, "--engine", self.engine,
                        *self.options], clean_environment())
        line = self.processes.first_line(self.process)
        if line is None or not line.startswith("listening on "):
            raise Failed(f"the daemon did not start{self.process.error_tail()}")
        self.address = line.split()[-1]
        if self.killed_at is not None:
            self.away += time.monotonic() - self.killed_at
            self.killed_at = None

    def kill(self):
        self.killed_at = time.monotonic()
        self.processes.kill(self.process)

    @property
    def down(self):
        return self.killed_at is not None

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as reply:
            return reply.read().decode()


class Run:
    """What the ranks of one training have printed."""

    def __init__(self):
        self.images = 0        # in the training set
        self.buckets = {}      # by rank, as all below
        self.results = {}
        self.reducers = {}
        self.clients = {}
        self.losses = {}       # by (rank, epoch)
        self.collectives = {}  # count by (process_group, collective, backend), of all ranks
        self.exported = {}     # the same from the daemon's /metrics, at the end

    def on_line(self, word, fields):
        if word == "data":
            self.images = int(fields["train"])
        elif word == "loss":
            self.losses[fields["rank"], int(fields["epoch"])] = float(fields["value"])
        elif word == "collective":
            key = (fields["process_group"], fields["collective"], fields["backend"])
            self.collectives[key] = self.collectives.get(key, 0) + int(fields["count"])
        else:
            by_rank = {"buckets": self.buckets, "result": self.results, "reducer": self.reducers,
                       "client": self.clients}.get(word)
            if by_rank is not None:
                by_rank[fields["rank"]] = fields


class Outages:
    """Kills the daemon in the middle of an epoch, and starts it again when every rank has printed
    that it waits for the daemon. If a call of some rank ended before the kill, it tries again in a
    later epoch."""

    def __init__(self, daemon, first_epoch):
        self.daemon = daemon
        self.next_epoch = first_epoch
        self.count = 0
        self.half = set()
        self.waiting = {}
        self.all_waited = False

    def on_line(self, word, fields):
        epoch = int(fields.get("epoch", 0))
        if word == "half" and epoch == self.next_epoch and not self.daemon.down:
            self.half.add(fields["rank"])
            if len(self.half) == WORLD_SIZE:
                self.kill(epoch)
        elif word == "outstanding" and self.daemon.down and epoch >= self.next_epoch:
            self.waiting[fields["rank"]] = set(fields["calls"].split(","))
            say(f"   rank {fields['rank']}: outstanding since the end of epoch {epoch}: "
                f"{fields['calls'].replace(',', ', ')}")
            if len(self.waiting) == WORLD_SIZE:
                self.restart(epoch)

    def kill(self, epoch):
        self.daemon.kill()
        self.count += 1
        self.waiting = {}
        say(f"== SIGKILL to {self.daemon.killed} in the middle of epoch {epoch}; training goes on")

    def restart(self, epoch):
        self.daemon.serve_again()
        say(f"== {self.daemon.what} is back on {self.daemon.address} after {self.daemon.away:.2f} s")
        self.all_waited = all(CALLS <= calls for calls in self.waiting.values())
        self.half = set()
        self.next_epoch = None
        if not self.all_waited and self.count < min(OUTAGES_MAX, self.daemon.outages_max):
            self.next_epoch = epoch + 2


def show_epoch(fields, away):
    say(f"   epoch {fields['number']:>2}/{fields['of']}  loss {fields['loss']}  test accuracy "
        f"{fields['test_accuracy']}  {fields['images_per_second']:>6} images/s"
        f"{'  (daemon away)' if away else ''}")


def listen(processes, ranks, on_line):
    """Calls on_line() for every line of these processes until all have exited with 0. Raises Failed if
    another process ends, or exits with another code."""
    open_ends = set(ranks)
    while open_ends:
        process, line = processes.next_event()
        if line is not None:
            if process in open_ends and line:
                on_line(*parse(line))
            continue
        if process not in open_ends:
            raise Failed(f"{process.name} ended too early{process.error_tail()}")
        open_ends.remove(process)
        if process.child.wait() != 0:
            raise Failed(f"{process.name} exited with code {process.child.returncode}"
                         f"{process.error_tail()}")


def train_with_ranks(processes, daemon, options):
    run = Run()
    outages = Outages(daemon, max(1, options.epochs * 2 // 5))

    def on_line(word, fields):
        run.on_line(word, fields)
        outages.on_line(word, fields)
        if word == "epoch":
            show_epoch(fields, daemon.down)
        elif word == "buckets" and fields["rank"] == "0":
            say(f"   {fields['per_step']} buckets and {int(fields['bytes']):,} bytes of gradients "
                "in every step")

    ranks = []
    for rank in range(WORLD_SIZE):
        environment = clean_environment(C10DD_URL=f"c10dd://{daemon.addresses}/{JOB}",
                                        C10DD_RUN="demo", RANK=str(rank),
                                        WORLD_SIZE=str(WORLD_SIZE))
        ranks.append(processes.start(f"rank {rank}", digits(options), environment))
    listen(processes, ranks, on_line)
    # Now: the daemon removes the metrics of the run soon after the last session has ended.
    run.exported = read_collectives(daemon.metrics(), JOB)
    return run, outages


def train_alone(processes, options):
    run = Run()
    alone = processes.start("one process alone", digits(options) + ["--single"],
                            clean_environment())
    listen(processes, [alone], run.on_line)
    return run


def digits(options):
    return [str(BIN / "digits"), "--data", str(DATA), "--epochs", str(options.epochs)]


class Checks:
    """Prints every result, and collects the failed checks."""

    def __init__(self):
        self.failed = []

    def check(self, holds, text, demand):
        say(text)
        if not holds:
            self.failed.append(f"{text}; required: {demand}")


def report(run, outages, reference, daemon, options):
    checks = Checks()
    hashes = [result["parameters"] for _, result in sorted(run.results.items())]
    identical = len(hashes) == WORLD_SIZE and len(set(hashes)) == 1
    checks.check(identical, f"parameters {' '.join(hashes)}; parameters identical: "
                 f"{'yes' if identical else 'no'}", "equal hashes of all ranks")

    differences = [abs(loss - reference.losses["0", epoch])
                   for (_, epoch), loss in run.losses.items()]
    complete = len(differences) == WORLD_SIZE * options.epochs
    largest = max(differences) if complete else float("inf")
    checks.check(largest <= LOSS_DIFFERENCE_MAX,
                 f"largest loss difference to one process alone {largest:.1e}",
                 f"at most {LOSS_DIFFERENCE_MAX:.0e} in all {options.epochs} epochs")

    buckets = min(int(fields["buckets"]) for fields in run.reducers.values())
    overlaps = ", ".join(f"{float(fields['overlap']):.0%}"
                         for _, fields in sorted(run.reducers.items()))
    checks.check(buckets >= BUCKETS_MIN,
                 f"buckets per step {buckets}, communication hidden behind backward: {overlaps}",
                 f"at least {BUCKETS_MIN} buckets")

    away = ", ".join(f"{float(fields['away_seconds']):.2f}"
                     for _, fields in sorted(run.clients.items()))
    checks.check(outages.all_waited,
                 f"daemon away {daemon.away:.2f} s in {outages.count} outage"
                 f"{'s' if outages.count != 1 else ''}; as the ranks saw it: {away} s",
                 "an outage with a wait, an add and a barrier outstanding on every rank")
    reissued = [int(fields["reissued"]) for _, fields in sorted(run.clients.items())]
    checks.check(min(reissued) > 0, f"calls re-issued {sum(reissued)} "
                 f"({' + '.join(map(str, reissued))})", "more than 0 on every rank")
    failures = sum(int(fields["failures"]) for fields in run.clients.values())
    calls = sum(int(fields["calls"]) for fields in run.clients.values())
    checks.check(failures == 0, f"calls {calls}, failed {failures}", "none failed")
    expected = options.epochs * run.images
    counted = sorted({int(fields["images"]) for fields in run.clients.values()})
    checks.check(counted == [expected],
                 f"images counted by the daemon {', '.join(map(str, counted))}, "
                 f"expected {expected}", "equal")

    say("collectives, from the daemon's /metrics:")
    for line in table(run.exported):
        say("   " + line)
    exported = {key: one.count for key, one in run.exported.items()}
    checks.check(bool(exported) and exported == run.collectives,
                 f"collectives counted by the daemon {sum(exported.values())}, by the ranks "
                 f"{sum(run.collectives.values())}", f"equal in every row; ranks: {run.collectives}")

    accuracy = min(float(result["test_accuracy"]) for result in run.results.values())
    checks.check(accuracy >= ACCURACY_MIN, f"test accuracy {accuracy:.3f}",
                 f"at least {ACCURACY_MIN}")
    if checks.failed:
        raise Failed("\n  ".join(["these checks failed:", *checks.failed]))


def demo(options, processes, folder):
    begin = time.monotonic()
    engine = (start_redis(processes, folder) if options.engine == "redis"
              else f"rocksdb:{folder}/state")
    if options.daemons > 1:
        daemon = Fleet([Daemon(processes, engine, f"daemon {number}", Fleet.OPTIONS)
                        for number in range(1, options.daemons + 1)], engine, JOB, say)
    else:
        daemon = Daemon(processes, engine)
    daemon.start()
    say(f"== {daemon.what} listens on {daemon.addresses}, engine {engine}")
    say(f"== {WORLD_SIZE} ranks train on the digits, {options.epochs} epochs, backend gloo")
    run, outages = train_with_ranks(processes, daemon, options)
    say("== the same batches in one process alone")
    reference = train_alone(processes, options)
    say("== results")
    report(run, outages, reference, daemon, options)
    say(f"== all checks passed, {time.monotonic() - begin:.1f} s")
    if options.hold > 0:
        say(f"== the daemon stays on {daemon.address} for {options.hold:g} s")
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(options.hold)


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=["rocksdb", "redis"], default="rocksdb",
                        help="where the daemon keeps its state; redis: the demo starts a server")
    parser.add_argument("--epochs", type=int, default=24,
                        help="number of epochs, at least 4; default: 24")
    parser.add_argument("--hold", type=float, default=0, metavar="SECONDS",
                        help="keep the daemon running for this long after the end")
    parser.add_argument("--limit", type=float, default=180, metavar="SECONDS",
                        help="fail if the demo takes longer; default: 180")
    parser.add_argument("--daemons", type=int, default=1, metavar="N",
                        help="number of daemons that share the Redis server (with --engine redis); "
                        "the one that serves the job is killed and stays down; default: 1")
    options = parser.parse_args()
    if options.daemons < 1 or (options.daemons > 1 and options.engine != "redis"):
        parser.error(f"--daemons is {options.daemons}, but must be 1, or at least 1 with --engine "
                     "redis")
    if options.epochs < 4:
        parser.error(f"--epochs is {options.epochs}, but must be at least 4: the outage needs an "
                     "epoch in the middle")
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    with tempfile.TemporaryDirectory(prefix="c10dd-demo-") as folder:
        processes = Processes(folder, options.limit)
        try:
            demo(options, processes, folder)
        except Failed as failure:
            print(f"demo: {failure}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("demo: interrupted", file=sys.stderr)
            return 130
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            processes.stop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
