"""Kernels with isolation="process": values, death, time limits."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import opc

from style_programs import OPC, StyleTest, environment


@opc.op("apart::scale", like="x", isolation="process")
def scale(x, *, factor: float = 2.0):
    return x * np.float32(factor)


@opc.op("apart::pid", shape={"y": (1,)}, dtype={"y": "int64"}, isolation="process", side_effect=True)
def pid(x):
    return np.array([os.getpid()])


@opc.op("apart::dies", like="x", isolation="process")
def dies(x):
    if x[0] < 0:
        os.abort()
    return x


@opc.op("apart::slow", like="x", isolation="process", timeout_s=5.0)
def slow(x):
    time.sleep(float(x[0]))
    return x


@opc.op("apart::fails", like="x", isolation="process")
def fails(x):
    raise ValueError("over there")


kept = []


@opc.op("apart::keeps", like="x", isolation="process")
def keeps(x, *, view: bool = False):
    kept.append(x[1:] if view else x)
    return x.copy()


@opc.op("apart::two", like={"low": "x", "high": "x"}, outputs=("low", "high"), isolation="process")
def two(x, *, how: str):
    return {"none": None, "one": (x,), "list": (x, [1.0]), "shape": (x, x[:1]), "type": (x, x.astype("d")), "dict": {"high": x + 1, "low": x}, "more": {"low": x, "high": x, "other": x},
            "names": {"high": x, "other": x}, "masked": (x, np.ma.masked_array(x))}[how]  # fmt: skip


@opc.op("apart::one", like="x", isolation="process")
def one(x):
    return None


@opc.op("apart::ruled", like="x", isolation="process")
def ruled(x, z):
    return x * z


@ruled.grad(needs=["x"])
def _(dy, *, x):
    return {"x": dy * x}


@opc.op("apart::counts", outputs=("y", "before"), like={"y": "x", "before": "seen"}, aux=["seen", "sums"], variadic={"sums": 1}, isolation="process")
def counts(x, seen, sums):
    before = seen.copy()
    seen += 1
    if x[0] < 0:
        raise ValueError("too small")
    for i, total in enumerate(sums):
        total += (i + 1) * x
    return (x * seen).astype("f"), before


@opc.op("apart::writes", like="x", isolation="process")
def writes(x):
    x[0] = 1
    return x


def program_of(op, **attrs):
    g = opc.Graph()
    g.output("y", op(g.input("x", (3,)), **attrs))
    return g.compile()


UNGUARDED = """
import numpy as np, opc
@opc.op("t::same", like="x", isolation="process")
def same(x):
    return x
g = opc.Graph()
g.output("y", same(g.input("x", (3,))))
g.compile().run(x=np.ones(3, "f"))
"""


LATER = """
import os, sys, numpy as np, opc
@opc.op("later::pid", shape={"y": (1,)}, dtype={"y": "int64"}, side_effect=True%s)
def pid(x):
    if x[0] > 0:
        while True: pass
    return np.array([os.getpid() == int(os.environ["RUNNER"])], np.int64)
if __name__ == "__main__":
    g = opc.Graph()
    g.output("y", pid(g.input("x", (3,))))
    g.save("g.pbtxt")
