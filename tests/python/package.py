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
