#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the sum of the times of all tests, the ten slowest, and the end of the output of each test that
failed, from the report that ctest has written with --output-junit.

    summary.py REPORT"""

import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 10
LINES, WIDTH = 12, 300  # of the output of a failed test


def print_failures(cases):
    for case in cases:
        if case.find("failure") is None:
            continue
        print(f"failed: {case.get('name')}; the end of its output:")
        for line in (case.findtext("system-out") or "").strip().splitlines()[-LINES:]:
            print("    " + line[-WIDTH:])


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: summary.py REPORT")
    cases = list(ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    times = sorted(((float(case.get("time", 0)), case.get("name").split("  # ")[0]) for case in cases),
                   reverse=True)
    print(f"{len(times)} tests took {sum(seconds for seconds, _ in times):.0f} s in sum; the slowest:")
    for seconds, name in times[:SLOWEST]:
        print(f"{seconds:8.1f} s  {name}")
    print_failures(cases)


if __name__ == "__main__":
    main()
