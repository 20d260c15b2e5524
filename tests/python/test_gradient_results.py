"""What numeric gradient rules may return where optional inputs are absent, in this process, in the command and in processes of their own."""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import itertools
import unittest

import numpy as np

import opc
from style_programs import StyleTest

SOURCE = """
import opc

def define(name, optional, rule, **more):
    @opc.op(name, like="a", optional=optional, **more)
    def f(a, b, c):
        return a * (1 if b is None else b) + (0 if c is None else c)
    f.grad(rule, needs=["a", "b"])
    return f

def rule(dy, *, a, b):
    return RESULT
"""
OPERATORS = """
here = define("results::here", OPTIONAL, rule)
apart = define("results::apart", OPTIONAL, rule, isolation="process")
"""
SEVERAL = """
import numpy as np
import opc

def define(name, **more):
    @opc.op(name, variadic={"xs": 1}, optional=("bias",), **more)
    def joined(xs, w, bias):
        return np.concatenate(xs) * w + (0 if bias is None else bias)
    @joined.infer
    def _(xs, w, bias):
        return opc.Spec((sum(s.shape[0] for s in xs),), w.dtype)
    @joined.grad(needs=["xs", "w"])
    def _(dy, *, xs, w):
        at = np.cumsum([0] + [len(x) for x in xs])
        parts = [dy[i:j] * w for i, j in zip(at, at[1:])]
        dw = np.sum(dy * np.concatenate(xs)).astype("f").reshape(1)
        return RESULT
    return joined
"""
A, B, C = (np.array(v, "f") for v in ([2, 3], [5, 7], [1, 1]))
COUNT = itertools.count()  # of modules, so that no operator replaces another
FULL = ("dy * b, dy * a, dy", "[dy * b, dy * a, dy]", "{'a': dy * b, 'b': dy * a, 'c': dy}", "{'da': dy * b, 'db': dy * a, 'dc': dy}")


