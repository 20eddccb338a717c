#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants single faults, one at a time, at lines that the fast tests execute, and says which of them
the tests find. What survives is a line that no test is about.

    ./dev mutate --seed 1 --count 30 daemon/net client

Works on a copy of the tracked files in build-mutate/, so the tree stays as it is. The first run builds
that copy with gcov to learn which lines are executed. Exit code 1 if a fault survived.
"""

import argparse
import difflib
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from faults import faults_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build-mutate"
TREE = WORK / "tree"
PLAIN = WORK / "plain"
COUNTED = WORK / "counted"
EXECUTED = WORK / "executed.json"
FAST = ["-L", "unit", "-LE", "redis", "-E", "^sim_planted$|Model|fuzz_|torture"]
TEST_LIMIT = 240  # of a run; a fault that hangs is found
BUILD_LIMIT = 900


def run(command, limit, **more):
    """The exit code, or None if it ran past the limit; with the last of its output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=limit, check=False, errors="replace", **more)
        return done.returncode, done.stdout[-4000:]
    except subprocess.TimeoutExpired as late:
        return None, str(late)


def copy_tree():
    """Brings the copy to the tree's state; what is the same keeps its time, so nothing is rebuilt."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True,
                           capture_output=True, text=True).stdout.split("\n")
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for name in wanted:
        target = TREE / name
        if target.exists() and target.read_bytes() == (ROOT / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    for path in TREE.rglob("*"):
        if path.is_file() and str(path.relative_to(TREE)) not in wanted:
            path.unlink()


def configure(folder, flags):
    subprocess.run(["cmake", "-S", TREE, "-B", folder, "-G", "Ninja", "--log-level=ERROR",
                    "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={flags}",
                    "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], check=True)


def build(folder):
    return run(["cmake", "--build", folder, "--parallel", str(os.cpu_count())], BUILD_LIMIT)


def test(folder):
    return run(["ctest", "--test-dir", folder, "--parallel", str(os.cpu_count()),
                "--stop-on-failure", "--timeout", "60", *FAST], TEST_LIMIT)


def learn_executed():
    """Which lines of which file the fast tests execute, by gcov."""
    configure(COUNTED, "-O1 --coverage")
    print("building with gcov", flush=True)
    code, said = build(COUNTED)
    if code != 0:
        sys.exit(f"mutate: the tree does not build:\n{said}")
    for old in COUNTED.rglob("*.gcda"):
        old.unlink()
    print("running the fast tests", flush=True)
    code, said = test(COUNTED)
    if code != 0:
        sys.exit(f"mutate: the tests fail without a fault:\n{said}")
    executed = {}
    for data in COUNTED.rglob("*.gcda"):
        done = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=COUNTED, check=True,
                              capture_output=True)
        text = done.stdout if done.stdout[:1] == b"{" else gzip.decompress(done.stdout)
        for line in text.decode().splitlines():
            for file in json.loads(line)["files"]:
                name = os.path.relpath(os.path.join(COUNTED, file["file"]), TREE)
                lines = executed.setdefault(name, set())
                lines.update(at["line_number"] for at in file["lines"] if at["count"] > 0)
    EXECUTED.write_text(json.dumps({name: sorted(lines) for name, lines in executed.items()}))


def candidates(paths):
    """(file, line) of executed lines under the paths that some fault fits."""
    executed = json.loads(EXECUTED.read_text())
    found = []
    for name, lines in sorted(executed.items()):
        if name.startswith(("..", "tests/")) or not (TREE / name).exists():
            continue
        if not any(name == path or name.startswith(path.rstrip("/") + "/") for path in paths):
            continue
        text = (TREE / name).read_text().split("\n")
        found += [(name, at) for at in lines if at <= len(text) and faults_of(text[at - 1])]
    return found


def plant(name, at, chance):
    """Plants a fault; answers what it is, and how to take it back."""
    path = TREE / name
    before = path.read_text()
    lines = before.split("\n")
    kind, lines[at - 1] = chance.choice(faults_of(lines[at - 1]))
    after = "\n".join(lines)
    path.write_text(after)
    shown = "\n".join(difflib.unified_diff(before.split("\n"), lines, name, name, n=1, lineterm=""))
    return kind, shown, lambda: path.write_text(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--relearn", action="store_true", help="ask gcov again which lines run")
    parser.add_argument("paths", nargs="*", default=["daemon", "client", "store", "collectives", "ddp"])
    options = parser.parse_args()
    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    if options.relearn or not EXECUTED.exists():
        learn_executed()
    configure(PLAIN, "-O1")
    code, said = build(PLAIN)
    if code != 0:
        sys.exit(f"mutate: the tree does not build:\n{said}")
    chance = random.Random(options.seed)
    places = candidates(options.paths)
    if not places:
        sys.exit(f"mutate: no executed line under: {' '.join(options.paths)}")
    chance.shuffle(places)
    found, survived = 0, []
    for name, at in places:
        if found + len(survived) == options.count:
            break
        kind, shown, take_back = plant(name, at, chance)
        start = time.monotonic()
        try:
            if build(PLAIN)[0] != 0:
                continue
            code, _ = test(PLAIN)
        finally:
            take_back()
        if code == 0:
            survived.append(shown)
        else:
            found += 1
        print(f"{'survived' if code == 0 else 'found'}: {kind}, {time.monotonic() - start:.0f} s\n"
              f"{shown}\n", flush=True)
    print(f"seed {options.seed}: {found} found, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
