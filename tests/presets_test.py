#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each preset of CMakePresets.json configures. ./dev test builds only the preset release, so an error
in the others, which have sanitizers and other compilers, would not show."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["C10DD_SOURCE"]


def presets():
    with open(os.path.join(SOURCE, "CMakePresets.json"), encoding="utf-8") as file:
        return [preset for preset in json.load(file)["configurePresets"]
                if not preset.get("hidden", False)]


class Presets(unittest.TestCase):
    def test_each_preset_configures(self):
        tried = []
        for preset in presets():
            compiler = preset.get("cacheVariables", {}).get("CMAKE_CXX_COMPILER", "c++")
            if shutil.which(compiler) is None:
                print(f"{preset['name']}: not tried, because {compiler} is not installed")
                continue
            with self.subTest(preset["name"]), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    ["cmake", "--preset", preset["name"], "-B", folder, "--log-level=ERROR"],
                    cwd=SOURCE, capture_output=True, text=True, check=False, errors="replace")
                self.assertEqual(0, done.returncode, done.stderr[-4000:])
                tried.append(preset["name"])
        self.assertIn("asan", tried)


if __name__ == "__main__":
    unittest.main()
