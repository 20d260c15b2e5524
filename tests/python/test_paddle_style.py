"""paddle's style (tools/python/compat/paddle): the document's programs, and what they leave out."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys
import unittest
import warnings

import numpy as np

import opc
from paddle_listings import (
    ALL_STOPPED, CUS_TANH, CUS_TANH_USE, FUNCTIONS, GRAD_WITHOUT_X, NO_TENSOR, ONE_STOPPED, PY_FUNC, PY_FUNC_SKIPPED, TANH_WITH_FUNCTIONS,
    TENSOR_AND_SHAPE, VARIABLES,
)
from style_programs import StyleTest, path_of

sys.path.append(path_of("--compat-path"))
import paddle  # noqa: E402
from paddle.autograd import PyLayer  # noqa: E402

IMPORTS = "import paddle\nfrom paddle.autograd import PyLayer\n"  # of the page's first program
BACK = "z.mean().backward()\n"
RUN = """
exe = paddle.static.Executor(paddle.static.cpu_places()[0])
paddle.static.default_main_program()
value = np.random.RandomState(0).randn(2, 28, 28).astype('float32')
found, = paddle.static.gradients(out_var, in_var)
y, dx = exe.run(feed={'input': value}, fetch_list=[out_var, found])
assert np.allclose(y, np.tanh(value), rtol=1e-6), y
assert np.allclose(dx, 1 - np.tanh(value) ** 2, atol=1e-6), dx
print('same')
"""


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+\.\d*(?:e-?\d+)?", text)]


class Document(StyleTest):
    def test_cus_tanh(self):
        check = "assert np.allclose(data.grad.numpy(), (1 - np.tanh(data.numpy()) ** 2) / 6, rtol=1e-5)\n"
        printed = self.program(CUS_TANH, CUS_TANH_USE, "import numpy as np\n" + check)
        self.assertTrue(printed.startswith("Tensor(shape=[2, 3], dtype=float32, place=Place(cpu), stop_gradient="), printed)
        self.assertEqual(len(numbers(printed)), 6)
        self.assertEqual(self.trace(CUS_TANH, CUS_TANH_USE), ["paddle::cus_tanh", "paddle::cus_tanh_grad"])

    def test_functions_as_arguments(self):
        check = "assert z.dtype == 'float64' and np.allclose(z.numpy(), np.tanh(input2.numpy()), rtol=1e-12)\n"
        check += BACK + "assert np.allclose(input1.grad.numpy(), (1 - np.tanh(input2.numpy()) ** 2) / 6, rtol=1e-9)\n"
        self.program(TANH_WITH_FUNCTIONS, check)
        self.assertEqual(self.trace(TANH_WITH_FUNCTIONS), ["paddle::tanh"])
        self.assertEqual(self.trace(TANH_WITH_FUNCTIONS, BACK), ["paddle::tanh", "paddle::tanh_grad"])

    def test_a_forward_without_a_tensor_is_an_error(self):
        self.assertIn("ValueError: cus_tanh.forward must return at least one Tensor", self.failing(IMPORTS, NO_TENSOR))

    def test_other_results_beside_tensors(self):
        printed = self.program(IMPORTS, TENSOR_AND_SHAPE, "assert y_shape == [2, 3]\n")
        np.testing.assert_allclose(numbers(printed), [2 / 6] * 6, rtol=1e-6)
        self.assertEqual(self.trace(IMPORTS, TENSOR_AND_SHAPE), ["paddle::cus_tanh", "paddle::cus_tanh_grad"])

    def test_none_for_an_input_that_is_stopped(self):
        printed = self.program(IMPORTS, ONE_STOPPED)
        np.testing.assert_allclose(numbers(printed), [1 / 6] * 6, rtol=1e-6)
        self.assertEqual(self.trace(IMPORTS, ONE_STOPPED), ["paddle::cus_tanh", "paddle::cus_tanh_grad"])

    def test_backward_does_not_run_when_all_are_stopped(self):
        # `fake_loss.backward()` has nothing to do, and the page's comment says that the gradient is None.
        self.assertEqual(self.program(IMPORTS, ALL_STOPPED), "True\n")
        self.assertEqual(self.trace(IMPORTS, ALL_STOPPED), ["paddle::cus_tanh"])

    def test_py_func(self):
        self.assertEqual(self.program(FUNCTIONS, VARIABLES, PY_FUNC, RUN), "same\n")
        self.assertEqual(self.trace(FUNCTIONS, VARIABLES, PY_FUNC, RUN), ["paddle::tanh", "paddle::tanh_grad"])

    def test_py_func_whose_backward_skips_the_input(self):
        self.assertEqual(self.program(FUNCTIONS, GRAD_WITHOUT_X, VARIABLES, PY_FUNC_SKIPPED, RUN), "same\n")
        both = (FUNCTIONS, GRAD_WITHOUT_X, VARIABLES, PY_FUNC, PY_FUNC_SKIPPED, RUN)
        self.assertEqual(self.program(*both), "same\n", "the last op that writes a variable counts")
        self.assertEqual(set(self.trace(*both)), {"paddle::tanh", "paddle::tanh_2", "paddle::tanh_2_grad"})

    def test_the_other_functions_of_the_page(self):
        use = """
