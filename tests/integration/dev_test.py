# SPDX-License-Identifier: Apache-2.0
"""What ./dev says and asks for before it begins, on a machine where no package is installed and
nobody may install one: apt-get, dpkg-query, id and sudo are stand-ins."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

DEV = os.path.join(os.environ["C10DD_SOURCE"], "dev")
SIZES = ("Need to get 120 MB of archives.",
         "After this operation, 621 MB of additional disk space will be used.")
STAND_INS = {
    "dpkg-query": "exit 1",
    "id": "echo 1000",
    "sudo": "exit 1",
    "apt-get": f"echo '{SIZES[0]}'; echo '{SIZES[1]}'; exit 1",
}


class Dev(unittest.TestCase):
    def dev(self, *arguments):
        """What it says until it cannot go on, and the packages that it asks for."""
        with tempfile.TemporaryDirectory() as folder:
            for name, body in STAND_INS.items():
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\n{body}\n")
                os.chmod(file.name, 0o755)
            done = subprocess.run([DEV, *arguments], capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL, timeout=60,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        asked = re.search(r"to run: apt-get install --no-install-recommends (.*)", done.stderr)[1]
        return done.stdout, set(asked.split())

    def test_a_command_for_programs_keeps_the_tests_of_a_folder_that_has_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in (".dev", "build", "bin"):
                os.mkdir(os.path.join(folder, name))
            steps = shutil.copy(os.path.join(os.path.dirname(DEV), ".dev/steps.sh"), os.path.join(folder, ".dev"))
            with open(os.path.join(folder, "bin/cmake"), "w", encoding="ascii") as file:
                file.write('#!/bin/sh\necho "$@"\n')
            os.chmod(file.name, 0o755)
            path = f"{folder}/bin:{os.environ['PATH']}"

            def tests(command):
                done = subprocess.run(["bash", "-c", f". {steps} && {command}"], capture_output=True, text=True, check=True,
                                      env={**os.environ, "PATH": path})
                return re.search(r"-DC10DD_BUILD_TESTS=(\w+)", done.stdout)[1]

            self.assertEqual("OFF", tests("configure programs"), "a new folder needs fewer packages")
            self.assertEqual("ON", tests("configure"))
            for value in ("OFF", "ON"):
                with open(os.path.join(folder, "build/CMakeCache.txt"), "w", encoding="ascii") as file:
                    file.write(f"C10DD_BUILD_TESTS:BOOL={value}\n")
                self.assertEqual(value, tests("configure programs"))
        with open(os.path.join(os.path.dirname(DEV), ".dev/wheel"), encoding="utf-8") as file:
            self.assertNotRegex(file.read(), r"\bconfigure (OFF|programs)|build/", "the wheel has a folder of its own")

    def assert_says_minutes_and_size(self, said):
        self.assertRegex(said, r"about \d+ minutes for the first build on \d+ cores")
        for line in SIZES:
            self.assertIn(line, said)

    def test_the_demo_asks_for_no_server_and_nothing_of_the_tests(self):
        said, packages = self.dev("demo")
        self.assert_says_minutes_and_size(said)
        self.assertIn("librocksdb-dev", packages)
        self.assertEqual(set(), packages & {
            "etcd-server", "prometheus", "redis-server", "systemd", "curl", "libgtest-dev",
            "libnghttp2-dev"})

    def test_the_demo_on_redis_asks_for_redis_too(self):
        self.assertEqual({"libhiredis-dev", "redis-server"},
                         self.dev("demo", "--engine", "redis")[1] - self.dev("demo")[1])

    def test_the_tests_ask_for_all_that_they_use(self):
        said, packages = self.dev("test")
        self.assert_says_minutes_and_size(said)
        self.assertLessEqual({"etcd-server", "prometheus", "redis-server", "libgtest-dev"}, packages)
        self.assertLess(self.dev("demo")[1], packages)


if __name__ == "__main__":
    unittest.main(verbosity=2)
