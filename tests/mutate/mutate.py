#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults, one at a time, in lines that the tests execute, and prints which of them the tests
find. A fault that survives is in a line whose result no test checks.

    ./dev mutate --seed 1 --count 30 daemon/net client
    ./dev mutate --functions daemon store client

Works on a copy of the sources in build-mutate/, so the tree does not change. The copy is built with
gcov, and a first run of all tests tells which lines and functions are executed; --relearn repeats
it. Faults are looked for by the programs of fast unit tests that execute the line, if there are any,
else by the integration tests; with --all-tests by all tests. --functions lists the functions that no
test executes.
Exit code 1 if a fault survived, 2 if the arguments or the tree cannot be used.
"""

import argparse
import difflib
import functools
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
import coverage  # noqa: E402
from faults import faults_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build-mutate"
TREE = WORK / "tree"
BUILD = WORK / "build"
LEARNED = WORK / "learned.json"
COUNTS = WORK / "counts"  # of each test program, while it learns
FAST = ["-L", "unit", "-LE", "redis", "-E", "^sim_planted$|fuzz_|torture"]
# Tests of the tree itself, and those that build or install it, know nothing of a fault in a program.
SLOW = ["-L", "integration|redis|sim", "-LE", "tidy|gpu", "-E", "^wheel_test$|^install_test$|^dev_test$"]
FAST_LIMIT = 240  # seconds for all fast tests; a fault that makes them hang counts as found
SLOW_LIMIT = 3600  # seconds for all others
FIRST_BUILD_LIMIT = 7200  # seconds
BUILD_LIMIT = 900  # seconds
# A program with a fault may signal processes that are not its own, so tests see only each other.
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def give_up(why):
    print(f"mutate: {why}", file=sys.stderr)
    sys.exit(2)


def run(command, limit, **more):
    """Runs a command. Returns its exit code, or None after `limit` seconds, and the end of its
    output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=limit, check=False, errors="replace", **more)
        return done.returncode, done.stdout[-20000:]
    except subprocess.TimeoutExpired as late:
        return None, str(late)


@functools.cache
def apart():
    """Returns the words before a command that give it a process namespace, if that is possible."""
    possible = shutil.which(APART[0]) and subprocess.run([*APART, "true"], capture_output=True,
                                                         check=False).returncode == 0
    if not possible:
        print("no process namespace (needs root): a fault may signal other processes of this user", flush=True)
    return APART if possible else []


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True,
                          text=True).stdout.split("\n")


def copy_tree():
    """Updates the copy of the tree. Files that are equal keep their time, so they are not rebuilt."""
    changed = [line for line in git("status", "--porcelain") if line]
    if changed:
        print(f"the faults are planted beside {len(changed)} changes that are not committed", flush=True)
    wanted = {name for name in git("ls-files", "-co", "--exclude-standard")
              if name and (ROOT / name).is_file()}
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


def build(limit=BUILD_LIMIT, targets=()):
    return run(["cmake", "--build", BUILD, "--parallel", str(os.cpu_count()),
                *(["--target", *targets] if targets else [])], limit)


def forget_counts():
    """Removes the counts of gcov, which would warn on standard error about those of an older build."""
    for old in BUILD.rglob("*.gcda"):
        old.unlink()


def test(which, limit, *, skipped=(), stop=True, environment=None):
    """Runs tests. Returns the exit code and the end of the output."""
    forget_counts()
    words = list(which)
    if skipped:
        words[words.index("-E") + 1] += "".join(f"|^{re.escape(name)}$" for name in skipped)
    return run([*apart(), "ctest", "--test-dir", BUILD, "--parallel", str(os.cpu_count()),
                *(["--stop-on-failure"] if stop else []), *words], limit,
               env={**os.environ, **(environment or {})})


def fast_programs():
    """Returns the numbers of the fast tests by the program that has them: a target of the build."""
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True,
                            capture_output=True, text=True).stdout
    numbers = {test["name"]: at for at, test in enumerate(json.loads(listed)["tests"], 1)}
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1", *FAST], check=True,
                            capture_output=True, text=True).stdout
    programs = {}
    for one in json.loads(listed)["tests"]:
        program = Path(one["command"][0])
        target = program.name if program.is_relative_to(BUILD) else "all"  # a script
        programs.setdefault(target, []).append(numbers[one["name"]])
    return programs


def run_fast(numbers, limit, **more):
    return test(["--timeout", "60", "-I", "0,0,0," + ",".join(map(str, numbers))], limit, **more)


def failed_in(output):
    """Returns the (name, reason) of each test that has failed."""
    return re.findall(r"^\s+\d+ - (.+?) \((Failed|Timeout|SEGFAULT|Subprocess aborted|Child aborted|ILLEGAL|"
                      r"OTHER_FAULT|Not Run)\)", output, re.MULTILINE)