class Results(StyleTest):
    def module(self, result, optional="('c',)", source=SOURCE):
        name = f"results_{next(COUNT)}"
        operators = OPERATORS if source is SOURCE else OPERATORS.replace(", OPTIONAL, rule", "")
        text = (source.replace("RESULT", result) + operators.replace("OPTIONAL", optional)).replace("results::", f"{name}::")
        path = self.write(f"{name}.py", text)
        spec = importlib.util.spec_from_file_location(name, path)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    def of_several(self, operator, bias):
        """The gradients of joined(xs=[2 elements, 3 elements], w)."""
        g = opc.Graph("g")
        xs, w = [g.input("p", (2,)), g.input("q", (3,))], g.input("w", (1,))
        g.output("y", operator(xs, w, g.input("bias", (5,)) if bias else None) * g.input("k", (5,)))
        given = {"p": A, "q": np.array([1, 2, 3], "f"), "w": np.array([2], "f"), "k": np.arange(1, 6, dtype="f")}
        got = g.grad("y", ["p", "q", "w"] + ["bias"] * bias).compile().run(**given, **({"bias": np.zeros(5, "f")} if bias else {}))
        return [got[f"{name}.grad"].tolist() for name in ["p", "q", "w"] + ["bias"] * bias]

    def graph(self, operator, given):
        g = opc.Graph("g")
        inputs = {name: g.input(name, (2,)) for name in given}
        g.output("y", operator(**inputs))
        return g.grad("y", list(given))

    def gradients(self, operator, **given):
        got = self.graph(operator, given).compile().run(**given)
        return [got[f"{name}.grad"].tolist() for name in given]

    def test_a_result_for_each_declared_input(self):
        for result in (*FULL, "dy * b, dy * a, None", "{'a': dy * b, 'b': dy * a}"):
            module = self.module(result)
            for operator in (module.here, module.apart)[: 2 if result in FULL[::2] else 1]:  # processes take their time
                with self.subTest(result=result, operator=operator):
                    self.assertEqual(self.gradients(operator, a=A, b=B), [B.tolist(), A.tolist()])
                    dc = [1, 1] if result in FULL else [0, 0]
                    self.assertEqual(self.gradients(operator, a=A, b=B, c=C), [B.tolist(), A.tolist(), dc])

    def test_results_for_the_inputs_that_are_there(self):
        module = self.module("(dy * b, dy * a)")
        for operator in (module.here, module.apart):
            self.assertEqual(self.gradients(operator, a=A, b=B), [B.tolist(), A.tolist()])
            with self.assertRaisesRegex(opc.ExecutionError, r"OPC0623.*2 arrays, expected 3"):
                self.gradients(operator, a=A, b=B, c=C)

    def test_several_are_optional(self):
        module = self.module("dy * (1 if b is None else b), dy * a, dy", "('b', 'c')")
        for operator in (module.here, module.apart):
            self.assertEqual(self.gradients(operator, a=A), [[1, 1]])
        self.assertEqual(self.gradients(module.here, a=A, c=C), [[1, 1], [1, 1]])
        self.assertEqual(self.gradients(module.here, a=A, b=B), [B.tolist(), A.tolist()])

    def test_several_tensors_of_an_input(self):
        """By names, a list or tuple for the input that is several; in a row, as before. dw = 1 * 2 + 2 * 3 + 3 * 1 + 4 * 2 + 5 * 3."""
        p, q, w, bias = [2, 4], [6, 8, 10], [34], [1, 2, 3, 4, 5]
        for result, apart in (
            ("{'xs': parts, 'w': dw, 'bias': dy}", True),
            ("{'dbias': dy, 'dw': dw, 'dxs': tuple(parts)}", False),
            ("(*parts, dw, dy)", True),
        ):
            module = self.module(result, source=SEVERAL)
            for operator in (module.here, module.apart)[: 1 + apart]:
                with self.subTest(result=result, operator=operator):
                    self.assertEqual(self.of_several(operator, False), [p, q, w])
                    self.assertEqual(self.of_several(operator, True), [p, q, w, bias])
        zeros = self.of_several(self.module("{'xs': [None, parts[1]]}", source=SEVERAL).here, True)
        self.assertEqual(zeros, [[0, 0], q, [0], [0] * 5])
        zeros = self.of_several(self.module("{'xs': None, 'w': dw}", source=SEVERAL).here, False)
        self.assertEqual(zeros, [[0, 0], [0, 0, 0], w])

    def test_what_does_not_fit_several(self):
        for result, says in (
            ("{'xs': parts[:1], 'w': dw}", "the gradient of 'xs' is 1 array, expected 2: there are so many tensors"),
            ("{'xs': (*parts, dy), 'w': dw}", "the gradient of 'xs' is 3 arrays, expected 2: there are so many tensors"),
            ("{'xs': parts, 'v': dw}", "a dict with 'v', which is no input that has a gradient"),
            ("{'xs': parts, 'w': [dw]}", "output 'dw' is a list, expected a numpy array"),
        ):
            module = self.module(result, source=SEVERAL)
            for operator in (module.here, module.apart)[: 2 if says[0] == "t" else 1]:
                with self.subTest(result=result, operator=operator), self.assertRaises(opc.ExecutionError) as raised:
                    self.of_several(operator, False)
                self.assertEqual(raised.exception.code, "OPC0623")
                self.assertIn(says, str(raised.exception))

    def test_what_fits_no_input(self):
        for result, says in (
            ("dy, dy, dy, dy", "4 arrays, expected 2"),
            ("(dy,)", "1 array, expected 2"),
            ("dy", "1 array, expected 2"),
            ("{'a': dy, 'd': dy}", "the gradient rule has returned a dict with 'd', which is no input that has a gradient"),
            ("{'a': dy, 'd': dy}", "help: the names are those of the inputs: a, b"),
            ("{'da': dy, 'a': dy}", "a dict with 'a', which is no input"),
            ("{'da': dy, 3: dy}", "a dict with 3, which is no input"),
        ):
            module = self.module(result)
            for operator in (module.here, module.apart)[: 2 if result[0] == "{" else 1]:
                with self.subTest(result=result, operator=operator), self.assertRaises(opc.ExecutionError) as raised:
                    self.gradients(operator, a=A, b=B)
                self.assertIn(says, str(raised.exception))

    def test_the_command(self):
        module = self.module(FULL[0])
        self.graph(module.here, {"a": A, "b": B}).save(self.path("g.pbtxt"))
        done = self.opc("run", "g.pbtxt", "--op-path", ".", "--input", "a=f32[2]:2,3", "--input", "b=f32[2]:5,7")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("a.grad  f32[2]  [5, 7]", "b.grad  f32[2]  [2, 3]"):
            self.assertIn(line, done.stdout)


if __name__ == "__main__":
    unittest.main()
