# Attention of ONNX models as one op: that it is one and copies no keys, its numbers against numpy and ONNX Runtime beyond the sizes of a
# block, its gradients against those of the steps, a past in a range of sizes; and the steps that PyTorch exports, which become it.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import later_ops  # noqa: E402
import measured  # noqa: E402
import messages as m  # noqa: E402
from later_ops import F32, INVALID, MICROSOFT, OPC, attention, i64, uniform  # noqa: E402

FUSED = "scaled_dot_product_attention"


def i32(*values):
    return np.array(values, np.int32)


def flat(x):
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape[0], x.shape[2], -1)


class Case(later_ops.Case):
    def tool(self, *command):
        done, *_ = measured.run([OPC, *command], self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def ops(self):
        """The types of the model's ops."""
        return re.findall(r'opc.user_op "(\w+)"', self.tool("compile", "model.onnx", "--to", "import").stdout)

    def is_one_op(self, *node, **more):
        self.write(*node, **more)
        ops = self.ops()
        self.assertEqual(ops.count(FUSED), 1, ops)
        self.assertFalse({"batch_matmul", "softmax", "tanh"} & set(ops), ops)
        return ops


class OneOp(Case):
    def test_attention(self):
        q, k, v = uniform(2, 4, 3, 8), uniform(2, 2, 6, 8), uniform(2, 2, 6, 5)
        mask, past = np.ones((3, 6), bool), [uniform(2, 2, 4, 8), uniform(2, 2, 4, 5)]
        self.assertEqual(self.is_one_op("Attention", [q, k, v], is_causal=1, softcap=2.0, scale=0.3), [FUSED])  # no keys are copied
        self.is_one_op("Attention", [q, k, v, mask], softmax_precision=1)
        self.is_one_op("Attention", [q, k, v, None, *past], outputs=3, is_causal=1)
        self.is_one_op("Attention", [q, k, v, None, None, None, i64(2, 5)], is_causal=1)
        self.is_one_op("Attention", [q, k, v], opset=25, left_window_size=2, right_window_size=1)

    def test_contributed(self):
        q, k = uniform(2, 3, 32), uniform(2, 3, 16)
        self.is_one_op("MultiHeadAttention", [q, q, q], domain=MICROSOFT, num_heads=4, unidirectional=1)
        self.is_one_op("Attention", [q, uniform(32, 96), uniform(96), i32(2, 3)], domain=MICROSOFT, num_heads=4)
        self.is_one_op("GroupQueryAttention", [q, k, k, None, None, i32(2, 2), np.array(3, np.int32)], constants=(6,), domain=MICROSOFT,
                       num_heads=4, kv_num_heads=2, softcap=3.0, local_window_size=2)

    def test_what_stays_in_steps(self):
        """Scores that are looked at, and a softmax of more bits than the op's."""
        q = uniform(1, 2, 3, 4)
        for more in ({"outputs": (0, 3)}, {"softmax_precision": 11}):
            self.write("Attention", [q, q, q], **more)
            ops = self.ops()
            self.assertIn("softmax", ops)
            self.assertNotIn(FUSED, ops)

    def test_no_mask_is_made(self):
        """A causal mask of these places would have 2^28 elements."""
        q, k = uniform(1, 1, 2**14, 1), uniform(1, 1, 2**14, 1)
        self.write("Attention", [q, k, k], is_causal=1)
        self.assertEqual(self.ops(), [FUSED])

    def test_what_does_not_fit(self):
        q, k = uniform(1, 4, 3, 8), uniform(1, 2, 6, 8)
        self.refused(INVALID, "4 heads of queries and 3 of keys", "Attention", [q, uniform(1, 3, 6, 8), uniform(1, 3, 6, 8)])
        self.refused(INVALID, "a divisor of the queries'", "Attention", [q, k, uniform(1, 4, 6, 8)])
        self.refused(INVALID, "value is f32[1,2,5,8]", "Attention", [q, k, uniform(1, 2, 5, 8)])
        self.refused(INVALID, "key is f32[1,2,6,7]", "Attention", [q, uniform(1, 2, 6, 7), k])
        self.refused(INVALID, "shapes do not broadcast: (1,4,3,6) and (4,6)", "Attention", [q, k, k, uniform(4, 6)])
        self.refused(INVALID, "a mask of (2,4,3,6) for (1,4,3,6) scores", "Attention", [q, k, k, uniform(2, 4, 3, 6)])


class Numbers(Case):
    """Sizes of several blocks of queries, heads that share keys in one product and in several."""

    def test_attention(self):
        for heads, shared, queries, keys in ((6, 2, 230, 300), (4, 1, 3, 700), (8, 4, 1, 65)):
            q, k, v = uniform(2, heads, queries, 16) * 3, uniform(2, shared, keys, 16) * 3, uniform(2, shared, keys, 8)
            mask = later_ops.RANDOM.integers(0, 4, (2, 1, queries, keys)) > 0
            for facts in ({}, {"causal": 1}, {"softcap": 0.8}, {"mask": mask}, {"mask": uniform(heads, queries, keys) * 2, "causal": 1, "softcap": 3.0}):
                with self.subTest(heads=heads, queries=queries, facts=list(facts)):
                    want, _ = attention(q, k, v, **facts)
                    given = [q, k, v] + ([facts["mask"]] if "mask" in facts else [])
                    node = {"is_causal": facts.get("causal", 0), "softcap": facts.get("softcap", 0.0)}
                    self.close(self.judged("Attention", given, **node)["o0"], want)

    def test_lengths(self):
        """Products are prepared for several numbers of keys: lengths beside and at their edges, and none."""
        for queries, causal in ((1, 0), (3, 1), (210, 0)):
            q, k, v = uniform(8, 4, queries, 16), uniform(8, 2, 700, 16), uniform(8, 2, 700, 8)
            lengths = i64(0, 1, 128, 129, 500, 640, 699, 700)
            want, _ = attention(q, k, v, lengths=lengths, causal=causal)
            self.close(self.judged("Attention", [q, k, v, None, None, None, lengths], is_causal=causal)["o0"], want)

    def test_past(self):
        past = [uniform(2, 2, 150, 16), uniform(2, 2, 150, 8)]
        for queries in (1, 4, 200):
            q, k, v = uniform(2, 4, queries, 16), uniform(2, 2, queries, 16), uniform(2, 2, queries, 8)
            want, _ = attention(q, np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2), causal=1, past=150)
            self.close(self.judged("Attention", [q, k, v, None, *past], outputs=3, is_causal=1)["o0"], want)
        # More new keys than queries: these stand behind the past, and not at the end.
        q, k, v = uniform(2, 4, 3, 16), uniform(2, 2, 5, 16), uniform(2, 2, 5, 8)
        want, _ = attention(q, np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2), causal=1, past=150)
        self.close(self.judged("Attention", [q, k, v, None, *past], outputs=3, is_causal=1)["o0"], want)

    def test_sixteen_bits(self):
        q, k, v = (uniform(*s).astype(np.float16) for s in ((2, 4, 40, 16), (2, 2, 60, 16), (2, 2, 60, 8)))
        want, _ = attention(q, k, v, causal=1)
        np.testing.assert_allclose(self.ran("Attention", [q, k, v], is_causal=1)["o0"].astype(F32), want, rtol=2e-3, atol=2e-3)

    def test_groups(self):
        """A prompt, and tokens behind sequences of different lengths in a buffer: windows, caps, what is added."""
        form = {"domain": MICROSOFT, "opset": 17, "num_heads": 6, "kv_num_heads": 2, "constants": (6,), "outputs": 3}
        for window, cap in ((-1, 0.0), (40, 0.0), (-1, 5.0), (40, 5.0)):
            facts = {"left": window - 1 if window > 0 else -1, "softcap": cap, "causal": 1}
            node = {**form, "local_window_size": window, "softcap": cap}
            q, k, v = uniform(2, 6, 150, 16) * 3, uniform(2, 2, 150, 16) * 3, uniform(2, 2, 150, 16)
            want, _ = attention(q, k, v, **facts)
            given = [flat(q), flat(k), flat(v), None, None, i32(149, 149), np.array(150, np.int32)]
            self.close(self.judged("GroupQueryAttention", given, **node)["o0"], flat(want))
            q, k, v = uniform(2, 6, 1, 16) * 3, uniform(2, 2, 1, 16) * 3, uniform(2, 2, 1, 16)
            past, last = [uniform(2, 2, 200, 16) * 3, uniform(2, 2, 200, 16)], (180, 63)
            both = [p.copy() for p in past]
            for b, at in enumerate(last):
                both[0][b, :, at], both[1][b, :, at] = k[b, :, 0], v[b, :, 0]
            want, _ = attention(q, *both, lengths=[at + 1 for at in last], **facts)
            given = [flat(q), flat(k), flat(v), *past, i32(*last), np.array(181, np.int32)]
            self.close(self.judged("GroupQueryAttention", given, **node)["o0"], flat(want))


