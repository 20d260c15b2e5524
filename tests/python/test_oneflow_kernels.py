"""Operators of OneFlow directories: definition in C++, kernel in Python; as printed, in graphs, and in the command."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import unittest

import oneflow_listings as listings
from style_programs import TRACED, traced
from test_oneflow import OPC, Programs

END = "}  // namespace\n}  // namespace oneflow\n"
GRADIENT_PRINTED = listings.USER_RELU_CPP_DEF.replace(END, listings.USER_RELU_BACKWARD_OP + listings.USER_RELU_GRADIENT + END)
#: The document's rule speaks of y and x, its op of out and in.
GRADIENT = re.sub(r'(output|output_grad)\("y"', r'\1("out"', GRADIENT_PRINTED).replace('OpArg("x"', 'OpArg("in"')
KERNELS = listings.USER_RELU_PY_KERNEL + "\n" + listings.USER_RELU_BACKWARD_KERNEL
PRINTED = "[-2. -1.  0.  1.  2.]\n[-0. -0.  0.  1.  2.]\n"  # (x > 0) * x is -0 where x is negative

HEAD = r'''
import os
import sys
import numpy as np
import oneflow as flow
import oneflow.typing as tp
import opc

here = os.path.dirname(os.path.abspath(__file__))
user_relu = flow.experimental.custom_op_module("user_relu", here).py_api().cpp_def().py_kernel().build_load()
'''
JOB = HEAD + r'''
@flow.global_function(type=sys.argv[1])
def job(x: tp.Numpy.Placeholder((5,))) -> tp.Numpy:
    with flow.scope.placement("cpu", "0:0"):
        w = flow.get_variable("w", (5,), initializer=flow.ones_initializer())
        y = user_relu.api.user_relu_forward(w * x)
        loss = flow.math.reduce_sum(y * y)
        if sys.argv[1] == "train":
            flow.watch_diff(y, lambda blob: print("dy", np.round(blob.numpy() + 0, 4)))
            flow.optimizer.SGD(flow.optimizer.PiecewiseConstantScheduler([], [0.1]), momentum=0).minimize(loss)
        return loss


for i in range(2):
    print("loss %.4f" % job(np.array([-2, -1, 0, 1, 2], np.float32)))
'''
GRAPH = HEAD + r'''
g = opc.Graph("net")
y = user_relu.api.user_relu_forward(g.input("x", (5,)) * g.variable("w", (5,), init=1.0))
g.output("y", y)
g.output("loss", (y * y).sum())
g.save("g.pbtxt")
step = g.training_step("loss", opc.optim.SGD(0.01))
step.save("step.pbtxt")
x, w, session = np.array([-2, -1, 0, 1, 2], "f"), np.ones(5), step.compile().session()
for i in range(10):
    out = session.run(x=x)
    np.testing.assert_allclose(out["loss"], np.sum(np.maximum(w * x, 0) ** 2), rtol=1e-5)
    w -= 0.01 * 2 * np.maximum(w * x, 0) * x
np.testing.assert_allclose(session.variables["w"], w, rtol=1e-5)
session.save_weights("w.npz")
print("fine")
'''


class Directory(Programs):
    def setUp(self):
        super().setUp()
        self.put(listings.USER_RELU_CPP_DEF, listings.USER_RELU_PY_KERNEL)

    def put(self, definition, kernels):
        self.write("user_relu/user_relu_cpp_def.cpp", definition)
        self.write("user_relu/user_relu_py_api.py", listings.USER_RELU_PY_API)
        self.write("user_relu/user_relu_py_kernel.py", kernels)

    def job(self, kind):
        self.write("job.py", JOB)
        return self.do("python", "job.py", kind)

    def trace(self, *words):
        """The ops whose kernels sessions have called."""
        return traced(self.do("python", "-c", TRACED, *words))

    def cache(self):
        folder = os.path.join(self.folder, "cache", "opc", "oneflow")
        return sorted(f for f in os.listdir(folder) if f.endswith(".so"))


class AsPrinted(Directory):
    def test_program(self):
        self.write("program.py", listings.USER_RELU_PROGRAM)
        self.prints("program.py", PRINTED)
        made = self.cache()
        self.prints("program.py", PRINTED)
        self.assertEqual(self.cache(), made)
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "user_relu"))), 3, "the user's folder is as it was")
        self.assertEqual(self.trace("program.py"), ["oneflow::user_relu_forward"])

    def test_edits_count(self):
        self.write("program.py", listings.USER_RELU_PROGRAM)
        self.prints("program.py", PRINTED)
        self.put(listings.USER_RELU_CPP_DEF.replace("namespace oneflow {", '#include "more.h"\nnamespace oneflow {', 1), "def forward(args):\n    return args[0] * 2\n")
        self.write("user_relu/more.h", '#define MORE "one"\n')
        self.prints("program.py", "[-2. -1.  0.  1.  2.]\n[-4. -2.  0.  2.  4.]\n")
        self.write("user_relu/more.h", "#error edited\n")
        done = self.do("python", "program.py")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not compile", done.stderr)
        self.assertIn("more.h:1", done.stderr)

    def test_results_in_a_list_or_tuple(self):
        self.write("program.py", listings.USER_RELU_PROGRAM)
        for form in ("[y]", "(y,)"):
            self.put(listings.USER_RELU_CPP_DEF, listings.USER_RELU_PY_KERNEL.replace("return y", "return " + form))
            self.prints("program.py", PRINTED)

    def test_the_gradient_as_printed_names_what_is_wrong(self):
        self.put(GRADIENT_PRINTED, KERNELS)
        predicted = self.job("predict")
        self.assertEqual(predicted.stdout, "loss 5.0000\n" * 2, predicted.stderr)
        done = self.job("train")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"the gradient rule of user_relu_forward \(.*user_relu_cpp_def.cpp:\d+\) asks for the gradient of input 'x', which the op does not have")
        self.assertIn("did you mean 'in'?", done.stderr)


class Gradients(Directory):
    def setUp(self):
        super().setUp()
        self.put(GRADIENT, KERNELS)

    def test_job_trains(self):
        done = self.job("train")
        self.assertEqual(done.stdout, "dy [0. 0. 0. 2. 4.]\nloss 5.0000\ndy [0.  0.  0.  1.6 0.8]\nloss 0.8000\n", done.stderr)
        step = ["oneflow::user_relu_forward", "oneflow::user_relu_backward"]
        self.assertEqual(self.trace("job.py", "train"), 2 * step)

    def test_graph_and_command(self):
        self.write("graph.py", GRAPH)
        self.prints("graph.py", "fine\n")
        x, ops = "x=f32[5]:-2,-1,0,1,2", ("--op-path", "user_relu")
        shown = self.do(OPC, "show", "g.pbtxt")
        self.assertIn("oneflow::user_relu_forward", shown.stdout, shown.stderr)
        refused = self.do(OPC, "run", "g.pbtxt", "--input", x)
        self.assertIn("OPC0921", refused.stderr)
        for code, more in (("OPC0921", ()), ("OPC0923", ops)):
            refused = self.do(OPC, "run", "g.pbtxt", "--shape", "x=7,5", "--fill", "ones", *more)
            self.assertIn(code, refused.stderr)
            self.assertIn("make the graph with these shapes in Python", refused.stderr)
        done = self.do(OPC, "run", "g.pbtxt", "--input", x, *ops)
        self.assertIn("loss  f32[]  [5]", done.stdout, done.stderr)
        checked = self.do(OPC, "grad", "g.pbtxt", "--loss", "loss", "--check", *ops)
        self.assertIn("every gradient agrees", checked.stdout, checked.stderr)
        trained = self.do(OPC, "run", "step.pbtxt", "--weights", "w.npz", "--input", x, *ops)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertRegex(trained.stdout, r"loss  f32\[\]  \[\d")

    def test_an_output_of_integers_has_no_gradient(self):
        definition = GRADIENT.replace('.Output("out")', '.Output("out").Output("signs")', 1)
        shape = '*ctx->Shape4ArgNameAndIndex("out", 0) ='
        definition = definition.replace(shape, '*ctx->Shape4ArgNameAndIndex("signs", 0) = *ctx->Shape4ArgNameAndIndex("in", 0);\n'
                                               '*ctx->Dtype4ArgNameAndIndex("signs", 0) = DataType::kInt32;\n' + shape, 1)
        kernels = KERNELS.replace("    return y\n", "    return y, np.sign(x).astype(np.int32)\n", 1)
        self.assertNotEqual(kernels, KERNELS)
        self.put(definition, kernels)
        self.write("user_relu/user_relu_py_api.py", listings.USER_RELU_PY_API.replace('.Output("out")', '.Output("out").Output("signs")').replace("SoleOutputBlob()", "RemoteBlobList()"))
        self.write("program.py", HEAD + """
