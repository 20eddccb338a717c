#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults, one at a time, in lines that the fast tests execute, and prints which of them the
tests find. A fault that survives is in a line whose result no test checks.

    ./dev mutate --seed 1 --count 30 daemon/net client

Works on a copy of the sources in build-mutate/, so the tree does not change. The copy is built with
gcov, and a first run of the tests tells which lines are executed. Exit code 1 if a fault survived.
"""

import argparse
import difflib
import gzip
import json
import os
import random
import re
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
BUILD = WORK / "build"
EXECUTED = WORK / "executed.json"
FAST = ["-L", "unit", "-LE", "redis", "-E", "^sim_planted$|fuzz_|torture"]
TEST_LIMIT = 240  # seconds for all tests; a fault that makes them hang counts as found
FIRST_BUILD_LIMIT = 5400  # seconds
BUILD_LIMIT = 900  # seconds


def run(command, limit, **more):
    """Runs a command. Returns its exit code, or None after `limit` seconds, and the end of its
    output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=limit, check=False, errors="replace", **more)
        return done.returncode, done.stdout[-4000:]
    except subprocess.TimeoutExpired as late:
        return None, str(late)


def copy_tree():
    """Updates the copy of the tree. Files that are equal keep their time, so they are not rebuilt."""
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


def configure():
    subprocess.run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "--log-level=ERROR",
                    "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 --coverage",
                    "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], check=True)


def build(limit=BUILD_LIMIT):
    return run(["cmake", "--build", BUILD, "--parallel", str(os.cpu_count())], limit)


def test():
    # gcov would warn on standard error about the counts of an older build
    for old in BUILD.rglob("*.gcda"):
        old.unlink()
    return run(["ctest", "--test-dir", BUILD, "--parallel", str(os.cpu_count()),
                "--stop-on-failure", "--timeout", "60", *FAST], TEST_LIMIT)


def learn_executed():
    """Finds out by gcov which lines the fast tests execute, and stores them in EXECUTED."""
    print("running the fast tests", flush=True)
    code, output = test()
    if code != 0:
        sys.exit(f"mutate: the tests fail without a fault:\n{output}")
    executed = {}
    for data in BUILD.rglob("*.gcda"):
        done = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=BUILD, check=True,
                              capture_output=True)
        text = done.stdout if done.stdout[:1] == b"{" else gzip.decompress(done.stdout)
        for line in text.decode().splitlines():
            for file in json.loads(line)["files"]:
                # -ffile-prefix-map makes the names relative to the tree
                name = os.path.relpath(os.path.join(TREE, file["file"]), TREE)
                lines = executed.setdefault(name, set())
                lines.update(at["line_number"] for at in file["lines"] if at["count"] > 0)
    EXECUTED.write_text(json.dumps({name: sorted(lines) for name, lines in executed.items()}))


def candidates(paths):
    """Returns the (file, line number) of all executed lines under the paths that can have a fault."""
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
    """Plants a fault. Returns its kind, its diff, and a function that removes it."""
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
    parser.add_argument("--seed", type=int, default=1, help="chooses the faults; default: 1")
    parser.add_argument("--count", type=int, default=10, help="number of faults; default: 10")
    parser.add_argument("--relearn", action="store_true",
                        help="find out again which lines are executed")
    parser.add_argument("paths", nargs="*", default=["daemon", "client", "store", "collectives", "ddp"],
                        help="files and folders; default: all product code except protocol")
    options = parser.parse_args()
    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    configure()
    print("building with gcov", flush=True)
    code, output = build(FIRST_BUILD_LIMIT)
    if code != 0:
        sys.exit(f"mutate: the tree does not build:\n{output}")
    if options.relearn or not EXECUTED.exists():
        learn_executed()
    chance = random.Random(options.seed)
    places = candidates(options.paths)
    if not places:
        sys.exit(f"mutate: the fast tests execute no line under: {' '.join(options.paths)}")
    chance.shuffle(places)
    found, survived = 0, []
    for name, at in places:
        if found + len(survived) == options.count:
            break
        kind, shown, remove = plant(name, at, chance)
        start = time.monotonic()
        try:
            if build()[0] != 0:
                continue
            code, output = test()
        finally:
            remove()
        if code == 0:
            survived.append(shown)
        else:
            found += 1
        by = re.findall(r"\d+ - (\S+) \((.+)\)", output)
        print(f"{'survived' if code == 0 else 'found'}: {kind}, {time.monotonic() - start:.0f} s"
              f"{''.join(f'; {name}: {how}' for name, how in by)}\n{shown}\n", flush=True)
    print(f"seed {options.seed}: {found} found, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
