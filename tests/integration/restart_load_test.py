# SPDX-License-Identifier: Apache-2.0
"""A daemon is killed and started again on a disk so slow that its job takes longer to load than the ttl of
its members. No member is fenced or lost; clients of TCPStore wait, also behind a proxy; the pages show
how far the load is; another job is served meanwhile. The long form is `c10dd-bench restart-load
--members 100 --keys 4194304`."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from daemon import BIN, SLOWDOWN, Daemon
from tcpstore_wire import GET, READY, Client as TorchClient, message, text, wait

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
import package  # noqa: E402,F401
import c10dd  # noqa: E402

SLOW_DISK = os.path.join(BIN, "../libexec/c10dd/libc10dd_slow_sync.so")
MEMBERS = 3
TTL = 2.5
STATE = 8 * 1024 * 1024
LOAD = 4.0  # seconds that the reading of the state takes


class RestartLoadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.daemon = Daemon(engine=f"rocksdb:{folder.name}")
        self.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)

    def connect(self, job="job", run="r1"):
        client = c10dd.connect(f"c10dd://{self.daemon.address[0]}:{self.daemon.address[1]}/{job}", run=run)
        self.addCleanup(client.close)
        return client

    def join(self):
        clients = [self.connect() for _ in range(MEMBERS)]
        members = [None] * MEMBERS

        def join(i):
            members[i] = clients[i].rendezvous(min=MEMBERS, max=MEMBERS, ttl=TTL, timeout=60)

        threads = [threading.Thread(target=join, args=(i,)) for i in range(MEMBERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return clients, members

    def fill(self, client):
        value = os.urandom(4096)
        for first in range(0, STATE // len(value), 256):
            client.store.multi_set({f"key{i}": value for i in range(first, first + 256)})

    def restart_slowly(self):
        self.daemon.kill()
        self.daemon.environment = dict(os.environ, LD_PRELOAD=SLOW_DISK, READ_BYTES_PER_S=str(STATE / LOAD))
        self.daemon.start()

    def loading(self):
        """The rows of runs that are being loaded, by job."""
        jobs = json.loads(self.daemon.http("/v1/jobs")[1])["jobs"]
        return {row["job"]: row["loading"] for row in jobs if "loading" in row}

    def test_members_outlive_a_load_that_takes_longer_than_their_ttl(self):
        clients, members = self.join()
        self.fill(clients[0])
        clients[0].store.set("torch", b"store")
        endpoint = clients[0].lease_endpoint("e", run="r1")
        other = self.connect("other")
        other.store.set("k", b"v")
        generations = [member.state().generation for member in members]

        killed = time.monotonic()
        self.restart_slowly()
        while "job" not in self.loading():
            self.assertLess(time.monotonic(), killed + 60 * SLOWDOWN, self.daemon.errors())
            time.sleep(0.02)
        begun = time.monotonic()
        torch = TorchClient((self.daemon.address[0], endpoint.port))
        torch.socket.settimeout(60 * SLOWDOWN)
        torch.socket.sendall(wait(b"torch") + message(GET, b"torch"))
        time.sleep(0.5)
        self.assertIn('loading: job "job" run "r1" (number ', self.daemon.http("/readyz")[1])
        page = subprocess.run([os.path.join(BIN, "c10ddctl"), "--daemon", "%s:%d" % self.daemon.address, "jobs"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertRegex(page.stdout, r"job +r1 .*loading +[0-9]+ rows restored in ", page.stderr)
        self.assertEqual(other.store.get("k"), b"v")
        self.assertIn("job", self.loading(), "the other job is served during the load")
        rows = self.loading()["job"]["rows"]
        while row := self.loading().get("job"):
            self.assertGreaterEqual(row["rows"], rows)
            rows = row["rows"]
            self.assertFalse(any(member.state().fenced for member in members))
            time.sleep(0.05)
        took = time.monotonic() - begun
        self.assertGreater(took, TTL, "the load must take longer than the ttl")
        self.assertGreater(rows, 0)

        reply = READY + text(b"store")
        self.assertEqual(torch.receive(len(reply)), reply, "a client of TCPStore waits")
        torch.socket.close()
        for client in clients:
            self.assertEqual(len(client.store.get("key0", 60)), 4096)
        time.sleep(TTL + 0.5)  # a silent member would be lost by then
        for member, generation in zip(members, generations):
            state = member.state()
            self.assertFalse(state.fenced, state.reason)
            self.assertFalse(state.ended(generation), state.reason)
        print(f"loaded in {took:.1f} s; served again {time.monotonic() - killed - TTL - 0.5:.1f} s after the kill")


if __name__ == "__main__":
    unittest.main()
