#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files as sites make them, by openssl: certificates with the usage serverAuth only, as cert-manager's `usages: [server auth]`
gives, an intermediate CA as ca.crt, and a Secret of Kubernetes as the folder of --tls."""
import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import unittest
import urllib.request

from cluster import c10dd, credentials, ctl, made, until
from daemon import Daemon
from pki import Pki
from redis_server import Redis
from tcpstore_wire import Client as Rank

OPS = "spiffe://site/ops"
NO_CERTIFICATES = "revoked = []\n"
CERTIFICATES = f"""{NO_CERTIFICATES}
[[grant]]
who = "cert:{OPS}"
role = "admin"
jobs = ["*"]
"""


class Site(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chmod(self.folder, 0o755)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.pki = Pki(os.path.join(self.folder, "pki"))
        self.root = self.pki.ca("root")
        self.joined = 0

    def serve(self, ca, count=2):
        """Daemons of a fleet on a Redis with TLS, each with a certificate of this CA for servers only."""
        self.ca = ca
        self.ca_folder = self.pki.ca_folder("ca-folder", ca)
        self.token = self.token_of("alice", "trainer")
        self.admin = self.token_of("root", "admin")
        redis = self.stack.enter_context(
            Redis(self.folder, tls=self.pki.tls_folder("redis-tls", self.pki.certificate("redis", ca), ca)))
        self.grants = [self.write(f"grants-{n}.toml", NO_CERTIFICATES) for n in range(count)]
        self.fleet = [self.stack.enter_context(Daemon(
            "--lease", "1", "--redis-ca", ca[0], "--grants", self.grants[n],
            "--tls", self.pki.tls_folder(f"daemon-{n}", self.pki.certificate(f"of-{n}", ca), ca),
            engine=f"rediss://127.0.0.1:{redis.port}")) for n in range(count)]

    def token_of(self, name, role):
        path = os.path.join(self.folder, name + ".token")
        made("ca", "token", self.ca_folder, "--name", name, "--jobs", "*", "--role", role, "--ttl", "1h", "--out", path)
        return path

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def ask_for_certificates(self):
        """From now on all daemons ask their clients for certificates."""
        for daemon, path in zip(self.fleet, self.grants):
            with open(path, "w", encoding="ascii") as file:
                file.write(CERTIFICATES)
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda daemon=daemon: "event=access_reloaded result=ok" in daemon.errors())

    def page(self, daemon, path, token=None):
        context = ssl.create_default_context(cafile=self.ca[0])
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        fields = {}
        if token:
            with open(token, encoding="ascii") as file:
                fields["Authorization"] = "Bearer " + file.read().strip()
        request = urllib.request.Request("https://%s:%d%s" % (*daemon.address, path), headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def client(self, daemon, job, **variables):
        with credentials(**variables):
            return c10dd.connect("c10dd://%s:%d/%s" % (*daemon.address, job), timeout=20)

    def check_links(self, job):
        """The page of a job at each daemon, and TCPStore through each daemon to the one that owns its job."""
        with self.client(self.fleet[0], job, TOKEN_FILE=self.token) as client:
            client.store.set("k", "v")
            for daemon in self.fleet:
                answers = []

                def shown(daemon=daemon, answers=answers):
                    answers.append(self.page(daemon, f"/v1/jobs/{job}", self.token))
                    return answers[-1][0] == 200
                try:
                    until(shown, 5)
                except AssertionError:
                    self.fail(f"the page of {job} at {daemon.address}: {answers[-1]}")
        with contextlib.ExitStack() as ranks:
            for n, daemon in enumerate(self.fleet):
                rank = ranks.enter_context(contextlib.closing(Rank.of_process(daemon.address, 70 + n)))
                self.joined += 1
                self.assertEqual(self.joined, rank.join())
        for daemon in self.fleet:
            self.assertNotIn("no TLS connection", self.page(daemon, "/readyz")[1])
            self.assertNotIn("event=not_passed_on", daemon.errors())


class ServersOnly(Site):
    def test_daemons_reach_each_other_whether_or_not_they_ask_for_certificates(self):
        self.serve(self.root)
        self.check_links("llm-1")
        self.ask_for_certificates()
        self.check_links("llm-2")
        ops = self.pki.certificate("ops", self.root, ("clientAuth",), ["URI:" + OPS])
        with self.client(self.fleet[1], "llm-1", CA_FILE=self.root[0], CERT_FILE=ops[0], KEY_FILE=ops[1]) as client:
            self.assertEqual(b"v", client.store.get("k"), "clients are asked for a certificate")
        for daemon in self.fleet:  # the daemon's own, which is none of a client
            folder = os.path.dirname(self.pki.tls_folder(f"own-{daemon.address[1]}", self.pki.certificate("own", self.root), self.root))
            with self.assertRaises(c10dd.Error) as failed:
                self.client(daemon, "llm-1", CA_FILE=self.root[0], CERT_FILE=os.path.join(folder, "own.crt"),
                            KEY_FILE=os.path.join(folder, "own.key")).close()
            self.assertIn("the client's certificate is not one for a client; issue it with the usage clientAuth, or set "
                          "C10DD_TOKEN_FILE", str(failed.exception))

    def test_a_daemon_that_another_one_does_not_believe_is_named_in_readyz(self):
        self.serve(self.root, 1)
        other = self.pki.ca("other")
        stranger = self.stack.enter_context(Daemon(
            "--lease", "1", "--redis-ca", self.root[0], "--tls", self.pki.tls_folder("strange", self.pki.certificate("odd", other), other),
            engine=self.fleet[0].command[self.fleet[0].command.index("--engine") + 1]))
        self.ca_folder = self.pki.ca_folder("other-folder", other)
        with self.client(stranger, "llm-1", TOKEN_FILE=self.token_of("eve", "trainer")) as client:
            client.store.set("k", "v")
            until(lambda: self.page(self.fleet[0], "/v1/jobs/llm-1", self.admin)[0] == 502)
            note = "no TLS connection to the daemon at %s:%d: the daemon's certificate is not signed by a CA that the daemon that " \
                   "has connected trusts; give both daemons a ca.crt with the CAs of both" % stranger.address
            self.assertIn(note, self.page(self.fleet[0], "/readyz")[1])


class AnIntermediateCa(Site):
    def test_is_enough_as_the_ca_file_of_everybody(self):
        intermediate = self.pki.ca("intermediate", self.root)
        self.serve(intermediate)
        self.check_links("llm-1")
        self.ask_for_certificates()
        self.check_links("llm-2")
        first, second = self.fleet
        ops = self.pki.certificate("ops", intermediate, ("clientAuth",), ["URI:" + OPS])
        shown, runs = {"CERT_FILE": ops[0], "KEY_FILE": ops[1]}, 0
        for daemon in self.fleet:
            for variables in ({"TOKEN_FILE": self.token}, {"TOKEN_FILE": self.token, "CA_FILE": intermediate[0]},
                              {**shown, "CA_FILE": intermediate[0]}):
                runs += 1
                with credentials(**variables), c10dd.connect("c10dd://%s:%d/llm-1" % daemon.address, timeout=20) as client:
                    self.assertEqual(b"v", client.store.get("k"))
                    with contextlib.closing(client.open_proxy(run=f"r{runs}")) as proxy, \
                            contextlib.closing(Rank.of_process(("127.0.0.1", proxy.port), 7)) as rank:
                        self.assertEqual(1, rank.join())
        for variables in ({"C10DD_TOKEN_FILE": self.token}, {"C10DD_TOKEN_FILE": self.token, "C10DD_CA_FILE": intermediate[0]}):
            code, out, error = ctl("--daemon", "%s:%d" % second.address, "jobs", environment=variables)
            self.assertEqual((0, ""), (code, error))
            self.assertIn("llm-1", out)
        with self.assertRaises(c10dd.Error) as failed:
            self.client(first, "llm-1", TOKEN_FILE=self.token, CA_FILE=self.pki.ca("another")[0]).close()
        self.assertIn("is not signed by a CA that this client trusts; set C10DD_CA_FILE to the ca.crt of this daemon",
                      str(failed.exception))
        with self.client(first, "llm-1", TOKEN_FILE=self.token, CA_FILE=self.root[0]) as client:
            self.assertEqual(b"v", client.store.get("k"), "the daemon shows the intermediate CA, and the root stands above it")


class Secret:
    """A Secret as Kubernetes mounts it: each file is a link through ..data to the newest version."""

    def __init__(self, path, group):
        self.path, self.group = path, group
        os.makedirs(path)
        self.versions = 0

    def hold(self, folder, mode, names):
        """A new version, which takes the place of the last one at once."""
        self.versions += 1
        version = f"..2026_{self.versions}"
        os.makedirs(os.path.join(self.path, version))
        for name in names:
            to = os.path.join(self.path, version, name)
            shutil.copy(os.path.join(folder, name), to)
            os.chown(to, 0, self.group)
            os.chmod(to, mode)
            if not os.path.islink(os.path.join(self.path, name)):
                os.symlink("..data/" + name, os.path.join(self.path, name))
        os.symlink(version, os.path.join(self.path, "..data_tmp"))
        os.rename(os.path.join(self.path, "..data_tmp"), os.path.join(self.path, "..data"))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv, to serve as another user")
class ASecret(Site):
    USER, GROUP = 65534, 2026
    NAMES = ("tls.crt", "tls.key", "ca.crt")

    def daemon(self, secret, *groups):
        """A daemon of a Pod: another user, in the group of fsGroup; the Secret is mounted read-only."""
        daemon = Daemon("--tls", secret.path)
        inside = ' && '.join(('mount --bind "$0" "$0"', 'mount -o remount,ro,bind "$0"',
                              f'exec setpriv --reuid {self.USER} --regid {self.USER} --groups {",".join(map(str, groups))} "$@"'))
        daemon.command = ["unshare", "-m", "sh", "-c", inside, secret.path, *daemon.command]
        return daemon

    def files(self, name):
        return self.pki.tls_folder(name, self.pki.certificate(name, self.root), self.root)

    def test_is_served_with_the_modes_that_the_page_names_and_refused_with_them(self):
        probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest("this user may not mount")
        secret = Secret(os.path.join(self.folder, "secret"), self.GROUP)
        secret.hold(self.files("first"), 0o644, self.NAMES)
        key = os.path.join(secret.path, "tls.key")
        code, error = self.daemon(secret, self.GROUP).refusal()
        self.assertEqual(64, code, error)
        self.assertIn(f"{key}: every user may read this key; run chmod o-rwx {key}; if it is of a Kubernetes Secret, give the volume "
                      "defaultMode: 0440, and the Pod's securityContext fsGroup", error)
        secret.hold(self.files("second"), 0o440, self.NAMES)
        code, error = self.daemon(secret, self.USER).refusal()
        self.assertEqual(64, code, error)
        self.assertIn(f"cannot read this file: Permission denied; let user {self.USER} read it, in Kubernetes by fsGroup in the Pod's "
                      "securityContext", error)
        with self.daemon(secret, self.GROUP) as daemon:
            for name in ("third", "fourth"):
                before = ssl.get_server_certificate(daemon.address)
                secret.hold(self.files(name), 0o440, self.NAMES)
                daemon.process.send_signal(signal.SIGHUP)
                until(lambda before=before: ssl.get_server_certificate(daemon.address) != before)
            self.assertEqual(2, daemon.errors().count("event=access_reloaded result=ok"))
            secret.hold(self.files("fifth"), 0o644, self.NAMES)
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "defaultMode: 0440" in daemon.errors())

    def test_of_a_trainer_has_the_same_modes(self):
        self.serve(self.root, 1)
        self.ask_for_certificates()
        folder = os.path.join(self.folder, "of-trainer")
        os.makedirs(folder)
        for path, name in zip(self.pki.certificate("ops", self.root, ("clientAuth",), ["URI:" + OPS]), self.NAMES):
            shutil.copy(path, os.path.join(folder, name))
        secret = Secret(os.path.join(self.folder, "secret"), self.GROUP)
        shown = {"CERT_FILE": os.path.join(secret.path, "tls.crt"), "KEY_FILE": os.path.join(secret.path, "tls.key"),
                 "CA_FILE": self.root[0]}
        secret.hold(folder, 0o644, self.NAMES[:2])
        with self.assertRaises(c10dd.Error) as failed:
            self.client(self.fleet[0], "llm-1", **shown).close()
        self.assertIn("C10DD_KEY_FILE: every user may read the key", str(failed.exception))
        self.assertIn("defaultMode: 0440", str(failed.exception))
        secret.hold(folder, 0o440, self.NAMES[:2])
        with self.client(self.fleet[0], "llm-1", **shown) as client:
            client.store.set("k", "v")


if __name__ == "__main__":
    unittest.main()
