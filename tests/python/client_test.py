#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package against the real daemon."""
import copy
import datetime
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from package import ENVIRONMENT
import at_once
import c10dd
from daemon import SLOWDOWN, Daemon
from held_up import HeldUp
from c10dd import Shape


class WithDaemon(unittest.TestCase):
    engine = "memory:"

    def setUp(self):
        self.daemon = Daemon(engine=self.engine)
        self.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)

    def url(self, job="job"):
        return "c10dd://%s:%d/%s" % (*self.daemon.address, job)

    def connect(self, job="job", **options):
        client = c10dd.connect(self.url(job), **options)
        self.addCleanup(client.close)
        return client

    def python(self, code, *arguments):
        return subprocess.Popen([sys.executable, "-c", code, self.url(), *arguments], env=ENVIRONMENT,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Stores(WithDaemon):
    def setUp(self):
        super().setUp()
        self.client = self.connect()
        self.store = self.client.store

    def test_keys(self):
        store = self.store
        self.assertEqual(1, store.set("k", "v"))
        self.assertEqual(2, store.set(b"\xff\0", bytearray(b"\0\1")))
        self.assertEqual(b"v", store.get("k"))
        self.assertEqual(c10dd.Entry(b"\0\1", 2), store.entry(b"\xff\0"))
        self.assertEqual(["k", "\udcff\0"], store.list())
        self.assertEqual(b"\0\1", store.get(store.list()[1]))
        self.assertEqual(c10dd.KeyList(["k"], 2), store.list_keys("k"))
        self.assertTrue(store.check(["k"]))
        self.assertFalse(store.check(["k", "absent"]))
        store.wait(["k"], datetime.timedelta(seconds=1))
        self.assertEqual(3, store.add("n", 3))
        self.assertEqual(-2, store.add("n", -5))
        self.assertEqual(4, store.append("k", "abc"))
        self.assertEqual(b"b", store.compare_set("c", "", "b"))
        self.assertEqual(b"b", store.compare_set("c", "a", "d"))
        store.multi_set({"m/1": "1", b"m/2": b"2"})
        self.assertEqual([b"2", b"1"], store.multi_get(["m/2", "m/1"]))
        self.assertEqual(2, store.count("m/"))
        self.assertEqual((True, False), (store.remove("m/1"), store.remove("m/1")))
        self.assertEqual(1, store.remove_prefix("m/"))

    def test_queues(self):
        self.assertEqual([1, 2], [self.store.queue_push("q", item) for item in ("a", "b")])
        self.assertEqual(2, self.store.queue_length("q"))
        self.assertEqual(b"a", self.store.queue_pop("q"))
        self.assertEqual(b"b", self.store.queue_pop("q", 0))
        with self.assertRaises(c10dd.NotFound):
            self.store.queue_pop("q", 0)

    def test_keys_that_go(self):
        self.store.set("short", "", ttl=0.05)
        with self.connect() as other:
            other.store.set("of other", "", ephemeral=True)
            self.assertEqual(b"", self.store.get("of other", 0))
        for key in ("short", "of other"):
            end = time.monotonic() + 5 * SLOWDOWN
            while self.store.check([key]):
                self.assertLess(time.monotonic(), end)

    def test_transactions(self):
        first = self.store.transaction().if_absent("leader").set("leader", "me").add("terms").add("terms", 4)
        done = first.commit()
        self.assertEqual((True, None, [1, 5]), (done.applied, done.failed, done.sums))
        again = self.store.transaction().if_value("terms", "5").if_absent("leader").remove("terms").commit()
        self.assertFalse(again)
        self.assertEqual(1, again.failed)
        last = (self.store.transaction().if_exists("leader").if_revision("leader", done.revision)
                .append("leader", "!").queue_push("q", "item").remove("terms").commit())
        self.assertTrue(last)
        self.assertEqual((b"me!", b"item"), (self.store.get("leader"), self.store.queue_pop("q", 0)))

    def test_a_view_has_its_own_keys(self):
        view = self.store.prefix("a").prefix("b")
        view.set("k", "v")
        self.assertEqual((["a/b/k"], ["k"], b"v"), (self.store.list(), view.list(), view.get("k")))
        with view.watch_prefix() as watch:
            view.set("k", "w")
            self.assertEqual(("k", b"w"), (lambda one: (one.key, one.value))(next(watch)))

    def test_a_watch_is_an_iterator(self):
        with self.store.watch_prefix("w/") as watch:
            first = self.store.set("w/1", "a")
            self.store.remove("w/1")
            self.store.set("other", "")
            changes = [c10dd.Change(first, "w/1", b"a"), c10dd.Change(first + 1, "w/1", None)]
            self.assertEqual(changes, [next(watch), next(watch)])
            self.assertEqual([], watch.next(0))
            self.assertEqual(changes, self.store.watch("w/1", first).next())
        with self.assertRaises(c10dd.Closed):
            watch.next()


class Errors(WithDaemon):
    def test_each_has_a_class_of_its_own_and_a_built_in_one(self):
        store = self.connect().store
        store.set("text", "abc")
        store.set("big", str(2**63 - 1))
        for built_in, code, call in (
                (TimeoutError, "timed_out", lambda: store.get("absent", 0.01)),
                (KeyError, "not_found", lambda: store.get("absent", 0)),
                (ValueError, "invalid_argument", lambda: store.get("")),
                (ValueError, "too_large", lambda: store.set("k", bytes(9 << 20))),
                (ValueError, "invalid_argument", lambda: store.get("k", -1)),
                (TypeError, "wrong_type", lambda: store.add("text")),
                (OverflowError, "out_of_range", lambda: store.add("big"))):
            with self.subTest(code), self.assertRaises(built_in) as caught:
                call()
            self.assertIsInstance(caught.exception, c10dd.Error)
            self.assertEqual(code, caught.exception.code)
            self.assertTrue(type(caught.exception).__module__, "c10dd")
            self.assertTrue(str(caught.exception))
            self.assertNotIn("'", str(caught.exception)[:1])
        with self.assertRaises(c10dd.InvalidArgument):
            store.add("n", 2**63)

    def test_a_value_that_is_no_bytes(self):
        client = self.connect(rank=0, world_size=1)
        for call in (lambda: client.store.set("k", 5), lambda: client.store.get(5), lambda: client.store.get("k", "1"),
                     lambda: client.store.multi_set({"k": None}), lambda: client.exchange("e", 5),
                     lambda: client.store.set("k", None), lambda: client.store.add("k", 1.5),
                     lambda: c10dd.connect(b"c10dd://x/y"), lambda: client.store.get("k", True)):
            with self.assertRaises(TypeError) as caught:
                call()
            self.assertRegex(str(caught.exception), " must be ")
        self.assertEqual([], client.store.list())

    def test_connecting(self):
        with self.assertRaises(c10dd.TimedOut) as caught:
            c10dd.connect("c10dd://127.0.0.1:1/job", connect_timeout=0.3)
        self.assertIn("connection refused", str(caught.exception))
        for url, options, text in (("http://h/j", {}, "the scheme is not c10dd://"), (self.url(""), {}, "job"),
                                   (self.url(), {"rank": 2, "world_size": 2}, "rank is 2, but world_size is 2"),
                                   (self.url(), {"rank": -1}, "rank is -1: give 0"),
                                   (self.url(), {"world_size": 0}, "world_size is 0: give 1"),
                                   (self.url(), {"run": "a\0b"}, "run contains a NUL character"),
                                   ("c10dd://a\0b/j", {}, "URL contains a NUL character"),
                                   (self.url(), {"run": "x" * 300}, "300 bytes")):
            with self.subTest(url), self.assertRaises(c10dd.InvalidArgument) as caught:
                c10dd.connect(url, **options)
            self.assertIn(text, str(caught.exception))

    def test_the_environment_says_where(self):
        code = "import sys, c10dd; c = c10dd.connect(); print(c.job, c.rank, c.world_size, c10dd.read_launch().source)"
        told = {"C10DD_URL": self.url("env"), "RANK": "1", "WORLD_SIZE": "3"}
        run = subprocess.run([sys.executable, "-c", code], env={**ENVIRONMENT, **told}, check=True, stdout=subprocess.PIPE,
                             text=True)
        self.assertEqual("env 1 3 torchrun\n", run.stdout)
        run = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=False, stderr=subprocess.PIPE, text=True)
        self.assertIn("c10dd.InvalidArgument: neither C10DD_URL nor C10DD_ADDR is set", run.stderr)

    def test_after_close(self):
        client = self.connect(rank=0, world_size=1)
        watch, member, proxy = client.store.watch("k"), client.rendezvous(), client.open_proxy()
        client.close()
        client.close()
        for call in (lambda: client.store.get("k"), lambda: client.barrier("b"), watch.next, member.next,
                     lambda: member.barrier("b"), lambda: client.address, client.open_proxy):
            with self.assertRaises(c10dd.Closed):
                call()
        self.assertEqual(0, proxy.counts().clients)
        proxy.close()
        self.assertRaises(c10dd.Closed, proxy.counts)

    def test_a_copy_is_refused(self):
        client = self.connect()
        client.store.set("k", "v")
        for one in (client, client.store, client.store.watch("k"), client.store.transaction()):
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaises(TypeError) as caught:
                    make(one)
                self.assertIn("connect again in the other process", str(caught.exception))
        self.assertEqual(b"v", client.store.get("k", 0))

    def test_a_client_that_nobody_keeps_is_gone_at_once(self):
        gc.disable()
        self.addCleanup(gc.enable)
        client = c10dd.connect(self.url())
        client.store.set("mine", "", ephemeral=True)
        del client
        self.assertFalse(self.connect().store.check(["mine"]))
        store = c10dd.connect(self.url()).store  # which keeps its client
        self.assertEqual([], store.list())

    def test_without_descriptors_or_threads(self):
        for limit, value, text in (("RLIMIT_NOFILE", 12, "cannot open a file descriptor: Too many open files"),
                                   ("RLIMIT_AS", None, "cannot start a thread")):
            code = ("import sys, c10dd, resource\n"
                    "value = int(sys.argv[2]) or 300 * 1024 + resource.getpagesize() * int(open('/proc/self/statm').read().split()[0])\n"
                    f"resource.setrlimit(resource.{limit}, (value, value))\n"
                    "try:\n    kept = [c10dd.connect(sys.argv[1]) for _ in range(20)]\n"
                    "except c10dd.Unavailable as error: print(error)\n")
            process = self.python(code, str(value or 0))
            self.assertIn(text, process.communicate(timeout=30 * SLOWDOWN)[0].lower().replace("too many", "Too many"))
            self.assertEqual(0, process.returncode)

    def test_after_fork(self):
        client = self.connect()
        child = os.fork()
        if child == 0:
            try:
                client.store.get("k", 0)
            except c10dd.Forked:
                c10dd.connect(self.url()).store.set("k", "of the child")
                client.close()
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual((child, 0), os.waitpid(child, 0))
        self.assertEqual(b"of the child", client.store.get("k", 0))


