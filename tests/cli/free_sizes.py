# Sizes in a range: one plan gives, bit for bit, what plans of fixed shapes give, in the same memory; what does not fit is refused.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["OPC_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["OPC_BUILD_DIR"]) / "bin"
DIGITS = SOURCE / "docs/examples/digits"
MAKE = SOURCE / "docs/examples/models/make_models.py"


def tensor(name, dims, kind="input"):
    shape = "shape { " + " ".join(f"dim: {d}" for d in dims) + " } data_type: kFloat"
    conf = f"input_conf {{ out: \"out\" blob_conf {{ {shape} }} }}" if kind == "input" else f"variable_conf {{ out: \"out\" {shape} }}"
    return f'op {{ name: "{name}" {conf} }}\n'


def op(name, kind, inputs, output, attrs=""):
    bound = "".join(f'input {{ key: "{a}" value {{ s: "{t}" }} }} ' for a, t in inputs)
    return (f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {bound}output {{ key: "{output}" value '
            f'{{ s: "{name}/{output}_0" }} }} {attrs} }} }}\n')


def shape_attr(*dims):
    return 'attr { key: "shape" value { at_shape { ' + " ".join(f"dim: {d}" for d in dims) + " } } }"


def result(name, of):
    return f'op {{ name: "{name}" output_conf {{ in: "{of}" out: "out" }} }}\n'


class FreeSizes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def run_tool(self, *arguments, tool="opc"):
        options = ["--config", "none"] if tool == "opc" else []
        return subprocess.run([str(BIN / tool), *map(str, arguments), *options], capture_output=True, text=True, timeout=300)

    def succeeds(self, *arguments, tool="opc"):
        done = self.run_tool(*arguments, tool=tool)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, code, words, *arguments, tool="opc"):
        done = self.run_tool(*arguments, tool=tool)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def graph(self, *lines):
        path = self.scratch / "g.pbtxt"
        path.write_text("".join(lines))
        return path

    def save(self, array):
        path = self.scratch / "in.npy"
        np.save(path, array)
        return path

    # --- bits and bytes -----------------------------------------------------------------------------------------------
    def same_as_fixed(self, graph, weights, name, rest, output):
        """For 1, 7, 63 and 64 rows of input `name`."""
        ranged, random = self.scratch / "ranged.plan", np.random.RandomState(3)
        shape = lambda n: f"{name}={n}," + ",".join(map(str, rest))
        made = json.loads(self.succeeds("compile", graph, "--shape", shape("1..64"), "-o", ranged, "--json").stdout)
        for n in (1, 7, 63, 64):
            with self.subTest(graph.stem, n=n):
                fixed = self.scratch / "fixed.plan"
                alone = json.loads(self.succeeds("compile", graph, "--shape", shape(n), "-o", fixed, "--json").stdout)
                if n == 64:  # a batch of known size may be computed in parts, in less memory
                    parts = json.loads(self.succeeds("show", graph, "--shape", shape(n), "--what", "fusion", "--json").stdout)["fusion"]["parts"]
                    compare = self.assertGreater if parts else self.assertEqual
                    compare(made["memory"]["arena_bytes"], alone["memory"]["arena_bytes"])
                x = self.save(random.standard_normal((n, *rest)).astype("f4"))
                out = self.scratch / f"{output}.npy"
                given = ["--weights", weights, "--input", f"{name}=@{x}", "--outputs", self.scratch]
                self.succeeds(fixed, *given, tool="opc-runtime")
                want = out.read_bytes()
                self.assertEqual(np.load(out).shape[0], n)
                for way in (["opc-runtime", ranged], ["opc", "run", ranged], ["opc", "run", graph, "--shape", shape("1..64")]):
                    out.unlink()
                    self.succeeds(*way[1:], *given, tool=way[0])
                    self.assertEqual(out.read_bytes(), want, way)

    def test_perceptron(self):
        self.same_as_fixed(DIGITS / "mlp.pbtxt", DIGITS / "mlp_weights.npz", "image", (64,), "logits")

    def test_convolutions(self):
        self.same_as_fixed(DIGITS / "cnn.pbtxt", DIGITS / "cnn_weights.npz", "image", (64,), "logits")

    def test_models(self):
        subprocess.run([sys.executable, MAKE, self.scratch, "--tiny", "--batch", "64"], check=True)
        for model, rest in {"encoder": (16, 32), "gpt": (16, 32), "mlp": (48,), "resnet50": (3, 32, 32), "mobilenet": (3, 32, 32)}.items():
            self.same_as_fixed(self.scratch / f"{model}_b64.pbtxt", self.scratch / f"{model}.safetensors", "x", rest, "y")

    def test_images_of_any_size(self):
        """Strides make quotients: (h + 1) / 2."""
        conv = ('attr { key: "filters" value { at_int32: 4 } } attr { key: "padding_before" value { at_list_int32 { val: 1 val: 1 } } } '
                'attr { key: "kernel_size" value { at_list_int32 { val: 3 val: 3 } } } attr { key: "strides" value { at_list_int32 { val: 2 val: 2 } } } '
                'attr { key: "dilation_rate" value { at_list_int32 { val: 1 val: 1 } } } attr { key: "data_format" value { at_string: "channels_first" } } '
                'attr { key: "groups" value { at_int32: 1 } }')
        graph = self.graph(tensor("x", (2, 3, 32, 32)), tensor("w", (4, 3, 3, 3), "variable"),
                           op("c", "conv2d", [("in", "x/out"), ("weight", "w/out")], "out", conv),
                           op("r", "relu", [("x", "c/out_0")], "y"), result("y", "r/y_0"))
        plan, random = self.scratch / "images.plan", np.random.RandomState(5)
        self.succeeds("compile", graph, "--shape", "x=1..3,3,h:4..40,w:4..40", "-o", plan)
        self.assertIn("f32[x.0,4,(h+1)/2,(w+1)/2]", self.succeeds("show", plan).stdout)
        weights = self.scratch / "w.npz"
        np.savez(weights, w=random.standard_normal((4, 3, 3, 3)).astype("f4"))
        for n, h, w in ((1, 4, 4), (2, 31, 8), (3, 40, 40), (3, 5, 39)):
            x = self.save(random.standard_normal((n, 3, h, w)).astype("f4"))
            given = ["--weights", weights, "--input", f"x=@{x}", "--output", f"y={self.scratch}/y.npy", "--print", "none"]
            self.succeeds("run", plan, *given)
            got = (self.scratch / "y.npy").read_bytes()
            self.succeeds("run", graph, "--shape", f"x={n},3,{h},{w}", *given)
            self.assertEqual(got, (self.scratch / "y.npy").read_bytes(), (n, h, w))

    # --- what passes must not decide by chance ------------------------------------------------------------------------
    def test_equal_by_chance(self):
        """With 64 rows the reshape moves nothing; with any other number it does."""
        transpose = 'attr { key: "perm" value { at_list_int32 { val: 1 val: 0 } } }'
        graph = self.graph(tensor("x", (64, 64)), op("view", "reshape", [("in", "x/out")], "out", shape_attr(64, -1)),
                           op("t", "transpose", [("input", "view/out_0")], "output", transpose),
                           op("flat", "reshape", [("in", "t/output_0")], "out", shape_attr(-1)), result("y", "flat/out_0"))
        for n in (64, 7, 1):
            x = np.arange(n * 64, dtype="f4").reshape(n, 64)
            self.succeeds("run", graph, "--shape", "x=1..64,64", "--input", f"x=@{self.save(x)}", "--output",
                          f"y={self.scratch}/y.npy", "--print", "none")
            np.testing.assert_array_equal(np.load(self.scratch / "y.npy"), x.reshape(64, -1).T.reshape(-1))

    def test_memory_shared_by_chance(self):
        """A sum may be made in place where both have 64 rows, which is so by chance: w has one row."""
        graph = self.graph(tensor("x", (64, 8)), tensor("w", (1, 8), "variable"), op("a", "relu", [("x", "w/out")], "y"),
                           op("b", "relu", [("x", "x/out")], "y"), op("s", "broadcast_add", [("x", "a/y_0"), ("y", "b/y_0")], "z"),
                           result("y", "s/z_0"))
        w = np.linspace(-1, 1, 8, dtype="f4")[None]
        np.savez(self.scratch / "w.npz", w=w)
        plan = self.scratch / "sum.plan"
        self.succeeds("compile", graph, "--shape", "x=1..64,8", "-o", plan)
        for n in (1, 2, 64):
            x = np.random.RandomState(n).standard_normal((n, 8)).astype("f4")
            self.succeeds("run", plan, "--weights", self.scratch / "w.npz", "--input", f"x=@{self.save(x)}", "--output",
                          f"y={self.scratch}/y.npy", "--print", "none")
            np.testing.assert_array_equal(np.load(self.scratch / "y.npy"), np.maximum(x, 0) + np.maximum(w, 0))

    def test_shared_size(self):
        graph = self.graph(tensor("x", (8, 3)), tensor("y", (8, 3)), op("s", "broadcast_add", [("x", "x/out"), ("y", "y/out")], "z"),
                           result("z", "s/z_0"))
        plan = self.scratch / "sum.plan"
        self.refused(3, ["OPC0203", "x.0 = ", "share a name"], "compile", graph, "--shape", "x=1..8,3", "--shape", "y=1..8,3", "-o", plan)
        self.refused(3, ["OPC0203", "note: the shapes are those of the largest sizes: x.0 = 8 of 1..8"], "compile", graph, "--shape", "x=1..8,2", "-o", plan)
        self.succeeds("compile", graph, "--shape", "x=n:1..8,3", "--shape", "y=n,3", "-o", plan)
        done = self.succeeds("run", plan, "--input", "x=f32[2,3]:1,2,3,4,5,6", "--input", "y=1", "--print", "all")
        self.assertIn("[2, 3, 4]", done.stdout)
        self.refused(2, ["OPC0704", "input 'x' is f32[2,3] (f32[n,3]) and input 'y' is f32[4,3] (f32[n,3]): they disagree about n"],
                     "run", plan, "--input", "x=f32[2,3]:1", "--input", "y=f32[4,3]:1")

    # --- the command line ---------------------------------------------------------------------------------------------
    def test_outside_the_range(self):
        plan = self.scratch / "mlp.plan"
        self.succeeds("compile", DIGITS / "mlp.pbtxt", "--shape", "image=n:2..64,64", "-o", plan)
        given = ["--weights", DIGITS / "mlp_weights.npz", "--input"]
        for tool, words in (("opc", ["run"]), ("opc-runtime", [])):
            for n in (1, 65):
                self.refused(2, ["OPC0704", f"input 'image' is f32[{n},64], expected f32[n,64] with n from 2 to 64"],
                             *words, plan, *given, f"image=f32[{n},64]:1", tool=tool)
            self.refused(2, ["OPC0704", "input 'image' is f32[2,63], expected f32[n,64]"], *words, plan, *given, "image=f32[2,63]:1", tool=tool)
            # Without a shape a value is for the largest size.
            self.assertIn("f32[64,10]", self.succeeds(*words, plan, *given, "image=1", tool=tool).stdout)

    def test_expectations(self):
        plan = self.scratch / "mlp.plan"
        self.succeeds("compile", DIGITS / "mlp.pbtxt", "--shape", "image=1..400,64", "-o", plan)
        images, logits = np.load(DIGITS / "test_images.npy"), np.load(DIGITS / "mlp_test_logits.npy")
        for n in (360, 11):
            np.save(self.scratch / "want.npy", logits[:n])
            self.succeeds("run", plan, "--weights", DIGITS / "mlp_weights.npz", "--input", f"image=@{self.save(images[:n])}",
                          "--expect", f"logits=@{self.scratch}/want.npy", "--rtol", "1e-4", "--atol", "1e-4")
        self.succeeds("run", DIGITS / "mlp.pbtxt", "--shape", "image=1..64,64", "--weights", DIGITS / "mlp_weights.npz",
                      "--input", "image=f32[3,64]:rand", "--reference", "cpu", "--capture", f"relu*={self.scratch}/captured")
        self.assertEqual({np.load(f).shape[0] for f in (self.scratch / "captured").rglob("*.npy")}, {3})

    def test_show(self):
        plan = self.scratch / "mlp.plan"
        self.succeeds("compile", DIGITS / "mlp.pbtxt", "--shape", "image=n:1..64,64", "-o", plan)
        text = self.succeeds("show", plan).stdout
        self.assertRegex(text, r"size +n +1 to 64")
        self.assertRegex(text, r"input +image +f32\[n,64\]")
        self.assertRegex(text, r"output +logits +f32\[n,10\]")
        shown = json.loads(self.succeeds("show", plan, "--json").stdout)
        self.assertEqual(shown["sizes"], [{"name": "n", "min": 1, "max": 64}])
        self.assertEqual((shown["inputs"][0]["shape"], shown["inputs"][0]["sizes"]), ([64, 64], "n,64"))
        self.assertIn("f32[n,64]", self.succeeds("show", plan, "--what", "tensors").stdout)
        self.assertNotIn("sizes", json.loads(self.succeeds("show", DIGITS / "mlp.pbtxt", "--json").stdout))

    def test_one_size_is_a_fixed_plan(self):
        plans = [self.scratch / "a.plan", self.scratch / "b.plan"]
        for plan, shape in zip(plans, ("image=5..5,64", "image=5,64")):
            self.succeeds("compile", DIGITS / "mlp.pbtxt", "--shape", shape, "-o", plan)
        self.assertEqual(plans[0].read_bytes(), plans[1].read_bytes())

    def test_profile(self):
        """Operations and bytes are those of the size that runs, from a plan and from the graph."""
        image = self.scratch / "x.npy"
        ranged, fixed, mlp = self.scratch / "ranged.plan", self.scratch / "fixed.plan", DIGITS / "mlp.pbtxt"
        self.succeeds("compile", mlp, "--shape", "image=n:1..64,64", "-o", ranged)

        def rows(*arguments):
            done = self.succeeds("run", *arguments, "--weights", DIGITS / "mlp_weights.npz", "--input", f"image=@{image}", "--repeat", "3",
                                 "--profile", "--json")
            return {op["op"]: (op["flops"], op["bytes"]) for op in json.loads(done.stdout)["profile"]["ops"]}

        for n in (1, 7, 64):
            with self.subTest(n=n):
                np.save(image, np.random.RandomState(n).rand(n, 64).astype(np.float32))
                self.succeeds("compile", mlp, "--shape", f"image={n},64", "--no-fuse", "-o", fixed)
                expected = rows(fixed)
                self.assertTrue(any(flops >= 2 * n * 64 * 128 for flops, _ in expected.values()), expected)
                self.assertTrue(all(flops >= 0 and size > 0 for flops, size in expected.values()), expected)
                self.assertEqual(rows(ranged), expected)
                self.assertEqual(rows(mlp, "--shape", "image=1..64,64"), expected)

    def test_refused(self):
        plan = self.scratch / "never.plan"
        for shape, words in {"x=0..4,8": "begins below 1", "x=4..2,8": "is empty", "x=n,8": "size n has no range anywhere",
                             "x=1..,8": "is no range", "x=1..2..3,8": "is no range", "x=2n:1..4,8": "is no name of a size",
                             "x=-1,8": "less than 0", "x=a b,8": "no range anywhere", "x=1..99999999999999999999": "is no range"}.items():
            self.refused(2, ["OPC0003", words], "compile", "g.pbtxt", "--shape", shape, "-o", plan)
        self.refused(2, ["OPC0003", "another range elsewhere: 1..4"], "compile", "g", "--shape", "x=n:1..4", "--shape", "y=n:1..5", "-o", plan)
        fixed = self.graph(tensor("x", (64, 8)), op("r", "reshape", [("in", "x/out")], "out", shape_attr(64, 2, 4)), result("y", "r/out_0"))
        self.refused(3, ["OPC0203", "reshape", "where n = ", "-1"], "compile", fixed, "--shape", "x=n:1..64,8", "-o", plan)
        variable = self.graph(tensor("x", (4, 8)), tensor("w", (4, 8), "variable"), op("s", "broadcast_add", [("x", "x/out"), ("y", "w/out")], "z"), result("y", "s/z_0"))
        self.refused(3, ["OPC0220", "variable 'w' has one shape"], "compile", variable, "--shape", "w=1..4,8", "-o", plan)
        self.refused(3, ["OPC0220", "for one device"], "compile", DIGITS / "mlp.pbtxt", "--shape", "image=1..64,64", "--mesh", "2", "-o", plan)
        training = self.scratch / "training.pbtxt"
        training.write_text("".join((DIGITS / name).read_text() for name in ("mlp.pbtxt", "mlp_loss.pbtxt")))
        for words in (["run", DIGITS / "mlp.pbtxt", "--ranks", "2", "--in-process"], ["run", DIGITS / "mlp.pbtxt", "--until", "relu1"],
                      ["run", training, "--feed-dataset", f"image=@{DIGITS}/train_images.npy"],
                      ["show", DIGITS / "mlp.pbtxt"], ["grad", DIGITS / "mlp.pbtxt", "--loss", "logits"],
                      ["compile", DIGITS / "mlp.pbtxt", "--to", "fuse"]):
            with self.subTest(words[0]):
                self.refused(2, ["OPC0001", "range"], *words, "--shape", "image=1..64,64")
        gradient = self.scratch / "gradient.pbtxt"
        self.succeeds("grad", training, "--loss", "loss", "-o", gradient)
        self.refused(3, ["OPC0220", "backward"], "compile", gradient, "--shape", "image=n:1..64,64", "--shape", "label=n", "-o", plan)
        self.assertFalse(plan.exists())


if __name__ == "__main__":
    unittest.main()
