# opc check and values: inputs of a file, tensors inside, whole outputs, NaN, shapes that a graph leaves open, standard input.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import subprocess
import unittest

import numpy as np

from check_cases import GRAPH, KEPT_OUT, OPC, Checks, relocked

OPEN = GRAPH.replace("dim: 4", "dim: -1")
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5


class Values(Checks):
    def locked_json(self):
        return json.loads(self.read("g.opc.lock"))

    def bytes(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_inputs_of_a_file(self):
        """Outputs are those of the file's x, by numpy; w keeps its initializer."""
        self.locked()
        np.savez(self.path("g.opc.inputs.npz"), x=X)
        found = self.findings("g.pbtxt")
        self.assertEqual([(f["rule"], f["message"]) for f in found],
                         [("LOCK_STALE", "the lock's values are for generated inputs, and there is g.opc.inputs.npz")])
        self.check("g.pbtxt", "--update")
        self.check("g.pbtxt")
        samples = self.locked_json()["numerics"][1]["samples"]
        np.testing.assert_allclose(samples, np.maximum(X @ np.full((3, 5), 0.5, np.float32), 0).ravel(), rtol=1e-6)
        np.savez(self.path("g.opc.inputs.npz"), x=X, w=np.ones((3, 5), np.float32))
        self.assertIn("g.opc.inputs.npz has other inputs than those of the lock", self.findings("g.pbtxt")[0]["message"])
        self.check("g.pbtxt", "--update=numerics")
        np.testing.assert_allclose(self.locked_json()["numerics"][1]["samples"], np.maximum(X @ np.ones((3, 5)), 0).ravel(), rtol=1e-6)
        os.remove(self.path("g.opc.inputs.npz"))
        self.assertIn("are for the inputs in g.opc.inputs.npz, which is not there", self.findings("g.pbtxt")[0]["message"])

    def test_inputs_that_do_not_fit(self):
        self.locked()
        for values, word in (({"z": X}, "z"), ({"x": X[:2]}, "shape"), ({"x": X.astype(np.float64)}, "f64")):
            np.savez(self.path("g.opc.inputs.npz"), **values)
            found = self.findings("g.pbtxt", code=5)
            self.assertEqual([f["rule"] for f in found], ["RUN_FAILED"])
            self.assertIn(word, found[0]["message"])
        with open(self.path("g.opc.inputs.npz"), "wb") as f:
            f.write(b"PK\3\4 no archive")
        self.assertEqual(self.rules("g.pbtxt", code=5), {"RUN_FAILED"})
        self.check("g.pbtxt", "--no-run")

    def test_values_that_were_zero(self):
        """From 0 to anything is no relative difference of 0, and zeros have no angle."""
        self.write("old.pbtxt", GRAPH.replace("value: 0.5", "value: 0"))
        self.write("g.pbtxt", GRAPH)
        np.savez(self.path("g.opc.inputs.npz"), x=np.ones((4, 3), np.float32))
        message = [f["message"] for f in self.findings("g.pbtxt", "--against", "old.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"][0]
        self.assertIn("largest differences 1.5 absolute, inf relative; 99th percentile 1.5", message)
        self.assertNotIn("cosine", message)

    def test_tensors_inside(self):
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update", "--tensors", "fc*")
        record = self.locked_json()["numerics"][2]
        self.assertEqual((record["tensor"], record["type"], len(record["samples"])), ("fc/out_0", "f32[4,5]", 20))
        self.check("g.pbtxt")  # the lock knows which
        # What is negative before the relu is not seen behind it: the tensor alone differs.
        np.savez(self.path("g.opc.inputs.npz"), x=-np.abs(X))
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.locked_json()["numerics"][2]["tensor"], "fc/out_0")
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.75"))
        found = [f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"]
        self.assertEqual([(f["op"], f["tensor"], f["source"]["line"]) for f in found], [("fc", "fc/out_0", 3)])
        # And where the output differs as well, the first tensor is named.
        self.write("g.pbtxt", GRAPH)
        os.remove(self.path("g.opc.inputs.npz"))
        self.check("g.pbtxt", "--update")
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.75"))
        found = [f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"]
        self.assertEqual({(f["op"], f["tensor"]) for f in found}, {("y", ""), ("fc", "fc/out_0")})
        self.assertIn("the first tensor that differs is fc/out_0", [f for f in found if f["op"] == "y"][0]["help"])
        self.check("g.pbtxt", "--update", "--tensors", "none")
        self.assertEqual(len(self.locked_json()["numerics"]), 2)
        self.write("opc.toml", '[check]\ntensors = ["fc/*"]\n')
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.locked_json()["numerics"][2]["tensor"], "fc/out_0")

    def stale(self, *args, code=1):
        return [f["message"] for f in self.findings("g.pbtxt", *args, code=code) if f["rule"] == "LOCK_STALE"]

    def test_tensors_that_the_lock_does_not_have(self):
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.stale("--tensors", "fc*"), ["the lock has no values of fc/out_0, which --tensors names"])
        self.write("opc.toml", '[check]\ntensors = ["fc*"]\n')
        self.assertEqual(len(self.stale()), 1)
        self.assertEqual(self.stale("--update", code=0), ["accepted: the lock has no values of fc/out_0, which --tensors names"])
        self.check("g.pbtxt")
        self.assertEqual(self.stale("--tensors", "none"), ["the lock has values of fc/out_0, which --tensors does not name"])
        self.assertEqual(len(self.stale("--update", "--tensors", "none", code=0)), 1)

    def test_a_glob_of_tensors_that_fits_nothing(self):
        self.write("g.pbtxt", GRAPH)
        self.assertIn("--tensors 'cf*' fits no tensor", self.check("g.pbtxt", "--update", "--tensors", "cf*").stderr)
        self.assertNotIn("fits no", self.check("g.pbtxt", "--update", "--tensors", "fc*").stderr)
        self.assertNotIn("fits no", self.check("g.pbtxt", "--update", "--tensors", "none").stderr)

    def test_tensors_and_a_mesh(self):
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update", "--tensors", "fc*")
        found = self.stale("--mesh", "2", "--update", code=0)
        self.assertIn("accepted: the lock has values of fc/out_0, and those inside a graph are not locked on a mesh", found)

    def test_whole_outputs(self):
        """Samples are 64 of 600 values: a difference between two of them is seen in the file alone."""
        text = GRAPH.replace("dim: 4", "dim: 120")
        self.write("g.pbtxt", text)
        x = np.ones((120, 3), np.float32)
        np.savez(self.path("g.opc.inputs.npz"), x=x)
        self.check("g.pbtxt", "--keep-outputs", code=2)
        self.check("g.pbtxt", "--update", "--keep-outputs")
        y = np.load(self.path("g.opc.outputs.npz"))["y"]
        np.testing.assert_allclose(y, np.full((120, 5), 1.5), rtol=1e-6)
        before = self.bytes("g.opc.outputs.npz")
        self.check("g.pbtxt")
        self.check("g.pbtxt", "--update")
        self.assertEqual(self.bytes("g.opc.outputs.npz"), before)  # the same bytes, and kept
        other = y.copy()
        other[0, 1:3] += np.float32([2e-4, -2e-4])  # neither a sample nor a statistic
        np.savez(self.path("g.opc.outputs.npz"), y=other)
        self.assertIn("is not the file that the lock was written with", self.findings("g.pbtxt")[0]["message"])
        lock = self.read("g.opc.lock")
        digest = hashlib.sha256(self.bytes("g.opc.outputs.npz")).hexdigest()[:16]
        self.write("g.opc.lock", relocked(lock.replace(self.locked_json()["numerics"][0]["outputs"], digest)))
        found = self.findings("g.pbtxt")
        self.assertEqual([f["rule"] for f in found], ["NUMERIC_MISMATCH"])
        self.assertRegex(found[0]["message"], r"^2 of 600 values \(0.333 %\) differ .*; worst at \[0, [12]\]: .*99th percentile 0, cosine 1")
        os.remove(self.path("g.opc.outputs.npz"))
        self.assertIn("which is not there", self.findings("g.pbtxt")[0]["message"])
        self.check("g.pbtxt", "--update")  # without the file, and without the flag: samples again
        self.assertNotIn("outputs", self.locked_json()["numerics"][0])
        os.rename(self.path("g.pbtxt"), self.path("h.pbtxt"))
        self.assertIn("LOCK_UNREFERENCED", self.rules("."))

    def test_the_last_graph_is_gone(self):
        """Its lock is what is left of it, in a folder that is named and where a glob of the settings would find the graph."""
        for number, args in enumerate((["graphs"], [])):
            self.write("graphs/g.pbtxt", GRAPH)
            self.write("opc.toml", '[check]\npaths = ["graphs/*.pbtxt"]\n' if number else "")
            self.check(*args, "--update")
            os.remove(self.path("graphs/g.pbtxt"))
            found = self.findings(*args, code=0)
            self.assertEqual([(f["rule"], f["graph"], f["severity"]) for f in found], [("LOCK_UNREFERENCED", "graphs/g.opc.lock", "warning")])
            self.check(*args, code=1, env={"CI": "true"})
            self.check(*args, "--unreferenced", "delete")
            self.assertEqual(os.listdir(self.path("graphs")), [])
            self.check(*args, code=2)  # neither a graph nor a lock

    def test_nan(self):
        """A NaN equals nothing, unless the settings say so."""
        self.locked(GRAPH.replace('"relu"', '"sqrt"'))
        found = self.findings("g.pbtxt")
        self.assertEqual([(f["rule"], f["op"]) for f in found], [("NUMERIC_MISMATCH", "y")])
        self.assertRegex(found[0]["message"], r"^\d+ NaNs of 20 values, which equal nothing$")
        for key in ('"y"', '"*"', "f32"):
            self.write("opc.toml", f'[tolerance]\n{key} = {{ nan = "equal" }}\n')
            self.check("g.pbtxt")
        for text in ('f32 = { nan = "equal" }\n"y" = { nan = "fail" }', 'f32 = { nan = "fail" }', 'f64 = { nan = "equal" }', '"z" = { nan = "equal" }'):
            self.write("opc.toml", "[tolerance]\n" + text + "\n")
            self.check("g.pbtxt", code=1)
        self.write("opc.toml", '[tolerance]\n"y" = { nan = "same" }\n')
        self.assertIn("opc.toml:2", self.check("g.pbtxt", code=2).stderr)
        # More of them are NONFINITE all the same; fewer are a change of values.
        self.write("opc.toml", '[tolerance]\n"*" = { nan = "equal" }\n')
        self.write("g.pbtxt", GRAPH.replace('"relu"', '"sqrt"').replace("value: 0.5", "value: -0.5"))
        self.assertLessEqual(self.rules("g.pbtxt") & {"NONFINITE", "NUMERIC_MISMATCH"}, {"NONFINITE", "NUMERIC_MISMATCH"})
        self.write("g.pbtxt", GRAPH.replace('"relu"', '"abs"'))
        self.assertRegex([f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"][0]["message"], r"^\d+ NaNs -> 0$")

    def test_tolerances_by_name(self):
        self.locked()
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.5001"))
        self.assertIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))
        for text in ("f32 = { rtol = 1e-3 }", '"y" = { atol = 1e-3, rtol = 0 }', '"?" = { metric = "cos>=0.9999" }', '"y" = { metric = "max<=1e-3" }'):
            self.write("opc.toml", "[tolerance]\n" + text + "\n")
            self.assertNotIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"), text)
        for text in ('f32 = { rtol = 1e-3 }\n"y" = { rtol = 1e-6, atol = 0 }', "f64 = { rtol = 1 }", '"y" = { metric = "max<=1e-9" }'):
            self.write("opc.toml", "[tolerance]\n" + text + "\n")
            self.assertIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"), text)


    def test_settings_of_a_type(self):
        """A metric for an element type, and what is more special: an output's own tolerance or metric."""
        self.locked()
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.5001"))
        for text, passes in (('f32 = { metric = "cos>=0.9999" }', True), ('f64 = { metric = "cos>=0.9999" }', False), ('f32 = { metric = "max<=1e-9" }', False),
                             ('f32 = { metric = "cos>=0.9999" }\n"y" = { rtol = 1e-6 }', False), ('"y" = { metric = "cos>=0.9999" }\nf32 = { metric = "max<=1e-9" }', True)):
            with self.subTest(text):
                self.write("opc.toml", "[tolerance]\n" + text + "\n")
                self.assertEqual("NUMERIC_MISMATCH" not in self.rules("g.pbtxt"), passes)

    def test_a_tolerance_without_bound(self):
        """0 times no bound is nothing: zeros are equal all the same."""
        self.locked(GRAPH.replace("value: 0.5", "value: 0"))
        self.assertEqual(set(next(r for r in self.locked_json()["numerics"] if "out" in r)["samples"]), {0})
        self.write("opc.toml", "[tolerance]\nf32 = { rtol = inf, atol = 1 }\n")
        self.check("g.pbtxt")

    def test_statistics_beyond_all_numbers(self):
        """The squares of 1e240 are no numbers: the norm is infinite in the lock, and now, and that is the same."""
        more = "".join(f'op {{ name: "{name}" user_conf {{ op_type_name: "square" input {{ key: "x" value {{ s: "{before}/y_0" }} }} }} }}\n' for name, before in (("s1", "act"), ("s2", "s1")))
        large = GRAPH.replace("kFloat", "kDouble").replace("value: 0.5", "value: 1e30").replace('"relu"', '"square"')
        large = large.replace('op { name: "y" output_conf { in: "act/y_0" }', more + 'op { name: "y" output_conf { in: "s2/y_0" }')
        self.locked(large)
        self.assertIn('"l2":"inf"', self.read("g.opc.lock"))
        self.check("g.pbtxt")
        self.write("g.pbtxt", large.replace("1e30", "2e30"))
        self.assertIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))

    def test_metrics_by_rows_and_last_places(self):
        scaled = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 5 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 4 dim: 5 } data_type: kFloat initializer { constant_conf { value: 1.0 } } } }
