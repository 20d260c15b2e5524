# If, Loop and Scan that only a run decides: ops with graphs of their own, from ONNX models through plans. Expected numbers are
# numpy's.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import unittest

import numpy as np

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli")]
import messages as m  # noqa: E402
from plan_bytes import Message, Plan  # noqa: E402

import importlib.util  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32, OPC = np.float32, onnx_import.OPC
BOOL, I64 = 9, 7
TASK, GRAPH, OP_TYPE = 6, 18, 2  # of plan.proto

RNG = np.random.default_rng(5)
A, B = (RNG.standard_normal((8, 8)).astype(F32) / 4 for _ in range(2))
X = RNG.standard_normal((4, 8)).astype(F32)


def branches():
    """y = x @ A + s where c, else relu(x @ B) * s."""
    yes = m.graph([m.node("MatMul", ["x", "a"], ["p"]), m.node("Add", ["p", "s"], ["t"])], [], [m.value("t")])
    no = m.graph([m.node("MatMul", ["x", "b"], ["p"]), m.node("Relu", ["p"], ["q"]), m.node("Mul", ["q", "s"], ["t"], "last")], [], [m.value("t")])
    return m.model(m.graph([m.node("If", ["c"], ["t"], "choice", then_branch=yes, else_branch=no), m.node("Neg", ["t"], ["y"])],
                           [m.value("x", (4, 8)), m.value("c", (), BOOL), m.value("s", (4, 1))], [m.value("y")],
                           [m.tensor("a", A), m.tensor("b", B)]))


def turns(nodes, outputs=("go", "h_out"), extra=()):
    """The body of a loop with the state h (4, 8)."""
    return m.graph(nodes, [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (4, 8))],
                   [m.value(outputs[0], (), BOOL)] + [m.value(o) for o in outputs[1:]] + list(extra))


def loop(body, count=True, outputs=("y",), initializers=(), inputs=(), state=("x",)):
    return m.model(m.graph([m.node("Loop", ["n" if count else "", "", *state], list(outputs), "turns", body=body)],
                           [m.value("x", (4, 8))] + ([m.value("n", (), I64)] if count else []) + list(inputs),
                           [m.value(o) for o in outputs], [m.tensor("a", A), *initializers]))


STEP = [m.node("Identity", ["c"], ["go"]), m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["h_out"])]


def stepped(x, count):
    for _ in range(count):
        x = np.tanh(x @ A)
    return x


