#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts and client certificates that others have made, by Debian's python3-jwt and
python3-cryptography: the good ones are accepted; each bad one is refused at once, in one sentence, and makes no job."""
import base64
import hashlib
import hmac
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request

from cluster import Cluster, c10dd, credentials, until
from daemon import BIN, SLOWDOWN, Daemon
from foreign import Foreign, read, write
from wire import Wire

ISSUER = "https://kubernetes.default.svc"
GRANTS = """revoked = []

[[issuer]]
name = "k8s"
issuer = "{issuer}"
audience = "c10dd"
jwks = "{jwks}"

[[grant]]
who = "k8s:system:serviceaccount:*:trainer"
role = "trainer"
jobs = ["{{1}}.*"]

[[grant]]
who = "cert:spiffe://site/ops"
role = "admin"
jobs = ["*"]
"""
MORE_AUDIENCES = """
[[issuer]]
name = "more"
issuer = "{issuer}"
audience = "ci"
jwks = "{more}"

[[issuer]]
name = "ci"
issuer = "{issuer}"
audience = "ci"
jwks = "{jwks}"

[[grant]]
who = "ci:bot"
role = "trainer"
jobs = ["ci.*"]

[[grant]]
who = "more:bot"
role = "trainer"
jobs = ["other.*"]
"""
MINUTE = 60
PATIENCE = 1 * SLOWDOWN


def part(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Case(unittest.TestCase):
    first_key = "ec"  # an RSA key takes its time

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.site = Foreign(os.path.join(self.folder, "site"))
        self.addCleanup(self.site.close)
        self.first, self.ec = self.site.key("first", self.first_key), self.site.key("second", "ec")
        self.jwks = self.site.jwks("k8s.json", first=self.first, second=self.ec)
        self.grants = write(os.path.join(self.folder, "grants.toml"), GRANTS.format(issuer=ISSUER, jwks=self.jwks).encode())
        self.cluster = Cluster(os.path.join(self.folder, "cluster"), "--grants", self.grants)
        self.addCleanup(self.cluster.daemon.log.close)
        self.trusted = os.path.join(self.cluster.ca, "ca.crt")
        self.cas = self.trusted, os.path.join(self.cluster.ca, "ca.key")

    def serve(self):
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.stop)
        self.root = self.cluster.token("root", role="admin")

    def jobs(self):
        return sorted(job["job"] for job in json.loads(self.cluster.http("/v1/jobs", self.root)[1])["jobs"])

    def works(self, job, **variables):
        with credentials(CA_FILE=self.trusted, **variables), c10dd.connect(self.cluster.url(job), timeout=20) as client:
            client.store.set("k", "v")
            self.assertEqual(b"v", client.store.get("k"))

    def refused(self, what, sentence, job="vision.1", **variables):
        """One sentence of the SDK, soon."""
        begin = time.monotonic()
        with credentials(CA_FILE=self.trusted, **variables), self.assertRaises(c10dd.Error, msg=what) as failed:
            c10dd.connect(self.cluster.url(job), connect_timeout=5).close()
        took, why = time.monotonic() - begin, str(failed.exception)
        self.assertLess(took, PATIENCE, f"{what}: {why}")
        self.assertIn(sentence, why, what)
        self.assertNotIn("\n", why, what)
        self.assertLess(len(why), 400, what)

    def token_refused(self, what, sentence, token, job="vision.1"):
        """By the SDK, by HTTP, and by the native protocol alone."""
        self.refused(what, sentence, job, TOKEN=token)
        file = write(os.path.join(self.folder, "shown.token"), token.encode())
        begin = time.monotonic()
        status, body = self.cluster.http(f"/v1/jobs/{job}", file)
        self.assertIn(status, (401, 403, 431), f"{what}: {body}")
        self.assertEqual(1, body.strip().count("\n") + 1, body)
        with Wire(self.daemon.address, tls=self.cluster.trust()) as wire:
            reply = wire.hello(job=job, credential=token)
            self.assertIn(reply.code, ("unauthenticated", "permission_denied", "too_large"), f"{what}: {reply}")
        self.assertLess(time.monotonic() - begin, PATIENCE, what)
        for text in token.split("."):
            self.assertFalse(len(text) > 20 and text in body + reply.detail + self.daemon.errors(), f"{what}: the token is shown")


class Tokens(Case):
    first_key = "rsa"

    def setUp(self):
        super().setUp()
        self.serve()

    def claims(self, namespace="vision", **others):
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": ["c10dd"], "sub": f"system:serviceaccount:{namespace}:trainer", "iat": now,
                  "nbf": now, "exp": now + 60 * MINUTE, "jti": "4d3e",
                  "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": "trainer", "uid": "1"}}, **others}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key=None, algorithm="RS256", kid="first", **claims):
        return self.site.token(key or self.first, self.claims(**claims), algorithm, kid)

    def test_good_ones_are_accepted(self):
        self.works("vision.1", TOKEN=self.token())
        self.works("vision.2", TOKEN=self.token(self.ec, "ES256", "second"))
        self.works("vision.3", TOKEN=self.token(kid=None))
        self.works("vision.4", TOKEN=self.token(aud="c10dd"))
        self.works("vision.5", TOKEN=self.token(aud=["vault", "c10dd"], nbf=None))
        self.works("speech.1", TOKEN=self.token(namespace="speech"))
        file = write(os.path.join(self.folder, "projected"), self.token().encode() + b"\n")
        self.works("vision.6", TOKEN_FILE=file)
        self.assertEqual(["speech.1", *(f"vision.{n}" for n in range(1, 7))], self.jobs())
        self.assertIn('event=admitted principal="k8s:system:serviceaccount:vision:trainer" job=vision.1',
                      self.daemon.errors())

    def test_bad_ones_are_refused_at_once_and_make_no_job(self):
        now = int(time.time())
        good = self.token()
        head, body, signature = good.split(".")
        other = self.site.key("other")
        swapped = part(b'{"alg":"HS256","typ":"JWT","kid":"first"}') + "." + body
        swapped += "." + part(hmac.digest(self.site.public(self.first).encode(), swapped.encode(), hashlib.sha256))
        untrusted, algorithm = "is not signed by a key", "by an algorithm other than ES256 and RS256"
        bad = {
            "expired": ("has expired", self.token(exp=now - 5 * MINUTE)),
            "not yet valid": ("not valid yet", self.token(nbf=now + 5 * MINUTE)),
            "for others": ('is not for audience "c10dd"', self.token(aud=["https://kubernetes.default.svc"])),
            "for nobody": ('is not for audience "c10dd"', self.token(aud=None)),
            "of another issuer": ("is of an issuer that this daemon does not know", self.token(iss="https://elsewhere")),
            "of no issuer": ("is of an issuer that this daemon does not know", self.token(iss=None)),
            "of our own issuer": ("lacks a member that c10ddctl writes", self.token(iss="c10dd")),
            "of no algorithm": (algorithm, self.site.token(None, self.claims(), "none")),
            "of no algorithm, with a signature": (algorithm, part(b'{"alg":"none"}') + f".{body}.{signature}"),
            "signed with the public key": (algorithm, swapped),
            "of a longer hash": (algorithm, self.token(algorithm="RS512")),
            "RS256 by name only": (untrusted, part(b'{"alg":"ES256","kid":"first"}') + f".{body}.{signature}"),
            "with another body": (untrusted, f"{head}.{part(json.dumps(self.claims(namespace='speech')).encode())}.{signature}"),
            "without a signature": (untrusted, f"{head}.{body}."),
            "cut in its signature": (untrusted, good[:-42]),
            "cut in its body": ("is not a JSON Web Token", good[:len(head) + 40]),
            "cut in two parts": ("is not a JSON Web Token", f"{head}.{body}"),
            "of a key that is in no set": (untrusted, self.token(other)),
            "of a key that has another's name": (untrusted, self.token(self.first, kid="second")),
            "without an end": ("never expires", self.token(exp=None)),
            "with an end that is no number": ("exp that is not a time", self.any_token(exp="tomorrow")),
            "of nobody": ("names nobody", self.token(sub=None)),
            "long": ("bytes, limit 8192", self.token(padding="x" * 48 * 1024)),
            "of an account without a grant": ("may do nothing in job", self.token(sub="system:serviceaccount:vision:other")),
        }
        self.assertGreater(len(bad["long"][1]), 64 * 1024)
        for what, (sentence, token) in bad.items():
            self.token_refused(what, sentence, token)
        self.assertEqual([], self.jobs())
        self.works("vision.1", TOKEN=good)

    def any_token(self, **claims):
        """What python3-jwt does not make: the daemon refuses the claims before it looks at the signature."""
        return ".".join(part(json.dumps(one).encode()) for one in ({"alg": "RS256", "kid": "first"}, self.claims(**claims), {}))

    def test_one_issuer_may_have_several_audiences_with_keys_and_grants_of_their_own(self):
        more = self.site.key("more", "ec")
        write(self.grants, (GRANTS.format(issuer=ISSUER, jwks=self.jwks) + MORE_AUDIENCES.format(
            issuer=ISSUER, jwks=self.jwks, more=self.site.jwks("more.json", more=more))).encode())
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "event=access_reloaded result=ok" in self.daemon.errors())
        self.works("vision.1", TOKEN=self.token())
        self.works("ci.1", TOKEN=self.token(aud="ci", sub="bot"))
        self.works("ci.2", TOKEN=self.token(aud=["c10dd", "ci"], sub="bot"))
        self.works("other.1", TOKEN=self.token(more, "ES256", "more", aud="ci", sub="bot"))
        self.token_refused("of the first audience", "may do nothing in job", self.token(sub="bot"), "ci.1")
        self.token_refused("of a third audience", 'is not for audience "c10dd" or "ci"', self.token(aud="vault"))
        self.token_refused("with the keys of another audience", "is not signed by a key", self.token(more, "ES256", "more"))
        self.assertEqual(["ci.1", "ci.2", "other.1", "vision.1"], self.jobs())

    def test_a_weak_key_beside_good_ones_is_left_out_and_named(self):
        weak, other, edwards = self.site.key("weak", "rsa1024"), self.site.key("ps", "rsa"), self.site.key("edwards", "ed25519")
        self.site.jwks("k8s.json", weak=weak, first=self.first, edwards=edwards)
        keys = json.loads(read(self.jwks))
        keys["keys"] += [{"kty": "RSA", "use": "enc"}, {**keys["keys"][1], "kid": "ps", "alg": "PS256"}, {"kty": "X"}]
        write(self.jwks, json.dumps(keys).encode())
        first = f"key 1 (kid weak) of {self.jwks} is left out: the RSA key has 1024 bits, but needs 2048 or more"

        def check():
            self.assertIn(first + " (and 3 more; event=key_left_out in the log names them)", self.cluster.http("/readyz")[1])
            for sentence in (first, f"key 3 (kid edwards) of {self.jwks} is left out: it does not sign by ES256 or RS256 (kty OKP "
                             "crv Ed25519)", f"key 5 (kid ps) of {self.jwks} is left out: it does not sign by ES256 or RS256 (kty RSA "
                             "alg PS256)", f"key 6 of {self.jwks} is left out: it does not sign by ES256 or RS256 (kty X)"):
                self.assertIn(f'event=key_left_out detail="{sentence}"', self.daemon.errors())
            self.works("vision.1", TOKEN=self.token())
            self.token_refused("of a weak key", "is not signed by a key", self.token(weak, kid="weak"))
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "event=access_reloaded result=ok" in self.daemon.errors())
        check()
        self.daemon.stop()
        self.daemon.start()
        check()
        self.site.jwks("k8s.json", weak=weak)
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "has no key that signs by ES256 or RS256; key 1 (kid weak)" in self.daemon.errors())
        self.works("vision.2", TOKEN=self.token())
        self.site.jwks("k8s.json", other=other, first=self.first)
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "left out" not in self.cluster.http("/readyz")[1])

    def test_a_401_says_how_to_come_in(self):
        def field(path="/v1/jobs", **fields):
            request = urllib.request.Request("https://%s:%d%s" % (*self.daemon.address, path), headers=fields)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=20, context=self.cluster.trust())
            return refused.exception.code, refused.exception.headers["WWW-Authenticate"]
        bare, invalid = 'Bearer realm="c10dd"', 'Bearer realm="c10dd", error="invalid_token"'
        self.assertEqual((401, bare), field())
        self.assertEqual((401, bare), field("/v1/jobs/vision.1", Authorization="Basic YTpi"))
        self.assertEqual((401, invalid), field(Authorization="Bearer abc"))
        self.assertEqual((401, invalid), field(Authorization="Bearer " + self.token(exp=int(time.time()) - 5 * MINUTE)))
        self.assertEqual((403, None), field("/v1/jobs/speech.1", Authorization="Bearer " + self.token()))

    def test_a_namespace_is_not_another_one_that_begins_as_it(self):
        self.works("a.1", TOKEN=self.token(namespace="a"))
        for namespace, job in (("a", "ab.1"), ("a", "a"), ("a", "b.a.1"), ("a.b", "a.b.1"), ("a.b", "a.1"), ("ab", "a.1"),
                               ("a*", "a*.1"), ("", ".1"), ("a:b", "a:b.1"), ("a:trainer", "a.1")):
            self.token_refused(f"{job} for {namespace}", "may do nothing in job", self.token(namespace=namespace), job)
        self.assertEqual(["a.1"], self.jobs())

    def test_a_set_that_cannot_be_used_changes_nothing(self):
        good, new = self.token(), self.site.key("new")
        with credentials(CA_FILE=self.trusted, TOKEN=good), c10dd.connect(self.cluster.url("vision.1"), timeout=20) as client:
            edwards = self.site.key("edwards", "ed25519")
            for n, broken in enumerate((read(self.site.jwks("unknown.json", e=edwards)), b'{"keys": []}', b"{", b"[]", b"")):
                write(self.jwks, broken)
                self.daemon.process.send_signal(signal.SIGHUP)
                until(lambda n=n: self.daemon.errors().count("event=access_reloaded result=refused") > n)
                self.assertIn("are not in force", self.cluster.http("/readyz")[1])
                client.store.set("k", str(n))
                self.works("vision.2", TOKEN=good)
            self.assertEqual((1, 0), (client.stats().connects, client.stats().failures))
            self.site.jwks("k8s.json", e=edwards, first=self.first, new=new)
            self.daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "event=access_reloaded result=ok" in self.daemon.errors())
            client.store.set("k", "v")
            self.assertEqual(1, client.stats().connects)
        self.works("vision.3", TOKEN=self.token(new, kid="new"))
        self.token_refused("of a key that is gone", "is not signed by a key", self.token(self.ec, "ES256", "second"))


class Certificates(Case):
    def shown(self, pair):
        return {"CERT_FILE": pair[0], "KEY_FILE": pair[1]}

    def test_one_that_a_grant_names_is_accepted_and_others_are_not(self):
        self.serve()
        ops = ["spiffe://site/ops"]
        self.works("vision.1", **self.shown(self.site.certificate("ops", self.cas, ops)))
        self.works("vision.1", **self.shown(self.site.certificate("second", self.cas, ["spiffe://site/other", *ops], ["host"])))
        bad = {
            "without a URI": (self.site.certificate("nameless", self.cas), "no grant names the certificate of this client"),
            "with the URI as a host": (self.site.certificate("host", self.cas, hosts=["site"]), "no grant names the certificate"),
            "of another URI": (self.site.certificate("other-uri", self.cas, [ops[0] + "/x"]), "no grant names the certificate"),
            "of the daemon": (tuple(os.path.join(self.cluster.files, "tls." + end) for end in ("crt", "key")),
                              "no grant names the certificate"),
        }
        for what, (pair, sentence) in bad.items():
            self.refused(what, sentence, **self.shown(pair))
        self.refused("with the key of another", "does not belong to the first certificate",
                     CERT_FILE=bad["without a URI"][0][0], KEY_FILE=bad["of another URI"][0][1])
        self.assertEqual(["vision.1"], self.jobs())

    def of_no_trust(self):
        """{what: (certificate and key, what is said of it)} of those that count as none."""
        ops, hour = ["spiffe://site/ops"], 3600
        return {
            "of another CA": (self.site.certificate("stranger", self.site.ca("other"), ops),
                              "is not signed by a CA that this daemon trusts"),
            "expired": (self.site.certificate("expired", self.cas, ops, begins=-2 * hour, ends=-hour), "has expired; renew it"),
            "not yet valid": (self.site.certificate("early", self.cas, ops, begins=hour, ends=2 * hour), "is not valid yet"),
            "for servers": (self.site.certificate("server", self.cas, ops, usage=["server"]), "is not one for a client"),
        }

    def test_one_that_is_not_trusted_counts_as_none(self):
        self.serve()
        for what, (pair, sentence) in self.of_no_trust().items():
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = self.cluster.trust()
                context.minimum_version = context.maximum_version = version
                context.load_cert_chain(*pair)
                said = self.daemon.errors().count(sentence)
                begin = time.monotonic()
                with Wire(self.daemon.address, tls=context) as wire:
                    reply = wire.hello(job="vision.1")
                self.assertEqual("unauthenticated", reply.code, what)
                self.assertIn(sentence, reply.detail)
                self.assertLess(time.monotonic() - begin, PATIENCE, what)
                until(lambda said=said, sentence=sentence: self.daemon.errors().count(sentence) > said)
                request = urllib.request.Request("https://%s:%d/v1/jobs" % self.daemon.address)
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=20, context=context)
                self.assertEqual(401, refused.exception.code)
                self.assertIn(sentence, refused.exception.read().decode())
        self.assertEqual([], self.jobs())

    def test_a_client_says_at_once_that_its_certificate_is_refused(self):
        self.serve()
        for what, (pair, sentence) in self.of_no_trust().items():
            self.refused(what, sentence, **self.shown(pair))

    def test_a_good_token_decides_beside_one_that_is_not_trusted(self):
        self.serve()
        alice = self.cluster.token("alice", "vision.*")
        for n, (what, (pair, _)) in enumerate(self.of_no_trust().items()):
            self.works(f"vision.{n}", TOKEN_FILE=alice, **self.shown(pair))
            self.refused(what, "is not a JSON Web Token", TOKEN="abc", **self.shown(pair))
            self.refused(what, "may do nothing in job", "speech.1", TOKEN_FILE=alice, **self.shown(pair))
        self.assertEqual([f"vision.{n}" for n in range(4)], self.jobs())

    def exit_of(self, sentence, *options):
        """A daemon that must not start."""
        try:
            done = subprocess.run([os.path.join(BIN, "c10dd"), "--listen", "127.0.0.1:0", "--engine", "memory:", *options],
                                  capture_output=True, text=True, timeout=5 * SLOWDOWN, check=False)
        except subprocess.TimeoutExpired:
            self.fail(f"it has started, and runs: {options}")
        self.assertEqual(64, done.returncode, done.stderr)
        self.assertEqual(1, done.stderr.strip().count("\n") + 1, done.stderr)
        self.assertIn(sentence, done.stderr)

    def test_one_of_a_client_is_none_for_a_daemon(self):
        self.none_for_a_daemon(("spiffe", {"uris": ["spiffe://site/ops"]}, "is not one for a server"),
                               ("nameless", {}, "is not one for a server"), ("unnamed", {"usage": ["server"]}, "names no host"),
                               ("late", {"hosts": ["localhost"], "usage": ["server"], "begins": -7200, "ends": -3600},
                                "has expired"))

    def test_one_for_clients_only_is_none_for_a_daemon(self):
        self.none_for_a_daemon(("clients", {"hosts": ["localhost"], "usage": ["client"]}, "tls.crt"))

    def none_for_a_daemon(self, *cases):
        for name, options, sentence in cases:
            pair = self.site.certificate(name, self.cas, **options)
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            for file, name in ((pair[0], "tls.crt"), (pair[1], "tls.key"), (self.trusted, "ca.crt")):
                shutil.copy(file, os.path.join(folder, name))
            self.exit_of(sentence, "--tls", folder)

    def test_files_that_cannot_be_used_are_named_with_their_line(self):
        lines = read(self.grants).decode().splitlines()
        for before, after, whole, sentence in (
                ('jobs = ["{1}.*"]', 'jobs = ["*.a"]', True, '"*.a" has a * that is not at the end'),
                ('jobs = ["{1}.*"]', 'jobs = ["{1}*"]', True, "{1}* would match the jobs of other principals"),
                ('role = "admin"', 'role = "root"', True, "its role must be viewer, trainer or admin"),
                ('role = "admin"', 'roles = "admin"', False, 'unknown key "roles"; did you mean role?'),
                ('audience = "c10dd"', 'audiences = "c10dd"', False, 'unknown key "audiences"; did you mean audience?'),
                ("revoked = []", "revoked = [1]", False, "revoked must be a list of strings")):
            at = lines.index(before)
            write(self.grants, "\n".join([*lines[:at], after, *lines[at + 1:]]).encode())
            if whole:  # an entry that is wrong as a whole is named by its first line
                at = max(n for n in range(at) if lines[n].startswith("[["))
            self.exit_of(f"grants {self.grants}:{at + 1}: {sentence}", "--tls", self.cluster.files, "--grants", self.grants)
        write(self.grants, "\n".join(lines).encode())
        for broken, sentence in ((read(self.site.jwks("x.json", e=self.site.key("e", "ed25519"))), "has no key that signs by"),
                                 (b"{}", "is not a JSON Web Key Set"), (b"", "is not a JSON Web Key Set"),
                                 (b'{"keys": [{"kty": "RSA", "n": "AA", "e": "AQAB"}]}', "key 1 of")):
            write(self.jwks, broken)
            self.exit_of(sentence, "--tls", self.cluster.files, "--grants", self.grants)


if __name__ == "__main__":
    unittest.main()
