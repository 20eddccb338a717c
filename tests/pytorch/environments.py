# SPDX-License-Identifier: Apache-2.0
"""The Pythons with a version of PyTorch each: Debian's own 1.13.1, and virtual environments in the
user's cache, which `./dev torch VERSION` makes."""
import os
import subprocess

DEBIAN = "1.13.1"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "c10dd/torch")


def python_of(version):
    """The interpreter that has this version, or None if nobody has installed it."""
    python = "/usr/bin/python3" if version == DEBIAN else os.path.join(CACHE, version, "bin/python")
    if not os.path.exists(python):
        return None
    works = subprocess.run([python, "-c", "import torch.distributed"], capture_output=True, check=False)
    return python if works.returncode == 0 else None


def numbers_of(version):
    """(2, 1) of 2.1.2+cpu."""
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


def install(version):
    """Makes the environment of a version, or of the newest one; several gigabytes."""
    if version == DEBIAN:
        raise SystemExit("PyTorch 1.13.1 is Debian's: apt-get install python3-torch")
    folder = os.path.join(CACHE, version)
    package = "torch" if version == "newest" else f"torch=={version}"
    print(f"installs {package} into {folder}: several gigabytes", flush=True)
    numpy = "numpy<2" if version != "newest" and numbers_of(version) < (2, 3) else "numpy"
    subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
    subprocess.run([os.path.join(folder, "bin/pip"), "install", "--quiet", package, numpy], check=True)
    return python_of(version)
