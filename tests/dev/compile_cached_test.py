# Two clones with one compiler cache: the second finds the objects of the first, precompiled headers or not.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(os.environ[n]) for n in ("OPC_BUILD_DIR", "OPC_SOURCE_DIR"))
CACHE = (BUILD / "CMakeCache.txt").read_text()
COMPILER = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", CACHE, re.M)[1]
CCACHE = shutil.which("ccache")


@unittest.skipUnless(CCACHE, "ccache is not here")
@unittest.skipUnless("clang" in COMPILER, "precompiled headers of clang")
class CompileCached(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.cache = dict(os.environ, CCACHE_DIR=str(self.scratch / "cache"), CCACHE_CONFIGPATH="/dev/null", LC_ALL="C")

    def clone(self, name, number=1):
        folder = self.scratch / name
        (folder / "build").mkdir(parents=True)
        (folder / "number.h").write_text(f"#pragma once\n#include <vector>\nstatic inline int number() {{ return {number}; }}\n")
        (folder / "build/pre").mkdir()
        (folder / "build/pre/cmake_pch.hxx").write_text("#include <number.h>\n")
        (folder / "build/pre/cmake_pch.hxx.cxx").write_text("")
        (folder / "use.cpp").write_text("#include <number.h>\nint main() { return number(); }\n")
        return folder

    def counts(self):
        done = subprocess.run([CCACHE, "--print-stats"], capture_output=True, text=True, env=self.cache, check=True).stdout
        of = lambda *names: sum(int(m[1]) for n in names for m in [re.search(rf"^{n}\t(\d+)$", done, re.M)] if m)
        return of("direct_cache_hit", "preprocessed_cache_hit"), of("cache_miss")

    def compile(self, folder):
        """The commands that CMake writes: the header, then a source with it. The program's exit code, and (hits, misses)."""
        before = self.counts()
        launcher = [SOURCE / "tools/cmake/compile_cached.sh", folder, CCACHE, COMPILER]
        header, pre = folder / "build/pre/cmake_pch.hxx", "-Winvalid-pch -fpch-instantiate-templates -Xclang -fno-pch-timestamp".split()
        for words in (
            ["-Xclang", "-emit-pch", "-Xclang", "-include", "-Xclang", header, "-x", "c++-header", "-MD", "-MT", "pre/cmake_pch.hxx.pch", "-MF", "pre/cmake_pch.hxx.pch.d",
             "-o", "pre/cmake_pch.hxx.pch", "-c", f"{header}.cxx"],
            ["-Xclang", "-include-pch", "-Xclang", f"{header}.pch", "-Xclang", "-include", "-Xclang", header, "-MD", "-MT", "use.o", "-MF", "use.o.d", "-o", "use.o", "-c", folder / "use.cpp"],
        ):
            done = subprocess.run([*launcher, f"-I{folder}", *pre, *words], cwd=folder / "build", env=self.cache, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        subprocess.run([COMPILER, "use.o", "-o", "use"], cwd=folder / "build", check=True)
        after = self.counts()
        return subprocess.run([folder / "build/use"]).returncode, (after[0] - before[0], after[1] - before[1])

    def test_two_clones(self):
        first, second = self.clone("first"), self.clone("second")
        self.assertEqual(self.compile(first), (1, (0, 2)))
        self.assertEqual(self.compile(second), (1, (1, 1)), "the object is found; the header, which has the folder's name, is made")
        self.assertEqual((first / "build/use.o").read_bytes(), (second / "build/use.o").read_bytes())
        header = (second / "build/pre/cmake_pch.hxx.pch").read_bytes()
        self.assertIn(str(second).encode(), header)
        self.assertNotIn(str(first).encode(), header)
        shutil.rmtree(first)
        self.assertEqual(self.compile(second), (1, (2, 0)), "nor needs it the other clone")

    def test_another_header(self):
        """What a precompiled header holds decides, not its name."""
        self.assertEqual(self.compile(self.clone("first"))[0], 1)
        self.assertEqual(self.compile(self.clone("second", 7)), (7, (0, 2)))

    def test_errors(self):
        folder = self.clone("first")
        (folder / "number.h").write_text("#error no number\n")
        done = subprocess.run([SOURCE / "tools/cmake/compile_cached.sh", folder, CCACHE, COMPILER, f"-I{folder}", "-Xclang", "-emit-pch", "-x", "c++-header", "-MD", "-MF", "h.d", "-o", "h.pch",
                               "-c", folder / "number.h"], cwd=folder / "build", env=self.cache, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: no number", done.stderr)
        self.assertFalse((folder / "build/h.pch.sum").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