class Control(onnx_import.Case):
    """The methods of onnx/import.py's cases."""

    def compiled(self, data, *flags):
        path = self.file("model.onnx", data)
        done = self.opc("compile", path, "-o", self.path("m.plan"), *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("m.plan"), "rb") as f:
            return f.read()

    def ran(self, plan, inputs, outputs=("y",), program=(OPC, "run")):
        command = [*program, self.file("r.plan", plan), "--print", "none"]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'p{k}.npy', a)}"]
        done = subprocess.run([*command, "--outputs", self.path("q.npz")], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = np.load(self.path("q.npz"))
        return [made[name] for name in outputs]


class Branches(Control):
    def test_the_branch_that_a_run_takes(self):
        s = np.array([[1], [-2], [3], [0.5]], F32)
        plan = self.compiled(branches())
        self.assertEqual(plan[8], 5, "the version of plans with graphs of tasks")
        want = {True: -(X @ A + s), False: -(np.maximum(X @ B, 0) * s)}
        for c in (True, False):
            inputs = {"x": X, "c": np.array(c), "s": s}
            for program in ((OPC, "run"), (OPC + "-runtime",)):
                np.testing.assert_allclose(self.ran(plan, inputs, program=program)[0], want[c], rtol=1e-5, atol=1e-6)
            got = self.runs(branches(), inputs)[0]
            np.testing.assert_allclose(got, want[c], rtol=1e-5, atol=1e-6)
            # Where all is written out both branches are computed: the same numbers.
            self.assertEqual(self.opc("compile", self.path("model.onnx"), "--emit", "onnx", "-o", self.path("out.onnx")).returncode, 0)
            np.testing.assert_allclose(self.ran(self.written(), inputs)[0], want[c], rtol=1e-5, atol=1e-6)
        self.assertEqual(self.compiled(branches()), plan, "equal plans are equal bytes")

    def written(self):
        done = self.opc("compile", self.path("out.onnx"), "-o", self.path("w.plan"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("w.plan"), "rb") as f:
            return f.read()

    def test_only_the_taken_branch_is_computed(self):
        """An index of the other branch that is out of range is nobody's error."""
        yes = m.graph([m.node("Gather", ["x", "k"], ["t"], axis=0)], [], [m.value("t")])
        no = m.graph([m.node("Neg", ["z"], ["t"])], [], [m.value("t")])
        data = m.model(m.graph([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)],
                               [m.value("x", (4, 8)), m.value("z", (1, 8)), m.value("k", (1,), I64), m.value("c", (), BOOL)], [m.value("y")]))
        plan, z = self.compiled(data), np.ones((1, 8), F32)
        inputs = {"x": X, "z": z, "k": np.array([9]), "c": np.array(False)}
        self.assertTrue((self.ran(plan, inputs)[0] == -z).all())
        # Whoever looks on changes nothing.
        for option in (["--trap", "nan"], ["--capture", "*=" + self.path("seen")], ["--capture-stats", self.path("s.jsonl")], ["--observe", "sync"]):
            self.assertTrue((self.runs(data, inputs, *option)[0] == -z).all(), option)
        inputs.update(k=np.array([2]), c=np.array(True))
        self.assertTrue((self.ran(plan, inputs)[0] == X[2:3]).all())
        command = ["run", self.path("r.plan")]
        for name, a in dict(inputs, k=np.array([9])).items():
            command += ["--input", f"{name}={self.array(name + '.npy', a)}"]
        done = self.opc(*command)
        self.assertEqual(done.returncode, 5, done.stderr)
        for text in ("gather", 'model.onnx: node 0 "choice"', ": node 0"):
            self.assertIn(text, done.stderr)

    def test_branches_in_branches(self):
        inner = m.graph([m.node("Exp", ["x"], ["u"])], [], [m.value("u")])
        other = m.graph([m.node("Abs", ["x"], ["u"])], [], [m.value("u")])
        yes = m.graph([m.node("If", ["d"], ["v"], then_branch=inner, else_branch=other), m.node("Neg", ["v"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Sin", ["x"], ["t"])], [], [m.value("t")])
        data = m.model(m.graph([m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)],
                               [m.value("x", (4, 8)), m.value("c", (1,), BOOL), m.value("d", (), BOOL)], [m.value("y")]))
        plan = self.compiled(data)
        for c in (True, False):
            for d in (True, False):
                want = -(np.exp(X) if d else np.abs(X)) if c else np.sin(X)
                got = self.ran(plan, {"x": X, "c": np.array([c]), "d": np.array(d)})[0]
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_where_graphs_of_ops_cannot_run(self):
        path = self.file("model.onnx", branches())
        s = np.ones((4, 1), F32)
        want = -(X @ A + s)
        done = self.opc("run", path, "--ranks", "2", "--input", "x=" + self.array("x.npy", X), "--input", "c=1", "--input", "s=1", "--expect",
                        "y=" + self.array("y.npy", want), "--rtol", "1e-4", "--atol", "1e-5")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.opc("grad", path, "--loss", "y", "--wrt", "a", "--wrt", "b", "-o", self.path("g.pbtxt"))
        self.assertEqual(done.returncode, 0, done.stderr)
        # The import writes both branches out for a range, too.
        done = self.opc("compile", path, "--shape", "x=n:1..4,8", "--shape", "s=n,1", "-o", self.path("m.plan"))
        self.assertEqual(done.returncode, 0, done.stderr)


class Loops(Control):
    def test_as_many_turns_as_the_run_says(self):
        plan = self.compiled(loop(turns(STEP)))
        for count in (0, 1, 10, 300):
            got = self.ran(plan, {"x": X, "n": np.array(count)})[0]
            np.testing.assert_allclose(got, stepped(X, count), rtol=1e-4, atol=1e-6)
        self.assertTrue((self.ran(plan, {"x": X, "n": np.array(-3)})[0] == X).all())
        got = self.ran(plan, {"x": X, "n": np.array(10)}, program=(OPC + "-runtime",))[0]
        np.testing.assert_allclose(got, stepped(X, 10), rtol=1e-4, atol=1e-6)

    def test_a_condition_of_the_body(self):
        """Doubles until the largest is above a limit; the turn itself is done."""
        body = turns([m.node("Mul", ["h", "two"], ["h_out"]), m.node("ReduceMax", ["h_out"], ["top"], keepdims=0), m.node("Less", ["top", "limit"], ["go"])])
        limit = [m.value("limit", ())]
        for data, inputs in ((loop(body, False, initializers=[m.tensor("two", np.array(2, F32))], inputs=limit), {}),
                             (loop(body, True, initializers=[m.tensor("two", np.array(2, F32))], inputs=limit), {"n": np.array(3)})):
            plan = self.compiled(data)
            for top in (0.1, 5.0, 900.0):
                want, done = X, 0
                while True:
                    want, done = want * 2, done + 1
                    if want.max() >= top or (inputs and done == 3):
                        break
                got = self.ran(plan, {"x": X, "limit": np.array(top, F32), **inputs})[0]
                self.assertTrue((got == want).all(), top)

    def test_ten_turns_with_an_exit(self):
        """A known number of turns, a state, and an exit that the run finds."""
        body = turns([m.node("Add", ["h", "h"], ["h_out"]), m.node("ReduceSum", ["h_out"], ["sum"], keepdims=0), m.node("Less", ["sum", "limit"], ["go"])])
        data = loop(body, True, initializers=[m.tensor("n", np.array(10))], inputs=[m.value("limit", ())])
        x = np.ones((4, 8), F32)
        plan = self.compiled(data)
        for limit, count in ((1e9, 10), (1000, 5), (0, 1)):
            self.assertTrue((self.ran(plan, {"x": x, "limit": np.array(limit, F32)})[0] == x * 2**count).all(), limit)

    def test_states_that_change_places(self):
        body = m.graph([m.node("Identity", ["c"], ["go"]), m.node("Identity", ["b"], ["a_out"]), m.node("Identity", ["h"], ["b_out"]), m.node("Add", ["k", "i"], ["k_out"])],
                       [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (2,)), m.value("b", (2,)), m.value("k", (), I64)],
                       [m.value("go", (), BOOL), m.value("a_out"), m.value("b_out"), m.value("k_out", (), I64)])
        data = m.model(m.graph([m.node("Loop", ["n", "", "x", "z", "zero"], ["y", "w", "k"], body=body)],
                               [m.value("n", (), I64), m.value("x", (2,)), m.value("z", (2,))], [m.value("y"), m.value("w"), m.value("k", None, I64)],
                               [m.tensor("zero", np.array(0))]))
        plan, x, z = self.compiled(data), np.array([1, 2], F32), np.array([3, 4], F32)
        for n in (0, 1, 2, 7):
            y, w, k = self.ran(plan, {"n": np.array(n), "x": x, "z": z}, ("y", "w", "k"))
            self.assertTrue((y == (z if n % 2 else x)).all() and (w == (x if n % 2 else z)).all(), n)
            self.assertEqual(k, n * (n - 1) // 2)

    def test_a_hundred_thousand_turns(self):
        """Not written out: the plan is small, and rows are as many as turns."""
        body = m.graph([m.node("Identity", ["c"], ["go"]), m.node("Add", ["h", "one"], ["h_out"]), m.node("Mul", ["h", "h"], ["row"])],
                       [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (2,), 11)], [m.value("go", (), BOOL), m.value("h_out", None, 11), m.value("row", None, 11)])
        count = 100000
        data = m.model(m.graph([m.node("Loop", ["n", "", "x"], ["y", "rows"], body=body)], [m.value("x", (2,), 11)],
                               [m.value("y", None, 11), m.value("rows", None, 11)],
                               [m.tensor("n", np.array(count)), m.tensor("one", np.ones(2))]))
        plan = self.compiled(data)
        self.assertLess(len(plan), 10000)
        x = np.array([0.5, -3])
        y, rows = self.ran(plan, {"x": x}, ("y", "rows"))
        want = x + np.arange(count)[:, None]
        self.assertTrue((rows == want * want).all())
        self.assertTrue((y == x + count).all())

    def test_a_scan_of_five_thousand(self):
        """Along another axis, backwards, with results along the last axis."""
        body = m.graph([m.node("Add", ["h", "e"], ["s"]), m.node("Identity", ["s"], ["row"])], [m.value("h", (3,), 11), m.value("e", (3,), 11)],
                       [m.value("s", None, 11), m.value("row", None, 11)])
        data = m.model(m.graph([m.node("Scan", ["x", "z"], ["y", "rows"], num_scan_inputs=1, body=body, scan_input_axes=[1], scan_input_directions=[1],
                                       scan_output_axes=[-1])],
                               [m.value("x", (3,), 11), m.value("z", (3, 5000), 11)], [m.value("y", None, 11), m.value("rows", None, 11)]))
        z = np.arange(15000, dtype=np.float64).reshape(3, 5000) % 17
        plan = self.compiled(data)
        y, rows = self.ran(plan, {"x": np.ones(3), "z": z}, ("y", "rows"))
        want = 1 + np.cumsum(z[:, ::-1], axis=1)
        self.assertTrue((rows == want).all())
        self.assertTrue((y == want[:, -1]).all())

    def test_a_branch_in_a_loop(self):
        yes = m.graph([m.node("MatMul", ["h", "a"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Sub", ["h", "x"], ["t"])], [], [m.value("t")])
        body = turns([m.node("Identity", ["c"], ["go"]), m.node("Mod", ["i", "two"], ["r"]), m.node("Equal", ["r", "zero"], ["even"]),
                      m.node("If", ["even"], ["h_out"], then_branch=yes, else_branch=no)])
        data = loop(body, initializers=[m.tensor("two", np.array(2)), m.tensor("zero", np.array(0))])
        plan = self.compiled(data)
        for n in (1, 2, 5):
            want = X
            for i in range(n):
                want = want - X if i % 2 else want @ A
            np.testing.assert_allclose(self.ran(plan, {"x": X, "n": np.array(n)})[0], want, rtol=1e-4, atol=1e-5)

    def test_an_error_names_the_node_and_the_turn(self):
        body = turns([m.node("Identity", ["c"], ["go"]), m.node("Gather", ["table", "i"], ["row"], "look_up"), m.node("Add", ["h", "row"], ["h_out"])])
        data = loop(body, initializers=[m.tensor("table", np.ones((3, 8), F32))])
        plan = self.compiled(data)
        np.testing.assert_allclose(self.ran(plan, {"x": X, "n": np.array(3)})[0], X + 3)
        done = self.opc("run", self.path("r.plan"), "--input", "x=1", "--input", "n=4")
        self.assertEqual(done.returncode, 5, done.stderr)
        for text in ('model.onnx: node 0 "turns": node 1 "look_up"', "in turn 3"):
            self.assertIn(text, done.stderr)

    def test_rows_that_the_run_counts(self):
        """As many rows as turns were made; the condition is the run's, the largest number of turns is known."""
        body = turns([m.node("Add", ["h", "h"], ["h_out"]), m.node("ReduceSum", ["h_out"], ["sum"], keepdims=0), m.node("Less", ["sum", "limit"], ["go"]),
                      m.node("ReduceMax", ["h_out"], ["row"], axes=[1], keepdims=0)], extra=[m.value("row")])
        data = m.model(m.graph([m.node("Loop", ["n", "begin", "x"], ["y", "rows"], "turns", body=body), m.node("Mul", ["rows", "rows"], ["squares"])],
                               [m.value("x", (4, 8)), m.value("limit", ()), m.value("begin", (), BOOL)],
                               [m.value("y"), m.value("rows"), m.value("squares")], [m.tensor("n", np.array(10))]))
        x = np.ones((4, 8), F32)
        plan = self.compiled(data)
        for limit, begin, count in ((1e9, 1, 10), (1000, 1, 5), (0, 1, 1), (1e9, 0, 0), (1e9, 1, 10)):
            for program in ((OPC, "run"), (OPC + "-runtime",)):
                y, rows, counted, squares = self.ran(plan, {"x": x, "limit": np.array(limit, F32), "begin": np.array(begin, bool)},
                                                     ("y", "rows", "rows.count", "squares"), program)
                want = np.broadcast_to(2.0 ** np.arange(1, count + 1)[:, None], (count, 4))
                self.assertEqual((rows.shape, counted.tolist()), (want.shape, [count]))
                self.assertTrue((rows == want).all() and (squares == want * want).all() and (y == 2.0**count).all(), limit)

    def test_rows_of_no_turn(self):
        """Their other sizes are those of a turn that is not made."""
        body = turns([m.node("Identity", ["c"], ["go"]), m.node("MatMul", ["h", "a"], ["h_out"]), m.node("ReduceMax", ["h_out"], ["row"], axes=[1], keepdims=0),
                      m.node("Cast", ["i"], ["at"], to=6)], extra=[m.value("row"), m.value("at", None, 6)])
        outputs = ("y", "rows", "places")
        for count, begin in ((0, True), (-2, True), (5, False)):
            data = m.model(m.graph([m.node("Loop", ["n", "begin", "x"], list(outputs), body=body)], [m.value("x", (4, 8))],
                                   [m.value("y"), m.value("rows"), m.value("places", None, 6)],
                                   [m.tensor("a", A), m.tensor("n", np.array(count)), m.tensor("begin", np.array(begin))]))
            y, rows, places = self.ran(self.compiled(data), {"x": X}, outputs)
            self.assertEqual((rows.shape, rows.dtype, places.shape, places.dtype), ((0, 4), F32, (0,), np.int32))
            self.assertTrue((y == X).all())
        body = m.graph([m.node("Add", ["h", "e"], ["s"]), m.node("Identity", ["s"], ["row"])], [m.value("h", (3,)), m.value("e", (3,))],
                       [m.value("s"), m.value("row")])
        data = m.model(m.graph([m.node("Scan", ["x", "z"], ["y", "rows"], num_scan_inputs=1, body=body, scan_output_axes=[1])],
                               [m.value("x", (3,)), m.value("z", (0, 3))], [m.value("y"), m.value("rows")]))
        y, rows = self.ran(self.compiled(data), {"x": np.arange(3, dtype=F32), "z": np.zeros((0, 3), F32)}, ("y", "rows"))
        self.assertEqual(rows.shape, (3, 0))
        self.assertTrue((y == np.arange(3)).all())

    def test_conditions(self):
        """One truth value each: node, what is expected and what there is."""
        two = m.graph([m.node("Identity", ["x"], ["t"])], [], [m.value("t")])
        for shape, element, found in (((2,), BOOL, "bool[2]"), ((), I64, "i64[]")):
            data = m.model(m.graph([m.node("If", ["c"], ["y"], "choice", then_branch=two, else_branch=two)], [m.value("x", (4, 8)), m.value("c", shape, element)],
                                   [m.value("y")]))
            self.refused(data, "OPC0322", f"input 0 ('c') is {found}", 'node 0 "choice"', "must be bool of one element", "ReduceMax")
        data = m.model(m.graph([m.node("Loop", ["n", "c", "x"], ["y"], "turns", body=turns(STEP))],
                               [m.value("x", (4, 8)), m.value("n", (2,), I64), m.value("c", (3,), BOOL)], [m.value("y")], [m.tensor("a", A)]))
        self.refused(data, "OPC0322", "input 0 ('n') is i64[2]", 'node 0 "turns"')
        data = m.model(m.graph([m.node("Loop", ["", "c", "x"], ["y"], "turns", body=turns(STEP))], [m.value("x", (4, 8)), m.value("c", (3,), BOOL)],
                               [m.value("y")], [m.tensor("a", A)]))
        self.refused(data, "OPC0322", "input 1 ('c') is bool[3]", "must be bool of one element")
        rows = turns([m.node("Less", ["h", "h"], ["go"]), m.node("Add", ["h", "h"], ["h_out"])])
        self.refused(loop(rows), "OPC0322", "the condition of its body is bool[4,8]", 'node 0 "turns"', "must be bool of one element")

    def test_branches_that_differ(self):
        """What differs, in which result, and the way out."""
        yes = m.graph([m.node("Identity", ["x"], ["t"]), m.node("Relu", ["x"], ["u"])], [], [m.value("t"), m.value("u")])
        for node, element, found in ((m.node("Concat", ["x", "x"], ["v"], axis=0), 1, "f32[8,8]"), (m.node("Cast", ["x"], ["v"], to=11), 11, "f64[4,8]")):
            no = m.graph([m.node("Identity", ["x"], ["t"]), node], [], [m.value("t"), m.value("v", None, element)])
            data = m.model(m.graph([m.node("If", ["c"], ["y", "z"], "choice", then_branch=yes, else_branch=no)], [m.value("x", (4, 8)), m.value("c", (), BOOL)],
                                   [m.value("y"), m.value("z")]))
            self.refused(data, "OPC0422", f"result 1 ('z') is f32[4,8] of then_branch and {found} of else_branch", 'node 0 "choice"', "--const c=VALUE", exit_code=4)
        one = m.graph([m.node("Identity", ["x"], ["t"])], [], [m.value("t")])
        data = m.model(m.graph([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=one)], [m.value("x", (4, 8)), m.value("c", (), BOOL)], [m.value("y")]))
        self.refused(data, "OPC0422", "then_branch has 2 results and else_branch 1", exit_code=4)

    def test_rooms_that_are_too_large(self):
        body = turns([m.node("ReduceSum", ["h"], ["sum"], keepdims=0), m.node("Less", ["sum", "limit"], ["go"]), m.node("Add", ["h", "h"], ["h_out"]),
                      m.node("Identity", ["h"], ["row"])], extra=[m.value("row")])
        data = loop(body, outputs=("y", "rows"), initializers=[m.tensor("n", np.array((1 << 63) - 1))], inputs=[m.value("limit", ())])
        self.refused(data, "OPC0422", "9223372036854775807 rows of f32[4,8]", "at most 1 GiB", 'node 0 "turns"', exit_code=4)

    def test_what_is_refused(self):
        rows = m.graph(STEP, [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (4, 8))], [m.value("go", (), BOOL), m.value("h_out"), m.value("p")])
        self.refused(loop(rows, outputs=("y", "rows")), "OPC0422", "as many rows as the run makes turns", "--const n=VALUE", exit_code=4)
        grows = turns([m.node("Identity", ["c"], ["go"]), m.node("Concat", ["h", "h"], ["h_out"], axis=0)])
        self.refused(loop(grows), "OPC0422", "before a turn", exit_code=4)
        endless = loop(turns(STEP), initializers=[m.tensor("n", np.array(1 << 40))])
        self.refused(endless, "OPC0422", "4294967296 turns", exit_code=4)
        path = self.file("model.onnx", loop(turns(STEP)))
        for flags in (("--mesh", "2"), ("--device", "sim")):
            done = self.opc("compile", path, "-o", self.path("m.plan"), *flags)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)


class Plans(Control):
    """Plans that nobody has compiled: each refused by one error, none run."""

    def edited(self, data, change):
        """The plan with its first task of graphs changed: change(task, graph)."""
        plan = Plan(data)
        for field in plan.message.all(TASK):
            task = Message(field[2])
            if task.all(GRAPH):
                graph = Message(task.get(GRAPH))
                change(task, graph)
                if task.all(GRAPH):
                    task.set(GRAPH, graph.encode())
                field[2] = task.encode()
                return plan.bytes()
        self.fail("no task has a graph")

    def refused_plan(self, plan, code, exit_code=3, inputs=("--input=x=1", "--input=n=2")):
        done = self.opc("run", self.file("bad.plan", plan), *inputs)
        self.assertEqual(done.returncode, exit_code, done.stderr + done.stdout)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        self.assertIn(code, done.stderr)

    def test_graphs_that_do_not_fit(self):
        plan = self.compiled(loop(turns(STEP)))
        nine = lambda f: [f, 0, 9]  # noqa: E731
        variable = [8, 2, b"\x1a\x05\x0a\x01v\x10\x00"]
        for name, change in {
            "none": lambda t, g: t.fields.remove(t.all(GRAPH)[0]),
            "two": lambda t, g: t.fields.append(list(t.all(GRAPH)[0])),
            "three": lambda t, g: t.fields.extend([list(t.all(GRAPH)[0]), list(t.all(GRAPH)[0])]),
            "ranks": lambda t, g: g.fields.append(nine(11)),
            "micro": lambda t, g: g.fields.append(nine(12)),
            "sizes": lambda t, g: g.fields.append([13, 2, b"\x0a\x01n\x10\x01\x18\x02"]),
            "native": lambda t, g: g.fields.append([14, 2, b""]),
            "variable": lambda t, g: g.fields.append(variable),
            "streams": lambda t, g: g.fields.append([7, 2, b"\x0a\x03cpu"]),
            "part": lambda t, g: g.fields.append([10, 2, b""]),
        }.items():
            with self.subTest(name=name):
                self.refused_plan(self.edited(plan, change), "OPC0826")

    def test_graphs_too_deep(self):
        plan = Plan(self.compiled(loop(turns(STEP))))
        field = next(f for f in plan.message.all(TASK) if Message(f[2]).all(GRAPH))
        graph = Message(field[2]).get(GRAPH)
        for _ in range(9):
            task = Message(field[2])
            task.set(GRAPH, graph)
            inner = Message(graph)
            inner.fields.append([TASK, 2, task.encode()])
            graph = inner.encode()
        task = Message(field[2])
        task.set(GRAPH, graph)
        field[2] = task.encode()
        self.refused_plan(plan.bytes(), "OPC0826")

    def test_interfaces(self):
        """A graph with its inputs in another order, or fewer."""
        plan = self.compiled(loop(turns(STEP)))

        def shuffled(task, graph):
            interface = Message(graph.get(8))
            inputs = interface.all(1)
            inputs[0][2], inputs[1][2] = inputs[1][2], inputs[0][2]
            graph.set(8, interface.encode())

        def fewer(task, graph):
            interface = Message(graph.get(8))
            interface.fields.remove(interface.all(2)[-1])
            graph.set(8, interface.encode())

        self.refused_plan(self.edited(plan, shuffled), "OPC0826")
        self.refused_plan(self.edited(plan, fewer), "OPC0826")

    def test_an_older_version(self):
        plan = Plan(self.compiled(loop(turns(STEP))))
        self.refused_plan(plan.bytes(version=4), "OPC0804")
        self.refused_plan(plan.bytes(version=1000), "OPC0802", 4)

    def test_memory_is_bounded(self):
        def huge(task, graph):
            arena = Message(graph.get(3))
            arena.set(2, 1 << 60)
            graph.set(3, arena.encode())

        self.refused_plan(self.edited(self.compiled(loop(turns(STEP))), huge), "OPC0821", 4)

    def test_every_byte(self):
        """No flipped byte of a small plan ends the process by a signal."""
        plan = Plan(self.compiled(loop(turns(STEP))))
        payload = plan.message.encode()
        rng = np.random.default_rng(0)
        for at in rng.choice(len(payload), 60, replace=False):
            data = bytearray(payload)
            data[at] ^= int(rng.integers(1, 255))
            changed = Plan(bytes(plan.header) + bytes(payload))
            changed.message.encode = lambda data=bytes(data): data
            done = self.opc("run", self.file("bad.plan", changed.bytes()), "--input=x=1", "--input=n=2")
            self.assertIn(done.returncode, (0, 2, 3, 4, 5), (at, done.stderr))


if __name__ == "__main__":
    unittest.main()
