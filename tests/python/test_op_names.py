"""Operators that are defined under one name several times: each node keeps its definition, here and in the command."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

from style_programs import StyleTest

NATIVE = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, opc
@opc.op("demo::more", like="x")
def one(x):
    return x + 1
@one.grad(needs=["x"])
def _(dy, *, x):
    return dy
"""
NATIVE_SECOND = """
@opc.op("demo::more", like="x")
def two(x):
    return x + 2
@two.grad(needs=["x"])
def _(dy, *, x):
    return dy * np.float32(3)
"""
PADDLE = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, opc, paddle
from paddle.autograd import PyLayer
"""
LAYERS = """
def make(k):
    class Fn(PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * k
        @staticmethod
        def backward(ctx, dy):
            return dy * k
    return Fn
"""
SAME = """
from paddle.autograd import PyLayer
class Same(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * %d
    @staticmethod
    def backward(ctx, dy):
        return dy * %d
"""
MXNET = """
import warnings; warnings.simplefilter("ignore")
import mxnet as mx, numpy as np, opc
def register(k):
    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * k)
        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * k)
    @mx.operator.register("same")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, types):
            return Op()
"""
RUN = "print(*[v.tolist() for _, v in sorted(g.compile().run(x=np.ones(1, 'f')).items())])"


class Names(StyleTest):
    def test_two_definitions_in_one_graph(self):
        graph = "g = opc.Graph('g'); x = g.input('x', (1,)); g.output('a', one(x))"
        done = self.program(NATIVE, graph, NATIVE_SECOND, "g.output('b', two(x)); g.output('c', opc.ops.function('demo::more')(x))", RUN,
                            "g = g.grad(['a', 'b'], ['x'])", RUN)  # fmt: skip
        self.assertEqual(done, "[2.0] [3.0] [3.0]\n[2.0] [3.0] [3.0] [4.0]\n")

    def test_a_graph_that_is_compiled_after_the_second_definition(self):
        graph = "g = opc.Graph('g'); g.output('a', one(g.input('x', (1,))))"
        self.assertEqual(self.program(NATIVE, graph, NATIVE_SECOND, "h = opc.Graph('h'); h.output('b', two(h.input('x', (1,))))", RUN, "g = h", RUN), "[2.0]\n[3.0]\n")

    def test_the_first_definition_may_come_later(self):
        graph = "g = opc.Graph('g'); x = g.input('x', (1,)); g.output('b', two(x)); g.output('a', one(x))"
        self.assertEqual(self.program(NATIVE, NATIVE_SECOND, graph, RUN), "[2.0] [3.0]\n")

    def saved(self):
        self.write("acts.py", NATIVE, NATIVE_SECOND)
        self.program("import acts, opc; g = opc.Graph('g'); x = g.input('x', (1,)); g.output('a', acts.one(x)); g.output('b', acts.two(x)); g.save('g.pbtxt')")

    def test_two_definitions_of_a_file_in_the_command(self):
        self.saved()
        self.assertEqual([line.split()[-1] for line in self.command("run", "g.pbtxt", "--op-path", ".", "--fill", "ones").splitlines()], ["[2]", "[3]"])

    def test_two_definitions_of_a_file_in_another_process(self):
        """It has used them in the other order, so their numbers are others."""
        self.saved()
        before = "import acts, opc, numpy as np; g = opc.Graph('g'); x = g.input('x', (1,)); g.output('b', acts.two(x)); g.output('a', acts.one(x))"
        self.assertEqual(self.program(before, "g = opc.load('g.pbtxt')", RUN), "[2.0] [3.0]\n")
        self.assertEqual(self.program("import acts, opc, numpy as np; g = opc.load('g.pbtxt')", RUN), "[2.0] [3.0]\n")

    def test_a_name_that_has_a_number_of_its_own(self):
        second = NATIVE_SECOND.replace("demo::more", "demo::more_2").replace("two", "other")
        self.write("acts.py", NATIVE, NATIVE_SECOND, second.replace("x + 2", "x + 9"))
        build = "import acts, opc, numpy as np; g = opc.Graph('g'); x = g.input('x', (1,)); [g.output(f, getattr(acts, f)(x)) for f in ('%s', '%s', '%s')]; "
        self.assertEqual(self.program(build % ("one", "two", "other") + "g.save('g.pbtxt')", RUN), "[2.0] [10.0] [3.0]\n")
        self.assertEqual(self.program(build % ("other", "two", "one"), "g = opc.load('g.pbtxt')", RUN), "[2.0] [10.0] [3.0]\n")

    def test_what_cannot_be_told_apart_is_an_error(self):
        """The same lines have made two classes: a file cannot say which is which."""
        self.write("made.py", PADDLE, LAYERS, "A, B = make(2), make(3)")
        self.program("import made, opc; g = opc.Graph('g'); x = g.input('x', (1,)); g.output('a', made.A.apply(x)); g.output('b', made.B.apply(x)); g.save('g.pbtxt')")
        said = self.failing("import made, opc; opc.load('g.pbtxt')")
        self.assertIn("'paddle::Fn' is make.<locals>.Fn of made.py:", said)
        self.assertIn("2 definitions from there", said)
        done = self.opc("run", "g.pbtxt", "--op-path", ".", "--fill", "ones")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertRegex(done.stderr, r"made.py defines 'paddle::Fn(_2)?' 2 times as make.<locals>.Fn")
        self.assertIn("give each definition a name of its own", done.stderr)

    def test_two_names_of_the_same_lines(self):
        self.write("made.py", "import numpy as np, opc", "made = []", "def by(k):", "    return lambda x: x * np.float32(k)", "for k in (2, 3):",
                   "    f = by(k)", "    f.__qualname__ = 'f'", "    made.append(opc.op('demo::times', like='x')(f))")  # fmt: skip
        build = "import made, opc; g = opc.Graph('g'); x = g.input('x', (1,)); [g.output(f'y{i}', f(x)) for i, f in enumerate(made.made)]; "
        self.program(build + "g.save('g.pbtxt')")
        self.assertIn("one definition for it and 'demo::times", self.failing("import made, opc; opc.load('g.pbtxt')"))

    def test_classes_of_a_factory(self):
        graph = "A, B = make(2), make(3); g = opc.Graph('g'); x = g.input('x', (1,)); g.output('b', B.apply(x)); g.output('a', A.apply(x))"
        self.assertEqual(self.program(PADDLE, LAYERS, graph, RUN, "g = g.grad(['b'], ['x'])", RUN), "[2.0] [3.0]\n[2.0] [3.0] [3.0]\n")

    def test_classes_of_two_files(self):
        for folder, name, k in (("a", "modx", 2), ("b", "mody", 3)):
            os.mkdir(self.path(folder))
            self.write(f"{folder}/{name}.py", SAME % (k, k))
        graph = ("import sys; sys.path += ['a', 'b']", PADDLE, "import modx, mody; g = opc.Graph('g'); x = g.input('x', (1,))",
                 "g.output('a', modx.Same.apply(x)); g.output('b', mody.Same.apply(x)); g.save('g.pbtxt')", RUN)  # fmt: skip
        self.assertEqual(self.program(*graph), "[2.0] [3.0]\n")
        done = self.opc("run", "g.pbtxt", "--op-path", "a", "--op-path", "b", "--fill", "ones")
        self.assertEqual([line.split()[-1] for line in done.stdout.splitlines()], ["[2]", "[3]"], done.stderr)

    def test_functions_of_a_program(self):
        program = """
