#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that is killed more often than its timers take: a last call ends, a dead node is noticed, and texts have
the time that was given. With --long, a daemon that lives for 6 s meets a last call of 20 s and a dead node."""
import argparse
import os
import signal
import sys
import tempfile
import threading
import time
import unittest

from daemon import SLOWDOWN, Daemon
from launcher import Launcher

# Says in which world it works, and works until it is asked to end.
SERVE = ("echo $WORLD_SIZE >>$OUT/$NAME; trap 'exit 0' TERM; while [ ! -e $OUT/go ]; do sleep 0.05; done")
LONG = "--long" in sys.argv


class ShortLives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = self.scratch = folder.name
        self.daemon = Daemon(engine=f"rocksdb:{folder.name}/state").start()
        self.addCleanup(self.daemon.log.close)
        self.addCleanup(self.daemon.stop)

    def node(self, job, name, *options):
        return Launcher(self, "--daemon", "%s:%d" % self.daemon.address, "--job", job, *options, "--", "sh", "-c", SERVE,
                        environment={"NAME": name})

    def worlds(self, name):
        """The sizes of the worlds in which the node has had a worker."""
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def until(self, condition, seconds, *launchers):
        """How long it took until the condition held."""
        begin = time.monotonic()
        while not condition():
            self.assertLess(time.monotonic() - begin, seconds * SLOWDOWN, [one.said() for one in launchers])
            time.sleep(0.02)
        return time.monotonic() - begin

    def dies(self, life):
        """Kills the daemon at the end of each of its lives, until the test ends, and the victims with it."""
        done = threading.Event()
        self.victims = []

        def kill():
            while not done.wait(life):
                self.daemon.kill()
                while self.victims:
                    self.victims.pop().send(signal.SIGKILL)
                self.daemon.start()

        killer = threading.Thread(target=kill)
        killer.start()
        self.addCleanup(killer.join)
        self.addCleanup(done.set)

    @unittest.skipIf(LONG, "the long form")
    def test_a_last_call_goes_on_and_texts_have_the_time_that_was_given(self):
        nodes = [self.node("called", name, "--nnodes", "1:3", "--last-call", "6s") for name in "ab"]
        alone = self.node("alone", "c", "--nnodes", "2", "--join-timeout", "4s")
        time.sleep(3.3)
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(75, alone.wait(), alone.said())
        self.assertIn("timed out after 4 s: 1 of at least 2 members", alone.said())
        # A new last call would end 9.3 s after the nodes have come.
        took = 3.3 + self.until(lambda: self.worlds("a") == self.worlds("b") == ["2"], 5, *nodes)
        print(f"a last call of 6 s took {took:.1f} s")

    @unittest.skipUnless(LONG, "the long form")
    def test_a_last_call_and_a_dead_node_are_over_soon(self):
        self.dies(6)
        nodes = [self.node("called", name, "--nnodes", "1:3", "--last-call", "20s", "--join-timeout", "120s")
                 for name in "ab"]
        took = self.until(lambda: self.worlds("a") == self.worlds("b") == ["2"], 45, *nodes)
        print(f"a last call of 20 s took {took:.1f} s")
        self.victims.append(nodes[1])
        self.until(lambda: not self.victims, 10)
        took = self.until(lambda: "is lost" in nodes[0].said(), 40, nodes[0])
        print(f"a dead node was noticed after {took:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="kill the daemon every 6 s, for a minute or more")
    parser.parse_args()
    unittest.main(argv=sys.argv[:1], verbosity=2)
