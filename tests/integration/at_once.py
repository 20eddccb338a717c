# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a program several at a time, because they mostly wait. Each test runs in a process
of its own, a copy of this one, and its output is printed when it has ended."""
import os
import sys
import tempfile
import time
import unittest

from daemon import SLOWDOWN


def single_tests(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from single_tests(one)
        else:
            yield one


def units(suite):
    """Suites that are independent of each other: single tests, but the tests of a class that has
    something in common for all of them stay together."""
    shared = {}
    for test in single_tests(suite):
        kind = type(test)
        if kind.setUpClass.__func__ is unittest.TestCase.setUpClass.__func__:
            yield unittest.TestSuite([test])
        else:
            shared.setdefault(kind, unittest.TestSuite()).addTest(test)
    yield from shared.values()


def start(suite, output):
    """The id of a process that runs the tests, and ends with 0 if none has failed."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child != 0:
        return child
    code = 1
    try:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        runner = unittest.TextTestRunner(sys.stderr, verbosity=2)
        code = 0 if runner.run(suite).wasSuccessful() else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # what this process would clean up at its end belongs to its parent, too


def run(suite, at_once, first):
    """How many tests there are, and the names of those that have failed."""
    waiting = sorted(units(suite), key=lambda unit: all(
        test.id().rsplit(".", 1)[-1] not in first for test in single_tests(unit)))
    count = sum(unit.countTestCases() for unit in waiting)
    running, failed = {}, []
    while waiting or running:
        while waiting and len(running) < at_once:
            unit, output = waiting.pop(0), tempfile.TemporaryFile()
            running[start(unit, output)] = unit, output
        child, status = os.wait()
        unit, output = running.pop(child)
        with output:
            output.seek(0)
            print(output.read().decode(errors="replace"), flush=True)
        if status != 0:
            failed += [test.id() for test in single_tests(unit)]
    return count, failed


def main(at_once=4, first=()):
    """In place of unittest.main(). `first` names tests that take long. With arguments, as the name of a
    test, and where sanitizers make the tests busy, they run one after the other."""
    if len(sys.argv) > 1 or SLOWDOWN > 1:
        unittest.main()
    began = time.monotonic()
    count, failed = run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]),
                        at_once, first)
    print(f"{count} tests, {at_once} at a time, in {time.monotonic() - began:.1f} s")
    for name in failed:
        print(f"failed, or of a process that has failed: {name}")
    sys.exit(1 if failed or count == 0 else 0)
