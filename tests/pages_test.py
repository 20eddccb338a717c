#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of pages.py finds its planted offence, with its line, and leaves what is true alone."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pages  # noqa: E402

# A small repository: of each list of the sources, one name.
SOURCES = {
    "CMakeLists.txt": "set(public_headers\n  client/client.h)\n",
    "CMakePresets.json": '{"configurePresets": [{"name": "asan"}, {"name": "base", "hidden": true}]}',
    ".dev/sim": "#!/bin/bash\n#\n# help: sim --seeds N  simulate\nexec build/bin/c10dd-sim \"$@\"\n",
    ".dev/check": "#!/bin/bash\n#\n# help: check [--fix]  check\n",
    "client/client.h": 'getenv("C10DD_URL")',
    "daemon/config/option_table.cc": '    {"max_jobs", "N", Form::number, "jobs",\n',
    "daemon/config/options.cc": 'app.add_flag("--print-config")',
    "daemon/http/route_table.cc": 'constexpr Route kRoutes[] = {\n'
                                  '    {.method = "GET", .pattern = "/livez", .reply = livez},\n'
                                  '    {.method = "POST",\n     .pattern = "/v1/jobs/{job}/move",\n'
                                  '     .reply = move},\n};\n',
    "daemon/server.cc": 'spdlog::info("event=draining");\n',
    "protocol/metric_catalog.h": 'inline constexpr Info kJobs{"c10dd_jobs", Kind::gauge, "", "Jobs"};\n'
                                 'inline constexpr Info kWait{\n    "c10dd_wait_seconds", Kind::histogram',
    "tests/CMakeLists.txt": "c10dd_test(NAME job_test SRCS unit/job_test.cc)\n"
                            "c10dd_program(NAME c10dd-sim SRCS sim/main.cc)\n"
                            "c10dd_script(NAME tidy SCRIPT tidy.py LABELS tidy)\n",
    "tests/unit/job_test.cc": "TEST(JobTest, WaitsForAKey) {}\n",
    "tests/sim/main.cc": 'app.add_option("--seeds,--count", n);\n',
    "tests/load.py": 'parser.add_argument("--times")\n',
}
ROWS = ("| death of one of 1,000 members: p50; p99; worst | 0.273 s; 0.290 s; 0.295 s | |\n"
        "| silence of one of 1,000 members: p50; worst | 2.41 s; 2.54 s | |\n"
        "| 2 daemons on one Redis, SIGKILL: p50; p99; all | 3.21 s; 3.97 s; 4.05 s | |\n"
        "| durable set, 100 x 1: rate of Redis (`always`) over c10dd | 1.47 | |\n"
        "| durable set, 100 x 1: rate of etcd over c10dd; shared | 0.27; 0.52 | |\n")
