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


def sources():
    """What git tracks, or without git everything but builds."""
    listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True, text=True)
    if listed.returncode == 0:
        return [f for f in listed.stdout.split("\n") if f and os.path.isfile(os.path.join(SOURCE, f))]
    found = []
    for folder, folders, names in os.walk(SOURCE):
        folders[:] = [f for f in folders if not f.startswith((".", "build", "__"))]
        found += [os.path.relpath(os.path.join(folder, n), SOURCE) for n in names]
    return found


def version():
    return re.search(r'OPC_VERSION_STRING "(\d+\.\d+\.\d+)"', read(os.path.join(SOURCE, HEADER))).group(1)


class Changes(unittest.TestCase):
    def test_nothing_is_told_twice(self):
        """Merges put entries into a version that is out, or leave an older wording beside the newer one."""
        entries = re.findall(r"^- .*(?:\n  .*)*", read(os.path.join(SOURCE, "CHANGELOG.md")), re.M)
        self.assertGreater(len(entries), 100)
        beginnings = [" ".join(entry.split())[:70] for entry in entries]
        self.assertEqual(sorted({b for b in beginnings if beginnings.count(b) > 1}), [])


class Version(unittest.TestCase):
    def test_written_once(self):
        """Pages that tell history name versions; code, tests and build files do not."""
        number = re.compile(r"(?<![\d.])" + re.escape(version()) + r"(?![\d.])")
        lines = []
        for path in sources():
            with open(os.path.join(SOURCE, path), "rb") as f:
                content = f.read()
            if b"\0" not in content:
                lines += [f"{path}: {x.strip()[:80]}" for x in content.decode("utf-8", "replace").split("\n") if number.search(x)]
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
