#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""c10drun where clusters put it: under parents that ignore signals, in sandboxes and containers, on consoles that
nobody reads or that type, with a daemon that is gone, and with the signals that schedulers send."""
import contextlib
import ctypes
import errno
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import time
import unittest

import at_once
from daemon import SLOWDOWN, Daemon
from launcher import C10DRUN, ENVIRONMENT, Case, Launcher, alive
from wire import Wire

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, CLOSE_RANGE = 434, 436


def deny(error, *calls):
    """A function for preexec_fn that lets these system calls fail, as an old kernel or a sandbox does."""
    def statement(code, true, false, value):
        return struct.pack("=HBBI", code, true, false, value)
    load, equal, give = 0x20, 0x15, 0x06  # ld [abs], jeq, ret
    program = statement(load, 0, 0, 0)
    for index, call in enumerate(calls):
        program += statement(equal, len(calls) - index, 0, call)
    program += statement(give, 0, 0, 0x7FFF0000) + statement(give, 0, 0, 0x00050000 | error)
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_of = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))

    def apply():
        if LIBC.prctl(38, 1, 0, 0, 0) or LIBC.prctl(22, 2, filter_of, 0, 0):  # NO_NEW_PRIVS, SECCOMP filter
            os._exit(99)
    apply.program = buffer  # keeps it alive
    return apply


def ignore(*numbers):
    return lambda: [signal.signal(number, signal.SIG_IGN) for number in numbers]


def block_all():
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())


class Parents(Case):
    def ended(self, script, *options, setup=None, prefix=(), seconds=30):
        run = subprocess.run([*prefix, C10DRUN, "--standalone", *options, "--no-python", "sh", "-c", script],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, preexec_fn=setup,
                             timeout=seconds * SLOWDOWN, env={**ENVIRONMENT, "OUT": self.folder})
        return run.returncode, run.stdout, run.stderr

    def test_the_exit_code_is_the_workers_whatever_the_parent_has_set(self):
        for name, setup in {"SIGCHLD ignored": ignore(signal.SIGCHLD), "all blocked": block_all,
                            "no pidfd_open": deny(errno.ENOSYS, PIDFD_OPEN),
                            "neither allowed": deny(errno.EPERM, PIDFD_OPEN, CLOSE_RANGE)}.items():
            for code in (0, 3):
                with self.subTest(name, code=code):
                    ended = self.ended(f"exit {code}", "--nproc", "2", setup=setup)
                    self.assertEqual(code, ended[0], ended)

    def test_workers_get_defaults(self):
        def setup():
            ignore(signal.SIGCHLD, signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE, signal.SIGTTIN)()
            block_all()
        _, printed, said = self.ended("exec grep -E '^Sig(Blk|Ign)' /proc/self/status", setup=setup)
        self.assertEqual({"0" * 16}, set(re.findall(r"[0-9a-f]{16}", printed)), printed + said)

    def test_nothing_of_a_worker_is_left_in_a_sandbox(self):
        """The orphan killer must not keep the pipes open that it cannot close at once."""
        setup = deny(errno.ENOSYS, PIDFD_OPEN, CLOSE_RANGE)
        self.assertEqual(0, self.ended("sleep 60 & echo $! >$OUT/child", setup=setup)[0])
        child = int(self.read("child"))
        self.until(lambda: not alive(child), "the child is gone")

    def test_first_process_of_a_container_reaps_orphans_and_ends_by_signal(self):
        unshare = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this user may not make process namespaces")
        orphans = ("for i in $(seq 20); do sh -c 'sleep 0.1 & exit 0'; done; sleep 1; "
                   "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l; ")
        self.assertEqual((5, "[0] 0\n"), self.ended(orphans + "exit 5", prefix=unshare)[:2])
        run = subprocess.Popen([*unshare, C10DRUN, "--standalone", "--no-python", "sh", "-c",
                                "trap 'echo saved >$OUT/saved; exit 0' TERM; echo up >$OUT/up; "
                                "while :; do sleep 0.02; done"], env={**ENVIRONMENT, "OUT": self.folder},
                               stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)
        self.until(lambda: self.read("up"), "the worker runs")
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
            os.kill(int(children.read().split()[0]), signal.SIGTERM)  # process 1 there
        self.assertEqual(143, run.wait(20 * SLOWDOWN))
        self.assertEqual("saved\n", self.read("saved"))


class Signals(Case):
    SAVE = "trap 'sleep 0.4; echo {0} >>$OUT/saved' {0}; "
    WAIT = "echo $$ >$OUT/up; while [ ! -e $OUT/go ]; do sleep 0.02; done"

    def serving(self, script, *options, **more):
        run = self.launch(script + self.WAIT, *options, **more)
        self.until(lambda: self.read("up"), "the worker runs", run)
        return run

    def test_save_now_reaches_the_workers_and_ends_nobody(self):
        # The shell of the worker handles USR1 only; its child, which is the trainer, all three.
        run = self.serving("trap : USR1; env --default-signal=QUIT sh -c \"" + "".join(self.SAVE.format(name) for name in
                           ("USR1", "USR2", "QUIT")) + "echo >\\$OUT/child; while :; do sleep 0.02; done\" & ")
        self.until(lambda: os.path.exists(self.path("child")), "the child runs", run)
        for name in ("USR1", "USR2", "QUIT"):
            run.send(getattr(signal, "SIG" + name))
            self.until(lambda name=name: name in self.lines("saved"), f"it has saved for {name}", run)
        # A child that the shell has forked, and that has not yet executed its program, counts, too.
        self.assertRegex(run.said(), r"received SIGUSR1; passed it on to [2-4] processes")
        self.assertRegex(run.said(), r"received SIGQUIT; passed it on to [1-3] process")
        for number in (signal.SIGCONT, signal.SIGWINCH):
            run.send(number)
        open(self.path("go"), "w", encoding="ascii").close()
        self.assertEqual(0, run.wait(), run.said())

    def test_who_does_not_handle_a_signal_is_not_ended_by_it(self):
        run = self.serving("")
        run.send(signal.SIGUSR1)
        self.until(lambda: "no worker process handles it" in run.said(), "it says so", run)
        open(self.path("go"), "w", encoding="ascii").close()
        self.assertEqual(0, run.wait(), run.said())

    def test_two_signals_at_once_leave_the_grace(self):
        for pair in (("TERM", "HUP"), ("TERM", "TERM"), ("INT", "INT"), ("HUP", "INT")):
            with self.subTest(pair=pair):
                for name in ("saved", "up"):
                    if os.path.exists(self.path(name)):
                        os.remove(self.path(name))
                # SIGTERM, or what came first, ends the wait of the shell; then it saves.
                run = self.serving("trap 'sleep 1.5; echo done >$OUT/saved; exit 0' TERM INT HUP; ", "--grace", "30s")
                for name in pair:
                    run.send(getattr(signal, "SIG" + name))
                    time.sleep(0.1)
                self.assertEqual(128 + getattr(signal, "SIG" + pair[0]), run.wait(), run.said())
                self.assertEqual("done\n", self.read("saved"), run.said())

    def test_a_later_interrupt_does_not_wait(self):
        run = self.serving("trap '' INT TERM; ", "--grace", "60s")
        run.send(signal.SIGTERM)
        self.until(lambda: "received SIGTERM;" in run.said(), "the first is heard", run)
        time.sleep(1.1)
        run.send(signal.SIGTERM)
        self.until(lambda: "received SIGTERM, too;" in run.said(), "the second is heard", run)
        self.assertTrue(alive(int(self.read("up"))), "the grace holds")
        run.send(signal.SIGINT)
        self.assertEqual(143, run.wait(5), run.said())


class Consoles(Case):
    CHATTY = "i=0; while [ $i -lt 3000 ]; do echo $i; printf '%4000s\\n' x; i=$((i+1)); done; echo >$OUT/written; "

    def unread(self, script, *options):
        """A launcher whose output nobody reads, and the other end of the pipe."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        run = subprocess.Popen([C10DRUN, "--standalone", *options, "--no-python", "sh", "-c", script],
                               stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                               env={**ENVIRONMENT, "OUT": self.folder})
        self.addCleanup(run.kill)
        os.close(writer)
        return run, reader

    def test_that_nobody_reads_hold_nobody_up(self):
        run, _ = self.unread(self.CHATTY + "exit 3", "--log-dir", self.path("logs"))
        self.assertEqual(3, run.wait(30 * SLOWDOWN))
        [log] = [os.path.join(folder, "stdout.log") for folder, _, names in os.walk(self.path("logs"))
                 if "stdout.log" in names]
        with open(log, encoding="ascii") as lines:
            self.assertEqual([str(i) for i in range(3000)], [line.strip() for line in lines][::2])

    def test_that_nobody_reads_let_signals_through(self):
        run, reader = self.unread(self.CHATTY + "trap 'exit 0' TERM; while :; do sleep 0.02; done", "--grace", "20s")
        self.until(lambda: os.path.exists(self.path("written")), "all is written")
        run.send_signal(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(143, run.wait(10 * SLOWDOWN))
        self.assertLess(time.monotonic() - began, 8 * SLOWDOWN)
        printed = b""
        while part := os.read(reader, 65536):
            printed += part
        self.assertLess(len(printed), 6000 * 2000, "some lines were dropped")

    def test_that_are_read_again_say_what_is_missing(self):
        run, reader = self.unread(self.CHATTY + "while [ ! -e $OUT/go ]; do sleep 0.02; done; echo; sleep 0.2; echo end")
        self.until(lambda: os.path.exists(self.path("written")), "all is written")
        printed = b""
        while True:
            ready, _, _ = select.select([reader], [], [], 1)
            if not ready and not os.path.exists(self.path("go")):
                open(self.path("go"), "w", encoding="ascii").close()
                continue
            part = os.read(reader, 1 << 20)
            if not part:
                break
            printed += part
        self.assertEqual(0, run.wait(20 * SLOWDOWN))
        text = printed.decode()
        missing = re.findall(r"c10drun: (\d+) lines were dropped here, because nobody read them", text)
        self.assertGreater(len(missing), 0)
        self.assertEqual(6002, sum(map(int, missing)) + len(re.findall(r"^\[0\]", text, re.MULTILINE)), missing)
        self.assertIn("[0] end\n", text)

    def test_slow_readers_get_all(self):
        run, reader = self.unread("seq 300000")
        printed = b""
        while part := os.read(reader, 65536):
            printed += part
            time.sleep(0.001)
        self.assertEqual(0, run.wait(20 * SLOWDOWN))
        self.assertEqual(list(range(1, 300_001)), [int(line[4:]) for line in printed.decode().split("\n")
                                                if line.startswith("[0]")])

    def test_a_progress_bar_is_seen_while_it_moves(self):
        run = self.launch("printf '\\r1/2' >&2; while [ ! -e $OUT/go ]; do sleep 0.02; done; printf '\\r2/2\\n' >&2")

        def said():
            with open(run.error.name, "rb") as file:
                return file.read()
        self.until(lambda: b"[0] \r1/2" in said(), "the beginning of the line", run)
        open(self.path("go"), "w", encoding="ascii").close()
        self.assertEqual(0, run.wait())
        self.assertIn(b"[0] \r1/2\r2/2\n", said())

    def test_the_only_worker_reads_the_terminal(self):
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        run = subprocess.Popen([C10DRUN, "--standalone", "--no-prefix", "--no-python", "python3", "-c",
                                "breakpoint()\nprint('left with', answer)"], stdin=terminal, stdout=terminal,
                               stderr=terminal, env={**ENVIRONMENT, "OUT": self.folder}, start_new_session=True,
                               preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))  # TIOCSCTTY
        self.addCleanup(run.kill)
        os.close(terminal)
        seen = b""

        def read_until(what):
            nonlocal seen
            end = time.monotonic() + 20 * SLOWDOWN
            while what not in seen:
                self.assertLess(time.monotonic(), end, seen)
                if select.select([master], [], [], 0.2)[0]:
                    seen += os.read(master, 65536)
        read_until(b"(Pdb)")
        os.write(master, b"answer = 6 * 7\ncontinue\n")
        read_until(b"left with 42")
        self.assertEqual(0, run.wait(20 * SLOWDOWN))

    def test_a_chosen_rank_reads_standard_input(self):
        run = subprocess.run([C10DRUN, "--standalone", "--nproc", "3", "--stdin", "1", "--no-python", "sh", "-c",
                              "sed s/^/$RANK:/"], input="a\nb\n", capture_output=True, text=True, check=False,
                             timeout=20 * SLOWDOWN, env=ENVIRONMENT)
        self.assertEqual((0, "[1] 1:a\n[1] 1:b\n"), (run.returncode, run.stdout), run.stderr)


