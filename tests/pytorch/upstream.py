#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a file of PyTorch's own tests, such as test/distributed/test_store.py, with a daemon in place of each TCPStore
server that a test starts. The file is not part of this repository; take it from PyTorch's sources of VERSION.

    upstream.py FILE VERSION [-k PATTERN]... [--own]

Prints a line for each test, with the number of daemons that it started, and exits with 1 if a test fails that is not in
ABOUT_THE_SERVER. With --own, PyTorch's own servers serve and no test is left out: what fails then, too, is not the daemon's
fault."""
import argparse
import faulthandler
import fnmatch
import importlib.util
import os
import signal
import subprocess
import sys
import time
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

MOST_OF_A_TEST = 120.0

# Tests of what only PyTorch's own server has: pattern of the test's name, and why the daemon is not asked.
ABOUT_THE_SERVER = {
    "*.test_address_already_in_use": "the error text of PyTorch's server when its port is taken",
    "*.test_take_over_listen_socket": "hands a socket to PyTorch's server, in the same process",
    "*.test_agent_store": "the refusal of a second server of PyTorch on a port",
    "*.test_repr": "the text of a store object that has a server in it",
    "*.test_store_timeout_on_missing_clients": "PyTorch's server waits for the clients before its constructor returns",
}


def skip_listed(suite):
    """Marks the tests that are in ABOUT_THE_SERVER."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            skip_listed(test)
            continue
        for pattern, reason in ABOUT_THE_SERVER.items():
            if fnmatch.fnmatchcase(test.id(), pattern):
                setattr(test, test._testMethodName, unittest.skip(f"listed: {reason}")(lambda: None))


class Result(unittest.TestResult):
    """Prints how each test ended, and stops the daemons that it has started."""

    def __init__(self, daemons):
        super().__init__()
        self.daemons = daemons
        self.passed = 0
        self.served = 0

    def bad(self):
        """Returns the lists of tests that make the run fail, each as [(test, text)]."""
        return self.failures, self.errors, [(test, "unexpected success") for test in self.unexpectedSuccesses]

    def addError(self, test, err):
        super().addError(test, err)
        if not isinstance(test, unittest.TestCase):  # of a class or of the file; no test begins
            print(f"FAILED {test}", self.errors[-1][1], sep="\n", flush=True)

    def startTest(self, test):
        super().startTest(test)
        faulthandler.dump_traceback_later(MOST_OF_A_TEST, exit=True)
        self.before = [len(bad) for bad in self.bad()], len(self.skipped), len(self.daemons), time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        bad, skipped, daemons, begin = self.before
        started = len(self.daemons) - daemons
        stopped = self.daemons.stop_since(daemons)
        self.errors += [(test, "a daemon has ended by itself") for ended, _ in stopped if ended]
        name = test.id().split(".", 1)[1]
        texts = [text for now, before in zip(self.bad(), bad) for _, text in now[before:]]
        if texts:
            print(f"FAILED {name}", *texts, *(log for _, log in stopped), sep="\n")
        elif len(self.skipped) > skipped:
            print(f"skipped {name}: {self.skipped[-1][1]}")
        else:
            self.passed += 1
            self.served += started > 0
            print(f"ok {name} (daemons: {started}; {time.monotonic() - begin:.1f} s)")
        sys.stdout.flush()


def import_file(path):
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def provide_expecttest():
    """PyTorch's test tools import this package, which Debian and pip do not bring with PyTorch."""
    if importlib.util.find_spec("expecttest") is None:
        module = sys.modules["expecttest"] = types.ModuleType("expecttest")
        module.TestCase, module.ACCEPT = unittest.TestCase, False


def run_inside(options):
    """In the interpreter that has this version of PyTorch."""
    from daemon_stores import Daemons, replace_servers
    sys.argv = [options.file]  # PyTorch's test tools parse it
    provide_expecttest()
    import torch.distributed
    import torch.testing._internal.common_distributed  # noqa: F401
    daemons = Daemons()
    if not options.own:
        replace_servers(torch.distributed, daemons)
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in options.k] or None
    module = import_file(options.file)
    print(f"daemons that serve the whole file: {len(daemons)}", flush=True)
    vars(module).pop("load_tests", None)  # PyTorch's own filter for its CI
    suite = loader.loadTestsFromModule(module)
    if not options.own:
        skip_listed(suite)
    result = Result(daemons)
    suite.run(result)
    for ended, log in daemons.stop_since(0):
        if ended:
            result.errors.append((suite, log))
            print(f"FAILED: a daemon of the whole file has ended by itself\n{log}")
    print(f"PyTorch {torch.__version__}: {result.passed} passed, {result.served} of them with daemons of their own, "
          f"{len(result.skipped)} skipped, {sum(map(len, result.bad()))} failed", flush=True)
    # A thread of PyTorch may still wait for a server; its end is not under test.
    os._exit(0 if result.wasSuccessful() and result.passed else 1)


def run_outside(options):
    from environments import install, python_of
    python = python_of(options.version) or (install(options.version) if options.install else None)
    if python is None:
        print(f"PyTorch {options.version}: SKIPPED: not installed; ./dev torch {options.version} installs it")
        return 77
    inside = subprocess.Popen([python, "-B", os.path.abspath(__file__), "--inside", *sys.argv[1:]],
                              start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        return inside.wait()
    finally:
        try:
            os.killpg(inside.pid, signal.SIGKILL)  # daemons that are left when a test hangs
        except ProcessLookupError:
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("-k", action="append", default=[], metavar="PATTERN", help="only tests with this in their names")
    parser.add_argument("--own", action="store_true", help="PyTorch's own servers, for comparison")
    parser.add_argument("--install", action="store_true", help="make the environment if it is missing")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not os.path.isfile(options.file):
        parser.error(f"{options.file}: no such file; take it from PyTorch's sources: test/distributed/test_store.py")
    return run_inside(options) if options.inside else run_outside(options)


if __name__ == "__main__":
    sys.exit(main())
