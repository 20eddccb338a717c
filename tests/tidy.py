#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules for the sources that a compiler cannot check.

Reads every source of the tree, prints each offence as `file:line: message`, exits 1 if there is
one. Rules are data: to add one, add a line to a table below and a planted offence to
tidy_test.py. Formatting, naming and function length are clang-format's and clang-tidy's.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import log_lines
import retired_words

# Which folders a folder may include, itself always. The longest matching folder counts.
# The rooms of daemon/core, top first; each includes only rooms below it. The upper three see the engine.
ROOMS = ["fleet", "directory", "host", "job", "reports", "waiting", "barriers", "group", "torch", "sessions",
         "keys"]
CORE = ["daemon/core", *(f"daemon/core/{room}" for room in ROOMS)]
ARROWS = {
    **{f"daemon/core/{room}": [*(f"daemon/core/{lower}" for lower in ROOMS[at + 1:]), "daemon/core", "protocol",
                               *(["store"] if at < 3 else [])] for at, room in enumerate(ROOMS)},
    "protocol": [],
    "store": ["protocol"],
    "daemon/core": ["protocol"],
    "daemon/config": ["daemon/core", "daemon/core/sessions", "store", "protocol"],
    "daemon/metrics": ["daemon/config", *CORE, "store", "protocol"],
    "daemon/shard": ["daemon/config", "daemon/metrics", *CORE, "store", "protocol"],
    "daemon/net": ["daemon/shard", "daemon/config", "daemon/metrics", *CORE, "protocol"],
    "daemon/http": ["daemon/net", "daemon/shard", "daemon/config", "daemon/metrics", "daemon/core/fleet",
                    "daemon/core/directory", "daemon/core/host", "daemon/core/sessions", "protocol"],
    "daemon": ["daemon/http", "daemon/net", "daemon/shard", "daemon/config", "daemon/metrics", *CORE,
               "store", "protocol"],
    "client/core": ["protocol"],
    "client": ["client/core", "protocol"],
    "collectives": ["client", "protocol"],
    "ddp": ["collectives", "client", "protocol"],
    "examples": ["ddp", "collectives", "client", "protocol"],
    "tests": ["*"], "tests/history": ["protocol", "tests/json"], "tests/json": ["protocol"],
}
# What is written as a user writes it: includes <c10dd/...> and its own folder.
USERS = ["examples/*", "tests/user/*"]
# Forwarding between daemons is a client of another daemon.
EXTRA_ARROWS = {"daemon/forwarder*": ["client"], "tests/history/*_test.cc": ["tests"],
                "tests/json/*_test.cc": ["tests"]}

# A vendor's headers, and the only files that may see them.
VENDORS = {
    "rocksdb/": ["store/rocks/*.cc", "tests/*"],
    "hiredis/": ["protocol/hiredis_reader.h", "tests/*"],
    "nghttp2/": ["tests/bench/etcd_conversation.cc"],
    "gloo/": ["collectives/gloo/*", "tests/*"],
    "mpi.h": ["collectives/mpi/*", "tests/bench/mpi_all_reduce.cc"],
    "nccl.h": ["collectives/nccl/api_check.cc"], "cuda.h": ["collectives/nccl/api_check.cc"],
    "Eigen/": ["examples/digits/*"],
    "CLI/": ["daemon/*", "client/ctl/*", "client/launcher/*", "examples/*", "tests/*"],
    "toml": ["daemon/*"],
    "prometheus/": ["daemon/*", "tests/*"],
    "spdlog/": ["daemon/main.cc", "daemon/shard/log_line.cc", "tests/unit/daemon/*"],
    "openssl/": ["protocol/tls/*"],
    "xxhash.h": ["protocol/*.cc"], "fmt/": ["protocol/format.*"],
    "boost/json": ["protocol/*.cc", "daemon/*.cc", "client/ctl/*", "client/launcher/error_file.cc",
                   "client/stores/etcd/*", "tests/*", "examples/*"],
    "boost/beast": ["client/ctl/request.cc", "client/stores/etcd/response.cc", "daemon/*.cc", "tests/*"],
    "boost/asio": ["daemon/*", "client/*", "tests/*"],
}
# These folders see nothing that does I/O or runs threads, whatever the table above says.
PURE = ["protocol/*", "daemon/core/*", "client/core/*"]
IO_VENDORS = ["boost/asio", "boost/beast", "spdlog/", "prometheus/", "sys/socket.h", "thread",
              "fstream", "iostream"]

