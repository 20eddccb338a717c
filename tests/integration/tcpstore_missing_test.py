# SPDX-License-Identifier: Apache-2.0
"""64 ranks start their process groups, two are held back: `GET /v1/jobs/torch` names exactly these two, and
who waits for them. The ranks send what gloo sends in PyTorch 1.13, in the newest version, and there with
GLOO_ENABLE_STORE_V2_API."""
import json
import threading
import time
import unittest
import urllib.request

from daemon import SLOWDOWN, Daemon
from tcpstore_wire import Client, OldClient

RANKS = 64
HELD_BACK = (17, 42)
PRESENT = [rank for rank in range(RANKS) if rank not in HELD_BACK]


def host_of(rank):
    return f"127.0.1.{rank + 1}"


class Gloo:
    """The newest version's pattern: each rank sets its address, then gets all others one by one."""
    GROUP = b"/default_pg/0//cpu//0/"
    VALUE = bytes(154 + 8 * RANKS)

    @classmethod
    def key(cls, rank):
        return cls.GROUP + str(rank).encode()

    @classmethod
    def connect(cls, address, rank):
        return Client.of_process(address, 1000 + rank, host_of(rank))

    @classmethod
    def start(cls, client, rank):
        client.join()
        client.set(cls.key(rank), cls.VALUE)

    @classmethod
    def meet(cls, client, rank):
        cls.start(client, rank)
        return all(client.wait(cls.key(other)) and client.get_as_stock(cls.key(other)) == cls.VALUE
                   for other in range(RANKS))


class GlooAtOnce(Gloo):
    """All other addresses with one wait and one request."""

    @classmethod
    def meet(cls, client, rank):
        cls.start(client, rank)
        keys = [cls.key(other) for other in range(RANKS)]
        return client.wait(*keys) and client.multi_get(*keys) == [cls.VALUE] * RANKS


class OldGloo(Gloo):
    """Version 1.13: first the host names of all lower ranks, no pid, a barrier that counts."""
    GROUP = b"//worker/attempt_0/default_pg/0/0/"
    VALUE = bytes(136 * (RANKS - 1))
    BARRIER = b"//worker/attempt_0/default_pg/store_based_barrier_key:1"

    @classmethod
    def connect(cls, address, rank):
        return OldClient(address, host_of(rank))

    @classmethod
    def meet(cls, client, rank):
        client.join()
        name = cls.GROUP + b"rank_"
        client.set(name + str(rank).encode(), host_of(rank).encode())
        for other in range(rank):
            if client.get_as_stock(name + str(other).encode()) != host_of(other).encode():
                return False
        client.set(cls.key(rank), cls.VALUE)
        for other in range(RANKS):
            if other != rank and client.get_as_stock(cls.key(other)) != cls.VALUE:
                return False
        count = client.add(cls.BARRIER)
        while count is not None and count < RANKS:
            time.sleep(0.01)
            count = client.add(cls.BARRIER, 0)
        return count == RANKS


class Launch:
    """Ranks that meet, each on a thread."""

    def __init__(self, daemon, pattern):
        self.daemon, self.pattern = daemon, pattern
        self.threads, self.clients, self.met = [], [], []

    def start(self, ranks):
        for rank in ranks:
            self.clients.append(self.pattern.connect(self.daemon.address, rank))
            self.threads.append(threading.Thread(target=self.run, args=(self.clients[-1], rank)))
            self.threads[-1].start()

    def run(self, client, rank):
        if self.pattern.meet(client, rank):
            self.met.append(rank)

    def join(self):
        for thread in self.threads:
            thread.join()

    def end(self):
        self.join()
        for client in self.clients:
            client.close()


