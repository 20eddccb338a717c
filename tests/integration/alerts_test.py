# SPDX-License-Identifier: Apache-2.0
"""The alerts of dashboards/alerts.yaml: promtool accepts them, each fires when it has to and with the
sentence of the diagnosis, once for each job and state whatever the sentence becomes, and each has a page that
says what to do. Most metrics are written here; a real Prometheus and a daemon show that one fires.
C10DD_ALERT_CHANGES=22 lets its sentence change for longer. prometheus_test.py compares the metrics of a daemon with
their true values."""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from daemon import Daemon
from prometheus_test import Case, catalogue, metrics_in
from wire import BARRIER, GOODBYE, Wire, frame, text

SOURCE = os.environ["C10DD_SOURCE"]
ALERTS = os.path.join(SOURCE, "dashboards/alerts.yaml")
CHANGES = int(os.environ.get("C10DD_ALERT_CHANGES", "8"))
SENTENCE = ('barrier "epoch" (generation 0, sequence 7) waits for rank 3 on node4 (pid 12), whose '
            "connection has closed; 3 ranks wait")


def alerts():
    """The lines of each alert, by its name."""
    with open(ALERTS, encoding="utf-8") as file:
        parts = re.split(r"(?m)^ +- alert: (\w+)$", file.read())
    return dict(zip(parts[1::2], parts[2::2]))


def series(values, state, job="llm", sentence=SENTENCE, kind="missing", instance="head:29500", scrape="c10dd"):
    """A series with a value each 15 s, which is when the job began to wait. promtool's clock begins at 0,
    and `_` is no value. sentence: None is a daemon with --metrics-without-sentences."""
    labels = {"train_job": job, "state": state, "kind": kind, **({"sentence": sentence} if sentence else {}),
              "instance": instance, "job": scrape}
    inner = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    return {"series": f"c10dd_job_diagnosis_timestamp_seconds{{{inner}}}", "values": values}


def changing(state, scrapes, **of):
    """A job whose sentence, of which `{}` is a number, is another one at each scrape."""
    text = of.pop("sentence", "barrier \"epoch\" waits for rank 7; {} ranks wait")
    return [series(" ".join(["_"] * at + ["0", "stale"]), state, sentence=text.format(at + 1), **of)
            for at in range(scrapes)]


def fired(state, job="llm", sentence=SENTENCE, scrape="c10dd"):
    """The labels and the description of an alert."""
    return ({"train_job": job, "state": state, "job": scrape}, sentence or f"c10ddctl diagnose {job} says why.")


def fires(name, at, *of, base="docs/runbooks/"):
    """What a test of promtool expects: at this time, the alert fires for each of these."""
    severity, summary = (re.search(rf"{what}: ([^\n}}]+)", alerts()[name])[1]
                         for what in ("severity", "summary"))
    return {"eval_time": at, "alertname": name, "exp_alerts": [
        {"exp_labels": {**labels, "severity": severity},
         "exp_annotations": {"summary": summary, "description": description,
                             "runbook_url": f"{base}{name}.md"}} for labels, description in of]}


