# SPDX-License-Identifier: Apache-2.0
"""Tests which faults a line of C++ can have."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from faults import faults_of  # noqa: E402


class Faults(unittest.TestCase):
    def kinds(self, line):
        return {(kind, new.strip()) for kind, new in faults_of(line)}

    def test_comparisons_are_swapped(self):
        self.assertIn(("comparison", "if (a <= b) return;"), self.kinds("  if (a < b) return;"))
        self.assertIn(("comparison", "return a || b;"), self.kinds("  return a && b;"))
        self.assertNotIn("comparison", {k for k, _ in faults_of("  std::vector<int> x;")})

    def test_constants_change_by_one(self):
        self.assertLessEqual({("constant", "x = 11;"), ("constant", "x = 9;")},
                             self.kinds("  x = 10;"))
        self.assertEqual(set(), {k for k in self.kinds("  // 10") if k[0] == "constant"})

    def test_strings_are_not_code(self):
        self.assertEqual([], [k for k in faults_of('  say("a < b, 10 of them");')
                              if k[0] in ("comparison", "constant")])

    def test_calls_and_resets_are_removed(self):
        self.assertIn(("reset removed", ";"), self.kinds("  touched_.clear();"))
        self.assertIn(("reset removed", ";"), self.kinds("  slot->touched = false;"))
        self.assertIn(("call removed", ";"), self.kinds("  arm_timer();"))
        self.assertIn(("reset removed", "for (auto& f : late_) f();"),
                      self.kinds("  for (auto& f : std::exchange(late_, {})) f();"))

    def test_functions_return_early(self):
        self.assertIn(("early return", "if (true) return; arm_timer();"),
                      self.kinds("  arm_timer();"))

    def test_declarations_have_no_faults(self):
        for line in ("#include <map>", "template <class T>", "}", "using A = B;"):
            self.assertEqual([], faults_of(line), line)


if __name__ == "__main__":
    unittest.main()
