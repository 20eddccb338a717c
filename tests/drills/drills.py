# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a job of real processes, and checks that each place names it with the same
bytes: the daemon's log, GET /v1/jobs/NAME, c10ddctl diagnose, the metric, and the exception of each survivor; and
that `c10ddctl flight` finds the same in the records of a group that was aborted.

    ./dev drills                          every fault once on Gloo
    ./dev drills --count 20
    ./dev drills --fault crossed --seed 7
    ./dev drills --fault threads          30 s in which threads wait for each other, and nothing is stuck; only so
    ./dev drills --backend mpi            started by one mpirun; without those after which it kills all ranks
    ./dev drills --backend nccl           4 ranks that share the first GPU; exit code 77 if there is none

Prints a line for each drill, and a table with the seconds from the fault to the sentence. Exit code 1 if a
fault was named wrongly, or not at all.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import BIN, SLOWDOWN, Daemon  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu"))
from one_gpu import variables_of  # noqa: E402

# The kinds of diagnosis that are right, the state that it may have, and whose ranks it names. `abort`: the
# survivors throw its sentence, although their time-out is far away.
FAULTS = {
    "kill": {"kinds": {"missing", "lost"}, "names": "victim", "backends": {"gloo", "nccl"}},
    "stop": {"kinds": {"missing", "lost"}, "names": "victim"},
    "away": {"kinds": {"missing"}, "names": "victim", "timeout": 8},
    "operation": {"kinds": {"mismatch"}, "names": "victim", "abort": True},
    "size": {"kinds": {"mismatch"}, "names": "victim", "abort": True},
    "type": {"kinds": {"mismatch"}, "names": "victim", "abort": True},
    "root": {"kinds": {"mismatch"}, "names": "victim", "abort": True},
    "crossed": {"kinds": {"deadlock"}, "names": "part and victim", "abort": True},
    "streams": {"kinds": {"deadlock"}, "names": "part and victim", "survive": True, "backends": {"nccl"}},
    "unsent": {"kinds": {"unsent"}, "names": "peer", "timeout": 8},
    "queue": {"kinds": {"queued"}, "names": "victim", "survive": True},
    "slow": {"kinds": {"straggler"}, "names": "victim", "survive": True, "within": 15},
    "reduction": {"kinds": {"diverged", "mismatch"}, "names": "victim", "survive": True, "within": 15},
    # After these all goes on, so nobody is stuck. Each diagnosis names these ranks, or some of them.
    "threads": {"kinds": {"deadlock", "missing", "straggler"}, "names": "all", "calm": True, "long": True, "backends": {"gloo"}},
    "pause": {"kinds": {"missing", "hung"}, "names": "victim", "calm": True, "backends": {"gloo"}},
}
LONG = 600  # the default time-out of operations, in seconds
PATIENCE = int(os.environ.get("DRILLS_PATIENCE", "40")) * SLOWDOWN


