# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes daemons of which everything is known: each metric of every board has
its true value, every query of every board returns data and no line that is only zeros or NaN, and a
panel obeys the variable of the job or stands in the row "All jobs"."""
import contextlib
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import at_once
from daemon import SLOWDOWN, Daemon, reserve_port
from redis_server import redis_server
from resp import command
from wire import BARRIER, HELLO, SET, Wire, frame, text

SOURCE = os.environ["C10DD_SOURCE"]
ALL_JOBS = "All jobs"
TRAIN_JOB = "$train_job"
VARIABLES = {"$__rate_interval": "10s", "$__range": "5m", "$instance": ".+", "$job": ".+",
             "$process_group": ".+", "$collective": ".+"}
SECOND = 1_000_000_000
ROUNDS = 4
HALF_FRAME = 1 << 20  # bytes that it announces
FINE, COARSE = 5, 23  # buckets of the histograms of collectives
HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
OF_TLS = {"c10dd_authentications_total", "c10dd_access_reloads_total", "c10dd_certificate_expiry_seconds"}


def boards():
    for path in sorted(glob.glob(os.path.join(SOURCE, "dashboards/*.json"))):
        with open(path, encoding="utf-8") as file:
            yield os.path.basename(path), json.load(file)


def catalogue():
    """The labels of each metric."""
    with open(os.path.join(SOURCE, "protocol/metric_catalog.h"), encoding="utf-8") as file:
        found = re.findall(r'\{\s*"([a-z0-9_]+)",\s*Kind::\w+,\s*"([^"]*)"', file.read())
    return {name: set(labels.split(",")) for name, labels in found}


def metrics_in(expression):
    known = catalogue()
    for name in re.findall(r"\b(?:c10dd|process_(?!group\b))[a-z0-9_]+", expression):
        yield name if name in known else HISTOGRAM.sub("", name)


class Query:
    """One line of one panel."""

    def __init__(self, board, row, panel, expression, legend):
        self.where = f"{board}: {panel['title']}: {legend}"
        self.row, self.panel, self.expression = row, panel, expression

    def of(self, train_job):
        expression = self.expression.replace(TRAIN_JOB, train_job)
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        return expression


def queries():
    for name, board in boards():
        row = None
        for panel in sorted(board["panels"], key=lambda one: one["gridPos"]["y"]):
            row = panel["title"] if panel["type"] == "row" else row
            for target in panel.get("targets", ()):
                yield Query(name, row, panel, target["expr"], target["legendFormat"])
        for note in board["annotations"]["list"]:
            yield Query(name, None, {"title": note["name"], "type": "annotation"}, note["expr"],
                        note["textFormat"])


def queries_without_tls():
    """Those that a daemon without --tls has data for; tls_test.py has the metrics of one with it."""
    return [query for query in queries() if not OF_TLS.intersection(metrics_in(query.expression))]


class Boards(unittest.TestCase):
    def test_each_board_is_well_formed(self):
        for name, board in boards():
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)), name)
            self.assertLessEqual(len(board["uid"]), 40)
            taken = set()
            for panel in board["panels"]:
                at = panel["gridPos"]
                self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                         for y in range(at["y"], at["y"] + at["h"])}
                self.assertFalse(cells & taken, panel["title"])
                taken |= cells
                if panel["type"] == "row":
                    continue
                self.assertTrue(panel["description"], panel["title"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                if panel["type"] == "stat":
                    self.assertIn("noValue", panel["fieldConfig"]["defaults"], panel["title"])
                    self.assertIn("thresholds", panel["fieldConfig"]["defaults"], panel["title"])

    def test_each_metric_has_a_panel_and_each_panel_has_metrics(self):
        known = set(catalogue())
        self.assertGreater(len(known), 30)
        shown = {metric for query in queries() for metric in metrics_in(query.expression)}
        self.assertEqual(known, shown)
        for query in queries():
            if re.search(r"_total\b", query.expression):
                self.assertRegex(query.expression, r"\[\$__(rate_interval|range)\]", query.where)

    def test_a_panel_obeys_the_job_or_stands_among_those_of_all_jobs(self):
        labels = catalogue()
        rows = {query.row for query in queries()}
        self.assertIn(ALL_JOBS, rows)
        self.assertGreater(len(rows), 2)
        for query in queries():
            by_job = any("train_job" in labels[metric] for metric in metrics_in(query.expression))
            self.assertEqual(query.row != ALL_JOBS, TRAIN_JOB in query.expression, query.where)
            self.assertEqual(query.row != ALL_JOBS, by_job, query.where)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="c10dd-prometheus-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_prometheus(self, *targets, rules=None):
        port = reserve_port()
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                       f"rule_files: {json.dumps([rules] if rules else [])}\n"
                       "scrape_configs:\n  - job_name: c10dd\n"
                       f"    static_configs: [{{targets: {json.dumps(targets)}}}]\n")
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        self.api = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path, **parameters):
        url = self.api + path + "?" + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def lines(self, expression):
        """The values of each series that a query had over the last minutes, without NaN."""
        now = time.time()
        found = self.ask("query_range", query=expression, start=now - 240, end=now, step=1)
        return {str(one["metric"]): [float(value) for _, value in one["values"] if value != "NaN"]
                for one in found["result"]}

    def value(self, expression):
        """What one series is now; None when there is none."""
        found = self.ask("query", query=expression)["result"]
        self.assertLessEqual(len(found), 1, f"{expression}: {found}")
        return float(found[0]["value"][1]) if found else None

    def until(self, condition, what, seconds=20):
        end = time.monotonic() + seconds * SLOWDOWN
        seen = None
        while time.monotonic() < end:
            try:
                seen = condition()
            except OSError:  # Prometheus does not listen yet
                pass
            if seen is True:
                return
            time.sleep(0.2)
        self.fail(f"{what}: {seen}")

    def reads(self, truths):
        """Each expression comes to its value, or between two of them."""
        def wrong():
            seen = {expression: self.value(expression) for expression in truths}
            return {expression: (value, truths[expression]) for expression, value in seen.items()
                    if value is None or not in_bounds(value, truths[expression])} or True
        self.until(wrong, "not as it is (value, wanted)")


def in_bounds(value, wanted):
    low, high = wanted if isinstance(wanted, tuple) else (wanted, wanted)
    return low <= value <= high


class Truths(Case):
    """Five daemons: `sound` has a job, whose doings are counted here; the disk of `full` is full;
    the Redis of `lost` dies; `near` and `far` are a fleet."""

    def setUp(self):
        super().setUp()
        self.began = time.time()
        self.sound = self.start(engine=f"rocksdb:{self.folder}/sound")
        self.full = self.start("--disk-reserve", str(1 << 50), engine=f"rocksdb:{self.folder}/full")
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        port, self.redis = stack.enter_context(redis_server(self.folder))
        self.lost = self.start(engine=f"redis://127.0.0.1:{port}")
        os.mkdir(f"{self.folder}/fleet")
        self.fleet_port, _ = stack.enter_context(redis_server(f"{self.folder}/fleet"))
        self.near, self.far, self.dying = (
            self.start("--lease", "1", engine=f"redis://127.0.0.1:{self.fleet_port}") for _ in range(3))
        self.run_prometheus(*(self.instance(one) for one in (self.sound, self.full, self.lost, self.near,
                                                             self.far)))
        self.native = 0  # connections that the sound daemon has accepted

    def start(self, *arguments, engine):
        daemon = Daemon(*arguments, engine=engine).start()
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.stop)
        return daemon

    @staticmethod
    def instance(daemon):
        return "{}:{}".format(*daemon.address)

    def connect(self, daemon, job="train"):
        wire = Wire(daemon.address)
        self.addCleanup(wire.close)
        self.assertEqual("ok", wire.hello(job=job).code)
        self.native += daemon is self.sound
        return wire

    def in_background(self, call, *arguments):
        """Makes a call that blocks, in a thread. Returns the thread once the daemon counts the call as
        blocked, so that whatever ends it comes later."""
        thread = threading.Thread(target=call, args=arguments)
        thread.start()
        blocked = 'c10dd_store_waiters{train_job="train"} 1\n'
        self.until(lambda: blocked in self.sound.http("/metrics")[1], f"not blocked: {call.__name__}")
        return thread

    def of(self, metric, labels="", daemon=None):
        comma = "," if labels else ""
        return f'{metric}{{instance="{self.instance(daemon or self.sound)}"{comma}{labels}}}'

    def play(self, number, first, second):
        """What happens in each round; rates need more than one."""
        self.assertEqual("ok", first.set(f"key-{number}", b"v" * 100).code)
        self.assertEqual("not_found", first.get("none").code)
        self.assertEqual("timed_out", first.get("none", SECOND // 20).code)
        again = first.sequence
        for sequence in (again + 1, again + 1):  # the second is a repeat
            self.assertEqual("ok", first.add("sum", 1, sequence=sequence).code)
        first.sequence = again + 1
        early = self.in_background(first.barrier, "step", 0, 2, number, 20 * SECOND)
        time.sleep(0.2)  # the spread of the arrivals, which truths() knows
        self.assertEqual("ok", second.barrier("step", 1, 2, number, 20 * SECOND).code)
        early.join()
        n = number + 1
        totals = (3 * n, n, 4096 * n, 6144 * n, SECOND * n // 100)
        buckets = [n] + [0] * 4 + [2 * n] + [0] * (COARSE - 6)
        fine = [0] * (FINE - 1) + [n]
        queue = (SECOND * n // 10, [2 * n] + [0] * (FINE + COARSE - 2) + [n])
        reply = first.report(n, ("dp", "all_reduce", "gloo"), totals, buckets, fine, queue, 7)
        self.assertEqual("ok", reply.code, reply.detail)
        broken = Wire(self.sound.address)
        broken.send(frame(HELLO, b"\x01\x01cut"))
        self.native += 1
        while broken.reply() is not None:
            pass
        broken.close()

    def lose_redis(self):
        """The engine of `lost` fails in a commit."""
        wire = self.connect(self.lost, job="stranded")
        self.assertEqual("ok", wire.set("before", b"x").code)
        self.reads({self.of("c10dd_jobs_owned", daemon=self.lost): 1})
        self.redis.kill()
        self.redis.wait()
        self.assertEqual("unavailable", wire.set("after", b"x").code)

    def play_fleet(self):
        """One job moves from `near` to `far`; `near` takes another over; `far` finds a third one taken."""
        jobs = {"moved": self.near, "orphan": self.dying, "taken": self.far}
        wires = {job: self.connect(daemon, job=job) for job, daemon in jobs.items()}
        for wire in wires.values():
            self.assertEqual("ok", wire.set("key", b"x").code)
        self.reads({self.of("c10dd_jobs_owned", daemon=self.near): 1})
        to = json.dumps({"to": self.instance(self.far)}).encode()
        self.assertEqual(200, self.near.http("/v1/jobs/moved/move", "POST", to)[0])
        self.assertEqual("ok", self.connect(self.far, job="moved").get("key").code)
        for _ in range(ROUNDS):
            self.assertEqual(200, self.near.http("/v1/jobs/moved")[0])
        self.dying.kill()
        self.until(lambda: self.near.http("/v1/jobs/orphan")[0] == 200, "the job is taken over")
        numbers = {job["job"]: job["number"] for job in json.loads(self.far.http("/v1/jobs")[1])["jobs"]}
        command(self.fleet_port, "HSET", "c10dd:{%s}:meta" % numbers["taken"], "owner", "9:9")
        self.assertEqual("not_owner", wires["taken"].set("key", b"y").code)

    def members_of_the_group(self, here, missing):
        self.reads({self.of("c10dd_members", 'train_job="train"'): here,
                    self.of("c10dd_members_missing", 'train_job="train"'): missing})

    def lose_a_member(self):
        """Two join; one dies without a word."""
        members = [self.connect(self.sound) for _ in range(2)]
        place = "world", 2, 600 * SECOND, 20 * SECOND
        first = self.in_background(members[0].join, *place)
        self.assertEqual("ok", members[1].join(*place).code)
        first.join()
        self.members_of_the_group(here=2, missing=0)
        members[1].close()
        self.members_of_the_group(here=1, missing=1)

    def truths(self):
        of, train = self.of, 'train_job="train"'
        collective = 'backend="gloo",collective="all_reduce",process_group="dp",train_job="train"'
        pid = self.sound.process.pid
        with open(f"/proc/{pid}/limits", encoding="ascii") as limits:
            files = int(re.search(r"Max open files\s+\d+\s+(\d+)", limits.read())[1])
        free = shutil.disk_usage(self.folder).free
        resident = self.sound.resident_bytes()
        fds = len(os.listdir(f"/proc/{pid}/fd"))
        return {
            of("c10dd_build_info", 'engine="rocksdb",durability="fsync"'): 1,
            of("c10dd_start_time_seconds"): (self.began - 1, time.time()),
            of("c10dd_ready"): 1,
            of("c10dd_ready", daemon=self.full): 1,
            of("c10dd_ready", daemon=self.lost): 0,
            of("c10dd_engine_up"): 1,
            of("c10dd_engine_up", daemon=self.lost): 0,
            of("c10dd_engine_commit_failures_total", 'outcome="unknown"'): 0,
            of("c10dd_engine_commit_failures_total", 'outcome="unknown"', self.lost): (1, 9),
            of("c10dd_engine_commit_duration_seconds_count") + " - " +
            of("c10dd_engine_commit_rows_count"): 0,
            of("c10dd_engine_commit_duration_seconds_sum"): (1e-6, 60),
            of("c10dd_engine_commit_rows_sum"): (4 * ROUNDS, 40 * ROUNDS),
            of("c10dd_disk_full"): 0,
            of("c10dd_disk_full", daemon=self.full): 1,
            of("c10dd_disk_free_bytes"): (free * 0.5, free * 1.5),
            of("c10dd_engine_oldest_commit_seconds"): 0,
            of("c10dd_connection_bytes"): (HALF_FRAME, HALF_FRAME + 65_536),
            of("c10dd_stored_bytes"): (1, 1 << 30),
            of("c10dd_held_bytes"): (2_048, 1 << 30),
            of("c10dd_jobs"): 1,
            of("c10dd_endpoints"): 1,
            of("c10dd_connections", 'protocol="native"'): 4,
            of("c10dd_connections_accepted_total", 'protocol="native"'): self.native,
            of("c10dd_connections_closed_total", 'protocol="native",reason="refused"'): ROUNDS,
            of("c10dd_protocol_errors_total", 'protocol="native",code="malformed"'): ROUNDS,
            of("c10dd_store_requests_total", 'op="set",protocol="native"'): ROUNDS,
            of("c10dd_store_requests_total", 'op="add",protocol="native"'): 2 * ROUNDS,
            of("c10dd_store_request_failures_total", 'op="get",code="not_found"'): ROUNDS,
            of("c10dd_store_request_duration_seconds_count", 'op="set"'): ROUNDS,
            of("c10dd_store_wait_duration_seconds_count", 'op="get",outcome="timed_out"'): ROUNDS,
            of("c10dd_store_wait_duration_seconds_sum", 'op="get",outcome="timed_out"'):
            (ROUNDS * 0.05, 60),
            of("c10dd_replayed_replies_total"): ROUNDS,
            of("c10dd_store_keys", train): ROUNDS + 1,
            of("c10dd_store_value_bytes", train): ROUNDS * 105 + 4,
            of("c10dd_store_waiters", train): 1,
            of("c10dd_barriers_pending", train): 1,
            of("c10dd_barrier_arrival_spread_seconds_count", train): ROUNDS,
            of("c10dd_barrier_arrival_spread_seconds_sum", train): (ROUNDS * 0.15, 60),
            of("c10dd_sessions", train): 4,
            of("c10dd_members", train): 1,
            of("c10dd_members_missing", train): 1,
            of("c10dd_generations_total", train + ',outcome="formed"'): 1,
            of("c10dd_generations_total", train + ',outcome="ended"'): 1,
            of("c10dd_job_diagnosis_timestamp_seconds", train): (self.began, time.time()),
            of("c10dd_collective_duration_seconds_count", collective): 3 * ROUNDS,
            of("c10dd_collective_duration_seconds_bucket", collective + ',le="2.5e-06"'): 0,
            of("c10dd_collective_duration_seconds_bucket", collective + ',le="5e-06"'): ROUNDS,
            of("c10dd_collective_duration_seconds_bucket", collective + ',le="0.00025"'): ROUNDS,
            of("c10dd_collective_duration_seconds_bucket", collective + ',le="0.0005"'): 3 * ROUNDS,
            of("c10dd_collective_duration_seconds_sum", collective): (0.0399, 0.0401),
            of("c10dd_collective_queue_seconds_bucket", collective + ',le="100"'): 2 * ROUNDS,
            of("c10dd_collective_queue_seconds_count", collective): 3 * ROUNDS,
            of("c10dd_collective_queue_seconds_sum", collective): (0.1 * ROUNDS, 0.1 * ROUNDS + 1e-6),
            of("c10dd_collectives_in_flight", train): 7,
            of("c10dd_collective_payload_bytes_total", collective): 4096 * ROUNDS,
            of("c10dd_collective_bus_bytes_total", collective): 6144 * ROUNDS,
            of("c10dd_collective_failures_total", collective): ROUNDS,
            of("c10dd_jobs_owned", daemon=self.near): 1,
            of("c10dd_jobs_owned", daemon=self.far): 1,
            of("c10dd_moves_total", daemon=self.near): 1,
            of("c10dd_takeovers_total", daemon=self.near): 1,
            of("c10dd_deposed_total", daemon=self.far): 1,
            of("c10dd_forwarded_requests_total", 'outcome="ok"', self.near): ROUNDS,
            of("c10dd_lease_held", daemon=self.near): 1,
            of("c10dd_lease_held", daemon=self.lost): 0,
            of("c10dd_lease_left_seconds", daemon=self.near): (0.01, 1),
            of("c10dd_lease_left_seconds", daemon=self.lost): (-300, -0.01),
            of("c10dd_daemon_silence_seconds", f'daemon="{self.instance(self.far)}"', self.near): (0, 1),
            of("process_cpu_seconds_total"): (0.01, 60),
            of("process_resident_memory_bytes"): (resident * 0.5, resident * 2),
            of("process_open_fds"): (fds - 8, fds + 8),
            of("process_max_fds"): files,
        }

    def check_lines(self):
        """Each query has lines, none without a meaning, and a panel of a job none of other jobs."""
        empty, idle, disobedient = [], [], []
        for query in queries_without_tls():
            lines = self.lines(query.of("train"))
            if not any(lines.values()):
                empty.append(query.where)
            if query.panel["type"] == "timeseries":
                idle += [f"{query.where}: {name}" for name, values in lines.items()
                         if not any(values)]
            if query.row != ALL_JOBS and self.lines(query.of("nobody")):
                disobedient.append(query.where)
        self.assertEqual(([], [], []), (empty, idle, disobedient),
                         "without data; only zeros or NaN; with lines of another job")

    def test_every_metric_of_the_boards_has_its_true_value(self):
        self.until(lambda: all(one["health"] == "up" for one in self.ask(
            "targets", state="active")["activeTargets"]), "scraped")
        first, second = self.connect(self.sound), self.connect(self.sound)
        self.reads({self.of("c10dd_sessions", 'train_job="train"'): 2})
        for number in range(ROUNDS):
            self.play(number, first, second)
            time.sleep(1.1)  # the next scrape
        self.lose_a_member()
        self.lose_redis()
        self.play_fleet()
        self.assertEqual(200, self.sound.http("/v1/jobs/train/endpoints", "POST",
                                              b'{"name": "a"}')[0])
        waiting = self.connect(self.sound)
        waiting.send(frame(BARRIER, text("lonely") + struct.pack("<QQIIq", 0, 0, 0, 2, 600 * SECOND),
                           sequence=1))
        waiting.send(frame(SET, b"half", sequence=2, length=HALF_FRAME))
        truths = self.truths()
        self.assertEqual({metric for query in queries_without_tls() for metric in metrics_in(query.expression)},
                         {metric for truth in truths for metric in metrics_in(truth)})
        self.reads(truths)
        self.check_lines()


class Training(Case):
    def test_the_ranks_of_a_real_training_job_fill_the_row_of_collectives(self):
        demo = subprocess.Popen(
            [sys.executable, "-B", os.path.join(SOURCE, "examples/digits/demo.py"),
             "--hold", "120", "--epochs", "48",  # long enough for several scrapes
             "--limit", str(180 * SLOWDOWN)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(demo.stdout.close)
        self.addCleanup(demo.wait, 30)
        self.addCleanup(demo.terminate)
        printed = []
        for line in demo.stdout:
            printed.append(line)
            found = re.search(r"the daemon listens on ([\d.:]+)", line)
            if found and not hasattr(self, "api"):
                self.run_prometheus(found.group(1))
            if "the daemon stays on" in line:
                break
        self.assertTrue(hasattr(self, "api"), "".join(printed))
        self.assertIn("the daemon stays on", printed[-1], "".join(printed))
        wanted = [query for query in queries()
                  if query.row == "Collectives" and "failures" not in query.expression]
        self.assertGreater(len(wanted), 5)
        self.until(lambda: [query.where for query in wanted
                            if not any(self.lines(query.of("digits")).values())] or True,
                   "without data", seconds=30)


if __name__ == "__main__":
    if shutil.which("prometheus") is None:
        print("skipped: prometheus is not installed")
        sys.exit(77)  # inside a test it would count as an error
    at_once.main(3)
