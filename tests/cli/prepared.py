# Ops that read constants and weights alone run once, before the first step: what that gives, in plans, reports and errors.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import struct
import subprocess
import unittest

import numpy as np

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
ROWS, IN, OUT = 8, 384, 256


def dims(*shape):
    return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"


def variable(name, kind, *shape):
    return f'op {{ name: "{name}" variable_conf {{ out: "out" {dims(*shape)} data_type: {kind} initializer {{ constant_conf {{ value: 0 }} }} }} }}'


def op(name, kind, inputs, out, attrs=""):
    args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }} {attrs} }} }}'


AXIS = 'attr { key: "axis" value { at_int64: 0 } }'
# y = relu(x @ f32(w).T + exp(table[index])^2): a cast, and a table that is looked up with indices of the model.
GRAPH = "\n".join([
    f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(ROWS, IN)} data_type: kFloat }} }} }}',
    variable("w", "kFloat16", OUT, IN), variable("table", "kFloat", 16, OUT), variable("index", "kInt32", ROWS),
    op("wide", "cast", {"in": "w/out"}, "out", 'attr { key: "dtype" value { at_data_type: kFloat } }'),
    op("product", "matmul", {"a": "x/out", "b": "wide/out_0"}, "out", 'attr { key: "transpose_b" value { at_bool: true } }'),
    op("rows", "gather", {"in": "table/out", "indices": "index/out"}, "out", AXIS),
    op("grown", "exp", {"x": "rows/out_0"}, "y"),
    op("squared", "square", {"x": "grown/y_0"}, "y"),
    op("sum", "broadcast_add", {"x": "product/out_0", "y": "squared/y_0"}, "z"),
    op("last", "relu", {"x": "sum/z_0"}, "y"),
    'op { name: "y" output_conf { in: "last/y_0" out: "out" } }', ""])
PREPARED = {"wide", "rows", "squared"}  # between the last two there is a loop of two ops


