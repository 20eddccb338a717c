# SPDX-License-Identifier: Apache-2.0
"""c10drun with the real daemon: what workers are told and print, who is named when they fail, and
that nodes come, go and die without harm to the others."""
import os
import re
import shutil
import signal
import socket
import struct
import tempfile
import time
import unittest

import at_once
from daemon import BIN, SLOWDOWN, Daemon
from launcher import Case, Launcher, alive, passes_in_one_of_three
from faulty_link import FaultyLink
from wire import Wire, text

SOURCE = os.environ.get("C10DD_SOURCE", os.path.join(os.path.dirname(__file__), "../.."))
DIGITS = os.path.join(BIN, "digits")
FOLLOW_GROUP, NOTIFY = 53, 54
REPORTER = r"node \d \(\S+, agent pid \d+\)"


class Workers(Case):
    def test_environment_is_complete_and_ranks_count_over_nodes(self):
        script = "env >$OUT/env.$RANK"
        first = self.launch(script, "--nnodes", "2", "--nproc", "2", "--node-rank", "0",
                            "--local-addr", "10.1.2.3", "--run", "try")
        second = self.launch(script, "--nnodes", "2", "--nproc", "1", "--node-rank", "1",
                             "--run", "try", environment={"OMP_NUM_THREADS": "7", "RANK": "55"})
        self.assertEqual(0, first.wait(), first.said())
        self.assertEqual(0, second.wait(), second.said())
        host, port = self.daemon.address
        seen = []
        for rank in range(3):
            node, local = divmod(rank, 2)
            told = dict(line.split("=", 1) for line in self.lines(f"env.{rank}") if "=" in line)
            seen.append(told)
            expected = {
                "RANK": rank, "WORLD_SIZE": 3, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": 2 - node,
                "GROUP_RANK": node, "GROUP_WORLD_SIZE": 2, "ROLE_RANK": rank,
                "ROLE_WORLD_SIZE": 3, "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
                "C10DD_RANK0_ADDR": "10.1.2.3",
                "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
                "TORCHELASTIC_RUN_ID": self.job, "TORCHELASTIC_USE_AGENT_STORE": "True",
                "OMP_NUM_THREADS": 7 if node else 1, "C10DD_URL": f"c10dd://{host}:{port}/{self.job}",
                "C10DD_JOB": self.job, "C10DD_RANK": rank, "C10DD_WORLD_SIZE": 3,
                "C10DD_LOCAL_RANK": local, "C10DD_LOCAL_WORLD_SIZE": 2 - node,
                "C10DD_NODE_RANK": node,
            }
            self.assertEqual({name: str(value) for name, value in expected.items()},
                             {name: told.get(name) for name in expected})
            self.assertTrue(os.path.isabs(told["TORCHELASTIC_ERROR_FILE"]))
        self.assertEqual(1, len({told["C10DD_RANK0_PORT"] for told in seen}))
        ports = [int(told["MASTER_PORT"]) for told in seen]
        self.assertEqual(ports[0], ports[1], "each node has its own port")
        self.assertTrue(all(1 <= port <= 65535 for port in ports))
        run, = {told["C10DD_RUN"] for told in seen}
        generation, = {told["C10DD_GENERATION"] for told in seen}
        self.assertRegex(run, rf"^try\.g{generation}-[0-9a-f]+$")
        self.assertEqual([], os.listdir(self.scratch))

    def test_the_store_may_be_in_rank_0_and_node_0_decides(self):
        script = "env >$OUT/env.$RANK"
        first = self.launch(script, "--nnodes", "2", "--node-rank", "0", "--local-addr", "10.1.2.3", "--store", "rank0")
        second = self.launch(script, "--nnodes", "2", "--node-rank", "1")
        for node in (first, second):
            self.assertEqual(0, node.wait(), node.said())
        self.assertIn("--store is rank0 on node 0, so all nodes use rank0", second.said())
        for rank in range(2):
            told = dict(line.split("=", 1) for line in self.lines(f"env.{rank}") if "=" in line)
            self.assertEqual(("10.1.2.3", "False"), (told["MASTER_ADDR"], told["TORCHELASTIC_USE_AGENT_STORE"]))
            self.assertEqual((told["C10DD_RANK0_ADDR"], told["C10DD_RANK0_PORT"]), (told["MASTER_ADDR"], told["MASTER_PORT"]))
        wrong = self.launch("true", "--store", "etcd")
        self.assertEqual(64, wrong.wait())
        self.assertIn('--store is "etcd": expected proxy or rank0', wrong.said())

    def test_lines_have_prefixes_and_files(self):
        logs = self.path("logs")
        run = self.launch("echo out $RANK; echo err $RANK >&2; printf partial", "--nproc", "2",
                          "--log-dir", logs)
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual(["[0] out 0", "[0] partial", "[1] out 1", "[1] partial"],
                         sorted(run.printed().split("\n")[:-1]))
        folder = re.search(r"logs in (\S+)\n", run.said())[1]
        self.assertRegex(folder, rf"^{logs}/\d{{8}}T\d{{6}}Z-[0-9a-f]+/\d+$")
        for rank in range(2):
            self.assertIn(f"[{rank}] err {rank}\n", run.said())
            for name, text in ("stdout", f"out {rank}\npartial"), ("stderr", f"err {rank}\n"):
                self.assertEqual(text, self.read(os.path.join(folder, str(rank), f"{name}.log")))

    def test_each_launch_has_a_log_folder_of_its_own_on_all_its_nodes(self):
        logs = self.path("logs")
        folders = []  # names of one second are in no order
        for launch in range(1, 3):
            nodes = [self.launch(f"echo launch {launch} restart $TORCHELASTIC_RESTART_COUNT; "
                                 "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 4", "--nnodes", "2",
                                 "--max-restarts", "1", "--no-console", "--log-dir", logs) for _ in range(2)]
            for node in nodes:
                self.assertEqual(0, node.wait(40), node.said())
            self.assertEqual(launch, len(os.listdir(logs)), os.listdir(logs))
            folders += set(os.listdir(logs)) - set(folders)
        for launch, folder in enumerate(folders, 1):
            generations = sorted(os.listdir(os.path.join(logs, folder)), key=int)
            self.assertEqual(2, len(generations))
            for restart, generation in enumerate(generations):
                ranks = os.path.join(logs, folder, generation)
                self.assertEqual(["0", "1"], sorted(os.listdir(ranks)))
                for rank in os.listdir(ranks):
                    self.assertEqual(f"launch {launch} restart {restart}\n",
                                     self.read(os.path.join(ranks, rank, "stdout.log")))

    def test_run_of_the_workers_is_told(self):
        run = self.launch("echo $C10DD_RUN", "--run", "mine", "--no-prefix")
        self.assertEqual(0, run.wait(), run.said())
        self.assertRegex(run.printed(), r"^mine\.g\d+-[0-9a-f]+\n$")
        self.assertIn(f", run {run.printed().strip()}, 0 restarts of 0\n", run.said())

    def test_scripts_and_modules_are_run_by_python(self):
        script = self.path("train.py")
        with open(script, "w", encoding="ascii") as file:
            file.write("import os, sys\nprint(__name__, os.environ['RANK'], sys.argv[1:])\n")
        for program in [script], ["-m", "train"]:
            run = Launcher(self, "--standalone", "--nproc", "2", "--no-prefix", *program, "--lr", "1",
                           environment={"PYTHONPATH": self.folder})
            self.assertEqual(0, run.wait(), run.said())
            self.assertEqual([f"__main__ {rank} ['--lr', '1']" for rank in range(2)],
                             sorted(run.printed().split("\n")[:-1]))
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho shell\n")
        os.chmod(script, 0o755)
        run = Launcher(self, "--standalone", "--no-prefix", "--no-python", script)
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual("shell\n", run.printed())

    def test_only_chosen_local_ranks_are_printed(self):
        run = self.launch("echo out $RANK; echo err $RANK >&2", "--nproc", "3",
                          "--local-ranks-filter", "0,2", "--role", "any")
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual(["[0] out 0", "[2] out 2"], sorted(run.printed().split("\n")[:-1]))
        self.assertNotIn("err 1", run.said())

    def test_without_prefix_lines_are_as_printed(self):
        run = self.launch("echo out; printf partial", "--no-prefix")
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual("out\npartial\n", run.printed())

    def test_standalone_daemon_lives_as_long_as_the_launcher(self):
        run = Launcher(self, "--standalone", "--nproc", "2", "--", "sh", "-c",
                       "echo $C10DD_URL; echo $PPID >$OUT/agent; while [ ! -e $OUT/go ]; do "
                       "sleep 0.02; done")
        url = self.until(lambda: re.search(r"c10dd://127\.0\.0\.1:(\d+)/", run.printed()), "a URL",
                         run)
        address = ("127.0.0.1", int(url[1]))
        socket.create_connection(address, timeout=5).close()
        open(self.path("go"), "w", encoding="ascii").close()
        self.assertEqual(0, run.wait(), run.said())
        with self.assertRaises(OSError):
            socket.create_connection(address, timeout=5)
        self.assertEqual([], os.listdir(self.scratch))

    @passes_in_one_of_three
    def test_it_ends_with_its_workers(self):
        for number in None, signal.SIGTERM, signal.SIGINT:
            run = Launcher(self, "--standalone", "--", "sh", "-c",
                           "rm -f $OUT/go; echo $$ >$OUT/pid.new; mv $OUT/pid.new $OUT/pid; "
                           "while [ ! -e $OUT/go ]; do sleep 0.02; done")
            pid = int(self.until(lambda: self.read("pid"), "a worker", run))
            os.remove(self.path("pid"))
            if number is None:
                open(self.path("go"), "w", encoding="ascii").close()
            else:
                run.send(number)
            self.until(lambda pid=pid: not alive(pid), "the worker has ended", run)
            ended = time.monotonic()
            run.wait()
            self.assertLess(time.monotonic() - ended, 0.7 * SLOWDOWN, number)


