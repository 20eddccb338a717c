#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""c10ddctl, as an operator calls it, against daemons alone and in a fleet."""
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from daemon import BIN, SLOWDOWN, Daemon, reserve_port
from fleet_test import Fleet, LEASE, PATIENCE
from tcpstore_wire import Client as Rank
from wire import Wire


def address(daemon):
    return "%s:%d" % daemon.address


def ctl(*words, environment=None):
    """(exit code, standard output, standard error)"""
    done = subprocess.run([os.path.join(BIN, "c10ddctl"), *words], capture_output=True, text=True,
                          timeout=PATIENCE, check=False, env={"PATH": os.environ["PATH"], **(environment or {})})
    return done.returncode, done.stdout, done.stderr


def rows(table):
    """The rows of a table, as dictionaries by the names of the columns."""
    header, *lines = table.splitlines()
    starts = [found.start() for found in re.finditer(r"(?<!\S)\S", header)]
    spans = list(zip(starts, starts[1:] + [None]))
    names = [header[begin:end].strip() for begin, end in spans]
    return [dict(zip(names, (line[begin:end].strip() for begin, end in spans))) for line in lines]


class OfAFleet(Fleet):
    daemons = 2

    def serve(self, daemon, job, **hello):
        self.until_ok([daemon], job, lambda client: client.set("k", "v"), **hello)

    def test_the_daemons_and_all_their_jobs(self):
        first, second = self.fleet
        self.serve(first, "A")
        self.serve(second, "B", run="r1")
        for asked in self.fleet:
            code, out, error = ctl("--daemon", address(asked), "daemons")
            self.assertEqual((0, ""), (code, error), out)
            self.assertEqual({address(first): "1", address(second): "1"},
                             {row["DAEMON"]: row["JOBS"] for row in rows(out)})
            self.assertEqual({"1 s"}, {row["LEASE"] for row in rows(out)})
            code, out, error = ctl(f"--daemon=c10dd://{address(asked)}/x", "jobs")
            self.assertEqual((0, ""), (code, error), out)
            seen = {row["JOB"]: (row["RUN"], row["OWNER"], row["KEYS"]) for row in rows(out)}
            self.assertEqual({"A": ("-", address(first), "1"), "B": ("r1", address(second), "1")}, seen)
        code, out, _ = ctl("--daemon", address(first), "-o", "json", "jobs")
        self.assertEqual([1, 1], [job["keys"] for job in json.loads(out)["jobs"]])
        code, out, error = ctl("job", "B", environment={"C10DD_URL": f"c10dd://{address(first)}/other"})
        self.assertEqual((0, ""), (code, error))
        self.assertTrue(out.startswith("r1: "), out)

    def test_launches_of_pytorch_on_two_daemons_are_listed_with_their_owners(self):
        first = self.fleet[0]
        other = self.stack.enter_context(self.daemon("--tcpstore-job", "other"))
        for daemon in (first, other):
            rank = Rank.of_process(daemon.address, 77)
            self.addCleanup(rank.close)
            self.assertEqual(1, rank.join())
        code, out, error = ctl("--daemon", address(first), "jobs")
        self.assertEqual((0, ""), (code, error), out)
        self.assertEqual({("torch", address(first)), ("other", address(other))},
                         {(row["JOB"], row["OWNER"]) for row in rows(out) if row["RUN"] == "plain-1"})

    def test_a_job_moves(self):
        first, second = self.fleet
        self.serve(first, "A b/%")
        code, out, error = ctl("--daemon", address(second), "move", "A b/%", address(second))
        self.assertEqual((0, f"moved A b/% to {address(second)}\n", ""), (code, out, error))
        self.until_ok([second], "A b/%", lambda client: client.get("k"))
        code, out, error = ctl("--daemon", address(first), "move", "A b/%", address(second))
        self.assertEqual(0, code, error)
        self.assertIn("already", out)
        code, _, error = ctl("--daemon", address(first), "move", "none", address(second))
        self.assertEqual(64, code)
        self.assertIn('job "none"', error)
        code, _, error = ctl("--daemon", address(first), "move", "A b/%", f"127.0.0.1:{reserve_port()}")
        self.assertEqual(64, code, error)
        self.assertIn(address(second), error)

    def test_a_dead_or_silent_daemon_is_named_and_another_one_is_asked(self):
        first, second = self.fleet
        self.serve(second, "B")
        self.serve(first, "A")
        first.kill()
        both = f"{address(first)},{address(second)}"
        code, out, error = ctl("--daemon", both, "jobs")
        self.assertEqual(75, code, "not silent for its lease yet")
        self.assertIn(f"no daemon answers at {address(first)}", error)
        self.assertEqual({"A", "B"}, {row["JOB"] for row in rows(out)})
        code, out, _ = ctl("--daemon", both, "status")
        self.assertEqual(75, code)
        self.assertEqual(["no", "yes"], [row["READY"] for row in rows(out)])
        self.assertEqual(["-", "fsync"], [row["DURABILITY"] for row in rows(out)])
        code, _, error = ctl("--daemon", both, "job", "A")
        self.assertEqual(75, code, "its owner is silent")
        self.assertIn(address(first), error)
        self.wait_for("a takeover", lambda: ctl("--daemon", both, "job", "A")[0] == 0)
        code, out, error = ctl("--daemon", both, "jobs")
        self.assertEqual((0, ""), (code, error))
        code, out, _ = ctl("--daemon", both, "daemons")
        self.assertEqual({address(first): "silent (dead or unreachable)", address(second): "serves"},
                         {row["DAEMON"]: row["STATE"] for row in rows(out)})
        os.kill(second.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, second.process.pid, signal.SIGCONT)
        began = time.monotonic()
        code, _, error = ctl("--daemon", address(second), "--timeout", "0.5", "move", "A", address(second))
        self.assertEqual(75, code)
        self.assertIn("it is not known whether it executed the request", error)
        self.assertLess(time.monotonic() - began, LEASE * 5)


    def test_nothing_is_said_to_be_gone_while_nothing_is_served(self):
        first, second = self.fleet
        self.serve(first, "A")
        self.redis_call("FLUSHALL")
        self.wait_for("the loss", lambda: ctl("--daemon", address(first), "status")[0] == 75)
        for words in (("jobs",), ("job", "A"), ("move", "A", address(second)), ("daemons",)):
            code, _, error = ctl("--daemon", address(first), *words)
            self.assertEqual(75, code, (words, error))
            self.assertIn("state_rolled_back", error, words)


