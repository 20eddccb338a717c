#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon with --tls: who may come, what he may do, and who may no more."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import ENVIRONMENT, Cluster, c10dd, credentials, ctl, until
from daemon import BIN, SLOWDOWN, Daemon, reserve_port
from networks import TwoNetworks
from tcpstore_wire import Client as Rank

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pytorch"))
from environments import DEBIAN, python_of  # noqa: E402

TRAINER = """
import os, sys, time, torch
import torch.distributed as dist
dist.init_process_group("gloo", init_method=sys.argv[1] or None)
x = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(x)
os.write(1, f"sum {x.item()}\\n".encode())
dist.barrier()
"""
HELLO = "import c10dd\nwith c10dd.connect(timeout=10) as client:\n    client.store.set('k', 'v'); print(client.store.get('k').decode())"


def text_of(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


class TlsTest(unittest.TestCase):
    options = ()

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory()) if hasattr(self, "enterContext") else tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.cluster = Cluster(self.folder, *self.options)
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.stop)

    def refusal(self, url=None, **variables):
        """The error of a client, which comes within seconds."""
        begin = time.monotonic()
        with credentials(**variables), self.assertRaises(c10dd.Error) as failed:
            c10dd.connect(url or self.cluster.url("llm-1"), timeout=60).close()
        self.assertLess(time.monotonic() - begin, 10 * SLOWDOWN)
        return str(failed.exception)


class WhoMayCome(TlsTest):
    def test_each_refusal_says_what_to_do(self):
        alice = self.cluster.token("alice", "llm-*")
        self.cluster.connect(alice).close()
        address = "%s:%d" % self.daemon.address
        self.assertEqual("this daemon asks for TLS and a token; set C10DD_TOKEN_FILE to a token of this cluster",
                         self.refusal())
        self.assertIn('"alice" may do nothing in job "vision"', self.refusal(self.cluster.url("vision"), TOKEN_FILE=alice))
        other = Cluster(os.path.join(self.folder, "other"))
        self.addCleanup(other.daemon.log.close)
        eve = other.token("eve")
        self.assertEqual(f"no TLS connection to the daemon at {address}: the daemon's certificate is not signed by a CA "
                         "that this client trusts; use a token of this cluster, or set C10DD_CA_FILE to its CA",
                         self.refusal(TOKEN_FILE=eve))
        own_ca = os.path.join(self.cluster.ca, "ca.crt")
        self.assertIn("is of another cluster's CA", self.refusal(TOKEN_FILE=eve, CA_FILE=own_ca))
        self.assertIn("C10DD_TOKEN_FILE: cannot read", self.refusal(TOKEN_FILE=alice + "x"))
        self.assertIn("C10DD_TOKEN: the token is not a JSON Web Token", self.refusal(TOKEN="abc"))
        self.assertIn(f"C10DD_TOKEN_FILE {own_ca}: the token", self.refusal(TOKEN_FILE=own_ca))
        self.assertIn("that this client trusts; set C10DD_CA_FILE to the ca.crt of this daemon, or leave it out",
                      self.refusal(TOKEN_FILE=alice, CA_FILE=os.path.join(other.ca, "ca.crt")))
        self.assertIn("this one sends no token", self.refusal(CA_FILE=own_ca))
        head, body, _ = text_of(alice).split(".")
        signature = text_of(self.cluster.token("bob")).split(".")[2]
        swapped = f"{head}.{body}.{signature}"
        self.assertIn("is not signed by a key that this daemon trusts", self.refusal(TOKEN=swapped))
        port = reserve_port()
        with Daemon(port=port):
            self.assertIn("the daemon does not speak TLS 1.2 or 1.3; start it with --tls",
                          self.refusal(f"c10dd://127.0.0.1:{port}/llm-1", TOKEN_FILE=alice))
        self.assertEqual(["llm-1"], [job["job"] for job in self.jobs()], "nobody else has made a job")
        for secret in (signature, body):
            self.assertFalse(secret in self.daemon.errors(), "the log has no token")

    def test_credentials_as_arguments_hold_for_the_proxy_too(self):
        token = pathlib.Path(self.cluster.token("alice", "llm-*"))
        own_ca = pathlib.Path(self.cluster.ca, "ca.crt")
        for number, given in enumerate(({"token_file": token}, {"token_file": str(token)}, {"token": text_of(token)},
                                        {"token_file": token, "ca_file": own_ca})):
            with credentials():
                client = c10dd.connect(self.cluster.url("llm-1"), timeout=20, **given)
            with client:
                client.store.set("k", "v")
                with contextlib.closing(client.open_proxy(run=f"r{number}")) as proxy:
                    rank = Rank.of_process(("127.0.0.1", proxy.port), 7)
                    self.assertEqual(1, rank.join())
                    rank.close()
        with self.assertRaisesRegex(c10dd.InvalidArgument, "both given"), credentials():
            c10dd.connect(self.cluster.url("llm-1"), token="a", token_file=token)
        with self.assertRaisesRegex(c10dd.InvalidArgument, "belong together"), credentials():
            c10dd.connect(self.cluster.url("llm-1"), cert_file=own_ca)

    def jobs(self):
        status, body = self.cluster.http("/v1/jobs", self.cluster.token("root", role="admin"))
        self.assertEqual(200, status, body)
        return json.loads(body)["jobs"]

    def test_plain_connections_get_a_sentence_in_their_protocol(self):
        status, body = self.daemon.http("/v1/jobs")
        self.assertEqual(401, status)
        self.assertIn("set C10DD_TOKEN_FILE", body)
        code, _, error = ctl("--daemon", "%s:%d" % self.daemon.address, "jobs")
        self.assertEqual(64, code)
        self.assertIn("this daemon asks for TLS and a token", error)

    def test_old_versions_of_tls_are_refused(self):
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            with socket.create_connection(self.daemon.address) as plain, self.assertRaises(ssl.SSLError):
                context.wrap_socket(plain)

    def test_the_four_lines_between_two_machines(self):
        networks = TwoNetworks()
        self.addCleanup(networks.go_home)
        folder = os.path.join(self.folder, "far")
        cluster = Cluster(folder, host="0.0.0.0")
        daemon = cluster.daemon.start()
        self.addCleanup(daemon.stop)
        url = f"c10dd://{networks.NEAR}:{daemon.address[1]}/llm-1"
        token = cluster.token("alice", "llm-*")
        self.maxDiff = None
        self.assertEqual((0, "v"), cluster.run(HELLO, token, url, *networks.in_far))
        code, out = cluster.run(HELLO, None, url, *networks.in_far)
        self.assertEqual(1, code)
        self.assertIn("set C10DD_TOKEN_FILE", out)


