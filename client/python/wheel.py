#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an installation (its component `wheel`) as a wheel: wheel.py PREFIX FOLDER. ./dev wheel calls it.

The wheel needs no compiler, no PyTorch and no package but Python 3.9: it has the programs in c10dd/bin,
the library in c10dd/lib, and in c10dd/lib/c10dd the libraries of other projects that they need.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What a build with C10DD_BUNDLE needs of the system: GLIBC_2.34 and GLIBCXX_3.4.29, as RHEL 9, Ubuntu 22.04 and Debian 12 have.
PLATFORM = "manylinux_2_34_x86_64"
ENTRY_POINTS = """\
[console_scripts]
c10dd = _c10dd_programs:c10dd
c10ddctl = _c10dd_programs:c10ddctl
c10drun = _c10dd_programs:c10drun

[torch.backends]
c10dd = _c10dd_torch:register

[torchrun.handlers]
c10dd = _c10dd_torch:torchrun_handler
"""


def version():
    text = (HERE / "../../CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(c10dd VERSION (\S+)", text)[1]


def metadata():
    page = (HERE / "../../docs/python.md").read_text(encoding="utf-8")
    return (f"Metadata-Version: 2.1\nName: c10dd\nVersion: {version()}\n"
            "Summary: A durable store, barriers, exchanges and groups for training jobs\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n"
            f"Classifier: Operating System :: POSIX :: Linux\n\n{page}")


def pack(prefix, folder):
    """Returns the path of the wheel."""
    library = next(prefix.glob("lib*/**/libc10dd.so.1")).parent
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch) / f"c10dd-{version()}"
        shutil.copytree(library / "python3/dist-packages", tree)
        package = tree / "c10dd"
        shutil.copy(HERE / "_c10dd_programs.py", tree)
        shutil.copytree(prefix / "bin", package / "bin")
        (package / "lib").mkdir()
        shutil.copy(library / "libc10dd.so.1", package / "lib")
        for module in library.glob("libc10dd_tls.so"):  # where the build has OpenSSL
            shutil.copy(module, package / "lib")
        (package / "lib/c10dd").mkdir()
        for path in (library / "c10dd").glob("*.so*"):
            if not path.is_symlink():
                shutil.copy(path, package / "lib/c10dd" / soname(path))
        info = tree / f"c10dd-{version()}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(metadata(), encoding="utf-8")
        (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="ascii")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: c10dd\nRoot-Is-Purelib: false\n"
                                    f"Tag: py3-none-{PLATFORM}\n", encoding="ascii")
        shutil.copy(HERE / "../../LICENSE", info)
        for licenses in prefix.glob("share/doc/c10dd/licenses"):
            shutil.copytree(licenses, info / "licenses")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["/usr/bin/python3", "-m", "wheel", "pack", "--dest-dir", folder, tree], check=True)
    return next(folder.glob(f"c10dd-{version()}-*.whl"))


def soname(path):
    """The name by which programs ask for a library: a wheel cannot have links."""
    listed = subprocess.run(["readelf", "-d", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.search(r"\(SONAME\).*\[(.*)\]", listed)[1]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    os.umask(0o022)
    print(pack(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()))
