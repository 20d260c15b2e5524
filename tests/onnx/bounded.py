# ONNX ops that give as many results as the values of a run say: one plan, outputs cut to what each run has found.
# SPDX-License-Identifier: Apache-2.0
"""Judged by numpy."""
import os
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
F32, I64 = np.float32, np.int64


def i64(*values):
    return np.array(values, I64)


def suppressed(boxes, scores, most, limit, least):
    """Boxes [n, 4] (y, x, y, x) that are kept for scores [n], greedily."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    area, kept = np.prod(high - low, -1), []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] <= least or len(kept) == most:
            break
        both = [np.prod(np.maximum(0, np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]))) for j in kept]
        if all(b / (area[i] + area[j] - b) <= limit for b, j in zip(both, kept)):
            kept.append(i)
    return kept


class Case(FolderTest):
    def opc(self, *arguments, code=0, program="opc"):
        done = subprocess.run([os.path.join(BIN, program), *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={k: v for k, v in os.environ.items() if k != "CI"})  # where opc check refuses --update
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def model(self, nodes, inputs, outputs, constants=None, opset=18):
        """inputs: name -> array of the shape; constants: name -> array."""
        values = [m.value(k, v.shape, m.ELEMENT[v.dtype]) for k, v in inputs.items()]
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, values, [m.value(o, None, 0) for o in outputs], [m.tensor(k, v) for k, v in (constants or {}).items()]), opset=opset))

    def run_model(self, feeds, *options, what="model.onnx", program="opc"):
        np.savez(self.path("in.npz"), **feeds)
        self.opc(*(["run", what, "--quiet"] if program == "opc" else [what]), *options, "--inputs", "in.npz", "--outputs", "out.npz", program=program)
        return dict(np.load(self.path("out.npz")))


class Plans(Case):
    """A plan is run with values of which it finds other numbers each time."""

    def each(self, nodes, feeds, expected, outputs, constants=None, opset=18):
        self.model(nodes, feeds[0], outputs, constants, opset)
        self.opc("compile", "model.onnx", "-o", "model.plan")
        for given in feeds:
            made = self.run_model(given, what="model.plan", program="opc-runtime")
            for name, want in expected(given).items():
                want = np.asarray(want)
                self.assertEqual((made[name].shape, made[name].dtype), (want.shape, want.dtype), name)
                np.testing.assert_allclose(made[name], want, rtol=1e-6, err_msg=name)

    def planes(self, *shape):
        random = np.random.default_rng(3)
        some = random.integers(-1, 2, shape).astype(F32)
        return [{"x": x} for x in (some, np.zeros(shape, F32), random.uniform(1, 2, shape).astype(F32), -some * (some > 0))]

    def test_places(self):
        self.each([m.node("NonZero", ["x"], ["y"])], self.planes(9, 11), lambda f: {"y": np.array(np.nonzero(f["x"]), I64), "y.count": i64(np.count_nonzero(f["x"]))}, ["y"])

    def test_places_are_read(self):
        """NonZero -> Transpose -> GatherND, arithmetic, sums and means over what there is, and its size."""
        nodes = [m.node("NonZero", ["x"], ["at"]), m.node("Transpose", ["at"], ["rows"], perm=[1, 0]), m.node("GatherND", ["x", "rows"], ["v"]),
                 m.node("Mul", ["v", "v"], ["square"]), m.node("Add", ["square", "one"], ["more"]), m.node("ReduceSum", ["more"], ["sum"], keepdims=0),
                 m.node("ReduceMax", ["v"], ["max"], keepdims=1), m.node("ReduceMin", ["rows", "first"], ["min"], keepdims=0), m.node("Shape", ["rows"], ["shape"]),
                 m.node("Slice", ["rows", "zero", "three", "first"], ["head"]), m.node("Unsqueeze", ["v", "one_axis"], ["column"]),
                 m.node("Concat", ["column", "column"], ["pair"], axis=1), m.node("Reshape", ["pair", "flat"], ["line"]), m.node("Cast", ["line"], ["whole"], to=7)]

        def expected(f):
            rows = np.argwhere(f["x"])
            v = f["x"][tuple(rows.T)]
            pair = np.stack([v, v], 1)
            most = np.iinfo(I64).max
            return {"more": v * v + 1, "sum": (v * v + 1).sum(dtype=F32), "max": v.max(keepdims=True) if len(v) else np.array([-np.inf], F32),
                    "min": rows.min(0) if len(rows) else i64(most, most), "shape": i64(len(rows), 2), "head": rows[:3], "line": pair.reshape(-1), "whole": pair.reshape(-1).astype(I64)}

        constants = {"one": np.ones(1, F32), "first": i64(0), "zero": i64(0), "three": i64(3), "one_axis": i64(1), "flat": i64(-1)}
        self.each(nodes, self.planes(5, 7), expected, ["more", "sum", "max", "min", "shape", "head", "line", "whole"], constants)

    def test_rows_of_a_table(self):
        nodes = [m.node("Greater", ["x", "limit"], ["is"]), m.node("NonZero", ["is"], ["at"]), m.node("Squeeze", ["at", "zero"], ["places"]), m.node("Gather", ["t", "places"], ["y"], axis=1),
                 m.node("ReduceMean", ["y", "one"], ["mean"], keepdims=0), m.node("Transpose", ["y"], ["z"], perm=[1, 0]),
                 m.node("MatMul", ["z", "u"], ["rows"]), m.node("Softmax", ["rows"], ["shares"], axis=1)]
        random = np.random.default_rng(4)
        t, u = random.uniform(-1, 1, (3, 12)).astype(F32), random.uniform(-1, 1, (3, 4)).astype(F32)

        def expected(f):
            y = t[:, np.flatnonzero(f["x"] > 0)]
            rows = y.T @ u
            e = np.exp(rows - rows.max(1, keepdims=True)) if len(rows) else rows
            return {"y": y, "rows": rows, "shares": e / e.sum(1, keepdims=True)} | ({"mean": y.mean(1)} if y.size else {})

        self.each(nodes, self.planes(12), expected, ["y", "mean", "rows", "shares"], {"limit": np.zeros((), F32), "zero": i64(0), "one": i64(1), "t": t, "u": u})

    def test_pieces_are_joined(self):
        """Concatenation along the very axis: nothing is left between the pieces."""
        nodes = [m.node("NonZero", ["x"], ["a"]), m.node("Not", ["x"], ["not"]), m.node("NonZero", ["not"], ["b"]), m.node("Concat", ["a", "fixed", "b", "a"], ["y"], axis=1),
                 m.node("ReduceSum", ["y", "one"], ["sum"], keepdims=0), m.node("Concat", ["a", "b"], ["z"], axis=-1)]
        fixed = np.array([[7, 8], [9, 10]], I64)

        def expected(f):
            a, b = np.array(np.nonzero(f["x"])), np.array(np.nonzero(~f["x"]))
            y = np.concatenate([a, fixed, b, a], 1)
            return {"y": y, "sum": y.sum(1), "z": np.concatenate([a, b], 1)}

        random = np.random.default_rng(8)
        feeds = [{"x": random.uniform(0, 1, (6, 7)) < share} for share in (0.3, 0, 1, 0.6)]
        self.each(nodes, feeds, expected, ["y", "sum", "z"], {"fixed": fixed, "one": i64(1)})

    def test_the_first(self):
        """Slice to an end that the run has: held to what there is, and counted from behind where it is negative."""
        x = np.arange(30, dtype=F32).reshape(5, 6)
        nodes = [m.node("Slice", ["x", "zero", "end", "one"], ["y"]), m.node("ReduceSum", ["y"], ["sum"], keepdims=0), m.node("Slice", ["x", "zero", "end"], ["z"])]
        feeds = [{"end": i64(e)} for e in (4, 0, 9, -2, -9)]
        self.each(nodes, feeds, lambda f: {"y": x[:, :int(f["end"][0])], "sum": x[:, :int(f["end"][0])].sum(dtype=F32), "z": x[:int(f["end"][0])]}, ["y", "sum", "z"],
                  {"x": x, "zero": i64(0), "one": i64(1)})

    def test_ranges(self):
        """To a limit that Min or Max holds: any start and step, negative ones and fractions, and a start of the run."""
        nodes = [m.node("Min", ["k", "ten"], ["n"]), m.node("Range", ["zero", "n", "one"], ["a"]), m.node("Range", ["two", "n", "three"], ["b"]),
                 m.node("Max", ["k", "low"], ["down"]), m.node("Range", ["two", "down", "back"], ["c"]), m.node("Add", ["s", "n"], ["e"]), m.node("Range", ["s", "e", "one"], ["d"]),
                 m.node("Cast", ["n"], ["real"], to=1), m.node("Range", ["half", "real", "part"], ["f"]), m.node("Cast", ["n"], ["narrow"], to=6), m.node("Range", ["zero32", "narrow", "two32"], ["g"]),
                 m.node("Max", ["n", "zero"], ["begin"]), m.node("Range", ["begin", "twelve", "three"], ["i"]),
                 m.node("Mul", ["a", "a"], ["squares"]), m.node("ReduceSum", ["squares"], ["sum"], keepdims=0), m.node("Shape", ["b"], ["size"]), m.node("Gather", ["t", "a"], ["rows"])]
        t = np.random.default_rng(9).uniform(-1, 1, (10, 3)).astype(F32)

        def expected(f):
            k, s = int(f["k"]), int(f["s"])
            n = min(k, 10)
            a, b = np.arange(0, n), np.arange(2, n, 3)
            return {"a": a, "b": b, "c": np.arange(2, max(k, -7), -2), "d": np.arange(s, s + n), "f": np.arange(0.5, n, 0.75, F32), "g": np.arange(0, n, 2, np.int32),
                    "i": np.arange(max(n, 0), 12, 3), "sum": (a * a).sum(), "size": i64(len(b)), "rows": t[a]}

        feeds = [{"k": np.array(k), "s": np.array(s)} for k, s in ((4, 3), (0, -2), (25, 7), (-3, 0), (10, 1), (-99, 5))]
        constants = {"zero": np.array(0), "one": np.array(1), "two": np.array(2), "three": np.array(3), "ten": np.array(10), "twelve": np.array(12), "low": np.array(-7), "back": np.array(-2),
                     "half": np.array(0.5, F32), "part": np.array(0.75, F32), "zero32": np.array(0, np.int32), "two32": np.array(2, np.int32), "t": t}
        self.each(nodes, feeds, expected, ["a", "b", "c", "d", "f", "g", "i", "sum", "size", "rows"], constants)

    def test_ranges_over_what_is_found(self):
        """A size of what the run finds is a limit, too; a range that is as long as a tensor goes with it."""
        nodes = [m.node("NonZero", ["x"], ["at"]), m.node("Shape", ["at"], ["shape"]), m.node("Gather", ["shape", "last"], ["n"]), m.node("Range", ["zero", "n", "one"], ["a"]),
                 m.node("Squeeze", ["at", "axis"], ["places"]), m.node("Add", ["places", "a"], ["both"]), m.node("Size", ["at"], ["size"]), m.node("Sub", ["size", "one"], ["less"]),
                 m.node("Range", ["one", "less", "two"], ["b"]), m.node("Cast", ["x"], ["ones"], to=9), m.node("Cast", ["ones"], ["whole"], to=7),
                 m.node("ReduceSum", ["whole"], ["total"], keepdims=0), m.node("Range", ["zero", "total", "two"], ["c"]), m.node("Concat", ["a", "b"], ["joined"], axis=0)]

        def expected(f):
            at = np.flatnonzero(f["x"])
            a, b = np.arange(len(at)), np.arange(1, len(at) - 1, 2)
            return {"a": a, "both": at + a, "b": b, "c": np.arange(0, len(at), 2), "joined": np.concatenate([a, b])}

        self.each(nodes, self.planes(13), expected, ["a", "both", "b", "c", "joined"],
                  {"last": np.array(-1), "zero": np.array(0), "one": np.array(1), "two": np.array(2), "axis": i64(0)})

    def test_turns_over_what_is_found(self):
        """A loop of as many turns as a run finds elements, and one of Clip of a number."""
        body = m.graph([m.node("Identity", ["go"], ["on"]), m.node("Mul", ["i", "i"], ["row"])], [m.value("i", (), 7), m.value("go", (), 9)], [m.value("on", (), 9), m.value("row", (), 7)])
        nodes = [m.node("NonZero", ["x"], ["at"]), m.node("Size", ["at"], ["n"]), m.node("Loop", ["n", ""], ["rows"], body=body), m.node("ReduceSum", ["rows"], ["sum"], keepdims=0),
                 m.node("Clip", ["k", "", "most"], ["m"]), m.node("Loop", ["m", ""], ["other"], body=body)]
        feeds = [{**f, "k": np.array(k)} for f, k in zip(self.planes(11), (2, 0, 99, -1))]
        self.each(nodes, feeds, lambda f: {"rows": np.arange(np.count_nonzero(f["x"])) ** 2, "sum": (np.arange(np.count_nonzero(f["x"])) ** 2).sum(), "other": np.arange(min(f["k"], 4)) ** 2},
                  ["rows", "sum", "other"], {"most": np.array(4)})

    def test_ranges_without_a_limit(self):
        """What would limit it is said; `opc run` takes the value that it is given."""
        constants = {"zero": np.array(0), "one": np.array(1), "nan": np.array(np.nan, F32), "none": np.array(0), "real": np.array(1, F32)}
        for inputs, code, words in ((("zero", "k", "one"), 4, "input 1 ('k'), which nothing limits as Min of it and a number would"), (("k", "zero", "one"), 4, "input 0 ('k'), which nothing limits as Max"),
                                    (("zero", "one", "k"), 4, "input 2 ('k') must be known"), (("zero", "k", "none"), 3, "a step of 0"), (("nan", "r", "real"), 3, "a range whose input 0 ('nan') is nan"),
                                    (("zero", "two", "one"), 3, "input 1 ('two') is i64[2], and must be one number")):
            self.model([m.node("Range", inputs, ["y"], "R")], {"k": np.array(3), "r": np.array(3, F32), "two": i64(1, 2)}, ["y"], constants)
            said = self.opc("compile", "model.onnx", "-o", "model.plan", code=code).stderr
            self.assertIn(words, said)
            self.assertEqual(said.count("error["), 1, said)
            self.assertIn('node 0 "R"', said)
        self.model([m.node("Range", ["zero", "k", "one"], ["y"])], {"k": np.array(3)}, ["y"], constants)
        np.testing.assert_array_equal(self.run_model({"k": np.array(5)})["y"], np.arange(5))
        self.model([m.node("Min", ["k", "most"], ["n"]), m.node("Range", ["zero", "n", "one"], ["y"])], {"k": np.array(3)}, ["y"], constants | {"most": np.array(1 << 40)})
        self.assertIn("a range of up to 1099511627776", self.opc("compile", "model.onnx", "-o", "model.plan", code=4).stderr)

    def test_compress(self):
        data = np.arange(24, dtype=F32).reshape(4, 6)
        feeds = [{"c": np.array(c, bool)} for c in ([0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1])]
        self.each([m.node("Compress", ["data", "c"], ["y"], axis=0), m.node("Compress", ["data", "c"], ["z"])], feeds,
                  lambda f: {"y": np.compress(f["c"], data, 0), "z": np.compress(f["c"], data)}, ["y", "z"], {"data": data})

    def test_unique(self):
        random = np.random.default_rng(5)
        feeds = [{"x": x.astype(F32)} for x in (random.integers(0, 4, (7, 3)), np.ones((7, 3)), np.arange(21).reshape(7, 3)[::-1])]
        nodes = [m.node("Unique", ["x"], ["y", "first", "inverse", "counts"]), m.node("Unique", ["x"], ["u", "i"], sorted=0), m.node("Unique", ["x"], ["r", "", "", "n"], axis=0)]

        def expected(f):
            y, first, inverse, counts = np.unique(f["x"], return_index=True, return_inverse=True, return_counts=True)
            order = np.sort(first)
            rows, times = np.unique(f["x"], axis=0, return_counts=True)
            return {"y": y, "first": first, "inverse": inverse.reshape(-1), "counts": counts, "u": f["x"].reshape(-1)[order], "i": order, "r": rows, "n": times}

        self.each(nodes, feeds, expected, ["y", "first", "inverse", "counts", "u", "i", "r", "n"])

    def test_the_largest(self):
        x = np.random.default_rng(6).permutation(40).reshape(4, 10).astype(F32)
        nodes = [m.node("TopK", ["x", "k"], ["v", "i"], axis=1), m.node("TopK", ["x", "k"], ["w", ""], axis=0, largest=0)]

        def expected(f):
            k = int(f["k"][0])
            order = np.argsort(-x, axis=1, kind="stable")[:, :k]
            return {"v": np.take_along_axis(x, order, 1), "i": order, "w": np.sort(x, axis=0)[:k]}

        self.each(nodes, [{"x": x, "k": i64(k)} for k in (3, 1, 4)], expected, ["v", "i", "w"])
        self.model(nodes, {"x": x, "k": i64(2)}, ["v"])
        self.opc("compile", "model.onnx", "-o", "model.plan")
        np.savez(self.path("in.npz"), x=x, k=i64(11))
        self.assertIn("OPC0601", self.opc("model.plan", "--inputs", "in.npz", program="opc-runtime", code=5).stderr)

    def test_detections(self):
        """The head of a detector: boxes from centres, scores, suppression, and the boxes, classes and scores that are kept."""
        n, classes = 60, 3
        nodes = [m.node("Split", ["raw"], ["centre", "size"], axis=2, num_outputs=2), m.node("Mul", ["size", "half"], ["halves"]), m.node("Sub", ["centre", "halves"], ["low"]),
                 m.node("Add", ["centre", "halves"], ["high"]), m.node("Concat", ["low", "high"], ["boxes"], axis=2), m.node("Sigmoid", ["logits"], ["p"]),
                 m.node("Transpose", ["p"], ["scores"], perm=[0, 2, 1]), m.node("NonMaxSuppression", ["boxes", "scores", "most", "limit", "least"], ["kept"]),
                 m.node("Gather", ["kept", "two"], ["place"], axis=1), m.node("Gather", ["kept", "one"], ["class"], axis=1), m.node("Squeeze", ["boxes", "zero"], ["all"]),
                 m.node("Gather", ["all", "place"], ["found"], axis=0), m.node("Identity", ["kept"], ["rows"]), m.node("GatherND", ["scores", "rows"], ["score"])]
        constants = {"half": np.array(0.5, F32), "most": i64(5), "limit": np.array([0.4], F32), "least": np.array([0.55], F32), "two": np.array(2, I64), "one": np.array(1, I64), "zero": i64(0)}
        random = np.random.default_rng(7)
        feeds = [{"raw": np.concatenate([random.uniform(0, 4, (1, n, 2)), random.uniform(0.5, 2, (1, n, 2))], 2).astype(F32), "logits": random.normal(shift, 1, (1, n, classes)).astype(F32)}
                 for shift in (0, -9, 2)]

        def expected(f):
            low, high = f["raw"][0, :, :2] - f["raw"][0, :, 2:] / 2, f["raw"][0, :, :2] + f["raw"][0, :, 2:] / 2
            boxes, p = np.concatenate([low, high], 1), (1 / (1 + np.exp(-f["logits"][0].astype(np.float64)))).astype(F32)
            rows = [(0, c, i) for c in range(classes) for i in suppressed(boxes, p[:, c], 5, 0.4, np.float32(0.55))]
            rows = np.array(rows, I64).reshape(-1, 3)
            return {"kept": rows, "class": rows[:, 1], "found": boxes[rows[:, 2]], "score": p[rows[:, 2], rows[:, 1]]}

        self.each(nodes, feeds, expected, ["kept", "class", "found", "score"], constants)


class Elsewhere(Case):
    NODES = [m.node("NonZero", ["x"], ["at"]), m.node("Transpose", ["at"], ["rows"], perm=[1, 0]), m.node("GatherND", ["x", "rows"], ["v"]),
             m.node("Mul", ["v", "v"], ["square"]), m.node("ReduceSum", ["square"], ["loss"], keepdims=0)]
    X = (np.arange(80, dtype=F32).reshape(8, 10) % 3 - 1) / 4

    def given(self):
        self.model(self.NODES, {"x": self.X}, ["at", "v", "loss"])
        return {"at": np.array(np.nonzero(self.X)), "v": self.X[self.X != 0], "loss": (self.X**2).sum()}

    def check(self, made, want):
        for name, value in want.items():
            self.assertEqual(made[name].shape, value.shape, name)
            np.testing.assert_allclose(made[name], value, rtol=1e-6)

    def test_run(self):
        want = self.given()
        self.check(self.run_model({"x": self.X}), want)
        np.save(self.path("x.npy"), self.X)
        shown = self.opc("run", "model.onnx", "--input", "x=@x.npy", "--output", "v=v.npy").stdout
        self.assertIn(f"v  f32[{len(want['v'])}]", shown)
        np.testing.assert_array_equal(np.load(self.path("v.npy")), want["v"])
        self.opc("run", "model.onnx", "--input", "x=@x.npy", "--expect", "v=@v.npy")
        np.save(self.path("other.npy"), want["v"] + 1)
        self.opc("run", "model.onnx", "--input", "x=@x.npy", "--expect", "v=@other.npy", code=1)

    def test_graph_files(self):
        want = self.given()
        self.opc("compile", "model.onnx", "--emit", "pbtxt", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
        self.check(self.run_model({"x": self.X}, "--weights", "w.safetensors", what="g.pbtxt"), want)

    def test_export(self):
        """Out as ONNX and in again: outputs are cut as before."""
        want = self.given()
        self.opc("compile", "model.onnx", "--emit", "onnx", "-o", "out.onnx")
        self.check(self.run_model({"x": self.X}, what="out.onnx"), want)

    def test_ranks(self):
        want = self.given()
        for mesh in ("2", "2x2"):
            self.check(self.run_model({"x": self.X}, "--mesh", mesh, "--in-process"), want)

    def test_micro_batches(self):
        self.given()
        np.savez(self.path("in.npz"), x=np.concatenate([self.X, self.X]))
        said = self.opc("run", "model.onnx", "--mesh", "2", "--in-process", "--micro-batches", "2", "--inputs", "in.npz", "--shape", "x=8,10", code=4).stderr
        self.assertRegex(said, r"OPC0210\]: output '(at|v)' has as much as a run finds, and micro-batches cannot be joined by it")

    def test_sizes_in_a_range(self):
        """One plan for many sizes of the input, and what each run finds of them."""
        nodes = self.NODES
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", ("n", 10))], [m.value(o, None, 0) for o in ("at", "v", "loss")]), opset=18))
        self.opc("compile", "model.onnx", "--shape", "x=n:1..8,10", "-o", "model.plan")
        for rows in (3, 8, 1):
            x = self.X[:rows]
            self.check(self.run_model({"x": x}, what="model.plan", program="opc-runtime"), {"at": np.array(np.nonzero(x)), "v": x[x != 0], "loss": (x**2).sum()})

    def test_gradients(self):
        """The loss is over what there is; its gradient is what finite differences of numpy give: 2 x."""
        self.given()
        np.save(self.path("x.npy"), self.X)
        self.opc("grad", "model.onnx", "--loss", "loss", "--wrt", "x", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
        made = self.run_model({"x": self.X}, "--weights", "w.safetensors", what="g.pbtxt")
        (gradient,) = [v for k, v in made.items() if v.shape == self.X.shape]
        np.testing.assert_allclose(gradient, 2 * self.X, rtol=1e-6)

    def test_a_gradient_of_what_is_cut(self):
        """Elements behind the count have no part in the gradient of a loss that is bounded itself."""
        self.given()
        self.opc("grad", "model.onnx", "--loss", "v", "--wrt", "x", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
        made = self.run_model({"x": self.X}, "--weights", "w.safetensors", what="g.pbtxt")
        (gradient,) = [v for k, v in made.items() if v.shape == self.X.shape]
        np.testing.assert_array_equal(gradient, self.X != 0)

    def test_a_graph_of_ones_own(self):
        """argwhere and bounded in a graph file: cut where the count is an output, too, and what does not fit is refused."""
        def graph(axis, count, type_="kFloat"):
            ops = [f'name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 8 dim: 10 }} data_type: {type_} }} }}',
                   'name: "find" user_conf { op_type_name: "argwhere" input { key: "input" value { s: "x/out" } } output { key: "output" value { s: "find/output_0" } } '
                   'output { key: "output_size" value { s: "find/output_size_0" } } }',
                   'name: "cut" user_conf { op_type_name: "bounded" input { key: "x" value { s: "find/output_0" } } '
                   f'input {{ key: "count" value {{ s: "{count}" }} }} output {{ key: "y" value {{ s: "cut/y_0" }} }} attr {{ key: "axis" value {{ at_int64: {axis} }} }} }}',
                   'name: "places" output_conf { in: "cut/y_0" }', 'name: "n" output_conf { in: "find/output_size_0" }']
            with open(self.path("g.pbtxt"), "w") as f:
                f.write("".join(f"op {{ {op} }}\n" for op in ops))

        graph(0, "find/output_size_0")
        want = np.argwhere(self.X)
        made = self.run_model({"x": self.X}, what="g.pbtxt")
        np.testing.assert_array_equal(made["places"], want)
        self.assertEqual(made["n"], [len(want)])
        np.save(self.path("x.npy"), self.X)
        self.opc("run", "g.pbtxt", "--input", "x=@x.npy", "--output", "places=p.npy")
        np.testing.assert_array_equal(np.load(self.path("p.npy")), want)
        whole = self.run_model({"x": self.X}, "--until", "cut/y_0", what="g.pbtxt")["cut/y_0"]
        np.testing.assert_array_equal(whole, np.concatenate([want, np.zeros((80 - len(want), 2))]))
        for wrong, words in (((2, "find/output_size_0"), "axis is 2, and x is i32[80,2]"), ((0, "x/out"), "count is f32"), ((0, "find/output_0"), "it should be one number")):
            graph(*wrong)
            self.assertIn(words, self.opc("run", "g.pbtxt", "--input", "x=@x.npy", code=3).stderr)

    def test_locks(self):
        """Numbers that a lock has are compared as they are cut."""
        self.given()
        os.mkdir(self.path("graphs"))
        os.replace(self.path("model.onnx"), self.path("graphs/model.onnx"))
        self.opc("check", "graphs", "--update")
        self.opc("check", "graphs")

    def test_what_cannot_be(self):
        """An op without a rule names itself and the tensor; a small input is taken as it is given."""
        large = np.zeros((9, 20), F32)
        large[2, 3] = large[4, 5] = 1
        nodes = [m.node("NonZero", ["x"], ["at"], "find"), m.node("Tile", ["at", "twice"], ["y"], "tiles")]
        self.model(nodes, {"x": large}, ["y"], {"twice": i64(1, 2)})
        np.savez(self.path("in.npz"), x=large)
        said = self.opc("run", "model.onnx", "--inputs", "in.npz", code=4).stderr
        for word in ("OPC0422", 'node 1 "tiles"', "Tile: input 0 ('at') has as many elements as its values say, which must be known", "the input 'x'", "--const x=VALUE"):
            self.assertIn(word, said)
        small = np.array([[0, 1, 0, 2]], F32)
        self.model(nodes, {"x": small}, ["y"], {"twice": i64(1, 2)})
        np.testing.assert_array_equal(self.run_model({"x": small})["y"], np.tile(np.array(np.nonzero(small)), (1, 2)))
        for op, extra in (("Add", ["fixed"]), ("Concat", ["fixed"])): # along the other axis
            self.model([nodes[0], m.node(op, ["at", *extra], ["y"], "joins", **({"axis": 0} if op == "Concat" else {}))], {"x": large}, ["y"], {"fixed": np.zeros((2, 180), I64)})
            self.assertIn(f"{op}: input ", self.opc("compile", "model.onnx", "-o", "x.plan", code=4).stderr)


if __name__ == "__main__":
    unittest.main()
