#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the first C++ block of a chapter out of a page, as a reader would copy it.

    page_code.py PAGE CHAPTER FOLDER

writes FOLDER/includes.inc, its #include lines, and FOLDER/body.inc, the rest. Exits 1 if the page
has no such chapter or block.
"""
import pathlib
import re
import sys


def block_of(page, chapter):
    """The lines of the first indented block of the chapter, without their indentation."""
    found = re.search(rf"^## {re.escape(chapter)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    block = re.search(r"(?:^    .*\n(?:\n(?=    ))*)+", found[1], re.M) if found else None
    if block is None:
        sys.exit(f"page_code: no code block in chapter \"{chapter}\"")
    return [line[4:] for line in block[0].splitlines()]


def main():
    page, chapter, folder = sys.argv[1:]
    lines = block_of(pathlib.Path(page).read_text(encoding="utf-8"), chapter)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"includes.inc": [line for line in lines if line.startswith("#include")],
             "body.inc": [line for line in lines if not line.startswith("#include")]}
    for name, part in parts.items():
        (folder / name).write_text("\n".join(part) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