op { name: "scaled" user_conf { op_type_name: "multiply" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } } } }
op { name: "y" output_conf { in: "scaled/out_0" } }
"""
        self.locked(scaled)

        def holds(metric):
            self.write("opc.toml", '[tolerance]\ny = { metric = "%s" }\n' % metric)
            return "NUMERIC_MISMATCH" not in self.rules("g.pbtxt")

        # Times 1 + 2^-23 every f32 is the next one or the one behind that.
        self.write("g.pbtxt", scaled.replace("value: 1.0", "value: 1.00000012"))
        self.assertTrue(holds("ulp<=2"))
        self.assertFalse(holds("ulp<=0"))
        # With the other sign another place of each row has the largest; of all five there is nothing to say.
        self.write("g.pbtxt", scaled.replace("value: 1.0", "value: -1.0"))
        self.assertFalse(holds("topk=1"))
        self.assertFalse(holds("topk=4"))
        self.assertFalse(holds("topk=5"))
        self.assertIn("topk=5 cannot be asked: a row has 5 samples", [f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"][0]["message"])
        self.assertFalse(holds("topk=6"))
        self.assertIn("topk=6 cannot be asked: a row has 5 samples", [f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"][0]["message"])

    def test_values_of_another_device(self):
        """A lock of another kind of device: the wider tolerances are used. Of f32 rtol 1e-4 in place of 1.3e-6."""
        self.locked()
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.50004"))
        self.assertIn("NUMERIC_MISMATCH", self.rules("g.pbtxt"))
        lock = self.read("g.opc.lock")
        self.write("g.opc.lock", lock.replace('"device":"cpu"', '"device":"gpu"'))
        found = {f["rule"]: f for f in self.findings("g.pbtxt")}
        self.assertNotIn("NUMERIC_MISMATCH", found)
        self.assertEqual(found["LOCK_STALE"]["message"], "the lock is for one device (gpu), and the graph was compiled for one device")
        self.write("g.pbtxt", GRAPH.replace("value: 0.5", "value: 0.501"))
        self.assertIn("rtol 1e-4, atol 1e-5", [f for f in self.findings("g.pbtxt") if f["rule"] == "NUMERIC_MISMATCH"][0]["message"])


class Shapes(Checks):
    def test_open_inputs(self):
        self.write("g.pbtxt", OPEN)
        found = self.findings("g.pbtxt", code=3)
        self.assertIn("--shape x=", found[0]["help"] + found[0]["message"])
        self.check("g.pbtxt", "--update", "--shape", "x=4,3")
        lock = json.loads(self.read("g.opc.lock"))
        self.assertEqual(lock["target"], {"device": "cpu", "shapes": {"x": [4, 3]}})
        self.check("g.pbtxt")  # the lock knows
        self.check("g.pbtxt", "--shape", "x=4,3")
        found = {f["rule"]: f for f in self.findings("g.pbtxt", "--shape", "x=6,3")}
        self.assertEqual(found["LOCK_STALE"]["message"],
                         "the lock is for one device with x of [4,3], and the graph was compiled for one device with x of [6,3]")
        self.assertIn("did you mean x?", self.check("g.pbtxt", "--shape", "z=4,3", code=2).stderr)
        self.check("g.pbtxt", "--shape", "x=1..4,3", code=2)
        self.check("g.pbtxt", "--shape", "x=4", code=3)

    def test_a_shape_is_for_the_graphs_that_have_the_input(self):
        self.write("a.pbtxt", OPEN)
        self.write("b.pbtxt", GRAPH.replace('"x"', '"z"').replace("x/out", "z/out").replace('key: "z"', 'key: "x"'))
        self.check(".", "--update", "--shape", "x=4,3")
        self.assertNotIn("shapes", self.read("b.opc.lock"))
        self.check(".")

    def test_what_the_graph_says_of_an_open_input(self):
        """The lock's shape stands in place of the graph's, and a change of the graph's is one of its interface."""
        self.write("g.pbtxt", OPEN)
        self.check("g.pbtxt", "--update", "--shape", "x=4,3")
        x = next(r for r in json.loads(self.read("g.opc.lock"))["interface"] if "in" in r)
        self.assertEqual((x["type"], x["declared"]), ("f32[4,3]", "f32[?,3]"))
        for size in ("8", "360", "4"):
            self.write("old.pbtxt", OPEN)
            self.write("g.pbtxt", GRAPH.replace("dim: 4 dim: 3", f"dim: {size} dim: 3"))
            for args in ((), ("--use", "INTERFACE"), ("--use", "EXACT"), ("--against", "old.pbtxt")):
                found = self.findings("g.pbtxt", *args)
                self.assertEqual([(f["rule"], f["op"], f["expected"], f["found"]) for f in found],
                                 [("INPUT_TYPE_CHANGED", "x", "f32[?,3]", f"f32[{size},3]")], (size, args))
        self.check("g.pbtxt", "--update")
        self.check("g.pbtxt")
        self.write("g.pbtxt", GRAPH.replace("dim: 4 dim: 3", "dim: 8 dim: 3"))
        self.assertEqual(self.rules("g.pbtxt"), {"INPUT_TYPE_CHANGED"})
        # A lock of an earlier version does not say it.
        self.write("g.opc.lock", relocked(self.read("g.opc.lock").replace(',"declared":"f32[4,3]"', "")))
        self.check("g.pbtxt")

    def test_a_hostile_shape(self):
        self.write("g.pbtxt", OPEN)
        self.check("g.pbtxt", "--update", "--shape", "x=4,3")
        lock = self.read("g.opc.lock")
        for shape in ("[-1,3]", '"4"', "[" + "1," * 100 + "1]", "{}", "[4.5]", "[1e300]"):
            self.write("g.opc.lock", lock.replace("[4,3]}", shape + "}"))
            self.assertIn("LOCK_DAMAGED", self.rules("g.pbtxt", code=3), shape)