paddle.enable_static()
x = paddle.static.data('x', [1], 'float32')
block = paddle.static.default_main_program().current_block()
o = [block.create_var(name=f'o{i}', dtype='float32', shape=[1]) for i in range(5)]
paddle.static.py_func(lambda a: a + 1, x, o[0])
paddle.static.py_func(lambda a: a * 10, x, o[1])
for i in range(2, 5):
    def scale(v, k=np.float32(i)):
        return v * k
    paddle.static.py_func(scale, x, o[i])
exe = paddle.static.Executor()
print(*[v.tolist() for v in exe.run(feed={'x': np.array([1], 'f')}, fetch_list=o)])
p, q = (paddle.static.nn.static_pylayer(f, [x]) for f in (lambda a: a * 5, lambda a: a * 7))
print(*[v.tolist() for v in exe.run(feed={'x': np.array([1], 'f')}, fetch_list=[p, q])])
"""
        self.assertEqual(self.program(PADDLE, program), "[2.0] [10.0] [2.0] [3.0] [4.0]\n[5.0] [7.0]\n")

    def test_the_same_function_again_is_the_same_operator(self):
        program = """
from paddle.static import py_func
names = set()
for i in range(5):
    g = opc.Graph('g')
    py_func(lambda a: a + 1, g.input('x', (1,)), opc.Spec((1,), 'float32'))
    names |= set(opc._op._types_in(g.text()))
print(names)
"""
        self.assertEqual(self.program(PADDLE, program), "{'paddle::py_func'}\n")

    def test_registered_twice(self):
        graph = "g = opc.Graph('g'); x = g.input('x', (1,))"
        add = "register(%d); g.output('%s', mx.sym.Custom(x, op_type='same'))"
        self.assertEqual(self.program(MXNET, graph, add % (2, "a"), add % (3, "b"), RUN, "g = g.grad(['a', 'b'], ['x'])", RUN), "[2.0] [3.0]\n[2.0] [3.0] [5.0]\n")

    def test_recorded_before_the_second_registration(self):
        program = """
register(2)
x = mx.nd.array([1]); x.attach_grad()
with mx.autograd.record():
    y = mx.nd.Custom(x, op_type='same')
register(3)
y.backward()
print(y.asscalar(), x.grad.asscalar(), mx.nd.Custom(x, op_type='same').asscalar())
"""
        self.assertEqual(self.program(MXNET, program), "2.0 2.0 3.0\n")

    def test_a_module_that_is_loaded_again(self):
        """The new definition counts, for graphs of files, too."""
        self.write("acts.py", NATIVE)
        self.program("import acts, opc; g = opc.Graph('g'); g.output('a', acts.one(g.input('x', (1,)))); g.save('g.pbtxt')")
        program = """
import importlib, sys; sys.dont_write_bytecode = True
import numpy as np, opc, acts
g = opc.Graph('g'); g.output('a', acts.one(g.input('x', (1,))))
with open('acts.py') as file: source = file.read()
with open('acts.py', 'w') as file: file.write(source.replace('x + 1', 'x + 100'))
importlib.reload(acts)
""" + RUN + "\ng = opc.load('g.pbtxt')\n" + RUN
        self.assertEqual(self.program(program), "[2.0]\n[101.0]\n")


if __name__ == "__main__":
    unittest.main()
