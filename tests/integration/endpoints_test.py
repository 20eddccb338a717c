# SPDX-License-Identifier: Apache-2.0
"""Leased endpoints over the real daemon: ports that stay, runs that outlive the daemon, and what ends
an endpoint; with clients of TCPStore on raw sockets, and with PyTorch."""
import contextlib
import itertools
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import at_once
from daemon import BIN, SLOWDOWN, Daemon, reserve_port
from page_code import block_of
from tcpstore_wire import Client
from wire import Wire, frame, text

HERE = pathlib.Path(__file__).parent
PYTHON = os.environ.get("C10DD_TORCH_PYTHON", "/usr/bin/python3")
RANK_KEY = b"/default_pg/0//cpu//0/0"
PIDS = itertools.count(1000)
LEASE_ENDPOINT = 67
SHARDS = ("--shards", "2")


def until(condition, seconds=10):
    """Waits for the condition; false if it does not come true in time."""
    end = time.monotonic() + seconds * SLOWDOWN
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def listener_beside_a_free_port():
    """(a socket that listens on a port, the port before it, which is kept free)"""
    while True:
        low, taken = reserve_port(), socket.socket()
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", low + 1))
            taken.listen()
            return taken, low
        taken.close()


class EndpointsTest(unittest.TestCase):
    def start(self, *options, **settings):
        daemon = Daemon(*SHARDS, *options, **settings).start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        return daemon

    def durable(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return self.start(*options, engine=f"rocksdb:{folder.name}/state")

    def ask(self, daemon, job, **members):
        status, body = daemon.http(f"/v1/jobs/{job}/endpoints", "POST", json.dumps(members).encode())
        return status, json.loads(body)

    def lease(self, daemon, job="j", name="a", **members):
        status, reply = self.ask(daemon, job, name=name, **members)
        self.assertEqual(200, status, reply)
        return reply["host"], reply["port"]

    def listed(self, daemon, job="j"):
        status, body = daemon.http(f"/v1/jobs/{job}/endpoints")
        self.assertEqual(200, status, body)
        return {endpoint["name"]: endpoint for endpoint in json.loads(body)["endpoints"]}

    def runs(self, daemon, job="j"):
        status, body = daemon.http(f"/v1/jobs/{job}")
        return {run["run"]: run for run in json.loads(body)["runs"]} if status == 200 else {}

    def process(self, address):
        client = Client.of_process(address, next(PIDS))
        self.addCleanup(client.close)
        return client

    def serves(self, address):
        with contextlib.suppress(OSError, AssertionError):
            Client.of_process(address, next(PIDS)).close()
            return True
        return False

    # ---- leases --------------------------------------------------------------------------------

    def test_the_same_name_has_the_same_port(self):
        daemon = self.durable()
        first = self.lease(daemon, run="r", ttl=60, world_size=4)
        self.assertEqual(first, self.lease(daemon, run="r", ttl=90))
        other = self.lease(daemon, name="b")
        self.assertNotEqual(first, other)
        endpoint = self.listed(daemon)["a"]
        self.assertEqual(("r", 90, None, 0, True), tuple(endpoint[member] for member in (
            "run", "ttl", "world_size", "connections", "listening")))
        self.assertEqual(1, daemon.errors().count("event=endpoint_leased job=j name=\"a\""))
        self.assertEqual({}, self.listed(daemon, "k"))

    def test_keys_of_a_run_survive_the_daemon_on_the_same_port(self):
        daemon = self.durable()
        address = self.lease(daemon, run="r")
        without_run = self.lease(daemon, name="b")
        client = self.process(address)
        client.set(b"k", b"value")
        self.assertEqual(b"value", client.get(b"k"))
        self.assertEqual(1, self.process(without_run).join())
        for _ in range(3):
            daemon.kill()
            daemon.start()
            self.assertEqual({"a": address[1], "b": without_run[1]}, {
                name: endpoint["port"] for name, endpoint in self.listed(daemon).items()})
            self.assertEqual(b"value", self.process(address).get(b"k"))
            self.assertEqual(1, self.process(without_run).join(), "a plain run ends with the daemon")
        with Wire(daemon.address) as native:
            self.assertEqual("ok", native.hello(job="j", run="r").code)
            self.assertIn(b"value", native.get("k").body)

    def test_native_sessions_lease_from_the_directory(self):
        daemon = self.durable()
        for job in ("j", "k", "j"):  # on either shard
            with Wire(daemon.address) as native:
                self.assertEqual("ok", native.hello(job=job).code)
                body = text("native") + text("r") + struct.pack("<qI", 30 * 10**9, 8)
                native.send(frame(LEASE_ENDPOINT, body, sequence=1, acked_below=1))
                reply = native.reply()
                self.assertEqual(("ok", LEASE_ENDPOINT), (reply.code, reply.op), reply)
                size, = struct.unpack_from("<I", reply.body)
                host = reply.body[4:4 + size].decode()
                port, ttl = struct.unpack("<Hq", reply.body[4 + size:])
                self.assertEqual(30 * 10**9, ttl)
                self.assertEqual(port, self.listed(daemon, job)["native"]["port"])
                native.send(frame(LEASE_ENDPOINT, text("native"), sequence=2, acked_below=2))
                refused = native.reply()
                self.assertEqual("invalid_argument", refused.code)
                self.assertIn('is leased for run "r", not for no run', refused.detail)
                self.assertTrue(self.serves((host, port)))

    def test_two_jobs_do_not_see_each_other(self):
        daemon = self.durable()
        addresses = [self.lease(daemon, job, run="r") for job in ("j", "k")]
        plain = [self.lease(daemon, job, name="plain") for job in ("j", "k")]
        clients = [self.process(address) for address in (*addresses, *plain)]
        for number, client in enumerate(clients):
            client.set(b"k", b"%d" % number)
            self.assertEqual(1, client.join())
        for number, client in enumerate(clients):
            self.assertEqual(b"%d" % number, client.get(b"k"))

    def test_without_a_run_each_launch_has_one(self):
        daemon = self.durable()
        address = self.lease(daemon, world_size=2)
        first = [self.process(address) for _ in range(2)]
        self.assertEqual([1, 2], [rank.join() for rank in first])
        page = self.runs(daemon)["plain-1"]
        self.assertEqual((2, 2), (page["joined"], page["world_size"]))
        self.assertEqual(2, self.listed(daemon)["a"]["connections"])
        first[0].set(RANK_KEY, b"address")
        self.assertEqual(b"address", first[0].get(RANK_KEY))
        for rank in first:
            rank.close()
        second = [self.process(address) for _ in range(2)]
        self.assertEqual([1, 2], [rank.join() for rank in second])
        self.assertIn("event=run_began job=j run=plain-2", daemon.errors())
        self.assertEqual(404, daemon.http("/v1/jobs/j/runs/plain-1", "DELETE")[0])
        self.assertEqual(404, daemon.http("/v1/jobs/k/runs/plain-2", "DELETE")[0])
        self.assertEqual(200, daemon.http("/v1/jobs/j/runs/plain-2", "DELETE")[0])
        for rank in second:
            self.assertTrue(rank.is_closed(5 * SLOWDOWN))

    def test_the_world_size_of_a_run_is_shown(self):
        daemon = self.durable()
        client = self.process(self.lease(daemon, run="r", world_size=16))
        client.set(b"k", b"v")
        self.assertEqual(b"v", client.get(b"k"))
        self.assertEqual(16, self.runs(daemon)["r"]["world_size"])

    # ---- ends ----------------------------------------------------------------------------------

    def test_an_endpoint_expires_when_nobody_is_connected(self):
        daemon = self.durable()
        address = self.lease(daemon, run="r", ttl=1)
        quiet = self.lease(daemon, name="b", ttl=1)
        client = self.process(address)  # it has asked for nothing: it is connected all the same
        self.assertTrue(until(lambda: "b" not in self.listed(daemon)))
        self.assertFalse(self.serves(quiet))
        self.assertIn('event=endpoint_expired job=j name="b"', daemon.errors())
        time.sleep(2)
        self.assertEqual(["a"], list(self.listed(daemon)))
        client.set(b"k", b"v")
        self.assertEqual(b"v", client.get(b"k"))
        closed = time.monotonic()
        client.close()
        self.assertTrue(until(lambda: not self.listed(daemon)))
        self.assertGreater(time.monotonic() - closed, 0.9, "the ttl starts in full")
        self.assertFalse(self.serves(address))

    def test_a_renewal_starts_the_ttl(self):
        daemon = self.durable()
        address = self.lease(daemon, ttl=2)
        for _ in range(6):
            time.sleep(0.5)
            self.assertEqual(address, self.lease(daemon, ttl=2))
        self.assertEqual(["a"], list(self.listed(daemon)))

    def test_what_is_connected_goes_on_when_an_endpoint_is_released(self):
        daemon = self.durable()
        for name, members in (("a", {"run": "r"}), ("b", {})):
            address = self.lease(daemon, name=name, **members)
            client = self.process(address)
            self.assertEqual(1, client.join())
            self.assertEqual(200, daemon.http(f"/v1/jobs/j/endpoints/{name}", "DELETE")[0])
            self.assertFalse(self.serves(address))
            self.assertEqual(2, client.join())
        self.assertEqual({}, self.listed(daemon))
        daemon.kill()
        daemon.start()
        self.assertEqual({}, self.listed(daemon))

    def test_a_job_is_removed_with_its_endpoints(self):
        daemon = self.durable()
        address = self.lease(daemon, run="r")
        client = self.process(address)
        self.assertEqual(1, client.join())
        self.assertEqual(409, daemon.http("/v1/jobs/j", "DELETE")[0])
        client.close()
        self.assertTrue(until(lambda: daemon.http("/v1/jobs/j", "DELETE")[0] == 200))
        self.assertEqual({}, self.listed(daemon))
        self.assertFalse(self.serves(address))

    def test_a_run_is_kept_while_it_is_named(self):
        daemon = self.durable("--run-grace", "1")
        address = self.lease(daemon, run="r")
        client = self.process(address)
        client.set(b"k", b"v")
        self.assertEqual(b"v", client.get(b"k"))
        client.close()
        time.sleep(3)
        self.assertEqual(b"v", self.process(address).get(b"k"))
        self.assertEqual(200, daemon.http("/v1/jobs/j/endpoints/a", "DELETE")[0])

    # ---- ports ---------------------------------------------------------------------------------

    def test_a_taken_port_is_said_and_served_when_it_is_free(self):
        daemon = self.durable()
        address = self.lease(daemon, run="r")
        daemon.kill()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(address)
            other.listen()
            daemon.start()
            status, page = daemon.http("/readyz")
            self.assertEqual(200, status)
            self.assertIn(f'note: endpoint "a" of job "j" cannot listen on {address[0]}:{address[1]}: '
                          "Address already in use; end the process that has the port, or release the "
                          "endpoint\n", page)
            endpoint = self.listed(daemon)["a"]
            self.assertFalse(endpoint["listening"])
            self.assertIn("Address already in use", endpoint["problem"])
            status, reply = self.ask(daemon, "j", name="a", run="r")
            self.assertEqual(503, status, "nobody may be sent to the other process")
            self.assertIn("cannot be reached: ", reply["error"]["detail"])
            self.assertEqual(1, daemon.errors().count("event=endpoint_unavailable"))
        self.assertTrue(until(lambda: self.listed(daemon)["a"]["listening"]))
        self.assertNotIn("note:", daemon.http("/readyz")[1])
        self.assertEqual(address, self.lease(daemon, run="r"), "a renewal keeps the port")
        self.assertTrue(self.serves(address))

    def test_the_ports_of_a_range_run_out(self):
        taken, low = listener_beside_a_free_port()
        high = low + 1
        with taken:
            daemon = self.durable("--endpoint-ports", f"{low}-{high}")
            self.assertEqual(low, self.lease(daemon)[1])
            status, reply = self.ask(daemon, "j", name="b")
            self.assertEqual(507, status, reply)
            self.assertIn(f"of the 2 ports of --endpoint-ports {low}-{high}, 1 are leased and 1 are used "
                          "by other listeners", reply["error"]["detail"])
            self.assertEqual(low, self.lease(daemon)[1], "a renewal needs no other")
            self.assertEqual(200, daemon.http("/v1/jobs/j/endpoints/a", "DELETE")[0])
            self.assertEqual(low, self.lease(daemon, name="b")[1])

    # ---- refusals ------------------------------------------------------------------------------

    def test_bad_input_is_refused_with_a_sentence(self):
        daemon = self.durable()
        self.lease(daemon, run="r")
        for body, sentence in (
                (b"", "content-type is not application/json"),
                (b"{", "body is not JSON: incomplete JSON"),
                (b"[]", "body is not an object"),
                (b"{}", "no name given"),
                (b'{"name": 5}', "name is 5; give a string"),
                (b'{"name": ""}', "the endpoint name is empty; use 1 to 255 bytes of UTF-8"),
                (b'{"name": "%s"}' % (b"x" * 256), " has 256 bytes; use 1 to 255 bytes"),
                (b'{"name": "b\\n"}', "has the character U+000A at byte 1"),
                (b'{"name": "b", "port": 1}', 'unknown member "port"; use name, run, ttl, world_size'),
                (b'{"name": "b", "run": null}', "run is null; give a string"),
                (b'{"name": "b", "run": "plain-1"}', 'an endpoint cannot use run "plain-1"'),
                (b'{"name": "b", "ttl": 0}', "the ttl of an endpoint cannot be 0 s; use 1 to 2592000 s"),
                (b'{"name": "b", "ttl": 0.5}', "the ttl of an endpoint cannot be 0.5 s; use 1 to 2592000 s"),
                (b'{"name": "b", "ttl": 2592001}', "the ttl of an endpoint cannot be 2592001 s"),
                (b'{"name": "b", "ttl": 1e300}', "the ttl of an endpoint cannot be 1000000000 s"),
                (b'{"name": "b", "ttl": "1"}', 'ttl is "1"; give a number of seconds'),
                (b'{"name": "b", "world_size": 0}', "world_size is 0; use 1 to 131072"),
                (b'{"name": "b", "world_size": -1}', "the world size of an endpoint cannot be -1; use 1 to 131072"),
                (b'{"name": "b", "world_size": 131073}', "the world size of an endpoint cannot be 131073"),
                (b'{"name": "b", "world_size": 1.5}', "world_size is 1.5; give an integer"),
                (b'{"name": "a"}', 'is leased for run "r", not for no run'),
                (b'{"name": "a", "run": "s"}', 'is leased for run "r", not for run "s"')):
            status, reply = daemon.http("/v1/jobs/j/endpoints", "POST", body)
            self.assertEqual(400, status, (body, reply))
            self.assertIn(sentence, json.loads(reply)["error"]["detail"], body)
        self.assertEqual(404, daemon.http("/v1/jobs/j/endpoints/b", "DELETE")[0])
        self.assertEqual(400, daemon.http("/v1/jobs/j/endpoints", "DELETE")[0])
        self.assertEqual(200, daemon.http("/v1/jobs/j/endpoints", "DELETE", b'{"name": "a"}')[0])
        self.assertEqual(405, daemon.http("/v1/jobs/j/endpoints", "PUT")[0])
        self.assertEqual(400, self.ask(daemon, "%ff", name="b")[0])

    def test_bad_ranges_of_ports_are_refused(self):
        for text_of_range in ("1", "5-4", "0-5", "1-65536", "a-b", "-", "1-2-3"):
            run = subprocess.run([os.path.join(BIN, "c10dd"), "--engine", "memory:",
                                  f"--endpoint-ports={text_of_range}"], capture_output=True, text=True,
                                 check=False, timeout=20)
            self.assertEqual(64, run.returncode, text_of_range)
            self.assertIn(f'--endpoint-ports: "{text_of_range}" is not a range of ports; use LOW-HIGH',
                          run.stderr)

    def test_an_endpoint_serves_only_tcpstore(self):
        daemon = self.durable()
        address = self.lease(daemon)
        for first in (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\xc1C10D"):
            with socket.create_connection(address, timeout=10) as stranger:
                stranger.sendall(first)
                self.assertEqual(b"", stranger.recv(100))

    def test_peers_outside_the_ranges_are_refused(self):
        name = f"c10dd-endpoint-{os.getpid()}"
        outside, inside = "10.213.9.1", "10.213.9.2"
        link = f"c10de{os.getpid() % 100000}"
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest(f"no network namespaces: {made.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["ip", "netns", "del", name], check=True)
        for words in (f"link add {link} type veth peer name peer netns {name}",
                      f"addr add {outside}/24 dev {link}", f"link set {link} up",
                      f"-n {name} addr add {inside}/24 dev peer", f"-n {name} link set peer up"):
            subprocess.run(["ip", *words.split()], check=True)
        program = ("import sys; sys.path.insert(0, sys.argv[1]); from tcpstore_wire import Client\n"
                   "client = Client((sys.argv[2], int(sys.argv[3])))\nprint(client.join())")
        for options, expected in (((), "None"), (("--tcpstore-from", "10.213.9.0/24"), "1")):
            daemon = self.start("--allow-insecure-listen", *options, host=outside)
            port = self.ask_locally(daemon, name)
            run = subprocess.run(["ip", "netns", "exec", name, sys.executable, "-c", program, HERE,
                                  outside, str(port)], capture_output=True, text=True, check=False,
                                 timeout=60)
            self.assertEqual(expected, run.stdout.strip(), run.stderr + daemon.errors())

    def ask_locally(self, daemon, name):
        """Leases over a native session, because HTTP leases only to loopback."""
        refused, reply = self.ask(daemon, "j", name=name)
        self.assertEqual(403, refused, reply)
        with Wire(daemon.address) as native:
            self.assertEqual("ok", native.hello(job="j").code)
            native.send(frame(LEASE_ENDPOINT, text(name), sequence=1, acked_below=1))
            reply = native.reply()
            self.assertEqual("ok", reply.code, reply)
            return struct.unpack_from("<H", reply.body, 4 + struct.unpack_from("<I", reply.body)[0])[0]

    # ---- PyTorch -------------------------------------------------------------------------------

    def test_pytorch_trains_by_the_lines_of_the_page(self):
        torch = subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True,
                               check=False)
        if torch.returncode != 0:
            self.skipTest(f"{PYTHON} has no torch.distributed")
        daemon = self.durable()
        page = (HERE / "../../docs/pytorch.md").read_text(encoding="utf-8")
        lines = [line for line in block_of(page, "A port for each job") if line]
        train = next(at for at, line in enumerate(lines) if line.startswith("python"))
        script = "\n".join(lines[:train + 1]).replace("29500", str(daemon.address[1]))
        script = script.replace("python train.py", f"{PYTHON} {HERE}/../pytorch/train.py")
        for launch in (1, 2):
            ranks = [subprocess.Popen(["sh", "-ec", script], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True,
                                      env={**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank),
                                           "WORLD_SIZE": "4", "GLOO_SOCKET_IFNAME": "lo",
                                           "PATH": BIN + os.pathsep + os.environ["PATH"],
                                           "http_proxy": "http://127.0.0.1:9"})
                     for rank in range(4)]
            for rank, process in enumerate(ranks):
                output = process.communicate(timeout=120 * SLOWDOWN)[0]
                self.assertIn(f"rank {rank} of 4: trained", output, daemon.errors())
            self.assertIn(f"event=run_began job=digits run=plain-{launch} ", daemon.errors())
        self.assertEqual(1, daemon.errors().count("event=endpoint_leased"))
        rest = "\n".join(lines[train + 1:]).replace("29500", str(daemon.address[1]))
        output = subprocess.run(["sh", "-ec", rest], capture_output=True, text=True, check=True,
                                env={**os.environ, "http_proxy": "http://127.0.0.1:9"}).stdout
        self.assertIn('"endpoints":[{"name":"main"', output)
        self.assertIn('{"released":"main"}', output)


if __name__ == "__main__":
    at_once.main()
