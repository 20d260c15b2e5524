# opc debug first-diff: an error planted in op 40 of 60 is named by every way of running that can show it.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "plugin"))
import build_and_load as base

scratch = base.scratch.name
LIB = []


def setUpModule():
    LIB.append(base.build("libplanted.so", os.path.join(base.BAD, "planted.cpp")))


def opc(*args):
    return base.opc(*args, plugins=LIB)


def write(name, planted, wrong_at=40, count=60, more=""):
    """x -> 60 ops, each of which adds its number / 100, but for the one that is planted -> y."""
    path = os.path.join(scratch, name + ".pbtxt")
    ops = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 8 dim: 4 } data_type: kFloat } } }']
    last = "x/out"
    for i in range(1, count + 1):
        if i == wrong_at:
            kind, arg, out, attr = planted, "x", "y", ""
        else:
            kind, arg, out = "scalar_add", "in", "out"
            attr = ' attr { key: "has_float_operand" value { at_bool: true } } attr { key: "float_operand" value { at_double: %g } }' % (i / 100)
        ops.append(f'op {{ name: "op{i}" user_conf {{ op_type_name: "{kind}" input {{ key: "{arg}" value {{ s: "{last}" }} }}'
                   f' output {{ key: "{out}" value {{ s: "op{i}/{out}_0" }} }}{attr} }} }}')
        last = f"op{i}/{out}_0"
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(ops) + f'\nop {{ name: "result" output_conf {{ in: "{last}" out: "out" }} }}\n' + more)
    return path


