"""Operators in Python that give nothing: what they do shows elsewhere, so they are neither dropped nor merged."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import numpy as np

import opc
from scratch import ScratchTest

seen = []


def keep(x):
    seen.append(float(x.sum()))


def sink_of(annotated=True, **options):
    if not annotated:
        return opc.op("sinks::plain", outputs=(), **options)(lambda x: keep(x))

    @opc.op("sinks::said", **options)
    def said(x) -> None:
        keep(x)

    return said


def run_with(sink, x):
    """The sink twice, beside an output that needs neither."""
    g = opc.Graph()
    tensor = g.input("x", x.shape)
    made = sink(tensor), sink(tensor)
    g.output("y", opc.ops.relu(tensor))
    seen.clear()
    g.compile().run(x=x)
    return made


SOURCE = """
import opc

@opc.op("sinks::printed")
def printed(x) -> None:
    print("saw", float(x.sum()))
"""


class WithoutOutputs(ScratchTest):
    def test_they_run_however_they_are_said(self):
        for annotated in (True, False):
            for options in ({}, {"side_effect": True}, {"shape": {}}, {"sbp": opc.elementwise}, {"like": {}}):
                with self.subTest(annotated=annotated, options=options):
                    made = run_with(sink_of(annotated, **options), np.arange(3, dtype="f"))
                    self.assertEqual((made, seen), (((), ()), [3.0, 3.0]))

    def test_a_rule_of_one_may_refuse_inputs(self):
        sink = sink_of()

        @sink.infer
        def _(x):
            if len(x.shape) != 1:
                raise ValueError("a vector is wanted")

        run_with(sink, np.ones(4, "f"))
        self.assertEqual(seen, [4.0, 4.0])
        with self.assertRaisesRegex(opc.GraphError, "a vector is wanted"):
            run_with(sink, np.ones((2, 2), "f"))

    def test_one_that_writes_a_variable(self):
        @opc.op("sinks::counts", aux=["n"])
        def counts(x, n) -> None:
            n += x.sum()

        g = opc.Graph()
        x, n = g.input("x", (2,)), g.variable("n", (1,), init=0.0)
        counts(x, n)
        g.output("y", opc.ops.relu(x))
        program = g.compile()
        program.run(2, x=np.array([1, 2], "f"))
        self.assertEqual(program.variables["n"].tolist(), [6.0])

    def test_one_that_returns_something(self):
        wrong = opc.op("sinks::returns", outputs=())(lambda x: x)
        with self.assertRaises(opc.ExecutionError) as caught:
            run_with(wrong, np.ones(2, "f"))
        self.assertIn("the kernel has returned 1 array, expected 0", str(caught.exception))

    def test_in_a_file(self):
        """The manifest needs no Python to be read, and the command runs it."""
        path = self.write("sinking.py", SOURCE)
        scope = {"__name__": "sinking", "__file__": path}
        exec(compile(SOURCE, path, "exec"), scope)
        g = opc.Graph()
        x = g.input("x", (3,))
        scope["printed"](x)
        g.output("y", opc.ops.relu(x))
        g.save(self.path("g.pbtxt"))
        self.assertIn("sinks::printed", self.command("show", "g.pbtxt", "--what", "ops"))
        done = self.opc("run", "g.pbtxt", "--op-path", self.folder, "--fill", "ones")
        self.assertEqual((done.returncode, done.stderr.count("saw 3.0")), (0, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
