# Internal errors: exit code 70 and a folder with all that is needed to see them again; the folder is written once, whole, and where it may be.
# SPDX-License-Identifier: Apache-2.0
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_cases as base

OPC = base.OPC
OPC_OPT = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-opt")
# AddressSanitizer has handlers of its own for signals.
SIGNALS = not re.search("address", os.environ.get("OPC_SANITIZE", ""))
HOWS = ["throw", "throw-int", "fatal", "invalid"] + (["segfault", "abort", "overflow"] if SIGNALS else [])
TRAINING = base.GRAPH.replace('op { name: "y" output_conf { in: "act/y_0" } }', "")


class Crashes(FolderTest):
    def setUp(self):
        super().setUp()
        self.write("g.pbtxt", base.GRAPH)

    def opc(self, *args, code=70, plan="", cwd=None, **more):
        env = {**os.environ, "OPC_TEST_CRASH": plan, "OPC_VERIFY_EACH": "1", **more}
        for name in base.KEPT_OUT:
            env.pop(name, None)
        if ":fatal" in plan: # LLVM, which knows no exceptions, leaves its text behind when its handler throws
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        done = subprocess.run([OPC, "--config", "none", *args], capture_output=True, text=True, timeout=120,
                              cwd=cwd or self.folder, env={k: v for k, v in env.items() if v is not None})
        if code is not None:
            self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done

    def replay_line(self, done):
        lines = [line for line in done.stderr.splitlines() if line.startswith("opc debug replay ")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].split()[-1]

    def bundle(self, done, folder=None):
        name = self.replay_line(done)
        with open(os.path.join(folder or self.folder, name, "bundle.json"), encoding="utf-8") as f:
            return name, json.load(f)

    def leftovers(self):
        return sorted(n for n in os.listdir(self.folder) if "crash" in n)


