# SPDX-License-Identifier: Apache-2.0
"""c10ddctl over servers that lie, close in the middle of a reply, are silent, or refuse once: each
command ends with one of its exit codes and a sentence, and asks the next daemon if it may."""
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from c10ddctl_test import ctl
from daemon import BIN, reserve_port
from fleet_test import PATIENCE

COMMANDS = (("status",), ("daemons",), ("jobs",), ("job", "j"), ("move", "j", "127.0.0.1:1"), ("rm", "j"),
            ("rm", "--idle", "1s"), ("diagnose", "j"))
CODES = {0, 64, 69, 75, 77}  # not 70, a bug


def http(body, status="200 OK", kind="application/json"):
    data = body if isinstance(body, bytes) else body.encode()
    return (f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
            "Connection: close\r\n\r\n").encode() + data


class Fake:
    """Gives each connection the next reply of a list, the last one for ever. A reply of None is silence."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.silent = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            reply = self.replies[0] if len(self.replies) == 1 else self.replies.pop(0)
            if reply is None:
                self.silent.append(connection)
                continue
            with connection:
                self.asked.append(connection.recv(65536).split(b"\r\n")[0].decode())
                connection.sendall(reply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.silent:
            connection.close()


RUN = {"job": "j", "run": "", "revision": 3, "sessions": 0, "idle_seconds": 9999, "keys": 1,
       "owner": {"addresses": ["127.0.0.1:1"], "epoch": 1}}
LIES = ["", "[]", "7", "null", '"text"', "{", "{}", '{"jobs": 7, "daemons": {}, "runs": "x"}',
        *(json.dumps({"jobs": [lie], "daemons": [lie], "runs": [lie], "endpoints": [lie]})
          for lie in (7, None, [], "x", {"job": {}, "run": []}, {**RUN, "sessions": {}, "idle_seconds": "long"},
                      {"addresses": [7], "lease_seconds": "x", "silence_ms": []},
                      {"addresses": ["not an address"], "lease_seconds": 1, "silence_ms": 0},
                      {"addresses": {}, "lease_seconds": {}, "silence_ms": True})),
        json.dumps({"problem": {"a": 1}}), json.dumps({"jobs": [RUN] * 3, "daemons": []}),
        "[" * 5000, '{"a":' * 5000, '{"jobs": [' + ",".join(["{}"] * 5000) + "]}", "\ud7ff", '{"jobs": ["\\ud800"]}']


class Fakes(unittest.TestCase):
    def assert_ends_well(self, words, what):
        code, out, error = ctl(*words)
        self.assertIn(code, CODES, (words, what, out, error))
        self.assertNotIn("terminate", error, (words, what))
        if code != 0:
            self.assertTrue(error.strip() or words[-1] == "status", (words, what, out))
        for character in ("\x1b", "\0"):
            self.assertNotIn(character, out + error)
        return code, out, error

    def test_pages_that_lie(self):
        for lie, form in itertools.product(LIES, ("table", "json")):
            with Fake(http(lie)) as fake:
                for words in COMMANDS:
                    self.assert_ends_well(("--daemon", fake.address, "-o", form, *words), lie[:60])

    def test_another_server_is_told_apart(self):
        for page in ("<html>It works!</html>", "[]"):
            with Fake(http(page)) as fake:
                code, _, error = ctl("--daemon", fake.address, "jobs")
                self.assertEqual(69, code)
                self.assertIn(f"the server at {fake.address} is not a c10dd daemon", error)

    def test_a_reply_that_ends_in_its_middle(self):
        whole = http(json.dumps({"jobs": [RUN], "daemons": [], "endpoints": []}))
        for cut in (0, 1, 9, 30, len(whole) // 2, len(whole) - 1):
            with Fake(whole[:cut]) as fake:
                for words in COMMANDS:
                    code, _, error = self.assert_ends_well(("--daemon", fake.address, *words), cut)
                    self.assertIn(code, (69, 75), (words, cut, error))

    def test_what_is_no_http_and_what_is_too_much(self):
        for bytes_ in (b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\0\2\2\x46", b"+PONG\r\n", b"HTTP/1.1 abc OK\r\n\r\n",
                       b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100_000 + b"\r\n",
                       b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}"):
            with Fake(bytes_) as fake:
                for words in COMMANDS:
                    code, _, error = self.assert_ends_well(("--daemon", fake.address, *words), bytes_[:20])
                    self.assertIn(code, (69, 75), (words, bytes_[:20], error))

    def test_each_status_has_its_exit_code(self):
        for status, code in (("400 Bad Request", 64), ("403 Forbidden", 77), ("404 Not Found", 64), ("409 Conflict", 75),
                             ("500 Internal Server Error", 75), ("501 Not Implemented", 64), ("503 Service Unavailable", 75)):
            with Fake(http(json.dumps({"error": {"detail": "the reason"}}), status)) as fake:
                for words in COMMANDS[1:]:
                    found, out, error = self.assert_ends_well(("--daemon", fake.address, *words), status)
                    self.assertEqual((code, ""), (found, out), (words, status, error))
                    self.assertIn("the reason", error)

    def test_a_read_goes_on_to_the_next_daemon_and_a_change_does_not(self):
        page = http(json.dumps({"jobs": [RUN], "daemons": [], "runs": [""], "endpoints": []}))
        for first in (None, b"HTTP/1.1 200"):
            with Fake(first) as bad, Fake(page) as good:
                for words in COMMANDS[1:4]:
                    code, _, error = ctl("--daemon", f"{bad.address},{good.address}", "--timeout", "0.2", *words)
                    self.assertEqual(0, code, (words, first, error))
            for words in (COMMANDS[4], COMMANDS[5]):
                with Fake(first) as bad, Fake(page) as good:
                    code, _, error = ctl("--daemon", f"{bad.address},{good.address}", "--timeout", "0.2", *words)
                    self.assertEqual(75, code, (words, first, error))
                    self.assertIn("it is not known whether it executed the request", error)
                    self.assertEqual([], good.asked)

    def test_a_change_goes_on_to_the_next_daemon_if_nobody_has_received_it(self):
        page = http(json.dumps({"runs": [""]}))
        with Fake(page) as good:
            nobody = f"127.0.0.1:{reserve_port()}"
            for words in (COMMANDS[4], COMMANDS[5]):
                code, out, error = ctl("--daemon", f"{nobody},{good.address}", *words)
                self.assertEqual(0, code, (words, error))
                self.assertRegex(out, r"^(moved|removed) j")
            self.assertEqual(["POST /v1/jobs/j/move HTTP/1.1", "DELETE /v1/jobs/j HTTP/1.1"], good.asked)

    def test_idle_jobs_of_two_daemons_and_one_that_is_in_use(self):
        used = {**RUN, "job": "used", "sessions": 1}
        young = {**RUN, "job": "young", "idle_seconds": 0.5}
        both = [{**RUN, "job": "both", "run": "a"}, {**RUN, "job": "both", "run": "b", "sessions": 2}]
        jobs = http(json.dumps({"jobs": [RUN, used, young, *both], "daemons": [], "endpoints": []}))
        with Fake(jobs) as fake:
            code, out, error = ctl("--daemon", fake.address, "rm", "--idle", "1s")
            self.assertEqual((0, "removed j\n"), (code, out), error)
            self.assertEqual(["DELETE /v1/jobs/j HTTP/1.1"], [line for line in fake.asked if line.startswith("DELETE")])

    def watch(self, *words):
        """A watch of job j. A shell may have started this test with SIGINT ignored."""
        watch = subprocess.Popen([os.path.join(BIN, "c10ddctl"), *words, "diagnose", "j", "--watch"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(watch.communicate)
        self.addCleanup(watch.kill)
        return watch

    def test_a_signal_ends_a_watch_with_the_code_of_the_last_reply(self):
        for (state, code), number in itertools.product((("running", 0), ("waiting", 1), ("stuck", 2)),
                                                       (signal.SIGINT, signal.SIGTERM)):
            page = http(json.dumps({"runs": [{"run": "r", "diagnosis": {"state": state, "sentence": "why"}}]}))
            with Fake(page) as fake:
                watch = self.watch("--daemon", fake.address)
                self.assertRegex(watch.stdout.readline(), rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ r: {state}")
                watch.send_signal(number)
                self.assertEqual(code, watch.wait(PATIENCE), (state, number))

    def test_a_signal_ends_a_watch_while_the_daemon_is_silent(self):
        with Fake(None) as fake:
            watch = self.watch("--daemon", fake.address, "--timeout", "3600")
            end = time.monotonic() + PATIENCE
            while not fake.silent:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            watch.send_signal(signal.SIGINT)
            self.assertEqual(75, watch.wait(PATIENCE))

    def test_a_watch_tells_that_a_daemon_answers_again(self):
        page = http(json.dumps({"runs": [{"run": "r", "diagnosis": {"state": "stuck", "sentence": "why"}}]}))
        with Fake(b"", b"", page) as fake:
            watch = self.watch("--daemon", fake.address)
            self.assertIn("r: stuck: why", watch.stdout.readline())
            self.assertIn("did not reply", watch.stderr.readline())
            self.assertIn("a daemon answers again", watch.stderr.readline())
            watch.send_signal(signal.SIGTERM)
            self.assertEqual(2, watch.wait(PATIENCE))


if __name__ == "__main__":
    unittest.main()
