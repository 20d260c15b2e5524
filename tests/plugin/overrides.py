# Plugins whose ops have the names of built-in ones: refused, or the plugin's ops win and nothing of the two is mixed.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from plugin_build import build_plugin

SOURCE = os.environ["OPC_SOURCE_DIR"]
BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
OPC = os.environ.get("OPC_BINARY") or os.path.join(BIN, "opc")
scratch = tempfile.TemporaryDirectory()

X = "x=f32[4]:-2,-1,1,2"
GRAPH = '''
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "relu" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "scalar_mul" input { key: "in" value { s: "a/y_0" } }
  attr { key: "has_float_operand" value { at_bool: true } } attr { key: "float_operand" value { at_double: 1 } } } }
op { name: "y" output_conf { in: "b/out_0" out: "out" } }
'''
FUSED = '''
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 1 dim: 8 dim: 2 dim: 2 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 8 dim: 8 dim: 1 dim: 1 } data_type: kFloat initializer { constant_conf { value: 0.5 } } } }
op { name: "conv" user_conf { op_type_name: "conv2d" input { key: "in" value { s: "x/out" } } input { key: "weight" value { s: "w/out" } }
  attr { key: "filters" value { at_int32: 8 } } attr { key: "kernel_size" value { at_list_int32 { val: 1 val: 1 } } } } }
op { name: "a" user_conf { op_type_name: "relu" input { key: "x" value { s: "conv/out_0" } } } }
op { name: "y" output_conf { in: "a/y_0" out: "out" } }
'''


def run(*command, env=None, program=OPC):
    return subprocess.run([program, *command], capture_output=True, text=True, cwd=scratch.name, timeout=120, env={**os.environ, **(env or {})})


def write(name, text):
    with open(os.path.join(scratch.name, name), "w") as f:
        f.write(text)


def setUpModule():
    build_plugin(os.path.join(scratch.name, "libmine.so"), os.path.join(SOURCE, "tests", "plugin", "overrides", "ops.cpp"), "-O0")
    write("graph.pbtxt", GRAPH)


