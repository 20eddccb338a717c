#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TCPStore clients that connect to any daemon of a fleet: all connections of one listener's job meet at its
owner, under their own addresses, whichever daemon has accepted them."""
import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import select
import signal
import socket
import struct
import threading
import time
import unittest

import pytorch_test
import at_once
from daemon import SLOWDOWN, Daemon
from fleet_test import LEASE, PATIENCE, Fleet
from tcpstore_wire import PING, VALIDATE, Client, OldClient

PIDS = itertools.count(1000)
RANK_KEY = b"/default_pg/0//cpu//0/0"
# A rank that all-reduces, then waits for a key that never comes.
RANK = """
import datetime, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
tensor = torch.ones(8) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
size = dist.get_world_size()
assert tensor.tolist() == [size * (size + 1) / 2] * 8, tensor
print("reduced", flush=True)
if sys.argv[1] == "wait":
    try:
        dist.distributed_c10d._get_default_store().get("never")
    except RuntimeError as error:
        print("ended:", error, flush=True)
"""


class Relays(Fleet):
    """The first daemon owns the job `torch` after the first launch(); clients of the second one are passed on."""
    options = ["--lease", str(LEASE), "--shards", "3"]

    def setUp(self):
        self.hosts = (f"127.0.0.{n}" for n in itertools.count(2))
        super().setUp()
        self.first, self.second = self.fleet[:2]
        for number, daemon in enumerate(self.fleet):
            self.wait_for("all hear each other", lambda at=daemon, job=f"probe-{number}": self.hears_all(at, job))

    def hears_all(self, daemon, job):
        client, reply = self.open(daemon, job)
        client.close()
        return all(("%s:%d" % other.address).encode() in reply.body for other in self.fleet)

    def daemon(self, *options):
        return Daemon(*self.options, *options, engine=f"redis://127.0.0.1:{self.port}", host=next(self.hosts))

    def client(self, daemon, pid=None, source="", port=None):
        address = (daemon.address[0], port or daemon.address[1])
        client = Client.of_process(address, next(PIDS) if pid is None else pid, source)
        self.addCleanup(client.close)
        return client

    def launch(self, *daemons, **how):
        """Ranks that connect to these daemons and have joined one run, which was empty."""
        ranks = [self.client(daemon, **how) for daemon in daemons]
        self.assertEqual(list(range(1, len(ranks) + 1)), [rank.join() for rank in ranks], self.logs())
        return ranks

    def end(self, ranks):
        """Ends ranks that have trained: one has told its address."""
        ranks[0].set(RANK_KEY, b"address")
        self.assertEqual(b"address", ranks[0].get(RANK_KEY))
        for rank in ranks:
            rank.close()

    def logs(self):
        return "\n".join(daemon.errors() for daemon in self.fleet)

    def warnings(self, daemon):
        return "\n".join(line for line in daemon.errors().splitlines() if "level=warning" in line)

    def plain_runs(self, daemon, job="torch"):
        page = json.loads(daemon.http(f"/v1/jobs/{job}")[1])
        return [run for run in page.get("runs", []) if "joined" in run]

    def serves_a_launch(self, daemon):
        """Whether this daemon, and not another one of the fleet, has a run of PyTorch."""
        return any(job["run"].startswith("plain-") for job in json.loads(daemon.http("/v1/jobs")[1])["jobs"])

    def join_in_time(self, daemons, within):
        """Ranks of a new launch by these relays. Asks again only as a launcher would: with a new process."""
        began = time.monotonic()
        ranks = self.launch(*daemons)
        self.assertLess(time.monotonic() - began, within * SLOWDOWN, self.logs())
        return ranks


class OneRun(Relays):
    def test_connections_by_two_relays_see_one_run(self):
        ranks = self.launch(self.first, self.second, self.second, self.first)
        ranks[1].set(b"k", b"by the relay")
        self.assertEqual(b"by the relay", ranks[0].get_as_stock(b"k"))
        large = os.urandom(3 << 20)
        ranks[3].set(b"large", large)
        self.assertEqual(large, ranks[2].get_as_stock(b"large"))
        ranks[2].set(b"large2", large)
        self.assertEqual(large, ranks[3].get_as_stock(b"large2"))
        [run] = self.plain_runs(self.first)
        self.assertEqual((4, 4), (run["connections"], run["joined"]))
        self.assertEqual([True, False], [self.serves_a_launch(daemon) for daemon in self.fleet])

    def test_the_owner_knows_the_process_behind_a_relay(self):
        self.launch(self.first)
        pid = next(PIDS)
        rank = self.client(self.second, pid, source="127.0.0.9")
        rank.join()
        rank.set(RANK_KEY, b"address")
        self.assertEqual(b"address", rank.get_as_stock(RANK_KEY))
        [run] = self.plain_runs(self.first)
        self.assertEqual([("127.0.0.9", pid)], [(r["host"], r["pid"]) for r in run["ranks"]], run)
        # A clone of the process finds the run of the process by another relay, too.
        self.assertEqual(b"2", self.client(self.first, pid, source="127.0.0.9").get(b"init/"))

    def test_launches_one_after_another_by_either_relay(self):
        for _ in range(20):
            self.end(self.launch(self.second, self.second))
        for relays in [(self.first, self.second), (self.second, self.first)] * 5:
            time.sleep(0.05)  # the ends of two daemons' connections are not ordered; processes start later
            self.end(self.launch(*relays))
        self.assertEqual("", self.warnings(self.second))

    def test_two_launches_that_meet_by_two_relays_are_not_mixed(self):
        ranks = self.launch(self.first, self.second)
        ranks[1].set(RANK_KEY, b"address")
        self.assertEqual(b"address", ranks[0].get_as_stock(RANK_KEY))
        stranger = self.client(self.second)
        stranger.join()
        stranger.set(RANK_KEY, b"other")
        for client in (stranger, *ranks):
            self.assertTrue(client.is_closed(1 * SLOWDOWN))
        self.assertIn("rank 0 is taken", self.first.errors())

    def test_an_old_client_keeps_its_silent_connection(self):
        self.launch(self.first)
        old = OldClient(self.second.address, "127.0.0.9")
        self.addCleanup(old.close)
        self.assertEqual(2, old.join())
        time.sleep(6)  # longer than a connection may be silent otherwise
        self.assertEqual(b"2", old.get(b"init/"))
        old.listener.settimeout(0.1)
        self.assertRaises(TimeoutError, old.listener.recv, 1)

    def test_the_end_of_either_side_is_passed_on(self):
        rank, passed = self.launch(self.first, self.second)
        passed.close()
        self.wait_for("the owner notices", lambda: self.plain_runs(self.first)[0]["connections"] == 1)
        last = self.client(self.second)
        last.get(b"k")
        self.assertEqual(200, self.first.http("/v1/jobs/torch/runs/plain-1", "DELETE")[0])
        for client in (rank, last):
            self.assertTrue(client.is_closed(1 * SLOWDOWN))

    def test_a_hundred_connections_count_as_those_of_their_clients(self):
        self.launch(self.first)
        clients = [self.client(self.second, source=f"127.0.1.{n % 5}") for n in range(100)]
        self.assertEqual(list(range(2, 102)), [client.join() for client in clients])
        self.assertEqual(101, self.plain_runs(self.first)[0]["connections"])
        for client in clients:
            client.socket.sendall(b"")
            client.set(b"from", b"x")
        self.assertTrue(all(client.count() == struct.pack("<q", 2) for client in clients))


class Limited(Relays):
    options = Relays.options + ["--max-connections-per-address", "20"]

    def test_admission_counts_the_client_not_the_relay(self):
        self.launch(self.first)
        clients = [self.client(self.second, source=f"127.0.1.{n % 5}") for n in range(100)]
        self.assertEqual(list(range(2, 102)), [client.join() for client in clients])
        self.assertEqual("", self.warnings(self.second))
        # What comes to the owner itself counts together with what is passed on.
        refused = socket.create_connection(self.first.address, PATIENCE, ("127.0.1.0", 0))
        self.addCleanup(refused.close)
        refused.sendall(b"\x00")
        self.assertEqual(b"", refused.recv(1))


class Faults(Relays):
    daemons = 3

    def setUp(self):
        super().setUp()
        self.third = self.fleet[2]

    def test_the_owner_dies_and_the_next_launch_works_by_either_relay(self):
        ranks = self.launch(self.first, self.second, self.third)
        self.first.kill()
        for rank in ranks:
            self.assertTrue(rank.is_closed(1 * SLOWDOWN))
        self.join_in_time([self.third, self.second, self.third], LEASE + 3)

    def test_a_relay_dies_and_only_its_connections_end(self):
        rank, second, third = self.launch(self.first, self.second, self.third)
        self.second.kill()
        self.assertTrue(second.is_closed(1 * SLOWDOWN))
        rank.set(b"k", b"v")
        self.assertEqual(b"v", third.get_as_stock(b"k"))
        self.assertFalse(rank.is_closed(0.1) or third.is_closed(0.1))

    def test_the_owner_ends_and_the_next_launch_works_at_once(self):
        ranks = self.launch(self.first, self.second)
        self.assertEqual(0, self.first.stop())
        for rank in ranks:
            self.assertTrue(rank.is_closed(1 * SLOWDOWN))
        self.join_in_time([self.third, self.second], 2)

    def test_an_owner_that_was_paused_closes_what_another_has_taken_over(self):
        ranks = self.launch(self.first, self.second)
        os.kill(self.first.process.pid, signal.SIGSTOP)
        try:
            self.join_in_time([self.third, self.second], LEASE + 3)
            self.assertFalse(any(rank.is_closed(0) for rank in ranks))
        finally:
            os.kill(self.first.process.pid, signal.SIGCONT)
        for rank in ranks:
            self.assertTrue(rank.is_closed(LEASE + 3 * SLOWDOWN), self.logs())
        self.wait_for("the lease", lambda: "event=lease_renewed" in self.first.errors() or
                      "event=lease_over" not in self.first.errors())
        self.assertEqual(3, self.client(self.first).join(), "its clients are passed on from now on")

    def test_while_redis_hangs_connections_go_on_and_none_is_bound(self):
        ranks = self.launch(self.first, self.second)
        os.kill(self.redis.pid, signal.SIGSTOP)
        try:
            time.sleep(2 * LEASE)
            self.assertIn("event=lease_over", self.first.errors())
            self.assertEqual([2, 2], [rank.add(b"init/", 0) for rank in ranks])
            new = [Client(daemon.address) for daemon in (self.first, self.second)]
            for client in new:
                self.addCleanup(client.close)
                client.socket.sendall(b"\x0d" + struct.pack("<I", next(PIDS)))
                self.assertEqual([], select.select([client.socket], [], [], 0.3)[0], self.logs())
            ranks[0].set(b"k", b"v")
            self.assertEqual(b"v", ranks[1].get_as_stock(b"k"))
        finally:
            os.kill(self.redis.pid, signal.SIGCONT)
        for count, client in enumerate(new, start=3):
            self.assertEqual(4, len(client.receive(4)), self.logs())
            self.assertEqual(count, client.join(), self.logs())
        self.assertFalse(any(rank.is_closed(0) for rank in ranks))


class Strangers(Relays):
    def frame(self, key, job=b"torch", peer=b"10.0.0.1:1234"):
        """The first bytes of a connection of a relay."""
        def text(value):
            return struct.pack("<I", len(value)) + value
        body = text(key) + text(peer) + text(job) + text(b"") + b"\x00"
        return b"\xc1C10D" + struct.pack("<IB23x", len(body), 0xD0) + body

    def sent(self, daemon, data):
        """What comes back, until the daemon closes the connection."""
        with socket.create_connection(daemon.address, PATIENCE) as stranger:
            stranger.sendall(data)
            reply = b""
            while more := stranger.recv(4096):
                reply += more
            return reply

    def test_a_frame_without_the_key_of_the_daemon_is_refused(self):
        self.launch(self.first)
        for key in (bytes(16), os.urandom(16), b"short"):
            reply = self.sent(self.first, self.frame(key) + b"\x00\xce\xf7\x85\x3c")
            self.assertNotIn(b"\x00", reply[4:5], "no success")
        self.assertIn("does not have this daemon's key", self.first.errors())
        self.assertNotIn("10.0.0.1", self.first.errors())

    def test_the_key_of_another_daemon_does_not_help(self):
        self.launch(self.first)
        keys = {name: self.key_in(row) for name, row in self.fleet_rows().items()}
        own, other = keys.pop(self.process_of(self.first)), keys.pop(self.process_of(self.second))
        self.assertNotEqual(own, other)
        self.sent(self.first, self.frame(other))
        self.assertEqual(1, self.first.errors().count("does not have this daemon's key"))
        with socket.create_connection(self.first.address, PATIENCE) as relay:  # with the right one: what a relay sends
            relay.sendall(self.frame(own))
            reply = relay.recv(4096)
            self.assertEqual((0, 0xD0, 0), struct.unpack("<IBB", reply[:6]))

    def test_wrong_frames_are_refused_with_the_reason(self):
        own = self.key_in(self.fleet_rows()[self.process_of(self.first)])
        self.assertIn(b"does not name a job", self.sent(self.first, self.frame(own, job=b"")))
        self.assertIn(b"invalid client address", self.sent(self.first, self.frame(own, peer=b"somebody")))
        self.assertIn(b"is served by the daemon at", self.sent(self.second, self.frame(
            self.key_in(self.fleet_rows()[self.process_of(self.second)]))) if self.launch(self.first) else b"")
        self.assertIn(b"the body of the frame has", self.sent(self.first, b"\xc1C10D" + struct.pack("<IB23x", 1 << 20, 0xD0)))

    def fleet_rows(self):
        words = self.redis_call("HGETALL", "c10dd:fleet")
        return dict(zip(words[::2], words[1::2]))

    def key_in(self, row):
        return row[-17:-1]  # before the last field, which says whether the daemon speaks TLS

    def process_of(self, daemon):
        return re.search(r"event=fleet_joined process=([0-9a-f]+)", daemon.errors()).group(1).encode()

    def test_no_page_and_no_log_shows_a_key(self):
        keys = [self.key_in(row) for row in self.fleet_rows().values()]
        self.launch(self.first, self.second)
        shown = self.logs()
        for daemon, path in itertools.product(self.fleet, ("/readyz", "/metrics", "/v1/jobs", "/v1/jobs/torch")):
            shown += daemon.http(path)[1]
        for key in keys:
            for half in struct.unpack("<QQ", key):
                for text in (f"{half:x}", str(half), struct.pack("<Q", half).hex()):
                    self.assertNotIn(text, shown)


class LeasedPorts(Relays):
    def lease(self, daemon, name="a", **members):
        body = json.dumps({"name": name, **members}).encode()
        status, reply = daemon.http("/v1/jobs/j/endpoints", "POST", body)
        self.assertEqual(200, status, reply)
        return json.loads(reply)["port"]

    def opens(self, daemon, port):
        try:
            socket.create_connection((daemon.address[0], port), PATIENCE).close()
            return True
        except (ConnectionRefusedError, ConnectionResetError):  # reset: closed before it was accepted
            return False


class Endpoints(LeasedPorts):
    """Leased ports are open on every daemon."""

    def test_a_port_is_open_on_both_whoever_has_leased_it(self):
        for number, daemon in enumerate(self.fleet * 2):
            port = self.lease(daemon, f"e{number}")
            for other in self.fleet:
                self.wait_for("the port", lambda at=other, open_port=port: self.opens(at, open_port))
            self.assertEqual("", self.warnings(daemon))
            ranks = [self.client(relay, port=port) for relay in (*self.fleet, *self.fleet)]
            self.assertEqual([1, 2, 3, 4], [rank.join() for rank in ranks])
            self.assertEqual(200, self.fleet[number % 2 - 1].http(f"/v1/jobs/j/endpoints/e{number}", "DELETE")[0])
            for other in self.fleet:
                self.wait_for("the port is closed", lambda at=other, open_port=port: not self.opens(at, open_port))
            self.end(ranks)

    def test_an_endpoint_with_a_run_has_the_keys_of_the_run_on_both(self):
        port = self.lease(self.first, run="r")
        self.wait_for("the port", lambda: self.opens(self.second, port))
        ranks = [self.client(daemon, port=port) for daemon in (self.second, self.first)]
        ranks[0].set(b"k", b"v")
        self.assertEqual(b"v", ranks[1].get_as_stock(b"k"))
        owner = self.first if "job=j" in self.first.errors().split("event=job_loaded", 1)[-1] else self.second
        owner.kill()
        other = self.second if owner is self.first else self.first
        again = self.client(other, port=port)
        self.assertEqual(b"v", again.get_as_stock(b"k"), "the run is durable: the next owner has its keys")

    def test_an_endpoint_lives_while_any_daemon_has_connections_of_it(self):
        port = self.lease(self.first, ttl=2)
        self.wait_for("the port", lambda: self.opens(self.second, port))
        rank = self.client(self.second, port=port)
        rank.join()
        time.sleep(5)
        self.assertTrue(self.opens(self.first, port) and self.opens(self.second, port), self.logs())
        rank.close()
        for daemon in self.fleet:
            self.wait_for("it expires", lambda at=daemon: not self.opens(at, port))


class OneHost(LeasedPorts):
    """Two daemons at one address share the ports of the endpoints: each port is open on one of them."""

    def daemon(self, *options):
        return Daemon(*self.options, *options, engine=f"redis://127.0.0.1:{self.port}", host="127.0.0.4")

    def test_a_port_is_open_on_one_and_the_other_one_waits_for_it(self):
        port = self.lease(self.first)
        self.wait_for("the other one has seen it", lambda: "event=endpoint_at_neighbour" in self.second.errors())
        self.assertEqual([1, 2], [self.client(self.first, port=port).join() for _ in range(2)])
        for daemon in self.fleet:
            self.assertEqual((200, ""), (daemon.http("/readyz")[0], self.warnings(daemon)))
            self.assertNotIn("cannot listen", daemon.http("/readyz")[1])
        self.first.kill()  # the other one takes the port over
        self.wait_for("the port", lambda: self.opens(self.second, port))
        self.assertEqual([1, 2], [self.client(self.second, port=port).join() for _ in range(2)])


class NoRoom(Relays):
    """Clients at a relay, which need two places there, and one at the owner."""
    options = ["--lease", str(LEASE), "--max-connections", "40"]

    def crowd(self, count):
        """So many clients of the second daemon at once: those that were served, and all that were closed."""
        def come(number):
            ping = VALIDATE + bytes([PING]) + struct.pack("<I", number)
            client = Client(self.second.address, ping)
            client.socket.settimeout(5 * SLOWDOWN)
            return client, client.receive(4) != b"" and client.add(b"crowd") is not None
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            came = list(pool.map(come, range(5000, 5000 + count)))
        return [client for client, served in came if served], [client for client, served in came if not served]

    def test_a_crowd_at_a_relay_is_served_or_closed_and_shuts_nobody_out(self):
        self.launch(self.first)
        for wave in range(3):
            began = time.monotonic()
            served, closed = self.crowd(60)
            self.assertLess(time.monotonic() - began, 4 * SLOWDOWN, "somebody has waited for the time-out")
            self.assertGreaterEqual(len(served), 10, f"wave {wave}: {self.logs()}")
            for daemon in self.fleet:
                self.assertEqual(200, daemon.http("/readyz")[0])
                client, reply = self.open(daemon, "native")
                client.close()
                self.assertIn(reply.code, ("ok", "not_owner"), reply)
            for client in served:
                self.assertGreater(client.add(b"crowd"), 0)
            self.end(served + closed)
        self.assertRegex(self.second.errors(), "event=refused .*too many TCPStore connections")


@unittest.skipUnless(pytorch_test.torch_is_there(), "PyTorch is not installed")
class StockRanks(Relays):
    """Ranks of stock PyTorch, whose daemons listen on one port of several addresses."""
    seconds = 60  # how long a rank waits

    def start(self, mode, *daemons):
        size = len(daemons)
        port = str(self.first.address[1])
        program = RANK.replace("seconds=60", f"seconds={self.seconds * SLOWDOWN}")
        ranks = [pytorch_test.start(program, mode, MASTER_ADDR=daemon.address[0], MASTER_PORT=port, RANK=str(rank),
                                    WORLD_SIZE=str(size), TORCHELASTIC_USE_AGENT_STORE="True",
                                    TORCHELASTIC_RESTART_COUNT="0") for rank, daemon in enumerate(daemons)]
        for rank in ranks:  # whose output would else be waited for without end
            self.addCleanup(rank.kill)
            timer = threading.Timer(self.seconds * SLOWDOWN, rank.kill)
            self.addCleanup(timer.cancel)
            timer.start()
        return ranks

    def daemon(self, *options):
        """All listen on one port, so that MASTER_PORT is the same."""
        host = next(self.hosts)
        daemon = Daemon(*self.options, *options, engine=f"redis://127.0.0.1:{self.port}", host=host)
        if host == "127.0.0.2":
            self.listen = daemon.command[2].rsplit(":", 1)[1]
        daemon.command[2] = f"{host}:{self.listen}"
        return daemon


class PyTorch(StockRanks):
    def test_a_group_by_two_relays_trains_as_one_and_its_next_launch_survives_the_owner(self):
        ranks = self.start("wait", self.first, self.second, self.first, self.second)
        for rank in ranks:
            self.assertEqual("reduced\n", rank.stdout.readline(), self.logs())
        owner = self.first if self.serves_a_launch(self.first) else self.second
        [run] = self.plain_runs(owner)
        self.assertEqual(4, run["joined"], run)
        self.assertEqual(4, run["world_size"] or 4)
        owner.kill()
        for rank in ranks:
            self.assertIn("ended:", rank.communicate(timeout=pytorch_test.PATIENCE)[0], self.logs())
        other = self.second if owner is self.first else self.first
        for rank in self.start("end", other, other):
            self.assertIn("reduced", rank.communicate(timeout=pytorch_test.PATIENCE)[0], self.logs())


if __name__ == "__main__":
    at_once.main(3)