class StandardInput(Checks):
    def pipe(self, text, *args, code=0):
        done = subprocess.run([OPC, "check", "-", *args], input=text, capture_output=True, text=True, cwd=self.folder,
                              env={k: v for k, v in os.environ.items() if k not in KEPT_OUT})
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def test_a_graph_that_is_piped(self):
        """It has no lock; what is doubtful or wrong in it is found, and where."""
        self.assertEqual(self.pipe(GRAPH).stderr, "checked 1 graph: no finding\n")
        self.pipe(GRAPH, "--twice")
        dead = GRAPH + 'op { name: "dead" user_conf { op_type_name: "abs" input { key: "x" value { s: "fc/out_0" } } } }\n'
        self.assertIn("--> <stdin>:6:1", self.pipe(dead).stdout)
        bad = json.loads(self.pipe(GRAPH.replace('"relu"', '"reluu"'), "--json", code=3).stdout)["findings"]
        self.assertEqual([(f["rule"], f["graph"], f["source"]["line"]) for f in bad], [("GRAPH_INVALID", "<stdin>", 4)])
        self.write("old.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        self.assertIn("error[OP_TYPE_CHANGED]: op act: type tanh -> relu\n  --> <stdin>:4:1", self.pipe(GRAPH, "--against", "old.pbtxt", code=1).stdout)
        self.pipe(GRAPH, "--update", code=2)
        self.pipe(GRAPH, "--against", "HEAD", code=2)
        self.pipe(OPEN, "--shape", "x=2,3")


if __name__ == "__main__":
    unittest.main()
