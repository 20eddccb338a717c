#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The options that say who may come: with each set of them the daemon starts, or ends with code 64 and one sentence that names
the option and the cure. And where it listens."""
import os
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

from cluster import VARIABLES, Cluster
from daemon import BIN, Daemon, reserve_port
from foreign import read, write
from networks import TwoNetworks
from redis_server import Redis

ANYWHERE = "0.0.0.0:0"
REMOTE = "192.0.2.1"  # an address of nobody


class Options(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.cluster = self.made_cluster("cluster")
        self.tls = ("--tls", self.cluster.files)

    def made_cluster(self, name):
        cluster = Cluster(self.path(name))
        self.addCleanup(cluster.daemon.log.close)
        return cluster

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        return write(self.path(name), text.encode())

    def files(self, name, others=(), mode=0o600):
        """A folder for --tls, in which some files are others."""
        folder = shutil.copytree(self.cluster.files, self.path(name))
        for file in others:
            shutil.copy(file, folder)
        os.chmod(os.path.join(folder, "tls.key"), mode)
        return folder

    def starts(self, *options, variables=None):
        """Starts a daemon. Returns what /readyz says."""
        with Daemon(*options, environment=self.environment(variables)) as daemon:
            daemon.address = ("127.0.0.1", daemon.address[1])
            if "--listen-metrics" in options:
                with urllib.request.urlopen(f"http://{options[-1]}/livez", timeout=10) as answer:
                    self.assertEqual(200, answer.status)
            ask = daemon.http
            if "--tls" in options:
                self.cluster.daemon.address, ask = daemon.address, self.cluster.http
            self.assertEqual(200, ask("/livez")[0])
            return ask("/readyz")[1]

    @staticmethod
    def environment(variables):
        clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        return {**clean, **(variables or {})}

    def refused(self, named, cure, *options, **variables):
        with self.subTest(options=options, variables=variables):
            code, error = Daemon(environment=self.environment(variables)).refusal(*options)
            self.assertEqual(64, code, error)
            self.assertEqual(1, error.strip().count("\n") + 1, error)
            self.assertTrue(error.startswith("c10dd: " + named), error)
            self.assertIn(cure, error)
            self.assertLess(len(error), 500)


class OnThisMachine(Options):
    def test_sets_that_a_daemon_starts_with(self):
        redis = Redis(self.folder)
        encrypted = Redis(self.folder, "--appendfilename", "tls.aof", tls=self.cluster.files)
        ca = os.path.join(self.cluster.files, "ca.crt")
        second = self.made_cluster("second")
        both = write(self.path("ca.crt"), b"".join(read(os.path.join(one.files, "ca.crt")) for one in (self.cluster, second)))
        metrics = ("--listen-metrics", f"127.0.0.1:{reserve_port()}")
        with redis, encrypted:
            for options in (
                    (), self.tls, metrics, (*self.tls, *metrics), (*self.tls, "--tcpstore-from", "10.0.0.0/8,192.168.1.7"),
                    (*self.tls, "--grants", self.file("empty.toml", "")), ("--tls", self.files("group", mode=0o640)),
                    ("--tls", self.files("two-cas", [both])), ("--allow-insecure-redis",), (*self.tls, "--protocols", "native,http"),
                    (*self.tls, "--engine", f"redis://127.0.0.1:{redis.port}"),
                    (*self.tls, "--engine", f"rediss://127.0.0.1:{encrypted.port}", "--redis-ca", ca)):
                with self.subTest(options=options):
                    self.assertNotIn("without TLS", self.starts(*options))
            self.assertIn("connections without TLS are served, too", self.starts(*self.tls, "--allow-insecure-listen"))

    def test_folders_of_tls_that_cannot_be_used(self):
        other = self.made_cluster("other")
        empty, file = self.path("empty"), self.file("file", "")
        os.mkdir(empty)
        for named, cure, folder in (
                ("--tls: " + self.path("none"), "make one with c10ddctl ca init", self.path("none")),
                ("--tls: " + file, "make one with c10ddctl ca init", file),
                (f"--tls: {empty}/tls.crt", "cannot read this file", empty),
                ("--tls: " + self.cluster.ca, f"use {self.cluster.files}", self.cluster.ca),
                ("--tls: the value is empty", "give a path, or leave it out", ""),
                ("--tls: ", "every user may read this key; run chmod o-rwx", self.files("open", mode=0o644)),
                ("--tls: ", "does not belong to the first certificate",
                 self.files("other-key", [os.path.join(other.files, "tls.key")])),
                ("--tls: ", "add the certificate of the CA that has, or use files that belong together",
                 self.files("other-ca", [os.path.join(other.files, "ca.crt")])),
                ("--tls: ", "not of a CA", self.files("no-ca", [shutil.copy(os.path.join(other.files, "tls.crt"),
                                                                            self.path("ca.crt"))])),
                ("--tls: ", "use c10ddctl ca daemon", self.files("ca-as-daemon", [
                    shutil.copy(os.path.join(self.cluster.ca, f"ca.{end}"), self.path(f"tls.{end}")) for end in ("crt", "key")]))):
            self.refused(named, cure, "--tls", folder)
        pipe = self.files("pipe")
        os.remove(os.path.join(pipe, "ca.crt"))
        os.mkfifo(os.path.join(pipe, "ca.crt"))
        self.refused(f"--tls: {pipe}/ca.crt", "this is no regular file", "--tls", pipe)

    def test_grants_that_cannot_be_used(self):
        none = self.path("none.toml")
        self.refused("--grants needs --tls", "asks nobody", "--grants", none)
        self.refused("C10DD_GRANTS needs --tls", "asks nobody", C10DD_GRANTS=none)
        self.refused(f"--grants: {none}", "No such file", *self.tls, "--grants", none)
        self.refused("--grants: the value is empty", "leave it out", *self.tls, "--grants", "")
        self.refused(f"--grants: {self.folder}", "this is no regular file", *self.tls, "--grants", self.folder)
        broken = self.file("broken.toml", "[[grant]]\nwho = 'cert:spiffe://site/ops'\nrole = 'admin'\njob = ['*']\n")
        self.refused(f"--grants: grants {broken}:4: ", 'unknown key "job"; did you mean jobs?', *self.tls, "--grants", broken)
        issuer = self.file("issuer.toml", f"[[issuer]]\nname = 'k8s'\nissuer = 'i'\naudience = 'c10dd'\njwks = '{none}'\n")
        self.refused("--", none, *self.tls, "--grants", issuer)

    def test_addresses_and_servers_that_need_more(self):
        self.refused("--listen: 0.0.0.0 can be reached from other machines", "run c10ddctl ca init and add --tls DIR", "--listen",
                     ANYWHERE)
        self.refused("--listen: :: can be reached", "or accept the risk with --allow-insecure-listen", "--listen", "[::]:0")
        self.refused("--tcpstore-from: ", "10.0.0.0/8", "--tcpstore-from", "the-network")
        self.refused("--listen-metrics: ", "HOST:PORT", "--listen-metrics", "here")
        for engine in (f"redis://{REMOTE}:6379", f"redis+sentinel://127.0.0.1:26379,{REMOTE}:26379/m",
                       f"redis://:secret@{REMOTE}/127.0.0.1", "redis://127.0.0.1.example:6379"):
            self.refused("--engine: the rows of all jobs would travel to", "or accept the risk with --allow-insecure-redis",
                         *self.tls, "--engine", engine)
        self.refused("--redis-ca: the engine memory: does not use TLS", "use rediss:// or rediss+sentinel://", "--redis-ca",
                     self.path("none"))
        with Redis(self.folder, tls=self.cluster.files) as redis:
            for what, ca in (("cannot read the CA of Redis, ", self.path("none")), ("", self.file("junk.crt", "not PEM"))):
                self.refused(f"redis: 127.0.0.1:{redis.port}: {what}{ca}", "check --redis-ca", "--engine",
                             f"rediss://127.0.0.1:{redis.port}", "--redis-ca", ca)


class OnANetwork(Options):
    """In a network of its own, so that the port of a default start is free, and nobody else reaches the daemons."""

    def setUp(self):
        networks = TwoNetworks()
        self.addCleanup(networks.go_home)
        self.near = networks.NEAR
        super().setUp()

    @staticmethod
    def listened():
        """The addresses at which somebody listens."""
        out = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True, check=True).stdout
        return sorted(line.split()[3] for line in out.splitlines())

    def listens(self, *options):
        daemon = Daemon(environment=self.environment(None))
        daemon.command = [os.path.join(BIN, "c10dd"), "--engine", "memory:", *options]
        with daemon:
            return self.listened()

    def test_a_default_start_listens_on_loopback_only(self):
        self.assertEqual([], self.listened())
        self.assertEqual(["127.0.0.1:29500"], self.listens())
        self.assertEqual(["[::1]:29500"], self.listens("--listen", "[::1]:29500"))
        self.assertLessEqual(set(self.listens("--listen", "localhost:29500")), {"127.0.0.1:29500", "[::1]:29500"})
        self.assertEqual(["127.0.0.1:29500", "127.0.0.1:29501"], self.listens("--listen-metrics", "127.0.0.1:29501"))
        self.assertEqual(["127.0.0.1:29500"], self.listens(*self.tls))
        self.assertEqual(["0.0.0.0:29500"], self.listens("--listen", "0.0.0.0:29500", *self.tls))
        self.assertEqual([], self.listened())

    def test_sets_that_a_daemon_starts_with(self):
        with Redis(self.folder, "--bind", self.near, "--protected-mode", "no") as redis:
            remote = ("--engine", f"redis://{self.near}:{redis.port}")
            for options in (("--listen", ANYWHERE, *self.tls), ("--listen", "[::]:0", *self.tls),
                            remote, (*self.tls, *remote, "--allow-insecure-redis"),
                            (*self.tls, "--listen-metrics", f"{self.near}:{reserve_port(self.near)}")):
                with self.subTest(options=options):
                    self.assertNotIn("without TLS", self.starts(*options))
            self.refused("--engine: ", "accept the risk with --allow-insecure-redis", *self.tls, *remote)
        self.starts("--listen", ANYWHERE, "--allow-insecure-listen")
        self.assertIn("without TLS", self.starts("--listen", ANYWHERE, *self.tls, "--allow-insecure-listen"))


if __name__ == "__main__":
    unittest.main()
