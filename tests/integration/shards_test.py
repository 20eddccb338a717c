# SPDX-License-Identifier: Apache-2.0
"""Several shards: jobs of all of them at once, channels whose job lives elsewhere, the death of the
daemon, and the life of runs."""
import json
import os
import struct
import tempfile
import time
import unittest

import wire
import at_once
from daemon import Daemon
from wire import Wire, frame, text

JOBS = 6


class Shards(unittest.TestCase):
    def jobs(self, daemon):
        return {(job["job"], job["run"]): job
                for job in json.loads(daemon.http("/v1/jobs")[1])["jobs"]}

    def test_jobs_are_told_apart_and_counted_together(self):
        with Daemon("--shards", "3") as daemon:
            clients = [Wire(daemon.address) for _ in range(JOBS)]
            for n, client in enumerate(clients):
                self.assertEqual("ok", client.hello(job=f"job{n % 3}", run=f"run{n // 3}").code)
                self.assertEqual("ok", client.set("k", f"value {n}").code)
            for n, client in enumerate(clients):
                self.assertIn(f"value {n}".encode(), client.get("k").body)
            jobs = self.jobs(daemon)
            self.assertEqual(JOBS, len(jobs))
            self.assertEqual(list(range(1, JOBS + 1)), [int(job["number"]) for job in jobs.values()])
            metrics = daemon.http("/metrics")[1]
            self.assertIn(f"c10dd_jobs {JOBS}", metrics)
            self.assertIn('c10dd_store_keys{train_job="job1"} 2', metrics)
            for client in clients:
                client.close()

    def test_channels_of_one_connection_may_have_jobs_on_other_shards(self):
        with Daemon("--shards", "3") as daemon:
            one = Wire(daemon.address)
            sessions = [os.urandom(16) for _ in range(JOBS)]
            for n in range(JOBS):
                one.send(frame(wire.HELLO, wire.hello_body(sessions[n], job=f"job{n}"), channel=n))
                reply = one.reply()
                self.assertEqual(("ok", n), (reply.code, reply.channel))
            for round_ in range(1, 201):  # pipelined, in order on each channel
                for n in range(JOBS):
                    one.send(frame(wire.ADD, text("n") + struct.pack("<q", 1), channel=n,
                                   sequence=round_, acked_below=round_))
            answers = {n: [] for n in range(JOBS)}
            for _ in range(200 * JOBS):
                reply = one.reply()
                self.assertEqual("ok", reply.code, reply)
                answers[reply.channel].append((reply.sequence, struct.unpack("<q", reply.body)[0]))
            for n in range(JOBS):
                self.assertEqual([(i, i) for i in range(1, 201)], answers[n])
            # A session that comes on a connection of its own takes itself away from this one.
            other = Wire(daemon.address)
            self.assertEqual("ok", other.hello(session=sessions[4], job="job4").code)
            reply = one.reply()
            self.assertEqual(("session_superseded", 4), (reply.code, reply.channel))
            self.assertEqual("ok", other.add("n", 1, sequence=200, acked_below=200).code)  # again
            self.assertIn(b"200", other.get("n", sequence=201).body)
            # A wait on another shard ends with the key, or with the connection.
            one.send(frame(wire.GET, text("late") + struct.pack("<q", 2 * 10**10), channel=5,
                           sequence=300))
            setter = Wire(daemon.address)
            self.assertEqual("ok", setter.hello(job="job5").code)
            self.assertEqual("ok", setter.set("late", "now").code)
            self.assertEqual((5, 300), (lambda r: (r.channel, r.sequence))(one.reply()))
            one.close()
            deadline = time.monotonic() + 5
            while any(job["sessions"] > (name[0] in ("job4", "job5"))
                      for name, job in self.jobs(daemon).items()):
                self.assertLess(time.monotonic(), deadline)
            setter.close()
            other.close()

    def test_all_shards_survive_a_kill(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon("--shards", "4", engine=f"rocksdb:{folder}/state").start()
            for n in range(JOBS):
                client = Wire(daemon.address)
                self.assertEqual("ok", client.hello(job=f"job{n}").code)
                self.assertEqual("ok", client.set("k", f"value {n}").code)
                client.close()
            daemon.kill()
            daemon.command += ["--shards", "2"]  # the number may change
            daemon.start()
            for n in range(JOBS):
                client = Wire(daemon.address)
                self.assertEqual("ok", client.hello(job=f"job{n}").code)
                self.assertIn(f"value {n}".encode(), client.get("k").body)
                client.close()
            self.assertEqual(0, daemon.stop(), daemon.errors())
            daemon.log.close()


class Runs(unittest.TestCase):
    def names(self, daemon):
        return [(job["job"], job["run"])
                for job in json.loads(daemon.http("/v1/jobs")[1])["jobs"]]

    def wait_until_gone(self, daemon, name, seconds):
        deadline = time.monotonic() + seconds
        while name in self.names(daemon):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_run_is_retired_after_its_last_session_and_its_grace(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon("--run-grace", "1", "--session-expiry", "1", "--shards", "2",
                            engine=f"rocksdb:{folder}/state").start()
            permanent, first, second = (Wire(daemon.address) for _ in range(3))
            self.assertEqual("ok", permanent.hello(job="j").code)
            self.assertEqual("ok", first.hello(job="j", run="one").code)
            self.assertEqual("ok", second.hello(job="j", run="two").code)
            for client in (permanent, first, second):
                self.assertEqual("ok", client.set("k", "v").code)
            first.send(frame(wire.GOODBYE, sequence=2))
            self.assertEqual("ok", first.reply().code)
            permanent.send(frame(wire.GOODBYE, sequence=2))
            self.assertEqual("ok", permanent.reply().code)
            time.sleep(0.4)  # in its grace the run is as it was
            again = Wire(daemon.address)
            self.assertEqual("ok", again.hello(job="j", run="one").code)
            self.assertEqual("ok", again.get("k").code)
            time.sleep(1.5)
            self.assertIn(("j", "one"), self.names(daemon))
            beside = Wire(daemon.address)  # a second session of the run
            self.assertEqual("ok", beside.hello(job="j", run="one").code)
            beside.close()
            again.close()  # no goodbye: it may come back until it expires
            self.wait_until_gone(daemon, ("j", "one"), 6)
            self.assertEqual([("j", ""), ("j", "two")], self.names(daemon))
            # The name is free for another run, with another number; nothing is left.
            fresh = Wire(daemon.address)
            self.assertEqual("ok", fresh.hello(job="j", run="one").code)
            self.assertEqual("not_found", fresh.get("k").code)
            number = {(job["job"], job["run"]): job["number"]
                      for job in json.loads(daemon.http("/v1/jobs")[1])["jobs"]}[("j", "one")]
            self.assertEqual("4", number)
            # Runs that nobody comes back to are retired also after the death of the daemon.
            daemon.kill()
            daemon.start()
            back = Wire(daemon.address)
            self.assertEqual("ok", back.hello(job="j", run="two").code)
            self.assertEqual("ok", back.get("k").code)
            deadline = time.monotonic() + 8
            while "event=run_retired number=4" not in daemon.errors():
                self.assertLess(time.monotonic(), deadline, daemon.errors())
                time.sleep(0.1)
            self.assertEqual("ok", back.get("k").code)
            for client in (permanent, first, second, fresh, back):
                client.close()
            self.assertEqual(0, daemon.stop(), daemon.errors())
            daemon.log.close()

    def test_job_without_a_run_is_forgotten_when_it_is_empty_and_rests_when_it_is_not(self):
        with tempfile.TemporaryDirectory() as folder, \
                Daemon("--run-grace", "1", "--shards", "2",
                       engine=f"rocksdb:{folder}/state") as daemon:
            empty, kept = Wire(daemon.address), Wire(daemon.address)
            self.assertEqual("ok", empty.hello(job="empty").code)
            self.assertEqual("ok", kept.hello(job="kept").code)
            self.assertEqual("ok", kept.set("k", "v").code)
            series = 'c10dd_store_keys{train_job="kept"} 1'
            self.assertTrue(series in daemon.http("/metrics")[1])
            for client in (empty, kept):
                client.send(frame(wire.GOODBYE, sequence=2))
                self.assertEqual("ok", client.reply().code)
                client.close()
            self.wait_until_gone(daemon, ("empty", ""), 6)
            self.assertIn("event=job_retired", daemon.errors())
            deadline = time.monotonic() + 6
            while 'train_job="kept"' in daemon.http("/metrics")[1]:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.assertEqual([("kept", "")], self.names(daemon))
            with Wire(daemon.address) as again:
                self.assertEqual("ok", again.hello(job="kept").code)
                self.assertEqual("ok", again.get("k").code)
                self.assertTrue(series in daemon.http("/metrics")[1])

    def test_job_is_removed_when_nobody_is_connected_and_clients_from_before_are_told(self):
        session = os.urandom(16)
        with tempfile.TemporaryDirectory() as folder, \
                Daemon("--shards", "2", engine=f"rocksdb:{folder}/state") as daemon:
            with Wire(daemon.address) as run, Wire(daemon.address) as client:
                self.assertEqual("ok", run.hello(job="a b", run="1").code)
                self.assertEqual("ok", client.hello(session=session, job="a b").code)
                self.assertEqual("ok", client.set("k", "v").code)
                status, body = daemon.http("/v1/jobs/a%20b", method="DELETE")[:2]
                self.assertEqual(409, status, body)
                self.assertIn("2 sessions are connected", body)
                self.assertEqual("ok", client.get("k").code)
            deadline = time.monotonic() + 5
            while daemon.http("/v1/jobs/a%20b", method="DELETE")[0] == 409:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.assertEqual([], self.names(daemon))
            self.assertEqual(404, daemon.http("/v1/jobs/a%20b", method="DELETE")[0])
            self.assertEqual(400, daemon.http("/v1/jobs/a%2", method="DELETE")[0])
            self.assertEqual(404, daemon.http("/v1/jobs/a")[0])
            self.assertEqual(405, daemon.http("/v1/jobs/a", method="PUT")[0])
            # Whoever knew it is told, also when the new one holds more than it has seen.
            with Wire(daemon.address) as new:
                self.assertEqual("ok", new.hello(job="a b").code)
                self.assertEqual("not_found", new.get("k").code)
                for i in range(20):
                    self.assertEqual("ok", new.set("k", str(i)).code)
                with Wire(daemon.address) as old:
                    self.assertEqual("state_rolled_back",
                                     old.hello(session=session, job="a b", number=2).code)
            daemon.kill()
            daemon.start()
            with Wire(daemon.address) as new:
                self.assertEqual("ok", new.hello(job="a b").code)
                self.assertEqual("ok", new.get("k").code)

    def test_run_outlives_a_restart_as_long_as_a_session_of_it_may(self):
        session = os.urandom(16)
        hello = frame(wire.HELLO, wire.hello_body(session, job="j", run="long") +
                      struct.pack("<q", 60 * 10**9))
        with tempfile.TemporaryDirectory() as folder, \
                Daemon("--run-grace", "1", "--session-expiry", "1", "--shards", "2",
                       engine=f"rocksdb:{folder}/state") as daemon:
            client = Wire(daemon.address)
            client.send(hello)
            self.assertEqual("ok", client.reply().code)
            self.assertEqual("ok", client.set("k", "kept").code)
            daemon.kill()
            client.close()
            daemon.start()
            deadline = time.monotonic() + 20
            while daemon.errors().count("event=job_loaded job=j") < 2:  # though nobody has come
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            time.sleep(3)  # longer than the default expiry and the grace together
            client = Wire(daemon.address)
            client.send(hello)
            self.assertEqual("ok", client.reply().code)
            self.assertIn(b"kept", client.get("k", sequence=2).body)
            client.close()


if __name__ == "__main__":
    at_once.main()