class Alerts(unittest.TestCase):
    def test_each_alert_says_how_bad_it_is_and_has_a_page(self):
        pages = {os.path.basename(path)[:-3]
                 for path in glob.glob(os.path.join(SOURCE, "docs/runbooks/*.md"))}
        self.assertEqual(set(alerts()), pages)
        known = set(catalogue())
        for name, text in alerts().items():
            self.assertRegex(text, r"severity: (critical|warning|info)\b", name)
            metrics = set(metrics_in(text.replace("c10ddctl", "")))
            self.assertTrue(metrics and metrics <= known, name)
            self.assertIn(f"docs/runbooks/{{{{ end }}}}{name}.md'\n", text)
            for label in ("kind", "sentence", "instance"):  # they change while the alert goes on
                self.assertNotRegex(text, rf"\b(by|on) \([^)]*\b{label}\b")
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

    def play(self, inputs, *expected, external=None):
        """Plays the series to the alerts, which must fire as expected."""
        folder = tempfile.mkdtemp(prefix="c10dd-alerts-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "test.yaml")
        with open(path, "w", encoding="utf-8") as file:  # each JSON is YAML
            json.dump({"rule_files": [ALERTS], "evaluation_interval": "15s", "tests": [
                {"interval": "15s", "input_series": inputs, "alert_rule_test": list(expected),
                 "external_labels": external or {}}]}, file)
        self.promtool("test", "rules", path)

    def test_promtool_finds_nothing_to_say(self):
        self.promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)

    def test_a_stuck_job_is_told_after_15_seconds_until_it_goes_on(self):
        stuck = fired("stuck")
        self.play([series("_ 0x3 stale", "stuck"), series("_x9", "stuck", job="idle")],
                  fires("C10ddJobStuck", "15s"), fires("C10ddJobStuck", "30s", stuck),
                  fires("C10ddJobStuck", "60s", stuck), fires("C10ddJobStuck", "75s"),
                  fires("C10ddJobWaiting", "60s"))

    def test_both_alerts_fire_without_the_label_sentence_and_name_c10ddctl_and_the_job(self):
        self.play([series("0x60", "stuck", sentence=None), series("0x60", "waiting", sentence=None)],
                  fires("C10ddJobStuck", "15m", fired("stuck", sentence=None)),
                  fires("C10ddJobWaiting", "15m", fired("waiting", sentence=None)))

    def test_a_job_that_recovers_at_once_is_not_told(self):
        self.play([series("0 stale", "stuck")],
                  *(fires("C10ddJobStuck", f"{at}s") for at in (0, 15, 30, 60)))

    def test_a_job_that_waits_is_told_after_10_minutes(self):
        self.play([series("0x60", "waiting")], fires("C10ddJobWaiting", "10m"),
                  fires("C10ddJobWaiting", "10m15s", fired("waiting")), fires("C10ddJobStuck", "15m"))

    def test_a_sentence_that_changes_at_each_scrape_is_one_alert_that_has_the_newest(self):
        def says(state, at):
            return fired(state, sentence=f'barrier "epoch" waits for rank 7; {at // 15 + 1} ranks wait')

        self.play(changing("stuck", 20), fires("C10ddJobStuck", "0s"),
                  *(fires("C10ddJobStuck", f"{at}s", says("stuck", at)) for at in range(15, 300, 15)),
                  fires("C10ddJobStuck", "5m"))
        self.play(changing("waiting", 60), fires("C10ddJobWaiting", "10m"),
                  *(fires("C10ddJobWaiting", f"{at}s", says("waiting", at)) for at in range(615, 900, 15)),
                  fires("C10ddJobWaiting", "15m"))

    def test_a_kind_that_changes_and_a_daemon_that_takes_over_are_the_same_alert(self):
        self.play([series("0 0 stale", "stuck", kind="deadlock", sentence="deadlock"),
                   series("_ _ 0 stale", "stuck", kind="hung", sentence="hung"),
                   series("_ _ _ 0x3", "stuck", sentence="missing", instance="other:29500")],
                  *(fires("C10ddJobStuck", f"{at}s", fired("stuck", sentence=sentence))
                    for at, sentence in ((15, "deadlock"), (30, "hung"), (45, "missing"), (90, "missing"))))

    def test_a_job_that_waits_and_is_then_stuck_is_told_as_both(self):
        self.play([series("0x42 stale", "waiting"), series("_x43 0x9", "stuck")],
                  fires("C10ddJobWaiting", "10m30s", fired("waiting")), fires("C10ddJobWaiting", "10m45s"),
                  fires("C10ddJobStuck", "10m45s"), fires("C10ddJobStuck", "11m", fired("stuck")))

    def test_two_jobs_are_told_apart_and_each_has_its_sentence(self):
        odd = 'a "b\\c'
        self.play([*changing("stuck", 9, job="llm"), *changing("stuck", 9, job="other", sentence="{} ranks"),
                   series("0x9", "stuck", job=odd, sentence="odd"),
                   series("0x9", "stuck", scrape="elsewhere", sentence="of another cluster")],
                  fires("C10ddJobStuck", "1m",
                        fired("stuck", sentence='barrier "epoch" waits for rank 7; 5 ranks wait'),
                        fired("stuck", job="other", sentence="5 ranks"), fired("stuck", job=odd, sentence="odd"),
                        fired("stuck", scrape="elsewhere", sentence="of another cluster")))

    def test_a_site_gives_the_url_of_its_runbooks(self):
        base = "https://wiki.example.org/c10dd/"
        self.play([series("0x60", "stuck"), series("0x60", "waiting")],
                  fires("C10ddJobStuck", "15m", fired("stuck"), base=base),
                  fires("C10ddJobWaiting", "15m", fired("waiting"), base=base), external={"runbooks": base})


