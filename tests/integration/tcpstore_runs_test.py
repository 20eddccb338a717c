# SPDX-License-Identifier: Apache-2.0
"""Launches of stock PyTorch on one port are told apart: which run a connection sees, over sockets and
several loops. `init/` counts the joins of a run, so its value tells which run a client sees."""
import itertools
import os
import signal
import subprocess
import sys
import time
import unittest

from daemon import SLOWDOWN, Daemon
from tcpstore_wire import (CANCEL_WAIT, COMPARE_SET, VALIDATE, Client, OldClient, message, multi_set,
                           wait)

PIDS = itertools.count(1000)
RANK_KEY = b"/default_pg/0//cpu//0/0"
HERE = os.path.dirname(os.path.abspath(__file__))
# A rank that sets its key, and forks a child as loaders of data do. Prints the child's pid.
FORKS = """
import os, sys, time
from tcpstore_wire import Client
rank = Client.of_process((sys.argv[1], int(sys.argv[2])), os.getpid())
rank.join()
rank.set(b"/default_pg/0//cpu//0/" + sys.argv[3].encode(), b"address")
rank.count()
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


class Launches(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--shards", "3").start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)

    def process(self, pid=None):
        client = Client.of_process(self.daemon.address, next(PIDS) if pid is None else pid)
        self.addCleanup(client.close)
        return client

    def launch(self, size):
        """Ranks that have joined one run, which was empty. The first one has told its address."""
        ranks = [self.process() for _ in range(size)]
        self.assertEqual(list(range(1, size + 1)), [rank.join() for rank in ranks])
        self.tell_address(ranks[0])
        return ranks

    def tell_address(self, rank, key=RANK_KEY):
        rank.set(key, b"address")
        self.assertEqual(b"address", rank.get(key))

    def end(self, ranks):
        for rank in ranks:
            rank.close()

    def test_a_launch_at_once_after_another_gets_a_fresh_run(self):
        for _ in range(100):
            self.end(self.launch(3))
        self.assertIn('"plain-100"', self.daemon.http("/v1/jobs/torch")[1])

    def test_a_late_rank_joins_its_launch(self):
        self.launch(2)
        time.sleep(0.1)
        self.assertEqual(3, self.process().join())

    def test_a_zombie_of_the_launch_before_is_left_behind(self):
        zombie, *others = self.launch(3)
        self.end(others)
        ranks = self.launch(3)
        self.assertEqual(3, zombie.add(b"init/", 0), "it stays in its run")
        self.assertIn("event=launch_split", self.daemon.errors())
        self.end(ranks)
        self.launch(2)

    def test_a_store_without_a_join_is_in_the_run_of_its_process(self):
        pid = next(PIDS)
        first = self.process(pid)
        self.assertEqual(1, first.join())
        second = self.process()
        self.assertEqual(2, second.join())
        self.tell_address(first)
        second.close()
        self.launch(1)  # a fresh run, current from now on
        clone = self.process(pid)
        self.assertEqual(b"2", clone.get(b"init/"))
        self.assertEqual(b"1", self.process().get(b"init/"))

    def test_a_second_store_of_a_process_joins_the_run_of_the_process(self):
        pid = next(PIDS)
        self.assertEqual(1, self.process(pid).join())
        other = self.process()
        self.assertEqual(2, other.join())
        self.tell_address(other)
        other.close()
        self.assertEqual(3, self.process(pid).join())

    def test_clients_of_a_store_that_come_one_after_the_other_see_its_keys(self):
        for number in range(1, 51):
            client = self.process()
            self.assertEqual(number, client.join())
            client.set(b"/of%d" % number, b"value")
            self.assertEqual(b"value", client.get_as_stock(b"/of%d" % number))
            if number > 1:
                self.assertEqual(b"value", client.get(b"/of%d" % (number - 1)))
            client.close()
        self.assertIn("event=run_resumed job=torch run=plain-1 ", self.daemon.errors())
        self.assertNotIn("plain-2", self.daemon.errors())

    def test_a_store_that_an_operator_ends_is_not_resumed(self):
        client = self.process()
        self.assertEqual(1, client.join())
        client.close()
        end = time.monotonic() + 20 * SLOWDOWN
        while "event=run_ended" not in self.daemon.errors():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(200, self.daemon.http("/v1/jobs/torch/runs/plain-1", method="DELETE")[0])
        self.assertEqual(1, self.process().join())

    def test_a_launch_after_clients_of_a_store(self):
        pinned, passing = self.process(), self.process()
        pinned.set(b"/k", b"v")
        self.assertEqual(1, passing.join())
        passing.close()
        ranks = [self.process() for _ in range(3)]
        for number, rank in enumerate(ranks):  # a rank does not wait for the others
            self.assertEqual(number + 2, rank.join())
            self.tell_address(rank, RANK_KEY[:-1] + b"%d" % number)
        self.assertNotIn("event=launch_split", self.daemon.errors())
        self.end(ranks[:1])
        self.launch(2)

    def test_agents_of_a_rendezvous_have_a_run_of_their_own(self):
        state = message(COMPARE_SET, b"/torch.rendezvous.job7", b"", b"state")
        agents = [self.process(), self.process()]
        for agent in agents:
            self.assertEqual(b"state", agent.ask(state, 13)[8:])
        ranks = self.launch(2)
        self.assertEqual(bytes([1]) + bytes(7), agents[1].count())
        self.assertIn("rdzv-job7", self.daemon.errors())
        self.end(ranks)
        self.end(agents)
        again = self.process()
        self.assertEqual(b"state", again.ask(state, 13)[8:])
        self.assertEqual(bytes([1]) + bytes(7), again.count(), "what it sees is fresh")

    def test_neither_probes_nor_http_keep_a_run(self):
        probe = self.process()
        silent = Client(self.daemon.address, VALIDATE)
        self.addCleanup(silent.close)
        self.end(self.launch(1))
        self.assertEqual(200, self.daemon.http("/v1/jobs")[0])
        self.launch(1)
        self.assertFalse(probe.is_closed(0))
        self.assertFalse(silent.is_closed(0))

    def test_two_jobs_that_meet_have_an_error_within_a_second(self):
        first = self.launch(2)  # nobody of it ends: all its sockets look alive
        first[0].set(RANK_KEY, b"address")
        self.assertEqual(b"address", first[0].get(RANK_KEY))
        second = [self.process(), self.process()]
        self.assertEqual([3, 4], [rank.join() for rank in second])
        second[0].set(RANK_KEY, b"other")
        for client in (*second, *first):  # the run is young: nobody trains with a stranger
            self.assertTrue(client.is_closed(1 * SLOWDOWN))
        line = next(line for line in self.daemon.errors().splitlines() if "rank_taken" in line)
        self.assertIn("rank 0 is taken", line)
        self.launch(2)

    def test_a_multi_set_cannot_take_a_rank_of_another_process(self):
        first, second = self.launch(2)
        first.socket.sendall(multi_set([(b"/a", b"1"), (RANK_KEY, b"address")]))
        self.assertEqual(b"address", first.get(RANK_KEY))
        request = multi_set([(b"/b", b"2"), (RANK_KEY, b"other"), (b"/c", b"3")])
        second.socket.sendall(request[:-1])
        self.assertEqual(b"address", first.get(RANK_KEY))
        self.assertFalse(second.is_closed(0.1), "the request is not complete")
        second.socket.sendall(request[-1:])
        for client in (first, second):
            self.assertTrue(client.is_closed(1 * SLOWDOWN))
        self.assertIn("rank 0 is taken", self.daemon.errors())

    def test_a_wait_that_is_given_up_is_logged_with_what_was_missing(self):
        ranks = self.launch(3)
        key = RANK_KEY[:-1] + b"2"
        for rank in ranks:
            rank.socket.sendall(wait(key))
        time.sleep(5.2)
        ranks[0].socket.sendall(bytes([CANCEL_WAIT]))
        self.assertEqual(b"\x01", ranks[0].receive(1))
        self.end(ranks[1:])
        self.launch(1)  # the ends count
        lines = [line for line in self.daemon.errors().splitlines() if "wait_given_up" in line]
        self.assertEqual(1, len(lines), "the waits for one key are one line")
        for word in ("job=torch run=plain-1 peer=127.0.0.1 pid=", "cause=cancelled seconds=5.",
                     "ranks=[2] others=2", key.decode()):
            self.assertIn(word, lines[0])

    def check_that_a_launch_meets_the_dead(self):
        """The sockets of a launch that has died look alive: the next one has its error within a second of its
        first rank's key, and the third has a run of its own."""
        second = [self.process(), self.process()]
        self.assertEqual([3, 4], [rank.join() for rank in second])
        second[0].set(RANK_KEY, b"other")
        for client in second:
            self.assertTrue(client.is_closed(1 * SLOWDOWN))
        third = self.launch(2)
        self.assertEqual(b"address", third[1].get_as_stock(RANK_KEY))

    def test_forked_children_that_outlive_their_launch(self):
        host, port = self.daemon.address
        ranks = [subprocess.Popen([sys.executable, "-B", "-c", FORKS, host, str(port), str(rank)],
                                  stdout=subprocess.PIPE, text=True, cwd=HERE) for rank in range(2)]
        children = []
        try:
            for rank in ranks:
                children.append(int(rank.stdout.readline()))
            for rank in ranks:
                rank.kill()
                rank.wait()
                rank.stdout.close()
            self.check_that_a_launch_meets_the_dead()
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)

    def test_workers_that_are_started_again_beside_their_agent(self):
        """As torchrun's static agents do, each time with the same keys and, before PyTorch 2.5, without a pid."""
        def old_clients(count):
            clients = [OldClient(self.daemon.address) for _ in range(count)]
            for client in clients:
                self.addCleanup(client.close)
            return clients

        agent, = old_clients(1)
        self.assertEqual(1, agent.join())
        joined = 2  # the first workers are in the run of their agent, later ones in a run of their own
        for _ in range(3):
            workers = old_clients(2)
            self.assertEqual([joined, joined + 1], [worker.join() for worker in workers])
            for rank, worker in enumerate(workers):
                worker.set(b"/default_pg/0/0/rank_%d" % rank, b"host")
            self.assertTrue(workers[0].wait(b"/default_pg/0/0/rank_1"))
            self.end(workers)
            joined = 1
        self.assertEqual(3, agent.add(b"init/", 0))
        # Without a pid, the log cannot say more.
        self.assertIn("it reopens its process group, or a rank restarted alone", self.daemon.errors())
        self.assertNotIn("level=warning", self.daemon.errors())

    def test_a_process_may_set_its_key_again(self):
        rank = self.launch(1)[0]
        for value in (b"one", b"two"):
            rank.set(RANK_KEY, value)
            self.assertEqual(value, rank.get(RANK_KEY))


if __name__ == "__main__":
    unittest.main(verbosity=2)
