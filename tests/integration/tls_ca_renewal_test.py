#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/security.md: the CA of two daemons is replaced under 50 clients with old tokens, new tokens and certificates,
who call all the time and connect anew all the time. None is refused, at no step. C10DD_CA_PAUSE is how many seconds each step is
watched."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import ENVIRONMENT, VARIABLES, Cluster, c10dd, ctl, made, until
from daemon import SLOWDOWN, Daemon
from foreign import Foreign, read, write
from redis_server import Redis

PAUSE = float(os.environ.get("C10DD_CA_PAUSE", "0.5"))
STAYS = 2 * SLOWDOWN  # seconds of a session
KINDS = {"old tokens": 20, "new tokens": 15, "certificates": 15}
GRANTS = '[[grant]]\nwho = "cert:spiffe://site/trainer"\nrole = "trainer"\njobs = ["llm-*"]\n'


def call_all_the_time(url, count):
    """A process of its own: clients that call over a session that stays, and over new connections, until the standard input ends.
    Then come the numbers and what has failed."""
    stop, failed, numbers = threading.Event(), [], {"calls": 0, "connects": 0}

    def call(number):
        while not stop.is_set():
            try:
                with c10dd.connect(url, timeout=20) as client:
                    end = time.monotonic() + STAYS
                    while time.monotonic() < end and not stop.wait(0.1):
                        client.store.add(f"{os.getpid()}/{number}", 1)
                        numbers["calls"] += 1
                        if number % 2:
                            with c10dd.connect(url, timeout=20) as other:
                                other.store.add(f"{os.getpid()}/{number}", 1)
                            numbers["connects"] += 1
                    stats = client.stats()
                    if stats.failures or stats.sessions_lost:
                        failed.append(str(stats))
                numbers["connects"] += 1
            except c10dd.Error as error:
                failed.append(str(error))
                stop.wait(0.2)
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"failed": failed, **numbers}))


