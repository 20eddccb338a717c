#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGTERM under load: it takes no more requests, answers what it has taken, and gives nobody up."""
import os
import signal
import struct
import tempfile
import threading
import time
import unittest

import at_once
import wire
from daemon import BIN, SLOWDOWN, Daemon
from redis_server import redis_server
from wire import Wire, text

CLIENTS = 16  # in two halves, that take turns with the rounds
KEYS = [f"n{i}" for i in range(CLIENTS)]


def slow_syncs(seconds):
    """An environment in which each sync takes longer; as it is under sanitizers, which load first."""
    if SLOWDOWN > 1:
        return dict(os.environ)
    return dict(os.environ, LD_PRELOAD=os.path.join(BIN, "../libexec/c10dd/libc10dd_slow_sync.so"),
                SYNC_DELAY_US=str(int(seconds * 1e6)))


def hello(address, session, expiry_ns):
    client = Wire(address)
    client.send(wire.frame(wire.HELLO, wire.hello_body(session) + struct.pack("<q", expiry_ns)))
    return client, client.reply()


class Drain(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def test_it_ends_under_load_and_loses_nothing(self):
        acknowledged = dict.fromkeys(KEYS, 0)

        def work(key, address):
            client = Wire(address)
            self.addCleanup(client.close)
            self.assertEqual("ok", client.hello().code)
            while reply := client.add(key, 1):
                self.assertEqual("ok", reply.code)
                acknowledged[key] = struct.unpack("<q", reply.body)[0]

        engine = "rocksdb:" + os.path.join(self.directory.name, "state")
        with Daemon("--drain-timeout", "60", engine=engine,
                    environment=slow_syncs(0.05)) as daemon:
            threads = [threading.Thread(target=work, args=(key, daemon.address)) for key in KEYS]
            for n, thread in enumerate(threads):
                thread.start()
                time.sleep(0.03 if n == CLIENTS // 2 else 0)
            time.sleep(1)
            begin = time.monotonic()
            self.assertEqual(0, daemon.stop())
            self.assertLess(time.monotonic() - begin, 3 * SLOWDOWN)
            for thread in threads:
                thread.join()
            daemon.start()
            client = Wire(daemon.address)
            self.addCleanup(client.close)
            client.hello()
            for key, count in acknowledged.items():
                self.assertGreater(count, 0)
                kept = struct.unpack("<q", client.add(key, 0).body)[0]
                self.assertIn(kept, (count, count + 1), key)

    def test_who_is_shut_out_is_not_given_up(self):
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder, redis_server(folder) as (port, redis):
                if self.shut_out(port, redis):
                    return
        self.fail("the machine stood still in each of five tries")

    def shut_out(self, port, redis):
        """False if it took so long that the engine, after 2 s, or the daemon, after the expiry, may
        rightly have given up."""
        expiry_ns = 1_000_000_000
        session = os.urandom(16)
        with Daemon("--drain-timeout", "60", engine=f"redis://127.0.0.1:{port}") as daemon:
            away, reply = hello(daemon.address, session, expiry_ns)
            self.addCleanup(away.close)
            self.assertEqual("ok", reply.code)
            ephemeral = text("mine") + text("alive") + struct.pack("<qB", 0, 1)
            self.assertEqual("ok", away.call(wire.SET, ephemeral).code)
            busy = Wire(daemon.address)
            self.addCleanup(busy.close)
            self.assertEqual("ok", busy.hello().code)
            stopped = time.monotonic()
            redis.send_signal(signal.SIGSTOP)
            busy.send(wire.frame(wire.SET, text("k") + text("v"), sequence=1))
            away.close()
            daemon.process.send_signal(signal.SIGTERM)
            time.sleep(1.2)
            busy.send(wire.frame(wire.SET, text("k") + text("too late"), sequence=2))
            busy.send(wire.frame(wire.PING))
            pong = busy.reply()
            redis.send_signal(signal.SIGCONT)
            if time.monotonic() - stopped > 1.8:
                daemon.kill()
                return False
            self.assertEqual(wire.PING, pong.op, "it tells that it is there")
            reply = busy.reply()
            self.assertEqual((wire.SET, 1, "ok"), (reply.op, reply.sequence, reply.code))
            self.assertIsNone(busy.reply())
            daemon.process.wait(20)
            daemon.process.stdout.close()
            started = time.monotonic()
            daemon.start()
            back, reply = hello(daemon.address, session, expiry_ns)
            self.addCleanup(back.close)
            if time.monotonic() - started > 0.9:
                return False
            self.assertEqual("ok", reply.code, reply)
            self.assertIn(b"alive", back.get("mine").body)
            self.assertIn(b"v", back.get("k").body)
            return True


if __name__ == "__main__":
    at_once.main()