class DaemonGone(Case):
    """Each test has a daemon of its own, which it kills."""

    def setUp(self):
        super().setUp()
        self.own = Daemon().start()
        self.addCleanup(self.own.log.close)
        self.addCleanup(lambda: self.own.process.poll() is None and self.own.kill())

    def node(self, script, *options):
        return Launcher(self, "--daemon", "%s:%d" % self.own.address, "--job", self.job, "--last-call", "1s", *options,
                        "--no-python", "sh", "-c", script)

    def test_one_node_ends_with_the_code_of_its_worker(self):
        for code in (0, 3):
            with self.subTest(code=code):
                run = self.node(f"echo >$OUT/up; while [ ! -e $OUT/go ]; do sleep 0.02; done; exit {code}")
                self.until(lambda: os.path.exists(self.path("up")), "it runs", run)
                self.own.kill()
                time.sleep(4)  # longer than a member may be away
                open(self.path("go"), "w", encoding="ascii").close()
                began = time.monotonic()
                self.assertEqual(code, run.wait(12), run.said())
                self.assertLess(time.monotonic() - began, 4.5 * SLOWDOWN, run.said())
                self.assertIn("does not answer; it has not been told that this node has ended", run.said())
                os.remove(self.path("go"))
                os.remove(self.path("up"))
                self.own.start()

    def test_several_nodes_wait_a_bounded_time(self):
        script = "echo >$OUT/up$RANK; [ $RANK = 1 ] || exit 0; while [ ! -e $OUT/go ]; do sleep 0.02; done"
        runs = [self.node(script, "--nnodes", "2", "--exit-timeout", "3s") for _ in range(2)]
        for run in runs:
            self.until(lambda: "waiting for other nodes" in "".join(run.said() for run in runs), "rank 0 is done", run)
        first = next(run for run in runs if "waiting for other nodes" in run.said())
        self.own.kill()
        self.assertEqual(0, first.wait(15), first.said())
        self.assertIn("the other nodes did not finish within --exit-timeout 3 s", first.said())


