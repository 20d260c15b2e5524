# opc debug replay: the same failure comes again, elsewhere too; what a bundle of a stranger asks for is refused or redirected.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_cases as base
import crashes


class Replays(crashes.Crashes):
    def crash(self, *args, plan="simplify:throw", **more):
        return self.replay_line(self.opc(*args, plan=plan, **more))

    def replay(self, bundle, *args, code=0, cwd=None, plan=""):
        return self.opc("debug", "replay", bundle, *args, code=code, cwd=cwd, plan=plan, OPC_VERIFY_EACH=None)

    def change(self, bundle, change):
        with open(self.path(bundle) + "/bundle.json", encoding="utf-8") as f:
            about = json.load(f)
        change(about)
        with open(self.path(bundle) + "/bundle.json", "w", encoding="utf-8") as f:
            json.dump(about, f)


class TheSameFailure(Replays):
    def test_every_way_to_break_off(self):
        for how in crashes.HOWS:
            with self.subTest(how):
                bundle = self.crash("compile", "g.pbtxt", "-o", "a.plan", plan=f"simplify:{how}")
                before = sorted(os.listdir(self.folder))
                done = self.replay(bundle)
                self.assertIn("the same failure: OPC0", done.stdout)
                self.assertIn("in phase simplify, pass planned-crash", done.stdout)
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_commands_and_their_options(self):
        plan = "shape:throw"
        np.save(self.path("x.npy"), np.ones((8, 3), "f"))
        for args in (["run", "g.pbtxt", "--fill", "rand", "--outputs", "out", "--capture", "*=cap"], ["check", ".", "--json"],
                     ["grad", "g.pbtxt", "--loss", "fc/out_0", "-o", "grad.pbtxt"], ["show", "g.pbtxt", "--what", "memory"],
                     ["quantize", "g.pbtxt", "--calibrate", "x=@x.npy", "-o", "q.onnx"], ["debug", "first-diff", "g.pbtxt", "--fill", "rand"],
                     ["compile", "g.pbtxt", "-og.plan", "--dump", "ir", "--mesh=2", "-qj1"]):
            with self.subTest(args[0]):
                before = set(os.listdir(self.folder))
                bundle = self.crash(*args, plan=plan) if args[0] != "check" else None
                if not bundle:
                    found = json.loads(self.opc(*args, plan=plan).stdout)["findings"]
                    bundle = next(f["help"] for f in found if f["rule"] == "INTERNAL_ERROR").split()[-1]
                self.replay(bundle)
                left = set(os.listdir(self.folder)) - before - {bundle}
                self.assertEqual(left - {"out", "cap", "ir"}, set()) # what the first call had made
                for name in left:
                    self.assertEqual(os.listdir(self.path(name)), [n for n in os.listdir(self.path(name)) if n.endswith(".mlir")])

    def test_no_folder_for_what_it_writes(self):
        bundle = self.crash("compile", "g.pbtxt", "-o", "a.plan")
        done = self.opc("debug", "replay", bundle, code=2, plan="", OPC_VERIFY_EACH=None, TMPDIR="/nonexistent")
        self.assertIn("error[OPC0707]", done.stderr)
        self.assertIn("/nonexistent", done.stderr)
        self.assertIn("TMPDIR names the folder", done.stderr)

    def test_elsewhere_and_without_the_graph(self):
        bundle = self.crash("compile", "g.pbtxt", "-o", "a.plan")
        os.remove(self.path("g.pbtxt"))
        elsewhere = tempfile.mkdtemp(dir=self.folder)
        self.assertIn("the same failure", self.replay(self.path(bundle), cwd=elsewhere).stdout)
        self.assertEqual(os.listdir(elsewhere), [])
        shutil.move(self.path(bundle), elsewhere + "/renamed")
        self.replay("renamed", cwd=elsewhere)

    def test_another_failure_or_none_is_exit_code_1(self):
        bundle = self.crash("compile", "g.pbtxt", "-o", "a.plan")
        self.change(bundle, lambda b: b["environment"].update(OPC_TEST_CRASH="shape:throw"))
        self.assertIn("not the same failure: OPC0999 in phase shape", self.replay(bundle, code=1).stdout)
        self.change(bundle, lambda b: b["environment"].pop("OPC_TEST_CRASH"))
        self.assertIn("not the same failure: no failure; the bundle has OPC0999 in phase simplify", self.replay(bundle, code=1).stdout)
        document = json.loads(self.replay(bundle, "--json", code=1).stdout)
        self.assertEqual((document["same"], document["found"], document["exit_code"]), (False, "no failure", 0))

    def test_settings_and_the_seed_come_along(self):
        self.write("opc.toml", "[run]\nfill = \"ones\"\n")
        env = {**os.environ, "OPC_TEST_CRASH": "plan:throw"}
        done = subprocess.run([crashes.OPC, "run", "g.pbtxt"], cwd=self.folder, env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 70, done.stderr)
        bundle = self.replay_line(done)
        os.remove(self.path("opc.toml"))
        self.replay(bundle)
        # Without the setting the same command does not get as far: it lacks a value.
        self.change(bundle, lambda b: (b["settings"].clear(), b["environment"].pop("OPC_TEST_CRASH")))
        self.assertIn("OPC0004", self.replay(bundle, code=1).stdout)

    def test_tolerances_come_along(self):
        self.write("log.pbtxt", base.GRAPH.replace('"relu"', '"log"'))
        for line, x, expected in (("f32 = { atol = 3 }", 1, 0), ('"y*" = { nan = "equal" }', -1, np.nan), ('y = { metric = "max<=3" }', 1, 0),
                                  ("y = { rtol = 0, atol = inf }", 1, 0)):
            with self.subTest(line):
                np.save(self.path("e.npy"), np.full((4, 5), expected, "f"))
                self.write("opc.toml", f"[tolerance]\n{line}\n")
                env = {**os.environ, "OPC_TEST_CRASH": "plan:throw"}
                done = subprocess.run([crashes.OPC, "run", "log.pbtxt", "--input", f"x={x}", "--expect", "y=@e.npy"], cwd=self.folder, env=env,
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 70, done.stderr)
                bundle = self.replay_line(done)
                os.remove(self.path("opc.toml"))
                self.replay(bundle)
                self.change(bundle, lambda b: b["environment"].pop("OPC_TEST_CRASH"))
                self.assertIn("not the same failure: no failure", self.replay(bundle, code=1).stdout)
                self.change(bundle, lambda b: b["settings"].clear())
                self.assertIn("not the same failure: exit code 1", self.replay(bundle, code=1).stdout)

    def test_a_large_graph_must_be_where_it_was(self):
        self.write("big.pbtxt", base.GRAPH + "# " + "x" * (17 << 20) + "\n")
        bundle = self.crash("compile", "big.pbtxt", "-o", "a.plan")
        self.replay(bundle)
        self.write("big.pbtxt", base.GRAPH)
        self.assertIn("OPC0751", self.replay(bundle, code=2).stderr)
        os.remove(self.path("big.pbtxt"))
        self.assertIn("OPC0706", self.replay(bundle, code=2).stderr)

    def test_reduce_takes_a_bundle(self):
        bundle = self.crash("compile", "g.pbtxt", "-o", "a.plan")
        done = self.opc("debug", "reduce", bundle, "-o", "small.pbtxt", code=0)
        self.assertIn("of 2 ops fail alike (exit code 70, OPC0999 in phase simplify", done.stderr)
        self.opc("compile", "small.pbtxt", "-o", "a.plan", plan="simplify:throw")
        with open(self.path("small.pbtxt"), encoding="utf-8") as f:
            self.assertEqual(f.read().count("user_conf"), 1)

    def test_a_reproducer_is_replayed(self):
        self.write("r.pbtxt", '# opc reproducer 1\n# command: ["compile","{}","--to","shape","-o","x.mlir"]\n' + base.GRAPH)
        self.assertEqual(self.replay("r.pbtxt", code=1).stdout, "no failure\n")
        self.write("r.pbtxt", '# opc reproducer 1\n# command: ["run","{}"]\n' + base.GRAPH)
        self.assertEqual(self.replay("r.pbtxt").stdout, "OPC0004\n")
        self.assertFalse(os.path.exists(self.path("x.mlir")))


