# Tools that keep habits do what they say: skips, the commit hook, the formatter's version, packages, the container's commands.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]
SCRIPT = """import unittest
class Case(unittest.TestCase):
    def test_one(self):
        self.skipTest("no moon")
    def test_two(self):
        pass
unittest.main()
"""


def tool(name, *arguments, **options):
    return subprocess.run([os.path.join(SOURCE, *name.split("/")), *arguments], capture_output=True, text=True, **options)


class Skips(unittest.TestCase):
    def run_script(self, text, ci="", patience="1"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            env = dict(os.environ, CI=ci, OPC_TEST_PATIENCE=patience)
            return subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "run_script.py"), "moon", path], env=env, capture_output=True, text=True)

    def test_a_skip_is_named_and_fails_under_ci(self):
        for text, name in ((SCRIPT, "moon.Case.test_one"), ("import unittest\nraise unittest.SkipTest('no moon')\n", "moon")):
            here, ci = self.run_script(text, ""), self.run_script(text, "true")
            self.assertEqual((here.returncode, ci.returncode), (0, 1), here.stderr + ci.stderr)
            self.assertIn(f"skipped: {name}: no moon", here.stdout)
            self.assertIn("allowed_skips.txt does not name " + name, ci.stdout)

    def test_sanitized_programs_have_more_time(self):
        """What takes one second is given half a second, and five times that."""
        for wait in ("subprocess.run(['sleep', '1'], timeout=0.5)", "subprocess.run(['sleep', '1'], timeout=0.5, capture_output=True)",
                     "subprocess.Popen(['sleep', '1']).wait(0.5)", "subprocess.Popen(['sleep', '1']).wait(timeout=0.5)", "subprocess.Popen(['sleep', '1']).communicate(None, 0.5)"):
            for patience, code in (("1", 1), ("5", 0)):
                self.assertEqual(self.run_script(f"import subprocess\n{wait}\n", patience=patience).returncode, code, wait)

    def test_results_pass_through(self):
        for text, code in (("", 0), ("raise SystemExit(3)", 3), ("raise SystemExit('why')", 1), (SCRIPT.replace("pass", "self.fail()"), 1), ("1 / 0", 1)):
            self.assertEqual(self.run_script(text, "").returncode, code, text)

    def test_every_allowed_skip_has_a_reason_and_a_test(self):
        sys.path.insert(0, os.path.join(SOURCE, "tests"))
        from run_script import allowed

        with open(os.path.join(SOURCE, "tests", "allowed_skips.txt"), encoding="utf-8") as f:
            names = allowed(f.read())
        self.assertRaises(ValueError, allowed, "moon |")
        text = ""
        for path in glob.glob(os.path.join(SOURCE, "tests", "**", "*.py"), recursive=True) + glob.glob(os.path.join(SOURCE, "tests", "**", "CMakeLists.txt"), recursive=True):
            with open(path, encoding="utf-8") as f:
                text += f.read()
        self.assertEqual([n for n in names if n.split(".")[-1] not in text], [], "these tests do not exist")


class Recipes(unittest.TestCase):
    def test_length(self):
        """A recipe that is longer than twenty lines is a design that wants mending."""
        with open(os.path.join(SOURCE, "docs", "recipes.md"), encoding="utf-8") as f:
            recipes = re.split(r"^## ", f.read(), flags=re.M)[1:]
        titles = [r.split("\n")[0] for r in recipes]
        self.assertEqual(titles, ["A pass", "A subcommand", "An error code", "An element type", "A kernel for another device"])
        self.assertEqual([r.split("\n")[0] for r in recipes if r.strip().count("\n") > 20], [])


class Commits(unittest.TestCase):
    def verdict(self, message):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(message)
            f.flush()
            return tool("tools/dev/commit-msg", f.name)

    def test_messages(self):
        for good in ("Subject of 72 characters" + "x" * 48, "Subject\n\nBody; with anything at all that is longer than seventy-two characters.\n", "# comment\nSubject", "Revert \"a; b\""):
            self.assertEqual(self.verdict(good).returncode, 0, good)
        for bad, word in (("", "empty"), ("x" * 73, "73 characters"), ("One thing; another", "semicolon"), ("A title.", "full stop"), ("Subject\nBody", "blank")):
            done = self.verdict(bad)
            self.assertEqual(done.returncode, 1, bad)
            self.assertIn(word, done.stderr)