class PlantedErrors(unittest.TestCase):
    def names(self, graph, *args, others=0, isolated=True, values=1):
        """The planted op is the first; `others` ops after it differ, too."""
        done = opc("debug", "first-diff", graph, "--fill", "rand", "--seed", "3", *args)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("first difference: op40/y_0, made by op op40 (planted_"), done.stdout)
        self.assertIn(os.path.basename(graph) + ":41:1\n", done.stdout.splitlines(True)[0])
        self.assertIn(f"op40/y_0: {values} of 32 values differ", done.stdout)
        found = json.loads(opc("debug", "first-diff", graph, "--fill", "rand", "--seed", "3", "--json", *args).stdout)
        self.assertEqual(found["differences"][0]["op"], "op40")
        self.assertEqual(found["isolated"], isolated)
        self.assertEqual(len(found["differences"]), 1 + others)
        self.assertAlmostEqual(found["differences"][0]["max_abs"], 1, places=5)
        self.assertEqual("the op had the reference's inputs" in done.stdout, isolated)
        return done

    def agrees(self, graph, *args):
        done = opc("debug", "first-diff", graph, "--fill", "rand", "--seed", "3", *args)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no difference: ", done.stderr)

    def test_in_another_element_type(self):
        graph = write("in_float", "planted_float")
        self.names(graph, "--no-fuse", "--reference", "f64")
        self.names(graph, "--no-fuse", "--reference", "f64", "--chain", others=20, isolated=False)
        self.agrees(graph)  # both runs are wrong alike

    def test_on_threads(self):
        graph = write("on_threads", "planted_threads")
        self.names(graph, "-j", "2", "--no-fuse")
        self.names(graph, "-j", "2", "--reference", "one-thread")
        self.names(graph, "-j", "2", "--reference", "one-thread", "--chain", others=20, isolated=False)
        self.agrees(graph, "-j", "1")

    def test_in_place(self):
        graph = write("in_place", "planted_inplace")
        self.names(graph)
        self.names(graph, "--no-simplify")
        self.names(graph, "--chain", others=20, isolated=False)

    def test_on_ranks(self):
        graph = write("on_ranks", "planted_part")
        pin = ["--sbp", "op39/out_0=S(0)"]
        done = self.names(graph, "--mesh", "2", *pin, others=20, isolated=False, values=2)
        self.assertIn("then op41/out_0 by scalar_add", done.stdout)
        self.agrees(graph)

    def test_an_old_plan_and_captured_tensors(self):
        graph = write("today", "planted_inplace")
        before = write("before", "planted_part")  # whose error eight rows do not show
        plan = os.path.join(scratch, "before.plan")
        done = opc("compile", before, "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.names(graph, "--reference", plan)
        self.names(graph, "--reference", before)
        folder = os.path.join(scratch, "captured")
        done = opc("run", before, "--fill", "rand", "--seed", "3", "--capture", f"*={folder}", "--print", "none", "--no-simplify")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.names(graph, "--reference", folder)
        # Another tool's folder: a file for an op.
        flat = os.path.join(scratch, "flat")
        os.makedirs(flat)
        for i in range(1, 61):
            np.save(os.path.join(flat, f"op{i}.npy"), np.load(os.path.join(folder, f"op{i}", "y_0.npy" if i == 40 else "out_0.npy")))
        self.names(graph, "--reference", flat)
        self.names(graph, "--reference", flat, "--chain", others=20, isolated=False)

    def test_a_training_step(self):
        """Updates of variables are compared, and both runs begin with the same ones."""
        graph = os.path.join(scratch, "trains.pbtxt")
        with open(write("forward", "planted_inplace"), encoding="utf-8") as f:
            text = f.read()
        variable = ('op { name: "w" variable_conf { out: "out" shape { dim: 8 dim: 4 } data_type: kFloat initializer { random_normal_conf { std: 1 } } } }\n'
                    'op { name: "op0" user_conf { op_type_name: "multiply" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } } output { key: "z" value { s: "op0/z_0" } } } }\n'
                    'op { name: "loss" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "squares/z_0" } } output { key: "output_tensor" value { s: "loss/output_tensor_0" } } attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } } }\n'
                    'op { name: "squares" user_conf { op_type_name: "multiply" input { key: "x" value { s: "op0/z_0" } } input { key: "y" value { s: "op0/z_0" } } output { key: "z" value { s: "squares/z_0" } } } }\n')
        with open(graph, "w", encoding="utf-8") as f:
            f.write(text + variable)
        step = os.path.join(scratch, "step.pbtxt")
        done = opc("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", step)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = opc("debug", "first-diff", step, "--fill", "rand", "--json")
        found = json.loads(done.stdout)
        self.assertEqual([d["op"] for d in found["differences"]], ["op40"], done.stdout)
        self.assertGreater(found["compared"], 60)
        # A step that differs in nothing but its rate gives another variable, and the same tensors before it.
        faster = os.path.join(scratch, "faster.pbtxt")
        self.assertEqual(opc("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.2", "-o", faster).returncode, 0)
        found = json.loads(opc("debug", "first-diff", step, "--fill", "rand", "--json", "--chain", "--reference", faster).stdout)
        self.assertIn("w/out (updated)", [d["tensor"] for d in found["differences"]])


class Refusals(unittest.TestCase):
    def refused(self, code, *args, text):
        done = opc("debug", *args)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    def test_what_cannot_be_compared(self):
        graph = write("plain", "planted_inplace")
        plan = os.path.join(scratch, "plain.plan")
        self.assertEqual(opc("compile", graph, "-o", plan).returncode, 0)
        empty = os.path.join(scratch, "empty")
        os.makedirs(empty, exist_ok=True)
        self.refused(2, "first-dif", graph, text="opc debug does not know 'first-dif'")
        self.refused(2, "first-diff", graph, text="OPC0004")  # no value for x
        self.refused(2, "first-diff", plan, "--fill", "rand", text="--reference plain needs the graph")
        self.refused(2, "first-diff", plan, "--fill", "rand", "--reference", plan, "--mesh", "2", text="--mesh needs the graph")
        self.refused(2, "first-diff", graph, "--fill", "rand", "--reference", "f65", text="or a plan, graph or folder that exists, not 'f65'")
        self.refused(2, "first-diff", graph, "--fill", "rand", "--reference", empty, text="nothing to compare: the tensors in")
        self.refused(2, "first-diff", graph, "--fill", "rand", "--rtol", "-1", text="--rtol takes a number that is not negative")
        self.refused(2, "first-diff", graph, "--fill", "rand", "--shape", "x=1..8,4", text="one size, not at a range")
        self.refused(2, "first-diff", graph, "--fill", "rand", "--atol", "nothing/y_0:1", text="the graph has no tensor 'nothing/y_0' (--atol nothing/y_0:X)")
        with open(os.path.join(empty, "op1.npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00v\x00{'descr'")
        self.refused(3, "first-diff", graph, "--fill", "rand", "--reference", empty, text="op1.npy")


if __name__ == "__main__":
    unittest.main(verbosity=2)