class WhatHeMayDo(TlsTest):
    def test_roles_over_both_protocols(self):
        tokens = {role: self.cluster.token(role, "llm-*", role) for role in ("viewer", "trainer", "admin")}
        root = self.cluster.token("root", "*", "admin")
        with self.cluster.connect(tokens["trainer"]) as trainer:
            trainer.store.set("k", "v")
            with self.cluster.connect(tokens["viewer"]) as viewer:
                self.assertEqual(b"v", viewer.store.get("k"))
                with self.assertRaises(c10dd.PermissionDenied) as refused:
                    viewer.store.set("k", "w")
                self.assertIn("ask for one with a higher role", str(refused.exception))
        expected = {"/v1/jobs/llm-1": (200, 200, 200, 200, 401), "/metrics": (403, 403, 403, 200, 401),
                    "/v1/daemons": (403, 403, 403, 200, 401), "/v1/jobs": (200, 200, 200, 200, 401),
                    "/v1/jobs/vision": (403, 403, 403, 404, 401), "/livez": (200,) * 5, "/readyz": (200,) * 5}
        for path, codes in expected.items():
            asked = tuple(self.cluster.http(path, token)[0] for token in (*tokens.values(), root, None))
            self.assertEqual(codes, asked, path)
        removals = [self.cluster.http("/v1/jobs/llm-1", token, "DELETE")[0] for token in (tokens["viewer"], tokens["trainer"])]
        self.assertEqual([403, 403], removals)
        self.assertEqual(200, self.cluster.http("/v1/jobs/llm-1", tokens["admin"], "DELETE")[0])
        until(lambda: 'event=acted principal="admin" method=DELETE path=/v1/jobs/llm-1 status=200' in self.daemon.errors())
        self.assertEqual(1, self.daemon.errors().count('event=admitted principal="trainer" job=llm-1'))


