#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""init_method="c10dd://...", C10DD_TORCH=env and torchrun's handler: who is told what. PyTorch 1.13.1, and what needs 2.5 with
the newest one where `./dev torch newest` has made its environment."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python"))
from package import ENVIRONMENT, PACKAGE, write_entry_points  # noqa: E402
import at_once  # noqa: E402
from daemon import SLOWDOWN, Daemon, text_of  # noqa: E402
from environments import DEBIAN, python_of  # noqa: E402
from rejoin import Process, survive, until_held  # noqa: E402

MEET = """
import datetime, os, sys
import c10dd.torch
import torch.distributed as dist
dist.init_process_group("gloo", init_method=sys.argv[1] or None, timeout=datetime.timedelta(seconds=float(sys.argv[2])))
store = dist.distributed_c10d._get_default_store()
print("met", dist.get_rank(), store.num_keys(), flush=True)
"""
HOLD = MEET + "store.wait(['end'])\n"


SLEEPER = """
import os, time
os.write(1, f"born of {os.environ['WORLD_SIZE']} {time.time()}\\n".encode())
import torch.distributed as dist
dist.init_process_group("gloo")
os.write(1, f"up of {dist.get_world_size()} {time.time()}\\n".encode())
while not os.path.exists(os.path.dirname(__file__) + "/done"):
    time.sleep(0.1)
"""


class WithDaemon(unittest.TestCase):
    version = DEBIAN

    def setUp(self):
        self.python = python_of(self.version)
        if self.python is None:
            self.skipTest(f"PyTorch {self.version} is not installed; ./dev torch {self.version} installs it")
        self.daemon = Daemon()
        self.daemon.start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)

    def url(self, job="job"):
        return "c10dd://%s:%d/%s" % (*self.daemon.address, job)


