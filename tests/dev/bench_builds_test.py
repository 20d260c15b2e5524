# bench_builds.py sees a planted slowness, no slowness where there is none, and reads the rows of the real program.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["OPC_BUILD_DIR"])

# A benchmark program that takes no time: `kernel/a` has a fixed value, `kernel/b*2` another in each build.
PROGRAM = """import json, sys
rows = [{"name": "kernel/a", "value": 10.0}, {"name": "kernel/b*2", "value": VALUE}]
if "--list" in sys.argv:
    print("".join(r["name"] + "\\n" for r in rows))
else:
    wanted = sys.argv[sys.argv.index("--filter") + 1]
    print(json.dumps({"schema": 1, "rows": [r for r in rows if r["name"].replace("*", "[*]") == wanted]}))
"""


class BenchBuilds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name, value):
        program = self.folder / name / "bin/opc-bench"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!{sys.executable}\n" + PROGRAM.replace("VALUE", str(value)))
        program.chmod(0o755)
        return self.folder / name

    def bench(self, *arguments):
        return subprocess.run([sys.executable, str(HERE / "bench_builds.py"), *map(str, arguments), "--models", ""],
                              capture_output=True, text=True, timeout=300)

    def test_planted(self):
        old, new = self.build("old", 1.0), self.build("new", 1.2)
        r = self.bench(old, new, "--filter", "kernel/*")
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("2 rows, 1 slower than 1.03 times\n  kernel/b*2\n", r.stdout)
        self.assertRegex(r.stdout, r"(?m)^kernel/b\*2 +1 +1\.2 +1\.200  slower$")
        self.assertRegex(r.stdout, r"(?m)^kernel/a +10 +10 +1\.000$")

    def test_faster_is_no_failure(self):
        r = self.bench(self.build("old", 1.2), self.build("new", 1.0))
        self.assertEqual((r.returncode, r.stdout.splitlines()[-1]), (0, "2 rows, 0 slower than 1.03 times"), r.stderr)

    def test_real_program(self):
        r = self.bench(BUILD, BUILD, "--filter", "kernel/relu_64K_t1", "--rounds", "1", "--limit", "1000")
        self.assertEqual((r.returncode, r.stdout.splitlines()[-1]), (0, "1 rows, 0 slower than 1000.0 times"), r.stderr)


if __name__ == "__main__":
    unittest.main()