class SlowFiles(TlsTest):
    DELAY = 12  # seconds

    def test_a_file_system_that_hangs_holds_nobody_up(self):
        """strace lets each look at the certificate take long, as a server of files that does not answer does."""
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        strace = subprocess.Popen(
            ["strace", "-f", "-o", os.path.join(self.folder, "trace"), "-p", str(self.daemon.process.pid),
             "-P", os.path.join(self.cluster.files, "tls.crt"), "-e", f"inject=newfstatat:delay_enter={self.DELAY}s"],
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(strace.__exit__, None, None, None)
        self.addCleanup(strace.terminate)
        if "attached" not in strace.stderr.readline():
            self.skipTest("strace may not look into processes here")
        slowest = 0
        with self.cluster.connect(self.cluster.token("alice")) as client:
            self.daemon.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + self.DELAY - 1
            while time.monotonic() < end:
                begin = time.monotonic()
                client.store.add("n", 1)
                slowest = max(slowest, time.monotonic() - begin)
                time.sleep(0.05)  # 20 calls a second are enough to notice a stall
            self.assertIn("could not be looked at for", self.cluster.http("/readyz")[1])
        self.assertLess(slowest, self.DELAY / 4)
        self.assertNotIn("event=access_reloaded", self.daemon.errors())
        self.assertNotIn("event=refused", self.daemon.errors(), "who asks for /readyz needs no token")


class MetricsAddress(TlsTest):
    def setUp(self):
        self.port = reserve_port()
        self.options = ("--listen-metrics", f"127.0.0.1:{self.port}")
        super().setUp()

    def test_serves_health_and_metrics_to_everybody_and_nothing_else(self):
        plain = Daemon()
        plain.address = ("127.0.0.1", self.port)
        self.addCleanup(plain.log.close)
        self.assertEqual(200, plain.http("/livez")[0])
        self.assertEqual(200, plain.http("/readyz")[0])
        status, text = plain.http("/metrics")
        self.assertEqual(200, status)
        ends = [line for line in text.splitlines() if line.startswith("c10dd_certificate_expiry_seconds ")]
        self.assertEqual(1, len(ends), text)
        before = self.counted("c10dd_authentications_total", plain)
        with self.cluster.connect(self.cluster.token("alice")) as client:
            client.store.set("k", "v")
        self.assertEqual(401, self.cluster.http("/v1/jobs")[0])
        after = self.counted("c10dd_authentications_total", plain)
        self.assertEqual({"ok": 1, "unauthenticated": 1}, {name: after[name] - before.get(name, 0) for name in after})
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: self.counted("c10dd_access_reloads_total", plain) == {"ok": 1})
        self.assertGreater(float(ends[0].split()[1]), time.time() + 300 * 86400)
        for path in ("/", "/v1/jobs", "/v1/version"):
            status, text = plain.http(path)
            self.assertEqual(404, status)
            self.assertIn("this address serves only /livez, /readyz and /metrics", text)
        with self.assertRaises(c10dd.Error), credentials():
            c10dd.connect(f"c10dd://127.0.0.1:{self.port}/llm-1", timeout=2)


    @staticmethod
    def counted(metric, plain):
        """The values of a metric by its only label, the outcome."""
        return {found[1]: int(found[2]) for found in re.finditer(metric + r'\{outcome="(\w+)"\} (\d+)', plain.http("/metrics")[1])}


class Checkpoint(TlsTest):
    def test_needs_the_token_of_an_admin(self):
        self.daemon.stop()
        self.cluster.daemon.command[4] = f"rocksdb:{self.folder}/state"
        self.daemon = self.cluster.daemon.start()
        copy = os.path.join(self.folder, "copy")
        ask = [os.path.join(BIN, "c10dd"), "--listen", "%s:%d" % self.daemon.address, "--tls", self.cluster.files, "--checkpoint", copy]
        for token, code, sentence in ((None, 64, "set C10DD_TOKEN_FILE"), (self.cluster.token("alice"), 64, "needs the role admin"),
                                      (self.cluster.token("root", role="admin"), 0, "checkpoint written to " + copy)):
            environment = {"PATH": os.environ["PATH"], **({"C10DD_TOKEN_FILE": token} if token else {})}
            done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=60, env=environment)
            self.assertEqual(code, done.returncode, done.stderr)
            self.assertIn(sentence, done.stdout + done.stderr)