README = ("About 0.3 s later (2.5 s if its machine falls silent); on Redis serves its clients after 3.2 s "
          "(p99 4.0 s; lease)\n| keeps nothing | 0.27 (0.52 with shared connections) | 1.47 "
          "(`appendfsync always`) |\n")


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in SOURCES.items():
            self.write(path, text)

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def found(self, page="docs/x.md"):
        return [offence for offence in pages.check_tree(self.root) if offence[0] == page]

    def assert_found(self, text, words, page="docs/x.md"):
        self.write(page, "First line.\n" + text + "\n")
        found = self.found(page)
        self.assertEqual([(page, 2)], [offence[:2] for offence in found], found)
        self.assertIn(words, found[0][2])

    # ---- names ----

    def test_what_is_missing_is_found(self):
        for text, words in [
            ("`tests/unit/gone_test.cc`", "path tests/unit/gone_test.cc"),
            ("`client/gone/`", "path client/gone/"),
            ("`gone.h`", "path gone.h"),
            ("`tests/{unit,gone}`", "path tests/{unit,gone}"),
            ("`--max-gone`", "option --max-gone"),
            ("`c10dd --seeds 3`", "option --seeds: not one of c10dd"),
            ("    build/bin/c10dd-sim --gone 3", "option --gone: not one of c10dd-sim"),
            ("`./dev sim --gone`", "option --gone: not one of ./dev sim"),
            ("`./dev check --seeds 3`", "option --seeds: not one of ./dev check"),
            ("`python3 tests/load.py --gone`", "option --gone: not one of tests/load.py"),
            ("`curl --gone`", "option --gone: not one of curl"),
            ("Set `C10DD_GONE`.", "variable C10DD_GONE"),
            ("`GET /gone`", "route GET /gone"),
            ("`127.0.0.1:29500/v1/gone`", "route /v1/gone"),
            ("`GET /v1/jobs/NAME/move`", "route GET /v1/jobs/NAME/move"),
            ("`c10dd_gone_total`", "metric c10dd_gone_total"),
            ("`grep c10dd_gone`", "metric c10dd_gone"),
            ("`event=gone`", "event gone"),
            ("Events of the log: `draining`, `gone`.", "event gone"),
            ("`gone_test`", "test gone_test"),
            ("`JobTest.WaitsForNothing`", "test JobTest.WaitsForNothing"),
            ("`JobTest.WaitsForAKey`, `.WaitsForNothing`", "test JobTest.WaitsForNothing"),
            ("`ctest --test-dir build -R Gone`", "test -R Gone"),
            ("`ctest --test-dir build -L gone`", "label gone"),
            ("`./dev gone`", "command gone"),
            ("`cmake --preset base`", "preset base"),
            ("`build/bin/gone`", "program gone"),
            ("`<c10dd/gone.h>`", "header gone.h"),
            ("[gone](x.md#gone)", "link x.md#gone"),
        ]:
            with self.subTest(text=text):
                self.assert_found(text, words)

    def test_what_exists_is_left_alone(self):
        self.write("docs/x.md", """# A head: with `code`
[up](#a-head-with-code) [there](x.md#a-head-with-code) <https://example.org/gone.md>
`tests/unit/job_test.cc` `unit/job_test.cc` `job_test.cc` `tests/{unit,sim}/` `daemon/x/y.cc` `/etc/c10dd.toml`
`c10dd --max-jobs 3 --print-config` `--max-jobs` `srun --ntasks-per-node=1 c10dd --max-jobs 3`
`C10DD_MAX_JOBS` `C10DD_URL` `C10DD_*` `GET /livez` `POST /v1/jobs/NAME/move` `c10dd://host:29500/job`
`c10dd_jobs` `c10dd_wait_seconds_bucket` `grep c10dd_wait` `event=draining` `JobTest.WaitsForAKey`
`job_test` `./dev sim --count 3` `./dev check --fix` `ctest --preset asan -L tidy` `python3 tests/load.py --times 2`

    build/bin/c10dd-sim --seeds 3    # as above
""")
        self.assertEqual([], self.found())

    def test_a_span_over_two_lines_is_read(self):
        self.write("docs/x.md", "`c10dd\n--gone` and `--max-jobs`, `--away`\n")
        self.assertEqual(["option --away: not one of any program", "option --gone: not one of c10dd"],
                         sorted(offence[2] for offence in self.found()))

    def test_pages_of_the_past_may_name_what_is_gone(self):
        self.write("CHANGELOG.md", "`--gone` `event=gone`\n")
        self.write("ARCHITECTURE.md", "\n## Renamed words and files\n\n`protocol/gone.h`\n")
        self.assertEqual([], self.found("CHANGELOG.md") + self.found("ARCHITECTURE.md"))

    def test_a_page_that_must_be_complete_is_found(self):
        self.write("docs/daemon.md", "`GET /livez`\n")
        self.write("docs/benchmarks.md", ROWS)
        self.write("README.md", README + "[b](docs/benchmarks.md)\n")
        self.assertEqual(["page docs/daemon.md: this page must name each page"],
                         [one[2] for one in self.found("README.md") if one[1] == 1])
        self.assertEqual(["route /v1/jobs/{job}/move: this page must name each route"],
                         [one[2] for one in self.found("docs/daemon.md") if one[1] == 1])

    # ---- figures ----

    def figures(self, readme=README, rows=ROWS):
        self.write("README.md", readme + "[b](docs/benchmarks.md)\n")
        self.write("docs/benchmarks.md", rows)
        return [*self.found("README.md"), *self.found("docs/benchmarks.md")]

    def test_a_figure_that_differs_from_its_row_is_found(self):
        self.assertEqual([], self.figures())
        self.assertEqual([("README.md", 1, "figure 3.2: docs/benchmarks.md:3 has 3.51")],
                         self.figures(rows=ROWS.replace("3.21 s", "3.51 s")))
        self.assertEqual([("README.md", 2, "figure 1.2: docs/benchmarks.md:4 has 1.47")],
                         self.figures(README.replace("1.47", "1.2")))

    def test_a_figure_without_its_row_is_found(self):
        found = self.figures(rows=ROWS.replace("silence of", "gone"))
        self.assertEqual([("docs/benchmarks.md", 1)], [offence[:2] for offence in found])
        self.assertIn("is found 0 times, must be once", found[0][2])
        found = self.figures(README.replace("About 0.3 s later", "Soon"))
        self.assertEqual([("README.md", 1)], [offence[:2] for offence in found])

    # ---- commits ----

    def git(self, *words):
        return subprocess.run(["git", "-C", str(self.root), "-c", "user.name=n", "-c", "user.email=e",
                               *words], check=True, capture_output=True, text=True).stdout.strip()

    def test_a_commit_that_is_not_in_the_history_is_found(self):
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        known = self.git("rev-parse", "HEAD")[:7]
        self.write("docs/x.md", f"At {known}, 1000000 keys.\n| at c0ffee1 |\n")
        found = self.found("docs/x.md")
        self.assertEqual([("docs/x.md", 2)], [offence[:2] for offence in found])
        self.assertIn("commit c0ffee1: not in the history", found[0][2])

    def test_without_the_history_commits_are_not_looked_up_and_that_is_said(self):
        self.write("docs/x.md", "| at c0ffee1 |\n")
        done = self.program()
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("commits were not looked up", done.stdout)

    def test_a_page_that_is_too_long_is_found(self):
        self.write("README.md", "x\n" * 131)
        self.write("DECISIONS.md", "# D\n\n## 2. Short\n\nyes\n\n## 1. Long\n\n" + "word " * 81 + "\n")
        self.write("CHANGELOG.md", "# C\n\n## 0.1\n\n" + "- a\n" * 60)
        self.assertIn(("README.md", 1, "131 lines, limit 130 for this page"), self.found("README.md"))
        self.assertIn(("DECISIONS.md", 7, "81 words, limit 80 for this part"), self.found("DECISIONS.md"))
        self.assertEqual([], [each for each in self.found("CHANGELOG.md") if "limit" in each[2]])

    # ---- the program ----

    def program(self):
        return subprocess.run([sys.executable, "-B", pages.__file__, str(self.root)],
                              capture_output=True, text=True, check=False)

    def test_the_program_prints_the_offence_and_fails(self):
        self.write("docs/x.md", "\n`--gone`\n")
        done = self.program()
        self.assertEqual(1, done.returncode)
        self.assertIn("docs/x.md:2: option --gone: not one of any program\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
