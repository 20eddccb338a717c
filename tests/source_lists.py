# SPDX-License-Identifier: Apache-2.0
"""What exists, as the sources list it: options, variables, routes, metrics, events, tests, presets.

pages.py compares the pages with these lists. Each function reads the one place that defines a kind of
name, from the text of the files by path, so that no build is needed."""

import json
import re
from fnmatch import fnmatch

# Our programs, with the files that define their options. ./dev COMMAND is found by its name.
PROGRAMS = {
    "c10dd": ["daemon/config/option_table.cc", "daemon/config/options.cc"],
    "c10ddctl": ["client/ctl/arguments.cc", "client/ctl/ca_arguments.cc"],
    "c10drun": ["client/launcher/option_table.cc"],
    "c10dd-bench": ["tests/bench/*.cc"],
    "c10dd-sim": ["tests/sim/main.cc"],
    "c10dd-torture": ["tests/torture/main.cc"],
    "c10dd-matrix": ["tests/matrix/main.cc"],
    "bin/digits": ["examples/digits/main.cc"],
}
# Where the daemon's log gets the names of its events: files, what goes before the name, a pattern.
EVENTS = [
    ("daemon/*.cc", "", r"event=([a-z_]*[a-z])\b"),
    ("daemon/core/torch/plain_runs.cc", "", r'^\s*(?:out\.notes\.push_back\()?\{"(\w+)", '),
    ("daemon/core/job/relaunch.cc", "", r'RankContested\{\s*"(\w+)"'),
    ("daemon/core/directory/directory_host*.cc", "endpoint_", r'ports_->close\(\*?endpoint, "(\w+)"'),
    ("daemon/net/endpoint_listeners.cc", "endpoint_", r'\blog\("(\w+)"'),
    ("daemon/shard/fleet_host.cc", "", r'"(daemon_\w+)"'),
    ("daemon/shard/event_log.cc", "", r'"(rank_taken|join_refused)"'),
]
CODE = (".cc", ".h", ".py")
BUILD = ("CMakeLists.txt", "CMakePresets.json", "pages.py")


def texts(files, *patterns):
    return "\n".join(text for path, text in files.items()
                     if any(fnmatch(path, pattern) for pattern in patterns))


def options(files, *patterns):
    """The options that these files define: as a row of the daemon's table, or as a string."""
    text = texts(files, *patterns)
    rows = re.findall(r'^    \{"(\w+)", "[^"]*", Form::', text, re.MULTILINE)
    return ({"--" + row.replace("_", "-") for row in rows} | {"--help"} |
            set(re.findall(r"[\"',](--[a-z][\w-]*)", text)))


def command_options(files, name):
    """The options of ./dev NAME: its own, and those of the program that it starts."""
    script = files.get(f".dev/{name}", "")
    found = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", "\n".join(
        line for line in script.splitlines() if line.startswith("# help:") or "${1:-}" in line)))
    for program in re.findall(r"exec build/bin/([\w-]+)", script):
        found |= options(files, *PROGRAMS[program])
    for program in re.findall(r"exec python3 -B (\S+\.py)", script):
        found |= options(files, program)
    return found | {"--help"}


def commands(files):
    """The commands of ./dev."""
    return {path.removeprefix(".dev/") for path, text in files.items()
            if path.startswith(".dev/") and "\n# help: " in text}


def variables(files):
    """Variables of the environment and of CMake: an option of the daemon, or a name that code reads."""
    table = options(files, "daemon/config/option_table.cc") - {"--help"}
    found = {"C10DD_" + name[2:].replace("-", "_").upper() for name in table}
    for path, text in files.items():
        if path.endswith(CODE) and not path.startswith("tests/pages"):
            found |= set(re.findall(r"[\"'](C10DD_[A-Z0-9_]+)[\"'=]", text))
        elif path.endswith(BUILD) or path.startswith(".dev/"):
            found |= set(re.findall(r"\bC10DD_[A-Z0-9_]+", text))
    return found


def launcher_variables(files):
    """The variables from which a process takes its rank."""
    table = re.search(r"kSources = \{(.*?)\n\};", files.get("client/internal/launch_environment.cc", ""), re.DOTALL)
    return set(re.findall(r'"([A-Z]\w+)"', table[1])) if table else set()


def routes(files):
    """The routes of the daemon as (method, path); a variable part of a path is {name}."""
    return re.findall(r'\.method = "([A-Z]+)",\s*\.pattern = "([^"]*)"', texts(files, "daemon/http/route_table.cc"))


def metrics(files):
    """The metrics, with the series that Prometheus makes of a histogram."""
    text = texts(files, "protocol/metric_catalog.h")
    found = set(re.findall(r'Info k\w+\{\s*"(\w+)"', text))
    return found | {name + end for name in re.findall(r'Info k\w+\{\s*"(\w+)", Kind::histogram', text)
                    for end in ("_bucket", "_sum", "_count")}


def metric_beginnings(files):
    """What a command may search for in /metrics."""
    return {name[:end] for name in metrics(files) for end in range(len("c10dd_"), len(name) + 1)}


def public_headers(files):
    listed = re.search(r"set\(public_headers\s([^)]*)\)", texts(files, "CMakeLists.txt"))
    return {"c10dd.h"} | {path.rpartition("/")[2] for path in (listed[1].split() if listed else [])}


def events(files):
    return {head + name for glob, head, pattern in EVENTS
            for name in re.findall(pattern, texts(files, glob), re.MULTILINE)}


def tests(files):
    """All tests by which ctest can select: cases as Suite.Case, and tests of CMakeLists.txt."""
    found = {f"{suite}.{case}" for suite, case in re.findall(
        r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", texts(files, "*.cc"), re.MULTILINE)}
    cmake = texts(files, "*CMakeLists.txt")
    return found | set(re.findall(r"(?:add_test|c10dd_script)\(NAME ([\w-]+)", cmake))


def labels(files):
    cmake = texts(files, "*CMakeLists.txt")
    return {"unit"} | set(" ".join(re.findall(r'LABELS "?([a-z; ]+)', cmake)).replace(";", " ").split())


def build_names(files):
    """Words of the build: functions, targets and modules."""
    text = texts(files, "*CMakeLists.txt")
    modules = re.findall(r"c10dd_(?:module|library)\(NAME (\w+)", text)
    tutorials = re.findall(r"\btutorials/(\w+)\.cc", text)
    return (set(re.findall(r"[\w-]+", text)) | {"c10dd_" + name for name in modules} |
            {"tutorial-" + name.replace("_", "-") for name in tutorials})


def presets(files):
    listed = json.loads(files.get("CMakePresets.json", "{}"))
    return {one["name"] for one in listed.get("configurePresets", []) if not one.get("hidden")}