class Fired(Case):
    """A real Prometheus evaluates the rules of the project, with shorter times."""

    def alerts(self):
        """Name, job, description and beginning of each alert that fires."""
        return [(one["labels"]["alertname"], one["labels"]["train_job"], one["annotations"]["description"],
                 one["activeAt"]) for one in self.ask("alerts")["alerts"] if one["state"] == "firing"]

    def ranks(self, daemon, size):
        """Ranks of the job llm, of which the last has left."""
        ranks = [Wire(daemon.address) for _ in range(size)]
        for rank, one in enumerate(ranks):
            self.addCleanup(one.close)
            self.assertEqual("ok", one.hello(job="llm", rank=rank, host=f"node{rank}").code)
        ranks[-1].send(frame(GOODBYE))
        return ranks

    @staticmethod
    def arrive(ranks, rank):
        body = text("epoch") + struct.pack("<QQIIq", 0, 0, rank, len(ranks), 600 * 10**9)
        ranks[rank].send(frame(BARRIER, body, sequence=1))

    def test_it_fires_once_while_the_sentence_changes_and_not_in_a_job_that_goes_on(self):
        rules = os.path.join(self.folder, "alerts.yaml")
        with open(ALERTS, encoding="utf-8") as file, open(rules, "w", encoding="utf-8") as faster:
            faster.write(file.read().replace("interval: 15s", "interval: 1s").replace("for: 15s", "for: 3s"))
        with Daemon() as daemon:
            self.run_prometheus("%s:%d" % daemon.address, rules=rules)
            ranks = self.ranks(daemon, CHANGES + 1)
            self.until(lambda: self.value("up") == 1, "not scraped")
            time.sleep(3)
            self.assertEqual([], self.alerts())
            seen = []
            for rank in range(CHANGES):  # each that comes changes the sentence
                self.arrive(ranks, rank)
                for _ in range(4):
                    time.sleep(0.3)
                    seen.append(self.alerts())
            self.until(lambda: seen.append(self.alerts()) or len(seen[-1]) == 1, "no alert")
            self.check_one_alert(seen[[bool(one) for one in seen].index(True):])
            run, = json.loads(daemon.http("/v1/jobs/llm")[1])["runs"]
            self.assertTrue(run["diagnosis"]["sentence"].startswith('barrier "epoch" '), run)
            self.until(lambda: self.alerts()[0][2] == run["diagnosis"]["sentence"], "not the sentence")
            for one in ranks[:-1]:
                one.send(frame(GOODBYE))
            self.until(lambda: not self.alerts(), "the alert does not end", 40)
            for _ in range(10):
                time.sleep(0.3)
                self.assertEqual([], self.alerts())

    def check_one_alert(self, seen):
        self.assertEqual({1}, {len(alerts) for alerts in seen}, seen)
        (name, job, _, began), = seen[0]
        self.assertEqual(("C10ddJobStuck", "llm"), (name, job))
        self.assertEqual({began}, {active for (_, _, _, active), in seen})
        self.assertGreater(len({sentence for (_, _, sentence, _), in seen}), 1, seen)


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("skipped: promtool is not installed")
        sys.exit(77)  # inside a test it would count as an error
    unittest.main()