class Ranks:
    """The processes of a drill."""

    def __init__(self, daemon, job, drill):
        url = f"c10dd://{daemon.address[0]}:{daemon.address[1]}/{job}"
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "C10DD_FLIGHT_DIR": self.folder.name, "C10DD_FLIGHT": "on"}
        if drill["backend"] == "mpi":
            self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.processes = []
        mpi = ["mpirun", "--oversubscribe", "--stdin", "all", "-n", str(drill["size"])]
        for rank in ["-"] if drill["backend"] == "mpi" else range(drill["size"]):
            words = [os.path.join(BIN, "../tests/drill_rank"), url, rank, drill["size"], drill["backend"], drill["fault"],
                     drill["victim"], drill["peer"], *drill["part"], drill["step"],
                     FAULTS[drill["fault"]].get("timeout", LONG)]
            self.processes.append(subprocess.Popen(
                (mpi if rank == "-" else []) + [str(word) for word in words],
                env={**self.environment, **(variables_of(rank) if drill["backend"] == "nccl" else {})},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            os.set_blocking(self.processes[-1].stdout.fileno(), False)
        self.said = []
        self.rests = [""] * len(self.processes)

    def read(self):
        """Takes what the ranks have printed. Returns all events with their ranks."""
        for at, process in enumerate(self.processes):
            try:
                text = os.read(process.stdout.fileno(), 1 << 16).decode(errors="replace")
            except (BlockingIOError, ValueError):
                continue
            *lines, self.rests[at] = (self.rests[at] + text).split("\n")
            self.said += [json.loads(line) if line.startswith("{") else {"rank": at, "event": "text", "text": line}
                          for line in lines]
        return [(event["rank"], event) for event in self.said]

    def end(self):
        for process in self.processes:
            process.stdin.close()
            if process.args[0] == "mpirun":
                process.terminate()  # it kills its ranks
            else:
                process.kill()
        for process in self.processes:
            process.wait()
            process.stdout.close()
        self.folder.cleanup()


def choose(fault, backend, seed):
    """Returns what a drill does: equal seeds give equal drills."""
    chance = random.Random(f"{fault} {backend} {seed}")
    size = chance.choice([4, 8]) if os.cpu_count() > 2 and backend == "gloo" else 4
    whole = chance.random() < 0.5 and fault not in ("crossed", "streams") or \
        fault in ("away", "queue", "unsent", "slow", "threads", "pause")
    half = size // 2
    low = 0 if whole else chance.choice([0, half])
    part = (0, size - 1) if whole else (low, low + half - 1)
    if fault == "root" and part[1] - part[0] < 2:
        part = (0, size - 1)
    victim = chance.randint(*part)
    peer = chance.choice([rank for rank in range(part[0], part[1] + 1) if rank != victim])
    return {"fault": fault, "backend": backend, "size": size, "victim": victim, "peer": peer, "part": part,
            "step": chance.randint(30, 60), "seed": seed}


def expected_ranks(drill):
    """Returns the ranks of the job that the diagnosis must name; in a tie, all of the group."""
    low, high = drill["part"]
    names = FAULTS[drill["fault"]]["names"]
    if names == "peer":
        return {drill["peer"]}
    if names in ("all", "part and victim"):
        return set(range(low, high + 1))
    tie = high - low + 1 == 2 and FAULTS[drill["fault"]]["kinds"] & {"mismatch", "diverged"}
    return {low, high} if tie else {drill["victim"]}


def diagnosis_of(daemon, job):
    status, page = daemon.http(f"/v1/jobs/{job}")
    runs = json.loads(page).get("runs", []) if status == 200 else []
    return runs[0]["diagnosis"] if runs else {"state": None, "kind": None}


def places(daemon, job, found):
    """Returns the places that do not say the same as HTTP."""
    sentence, wrong = found["sentence"], []
    quoted = json.dumps(sentence, ensure_ascii=False)
    if not any(f" job={job} " in line and line.endswith("detail=" + quoted)
               for line in daemon.errors().splitlines() if " event=diagnosis " in line):
        wrong.append("log")
    metric = [line for line in daemon.http("/metrics")[1].splitlines()
              if line.startswith("c10dd_job_diagnosis_timestamp_seconds{") and f'train_job="{job}"' in line]
    if len(metric) != 1 or f"sentence={quoted}" not in metric[0]:
        wrong.append("metric")
    shown = subprocess.run([os.path.join(BIN, "c10ddctl"), "--daemon", "%s:%d" % daemon.address, "diagnose", job],
                           capture_output=True, text=True, check=False)
    # What waits may be stuck by now.
    if sentence not in shown.stdout or shown.returncode not in {"waiting": (1, 2), "stuck": (2,)}[found["state"]]:
        wrong.append(f"c10ddctl ({shown.returncode}: {shown.stdout.strip()} {shown.stderr.strip()})")
    return wrong


def kinds_of(drill):
    """The kinds of diagnosis that are right. Ranks whose collectives differ end some of them on NCCL, with wrong results."""
    kinds = FAULTS[drill["fault"]]["kinds"]
    return kinds | {"diverged"} if drill["backend"] == "nccl" and "mismatch" in kinds else kinds


def ends_wrongly(drill, found):
    return drill["backend"] == "nccl" and found["kind"] == "diverged"


def run_refused(drill, ranks):
    """Runs a drill whose backend compares the calls of all ranks, so that each rank of the group throws at once and names the
    calls that differ. Returns what run() does."""
    low, high = drill["part"]
    end = time.monotonic() + PATIENCE
    failed, fault_at = {}, None
    while time.monotonic() < end and not (fault_at and set(range(low, high + 1)) <= set(failed)):
        events = ranks.read()
        fault_at = next((e["at"] for _, e in events if e["event"] == "fault"), None)
        failed = {rank: event for rank, event in events if event["event"] == "error"}
        time.sleep(0.02)
    named = f"rank {drill['victim'] - low} issued "
    wrong = [f"rank {rank} threw: {failed[rank]['text'] if rank in failed else 'nothing'}" for rank in range(low, high + 1)
             if rank not in failed or named not in failed[rank]["text"]]
    wrong += [f"rank {rank} threw: {event['text']}" for rank, event in failed.items() if not low <= rank <= high]
    return max((event["at"] for event in failed.values()), default=end) - (fault_at or 0), wrong


def errors_wrong(drill, ranks, found):
    """Waits for the exception of each survivor. Returns what is wrong with them."""
    rule = FAULTS[drill["fault"]]
    low, high = drill["part"]
    must = set(range(drill["size"])) - {drill["victim"]}
    if rule.get("survive") or ends_wrongly(drill, found):
        return []
    if rule.get("abort"):
        must = set(range(low, high + 1))
    if drill["backend"] == "nccl" and "mismatch" in rule["kinds"]:
        must -= {drill["victim"]}  # NCCL may have ended its wrong call, and it waits in another group now
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        failed = {rank: event for rank, event in ranks.read() if event["event"] == "error"}
        if must <= set(failed):
            break
        time.sleep(0.05)
    wrong = [f"rank {rank} threw nothing" for rank in must - set(failed)]
    for rank in must & set(failed):
        text = failed[rank]["text"]
        named = drill["fault"] not in ("kill", "stop") and found["sentence"] in text or \
            drill["fault"] in ("kill", "stop", "away") and f"rank {drill['victim']}" in text
        if not named:
            wrong.append(f"rank {rank} threw: {text}")
    return wrong


def records_wrong(drill, ranks):
    """What is wrong with the flight records that the ranks of the group have written when they were aborted."""
    shown = subprocess.run([os.path.join(BIN, "c10ddctl"), "-o", "json", "flight", ranks.folder.name],
                           capture_output=True, text=True, check=False)
    if shown.returncode not in (1, 2):  # a deadlock is stuck only after 15 s, and is aborted before
        return [f"c10ddctl flight ({shown.returncode}): {shown.stdout[:600]} {shown.stderr[:300]}"]
    found = json.loads(shown.stdout)["diagnosis"]
    right = found["kind"] in kinds_of(drill) and set(found["ranks"]) == expected_ranks(drill)
    return [] if right else [f"c10ddctl flight: {found}"]


def run_calm(daemon, drill, ranks):
    """Runs a drill in which nobody is stuck. Returns nothing for the time, and what is wrong."""
    rule, job, wrong = FAULTS[drill["fault"]], "{fault}-{seed}".format(**drill), []
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and len([1 for _, e in ranks.read() if e["event"] == "done"]) < drill["size"]:
        found = diagnosis_of(daemon, job)
        if found.get("kind") not in (None, "none"):
            right = found["kind"] in rule["kinds"] and found["state"] == "waiting"
            if not right or not set(found["ranks"]) <= expected_ranks(drill):
                wrong.append(f"{found['state']}: {found['sentence']}")
        time.sleep(0.02)
    ended = {rank for rank, event in ranks.read() if event["event"] == "done"}
    wrong += [f"rank {rank} has not gone on" for rank in set(range(drill["size"])) - ended]
    wrong += [f"{event}" for _, event in ranks.read() if event["event"] in ("error", "text")]
    return None, sorted(set(wrong))


def run(daemon, drill):
    """Runs one drill. Returns the seconds from the fault to the sentence, and what is wrong."""
    job = "{fault}-{seed}".format(**drill)
    rule = FAULTS[drill["fault"]]
    ranks = Ranks(daemon, job, drill)
    began = time.time()
    fault_at = began if drill["fault"] == "away" else None
    found, seen = {}, []
    try:
        if rule.get("calm"):
            return run_calm(daemon, drill, ranks)
        if drill["backend"] == "mpi" and "mismatch" in rule["kinds"]:
            return run_refused(drill, ranks)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            events = ranks.read()
            fault_at = fault_at or next((e["at"] for _, e in events if e["event"] == "fault"), None)
            found = diagnosis_of(daemon, job)
            if found.get("kind") in (None, "none"):
                time.sleep(0.05)
                continue
            if not seen or seen[-1] != found["sentence"]:
                seen.append(found["sentence"])
            if fault_at is None:
                return None, [f"before the fault: {found['sentence']}"]
            if found["kind"] in kinds_of(drill) and set(found["ranks"]) == expected_ranks(drill):
                break
            time.sleep(0.05)
        else:
            texts = [e for _, e in ranks.read() if e["event"] != "fault"][:3]
            return None, [f"not named; said: {seen}, {found}; {texts}"]
        took = time.time() - fault_at
        wrong = places(daemon, job, found)
        if wrong and diagnosis_of(daemon, job).get("sentence") != found["sentence"]:
            found = diagnosis_of(daemon, job)  # it has changed meanwhile, such as to "silent"
            wrong = places(daemon, job, found)
        wrong += errors_wrong(drill, ranks, found)
        if rule.get("abort") and not wrong and not ends_wrongly(drill, found):
            wrong += records_wrong(drill, ranks)
        return took, wrong
    finally:
        ranks.end()


def table(results):
    print("\n| fault | drills | right | p50 s | p100 s |\n|---|---|---|---|---|")
    for fault, rows in sorted(results.items()):
        times = [took for took, _ in rows if took is not None]
        right = sum(not wrong for _, wrong in rows)
        p50, p100 = (f"{statistics.median(times):.2f}", f"{max(times):.2f}") if times else ("-", "-")
        print(f"| {fault} | {len(rows)} | {right} | {p50} | {p100} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", nargs="*", choices=list(FAULTS))
    parser.add_argument("--backend", default="gloo", choices=["gloo", "mpi", "nccl"])
    parser.add_argument("--count", type=int, default=1, help="drills of each fault")
    parser.add_argument("--seed", type=int, default=1, help="of the first of them")
    parser.add_argument("--at-once", type=int, default=1, help="how many drills run at the same time")
    options = parser.parse_args()
    if options.backend == "nccl" and not os.path.exists("/dev/nvidiactl"):
        print("skipped: this machine has no GPU that NVIDIA's driver offers")
        return 77
    faults = options.fault or [fault for fault, rule in FAULTS.items()
                               if options.backend in rule.get("backends", {options.backend}) and not rule.get("long")]
    results, bad = {}, 0
    with Daemon("--engine", "memory:") as daemon, ThreadPoolExecutor(options.at_once) as pool:
        drills = [choose(fault, options.backend, options.seed + i) for i in range(options.count) for fault in faults]
        for drill, (took, wrong) in zip(drills, pool.map(lambda one: run(daemon, one), drills)):
            results.setdefault(drill["fault"], []).append((took, wrong))
            bad += bool(wrong)
            print("{fault}, {size} ranks, victim {victim}, group {part}, seed {seed}: ".format(**drill)
                  + ("-" if took is None else f"{took:.2f} s") + (" " + "; ".join(wrong) if wrong else ""), flush=True)
    table(results)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
