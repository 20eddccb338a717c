# SPDX-License-Identifier: Apache-2.0
"""What a user gets who installs c10dd and builds a trainer against it: headers that need nothing
else, mistakes answered in one sentence, programs that run without a variable."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../integration"))
import at_once  # noqa: E402
from daemon import Daemon  # noqa: E402
import relaunch  # noqa: E402
from installed import HERE, Installed, compiler, run  # noqa: E402

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def installed_daemon(**options):
    daemon = Daemon(**options)
    daemon.command[0] = os.path.join(machine.bin, "c10dd")
    return daemon


class Headers(unittest.TestCase):
    def compile(self, source, *flags, standard="c++20"):
        """The exit code and the texts of the errors."""
        done = subprocess.run(
            [compiler(), f"-std={standard}", "-fsyntax-only", "-I", machine.include, *flags,
             "-x", "c++", "-"], input=source, capture_output=True, text=True, check=False,
            env={**os.environ, "LC_ALL": "C"})
        return done.returncode, re.findall(r"error: (.*)", done.stderr)

    def assert_one_sentence(self, source, words):
        code, errors = self.compile(source)
        self.assertEqual(1, len(errors), errors)
        self.assertRegex(errors[0], words)
        self.assertNotEqual(0, code)

    def names(self):
        return sorted(os.listdir(os.path.join(machine.include, "c10dd")))

    def test_only_public_headers_are_installed_and_each_stands_alone(self):
        self.assertEqual(["c10dd", "c10dd.h", "c10dd_base.h"], sorted(os.listdir(machine.include)))
        for name in self.names():
            with self.subTest(name=name):
                self.assertEqual((0, []), self.compile(f"#include <c10dd/{name}>\n", *STRICT))

    def test_the_umbrella_has_all_of_them(self):
        done = run(compiler(), "-std=c++20", "-MM", "-I", machine.include, "-x", "c++",
                   os.path.join(machine.include, "c10dd/c10dd.h"))
        self.assertEqual(self.names(), sorted(set(re.findall(r"/c10dd/([\w.]+\.h)", done))))

    def test_no_boost_is_read(self):
        done = run(compiler(), "-std=c++20", "-M", "-I", machine.include, "-x", "c++",
                   os.path.join(machine.include, "c10dd/c10dd.h"))
        self.assertNotIn("/boost/", done)

    def test_an_older_language_is_one_sentence(self):
        for name in self.names():
            with self.subTest(name=name):
                _, errors = self.compile(f"#include <c10dd/{name}>\n", standard="c++17")
                self.assertEqual(2, len(errors), errors)
                self.assertIn("c10dd needs C++20 or newer: compile with -std=c++20", errors[0])
                self.assertIn("nothing more is compiled", errors[1])

    def test_an_unknown_element_type_is_one_sentence(self):
        for element in ("std::uint16_t", "long double"):
            with self.subTest(element=element):
                self.assert_one_sentence(
                    "#include <c10dd/tensor.h>\n"
                    f"void f(std::vector<{element}>& v) {{ c10dd::tensor_of(v); }}\n",
                    "c10dd has no DType for this element type; use float, double, ")

    def test_memory_that_cannot_be_used_is_one_sentence(self):
        for source, words in [
            ("void f(std::vector<bool>& v) { c10dd::tensor_of(v); }\n",
             "std::vector<bool> stores bits: use std::vector<std::uint8_t>"),
            ("void f(const std::vector<float>& v) { c10dd::tensor_of(v); }\n",
             "needs a writable vector that outlives the collective"),
            ("void f() { c10dd::tensor_of(std::vector<float>(3)); }\n", "this vector is a temporary"),
            ("void f(const float* v) { c10dd::tensor_of(v, 3); }\n", "this memory is const"),
        ]:
            with self.subTest(source=source):
                self.assert_one_sentence("#include <c10dd/tensor.h>\n" + source, words)

    def test_client_h_is_enough_for_a_rendezvous(self):
        self.assertEqual((0, []), self.compile(
            "#include <c10dd/client.h>\n"
            "unsigned f(c10dd::Client& client) {\n"
            '  return client.rendezvous({.group = "g", .min = 2, .max = 4})->rank();\n'
            "}\n", *STRICT))


class Trainer(unittest.TestCase):
    def test_boost_has_no_part_in_the_build(self):
        for tool in ("deps", "commands"):
            said = run("ninja", "-C", machine.build, "-t", tool)
            self.assertIn("trainer.cc", said)
            self.assertNotIn("boost", said.lower())

    def meet(self, program, ranks=3):
        """What the ranks of one rendezvous say, without their times."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("C10DD_") and name != "LD_LIBRARY_PATH"}
        with installed_daemon() as daemon:
            url = "c10dd://{}:{}/user".format(*daemon.address)
            started = [subprocess.Popen([program, "meet", url, str(ranks)], env=clean, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                       for _ in range(ranks)]
            try:
                said = [one.communicate(timeout=60)[0].strip() for one in started]
            finally:
                for one in started:
                    one.kill()
        return sorted(re.sub(r"^[\d.]+ ", "", text, flags=re.MULTILINE) for text in said)

    def test_three_ranks_meet_reduce_and_average(self):
        self.assertEqual([f"met rank={rank} size=3 sum=3.000000 weight=0.000000 gradient=1.000000"
                          for rank in range(3)], self.meet(trainer))

    def test_a_trainer_that_is_installed_finds_its_backend_too(self):
        run("cmake", "--install", machine.build)
        self.assertEqual(3, len([line for line in self.meet(os.path.join(
            machine.build, "usr/bin/trainer")) if line.startswith("met rank=")]))

    def test_the_readme_shows_this_project(self):
        with open(os.path.join(HERE, "../../README.md"), encoding="utf-8") as readme:
            shown = re.search(r"\n((?:    .*\n)*    find_package\(c10dd.*\n(?:    .*\n)*)",
                              readme.read())[1]
        with open(os.path.join(HERE, "CMakeLists.txt"), encoding="utf-8") as project:
            lines = project.read().splitlines()
        for line in shown.splitlines():
            self.assertIn(line.split("#")[0].strip(), lines)


class Launches(unittest.TestCase):
    """A few of the seeds of relaunch.py; the second restarts the daemon between two launches."""

    def test_a_job_without_a_run_is_launched_again(self):
        with installed_daemon(engine=f"rocksdb:{folder}/state") as daemon:
            for seed in (2, 3, 8, 11):
                with self.subTest(seed=seed):
                    relaunch.relaunch(seed, daemon, trainer, slack=2)

    def test_nobody_is_replaced_while_links_are_cut(self):
        with installed_daemon() as daemon:
            for seed in (5, 10):
                with self.subTest(seed=seed):
                    relaunch.cut_links(seed, daemon, trainer)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="c10dd-user-") as folder:
        machine = Installed(folder)
        trainer = machine.build_trainer()
        at_once.main()
