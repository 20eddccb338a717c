# SPDX-License-Identifier: Apache-2.0
"""What cmake --install puts on a machine: a daemon that runs from there, a unit that systemd
accepts, and headers and libraries that a user's own project builds against."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["C10DD_SOURCE"]
BUILD = os.path.dirname(os.environ["C10DD_BIN"])


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n"
                             f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="c10dd-install-")
        cls.prefix = os.path.join(cls.folder, "usr")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_a_users_project_builds_and_talks_to_the_installed_daemon(self):
        build = os.path.join(self.folder, "consumer")
        run("cmake", "-S", os.path.join(SOURCE, "tests/integration/consumer"), "-B", build,
            "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build)
        os.environ["C10DD_BIN"] = os.path.join(self.prefix, "bin")
        from daemon import Daemon  # finds the installed program
        with Daemon() as daemon:
            host, port = daemon.address
            said = run(os.path.join(build, "consumer"), f"c10dd://{host}:{port}/consumer")
        self.assertEqual("hash store 41\ndaemon store was here\n", said)

    def test_no_header_of_a_vendor_is_needed_by_the_public_ones(self):
        for folder, _, names in os.walk(os.path.join(self.prefix, "include")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found = re.findall(r"#include <(rocksdb|hiredis|gloo|prometheus|Eigen)",
                                       file.read())
                self.assertEqual([], found, name)

    def test_systemd_accepts_the_unit_and_finds_it_hardened(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        unit = os.path.join(self.prefix, "lib/systemd/system/c10dd.service")
        with open(unit, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Type=notify", text)
        self.assertIn("StateDirectory=c10dd c10dd-checkpoints\n", text)  # the state is the first
        # verify wants the program where the unit says it is, which is here under the prefix.
        staged = os.path.join(self.folder, "c10dd.service")
        with open(staged, "w", encoding="utf-8") as file:
            file.write(text.replace("/usr/bin/c10dd", os.path.join(self.prefix, "bin/c10dd")))
        self.assertEqual("", run("systemd-analyze", "verify", "--man=no", staged).strip())
        said = run("systemd-analyze", "security", "--offline=true", "--threshold=20", staged)
        exposure = float(re.search(r"exposure level for c10dd.service: ([\d.]+)", said).group(1))
        self.assertLessEqual(exposure, 2.0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
