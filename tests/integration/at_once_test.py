# SPDX-License-Identifier: Apache-2.0
"""A program whose tests run several at a time runs all of them, and fails if one does, whatever way."""
import os
import subprocess
import sys
import tempfile
import unittest

HEAD = "import os, sys, time, unittest\nimport at_once\n"
FOOT = "\nif __name__ == '__main__':\n    at_once.main(3)\n"
GOOD = """
class Good(unittest.TestCase):
    def test_a(self):
        print("A has run")
    def test_b(self):
        self.skipTest("B says why")
class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.seen = []
    def test_1(self):
        self.seen.append(1)
    def test_2(self):
        self.assertEqual([1], self.seen)
"""


class AtOnce(unittest.TestCase):
    def program(self, body, *arguments):
        """Exit code and output of a program with these tests."""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(HEAD + body + FOOT)
            file.flush()
            done = subprocess.run(
                [sys.executable, "-B", file.name, *arguments], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)),
                     "C10DD_TEST_SLOWDOWN": "1"})
        return done.returncode, done.stdout

    def test_all_have_run(self):
        code, said = self.program(GOOD)
        self.assertEqual(0, code, said)
        for text in ("A has run", "B says why", "4 tests, 3 at a time"):
            self.assertIn(text, said)

    def test_one_alone(self):
        code, said = self.program(GOOD, "Good.test_a")
        self.assertEqual(0, code, said)
        self.assertIn("Ran 1 test", said)

    def test_each_way_to_fail(self):
        for wrong in ("self.fail('why')", "raise RuntimeError('why')", "os._exit(3)", "os.kill(os.getpid(), 9)",
                      "sys.exit(0)"):
            code, said = self.program(GOOD + f"class Bad(unittest.TestCase):\n    def test_it(self):\n        {wrong}\n")
            self.assertEqual(1, code, f"{wrong}\n{said}")
            self.assertIn("failed, or of a process that has failed: __main__.Bad.test_it", said)
            self.assertIn("A has run", said)

    def test_without_tests(self):
        self.assertEqual(1, self.program("")[0])

    def test_they_overlap(self):
        """Each test waits until all three have begun."""
        with tempfile.TemporaryDirectory() as folder:
            body = (f"        open({folder!r} + '/' + self.id(), 'w').close()\n"
                    "        end = time.monotonic() + 30\n"
                    f"        while len(os.listdir({folder!r})) < 3:\n"
                    "            self.assertLess(time.monotonic(), end)\n"
                    "            time.sleep(0.01)\n")
            tests = "".join(f"    def test_{n}(self):\n{body}" for n in range(3))
            code, said = self.program("class Waits(unittest.TestCase):\n" + tests)
        self.assertEqual(0, code, said)


if __name__ == "__main__":
    unittest.main()
