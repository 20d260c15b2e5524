# `if` and `loop` as ONNX: models and graphs with gradients that opc writes, run by ONNX Runtime and by opc again. Expected numbers are
# ONNX Runtime's; the way back gives the graph's bits.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import control_flow as flow  # noqa: E402
import control_gradients as grads  # noqa: E402
import messages as m  # noqa: E402
import ort  # noqa: E402

F32, OPC, BOOL, I64 = np.float32, flow.OPC, 9, 7
X = flow.X


def counted():
    """Rows that the run counts, read again."""
    body = flow.turns([m.node("Add", ["h", "h"], ["h_out"]), m.node("ReduceSum", ["h_out"], ["sum"], keepdims=0), m.node("Less", ["sum", "limit"], ["go"]),
                       m.node("ReduceMax", ["h_out"], ["row"], axes=[1], keepdims=0)], extra=[m.value("row")])
    return m.model(m.graph([m.node("Loop", ["n", "begin", "x"], ["y", "rows"], "turns", body=body), m.node("Mul", ["rows", "rows"], ["squares"])],
                           [m.value("x", (4, 8)), m.value("limit", ()), m.value("begin", (), BOOL)],
                           [m.value("y"), m.value("rows"), m.value("squares")], [m.tensor("n", np.array(10))]))


def nested():
    """A branch in a loop in a branch."""
    yes = m.graph([m.node("MatMul", ["h", "a"], ["t"])], [], [m.value("t")])
    no = m.graph([m.node("Sub", ["h", "x"], ["t"])], [], [m.value("t")])
    body = flow.turns([m.node("Identity", ["c"], ["go"]), m.node("Mod", ["i", "two"], ["r"]), m.node("Equal", ["r", "zero"], ["even"]),
                       m.node("If", ["even"], ["h_out"], then_branch=yes, else_branch=no)])
    outer = m.graph([m.node("Loop", ["n", "", "x"], ["u"], body=body)], [], [m.value("u")])
    other = m.graph([m.node("Identity", ["x"], ["u"])], [], [m.value("u")])
    return m.model(m.graph([m.node("If", ["d"], ["y"], then_branch=outer, else_branch=other)],
                           [m.value("x", (4, 8)), m.value("n", (), I64), m.value("d", (1,), BOOL)], [m.value("y")],
                           [m.tensor("a", flow.A), m.tensor("two", np.array(2)), m.tensor("zero", np.array(0))]))


def scanned():
    """More turns than are written out, over elements of a sequence."""
    body = m.graph([m.node("Add", ["h", "e"], ["s"]), m.node("Neg", ["s"], ["row"])], [m.value("h", (3,)), m.value("e", (3,))],
                   [m.value("s"), m.value("row")])
    return m.model(m.graph([m.node("Scan", ["x", "z"], ["y", "rows"], num_scan_inputs=1, body=body)], [m.value("x", (3,)), m.value("z", (5000, 3))],
                           [m.value("y"), m.value("rows")]))


def swapped():
    """States that change places, one of whole numbers."""
    body = m.graph([m.node("Identity", ["c"], ["go"]), m.node("Identity", ["b"], ["a_out"]), m.node("Identity", ["h"], ["b_out"]), m.node("Add", ["k", "i"], ["k_out"])],
                   [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (2,)), m.value("b", (2,)), m.value("k", (), I64)],
                   [m.value("go", (), BOOL), m.value("a_out"), m.value("b_out"), m.value("k_out", (), I64)])
    return m.model(m.graph([m.node("Loop", ["n", "", "x", "z", "zero"], ["y", "w", "k"], body=body)],
                           [m.value("n", (), I64), m.value("x", (2,)), m.value("z", (2,))], [m.value("y"), m.value("w"), m.value("k", None, I64)],
                           [m.tensor("zero", np.array(0))]))


def at_most():
    """As many rows as a number of the run says, and no more than eight."""
    body = flow.turns([m.node("Identity", ["c"], ["go"]), m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["h_out"]),
                       m.node("ReduceSum", ["h"], ["row"], keepdims=0)], extra=[m.value("row")])
    return m.model(m.graph([m.node("Min", ["n", "eight"], ["k"]), m.node("Loop", ["k", "", "x"], ["y", "rows"], body=body)],
                           [m.value("x", (4, 8)), m.value("n", (), I64)], [m.value("y"), m.value("rows")],
                           [m.tensor("a", flow.A), m.tensor("eight", np.array(8))]))


