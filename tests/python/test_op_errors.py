"""What is wrong in an operator's code is said where the user can find it: file and line, no frames of opc, words."""
# SPDX-License-Identifier: Apache-2.0
import re
import unittest

from style_programs import StyleTest

OPS = """
import numpy as np, opc
def helper(s):
    raise ValueError("a bad shape\\nof two lines")
@opc.op("demo::refused")
def refused(x):
    return x
@refused.infer
def rule(x):
    return helper(x)
@opc.op("demo::complex")
def complex_(x):
    return x
@complex_.infer
def _(x):
    return opc.Spec(x.shape, np.complex64)
@opc.op("demo::shaped")
def shaped(x):
    return x
@shaped.infer
def _(x):
    return ANSWER
@opc.op("demo::apart", like="x", isolation="process")
def apart(x):
    return helper(x)
def singular(x):
    return np.linalg.inv(np.zeros((2, 2))) + x
@opc.op("demo::numpys", like="x")
def numpys(x):
    return singular(x)
@opc.op("demo::wide", like="x")
def wide(x):
    return x.astype("f8")
@opc.op("demo::graded", like="x")
def graded(x):
    return x
@graded.grad
def both(dy):
    return dy, dy
@opc.op("demo::wide_apart", like="x", isolation="process")
def wide_apart(x):
    return x.astype("f8")
kept = []
@opc.op("demo::keeps", like="x")
def keeps(x):
    kept.append(x)
    return x + 1
"""
GRAPH = "import ops, numpy as np, opc; g = opc.Graph('g'); x = g.input('x', (1,)); "
MXNET = """
import mxnet as mx
class Op(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], "add it", in_data[0])
@mx.operator.register("wrong")
class Prop(mx.operator.CustomOpProp):
    def infer_shape(self, shapes):
        if len(shapes[0]) == 1:
            raise ValueError("a vector")
        return shapes, shapes, []
    def create_operator(self, ctx, shapes, types):
        return Op()
"""