class Ranks(WithDaemon):
    def until_a_rank_waits(self):
        end = time.monotonic() + 10 * SLOWDOWN
        while not json.loads(self.daemon.http("/v1/jobs/job")[1])["runs"][0]["barriers"]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_barrier_and_exchange(self):
        clients = [self.connect(rank=rank, world_size=2) for rank in range(2)]
        got = [None, None]

        def run(rank):
            client = clients[rank]
            client.barrier("start", timeout=20)
            got[rank] = (client.exchange("all", f"from {rank}"),
                         client.exchange("root", "x", shape=Shape.TO_ROOT, root=1),
                         client.exchange("given", ["of root"] if rank == 0 else [], shape=Shape.FROM_ROOT),
                         client.exchange("each", [f"{rank}>0", f"{rank}>1"], shape=Shape.TRANSPOSE))

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(([b"from 0", b"from 1"], [], [b"of root"], [b"0>0", b"1>0"]), got[0])
        self.assertEqual(([b"from 0", b"from 1"], [b"x", b"x"], [b"of root"], [b"0>1", b"1>1"]), got[1])

    def test_who_is_missing(self):
        client = self.connect(rank=0, world_size=2)
        with self.assertRaises(c10dd.TimedOut) as caught:
            client.barrier("start", timeout=0.2)
        self.assertEqual('barrier "start" (generation 0, sequence 0) timed out after 0.2 s: 1 of 2 ranks missing: [1]; '
                         "rank 1 never connected", str(caught.exception))
        self.assertEqual([(1, "never_connected", 0)], [(one.rank, one.cause, one.pid) for one in caught.exception.missing])

    def test_two_processes_with_one_rank(self):
        first = self.connect(rank=0, world_size=2, host="node7")
        thread = threading.Thread(target=lambda: self.assertRaises(c10dd.Error, first.barrier, "b", timeout=3))
        thread.start()
        self.until_a_rank_waits()
        with self.assertRaises(c10dd.RankTaken) as caught:
            self.connect(rank=0, world_size=2).barrier("b", timeout=3)
        self.assertIn("node7", str(caught.exception))
        self.assertIn(str(os.getpid()), str(caught.exception))
        first.close()
        thread.join()

    def test_world_sizes_that_differ(self):
        first = self.connect(rank=0, world_size=2)
        thread = threading.Thread(target=lambda: self.assertRaises(c10dd.Error, first.barrier, "b", timeout=10))
        thread.start()
        self.until_a_rank_waits()
        with self.assertRaises(c10dd.Error) as caught:
            self.connect(rank=1, world_size=3).barrier("b", timeout=10)
        self.assertEqual("size_mismatch", caught.exception.code)
        thread.join()

    def test_a_group(self):
        a, b = self.connect(host="a"), self.connect(host="b")
        members = [None, None]
        threads = [threading.Thread(target=lambda i=i, c=c: members.__setitem__(i, c.rendezvous("g", min=2, labels={"n": str(i)})))
                   for i, c in enumerate((a, b))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first, second = members
        self.assertEqual({0, 1}, {first.rank, second.rank})
        self.assertEqual(2, first.world_size)
        self.assertEqual(["a", "b"], sorted(member.host for member in first.members()))
        self.assertEqual(["0", "1"], sorted(member.labels["n"] for member in second.members()))
        state = first.state()
        self.assertFalse(state.ended(first.generation().number))
        first.progress("forward", 7, limit=60)
        second.fail("out of memory")
        state = first.wait_change(state.change, 10)
        self.assertTrue(state.ended(first.generation().number))
        self.assertIn("out of memory", state.reason)
        self.assertRaises(c10dd.Aborted, first.barrier, "b")
        with self.assertRaises(c10dd.TimedOut):
            first.next(timeout=0.2)

    def test_changes_are_an_iterator(self):
        member = self.connect().rendezvous("g")
        seen = member.changes()
        self.assertEqual([], next(seen).notices)
        number = member.notify([0], reason="maintenance", left=60)
        notice = next(state for state in seen if state.notices).notices[0]
        self.assertEqual((number, [0], "maintenance", False), (notice.number, notice.ranks, notice.reason, notice.preempt))
        member.acknowledge(number)
        member.finish()

    def test_an_endpoint(self):
        leased = self.connect().lease_endpoint("trainers", ttl=60)
        self.assertEqual(("127.0.0.1", 60.0), (leased.host, leased.ttl))


class Interrupts(WithDaemon):
    """Ctrl-C ends each call that blocks within 0.2 s."""

    def interrupted(self, call):
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        timer = threading.Timer(0.35, interrupt)
        with HeldUp(None) as held_up:
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                call()
            took = time.monotonic() - sent[0]
            timer.join()
        self.assertLess(took, 0.2 * SLOWDOWN + held_up.seconds)

    def test_ctrl_c(self):
        client = self.connect(rank=0, world_size=2)
        watch, member = client.store.watch("k"), client.rendezvous("one")
        for call in (lambda: client.store.get("k"), lambda: client.store.wait(["k"]), lambda: client.store.queue_pop("k"),
                     lambda: client.barrier("b"), lambda: client.exchange("e", ""), lambda: next(watch),
                     lambda: client.rendezvous("two", min=2), lambda: list(member.changes()),
                     lambda: c10dd.connect("c10dd://127.0.0.1:1/job")):
            with self.subTest(call):
                self.interrupted(call)
        client.store.set("k", "the client can still be used")
        self.assertEqual(b"the client can still be used", client.store.get("k", 0))

    def test_a_join_that_was_interrupted_is_withdrawn(self):
        first, second = self.connect(), self.connect()
        self.interrupted(lambda: first.rendezvous("g", min=2))
        with self.assertRaises(c10dd.TimedOut):
            second.rendezvous("g", min=2, timeout=0.5)

    def test_a_handler_that_makes_a_call_itself(self):
        client = self.connect()
        signal.signal(signal.SIGUSR1, lambda *_: client.store.set("k", "from the handler"))
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        self.assertEqual(b"from the handler", client.store.get("k", 10))

    def test_ctrl_c_while_other_threads_make_calls(self):
        client, done = self.connect(), threading.Event()

        def call():
            while not done.wait(0.02):
                client.store.set("n", "")

        thread = threading.Thread(target=call)
        thread.start()
        try:
            self.interrupted(lambda: client.store.get("never", 20))
        finally:
            done.set()
            thread.join()

    def test_a_change_that_came_with_a_signal_is_not_lost(self):
        client = self.connect()
        watch = client.store.watch("k")

        def change(*_):
            client.store.set("k", "v")
            time.sleep(0.2)  # the call has its reply before the handler ends
            raise ZeroDivisionError

        signal.signal(signal.SIGUSR1, change)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        with self.assertRaises(ZeroDivisionError):
            next(watch)
        self.assertEqual(b"v", watch.next(5)[0].value)

    def test_other_threads_run_meanwhile(self):
        client = self.connect()
        counted = 0

        def count():
            nonlocal counted
            while not done.is_set():
                counted += 1

        done = threading.Event()
        thread = threading.Thread(target=count)
        thread.start()
        before = counted
        self.assertRaises(c10dd.TimedOut, client.store.get, "never", 0.3)
        self.assertGreater(counted, before + 1000)
        done.set()
        thread.join()


class Exits(WithDaemon):
    def test_a_process_that_ends_says_goodbye(self):
        code = ("import sys, c10dd; c = c10dd.connect(sys.argv[1]); c.store.set('mine', '', ephemeral=True); "
                "m = c.rendezvous('g'); p = c.open_proxy(); w = c.store.watch('k'); print('ready', flush=True)")
        process = self.python(code)
        self.assertEqual(("ready\n", 0), (process.communicate()[0], process.returncode))
        self.assertFalse(self.connect().store.check(["mine"]))

    def test_ctrl_c_ends_a_process_that_waits(self):
        process = self.python("import sys, c10dd; c = c10dd.connect(sys.argv[1]); print('ready', flush=True); c.store.get('k')")
        self.assertEqual("ready\n", process.stdout.readline())
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=5 * SLOWDOWN)
        self.assertIn("KeyboardInterrupt", out)
        self.assertEqual(-signal.SIGINT, process.returncode)


class Survives(WithDaemon):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.engine = f"rocksdb:{folder.name}/state"
        super().setUp()

    def test_each_change_is_made_once_although_the_daemon_is_killed(self):
        client = self.connect()
        watch = client.store.watch("n")
        done = threading.Event()
        made = 0

        def count():
            nonlocal made
            while not done.is_set():
                made += 1
                self.assertEqual(made, client.store.add("n"))

        thread = threading.Thread(target=count)
        thread.start()
        for _ in range(3):
            time.sleep(0.3)
            self.daemon.kill()
            self.daemon.start()
        time.sleep(0.3)
        done.set()
        thread.join()
        self.assertEqual(str(made).encode(), client.store.get("n"))
        self.assertEqual([str(n + 1).encode() for n in range(made)], [next(watch).value for _ in range(made)])
        stats = client.stats()
        self.assertEqual((4, 0, 0), (stats.connects, stats.failures, stats.sessions_lost))


if __name__ == "__main__":
    os.environ["C10DD_LOG"] = "off"
    at_once.main(3)
