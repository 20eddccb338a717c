#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainers of PyTorch that survive everything that happens to the daemon, by each way of c10dd.

    kills.py --kills N VERSION... [--install] [--way c10drun|scheme|env|torchrun]...

A cell of the table is a way and a version of PyTorch. 4 ranks in two network namespaces train on the digits (kills_train.py).
The daemon is killed N times while an add is unanswered and a wait blocked, stopped for 5 s, and cut off from a node for 10 s;
then two daemons share a Redis: the owner of the job is killed, and the job is moved. No call may fail, each add must count
once, and the parameters must be those of a launch without faults. Beside it, a plain run and PyTorch's own server, killed
once: they must fail at once."""
import argparse
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python"))
from package import ENVIRONMENT, PACKAGE, write_entry_points  # noqa: E402
from daemon import BIN, Daemon, reserve_port, text_of  # noqa: E402
from environments import install, numbers_of, python_of  # noqa: E402
from networks import TwoNetworks  # noqa: E402
from redis_server import redis_server  # noqa: E402

TRAIN = os.path.join(HERE, "kills_train.py")
WAYS = ("c10drun", "scheme", "env", "torchrun")
NODES = 2
EACH = 2
RANKS = NODES * EACH
PLACE = 64
PATIENCE = 120
AT_ONCE = 15


class Launch:
    """The processes of one launch, on two nodes."""

    def __init__(self, networks, way, version, python, url, *, pause=0.1, steps=0):
        self.networks = networks
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name
        with open(os.path.join(self.folder, "states"), "wb") as file:
            file.write(bytes(PLACE * RANKS))
        self.log = tempfile.TemporaryFile()
        self.url = url
        self.words = [TRAIN, str(pause), str(steps)]
        self.site = os.path.join(self.folder, "site")
        os.makedirs(self.site)
        if version >= (2, 5):
            write_entry_points(self.site)
        else:
            with open(os.path.join(self.site, "sitecustomize.py"), "w", encoding="ascii") as file:
                file.write("import os\nif os.environ.get('C10DD_TORCH') and os.environ.get('RANK'):\n    import c10dd.torch\n")
        self.processes = getattr(self, way)(python)

    def start(self, node, words, **variables):
        prefix = self.networks.in_far if node else ()
        environment = {**ENVIRONMENT, "PYTHONPATH": f"{PACKAGE}:{self.site}", "OMP_NUM_THREADS": "1", "C10DD_LOG": "off",
                       "KILLS_FOLDER": self.folder, "GLOO_SOCKET_IFNAME": "far0" if node else "near0", **variables}
        return subprocess.Popen([*prefix, *words], env=environment, stdout=self.log, stderr=self.log)

    def c10drun(self, python):
        address, job = self.url[len("c10dd://"):].split("/")
        return [self.start(node, [os.path.join(BIN, "c10drun"), "--daemon", address, "--job", job, "--nnodes", str(NODES),
                                  "--nproc", str(EACH), "--no-prefix", "--last-call", "1s", *self.words], PYTHON_EXEC=python)
                for node in range(NODES)]

    def ranks(self, words, **variables):
        return [self.start(rank // EACH, words, RANK=str(rank), WORLD_SIZE=str(RANKS), **variables) for rank in range(RANKS)]

    def scheme(self, python):
        return self.ranks([python, *self.words, self.url])

    def env(self, python):
        return self.ranks([python, *self.words], C10DD_TORCH="env", C10DD_URL=self.url)

    def torchrun(self, python):
        address, job = self.url[len("c10dd://"):].split("/")
        return [self.start(node, [python, "-m", "torch.distributed.run", "--rdzv-backend=c10dd", f"--rdzv-endpoint={address}",
                                  f"--rdzv-id={job}", f"--nnodes={NODES}", f"--nproc-per-node={EACH}", *self.words])
                for node in range(NODES)]

    def plain(self, python):
        host, port = self.url[len("c10dd://"):].split("/")[0].rsplit(":", 1)
        return self.ranks([python, *self.words], MASTER_ADDR=host, MASTER_PORT=port, TORCHELASTIC_USE_AGENT_STORE="True",
                          TORCHELASTIC_RESTART_COUNT="0")

    def states(self):
        """(what it does, step) of each rank."""
        with open(os.path.join(self.folder, "states"), "rb") as file:
            data = file.read()
        return [(data[at:at + 1], struct.unpack_from("<Q", data, at + 8)[0]) for at in range(0, len(data), PLACE)]

    def progress(self, steps=2):
        """Waits until all ranks have made some steps."""
        begin, end = [step for _, step in self.states()], time.monotonic() + PATIENCE
        while any(step < first + steps for (_, step), first in zip(self.states(), begin)):
            self.check_alive()
            if time.monotonic() > end:
                raise AssertionError(f"no progress: {self.states()}\n{text_of(self.log)[-3000:]}")
            time.sleep(0.02)

    def check_alive(self):
        for process in self.processes:
            if process.poll() is not None:
                raise AssertionError(f"a process has ended with {process.returncode}:\n{text_of(self.log)[-4000:]}")

    def finish(self):
        """Lets the ranks end; returns what they have printed."""
        with open(os.path.join(self.folder, "end"), "w", encoding="ascii"):
            pass
        codes = [process.wait(PATIENCE) for process in self.processes]
        said = text_of(self.log)
        found = [json.loads(line) for line in said.splitlines() if line.startswith('{"rank"')]
        if any(codes) or len(found) != RANKS:
            raise AssertionError(f"exit codes {codes}:\n{said[-4000:]}")
        return found

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.log.close()
        self.scratch.cleanup()


def kill_in_the_middle(daemon, launch):
    """SIGKILL, while an add has no reply and a wait is blocked."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        os.kill(daemon.process.pid, signal.SIGSTOP)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            now = [what for what, _ in launch.states()]
            if b"A" in now and b"W" in now:
                time.sleep(0.02)
                if now == [what for what, _ in launch.states()]:
                    return daemon.kill()
        os.kill(daemon.process.pid, signal.SIGCONT)
        time.sleep(0.03)
    raise AssertionError("no add and wait at the same time")