class Overrides(unittest.TestCase):
    def output(self, *command, **given):
        done = run(*command, "--outputs", "y.npz", "--print", "none", **given)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(os.path.join(scratch.name, "y.npz"))["y"].tolist(), done.stderr

    def test_refused_with_the_way_out(self):
        done = run("run", "graph.pbtxt", "--input", X, "--plugin", "libmine.so")
        self.assertEqual(done.returncode, 4, done.stderr)
        for word in ("op 'relu' is registered twice", "built-in", "ops.cpp", "--plugin-overrides libmine.so", "overrides=libmine.so"):
            self.assertIn(word, done.stderr)

    def test_a_library_that_is_called_built_in(self):
        """What is built in is no library, however one is called: the gradient and the lock speak of the plugin."""
        shutil.copy(os.path.join(scratch.name, "libmine.so"), os.path.join(scratch.name, "built-in"))
        flags = ("--plugin-overrides", "built-in")
        self.assertEqual(self.output("run", "graph.pbtxt", "--input", X, *flags)[0], [-20, -10, 10, 20])
        done = run("grad", "graph.pbtxt", "--loss", "b/out_0", "--wrt", "x", "-o", "grad.pbtxt", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("run", "grad.pbtxt", "--input", X, "--outputs", "grad.npz", "--print", "none", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        gradient = [v.tolist() for k, v in dict(np.load(os.path.join(scratch.name, "grad.npz"))).items() if "grad" in k]
        self.assertEqual(gradient, [[7, 7, 7, 7]])
        write("locked.pbtxt", GRAPH)
        env = {"CI": "", "GITHUB_ACTIONS": ""}
        self.assertEqual(run("check", "locked.pbtxt", "--update", *flags, env=env).returncode, 0)
        with open(os.path.join(scratch.name, "locked.opc.lock"), encoding="utf-8") as f:
            tasks = json.load(f)["tasks"]
        self.assertEqual([t.get("from") for t in tasks if "kernel" in t and "relu" in t["kernel"]], ["built-in"])
        self.assertEqual(run("check", "locked.pbtxt", *flags, env=env).returncode, 0)

    def test_what_is_said_of_it(self):
        """By the names that its author and its user know."""
        flags = ("--plugin-overrides", "libmine.so")
        self.assertIn("mine::relu", run("ops", "relu", *flags).stdout)
        self.assertIn("mine::relu  (overrides the built-in relu)\n", run("ops", "show", "relu", *flags).stdout)
        missing = run("plugin", "check", "overrides=libmine.so").stdout
        self.assertIn('REGISTER_USER_KERNEL("relu")', missing)
        self.assertNotIn('("mine::', missing)
        self.assertEqual(run("compile", "graph.pbtxt", "-o", "mine.plan", *flags).returncode, 0)
        for program, command in ((OPC, ["run", "mine.plan"]), (os.path.join(BIN, "opc-runtime"), ["mine.plan"])):
            alone = run(*command, "--input", X, program=program)
            self.assertIn("--plugin-overrides libmine.so", alone.stderr)
            self.assertIn("elsewhere overrides=libmine.so", alone.stderr)

    def test_the_plugin_wins_with_a_note(self):
        y, said = self.output("run", "graph.pbtxt", "--input", X, "--plugin-overrides", "libmine.so")
        self.assertEqual(y, [-20, -10, 10, 20])
        self.assertIn("note: libmine.so overrides the built-in ops relu, relu_grad\n", said)
        _, said = self.output("run", "graph.pbtxt", "--input", X, "--plugin-overrides", "libmine.so", "-q")
        self.assertEqual(said, "")

    def test_built_in_without_it(self):
        self.assertEqual(self.output("run", "graph.pbtxt", "--input", X)[0], [0, 0, 1, 2])

    def test_settings(self):
        expected = [-20, -10, 10, 20]
        self.assertEqual(self.output("run", "graph.pbtxt", "--input", X, env={"OPC_PLUGINS": "overrides=libmine.so"})[0], expected)
        os.makedirs(os.path.join(scratch.name, "project", "lib"), exist_ok=True)
        shutil.copy(os.path.join(scratch.name, "libmine.so"), os.path.join(scratch.name, "project", "lib"))
        write("project/opc.toml", '[target]\nplugins = ["overrides=lib/libmine.so"]\n')
        write("project/graph.pbtxt", GRAPH)
        done = run("-C", "project", "run", "graph.pbtxt", "--input", X, "--outputs", "y.npz", "--print", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(np.load(os.path.join(scratch.name, "project", "y.npz"))["y"].tolist(), expected)

    def test_gradient_is_the_plugins(self):
        done = run("grad", "graph.pbtxt", "--loss", "b/out_0", "--wrt", "x", "-o", "grad.pbtxt", "--plugin-overrides", "libmine.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("run", "grad.pbtxt", "--input", X, "--outputs", "grad.npz", "--print", "none", "--plugin-overrides", "libmine.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = dict(np.load(os.path.join(scratch.name, "grad.npz")))
        gradient = [v.tolist() for k, v in made.items() if "grad" in k]
        self.assertEqual(gradient, [[7, 7, 7, 7]], made)  # relu_grad of this library, whatever its y

    def test_passes_leave_it_alone(self):
        """A convolution takes the built-in relu into its kernel, not what has its name."""
        write("fused.pbtxt", FUSED)
        values = ("run", "fused.pbtxt", "--input", "x=f32[1,8,2,2]:" + ",".join(["-1"] * 16 + ["3"] * 16))
        np.testing.assert_allclose(self.output(*values, "--plugin-overrides", "libmine.so")[0], np.full((1, 8, 2, 2), [[10 * 0.5 * 8]]), rtol=1e-6)
        np.testing.assert_allclose(self.output(*values)[0], np.full((1, 8, 2, 2), 4), rtol=1e-6)
        done = run("compile", "fused.pbtxt", "-o", "fused.plan", "--plugin-overrides", "libmine.so")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_plans_know_which(self):
        done = run("compile", "graph.pbtxt", "-o", "graph.plan", "--plugin-overrides", "libmine.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        for program, flag in ((os.path.join(BIN, "opc-runtime"), ("--plugin", "overrides=libmine.so")), (OPC, ("--plugin-overrides", "libmine.so"))):
            arguments = ("graph.plan", "--input", X, *flag)
            y, _ = self.output(*(arguments if program != OPC else ("run", *arguments)), program=program)
            self.assertEqual(y, [-20, -10, 10, 20])
        done = run("run", "graph.plan", "--input", X)  # not the built-in under the same name
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mine::relu", done.stderr)

    def test_reports(self):
        shown = json.loads(run("ops", "show", "relu", "--json", "--plugin-overrides", "libmine.so").stdout)["op"]
        self.assertEqual((shown["name"], shown["library"]), ("mine::relu", "libmine.so"))
        self.assertEqual({k["origin"] for k in shown["kernels"]}, {"libmine.so"})
        checked = run("plugin", "check", "overrides=libmine.so")
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("overrides the built-in relu, relu_grad", checked.stdout)
        self.assertIn("op times_three", checked.stdout)

    def test_two_that_override_one(self):
        shutil.copy(os.path.join(scratch.name, "libmine.so"), os.path.join(scratch.name, "libother.so"))
        done = run("ops", "--plugin-overrides", "libmine.so", "--plugin-overrides", "libother.so")
        self.assertEqual(done.returncode, 4, done.stderr)
        for word in ("overridden twice", "libmine.so", "libother.so"):
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
