# Gradient rules and SBP signatures in plugins: what right ones give, and what is said of wrong ones.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from plugin_build import build_plugin

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
scratch = tempfile.TemporaryDirectory()
LIBRARY = os.path.join(scratch.name, "libgradients.so")


def opc(*args):
    return subprocess.run([OPC, *args, "--plugin", LIBRARY], capture_output=True, text=True, cwd=scratch.name, timeout=120)


def graph(op_type, name="y"):
    path = os.path.join(scratch.name, op_type + ".pbtxt")
    with open(path, "w") as f:
        f.write(f'''op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 5 }} data_type: kFloat }} }} }}
op {{ name: "{name}" user_conf {{ op_type_name: "{op_type}" input {{ key: "in" value {{ s: "x/out" }} }} output {{ key: "out" value {{ s: "{name}/out_0" }} }} }} }}
op {{ name: "result" output_conf {{ in: "{name}/out_0" out: "out" }} }}
''')
    return path


def setUpModule():
    build_plugin(LIBRARY, os.path.join(SOURCE, "tests", "plugin", "gradients", "ops.cpp"))


class RightRules(unittest.TestCase):
    def check_values(self, op_type):
        made = os.path.join(scratch.name, op_type + ".grad.pbtxt")
        done = opc("grad", graph(op_type), "--loss", "result", "--wrt", "x", "-o", made)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(made) as f:
            text = f.read()
        self.assertIn('"multiply"', text)
        self.assertIn('"scalar_mul"', text)
        self.assertNotIn("never_asked_for", text)
        out = os.path.join(scratch.name, op_type + ".npz")
        done = opc("run", made, "--input", "x=f32[5]:-2,-1,0,1,2", "--outputs", out, "--print", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        values = np.load(out)
        np.testing.assert_array_equal(values["result"], [12, 3, 0, 3, 12])
        np.testing.assert_array_equal(values["x.grad"], [-12, -6, 0, 6, 12])
        done = opc("grad", graph(op_type), "--loss", "result", "--wrt", "x", "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_new_style(self):
        self.check_values("g_right")

    def test_old_style(self):
        self.check_values("g_old_style")

    def test_second_derivative(self):
        # Rules name their ops after the forward op, so the second use of a name must not clash with the first.
        made = os.path.join(scratch.name, "second.pbtxt")
        done = opc("grad", graph("g_right"), "--loss", "result", "--wrt", "x", "--order", "2", "-o", made)
        self.assertEqual(done.returncode, 0, done.stderr)
        out = os.path.join(scratch.name, "second.npz")
        done = opc("run", made, "--input", "x=f32[5]:-2,-1,0,1,2", "--outputs", out, "--print", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(out)["x.grad.grad"], [6] * 5)

    def test_names_that_are_taken(self):
        path = os.path.join(scratch.name, "taken.pbtxt")
        with open(graph("g_right")) as f, open(path, "w") as g:
            g.write(f.read() + 'op { name: "y_product" user_conf { op_type_name: "relu" input { key: "x" value { s: "x/out" } } } }\n')
        made = os.path.join(scratch.name, "taken.grad.pbtxt")
        done = opc("grad", path, "--loss", "result", "--wrt", "x", "-o", made)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = opc("run", made, "--input", "x=f32[5]:-2,-1,0,1,2", "--expect", "x.grad=f32[5]:-12,-6,0,6,12", "--print", "none")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def beside(op_type, more):
    """The graph of g_right with more ops."""
    path = os.path.join(scratch.name, op_type + ".beside.pbtxt")
    with open(graph("g_right")) as f, open(path, "w") as g:
        g.write(f.read() + more)
    return path


class CheckInDouble(unittest.TestCase):
    """--check computes in f64, whatever the graph says."""

    def test_the_op_is_named(self):
        done = opc("grad", graph("g_float_only"), "--loss", "result", "--wrt", "x", "--check")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        for word in ("OPC0411", "g_float_only", "g_float_only.pbtxt:2:1", "--check computes in f64", "kernel for double"):
            self.assertIn(word, done.stderr)
        # The same words do not stand where f64 is the graph's own.
        with open(graph("g_float_only")) as f:
            text = f.read().replace("kFloat", "kDouble")
        path = os.path.join(scratch.name, "double.pbtxt")
        with open(path, "w") as f:
            f.write(text)
        done = opc("run", path, "--fill", "rand")
        self.assertIn("OPC0411", done.stderr)
        self.assertNotIn("--check", done.stderr)

    def test_ops_off_the_path_are_left_out(self):
        side = ('op {{ name: "z" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 5 }} data_type: kFloat }} }} }}\n'
                'op {{ name: "side" user_conf {{ op_type_name: "{}" input {{ key: "in" value {{ s: "{}" }} }} '
                'output {{ key: "out" value {{ s: "side/out_0" }} }} }} }}\nop {{ name: "also" output_conf {{ in: "side/out_0" }} }}\n')
        for op_type in ("g_float_only", "no_such_op"):
            for reads in ("y/out_0", "z/out"):  # what the loss's path makes, and an input of its own
                path = beside(op_type, side.format(op_type, reads))
                for loss in ("result", "y", "y/out_0"):
                    with self.subTest(op_type, reads=reads, loss=loss):
                        done = opc("grad", path, "--loss", loss, "--wrt", "x", "--check", "--input", "z=f32[5]:1,2,3,4,5")
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        self.assertRegex(done.stdout, r"x +f64\[5\] +ok +5 of 5")
        path = beside("g_float_only", side.format("g_float_only", "z/out"))
        done = opc("grad", path, "--loss", "result", "--wrt", "*", "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the loss does not", done.stdout)
        done = opc("grad", path, "--loss", "result", "--wrt", "x", "--check", "--input", "nobody=1")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("nobody", done.stderr)

    def test_a_wrong_rule_is_found_beside_them(self):
        path = os.path.join(scratch.name, "wrong.beside.pbtxt")
        with open(graph("g_wrong_sign")) as f, open(path, "w") as g:
            g.write(f.read() + 'op { name: "side" user_conf { op_type_name: "g_float_only" input { key: "in" value { s: "y/out_0" } } '
                    'output { key: "out" value { s: "side/out_0" } } } }\nop { name: "also" output_conf { in: "side/out_0" } }\n')
        done = opc("grad", path, "--loss", "result", "--wrt", "x", "--check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("its rule gives", done.stdout)


class States(unittest.TestCase):
    def test_differences_are_of_runs_from_the_same_state(self):
        for op_type, code, words in (("g_growing", 0, r"x +f64\[5\] +ok +5 of 5"), ("g_growing_wrong", 1, "its rule gives")):
            path = os.path.join(scratch.name, op_type + ".pbtxt")
            with open(path, "w") as f:
                f.write(f'''op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 5 }} data_type: kDouble }} }} }}
op {{ name: "n" variable_conf {{ out: "out" shape {{ dim: 1 }} data_type: kDouble initializer {{ constant_conf {{ value: 0 }} }} trainable: false }} }}
op {{ name: "y" user_conf {{ op_type_name: "{op_type}" input {{ key: "in" value {{ s: "x/out" }} }} input {{ key: "n" value {{ s: "n/out" }} }} output {{ key: "out" value {{ s: "y/out_0" }} }} }} }}
op {{ name: "result" output_conf {{ in: "y/out_0" out: "out" }} }}
''')
            done = opc("grad", path, "--loss", "result", "--wrt", "x", "--check", "--input", "x=f32[5]:-2,-1,0.5,1,2", "--input", "n=f64[1]:0")
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertRegex(done.stdout, words)


class Kinks(unittest.TestCase):
    def test_a_check_that_compared_nothing_is_none(self):
        path = os.path.join(scratch.name, "kinks.pbtxt")
        with open(graph("g_right")) as f, open(path, "w") as g:
            g.write(f.read().replace('"g_right" input { key: "in"', '"relu" input { key: "x"').replace('output { key: "out" value { s: "y/out_0" } } ', "").replace("y/out_0", "y/y_0"))
        for x, code, words in (("0,0,0,0,0", 2, "OPC0506]: there is nothing to compare: x: all elements are at kinks or edges of the loss"), ("0,0,1,-1,0", 0, "2 of 5")):
            done = opc("grad", path, "--loss", "result", "--wrt", "x", "--check", "--input", "x=f32[5]:" + x)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(words, done.stdout + done.stderr)


class WrongRules(unittest.TestCase):
    def test_wrong_sign_is_caught_and_named(self):
        done = opc("grad", graph("g_wrong_sign"), "--loss", "result", "--wrt", "x", "--check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("WRONG", done.stdout)
        self.assertIn("g_wrong_sign", done.stdout)

    def refused(self, op_type, *words):
        done = opc("grad", graph(op_type), "--loss", "result", "--wrt", "x", "-o", "never.pbtxt")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertFalse(os.path.exists(os.path.join(scratch.name, "never.pbtxt")))
        for w in (op_type + ".pbtxt:2:1", op_type) + words:
            self.assertIn(w, done.stderr)

    def test_no_rule(self):
        self.refused("g_none", "OPC0501", "REGISTER_USER_OP_GRAD")

    def test_no_binding(self):
        # Allowed, as in OneFlow: zeros, and a word about them.
        made, out = (os.path.join(scratch.name, n) for n in ("unbound.pbtxt", "unbound.npz"))
        done = opc("grad", graph("g_unbound"), "--loss", "result", "--wrt", "x", "-o", made)
        self.assertEqual(done.returncode, 0, done.stderr)
        for w in ("OPC0510", "binds no gradient to input 'in' (index 0)", "ops.cpp", "g_unbound.pbtxt:2:1"):
            self.assertIn(w, done.stderr)
        done = opc("run", made, "--input", "x=f32[5]:-2,-1,0,1,2", "--outputs", out, "--print", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(out)["x.grad"], [0] * 5)

    def test_a_binding_to_an_input_that_there_is_not(self):
        self.refused("g_misspelt", "OPC0504", "ops.cpp", "asks for the gradient of input 'inn', which the op does not have")

    def test_short_rules(self):
        self.refused("g_short_bind", "OPC0504", "ops.cpp", "input 'inn', which the op does not have", "did you mean 'in'?")
        self.refused("g_short_needs", "OPC0504", "ops.cpp", "input 'inn', which the op does not have")
        self.refused("g_short_output", "OPC0504", "ops.cpp", "its op relu has no output 'out'; its outputs: y")
        self.refused("g_short_index", "OPC0504", "ops.cpp", "its op relu has no output 'y' with index 1; its outputs: y")
        self.refused("g_short_input", "OPC0504", "ops.cpp", "relu: input 'x' is missing, and there is no input 'zz'", "did you mean 'x'?")
        done = opc("grad", graph("g_short_optional"), "--loss", "result", "--wrt", "x", "-o", os.path.join(scratch.name, "optional.pbtxt"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("warning", done.stderr)

    def test_exception(self):
        self.refused("g_throws", "OPC0504", "the rule gave up")

    def test_tensor_of_nobody(self):
        self.refused("g_no_such_tensor", "OPC0504", "nobody/out_0")

    def test_no_such_input(self):
        self.refused("g_no_such_input", "OPC0504", "'inn'")

    def test_no_such_output(self):
        self.refused("g_no_such_output", "OPC0504", "'outt'")

    def test_bound_twice(self):
        self.refused("g_twice", "OPC0504", "twice")

    def test_op_that_was_not_defined(self):
        self.refused("g_not_defined", "OPC0504", "has not been defined")

    def test_unknown_op(self):
        self.refused("g_unknown_op", "multipli")

    def test_wrong_shape(self):
        self.refused("g_wrong_shape", "OPC0504", "f32[]", "f32[5]")


class OtherCallbacks(unittest.TestCase):
    def test_what_is_said_of_them(self):
        for op_type, code, words in (("m_misspelt", 3, "OPC0203]: m_misspelt: its SetInputArgModifyFn names 'inn', which is no input of the op"),
                                     ("m_throws", 3, "OPC0203]: m_throws: its SetInputArgModifyFn failed: exception: gave up"),
                                     ("m_output", 3, "OPC0203]: m_output: its SetOutputArgModifyFn names 'outt', which is no output of the op"),
                                     ("t_throws", 4, "OPC0412]: t_throws: the kernel's function for temporary memory failed: exception: gave up"),
                                     ("p_misspelt", 4, "OPC0412]: p_misspelt: the kernel's proposal of results in place names 'inn', which is no input of the op"),
                                     ("p_misspelt_output", 4, "OPC0412]: p_misspelt_output: the kernel's proposal of results in place names 'outt', which is no output of the op"),
                                     ("p_throws", 4, "OPC0412]: p_throws: the kernel's proposal of results in place failed: exception: gave up"),
                                     ("k_condition", 4, 'OPC0411]: the condition of a kernel for "k_condition" failed: no attribute \'no_such\''),
                                     ("k_two", 4, 'OPC0417]: two cpu kernels for "k_two" fit equally well: ')):
            for command in ("compile", "run"):
                with self.subTest(op_type, command=command):
                    done = opc(command, graph(op_type), *(["-o", "never.plan"] if command == "compile" else ["--fill", "ones"]))
                    self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertIn(op_type + ".pbtxt:2:1", done.stderr)


    def test_a_higher_priority_decides(self):
        done = opc("run", graph("k_three"), "--fill", "ones")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[3, 3, 3, 3, 3]", done.stdout)


class Signatures(unittest.TestCase):
    def test_softmax_on_its_own_axis_is_refuted(self):
        done = opc("verify", "s_softmax")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("(S(1)) -> (S(1))", done.stdout)
        for word in ("s_softmax", "REFUTED", "case rows on 2 parts", "f64[4,5]", "differs first at [0, 0]"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("(S(0)) -> (S(0))", done.stdout) # that one holds

    def test_a_square_is_not_linear(self):
        done = opc("verify", "s_square", "--json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        verdicts = {c["signature"]: c["verdict"] for c in json.loads(done.stdout)["signatures"]}
        flat = {s: v for s, v in verdicts.items() if "[" not in s}
        self.assertEqual(flat, {"(S(0)) -> (S(0))": "sound", "(P) -> (P)": "unsound"})
        # On meshes of two dimensions only what the refuted one is no part of is tried.
        both = {s: v for s, v in verdicts.items() if "[" in s}
        self.assertEqual(set(both.values()), {"sound"})
        self.assertFalse([s for s in both if "P" in s])

    def test_a_rule_that_does_not_fit(self):
        done = opc("verify", "s_rule")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("'a b c'", done.stdout)

    def test_names_and_outputs_that_are_not_right(self):
        """What a signature leaves open would be taken for whole on every device, with the values of one part."""
        for op_type, words in (("s_misspelt", "a state of 'outt', which is no input or output of it"), ("s_forgotten", "no state of the output 'out' 0"),
                               ("s_index", "a state of 'out' 1, of which there are 1"), ("s_input", "a state of 'inn', which is no input or output of it")):
            for command in (["run", graph(op_type), "--fill", "ones", "--ranks", "2", "--in-process"], ["show", graph(op_type), "--what", "sbp", "--mesh", "2"]):
                with self.subTest(op_type, command=command[0]):
                    done = opc(*command)
                    self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                    for word in ("OPC0301", f"op type '{op_type}': its SBP function lists (", words):
                        self.assertIn(word, done.stderr)
        done = opc("run", graph("s_right"), "--input", "x=f32[5]:-2,-1,0,1,2", "--ranks", "2", "--in-process", "--expect", "result=f32[5]:12,3,0,3,12")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_ops_without_cases(self):
        done = opc("verify", "g_right")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no cases", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