class Prepared(FolderTest):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(11)
        self.x = draw.standard_normal((ROWS, IN), dtype=np.float32)
        self.w = draw.standard_normal((OUT, IN)).astype(np.float16)
        self.table = draw.standard_normal((16, OUT), dtype=np.float32)
        self.index = draw.integers(0, 16, ROWS).astype(np.int32)
        np.save(self.path("x.npy"), self.x)
        np.savez(self.path("w.npz"), w=self.w, table=self.table, index=self.index)
        self.file("g.pbtxt", GRAPH)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def opc(self, *args, code=0, program=OPC):
        done = subprocess.run([program, "--config", "none", *args] if program == OPC else [program, *args], cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def values(self, graph, *more, program=OPC, weights="w.npz"):
        shutil.rmtree(self.path("made"), ignore_errors=True)
        os.makedirs(self.path("made"))
        self.opc(*(["run"] if program == OPC else []), graph, "--weights", weights, "--input", "x=@x.npy", "--outputs", "made", *more, program=program)
        return np.load(self.path("made/y.npy"))

    def shown(self, graph, what, *more):
        return json.loads(self.opc("show", graph, "--what", what, "--json", *more).stdout)[what]

    def prepared(self, graph, *more):
        return {s["name"].split("/")[0] for s in self.shown(graph, "memory", *more)["slots"] if s["kind"] == "prepared"}

    def test_numbers_and_bits(self):
        found = self.values("g.pbtxt")
        expected = np.maximum(self.x.astype(np.float64) @ self.w.astype(np.float64).T + np.exp(2 * self.table.astype(np.float64))[self.index], 0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        self.assertEqual(self.prepared("g.pbtxt"), PREPARED)
        # A weight that is computed once is packed: another order of sums.
        np.testing.assert_allclose(self.values("g.pbtxt", "--no-fuse"), found, rtol=1e-5, atol=1e-4)
        for more in (["-j", "1"], ["-j", "2"], ["--no-codegen"], ["--repeat", "3"], ["--warmup", "2"]):
            self.assertEqual(self.values("g.pbtxt", *more).tobytes(), found.tobytes(), more)

    def test_a_plan(self):
        found = self.values("g.pbtxt")
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        with open(self.path("g.plan"), "rb") as f:
            self.assertEqual(struct.unpack("<I", f.read(12)[8:])[0], 7)
        for program in (OPC, RUNTIME):
            for threads in ("1", "2"):
                self.assertEqual(self.values("g.plan", "-j", threads, program=program).tobytes(), found.tobytes(), (program, threads))
        self.assertEqual(self.prepared("g.plan"), PREPARED)
        self.opc("compile", "g.pbtxt", "-o", "plain.plan", "--no-fuse")
        with open(self.path("plain.plan"), "rb") as f:
            self.assertLess(struct.unpack("<I", f.read(12)[8:])[0], 7)
        self.opc("compile", "g.pbtxt", "-o", "native.plan", "--native")
        self.assertEqual(self.values("native.plan", "--allow-native", program=RUNTIME).tobytes(), found.tobytes())

    def test_no_step_has_them(self):
        self.values("g.pbtxt", "--trace", "t.json", "--repeat", "2")
        with open(self.path("t.json"), encoding="utf-8") as f:
            names = {e.get("name", "") for e in json.load(f)["traceEvents"]}
        self.assertTrue(any("product" in n for n in names), names)
        self.assertFalse([n for n in names if any(p in n for p in PREPARED) and not n.startswith("pass ")], names)
        # They are no part of a region that a step computes.
        fusion = self.shown("g.pbtxt", "fusion")
        self.assertEqual([set(r["ops"]) for r in fusion["regions"] if not PREPARED.isdisjoint(r["ops"])], [{"grown", "squared"}])
        self.assertIn("prepared", {b["reason"] for b in fusion["boundaries"] if b["from"] == "squared" and b["to"] == "sum"})

    def test_who_looks_at_tensors_sees_them(self):
        self.values("g.pbtxt", "--capture", "*=seen")
        wide = np.load(self.path("seen/wide%2Fout_0.npy" if os.path.exists(self.path("seen/wide%2Fout_0.npy")) else self.captured("wide")))
        np.testing.assert_array_equal(wide, self.w.astype(np.float32))
        bad = self.table.copy()
        bad[self.index[3]] = np.nan
        np.savez(self.path("bad.npz"), w=self.w, table=bad, index=self.index)
        done = self.opc("run", "g.pbtxt", "--weights", "bad.npz", "--input", "x=@x.npy", "--trap", "nan", code=5)
        self.assertIn("rows", done.stdout + done.stderr)

    def test_who_looks_at_tensors_of_a_plan(self):
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        self.values("g.plan", "--capture", "*=seen", "--repeat", "2")
        np.testing.assert_array_equal(np.load(self.captured("wide")), self.w.astype(np.float32))
        np.testing.assert_array_equal(np.load(self.captured("rows")), self.table[self.index])
        self.captured("last")
        bad = self.table.copy()
        bad[self.index[3]] = np.inf
        np.savez(self.path("bad.npz"), w=self.w, table=bad, index=self.index)
        for where in ("g.plan", "g.pbtxt"):
            done = self.opc("run", where, "--weights", "bad.npz", "--input", "x=@x.npy", "--trap", "inf", code=5)
            self.assertIn("gather: rows/out_0", done.stderr, where)
        self.values("g.plan", "--profile")

    def captured(self, name):
        for folder, _, files in os.walk(self.path("seen")):
            for f in files:
                if name in os.path.join(folder, f):
                    return os.path.join(folder, f)
        self.fail(f"no file of {name} in {os.listdir(self.path('seen'))}")

    def test_an_error_names_the_op(self):
        self.index[5] = 99
        np.savez(self.path("w.npz"), w=self.w, table=self.table, index=self.index)
        fused = self.opc("run", "g.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", code=5)
        plain = self.opc("run", "g.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", "--no-fuse", code=5)
        self.assertIn("99", fused.stderr)
        self.assertIn("rows", fused.stderr)
        self.assertEqual(fused.stderr, plain.stderr)

    def test_half_precision_computed_in_f32(self):
        """What --cast-ops puts in front of weights runs once."""
        half = GRAPH.replace(op("wide", "cast", {"in": "w/out"}, "out", 'attr { key: "dtype" value { at_data_type: kFloat } }') + "\n", "")
        half = half.replace("wide/out_0", "w/out").replace("kFloat ", "kFloat16 ")
        self.file("half.pbtxt", half)
        np.save(self.path("x.npy"), self.x.astype(np.float16))
        np.savez(self.path("w.npz"), w=self.w, table=self.table.astype(np.float16), index=self.index)
        found = self.values("half.pbtxt", "--cast-ops", "*=f32")
        np.testing.assert_allclose(self.values("half.pbtxt", "--cast-ops", "*=f32", "--no-fuse").astype(np.float32), found.astype(np.float32), rtol=2e-3, atol=1e-3)
        self.opc("compile", "half.pbtxt", "--cast-ops", "*=f32", "-o", "half.plan")
        names = self.prepared("half.plan")
        self.assertTrue(any("product" in n or n.startswith("w") for n in names), names)
        self.assertGreaterEqual(len(names), 3)

    def test_graphs_that_are_left_as_they_are(self):
        """Ranks have pieces, sizes in a range a plan of fixed shapes each, and a backward graph reads tensors in between."""
        small = "\n".join(line for line in GRAPH.split("\n") if not any(f'name: "{n}"' in line for n in ("table", "index", "rows", "grown", "squared", "sum")))
        self.file("small.pbtxt", small.replace("sum/z_0", "product/out_0"))
        for more, least in ([], 7), (["--no-fuse"], 1), (["--mesh", "2"], 1), (["--shape", f"x=1..8,{IN}"], 1):
            self.opc("compile", "small.pbtxt", "-o", "s.plan", *more)
            with open(self.path("s.plan"), "rb") as f:
                version = struct.unpack("<I", f.read(12)[8:])[0]
            self.assertEqual(version == 7, least == 7, (more, version))
        self.opc("grad", "small.pbtxt", "--loss", "y", "--wrt", "w", "-o", "joint.pbtxt")
        self.assertEqual(self.prepared("joint.pbtxt"), set())


if __name__ == "__main__":
    unittest.main()
