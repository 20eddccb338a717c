# SPDX-License-Identifier: Apache-2.0
"""A storm of runs: clients connect, send one request that begins a run, and close, as fast as they can. Meanwhile
launches of another job work, the log stays short, and afterwards the daemon has its memory back.
`--runs 300000` is the long form."""
import argparse
import json
import os
import socket
import struct
import sys
import threading
import time
import unittest

from daemon import SLOWDOWN, Daemon
from tcpstore_wire import ADD, COMPARE_SET, GET, PING, SET, VALIDATE, Client, message

BATCH = 32  # connections that one process of the storm has at a time
STORMS = 2  # processes
SOURCES = 100  # addresses of each of them, so that the ports of none run out
RANK_KEY = b"/default_pg/0//cpu//0/0"
GREETING = VALIDATE + bytes([PING]) + struct.pack("<I", 7)
LOG_BYTES = 10 << 20
LEFT_BYTES = 64 << 20  # more memory than before, at most, a minute later
PATIENCE = 40 * SLOWDOWN


def rendezvous(number):
    """As an agent of torchrun: its run has the name of the rendezvous."""
    return GREETING + message(COMPARE_SET, b"/torch.rendezvous.%d" % number, b"", b"x"), 4 + 8 + 1


def rank(number):
    """As the only rank of a launch, which ends at once. It is another rank than those that may be there."""
    key = b"/default_pg/0//cpu//0/%d" % number
    return (GREETING + message(ADD, b"init/") + struct.pack("<q", 1) + message(SET, key, b"x") +
            message(GET, key)), 4 + 8 + 8 + 1


def client_of_store(_):
    return GREETING + message(ADD, b"init/") + struct.pack("<q", 1), 4 + 8


KINDS = (rendezvous, rendezvous, rank, client_of_store)


def begin(address, number, source):
    data, size = KINDS[number % len(KINDS)](number)
    client = socket.socket()
    # Its port stays in TIME_WAIT. With this, a server of another test can be bound to it meanwhile.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.settimeout(PATIENCE)
    client.bind((source, 0))
    client.connect(address)
    client.sendall(data)
    return client, size


def is_served(client, size):
    while size > 0:
        try:
            more = client.recv(size)
        except ConnectionError:
            return False
        if not more:
            return False
        size -= len(more)
    return True


def storm(address, first, count, place):
    """Begins `count` runs. Returns how many of them were refused."""
    refused = 0
    for at in range(first, first + count, BATCH):
        batch = [begin(address, number, f"127.{place + 1}.0.{1 + number % SOURCES}")
                 for number in range(at, min(at + BATCH, first + count))]
        for client, size in batch:
            refused += not is_served(client, size)
            client.close()
    return refused


def start_storm(address, first, count, place):
    """(id, pipe) of a process that begins runs, then writes how many were refused."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    text = b"failed"
    try:
        text = str(storm(address, first, count, place)).encode()
    finally:
        os.write(write, text)
        os._exit(0)


class Others:
    """Launches of another job, on a port of its own, one after another."""

    def __init__(self, address):
        self.address, self.count, self.slowest, self.failed = address, 0, 0.0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go_on)

    def launch(self):
        ranks = [Client.of_process(self.address, 100 + number) for number in range(2)]
        try:
            assert [one.join() for one in ranks] == [1, 2], "a run of its own"
            ranks[0].set(RANK_KEY, b"address")
            assert ranks[1].get_as_stock(RANK_KEY) == b"address"
        finally:
            for one in ranks:
                one.close()

    def go_on(self):
        while not self.over.wait(0.1):
            begin_time = time.monotonic()
            try:
                self.launch()
            except (AssertionError, OSError) as error:
                self.failed.append(repr(error))
            self.slowest = max(self.slowest, time.monotonic() - begin_time)
            self.count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class RunStorm(unittest.TestCase):
    runs = 8000

    def lease(self, daemon):
        status, body = daemon.http("/v1/jobs/good/endpoints", "POST", json.dumps({"name": "a"}).encode())
        self.assertEqual(200, status, body)
        return daemon.address[0], json.loads(body)["port"]

    def storms(self, daemon):
        each = self.runs // STORMS
        children = [start_storm(daemon.address, place * each, each, place) for place in range(STORMS)]
        texts = []
        for child, read in children:
            with os.fdopen(read, "rb") as pipe:
                texts.append(pipe.read())
            os.waitpid(child, 0)
        return texts

    def test_a_storm_of_runs(self):
        with Daemon("--shards", "2", "--max-jobs", "4096") as daemon:
            port = self.lease(daemon)
            before = daemon.resident_bytes()
            with Others(port) as others:
                began = time.monotonic()
                self.assertEqual([b"0"] * STORMS, self.storms(daemon), "refused")
                took = time.monotonic() - began
            peak = daemon.resident_bytes()
            self.assertEqual([], others.failed)
            self.assertGreater(others.count, 1)
            end = time.monotonic() + PATIENCE
            while daemon.resident_bytes() - before > LEFT_BYTES and time.monotonic() < end:
                time.sleep(0.5)
            left, log = daemon.resident_bytes(), len(daemon.errors())
            print(f"{self.runs} runs, {self.runs / took:.0f} a second; {others.count} launches of others, slowest "
                  f"{others.slowest:.2f} s; resident {before >> 20} MiB before, {peak >> 20} MiB at the end, "
                  f"{left >> 20} MiB later; log {log / 1e6:.2f} MB")
            self.assertLess(left - before, LEFT_BYTES)
            self.assertLess(log, LOG_BYTES)
            time.sleep(1)  # the next event about a run is in another second, and is told with the count of those before
            client, size = begin(daemon.address, 0, "127.0.0.1")
            self.assertTrue(is_served(client, size))
            client.close()
            self.assertRegex(daemon.errors(), r"event=run_\w+ .* skipped=\d+")
            self.assertEqual(200, daemon.http("/readyz")[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=RunStorm.runs)
    RunStorm.runs = parser.parse_args().runs
    unittest.main(argv=sys.argv[:1], verbosity=2)
