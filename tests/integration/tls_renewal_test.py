#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate of a daemon, tokens, key set and grants are replaced again and again under 200 clients of all kinds: no call
fails, no session is lost, and who comes newly meets the new ones. Broken sets change nothing. C10DD_RENEWALS is how often they are
replaced."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import ENVIRONMENT, VARIABLES, Cluster, c10dd, credentials, made, until
from daemon import SLOWDOWN, Daemon, reserve_port
from foreign import Foreign, read, write
from held_up import HeldUp

RENEWALS = int(os.environ.get("C10DD_RENEWALS", "5"))
LONG = RENEWALS > 20
OF_EACH_KIND = 50
LIFE = 10 if LONG else 3  # seconds of a token
ROUND = 2.0 if LONG else 1.2  # seconds from one replacement to the next, at least
KEPT = 12  # each key set keeps the keys of the last rounds, because tokens that they signed are still in use
STOOD_STILL = 1  # if the machine stood still for this many seconds, clients may reconnect
PAUSE = 0.25 * SLOWDOWN  # between two calls of a client
ISSUER = "https://issuer.example"
GRANTS = """revoked = [{revoked}]

[[issuer]]
name = "site"
issuer = "{issuer}"
audience = "c10dd"
jwks = "{jwks}"

[[grant]]
who = "site:trainer"
role = "trainer"
jobs = ["llm-*"]

[[grant]]
who = "cert:spiffe://site/trainer"
role = "trainer"
jobs = ["llm-*"]

[[grant]]
who = "cert:{uri}"
role = "viewer"
jobs = ["llm-*"]
"""


def call_all_the_time(url, shown):
    """A process of its own: clients that call until the standard input ends. Then comes the result."""
    stop, failed, slowest = threading.Event(), [], [0.0]

    def call(client, number):
        at = 0
        while not stop.wait(PAUSE):
            begin = time.monotonic()
            try:
                at += 1
                if client.store.add(f"{os.getpid()}/{number}", 1) != at:
                    failed.append("a call was applied twice, or not at all")
            except c10dd.Error as error:
                failed.append(str(error))
            slowest[0] = max(slowest[0], time.monotonic() - begin)
    clients = [c10dd.connect(url, timeout=60, **shown) for _ in range(OF_EACH_KIND)]
    threads = [threading.Thread(target=call, args=one) for one in zip(clients, range(OF_EACH_KIND))]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    stats = [one.stats() for one in clients]
    print(json.dumps({"failed": failed, "slowest": slowest[0], "calls": sum(one.calls for one in stats),
                      "broken": [str(one) for one in stats if one.failures or one.sessions_lost],
                      "again": [str(one) for one in stats if one.connects != 1]}))


