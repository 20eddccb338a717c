# SPDX-License-Identifier: Apache-2.0
"""Tests what is read from gcov: on a small program that gcov counts, and on names."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import coverage  # noqa: E402

PROGRAM = """template <class T>
T twice(T x) {
  return x + x;
}
struct Box {
  int open() { return 1; }
  int close() { return 2; }
};
int main() {
  return twice(2) + twice(1L) == 6 && Box().open() == 1 ? 0 : 1;
}
"""


class Names(unittest.TestCase):
    def test_a_name_has_neither_template_arguments_nor_parameters(self):
        for demangled, name in (
                ("c10dd::Calls::add(c10dd::Request, long)", "c10dd::Calls::add"),
                ("int c10dd::(anonymous namespace)::twice<int>(int)", "c10dd::twice"),
                ("std::map<int, std::less<int> > c10dd::f<std::map<int, int> >(int)", "c10dd::f"),
                ("c10dd::Box<int>::open() const", "c10dd::Box::open"),
                ("main", "main")):
            self.assertEqual(name, coverage.bare_name(demangled), demangled)


class Counts(unittest.TestCase):
    def test_lines_and_functions_of_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            (tree / "client").mkdir()
            (tree / "client/box.cc").write_text(PROGRAM)
            build = tree / "build"
            build.mkdir()
            subprocess.run(["c++", "--coverage", "-O0", f"-ffile-prefix-map={tree}/=", "-c", tree / "client/box.cc",
                            "-o", "box.o"], cwd=build, check=True)
            subprocess.run(["c++", "--coverage", "box.o", "-o", "box"], cwd=build, check=True)
            for counts in (build, tree / "apart"):
                prefix = "" if counts == build else str(counts)
                subprocess.run([build / "box"], cwd=build, check=True, env={**os.environ, "GCOV_PREFIX": prefix})
            found = coverage.read(build, build, tree)
            apart = coverage.read(tree / "apart", build, tree)
        self.assertEqual(found.lines, apart.lines)
        self.assertEqual(found.functions, apart.functions)
        lines = found.lines["client/box.cc"]
        self.assertTrue({3, 6, 10} <= lines, lines)
        self.assertNotIn(7, lines)
        never = {name.split("::")[-1] for _, _, name in found.never_called()}
        self.assertNotIn("twice", never)
        self.assertNotIn("open", never)
        twice = found.functions[("client/box.cc", 2, "twice")]
        self.assertEqual(2, twice, "both instantiations count together")
        found.merge(found)
        self.assertEqual(4, found.functions[("client/box.cc", 2, "twice")])


if __name__ == "__main__":
    unittest.main()