class Gradients(Case):
    def gradients(self, given, **more):
        inputs = self.write("Attention", given, **more)
        wrt = [n for n, a in inputs.items() if a.dtype == F32]
        self.tool("grad", "model.onnx", "--loss", "o0", *[part for n in wrt for part in ("--wrt", n)], "-o", "g.pbtxt")
        self.tool("run", "g.pbtxt", "--inputs", "in.npz", "--outputs", "out.npz")
        made = np.load(os.path.join(self.folder, "out.npz"))
        return {n: made[n + ".grad"] for n in wrt}

    def test_as_the_steps(self):
        """With its scores as an output a node is computed by step, here with a mask of what is seen."""
        q, k, v, mask = uniform(2, 4, 5, 8), uniform(2, 2, 6, 8), uniform(2, 2, 6, 3), uniform(4, 5, 6)
        ahead = np.arange(6) - np.arange(5)[:, None]
        for given, more, seen in (([q, k, v, mask], {}, mask), ([q, k, v], {"is_causal": 1}, ahead <= 0),
                                  ([q, k, v, None, None, None, i64(4, 4)], {"constants": (6,)}, np.broadcast_to(np.arange(6) < 4, (5, 6))),
                                  ([q, k, v], {"opset": 25, "left_window_size": 2, "right_window_size": 1}, (ahead >= -2) & (ahead <= 1))):
            with self.subTest(more=more):
                got, want = self.gradients(given, softcap=0.7, **more), self.gradients([q, k, v, seen], softcap=0.7, outputs=(0, 3))
                self.assertEqual(list(got), list(want))
                for name, gradient in want.items():
                    self.close(got[name], gradient)