class Errors(StyleTest):
    def setUp(self):
        super().setUp()
        self.write("ops.py", OPS)

    def test_a_shape_rule_raises(self):
        said = self.failing(GRAPH + "ops.refused(x)")
        self.assertIn(f"ValueError: a bad shape of two lines ({self.path('ops.py')}:4, in helper, called at {self.path('ops.py')}:10, in rule)\n", said)
        self.assertNotIn("\\n", said)

    def test_a_shape_rule_gives_a_type_that_graphs_do_not_have(self):
        said = self.failing(GRAPH + "ops.complex_(x)")
        self.assertIn("error[OPC0923]: demo::complex: the shape rule says that the element type of 'y' is ", said)
        self.assertRegex(said, r"complex64.*, which is none of graphs; there are bf16, bool, f16, f32")

    def test_a_shape_rule_gives_no_specs(self):
        for answer, found in (("x.shape", r"(1,)"), ("[x.shape, x.dtype]", r"[(1,), dtype('float32')]"), ("None", "None"), ("{'y': 1}", "{'y': 1}")):
            self.write("ops.py", OPS.replace("ANSWER", answer))
            said = self.failing(GRAPH + "ops.shaped(x)")
            self.assertIn(f"error[OPC0923]: demo::shaped: the shape rule has returned {found}, expected an opc.Spec for each output: y\n", said)
            self.assertIn("help: return opc.Spec(shape, dtype)", said)

    def test_an_error_of_a_run_has_the_line_of_the_graph(self):
        """Which has the line of the program, as it is when the graph was read from a file."""
        self.program(GRAPH + "g.output('y', ops.apart(x * 2)); g.save('g.pbtxt')")
        for graph in (GRAPH + "g.output('y', ops.apart(x * 2))", "import ops, numpy as np, opc; g = opc.load('g.pbtxt')"):
            said = self.failing(graph, "open('text', 'w').write(g.text())", "g.compile().run(x=np.ones(1, 'f'))")
            line = int(re.search(r"while: running op apart at <g>:(\d+):1\n", said).group(1))
            with open(self.path("text"), encoding="utf-8") as f:
                shown = f.read().split("\n")[line - 1 :]
            self.assertRegex(" ".join(shown[:3]), r'^op \{\s+name: "apart"\s+loc: "program.py:\d+"')

    def test_the_command_says_how_python_gives_a_gradient_rule(self):
        self.program(GRAPH + "g.output('y', ops.apart(x)); g.save('g.pbtxt')")
        done = self.opc("grad", "g.pbtxt", "--loss", "y", "--wrt", "x")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("error[OPC0501]: op type 'demo::apart' has no gradient rule", done.stderr)
        self.assertIn("help: define one with @NAME.grad", done.stderr)
        self.assertNotIn("REGISTER_USER_OP_GRAD", done.stderr)

    def test_a_kernel_of_another_process_shows_its_own_frames(self):
        said = self.failing(GRAPH + "g.output('y', ops.apart(x)); g.compile().run(x=np.ones(1, 'f'))")
        message = said[said.index("error[OPC0622]"):]
        self.assertIn("ops.py:4, in helper", message)
        self.assertIn("in apart\n", message)
        self.assertNotIn("_worker.py", message)

    def test_what_is_wrong_with_results_has_the_line_of_the_kernel(self):
        made, path = "g.output('y', ops.{}(x)); g.compile()", re.escape(self.path("ops.py"))
        for begins, name, graph, says in (
            ('@opc.op("demo::wide"', "wide", made.format("wide"), "output 'y' is float64, expected float32"),
            ('@opc.op("demo::wide_apart"', "wide_apart", made.format("wide_apart"), "output 'y' is float64, expected float32"),
            ('@opc.op("demo::keeps"', "keeps", made.format("keeps"), "has kept its input 'x'"),
            ("@graded.grad", "both", "g.output('l', ops.graded(x).sum()); g.grad('l', ['x']).compile()", "has returned 2 arrays, expected 1"),
        ):
            line = OPS[: OPS.index(begins)].count("\n") + 1
            with self.subTest(name=name):
                self.assertRegex(self.failing(GRAPH + graph + ".run(x=np.ones(1, 'f'))"), rf"error\[OPC062[34]\].*{says}.* \({path}:{line}, in {name}\)\n")

    def test_the_line_is_the_user_s_where_numpy_raises(self):
        said = self.failing(GRAPH + "g.output('y', ops.numpys(x)); g.compile().run(x=np.ones(1, 'f'))")
        line = OPS[: OPS.index("    return np.linalg")].count("\n") + 1
        self.assertIn(f"LinAlgError: Singular matrix ({self.path('ops.py')}:{line}, in singular)\n", said)
        self.assertIn("linalg.py", said)

    def test_a_class_shows_its_own_frames(self):
        for shape, where in (("(1, 2)", "program.py\", line 5, in forward"), ("(2,)", "program.py:10, in infer_shape")):
            said = self.failing(MXNET, f"mx.nd.Custom(mx.nd.ones({shape}), op_type='wrong')")
            self.assertIn(where, said)
            message = said[said.index("error[OPC0622]"):] if "error[OPC0622]" in said else ""
            for own in ("operator.py", "_op.py", "_host.py", "\\n"):
                self.assertNotIn(own, message)

    def test_a_syntax_error_has_its_place(self):
        self.program(GRAPH + "g.output('y', ops.apart(x)); g.save('g.pbtxt')")
        self.write("ops.py", OPS, "def f(:")
        done = self.opc("run", "g.pbtxt", "--op-path", ".", "--fill", "ones")
        self.assertIn(f"SyntaxError: invalid syntax ({self.path('ops.py')}:{OPS.count(chr(10)) + 2})", done.stderr)
        self.assertNotIn("importlib", done.stderr)

    def test_names(self):
        import opc

        for name, part in (("relu", "needs a namespace"), ("d::größe", "letters from A to Z"), ("d::a b", "letters from A to Z"), ("d::1a", "begin with no digit")):
            with self.assertRaisesRegex(ValueError, f"'{name}' cannot name an operator: .*{part}"):
                opc.op(name, like="x")
        with self.assertRaisesRegex(ValueError, "named::f: 'größe' cannot name an input, output or attribute"):
            opc.op("named::f", like="größe")(lambda größe: größe)
        for name in ("with space", "a/b", "ärgé"):
            said = self.failing("import mxnet as mx", f"mx.operator.register('{name}')(type('P', (mx.operator.CustomOpProp,), {{}}))")
            self.assertIn(f"'mxnet::{name}' cannot name an operator", said)
        said = self.failing("from paddle.autograd import PyLayer", "class Ünï(PyLayer):", "    pass")
        self.assertIn("'paddle::Ünï' cannot name an operator", said)
        self.assertIn('program.py", line 2', said)
        done = self.program("import opc, numpy as np, paddle; g = opc.Graph('g')", "def größe(a):", "    return a + 1",
                            "g.output('y', paddle.static.py_func(größe, g.input('x', (1,)), opc.Spec((1,), 'float32')))",
                            "print(g.compile().run(x=np.ones(1, 'f'))['y'].tolist())")  # fmt: skip
        self.assertEqual(done, "[2.0]\n")


if __name__ == "__main__":
    unittest.main()
