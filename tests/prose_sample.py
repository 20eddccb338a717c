#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws fifty comment blocks and twenty error texts of the product for a reader who does not know the
code: is each understood at the first reading? The hash of the last commit is the seed, so the writer
of a commit cannot write for the sample. A comment is shown with the line of code that it stands at.

    ./dev sample [--seed TEXT]
"""

import argparse
import random
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("protocol/", "store/", "daemon/", "client/", "collectives/", "ddp/")
COMMENT_BLOCKS, ERROR_TEXTS = 50, 20
FEWEST_WORDS = 6  # shorter comments are labels
COMMENT = re.compile(r"^[^\"\n]*?(//[/<]*)[ \t]?(.*)$")
CALL = re.compile(r"\b(?:failure|refused?|unavailable|InvalidArgument|bad_url|misfit)\(")
STATEMENT = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"|[^";])*')
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True,
                          text=True).stdout


def comment_blocks(path, text):
    """(place, text, line of code) of each run of comment lines that has enough words."""
    block, start = [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        found = COMMENT.match(line)
        alone = line.lstrip().startswith("//")
        trailing = found and not alone and not block
        if found and (alone or trailing) and "SPDX" not in line and "----" not in line:
            start = start if block else number
            block.append(found.group(2))
            if alone:
                continue
        if sum(len(words.split()) for words in block) >= FEWEST_WORDS:
            code = line[:found.start(1)] if trailing else line
            yield f"{path}:{start}", " ".join(block), code.strip()
        block = []


def error_texts(path, text):
    """(place, text) of each statement that makes a failure; values are shown as they are written."""
    for call in CALL.finditer(text):
        end = STATEMENT.match(text, call.start()).end()
        statement = re.sub(r'"\s+"', "", text[call.start():end])  # joins the parts of a literal
        words = [found.group(1) for found in STRING.finditer(statement)]
        if sum(len(part.split()) for part in words) >= FEWEST_WORDS:
            line = text.count("\n", 0, call.start()) + 1
            yield f"{path}:{line}", " … ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default=git("rev-parse", "HEAD").strip())
    seed = parser.parse_args().seed
    names = [name for name in git("ls-files").split("\n")
             if name.startswith(FOLDERS) and name.endswith((".h", ".cc"))]
    comments, errors = [], []
    for name in names:
        text = (ROOT / name).read_text()
        comments += comment_blocks(name, text)
        errors += error_texts(name, text)
    chance = random.Random(seed)
    print(f"seed {seed}: {COMMENT_BLOCKS} of {len(comments)} comment blocks")
    for place, text, code in chance.sample(comments, COMMENT_BLOCKS):
        print(f"\n{place}" + (f"\n  {code}" if code else "") + f"\n  // {text}")
    print(f"\n{ERROR_TEXTS} of {len(errors)} error texts")
    for place, text in chance.sample(errors, ERROR_TEXTS):
        print(f"\n{place}\n  {text}")


if __name__ == "__main__":
    main()
