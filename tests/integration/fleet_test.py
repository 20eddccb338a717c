#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several daemons on one Redis: each job has one owner, and the next owner after its death, its pause or its
end has all that was acknowledged."""
import contextlib
import os
import re
import signal
import struct
import tempfile
import threading
import time
import unittest

import at_once
from daemon import Daemon, SLOWDOWN
from held_up import HeldUp
from redis_server import Redis, redis_server
from resp import command
from wire import Wire

LEASE = int(os.environ.get("LEASE", "1"))
PATIENCE = 20 * SLOWDOWN


class Fleet(unittest.TestCase):
    daemons = 2
    options = ["--lease", str(LEASE)]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.folder = folder.name
        self.port, self.redis = self.stack.enter_context(redis_server(folder.name))
        self.fleet = [self.stack.enter_context(self.daemon()) for _ in range(self.daemons)]

    def daemon(self, *options):
        return Daemon(*self.options, *options, engine=f"redis://127.0.0.1:{self.port}")

    def open(self, daemon, job="A", **hello):
        """A connection, and the reply to its hello."""
        client = self.stack.enter_context(contextlib.closing(Wire(daemon.address)))
        return client, client.hello(job=job, **hello)

    def redirect(self, daemon, job):
        """The reply of a daemon that knows the owner of the job."""
        replies = []

        def told():
            client, reply = self.open(daemon, job)
            client.close()
            replies.append(reply)
            return reply.code != "unavailable"
        self.wait_for("a redirect", told)
        self.assertEqual("not_owner", replies[-1].code, replies[-1])
        return replies[-1]

    def until_ok(self, daemons, job, call, **hello):
        """Calls with a session of its own, at one daemon after the other, until the reply is a success. Returns
        the reply, the daemon that has sent it, and the seconds that it took."""
        began = time.monotonic()
        codes = []
        while True:
            for daemon in daemons:
                with contextlib.suppress(OSError, EOFError), contextlib.closing(Wire(daemon.address)) as client:
                    reply = client.hello(job=job, **hello)
                    if reply and reply.code == "ok":
                        reply = call(client)
                        if reply and reply.code == "ok":
                            return reply, daemon, time.monotonic() - began
                    codes.append(reply and (reply.code, reply.detail))
            log = "\n".join(daemon.errors() for daemon in self.fleet)
            self.assertLess(time.monotonic() - began, PATIENCE, f"{job}: {codes[-4:]}\n{log}")
            time.sleep(0.02)

    def wait_for(self, what, check):
        until = time.monotonic() + PATIENCE
        while not check():
            self.assertLess(time.monotonic(), until, what + "\n" + "\n".join(d.errors() for d in self.fleet))
            time.sleep(0.02)

    def redis_call(self, *words):
        return command(self.port, *words)

    def owner_of(self, number):
        return self.redis_call("HGET", f"c10dd:{{{number}}}:meta", "owner")


class Ownership(Fleet):
    def test_a_job_belongs_to_the_daemon_that_was_asked_first_and_the_other_one_names_it(self):
        first, second = self.fleet
        for daemon, job in ((first, "A"), (second, "B"), (first, "C")):
            self.until_ok([daemon], job, lambda client: client.set("who", "x"))
        for owner, other, job in ((first, second, "A"), (second, first, "B"), (first, second, "C")):
            self.assertIn("%s:%d" % owner.address, self.redirect(other, job).detail)
            self.until_ok([owner], job, lambda client: client.get("who"))
        for daemon in self.fleet:
            self.assertNotIn("engine_lost", daemon.errors())

    def test_a_welcome_lists_all_daemons_and_says_how_long_a_takeover_waits(self):
        self.until_ok([self.fleet[0]], "A", lambda client: client.set("k", "v"))
        addresses = [("%s:%d" % daemon.address).encode() for daemon in self.fleet]

        def listed():
            client, reply = self.open(self.fleet[0])
            client.close()
            return all(address in reply.body for address in addresses)
        self.wait_for("a Welcome with both addresses", listed)
        _, reply = self.open(self.fleet[0])
        self.assertIn(struct.pack("<q", 30 * 10**9), reply.body)

    def test_names_get_one_number_whoever_gives_it(self):
        def create(daemon, replies, job):
            for _ in range(200):
                client, reply = self.open(daemon, job)
                client.close()
                if reply.code in ("ok", "not_owner"):
                    replies.append(reply)
                    return
                time.sleep(0.02)
        for round_number in range(20):
            replies = []
            threads = [threading.Thread(target=create, args=(daemon, replies, f"job-{round_number}"))
                       for daemon in self.fleet]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(["not_owner", "ok"], sorted(reply.code for reply in replies))
        rows = self.redis_call("HLEN", "c10dd:{0}:rows")
        self.assertEqual(22, rows, "20 names, the incarnation and the next number")


class Takeover(Fleet):
    def give(self, owner, keys=50):
        def fill(client):
            for n in range(keys):
                reply = client.set(f"k{n}", f"v{n}")
                self.assertEqual("ok", reply.code, reply)
            return reply
        self.until_ok([owner], "A", fill)

    def check(self, daemons, keys=50):
        def read(client):
            for n in range(keys):
                reply = client.get(f"k{n}")
                self.assertIn(f"v{n}".encode(), reply.body, reply)
            return reply
        return self.until_ok(daemons, "A", read)

    def test_the_next_daemon_serves_a_lease_after_the_owner_was_killed(self):
        first, second = self.fleet
        self.give(first)
        first.kill()
        with HeldUp(self.folder) as held_up:
            _, _, took = self.check([second])
        self.assertLess(took, (LEASE + 1) * SLOWDOWN + held_up.seconds)
        self.assertGreater(took, 0.5 * LEASE)
        self.assertRegex(second.errors(), r"event=job_taken_over job=A number=1 from=127.0.0.1:\d+ epoch=1")
        first.start()  # it waits until its own former row counts as silent
        self.redirect(first, "A")

    def test_after_sigterm_the_next_daemon_serves_at_once(self):
        first, second = self.fleet
        self.give(first)
        self.assertEqual(0, first.stop())
        with HeldUp(self.folder) as held_up:
            _, _, took = self.check([second])
        self.assertLess(took, 0.5 * LEASE * SLOWDOWN + held_up.seconds)
        self.assertEqual([self.process_of(second)], self.redis_call("HKEYS", "c10dd:fleet"))

    def process_of(self, daemon):
        return re.search(r"event=fleet_joined process=([0-9a-f]+)", daemon.errors()).group(1).encode()

    def test_a_paused_owner_says_nothing_when_it_comes_back(self):
        first, second = self.fleet
        self.give(first)
        client, reply = self.open(first)
        self.assertEqual("ok", reply.code)
        os.kill(first.process.pid, signal.SIGSTOP)
        self.check([second])
        self.until_ok([second], "A", lambda c: c.set("k0", "newer"))
        client.send(b"")
        os.kill(first.process.pid, signal.SIGCONT)
        for call in (lambda: client.set("k1", "stale"), lambda: client.get("k0")):
            reply = call()
            self.assertNotEqual("ok", reply.code if reply else "closed")
        reply, _, _ = self.until_ok([second], "A", lambda c: c.get("k1"))
        self.assertIn(b"v1", reply.body)
        self.wait_for("the lease", lambda: "event=lease_renewed" in first.errors() or
                      "event=lease_over" not in first.errors())
        self.redirect(first, "A")
        self.assertNotIn("event=engine_lost", first.errors())

    def test_a_redis_that_hangs_moves_no_job(self):
        first, second = self.fleet
        self.give(first)
        self.until_ok([second], "B", lambda client: client.set("k", "v"))
        owners = [self.owner_of(1), self.owner_of(2)]
        os.kill(self.redis.pid, signal.SIGSTOP)
        time.sleep(2.5 * LEASE)
        status, page = first.http("/readyz")
        os.kill(self.redis.pid, signal.SIGCONT)
        self.assertEqual(503, status, page)
        _, daemon, _ = self.check([second, first])
        self.assertIs(first, daemon, second.errors() + first.errors())
        self.until_ok([second], "B", lambda client: client.get("k"))
        names = [re.sub(rb"^\d+:", b"", owner) for owner in owners]
        self.assertEqual(names, [re.sub(rb"^\d+:", b"", self.owner_of(n)) for n in (1, 2)])
        for daemon in self.fleet:
            self.assertNotIn("job_taken_over", daemon.errors())

    def test_a_client_that_waits_for_a_takeover_is_told_so(self):
        first, second = self.fleet
        self.give(first)
        os.kill(first.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, first.process.pid, signal.SIGCONT)
        replies = set()

        def told():
            client, reply = self.open(second)
            client.close()
            replies.add((reply.code, reply.detail))
            return reply.code == "ok"
        self.wait_for("the takeover", told)
        self.assertTrue(any("which is silent" in detail for code, detail in replies if code == "unavailable"), replies)


class RedisRestart(Fleet):
    options = ["--lease", "2"]

    def test_a_restart_of_redis_moves_no_job(self):
        first, second = self.fleet
        self.until_ok([first], "A", lambda client: client.set("k", "v"))
        for _ in range(3):
            self.redis.kill()
            self.redis.wait()
            time.sleep(2.5)  # longer than the lease
            server = self.stack.enter_context(Redis(self.folder, port=self.port))
            self.redis = server.process
            began = time.monotonic()
            with HeldUp(self.folder) as held_up:
                self.assertIn("%s:%d" % first.address, self.redirect(second, "A").detail)
                self.until_ok([first], "A", lambda client: client.get("k"))
            self.assertLess(time.monotonic() - began, 2 * SLOWDOWN + held_up.seconds)
            self.assertEqual(200, second.http("/v1/jobs/A")[0])
        for daemon in self.fleet:
            self.assertNotIn("job_taken_over", daemon.errors())
            self.assertIn("Redis restarted, or another server is now the master", daemon.errors())


class SlowRedis(Fleet):
    daemons = 0

    def test_a_daemon_starts_on_a_redis_that_answers_later_than_a_third_of_the_lease(self):
        """A start holds no lease that a late reply could cost."""
        served = threading.Event()

        def answer_late():
            while not served.is_set():
                os.kill(self.redis.pid, signal.SIGSTOP)
                served.wait(0.4 * LEASE)
                os.kill(self.redis.pid, signal.SIGCONT)
                command(self.port, "PING")  # it has served what came before, however busy the machine is
        thread = threading.Thread(target=answer_late)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(served.set)
        daemon = self.stack.enter_context(self.daemon())
        served.set()
        self.wait_for("the lease", lambda: daemon.http("/readyz")[0] == 200)


class ExactlyOnce(Fleet):
    daemons = 3
    cycles = int(os.environ.get("C10DD_CYCLES", "6"))

    def setUp(self):
        super().setUp()
        self.session = os.urandom(16)
        self.client = None
        self.owner = None
        self.sequence = 0
        self.refused = 0  # requests and hellos that another daemon than the owner has refused

    def add(self):
        """Adds 1, as a client would: the same request of the same session, until a daemon has replied."""
        self.sequence += 1
        until = time.monotonic() + PATIENCE
        while True:
            for daemon in [self.owner] if self.client else self.fleet:
                reply = None
                with contextlib.suppress(OSError, EOFError):
                    if self.client is None:
                        self.client = Wire(daemon.address)
                        self.client.socket.settimeout(1)
                        self.owner = daemon
                        reply = self.client.hello(session=self.session, job="A")
                    if reply is None or reply.code == "ok":
                        reply = self.client.add("n", 1, sequence=self.sequence, acked_below=self.sequence)
                if reply is not None and reply.code == "ok":
                    return
                self.refused += reply is not None
                if self.client is not None:
                    self.client.close()
                self.client = None
            self.assertLess(time.monotonic(), until, "\n".join(d.errors() for d in self.fleet))
            time.sleep(0.01)

    def test_each_add_counts_once_over_kills_pauses_and_ends_of_owners(self):
        takeovers = 0
        for cycle in range(self.cycles):
            for _ in range(30):
                self.add()
            victim = self.owner
            if cycle % 3 == 0:
                victim.kill()
            elif cycle % 3 == 1:
                os.kill(victim.process.pid, signal.SIGSTOP)
            else:
                self.assertEqual(0, victim.stop())
            for _ in range(30):
                self.add()
            takeovers += victim is not self.owner
            if cycle % 3 == 1:
                os.kill(victim.process.pid, signal.SIGCONT)
            else:
                victim.start()
        reply = self.client.get("n")
        self.assertEqual("ok", reply.code, reply)
        self.assertIn(str(self.sequence).encode(), reply.body)
        self.assertEqual(self.cycles, takeovers)
        print(f"{self.sequence} adds, {takeovers} takeovers, {self.refused} refusals", flush=True)
        for daemon in self.fleet:
            self.assertNotIn("state_rolled_back", daemon.errors())
        self.client.close()


class Retirement(Fleet):
    options = ["--lease", str(LEASE), "--run-grace", "1", "--session-expiry", "1"]

    def test_the_owner_retires_a_run_and_nothing_of_it_stays(self):
        first, second = self.fleet
        self.until_ok([first], "A", lambda client: client.set("k", "v"), run="r1")
        self.until_ok([second], "A", lambda client: client.set("k", "v"), run="r2")
        self.wait_for("both runs retired", lambda: self.redis_call("KEYS", "c10dd:{[12]}*") == [])
        self.assertEqual([b"0"], self.redis_call("SMEMBERS", "c10dd:jobs"))
        self.wait_for("the marks gone", lambda: sorted(self.redis_call("HKEYS", "c10dd:{0}:rows")) == [b"i", b"n"])
        for daemon in (second, first):  # the name is free on both, and gets a new number
            self.until_ok([daemon], "A", lambda client: client.set("k", "v"), run=f"again-{daemon.address[1]}")
        reply, _, _ = self.until_ok([second], "A", lambda client: client.set("k2", "v"), run="r1")
        for daemon in self.fleet:
            self.assertNotIn("engine_lost", daemon.errors())

    def test_an_orphan_is_retired_by_the_daemon_that_is_left(self):
        first, second = self.fleet
        self.until_ok([first], "A", lambda client: client.set("k", "v"), run="r1")
        first.kill()
        self.wait_for("the run retired", lambda: self.redis_call("KEYS", "c10dd:{1}*") == [])
        self.assertIn("event=run_retired", second.errors())


class BadInput(Fleet):
    daemons = 1

    def refused(self, *options):
        return self.daemon().refusal(*options)

    def test_another_lease_than_the_fleets(self):
        code, text = self.refused("--lease", "3")
        self.assertEqual(64, code, text)
        self.assertRegex(text, r"--lease is 3 s, but the daemon at 127.0.0.1:\d+ has a lease of 1 s")

    def test_an_address_of_a_daemon_that_lives(self):
        address = "%s:%d" % self.fleet[0].address
        code, text = self.refused("--advertise", address)
        self.assertEqual(64, code, text)
        self.assertIn(f"already has the address {address}", text)

    def test_an_address_of_a_daemon_that_is_dead(self):
        self.fleet[0].kill()
        began = time.monotonic()
        self.fleet[0].start()
        self.assertGreater(time.monotonic() - began, 0.5 * LEASE)
        self.until_ok(self.fleet, "A", lambda client: client.set("k", "v"))

    def test_restarts_after_kills_leave_no_rows(self):
        for _ in range(3):
            self.fleet[0].kill()
            self.fleet[0].start()
        self.wait_for("the rows of the dead", lambda: self.redis_call("HLEN", "c10dd:fleet") == 1)

    def test_a_daemon_that_others_could_not_use(self):
        for protocols in ("http", "native", "http,tcpstore"):
            code, text = self.refused("--protocols", protocols)
            self.assertEqual(64, code, text)
            self.assertIn("--protocols must include native and http with the engine redis://", text)

    def test_a_damaged_row_is_named_with_the_remedy(self):
        self.redis_call("HSET", "c10dd:fleet", "zzz", "x")
        self.wait_for("the text", lambda: "remove it with HDEL c10dd:fleet zzz" in self.fleet[0].http("/readyz")[1])
        self.redis_call("HDEL", "c10dd:fleet", "zzz")
        self.wait_for("the end", lambda: self.fleet[0].http("/readyz")[0] == 200)

    def test_an_address_that_only_its_own_machine_reaches(self):
        daemon = self.daemon("--allow-insecure-listen", "--advertise", "10.0.0.1:29500,127.0.0.1:29500")
        listen = daemon.command.index("--listen") + 1
        daemon.command[listen] = daemon.command[listen].replace("127.0.0.1", "0.0.0.0")
        with daemon:
            self.wait_for("the warning",
                          lambda: "event=advertises_loopback address=127.0.0.1:29500" in daemon.errors())
            self.assertNotIn("address=10.0.0.1:29500 detail", daemon.errors())

    def test_an_address_that_is_none(self):
        for value, bad, why in (("head1", "head1", "the port must be 1 to 65535"),
                                ("[fe80::1]:29500", "[fe80::1]:29500", "a link-local address is not valid"), ("a:0", "a:0", "the port must be"),
                                ("a:1, b:2", " b:2", "the host is not a valid name"), ("a:1,a:1", "a:1", "it is listed twice"),
                                ("0.0.0.0:1", "0.0.0.0:1", "clients cannot connect to this host"),
                                ("[::]:1", "[::]:1", "clients cannot connect"), ("x" * 254 + ":1", "xxx", "not a valid name"),
                                ("[1.2.3.4]:1", "[1.2.3.4]:1", "not a valid name or IP address")):
            code, text = self.refused("--advertise", value)
            self.assertEqual(64, code, text)
            self.assertIn(f'invalid address "{bad}', text)
            self.assertIn(why, text)


if __name__ == "__main__":
    at_once.main(3)