class Ranges(Case):
    def test_a_past_that_grows(self):
        """One plan for every length of the past: where queries stand is not a number of it."""
        sizes = (2, "past", 8), (2, "past", 3)
        inputs = [m.value("q", (1, 4, 1, 8)), m.value("k", (1, 2, 1, 8)), m.value("v", (1, 2, 1, 3)),
                  *[m.value(n, (1, *s)) for n, s in zip(("pk", "pv"), sizes)]]
        node = m.node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "keys", "values"], "N", is_causal=1)
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph([node], inputs, [m.value(n) for n in ("y", "keys", "values")]), opset=24))
        self.tool("compile", "model.onnx", "--shape", "pk=1,2,past:1..9,8", "--shape", "pv=1,2,past:1..9,3", "-o", "m.plan")
        for past in (1, 4, 9):
            given = {"q": uniform(1, 4, 1, 8), "k": uniform(1, 2, 1, 8), "v": uniform(1, 2, 1, 3), "pk": uniform(1, 2, past, 8), "pv": uniform(1, 2, past, 3)}
            np.savez(os.path.join(self.folder, "in.npz"), **given)
            self.tool("run", "m.plan", "--inputs", "in.npz", "--outputs", "out.npz")
            keys, values = np.concatenate([given["pk"], given["k"]], 2), np.concatenate([given["pv"], given["v"]], 2)
            want, _ = attention(given["q"], keys, values, causal=1, past=past)
            self.close(np.load(os.path.join(self.folder, "out.npz"))["y"], want)


