#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""includes.py finds a name whose header is not included, and nothing else."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from includes import offences  # noqa: E402

HOME = {"protocol/rank.h": "struct Rank {\n  int number;\n};\nenum class Kind : int { one };\nusing Ranks = int;\n"}
MISSING = ['client/a.h: names Rank; include "protocol/rank.h"']


class Includes(unittest.TestCase):
    def found(self, text, **others):
        return offences({**HOME, "client/a.h": text, **{path.replace("__", "/") + ".h": other for path, other in others.items()}})

    def test_a_header_that_is_missing_is_named(self):
        self.assertEqual(MISSING, self.found("int f(const Rank& rank);\n"))
        self.assertEqual(MISSING, self.found('#include "client/b.h"\nRank of(int);\n', client__b="int b;\n"))
        self.assertEqual(MISSING, self.found("constexpr int kMost = 100'000;\nRank of(int a = 'a', int b = 1'000);\n"))
        both = self.found("Ranks all(Kind kind);\n")
        self.assertEqual(["Kind", "Ranks"], [offence.split()[2].rstrip(";") for offence in both])

    def test_an_include_counts_through_others(self):
        through = '#include "protocol/rank.h"\n'
        self.assertEqual([], self.found(through + "Rank of(int);\n"))
        self.assertEqual([], self.found('#include "client/b.h"\nRank of(int);\n', client__b=through))
        self.assertEqual([], self.found("#include <c10dd/rank.h>\nRank of(int);\n"))
        self.assertEqual([], self.found("#include <c10dd/c10dd.h>\nRank of(int);\n"))

    def test_other_things_of_that_name_do_not_count(self):
        for innocent in ("struct Rank;\nRank* of(int);\n", "// a Rank\n/* Rank */ const char* text = \"Rank\";\n",
                         "template <class Rank>\nRank of(int);\n", "mpi::Rank of(int);\n", "int a = of.Rank + of->Rank;\n",
                         "using Rank = int;\nRank of(int);\n", "TEST(Rank, IsANumber) {}\n", "#include <Eigen/Rank>\n"):
            self.assertEqual([], self.found(innocent), innocent)

    def test_a_name_with_two_headers_is_left_to_the_compiler(self):
        self.assertEqual([], self.found("Rank of(int);\n", daemon__rank="struct Rank { int own; };\n"))

    def test_a_header_of_the_tests_is_no_home_for_the_product(self):
        text = {"tests/fake.h": "struct Fake { int a; };\n", "client/a.h": "Fake of(int);\n", "tests/b.h": "Fake of(int);\n"}
        self.assertEqual(['tests/b.h: names Fake; include "tests/fake.h"'], offences(text))


if __name__ == "__main__":
    unittest.main()
