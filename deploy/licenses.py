#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the licenses of other projects whose code is in an installation: licenses.py BUILD LIBRARIES FOLDER TARGET...

Their code is in the headers and archives from which the targets of the build were made, and in the libraries that lie in
the folder LIBRARIES. Debian's packages have these files, and each package has its copyright file, which becomes a file
of FOLDER. Does nothing where dpkg does not know the files."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

OURS = re.compile(r"(client|daemon|protocol|store)/")  # what programs and modules are made from
SYSTEM = {"libc6-dev", "linux-libc-dev"}  # the C library is not in the installation


def output_of(*words):
    return subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def headers(build):
    """The headers of the system that the objects of the build include, as ninja has recorded them."""
    found, is_ours = set(), False
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            is_ours = OURS.match(line) is not None
        elif is_ours and line.lstrip().startswith("/usr/"):
            found.add(line.strip())
    return found


def archives(build, targets):
    """The archives that are linked, and those of the compiler that its options name."""
    commands = output_of("ninja", "-C", build, "-t", "commands", *targets)
    return set(re.findall(r"/usr/lib\S+?\.a(?=\s)", commands))


def libraries(folder):
    """The files of the system that are copied into the installation."""
    names = {path.name for path in pathlib.Path(folder).glob("*.so*")}
    listed = [line.rsplit(" ", 1)[-1] for line in output_of("/sbin/ldconfig", "-p").splitlines()]
    return {os.path.realpath(path) for path in listed if os.path.basename(path) in names}


def main(build, folder, into, *targets):
    files = headers(build) | archives(build, targets) | libraries(folder)
    files |= {path.removeprefix("/usr") for path in files}  # as packages from before the merge of /usr name them
    owners = output_of("dpkg-query", "-S", *sorted(files)).splitlines() if shutil.which("dpkg-query") else []
    packages = {owner.split(":")[0] for owner in owners} - SYSTEM
    os.makedirs(into, exist_ok=True)
    for package in sorted(packages):
        shutil.copy(f"/usr/share/doc/{package}/copyright", os.path.join(into, package))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
