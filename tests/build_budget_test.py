#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of build_budget.py finds its planted offence, and leaves what is within its budget alone."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import build_budget as budget  # noqa: E402

DEPS = """\
daemon/CMakeFiles/c10dd.dir/main.cc.o: #deps 2, deps mtime 1 (VALID)
    ../daemon/main.cc
    /usr/include/stdio.h

tests/CMakeFiles/core_test.dir/Unity/unity_0_cxx.cxx.o: #deps 1, deps mtime 1 (VALID)
    a.cc

tests/CMakeFiles/core_test.dir/Unity/unity_1_cxx.cxx.o: #deps 1, deps mtime 1 (VALID)
    a.cc

tests/CMakeFiles/core_test.dir/removed.cc.o: #deps 1, deps mtime 1 (STALE)
    a.cc
"""
SIZES = {"../daemon/main.cc": 400_000, "/usr/include/stdio.h": 600_000, "a.cc": 5_000_000}
GOOD = "# what it may cost\nbuild c10dd 1 units 1.0 MB\nbuild core_test 2 units 10.0 MB\ntest ^sim 480 s: it searches\n"
TESTS = {"tests": [
    {"name": "sim", "properties": [{"name": "LABELS", "value": ["sim"]}, {"name": "TIMEOUT", "value": 480.0}]},
    {"name": "Keys.Are", "properties": [{"name": "TIMEOUT", "value": 60.0}]}, {"name": "plain"}]}


class BuildBudget(unittest.TestCase):
    def offences(self, text=GOOD, sizes=None, tests=None):
        found = budget.units_of(DEPS, {**SIZES, **(sizes or {})}.__getitem__)
        budgets, limits, offences = budget.read_budgets(text)
        return [*offences, *budget.check_units(found, budgets),
                *budget.check_limits(budget.limits_of(tests or TESTS), limits)]

    def test_what_is_within_its_budget_is_no_offence(self):
        self.assertEqual([], self.offences())
        self.assertEqual([], self.offences(sizes={"a.cc": 5_150_000}))

    def test_more_megabytes_than_3_percent_above_the_budget(self):
        self.assertEqual([(3, "target core_test reads 10.4 MB, budget 10.0 and 3 %; include less, or say "
                              "--write and give the reason in the commit")],
                         self.offences(sizes={"a.cc": 5_200_000}))

    def test_more_units(self):
        self.assertEqual([(3, "target core_test has 2 units, budget 1; add sources to an older target")],
                         self.offences(GOOD.replace("2 units", "1 units")))

    def test_a_target_without_a_budget(self):
        self.assertEqual([(1, "target c10dd has no budget: it has 1 units that read 1.0 MB; say --write")],
                         self.offences(GOOD.replace("build c10dd 1 units 1.0 MB", "")))

    def test_a_long_test_without_a_reason(self):
        self.assertEqual([(1, "test sim may take 480 s, limit 60 s without a reason; add a line `test`")],
                         self.offences(GOOD.replace("test ^sim 480 s: it searches", "")))

    def test_another_limit_than_the_test_has(self):
        self.assertEqual([(4, "test sim may take 480 s, but 300 s stand here")],
                         self.offences(GOOD.replace("480", "300")))

    def test_a_line_for_a_test_that_is_not_long_any_more(self):
        self.assertEqual([(5, "no test that matches ^plain may take 90 s; remove the line")],
                         self.offences(GOOD + "test ^plain 90 s: it waits\n"))

    def test_lines_without_a_reason_or_with_other_words(self):
        for line in ("test ^sim 480 s:", "build c10dd", "c10dd 1 units 1.0 MB", "test sim: it searches"):
            with self.subTest(line=line):
                wrong = [found for found in self.offences(GOOD + line + "\n") if found[0] == 5]
                self.assertEqual([(5, f"{line!r} is neither `build TARGET N units N.N MB` nor "
                                      "`test REGEX SECONDS s: REASON`")], wrong)

    def test_writing_keeps_the_reasons(self):
        found = budget.units_of(DEPS, SIZES.__getitem__)
        again = budget.written("test ^sim 480 s: it searches\nbuild gone 9 units 9.0 MB\n", found)
        self.assertEqual([], self.offences(again))
        self.assertNotIn("gone", again)

    def test_only_the_preset_release_is_measured(self):
        good = "CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_UNITY_BUILD:UNINITIALIZED=ON\nC10DD_SANITIZE:STRING=\n"
        self.assertTrue(budget.is_release(good))
        self.assertFalse(budget.is_release(good.replace("=ON", "=OFF")))
        self.assertFalse(budget.is_release(good.replace("SANITIZE:STRING=", "SANITIZE:STRING=address")))


if __name__ == "__main__":
    unittest.main()