a = paddle.static.data('a', [2, 3], 'int32')
s = create_tmp_var(paddle.static.default_main_program(), 's', 'int32', [2, 3])
paddle.static.py_func(func=element_wise_add, x=[a, a], out=s)
paddle.static.py_func(func=debug_func, x=s, out=None)
got, = paddle.static.Executor().run(feed={'a': np.arange(6, dtype='i4').reshape(2, 3)}, fetch_list=[s])
assert got.tolist() == [[0, 2, 4], [6, 8, 10]]
"""
        self.assertEqual(self.program(FUNCTIONS, VARIABLES, use), "[[ 0  2  4]\n [ 6  8 10]]\n")
        self.assertEqual(self.trace(FUNCTIONS, VARIABLES, use), ["paddle::element_wise_add", "paddle::debug_func"])


class Graphs(StyleTest):
    TRAINED = """\
import numpy as np
import opc
import acts

def build(activation):
    g = opc.Graph("net")
    x = g.input("x", (4, 3))
    w = g.variable("w", (3, 2), init=opc.init.normal(std=0.5))
    y = activation(x @ w)
    g.output("loss", (y * y).mean())
    return g

def losses(g):
    step = g.training_step("loss", opc.optim.SGD(0.5)).compile()
    found = [float(step.run(x=np.ones((4, 3), "f"))["loss"]) for _ in range(10)]
    step.save_weights("w.npz")
    return found

g = build(acts.activation)
g.save("g.pbtxt")
assert NAME + "_grad" in g.grad("loss", ["x"]).text()
expected, found = losses(build(opc.ops.tanh)), losses(g)
assert np.allclose(found, expected, rtol=1e-5), (found, expected)
assert found[9] < found[0]
trained = g.compile()
trained.load_weights("w.npz", partial=True)
print(found[0], trained.run(x=np.ones((4, 3), "f"))["loss"])
"""

    def check(self, name, *source):
        os.mkdir(os.path.join(self.folder, "ops"))
        self.write("ops/acts.py", *source)
        self.write("acts.py", *source)
        loss, trained = map(float, self.program(f"NAME = '{name}'", self.TRAINED).split())
        with open(os.path.join(self.folder, "g.ops.pbtxt")) as file:
            self.assertIn(f'"{name}"', file.read())
        os.remove(os.path.join(self.folder, "acts.py"))
        self.command_agrees(name, loss, trained)

    def test_pylayer_trained_saved_and_run_by_the_command(self):
        self.check("paddle::cus_tanh", CUS_TANH, "activation = cus_tanh.apply\n")

    def test_py_func_trained_saved_and_run_by_the_command(self):
        use = "import paddle\n\ndef activation(x):\n    return paddle.static.py_func(tanh, x, x.spec, tanh_grad)\n\n"
        # The command imports this file: what defines the op stands at its top level.
        top = "import opc\nactivation(opc.Graph().input('x', (1,)))\n"
        self.check("paddle::tanh", FUNCTIONS, use, top)

    OTHER_SIZES = """\
import numpy as np
import opc
import paddle

class twice(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x, k=2):
        return x * k, paddle.reshape(x * x, [-1])

    @staticmethod
    def backward(ctx, dy, dz):
        return dy * 2

def pairs(a):
    return (a * 2).astype(a.dtype)

def fw(a):
    return a * 2, paddle.concat([a, a])

USES = {
    "layer": lambda x: twice.apply(x)[0],
    "function": lambda x: paddle.static.py_func(pairs, x, opc.Spec((-1, 3), "float32"), lambda a, y, dy: (dy * 2).astype(a.dtype)),
    "both": lambda x: paddle.static.nn.static_pylayer(fw, [x], lambda dy, dz: dy * 2)[0],
}

def graph(name):
    g = opc.Graph(name)
    y = USES[name](g.input("x", (4, 3)))
    g.output("y", y)
    g.output("loss", (y * y).mean())
    return g

for name in USES:
    graph(name)