class Hostile(Replays):
    def setUp(self):
        super().setUp()
        self.bundle_name = self.crash("compile", "g.pbtxt", "-o", "a.plan")

    def refused(self, change, code, what):
        copy = tempfile.mkdtemp(dir=self.folder)
        shutil.copytree(self.path(self.bundle_name), copy + "/b")
        change(copy + "/b")
        done = self.replay(copy + "/b", code=code)
        self.assertIn(what, done.stderr)

    def command(self, *words):
        return lambda folder: self.change(os.path.relpath(folder, self.folder), lambda b: b.update(command=list(words)))

    def test_commands_that_start_programs_or_read_elsewhere(self):
        for words in (["debug", "reduce", "{}", "--check", "touch pwned; false", "-o", "x"], ["plugin", "check", "evil.so"],
                      ["debug", "first-diff", "{}", "--check", "touch pwned"], ["debug", "--any-file", "reduce", "{}"],
                      ["quantize", "{}", "--calibrate", "x=@../../secret.npy"], ["python", "--path"], ["__man", "."], ["no-such"], [], ["run", "{}", "--weights", "/etc/passwd"],
                      ["run", "{}", "--input", "x=@../../secret.npy"], ["run", "{}", "--input", "x=f32[2]:@/dev/zero"],
                      ["run", "{}", "--ranks", "2", "--launcher", "touch pwned"], ["run", "{}", "--ranks=2", "--launcher=touch pwned"],
                      ["check", "g.pbtxt", "--update"], ["check", ".", "--unreferenced", "delete"], ["diff", "{}", "/etc/passwd"], ["-C", "/", "compile", "{}"], ["run", "{}", "--no-such-option", "1"],
                      ["compile", "{}", "-zz"], ["compile", "{}", "-o"]):
            with self.subTest(words):
                self.refused(self.command(*words), 2 if words else 3, "OPC0751" if words else "OPC0750")
        self.assertFalse(os.path.exists(self.path("pwned")))

    def test_any_file_where_nothing_is_replayed(self):
        """It would be without effect: the command of --check may read what it likes."""
        check = ["--check", "false {}", "-o", "s.pbtxt"]
        for words, what in ((["first-diff", "g.pbtxt", "--fill", "rand"], "no meaning for opc debug first-diff"), (["reduce", "g.pbtxt", *check], "--check gives another one"),
                            (["reduce", self.bundle_name, *check], "--check gives another one"), (["reduce", "g.pbtxt", "-o", "s.pbtxt"], "g.pbtxt is none")):
            with self.subTest(words):
                self.assertIn(what, self.opc("debug", *words, "--any-file", code=2, plan="").stderr)
        # However the option of another way is written, and not what is the value of one.
        self.assertIn("--output has no meaning for opc debug first-diff", self.opc("debug", "first-diff", "g.pbtxt", "--fill", "rand", "-qos.pbtxt", code=2, plan="").stderr)
        done = self.opc("debug", "first-diff", "g.pbtxt", "--fill", "rand", "--reference", "--output", code=2, plan="")
        self.assertNotIn("no meaning", done.stderr)

    def test_no_lock_beside_a_large_graph(self):
        """A bundle names it and does not have it: it is the user's."""
        self.write("big.pbtxt", base.GRAPH + "# " + "x" * (17 << 20) + "\n")
        name = self.crash("compile", "big.pbtxt", "-o", "a.plan")
        self.command("check", "{}", "--update")(self.path(name))
        self.assertIn("OPC0751", self.replay(name, code=2).stderr)
        self.assertNotIn("big.opc.lock", os.listdir(self.folder))

    def test_what_a_command_writes_is_redirected(self):
        target = self.path("target")
        for words in (["compile", "{}", "-o", target], ["compile", "{}", f"-o{target}"], ["compile", "{}", f"--output={target}"],
                      ["run", "{}", "--fill", "rand", "--outputs", target], ["run", "{}", "--fill", "rand", "--output", f"y={target}.npy"],
                      ["compile", "{}", "-o", "x.plan", "--dump", target], ["run", "{}", "--fill", "rand", "--trace", target],
                      ["compile", "{}"], ["compile", "--", "{}"], ["compile", "{}", "--emit", "pb"], ["check", "{}", "--update"],
                      ["check", "{}", "g.pbtxt", "--update=ops"], ["check", ".", "--update", "--", "{}"], ["quantize", "{}", "--to", "bf16-weights", "-o", target + ".onnx"], ["run", "{}", "--fill", "rand", "--capture", f"*={target}"]):
            before = sorted(os.listdir(self.folder))
            self.command(*words)(self.path(self.bundle_name))
            self.change(self.bundle_name, lambda b: b["environment"].pop("OPC_TEST_CRASH", None))
            self.replay(self.bundle_name, code=1)
            self.assertEqual(sorted(os.listdir(self.folder)), before, words)

    def test_code_is_kept_in_no_folder_of_the_bundle(self):
        """Machine code of the run, which moves 400 MiB and so is compiled."""
        self.write("loop.pbtxt", """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 262144 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "exp" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "tanh" input { key: "x" value { s: "a/y_0" } } } }
op { name: "y" output_conf { in: "b/y_0" } }
""")
        words = ["run", "{}", "--fill", "rand", "--repeat", "200"]
        folder, home = self.path("code"), {"XDG_CACHE_HOME": self.path("home"), "OPC_CACHE_SIZE": None}  # other tests keep none
        name = self.crash("compile", "loop.pbtxt", "-o", "a.plan", **home)
        for where in ("settings", "environment"):
            self.command(*words)(self.path(name))
            self.change(name, lambda b: (b["environment"].pop("OPC_TEST_CRASH", None), b["settings"].pop("cache.dir", None)))
            self.change(name, lambda b: b[where].update({"cache.dir": [folder]} if where == "settings" else {"OPC_CACHE_DIR": folder}))
            self.opc("debug", "replay", name, code=1, plan="", OPC_VERIFY_EACH=None, **home)
            self.assertFalse(os.path.exists(folder), where)
        # The same run by itself keeps some where it is told to.
        self.opc(*[w.replace("{}", "loop.pbtxt") for w in words], code=0, plan="", OPC_VERIFY_EACH=None, OPC_CACHE_DIR=folder, **home)
        self.assertTrue(os.listdir(folder))

    def test_code_is_not_loaded(self):
        library = self.path("evil.so")
        self.write("evil.so", "no library")
        self.command("--plugin", library, "--op-path", self.folder, "--config", self.path("opc.toml"), "compile", "{}", "-o", "x.plan")(
            self.path(self.bundle_name))
        self.change(self.bundle_name, lambda b: (b["environment"].update(OPC_PLUGINS=library, OPC_CONFIG="/nowhere", LD_PRELOAD=library),
                                                 b["settings"].update({"target.plugins": [library]}),
                                                 b["plugins"].append({"path": library, "sha256": "0"})))
        done = self.replay(self.bundle_name)
        self.assertIn(f"note: the plugin {library} is not loaded; --plugin LIB loads one", done.stderr)
        done = self.replay(self.bundle_name, "--plugin", library, code=1)
        self.assertIn("OPC0902", done.stdout)
        another = f"note: the bundle's plugin {library} has another SHA-256 than what --plugin names"
        self.assertIn(another, done.stderr)
        digest = hashlib.sha256(b"no library").hexdigest()
        self.change(self.bundle_name, lambda b: b["plugins"][0].update(sha256=digest))
        self.assertNotIn(another, self.replay(self.bundle_name, "--plugin", library, code=1).stderr)

    def test_folders_that_are_none_of_opcs(self):
        def link(name, target):
            def change(folder):
                os.remove(f"{folder}/{name}")
                os.symlink(target, f"{folder}/{name}")
            return change

        def rewrite(text):
            def change(folder):
                with open(f"{folder}/bundle.json", "w", encoding="utf-8") as f:
                    f.write(text)
            return change

        def edit(change):
            return lambda folder: self.change(os.path.relpath(folder, self.folder), change)

        cases = [(link("graph.pbtxt", self.path("g.pbtxt")), 3), (link("bundle.json", "/etc/passwd"), 3),
                 (rewrite("{"), 3), (rewrite("[]"), 3), (rewrite('{"opc_crash": 2}'), 3), (rewrite('{"opc_crash": 1}'), 3),
                 (rewrite("[" * 100000), 3), (edit(lambda b: b.update(command="rm -rf /")), 3), (edit(lambda b: b.update(command=[1])), 3),
                 (edit(lambda b: b["graph"].update(file="../../g.pbtxt")), 3), (edit(lambda b: b["graph"].update(file="/etc/passwd")), 3),
                 (edit(lambda b: b["graph"].update(sha256="0" * 64)), 3), (edit(lambda b: b["failure"].pop("phase")), 3),
                 (lambda folder: os.remove(f"{folder}/graph.pbtxt"), 2)]
        for number, (change, code) in enumerate(cases):
            with self.subTest(number):
                self.refused(change, code, "OPC0706" if code == 2 else "OPC0750")
        os.mkfifo(self.path("pipe"))
        shutil.rmtree(self.path(self.bundle_name))
        for name in (self.bundle_name, "pipe", "g.pbtxt"):
            self.replay(name, code=3 if name != self.bundle_name else 2)
        self.crash("compile", "g.pbtxt", "-o", "a.plan")
        os.symlink(self.bundle_name, self.path("linked"))
        self.assertIn("OPC0750", self.replay("linked", code=3).stderr)

    def test_every_option_that_names_a_file_is_known(self):
        """What a new option writes must not be written by a stranger's bundle."""
        with open(os.path.join(base.SOURCE, "tools", "opc", "debug", "ReplayCommand.cpp"), encoding="utf-8") as f:
            known = set(__import__("re").findall(r'"(-[-\w]+)"', f.read()))
        listed = json.loads(self.opc("__commands", code=0).stdout)
        replayed = {"compile", "run", "grad", "check", "show", "report", "diff", "bench", "verify", "ops", "quantize", "debug"}
        words = ("FILE", "DIR", "LIB", "PATH", "PLAN", "GRAPH", "COMMAND", "CMD", "SPEC", "CLUSTER", "REV")
        unknown = {o["name"] for c in listed["commands"] if c["name"] in replayed for o in c["options"] + listed["common_options"]
                   if any(w in o.get("value", "") for w in words) and o["name"] not in known and o["name"]}
        self.assertEqual(unknown, set(), "say in ReplayCommand.cpp what opc debug replay does with them")


if __name__ == "__main__":
    unittest.main(verbosity=1)
