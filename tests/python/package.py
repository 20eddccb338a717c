# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: they load it from the sources, with the library of the build."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))
from daemon import BIN  # noqa: E402

PACKAGE = os.path.join(HERE, "../../client/python")
HEADERS = os.path.join(HERE, "../../client/c")
LIBRARY = os.path.join(BIN, "../lib/libc10dd.so.1")
sys.path.insert(0, PACKAGE)
os.environ["C10DD_LIBRARY"] = LIBRARY
ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}


def write_entry_points(folder):
    """Makes a folder of the path look like an installed package, whose entry points PyTorch finds."""
    import wheel
    info = os.path.join(folder, "c10dd-0.dist-info")
    os.makedirs(info)
    for name, text in (("entry_points.txt", wheel.ENTRY_POINTS), ("METADATA", "Metadata-Version: 2.1\nName: c10dd\nVersion: 0\n")):
        with open(os.path.join(info, name), "w", encoding="ascii") as file:
            file.write(text)