class Versions(unittest.TestCase):
    def test_other_versions_of_clang_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, "clang")
            with open(fake, "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\necho clang version 14.0.6\n")
            os.chmod(fake, 0o755)
            done = tool("tools/dev/format.sh", "--check", env=dict(os.environ, OPC_CLANG_FORMAT=fake))
            self.assertEqual(done.returncode, 4)
            self.assertRegex(done.stderr, r"clang-format 22 is needed.*14\.0\.6.*setup\.sh")
            done = tool("tools/dev/tidy", "kernels/registry/Registry.cpp", env=dict(os.environ, OPC_CLANG_TIDY=fake))
            self.assertEqual(done.returncode, 4)
            self.assertRegex(done.stderr, r"clang-tidy 22 is needed.*14\.0\.6.*setup\.sh")

    def test_tidy_reads_files_without_precompiled_headers(self):
        # A source that lacks an include which only a precompiled header has must be found; other clangs read no PCH of 22.
        with tempfile.TemporaryDirectory() as folder:
            source, header = os.path.join(SOURCE, "kernels", "registry", "Registry.cpp"), "made/cmake_pch.hxx"
            clang = f"-Winvalid-pch -Xclang -include-pch -Xclang {header}.pch -Xclang -include -Xclang {header}"
            for flags in (clang, f"-Winvalid-pch -include {header}"):
                with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as f:
                    json.dump([{"directory": folder, "file": source, "command": f"c++ -O2 {flags} -o r.o -c {source}"}], f)
                fake = os.path.join(folder, "tidy")
                with open(fake, "w", encoding="utf-8") as f:
                    f.write('#!/bin/sh\n[ "$1" = --version ] && echo version 22.1 && exit\ncat "$2/compile_commands.json"\nexit 1\n')
                os.chmod(fake, 0o755)
                done = tool("tools/dev/tidy", "--build", folder, source, env=dict(os.environ, OPC_CLANG_TIDY=fake))
                self.assertIn(f"c++ -O2 -o r.o -c {source}", done.stdout, done.stderr)

    def test_packages(self):
        def listed(*arguments):
            return set(tool("tools/dev/setup.sh", "--list", *arguments).stdout.split())

        self.assertIn("clang-format-22", listed())
        self.assertIn("clang-tidy-22", listed())
        self.assertTrue(listed() < listed("--tests"), "tests need more than the build")
        self.assertEqual(tool("tools/dev/setup.sh", "--nonsense").returncode, 2)


class Continuous(unittest.TestCase):
    def test_steps(self):
        """Named steps, each of them in the usage; an unknown one is refused with the list."""
        done = tool(".ci/run", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(re.findall(r"^  (\w+) ", done.stderr, re.M), ["format", "build", "tidy", "tests"])
        done = tool(".ci/nightly", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(re.findall(r"^  (\w+) ", done.stderr, re.M), ["asan", "tsan", "fuzz", "numbers", "ptxas", "barriers", "gpulines", "gpuseeds", "plain", "bench", "onnx", "coverage"])

    def test_presets(self):
        """tools/build.sh builds what CMakePresets.json has, and nothing else."""
        with open(os.path.join(SOURCE, "CMakePresets.json"), encoding="utf-8") as f:
            presets = {p["name"] for p in json.load(f)["configurePresets"]}
        done = tool("tools/build.sh", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(set(re.findall(r"\w+", done.stderr.split("there are", 1)[1])), presets)

    def test_suppressions_name_libraries_only(self):
        for name in ("lsan.txt", "tsan.txt"):
            with open(os.path.join(SOURCE, "tests", "sanitizers", name), encoding="utf-8") as f:
                lines = [x for x in f.read().split("\n") if x and not x.startswith("#")]
            ours = [x for x in lines if not re.fullmatch(r"\w+:(lib[\w-]+(\.so)?|mca_)", x) or "opc" in x]
            self.assertEqual(ours, [], f"tests/sanitizers/{name}: a suppression may name a library that is not ours, nothing else")

    def test_container(self):
        """No engine runs it here: what it would run are the commands of README.md, on what they are said to run on."""
        with open(os.path.join(SOURCE, "Dockerfile"), encoding="utf-8") as f:
            steps = [x.split(" ", 1) for x in f.read().split("\n") if x and not x.startswith("#")]
        self.assertEqual(steps[0], ["FROM", "debian:12"])
        self.assertLessEqual({s[0] for s in steps}, {"FROM", "WORKDIR", "COPY", "RUN", "CMD"})
        run = " ".join(s[1] for s in steps if s[0] in ("RUN", "CMD"))
        order = [run.index(x) for x in ("tools/dev/setup.sh --tests", "tools/demo.sh", "tools/test.sh")]
        self.assertEqual(order, sorted(order))
        for script in re.findall(r"tools/[\w/]+\.sh", run):
            self.assertTrue(os.access(os.path.join(SOURCE, script), os.X_OK), f"{script} cannot be run")


if __name__ == "__main__":
    unittest.main()
