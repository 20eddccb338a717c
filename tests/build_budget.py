#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the build and the tests from growing unnoticed: compares the build folder with build_budgets.txt.

    build_budget.py BUILD [--write]

Each target has a budget: how many units it compiles, and how many megabytes these read, headers
included, as `ninja -t deps` and the sizes of the files tell. Each test that may take more than 60 s
has its limit and the reason for it. Prints each offence as `file:line: message`, and exits 1 if there
is one; exits 77 if the folder was not built by the preset release. --write stores the numbers of the
folder, and keeps the reasons."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = "tests/build_budgets.txt"
OVER = 1.03  # what a target may read beyond its budget
LONG = 60  # seconds; a test with a higher limit needs a reason
ROUNDED = 0.05  # megabytes that the rounding of a budget may hide


def units_of(deps, size_of):
    """{target: [units, bytes read]} of the output of `ninja -t deps`."""
    found = {}
    for entry in deps.strip().split("\n\n"):
        output, *paths = entry.splitlines()
        target = re.match(r"(?:.*/)?CMakeFiles/([^/]+)\.dir/.*\.o: #deps \d+, .*\(VALID\)$", output)
        if target:
            units = found.setdefault(target[1], [0, 0])
            units[0] += 1
            units[1] += sum(size_of(path.strip()) for path in paths)
    return found


def limits_of(tests):
    """{test: seconds} for the tests of `ctest --show-only=json-v1` that may take long."""
    limits = {}
    for test in tests["tests"]:
        for one in test.get("properties", []):
            if one["name"] == "TIMEOUT" and one["value"] > LONG:
                limits[test["name"]] = int(one["value"])
    return limits


def read_budgets(text):
    """The budgets as {target: (line, units, megabytes)} and the limits as {pattern: (line, seconds,
    reason)}; then offences as (line, message)."""
    budgets, limits, wrong = {}, {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        unit = re.fullmatch(r"build (\S+) (\d+) units (\d+\.\d) MB", line)
        limit = re.fullmatch(r"test (\S+) (\d+) s: (\S.*)", line)
        if unit:
            budgets[unit[1]] = number, int(unit[2]), float(unit[3])
        elif limit:
            limits[limit[1]] = number, int(limit[2]), limit[3]
        else:
            wrong.append((number, f"{line!r} is neither `build TARGET N units N.N MB` nor "
                                  "`test REGEX SECONDS s: REASON`"))
    return budgets, limits, wrong


def check_units(found, budgets):
    """A target has no more units than its budget, and reads at most 3 % more."""
    for target, (units, read) in sorted(found.items()):
        megabytes = read / 1e6
        if target not in budgets:
            yield 1, (f"target {target} has no budget: it has {units} units that read {megabytes:.1f} MB; "
                      "say --write")
            continue
        line, most, budget = budgets[target]
        if units > most:
            yield line, f"target {target} has {units} units, budget {most}; add sources to an older target"
        if megabytes > budget * OVER + ROUNDED:
            yield line, (f"target {target} reads {megabytes:.1f} MB, budget {budget:.1f} and 3 %; include "
                         "less, or say --write and give the reason in the commit")


def check_limits(found, limits):
    """A test that may take long is listed with its limit, and what is listed exists."""
    for test, seconds in sorted(found.items()):
        lines = [entry for pattern, entry in limits.items() if re.search(pattern, test)]
        if not lines:
            yield 1, f"test {test} may take {seconds} s, limit {LONG} s without a reason; add a line `test`"
        elif seconds not in [entry[1] for entry in lines]:
            yield lines[0][0], f"test {test} may take {seconds} s, but {lines[0][1]} s stand here"
    for pattern, (line, seconds, _) in limits.items():
        if not any(re.search(pattern, test) for test in found):
            yield line, f"no test that matches {pattern} may take {seconds} s; remove the line"


def size_of(build):
    sizes = {}

    def size(path):
        if path not in sizes:
            try:
                sizes[path] = (build / path).stat().st_size
            except FileNotFoundError:
                sizes[path] = 0
        return sizes[path]

    return size


def written(text, found):
    """The text with the budgets of `found` in place of all that it has."""
    rest = [line for line in text.splitlines() if not line.startswith("build ")]
    rows = [f"build {target} {units} units {read / 1e6:.1f} MB"
            for target, (units, read) in sorted(found.items())]
    return "\n".join(rest + rows) + "\n"


def is_release(cache):
    """Whether the folder of this CMakeCache.txt was configured by the preset release."""
    wanted = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_UNITY_BUILD": "ON", "C10DD_SANITIZE": ""}
    return wanted == {name: value for name, value in re.findall(r"^(\w+):\w+=(.*)$", cache, re.MULTILINE)
                      if name in wanted}


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    if len(words) != 1:
        sys.exit("usage: build_budget.py BUILD [--write]")
    build = Path(words[0]).resolve()
    cache = build / "CMakeCache.txt"
    if not cache.exists() or not is_release(cache.read_text(encoding="utf-8")):
        print(f"skipped: {build} was not configured by the preset release")
        return 77
    deps = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True)
    found = units_of(deps.stdout, size_of(build))
    path = ROOT / BUDGETS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if "--write" in sys.argv:
        path.write_text(written(text, found), encoding="utf-8")
        return 0
    tests = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                           capture_output=True, text=True)
    budgets, limits, offences = read_budgets(text)
    offences += check_units(found, budgets)
    offences += check_limits(limits_of(json.loads(tests.stdout)), limits)
    for line, message in sorted(offences):
        print(f"{BUDGETS}:{line}: {message}")
    units = sum(units for units, _ in found.values())
    read = sum(read for _, read in found.values()) / 1e6
    print(f"build_budget: {units} units read {read:.0f} MB; {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
