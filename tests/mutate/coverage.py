# SPDX-License-Identifier: Apache-2.0
"""Reads from the counts of gcov which lines and functions of the product the tests have executed."""

import concurrent.futures
import gzip
import json
import os
import subprocess

PRODUCT = ("client/", "collectives/", "daemon/", "ddp/", "protocol/", "store/")


class Coverage:
    """The executed lines of each file, and how often each function was called."""

    def __init__(self):
        self.lines = {}  # file: line numbers
        self.functions = {}  # (file, line, name): calls

    def add(self, file, report):
        lines = self.lines.setdefault(file, set())
        lines.update(at["line_number"] for at in report["lines"] if at["count"] > 0)
        for function in report["functions"]:
            # Each instantiation of a template is a function of its own, at the same line.
            key = (file, function["start_line"], bare_name(function["demangled_name"]))
            self.functions[key] = self.functions.get(key, 0) + function["execution_count"]

    def merge(self, other):
        for file, lines in other.lines.items():
            self.lines.setdefault(file, set()).update(lines)
        for key, calls in other.functions.items():
            self.functions[key] = self.functions.get(key, 0) + calls

    def never_called(self):
        """Returns (file, line, name) of each function that was never called, in order."""
        return sorted(key for key, calls in self.functions.items() if calls == 0)


def bare_name(demangled):
    """Returns a function's name without template arguments and parameters."""
    name, depth = "", 0
    for char in demangled.replace("(anonymous namespace)::", "").replace("operator()", "operator_call"):
        if char == "(" and depth == 0:
            break
        depth += {"<": 1, ">": -1}.get(char, 0)
        if depth == 0 and char != ">":
            name += char
    return name.split(" ")[-1]


def reports_of(data, folder):
    """Runs gcov on one .gcda file. Returns the reports of its source files."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=folder, check=True,
                          capture_output=True)
    text = done.stdout if done.stdout[:1] == b"{" else gzip.decompress(done.stdout)
    return [file for line in text.decode().splitlines() for file in json.loads(line)["files"]]


def link_notes(counts, build):
    """Puts the notes of the compiler beside the counts, where gcov looks for them."""
    for data in counts.rglob("*.gcda"):
        notes = data.with_suffix(".gcno")
        if not notes.exists():
            notes.symlink_to(build / notes.relative_to(counts / build.relative_to("/")))


def read(counts, build, tree):
    """Returns the Coverage of the product's files, from the counts below `counts`: the build folder,
    or a folder that GCOV_PREFIX has named. All three are absolute paths."""
    found = Coverage()
    if counts != build:
        link_notes(counts, build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for reports in pool.map(lambda data: reports_of(data, build), sorted(counts.rglob("*.gcda"))):
            for report in reports:
                # -ffile-prefix-map makes the names relative to the tree
                name = os.path.relpath(os.path.join(tree, report["file"]), tree)
                if name.startswith(PRODUCT):
                    found.add(name, report)
    return found


def as_lists(coverage, by_program):
    """Returns what mutate.py stores. `by_program` has the Coverage of each fast test program alone."""
    def lists(lines):
        return {file: sorted(numbers) for file, numbers in lines.items() if numbers}
    return {"lines": lists(coverage.lines),
            "fast": {program: lists(one.lines) for program, one in by_program.items()},
            "never_called": coverage.never_called()}
