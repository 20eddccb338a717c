# SPDX-License-Identifier: Apache-2.0
"""Tests which faults a line of C++ can have."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from faults import faults_of  # noqa: E402
from mutate import below, failed_in  # noqa: E402


class Faults(unittest.TestCase):
    def kinds(self, line):
        return {(kind, new.strip()) for kind, new in faults_of(line)}

    def assert_has(self, line, kind, new):
        self.assertIn((kind, new), self.kinds(line))

    def test_comparisons_are_swapped(self):
        self.assert_has("  if (a < b) return;", "comparison", "if (a <= b) return;")
        self.assert_has("  return a && b;", "comparison", "return a || b;")
        self.assertNotIn("comparison", {k for k, _ in faults_of("  std::vector<int> x;")})

    def test_constants_change_by_one(self):
        self.assertLessEqual({("constant", "x = 11;"), ("constant", "x = 9;")},
                             self.kinds("  x = 10;"))
        self.assertEqual(set(), {k for k in self.kinds("  // 10") if k[0] == "constant"})

    def test_strings_are_not_code(self):
        self.assertEqual([], [k for k in faults_of('  say("a < b, 10 of them");')
                              if k[0] in ("comparison", "constant", "wrong variable")])

    def test_calls_and_resets_are_left_out(self):
        self.assert_has("  touched_.clear();", "reset left out", ";")
        self.assert_has("  slot->touched = false;", "reset left out", ";")
        self.assert_has("  arm_timer();", "call left out", ";")
        self.assert_has("  if (is_late()) arm_timer();", "call left out", "if (is_late());")
        self.assert_has("  for (auto& f : std::exchange(late_, {})) f();", "reset left out",
                        "for (auto& f : late_) f();")

    def test_notifications_are_left_out(self):
        self.assert_has("  answered_.notify_one();", "notification left out", ";")
        self.assert_has("  if (!was(x)) arrived_.notify_all();", "notification left out", "if (!was(x));")

    def test_conditions_are_reversed(self):
        self.assert_has("  if (a(b) && c) {", "condition reversed", "if (!(a(b) && c)) {")
        self.assert_has("  } else if (ready_) {", "condition reversed", "} else if (!(ready_)) {")
        for line in ("  if (const auto it = f(); it != end) {", "  if (auto* x = g()) h(x);", "  if (a &&"):
            self.assertNotIn("condition reversed", {k for k, _ in faults_of(line)}, line)

    def test_error_paths_are_left_out(self):
        self.assert_has("  if (!written) return written.error();", "error path left out", ";")
        self.assert_has("  if (late) continue;", "error path left out", ";")

    def test_variables_are_mixed_up(self):
        self.assert_has("  copy(from, to.end, 3);", "wrong variable", "copy(to.end, from, 3);")
        self.assert_has("  return it->second;", "wrong variable", "return it->first;")

    def test_functions_return_early(self):
        self.assert_has("  arm_timer();", "early return", "if (true) return; arm_timer();")

    def test_declarations_have_no_faults(self):
        for line in ("#include <map>", "template <class T>", "}", "using A = B;"):
            self.assertEqual([], faults_of(line), line)


class Output(unittest.TestCase):
    def test_the_failed_tests_are_read_from_the_end_of_ctest(self):
        said = ("97% tests passed, 2 tests failed out of 9\n\nThe following tests did not run:\n\t  1 - gpu (Skipped)\n\n"
                "The following tests FAILED:\n\t 53 - A/B.C/gloo  # GetParam() = 3 (Failed)\n\t  7 - x_test (Timeout)\n"
                "Errors while running CTest\n")
        self.assertEqual([("A/B.C/gloo  # GetParam() = 3", "Failed"), ("x_test", "Timeout")], failed_in(said))

    def test_paths_are_files_and_folders(self):
        self.assertTrue(below("daemon/net/relay.cc", ["store", "daemon/net"]))
        self.assertTrue(below("daemon/net/relay.cc", ["daemon/net/relay.cc"]))
        self.assertFalse(below("daemon/network.cc", ["daemon/net"]))


if __name__ == "__main__":
    unittest.main()