class Scheme(WithDaemon):
    def start(self, code, *arguments, **variables):
        process = subprocess.Popen([self.python, "-c", code, *arguments],
                                   env={**ENVIRONMENT, "OMP_NUM_THREADS": "1", **variables},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def rank(self, rank, size=2, code=MEET, timeout=30, url=None, **variables):
        return self.start(code, self.url() if url is None else url, str(timeout * SLOWDOWN),
                          **{"RANK": str(rank), "WORLD_SIZE": str(size), **variables})

    def ended(self, process, code=0):
        said, _ = process.communicate(timeout=60 * SLOWDOWN)
        self.assertEqual(code, process.returncode, said)
        return said.splitlines()

    def met(self, *processes):
        self.assertEqual([f"met {rank}" for rank in range(len(processes))],
                         sorted(self.ended(process)[0].rsplit(" ", 1)[0] for process in processes))

    def refusal(self, process):
        """The last line that a process that failed says."""
        return self.ended(process, 1)[-1]

    def test_launches_follow_each_other(self):
        for _ in range(2):
            self.met(self.rank(0), self.rank(1))
        # The daemon keeps the runs of both apart: the second one finds no key of the first.
        self.met(self.rank(0, url=self.url() + "?name=a"), self.rank(1, url=self.url() + "?name=a"))

    def test_env_is_the_scheme_if_the_user_says_so(self):
        variables = {"C10DD_TORCH": "env", "C10DD_URL": self.url()}
        self.met(self.rank(0, url="", **variables), self.rank(1, url="", **variables))
        self.assertIn("C10DD_TORCH=env, but C10DD_URL is not set", self.refusal(self.rank(0, url="", C10DD_TORCH="env")))

    def test_a_second_launch_is_refused_at_once(self):
        held = [self.rank(0, code=HOLD), self.rank(1, code=HOLD)]
        for process in held:
            self.assertTrue(process.stdout.readline().startswith("met "))
        code = MEET.replace("import c10dd.torch", "import c10dd.torch, time; begin = time.time()").replace(
            "dist.init", "try:\n    dist.init").replace(
            "store =", "except c10dd.Error:\n    print(time.time() - begin, flush=True)\n    raise\nstore =")
        lines = self.ended(self.start(code, self.url(), "30", RANK="1", WORLD_SIZE="2"), 1)
        self.assertRegex(lines[-1], r"^c10dd.RankTaken: .*rank 1.* \(pid %d\)" % held[1].pid)
        self.assertLess(next(float(line) for line in lines if re.fullmatch(r"\d+\.\d+(e-\d+)?", line)), 1 * SLOWDOWN)
        for process in held:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.met(self.rank(0), self.rank(1))

    def test_a_rank_that_is_held_back_is_named(self):
        process = self.rank(0, timeout=3)
        end = time.monotonic() + 20 * SLOWDOWN
        while "torch/default" not in (page := self.daemon.http("/v1/jobs/job")[1]):
            self.assertLess(time.monotonic(), end, page)
            time.sleep(0.05)
        run = json.loads(page)["runs"][0]
        self.assertEqual([1], run["barriers"][0]["missing"])
        self.assertIn('exchange "torch/default" (generation 0, sequence 0): 1 of 2 ranks missing: [1]; rank 1 never connected',
                      run["summary"])
        named = 'exchange "torch/default" (generation 0, sequence 0) timed out after'
        said = self.refusal(process)
        self.assertIn("c10dd.TimedOut: " + named, said)
        self.assertIn("1 of 2 ranks missing: [1]; rank 1 never connected", said)
        self.assertIn(named.replace('"', r'\"'), self.daemon.errors())

    def test_what_the_url_may_not_say(self):
        for url, environment, text in (
                (self.url() + "?wrold_size=2", {}, 'unknown key "wrold_size"'),
                (self.url() + "?wrold_size=2", {}, 'did you mean "world_size"?'),
                (self.url() + "?rank=x&world_size=2", {}, "rank=x in the URL is not a number"),
                (self.url() + "?rank=2&world_size=2", {}, "rank is 2, but world_size is 2: ranks go from 0 to 1"),
                (self.url(), {"RANK": "", "WORLD_SIZE": ""}, "unknown rank and world_size: pass rank="),
                ("c10dd://127.0.0.1:1/job?rank=0&world_size=2", {}, "no session within 2 s: the daemon at 127.0.0.1:1")):
            with self.subTest(url):
                said = self.refusal(self.rank(0, url=url, timeout=2 / SLOWDOWN, **environment))
                self.assertIn(text, said)

    def test_rendezvous_again_and_a_store(self):
        code = MEET + ("dist.destroy_process_group()\n"
                       "dist.init_process_group('gloo', init_method=sys.argv[1])\n"
                       "dist.barrier(); dist.destroy_process_group()\n"
                       "s = c10dd.torch.store(sys.argv[1]); s.add('n', 1)\n"
                       "dist.init_process_group('gloo', store=s, rank=int(os.environ['RANK']), world_size=2)\n"
                       "dist.barrier(); print('n', s.get('n'), flush=True)\n")
        for process in [self.rank(0, code=code), self.rank(1, code=code)]:
            self.assertIn("n b'2'", self.ended(process)[-1])

    def test_a_rank_whose_data_loaders_live_is_gone_when_it_is_killed(self):
        code = HOLD.replace("store.wait", "child = os.fork()\nif child == 0: import time; time.sleep(60)\nprint(child, flush=True)\nstore.wait")
        held = [self.rank(0, code=HOLD), self.rank(1, code=code)]
        self.assertTrue(held[0].stdout.readline().startswith("met "))
        self.assertTrue(held[1].stdout.readline().startswith("met "))
        child = int(held[1].stdout.readline())
        self.addCleanup(lambda: os.kill(child, signal.SIGKILL))
        held[1].send_signal(signal.SIGKILL)
        held[0].send_signal(signal.SIGKILL)
        for process in held:
            process.wait()
        begin = time.monotonic()
        self.met(self.rank(0), self.rank(1))  # the rank is free, although the child lives
        self.assertLess(time.monotonic() - begin, 20 * SLOWDOWN)


class Again(WithDaemon):
    """Groups that end and begin again in a process that lives on. rejoin.py has the long form."""

    def process(self):
        process = Process(self.python, self.url())
        self.addCleanup(process.end)
        return process

    def together(self, steps, answers):
        """Does the steps in all processes at once: {process: step}."""
        for process, step in steps.items():
            process.begin(step)
        self.assertEqual(answers, [process.answer() for process in steps])

    def test_a_survivor_and_a_new_process_meet_in_both_orders(self):
        survive(self.python, "", 2, C10DD_TORCH="env", C10DD_URL=self.url())

    def test_the_next_group_is_a_launch_of_its_own(self):
        a, b, c = (self.process() for _ in range(3))
        self.together({a: "init 0 2", b: "init 1 2"}, ["sum 2"] * 2)
        self.second_store_beside_a_group(a, b)
        self.together({a: "destroy", b: "drop"}, ["done"] * 2)
        child = int(b.do("fork"))  # a data loader, which outlives the group
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.together({b: "destroy"}, ["done"])
        self.assertEqual("sum 1", a.do("init 0 1 20"))  # a keeps its old stores, as a model does
        self.together({a: "destroy"}, ["done"])
        self.together({a: "init 1 3", b: "init 2 3", c: "init 0 3"}, ["sum 3"] * 3)
        c.end()
        self.together({a: "destroy", b: "destroy"}, ["done"] * 2)
        self.together({a: "init 0 2", b: "init 1 2"}, ["sum 2"] * 2)
        b.end()
        new = self.process()
        self.assertRegex(new.do("init 1 2 2"),
                         r'^TimedOut: exchange "torch/default" .* timed out after 2 s: ranks \[0\] of the launch before are '
                         rf"still connected, such as .*\(pid {a.process.pid}\); end them, let them destroy")
        self.assertRegex(new.do("init 0 2"), rf"^RankTaken: .*rank 0.*\(pid {a.process.pid}\)")

    def second_store_beside_a_group(self, a, b):
        a.begin("store 0 2 20")
        time.sleep(0.2)
        self.assertEqual("done", b.do("store 1 2 20"))
        self.assertEqual("done", a.answer())
        self.together({a: "reduce", b: "reduce"}, ["sum 2"] * 2)

    def test_two_threads_and_what_is_left(self):
        a = self.process()
        a.do("loop 2")
        before = until_held(a, [0, 0], 0.3)
        self.assertEqual("done", a.do("loop 20"))
        held = until_held(a, before)
        self.assertLessEqual(held[0], before[0], "descriptors")
        self.assertLessEqual(held[1], before[1], "threads")
        self.assertEqual("done", a.do("begin 0 2 30"))
        time.sleep(0.3)
        self.assertRegex(a.do("store 1 3 5"), r"^InvalidArgument: .* as rank 1 of 3, while another thread of this process "
                         r"is in one as rank 0 of 2: .*\?name=")


class Torchrun(WithDaemon):
    """torchrun --rdzv-backend=c10dd, from PyTorch 2.5 on."""
    version = "newest"

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = folder.name
        write_entry_points(self.site)
        self.sleeper = os.path.join(self.site, "sleeper.py")
        with open(self.sleeper, "w", encoding="ascii") as file:
            file.write(SLEEPER)

    def node(self, *words, job="llm", nodes="1:1", endpoint=None):
        """An agent, its output in .log."""
        log = tempfile.TemporaryFile()
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [os.path.join(os.path.dirname(self.python), "torchrun"), "--rdzv-backend=c10dd", "--nproc-per-node=1",
             f"--rdzv-endpoint={endpoint or '%s:%d' % self.daemon.address}", f"--nnodes={nodes}",
             *([f"--rdzv-id={job}"] if job else []), *words, self.sleeper],
            env={**ENVIRONMENT, "PYTHONPATH": PACKAGE + ":" + self.site, "OMP_NUM_THREADS": "1"},
            stdout=log, stderr=log, start_new_session=True)
        process.log = log
        self.addCleanup(process.wait)
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process):
        """The node: the agent and its workers, which it has put into sessions of their own."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], check=False, stdout=subprocess.PIPE, text=True)
        process.kill()
        for child in listed.stdout.split():
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def until(self, process, line, after=0):
        """Waits for a line of an agent; returns the times of all such lines."""
        end = time.monotonic() + 60 * SLOWDOWN
        while not (found := [when for when in re.findall(line + r" (\d+\.\d+)", text_of(process.log)) if float(when) > after]):
            self.assertIsNone(process.poll(), text_of(process.log))
            self.assertLess(time.monotonic(), end, text_of(process.log))
            time.sleep(0.05)
        return [float(when) for when in found]

    def has_waiters(self, count):
        end = time.monotonic() + 60 * SLOWDOWN
        while f'"waiters":{count}' not in (page := self.daemon.http("/v1/jobs/llm")[1]):
            self.assertLess(time.monotonic(), end, page)
            time.sleep(0.05)

    def refused(self, process, text, seconds=60):
        self.assertNotEqual(0, process.wait(seconds * SLOWDOWN))
        self.assertIn(text, text_of(process.log))

    def test_a_lost_node_and_one_that_comes_back(self):
        a, b, c = nodes = [self.node(nodes="2:3") for _ in range(3)]
        for node in nodes:
            self.until(node, "up of 3")
        killed = time.time()
        self.kill(c)
        for node in (a, b):
            self.assertLess(self.until(node, "born of 2")[0] - killed, 5 * SLOWDOWN)
            self.until(node, "up of 2")
        self.assertIn("is lost", self.daemon.errors())
        back = self.node(nodes="2:3")
        for node in (a, b, back):
            self.until(node, "up of 3", after=killed)
        self.assertNotIn("Traceback", text_of(a.log))

    def test_the_store_of_rank_0_comes_up_in_each_round(self):
        a, b = [self.node("--rdzv-conf=store=rank0", nodes="1:2") for _ in range(2)]
        for node in (a, b):
            self.until(node, "up of 2")
        killed = time.time()
        self.kill(b)
        self.until(a, "up of 1", after=killed)

    def test_an_agent_that_is_silent_for_less_than_its_ttl_is_not_lost_and_a_spare_ends_with_the_others(self):
        nodes = [self.node(nodes="2:2") for _ in range(2)]
        for node in nodes:
            self.until(node, "up of 2")
        spare = self.node(nodes="2:2")
        os.kill(nodes[1].pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(nodes[1].pid, signal.SIGCONT)
        time.sleep(1)
        for node in nodes:
            self.assertEqual(1, len(self.until(node, "born of 2")), text_of(node.log))
        self.end_well(*nodes, spare)

    def end_well(self, *nodes):
        """Ends the work of all but the last node, which is a spare: it ends with them."""
        self.has_waiters(3)  # two members watch the group, and the spare has joined
        with open(os.path.join(self.site, "done"), "w", encoding="ascii"):
            pass
        for node in nodes:
            self.assertEqual(0, node.wait(60 * SLOWDOWN), text_of(node.log))
        spare = text_of(nodes[-1].log)
        self.assertIn("has finished its work: this process had no place in it, and is not needed", spare)
        self.assertNotIn("born", spare)

    def test_a_spare_ends_with_the_work_of_the_others(self):
        nodes = [self.node(nodes="1:2") for _ in range(2)]
        for node in nodes:
            self.until(node, "up of 2")
        spare = self.node(nodes="1:2")
        self.has_waiters(3)  # two members watch the group, and the spare has joined
        with open(os.path.join(self.site, "done"), "w", encoding="ascii"):
            pass
        for node in (*nodes, spare):
            self.assertEqual(0, node.wait(60 * SLOWDOWN), text_of(node.log))
        self.assertIn("has finished its work: this process had no place in it, and is not needed", text_of(spare.log))
        self.assertNotIn("born", text_of(spare.log))

    def test_what_is_refused(self):
        self.refused(self.node("--rdzv-conf=last_call=1"), 'unknown key "last_call", did you mean "last_call_timeout"?')
        self.refused(self.node("--rdzv-conf=store=rank1"), "store=rank1: give proxy or rank0")
        self.refused(self.node("--rdzv-conf=join_timeout=-1"), "join_timeout=-1: give seconds, 0 or more")
        self.refused(self.node("--rdzv-conf=ttl=soon"), "ttl=soon: give seconds, 0 or more")
        self.refused(self.node(nodes="2:2", job=""), "give all of them the same --rdzv-id")
        self.refused(self.node("--rdzv-conf=connect_timeout=1", endpoint="127.0.0.1:1"),
                     "RendezvousConnectionError: no session within 1 s: the daemon at 127.0.0.1:1")
        self.refused(self.node("--rdzv-conf=join_timeout=2", nodes="2:2"), "(join_timeout is 2 s)")

    def test_nodes_that_disagree(self):
        first = self.node("--rdzv-conf=join_timeout=30", nodes="2:2")
        self.has_waiters(1)  # it has joined
        self.refused(self.node(nodes="3:3"), "RendezvousStateError")
        self.kill(first)


if __name__ == "__main__":
    os.environ["C10DD_LOG"] = "off"
    at_once.main(3)