class Failures(Case):
    def test_first_failing_rank_is_the_cause_everywhere(self):
        script = ("[ $RANK = 1 ] || exec sleep 60; echo working; echo the cause >&2; "
                  "sleep 0.2; kill -SEGV $$")
        nodes = [self.launch(script, "--nnodes", "2", "--nproc", "2", "--max-restarts", "0")
                 for _ in range(2)]
        for node in nodes:
            self.assertEqual(139, node.wait(), node.said())
            self.assertRegex(node.said(), rf"the job has failed: {REPORTER} reports: rank 1 on \S+ "
                                          r"\(pid \d+\) was killed by SIGSEGV\n    the cause\n")
            self.assertRegex(node.said(), rf"generation 1 has ended: {REPORTER} reports: rank 1 on ")
            self.assertNotRegex(node.said(), "exit code|has failed: rank")
        reporters = {re.search("agent pid (\\d+)", node.said())[1] for node in nodes}
        self.assertLess(reporters, {str(node.process.pid) for node in nodes})
        self.assertEqual(1, sum("1 other worker of this node was stopped" in node.said()
                                for node in nodes))

    def test_the_cause_says_what_the_worker_left_in_its_error_file(self):
        script = ("[ $RANK = 1 ] || exec sleep 60; echo '{\"message\": {\"message\": "
                  "\"ValueError: loss is nan\"}}' >$TORCHELASTIC_ERROR_FILE; exit 3")
        nodes = [self.launch(script, "--nnodes", "2", "--max-restarts", "0") for _ in range(2)]
        for node in nodes:
            self.assertEqual(3, node.wait(), node.said())
            self.assertRegex(node.said(), rf"the job has failed: {REPORTER} reports: rank 1 on \S+ "
                                          r"\(pid \d+\) exited with code 3: ValueError: loss is "
                                          r"nan\n")

    def test_workers_start_again_until_there_are_too_many_failures(self):
        run = self.launch("echo $TORCHELASTIC_RESTART_COUNT $C10DD_RUN >>$OUT/starts; exit 7",
                          "--max-restarts", "2")
        self.assertEqual(7, run.wait(), run.said())
        starts = [line.split() for line in self.lines("starts")]
        self.assertEqual(["0", "1", "2"], [count for count, _ in starts])
        self.assertEqual(3, len({name for _, name in starts}))
        self.assertRegex(run.said(), rf"the job has failed after 2 restarts: {REPORTER} reports: "
                                     r"rank 0 on ")
        self.assertIn(" exited with code 7", run.said())

        again = self.launch("echo $TORCHELASTIC_RESTART_COUNT >>$OUT/again; exit 8",
                            "--max-restarts", "1")
        self.assertEqual(8, again.wait(), again.said())
        self.assertEqual(["0", "1"], self.lines("again"))

    def test_a_failure_that_does_not_come_again_is_survived_by_all(self):
        script = ("echo $RANK >>$OUT/starts.$TORCHELASTIC_RESTART_COUNT; "
                  "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 0 ] && exit 0; "
                  "while [ $(wc -l <$OUT/starts.0) -lt 2 ]; do sleep 0.02; done; exit 5")
        nodes = [self.launch(script, "--nnodes", "2", "--max-restarts", "1") for _ in range(2)]
        for node in nodes:
            self.assertEqual(0, node.wait(), node.said())
        self.assertEqual(["0", "1"], sorted(self.lines("starts.0")))
        self.assertEqual(["0", "1"], sorted(self.lines("starts.1")))

    def test_who_does_not_stop_is_killed_after_the_grace(self):
        script = ("[ $RANK = 1 ] && { while [ ! -s $OUT/stubborn ]; do sleep 0.02; done; exit 9; }; "
                  "trap '' TERM; sleep 60 & echo $! $$ >$OUT/stubborn; while :; do sleep 0.05; done")
        run = self.launch(script, "--nproc", "2", "--max-restarts", "0", "--grace", "300ms")
        self.assertEqual(9, run.wait(), run.said())
        for pid in self.read("stubborn").split():
            self.assertFalse(alive(pid))
        self.assertIn("1 worker did not stop within --grace 0.3 s and is killed", run.said())