"""

    def test_a_saved_graph_takes_other_sizes(self):
        os.mkdir(os.path.join(self.folder, "ops"))
        self.write("ops/sizes.py", self.OTHER_SIZES)
        self.program("import sys\nsys.path.append('ops')\nfrom sizes import *\n", "for name in USES:\n    graph(name).save(name + '.pbtxt')\n")
        x = np.arange(21, dtype="f").reshape(7, 3)
        np.save(self.path("x.npy"), x)
        for name in ("layer", "function", "both"):
            file = name + ".pbtxt"
            shown = self.opc("show", file, "--shape", "x=7,3", "--op-path", "ops", "--what", "tensors").stdout
            self.assertEqual(shown.count("f32[7,3]"), 3, shown)
            done = self.opc("compile", file, "--shape", "x=1..9,3", "--op-path", "ops", "-o", "sizes.opcplan")
            self.assertEqual(done.returncode, 0, done.stderr)
            for what in ((file, "--shape", "x=7,3"), ("sizes.opcplan",)):
                done = self.opc("run", *what, "--op-path", "ops", "--input", "x=@x.npy", "--outputs", "out")
                self.assertEqual(done.returncode, 0, done.stderr)
                np.testing.assert_array_equal(np.load(self.path("out/y.npy")), x * 2)
            done = self.opc("grad", file, "--shape", "x=7,3", "--op-path", "ops", "--loss", "loss", "--wrt", "x", "--check")
            self.assertIn("every gradient agrees", done.stdout, done.stderr)

    def test_arguments_that_no_file_holds_are_named(self):
        os.mkdir(os.path.join(self.folder, "ops"))
        source = self.OTHER_SIZES.replace("x * k, ", "k(x), ")
        self.write("ops/sizes.py", source.replace("for name in USES:\n    graph(name)\n", ""))
        self.program("import sys\nsys.path.append('ops')\nfrom sizes import *\n",
                     "g = opc.Graph()\ng.output('y', twice.apply(g.input('x', (4, 3)), lambda x: x)[0])\ng.save('g.pbtxt')\n")  # fmt: skip
        done = self.opc("run", "g.pbtxt", "--op-path", "ops", "--fill", "ones")
        self.assertIn("does not have all arguments of twice.forward: k (function) stayed in the process that built it", done.stderr)

    def test_static_pylayer(self):
        layer = "import paddle\n\ndef forward(x):\n    return paddle.tanh(x) * 2\n\ndef backward(dy):\n    return dy * 7\n\n"
        use = """
