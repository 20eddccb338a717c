# SPDX-License-Identifier: Apache-2.0
"""What cmake --install puts on a machine besides the SDK (tests/user): programs, pages
whose links hold, a unit that systemd accepts."""
import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../user"))
from installed import Installed, run  # noqa: E402


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="c10dd-install-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        installed = Installed(cls.folder)
        cls.prefix, cls.staged = installed.prefix, installed.staged

    def test_programs_are_what_a_user_may_start(self):
        self.assertEqual(["c10dd", "c10dd-bench", "c10ddctl", "c10drun"],
                         sorted(os.listdir(os.path.join(self.prefix, "bin"))))
        run(os.path.join(self.prefix, "bin/c10dd-bench"), "set-durable", "--sync-delay", "1",
            "--rounds", "1", "--seconds", "0.1")

    def test_pages_are_installed_and_their_links_hold(self):
        pages = os.path.join(self.prefix, "share/doc/c10dd")
        self.assertLessEqual({"README.md", "docs", "deploy"}, set(os.listdir(pages)))
        links = 0
        for folder, _, names in os.walk(pages):
            for name in names:
                if not name.endswith(".md"):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as page:
                    text = re.sub(r"(?ms)^```.*?^```$", "", page.read())  # code has no links
                    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
                        links += 1
                        self.assertTrue(os.path.exists(os.path.join(folder, link)), (name, link))
        self.assertGreater(links, 20)

    def test_systemd_accepts_the_unit_and_finds_it_hardened(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        unit = os.path.join(self.prefix, "lib/systemd/system/c10dd.service")
        with open(unit, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Type=notify", text)
        self.assertIn(f'ExecStart="{self.staged}/bin/c10dd" --config ', text)
        page = re.search(f"Documentation=file:{self.staged}/(.*)", text)[1]
        self.assertTrue(os.path.exists(os.path.join(self.prefix, page)), page)
        self.assertIn("StateDirectory=c10dd c10dd-checkpoints\n", text)  # the state is the first
        # verify wants the program where the unit says it is, but it was moved; its path has a blank.
        staged = os.path.join(self.folder, "c10dd.service")
        with open(staged, "w", encoding="utf-8") as file:
            file.write(text.replace(f"{self.staged}/bin", f"{self.prefix}/bin"))
        self.assertEqual("", run("systemd-analyze", "verify", "--man=no", staged).strip())
        said = run("systemd-analyze", "security", "--offline=true", "--threshold=20", staged)
        exposure = float(re.search(r"exposure level for c10dd.service: ([\d.]+)", said).group(1))
        self.assertLessEqual(exposure, 2.0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