MAX_LINES = 500
# Files with a limit of their own, each with its reason.
LIMITS = {
    ".dev/packages.sh": (110, "a stranger reads it before running it as root"),
    "tests/tidy.py": (380, "rules that nobody reads are not rules"),
}

FOLDERS = {"protocol", "client", "store", "daemon", "collectives", "ddp", "deploy", "tests",
           "dashboards", "examples", "docs", ".ci", ".dev"}
VAGUE_FOLDERS = {"util", "utils", "common", "helper", "helpers", "misc"}

# State belongs to one loop or thread; where threads meet is written down here.
LOCKS_ALLOWED = [
    "store/group_commit.*",  # shard threads hand batches to the commit thread
    "daemon/access*", "daemon/net/rechecks.*",  # all loops note whom they admit; files have a thread
    "daemon/shard/caused_log.*",   # all loops write lines, and share their number
    "daemon/config/authenticator.*", "daemon/core/memory_ledger.*",  # all loops look principals up
    "store/rocks/mark_writer.*",   # the commit thread hands marks to the thread that writes them
    "store/rocks/room.*",    # the commit thread asks the thread that makes room
    "client/*",              # trainer threads hand calls to the connection's thread
    "collectives/*",         # trainer threads hand work to the backend's thread
    "daemon/metrics/metrics.*",      # shards count, the scrape reads
    "daemon/end_by.*",       # the end of the process waits for its last thread
    "daemon/net/shared_budget.*",  # connections of all loops share it; small ones never ask
    "ddp/reducer.*", "examples/*", "tests/*",
]

CODE, TEXT, STRINGS = "code", "text", "strings"  # without comments and strings; as is; no comments


@dataclass(frozen=True)
class Banned:
    """A pattern that may not stand in files matching `where`, but for those matching `but`."""

    pattern: str
    message: str
    where: tuple = ("*.h", "*.cc")
    but: tuple = ()
    view: str = CODE


CORES = ("protocol/*", "daemon/core/*", "client/core/*")
EVERY_SOURCE = ("*.h", "*.cc", "*.py", "*.txt", "*.cmake", "*.sh", "dev", ".ci/*", ".dev/*", "*.toml",
                "*.service", "*.json", "*.yml", "*.yaml")

COPY_OF_SHELL = ("the simulator runs the hosts of jobs, see daemon/core/host; what it drives without them is "
                 "a copy of the shell")
BANNED = [
    Banned(r"\bsystem_clock\b", "system_clock in a core; pass now as an argument", CORES),
    Banned(r"::now\(|\b(?:clock_gettime|gettimeofday)\b|\bstd::time\(",
           "a clock is read; pass now as an argument", CORES + ("store/*",),
           # They tell how long commits took, wait between two attempts, and limit how long a call blocks.
           but=("store/group_commit.cc", "store/rocks/room.cc", "store/redis/socket.cc")),
    Banned(r"\brandom_device\b|\brandom_number\b|\bs?rand\(|_distribution\b",
           "randomness in a core; pass a seed and use the engine's bits", CORES,
           ("protocol/random.*",)),
    Banned(r"\b(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(",
           "sleep in a unit test; advance time or wait for a condition with a deadline",
           ("tests/unit/*",)),
    Banned(r"\bstd::w?regex\b|#include <regex>", "std::regex; write the few lines of parsing"),
    Banned(r"\busing namespace (?!std::(?:\w+::)*\w*literals;)", "using namespace; name it"),
    Banned(r"\bstd::(?:\w+_)?(?:mutex|condition_variable)\b",
           "a lock; hand the work to the owning loop, or name the file in LOCKS_ALLOWED",
           but=tuple(LOCKS_ALLOWED)),
    Banned(r'"c10dd_(?!\w+_module")',
           "a metric is spelled out; use protocol/metric_catalog.h",
           but=("protocol/metric_catalog.h", "tests/*"), view=STRINGS),
    Banned(r'#include "daemon/(?!core/)', COPY_OF_SHELL, ("tests/sim/*",), view=TEXT),
    Banned(r'#include "daemon/core/(?:job/job|host/commit_gate)\.h"', COPY_OF_SHELL, ("tests/sim/*",),
           # They look into the jobs of the hosts, and check them.
           ("tests/sim/daemon.cc", "tests/sim/hang_story.cc", "tests/sim/shard.cc",
            "tests/sim/simulation_audit.cc", "tests/sim/thieves.cc", "tests/sim/trainers.cc"), TEXT),
    Banned(r"\b(?:TODO|FIXME|XXX)\b", "left for later; do it now or open an issue",
           EVERY_SOURCE, ("tests/tidy*.py",), TEXT),
    Banned(retired_words.pattern(), "a retired word; tests/retired_words.py says what to say",
           ("*.h", "*.cc", "*.py", "*.txt", "*.md", "*.json", "*.yml"),
           ("DECISIONS.md", "CHANGELOG.md", "ARCHITECTURE.md",
            "tests/retired_words.py", "tests/tidy_test.py"), TEXT),
    Banned(r"(?<![\w.$}>)*-])/(?:work|root)/|(?<!\w)\.\./shared\b", "a path of somebody's machine",
           EVERY_SOURCE + ("*.md",), ("tests/tidy*.py",), TEXT),
]