class Steps(Case):
    """The ops that PyTorch exports become one when the graph is compiled, and are left alone with --no-fuse."""

    def model(self, keys, queries, middle, inputs=(), initializers=()):
        """q k^T, the nodes of `middle` from s to t, softmax, v; keys come as [batch, length, heads, size]."""
        known = [m.node("Constant", [], ["root"], value=np.array(4, F32)), m.node("Constant", [], ["low"], value=np.array(np.finfo(F32).min, F32))]
        values = [m.value("q", (1, 3, queries, 16)), m.value("k", (1, keys, 3, 16)), m.value("v", (1, 3, keys, 8)), *inputs]
        nodes = [*known, m.node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]), m.node("MatMul", ["q", "kt"], ["s"]), *middle,
                 m.node("Softmax", ["t"], ["p"], axis=-1), m.node("MatMul", ["p", "v"], ["y"])]
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, values, [m.value("y")], list(initializers)), opset=17))

    def fused(self):
        return re.findall(r'opc.user_op "(\w+)"', self.tool("compile", "model.onnx", "--to", "fuse").stdout).count(FUSED)

    def check(self, keys, queries, want, **more):
        """`want` makes the scores out of the products; with and without fusion."""
        given = {"q": uniform(1, 3, queries, 16) * 3, "k": uniform(1, keys, 3, 16) * 3, "v": uniform(1, 3, keys, 8), **more}
        np.savez(os.path.join(self.folder, "in.npz"), **given)
        scores = want(given["q"].astype(np.float64) @ given["k"].astype(np.float64).transpose(0, 2, 3, 1))
        for flags in ([], ["--no-fuse"]):
            self.tool("run", "model.onnx", "--inputs", "in.npz", "--outputs", "out.npz", *flags)
            self.close(np.load(os.path.join(self.folder, "out.npz"))["y"], later_ops.softmax(scores) @ given["v"])

    def test_added(self):
        self.model(300, 260, [m.node("Div", ["s", "root"], ["d"]), m.node("Add", ["d", "mask"], ["t"])], [m.value("mask", (1, 1, 1, 300))])
        self.assertEqual(self.fused(), 1)
        mask = np.where(np.arange(300) < 190, 0, np.finfo(F32).min).astype(F32)[None, None, None]
        self.check(300, 260, lambda s: s / 4 + mask, mask=mask)

    def test_causal(self):
        """A constant choice, behind keys of a past."""
        seen = np.arange(200) <= np.arange(150)[:, None] + 50
        self.model(200, 150, [m.node("Constant", [], ["seen"], value=seen), m.node("Constant", [], ["by"], value=np.array(0.25, F32)),
                               m.node("Mul", ["s", "by"], ["d"]), m.node("Where", ["seen", "d", "low"], ["t"])])
        self.assertEqual(self.fused(), 1)
        self.check(200, 150, lambda s: np.where(seen, s / 4, -np.inf))
        self.assertIn("causal = true, offset = 50", self.tool("compile", "model.onnx", "--to", "fuse").stdout)

    def test_queries_that_see_nothing(self):
        """Of a lowest number that is chosen they get the average of all values, and keep it."""
        self.model(300, 260, [m.node("Where", ["seen", "s", "low"], ["t"])], [m.value("seen", (260, 300), m.ELEMENT[np.dtype(bool)])])
        self.assertEqual(self.fused(), 1)
        seen = later_ops.RANDOM.integers(0, 2, (260, 300)).astype(bool)
        seen[7] = False
        self.check(300, 260, lambda s: np.where(seen, s, np.finfo(F32).min), seen=seen)

    def test_scores_that_are_hidden_may_be_anything(self):
        """NaN, infinite or beyond f32: nobody sees them."""
        seen = np.broadcast_to(np.arange(300) < 200, (260, 300))
        for lowest, middle in ((np.finfo(F32).min, [m.node("Where", ["seen", "s", "low"], ["t"])]), (-np.inf, [m.node("Add", ["s", "bias"], ["t"])])):
            inputs = [m.value("seen", (260, 300), m.ELEMENT[np.dtype(bool)])] if lowest != -np.inf else [m.value("bias", (260, 300))]
            self.model(300, 260, middle, inputs)
            self.assertEqual(self.fused(), 1)
            for bad in (np.nan, np.inf, 3e38):
                given = {"q": uniform(1, 3, 260, 16), "k": uniform(1, 300, 3, 16), "v": uniform(1, 3, 300, 8)}
                scores = given["q"].astype(np.float64) @ given["k"].astype(np.float64).transpose(0, 2, 3, 1)
                given["k"][:, 200:] = bad
                given.update({"seen": seen} if lowest != -np.inf else {"bias": np.where(seen, 0, lowest).astype(F32)})
                np.savez(os.path.join(self.folder, "in.npz"), **given)
                self.tool("run", "model.onnx", "--inputs", "in.npz", "--outputs", "out.npz")
                self.close(np.load(os.path.join(self.folder, "out.npz"))["y"], later_ops.softmax(np.where(seen, scores, -np.inf)) @ given["v"])

    def test_numbers_of_other_ranks(self):
        """The lowest number may have more axes than the choice."""
        constant = lambda v: m.node("Constant", [], ["lower"], value=np.full((1, 1, 1), v, F32))  # noqa: E731
        for shape in ((300,), (260, 300), (260, 1), (3, 1, 300)):
            self.model(300, 260, [constant(-1e38), m.node("Where", ["seen", "s", "lower"], ["t"])], [m.value("seen", shape, m.ELEMENT[np.dtype(bool)])])
            self.assertEqual(self.fused(), 1)
            seen = later_ops.RANDOM.integers(0, 2, shape).astype(bool)
            self.check(300, 260, lambda s, seen=seen: np.where(seen, s, -1e38), seen=seen)

    def test_what_fusion_would_change(self):
        """A factor of the run could make queries infinite; rows that -inf hides are NaN, and a number that is none hides nothing."""
        every = np.arange(300) <= np.arange(260)[:, None] + 40
        self.model(300, 260, [m.node("Mul", ["s", "by"], ["t"])], [], [m.tensor("by", np.array(0.25, F32))])
        self.assertEqual(self.fused(), 0)
        self.model(300, 260, [m.node("Div", ["s", "by"], ["t"])], [m.value("by", (1,))])
        self.assertEqual(self.fused(), 0)
        for hidden, seen, count in ((-np.inf, None, 0), (np.nan, every, 0), (-np.inf, every, 1)):
            given = [] if seen is None else [m.node("Constant", [], ["seen"], value=seen)]
            inputs = [m.value("seen", (260, 300), m.ELEMENT[np.dtype(bool)])] if seen is None else []
            self.model(300, 260, [*given, m.node("Constant", [], ["lower"], value=np.array(hidden, F32)), m.node("Where", ["seen", "s", "lower"], ["t"])], inputs)
            self.assertEqual(self.fused(), count, hidden)
        for row, count in ((3, 0), (9, 1)):  # one of the 8 rows, or none
            hides = np.where(np.arange(8)[:, None] == row, -np.inf, 1).astype(F32)
            self.model(130, 8, [m.node("Constant", [], ["rows"], value=hides), m.node("Add", ["s", "rows"], ["t"])])
            self.assertEqual(self.fused(), count)

    def test_a_query_that_a_mask_of_the_run_hides(self):
        """With minus infinity for every key it is 0, and NaN with --no-fuse (docs/numerics.md); the others are the same."""
        self.model(300, 260, [m.node("Add", ["s", "mask"], ["t"])], [m.value("mask", (260, 300))])
        self.assertEqual(self.fused(), 1)
        given = {"q": uniform(1, 3, 260, 16), "k": uniform(1, 300, 3, 16), "v": uniform(1, 3, 300, 8), "mask": np.zeros((260, 300), F32)}
        given["mask"][7] = -np.inf
        np.savez(os.path.join(self.folder, "in.npz"), **given)
        want = later_ops.softmax(given["q"].astype(np.float64) @ given["k"].astype(np.float64).transpose(0, 2, 3, 1)) @ given["v"]
        for flags, hidden in ([], 0), (["--no-fuse"], np.nan):
            self.tool("run", "model.onnx", "--inputs", "in.npz", "--outputs", "out.npz", *flags)
            got = np.load(os.path.join(self.folder, "out.npz"))["y"]
            np.testing.assert_array_equal(got[:, :, 7], np.full((1, 3, 8), hidden, F32), str(flags))
            self.close(np.delete(got, 7, 2), np.delete(want, 7, 2))

    def test_what_is_left_alone(self):
        """Few scores, a number that is no mask, a factor behind the mask, and a graph with gradients."""
        mask = m.value("mask", (300,))
        plain = [m.node("Div", ["s", "root"], ["t"])]
        self.model(300, 260, plain)
        self.assertEqual(self.fused(), 1)
        self.tool("grad", "model.onnx", "--loss", "y", "--wrt", "q", "-o", "g.pbtxt")
        self.assertNotIn(FUSED, self.tool("compile", "g.pbtxt", "--to", "fuse").stdout)
        self.model(120, 120, plain)
        self.assertEqual(self.fused(), 0)
        self.model(300, 260, [m.node("Add", ["s", "mask"], ["a"]), m.node("Div", ["a", "root"], ["t"])], [mask])
        self.assertEqual(self.fused(), 0)
        self.model(300, 260, [m.node("Tanh", ["s"], ["t"])])
        self.assertEqual(self.fused(), 0)

    def test_a_query(self):
        """The keys were transposed for it alone."""
        self.model(500, 1, [m.node("Div", ["s", "root"], ["t"])])
        self.assertEqual(self.fused(), 1)
        self.check(500, 1, lambda s: s / 4)


if __name__ == "__main__":
    unittest.main()
