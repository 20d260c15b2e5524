# opc quantize: the digits in 8 bits are within 1 % of f32; methods, kept ops, weights alone; what it refuses.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from messages import fields  # noqa: E402

SOURCE, OPC = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")

CONV = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 3 dim: 6 dim: 6 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 5 dim: 3 dim: 3 dim: 3 } data_type: kFloat } }
op { name: "c" user_conf { op_type_name: "conv2d" input { key: "in" value { s: "x/out" } } input { key: "weight" value { s: "w/out" } } } }
op { name: "y" output_conf { in: "c/out_0" } }
'''

PRODUCT = '''op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 2 dim: 3 }} data_type: kFloat }} }} }}
op {{ name: "w" variable_conf {{ out: "out" shape {{ dim: 3 dim: 3 }} data_type: kFloat }} }}
op {{ name: "v" variable_conf {{ out: "out" shape {{ dim: 3 dim: 3 }} data_type: kFloat }} }}
op {{ name: "p" user_conf {{ op_type_name: "matmul" input {{ key: "a" value {{ s: "x/out" }} }} input {{ key: "b" value {{ s: "w/out" }} }} }} }}
{}
'''

# A product with a weight as it is, one with its transpose, one of a stack of matrices; a convolution.
BLOCKS = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 70 } data_type: kFloat } } }
op { name: "s" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 dim: 70 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 70 dim: 5 } data_type: kFloat } }
op { name: "t" variable_conf { out: "out" shape { dim: 6 dim: 70 } data_type: kFloat } }
op { name: "p" user_conf { op_type_name: "matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "w/out" } } } }
op { name: "q" user_conf { op_type_name: "matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "t/out" } } attr { key: "transpose_b" value { at_bool: true } } } }
op { name: "r" user_conf { op_type_name: "broadcast_matmul" input { key: "a" value { s: "s/out" } } input { key: "b" value { s: "w/out" } } } }
op { name: "py" output_conf { in: "p/out_0" } }
op { name: "qy" output_conf { in: "q/out_0" } }
op { name: "ry" output_conf { in: "r/out_0" } }
'''


