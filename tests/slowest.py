#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the sum of the times of all tests, and the ten slowest, from the report that ctest has written
with --output-junit.

    slowest.py REPORT"""

import sys
import xml.etree.ElementTree as ElementTree

SHOWN = 10


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: slowest.py REPORT")
    cases = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    times = sorted(((float(case.get("time", 0)), case.get("name").split("  # ")[0]) for case in cases),
                   reverse=True)
    print(f"{len(times)} tests took {sum(seconds for seconds, _ in times):.0f} s in sum; the slowest:")
    for seconds, name in times[:SHOWN]:
        print(f"{seconds:8.1f} s  {name}")


if __name__ == "__main__":
    main()