SPDX = "SPDX-License-Identifier: Apache-2.0"
COMMENTED = {"*.h": "//", "*.cc": "//", "*.py": "#", "*.sh": "#", "*CMakeLists.txt": "#",
             "dev": "#", ".ci/*": "#", ".dev/*": "#"}

TOKEN = re.compile(
    r'(?P<raw>R"(?P<delim>[^()\s\\]{0,16})\(.*?\)(?P=delim)")'
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<char>(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+')",
    re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def blank(text, kinds):
    """The text with tokens of these kinds replaced by spaces; line numbers stay."""

    def replace(match):
        if match.lastgroup not in kinds and not (match["raw"] and "raw" in kinds):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return TOKEN.sub(replace, text)


def matches(path, patterns):
    return any(fnmatch(path, pattern) for pattern in patterns)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def layer_of(path):
    """The longest folder of ARROWS that holds the path, or None."""
    holding = [folder for folder in ARROWS if path.startswith(folder + "/")]
    return max(holding, key=len, default=None)


def public_headers(files):
    """What <c10dd/NAME.h> is, by the list in the root CMakeLists.txt; c10dd.h includes all."""
    listed = re.search(r"set\(public_headers\s([^)]*)\)", files.get("CMakeLists.txt", ""))
    paths = listed[1].split() if listed else []
    return {"c10dd/c10dd.h": "ddp/"} | {f"c10dd/{Path(path).name}": path for path in paths}


def check_public(path, bracket, name, public):
    """What is public includes only what is public, by the name that it has for users; so do users."""
    is_public = path in public.values()
    if name.startswith("c10dd/"):
        if name not in public:
            yield f"<{name}> is not in the list public_headers of CMakeLists.txt"
        elif not is_public and not matches(path, USERS):
            yield f'only public headers and users include <{name}>; say "{public[name]}"'
    elif bracket == '"' and is_public:
        yield f'a public header includes "{name}", which is not installed under that name'
    elif bracket == '"' and matches(path, USERS) and layer_of(name) != layer_of(path):
        yield f'"{name}" is included otherwise than users can; say <c10dd/...>'
    elif "/" in name and bracket == "<" and is_public:
        yield f"<{name}> in a public header; users have only the standard library"


def check_includes(path, text, public):
    here = layer_of(path)
    allowed = ARROWS.get(here, ["*"]) + [
        folder for pattern, more in EXTRA_ARROWS.items() if fnmatch(path, pattern)
        for folder in more]
    for match in INCLUDE.finditer(blank(text, {"comment", "raw"})):
        bracket, name = match.groups()
        line = line_of(text, match.start(1))
        yield from ((line, message) for message in check_public(path, bracket, name, public))
        there = layer_of(public.get(name, name))
        if there is None and bracket == '"':
            yield line, f'include "{name}" is not spelled from the root of the repository'
        elif there and "*" not in allowed and there not in [here, *allowed]:
            yield line, f"{here} may not include {there}; it may include: {', '.join(allowed)}"
        if here != "tests" and matches(path, PURE) and name.startswith(tuple(IO_VENDORS)):
            yield line, f"<{name}> in a pure folder; hand its result in from outside"
        for vendor, homes in VENDORS.items():
            if bracket == "<" and name.startswith(vendor) and not matches(path, homes):
                yield line, f"<{name}> belongs only into: {', '.join(homes)}"


def check_circles(files):
    """Folders that stand side by side, outside tests/, include each other one way at most."""
    includes = {}  # folder -> folder that it includes -> where it does so first
    for path, text in files.items():
        if not path.endswith((".h", ".cc")) or path.startswith("tests/"):
            continue
        here = path.rpartition("/")[0]
        for match in INCLUDE.finditer(blank(text, {"comment", "raw"})):
            there = match[2].rpartition("/")[0]
            nested = f"{here}/".startswith(f"{there}/") or f"{there}/".startswith(f"{here}/")
            if match[1] == '"' and not nested:
                where = path, line_of(text, match.start(1))
                includes.setdefault(here, {}).setdefault(there, where)
    for here, others in includes.items():
        for there, where in others.items():
            reached, look = set(), [there]
            while look:
                reached.add(folder := look.pop())
                look += set(includes.get(folder, {})) - reached
            if here in reached:
                yield *where, f"{here} includes {there}, which includes {here}, also by way of others"


def check_banned(path, text):
    rules = [rule for rule in BANNED if matches(path, rule.where) and not matches(path, rule.but)]
    cpp = path.endswith((".h", ".cc"))
    views = {TEXT: text, CODE: text, STRINGS: text}
    if cpp and rules:
        views[STRINGS] = blank(text, {"comment"})
        views[CODE] = blank(text, {"comment", "string", "char", "raw"})
    for rule in rules:
        for match in re.finditer(rule.pattern, views[rule.view]):
            yield line_of(text, match.start()), rule.message


def check_head(path, text):
    mark = next((mark for glob, mark in COMMENTED.items() if fnmatch(path, glob)), None)
    if mark is None:
        return
    lines = text.splitlines()
    at = 1 if lines and lines[0].startswith("#!") else 0
    if lines[at:at + 1] != [f"{mark} {SPDX}"]:
        yield at + 1, f"this line must be: {mark} {SPDX}"
        return
    purpose = "\n".join(lines[at + 1:at + 2])
    own_header = f'#include "{path[:-2]}h"'  # which says it for both
    if purpose != own_header and not re.match(rf'(?:{mark}|""") ?\S', purpose):
        yield at + 2, "here a comment must say what the file is and what it guarantees"
    if path.endswith(".h") and "#pragma once" not in lines:
        yield 1, "no #pragma once"


def check_size(path, text):
    limit, reason = LIMITS.get(path, (MAX_LINES, "split by idea"))
    count = text.count("\n")
    if count > limit and matches(path, [*COMMENTED, "*.js"]):
        yield limit + 1, f"{count} lines, limit {limit}; {reason}"


def check_folders(path):
    parts = path.split("/")[:-1]
    for vague in VAGUE_FOLDERS.intersection(parts):
        yield 1, f'folder "{vague}" says nothing; name what its files are'
    if parts and parts[0] not in FOLDERS:
        yield 1, f'folder "{parts[0]}" is not a layer; the layers are: {", ".join(sorted(FOLDERS))}'


def check_links(root, path, text):
    """A page's links to files of the repository lead somewhere; code between fences has none."""
    for match in re.finditer(r"(?ms)^```.*?^```$|\]\((?!https?:)([^)#\s]+)", text):
        if match[1] and not (root / path).parent.joinpath(match[1]).exists():
            yield line_of(text, match.start()), f"link to {match[1]}, which does not exist"


def check_orphans(files):
    """A C++ source is listed in some CMakeLists.txt, by its path from there or from the root."""
    lists = {path: text for path, text in files.items() if path.endswith("CMakeLists.txt")}
    for path in files:
        if not path.endswith(".cc"):
            continue
        spelled = [path] + [path[len(folder):] for folder in
                            (name[:-len("CMakeLists.txt")] for name in lists)
                            if folder and path.startswith(folder)]
        words = re.compile("|".join(rf"(?<![\w./-]){re.escape(name)}(?![\w.-])"
                                    for name in spelled))
        if not any(words.search(text) for text in lists.values()):
            yield path, 1, "no CMakeLists.txt lists this source"


def read_tree(root):
    """Every text file that git would keep, or of a tree without git, every one not built."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout.split("\0")
        names = sorted(name for name in set(listed) if name)
    else:
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        names = [name for name in names if not re.match(r"build[^/]*/|\.git/", name)]
    return {name: text for name in names if (text := text_of(root / name)) is not None}


def text_of(path):
    """The file's text; None for folders, links and data."""
    if not path.is_file() or path.is_symlink():
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def check_tree(root):
    """All offences as (path, line, message)."""
    files = read_tree(root)
    public = public_headers(files)
    for path, text in files.items():
        found = [*check_folders(path), *check_head(path, text), *check_size(path, text),
                 *check_banned(path, text), *log_lines.offences(path, text)]
        if path.endswith((".h", ".cc")):
            found += check_includes(path, text, public)
        if path.endswith(".md"):
            found += check_links(root, path, text)
        for line, message in found:
            yield path, line, message
    yield from check_circles(files)
    yield from check_orphans(files)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    offences = sorted(check_tree(root))
    for path, line, message in offences:
        print(f"{path}:{line}: {message}")
    print(f"tidy: {len(offences)} offences" if offences else "tidy: clean")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
