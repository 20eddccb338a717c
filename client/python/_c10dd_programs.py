# SPDX-License-Identifier: Apache-2.0
"""The commands that the wheel installs: each becomes the program of its name."""

from __future__ import annotations

import os
import pathlib
import sys


def _run(name: str) -> None:
    program = pathlib.Path(__file__).resolve().parent / "c10dd" / "bin" / name
    os.execv(program, [name, *sys.argv[1:]])


def c10dd() -> None:
    _run("c10dd")


def c10ddctl() -> None:
    _run("c10ddctl")


def c10drun() -> None:
    _run("c10drun")
