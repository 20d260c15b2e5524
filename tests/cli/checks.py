# opc check: what a lock holds and finds, with which rule, line and exit code; what is written, and when.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import unittest

from check_cases import DIGITS, GRAPH, OPC, SOURCE, Checks, relocked

# Labels are 0 or 1, and there is one class: the kernel refuses.
FAILS = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 8 dim: 1 } data_type: kFloat } } }
op { name: "label" input_conf { out: "out" blob_conf { shape { dim: 8 } data_type: kInt32 } } }
op { name: "loss" user_conf { op_type_name: "sparse_softmax_cross_entropy" input { key: "prediction" value { s: "x/out" } } input { key: "label" value { s: "label/out" } } attr { key: "depth" value { at_int64: 1 } } } }
op { name: "y" output_conf { in: "loss/out_0" } }
'''


class Locks(Checks):
    def test_missing(self):
        self.write("g.pbtxt", GRAPH)
        done = self.check("g.pbtxt", code=1)
        self.assertIn("error[LOCK_MISSING]: there is no g.opc.lock", done.stdout)
        self.assertIn("help: opc check g.pbtxt --update", done.stdout)
        self.assertEqual(os.listdir(self.folder), ["g.pbtxt"])  # nothing was written

    def test_written_and_found_as_it_is(self):
        lock = self.locked()
        self.assertEqual(self.check("g.pbtxt").stderr, "checked 1 graph: no finding\n")
        self.assertIn('\n{"op":"fc","type":"matmul","attrs":{"alpha":{"f64":1.0},"transpose_a":false,"transpose_b":false},'
                      '"in":{"a_0":"x/out","b_0":"w/out"},"out":{"out_0":"fc/out_0"}},\n', lock)
        document = json.loads(lock)
        self.assertEqual(document["opc_lock"], 1)
        self.assertEqual(document["interface"][0], {"in": "x", "type": "f32[4,3]", "tensor": "x/out"})
        self.assertGreaterEqual(document["cost"][0]["flops"], 2 * 4 * 3 * 5)  # of the product alone
        self.assertEqual(document["numerics"][1]["type"], "f32[4,5]")
        self.assertEqual(len(document["numerics"][1]["samples"]), 20)
        # The weights are 0.5: a row of the product is half the sum of the row of x, which is in [-1, 1).
        for sample in document["numerics"][1]["samples"]:
            self.assertTrue(0 <= sample <= 1.5)
        self.assertEqual(relocked(lock), lock)

    def test_equal_bytes(self):
        """Two runs, two folders, one and two threads, another locale, and the order of the file."""
        lock = self.locked()
        self.write("other/g.pbtxt", GRAPH)
        self.check("other/g.pbtxt", "--update", "-j", "1")
        self.assertEqual(self.read("other/g.opc.lock"), lock)
        lines = GRAPH.splitlines(keepends=True)
        self.write("third/g.pbtxt", "".join([lines[0], lines[1], lines[3], lines[2], lines[4]]))
        self.check("third/g.pbtxt", "--update", "-j", "2")
        self.assertEqual(self.read("third/g.opc.lock"), lock)

    @unittest.skipUnless(shutil.which("localedef") and os.path.exists("/usr/share/i18n/locales/tr_TR"), "the package locales is not installed")
    def test_equal_bytes_in_another_locale(self):
        """Of Turkish, where the small letter of I has no dot, and numbers have commas."""
        lock = self.locked()
        subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", self.path("tr_TR.UTF-8")], check=True, capture_output=True)
        env = {"LC_ALL": "tr_TR.UTF-8", "LOCPATH": self.folder}
        point = subprocess.run(["locale", "decimal_point"], env={**os.environ, **env}, capture_output=True, text=True, check=True).stdout
        self.assertEqual(point, ",\n")  # or nothing would be tested
        self.write("turkish/g.pbtxt", GRAPH)
        self.check("turkish/g.pbtxt", "--update", env=env)
        self.assertEqual(self.read("turkish/g.opc.lock"), lock)
        self.check("g.pbtxt", "--twice", "--use", "EXACT", env=env)
        mlp = os.path.join(DIGITS, "mlp.pbtxt")
        shutil.copy(mlp, self.path("mlp.pbtxt"))
        shutil.copy(mlp, self.path("turkish/mlp.pbtxt"))
        self.check("mlp.pbtxt", "--update")
        self.check("turkish/mlp.pbtxt", "--update", env=env)
        self.assertEqual(self.read("turkish/mlp.opc.lock"), self.read("mlp.opc.lock"))

    def test_equal_bytes_of_the_canonical_rewrite(self):
        os.mkdir(self.path("new"))
        for name in ("mlp", "cnn"):
            shutil.copy(os.path.join(DIGITS, name + ".pbtxt"), self.path(name + ".pbtxt"))
            subprocess.run([OPC, "compile", name + ".pbtxt", "--to", "import", "--emit", "pbtxt", "-o", f"new/{name}.pbtxt"],
                           cwd=self.folder, check=True, capture_output=True)
            self.check(name + ".pbtxt", f"new/{name}.pbtxt", "--update")
            self.assertEqual(self.read(f"new/{name}.opc.lock"), self.read(name + ".opc.lock"))

    def test_a_training_step_on_a_mesh(self):
        subprocess.run([OPC, "grad", os.path.join(DIGITS, "mlp.pbtxt"), "--loss", "logits", "--optimizer", "sgd", "--lr", "0.1",
                        "-o", self.path("t.pbtxt")], check=True, capture_output=True)
        self.check("t.pbtxt", "--update", "--mesh", "2")
        lock = json.loads(self.read("t.opc.lock"))
        self.assertEqual(lock["target"]["mesh"], "2")
        self.assertTrue(any(r.get("role") == "backward" for r in lock["grad"]))
        self.assertTrue(lock["boxing"])
        self.assertEqual(lock["cost"][0]["comm_bytes"], sum(r["bytes"] for r in lock["boxing"]))
        self.check("t.pbtxt", "--twice")  # the lock knows its mesh
        self.assertIn("LOCK_STALE", self.rules("t.pbtxt", "--mesh", "4"))

    def test_not_a_lock(self):
        lock = self.locked()
        for text in ("", "{}", "[1]", '{"opc_lock":"1"}', lock[:-20], lock.replace("f32[4,3]", "f32[4,")):
            self.write("g.opc.lock", text)
            self.check("g.pbtxt", code=3)
        self.check("g.pbtxt", "--update")  # mends it
        self.assertEqual(self.read("g.opc.lock"), lock)

    def test_cut_off(self):
        """At each line's end, and in the middle of each line."""
        lock = self.locked()
        ends = [i + 1 for i, c in enumerate(lock) if c == "\n"][:-1]
        for end in ends + [(a + b) // 2 for a, b in zip(ends, ends[1:])]:
            self.write("g.opc.lock", lock[:end])
            found = self.findings("g.pbtxt", code=3)
            self.assertEqual([f["rule"] for f in found], ["LOCK_DAMAGED"], lock[:end][-80:])
            self.assertIn(f"g.opc.lock:{lock[:end].count(chr(10)) + 1}: not a lock file: it is no JSON", found[0]["message"])

    def test_a_merge_conflict(self):
        """As git leaves it, and as a merge driver that takes both sides."""
        lock = self.locked()
        self.write("g.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        self.check("g.pbtxt", "--update")
        other = self.read("g.opc.lock")
        self.write("base", "")
        for name, text in (("ours", lock), ("theirs", other)):
            self.write(name, text)
        merged = subprocess.run(["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=self.folder, capture_output=True, text=True).stdout
        self.write("g.opc.lock", merged)
        found = self.findings("g.pbtxt", code=3)
        self.assertEqual([f["rule"] for f in found], ["LOCK_DAMAGED"])
        line = 1 + next(i for i, x in enumerate(merged.splitlines()) if x.startswith("<<<<<<<"))
        self.assertEqual(found[0]["message"], f"g.opc.lock:{line}: a merge has left its marks: both sides have changed this lock")
        self.assertEqual(found[0]["help"], "take either side (git checkout --theirs g.opc.lock), then: opc check g.pbtxt --update")
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.read("g.opc.lock"), other)
        # Records of both sides without marks, and sections that are there twice.
        self.write("g.opc.lock", lock.replace('"ops":[\n', '"ops":[\n' + next(x for x in other.splitlines() if '"type":"tanh"' in x).rstrip("],") + ",\n"))
        self.assertIn("LOCK_STALE", self.rules("g.pbtxt"))
        self.write("g.opc.lock", lock.replace('"ops":[\n', '"ops":[],\n"ops":[\n'))
        self.assertIn('"ops" is there twice', self.findings("g.pbtxt", code=3)[0]["message"])

    def test_a_merge_conflict_in_the_graph(self):
        self.write("g.pbtxt", GRAPH.replace('op { name: "act"', '<<<<<<< HEAD\nop { name: "act"'))
        found = self.findings("g.pbtxt", code=3)
        self.assertEqual([(f["rule"], f["source"]["line"]) for f in found], [("GRAPH_INVALID", 4)])
        self.assertEqual(found[0]["help"], "a merge has left its marks: both sides have changed the graph, and one is to be chosen")

    def test_a_lock_that_is_a_link(self):
        """Nothing is read or written through it: the file elsewhere stays what it is."""
        self.write("elsewhere/precious", "precious\n")
        self.write("g.pbtxt", GRAPH)
        os.symlink("elsewhere/precious", self.path("g.opc.lock"))
        self.assertEqual([(f["rule"], f["message"]) for f in self.findings("g.pbtxt", code=3)],
                         [("LOCK_DAMAGED", "g.opc.lock is a link, and links are not followed")])
        self.assertIn("g.opc.lock is a link, and nothing is written through it", self.check("g.pbtxt", "--update", code=2).stderr)
        os.remove(self.path("g.opc.lock"))
        os.symlink("elsewhere/precious", self.path("g.opc.outputs.npz"))
        self.check("g.pbtxt", "--update", "--keep-outputs", code=2)
        self.assertEqual(self.read("elsewhere/precious"), "precious\n")

    def test_a_pipe_beside_a_graph(self):
        """Nobody has named it, and nobody writes into it: nothing waits for its end, and an update puts nothing into it. Nor is a folder a lock."""
        lock = self.locked()
        os.remove(self.path("g.opc.lock"))
        for make, what in ((os.mkfifo, "a pipe"), (os.mkdir, "a folder")):
            make(self.path("g.opc.lock"))
            self.assertEqual([(f["rule"], f["message"]) for f in self.findings("g.pbtxt", code=3)],
                             [("LOCK_DAMAGED", f"g.opc.lock is {what}, and a lock is a regular file")])
            self.assertIn(f"cannot write g.opc.lock: it is {what}, and no regular file", self.check("g.pbtxt", "--update", code=2).stderr)
            (os.remove if what == "a pipe" else os.rmdir)(self.path("g.opc.lock"))
            self.write("g.opc.lock", lock)
            make(self.path("g.opc.inputs.npz"))
            found, = self.findings("g.pbtxt", code=5)
            self.assertEqual((found["rule"], found["message"]), ("RUN_FAILED", f"OPC0706: cannot read g.opc.inputs.npz: it is {what}, and no regular file"))
            self.check("g.pbtxt", "--update", code=5)
            self.check("g.pbtxt", "--no-run")
            self.assertEqual(self.read("g.opc.lock"), lock)
            shutil.move(self.path("g.opc.inputs.npz"), self.path("g.opc.outputs.npz"))
            self.check("g.pbtxt")  # the lock knows of none
            self.assertIn(f"cannot write g.opc.outputs.npz: it is {what}", self.check("g.pbtxt", "--update", "--keep-outputs", code=2).stderr)
            self.write("g.opc.lock", relocked(lock.replace('"high":1.0}', '"high":1.0,"outputs":"' + "0" * 16 + '"}')))
            self.assertIn(f"are in g.opc.outputs.npz, which is {what}", self.findings("g.pbtxt")[0]["message"])
            (os.remove if what == "a pipe" else os.rmdir)(self.path("g.opc.outputs.npz"))
            os.remove(self.path("g.opc.lock"))

    def test_two_graphs_of_one_lock(self):
        """Neither is checked, and nothing is written for them; the others are checked as ever."""
        names = ("g.pbtxt", "g.prototxt")
        for name in (*names, "h.pbtxt"):
            self.write(name, GRAPH)
        for args in ((".", "--update"), (".", "--shape", "other=2", "--tensors", "other"), (*names, "h.pbtxt"), (self.path("g.pbtxt"), "g.prototxt", "h.pbtxt")):
            found = [f for f in self.findings(*args) if f["severity"] == "error"]
            self.assertEqual([(f["rule"], os.path.basename(f["graph"])) for f in found], [("LOCK_SHARED", name) for name in names], args)
            self.assertTrue(all(f["message"].endswith("g.opc.lock") for f in found))
            self.assertEqual(sorted(os.listdir(self.folder)), ["g.pbtxt", "g.prototxt", "h.opc.lock", "h.pbtxt"])
        done = self.check(".", code=1)
        self.assertIn("g.pbtxt and g.prototxt would have one lock, g.opc.lock\n", done.stdout)
        self.assertIn("help: give one of them another name, check one alone, or leave one out: --ignore 'g.prototxt:*'\n", done.stdout)
        self.assertEqual(done.stderr, "checked 3 graphs: 2 errors\n")
        # The one that is left has the lock: of those that are left out none is looked at.
        for name, other in (names, names[::-1]):
            self.check(".", "--ignore", f"{other}:*", "--update")
            self.assertEqual(json.loads(self.read("g.opc.lock"))["graph"], name)
            self.assertEqual(self.check(".", "--ignore", f"{other}:LOCK_SHARED").stderr, "checked 3 graphs: no finding\n")
            os.remove(self.path("g.opc.lock"))
        self.check(".", "--ignore", "g.*:*", "--update")
        self.assertFalse(os.path.exists(self.path("g.opc.lock")))
        self.check("g.pbtxt", "--update")
        self.check("g.prototxt")
        # One graph is one, whatever it is called.
        os.symlink(".", self.path("again"))
        self.assertEqual(self.check("g.pbtxt", "./g.pbtxt", self.path("g.pbtxt"), "again/g.pbtxt").stderr, "checked 1 graph: no finding\n")

    def test_line_ends_of_windows(self):
        lock = self.locked()
        with open(self.path("g.opc.lock"), "w", encoding="utf-8", newline="\r\n") as f:
            f.write(lock)
        self.check("g.pbtxt")
        self.write("g.pbtxt", GRAPH.replace("\n", "\r\n"))
        self.check("g.pbtxt")
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.read("g.opc.lock"), lock)

    def test_a_hostile_lock(self):
        """Anybody may have written it: nothing takes long, nothing ends the process."""
        lock = self.locked()
        for text in ("[" * 2_000_000, '{"a":' * 500_000, '{"opc_lock":1e999}', '{"opc_lock":99999999999999999999}', '{"opc_lock":-1}',
                     lock.replace('"seed":0', '"seed":"0"'), lock.replace('"f32[4,3]"', '"f32[' + "1," * 100 + '1]"'),
                     lock.replace('"in":{"a_0":"x/out"', '"in":{"a_0":7'), lock.replace('"ops":[', '"ops":[7,'), "\0" * 1000, "\xff\xfe"):
            self.assertNotEqual(text, lock)
            self.write("g.opc.lock", text)
            self.assertEqual(self.rules("g.pbtxt", code=3), {"LOCK_DAMAGED"}, text[:80])
        for mesh in ("1048576", "1024x1024", "0", "-1", "2x", "x"):
            self.write("g.opc.lock", lock.replace('"target":{"device":"cpu"}', '"target":{"device":"cpu","mesh":"%s"}' % mesh))
            self.assertIn("LOCK_STALE", self.rules("g.pbtxt"))

    def test_the_range_of_the_lock(self):
        """A lock that says other inputs is checked with these: x in [2, 3) in place of [-1, 1)."""
        self.locked()
        lock = json.loads(self.read("g.opc.lock"))
        self.assertEqual(lock["numerics"][0], {"seed": 0, "low": -1.0, "high": 1.0})
        self.write("g.opc.lock", relocked(self.read("g.opc.lock").replace('"low":-1.0,"high":1.0', '"low":2.0,"high":3.0')))
        self.assertEqual(self.rules("g.pbtxt"), {"NUMERIC_MISMATCH"})
        self.check("g.pbtxt", "--update=numerics")
        self.check("g.pbtxt")
        for sample in json.loads(self.read("g.opc.lock"))["numerics"][1]["samples"]:
            self.assertTrue(3 <= sample <= 4.5)  # half the sum of three numbers

    def test_a_newer_lock(self):
        lock = self.locked()
        self.write("g.opc.lock", lock.replace('"opc_lock":1', '"opc_lock":2'))
        self.assertEqual(self.rules("g.pbtxt", code=4), {"LOCK_NEWER_THAN_TOOL"})
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.read("g.opc.lock"), lock)

    def test_edited_by_hand(self):
        lock = self.locked()
        self.write("g.opc.lock", lock.replace('"type":"relu"', '"type":"tanh"'))
        found = {f["rule"]: f for f in self.findings("g.pbtxt")}
        self.assertIn("section ops was edited by hand", found["LOCK_STALE"]["message"])

    def test_orphans(self):
        self.locked()
        self.write("old.opc.lock", self.read("g.opc.lock"))
        done = self.check(".")
        self.assertIn("warning[LOCK_UNREFERENCED]: no graph lies beside the lock old.opc.lock", done.stdout)
        self.assertEqual(done.stderr, "checked 1 graph: 1 warning\n") # the lock is none
        self.assertEqual([g["graph"] for g in json.loads(self.check(".", "--json").stdout)["graphs"]], ["g.pbtxt"])
        self.check(".", code=1, env={"CI": "true"})
        self.check(".", "--unreferenced", "warn", env={"CI": "true"})
        self.check(".", "--unreferenced", "error", code=1)
        for flag in (["--ignore", "old.opc.lock:*"], ["--except", "LOCK_UNREFERENCED"]):  # what is left out is left alone
            self.assertEqual(self.check(".", "--unreferenced", "delete", *flag).stdout, "")
            self.assertTrue(os.path.exists(self.path("old.opc.lock")))
        self.check(".", "--unreferenced", "delete")
        self.assertEqual(sorted(os.listdir(self.folder)), ["g.opc.lock", "g.pbtxt"])

    def test_the_lock_of_a_graph_with_another_ending(self):
        """A graph that is named may end in anything, or in nothing: its lock says which it is, and is not deleted."""
        delete = (".", "--unreferenced", "delete")
        for name in ("m.txt", "m"):
            self.write(name, GRAPH)
            self.check(name, "--update", "--keep-outputs")
            lock = self.read("m.opc.lock")
            self.write("g.pbtxt", GRAPH)
            self.check("g.pbtxt", "--update")
            self.write("opc.toml", '[check]\npaths = ["*.pbtxt"]\n')
            for text in (lock, lock.replace('"opc_lock":1', '"opc_lock":9'), lock[: lock.index("\n") + 5], "<<<<<<< HEAD\n" + lock, json.dumps(json.loads(lock), indent=1), lock.replace("\n", "\r\n")):
                self.write("m.opc.lock", text)
                self.assertEqual([self.findings(*a, code=0) for a in (delete, delete[1:])], [[], []])
            # What says no name belongs to a graph that is checked with it, all the same; else nobody knows.
            for text in ("", "{}", '{"opc_lock":1,"graph":7}', '{"opc_lock":1,"graph":"../m.txt"}', '{"opc_lock"', "{" * 100000, lock.replace(f'"graph":"{name}"', '"graph":"g.pbtxt"')):
                self.write("m.opc.lock", text)
                self.assertNotIn("LOCK_UNREFERENCED", self.rules(name, *delete, code=None))
                found = self.findings(code=0)
                self.assertEqual([(f["rule"], f["graph"]) for f in found], [("LOCK_UNREFERENCED", "m.opc.lock")])
            os.remove(self.path(name))
            self.write("m.opc.lock", lock)
            self.check(*delete)
            self.assertEqual(sorted(os.listdir(self.folder)), ["g.opc.lock", "g.pbtxt", "opc.toml"])

    def test_the_lock_of_a_linked_graph(self):
        self.locked()
        self.write("target", GRAPH)
        os.symlink("target", self.path("linked.pbtxt"))
        self.check("linked.pbtxt", "--update")
        self.write("opc.toml", '[check]\npaths = ["*.pbtxt"]\n')
        for folder in ((".",), ()):
            self.assertEqual(self.findings(*folder, code=0), [])
        os.remove(self.path("target"))
        for folder in ((".",), ()):
            self.assertEqual(self.rules(*folder, code=0), {"LOCK_UNREFERENCED"})

    def test_manifests_are_no_graphs(self):
        self.locked()
        for name in ("g.ops.pbtxt", "alone.ops.pbtxt"):
            self.write(name, "version: 1\n")
        self.write("opc.toml", '[check]\npaths = ["*.pbtxt"]\n')
        for folder in ((".",), ()):
            self.assertEqual(self.check(*folder).stderr, "checked 1 graph: no finding\n")
        found = self.findings("g.ops.pbtxt", "alone.ops.pbtxt", code=3)
        self.assertEqual(sorted((f["rule"], f["help"]) for f in found),
                         [("GRAPH_INVALID", "give the graph that it belongs to: what it is called without .ops"), ("GRAPH_INVALID", "give the graph: g.pbtxt")])
        said = subprocess.run([OPC, "show", "g.ops.pbtxt"], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(said.returncode, 3)
        self.assertIn("error[OPC0103]: not a graph: g.ops.pbtxt is the manifest of a graph's operators in Python", said.stderr)


class Changes(Checks):
    def test_attribute(self):
        found = self.changed('op_type_name: "matmul"', 'op_type_name: "matmul" attr { key: "alpha" value { at_double: 2 } }')
        self.assertLessEqual({("OP_ATTR_CHANGED", "fc", 3), ("NUMERIC_MISMATCH", "y", 5)}, found)

    def test_type(self):
        self.assertIn(("OP_TYPE_CHANGED", "act", 4), self.changed('"relu"', '"tanh"'))

    def test_shape(self):
        found = self.changed("dim: 4", "dim: 6")
        self.assertLessEqual({("INPUT_TYPE_CHANGED", "x", 1), ("TENSOR_TYPE_CHANGED", "fc", 3), ("OUTPUT_TYPE_CHANGED", "y", 5)}, found)
        self.assertLessEqual({"FLOPS_GREW", "PEAK_MEMORY_GREW"}, {f[0] for f in found})

    def test_renamed(self):
        self.assertEqual(self.changed("fc", "dense"), {("OP_RENAMED", "dense", 3)})

    def test_ports(self):
        self.assertIn("OUTPUT_REMOVED", {f[0] for f in self.changed('name: "y"', 'name: "z"')})
        self.write("g.pbtxt", GRAPH.replace('name: "x"', 'name: "x2"').replace("x/out", "x2/out"))
        self.assertIn("INPUT_REMOVED", self.rules("g.pbtxt"))
        self.write("g.pbtxt", GRAPH.replace('name: "w"', 'name: "w2"').replace("w/out", "w2/out"))
        self.assertIn("VARIABLE_REMOVED", self.rules("g.pbtxt"))

    def test_initializer(self):
        self.assertLessEqual({("OP_ATTR_CHANGED", "w", 2), ("NUMERIC_MISMATCH", "y", 5)}, self.changed("value: 0.5", "value: 0.75"))

    def test_a_nudge_within_the_tolerance_is_no_mismatch(self):
        # f32: rtol 1.3e-6, atol 1e-5; values are below 1.5. Of the weights' 0.5 a part in 10^6 is within, one in 10^4 is not.
        self.assertNotIn("NUMERIC_MISMATCH", {f[0] for f in self.changed("value: 0.5", "value: 0.5000005")})
        self.assertIn("NUMERIC_MISMATCH", {f[0] for f in self.changed("value: 0.5", "value: 0.50005")})

    def test_mismatch_says_what_would_pass(self):
        self.locked()
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.505"))
        found = [f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"][0]
        # Every value is 1 % larger: an rtol just under 0.01 passes, since atol takes off a little.
        rtol, atol = re.search(r"rtol (\S+) would pass, or atol (\S+)", found["help"]).groups()
        self.assertTrue(0.0098 < float(rtol) <= 0.0101, found["help"])
        self.assertRegex(found["message"], r"\d+ of 20 samples \(\d+ %\) differ by more than rtol 1.3e-6, atol 1e-5; worst at \[\d, \d\]")
        # And it does pass.
        for allowed in (f"rtol = {rtol}", f"atol = {atol}"):
            self.write("opc.toml", "[tolerance]\ny = { %s }\n" % allowed)
            self.assertNotIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))
        self.write("opc.toml", '[tolerance]\ny = { metric = "cos>=0.9999" }\n')
        self.assertNotIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))
        self.write("opc.toml", '[tolerance]\ny = { metric = "max<=1e-4" }\n')
        self.assertIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))

    def test_a_warning_that_is_new(self):
        with open(os.path.join(SOURCE, "tests", "cli", "Inputs", "attention_block.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        self.locked(text)
        self.assertEqual(json.loads(self.read("g.opc.lock"))["diagnostics"], [])
        self.write("g.pbtxt", text.replace("at_double: 1e-5", "at_double: 0"))
        found = {f["rule"]: f for f in self.findings("g.pbtxt")}
        self.assertEqual((found["WARNING_ADDED"]["severity"], found["WARNING_ADDED"]["source"]["line"]), ("warning", 7))
        self.assertIn("OPC0212", found["WARNING_ADDED"]["message"])
        self.check("g.pbtxt", "--update=diagnostics", code=1)
        self.assertNotIn("WARNING_ADDED", self.rules("g.pbtxt"))
        self.write("g.pbtxt", text)
        self.assertNotIn("WARNING_ADDED", self.rules("g.pbtxt", code=0))

    def test_gradients(self):
        """Gradients that are not asked for any more: their outputs are gone, and ops of the backward pass with them."""
        def grad(*flags):
            return subprocess.run([OPC, "grad", os.path.join(DIGITS, "mlp.pbtxt"), "--loss", "logits", "-o", "-", *flags],
                                  capture_output=True, text=True, check=True).stdout

        self.locked(grad("--wrt", "fc*_w"))
        self.assertTrue(any(r.get("role") == "backward" for r in json.loads(self.read("g.opc.lock"))["grad"]))
        self.write("g.pbtxt", grad("--wrt", "fc1_w"))
        self.assertLessEqual({"OUTPUT_REMOVED", "GRAD_CHANGED"}, self.rules("g.pbtxt"))

    def test_states(self):
        """A pin that is new: signatures and transfers differ, and a lock of the mesh says where."""
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update", "--mesh", "2")
        found = self.findings("g.pbtxt", "--mesh", "2", "--sbp", "w=S(1)", "--sbp", "x=B")
        self.assertIn(("SBP_CHANGED", 3), {(f["rule"], f["source"] and f["source"]["line"]) for f in found})
        self.assertNotIn("NUMERIC_MISMATCH", {f["rule"] for f in found})
        self.check("g.pbtxt", "--mesh", "2", "--sbp", "w=S(1)", "--sbp", "x=B", "--use", "SEMANTIC")

    def test_nonfinite(self):
        self.assertIn("NONFINITE", {f[0] for f in self.changed('"relu"', '"log"')})

    def test_order_and_spelling_are_no_change(self):
        self.locked()
        lines = GRAPH.splitlines(keepends=True)
        self.write("g.pbtxt", "# a comment\n" + lines[0] + lines[1] + lines[3] + lines[2].replace(
            'op_type_name: "matmul"', 'op_type_name: "matmul" attr { key: "transpose_b" value { at_bool: false } }') + lines[4])
        self.check("g.pbtxt")

    def test_a_cost_that_falls_is_a_note(self):
        lock = self.locked()
        peak = json.loads(lock)["cost"][0]["peak_bytes"]
        self.write("g.opc.lock", relocked(lock.replace(f'"peak_bytes":{peak}', f'"peak_bytes":{2 * peak}')))
        found = self.findings("g.pbtxt", code=0)
        self.assertEqual([(f["rule"], f["severity"], f["help"]) for f in found],
                         [("PEAK_MEMORY_GREW", "note", "lock it in: opc check g.pbtxt --update=cost")])
        self.write("g.opc.lock", relocked(lock.replace(f'"peak_bytes":{peak}', f'"peak_bytes":{peak - 1}')))
        self.assertEqual([f["severity"] for f in self.findings("g.pbtxt")], ["error"])
        self.check("g.pbtxt", "--grow", "peak_bytes=2%")
        self.check("g.pbtxt", "--grow", "flops=2%", code=1)
        self.write("opc.toml", '[check.cost]\npeak_bytes = "2%"\n')
        self.check("g.pbtxt")

    def test_invalid(self):
        self.locked()
        self.write("g.pbtxt", GRAPH.replace('"relu"', '"reluu"'))
        found = self.findings("g.pbtxt", code=3)
        self.assertEqual([(f["rule"], f["source"]["line"]) for f in found], [("GRAPH_INVALID", 4)])
        self.assertIn("OPC0201", found[0]["message"])

    def test_a_kernel_that_is_missing(self):
        self.write("g.pbtxt", GRAPH.replace("kFloat", "kInt8"))
        found = self.findings("g.pbtxt", code=4)
        self.assertEqual([(f["rule"], f["source"]["line"]) for f in found], [("GRAPH_INVALID", 3)])
        self.assertTrue(found[0]["message"].startswith("OPC0411"))

    def test_a_kernel_that_fails(self):
        self.write("g.pbtxt", FAILS)
        self.assertEqual(self.rules("g.pbtxt", code=5), {"RUN_FAILED"})
        self.check("g.pbtxt", "--no-run", "--update")
        self.check("g.pbtxt", "--no-run")
        self.assertNotIn("numerics", json.loads(self.read("g.opc.lock")))

    def test_the_worst_class_of_several_graphs(self):
        self.write("a.pbtxt", GRAPH)  # no lock: 1
        self.write("b.pbtxt", GRAPH.replace('"relu"', '"reluu"'))  # 3
        self.write("c.pbtxt", GRAPH.replace("kFloat", "kInt8"))  # no kernel: 4
        self.write("d.pbtxt", FAILS)  # 5
        for code, last in ((5, "d"), (4, "c"), (3, "b"), (1, "a")):
            self.check(".", code=code)
            self.check(".", "--exit-zero")
            os.remove(self.path(last + ".pbtxt"))

    def test_most_severe_first_and_all_in_one_run(self):
        self.locked()
        self.write("g.pbtxt", GRAPH.replace("dim: 4", "dim: 6"))
        self.write("bad.pbtxt", GRAPH.replace('"relu"', '"reluu"'))
        self.write("old.opc.lock", "{}")
        found = self.findings(".", code=3)
        order = [("error", "warning", "note").index(f["severity"]) for f in found]
        self.assertEqual(order, sorted(order))
        self.assertLessEqual({"GRAPH_INVALID", "INPUT_TYPE_CHANGED", "LOCK_UNREFERENCED"}, {f["rule"] for f in found})


class Options(Checks):
    def test_categories(self):
        self.locked()
        self.write("g.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        self.check("g.pbtxt", "--use", "INTERFACE")
        self.assertLessEqual({"OP_TYPE_CHANGED", "NUMERIC_MISMATCH"}, self.rules("g.pbtxt", "--use", "SEMANTIC"))

    def test_exact(self):
        lock = self.locked()
        order = json.loads(lock)["tasks"][0]["schedule"]
        self.write("g.opc.lock", relocked(lock.replace(order, "0" * 16)))
        self.check("g.pbtxt")
        self.assertEqual(self.rules("g.pbtxt", "--use", "EXACT"), {"SCHEDULE_CHANGED"})

    def test_what_does_not_fit_here(self):
        self.locked()
        found = self.findings("g.pbtxt", "--mesh", "2", "--device-memory", "64", code=4)
        self.assertTrue(found[0]["message"].startswith("OPC0312"))

    def test_doubts(self):
        dead = 'op { name: "dead" user_conf { op_type_name: "abs" input { key: "x" value { s: "fc/out_0" } } } }\n'
        self.write("g.pbtxt", GRAPH.replace('op { name: "y"', dead + 'op { name: "y"'))
        done = self.check("g.pbtxt", "--update")
        self.assertIn("warning[DEAD_OP]: op dead: nothing that the graph gives depends on it\n  --> g.pbtxt:5:1", done.stdout)
        self.check("g.pbtxt")

    def test_left_out(self):
        self.changed("fc", "dense")
        self.check("g.pbtxt", "--except", "OP_RENAMED")
        self.check("g.pbtxt", "--ignore", "*.pbtxt:OP_RENAMED")
        self.check("g.pbtxt", "--ignore", "g*:*")
        self.check("g.pbtxt", "--ignore", "h*:*", code=1)
        self.check("g.pbtxt", "--exit-zero")
        self.write("g.pbtxt", "no graph")
        self.check("g.pbtxt", code=3)
        self.check("g.pbtxt", "--ignore", "g.pbtxt:*")

    def test_settings(self):
        self.write("graphs/a/g.pbtxt", GRAPH)
        self.write("graphs/h.pbtxt", GRAPH)
        self.write("graphs/no.prototxt", "no graph")
        self.write("opc.toml", '[check]\npaths = ["graphs/**/*.pbtxt"]\n')
        graphs = json.loads(self.check("--update", "--json").stdout)["graphs"]
        self.assertEqual([g["graph"] for g in graphs], ["graphs/a/g.pbtxt", "graphs/h.pbtxt"])
        self.write("graphs/h.pbtxt", GRAPH.replace("fc", "dense"))
        self.assertEqual(self.rules(), {"OP_RENAMED"})
        for text in ('use = ["INTERFACE"]', 'except = ["OP_RENAMED"]', '[check.ignore]\n"graphs/*.pbtxt" = ["OP_RENAMED"]'):
            self.write("opc.toml", '[check]\npaths = ["graphs/**/*.pbtxt"]\n' + text + "\n")
            self.check()
        for text in ('except = ["OP_RENAMD"]', 'use = ["ALL"]', 'use = "COST"', 'paths = ["nothing/*.pbtxt"]', "[check.cost]\nspeed = \"2%\"",
                     "[check.cost]\nflops = \"2\"", "[check]\nignore = [1]", "[check.ignore]\nx = {}"):
            self.write("opc.toml", "[check]\n" + text.replace("[check]\n", "") + "\n")
            self.check("graphs" if "paths" not in text else "--no-run", code=2)
        for text, says in (('[check]\nexcept = [\n  "OP_RENAMED",\n  "OP_RENAMD"]', "'OP_RENAMD' (opc.toml:4)"), ('[check]\nuse = ["ALL"]', "of rules (opc.toml:2)"),
                           ('[check.ignore]\n"x" = ["OP_X"]', "'OP_X' (opc.toml:"), ('[check.cost]\nspeed = "2%"', "names no cost (opc.toml:"),
                           ('[check.cost]\nflops = "2"', "by how much (opc.toml:")):
            self.write("opc.toml", text + "\n")
            self.assertIn(says, self.check("graphs", code=2).stderr)
        os.remove(self.path("opc.toml"))
        self.assertIn("no rule is called 'OP_X'\n", self.check("graphs", "--except", "OP_X", code=2).stderr)

    def test_globs_of_settings(self):
        """Locks are no graphs, and one that a glob's graph has left is seen."""
        self.write("graphs/a/g.pbtxt", GRAPH)
        self.write("graphs/h.pbtxt", GRAPH)
        self.write("opc.toml", '[check]\npaths = ["graphs/**"]\n')
        self.check("--update")
        self.check()
        os.remove(self.path("graphs/a/g.pbtxt"))
        for glob in ("graphs/**", "graphs/**/*.pbtxt"):
            self.write("opc.toml", f'[check]\npaths = ["{glob}"]\n')
            found = self.findings(code=0)
            self.assertEqual([(f["rule"], f["graph"]) for f in found], [("LOCK_UNREFERENCED", "graphs/a/g.opc.lock")])
        self.write("opc.toml", '[check]\npaths = ["graphs/n*.prototxt", "graphs/h*"]\n')
        self.check(code=2)

    def test_reports_are_files_of_their_own(self):
        lock = self.locked()
        self.write("old.pbtxt", GRAPH)
        self.write("opc.toml", "[run]\n")
        kept = ("g.pbtxt", "g.opc.lock", "old.pbtxt", "opc.toml")
        before = [self.read(name) for name in kept]
        for args in (["--report", "json=g.pbtxt"], ["--report", "json=./g.opc.lock"], ["--report", "json=r", "--report", "sarif=./r"], ["--report", "json=opc.toml"],
                     ["--against", "old.pbtxt", "--report", "junit=old.pbtxt"], ["--report", "json=g.opc.inputs.npz"]):
            with self.subTest(args):
                self.assertIn("error[OPC0002]", self.check("g.pbtxt", *args, code=2).stderr)
        self.assertEqual([self.read(name) for name in kept], before)
        self.assertEqual(before[1], lock)
        # A lock that is not there yet is as little a place for a report.
        self.write("new/g.pbtxt", GRAPH)
        self.check("new/g.pbtxt", "--update", "--report", "json=new/g.opc.lock", code=2)
        self.assertFalse(os.path.exists(self.path("new/g.opc.lock")))
        # One that cannot be written leaves the others, and one document.
        done = self.check("g.pbtxt", "--json", "--report", "junit=/dev/full", "--report", "sarif=r.sarif", code=5)
        self.assertEqual(json.loads(done.stdout)["diagnostics"][0]["code"], "OPC0707")
        self.assertTrue(os.path.exists(self.path("r.sarif")))
        # Standard output has one form.
        done = self.check("g.pbtxt", "--report", "json=-", code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("--format json, or a file", done.stderr)

    def test_update_of_sections(self):
        self.locked()
        self.write("g.pbtxt", GRAPH.replace("dim: 4", "dim: 6"))
        self.check("g.pbtxt", "--update=cost", code=1)
        self.assertEqual(self.rules("g.pbtxt") & {"FLOPS_GREW", "INPUT_TYPE_CHANGED"}, {"INPUT_TYPE_CHANGED"})
        done = self.check("g.pbtxt", "--update")
        self.assertIn("note[INPUT_TYPE_CHANGED]: input x: accepted: type f32[4,3] -> f32[6,3]", done.stdout)
        self.check("g.pbtxt")

    def test_update_means_no(self):
        self.write("g.pbtxt", GRAPH)
        for no in ("--update=0", "--update=false"):
            self.check("g.pbtxt", no, code=1)
        self.assertEqual(os.listdir(self.folder), ["g.pbtxt"])

    def test_update_in_ci(self):
        self.write("g.pbtxt", GRAPH)
        done = self.check("g.pbtxt", "--update", code=2, env={"CI": "true"})
        self.assertIn("OPC0001", done.stderr)
        self.assertEqual(os.listdir(self.folder), ["g.pbtxt"])
        for env in ({"CI": "0"}, {"CI": ""}, {"CI": "false"}):
            self.check("g.pbtxt", "--update", env=env)
        self.check("g.pbtxt", "--update", "--update-in-ci", env={"CI": "1"})

    def test_values_of_several_graphs_need_a_word(self):
        self.write("a.pbtxt", GRAPH)
        self.write("b.pbtxt", GRAPH)
        self.check(".", "--update")
        before = self.read("a.opc.lock")
        self.write("a.pbtxt", GRAPH.replace("0.5", "0.75"))
        self.assertIn("of 2 graphs would accept other values in a.pbtxt\n", self.check(".", "--update", code=2).stderr)
        self.assertEqual(self.read("a.opc.lock"), before)
        self.write("b.pbtxt", GRAPH.replace("0.5", "0.75"))
        self.assertIn("in a.pbtxt, b.pbtxt\n", self.check(".", "--update", code=2).stderr)
        self.check(".", "--update", "--all")
        self.check(".")

    def test_rules(self):
        rules = json.loads(self.check("--list-rules", "--json").stdout)["rules"]
        topics = json.loads(subprocess.run([OPC, "explain", "--list", "--json"], capture_output=True, text=True, check=True).stdout)
        titles = {t["code"]: t["title"] for t in topics["codes"]}
        self.assertEqual({r["rule"]: r["doc"] for r in rules}, {r["rule"]: titles.get(r["rule"]) for r in rules})
        with open(os.path.join(SOURCE, "docs", "rules.md"), encoding="utf-8") as f:
            self.assertEqual(re.findall(r"^## (\S+) — ", f.read(), re.M), [r["rule"] for r in rules])
        explained = subprocess.run([OPC, "explain", "op_renamed"], capture_output=True, text=True, check=True).stdout
        self.assertTrue(explained.startswith("OP_RENAMED: an op has another name"))

    def test_usage(self):
        self.locked()
        for args in ([], ["nowhere.pbtxt"], ["g.pbtxt", "--update=opps"], ["g.pbtxt", "--except", "OP_RENAMD"],
                     ["g.pbtxt", "--ignore", "x"], ["g.pbtxt", "--use", "ALL"], ["g.pbtxt", "--grow", "flops"],
                     ["g.pbtxt", "--grow", "flop=2%"], ["g.pbtxt", "--grow", "flops=-2%"], ["g.pbtxt", "--report", "sarif"],
                     ["g.pbtxt", "--report", "sarf=x"], ["g.pbtxt", "--report", "sarif=nowhere/x"], ["g.pbtxt", "--format", "xml"]):
            done = self.check(*args, code=2)
            self.assertRegex(done.stderr, r"error\[OPC0(001|002|706)\]")
        self.assertIn("say where it goes: --report sarif=FILE", self.check("g.pbtxt", "--report", "sarif", code=2).stderr)
        self.assertIn("did you mean ops?", self.check("g.pbtxt", "--update=opps", code=2).stderr)
        os.mkdir(self.path("empty"))
        self.check("empty", code=2)

    def test_links_are_not_followed(self):
        self.write("in/g.pbtxt", GRAPH)
        self.write("out/h.pbtxt", GRAPH)
        os.symlink("../out", self.path("in/link"))
        self.write("in/.hidden/i.pbtxt", GRAPH)
        graphs = json.loads(self.check("in", "--json", code=1).stdout)["graphs"]
        self.assertEqual([g["graph"] for g in graphs], ["in/g.pbtxt"])


if __name__ == "__main__":
    unittest.main()
