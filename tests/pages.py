#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what the pages name exists, and that their figures equal the measured ones.

Reads every page, prints each offence as `file:line: message`, exits 1 if there is one. What exists is
read from the sources (source_lists.py), a figure from its row in docs/benchmarks.md
(page_figures.py). Rules are data: to add one, add a line to a table below and a planted offence to
pages_test.py. tidy.py checks that links lead to files, and unit/protocol/pages_test.cc that tables
equal those of the headers.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import source_lists as lists
import tidy
from page_figures import check_figures

# Pages that tell the past: what they name may be gone, but not the commits.
HISTORY = ["CHANGELOG.md", "DECISIONS.md"]
# Sections of other pages that do so, by their heading.
PAST = {"ARCHITECTURE.md": "## Renamed words and files"}
SKIPPED = ["tests/fuzz/corpus/*"]

# Options of programs that are not ours. A page may name only these.
FOREIGN = {
    "apt-get": "", "mpirun": "", "python": "", "python3": "", "sudo": "",
    "curl": "--noproxy --fail-with-body",
    "cmake": "--build --install --list-presets --preset --prefix",
    "GoogleTest": "--gtest_filter",
    "ctest": "--output-on-failure --preset --test-dir",
    "etcd": "--max-request-bytes --max-txn-ops",
    "srun": "--ntasks-per-node",
    "systemctl": "--now",
    "systemd-analyze": "--offline",
    "testssl": "--add-ca",
    "torchrun": "--master_addr --master_port --max_restarts --nnodes --node_rank --nproc_per_node --nproc-per-node "
                "--rdzv-backend --rdzv-conf --rdzv-endpoint --rdzv-id "
                "--rdzv_backend --rdzv_conf --rdzv_endpoint --rdzv_id --standalone",
    "train.py": "--init --lr --spawn",
}

# Words in the place of a name, and files that a user has or a program makes.
PLACEHOLDER = re.compile(r"(?:^|[/_])x(?=[/_.]|$)|[A-Z]{3,}\b(?!\.md)|<\w+>|\.\.\.")
MADE = {"train.py", "test_store.py", "test/distributed/test_store.py", "hello.cc",
        "trainer.cc", "stdout.log", "stderr.log", "c10dd.toml",
        "build/", "include/", "rows/", "init/", "/backup", "/path",
        "/tmp", "/usr"}

OPTION = re.compile(r"(--[a-z][\w-]*)(?:=.*)?$")
CODE_FILE = re.compile(r"[\w./*{},-]*[\w*}]\.(?:cc|h|md|py|txt|sh|json|toml|service|cmake|supp|xz|inc)$")
FOLDERS = tuple(f"{folder}/" for folder in tidy.FOLDERS)


@dataclass(frozen=True)
class Named:
    """A kind of name that pages use: a pattern with one group, and the list that must have the name."""

    kind: str
    pattern: str
    known: object  # the files -> a set
    where: str     # the list, for people


NAMED = [
    Named("variable", r"(?<![\w-])(C10DD_[A-Z0-9_]*[A-Z0-9])(?![\w*])", lists.variables,
          "the daemon's options and what code reads"),
    Named("metric", r"(?<![\w/-])(?<!grep )(?:lib)?(c10dd_[a-z_]*[a-z])(?![\w:*-])",
          lambda files: lists.metrics(files) | lists.build_names(files), "protocol/metric_catalog.h"),
    Named("metric", r"grep (c10dd_[a-z_]+)", lists.metric_beginnings, "protocol/metric_catalog.h"),
    Named("header", r"<c10dd/([a-z]\w*\.h)>", lists.public_headers, "public_headers of CMakeLists.txt"),
    Named("event", r"\bevent=([a-z_]+)", lists.events, "the daemon's log"),
    Named("command", r"\./dev ([a-z]+)", lists.commands, ".dev/"),
    Named("preset", r"--preset[ =]([a-z]+)", lists.presets, "CMakePresets.json"),
    Named("label", r"(?:ctest|\./dev test)\b[^`\n]* -L (\w+)", lists.labels, "CMakeLists.txt"),
    Named("program", r"\bbuild/(?:bin|tests)/([\w-]+)", lists.build_names, "CMakeLists.txt"),
    Named("test", r"(?<![\w./])(\w+_test)\b(?!\.\w)", lists.build_names, "CMakeLists.txt"),
]
# Lists of events without `event=`: a page names them in a sentence that begins so.
EVENT_SENTENCE = r"(?:Events of the log:|[Tt]hese events need an operator:|These are about \w+:)[^.]*\."