class Missing(unittest.TestCase):
    def page(self, daemon):
        run, = json.loads(daemon.http("/v1/jobs/torch")[1])["runs"]
        return run

    def text(self, daemon):
        host, port = daemon.address
        request = urllib.request.Request(f"http://{host}:{port}/v1/jobs/torch",
                                         headers={"Accept": "text/plain"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    def wait_for(self, daemon, waiting):
        end = time.monotonic() + 20 * SLOWDOWN
        while not waiting(run := self.page(daemon)):
            self.assertLess(time.monotonic(), end, run["summary"])
            time.sleep(0.05)
        return run

    def check(self, pattern, awaited):
        """`awaited`: by key, the ranks that wait for it while the two are held back."""
        with Daemon("--shards", "2") as daemon:
            launch = Launch(daemon, pattern)
            try:
                launch.start(PRESENT)
                ranks_of = lambda run: {one["key"].encode(): one["ranks"] for one in run["waits"]}
                run = self.wait_for(daemon, lambda run: ranks_of(run) == awaited)
                self.assertEqual((len(PRESENT), RANKS), (run["joined"], run["world_size"]))
                self.assertEqual(list(HELD_BACK), run["missing"])
                self.assertEqual([(rank, host_of(rank)) for rank in PRESENT],
                                 [(one["rank"], one["host"]) for one in run["ranks"]])
                for one in run["waits"]:
                    self.assertEqual((len(awaited[one["key"].encode()]), False),
                                     (one["waiters"], one["seen"]))
                text = self.text(daemon)
                self.assertEqual(run["summary"] + "\n", text)
                seen = "plain-1: 62 joined of 64; ranks seen: [0-16,18-41,43-63]; ranks missing: [17,42]; "
                self.assertTrue(text.startswith(seen), text)
                launch.start([HELD_BACK[0]])
                run = self.wait_for(daemon, lambda run: HELD_BACK[0] not in run["missing"])
                self.assertEqual([HELD_BACK[1]], run["missing"])
                launch.start([HELD_BACK[1]])
                launch.join()
                self.assertEqual("plain-1: 64 joined of 64; ranks seen: [0-63]; ranks missing: none\n",
                                 self.text(daemon))
            finally:
                if len(launch.clients) < RANKS:  # it has failed
                    daemon.stop()
                launch.end()
            self.assertEqual(list(range(RANKS)), sorted(launch.met))
            return text

    def test_ranks_that_get_the_addresses_one_by_one(self):
        text = self.check(Gloo, {Gloo.key(17): PRESENT})
        self.assertIn("; 62 wait for /default_pg/0//cpu//0/17, of rank 17, not seen: "
                      "ranks [0-16,18-41,43-63]\n", text)

    def test_ranks_that_get_the_addresses_at_once(self):
        text = self.check(GlooAtOnce, {Gloo.key(rank): PRESENT for rank in HELD_BACK})
        for rank in HELD_BACK:
            self.assertIn(f"; 62 wait for /default_pg/0//cpu//0/{rank}, of rank {rank}, not seen: "
                          "ranks [0-16,18-41,43-63]", text)

    def test_ranks_that_tell_different_world_sizes(self):
        with Daemon("--shards", "2") as daemon:
            clients = [Gloo.connect(daemon.address, rank) for rank in range(3)]
            for rank, client in enumerate(clients):
                client.join()
                client.set(Gloo.key(rank), bytes(154 + 8 * (3 if rank == 2 else 4)))
            run = self.wait_for(daemon, lambda run: run["world_sizes"])
            self.assertEqual([{"world_size": 3, "ranks": [2]}, {"world_size": 4, "ranks": [0, 1]}], run["world_sizes"])
            told = ("the ranks report different world sizes: 3 by rank 2 on 127.0.1.3 (pid 1002); 4 by rank 0 on "
                    "127.0.1.1 (pid 1000), rank 1 on 127.0.1.2 (pid 1001)")
            self.assertIn(told, run["summary"])
            self.assertIn(f'level=warning event=world_sizes_differ job=torch run=plain-1 detail="{told}', daemon.errors())
            for client in clients:
                client.close()
            run = self.wait_for(daemon, lambda run: run["sessions"] == 0)
            self.assertIn("different world sizes: 3 by ranks [2]; 4 by ranks [0-1]", run["summary"])

    def test_ranks_of_the_old_version(self):
        lower, higher = PRESENT[:17], PRESENT[17:]
        text = self.check(OldGloo, {OldGloo.key(17): lower, OldGloo.GROUP + b"rank_17": higher})
        self.assertIn("; 45 wait for //worker/attempt_0/default_pg/0/0/rank_17, of rank 17, not seen: "
                      "ranks [18-41,43-63]", text)
        self.assertIn("; 17 wait for //worker/attempt_0/default_pg/0/0/17, of rank 17, not seen: "
                      "ranks [0-16]", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
