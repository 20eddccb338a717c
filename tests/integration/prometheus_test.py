# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes the daemon of the demo; every query of every board returns data, and
every metric that a board names is in the catalogue."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from daemon import SLOWDOWN, reserve_port

SOURCE = os.environ["C10DD_SOURCE"]
BIN = os.environ["C10DD_BIN"]
VARIABLES = {"$__rate_interval": "10s", "$train_job": ".+", "$instance": ".+", "$job": ".+",
             "$process_group": ".+", "$collective": ".+"}


def boards():
    folder = os.path.join(SOURCE, "dashboards")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield name, json.load(file)


def queries():
    for name, board in boards():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"]
                for variable, value in VARIABLES.items():
                    expression = expression.replace(variable, value)
                yield f"{name}: {panel['title']}: {target['legendFormat']}", expression


def catalogue():
    with open(os.path.join(SOURCE, "protocol/metric_catalog.h"), encoding="utf-8") as file:
        return set(re.findall(r'\{\s*"([a-z0-9_]+)",\s*Kind', file.read()))


class Boards(unittest.TestCase):
    def test_each_board_is_well_formed(self):
        known = catalogue()
        self.assertGreater(len(known), 20)
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
                for target in panel["targets"]:
                    for metric in re.findall(r"\b(?:c10dd|process_(?!group))[a-z0-9_]+", target["expr"]):
                        base = re.sub(r"_(bucket|sum|count)$", "", metric)
                        self.assertTrue({metric, base} & known, f"{panel['title']}: {metric}")
                    if re.search(r"_total\b", target["expr"]):
                        self.assertIn("[$__rate_interval]", target["expr"])


class Scrape(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="c10dd-prometheus-")
        self.processes = []

    def tearDown(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
            process.wait(30)
            if process.stdout:
                process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_prometheus(self, target):
        port = reserve_port()
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                       "scrape_configs:\n  - job_name: c10dd\n"
                       f"    static_configs: [{{targets: ['{target}']}}]\n")
        self.processes.append(subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.api = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path, **parameters):
        url = self.api + path + "?" + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def points(self, expression):
        """How many finite points a query had over the last minutes."""
        now = time.time()
        series = self.ask("query_range", query=expression, start=now - 240, end=now,
                          step=1)["result"]
        return sum(value not in ("NaN", "+Inf", "-Inf") for s in series for _, value in s["values"])

    def start_demo(self):
        demo = subprocess.Popen(
            [sys.executable, "-B", os.path.join(SOURCE, "examples/digits/demo.py"),
             "--hold", "120", "--epochs", "96",  # long enough for several scrapes
             "--limit", str(180 * SLOWDOWN)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(demo)
        return demo

    def test_every_query_of_every_board_returns_data(self):
        demo = self.start_demo()
        lines = []
        for line in demo.stdout:
            lines.append(line)
            found = re.search(r"the daemon listens on ([\d.:]+)", line)
            if found and not hasattr(self, "api"):
                self.run_prometheus(found.group(1))
            if "the daemon stays on" in line:
                break
        self.assertTrue(hasattr(self, "api"), "".join(lines))
        self.assertIn("the daemon stays on", lines[-1], "".join(lines))
        missing = dict(queries())
        self.assertGreater(len(missing), 15)
        target = {}  # one scrape that took too long is no failure
        deadline = time.monotonic() + 30
        while (missing or target.get("health") != "up") and time.monotonic() < deadline:
            time.sleep(1)
            missing = {panel: expression for panel, expression in missing.items()
                       if not self.points(expression)}
            target, = self.ask("targets", state="active")["activeTargets"]
        self.assertEqual({}, missing, f"no data for {missing}")
        self.assertEqual("up", target["health"], target["lastError"])


if __name__ == "__main__":
    if shutil.which("prometheus") is None:
        print("skipped: prometheus is not installed")
        sys.exit(77)  # inside a test it would count as an error
    unittest.main(verbosity=2)