# Pages that must name all of a kind, and how they name one.
COMPLETE = [
    ("docs/daemon.md", "route", lambda files: {path for _, path in lists.routes(files)},
     lambda path: re.sub(r"\\\{\w+\\\}", "[A-Z]+", re.escape(path)) + r"(?![\w/])"),
    ("README.md", "page", lambda files: {path for path in files if re.fullmatch(r"docs/[^/]+\.md", path)},
     lambda path: r"\]\(" + re.escape(path) + r"\)"),
    ("docs/sdk.md", "variable", lists.launcher_variables, lambda name: f"`{name}`"),
]

# How long a page, or each part of it that has a heading, may be.
LENGTHS = [
    ("README.md", "page", 130, "lines"),
    ("DECISIONS.md", "part", 80, "words"),
    ("CHANGELOG.md", "part", 60, "lines"),
    ("ARCHITECTURE.md", "page", 3500, "words"),
]


def check_lengths(files):
    for page, unit, limit, what in LENGTHS:
        text = files.get(page, "")
        parts = [text] if unit == "page" else re.split(r"(?m)^(?=## )", text)[1:]
        at = 0
        for part in parts:
            at = text.index(part, at)
            body = part if unit == "page" else part.partition("\n")[2]
            count = len(body.split()) if what == "words" else len(body.strip("\n").split("\n"))
            if count > limit:
                yield page, tidy.line_of(text, at), f"{count} {what}, limit {limit} for this {unit}"


def pages_of(files):
    """The pages by path. Lines of the past become empty, so that line numbers stay."""
    for path, text in files.items():
        if not path.endswith(".md") or tidy.matches(path, SKIPPED):
            continue
        begin = text.find("\n" + PAST[path]) if path in PAST else -1
        yield path, text if begin < 0 else text[:begin] + "\n"


def code_of(text):
    """The pieces of a page that are code, as (line, words): lines of blocks, and spans in backticks."""
    for block in re.finditer(r"(?m)^    .*$", text):
        yield tidy.line_of(text, block.start()), block[0].split()
    for fence in re.finditer(r"(?ms)^```\w*\n(.*?)^```$", text):
        for at, line in enumerate(fence[1].splitlines()):
            yield tidy.line_of(text, fence.start(1)) + at, line.split()
    prose = re.sub(r"(?ms)^```.*?^```$|^    [^\n]*$", lambda code: "\n" * code[0].count("\n"), text)
    for span in re.finditer(r"`((?:[^`\n]|\n(?!\n))+)`", prose):
        yield tidy.line_of(prose, span.start()), span[1].split()


class Options:
    """Which options each program has."""

    def __init__(self, files):
        self.files = files
        self.ours = {name: lists.options(files, *sources) for name, sources in lists.PROGRAMS.items()}
        self.foreign = {name: set(text.split()) for name, text in FOREIGN.items()}
        self.any = set().union(*self.ours.values(), *self.foreign.values(),
                               *(lists.command_options(files, name) for name in lists.commands(files)))

    def program(self, words, at):
        """The program that words[at] names, with its options, or None."""
        word = words[at].strip("\"'()")
        if at > 0 and words[at - 1].endswith("./dev"):
            return f"./dev {word}", self.command(word)
        for known in (self.ours, self.foreign):
            for name, found in known.items():
                if word == name or word.endswith("/" + name):
                    return name, found
        script = next((path for path in self.files if word.endswith(".py") and
                       (path == word or path.endswith("/" + word))), None)
        return (script, lists.options(self.files, script)) if script else None

    def command(self, name):
        foreign = self.foreign["ctest"] if name == "test" else set()
        return lists.command_options(self.files, name) | foreign

    def check(self, words):
        """The words that are no option of the program before them."""
        program = None
        for at, word in enumerate(words):
            option = OPTION.match(word.strip("\"'()[],;:"))
            if not option:
                program = self.program(words, at) or program
                continue
            name, known = program or ("any program", self.any)
            if option[1] not in known:
                yield f"option {option[1]}: not one of {name}"


def expand(word):
    """The paths of a word such as a/{b,c}/d."""
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", word)
    if not braces:
        return [word]
    return [one for part in braces[1].split(",")
            for one in expand(word[:braces.start()] + part + word[braces.end():])]


class Paths:
    def __init__(self, root, files):
        self.root = root
        self.names = set(files)
        self.names |= {"/".join(path.split("/")[:depth]) for path in files
                       for depth in range(1, path.count("/") + 1)}

    def exists(self, page, word):
        word = word.rstrip("/")
        if (self.root / word).exists() or (self.root / page).parent.joinpath(word).exists():
            return True
        return any(fnmatch(name, word) or fnmatch(name, "*/" + word) for name in self.names)

    def check(self, page, words):
        for word in words:
            word = word.strip("\"'()[],:;").removeprefix("./")
            if word.startswith("/"):  # of a machine
                continue
            a_path = word.startswith(FOLDERS) or CODE_FILE.match(word) or re.match(r"\w+(/\w+)*/$", word)
            if not a_path or PLACEHOLDER.search(word) or word in MADE:
                continue
            if not all(self.exists(page, one) for one in expand(word)):
                yield f"path {word}: there is no such file in the repository"