class Renewal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.site = Foreign(self.path("site"))
        self.addCleanup(self.site.close)
        self.grants, self.metrics = self.path("grants.toml"), reserve_port()
        self.cluster = Cluster(self.path("cluster"), "--grants", self.grants, "--listen-metrics", f"127.0.0.1:{self.metrics}")
        self.addCleanup(self.cluster.daemon.log.close)
        self.ca = os.path.join(self.cluster.ca, "ca.crt"), os.path.join(self.cluster.ca, "ca.key")
        self.files = {name: os.path.join(self.cluster.files, name) for name in ("tls.crt", "tls.key", "ca.crt")}
        self.keys, self.serials, self.round, self.broken = {}, set(), 0, 0
        self.replace_keys()
        self.replace_grants()
        self.replace_tokens()
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.stop)
        self.serials.add(self.serial())

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, path, data):
        """Replaces a file as a whole."""
        os.replace(write(path + ".new", data), path)

    # ---- what is replaced ----

    def replace_keys(self):
        self.keys[f"key-{self.round}"] = self.site.key(f"key-{self.round}", "ec")
        self.keys = dict(list(self.keys.items())[-KEPT:])
        self.jwks = self.path("site/jwks.json")
        os.replace(self.site.jwks("jwks.json.new", **self.keys), self.jwks)

    def uri(self):
        return f"spiffe://site/round-{self.round}"

    def replace_grants(self):
        revoked = ", ".join(f'"gone-{n}"' for n in range(1, self.round + 1))
        self.put(self.grants, GRANTS.format(revoked=revoked, issuer=ISSUER, jwks=self.jwks, uri=self.uri()).encode())

    def replace_tokens(self):
        self.own = self.cluster.token("alice", "llm-*", ttl=f"{LIFE}s")
        kid, now = list(self.keys)[-1], int(time.time())
        claims = {"iss": ISSUER, "aud": "c10dd", "sub": "trainer", "exp": now + LIFE}
        self.foreign = self.path("foreign.token")
        self.put(self.foreign, self.site.token(self.keys[kid], claims, "ES256", kid).encode())

    # ---- what the daemon does ----

    def reloads(self, result):
        return self.daemon.errors().count("event=access_reloaded result=" + result)

    def reload(self, result):
        before = self.reloads(result)
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: self.reloads(result) > before)

    def serial(self):
        with socket.create_connection(self.daemon.address, timeout=20) as plain, \
                self.cluster.trust().wrap_socket(plain, server_hostname="127.0.0.1") as encrypted:
            return encrypted.getpeercert()["serialNumber"]

    def plain(self, path):
        daemon = Daemon(port=1)
        daemon.log.close()
        daemon.address = ("127.0.0.1", self.metrics)
        return daemon.http(path)[1]

    def hellos(self):
        """How often somebody has shown what is good."""
        name = 'c10dd_authentications_total{outcome="ok"} '
        return next(int(line[len(name):]) for line in self.plain("/metrics").splitlines() if line.startswith(name))

    # ---- who comes ----

    def shown(self):
        """What each kind of the known clients shows."""
        pair = self.site.certificate("trainer", self.ca, ["spiffe://site/trainer"])
        return {"own": {"token_file": self.own}, "own and CA": {"token_file": self.own, "ca_file": self.ca[0]},
                "foreign": {"token_file": self.foreign, "ca_file": self.ca[0]},
                "certificate": {"cert_file": pair[0], "key_file": pair[1], "ca_file": self.ca[0]}}

    def enter(self, **shown):
        with credentials(), c10dd.connect(self.cluster.url("llm-1"), timeout=20, connect_timeout=20, **shown) as client:
            client.store.get("begun")

    def of_round(self):
        """The certificate of who has a grant in this round only."""
        pair = self.site.certificate(f"round-{self.round}", self.ca, [self.uri()])
        return {"cert_file": pair[0], "key_file": pair[1], "ca_file": self.ca[0]}

    def enter_all(self):
        self.enter(token_file=self.own)
        self.enter(token_file=self.foreign, ca_file=self.ca[0])
        self.enter(**self.certificate)

    def start_callers(self):
        environment = {**ENVIRONMENT, **{name: "" for name in VARIABLES}}
        started = [subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--callers", self.cluster.url("llm-1"),
                                     json.dumps(shown)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
                   for shown in self.shown().values()]
        for one in started:
            self.addCleanup(one.__exit__, None, None, None)
            self.addCleanup(one.kill)
        waiting = list(started)
        while waiting:
            for one in select.select([one.stdout for one in waiting], [], [], LIFE / 3)[0]:
                self.assertEqual("ready\n", one.readline())
                waiting = [other for other in waiting if other.stdout is not one]
            self.replace_tokens()
        return started

    # ---- broken sets ----

    def broken_sets(self):
        """(file, what it has, or None: it is gone), from what is good now."""
        good = {path: read(path) for path in (*self.files.values(), self.grants, self.jwks)}
        crt, key, ca = self.files.values()
        yield from ((path, data) for path in (crt, key, ca, self.jwks) for data in (good[path][:len(good[path]) // 2], b""))
        yield from ((path, None) for path in good)
        yield key, read(self.ca[1])
        yield crt, good[ca]
        yield ca, b"not PEM"
        yield self.jwks, b'{"keys": [{"kty": "oct", "k": "AAAA"}]}'
        yield self.grants, good[self.grants].replace(b"trainer\"\njobs", b"root\"\njobs")
        yield self.grants, good[self.grants].replace(self.jwks.encode(), b"/nowhere")
        yield self.grants, good[self.grants] + b"[[grants]]\n"

    def check_broken(self, path, data):
        """A set of files in which one is broken."""
        good, serial = read(path), self.serial()
        if data is None:
            os.remove(path)
        else:
            self.put(path, data)
        self.reload("refused")
        self.assertIn("are not in force", self.plain("/readyz"))
        self.assertEqual(serial, self.serial(), f"{path}: {data}")
        self.replace_tokens()
        self.enter_all()
        self.put(path, good)
        self.broken += 1

    # ---- the tests ----

    def check_renewed(self):
        """All are replaced. Who comes then meets the new ones, and a certificate that has lost its grant is refused."""
        former = self.certificate
        self.round += 1
        self.replace_keys()
        self.replace_grants()
        made("ca", "daemon", self.cluster.ca, "--out", self.cluster.files)
        self.reload("ok")
        self.assertNotIn("are not in force", self.plain("/readyz"))
        self.replace_tokens()
        self.serials.add(self.serial())
        self.assertEqual(self.round + 1, len(self.serials), "the certificate is a new one")
        self.certificate = self.of_round()
        self.enter_all()
        with self.assertRaisesRegex(c10dd.Error, "no grant names the certificate"):
            self.enter(**former)

    def test_replaced_again_and_again(self):
        self.certificate = self.of_round()
        with self.cluster.connect(self.own) as client:
            client.store.set("begun", "")
        callers = self.start_callers()
        begin, hellos, broken = time.monotonic(), self.hellos(), list(self.broken_sets())
        self.assertEqual(20, len(broken))
        share = -(-len(broken) // RENEWALS)
        with HeldUp(None) as held_up:
            for _ in range(RENEWALS):
                due = time.monotonic() + ROUND
                self.check_renewed()
                for path, data in broken[self.broken:self.broken + share]:
                    self.check_broken(path, data)
                time.sleep(max(due - time.monotonic(), 0))  # so that tokens expire between the rounds
        lasted, hellos = time.monotonic() - begin, self.hellos() - hellos
        for one in callers:
            one.stdin.close()
        results = [json.loads(one.stdout.readline()) for one in callers]
        print(f"{RENEWALS} replacements and {self.broken} broken sets in {lasted:.1f} s: "
              f"{sum(one['calls'] for one in results)} calls of {len(callers) * OF_EACH_KIND} clients, slowest "
              f"{max(one['slowest'] for one in results) * 1e3:.0f} ms; {hellos} hellos meanwhile")
        for one in results:
            self.assertEqual(([], []), (one["failed"], one["broken"]))
            if held_up.seconds < STOOD_STILL:
                self.assertEqual([], one["again"])
        with_token = 3 * OF_EACH_KIND
        self.assertGreaterEqual(hellos, with_token * int(lasted / (1.2 * LIFE)), "each token was replaced before it expired")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--callers"]:
        call_all_the_time(sys.argv[2], json.loads(sys.argv[3]))
    else:
        unittest.main()
