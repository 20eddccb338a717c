# SPDX-License-Identifier: Apache-2.0
"""The alerts of dashboards/alerts.yaml: promtool accepts them, each fires when it has to and with the
sentence of the diagnosis, and each has a page that says what to do. Most metrics are written here; a real
Prometheus and a daemon show that one fires. prometheus_test.py compares the metrics of a daemon with their
true values."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from daemon import Daemon
from prometheus_test import Case, catalogue, metrics_in
from tcpstore_wire import Client

SOURCE = os.environ["C10DD_SOURCE"]
ALERTS = os.path.join(SOURCE, "dashboards/alerts.yaml")
SENTENCE = ('barrier "epoch" (generation 0, sequence 7) waits for rank 3 on node4 (pid 12), whose '
            "connection has closed; 3 ranks wait")


def alerts():
    """The lines of each alert, by its name."""
    with open(ALERTS, encoding="utf-8") as file:
        parts = re.split(r"(?m)^ +- alert: (\w+)$", file.read())
    return dict(zip(parts[1::2], parts[2::2]))


def labels(state, job="llm", sentence=SENTENCE):
    """sentence: None is a daemon with --metrics-without-sentences."""
    return {"train_job": job, "state": state, "kind": "missing", **({"sentence": sentence} if sentence else {}),
            "instance": "head:29500", "job": "c10dd"}


def series(values, **of):
    """A series with a value each 15 s, which is when the job began to wait. promtool's clock begins at 0,
    and `_` is no value."""
    inner = ",".join(f"{name}={json.dumps(value)}" for name, value in labels(**of).items())
    return {"series": f"c10dd_job_diagnosis_timestamp_seconds{{{inner}}}", "values": values}


def fires(name, at, *of):
    """What a test of promtool expects: at this time, the alert fires for the series of these labels."""
    severity, summary = (re.search(rf"{what}: ([^\n}}]+)", alerts()[name])[1]
                         for what in ("severity", "summary"))
    return {"eval_time": at, "alertname": name, "exp_alerts": [
        {"exp_labels": {**one, "severity": severity},
         "exp_annotations": {"summary": summary, "description": one.get(
                                 "sentence", f"/v1/jobs/{one['train_job']} of the daemon says why."),
                             "runbook": f"docs/runbooks/{name}.md"}} for one in of]}


class Alerts(unittest.TestCase):
    def test_each_alert_says_how_bad_it_is_and_has_a_page(self):
        pages = {os.path.basename(path)[:-3]
                 for path in glob.glob(os.path.join(SOURCE, "docs/runbooks/*.md"))}
        self.assertEqual(set(alerts()), pages)
        known = set(catalogue())
        for name, text in alerts().items():
            self.assertRegex(text, r"severity: (critical|warning|info)\b", name)
            self.assertTrue(set(metrics_in(text)) and set(metrics_in(text)) <= known, name)
            self.assertIn(f"runbook: docs/runbooks/{name}.md\n", text)
            with open(os.path.join(SOURCE, f"docs/runbooks/{name}.md"), encoding="utf-8") as file:
                page = file.read()
            self.assertTrue(page.startswith(f"# {name}\n"), name)
            for part in ("Meaning", "Impact", "Check", "Do"):
                self.assertIn(f"\n**{part}.**", page, name)

    def test_every_kind_of_diagnosis_is_in_a_page(self):
        with open(os.path.join(SOURCE, "protocol/diagnosis.cc"), encoding="utf-8") as file:
            kinds = re.search(r'kNames = (\{\s*"none"[^}]*\})', file.read())[1]
        pages = ""
        for name in alerts():
            with open(os.path.join(SOURCE, f"docs/runbooks/{name}.md"), encoding="utf-8") as file:
                pages += file.read()
        for kind in re.findall(r'"(\w+)"', kinds)[1:]:
            self.assertIn(f"| `{kind}`", pages)


class Rules(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def play(self, inputs, *expected):
        """Plays the series to the alerts, which must fire as expected."""
        folder = tempfile.mkdtemp(prefix="c10dd-alerts-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "test.yaml")
        with open(path, "w", encoding="utf-8") as file:  # each JSON is YAML
            json.dump({"rule_files": [ALERTS], "evaluation_interval": "15s", "tests": [
                {"interval": "15s", "input_series": inputs, "alert_rule_test": list(expected)}]}, file)
        self.promtool("test", "rules", path)

    def test_promtool_finds_nothing_to_say(self):
        self.promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)

    def test_a_stuck_job_is_told_after_15_seconds_until_it_goes_on(self):
        stuck = labels("stuck")
        self.play([series("_ 0x3 stale", state="stuck"), series("_x9", state="stuck", job="idle")],
                  fires("C10ddJobStuck", "15s"), fires("C10ddJobStuck", "30s", stuck),
                  fires("C10ddJobStuck", "60s", stuck), fires("C10ddJobStuck", "75s"),
                  fires("C10ddJobWaiting", "60s"))

    def test_both_alerts_fire_without_the_label_sentence(self):
        stuck, waiting = labels("stuck", sentence=None), labels("waiting", sentence=None)
        self.play([series("0x60", state="stuck", sentence=None), series("0x60", state="waiting", sentence=None)],
                  fires("C10ddJobStuck", "15m", stuck), fires("C10ddJobWaiting", "15m", waiting))

    def test_a_job_that_recovers_at_once_is_not_told(self):
        self.play([series("0 stale", state="stuck")],
                  *(fires("C10ddJobStuck", f"{at}s") for at in (0, 15, 30, 60)))

    def test_a_job_that_waits_is_told_after_10_minutes(self):
        waiting = labels("waiting")
        self.play([series("0x60", state="waiting")], fires("C10ddJobWaiting", "10m"),
                  fires("C10ddJobWaiting", "10m15s", waiting), fires("C10ddJobStuck", "15m"))

    def test_a_sentence_that_changes_does_not_begin_the_10_minutes_anew(self):
        late = labels("waiting", sentence="rank 4")
        self.play([series("0x39 stale", state="waiting"),
                   series("_x40 0x20", state="waiting", sentence="rank 4")],
                  fires("C10ddJobWaiting", "10m15s", late))

    def test_two_jobs_are_told_apart(self):
        self.play([series("0x9", state="stuck"), series("0x9", state="stuck", job="other")],
                  fires("C10ddJobStuck", "1m", labels("stuck"), labels("stuck", job="other")))


class Fired(Case):
    """A real Prometheus evaluates the rules of the project, with shorter times."""

    def alerts(self):
        return [(one["labels"]["alertname"], one["labels"]["train_job"], one["annotations"]["description"])
                for one in self.ask("alerts")["alerts"] if one["state"] == "firing"]

    def test_it_fires_with_the_sentence_of_the_daemon_and_not_in_a_job_that_goes_on(self):
        rules = os.path.join(self.folder, "alerts.yaml")
        with open(ALERTS, encoding="utf-8") as file, open(rules, "w", encoding="utf-8") as faster:
            faster.write(file.read().replace("interval: 15s", "interval: 1s").replace("for: 15s", "for: 3s"))
        with Daemon() as daemon:
            self.run_prometheus("%s:%d" % daemon.address, rules=rules)
            ranks = [Client.of_process(daemon.address, 100 + rank, f"127.0.1.{rank + 1}") for rank in range(2)]
            for client in ranks:
                self.addCleanup(client.close)
                client.join()
            self.until(lambda: self.value("up") == 1, "not scraped")
            time.sleep(5)
            self.assertEqual([], self.alerts())
            ranks[1].set(b"/default_pg/0//exception_dump", (1).to_bytes(4, "little"))
            self.until(lambda: bool(self.alerts()), "no alert", 40)
            run, = json.loads(daemon.http("/v1/jobs/torch")[1])["runs"]
            sentence = run["diagnosis"]["sentence"]
            self.assertTrue(sentence.startswith("rank 1 on 127.0.1.2 (pid 101) has given up"), sentence)
            self.assertEqual([("C10ddJobStuck", "torch", sentence)], self.alerts())
            for client in ranks:
                client.close()
            self.until(lambda: not self.alerts(), "the alert does not end", 40)


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("skipped: promtool is not installed")
        sys.exit(77)  # inside a test it would count as an error
    unittest.main()
