#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node proxy serves the user who started it, and no other, and silent connections do not fill it: with
clients of other users, of PyTorch, and 1,024 of the own user that say nothing."""
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
import package  # noqa: E402, F401
import at_once
from daemon import SLOWDOWN
from launcher import Case
from tcpstore_wire import Client, OldClient

import c10dd  # noqa: E402

STRANGER = 65533
PLACES = 1024
SILENCE = 5
PYTHON = "/usr/bin/python3"  # may have Debian's PyTorch
# Tells where the store of the workers is, and keeps it open until a file comes.
HOLD = 'echo $MASTER_PORT >"$OUT/port.tmp"; mv "$OUT/port.tmp" "$OUT/port"; while [ ! -e "$OUT/end" ]; do sleep 0.05; done'
TORCH = """
import datetime, sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), 1, False, datetime.timedelta(seconds=20), wait_for_workers=False)
print(store.add("torch", 1), flush=True)
"""


def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def as_user(user, function):
    """What the function returns, a text, in a process of this user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(user)
            os.write(writing, function().encode())
        except BaseException as error:  # pylint: disable=broad-exception-caught
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def what_it_may(port):
    """What a client may do: get, change, count."""
    with socket.create_connection(("127.0.0.1", port)):  # says nothing
        try:
            client = Client(("127.0.0.1", port))
            return f"{client.get(b'secret')} {client.add(b'n')} {client.set(b'secret', b'stolen')}"
        except OSError:  # at a write after the end
            return "None None None"


def needs_root(test):
    return unittest.skipIf(os.geteuid() != 0, "only root can become another user")(test)


class WithProxy(Case):
    def store(self):
        """The port of a launch's proxy, and the launch."""
        launch = self.launch(HOLD)
        return int(self.until(lambda: self.read("port"), "the store is there", launch)), launch

    def end(self, launch):
        with open(self.path("end"), "w", encoding="ascii"):
            pass
        self.assertEqual(0, launch.wait(), launch.said())


class Users(WithProxy):
    @needs_root
    def test_a_launch_serves_its_own_user_only(self):
        port, launch = self.store()
        own = Client(("127.0.0.1", port))
        own.set(b"secret", b"mine")
        for _ in range(3):
            self.assertEqual("None None None", as_user(STRANGER, lambda: what_it_may(port)))
        self.assertEqual(b"mine", own.get(b"secret"))
        self.assertEqual(1, Client(("127.0.0.1", port)).add(b"n"), "a stranger has counted nothing")
        said = launch.said()
        self.assertEqual(1, said.count("refused"), said)
        self.assertIn(f"proxy: 1 client was refused, the last one of uid {STRANGER}: the proxy serves only uid 0, which has "
                      "started it; run the client as that user", said)
        self.end(launch)

    @needs_root
    def test_a_process_of_another_user_serves_neither_strangers_nor_root(self):
        url = "c10dd://%s:%d/%s" % (*self.daemon.address, self.job)
        reading, writing = os.pipe()
        host = os.fork()
        if host == 0:
            become(STRANGER - 1)
            with c10dd.connect(url, run="run") as client:
                proxies = [client.open_proxy(run="run"), client.open_proxy(run="run")]
                os.write(writing, " ".join(str(proxy.port) for proxy in proxies).encode())
                signal.pause()
        self.addCleanup(os.waitpid, host, 0)
        self.addCleanup(os.kill, host, signal.SIGKILL)
        ports = list(map(int, os.read(reading, 100).split()))
        self.assertEqual(2, len(ports))
        for number, port in enumerate(ports, 1):
            self.assertEqual("None None None", as_user(STRANGER, lambda at=port: what_it_may(at)))
            self.assertEqual("None None None", what_it_may(port), "root")
            served = as_user(STRANGER - 1, lambda at=port: str(Client(("127.0.0.1", at)).add(b"n")))
            self.assertEqual(str(number), served)

    @needs_root
    def test_clients_of_pytorch(self):
        if subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True, check=False).returncode != 0:
            self.skipTest("PyTorch is not installed")
        port, launch = self.store()

        def torch(user):
            return subprocess.run([PYTHON, "-c", TORCH, str(port)], capture_output=True, text=True, check=False, cwd="/",
                                  timeout=60 * SLOWDOWN, preexec_fn=lambda: become(user), env={"OMP_NUM_THREADS": "1"})

        refused = torch(STRANGER)
        self.assertNotEqual(0, refused.returncode)
        self.assertRegex(refused.stderr, "Connection reset by peer|recv|Broken pipe")
        for count in ("1\n", "2\n"):
            self.assertEqual(count, torch(0).stdout)
        self.end(launch)


class Silence(WithProxy):
    """Silent connections of the own user."""

    def silent(self, port, count):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and hard < 4 * PLACES:
            self.skipTest(f"{4 * PLACES} open files are not allowed: {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (4 * PLACES, hard))
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for one in connections:
            self.addCleanup(one.close)
        return connections

    @staticmethod
    def closed(connections):
        """How many of them the proxy has closed."""
        count = 0
        for one in connections:
            one.setblocking(False)
            try:
                count += one.recv(1) == b""
            except BlockingIOError:
                pass
        return count

    def files(self, launch, most):
        resource.prlimit(launch.process.pid, resource.RLIMIT_NOFILE, (most, most))

    def test_a_full_proxy_gives_way_to_those_who_speak(self):
        port, launch = self.store()
        self.files(launch, 4 * PLACES)
        served = Client(("127.0.0.1", port))
        self.assertEqual(1, served.add(b"n"))
        early = OldClient(("127.0.0.1", port))
        silent = self.silent(port, PLACES - 2)
        began = time.monotonic()
        late = [Client(("127.0.0.1", port)) for _ in range(3)]
        early.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.assertEqual(2, early.add(b"n"), "a silent client begins to speak")
        self.assertEqual([3, 4, 5], [client.add(b"n") for client in late])
        waited = time.monotonic() - began
        self.assertGreater(waited, SILENCE / 2)
        self.assertLess(waited, (SILENCE + 3) * SLOWDOWN)
        began = time.monotonic()
        self.assertEqual(6, Client(("127.0.0.1", port)).add(b"n"))
        self.assertLess(time.monotonic() - began, 3 * SLOWDOWN, "the others have been silent for long enough")
        self.assertEqual(4, self.closed(silent), "no more than are needed")
        self.assertEqual([7, 8], [served.add(b"n"), early.add(b"n")])
        self.assertRegex(launch.said(), r"proxy: 1 client was closed, because others wait and it had sent nothing for 5 s: \d+ "
                                        "are connected, limit 1024")
        # A connection that has said nothing for long is served when it speaks.
        self.assertEqual(9, self.spoken(silent[-1]))
        self.end(launch)

    @staticmethod
    def spoken(connection):
        connection.setblocking(True)
        client = OldClient.__new__(OldClient)
        client.socket = connection
        return client.add(b"n")

    def test_without_descriptors_silent_clients_give_way(self):
        port, launch = self.store()
        served = Client(("127.0.0.1", port))
        self.assertEqual(1, served.add(b"n"))
        self.files(launch, 64)
        self.silent(port, 70)
        self.assertEqual(2, served.add(b"n"), "who is served goes on")
        self.assertEqual(3, Client(("127.0.0.1", port)).add(b"n"))
        self.assertIn("proxy: cannot accept a connection: too many open files; ", launch.said())
        self.end(launch)


if __name__ == "__main__":
    at_once.main(3)