"""


class OfGraphsInFiles(StyleTest):
    """The process and its time limit are those of the source as it is now: a graph that was saved before runs so, too."""

    def run_with(self, fill):
        # A shell that becomes the command: the command's process has the number that it had.
        command = f"RUNNER=$$ exec {OPC} --config none run g.pbtxt --op-path {self.folder} --fill {fill} --outputs out"
        return subprocess.run(["sh", "-c", command], cwd=self.folder, env={**os.environ, **environment()}, capture_output=True, text=True, timeout=100)

    def test_what_the_source_says_now_counts(self):
        for before, after in (("", ', isolation="process", timeout_s=3.0'), (', isolation="process"', "")):
            with self.subTest(before=before, after=after):
                done = self.python(self.write("later.py", LATER % before))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.write("later.py", LATER % after)
                done = self.run_with("zeros")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(np.load(self.path("out/y.npy")).tolist(), [int(not after)])
                if after:
                    done = self.run_with("ones")
                    self.assertIn("OPC0626", done.stderr)
                    self.assertIn("has not answered within 3 s", done.stderr)


class Isolated(unittest.TestCase):
    def test_a_program_without_a_guard(self):
        """Its process would run the program, which would start another process, and so on."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as f:
                f.write(UNGUARDED)
            package = os.path.dirname(os.path.dirname(os.path.abspath(opc.__file__)))
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": package})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("OPC0626", done.stderr)
        self.assertIn('stands behind: if __name__ == "__main__":', done.stderr)

    def test_values(self):
        x = np.arange(3, dtype="f")
        program = program_of(scale, factor=3.0)
        for k in range(3):
            np.testing.assert_array_equal(program.run(x=x + k)["y"], (x + k) * 3)

    def test_where_standard_error_is_no_file(self):
        with contextlib.redirect_stderr(io.StringIO()):
            np.testing.assert_array_equal(program_of(scale).run(x=np.ones(3, "f"))["y"], [2, 2, 2])

    def test_variables_that_a_kernel_writes(self):
        """aux= over there, with one variable, several, and one of a type that numpy has not."""
        for dtype in ("f32", "bf16", "i64"):
            g = opc.Graph()
            x, seen = g.input("x", (3,)), g.variable("seen", (1,), dtype, init=0)
            sums = [g.variable(n, (3,), init=0.0) for n in ("a", "b")]
            made = counts(x, seen, sums)
            g.output("y", made.y), g.output("before", opc.ops.cast(made.before, dtype="f32"))
            program = g.compile()
            for step in range(1, 4):
                got = program.run(x=np.arange(3, dtype="f"))
                self.assertEqual((got["y"].tolist(), got["before"].tolist()), ([0, step, 2 * step], [step - 1]))
            self.assertEqual((program.variables["a"].tolist(), program.variables["b"].tolist()), ([0, 3, 6], [0, 6, 12]))
            with self.assertRaises(opc.ExecutionError):
                program.run(x=np.full(3, -1, "f"))
            self.assertEqual(program.run(x=np.zeros(3, "f"))["before"].tolist(), [3])  # the call that failed has written nothing

    def test_other_inputs_are_read_only(self):
        with self.assertRaises(opc.ExecutionError) as caught:
            program_of(writes).run(x=np.zeros(3, "f"))
        self.assertEqual(caught.exception.code, "OPC0622")
        self.assertIn("help: inputs are read-only", str(caught.exception))

    def test_one_other_process(self):
        program = program_of(pid)
        pids = {int(program.run(x=np.zeros(3, "f"))["y"][0]) for _ in range(3)}
        self.assertEqual(len(pids), 1)
        self.assertNotIn(os.getpid(), pids)

    def test_a_process_that_dies_is_an_error_and_the_next_call_has_another(self):
        program = program_of(dies)
        x = np.array([-1, 0, 1], "f")
        with self.assertRaises(opc.ExecutionError) as caught:
            program.run(x=x)
        self.assertEqual(caught.exception.code, "OPC0626")
        self.assertIn("SIGABRT", str(caught.exception))
        np.testing.assert_array_equal(program.run(x=x + 1)["y"], x + 1)

    def test_a_call_that_takes_too_long_is_given_up(self):
        program = program_of(slow)
        with self.assertRaises(opc.ExecutionError) as caught:
            program.run(x=np.full(3, 30, "f"))
        self.assertEqual(caught.exception.code, "OPC0626")
        self.assertIn("within 5 s", str(caught.exception))
        np.testing.assert_array_equal(program.run(x=np.zeros(3, "f"))["y"], np.zeros(3))

    def test_an_exception_comes_back_with_its_line(self):
        with self.assertRaises(opc.ExecutionError) as caught:
            program_of(fails).run(x=np.zeros(3, "f"))
        self.assertEqual(caught.exception.code, "OPC0622")
        for part in ("ValueError: over there", "test_isolated_ops.py", "apart::fails"):
            self.assertIn(part, str(caught.exception))

    def test_an_input_that_is_kept(self):
        for view in (False, True):
            program = program_of(keeps, view=view)
            with self.assertRaises(opc.ExecutionError) as caught:
                program.run(x=np.zeros(3, "f"))
            self.assertEqual(caught.exception.code, "OPC0624")
            self.assertIn("has kept its input 'x' or a view of it", str(caught.exception))
            self.assertIn("help: keep a copy: x.copy()", str(caught.exception))

    def test_what_is_kept_is_found_in_every_call_and_nothing_else_is(self):
        for op in (scale, dies):
            program = program_of(op)
            for _ in range(3):
                program.run(x=np.ones(3, "f"))

    def test_results_that_do_not_fit(self):
        def both(how):
            g = opc.Graph()
            low, high = two(g.input("x", (3,)), how=how)
            g.output("low", low), g.output("high", high)
            return g.compile().run(x=np.ones(3, "f"))

        for how, parts in (
            ("none", ("the kernel has returned 1 array, expected 2", "in their order: low, high")),
            ("one", ("the kernel has returned 1 array, expected 2", "in their order: low, high")),
            ("list", ("output 'high' is a list, expected a numpy array of shape (3,)", "np.asarray(value, dtype)")),
            ("shape", ("output 'high' has the shape (1,), expected (3,)", "the op's shape rule and its kernel must agree")),
            ("type", ("output 'high' is float64, expected float32", "return .astype(np.float32)")),
            ("masked", ("output 'high' is a masked array, and a tensor has no mask", "return .filled(...), or .data")),
            ("names", ("a dict without 'low'", "return each output under its name")),
            ("more", ("the kernel has returned a dict with 'other', which is no output", "those of the outputs: low, high")),
        ):
            with self.subTest(how=how), self.assertRaises(opc.ExecutionError) as caught:
                both(how)
            self.assertEqual(caught.exception.code, "OPC0623")
            for part in parts:
                self.assertIn(part, str(caught.exception))
        self.assertEqual({n: v.tolist() for n, v in both("dict").items()}, {"low": [1, 1, 1], "high": [2, 2, 2]})
        with self.assertRaises(opc.ExecutionError) as caught:
            program_of(one).run(x=np.ones(3, "f"))
        self.assertIn("output 'y' is a NoneType", str(caught.exception))
        self.assertIn("help: the kernel must return its outputs", str(caught.exception))

    def test_a_gradient_by_names(self):
        g = opc.Graph()
        g.output("y", ruled(g.input("x", (3,)), g.input("z", (3,))))
        got = g.grad(["y"], ["x", "z"]).compile().run(x=np.full(3, 2, "f"), z=np.full(3, 5, "f"))
        self.assertEqual([got["x.grad"].tolist(), got["z.grad"].tolist()], [[2, 2, 2], [0, 0, 0]])


if __name__ == "__main__":
    unittest.main()