g = opc.Graph("net")
y, signs = user_relu.api.user_relu_forward(g.input("x", (5,)))
g.output("signs", signs)
g.output("loss", (y * y).sum())
x = np.array([-2, -1, 0, 1, 2], "f")
made = g.grad("loss", ["x"]).compile().run(x=x)
print(made["signs"], made["x.grad"] + 0)
""")
        self.prints("program.py", "[-1 -1  0  1  1] [0. 0. 0. 2. 4.]\n")

    def test_two_places_of_different_shapes(self):
        self.write(
            "two.py",
            HEAD + "def relu(x):\n    return flow.user_op_builder().Op('user_relu_forward').Input('in', [x]).Output('out').Build().InferAndTryRun().SoleOutputBlob()\n"
            "@flow.global_function()\n"
            "def job(x: tp.Numpy.Placeholder((2, 3)), z: tp.Numpy.Placeholder((4,), dtype=flow.float64)) -> tp.Tuple[tp.Numpy, tp.Numpy]:\n"
            "    return relu(x), relu(z)\n"
            "a, b = job(np.full((2, 3), 2, 'f'), np.array([-1., 1, 2, 3]))\n"
            "print(a.tolist(), (b + 0).tolist(), b.dtype)\n",
        )
        self.prints("two.py", "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]] [0.0, 1.0, 2.0, 3.0] float64\n")


    def test_a_directory_that_is_loaded_again_replaces_for_later_graphs(self):
        self.write(
            "again.py",
            HEAD + "def program():\n    g = opc.Graph()\n    g.output('y', user_relu.api.user_relu_forward(g.input('x', (3,))))\n    return g.compile()\n"
            "x = np.array([-1, 1, 2], 'f')\nold = program()\nprint(old.run(x=x)['y'] + 0)\n"
            "path = os.path.join(here, 'user_relu', 'user_relu_py_kernel.py')\ntext = open(path).read()\n"
            "open(path, 'w').write(text.replace('(x,) = args', 'x = args[0] * np.float32(3)'))\n"
            "user_relu = flow.experimental.custom_op_module('user_relu', here).py_api().cpp_def().py_kernel().build_load()\n"
            "print(program().run(x=x)['y'] + 0, old.run(x=x)['y'] + 0, old.session().run(x=x)['y'] + 0)\n",
        )
        self.prints("again.py", "[0. 1. 2.]\n[0. 3. 6.] [0. 1. 2.] [0. 1. 2.]\n")


class Mistakes(Directory):
    def program_fails(self, *parts):
        self.write("program.py", listings.USER_RELU_PROGRAM)
        done = self.do("python", "program.py")
        self.assertNotEqual(done.returncode, 0)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_kernels(self):
        for kernel, *parts in (
            ("def forward(args):\n    raise ValueError('not today')\n", "OPC0622", "not today", "user_relu_forward", "user_relu_py_kernel.py:2"),
            ("def forward(args):\n    return args[0][:2]\n", "OPC0623"),
            ("def forward(args):\n    return args[0].astype('d')\n", "OPC0623"),
            ("def forward(args):\n    args[0][0] = 1\n    return args[0]\n", "OPC0622", "read-only"),
            ("def forwards(args):\n    return args[0]\n", "needs a function forward(args)", "user_relu_py_kernel.py"),
        ):
            with self.subTest(kernel=kernel):
                self.put(listings.USER_RELU_CPP_DEF, kernel)
                self.program_fails(*parts)

    def test_rules_of_shapes(self):
        """What the definition's CHECK says comes as the command says it: its code, the operator, the words and their line."""
        rule = "[](user_op::InferContext *ctx) -> Maybe<void> {\n"
        for check, said in (
            ('CHECK_EQ_OR_RETURN(ctx->Shape4ArgNameAndIndex("in", 0)->NumAxes(), 2) << "a matrix is wanted";', r'->NumAxes\(\) == 2 \(1 vs 2\) a matrix is wanted'),
            ('CHECK_OR_RETURN(ctx->Shape4ArgNameAndIndex("in", 0)->At(0) > 9);', r'check failed: ctx->Shape4ArgNameAndIndex\("in", 0\)->At\(0\) > 9'),
        ):
            definition = listings.USER_RELU_CPP_DEF.replace(rule, rule + check + "\n", 1)
            self.assertNotEqual(definition, listings.USER_RELU_CPP_DEF)
            line = definition[: definition.index(check)].count("\n") + 1
            self.put(definition, listings.USER_RELU_PY_KERNEL)
            self.write("program.py", listings.USER_RELU_PROGRAM)
            done = self.do("python", "program.py")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, rf"error\[OPC0203\]: oneflow::user_relu_forward: .*{said} \(.*user_relu_cpp_def.cpp:{line}\)\n")
            self.assertNotIn("OPC0622", done.stderr)

    def test_directories(self):
        self.put(listings.USER_RELU_CPP_DEF.replace("user_relu_forward", "user_relu"), listings.USER_RELU_PY_KERNEL)
        self.program_fails("must end in _forward or _backward")
        self.put(listings.USER_RELU_CPP_DEF.replace("device_sub_tag", "tag"), listings.USER_RELU_PY_KERNEL)
        self.program_fails("defines no operator with", "device_sub_tag")
        os.remove(os.path.join(self.folder, "user_relu", "user_relu_py_kernel.py"))
        self.program_fails("user_relu_py_kernel.py is missing")
        os.rename(os.path.join(self.folder, "user_relu"), os.path.join(self.folder, "user_relu2"))
        self.program_fails("there is no directory", "user_relu")


if __name__ == "__main__":
    unittest.main()
