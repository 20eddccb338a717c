#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP requests about a job come to any daemon of a fleet: the daemon that serves the job replies, whoever is
asked. A job moves to another daemon, and nothing is lost or done twice."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import threading
import time
import unittest

import at_once
from daemon import reserve_port
from fleet_test import ExactlyOnce, Fleet, LEASE, PATIENCE, SLOWDOWN
from held_up import HeldUp
from tcpstore_wire import Client
from wire import Wire


def address(daemon):
    return "%s:%d" % daemon.address


def move(daemon, job, to, path="move"):
    status, body = daemon.http(f"/v1/jobs/{job}/{path}", "POST", json.dumps({"to": to}).encode())
    return status, json.loads(body)


def detail(reply):
    return json.loads(reply[1])["error"]["detail"]


class Relays(Fleet):
    daemons = 3

    def serve(self, daemon, job, **hello):
        self.until_ok([daemon], job, lambda client: client.set("k", "v"), **hello)

    def request(self, daemon, path, headers, method="GET"):
        """(status, headers, body) of a request with these header fields."""
        connection = http.client.HTTPConnection(*daemon.address, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode()

    def metric(self, daemon, name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", daemon.http("/metrics")[1], re.M)[1])


class Pages(Relays):
    def test_each_page_of_a_job_is_the_same_at_each_daemon(self):
        first, second, third = self.fleet
        self.serve(first, "A")
        self.serve(second, "B")
        self.serve(first, "C", run="r1")
        self.serve(third, "C", run="r2")
        first.http("/v1/jobs/A/endpoints", "POST", b'{"name": "e", "ttl": 60}')
        self.wait_for("the endpoint at each daemon", lambda: all(
            '"e"' in daemon.http("/v1/jobs/A/endpoints")[1] for daemon in self.fleet))
        for path in ("/v1/jobs/A", "/v1/jobs/B", "/v1/jobs/C", "/v1/jobs/A/endpoints", "/v1/jobs/none"):
            for accept in ("application/json", "text/plain"):
                replies = []
                for daemon in self.fleet:
                    status, _, body = self.request(daemon, path, {"Accept": accept})
                    lines = body.splitlines() if accept == "text/plain" else [body]
                    replies.append((status, sorted(lines)))  # text has this daemon's runs first
                self.assertEqual(replies[0], replies[1], path)
                self.assertEqual(replies[0], replies[2], path)
        runs = json.loads(second.http("/v1/jobs/C")[1])["runs"]
        self.assertEqual(["r1", "r2"], [run["run"] for run in runs])
        self.assertGreater(self.metric(second, 'c10dd_forwarded_requests_total{outcome="ok"}'), 0)

    def test_a_job_that_was_made_a_moment_ago_is_found_at_each_daemon(self):
        first, second, third = self.fleet
        for n in range(10):
            self.serve(first, f"new-{n}")
            for daemon in (second, third):
                self.assertEqual(200, daemon.http(f"/v1/jobs/new-{n}")[0])

    def test_the_daemons_and_the_owners_of_jobs(self):
        first, second, third = self.fleet
        self.serve(first, "A")
        self.serve(second, "B")
        for asked in self.fleet:
            daemons = json.loads(asked.http("/v1/daemons")[1])["daemons"]
            self.assertEqual(sorted(address(daemon) for daemon in self.fleet),
                             sorted(one["addresses"][0] for one in daemons))
            jobs = {one["addresses"][0]: one["jobs"] for one in daemons}
            self.assertEqual({address(first): 1, address(second): 1, address(third): 0}, jobs)
            self.assertEqual([address(asked)], [one["addresses"][0] for one in daemons if one["here"]])
            self.assertLess(max(one["silence_ms"] for one in daemons), 1000 * LEASE)
            owners = {one["job"]: one["owner"] for one in json.loads(asked.http("/v1/jobs")[1])["jobs"]}
            self.assertEqual([address(first)], owners["A"]["addresses"])
            self.assertEqual([address(second)], owners["B"]["addresses"])
            self.assertEqual(asked is first, owners["A"]["here"])
            self.assertGreater(owners["A"]["epoch"], 0)
        text = self.request(third, "/v1/daemons", {"Accept": "text/plain"})[2]
        self.assertEqual(3, len(text.splitlines()), text)
        self.assertIn(f"{address(third)}: version ", text)
        self.assertEqual(1, self.metric(first, "c10dd_jobs_owned"))
        self.assertEqual(1, self.metric(first, "c10dd_lease_held"))
        self.assertGreater(self.metric(first, "c10dd_lease_left_seconds"), 0)
        self.assertLess(self.metric(first, f'c10dd_daemon_silence_seconds{{daemon="{address(second)}"}}'), LEASE)

    def test_a_request_that_changes_something_is_done_by_the_owner(self):
        first, second, third = self.fleet
        self.serve(first, "A")
        client, reply = self.open(first, "B")
        self.assertEqual("ok", reply.code)
        self.assertEqual(409, second.http("/v1/jobs/B", "DELETE")[0], "a session is connected")
        client.close()
        self.assertEqual((200, '{"removed":"A"}\n'), third.http("/v1/jobs/A", "DELETE"))
        self.assertIn("event=job_removed", first.errors())
        self.wait_for("it is gone", lambda: second.http("/v1/jobs/A")[0] == 404)
        status, body = second.http("/v1/jobs/B/endpoints", "POST", b'{"name": "e"}')
        self.assertEqual(200, status, body)
        self.assertIn("event=endpoint_leased", first.errors())
        self.assertEqual(400, second.http("/v1/jobs/B/endpoints", "POST", b'{"name": 1}')[0])

    def test_the_owner_is_killed_and_the_daemon_that_is_asked_serves_the_job(self):
        first, second, _ = self.fleet
        self.serve(first, "A")
        page = second.http("/v1/jobs/A")
        self.assertEqual(200, page[0])
        first.kill()
        began = time.monotonic()
        seen = []

        def served():
            status, headers, body = self.request(second, "/v1/jobs/A", {})
            seen.append((status, body))
            if status != 200:
                self.assertGreaterEqual(int(headers["Retry-After"]), 1)
                self.assertIn(address(first), detail((status, body)))
            return status == 200
        with HeldUp(self.folder) as held_up:
            self.wait_for("the page", served)
        self.assertLess(time.monotonic() - began, (LEASE + 1) * SLOWDOWN + held_up.seconds)
        self.assertLessEqual({status for status, _ in seen}, {200, 502, 503})
        self.assertIn(503, {status for status, _ in seen})
        self.assertTrue(any("has been silent for" in body for _, body in seen), seen)
        self.assertEqual(page[1], seen[-1][1])
        self.assertEqual(1, self.metric(second, "c10dd_takeovers_total"))

    def test_a_job_without_an_owner_is_served_and_no_job_is_made(self):
        first, second, third = self.fleet
        self.serve(first, "A")
        self.assertEqual(0, first.stop())
        self.assertEqual(200, second.http("/v1/jobs/A")[0])
        self.assertEqual(200, third.http("/v1/jobs/A")[0])
        owner = json.loads(third.http("/v1/jobs")[1])["jobs"][0]["owner"]
        self.assertEqual([address(second)], owner["addresses"])
        for daemon in (second, third):
            self.assertEqual(404, daemon.http("/v1/jobs/none")[0])
        self.assertEqual([b"i", b"n"], sorted(row for row in self.redis_call("HKEYS", "c10dd:{0}:rows")
                                              if not row.startswith(b"j")))
        self.assertEqual(1, len(json.loads(third.http("/v1/jobs")[1])["jobs"]))


class Alone(unittest.TestCase):
    def test_a_daemon_without_a_fleet(self):
        from daemon import Daemon  # pylint: disable=import-outside-toplevel
        with Daemon() as daemon:
            daemons = json.loads(daemon.http("/v1/daemons")[1])["daemons"]
            self.assertEqual([([address(daemon)], None, True)],
                             [(one["addresses"], one["lease_seconds"], one["here"]) for one in daemons])
            with contextlib.closing(Wire(daemon.address)) as client:
                client.hello(job="A")
                status, body = move(daemon, "A", "head2:29500")
            self.assertEqual(501, status)
            self.assertIn("head2:29500", body["error"]["detail"])
            self.assertIn("c10dd_lease_held 1\n", daemon.http("/metrics")[1])


class Listener:
    """A server in place of a daemon: `serve` gets each connection, in a thread."""

    def __init__(self, serve):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.serve = serve
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.connections.append(self.socket.accept()[0])
                threading.Thread(target=self.serve, args=(self.connections[-1],), daemon=True).start()

    def close(self):
        for one in (self.socket, *self.connections):
            one.close()


class WrongAddresses(Relays):
    """The owner of a job is reached at an address that leads somewhere else."""
    daemons = 1

    def owner_at(self, advertised):
        owner = self.stack.enter_context(self.daemon("--advertise", advertised))
        self.fleet.append(owner)
        self.serve(owner, "A")
        return owner

    def listener(self, serve):
        return self.stack.enter_context(contextlib.closing(Listener(serve)))

    def test_daemons_that_name_each_other_do_not_loop(self):
        def reply_as_asked(client):
            with socket.create_connection(self.fleet[0].address) as daemon:
                daemon.sendall(client.recv(65536))
                while more := daemon.recv(65536):
                    client.sendall(more)
            client.close()
        asked_first = self.fleet[0]
        third = self.stack.enter_context(self.daemon())
        listener = self.listener(reply_as_asked)
        self.owner_at(listener.address)
        for asked in (asked_first, third):
            before = len(listener.connections)
            status, body = asked.http("/v1/jobs/A")
            self.assertEqual(503, status, body)
            self.assertIn("forwarded only once", body)
            self.assertIn(listener.address, body)
            self.assertIn(address(asked), body)
            self.assertEqual(1, len(listener.connections) - before)

    def test_an_owner_that_does_not_reply(self):
        listener = self.listener(lambda client: None)
        self.owner_at(listener.address)
        began = time.monotonic()
        reply = self.fleet[0].http("/v1/jobs/A")
        self.assertEqual(504, reply[0], reply)
        self.assertIn(f"the daemon at {listener.address} serves the job", detail(reply))
        self.assertIn("within 5 s", detail(reply))
        self.assertNotIn("may or may not", detail(reply))
        self.assertLess(time.monotonic() - began, 8 * SLOWDOWN)
        reply = self.fleet[0].http("/v1/jobs/A", "DELETE")
        self.assertEqual(504, reply[0], reply)
        self.assertIn("the request may or may not have been carried out", detail(reply))

    def test_requests_that_wait_are_bounded_and_end_with_their_clients(self):
        got, ended = [], []

        def serve(client):
            got.append(client.recv(65536))
            while client.recv(65536):
                pass
            ended.append(client)
        self.owner_at(self.listener(serve).address)
        clients = []
        for _ in range(16):
            client = self.stack.enter_context(socket.create_connection(self.fleet[0].address))
            client.sendall(b"GET /v1/jobs/A HTTP/1.1\r\nHost: localhost\r\n\r\n")
            clients.append(client)
        self.wait_for("16 requests at the owner", lambda: len(got) == 16)
        self.assertIn(f"C10DD-Forwarded-By: {address(self.fleet[0])}\r\n".encode(), got[0])
        reply = self.fleet[0].http("/v1/jobs/A")
        self.assertEqual(503, reply[0], reply)
        self.assertIn("16 requests are already being forwarded, limit 16", detail(reply))
        began = time.monotonic()
        for client in clients:
            client.close()
        self.wait_for("their ends at the owner", lambda: len(ended) == 16)
        self.assertLess(time.monotonic() - began, 2 * SLOWDOWN, "not because of a time-out")

    def test_an_owner_that_cannot_be_reached_and_one_that_says_too_much(self):
        nowhere = f"127.0.0.1:{reserve_port()}"
        self.owner_at(nowhere)
        reply = self.fleet[0].http("/v1/jobs/A")
        self.assertEqual(502, reply[0], reply)
        self.assertIn(f"{nowhere} serves the job", detail(reply))
        self.assertIn("Connection refused", detail(reply))

        def serve(client):
            client.recv(65536)
            with contextlib.suppress(OSError):
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + bytes(20 << 20))
        listener = self.listener(serve)
        owner = self.stack.enter_context(self.daemon("--advertise", listener.address))
        self.fleet.append(owner)
        self.serve(owner, "B")
        reply = self.fleet[0].http("/v1/jobs/B")
        self.assertEqual(502, reply[0], reply)
        self.assertIn("longer than the limit of 16777216 bytes", detail(reply))
        self.assertIn(listener.address, detail(reply))


class Moves(Relays):
    def test_a_job_moves_by_any_daemon_and_its_clients_are_sent_there(self):
        first, second, third = self.fleet
        self.serve(first, "A")
        client, _ = self.open(first, "A")
        status, body = move(second, "A", address(third))
        self.assertEqual((200, {"job": "A", "to": address(third), "runs": [""]}), (status, body))
        told = client.reply()
        self.assertEqual("not_owner", told.code)
        self.assertIn(address(third), told.detail)
        self.assertIn(address(third), self.redirect(second, "A").detail, "not the daemon that was asked first")
        self.until_ok([third], "A", lambda c: c.get("k"))
        self.assertIn("event=job_moved", first.errors())
        self.assertEqual(1, self.metric(first, "c10dd_moves_total"))
        self.assertNotIn("job_taken_over", "".join(d.errors() for d in self.fleet))

    def test_a_launch_of_pytorch_is_not_ended_by_a_move(self):
        first, second, _ = self.fleet
        rank = Client.of_process(first.address, 77)
        self.addCleanup(rank.close)
        self.assertEqual(1, rank.join())
        for asked in (first, second):
            status, body = move(asked, "torch", address(second))
            self.assertEqual(409, status, body)
            self.assertIn('run plain-1 of job "torch" has 1 connection of unmodified PyTorch', body["error"]["detail"])
        self.assertEqual(2, rank.join())
        rank.close()
        self.wait_for("the move", lambda: move(first, "torch", address(second))[0] == 200)

    def test_a_run_of_an_endpoint_does_not_move_while_pytorch_is_connected(self):
        first, second, third = self.fleet
        status, reply = first.http("/v1/jobs/A/endpoints", "POST", b'{"name": "e", "run": "r1"}')
        self.assertEqual(200, status, reply)
        port = json.loads(reply)["port"]
        rank = Client.of_process((first.address[0], port), 77)
        self.addCleanup(rank.close)
        self.assertEqual(1, rank.join())
        for asked in self.fleet:
            status, body = move(asked, "A", address(third))
            self.assertEqual(409, status, body)
            self.assertIn('run r1 of job "A" has 1 connection of unmodified PyTorch', body["error"]["detail"])
        rank.close()
        self.wait_for("the move", lambda: move(second, "A", address(third))[0] == 200)

    def test_all_runs_of_a_job_move(self):
        first, second, third = self.fleet
        self.serve(first, "A", run="r1")
        self.serve(second, "A", run="r2")
        status, body = move(first, "A", address(third))
        self.assertEqual((200, ["r1", "r2"]), (status, sorted(body["runs"])), body)
        self.assertEqual((200, '{"removed":"A"}\n'), first.http("/v1/jobs/A", "DELETE"))

    def test_bad_input(self):
        first, second, third = self.fleet
        self.serve(first, "A")
        nowhere = f"127.0.0.1:{reserve_port()}"
        for asked in (first, second):
            status, body = move(asked, "A", nowhere)
            self.assertEqual(400, status, body)
            for text in (nowhere, address(first), address(second)):
                self.assertIn(text, body["error"]["detail"])
            status, body = move(asked, "A", address(first))
            self.assertEqual((200, []), (status, body["runs"]))
            self.assertIn(f'{address(first)} already serves job "A"', body["note"])
            status, body = move(asked, "none", address(second))
            self.assertEqual(404, status, body)
            self.assertIn('"none"', body["error"]["detail"])
            self.assertIn(address(second), body["error"]["detail"])
            for sent in (b"{}", b'{"to": 1}', b'{"to": "a:1", "from": "b:1"}', b"[]", b"x", b'{"to": ""}'):
                self.assertEqual(400, asked.http("/v1/jobs/A/move", "POST", sent)[0], sent)
            self.assertEqual(405, asked.http("/v1/jobs/A/move", "PUT", b"{}")[0])
        os.kill(third.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, third.process.pid, signal.SIGCONT)
        time.sleep(0.7 * LEASE)
        status, body = move(second, "A", address(third))
        self.assertEqual(409, status, body)
        self.assertRegex(body["error"]["detail"], rf"{address(third)} has been silent for .* its lease is 1 s")
        self.until_ok([first], "A", lambda c: c.get("k"))


class MovesUnderLoad(ExactlyOnce):
    moves = 20

    def test_each_add_counts_once_over_kills_pauses_and_ends_of_owners(self):
        """Each add counts once over moves, while another thread adds."""
        stop = threading.Event()
        moved, failures = [], []

        def move_around():
            n = 0
            while len(moved) < self.moves and not failures:
                to = address(self.fleet[n % 3])
                reply = move(self.fleet[(n + 1) % 3], "A", to)
                n += 1
                if reply[0] == 200:
                    moved.extend(reply[1]["runs"])
                elif reply[0] not in (404, 503):
                    failures.append(reply)
                time.sleep(0.03)
            stop.set()
        self.add()
        thread = threading.Thread(target=move_around)
        thread.start()
        while not stop.is_set():
            self.add()
        thread.join()
        self.assertEqual([], failures)
        self.add()
        reply = self.client.get("n")
        self.assertEqual("ok", reply.code, reply)
        self.assertIn(str(self.sequence).encode(), reply.body)
        print(f"{self.sequence} adds, {len(moved)} moves, {self.refused} refusals", flush=True)
        self.client.close()
        for daemon in self.fleet:
            self.assertNotIn("engine_lost", daemon.errors())
            self.assertNotIn("job_taken_over", daemon.errors())


def load_tests(loader, _, __):
    """Without the tests that come with the names of fleet_test."""
    cases = (Pages, Alone, WrongAddresses, Moves, MovesUnderLoad)
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)


if __name__ == "__main__":
    at_once.main(3)