class Renewal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.site = Foreign(self.path("site"))
        self.addCleanup(self.site.close)
        self.cluster = Cluster(self.path("cluster"))
        self.addCleanup(self.cluster.daemon.log.close)
        self.ca = self.cluster.ca
        self.names = ("first", "second")
        for name in self.names:
            made("ca", "daemon", self.ca, "--host", "127.0.0.1", "--out", self.path(name))
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        redis = self.stack.enter_context(Redis(self.folder))
        grants = write(self.path("grants.toml"), GRANTS.encode())
        self.fleet = [self.stack.enter_context(Daemon("--tls", self.path(name), "--grants", grants,
                                                      engine=f"redis://127.0.0.1:{redis.port}")) for name in self.names]
        self.token_files = [self.cluster.token(name, "llm-*", file=name) for name in ("a", "b")]
        self.root = self.cluster.token("root", role="admin")
        self.ca_file = write(self.path("trusted.crt"), read(os.path.join(self.ca, "ca.crt")))
        self.certificate = [self.path("client.crt"), self.path("client.key")]
        self.issue_certificate()
        self.pages, self.stop = {"ok": 0, "failed": []}, threading.Event()

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue_certificate(self):
        found = self.site.certificate(f"client{time.monotonic_ns()}", [os.path.join(self.ca, "ca.crt"), os.path.join(self.ca, "ca.key")],
                                      uris=["spiffe://site/trainer"])
        for path, new in zip(self.certificate, found):
            self.copy(new, path)

    def copy(self, source, to):
        """Replaces a file as a whole."""
        os.replace(write(to + ".new", read(source)), to)

    def start_callers(self, kind, **variables):
        url = "c10dd://" + ",".join("%s:%d" % daemon.address for daemon in self.fleet) + "/llm-1"
        clean = {name: value for name, value in ENVIRONMENT.items() if name not in VARIABLES}
        one = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--callers", url, str(KINDS[kind])],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**clean, **{"C10DD_" + name: value for name, value in variables.items()}})
        self.addCleanup(one.stdout.close)
        self.addCleanup(one.wait, 60)
        self.addCleanup(one.stdin.close)
        self.assertEqual("ready", one.stdout.readline().strip())
        return one

    def ask_all_the_time(self):
        """Pages of the job at each daemon, which asks the other one for them."""
        while not self.stop.wait(0.2):
            for daemon in self.fleet:
                code, _, error = ctl("--daemon", "%s:%d" % daemon.address, "job", "llm-1",
                                     environment={"C10DD_TOKEN_FILE": self.root})
                if code:
                    self.pages["failed"].append(error)
                else:
                    self.pages["ok"] += 1

    def wait_for_reload(self, number):
        count = self.reloads[number] + 1
        until(lambda: self.fleet[number].errors().count("event=access_reloaded result=ok") >= count)
        self.reloads[number] = self.fleet[number].errors().count("event=access_reloaded result=ok")

    def for_each_daemon(self, change):
        """One daemon after the other, as operators do."""
        self.reloads = [daemon.errors().count("event=access_reloaded result=ok") for daemon in self.fleet]
        for number, name in enumerate(self.names):
            change(self.path(name))
            self.fleet[number].process.send_signal(signal.SIGHUP)
            self.wait_for_reload(number)
            time.sleep(PAUSE)

    def renew_token(self, file):
        self.cluster.token(os.path.basename(file), "llm-*", file=os.path.basename(file))

    def note(self, daemon):
        self.cluster.daemon.address = daemon.address
        return self.cluster.http("/readyz")[1]

    def test_no_client_is_refused_at_any_step(self):
        old, new = self.token_files
        callers = {"old tokens": self.start_callers("old tokens", TOKEN_FILE=old),
                   "certificates": self.start_callers("certificates", CA_FILE=self.ca_file, CERT_FILE=self.certificate[0],
                                                      KEY_FILE=self.certificate[1])}
        asking = threading.Thread(target=self.ask_all_the_time)
        asking.start()
        self.addCleanup(asking.join)
        self.addCleanup(self.stop.set)
        time.sleep(PAUSE)
        made("ca", "renew", self.ca)
        self.assertNotEqual(0, ctl("ca", "renew", self.ca)[0], "it is being renewed already")
        time.sleep(PAUSE)
        self.for_each_daemon(lambda folder: self.copy(os.path.join(self.ca, "ca.crt"), os.path.join(folder, "ca.crt")))
        self.copy(os.path.join(self.ca, "ca.crt"), self.ca_file)
        self.renew_token(new)  # a step too early, which does no harm
        callers["new tokens"] = self.start_callers("new tokens", TOKEN_FILE=new)
        self.assertRegex(self.note(self.fleet[0]), "[0-9] principals show tokens of a former CA")
        time.sleep(PAUSE)
        self.for_each_daemon(lambda folder: made("ca", "daemon", self.ca, "--out", folder))
        self.renew_token(old)
        self.cluster.token("root", role="admin")
        self.issue_certificate()
        time.sleep(PAUSE + 2 * STAYS)  # each session is opened anew meanwhile
        made("ca", "renew", self.ca, "--finish")
        self.for_each_daemon(lambda folder: made("ca", "daemon", self.ca, "--out", folder))
        self.copy(os.path.join(self.ca, "ca.crt"), self.ca_file)
        self.assertNotIn("former CA", self.note(self.fleet[0]))
        time.sleep(PAUSE)
        self.stop.set()
        asking.join()
        results = {}
        for kind, one in callers.items():
            one.stdin.close()
            results[kind] = json.loads(one.stdout.readline())
        print("; ".join(f"{KINDS[kind]} clients with {kind}: {one['calls']} calls, {one['connects']} connects, "
                        f"{len(one['failed'])} failed" for kind, one in results.items()) +
              f"; {self.pages['ok']} pages, {len(self.pages['failed'])} failed")
        # A client tries again, so that its calls do not show each refusal.
        refused = [line for daemon in self.fleet for line in daemon.errors().splitlines()
                   if "event=refused" in line and "closed the connection" not in line]
        self.assertEqual([], refused)
        for kind, one in results.items():
            self.assertEqual([], one["failed"], kind)
            self.assertGreater(one["connects"], 10, kind)
        self.assertEqual([], self.pages["failed"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--callers"]:
        call_all_the_time(sys.argv[2], int(sys.argv[3]))
    else:
        unittest.main()
