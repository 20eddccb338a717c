#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library, its header and the declarations of the Python package agree; and the header is C99."""
import ctypes
import os
import re
import subprocess
import tempfile
import unittest

from package import HEADERS, LIBRARY
from c10dd import _library

TEXT = ""
for header in ("c10dd_base.h", "c10dd.h"):
    with open(os.path.join(HEADERS, header), encoding="utf-8") as file:
        TEXT += re.sub(r"//.*", "", file.read())
STRUCTS = {
    "View": "view", "Block": "bytes", "RawView": "view", "List": "list", "Missing": "missing", "Error": "error",
    "Call": "call", "ConnectOptions": "connect_options", "ClientInfo": "client_info", "Launch": "launch",
    "SetOptions": "set_options", "Condition": "condition", "Action": "action",
    "TransactionResult": "transaction_result", "Change": "change", "Changes": "changes",
    "BarrierOptions": "barrier_options", "Label": "label", "RendezvousOptions": "rendezvous_options",
    "Generation": "generation", "Member": "member", "Members": "members", "Ranks": "ranks", "Notice": "notice",
    "GroupState": "group_state", "EndpointOptions": "endpoint_options", "Endpoint": "endpoint",
    "ProxyOptions": "proxy_options", "ProxyCounts": "proxy_counts"}


def declared():
    """The functions of the header."""
    return set(re.findall(r"\bc10dd_(\w+)\(", TEXT))


class Interface(unittest.TestCase):
    def test_the_library_exports_the_functions_of_the_header_and_nothing_else(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", LIBRARY], check=True,
                                stdout=subprocess.PIPE, text=True).stdout.splitlines()
        exported = {line.split()[0].split("@")[0] for line in listed}
        self.assertEqual({"c10dd_" + name for name in declared()} | {"C10DD_1"}, exported)

    def test_the_library_needs_only_the_c_library_and_that_of_the_compiler(self):
        needed = subprocess.run(["readelf", "-d", LIBRARY], check=True, stdout=subprocess.PIPE, text=True).stdout
        names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", needed))
        if any("asan" in name or "tsan" in name for name in names):
            self.skipTest("a sanitizer's library is linked")
        self.assertLessEqual(names, {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"})
        versions = subprocess.run(["readelf", "-V", LIBRARY], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertLessEqual(max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", versions)), 34)

    def test_python_declares_all_functions(self):
        self.assertEqual(declared(), set(_library.FUNCTIONS) | set(_library.PLAIN_FUNCTIONS))

    def test_all_structs_are_declared(self):
        self.assertEqual(set(re.findall(r"typedef struct c10dd_(\w+) \{", TEXT)), set(STRUCTS.values()))

    def test_python_has_the_layout_of_the_header(self):
        checks = []
        for name, of in STRUCTS.items():
            kind = getattr(_library, name)
            checks.append(f"SAME(sizeof(c10dd_{of}), {ctypes.sizeof(kind)});")
            for field, *_ in kind._fields_:
                checks.append(f"SAME(offsetof(c10dd_{of}, {field}), {getattr(kind, field).offset});")
        self.compile('#include <c10dd.h>\n#include <stdio.h>\n#define SAME(a, b) if ((a) != (b)) '
                     'printf("%s is %zu, not %s\\n", #a, (size_t)(a), #b)\nint main(void) {\n'
                     + "\n".join(checks) + "\nreturn 0;\n}\n")

    def test_the_constants_are_those_of_the_protocol(self):
        with open(os.path.join(HEADERS, "../../protocol/codes.h"), encoding="utf-8") as file:
            codes = re.findall(r"^  (\w+) = (\d+),", file.read(), re.MULTILINE)
        self.assertEqual({name.upper(): value for name, value in codes},
                         dict(re.findall(r"C10DD_(\w+) = (\d+)", TEXT[TEXT.index("C10DD_OK"):TEXT.index("C10DD_WORK_FINISHED") + 30])))

    def compile(self, program):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.c"), "w", encoding="ascii") as file:
                file.write(program)
            subprocess.run(["cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", HEADERS, "a.c", "-o", "a"],
                           check=True, cwd=folder)
            run = subprocess.run(["./a"], cwd=folder, check=False, stdout=subprocess.PIPE, text=True)
            self.assertEqual((0, ""), (run.returncode, run.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