class Bundles(Crashes):
    def test_every_way_to_break_off_ends_with_70_and_a_bundle(self):
        names = set()
        for how in HOWS:
            with self.subTest(how):
                done = self.opc("compile", "g.pbtxt", "--to", "tasks", "-o", "out.mlir", plan=f"simplify:{how}")
                name, about = self.bundle(done)
                names.add(name)
                self.assertRegex(name, r"^opc-crash-[0-9a-f]{12}$")
                failure = about["failure"]
                self.assertEqual((failure["exit_code"], failure["phase"], failure["pass"]), (70, "simplify", "planned-crash"))
                self.assertEqual(failure["code"], "OPC0901" if how == "invalid" else "OPC0999")
                self.assertIn(f"error[{failure['code']}]", done.stderr)
                signals = {"segfault": "SIGSEGV", "overflow": "SIGSEGV", "abort": "SIGABRT"}
                self.assertEqual(failure["signal"], signals.get(how, ""))
                self.assertEqual(about["command"], ["--config", "none", "compile", "{}", "--to", "tasks", "-o", "out.mlir"])
                with open(self.path(name) + "/graph.pbtxt", encoding="utf-8") as f:
                    self.assertEqual(f.read(), base.GRAPH)
                self.assertEqual(about["graph"], {"path": "g.pbtxt", "file": "graph.pbtxt", "bytes": len(base.GRAPH),
                                                  "sha256": hashlib.sha256(base.GRAPH.encode()).hexdigest()})
                self.assertFalse(os.path.exists(self.path("out.mlir")))
        self.assertEqual(len(names), len(HOWS))
        self.assertEqual(self.leftovers(), sorted(names))

    def test_the_failing_phase_can_be_run_by_opc_opt(self):
        for phase, has, more in (("simplify", "opc-merge-equal-ops", []), ("fuse", "opc-fuse-convolutions", ["--mesh", "2"]),
                                 ("boxing", "opc-insert-boxing", ["--mesh", "2"])):
            for how in (HOWS[0], HOWS[-1]):
                with self.subTest(phase=phase, how=how):
                    self.can_be_run(f"{phase}:{how}", has, more)

    def can_be_run(self, plan, has, more):
        name, _ = self.bundle(self.opc("compile", "g.pbtxt", "-o", "g.plan", *more, plan=plan))
        with open(self.path(name) + "/failing.mlir", encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertEqual(lines[0], "// before the phase " + plan.split(":")[0])
        command = lines[1].removeprefix("// opc-opt ")
        self.assertIn(has, command)
        done = subprocess.run(f"{OPC_OPT} {command}", shell=True, cwd=self.path(name), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"matmul"', done.stdout)

    def test_every_phase_that_breaks_off_is_named(self):
        for phase in ("import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory", "plan"):
            with self.subTest(phase):
                name, about = self.bundle(self.opc("compile", "g.pbtxt", "-o", "g.plan", plan=f"{phase}:throw"))
                self.assertEqual(about["failure"]["phase"], phase)
                self.assertEqual(os.path.exists(self.path(name) + "/failing.mlir"), phase != "import")

    def test_the_same_crash_has_one_bundle(self):
        first = self.replay_line(self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw"))
        before = os.stat(self.path(first) + "/bundle.json").st_mtime_ns
        self.assertEqual(self.replay_line(self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw")), first)
        self.assertEqual(os.stat(self.path(first) + "/bundle.json").st_mtime_ns, before)
        elsewhere = tempfile.mkdtemp(dir=self.folder)
        shutil.copy(self.path("g.pbtxt"), elsewhere)
        again = self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw", cwd=elsewhere)
        self.assertEqual(self.replay_line(again), first)

    def test_what_is_there_is_not_replaced(self):
        name = self.replay_line(self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw"))
        shutil.rmtree(self.path(name))
        for occupy in (lambda: self.write(name, "mine"), lambda: os.mkdir(self.path(name))):
            occupy()
            other = self.replay_line(self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw"))
            self.assertEqual(other, name + "-2")
            shutil.rmtree(self.path(other))
            os.remove(self.path(name)) if os.path.isfile(self.path(name)) else os.rmdir(self.path(name))

    def test_where_bundles_go(self):
        elsewhere = tempfile.mkdtemp(dir=self.folder)
        place = self.replay_line(self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw", OPC_CRASH_DIR=elsewhere))
        self.assertEqual(os.path.dirname(place), elsewhere)
        self.assertTrue(os.path.isdir(place))
        done = self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw", OPC_CRASH_DIR="none")
        self.assertNotIn("replay", done.stderr)
        # A folder that is not there, and one that is a file: said, and nowhere else is a folder made.
        for chosen, why in ((self.path("nowhere"), "No such file or directory"), (self.path("g.pbtxt"), "Not a directory")):
            done = self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw", OPC_CRASH_DIR=chosen)
            self.assertIn(f"help: this is a bug in opc; please report it with the command and its files; OPC_CRASH_DIR names {chosen}, where no "
                          f"crash folder can be made: {why}\n", done.stderr)
            self.assertNotIn("replay", done.stderr)
            if SIGNALS:
                done = self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:segfault", OPC_CRASH_DIR=chosen)
                self.assertTrue(done.stderr.endswith("help: this is a bug; please report it with the command and its files\n"
                                                     f"note: no crash folder could be made: {why}\n"), done.stderr)
        self.assertEqual(self.leftovers(), [])
        done = self.opc("compile", "g.pbtxt", "-o", "a.plan", plan="shape:throw", OPC_CRASH_DIR="none")
        self.assertIn("help: this is a bug in opc; please report it with the command and its files\n", done.stderr)
        # -C moves the work; the line is for the shell that opc was started from.
        name = self.replay_line(self.opc("-C", elsewhere, "compile", "../g.pbtxt", "-o", "a.plan", plan="shape:throw"))
        self.assertTrue(os.path.isdir(self.path(name)))

    def test_a_folder_that_cannot_be_written(self):
        sealed = os.path.join("/proc", "self") # nobody makes folders there, root neither
        temporary = tempfile.mkdtemp(dir=self.folder)
        done = self.opc("compile", self.path("g.pbtxt"), "-o", self.path("a.plan"), plan="shape:throw", cwd=sealed, TMPDIR=temporary)
        self.assertEqual(os.path.dirname(self.replay_line(done)), temporary)
        self.assertEqual(self.leftovers(), [])

    def test_nothing_but_what_is_listed_is_written(self):
        done = self.opc("run", "g.pbtxt", "--fill", "rand", plan="shape:throw", SECRET_TOKEN="hunter2", OPC_SEED="7")
        name, about = self.bundle(done)
        self.assertEqual(set(about), {"opc_crash", "version", "command", "graph", "plugins", "settings", "environment", "failure"})
        given = {name for name in os.environ if name.startswith("OPC_")}  # of whoever runs the tests
        self.assertEqual(set(about["environment"]) | given, given | {"OPC_TEST_CRASH", "OPC_VERIFY_EACH", "OPC_SEED"})
        self.assertEqual(sorted(os.listdir(self.path(name))), ["bundle.json", "failing.mlir", "graph.pbtxt"])
        for file in glob.glob(self.path(name) + "/*"):
            with open(file, encoding="utf-8") as f:
                text = f.read()
            self.assertNotIn("hunter2", text)
            self.assertNotIn(self.folder, text)
            self.assertEqual(os.stat(file).st_mode & 0o077, 0)

    def test_settings_are_kept_and_words_that_json_must_escape(self):
        self.write("opc.toml", '[run]\nseed = 11\n[tolerance]\n"lo\\"ss" = { rtol = 0.5, nan = "equal" }\n')
        self.write('g"\n\\ü.pbtxt', base.GRAPH)
        env = {**os.environ, "OPC_TEST_CRASH": "shape:throw"}
        done = subprocess.run([OPC, "run", 'g"\n\\ü.pbtxt', "--fill", "rand"], cwd=self.folder, env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 70, done.stderr)
        _, about = self.bundle(done)
        self.assertEqual(about["settings"], {"run.seed": ["11"], 'tolerance.lo"ss': {"rtol": 0.5, "nan": "equal"}})
        self.assertEqual(about["graph"]["path"], 'g"\n\\ü.pbtxt')

    def test_a_command_that_is_not_replayed(self):
        for how in ["throw"] + ["segfault"] * bool(SIGNALS):
            with self.subTest(how):
                done = self.opc("debug", "reduce", "g.pbtxt", "--check", "false {}", "-o", "small.pbtxt", plan=f"import:{how}")
                self.assertNotIn("opc debug replay", done.stderr)
                self.assertRegex(done.stderr, r"\ncrash folder: opc-crash-[0-9a-f]{12}\n$")
                name = done.stderr.split()[-1]
                self.assertIn("'opc debug' is not run again", self.opc("debug", "replay", name, code=2).stderr)

    def test_json_says_it_too(self):
        done = self.opc("compile", "g.pbtxt", "-o", "a.plan", "--json", plan="shape:throw")
        self.assertIn("OPC0999", done.stdout)
        self.assertIsInstance(json.loads(done.stdout), dict)
        self.assertIn("in phase shape, pass planned-crash: planned by OPC_TEST_CRASH", done.stderr)

    def test_a_large_graph_is_named_and_not_copied(self):
        self.write("big.pbtxt", base.GRAPH + "# " + "x" * (17 << 20) + "\n")
        name, about = self.bundle(self.opc("compile", "big.pbtxt", "-o", "a.plan", plan="shape:throw"))
        self.assertEqual(about["graph"]["file"], "")
        with open(self.path("big.pbtxt"), "rb") as f:
            self.assertEqual(about["graph"]["sha256"], hashlib.sha256(f.read()).hexdigest())
        self.assertNotIn("graph.pbtxt", os.listdir(self.path(name)))


class ManyGraphs(Crashes):
    """opc check of several graphs: one that breaks off does not end the others."""

    def setUp(self):
        super().setUp()
        for i in range(6):
            self.write(f"n{i}.pbtxt", base.GRAPH)
        os.remove(self.path("g.pbtxt"))
        self.opc("check", ".", "--update", code=None)

    def test_the_others_are_checked(self):
        for how in ("throw", "throw-int", "fatal", "invalid"):
            for threads in ("1", "4"):
                with self.subTest(how=how, threads=threads):
                    done = self.opc("check", ".", "--json", "-j", threads, plan=f"simplify:{how}:n3")
                    report = json.loads(done.stdout)
                    found = {f["graph"]: f for f in report["findings"] if f["severity"] == "error"}
                    self.assertEqual([os.path.basename(g) for g in found], ["n3.pbtxt"])
                    self.assertEqual([f["rule"] for f in found.values()], ["GRAPH_INVALID" if how == "invalid" else "INTERNAL_ERROR"])
                    help_line = next(iter(found.values()))["help"]
                    self.assertRegex(help_line, r"^opc debug replay opc-crash-[0-9a-f]{12}$")
                    with open(self.path(help_line.split()[-1]) + "/bundle.json", encoding="utf-8") as f:
                        about = json.load(f)
                    self.assertEqual(about["command"], ["--config", "none", "check", "{}", "--json", "-j", threads])
                    self.assertIn("n3.pbtxt", about["graph"]["path"])

    def test_the_worst_class_wins(self):
        self.write("n1.pbtxt", base.GRAPH.replace('"relu"', '"no_such_op"'))
        self.opc("check", ".", code=3)
        self.opc("check", ".", code=70, plan="simplify:throw:n3")
        self.opc("check", ".", code=70, plan="import:throw:n0")
        self.opc("check", ".", "--ignore", "*n3.pbtxt:*", code=3, plan="simplify:throw:n3")
        self.opc("check", ".", "--exit-zero", code=0, plan="simplify:throw:n3")

    def test_the_second_of_two_checks(self):
        done = self.opc("check", ".", "--twice", "--json", code=70, plan="simplify:throw:n3")
        self.assertEqual({f["rule"] for f in json.loads(done.stdout)["findings"]}, {"INTERNAL_ERROR"})

    @unittest.skipUnless(SIGNALS, "AddressSanitizer has handlers of its own")
    def test_a_signal_in_a_worker_names_its_graph(self):
        for how in ("segfault", "overflow"):
            done = self.opc("check", ".", "-j", "4", plan=f"simplify:{how}:n3")
            _, about = self.bundle(done)
            self.assertIn("n3.pbtxt", about["graph"]["path"])
            self.assertEqual(about["failure"]["phase"], "simplify")


if __name__ == "__main__":
    unittest.main(verbosity=1)
