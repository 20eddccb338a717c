#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches with libFuzzer: ./dev fuzz [TARGET... | all] [SECONDS] [--keep].

Each target starts from its seeds, the corpus of the repository and what it has found before, for
SECONDS (60); as many run side by side as there are cores. All that is written stands in
build-fuzz/fuzz/TARGET: found inputs, log, and findings, each named after its cause. Ends with a
table, and with 1 after a finding. --keep then makes the files that reach most the corpus of the
repository. Without arguments it lists the targets.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
ROOT = SOURCE.parent.parent
BUILD = ROOT / "build-fuzz"
BINARIES = BUILD / "tests/fuzz"
KEPT_FILES = 48  # of a target's corpus
KEPT_BYTES = 2048  # of a file


def all_targets():
    return sorted(path.stem[len("fuzz_"):] for path in SOURCE.glob("fuzz_*.cc"))


def build(targets):
    subprocess.run(["cmake", "--preset", "fuzz", "--log-level=NOTICE"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", "--preset", "fuzz", "--target", "fuzz_seeds",
                    *(f"fuzz_{target}" for target in targets)], cwd=ROOT, check=True)
    subprocess.run([BINARIES / "fuzz_seeds", BINARIES / "seeds"], check=True)


def folders(target):
    """What is found, and what it starts from."""
    home = BUILD / "fuzz" / target
    (home / "found").mkdir(parents=True, exist_ok=True)
    (home / "findings").mkdir(exist_ok=True)
    start = [folder for folder in (SOURCE / "corpus" / target, BINARIES / "seeds" / target)
             if folder.is_dir()]
    return home, start


def search(target, seconds):
    """One line of the table, and whether there was a finding."""
    home, start = folders(target)
    log = home / "log"
    # Entropic scheduling keeps books of all features: of the jobs' inputs that is 5/6 of the time.
    with open(log, "wb") as out:
        status = subprocess.run(
            [BINARIES / f"fuzz_{target}", home / "found", *start, f"-max_total_time={seconds}",
             f"-artifact_prefix={home}/findings/", "-timeout=10", "-rss_limit_mb=2048",
             "-entropic=0", "-print_final_stats=1"], stdout=out, stderr=out, check=False).returncode
    text = log.read_text(errors="replace")
    state = re.findall(r"cov: (\d+).*?corp: (\d+)", text)
    edges, corpus = state[-1] if state else ("-", "-")
    executions = re.findall(r"number_of_executed_units: (\d+)", text)
    result = "none" if status == 0 else f"exit {status}, look at {log.relative_to(ROOT)}"
    return (target, str(seconds), executions[-1] if executions else "-", edges, corpus,
            result), status != 0


def keep(target):
    """The smallest files that reach most, under names that say their content."""
    home, start = folders(target)
    merged = home / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir()
    subprocess.run([BINARIES / f"fuzz_{target}", "-set_cover_merge=1", "-use_counters=0",
                    f"-max_len={KEPT_BYTES}", merged, *start, home / "found"],
                   check=True, stderr=subprocess.DEVNULL)
    corpus = SOURCE / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    for path in corpus.iterdir():  # those with a name were written by hand
        if re.fullmatch("[0-9a-f]{40}", path.name):
            path.unlink()
    files = sorted(merged.iterdir(), key=lambda path: (path.stat().st_size, path.name))
    step = max(1, -(-len(files) // KEPT_FILES))
    for path in files[::step]:
        shutil.copyfile(path, corpus / path.name)
    print(f"{target}: {len(list(corpus.iterdir()))} files kept of {len(files)}")


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET",
                        help="or all; a number is SECONDS")
    parser.add_argument("--keep", action="store_true", help="minimise into tests/fuzz/corpus")
    arguments = parser.parse_args()
    seconds = [int(word) for word in arguments.targets if word.isdigit()]
    names = [word for word in arguments.targets if not word.isdigit()]
    targets = all_targets() if names == ["all"] else names
    unknown = sorted(set(targets) - set(all_targets()))
    if not targets or unknown:
        print("\n".join(f"./dev fuzz: no target {name}" for name in unknown) or "targets:")
        print("\n".join(f"  {name}" for name in all_targets()))
        return 64 if unknown else 0
    build(targets)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda name: search(name, (seconds or [60])[-1]), targets))
    print("| target | seconds | executions | edges | corpus | findings |\n|---|---|---|---|---|---|")
    for line, _ in results:
        print("| " + " | ".join(line) + " |")
    if arguments.keep:
        for target in targets:
            keep(target)
    return 1 if any(found for _, found in results) else 0


if __name__ == "__main__":
    sys.exit(main())
