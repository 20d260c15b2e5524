# The version is written in one place (docs/release.md), and everything that shows one shows that.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import unittest

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
HEADER = "kernels/sdk/include/opc/Version.h"
HISTORY = ("CHANGELOG.md", "docs/testing.md", "docs/benchmarks.md", "docs/release.md", "docs/compatibility.md", "docs/adr/", "tests/compat/")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def version():
    return re.search(r'OPC_VERSION_STRING "(\d+\.\d+\.\d+)"', read(os.path.join(SOURCE, HEADER))).group(1)


class Version(unittest.TestCase):
    def test_written_once(self):
        """Pages that tell history name versions; code, tests and build files do not."""
        found = subprocess.run(["git", "grep", "-InF", f"{version()}"], cwd=SOURCE, capture_output=True, text=True)
        if found.returncode not in (0, 1):
            self.skipTest("no git here to list the sources")
        number = re.compile(r"(?<![\d.])" + re.escape(version()) + r"(?![\d.])")
        lines = [x for x in found.stdout.split("\n") if number.search(x.split(":", 2)[-1])]
        self.assertTrue(any(x.startswith(HEADER) for x in lines), "the search finds not even the one place")
        self.assertEqual([x for x in lines if not x.startswith((HEADER,) + HISTORY)], [])

    def test_shown(self):
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
            self.assertIn(f"CMAKE_PROJECT_VERSION:STATIC={version()}\n", f.read())
        self.assertIn(f'set(PACKAGE_VERSION "{version()}")', read(os.path.join(BUILD, "kernels", "opcConfigVersion.cmake")))
        for name in ("opc", "opc-runtime"):
            path = os.path.join(BUILD, "bin", name)
            if os.path.exists(path):
                said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
                self.assertEqual(said, f"{name} {version()}\n")
        path = os.path.join(BUILD, "bin", "opc")
        if os.path.exists(path):
            document = json.loads(subprocess.run([path, "--version", "--json"], capture_output=True, text=True, check=True).stdout)
            self.assertEqual(document["version"], version())

    def test_change_log(self):
        """The newest section is what comes next, and the released ones stand in order, each with a date."""
        sections = re.findall(r"^## (.*)$", read(os.path.join(SOURCE, "CHANGELOG.md")), re.M)
        self.assertEqual(sections[0], "Unreleased")
        released = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - \d{4}-\d\d-\d\d", s) for s in sections[1:]]
        self.assertTrue(all(released), sections)
        numbers = [tuple(int(x) for x in m.groups()) for m in released]
        self.assertEqual(numbers, sorted(numbers, reverse=True))
        self.assertGreaterEqual(tuple(int(x) for x in version().split(".")), numbers[0])


if __name__ == "__main__":
    unittest.main()
