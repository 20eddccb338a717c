#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each source includes what defines the types that it names: ./dev test compiles several sources as one
unit, in which an include that is missing does not show, but a user's build compiles each by itself.

A type counts if one header of the project alone defines its name. It is found if that header is included, also by
another header, or if the name is declared before its use. A name in a comment or a string does not count."""

import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
MADE = re.compile(r"\b(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:\[\[[^\]]*\]\]\s*)?([A-Z]\w*)[^;{()=<>]*\{"
                  r"|\b(?:using|concept)\s+([A-Z]\w*)\s*=")
# These names need no include: those that are declared, parameters of templates, and those written with a namespace,
# because a library may define them.
KNOWN = re.compile(r"\b(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+([A-Z]\w*)\s*(?::\s*[\w:]+\s*)?;"
                   r"|\b(?:typename|class)(?:\s*\.\.\.)?\s+([A-Z]\w*)|::([A-Z]\w*)")
INCLUDED = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
PUBLIC = ("client", "client/c", "collectives", "ddp", "protocol")  # their headers are installed as <c10dd/...>
NAMED = re.compile(r"(?<![\w.])(?<!->)[A-Z]\w*[a-z]\w*\b")
UNNAMED = re.compile(r"^\s*#\s*include[^\n]*|\b(?:TEST|TEST_F|TEST_P|TYPED_TEST)\s*\([^)]*\)|"
                     r"\bINSTANTIATE_TEST_SUITE_P\s*\(\s*\w+", re.MULTILINE)


def names(pattern, code):
    return {name for found in pattern.findall(code) for name in ((found,) if isinstance(found, str) else found) if name}


def paths_of(header):
    """The paths that #include may mean."""
    if header == "c10dd/c10dd.h":
        return list(PUBLIC)
    return [header.replace("c10dd", folder, 1) for folder in PUBLIC] if header.startswith("c10dd/") else [header]


class Source:
    def __init__(self, text):
        self.included = [path for header in INCLUDED.findall(text) for path in paths_of(header)]
        code = UNNAMED.sub("", SKIPPED.sub("", text))
        self.made = names(MADE, code)
        self.known = self.made | names(KNOWN, code)
        self.named = names(NAMED, code)


def offences(texts):
    """Returns a line for each missing include; `texts` has the text of each source and header by its path."""
    sources = {path: Source(text) for path, text in texts.items()}
    homes = {}
    for path, source in sources.items():
        if path.endswith(".h"):
            for name in source.made:
                homes.setdefault(name, []).append(path)
    whole = {folder: [path for path in sources if re.fullmatch(folder + r"/[^/]+\.h", path)] for folder in PUBLIC}
    only = {name: paths[0] for name, paths in homes.items() if len(paths) == 1}
    found = []
    for path, source in sorted(sources.items()):
        reached, next_ones = {path}, [path]
        while next_ones:
            for header in sources[next_ones.pop()].included:
                for one in whole.get(header, [header]):
                    if one in sources and one not in reached:
                        reached.add(one)
                        next_ones.append(one)
        known = set().union(*(sources[one].known for one in reached))
        for name in sorted(source.named - known):
            if name in only and (path.startswith("tests/") or not only[name].startswith("tests/")):
                found.append(f'{path}: names {name}; include "{only[name]}"')
    return found


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    texts = {}
    for path in listed:
        if os.path.exists(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                texts[path] = file.read()
    found = offences(texts)
    print("\n".join(found + [f"includes: {len(found)} offences" if found else "includes: clean"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