class Routes:
    """A route in a page has NAME or {name} in the place of a variable part."""

    FOUND = re.compile(r"(?:\b(GET|POST|DELETE) |-X (POST|DELETE) )?[\w.:/]*?"
                       r"((?:(?<=`)|(?<=ADDRESS)|(?<=:29500)|(?<=`GET ))/[a-z]+\b(?![/.\w-])|/v1/[\w{}/-]+)")

    def __init__(self, files):
        self.known = [(method, re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "/?$"))
                      for method, path in lists.routes(files)]

    def check(self, text):
        text = re.sub(r"c10dd://[^\s`]+", lambda url: " " * len(url[0]), text)
        for found in self.FOUND.finditer(text):
            method, path = found[1] or found[2], found[3]
            if path not in MADE and not any(route.match(path) and method in (None, known)
                                            for known, route in self.known):
                asked = f"{method} {path}" if method else path
                yield found.start(3), f"route {asked}: not in daemon/http/route_table.cc"


def check_tests(files, text):
    """Suite.Case, or .Case of the suite before, where the case is a sentence; what ctest -R selects."""
    known = lists.tests(files)
    suite = ""
    for found in re.finditer(r"`([A-Z]\w+)?\.((?:[A-Z][a-z0-9]*){3,})`", text):
        suite = found[1] or suite
        if f"{suite}.{found[2]}" not in known:
            yield found.start(), f"test {suite}.{found[2]}: there is no such test"
    for found in re.finditer(r"(?:ctest|\./dev test)\b[^`\n]* -R '?([\w|\\]+)", text):
        for word in re.split(r"\\?\|", found[1]):
            if not any(re.search(word, name) for name in known):
                yield found.start(1), f"test -R {word}: selects no test"


def check_events(files, text):
    known = lists.events(files)
    for sentence in re.finditer(EVENT_SENTENCE, text):
        for word in re.finditer(r"`([a-z_]+)`(?! counts)", sentence[0]):
            if word[1] not in known:
                yield sentence.start() + word.start(), f"event {word[1]}: not in the daemon's log"


def anchors_of(text):
    heads = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", text))
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def check_anchors(files, page, text):
    for link in re.finditer(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        target = page if not link[1] else (Path("/") / page).parent.joinpath(link[1]).resolve()
        there = files.get(str(target).lstrip("/"))
        if there is not None and link[2] not in anchors_of(there):
            yield link.start(), f"link {link[1]}#{link[2]}: that page has no such heading"


def commits_of(root):
    """The hashes of the history, or None if it is not here: an archive, or a shallow clone."""
    if not (root / ".git").exists():
        return None

    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True,
                              text=True).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        return None
    return git("rev-list", "HEAD").split()


def check_commits(commits, text):
    short = {commit[:7] for commit in commits}
    for found in re.finditer(r"(?<![\w/#.-])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7}(?![\w-])", text):
        if found[0] not in short:
            yield found.start(), f"commit {found[0]}: not in the history; measure again, or drop the row"


def check_tree(root):
    """All offences as (path, line, message)."""
    files = tidy.read_tree(root)
    commits = commits_of(root)
    options, paths, routes = Options(files), Paths(root, files), Routes(files)
    named = [(rule, rule.known(files)) for rule in NAMED]
    for page, text in pages_of(files):
        found = list(check_commits(commits, text)) if commits is not None else []
        if not tidy.matches(page, HISTORY):
            for rule, known in named:
                found += [(match.start(1), f"{rule.kind} {match[1]}: not in {rule.where}")
                          for match in re.finditer(rule.pattern, text) if match[1] not in known]
            found += [*routes.check(text), *check_tests(files, text), *check_events(files, text),
                      *check_anchors(files, page, text)]
            for line, words in code_of(text):
                for message in [*options.check(words), *paths.check(page, words)]:
                    yield page, line, message
        for offset, message in found:
            yield page, tidy.line_of(text, offset), message
    for page, kind, known, pattern in COMPLETE:
        for name in sorted(known(files)) if page in files else []:
            if not re.search(pattern(name), files[page]):
                yield page, 1, f"{kind} {name}: this page must name each {kind}"
    yield from check_figures(files)
    yield from check_lengths(files)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    offences = sorted(set(check_tree(root)))
    for path, line, message in offences:
        print(f"{path}:{line}: {message}")
    if commits_of(root) is None:
        print("pages: the history is not here, so commits were not looked up")
    print(f"pages: {len(offences)} offences" if offences else "pages: clean")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
