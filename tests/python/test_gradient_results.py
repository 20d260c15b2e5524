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
A, B, C = (np.array(v, "f") for v in ([2, 3], [5, 7], [1, 1]))
COUNT = itertools.count()  # of modules, so that no operator replaces another
FULL = ("dy * b, dy * a, dy", "[dy * b, dy * a, dy]", "{'a': dy * b, 'b': dy * a, 'c': dy}", "{'da': dy * b, 'db': dy * a, 'dc': dy}")


class Results(StyleTest):
    def module(self, result, optional="('c',)"):
        name = f"results_{next(COUNT)}"
        text = (SOURCE.replace("RESULT", result) + OPERATORS.replace("OPTIONAL", optional)).replace("results::", f"{name}::")
        path = self.write(f"{name}.py", text)
        spec = importlib.util.spec_from_file_location(name, path)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

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

    def test_what_fits_no_input(self):
        for result, says in (
            ("dy, dy, dy, dy", "4 arrays, expected 2"),
            ("(dy,)", "1 array, expected 2"),
            ("dy", "1 array, expected 2"),
            ("{'a': dy, 'd': dy}", "a dict of 2 arrays, and 1 of its names are outputs"),
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
