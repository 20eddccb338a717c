#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each trouble of a Redis under load, on real servers: two daemons, and on each a client that adds 1 to a counter as
fast as it can. Either all goes on as if nothing had happened, or nothing is served until an operator accepts
the loss. In no case is an answer wrong: each one is the answer before it, plus 1.

    redis_trouble_test.py --table --times 20      prints what was expected and seen, and how soon /readyz said it
"""
import argparse
import contextlib
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import at_once
from daemon import Daemon, SLOWDOWN
from redis_server import Redis, sentinel
from faulty_link import FaultyLink
from resp import command
from wire import Wire

LEASE = 1
PATIENCE = 30 * SLOWDOWN
LOAD = 0.7  # seconds of load before the trouble


class Adder(threading.Thread):
    """A client of one job: one session, which repeats what was not answered."""

    def __init__(self, daemons, job):
        super().__init__(daemon=True)
        self.daemons, self.job = daemons, job
        self.session = os.urandom(16)
        self.acknowledged = 0  # the newest answer
        self.newest = time.monotonic()
        self.wrong = []
        self.rolled_back = False
        self.over = threading.Event()
        self.start()

    def run(self):
        sequence = 0
        stamp = (0, 0, 0)
        client = None
        at = 0
        while not self.over.is_set() and not self.rolled_back:
            reply = None
            with contextlib.suppress(OSError, EOFError):
                if client is None:
                    client = Wire(self.daemons[at % len(self.daemons)].address)
                    client.socket.settimeout(5)
                    reply = client.hello(session=self.session, job=self.job, stamp=stamp)
                    self.rolled_back = reply is not None and reply.code == "state_rolled_back"
                if reply is None or reply.code == "ok":
                    reply = client.add("n", 1, sequence=sequence + 1, acked_below=sequence + 1)
            if reply is not None and reply.code == "ok":
                sequence += 1
                stamp = reply.stamp
                value, = struct.unpack("<q", reply.body)
                if value != self.acknowledged + 1:
                    self.wrong.append((self.acknowledged, value))
                self.acknowledged = value
                self.newest = time.monotonic()
                continue
            if client is not None:
                client.close()
            client = None
            at += 1
            time.sleep(0.02)
        if client is not None:
            client.close()

    def stop(self):
        self.over.set()
        self.join(PATIENCE)


class Scene:
    """Servers, daemons and clients of one trouble."""

    def __init__(self, stack):
        self.stack = stack
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.redis = self.server("one")
        self.before_daemons()
        self.daemons = [stack.enter_context(Daemon("--lease", str(LEASE), *self.options(), engine=self.url()))
                        for _ in range(2)]
        self.adders = [Adder([daemon, *[d for d in self.daemons if d is not daemon]], job)
                       for daemon, job in zip(self.daemons, "AB")]
        stack.callback(lambda: [adder.stop() for adder in self.adders])
        self.wait("acknowledged changes", lambda: all(adder.acknowledged for adder in self.adders))
        time.sleep(LOAD)

    def before_daemons(self):
        """More servers."""

    def options(self):
        return []

    def url(self):
        return f"redis://127.0.0.1:{self.redis.port}"

    def server(self, name, *options):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        return self.stack.enter_context(Redis(folder, *options))

    def call(self, *words, server=None):
        return command((server or self.redis).port, *words)

    def replica(self, name, port):
        """Another server, which has all changes so far."""
        replica = self.server(name, "--replicaof", f"127.0.0.1 {port}")
        self.wait("the replica", lambda: b"master_link_status:up" in command(replica.port, "INFO", "replication"))
        return replica

    def logs(self):
        return "\n".join(daemon.errors() for daemon in self.daemons)

    def wait(self, what, check, patience=PATIENCE):
        until = time.monotonic() + patience
        while not check():
            if time.monotonic() > until:
                raise AssertionError(f"no {what}\n{self.logs()}")
            time.sleep(0.01)

    def said(self, reason):
        """Seconds until both daemons say in /readyz that they are not ready, with this reason."""
        began = time.monotonic()
        for daemon in self.daemons:
            self.wait(f"\"{reason}\" in /readyz", lambda: self.says(daemon, reason))
        return time.monotonic() - began

    def says(self, daemon, reason):
        status, page = daemon.http("/readyz")[:2]
        return status == 503 and reason in page

    def goes_on(self):
        """All is served again, and each acknowledged change is there."""
        began = time.monotonic()
        self.wait("new changes", lambda: all(adder.newest > began for adder in self.adders))
        for daemon in self.daemons:
            self.wait("ready daemon", lambda: daemon.http("/readyz")[0] == 200)
        self.right()
        for daemon in self.daemons:
            if "event=rolled_back" in daemon.errors():
                raise AssertionError(f"a whole state was taken for rolled back\n{self.logs()}")
        return "goes on"

    def right(self):
        wrong = [adder.wrong for adder in self.adders if adder.wrong]
        if wrong:
            raise AssertionError(f"wrong answers (before, after): {wrong}\n{self.logs()}")

    def stops(self):
        """Nothing is served, until an operator accepts the loss; then clients from before are told."""
        before = [adder.acknowledged for adder in self.adders]
        time.sleep(0.3)
        if before != [adder.acknowledged for adder in self.adders]:
            raise AssertionError(f"served after the loss was known\n{self.logs()}")
        self.right()
        operators = self.stack.enter_context(
            Daemon("--lease", str(LEASE), *self.options(), "--accept-rollback", engine=self.url()))
        for daemon in (*self.daemons, operators):
            self.wait("ready daemon after --accept-rollback", lambda: daemon.http("/readyz")[0] == 200)
        self.wait("word to the clients", lambda: all(adder.rolled_back for adder in self.adders))
        self.right()
        return "stops, names it"


class Killed(Scene):
    """killed, started again 1 s later"""
    expected = "goes on"

    def trouble(self):
        self.redis.kill()
        took = self.said("")
        time.sleep(1)
        self.redis.start()
        return took, self.goes_on()


class Hung(Scene):
    """hung for 3 s, no takeover"""
    expected = "goes on"
    how_long = 3

    def trouble(self):
        self.redis.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        took = self.said("this daemon's lease has expired")
        time.sleep(max(0, began + self.how_long - time.monotonic()))
        self.redis.send_signal(signal.SIGCONT)
        seen = self.goes_on()
        assert "event=job_taken_over" not in self.logs(), self.logs()
        return took, seen


class HungLong(Hung):
    """hung for 30 s, no takeover"""
    how_long = 30


class Flushed(Scene):
    """FLUSHALL"""
    expected = "stops, names it"

    def trouble(self):
        self.call("FLUSHALL")
        return self.said("state_rolled_back: "), self.stops()


class OlderCopy(Scene):
    """an older copy of the data"""
    expected = "stops, names it"

    def trouble(self):
        kept = os.path.join(self.folder, "copy")
        shutil.copytree(self.redis.folder, kept)
        time.sleep(LOAD)
        self.redis.kill()
        shutil.rmtree(self.redis.folder)
        shutil.move(kept, self.redis.folder)
        self.redis.start()
        return self.said("state_rolled_back: "), self.stops()


class Promoted(Scene):
    """a replica promoted without the newest changes"""
    expected = "stops, names it"

    def before_daemons(self):
        self.other = self.replica("two", self.redis.port)

    def trouble(self):
        self.call("REPLICAOF", "NO", "ONE", server=self.other)
        time.sleep(LOAD)
        self.other.stop()
        self.redis.kill()
        self.redis.folder = self.other.folder  # the address moves to it
        self.redis.start()
        return self.said("state_rolled_back: "), self.stops()


class OldPrimary(Promoted):
    """the old primary still written to, then made a replica"""

    def trouble(self):
        self.call("REPLICAOF", "NO", "ONE", server=self.other)
        time.sleep(LOAD)
        self.call("REPLICAOF", "127.0.0.1", str(self.other.port))
        self.said("is a replica")
        self.wait("old primary with the new state",
                  lambda: b"master_link_status:up" in self.call("INFO", "replication"))
        self.call("REPLICAOF", "NO", "ONE")
        return self.said("state_rolled_back: "), self.stops()


class BySentinel(Scene):
    """a replica promoted by Sentinel without the newest changes"""
    expected = "stops, names it"

    def before_daemons(self):
        self.link = FaultyLink(self.redis.port)
        self.stack.callback(self.link.close)
        self.other = self.replica("two", self.link.port)
        self.sentinel_port = self.stack.enter_context(
            sentinel(self.folder, self.redis.port, "down-after-milliseconds training 300", "failover-timeout training 3000"))
        self.wait("replica known to Sentinel", self.knows_replica)

    def knows_replica(self):
        with contextlib.suppress(OSError, RuntimeError):
            return str(self.other.port).encode() in repr(command(self.sentinel_port, "SENTINEL", "replicas",
                                                                 "training")).encode()
        return False

    def options(self):
        return ["--redis-accept-weak-durability"]

    def url(self):
        return f"redis+sentinel://127.0.0.1:{self.sentinel_port}/training"

    def trouble(self):
        self.link.cut()
        time.sleep(LOAD)
        self.redis.kill()
        return self.said("state_rolled_back: "), self.stops()


class DiskFull(Scene):
    """the disk of the append-only file full, freed 1 s later"""
    expected = "goes on"

    def trouble(self):
        subprocess.run(["prlimit", "--pid", str(self.redis.process.pid), "--fsize=100"], check=True)
        took = self.said("")
        self.redis.process.communicate(timeout=20)  # with appendfsync always Redis ends then
        time.sleep(1)
        self.redis.start()
        return took, self.goes_on()


class OutOfMemory(Scene):
    """maxmemory reached, raised 2 s later"""
    expected = "goes on"

    def trouble(self):
        self.call("CONFIG", "SET", "maxmemory", "100kb")
        took = self.said("OOM")
        time.sleep(2)
        self.call("CONFIG", "SET", "maxmemory", "0")
        return took, self.goes_on()


class ScriptFlush(Scene):
    """SCRIPT FLUSH"""
    expected = "goes on"

    def trouble(self):
        for _ in range(5):
            self.call("SCRIPT", "FLUSH")
            time.sleep(0.1)
        seen = self.goes_on()
        assert "event=engine_lost" not in self.logs(), self.logs()
        return None, seen


class Weakened(Scene):
    """CONFIG SET appendfsync everysec, and back"""
    expected = "goes on"

    def trouble(self):
        self.call("CONFIG", "SET", "appendfsync", "everysec")
        took = self.said("the setting appendfsync is everysec, but must be always")
        assert 'durability="os"' in self.daemons[0].http("/metrics")[1]
        began = time.monotonic()
        self.wait("changes on a weak server", lambda: all(adder.newest > began for adder in self.adders))
        self.call("CONFIG", "SET", "appendfsync", "always")
        return took, self.goes_on()


class ReadOnly(Scene):
    """a primary made a replica of nobody (READONLY), and back 2 s later"""
    expected = "goes on"

    def trouble(self):
        self.call("REPLICAOF", "127.0.0.1", "1")
        took = self.said("replica")
        time.sleep(2)
        self.call("REPLICAOF", "NO", "ONE")
        return took, self.goes_on()


TROUBLES = [Killed, Hung, HungLong, Flushed, OlderCopy, Promoted, BySentinel, OldPrimary, DiskFull, OutOfMemory,
            ScriptFlush, Weakened, ReadOnly]


class RedisTrouble(unittest.TestCase):
    def run_once(self, trouble):
        with contextlib.ExitStack() as stack:
            took, seen = trouble(stack).trouble()
            self.assertEqual(trouble.expected, seen)
            return took


def once(trouble):
    return lambda self: self.run_once(trouble) and None


for each in TROUBLES:
    if each is not HungLong:
        setattr(RedisTrouble, f"test_{each.__name__.lower()}", once(each))


def table(times, names):
    print("| trouble | times | expected | seen | until /readyz says it: median, most |\n|---|---|---|---|---|")
    bad = 0
    for trouble in TROUBLES:
        if names and trouble.__name__ not in names:
            continue
        seen, times_until = [], []
        for _ in range(times):
            try:
                with contextlib.ExitStack() as stack:
                    took, what = trouble(stack).trouble()
                    times_until += [] if took is None else [took]
                    seen.append(what)
            except AssertionError as failed:
                seen.append("FAILED")
                print(failed, file=sys.stderr)
        bad += sum(what != trouble.expected for what in seen)
        counts = ", ".join(f"{what} {seen.count(what)}" for what in dict.fromkeys(seen))
        until = f"{statistics.median(times_until):.2f} s, {max(times_until):.2f} s" if times_until else "ready all the time"
        print(f"| {trouble.__doc__} | {times} | {trouble.expected} | {counts} | {until} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    if "--table" in sys.argv:
        options = argparse.ArgumentParser()
        options.add_argument("--table", action="store_true")
        options.add_argument("--times", type=int, default=20)
        options.add_argument("names", nargs="*")
        given = options.parse_args()
        sys.exit(table(given.times, given.names))
    at_once.main(3)