def loop_graph(reverse, partial, ends_at=None):
    """A `loop` of opc's own over 6 elements: the state takes them up, rows are the states before."""
    port = lambda name, dims, dtype: (f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {" ".join(f"dim: {d}" for d in dims)} }} '  # noqa: E731
                                      f'data_type: {dtype} }} }} }}')
    user = lambda name, kind, inputs, out, attrs="": (  # noqa: E731
        f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" ' +
        " ".join(f'input {{ key: "{k}" value {{ {" ".join(chr(115) + ": " + chr(34) + t + chr(34) for t in v)} }} }}' for k, v in inputs) +
        f' output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }} {attrs} }} }}')
    end = lambda name, tensor: f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}'  # noqa: E731
    attr = lambda name, value: f'attr {{ key: "{name}" value {{ {value} }} }}'  # noqa: E731
    sizes = lambda *dims: "shape { " + " ".join(f"dim: {d}" for d in dims) + " }"  # noqa: E731
    number = lambda name, value, dtype="kInt64": user(name, "constant", [], "out", attr("dtype", f"at_data_type: {dtype}") + attr("shape", "at_shape { }") +  # noqa: E731
                                                      attr("integer_value", f"at_int64: {value}") + attr("is_floating_value", "at_bool: false"))
    go = number("go", 1, "kBool") if ends_at is None else (number("last", ends_at) + user("go", "broadcast_not_equal", [("x", ["turn/out"]), ("y", ["last/out_0"])], "z"))
    inner = "\n".join([port("turn", [], "kInt64"), port("h", [2], "kFloat"), port("e", [2], "kFloat"), go,
                       user("half", "scalar_mul", [("in", ["h/out"])], "out", attr("has_float_operand", "at_bool: true") + attr("float_operand", "at_double: 0.5")),
                       user("next", "broadcast_add", [("x", ["half/out_0"]), ("y", ["e/out"])], "z"),
                       end("goes_on", "go/out_0" if ends_at is None else "go/z_0"), end("state", "next/z_0"), end("row", "h/out")])
    text = inner.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    loop = (f'op {{ name: "turns" user_conf {{ op_type_name: "loop" input {{ key: "turns" value {{ s: "n/out" }} }} input {{ key: "cond" value {{ s: "begin/out" }} }} '
            f'input {{ key: "in" value {{ s: "x/out" s: "z/out" }} }} output {{ key: "out" value {{ s: "turns/out_0" s: "turns/out_1" }} }} '
            + attr("graph", f'at_string: "{text}"') + attr("states", "at_int64: 1") + attr("sequences", "at_int64: 1") +
            attr("row_dtypes", "at_list_data_type { val: kFloat }") + attr("row_shapes", "at_list_shape { val { dim: 6 dim: 2 } }") +
            attr("partial", f"at_bool: {str(partial).lower()}") + attr("reverse", f"at_bool: {str(reverse).lower()}") + " } }")
    return "\n".join([port("x", [2], "kFloat"), port("z", [6, 2], "kFloat"), port("n", [1], "kInt64"), port("begin", [], "kBool"), loop,
                      user("twice", "broadcast_add", [("x", ["turns/out_1"]), ("y", ["turns/out_1"])], "z"),
                      end("y", "turns/out_0"), end("rows", "turns/out_1"), end("twice_rows", "twice/z_0")]) + "\n"


def loop_numbers(reverse, x, z, n, begin, ends_at):
    """The same by hand."""
    rows = np.zeros((6, 2), F32)
    goes_on, done = begin, 0
    while done < n and goes_on:
        number = n - 1 - done if reverse else done
        rows[number], x = x, (x * F32(0.5) + z[number]).astype(F32)
        goes_on, done = ends_at is None or number != ends_at, done + 1
    return {"y": x, "rows": rows, "twice_rows": rows + rows}


