#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of tidy.py finds its planted offence, with its line, and leaves the innocent alone."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import tidy  # noqa: E402

HEAD = "// SPDX-License-Identifier: Apache-2.0\n// What it is.\n"


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def offences(self, path, body, head=HEAD):
        """What tidy says of a new tree with this one file; sources are listed in a target."""
        self.setUp()
        guard = "#pragma once\n" if path.endswith(".h") and head == HEAD else ""
        self.write(path, head + guard + body)
        self.write("CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\n# All.\n" + path +
                   "\nset(public_headers\n  client/client.h ddp/reducer.h\n  protocol/types.h)\n")
        return list(tidy.check_tree(self.root))

    def assert_found(self, path, body, line, words, head=HEAD):
        found = self.offences(path, body, head)
        self.assertEqual([(path, line)], [offence[:2] for offence in found], found)
        self.assertIn(words, found[0][2])

    def assert_clean(self, path, body, head=HEAD):
        self.assertEqual([], self.offences(path, body, head))

    # ---- arrows ----

    def test_arrows_point_down(self):
        self.assert_clean("daemon/shard/shard.cc", '#include "daemon/core/job/job.h"\n')
        self.assert_clean("daemon/forwarder_link.cc", '#include "client/client.h"\n')
        self.assert_clean("daemon/server.cc", '#include "daemon/http/http_session.h"\n')
        self.assert_clean("daemon/http/x.cc", '#include "daemon/net/protocols.h"\n')
        self.assert_clean("daemon/net/x.cc", '#include "daemon/shard/shard.h"\n')
        self.assert_clean("daemon/shard/x.cc", '#include "daemon/metrics/metrics.h"\n')
        self.assert_clean("daemon/metrics/x.cc", '#include "daemon/config/options.h"\n')
        self.assert_clean("tests/unit/x_test.cc", '#include "daemon/core/job/job.h"\n')
        self.assert_clean("tests/history/x_test.cc", '#include "tests/sim/random.h"\n')

    def test_an_arrow_that_points_up_is_found(self):
        for path, include in [
            ("protocol/x.cc", "store/engine.h"),
            ("store/x.cc", "daemon/shard/shard.h"),
            ("daemon/core/x.cc", "daemon/shard/shard.h"),
            ("daemon/core/x.cc", "store/engine.h"),
            ("daemon/x.cc", "client/client.h"),
            ("daemon/config/x.cc", "daemon/metrics/metrics.h"),
            ("daemon/config/x.cc", "daemon/net/protocols.h"),
            ("daemon/metrics/x.cc", "daemon/shard/shard.h"),
            ("daemon/shard/x.cc", "daemon/net/stream.h"),
            ("daemon/shard/x.cc", "daemon/http/route_table.h"),
            ("daemon/net/x.cc", "daemon/http/route_table.h"),
            ("daemon/net/x.cc", "daemon/server.h"),
            ("daemon/net/x.cc", "store/engine.h"),
            ("daemon/http/x.cc", "daemon/server.h"),
            ("daemon/http/x.cc", "daemon/core/job/job.h"),
            ("client/core/x.cc", "client/client.h"),
            ("client/x.cc", "collectives/work.h"),
            ("collectives/x.cc", "ddp/buckets.h"),
            ("collectives/x.cc", "client/core/window.h"),
            ("tests/history/x.cc", "tests/sim/records.h"),
        ]:
            with self.subTest(path=path, include=include):
                self.assert_found(path, f'\n#include "{include}"\n', 4, "may not include")

    def test_a_circle_of_folders_is_found(self):
        guard = HEAD + "#pragma once\n"
        self.write("daemon/a/x.h", guard + '#include "daemon/b/x.h"\n')
        self.write("daemon/b/x.h", guard + '#include "daemon/c/x.h"\n')
        self.write("daemon/c/x.h", guard + '#include "daemon/b/y.h"\n#include "daemon/c/y.h"\n')
        self.write("daemon/c/y.h", guard + '#include "daemon/a/x.h"\n')
        found = list(tidy.check_tree(self.root))
        self.assertEqual([("daemon/a/x.h", 4), ("daemon/b/x.h", 4), ("daemon/c/x.h", 4),
                          ("daemon/c/y.h", 4)], [offence[:2] for offence in found], found)
        self.assertIn("daemon/a includes daemon/b, which includes daemon/a", found[0][2])
        self.write("daemon/c/x.h", guard + '#include "daemon/x.h"\n')
        self.write("daemon/c/y.h", guard + '// #include "daemon/a/x.h"\n')
        self.write("daemon/x.h", guard + '#include "daemon/c/y.h"\n')
        self.assertEqual([], list(tidy.check_tree(self.root)))

    def test_public_headers_and_users_include_what_is_installed(self):
        self.assert_clean("client/client.h", "#include <c10dd/types.h>\n")
        self.assert_clean("examples/x.cc", "#include <c10dd/c10dd.h>\n#include \"examples/x.h\"\n")
        self.assert_clean("tests/user/x.cc", "#include <c10dd/client.h>\n")
        self.assert_clean("client/x.cc", '#include "client/client.h"\n')
        for path, include, words in [
            ("client/client.h", '"protocol/types.h"', "not installed under that name"),
            ("client/client.h", "<c10dd/error.h>", "not in the list public_headers"),
            ("client/client.h", "<boost/system/result.hpp>", "only the standard library"),
            ("client/client.h", "<c10dd/reducer.h>", "may not include ddp"),
            ("client/x.cc", "<c10dd/types.h>", 'say "protocol/types.h"'),
            ("tests/unit/x.cc", "<c10dd/client.h>", 'say "client/client.h"'),
            ("examples/x.cc", '"client/client.h"', "say <c10dd/...>"),
        ]:
            with self.subTest(path=path, include=include):
                body = f"\n#include {include}\n"
                if path.endswith(".h"):  # below its guard
                    body = body[1:]
                self.assert_found(path, body, 4, words)

    def test_an_include_beside_the_root_is_found(self):
        self.assert_found("store/x.cc", '#include "engine.h"\n', 3, "root of the repository")

    def test_an_include_in_a_comment_is_no_include(self):
        self.assert_clean("protocol/x.cc", '// #include "store/engine.h"\n')

    def test_vendor_headers_stay_in_their_file(self):
        self.assert_clean("store/rocks/engine.cc", "#include <rocksdb/db.h>\n")
        self.assert_found("store/x.cc", "#include <rocksdb/db.h>\n", 3, "store/rocks/*.cc")

    def test_a_pure_folder_does_no_io(self):
        self.assert_found("client/core/x.cc", "#include <boost/asio/post.hpp>\n", 3, "pure folder")

    # ---- words ----

    def test_banned_words_are_found(self):
        for path, body, words in [
            ("daemon/core/x.cc", "using C = std::chrono::system_clock;\n", "pass now"),
            ("store/x.cc", "auto t = std::chrono::steady_clock::now();\n", "pass now"),
            ("client/core/x.cc", "std::random_device d;\n", "pass a seed"),
            ("tests/unit/x_test.cc", "std::this_thread::sleep_for(a);\n", "advance time"),
            ("daemon/x.cc", "std::regex r;\n", "std::regex"),
            ("daemon/x.cc", "using namespace std;\n", "using namespace"),
            ("daemon/shard/shard.cc", "std::mutex m;\n", "LOCKS_ALLOWED"),
            ("daemon/shard/shard.cc", "std::condition_variable c;\n", "LOCKS_ALLOWED"),
            ("daemon/x.cc", 'auto n = "c10dd_requests_total";\n', "metric_catalog.h"),
            ("daemon/x.cc", 'log_info("event=admitted a={}", a);\n', "log_caused()"),
            ("daemon/x.cc", 'log_as(level, line, "event=serving"); log_warn(kLine);\n', "log_caused()"),
            ("daemon/x.cc", "// FIXME: later\n", "left for later"),
            ("tests/sim/x.cc", '#include "daemon/shard/shard.h"\n', "a copy of the shell"),
            ("tests/sim/x.cc", '#include "daemon/core/job/job.h"\n', "a copy of the shell"),
            ("docs/x.md", "see /work/notes\n", "somebody's machine"),
            ("daemon/x.cc", "struct RelayDoorKey;\n", "retired word"),
            ("client/x.cc", "auto r = start(Crew{});\n", "retired word"),
            ("docs/x.md", "Options: `foo` is no engine.\n", "retired word"),
            ("daemon/x.cc", "void close(Door* it);\n", "retired word"),
            ("docs/x.md", "A daemon reads the pulse.\n", "retired word"),
            ("dev", "cd /root/c10dd\n", "somebody's machine"),
        ]:
            with self.subTest(path=path, body=body):
                head = {"dev": "# SPDX-License-Identifier: Apache-2.0\n# It.\n"}.get(path, HEAD)
                self.assert_found(path, body, 3, words, head)

    def test_innocent_words_are_left_alone(self):
        for path, body in [
            ("daemon/core/x.cc", "// never the system_clock\n"),
            ("daemon/core/x.cc", 'auto text = "steady_clock::now()";\n'),
            ("daemon/shard/shard.cc", "auto t = std::chrono::steady_clock::now();\n"),
            ("store/group_commit.cc", "std::mutex m;\n"),
            ("tests/integration/x.cc", "std::this_thread::sleep_for(a);\n"),
            ("daemon/x.cc", "using namespace std::chrono_literals;\n"),
            ("collectives/x.cc", 'auto s = "c10dd_backend_module"; auto l = "libc10dd_x";\n'),
            ("protocol/metric_catalog.h", 'auto n = "c10dd_requests_total";\n'),
            ("daemon/x.cc", "int n = 131'072; std::mutex_like m; char c = '\"'; // \"c10dd_x\n"),
        ]:
            with self.subTest(path=path, body=body):
                self.assert_clean(path, body)

    # ---- files ----

    def test_a_long_file_is_found(self):
        self.assert_clean("store/x.cc", "\n" * 498)
        self.assert_found("store/x.cc", "\n" * 499, 501, "501 lines, limit 500")

    def test_a_file_starts_with_licence_and_purpose(self):
        self.assert_found("store/x.cc", "int x;\n", 1, "SPDX", head="")
        spdx = HEAD.splitlines(keepends=True)[0]
        self.assert_found("store/x.cc", "int x;\n", 2, "what the file is", head=spdx)
        self.assert_clean("store/x.cc", '#include "store/x.h"\n', head=spdx)

    def test_a_header_has_a_guard(self):
        self.assert_found("store/x.h", "", 1, "#pragma once", head=HEAD + "int x;\n")

    def test_folders_have_names(self):
        self.assert_found("docs/misc/x.md", "", 1, "says nothing")
        self.assert_found("lib/x.md", "", 1, "not a layer")

    def test_a_source_that_no_target_lists_is_found(self):
        self.assert_clean("store/x.cc", "")
        self.write("store/orphan.cc", HEAD)
        self.assertEqual([("store/orphan.cc", 1, "no CMakeLists.txt lists this source")],
                         list(tidy.check_tree(self.root)))

    def test_a_nested_list_names_sources_from_its_folder(self):
        self.write("tests/CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\n# T.\nunit/a.cc")
        self.write("tests/unit/a.cc", HEAD)
        self.assertEqual([], list(tidy.check_tree(self.root)))

    def test_a_link_to_nowhere_is_found(self):
        self.assert_clean("README.md", "[here](README.md#top) [there](https://example.org/x)\n")
        self.assert_found("docs/x.md", "\n[gone](../y.md)\n", 4, "does not exist")
        self.assert_clean("docs/x.md", "```cpp\nrun([&](Turn& turn) {});\n```\n")
        self.assert_found("docs/x.md", "```\ncode\n```\n[gone](y.md)\n", 6, "does not exist")

    def test_what_git_ignores_is_not_read(self):
        self.offences("store/x.cc", "")
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.write(".gitignore", "/scratch/\n")
        self.write("scratch/x.cc", "using namespace std;\n")
        self.assertEqual([], list(tidy.check_tree(self.root)))

    # ---- the program ----

    def test_the_program_prints_the_offence_and_fails(self):
        self.offences("daemon/x.cc", "using namespace std;\n")
        program = [sys.executable, "-B", tidy.__file__, str(self.root)]
        failed = subprocess.run(program, capture_output=True, text=True, check=False)
        self.assertEqual(1, failed.returncode)
        self.assertIn("daemon/x.cc:3: using namespace", failed.stdout)
        self.write("daemon/x.cc", HEAD)
        self.assertEqual(0, subprocess.run(program, capture_output=True, check=False).returncode)


if __name__ == "__main__":
    unittest.main()