class Leftovers(Case):
    def test_a_launch_that_has_ended_leaves_nothing_at_the_daemon(self):
        daemon = Daemon("--run-grace", "1").start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        for code in (0, 3):
            run = Launcher(self, "--daemon", "%s:%d" % daemon.address, "--job", f"ends-{code}", "--no-python", "sh", "-c",
                           f"exit {code}")
            self.assertEqual(code, run.wait(), run.said())
        self.until(lambda: "ends-" not in daemon.http("/v1/jobs")[1] and
                   "c10dd_jobs 0" in daemon.http("/metrics")[1], "the jobs are gone")


class Flaps(Case):
    WORK = "echo >$OUT/$NAME; while :; do sleep 0.02; done"

    def node(self, name, *options):
        return self.launch(self.WORK, "--nnodes", "1:2", "--max-restarts", "0", *options, environment={"NAME": name})

    def test_a_host_that_is_lost_soon_after_it_has_joined_is_held_off(self):
        healthy = self.node("a")
        self.until(lambda: os.path.exists(self.path("a")), "it works", healthy)
        flapping = self.node("b")
        self.until(lambda: os.path.exists(self.path("b")), "both work", flapping)
        flapping.send(signal.SIGKILL)
        flapping.process.wait()
        self.until(lambda: "was lost 1 time within a minute of joining; it may join again in 10 s" in healthy.said(),
                   "the other one says so", healthy)
        self.until(lambda: "generation 3" in healthy.said(), "it goes on alone", healthy)
        again = self.node("c")
        self.until(lambda: "was lost 1 time within a minute of joining; waiting 10 s" in again.said(), "it is held off",
                   again)
        time.sleep(1)
        self.assertNotIn("generation", again.said())
        self.assertNotIn("generation 4", healthy.said(), "the healthy one is not restarted")
        for run in (again, healthy):
            run.send(signal.SIGTERM)
            self.assertEqual(143, run.wait(), run.said())
        # A drained node has not flapped, and after too many flaps a host is refused.
        with contextlib.closing(Wire(self.daemon.address)) as client:
            client.hello(job=self.job)
            client.set("c10drun/flaps/" + socket.gethostname(), "3 9")
        refused = self.node("d", "--max-flaps", "2")
        self.assertEqual(75, refused.wait(), refused.said())
        self.assertIn("this host was lost 3 times within a minute of joining job", refused.said())


class Ports(Case):
    def test_master_port_is_none_that_the_kernel_gives_away(self):
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            low, high = map(int, file.read().split())
        if high - low > 50_000:
            self.skipTest("the kernel gives all ports away")
        for _ in range(5):
            run = self.launch("echo $C10DD_RANK0_PORT", "--no-prefix")
            self.assertEqual(0, run.wait(), run.said())
            self.assertFalse(low <= int(run.printed()) <= high, run.printed())


if __name__ == "__main__":
    at_once.main(2)