class Export(flow.Control):
    def ran_by_opc(self, path, inputs, *flags):
        command = ["run", path, "--quiet", *flags, "--outputs", self.path("out.npz")]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'in{k}.npy', a)}"]
        done = self.opc(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(np.load(self.path("out.npz")))

    def exported(self, path, *flags):
        done = self.opc("compile", path, "--emit", "onnx", "-o", self.path("out.onnx"), *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out.onnx"), "rb") as f:
            data = f.read()
        return [dict(m.fields(b))[4].decode() for n, b in m.fields(next(b for n, b in m.fields(data) if n == 7)) if n == 1]

    def agrees(self, path, cases, *flags, nodes=(), absent=(), run_flags=()):
        made = self.exported(path, *flags)
        for node in nodes:
            self.assertIn(node, made)
        for node in absent:
            self.assertNotIn(node, made)
        ours = [self.ran_by_opc(path, inputs, *run_flags) for inputs in cases]
        for want, inputs in zip(ours, cases):
            back = self.ran_by_opc(self.path("out.onnx"), inputs)
            for name, array in want.items():
                self.assertEqual((array.dtype, array.shape), (back[name].dtype, back[name].shape), name)
                self.assertEqual(array.tobytes(), back[name].tobytes(), name)
        if ort.judges(self):
            for want, got in zip(ours, ort.run(self.folder, [("out.onnx", inputs) for inputs in cases])):
                for name, array in want.items():
                    np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
        return ours

    def test_an_op_in_a_graph_without_a_form(self):
        """lgamma of 1, 2, 3, 4 is 0, 0, log 2, log 6."""
        with open(self.path("loop.pbtxt"), "w", encoding="utf-8") as f:
            f.write(loop_graph(False, True).replace("scalar_mul", "lgamma").replace('input { key: \\"in\\"', 'input { key: \\"x\\"').replace(
                'half/out_0', 'half/y_0').replace('key: \\"out\\" value { s: \\"half', 'key: \\"y\\" value { s: \\"half').replace(
                'attr { key: \\"has_float_operand\\" value { at_bool: true } }attr { key: \\"float_operand\\" value { at_double: 0.5 } }', ""))
        inputs = {"x": np.array([3, 4], F32), "z": np.ones((6, 2), F32), "n": np.array([1]), "begin": np.array(True)}
        self.assertIn("Loop", self.exported(self.path("loop.pbtxt")))
        want, back = (self.ran_by_opc(self.path(graph), inputs) for graph in ("loop.pbtxt", "out.onnx"))
        self.assertEqual({k: v.tobytes() for k, v in want.items()}, {k: v.tobytes() for k, v in back.items()})
        np.testing.assert_allclose(want["y"], np.log([2, 6]) + 1, rtol=1e-6)

    def test_models(self):
        limits = [{"x": np.ones((4, 8), F32), "limit": np.array(v, F32), "begin": np.array(b)} for v, b in ((1e9, True), (1000, True), (0, True), (1e9, False))]
        s = np.array([[1], [-2], [3], [0.5]], F32)
        x, z = np.array([1, 2], F32), np.array([3, 4], F32)
        turns = [{"x": X, "n": np.array(n)} for n in (0, 1, 10, -3)]
        for name, data, node, cases in [
                ("branches", flow.branches(), "If", [{"x": X, "c": np.array(c), "s": s} for c in (True, False)]),
                ("turns", flow.loop(flow.turns(flow.STEP)), "Loop", turns),
                ("counted", counted(), "Loop", limits),
                ("nested", nested(), "If", [{"x": X, "n": np.array(n), "d": np.array([d])} for n, d in ((0, True), (5, True), (5, False))]),
                ("scanned", scanned(), "Loop", [{"x": np.ones(3, F32), "z": np.arange(15000, dtype=F32).reshape(5000, 3) % 17}]),
                ("swapped", swapped(), "Loop", [{"n": np.array(n), "x": x, "z": z} for n in (0, 1, 2, 7)]),
                ("at_most", at_most(), "Loop", [{"x": X, "n": np.array(n)} for n in (0, 3, 8, 100)])]:
            with self.subTest(name):
                ours = self.agrees(self.file(name + ".onnx", data), cases, nodes=[node], absent=["Where"] if name == "branches" else [])
                if name == "at_most":
                    self.assertEqual([o["rows"].shape[0] for o in ours], [0, 3, 8, 8])

    def test_loops_of_graph_files(self):
        """Forwards and backwards, as many turns as rows or fewer, ended by the run or not; expected numbers are counted by hand."""
        rng = np.random.default_rng(3)
        x, z = rng.standard_normal(2).astype(F32), rng.standard_normal((6, 2)).astype(F32)
        for reverse in (False, True):
            for partial in (False, True):
                for ends_at in (None, 2) if partial else (None,):
                    path = self.path("loop.pbtxt")
                    with open(path, "w", encoding="utf-8") as f:
                        f.write(loop_graph(reverse, partial, ends_at))
                    turns = ((6, True), (4, True), (3, True), (0, True), (5, False), (-1, True)) if partial else ((6, True),)
                    cases = [{"x": x, "z": z, "n": np.array([n]), "begin": np.array(begin)} for n, begin in turns]
                    with self.subTest(reverse=reverse, partial=partial, ends_at=ends_at):
                        for got, inputs in zip(self.agrees(path, cases, nodes=["Loop"]), cases):
                            want = loop_numbers(reverse, x, z, int(inputs["n"][0]), bool(inputs["begin"]), ends_at)
                            for name, array in want.items():
                                np.testing.assert_allclose(got[name], array, rtol=1e-6, err_msg=name)

    def test_gradients(self):
        """What opc grad makes of models whose branches and turns the run decides."""
        w = grads.weights(4)
        body = grads.body([m.node("Identity", ["c"], ["go"]), m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Add", ["q", "s"], ["h_out"])],
                          ["go", "h_out"])
        turned = grads.model(grads.loss_of([m.node("Min", ["n", "most"], ["k"]), m.node("Loop", ["k", "", "x"], ["y"], "turns", body=body)], "y"),
                             [m.value("x", (4, 8)), m.value("n", (), I64)], {"a": w["a"], "s": w["s"], "most": np.array(9)})
        for name, data, wrt, cases, node in [
                ("branches", grads.branches(w), ("x", "a", "b", "s"), [{"x": X, "c": np.array(c)} for c in (True, False)], "If"),
                ("turns", turned, ("x", "a", "s"), [{"x": X, "n": np.array(n)} for n in (0, 1, 6)], "Loop")]:
            with self.subTest(name):
                done = self.opc("grad", self.file(name + ".onnx", data), "--loss", "loss", "-o", self.path("g.pbtxt"), "--weights-out", self.path("w.safetensors"),
                                *[f for one in wrt for f in ("--wrt", one)])
                self.assertEqual(done.returncode, 0, done.stderr)
                weights = ["--weights", self.path("w.safetensors"), "--partial-weights"]
                ours = self.agrees(self.path("g.pbtxt"), cases, *weights, nodes=[node], run_flags=weights)
                self.assertTrue(all(f"{one}.grad" in ours[0] for one in wrt))
                self.assertGreater(np.ptp(ours[-1]["a.grad"]) if name == "turns" else np.ptp(ours[0]["a.grad"]), 0.1)


class Refused(flow.Control):
    def test_an_op_in_a_graph_of_a_later_operator_set(self):
        text = loop_graph(False, True, 3).replace('key: \\"y\\" value { s: \\"last/out_0\\"', 'key: \\"y\\" value { s: \\"bits/z_0\\"')
        bits = ('op { name: \\"bits\\" user_conf { op_type_name: \\"broadcast_bitwise_and\\" input { key: \\"x\\" value { s: \\"last/out_0\\" } } '
                'input { key: \\"y\\" value { s: \\"last/out_0\\" } } output { key: \\"z\\" value { s: \\"bits/z_0\\" } } } }\\n')
        with open(self.path("loop.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text.replace('op { name: \\"half\\"', bits + 'op { name: \\"half\\"'))
        done = self.opc("compile", self.path("loop.pbtxt"), "--emit", "onnx", "--opset", "17", "-o", self.path("out.onnx"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for text in ("OPC0423", "1 op cannot be written", "BitwiseAnd is of operator set 18", "the first is turns: bits", "loop.pbtxt:"):
            self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.path("out.onnx")))

    def test_a_graph_that_is_none(self):
        with open(self.path("loop.pbtxt"), "w", encoding="utf-8") as f:
            f.write(loop_graph(False, True).replace("broadcast_add", "broadcast_plus", 1))
        done = self.opc("compile", self.path("loop.pbtxt"), "--emit", "onnx", "-o", self.path("out.onnx"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for text in ("op turns (loop): in its graph:", "broadcast_plus"):
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