def in_blocks(columns, block):
    """Rows of f32 in blocks of 4 bits: steps from 0 to 15, scales, and what they stand for. The element farthest from 0 is -8 steps."""
    blocks = -(-columns.shape[1] // block)
    padded = np.zeros((columns.shape[0], blocks * block), np.float32)
    padded[:, : columns.shape[1]] = columns
    padded = padded.reshape(columns.shape[0], blocks, block)
    farthest = np.take_along_axis(padded, np.abs(padded).argmax(-1)[..., None], -1)
    scales = np.where(farthest == 0, 1, farthest / -8).astype(np.float32)
    steps = np.clip(np.rint(padded / scales) + 8, 0, 15)
    return steps, scales, ((steps - 8) * scales).reshape(columns.shape[0], -1)[:, : columns.shape[1]]


def least_entropy(values):
    """The bound at which 128 levels lose least of what is not 0: Kullback and Leibler's divergence, in numpy."""
    some = np.abs(values[values != 0].astype(np.float64))
    counts, edges = np.histogram(some, 2048, (0, some.max()))
    best = (np.inf, 0)
    for kept in range(128, 2049, 16):
        p, q = counts[:kept].astype(np.float64), np.zeros(kept)
        for part in np.split(np.arange(kept), [level * kept // 128 for level in range(1, 128)]):
            filled = part[p[part] > 0]
            q[filled] = p[filled].mean() if filled.size else 0
        p[-1] += counts[kept:].sum()
        p, q = p / p.sum(), q / q.sum()
        best = min(best, ((p[p > 0] * np.log(p[p > 0] / np.maximum(q[p > 0], 1e-12))).sum(), edges[kept]))
    return best[1]


class Quantizing(FolderTest):
    def opc(self, *args, env=(), **more):
        return super().opc(*args, env={**os.environ, **dict(env)}, **more)

    def quantize(self, net, *flags):
        return json.loads(self.opc("quantize", os.path.join(DIGITS, net + ".pbtxt"), "--weights", os.path.join(DIGITS, net + "_weights.npz"), "--json", *flags).stdout)

    def logits(self, model):
        self.opc("run", model, "--quiet", "--input", f"image=@{DIGITS}/test_images.npy", "--output", "logits=l.npy")
        return np.load(self.path("l.npy"))

    def compare(self, net, model, cosine):
        made, want = self.logits(model), np.load(os.path.join(DIGITS, net + "_test_logits.npy"))
        labels = np.load(os.path.join(DIGITS, "test_labels.npy"))
        self.assertGreaterEqual((made * want).sum() / np.linalg.norm(made) / np.linalg.norm(want), cosine)
        share = lambda l: (l.argmax(1) == labels).mean()
        self.assertLessEqual(abs(share(made) - share(want)), 0.01)
        return made, want

    EXAMPLES = ["--calibrate", f"image=@{DIGITS}/train_images.npy"]

    def test_the_digits(self):
        for net, ops in (("cnn", 4), ("mlp", 3)):
            for method in ("min-max", "percentile", "entropy"):
                with self.subTest(net=net, method=method):
                    report = self.quantize(net, *self.EXAMPLES, "--method", method, "-o", "q.onnx")
                    self.assertEqual((len(report["quantized"]), report["method"], report["examples"]), (ops, method, 1080))
                    self.assertLess(report["weight_bytes"]["after"], report["weight_bytes"]["before"] / 3)
                    made, want = self.compare(net, "q.onnx", 0.999)
                    self.assertGreater(np.abs(made - want).max(), 0)
                    shown = json.loads(self.opc("show", "q.onnx", "--what", "ops", "--json").stdout)["ops"]
                    types = [o["type"] for o in shown]
                    self.assertEqual(types.count("integer_conv2d") + types.count("integer_matmul"), ops, types)

    def test_the_report_is_of_the_tensors(self):
        """The figures of a tensor, against numpy's of the two runs."""
        report = self.quantize("mlp", *self.EXAMPLES, "-o", "q.onnx")
        by = {t["tensor"]: t for t in report["tensors"]}
        self.assertEqual([t["snr_db"] for t in report["tensors"]], sorted(t["snr_db"] for t in report["tensors"]))
        image = np.load(os.path.join(DIGITS, "train_images.npy"))[:360]
        np.save(self.path("i.npy"), image)
        self.opc("run", "q.onnx", "--quiet", "--input", "image=@i.npy", "--output", "logits=a.npy")
        self.opc("run", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", os.path.join(DIGITS, "mlp_weights.npz"), "--quiet", "--input", "image=@i.npy", "--output", "logits=b.npy")
        a, b = np.load(self.path("a.npy")).astype(np.float64), np.load(self.path("b.npy")).astype(np.float64)
        snr = 10 * np.log10((b * b).sum() / ((a - b) ** 2).sum())
        cosine = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
        logits = by["fc3_bias/out_0"]  # an output of the graph
        self.assertAlmostEqual(logits["snr_db"], snr, delta=0.05)
        self.assertAlmostEqual(logits["cosine"], cosine, delta=1e-6)
        self.assertEqual((len(by), report["left_out"]), (8, 0), sorted(by))

    def products(self, more, *flags, code=0, **values):
        """PRODUCT with `more`, quantised; `values` are of its variables and of x."""
        with open(self.path("p.pbtxt"), "w") as f:
            f.write(PRODUCT.format(more))
        np.save(self.path("x.npy"), values.pop("x", np.array([[1, 0, 3], [0, 5, 6]], np.float32)))
        np.savez(self.path("p.npz"), **{"w": np.eye(3, dtype=np.float32), "v": np.eye(3, dtype=np.float32), **values})
        return self.opc("quantize", "p.pbtxt", "--weights", "p.npz", "--calibrate", "x=@x.npy", *flags, code=code)

    def test_outputs_are_compared(self):
        """A quantised op that is an output, twice: the report has it under the name that the graph gives it."""
        w = np.array([[0.3, 1, 0], [0.7, 0, 1], [0.11, 1, 1]], np.float32)
        outs = 'op { name: "y" output_conf { in: "p/out_0" } }\nop { name: "z" output_conf { in: "p/out_0" } }'
        report = json.loads(self.products(outs, "--json", "-o", "p.onnx", w=w).stdout)
        self.assertEqual([(t["tensor"], t["quantized"]) for t in report["tensors"]], [("p/out_0", True)])
        self.opc("run", "p.onnx", "--quiet", "--input", "x=@x.npy", "--output", "y=y.npy")
        want = np.load(self.path("x.npy")).astype(np.float64) @ w
        noise = ((np.load(self.path("y.npy")) - want) ** 2).sum()
        self.assertGreater(noise, 0)
        self.assertAlmostEqual(report["tensors"][0]["snr_db"], 10 * np.log10((want * want).sum() / noise), delta=0.05)

    def test_noise_that_is_not_finite(self):
        """NaN is not equal to anything; an infinity is equal to itself alone."""
        more = "\n".join(
            [f'op {{ name: "{n}" user_conf {{ op_type_name: "{t}" input {{ key: "x" value {{ s: "{i}" }} }} }} }}\nop {{ name: "{n}_out" output_conf {{ in: "{n}/y_0" }} }}'
             for n, t, i in (("nan", "log", "p/out_0"), ("inf", "log", "x/out"))])
        for flags in (["--json"], []):
            said = self.products(more, *flags, w=-np.eye(3, dtype=np.float32)).stdout
            if flags:
                by = {t["tensor"]: (t["snr_db"], t["cosine"]) for t in json.loads(said)["tensors"]}
                self.assertEqual((by["nan/y_0"], by["inf/y_0"]), (("-inf", 0), ("inf", 1)))
                self.assertEqual(json.loads(said)["tensors"][0]["tensor"], "nan/y_0")
            else:
                rows = {line.split()[0]: line.split()[3] for line in said.splitlines()[1:]}
                self.assertEqual((rows["nan/y_0"], rows["inf/y_0"]), ("-inf", "equal"))

    def test_updated_weights_are_left_out(self):
        """A weight that the graph assigns to has no fixed scale: its op stays as it is, and its neighbour does not."""
        op = ('op {{ name: "{0}" user_conf {{ op_type_name: "{1}" input {{ key: "{2}" value {{ s: "{3}" }} }} input {{ key: "{4}" value {{ s: "{5}" }} }} }} }}\n').format
        alone = op("next", "broadcast_add", "x", "w/out", "y", "w/out") + op("keep", "assign", "ref", "w/out", "value", "next/z_0")
        alone += 'op { name: "y" output_conf { in: "p/out_0" } }\n'
        more = alone + op("q", "matmul", "a", "x/out", "b", "v/out") + 'op { name: "z" output_conf { in: "q/out_0" } }'
        done = self.products(more, "--json", "-o", "u.onnx")
        self.assertEqual(json.loads(done.stdout)["quantized"], ["q"])
        self.assertIn("op p stays in f32: the graph updates the weight", done.stderr)
        self.assertNotIn("stays in f32", self.products(more, "--keep", "p").stderr)
        self.assertIn("nothing of p.pbtxt can be quantised: op p stays in f32: the graph updates the weight", self.products(alone, code=2).stderr)

    def test_tensors_beyond_the_memory(self):
        report = self.quantize("mlp", *self.EXAMPLES, "--compare-memory", "100000")
        everything = self.quantize("mlp", *self.EXAMPLES)["tensors"]
        self.assertGreater(report["left_out"], 0)
        self.assertEqual(len(report["tensors"]) + report["left_out"], len(everything))
        done = self.opc("quantize", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", os.path.join(DIGITS, "mlp_weights.npz"), *self.EXAMPLES, "--compare-memory", "100000")
        self.assertIn(f"{report['left_out']} tensors not compared for want of memory: --compare-memory takes more", done.stderr)

    def test_what_is_read_is_not_overwritten(self):
        """Neither by the model nor by the file of its large tensors, under whatever name."""
        def contents():
            return {str(p): p.read_bytes() for p in pathlib.Path(self.folder).rglob("*") if p.is_file()}
        def unchanged(*args, output):
            before = contents()
            said = self.opc("quantize", *args, "--to", "int8-weights", "-o", output, code=2).stderr
            self.assertIn("OPC0002", said)
            self.assertEqual(contents(), before)
            return said
        with open(self.path("c.pbtxt"), "w") as f:
            f.write(CONV)
        np.savez(self.path("w.npz"), w=np.ones((5, 3, 3, 3), np.float32))
        shutil.copy(self.path("w.npz"), self.path("w.onnx"))
        shutil.copy(self.path("w.npz"), self.path("w"))
        np.save(self.path("x.npy"), np.ones((8, 3, 6, 6), np.float32))
        shutil.copy(self.path("x.npy"), self.path("x"))
        os.symlink("w.onnx", self.path("link"))
        os.mkdir(self.path("folder"))
        np.save(self.path("folder/w.npy"), np.ones((5, 3, 3, 3), np.float32))
        self.assertIn("-o writes no .npz file", unchanged("c.pbtxt", "--weights", "w.npz", output="w.npz"))
        self.assertIn("the input", unchanged("c.pbtxt", "--weights", "w.npz", output="c.pbtxt"))
        for weights, output, named in (("w.onnx", "w.onnx", "w.onnx"), ("link", "w.onnx", "link"), ("w.onnx", "./w.onnx", "w.onnx"), ("w", "w", "w")):
            self.assertIn(f"is another file of this run: {named} (", unchanged("c.pbtxt", "--weights", weights, output=output))
        self.assertIn("is another file of this run: x (", unchanged("c.pbtxt", "--weights", "w.npz", "--calibrate", "x=@x", output="x"))
        self.assertIn("-o writes no .npy file", unchanged("c.pbtxt", "--weights", "folder", output="folder/w.npy"))
        np.savez(self.path("other.npz"), w=np.ones((700, 3, 20, 20), np.float32))
        with open(self.path("big.pbtxt"), "w") as f:
            f.write(CONV.replace("dim: 5 dim: 3 dim: 3 dim: 3", "dim: 700 dim: 3 dim: 20 dim: 20").replace("dim: 6 dim: 6", "dim: 20 dim: 20"))
        self.opc("compile", "big.pbtxt", "--emit", "onnx", "--weights", "other.npz", "-o", "big.onnx")
        shutil.copy(self.path("big.onnx"), self.path("copy"))  # its tensors are in a file that goes with big.onnx
        self.assertRegex(unchanged("copy", output="big.onnx"), r"is another file of this run: big\.onnx\.[0-9a-f]{16}\.data \(")
        self.opc("quantize", "c.pbtxt", "--weights", "w.npz", "--to", "int8-weights", "-o", "out.onnx")
        self.opc("quantize", "c.pbtxt", "--weights", "w.npz", "--to", "int8-weights", "-o", "out.onnx")  # its own of before

    def test_examples_through_a_pipe(self):
        """What comes through a pipe comes once: an archive, another order or type of elements."""
        x = np.load(os.path.join(DIGITS, "train_images.npy"))
        np.savez(self.path("x.npz"), image=x)
        np.save(self.path("order.npy"), np.asfortranarray(x))
        np.save(self.path("wide.npy"), x.astype(np.float64))
        os.mkfifo(self.path("pipe"))
        want = self.quantize("mlp", "--calibrate", f"image=@{DIGITS}/train_images.npy")["tensors"]
        for name in ("x.npz", "order.npy", "wide.npy"):
            with self.subTest(name):
                writer = subprocess.Popen(["cp", name, "pipe"], cwd=self.folder)
                self.addCleanup(writer.kill)
                self.assertEqual(self.quantize("mlp", "--calibrate", "image=@pipe", "--cast")["tensors"], want)
                self.assertEqual(writer.wait(60), 0)

    def test_casts(self):
        """What the errors advise, the command takes: weights and examples in another type."""
        weights = dict(np.load(os.path.join(DIGITS, "mlp_weights.npz")))
        np.savez(self.path("w.npz"), **{n: w.astype(np.float64) for n, w in weights.items()})
        np.save(self.path("x.npy"), np.load(os.path.join(DIGITS, "train_images.npy")).astype(np.float64))
        args = ["quantize", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", "w.npz", "--calibrate", "image=@x.npy", "--json"]
        self.assertIn("--cast", self.opc(*args, code=2).stderr)
        self.assertEqual(json.loads(self.opc(*args, "--cast").stdout)["tensors"], self.quantize("mlp", *self.EXAMPLES)["tensors"])

    def test_examples_left_over(self):
        """Those beyond the last whole batch are said, unless fewer batches were asked for."""
        np.save(self.path("i.npy"), np.load(os.path.join(DIGITS, "train_images.npy"))[:725])
        args = ["quantize", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", os.path.join(DIGITS, "mlp_weights.npz"), "--calibrate", "image=@i.npy", "--json"]
        for flags, used, left in (([], 720, 5), (["--batches", "1"], 360, 0), (["--batches", "2"], 720, 5)):
            done = self.opc(*args, *flags)
            report = json.loads(done.stdout)
            self.assertEqual((report["examples"], report["examples_left_over"]), (used, left))
            self.assertEqual("the last 5 examples not used" in done.stderr, left > 0, done.stderr)

    def test_what_is_in_fewer_bits(self):
        """The table says what of an op is quantised: in all but int8 it is computed in f32."""
        for flags, words in (([], "u8 data, i8 weight"), (["--to", "int8-weights"], "i8 weight"), (["--to", "bf16-weights"], "bf16 weight")):
            lines = self.products('op { name: "y" output_conf { in: "p/out_0" } }', *flags).stdout.splitlines()
            self.assertTrue(lines[0].endswith("quantised"), lines)
            self.assertEqual(lines[1].split(None, 4)[4:], [words])

    def test_weights_alone(self):
        for kind, least in (("int8-weights", 3), ("bf16-weights", 1.8)):
            with self.subTest(kind):
                report = self.quantize("cnn", "--to", kind, "-o", "w.onnx")
                self.assertIsNone(report["method"])
                self.assertGreater(report["weight_bytes"]["before"] / report["weight_bytes"]["after"], least)
                self.compare("cnn", "w.onnx", 0.9999)

    def test_weights_of_4_bits(self):
        """Steps, scales and results are numpy's; two steps to a byte, the last block of a column filled with zeros."""
        rng = np.random.default_rng(8)
        w, t = (rng.standard_normal(s).astype(np.float32) for s in ((70, 5), (6, 70)))
        w[32:64, 3] = 0  # a block without a scale
        x, s = rng.uniform(-1, 1, (4, 70)).astype(np.float32), rng.uniform(-1, 1, (2, 3, 70)).astype(np.float32)
        np.savez(self.path("w.npz"), w=w, t=t)
        np.savez(self.path("in.npz"), x=x, s=s)
        with open(self.path("b.pbtxt"), "w") as f:
            f.write(BLOCKS)
        for flags, block in (([], 32), (["--block", "16"], 16), (["--block", "128"], 128)):
            report = json.loads(self.opc("quantize", "b.pbtxt", "--weights", "w.npz", "--to", "int4-weights", *flags, "--json", "-o", "b.onnx").stdout)
            self.assertEqual((report["block"], sorted(report["quantized"]), report["method"]), (block, ["p", "q", "r"], None))
            made, real = self.tensors("b.onnx"), {}
            self.assertEqual(sorted(made), ["t.int4", "t.scale", "w.int4", "w.scale"])  # w once for both of its readers
            self.assertEqual(report["weight_bytes"]["after"], sum(len(v) for v in made.values()))
            for name, columns in (("w", w.T), ("t", t)):
                steps, scales, real[name] = in_blocks(columns, block)
                pairs = np.frombuffer(made[name + ".int4"], np.uint8).reshape(*steps.shape[:2], -1)
                np.testing.assert_array_equal(np.stack([pairs & 15, pairs >> 4], -1).reshape(steps.shape), steps)
                np.testing.assert_array_equal(np.frombuffer(made[name + ".scale"], np.float32), scales.reshape(-1))
                error = np.abs(real[name] - columns)
                self.assertLessEqual(error.max(), np.abs(scales).max() * 1.0001)
                self.assertGreater(error.max(), 0)
            self.opc("run", "b.onnx", "--quiet", "--inputs", "in.npz", "--outputs", "out.npz")
            out = np.load(self.path("out.npz"))
            for name, want in (("py", x @ real["w"].T), ("qy", x @ real["t"].T), ("ry", s @ real["w"].T)):
                np.testing.assert_allclose(out[name], want, rtol=1e-4, atol=1e-5)

    def test_digits_of_4_bits(self):
        """Products alone: convolutions stay as they are. What is lost is in the report."""
        for net, ops in (("mlp", 3), ("cnn", 2)):
            report = self.quantize(net, *self.EXAMPLES, "--to", "int4-weights", "-o", "w.onnx")
            self.assertEqual(len(report["quantized"]), ops)
            self.assertEqual(sum(t["quantized"] for t in report["tensors"]), ops)
            self.compare(net, "w.onnx", 0.99)
        self.assertGreater(report["weight_bytes"]["before"] / report["weight_bytes"]["after"], 2)
        lines = self.products('op { name: "y" output_conf { in: "p/out_0" } }', "--to", "int4-weights").stdout.splitlines()
        self.assertEqual(lines[1].split(None, 4)[4:], ["4-bit weight"])

    def test_bf16_is_rounded_to_nearest(self):
        self.quantize("mlp", "--to", "bf16-weights", "-o", "w.onnx")
        weights = dict(np.load(os.path.join(DIGITS, "mlp_weights.npz")))
        for name in [n for n in weights if n.endswith("_w")]:
            bits = weights[name].view(np.uint32).astype(np.uint64)
            weights[name] = (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
        np.savez(self.path("rounded.npz"), **weights)
        self.opc("run", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", "rounded.npz", "--quiet", "--input", f"image=@{DIGITS}/test_images.npy", "--output", "logits=r.npy")
        np.testing.assert_allclose(self.logits("w.onnx"), np.load(self.path("r.npy")), rtol=1e-5, atol=1e-5)

    def test_kept_ops(self):
        report = self.quantize("cnn", *self.EXAMPLES, "--keep", "conv1", "--keep", "matmul", "-o", "k.onnx")
        self.assertEqual(report["quantized"], ["conv2"])
        types = [o["type"] for o in json.loads(self.opc("show", "k.onnx", "--what", "ops", "--json").stdout)["ops"]]
        self.assertEqual((types.count("conv2d"), types.count("integer_conv2d"), types.count("integer_matmul")), (1, 1, 0))

    def test_a_model_of_onnx(self):
        self.opc("compile", os.path.join(DIGITS, "cnn.pbtxt"), "--emit", "onnx", "--weights", os.path.join(DIGITS, "cnn_weights.npz"), "-o", "cnn.onnx")
        done = self.opc("quantize", "cnn.onnx", *self.EXAMPLES, "-o", "q.onnx", "--top", "3")
        self.assertEqual(len(done.stdout.strip().split("\n")), 4)
        self.compare("cnn", "q.onnx", 0.999)

    def test_scales_are_of_filters(self):
        """Each filter's largest weight is 127; what the integers stand for is within half a step."""
        rng = np.random.default_rng(1)
        w = (rng.standard_normal((5, 3, 3, 3)) * 10.0 ** np.arange(-2, 3).reshape(5, 1, 1, 1)).astype(np.float32)
        np.savez(self.path("w.npz"), w=w)
        with open(self.path("c.pbtxt"), "w") as f:
            f.write(CONV)
        self.opc("quantize", "c.pbtxt", "--weights", "w.npz", "--to", "int8-weights", "-o", "c.onnx")
        tensors = self.tensors("c.onnx")
        steps = np.frombuffer(tensors["w.int8"], np.int8).reshape(w.shape)
        scales = np.frombuffer(tensors["w.scale"], np.float32)
        np.testing.assert_array_equal(np.abs(steps).reshape(5, -1).max(1), np.full(5, 127))
        np.testing.assert_allclose(scales, np.abs(w).reshape(5, -1).max(1) / 127, rtol=1e-6)
        self.assertLessEqual((np.abs(steps * scales.reshape(5, 1, 1, 1) - w) / scales.reshape(5, 1, 1, 1)).max(), 0.5001)

    def tensors(self, model):
        """The constants of a model by name: their bytes."""
        with open(self.path(model), "rb") as f:
            graph = next(body for number, body in fields(f.read()) if number == 7)
        return {t[8].decode(): t.get(9, b"") for t in (dict(fields(body)) for number, body in fields(graph) if number == 5)}

    def test_ranges(self):
        """Each method's scale and zero point of data, from numpy's view of the same examples."""
        x = np.random.default_rng(4).laplace(0.3, 1, (400, 3)).astype(np.float32)
        x[17, 1], x[300, 2] = 40, -25  # far out
        low, high = float(x.min()), float(x.max())
        bound, width = least_entropy(x), (high - low) / 2048
        self.assertLess(bound, 20)
        cuts = {p: (np.percentile(x, (100 - p) / 2, method="higher"), np.percentile(x, 50 + p / 2, method="lower")) for p in (99, 90)}
        for flags, want, within in ([(["min-max"], (low, high), 0), (["entropy"], (-bound, bound), 0)] +
                                    [(["percentile", "--percentile", str(p)], cut, 2 * width) for p, cut in cuts.items()]):
            with self.subTest(flags=flags):
                self.products('op { name: "y" output_conf { in: "p/out_0" } }', "--method", *flags, "-o", "q.onnx", x=x)
                made = self.tensors("q.onnx")
                (scale,), (zero,) = np.frombuffer(made["x.out.scale"], np.float32), np.frombuffer(made["x.out.zero"], np.uint8)
                self.assertAlmostEqual(scale * 255, want[1] - want[0], delta=within + 1e-5)
                self.assertAlmostEqual(float(zero), -want[0] / scale, delta=0.51 + within / scale)

    def test_what_it_refuses(self):
        with open(self.path("c.pbtxt"), "w") as f:
            f.write(CONV)
        np.savez(self.path("w.npz"), w=np.ones((5, 3, 3, 3), np.float32))
        np.save(self.path("x.npy"), np.ones((8, 3, 6, 6), np.float32))
        np.save(self.path("short.npy"), np.ones((3, 3, 6, 6), np.float32))
        np.save(self.path("other.npy"), np.ones((8, 2, 6, 6), np.float32))
        np.save(self.path("nan.npy"), np.full((8, 3, 6, 6), np.nan, np.float32))
        for bad in (np.nan, np.inf, -np.inf):
            w = np.ones((5, 3, 3, 3), np.float32)
            w[4, 2, 2, 2] = bad
            np.savez(self.path("bad.npz"), w=w)
            for flags in (["--to", "int8-weights"], ["--calibrate", "x=@x.npy"]):
                done = self.opc("quantize", "c.pbtxt", "--weights", "bad.npz", *flags, "-o", "q.onnx", code=5)
                self.assertIn("OPC0620", done.stderr)
                self.assertIn("variable w, the weight of op c, is not finite", done.stderr)
                self.assertFalse(os.path.exists(self.path("q.onnx")))
            self.opc("quantize", "c.pbtxt", "--weights", "bad.npz", "--to", "bf16-weights", "-o", "half.onnx")  # has both
        base = ["quantize", "c.pbtxt", "--weights", "w.npz"]
        for flags, code, words in [
            (["-o", "q.onnx"], 2, "--to int8 needs examples"),
            (["--calibrate", "x", "-o", "q.onnx"], 2, "OPC0003"),
            (["--calibrate", "z=@x.npy", "-o", "q.onnx"], 2, "OPC0005"),
            (["-o", "q.onnx", "--to", "int8-weights", "--mesh", "2"], 2, "--mesh"),
            (["--calibrate", "x=@missing.npy", "-o", "q.onnx"], 2, "missing.npy"),
            (["--calibrate", "x=@short.npy", "-o", "q.onnx"], 2, "OPC0704"),
            (["--calibrate", "x=@other.npy", "-o", "q.onnx"], 2, "OPC0704"),
            (["--calibrate", "x=@nan.npy", "-o", "q.onnx"], 5, "not finite"),
            (["--calibrate", "x=@x.npy", "--keep", "none*", "-o", "q.onnx"], 2, "--keep none*: no op"),
            (["--calibrate", "x=@x.npy", "--keep", "c", "-o", "q.onnx"], 2, "can be quantised: it has no other convolution or product of f32"),
            (["--calibrate", "x=@x.npy", "--percentile", "99", "-o", "q.onnx"], 2, "--percentile is for --method percentile"),
            (["--calibrate", "x=@x.npy", "--method", "percentile", "--percentile", "101", "-o", "q.onnx"], 2, "--percentile takes"),
            (["--calibrate", "x=@x.npy", "--compare-memory", "much", "-o", "q.onnx"], 2, "--compare-memory"),
            (["--calibrate", "x=@x.npy", "--method", "guess", "-o", "q.onnx"], 2, "--method takes"),
            (["--to", "int4-weights", "-o", "q.onnx"], 2, "can be quantised: op c stays in f32: 4-bit weights are of products alone"),
            (["--to", "int4-weights", "--block", "24", "-o", "q.onnx"], 2, "--block takes 16, 32, 64, 128 or 256, not 24"),
            (["--to", "int8-weights", "--block", "32", "-o", "q.onnx"], 2, "--block is for --to int4-weights"),
            (["--calibrate", "x=@x.npy", "-o", "nowhere/q.onnx"], 2, "nowhere"),
            (["--calibrate", "x=@x.npy", "-o", "-", "--json"], 2, "standard output"),
        ]:
            with self.subTest(flags=flags):
                done = self.opc(*base, *flags, code=code)
                self.assertIn(words, done.stderr + done.stdout)
                self.assertFalse(os.path.exists(self.path("q.onnx")))
        self.opc("quantize", "c.pbtxt", "--to", "int8-weights", code=2) # a variable without a value


if __name__ == "__main__":
    unittest.main()