def judge(found, size=RANKS):
    """Each add counts once, and all ranks have the same parameters."""
    steps = {one["steps"] for one in found}
    counts = {one["count"] for one in found}
    weights = {one["weights"] for one in found}
    failures = [failure for one in found for failure in one["failures"]]
    assert len(steps) == 1 and counts == {size * steps.pop()} and len(weights) == 1 and not failures, found
    return found[0]["steps"], found[0]["weights"], found[0]["accuracy"]


class Cell:
    def __init__(self, networks, way, version):
        self.networks, self.way, self.version = networks, way, version
        self.python = python_of(version)
        self.number = numbers_of(subprocess.run([self.python, "-c", "import torch; print(torch.__version__)"], check=True,
                                                capture_output=True, text=True).stdout)

    def launch(self, url, way=None, **options):
        return Launch(self.networks, way or self.way, self.number, self.python, url, **options)

    def daemon(self, *words, **options):
        return Daemon("--allow-insecure-listen", "--log-level", "warn", *words, host=TwoNetworks.NEAR, **options)

    def one_daemon(self, kills):
        with tempfile.TemporaryDirectory() as folder, self.daemon(engine=f"rocksdb:{folder}/state") as daemon:
            launch = self.launch("c10dd://%s:%d/kills" % daemon.address)
            try:
                launch.progress()
                for _ in range(kills):
                    kill_in_the_middle(daemon, launch)
                    time.sleep(0.2)
                    daemon.start()
                    launch.progress(4)
                os.kill(daemon.process.pid, signal.SIGSTOP)
                time.sleep(5)
                os.kill(daemon.process.pid, signal.SIGCONT)
                launch.progress()
                self.networks.set_link(False)
                time.sleep(10)
                self.networks.set_link(True)
                launch.progress()
                return judge(launch.finish())
            finally:
                launch.end()

    def fleet(self):
        with tempfile.TemporaryDirectory() as folder, redis_server(folder) as (port, _):
            engine = f"redis://127.0.0.1:{port}"
            with self.daemon("--tcpstore-from", "10.213.7.0/24", engine=engine) as first, \
                    self.daemon("--tcpstore-from", "10.213.7.0/24", engine=engine) as second:
                places = ["%s:%d" % one.address for one in (first, second)]
                launch = self.launch(f"c10dd://{','.join(places)}/fleet")
                try:
                    launch.progress()
                    for one in (first, second):  # one of them owns the job
                        one.kill()
                        time.sleep(1)
                        one.start()
                        launch.progress()
                    for place in places * 2:
                        subprocess.run([os.path.join(BIN, "c10ddctl"), "--daemon", places[0], "move", "fleet", place],
                                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        launch.progress()
                    return judge(launch.finish())
                finally:
                    launch.end()

    def calm(self, steps):
        """The parameters of a launch without faults."""
        with self.daemon() as daemon:
            launch = self.launch("c10dd://%s:%d/calm" % daemon.address, way="scheme", pause=0, steps=steps)
            try:
                return judge(launch.finish())
            finally:
                launch.end()

    def fails_at_once(self, what):
        """A plain run, or PyTorch's own server: the seconds from the kill to the end of the first rank."""
        server = None
        if what == "plain":
            daemon = self.daemon("--tcpstore-from", "10.213.7.0/24").start()
            host, port = daemon.address
        else:
            host, port = TwoNetworks.NEAR, reserve_port(TwoNetworks.NEAR)
            server = subprocess.Popen([self.python, "-c", "import sys, time, torch.distributed as d; s = d.TCPStore(sys.argv[1], "
                                       "int(sys.argv[2]), None, True, wait_for_workers=False); time.sleep(1000)", host, str(port)])
        launch = self.launch(f"c10dd://{host}:{port}/plain", way="plain")
        try:
            launch.progress()
            if server is None:
                daemon.kill()
            else:
                server.kill()
            begin = time.monotonic()
            while all(process.poll() is None for process in launch.processes):
                assert time.monotonic() - begin < AT_ONCE, f"{what}: still running"
                time.sleep(0.05)
            assert any(process.poll() for process in launch.processes)
            return time.monotonic() - begin
        finally:
            launch.end()
            if server is not None:
                server.kill()
                server.wait()

    def run(self, kills):
        begin = time.monotonic()
        steps, weights, accuracy = self.one_daemon(kills)
        more, others, _ = self.fleet()
        for count, told in ((steps, weights), (more, others)):
            assert self.calm(count)[1] == told, "the parameters are not those without faults"
        print(f"{self.way:10} {self.version:8} {kills} kills: {steps} steps, accuracy {accuracy}; fleet: {more} steps; "
              f"{time.monotonic() - begin:.0f} s: OK", flush=True)


def in_two_networks(versions, may_install, work):
    """Calls work(networks, version) for each version, which is installed first if that is allowed. Returns how often
    it has failed: the sum of what it returns."""
    networks = TwoNetworks()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    failed = 0
    try:
        for version in versions:
            if python_of(version) is None:
                if not may_install:
                    raise SystemExit(f"PyTorch {version} is not installed: use --install")
                networks.go_home()
                install(version)
                networks = TwoNetworks()
            failed += work(networks, version)
    finally:
        networks.close()
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--way", action="append", choices=WAYS)
    options = parser.parse_args()
    def work(networks, version):
        failed = 0
        for way in options.way or WAYS:
            cell = Cell(networks, way, version)
            if way == "torchrun" and cell.number < (2, 5):
                continue
            try:
                cell.run(options.kills)
            except AssertionError as error:
                failed += 1
                print(f"{way:10} {version:8} FAILED: {error}", flush=True)
        cell = Cell(networks, "scheme", version)
        print(f"beside it  {version:8} plain run: failed {cell.fails_at_once('plain'):.1f} s after one kill; PyTorch's "
              f"server: {cell.fails_at_once('server'):.1f} s", flush=True)
        return failed

    return 1 if in_two_networks(options.versions, options.install, work) else 0


if __name__ == "__main__":
    sys.exit(main())
