#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons of a fleet with --tls, on a Redis with TLS: redirects, takeovers, requests and connections that they pass on, and a token
for all of them."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster, c10dd, credentials, ctl, until
from daemon import Daemon
from fleet_test import Fleet
from networks import TwoNetworks
from redis_server import Redis
from tcpstore_wire import Client as Rank


GET = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=10)"


class OverTls(Fleet):
    daemons = 3

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.cluster = Cluster(os.path.join(self.folder, "cluster"))
        self.addCleanup(self.cluster.daemon.log.close)
        redis = self.stack.enter_context(Redis(self.folder, tls=self.cluster.files))
        self.engine = f"rediss://127.0.0.1:{redis.port}"
        self.fleet = [self.stack.enter_context(self.of("--tls", self.cluster.files)) for _ in range(self.daemons)]

    def of(self, *options):
        return Daemon(*self.options, "--redis-ca", os.path.join(self.cluster.files, "ca.crt"), *options, engine=self.engine)

    def ask(self, daemon, path, token, method="GET"):
        self.cluster.daemon.address = daemon.address
        return self.cluster.http(path, token, method)

    def client(self, token, job, *daemons):
        url = "c10dd://" + ",".join("%s:%d" % daemon.address for daemon in daemons) + "/" + job
        with credentials(TOKEN_FILE=token):
            return c10dd.connect(url, timeout=30)

    def test_clients_follow_their_job_and_survive_its_daemon(self):
        first, second, _ = self.fleet
        alice = self.cluster.token("alice", "llm-*")
        with self.client(alice, "llm-1", *self.fleet) as one, self.client(alice, "llm-1", second) as other:
            one.store.set("k", "v")
            self.assertEqual(b"v", other.store.get("k"), "it was redirected to the owner")
            first.kill()
            one.store.set("k", "w")
            self.assertEqual(b"w", other.store.get("k", 30))

    def test_requests_are_answered_at_each_daemon_and_a_job_moves_by_token(self):
        first, second, third = self.fleet
        alice, root = self.cluster.token("alice", "llm-*"), self.cluster.token("root", role="admin")
        with self.client(alice, "llm-1", first) as client:
            client.store.set("k", "v")
            for asked in self.fleet:
                self.wait_for("the page", lambda asked=asked: self.ask(asked, "/v1/jobs/llm-1", alice)[0] == 200)
                self.assertEqual(403, self.ask(asked, "/v1/jobs/other", alice)[0])
            listed = json.loads(self.ask(second, "/v1/daemons", root)[1])["daemons"]
            self.assertEqual(3, len(listed))
            self.assertEqual(409, self.ask(second, "/v1/jobs/llm-1", root, "DELETE")[0], "a session is connected")
        moved = ctl("--daemon", "%s:%d" % second.address, "move", "llm-1", "%s:%d" % third.address,
                    environment={"C10DD_TOKEN_FILE": root})
        self.assertEqual(0, moved[0], moved)
        self.wait_for("the removal", lambda: self.ask(second, "/v1/jobs/llm-1", root, "DELETE")[0] == 200)

    def test_stock_trainers_of_the_same_machine_reach_their_run_at_each_daemon(self):
        ranks = [Rank.of_process(daemon.address, 70 + n) for n, daemon in enumerate(self.fleet)]
        for rank in ranks:
            self.addCleanup(rank.close)
        self.assertEqual([1, 2, 3], [rank.join() for rank in ranks])

    def test_a_daemon_says_that_the_others_will_not_believe_its_certificate(self):
        odd = self.stack.enter_context(self.of("--tls", self.cluster.files, "--advertise", "elsewhere:29500"))
        sentence = ("the certificate of this daemon is not for elsewhere, so other daemons cannot pass requests on to it; issue one "
                    "that is (c10ddctl ca daemon --host elsewhere)")
        self.assertIn(sentence, self.ask(odd, "/readyz", None)[1])
        self.assertIn("event=certificate_lacks_host", odd.errors())
        self.assertNotIn("certificate", self.ask(self.fleet[0], "/readyz", None)[1])

    def test_a_daemon_of_another_ca_is_not_believed(self):
        other = Cluster(os.path.join(self.folder, "other"))
        self.addCleanup(other.daemon.log.close)
        stranger = self.stack.enter_context(self.of("--tls", other.files))
        with self.client(other.token("eve"), "llm-2", stranger) as client:
            client.store.set("k", "v")
            root = self.cluster.token("root", role="admin")
            self.wait_for("the owner", lambda: self.ask(self.fleet[0], "/v1/jobs/llm-2", root)[0] == 502)
            self.assertIn("is not signed by a CA", self.ask(self.fleet[0], "/v1/jobs/llm-2", root)[1])


class WhileAClusterMovesOver(unittest.TestCase):
    """--allow-insecure-listen beside --tls: clients without TLS on other machines are served, too."""

    def test_a_plain_request_is_answered_at_each_daemon(self):
        networks = TwoNetworks()
        self.addCleanup(networks.close)
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            cluster = Cluster(folder, hosts=(networks.NEAR,))
            self.addCleanup(cluster.daemon.log.close)
            engine = f"redis://127.0.0.1:{stack.enter_context(Redis(folder)).port}"
            first, second = (stack.enter_context(Daemon("--tls", cluster.files, "--allow-insecure-listen", "--lease", "2",
                                                        engine=engine, host=networks.NEAR)) for _ in range(2))
            cluster.daemon.address = first.address
            with cluster.connect(cluster.token("alice")) as client:
                client.store.set("k", "v")
                for daemon in (first, second):
                    url = "http://%s:%d/v1/jobs/llm-1" % daemon.address
                    until(lambda url=url: subprocess.run([*networks.in_far, sys.executable, "-c", GET, url], check=False,
                                                         capture_output=True).returncode == 0)


if __name__ == "__main__":
    unittest.main()