class HttpPage:
    """A server that answers each request with one page."""

    def __init__(self, status, page):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = page.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Alone(unittest.TestCase):
    def test_a_daemon_without_a_fleet(self):
        with Daemon() as daemon, contextlib.closing(Wire(daemon.address)) as client:
            client.hello(job="A")
            client.set("k", "v")
            here = {"C10DD_ADDR": address(daemon)}
            code, out, error = ctl("status", environment=here)
            self.assertEqual((0, ""), (code, error))
            self.assertEqual([address(daemon)], [row["DAEMON"] for row in rows(out)])
            code, out, _ = ctl("jobs", environment=here)
            self.assertEqual([("A", "-", "1", "1")], [(row["JOB"], row["OWNER"], row["KEYS"], row["SESSIONS"])
                                                      for row in rows(out)])
            code, _, error = ctl("move", "A", "head2:29500", environment=here)
            self.assertEqual(64, code)
            self.assertIn("is not shared", error)
            self.assertEqual((64, ""), ctl("job", "none", environment=here)[:2])
            self.assertEqual(ctl("job", "none", environment=here), ctl("diagnose", "none", environment=here))

    def test_leases_a_port_and_removes_the_job(self):
        with Daemon() as daemon:
            own = ("--daemon", "%s:%d" % daemon.address)
            proxy = {"http_proxy": "http://127.0.0.1:9"}
            code, first, error = ctl(*own, "lease", "llm", "--world-size", "4", environment=proxy)
            self.assertEqual((0, ""), (code, error))
            self.assertRegex(first, r"^MASTER_ADDR=127\.0\.0\.1 MASTER_PORT=\d+\n$")
            self.assertEqual(first, ctl(*own, "lease", "llm")[1], "it is renewed")
            other = json.loads(ctl(*own, "-o", "json", "lease", "llm", "--endpoint", "b", "--run", "r")[1])
            self.assertNotIn(str(other["port"]), first)
            self.assertIn('"run":"r"', daemon.http("/v1/jobs/llm/endpoints")[1])
            self.assertEqual((0, "removed llm\n", ""), ctl(*own, "rm", "llm"))
            self.assertEqual((64, "", 'c10ddctl: unknown job "llm"\n'), ctl(*own, "rm", "llm"))
        self.assertEqual(69, ctl(*own, "--timeout", "0.5", "lease", "llm")[0])

    def test_removes_the_jobs_that_nobody_uses(self):
        with Daemon() as daemon, contextlib.closing(Wire(daemon.address)) as user:
            own = ("--daemon", "%s:%d" % daemon.address)
            self.assertEqual((0, "", ""), ctl(*own, "rm", "--idle"))
            for job in ("idle-1", "idle-2"):
                with contextlib.closing(Wire(daemon.address)) as gone:
                    gone.hello(job=job)
                    gone.set("k", "v")
            user.hello(job="used")
            self.assertEqual(0, ctl(*own, "lease", "leased")[0])
            self.assertEqual((0, "", ""), ctl(*own, "rm", "--idle", "1h"), "none is idle for so long")
            page = {row["job"]: row["idle_seconds"] for row in json.loads(daemon.http("/v1/jobs")[1])["jobs"]}
            self.assertEqual(0, page["used"])
            self.assertGreater(page["idle-1"], 0)
            self.assertEqual((0, "removed idle-1\nremoved idle-2\n", ""), ctl(*own, "rm", "--idle"))
            self.assertEqual({"used", "leased"}, {row["JOB"] for row in rows(ctl(*own, "jobs")[1])})
            code, _, error = ctl(*own, "rm", "used")
            self.assertEqual(75, code)
            self.assertIn("in use", error)
            for wrong in ("used", "-1", "1d", "1e99h", "nan"):
                code, _, error = ctl(*own, "rm", f"--idle={wrong}")
                self.assertEqual(64, code)
                self.assertIn(f'--idle is "{wrong}": expected no value, or a time such as 30m or 2h', error)
            with contextlib.closing(Wire(daemon.address)) as gone:
                gone.hello(job="late")
                gone.set("k", "v")
            self.await_idle(daemon, "late", 0.3)
            self.assertEqual((0, "removed late\n", ""), ctl(*own, "rm", "--idle", "300ms"))

    def await_idle(self, daemon, job, seconds):
        end = time.monotonic() + 10 * SLOWDOWN
        while True:
            self.assertLess(time.monotonic(), end)
            page = {row["job"]: row["idle_seconds"] for row in json.loads(daemon.http("/v1/jobs")[1])["jobs"]}
            if page[job] >= seconds:
                return
            time.sleep(0.05)

    def test_a_lease_that_has_no_room_says_so(self):
        with Daemon("--endpoint-ports", "29990-29990") as daemon:
            own = ("--daemon", "%s:%d" % daemon.address)
            self.assertEqual(0, ctl(*own, "lease", "a")[0])
            code, out, error = ctl(*own, "lease", "b")
            self.assertEqual((75, ""), (code, out), error)
            self.assertIn("port", error)

    def test_no_daemon_and_something_else(self):
        port = reserve_port()
        code, out, error = ctl("--daemon", f"127.0.0.1:{port}", "jobs")
        self.assertEqual((69, ""), (code, out))
        self.assertIn(f"no daemon answers at 127.0.0.1:{port}", error)
        self.assertEqual(69, ctl("--daemon", f"127.0.0.1:{port}", "status")[0])
        with socket.create_server(("127.0.0.1", 0)) as silent:
            code, _, error = ctl("--daemon", "127.0.0.1:%d" % silent.getsockname()[1], "--timeout", "0.3", "jobs")
        self.assertEqual(75, code)
        self.assertIn("nothing arrived within 0.3 s", error)

    def test_escapes_of_what_answers_are_not_shown(self):
        red = "\\u001b[31mred\\u009b"
        for status, page in ((200, '{"daemons": [{"addresses": ["%s"], "version": "%s"}], "problem": "%s"}'),
                             (200, '{"daemons": 7, "problem": "%s\x1b%s%s"}'),
                             (500, '{"error": {"detail": "%s%s%s"}}'), (500, "\x1b[31mred%s%s%s\x1b")):
            with HttpPage(status, page % (red, red, red)) as server:
                for words in (("daemons",), ("daemons", "-o", "json"), ("job", "j"), ("status",)):
                    _, out, error = ctl("--daemon", server.address, *words)
                    for character in ("\x1b", "\x9b"):
                        self.assertNotIn(character, out + error, (page, words))

    def test_a_ca_its_daemons_and_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            ca, other, token = (os.path.join(folder, name) for name in ("ca", "other", "token"))
            code, out, error = ctl("ca", "init", ca, "--host", "head")
            if "built without OpenSSL" in error:
                self.skipTest(error)
            self.assertEqual((0, ""), (code, error), out)
            sign = ("ca", "token", ca, "--name", "alice", "--jobs", "llm-*")
            for words in (("ca", "daemon", ca, "--host", "n2", "--out", other), ("ca", "daemon", ca, "--out", other),
                          (*sign, "--out", token), (*sign, "--out", token)):
                code, out, error = ctl(*words)
                self.assertEqual((0, ""), (code, error), out)
            for place, _, files in os.walk(folder):
                for name in files:
                    self.assertEqual(0o100600, os.stat(os.path.join(place, name)).st_mode, name)
            openssl = shutil.which("openssl")  # the program; the unit tests check the same with the library
            for of_daemon in (os.path.join(ca, "daemon"), other) if openssl else ():
                subprocess.run([openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile",
                                os.path.join(ca, "ca.crt"), os.path.join(of_daemon, "tls.crt")], check=True, stdout=subprocess.DEVNULL)
            code, out, error = ctl(*sign)
            self.assertEqual((0, "", 2), (code, error, out.count(".")))
            code, out, error = ctl("ca", "show", token, "-o", "json")
            self.assertEqual((0, ""), (code, error), out)
            item, = json.loads(out)["items"]
            self.assertEqual(("alice", "trainer", ["llm-*"], False),
                             tuple(item[name] for name in ("name", "role", "jobs", "expired")))
            code, out, error = ctl("ca", "init", ca, "--host", "head")
            self.assertEqual((64, ""), (code, out))
            self.assertIn("already has a CA", error)

    def test_bad_command_lines(self):
        for words, text in ((("jobz",), 'unknown command "jobz"; did you mean "jobs"?'),
                            ((), "no command was given"),
                            (("job",), "wrong number of arguments; write c10ddctl job NAME"),
                            (("lease", "a", "--world-size", "x"), '--world-size is "x": expected an integer'),
                            (("rm",), "wrong number of arguments; write c10ddctl rm NAME"),
                            (("jobs", "--run", "x"), 'unknown option "--run"'),
                            (("job", "x", "--watch"), 'unknown option "--watch"'),
                            (("jobs", "x"), "wrong number of arguments; write c10ddctl jobs"),
                            (("--deamon", "x", "jobs"), 'did you mean "--daemon"?'),
                            (("jobs", "--daemon"), "--daemon needs a value"),
                            (("jobs", "--timeout", "soon"), '--timeout is "soon": expected seconds, 0.1 to 3600'),
                            (("jobs", "-o", "xml"), '--output is "xml": expected table or json'),
                            (("jobs", "--daemon", "http://a:1"), '--daemon is "http://a:1": write HOST:PORT'),
                            (("jobs", "--daemon", "a:99999"), "--daemon: ")):
            code, out, error = ctl(*words)
            self.assertEqual((64, ""), (code, out), words)
            self.assertIn(text, error)
        code, out, _ = ctl("--help")
        self.assertEqual(0, code)
        self.assertIn("c10ddctl [OPTIONS] COMMAND", out)
        self.assertRegex(ctl("--version")[1], r"^c10ddctl \d+\.\d+\.\d+\n$")


def load_tests(loader, _, __):
    """Without the tests that come with the names of fleet_test."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (OfAFleet, Alone))


if __name__ == "__main__":
    unittest.main()