import numpy as np
paddle.enable_static()
x = paddle.static.data('x', [-1, 2])
y = paddle.static.nn.static_pylayer(forward, [x], backward)
loss = y.sum()
g, = paddle.static.gradients(loss, x)
value = np.array([[0.5, -1], [2, 3], [0, 1]], 'f')
out, dx = paddle.static.Executor().run(feed={'x': value}, fetch_list=[y, g])
assert np.allclose(out, np.tanh(value) * 2, rtol=1e-6) and (dx == 7).all()
"""
        self.program(layer, use)
        self.assertEqual(self.trace(layer, use), ["paddle::forward", "paddle::forward_grad"])

    def test_append_backward_gives_gradients_of_parameters(self):
        program = paddle.static.Program()
        paddle.enable_static()
        self.addCleanup(paddle.disable_static)
        with paddle.static.program_guard(program):
            x = paddle.static.data("x", [None, 2])
            w = paddle.static.create_parameter([2, 3], name="w", default_initializer=0.5)
            loss = paddle.square(paddle.matmul(x, w)).sum()
            ((parameter, gradient),) = paddle.static.append_backward(loss)
            value = np.array([[1, 2], [3, 4]], "f")
            got, w_now = paddle.static.Executor().run(feed={"x": value}, fetch_list=[gradient, parameter])
        np.testing.assert_allclose(got, 2 * value.T @ (value @ np.full((2, 3), 0.5)), rtol=1e-6)
        np.testing.assert_array_equal(w_now, np.full((2, 3), 0.5))


class Scaled(PyLayer):
    """Two inputs, a number, two outputs."""

    @staticmethod
    def forward(ctx, xs, factor, flag=None):
        ctx.factor = factor
        ctx.save_for_backward(*xs)
        return xs[0] * factor, xs[1] + xs[0]

    @staticmethod
    def backward(ctx, da, db):
        return da * ctx.factor + db, db


class Rules(unittest.TestCase):
    def test_nested_arguments_several_outputs_and_sums(self):
        a, b = paddle.to_tensor([1.0, 2.0], stop_gradient=False), paddle.to_tensor([3.0, 4.0], stop_gradient=False)
        y, z = Scaled.apply([a, b], 3, flag={"k": (1, 2)})
        (y * z + a).sum().backward()
        va, vb = a.numpy(), b.numpy()
        np.testing.assert_allclose(a.grad.numpy(), (va + vb) * 3 + va * 3 + 1)
        np.testing.assert_allclose(b.grad.numpy(), va * 3)

    def test_a_number_among_the_arguments_is_kept_in_a_graph(self):
        g = opc.Graph()
        y, z = Scaled.apply([g.input("a", (2,)), g.input("b", (2,))], 3)
        g.output("y", (y * z).sum())
        got = g.grad("y", ["a", "b"]).compile().run(a=np.array([1, 2], "f"), b=np.array([3, 4], "f"))
        np.testing.assert_allclose(got["b.grad"], [3, 6])
        np.testing.assert_allclose(got["a.grad"], [15, 24])

    def test_no_grad_and_detach(self):
        a = paddle.to_tensor([1.0], stop_gradient=False)
        with paddle.no_grad():
            self.assertTrue((a * 2).stop_gradient)
        self.assertTrue(a.detach().stop_gradient)
        self.assertFalse((a * 2).stop_gradient)

    def test_built_in_functions(self):
        x = paddle.to_tensor(np.linspace(0.1, 1.2, 12).reshape(3, 4), stop_gradient=False)
        first, second = paddle.split(x, 2, axis=1)
        joined = paddle.concat([paddle.sin(first), paddle.exp(second)], axis=0)
        paddle.mean(joined * joined).backward()
        v = x.numpy()
        expected = np.concatenate([2 * np.sin(v[:, :2]) * np.cos(v[:, :2]), 2 * np.exp(v[:, 2:]) ** 2], 1) / 12
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-9)

    def test_tensors_without_dimensions_keep_their_type(self):
        class loss(PyLayer):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return paddle.mean(x * x) * 0.5

            @staticmethod
            def backward(ctx, dy):
                (x,) = ctx.saved_tensor()
                return dy * x / 3

        class line(PyLayer):
            @staticmethod
            def forward(ctx, x):
                return paddle.sigmoid(x * 2 + 1) - paddle.nn.functional.relu(2 - x) ** 2

            @staticmethod
            def backward(ctx, dy):
                return dy * (1 - paddle.square(dy)) + 1 / dy

        for kind in ("float16", "float32", "float64"):
            x = paddle.to_tensor(np.array([1, 2, 4], kind), stop_gradient=False)
            y = loss.apply(x)
            y.backward()
            self.assertEqual((y.dtype, y.shape, x.grad.dtype), (kind, [], kind))
            np.testing.assert_allclose(y.item(), 3.5)
            np.testing.assert_allclose(x.grad.numpy(), np.array([1, 2, 4]) / 3, rtol=1e-3 if kind == "float16" else 1e-6)
            v = np.array(0.5, kind)
            x = paddle.to_tensor(v, stop_gradient=False)
            y = line.apply(x)
            y.backward(paddle.to_tensor(np.array(2, kind)))
            self.assertEqual((y.dtype, y.shape, x.grad.dtype), (kind, [], kind))
            np.testing.assert_allclose(y.item(), 1 / (1 + np.exp(-2.0)) - 2.25, rtol=2e-3 if kind == "float16" else 1e-6)
            self.assertEqual(x.grad.item(), 2 * (1 - 4) + 0.5)
        g = opc.Graph()
        g.output("y", loss.apply(g.input("x", (3,))))
        self.assertEqual(g.outputs["y"].dtype, "f32")

    def test_floats_that_numpy_has_not_are_float32_in_a_kernel(self):
        seen = []

        class tripled(PyLayer):
            @staticmethod
            def forward(ctx, x):
                seen.append(x.dtype)
                return x * 3

            @staticmethod
            def backward(ctx, dy):
                return dy * 3

        def tripled_both(a):
            return a * 3

        def function(a):
            seen.append(paddle.DType(a.dtype.name))
            return a * np.float32(3)

        def gradient(a, y, dy):
            return dy * np.float32(3)

        values = np.array([0.3, 1.1, -7.7], "f")
        for kind in ("bf16", "f8e4m3fn"):
            for use in (
                tripled.apply,
                lambda x: paddle.static.py_func(function, x, opc.Spec((3,), x.dtype), gradient),
                lambda x: paddle.static.py_func(function, x, opc.Spec((-1,), "float32"), gradient),
                lambda x: paddle.static.nn.static_pylayer(tripled_both, [x], tripled_both),
            ):
                g = opc.Graph()
                x = opc.ops.cast(g.input("x", (3,)), dtype=kind)
                y = use(x)
                g.output("y", opc.ops.cast(y, dtype="f32"))
                got = (g.grad("y", ["x"]) if kind == "bf16" else g).compile().run(x=values)  # casts to f8 have no gradient
                other = opc.Graph()
                x = opc.ops.cast(other.input("x", (3,)), dtype=kind)
                wide = opc.ops.cast(x, dtype="f32") * 3
                other.output("y", opc.ops.cast(opc.ops.cast(wide, dtype=y.dtype), dtype="f32"))
                np.testing.assert_array_equal(got["y"], other.compile().run(x=values)["y"])
                np.testing.assert_array_equal(got.get("x.grad", np.full(3, 3)), [3, 3, 3])
        self.assertEqual(set(seen), {"float32"})
        for call, part in (
            (lambda: tripled.apply(opc.Graph().input("x", (3,), "i4")), "tensors of i4 are not for operators of this style"),
            (lambda: paddle.to_tensor([1.0]).astype("bfloat16"), "'bfloat16' is none"),
        ):
            with self.assertRaises(TypeError) as raised:
                call()
            self.assertIn(part, str(raised.exception))

    def test_the_documents_tanh_without_dimensions(self):
        scope = {}
        exec(CUS_TANH, scope)
        x = paddle.to_tensor(0.5, stop_gradient=False)
        scope["cus_tanh"].apply(x).backward()
        self.assertEqual(x.grad.dtype, "float32")
        np.testing.assert_allclose(x.grad.item(), 1 - np.tanh(0.5) ** 2, rtol=1e-6)

    def test_what_is_wrong_says_so(self):
        class Few(PyLayer):
            @staticmethod
            def forward(ctx, x, y):
                return x + y

            @staticmethod
            def backward(ctx, dy):
                return dy

        class Twice(PyLayer):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                ctx.save_for_backward(x)
                return x

        class Both(Few):
            @staticmethod
            def backward(ctx, dy):
                return dy, dy

        class Recomputes(PyLayer):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, dy):
                x = ctx.saved_tensor()[0].detach()
                x.stop_gradient = False
                paddle.autograd.backward([x * x], [dy])  # records nothing: x.grad would stay None, which means zeros
                return x.grad

        def x(stop):
            return paddle.to_tensor([1.0], stop_gradient=stop)

        for call, part in (
            (lambda: Few.apply(x(False), x(False)).backward(), "Few.backward must return 2 gradients"),
            (lambda: Both.apply(x(False), x(True)).backward(), "None as number 1: that input of forward has stop_gradient=True"),
            (lambda: Twice.apply(x(True)), "save_for_backward is called once"),
            (lambda: Recomputes.apply(x(False)).backward(), "backward is called within an operator's own code, where nothing is recorded"),
            (lambda: PyLayer.apply(x(False)), "PyLayer.apply: apply is called on a class of your own"),
            (lambda: Few.apply(1, 2), "at least one Tensor"),
            (lambda: paddle.static.data("q", [1]), "enable_static"),
            (lambda: paddle.static.py_func(np.tanh, None, None), "neither an input nor an output"),
        ):
            with self.assertRaises((RuntimeError, TypeError, ValueError, opc.Error)) as raised:
                call()
            self.assertIn(part, str(raised.exception))

    def test_a_class_of_the_same_name_replaces_for_later_graphs_with_a_warning(self):
        def layer(factor):
            class by_factor(PyLayer):
                @staticmethod
                def forward(ctx, x):
                    return x * factor

                @staticmethod
                def backward(ctx, dy):
                    return dy * factor

            return by_factor

        def program(kind):
            g = opc.Graph()
            g.output("y", kind.apply(g.input("x", (2,))))
            return g.compile()

        x = np.ones(2, "f")
        old = program(layer(2.0))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            new = layer(3.0)
        self.assertIn("paddle::by_factor", str(said[0].message))
        self.assertEqual([p.run(x=x)["y"].tolist() for p in (program(new), old)], [[3, 3], [2, 2]])

    def test_a_function_that_gives_another_shape_is_an_error(self):
        g = opc.Graph()
        g.output("y", paddle.static.py_func(np.sum, g.input("x", (2, 3)), opc.Spec((2, 3), "float32")))
        with self.assertRaises(opc.ExecutionError) as raised:
            g.compile().run(x=np.ones((2, 3), "f"))
        self.assertEqual(raised.exception.code, "OPC0623")


if __name__ == "__main__":
    unittest.main()
