#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What somebody with a good token or certificate may not do to others: take a session over, change what the daemon says of a
job although it may only read, stay when its certificate has expired, or fill the log."""
import http.client
import json
import os
import re
import shutil
import signal
import struct
import tempfile
import threading
import time
import unittest

from cluster import Cluster, c10dd, credentials, until
from daemon import SLOWDOWN
from foreign import Foreign, read, write
from wire import GET, GOODBYE, HELLO, PING, Wire, frame, hello_body, text

GRANTS = """
[[grant]]
who = "cert:spiffe://site/trainer"
role = "trainer"
jobs = ["*"]
"""
SECOND = 10 ** 9
FLOOD = 2  # seconds


class Case(unittest.TestCase):
    options, engine = (), "memory:"

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        engine = self.engine.format(folder=self.folder)
        self.cluster = Cluster(os.path.join(self.folder, "cluster"), *self.options, engine=engine)
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.stop)
        self.files = {name: self.cluster.token(name, role=role)
                      for name, role in (("alice", "trainer"), ("bob", "trainer"), ("eve", "viewer"), ("root", "admin"))}

    def token(self, name):
        with open(self.files[name], encoding="ascii") as file:
            return file.read().strip()

    def wire(self, context=None):
        wire = Wire(self.daemon.address, tls=context or self.cluster.trust())
        self.addCleanup(wire.close)
        return wire

    def hello(self, name, wire=None, job="job", **options):
        wire = wire or self.wire()
        wire.send(frame(HELLO, hello_body(job=job, credential=self.token(name), **options)))
        return wire, wire.reply()

    def page(self, job="job"):
        status, body = self.cluster.http(f"/v1/jobs/{job}", self.files["root"])
        return json.loads(body)["runs"] if status == 200 else []


class Owners(Case):
    engine = "rocksdb:{folder}/state"

    def refused(self, session):
        for name in ("eve", "bob", "root"):
            other, refusal = self.hello(name, session=session)
            self.assertEqual("permission_denied", refusal.code)
            self.assertEqual(f'hello: the session is not one of "{name}"; choose another session ID', refusal.detail)
            self.assertEqual("session_unknown", other.get("k").code)

    def test_a_session_belongs_to_its_principal(self):
        session = os.urandom(16)
        alice, welcome = self.hello("alice", session=session)
        self.assertEqual("ok", welcome.code)
        self.assertEqual("ok", alice.set("k", "v").code)
        self.refused(session)
        self.assertEqual("ok", alice.set("k", "w").code, "it goes on")
        self.daemon.kill()
        self.daemon.start()
        self.refused(session)
        self.files["alice"] = self.cluster.token("alice", file="newer.token")
        alice, welcome = self.hello("alice", session=session)
        self.assertEqual("ok", welcome.code, "a newer token is one of the same principal")
        alice.sequence = 10  # the session goes on
        self.assertEqual("ok", alice.set("k", "x").code)
        self.refused(session)


class Viewers(Case):
    options = ("--run-grace", "3")

    def test_a_viewer_changes_nothing_that_is_said_of_a_job(self):
        trainer, welcome = self.hello("alice", run="r", rank=0, host="node0")
        self.assertEqual("ok", welcome.code)
        before = self.page()
        viewer, welcome = self.hello("eve", run="r", rank=1, host="node0", labels=[("world_size", "4096")])
        self.assertEqual("ok", welcome.code)
        viewer.send(frame(GET, text("never") + struct.pack("<q", 600 * SECOND), sequence=1))
        time.sleep(2)
        self.assertEqual(before, self.page())
        trainer.call(GOODBYE, b"")

        def is_over():
            viewer.send(frame(PING, sequence=7))
            again, welcome = self.hello("eve", run="r")
            again.close()
            return welcome.code == "not_found"
        until(is_over)
        replies = [viewer.reply()]
        while replies[-1] and replies[-1].code != "session_expired":
            replies.append(viewer.reply())
        self.assertEqual("the daemon has removed this run", replies[-1].detail)


class Certificates(Case):
    def setUp(self):
        site = Foreign(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, site.folder, True)
        self.addCleanup(site.close)
        self.site = site
        self.options = ("--grants", write(os.path.join(site.folder, "grants.toml"), GRANTS.encode()))
        super().setUp()

    def certificate(self, name, life):
        cas = os.path.join(self.cluster.ca, "ca.crt"), os.path.join(self.cluster.ca, "ca.key")
        return self.site.certificate(name, cas, uris=["spiffe://site/trainer"], ends=life)

    def test_who_shows_one_that_has_expired_is_asked_again(self):
        life = 3 * SLOWDOWN
        ends = time.time() + life
        file, key = self.certificate("short", life)
        context = self.cluster.trust()
        context.load_cert_chain(file, key)
        wire = self.wire(context)
        wire.send(frame(HELLO, hello_body(job="job")))
        self.assertEqual("ok", wire.reply().code)
        shown = {"CA_FILE": os.path.join(self.cluster.ca, "ca.crt"), "CERT_FILE": file, "KEY_FILE": key}
        with credentials(**shown):
            client = c10dd.connect(self.cluster.url("job"), timeout=30)
        self.addCleanup(client.close)
        client.store.set("k", "v")
        newer, newer_key = self.certificate("long", 3600)
        shutil.copy(newer_key, key)
        shutil.copy(newer, file)
        reply = wire.reply()
        self.assertEqual("unauthenticated", reply.code)
        self.assertIn("the certificate of this client has expired", reply.detail)
        self.assertLess(time.time() - ends, 3 * SLOWDOWN)
        self.assertEqual("session_unknown", wire.set("k", "w").code)
        wire.send(frame(HELLO, hello_body(job="another"), channel=2))
        self.assertEqual("unauthenticated", wire.reply().code)
        client.store.set("k", "x")  # it has connected again, and shown the newer one
        self.assertEqual(b"x", client.store.get("k"))

    def test_who_shows_one_of_a_ca_that_was_taken_out_is_asked_again(self):
        trusted, other = os.path.join(self.cluster.files, "ca.crt"), self.site.ca("other")
        before = read(trusted)
        self.reload(trusted, before + read(other[0]))
        file, key = self.site.certificate("of-other", other, uris=["spiffe://site/trainer"])
        context = self.cluster.trust()
        context.load_cert_chain(file, key)
        wire = self.wire(context)
        wire.send(frame(HELLO, hello_body(job="job")))
        self.assertEqual("ok", wire.reply().code)
        self.reload(trusted, before)
        reply = wire.reply()
        self.assertEqual("unauthenticated", reply.code)
        self.assertIn("the CA that has signed the certificate of this client is no longer in the ca.crt", reply.detail)

    def reload(self, path, data):
        seen = self.daemon.errors().count("event=access_reloaded result=ok")
        write(path + ".new", data)
        os.rename(path + ".new", path)
        os.kill(self.daemon.process.pid, signal.SIGHUP)
        until(lambda: self.daemon.errors().count("event=access_reloaded result=ok") > seen)


class Log(Case):
    def lines(self, event):
        return [line for line in self.daemon.errors().splitlines() if f"event={event} " in line]

    def flood(self, name, prefix):
        """Hellos for new names of jobs, for a while; how many."""
        end, sent = time.monotonic() + FLOOD, [0]

        def one(number):
            with Wire(self.daemon.address, tls=self.cluster.trust()) as wire:
                at = 0
                while time.monotonic() < end:
                    wire.send(b"".join(frame(HELLO, hello_body(job=f"{prefix}{number}-{at + i}", credential=self.token(name)),
                                             channel=1 + at + i) for i in range(16)))
                    for _ in range(16):
                        wire.reply()
                    at += 16
                sent[0] += at
        threads = [threading.Thread(target=one, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sent[0]

    def paced(self, lines):
        self.assertLessEqual(len(lines), 20 + 5 * (FLOOD * SLOWDOWN + 3), len(lines))
        return lines

    def test_nobody_fills_it(self):
        asked = self.flood("eve", "absent")
        self.assertGreater(asked, 100)
        self.assertEqual([], self.lines("admitted"), "no job was opened")
        made = self.flood("alice", "new")
        self.assertGreater(made, 100)
        self.paced(self.lines("admitted"))
        self.paced(self.lines("job_loaded"))
        connection = http.client.HTTPSConnection(*self.daemon.address, context=self.cluster.trust())
        end, acts = time.monotonic() + FLOOD, 0
        while time.monotonic() < end:
            connection.request("DELETE", f"/v1/jobs/absent{acts}", headers={"Authorization": "Bearer " + self.token("root")})
            connection.getresponse().read()
            acts += 1
        self.paced(self.lines("acted"))
        connection.close()
        self.hello("bob", job="of-bob")
        until(lambda: any("principal=\"bob\" job=of-bob" in line for line in self.lines("admitted")))
        time.sleep(1)
        self.hello("alice", job="of-alice")
        until(lambda: any(" job=of-alice" in line for line in self.lines("admitted")))
        skipped = sum(int(count) for line in self.lines("admitted") for count in re.findall(r" skipped=(\d+)", line))
        self.assertGreater(skipped, made / 2, "what was left out is counted")


if __name__ == "__main__":
    unittest.main()