def learn():
    """Finds out by gcov what the tests execute, and stores it in LEARNED."""
    covered, by_program = coverage.Coverage(), {}
    shutil.rmtree(COUNTS, ignore_errors=True)
    for program, numbers in fast_programs().items():
        print(f"running {len(numbers)} fast tests of {program}", flush=True)
        counts = COUNTS / program
        code, output = run_fast(numbers, FAST_LIMIT * 4, environment={"GCOV_PREFIX": str(counts)})
        if code != 0:
            give_up(f"the fast tests fail without a fault:\n{output}")
        by_program[program] = coverage.read(counts, BUILD, TREE)
        covered.merge(by_program[program])
        shutil.rmtree(counts, ignore_errors=True)
    print("running the other tests", flush=True)
    code, output = test(SLOW, SLOW_LIMIT, stop=False)
    failing = [name for name, _ in failed_in(output)]
    if code is None:
        give_up(f"the tests did not end within {SLOW_LIMIT} s")
    if failing:
        print(f"left out, because they fail without a fault: {', '.join(failing)}", flush=True)
    covered.merge(coverage.read(BUILD, BUILD, TREE))
    LEARNED.write_text(json.dumps({**coverage.as_lists(covered, by_program), "failing": failing}))


def below(name, paths):
    return any(name == path or name.startswith(path.rstrip("/") + "/") for path in paths)


def candidates(learned, paths):
    """Returns the (file, line number) of all executed lines under the paths that can have a fault."""
    found = []
    for name, lines in sorted(learned["lines"].items()):
        if not below(name, paths) or not (TREE / name).exists():
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
    path.write_text("\n".join(lines))
    shown = "\n".join(difflib.unified_diff(before.split("\n"), lines, name, name, n=1, lineterm=""))
    return kind, shown, lambda: path.write_text(before)


def build_and_judge(learned, programs, name, at, all_tests):
    """Builds the tests that may find a fault, and runs them. Returns whether they have found it, or
    None if it does not compile, and the end of their output."""
    fast = [program for program, lines in learned["fast"].items()
            if program in programs and at in lines.get(name, [])]
    if fast and not all_tests:
        if build(targets=fast)[0] != 0:
            return None, ""
        code, output = run_fast([number for program in fast for number in programs[program]], FAST_LIMIT)
        return code != 0, output
    if build()[0] != 0:
        return None, ""
    if all_tests:
        code, output = run_fast([number for numbers in programs.values() for number in numbers], FAST_LIMIT)
        if code != 0:
            return True, output
    code, output = test(SLOW, SLOW_LIMIT, skipped=learned["failing"])
    return code != 0, output


def try_faults(learned, options):
    """Plants the faults. Returns the exit code."""
    chance = random.Random(options.seed)
    places = candidates(learned, options.paths)
    if not places:
        give_up(f"no test executes a line under {' '.join(options.paths)}")
    chance.shuffle(places)
    programs = fast_programs()
    found, survived = 0, []
    for number, (name, at) in enumerate(places):
        if found + len(survived) == options.count:
            break
        kind, shown, remove = plant(name, at, chance)
        if number < options.skip:
            remove()
            continue
        start = time.monotonic()
        try:
            is_found, output = build_and_judge(learned, programs, name, at, options.all_tests)
        finally:
            remove()
        if is_found is None:
            print(f"left out: {kind} at {name}:{at} does not compile\n", flush=True)
            continue
        if is_found:
            found += 1
        else:
            survived.append(shown)
        by = "".join(f"; {test_name}: {how}" for test_name, how in failed_in(output)) if is_found else ""
        print(f"{'found' if is_found else 'survived'}: {kind}, {time.monotonic() - start:.0f} s{by}\n{shown}\n",
              flush=True)
    print(f"seed {options.seed}: {found} found, {len(survived)} survived")
    return 1 if survived else 0


def print_functions(learned, paths):
    missing = [entry for entry in learned["never_called"] if below(entry[0], paths)]
    for file, line, name in missing:
        print(f"{file}:{line}: {name}")
    print(f"{len(missing)} functions are executed by no test")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="chooses the faults; default: 1")
    parser.add_argument("--count", type=int, default=10, help="number of faults; default: 10")
    parser.add_argument("--skip", type=int, default=0,
                        help="leave out the first faults of this seed, which an earlier run has tried")
    parser.add_argument("--relearn", action="store_true",
                        help="find out again what is executed")
    parser.add_argument("--all-tests", action="store_true",
                        help="let all tests look for a fault, also if the fast ones execute its line")
    parser.add_argument("--functions", action="store_true",
                        help="only list the functions that no test executes")
    parser.add_argument("paths", nargs="*", default=["daemon", "client", "store", "collectives", "ddp"],
                        help="files and folders; default: all product code except protocol")
    options = parser.parse_args()
    options.paths = [os.path.normpath(path) for path in options.paths]
    for path in options.paths:
        if not (ROOT / path).exists():
            give_up(f"{path}: no such file or folder in {ROOT.name}; give paths as in: daemon/net client")
    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    configure()
    print("building with gcov", flush=True)
    code, output = build(FIRST_BUILD_LIMIT)
    if code != 0:
        give_up(f"the tree does not build:\n{output}")
    if options.relearn or not LEARNED.exists():
        learn()
    learned = json.loads(LEARNED.read_text())
    if options.functions:
        print_functions(learned, options.paths)
        return 0
    return try_faults(learned, options)


if __name__ == "__main__":
    sys.exit(main())