class Nodes(Case):
    SERVE = ("echo $$ $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT >>$OUT/$NAME; "
             "trap 'echo asked >>$OUT/$NAME; exit 0' TERM; "
             "while [ ! -e $OUT/go ]; do sleep 0.02; done")

    def node(self, name, *options, script=SERVE):
        return self.launch(script, "--nnodes", "1:2", *options, environment={"NAME": name})

    def started(self, name, size, launcher):
        """The pids of the newest workers of that node in a world of that size."""
        def look():
            rows = [line.split() for line in self.lines(name)]
            return [row[0] for row in rows if row[1:] == [str(size), "0"]]
        return self.until(look, f"{name} has a worker of {size}", launcher)

    def go(self, *launchers):
        open(self.path("go"), "w", encoding="ascii").close()
        for launcher in launchers:
            self.assertEqual(0, launcher.wait(), launcher.said())

    def test_sigterm_drains_a_node_and_the_others_go_on(self):
        first, second = self.node("a"), self.node("b")
        self.started("a", 2, first)
        self.started("b", 2, second)
        second.send(signal.SIGTERM)
        self.assertEqual(143, second.wait(), second.said())
        self.assertIn("asked", self.read("b"))
        self.started("a", 1, first)
        self.assertIn("drained by SIGTERM", first.said())
        self.go(first)

    def test_a_drain_uses_up_no_restart_of_nodes_whose_workers_fail_with_it(self):
        # When it is asked, the worker of the first node is useless to its peers, and ends 2 s later.
        leaves = self.SERVE.replace("exit 0", "sleep 2; exit 0")
        fails = self.SERVE.replace("do sleep", "do [ $WORLD_SIZE = 1 ] || "
                                   "! grep -q asked $OUT/a || { echo failed >>$OUT/$NAME; exit 3; }; sleep")
        first = self.node("a", "--max-restarts", "0", script=leaves)
        second = self.node("b", "--max-restarts", "0", script=fails)
        self.started("a", 2, first)
        self.started("b", 2, second)
        first.send(signal.SIGTERM)
        self.assertEqual(143, first.wait(), first.said())
        self.started("b", 1, second)
        self.assertIn("failed", self.read("b"))
        self.go(second)
        self.assertIn("does not count as a failure", second.said())

    def test_signal_ends_a_launcher_that_waits_for_others(self):
        run = self.launch("true", "--nnodes", "2")
        self.until(lambda: "waiting for 2 nodes at " in run.said(), "it waits", run)
        time.sleep(0.2)
        run.send(signal.SIGTERM)
        self.assertEqual(143, run.wait(5), run.said())

    @passes_in_one_of_three
    def test_killed_agent_leaves_no_workers_and_the_others_go_on(self):
        first = self.node("a", script="sleep 600 & echo $! >$OUT/child; " + self.SERVE)
        # A worker that cannot go on without its peer fails before the daemon misses the node.
        second = self.node("b", script=self.SERVE.replace(
            "do sleep", "do [ $WORLD_SIZE = 1 ] || [ ! -s $OUT/child ] || "
            "kill -0 $(cat $OUT/child) 2>/dev/null || exit 3; sleep"))
        workers = self.started("a", 2, first)
        self.started("b", 2, second)
        first.send(signal.SIGKILL)
        first.wait()
        for pid in [*workers, self.read("child").strip()]:
            self.until(lambda pid=pid: not alive(pid), f"process {pid} is gone", seconds=5)
        self.started("b", 1, second)
        self.go(second)
        self.assertRegex(second.said(), r"node \d \(\S+, agent pid \d+\) is lost")
        self.until(lambda: not os.listdir(self.scratch), "the temporary folders are gone")

    def test_late_node_gets_in_without_using_up_a_restart(self):
        first = self.node("a", "--max-restarts", "0")
        self.started("a", 1, first)
        second = self.node("b", "--max-restarts", "0")
        self.started("a", 2, first)
        self.started("b", 2, second)
        self.assertIn("asked", self.read("a"))
        self.go(first, second)

    def test_a_spare_ends_with_the_work_of_the_others(self):
        first, second = self.node("a"), self.node("b")
        self.started("a", 2, first)
        self.started("b", 2, second)
        spare = self.node("c", script="exit 3")
        self.until(lambda: "another launch of this job is running" in spare.said(), "the spare waits", spare)
        self.go(first, second, spare)
        self.assertIn("finished its work: this process had no place in it, and is not needed", spare.said())

    def test_notice_that_names_a_node_drains_it(self):
        first, second = self.node("a"), self.node("b")
        self.started("a", 2, first)
        self.started("b", 2, second)
        wire = Wire(self.daemon.address)
        self.addCleanup(wire.close)
        self.assertEqual("ok", wire.hello(job=self.job).code)
        body = text("c10drun") + struct.pack("<BII", 0, 1, 1) + text("") + struct.pack("<q", 0)
        self.assertEqual("ok", wire.call(NOTIFY, body + text("maintenance")).code)
        codes = {}
        gone = self.until(lambda: [n for n in (first, second) if n.process.poll() is not None],
                          "a node has left")[0]
        codes[gone] = gone.wait()
        self.assertEqual(143, codes[gone], gone.said())
        self.assertIn("asked to leave: maintenance", gone.said())
        stays, name = (second, "b") if gone is first else (first, "a")
        self.started(name, 1, stays)
        self.go(stays)

    @unittest.skipUnless(os.access(DIGITS, os.X_OK), "the example digits is not built")
    @passes_in_one_of_three
    def test_real_training_survives_the_death_of_a_node(self):
        data = os.path.join(SOURCE, "examples/digits/data/digits.csv")
        first, second = [
            self.launch_program([DIGITS, "--data", data, "--epochs", "20"], "--nnodes", "1:2",
                                "--max-restarts", "0") for _ in range(2)]
        self.until(lambda: "epoch number=1 of=20" in first.printed() + second.printed(),
                   "it trains", first)
        self.assertIn(" of 2, rank 0 at ", first.said())
        first.send(signal.SIGKILL)
        self.assertEqual(0, second.wait(40), second.said())
        self.assertRegex(second.said(), "is lost")
        self.assertRegex(second.printed(), r"result rank=0 .*test_accuracy=0\.[89]")

    def nodes_of_another_daemon(self, *options):
        """A daemon that can be killed, and two nodes, which both have a worker."""
        folder = tempfile.mkdtemp(prefix="c10drun-state-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        daemon = Daemon(engine=f"rocksdb:{folder}/state").start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        host, port = daemon.address
        nodes = [Launcher(self, "--daemon", f"{host}:{port}", "--job", "j", *options, "--", "sh",
                          "-c", self.SERVE, environment={"NAME": name}) for name in "ab"]
        self.started("a", 2, nodes[0])
        self.started("b", 2, nodes[1])
        return daemon, nodes

    @passes_in_one_of_three
    def test_daemon_may_die_and_come_back(self):
        daemon, nodes = self.nodes_of_another_daemon("--nnodes", "2")
        daemon.kill()
        time.sleep(0.5)
        daemon.start()
        time.sleep(0.5)
        self.go(*nodes)
        self.assertEqual(1, len(self.lines("a")), "its worker was started again")

    @passes_in_one_of_three
    def test_connections_that_end_again_and_again_restart_nothing(self):
        links = [FaultyLink(self.daemon.address[1]) for _ in range(2)]
        for link in links:
            self.addCleanup(link.close)
        nodes = [Launcher(self, "--daemon", f"127.0.0.1:{link.port}", "--job", self.job, "--nnodes", "2", "--max-restarts", "0",
                          "--last-call", "1s", "--", "sh", "-c", self.SERVE, environment={"NAME": name})
                 for name, link in zip("ab", links)]
        for name, node in zip("ab", nodes):
            self.until(lambda name=name: self.lines(name), f"{name} has a worker", node)
        for turn in range(12):
            links[turn % 2].reset()
            time.sleep(0.4)  # longer than the interval of heartbeats: each connection has served
        self.go(*nodes)
        self.assertEqual([1, 1], [len(self.lines(name)) for name in "ab"], nodes[0].said())

    @passes_in_one_of_three
    def test_node_that_is_drained_during_an_outage_has_left_when_the_daemon_is_back(self):
        daemon, (first, second) = self.nodes_of_another_daemon("--nnodes", "1:2", "--last-call", "1s")
        daemon.kill()
        second.send(signal.SIGTERM)
        self.until(lambda: "asked" in self.read("b"), "its worker is asked to end", second)
        daemon.start()
        self.assertEqual(143, second.wait(), second.said())
        self.started("a", 1, first)
        self.assertIn("drained by SIGTERM", first.said())
        self.assertNotIn("is lost", first.said())
        self.go(first)


class BadInput(Case):
    def refused(self, code, *words, arguments, environment=None):
        run = Launcher(self, *arguments, environment=environment)
        self.assertEqual(code, run.wait(10), run.said())
        for word in words:
            self.assertIn(word, run.said())
        self.assertNotIn("unexpected", run.said())
        self.assertEqual("", run.printed())

    def test_is_refused_with_a_sentence(self):
        plain = self.path("plain.py")
        with open(plain, "w", encoding="ascii") as file:
            file.write("print()\n")
        # No daemon is needed to find these.
        nowhere = {"C10DD_URL": "c10dd://127.0.0.1:1/j"}
        for code, words, arguments in [
                (64, ["--nproc is \"0\"", "1 to 1024"], ["--nproc", "0", "true"]),
                (64, ["does not detect devices"], ["--nproc", "gpu", "true"]),
                (64, ["--nnodes is \"3:2\""], ["--nnodes", "3:2", "true"]),
                (64, ["no program to run"], ["--nproc", "2", "--"]),
                (64, ["--grace is \"soon\""], ["--grace", "soon", "true"]),
                (64, ["--gpus"], ["--gpus", "2", "true"]),
                (64, ["--standalone is for one node"], ["--standalone", "--nnodes", "2", "true"]),
                (127, ["no-such-program not found", "searched PATH="], ["--", "no-such-program"]),
                (127, ["cannot execute /no/such: no such file"], ["--", "/no/such"]),
                (126, ["permission denied", "leave out --no-python"], ["--no-python", plain]),
                (127, ["cannot read the script /no/such.py: no such file"], ["/no/such.py"]),
                (64, ["--rdzv-conf a=1 is an option of torchrun: use --join-timeout"],
                 ["--rdzv_conf", "a=1", plain]),
                (126, ["is a directory"], ["--", "/"]),
                (73, ["--log-dir /proc/x"], ["--log-dir", "/proc/x", "true"])]:
            with self.subTest(arguments=arguments):
                self.refused(code, *words, arguments=arguments, environment=nowhere)
        self.refused(64, "C10DD_URL is \"http://x\": write HOST:PORT", arguments=["true"],
                     environment={"C10DD_URL": "http://x"})
        self.refused(64, "the job has no name", arguments=["--nnodes", "2", "true"])

    def test_ranks_of_an_outer_launcher_do_not_matter(self):
        run = self.launch("true", environment={"RANK": "7", "WORLD_SIZE": "2"})
        self.assertEqual(0, run.wait(), run.said())

    def test_no_daemon_is_told_with_the_address_and_what_to_do(self):
        self.refused(69, "cannot connect to a daemon at 127.0.0.1:1: no session within 0.5 s",
                     "c10dd --listen HOST:PORT", "--standalone",
                     arguments=["--daemon", "127.0.0.1:1", "--connect-timeout", "500ms", "true"])

    def test_one_of_several_daemons_is_enough(self):
        host, port = self.daemon.address
        addresses = f"127.0.0.1:1,{host}:{port}"
        run = self.launch("echo url $C10DD_URL", "--daemon", addresses)
        self.assertEqual(0, run.wait(), run.said())
        self.assertIn(f"url c10dd://{addresses}/{self.job}", run.printed())
        self.refused(69, "cannot connect to a daemon at 127.0.0.1:1,127.0.0.1:2: no session within 0.5 s",
                     "the daemons at 127.0.0.1:1, 127.0.0.1:2 have not been reachable",
                     arguments=["--daemon", "127.0.0.1:1,127.0.0.1:2", "--connect-timeout", "500ms",
                                "true"])

    def test_nodes_that_do_not_come_are_counted(self):
        run = self.launch("true", "--nnodes", "2", "--join-timeout", "500ms")
        self.assertEqual(75, run.wait(), run.said())
        self.assertIn("1 of at least 2 members", run.said())

    def test_nodes_that_disagree_are_told(self):
        first = self.launch("true", "--nnodes", "3")
        wire = Wire(self.daemon.address)
        self.addCleanup(wire.close)
        self.assertEqual("ok", wire.hello(job=self.job).code)
        look = text("c10drun") + struct.pack("<Qq", 0, 0)
        self.until(lambda: wire.call(FOLLOW_GROUP, look).code == "ok", "the first waits", first)
        second = self.launch("true", "--nnodes", "2")
        self.assertEqual(64, second.wait(), second.said())
        self.assertRegex(second.said(), r"--nnodes is 2 here and 3 on \S+ "
                                        rf"\(pid {first.process.pid}\); give all nodes")


if __name__ == "__main__":
    at_once.main()