class Revocation(TlsTest):
    def setUp(self):
        self.grants = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(self.grants.close)
        self.options = ("--grants", self.grants.name)
        super().setUp()

    def test_a_revoked_token_ends_its_sessions_and_no_others(self):
        alice, bob = self.cluster.token("alice"), self.cluster.token("bob")
        with self.cluster.connect(alice) as hers, self.cluster.connect(bob) as his:
            hers.store.set("k", "v")
            self.grants.write('revoked = ["alice"]\n')
            self.grants.flush()
            self.daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "the token is revoked" in self.daemon.errors())
            his.store.set("k", "w")
            self.assertEqual((1, 0), (his.stats().connects, his.stats().failures))
            with self.assertRaisesRegex(c10dd.TimedOut, "has refused this client for .*the token is revoked"):
                hers.store.get("k", 1)
            self.assertEqual("the token is revoked; ask for a new one (c10ddctl ca token)", self.refusal(TOKEN_FILE=alice))
            self.grants.truncate(0)
            self.daemon.process.send_signal(signal.SIGHUP)
            self.assertEqual(b"w", hers.store.get("k", 20), "a client tries on")


class StockTrainers(unittest.TestCase):
    """PyTorch without any change on another machine, by the proxy on its node: no store is open to the network."""

    def setUp(self):
        self.python = python_of(DEBIAN)
        if self.python is None:
            self.skipTest("PyTorch 1.13.1 is not installed")
        self.networks = TwoNetworks()
        self.addCleanup(self.networks.go_home)
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        self.cluster = Cluster(folder, host="0.0.0.0", engine=f"rocksdb:{folder}/state")
        daemon = self.cluster.daemon.start()
        self.addCleanup(daemon.stop)
        self.address = f"{self.networks.NEAR}:{daemon.address[1]}"
        self.environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo", "C10DD_TOKEN_FILE": self.cluster.token("alice", "llm-*")}

    def start(self, *words, **variables):
        return subprocess.Popen([*self.networks.in_far, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**self.environment, **variables})

    def test_by_c10drun(self):
        with self.start(os.path.join(BIN, "c10drun"), "--daemon", self.address, "--job", "llm-1", "--nproc", "2", "--no-python",
                        "--", self.python, "-c", TRAINER, "") as launch:
            out = launch.communicate(timeout=60 * SLOWDOWN)[0]
        self.assertEqual((0, 2), (launch.returncode, out.count("sum 3.0")), out)

    def test_by_the_scheme(self):
        ranks = [self.start(self.python, "-c", "import c10dd.torch\n" + TRAINER, f"c10dd://{self.address}/llm-2", RANK=str(rank),
                            WORLD_SIZE="2") for rank in range(2)]
        for rank in ranks:
            out = rank.communicate(timeout=60 * SLOWDOWN)[0]
            self.assertEqual((0, 1), (rank.returncode, out.count("sum 3.0")), out)

    def test_the_daemon_dies_under_them(self):
        with self.start(os.path.join(BIN, "c10drun"), "--daemon", self.address, "--job", "llm-3", "--nproc", "2", "--no-python",
                        "--", self.python, "-c", TRAINER.replace("dist.all_reduce", "time.sleep(3); dist.barrier(); dist.all_reduce"),
                        "") as launch:
            until(lambda: "event=admitted" in self.cluster.daemon.errors())
            time.sleep(1.5)  # somewhere in the three seconds of the ranks, or while they start: both must go on
            self.cluster.daemon.kill()
            self.cluster.daemon.start()
            out = launch.communicate(timeout=90 * SLOWDOWN)[0]
        self.assertEqual((0, 2), (launch.returncode, out.count("sum 3.0")), out)


if __name__ == "__main__":
    unittest.main()
