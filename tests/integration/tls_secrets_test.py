#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No token, key, password or value comes out of a daemon with --tls: not in its log, its pages, its metrics, its errors or its
command line, and not in what c10ddctl prints. And a real Prometheus scrapes it over TLS with a token."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

from cluster import Cluster, c10dd, credentials, ctl, until
from daemon import BIN, SLOWDOWN, reserve_port
from redis_server import redis_server
from wire import REMOVE, Wire, text

PASSWORD = "Rosebud-of-the-engine-41"
VALUE = "Marzipan-that-only-the-trainers-know"
FORGED_BODY, FORGED_SIGNATURE = "eyJpc3MiOiJmb3JnZWQtYnktbWFsbG9yeSJ9", "Zm9yZ2VkLXNpZ25hdHVyZS1vZi1tYWxsb3J5LTEyMzQ1Njc4OTA"
SHORTEST = 20  # bytes of a line of a key that count as a secret


def content(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def lines_of_key(path):
    """The lines of a private key, and parts of them: an error that shows a part shows too much."""
    for line in content(path).splitlines():
        if len(line) > SHORTEST and not line.startswith("-----"):
            yield from (line[:SHORTEST], line[-SHORTEST:])


class Secrets(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        redis = redis_server(self.folder, PASSWORD)
        self.redis_port, self.redis = redis.__enter__()
        self.addCleanup(redis.__exit__, None, None, None)
        self.grants = os.path.join(self.folder, "grants.toml")
        self.write(self.grants, 'revoked = ["mallory"]\n')
        # The password is in a variable: everybody sees a command line.
        engine = f"redis://:{PASSWORD}@127.0.0.1:{self.redis_port}/secrets"
        self.cluster = Cluster(os.path.join(self.folder, "cluster"), "--grants", self.grants, "--log-level", "trace",
                               environment={**os.environ, "C10DD_ENGINE": engine})
        at = self.cluster.daemon.command.index("--engine")
        del self.cluster.daemon.command[at:at + 2]
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)
        self.files = {name: os.path.join(self.cluster.files, name) for name in ("tls.crt", "tls.key", "ca.crt")}
        self.tokens = {role: self.cluster.token(role, "*" if role == "admin" else "llm-*", role)
                       for role in ("viewer", "trainer", "admin")}
        self.tokens["mallory"] = self.cluster.token("mallory", "llm-*")
        self.forged = content(self.tokens["trainer"]).split(".")[0] + f".{FORGED_BODY}.{FORGED_SIGNATURE}"
        self.said = {}  # where: what was said there

    @staticmethod
    def write(path, data):
        with open(path, "w", encoding="ascii") as file:
            file.write(data)

    def secrets(self):
        """{what: text}"""
        found = {"the password": PASSWORD, "a value": VALUE, "the forged body": FORGED_BODY,
                 "the forged signature": FORGED_SIGNATURE}
        for name, path in self.tokens.items():
            _, body, signature = content(path).strip().split(".")
            found |= {f"the body of {name}'s token": body, f"the signature of {name}'s token": signature,
                      f"the begin of {name}'s signature": signature[:SHORTEST]}
        for name, path in (("the daemon", self.key_file), ("the CA", os.path.join(self.cluster.ca, "ca.key"))):
            found |= {f"a line of the key of {name}: {n}": line for n, line in enumerate(lines_of_key(path))}
        return found

    def note(self, where, *texts):
        self.said.setdefault(where, []).extend(map(str, texts))

    def failing(self, where, call):
        """Notes the error of a client."""
        with self.assertRaises(c10dd.Error) as failed:
            call()
        self.note(where, failed.exception, repr(failed.exception))

    def work(self):
        """What trainers do, and what of it fails."""
        with self.cluster.connect(self.tokens["trainer"]) as client:
            client.store.set("k", VALUE)
            client.store.set("n", "7")
            self.failing("a sum", lambda: client.store.add("k", 1))
            self.failing("a wait", lambda: client.store.wait(["none"], 0.05))
            with self.cluster.connect(self.tokens["viewer"]) as viewer:
                self.assertEqual(VALUE, viewer.store.get("k").decode())
                self.failing("a viewer", lambda: viewer.store.set("k", VALUE))
        wire = Wire(self.daemon.address, tls=self.cluster.trust())
        self.addCleanup(wire.close)
        self.assertEqual("ok", wire.hello(job="llm-1", credential=content(self.tokens["trainer"])).code)
        self.assertEqual("ok", wire.call(32, text("q") + text(VALUE)).code)
        for op, body in ((32, text("q" * 9000) + text(VALUE)), (16, text("k") + text(VALUE)[:-3]), (99, text(VALUE)),
                         (REMOVE, text(VALUE * 300)), (69, text(self.forged)), (69, text(content(self.tokens["mallory"])))):
            with Wire(self.daemon.address, tls=self.cluster.trust()) as other:
                other.hello(job="llm-1", credential=content(self.tokens["trainer"]))
                reply = other.call(op, body)
                self.assertNotEqual("ok", reply.code, op)
                self.note(f"operation {op}", reply.code, reply.detail)

    def come_in_vain(self):
        """All ways to show what is not good."""
        for token in (self.forged, self.forged[:-1], "." * 3 + self.forged, self.forged * 100, content(self.tokens["mallory"])):
            for variable, value in (("TOKEN", token), ("TOKEN_FILE", self.of_file(token))):
                with credentials(CA_FILE=self.files["ca.crt"], **{variable: value}):
                    self.failing("a client without a good token",
                                 lambda: c10dd.connect(self.cluster.url("llm-1"), connect_timeout=5).close())
            with Wire(self.daemon.address, tls=self.cluster.trust()) as wire:
                self.note("a refused hello", wire.hello(job="llm-1", credential=token).detail)
        with Wire(self.daemon.address) as wire:  # without TLS
            self.note("a plain hello", wire.hello(job="llm-1", credential=content(self.tokens["trainer"])).detail)
        with credentials(TOKEN_FILE=self.tokens["trainer"]):
            self.failing("another job", lambda: c10dd.connect(self.cluster.url("vision"), connect_timeout=5).close())

    def of_file(self, token):
        path = os.path.join(self.folder, "bad.token")
        self.write(path, token)
        return path

    def ask(self, method, path, fields, body=None):
        """All of one reply, with its head."""
        connection = http.client.HTTPSConnection(*self.daemon.address, timeout=20, context=self.cluster.trust())
        try:
            connection.putrequest(method, path)
            for name, value in fields:
                connection.putheader(name, value)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return f"{answer.status}\n{answer.headers}\n{answer.read().decode()}"
        finally:
            connection.close()

    def read_all_pages(self):
        good = {role: "Bearer " + content(path).strip() for role, path in self.tokens.items()}
        bad = ("Bearer " + self.forged, "Basic " + FORGED_BODY, self.forged, "Bearer",
               "Bearer " + self.forged + " " + FORGED_BODY,
               "Bearer " + self.forged * 80)
        pages = ("/", "/livez", "/readyz", "/metrics", "/v1/version", "/v1/daemons", "/v1/jobs", "/v1/jobs/llm-1",
                 "/v1/jobs/vision", "/v1/jobs/llm-1/endpoints", "/v1/none")
        for path in pages:
            for shown in (*good.values(), *bad):
                for more in ((), (("Accept", "text/plain"),)):
                    self.note(f"GET {path}", self.ask("GET", path, [("Authorization", shown), *more]))
        self.assertTrue(any("\nc10dd_authentications_total" in one for one in self.said["GET /metrics"]))
        trainer = [("Authorization", good["trainer"])]
        for method, path, fields, body in (
                ("DELETE", "/v1/jobs/llm-1", trainer, None), ("PUT", "/v1/jobs/llm-1", trainer, None),
                ("POST", "/v1/jobs/llm-1/endpoints", [*trainer, ("Content-Type", "text/plain")], b"{}"),
                ("POST", "/v1/jobs/llm-1/endpoints", [*trainer, ("Content-Type", "application/json")], b"{"),
                ("GET", "/v1/jobs", [*trainer, *trainer], None),
                ("DELETE", "/v1/jobs/none", [("Authorization", good["admin"])], None),
                ("POST", "/v1/jobs/llm-1/move", [("Authorization", good["admin"]), ("Content-Type", "application/json")],
                 b'{"to": "127.0.0.1:9"}')):
            self.note(f"{method} {path}", self.ask(method, path, fields, body))

    def break_files(self):
        """Each broken set is refused, and has secrets where others are expected."""
        good = {path: content(path) for path in (*self.files.values(), self.grants)}
        key, token = good[self.files["tls.key"]], content(self.tokens["admin"])
        broken = [(self.files["tls.key"], key[:len(key) // 2]), (self.files["tls.key"], key.replace("PRIVATE", "SECRET")),
                  (self.files["tls.key"], content(os.path.join(self.cluster.ca, "ca.key"))), (self.files["tls.crt"], key),
                  (self.files["tls.crt"], good[self.files["tls.crt"]] + key), (self.files["ca.crt"], key),
                  (self.files["ca.crt"], token),
                  (self.grants, key), (self.grants, token), (self.grants, f'revoked = ["{token.strip()}", 1]\n'),
                  (self.grants, f'token = "{token.strip()}"\n'), (self.grants, f"revoked = {token.strip()}\n"),
                  (self.grants, f'[[grant]]\nwho = "{token.strip()}"\nrole = "{PASSWORD}"\njobs = ["*"]\n')]
        for path, data in broken:
            for file, was in good.items():
                self.write(file, data if file == path else was)
            refused = self.daemon.errors().count("event=access_reloaded")
            self.daemon.process.send_signal(signal.SIGHUP)
            until(lambda refused=refused: self.daemon.errors().count("event=access_reloaded") > refused)
            self.note("/readyz after a broken file", self.cluster.http("/readyz")[1])
            for what, options in (("at the start", ()), ("--print-config", ("--print-config",))):
                self.note(what, *self.start_once(*options))
        for file, was in good.items():
            self.write(file, was)
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "are not in force" not in self.cluster.http("/readyz")[1])

    def start_once(self, *options):
        """What another daemon with the same files prints. It does not get the address, if it gets that far."""
        command = [*self.daemon.command, *options]
        command[command.index("--listen") + 1] = "%s:%d" % self.daemon.address
        done = subprocess.run(command, capture_output=True, text=True, timeout=30 * SLOWDOWN, check=False,
                              env={**os.environ, "C10DD_ENGINE": f"redis://:{PASSWORD}@127.0.0.1:{self.redis_port}/secrets"})
        return done.stdout, done.stderr

    def ask_by_c10ddctl(self):
        address = "%s:%d" % self.daemon.address
        # A token's text is in the variable C10DD_TOKEN, as in a pod.
        for environment in ({"C10DD_TOKEN_FILE": self.tokens["admin"]},
                            {"C10DD_TOKEN": self.forged, "C10DD_CA_FILE": self.files["ca.crt"]},
                            {"C10DD_TOKEN_FILE": self.tokens["mallory"]}, {"C10DD_TOKEN_FILE": self.key_file}, {}):
            for words in (("status",), ("daemons",), ("jobs",), ("-o", "json", "jobs"), ("job", "llm-1"), ("diagnose", "llm-1"),
                          ("move", "llm-1", "127.0.0.1:9"), ("rm", "none"), ("lease", "vision")):
                _, *printed = ctl("--daemon", address, "--timeout", "5", *words, environment=environment)
                self.note("c10ddctl " + " ".join(words), *printed)
        for path in (self.cluster.ca, self.cluster.files, *self.files.values(), os.path.join(self.cluster.ca, "ca.key"),
                     *self.tokens.values(), self.of_file(self.forged)):
            self.note(f"c10ddctl ca show {os.path.basename(path)}", *ctl("ca", "show", path)[1:])

    maxDiff = None

    def test_none_comes_out(self):
        self.key_file = os.path.join(self.folder, "copy.key")
        shutil.copy(self.files["tls.key"], self.key_file)
        self.work()
        self.come_in_vain()
        self.read_all_pages()
        self.break_files()
        self.ask_by_c10ddctl()
        self.redis.kill()
        self.redis.wait(20)
        with credentials(TOKEN_FILE=self.tokens["trainer"]), self.assertRaises(c10dd.Error) as failed, \
                c10dd.connect(self.cluster.url("llm-2"), timeout=2, connect_timeout=2) as client:
            client.store.set("k", VALUE)
        self.note("a lost engine", failed.exception)
        self.note("/readyz without the engine", self.cluster.http("/readyz")[1])
        with open(f"/proc/{self.daemon.process.pid}/cmdline", encoding="ascii") as file:
            self.note("the command line", file.read())
        self.daemon.stop()
        self.note("the log", self.daemon.errors())
        self.assertGreater(len(self.said["the log"][0]), 5000)
        secrets = self.secrets()
        self.assertGreater(len(secrets), 20)
        hits = [f"{what} in {where}: {one[max(0, one.find(secret) - 200):one.find(secret) + 60]!r}"
                for where, texts in self.said.items() for one in texts for what, secret in secrets.items() if secret in one]
        self.assertEqual([], hits[:10], f"{len(hits)} hits")


class Prometheus(unittest.TestCase):
    JOB = """
  - job_name: {name}
    scheme: https
    tls_config: {{ca_file: {ca}}}
    {authorization}
    static_configs: [{{targets: ["{target}"]}}]
"""

    def test_scrapes_with_the_token_of_a_viewer_of_all_jobs(self):
        if shutil.which("prometheus") is None:
            self.skipTest("prometheus is not installed")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        cluster = Cluster(os.path.join(folder, "cluster"))
        daemon = cluster.daemon.start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        with cluster.connect(cluster.token("trainer", "llm-*")) as client:
            client.store.set("k", "v")
        shown = {"viewer": cluster.token("viewer", "*", "viewer"), "some": cluster.token("some", "llm-*", "admin"),
                 "nobody": None}
        config = "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:"
        for name, token in shown.items():
            config += self.JOB.format(name=name, ca=os.path.join(cluster.ca, "ca.crt"), target="%s:%d" % daemon.address,
                                      authorization=f"authorization: {{credentials_file: {token}}}" if token else "")
        file = os.path.join(folder, "prometheus.yml")
        with open(file, "w", encoding="ascii") as out:
            out.write(config)
        port = reserve_port()
        process = subprocess.Popen(["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)

        def values(expression):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found = json.load(answer)["data"]["result"]
            except OSError:  # it does not listen yet
                return {}
            return {one["metric"]["job"]: float(one["value"][1]) for one in found}
        until(lambda: values("up") == {"viewer": 1, "some": 0, "nobody": 0})
        until(lambda: values("c10dd_jobs") == {"viewer": 1})


if __name__ == "__main__":
    unittest.main()
