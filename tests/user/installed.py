# SPDX-License-Identifier: Apache-2.0
"""A machine of a user: an installation that was moved after it was made, and the trainer of this
folder, built against it where no Boost can be found."""
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.dirname(os.environ.get("C10DD_BIN", os.path.join(HERE, "../../build/bin")))


def run(*command):
    """What a command says; an AssertionError with it unless it exits 0."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n"
                             f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr


def compiler():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read(), re.MULTILINE)[1]


class Installed:
    """Below `folder`: the moved tree at .prefix, which was installed to .staged; the trainer's build
    at .build."""

    def __init__(self, folder):
        self.staged = os.path.join(folder, "staged")
        self.prefix = os.path.join(folder, "some where", "c10dd")
        self.build = os.path.join(folder, "build")
        run("cmake", "--install", BUILD, "--prefix", self.staged)
        os.mkdir(os.path.dirname(self.prefix))
        os.rename(self.staged, self.prefix)
        self.bin = os.path.join(self.prefix, "bin")
        self.include = os.path.join(self.prefix, "include")

    def build_trainer(self):
        """Its path."""
        run("cmake", "-S", HERE, "-B", self.build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={compiler()}",
            "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON", "-DCMAKE_BUILD_TYPE=Debug",
            f"-DCMAKE_INSTALL_PREFIX={os.path.join(self.build, 'usr')}")
        run("cmake", "--build", self.build)
        return os.path.join(self.build, "trainer")
