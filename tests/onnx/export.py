# opc compile --emit onnx: what is in the file, the way back into opc, and what is refused.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402
import ort  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits")
F32 = np.float32


def tensor_op(name, type_, inputs, output, attrs=""):
    binds = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return (f'op {{ name: "{name}" user_conf {{ op_type_name: "{type_}" {binds} output {{ key: "{output}" value {{ s: "{name}/{output}_0" }} }} '
            f'{attrs} }} }}\n')


def input_op(name, *shape, dtype="kFloat"):
    dims = " ".join(f"dim: {d}" for d in shape)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {dtype} }} }} }}\n'


def output_op(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}\n'


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="onnx_export")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def opc(self, *words, code=0):
        done = subprocess.run([OPC, *words], cwd=self.dir, capture_output=True, text=True, timeout=120, errors="replace")
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def graph(self, text, name="g.pbtxt"):
        with open(self.path(name), "w") as f:
            f.write(text)
        return name

    def fields_of(self, name):
        with open(self.path(name), "rb") as f:
            parts = list(m.fields(f.read()))
        return parts, list(m.fields(next(b for n, b in parts if n == 7)))

    def opset(self, name):
        parts, _ = self.fields_of(name)
        return dict(m.fields(next(b for n, b in parts if n == 8)))[2]

    def nodes(self, name):
        return [dict(m.fields(b))[4].decode() for n, b in self.fields_of(name)[1] if n == 1]


class Export(Case):
    def ports(self, name):
        with open(self.path(name), "rb") as f:
            return m.ports(f.read())

    def test_digits_and_back(self):
        """Networks with their weights: the model gives the graph's bits, and needs no weights."""
        for net in ("mlp", "cnn"):
            graph, weights = os.path.join(DIGITS, f"{net}.pbtxt"), os.path.join(DIGITS, f"{net}_weights.npz")
            self.opc("compile", graph, "--emit", "onnx", "--weights", weights, "-o", net + ".onnx")
            (image, _), = self.ports(net + ".onnx")[0]
            logits = self.ports(net + ".onnx")[1][0][0]
            given = ["--input", f"{image}=@{DIGITS}/test_images.npy", "--cast", "--quiet", "--no-fuse"]
            self.opc("run", graph, "--weights", weights, *given, "--output", f"{logits}={net}_a.npy")
            self.opc("run", net + ".onnx", *given, "--output", f"{logits}={net}_b.npy")
            ours, back = np.load(self.path(net + "_a.npy")), np.load(self.path(net + "_b.npy"))
            np.testing.assert_array_equal(ours, back)
            self.assertGreater(np.ptp(ours), 1)

    def test_some_of_the_weights(self):
        """What no file has begins as in a run; without --partial-weights that is an error which says so."""
        graph, whole = os.path.join(DIGITS, "mlp.pbtxt"), np.load(os.path.join(DIGITS, "mlp_weights.npz"))
        first = sorted(whole)[0]
        np.savez(self.path("some.npz"), **{first: whole[first]})
        some = ["--weights", "some.npz"]
        self.assertIn("--partial-weights", self.opc("compile", graph, "--emit", "onnx", *some, "-o", "m.onnx", code=2).stderr)
        self.opc("compile", graph, "--emit", "onnx", *some, "--partial-weights", "-o", "m.onnx")
        (image, _), = self.ports("m.onnx")[0]
        logits = self.ports("m.onnx")[1][0][0]
        given = ["--input", f"{image}=@{DIGITS}/test_images.npy", "--cast", "--quiet", "--no-fuse"]
        self.opc("run", graph, *some, "--partial-weights", *given, "--output", f"{logits}=a.npy")
        self.opc("run", "m.onnx", *given, "--output", f"{logits}=b.npy")
        np.testing.assert_array_equal(np.load(self.path("a.npy")), np.load(self.path("b.npy")))

    def test_gradients_and_training_steps(self):
        """Gradients are outputs; of a step with an optimizer so is what each variable holds after it."""
        for net, optimizer in (("mlp", []), ("cnn", []), ("mlp", ["--optimizer", "adam", "--lr", "0.01"])):
            text = ""
            for part in (f"{net}.pbtxt", f"{net}_loss.pbtxt"):
                with open(os.path.join(DIGITS, part), encoding="utf-8") as f:
                    text += f.read()
            self.opc("grad", self.graph(text, "loss.pbtxt"), "--shape", "image=8,64", "--shape", "label=8", "--loss", "loss", *optimizer,
                     "-o", "g.pbtxt")
            self.opc("compile", "g.pbtxt", "--emit", "onnx", "-o", "g.onnx")
            names = [n for n, _ in self.ports("g.onnx")[1]]
            self.assertTrue([n for n in names if n.endswith("_w.next" if optimizer else "_w.grad")], names)
            given = ["--input", "image=rand", "--input", "label=1,2,3,4,5,6,7,0", "--quiet", "--no-fuse"]
            self.opc("run", "g.pbtxt", *given, "--outputs", "a")
            self.opc("run", "g.onnx", *given, "--outputs", "b")
            for name in sorted(os.listdir(self.path("a"))):
                a, b = (np.load(os.path.join(self.path(d), name)) for d in "ab")
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6, err_msg=name)
            shutil.rmtree(self.path("a")), shutil.rmtree(self.path("b"))

    def test_the_checker_of_onnx_accepts(self):
        """Debian's onnx 1.12 knows operator set 17."""
        if subprocess.run(["/usr/bin/python3", "-c", "import onnx"], capture_output=True).returncode:
            self.skipTest("python3-onnx is not installed")
        self.opc("compile", os.path.join(DIGITS, "cnn.pbtxt"), "--emit", "onnx", "--opset", "17", "-o", "c.onnx")
        check = "import onnx; m = onnx.load('c.onnx'); onnx.checker.check_model(m); onnx.shape_inference.infer_shapes(m, check_type=True, strict_mode=True)"
        done = subprocess.run(["/usr/bin/python3", "-c", check], cwd=self.dir, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_oldest_operator_set_that_serves(self):
        old = self.graph(input_op("x", 3) + tensor_op("y", "relu", {"x": "x/out"}, "y") + output_op("o", "y/y_0"))
        self.opc("compile", old, "--emit", "onnx", "-o", "a.onnx")
        self.assertEqual((self.opset("a.onnx"), self.nodes("a.onnx")), (17, ["Relu"]))
        bits = self.graph(input_op("x", 3, dtype="kInt32") + tensor_op("y", "broadcast_bitwise_and", {"x": "x/out", "y": "x/out"}, "z") +
                          output_op("o", "y/z_0"), "bits.pbtxt")
        self.opc("compile", bits, "--emit", "onnx", "-o", "b.onnx")
        self.assertEqual((self.opset("b.onnx"), self.nodes("b.onnx")), (18, ["BitwiseAnd"]))
        said = self.opc("compile", bits, "--emit", "onnx", "--opset", "17", "-o", "c.onnx", code=4).stderr
        self.assertIn("OPC0423", said)
        self.assertIn("BitwiseAnd is of operator set 18", said)
        gelu = self.graph(input_op("x", 3) + tensor_op("y", "gelu", {"in": "x/out"}, "out") + output_op("o", "y/out_0"), "gelu.pbtxt")
        self.opc("compile", gelu, "--emit", "onnx", "--opset", "20", "-o", "d.onnx")
        self.assertEqual(self.nodes("d.onnx"), ["Gelu"])
        self.opc("compile", gelu, "--emit", "onnx", "-o", "e.onnx")
        self.assertIn("Erf", self.nodes("e.onnx"))

    def test_large_tensors_lie_beside_the_model(self):
        big = self.graph(input_op("x", 2, 600) + 'op { name: "w" variable_conf { out: "out" shape { dim: 600 dim: 600 } data_type: kFloat '
                         'initializer { random_normal_conf { std: 0.1 } } } }\n' +
                         tensor_op("y", "matmul", {"a": "x/out", "b": "w/out"}, "out") + output_op("o", "y/out_0"))
        self.opc("compile", big, "--emit", "onnx", "-o", "big.onnx")
        (data,) = self.data_of("big.onnx")
        self.assertEqual(os.path.getsize(self.path(data)), 600 * 600 * 4)
        self.assertLess(os.path.getsize(self.path("big.onnx")), 2000)
        for what in (big, "big.onnx"):
            self.opc("run", what, "--input", "x=rand", "--output", f"o={what}.npy", "--quiet")
        np.testing.assert_array_equal(np.load(self.path("g.pbtxt.npy")), np.load(self.path("big.onnx.npy")))
        piped = subprocess.run([OPC, "compile", big, "--emit", "onnx", "-o", "-"], cwd=self.dir, capture_output=True, check=True).stdout
        self.assertGreater(len(piped), 600 * 600 * 4)
        # Nothing lies beside a pipe.
        os.mkfifo(self.path("pipe"))
        with open(self.path("copied.onnx"), "wb") as copied:
            reader = subprocess.Popen(["cat", self.path("pipe")], stdout=copied)
            self.addCleanup(reader.kill)
            self.opc("compile", big, "--emit", "onnx", "-o", "pipe")
            self.assertEqual(reader.wait(60), 0)
        with open(self.path("copied.onnx"), "rb") as copied:
            self.assertEqual(copied.read(), piped)
        self.assertEqual(self.data_of("pipe"), [])
        # Who reads a model follows no link to its tensors, so none is written there.
        os.symlink("elsewhere", self.path(data.replace("big", "linked")))
        self.assertIn("OPC0707", self.opc("compile", big, "--emit", "onnx", "-o", "linked.onnx", code=2).stderr)
        self.assertFalse(os.path.exists(self.path("elsewhere")) or os.path.exists(self.path("linked.onnx")))

    def data_of(self, model):
        """The files of data that bear a model's name."""
        return sorted(name for name in os.listdir(self.dir) if re.fullmatch(re.escape(model) + r"\.([0-9a-f]{16}\.)?data", name))

    def models_of_two_files(self):
        """A graph whose model has 1.6 MiB, with 1.4 MiB beside it, and weights for it."""
        weights = {f"w{k}": np.full((440, 440), k, F32) for k in range(2)} | {"w2": np.full((600, 600), 2, F32)}
        graph = "".join(f'op {{ name: "{n}" variable_conf {{ out: "out" shape {{ dim: {len(w)} dim: {len(w)} }} data_type: kFloat }} }}\n' + output_op("o" + n, n + "/out")
                        for n, w in weights.items())
        for k in (1, 2):
            np.savez(self.path(f"{k}.npz"), **{n: w + F32(k) for n, w in weights.items()})
        return ["compile", self.graph(graph, "two.pbtxt"), "--emit", "onnx", "-o", "k.onnx", "--weights"]

    def test_a_model_that_cannot_be_replaced_stays(self):
        """The data of the new model is written, the model itself is not: the old one has its own data, and nothing else is there."""
        write = self.models_of_two_files()
        self.opc(*write, "1.npz")
        def contents():
            return {p.name: p.read_bytes() for p in pathlib.Path(self.dir).iterdir()}
        before = contents()
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1500000, 1500000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN) # as a full disk: an error of write
        self.assertEqual(np.load(self.path("1.npz"))["w2"].nbytes, 1440000) # fits, which the model does not
        for ending in (small, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500000, 1500000))):
            done = subprocess.run([OPC, *write, "2.npz"], cwd=self.dir, capture_output=True, text=True, preexec_fn=ending)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(contents(), before)
        # A kill between the two: the new data is there, the old model is.
        self.opc(*write[:-2], "n.onnx", "--weights", "2.npz")
        (new,), (old,) = self.data_of("n.onnx"), self.data_of("k.onnx")
        self.assertNotEqual(new.replace("n.onnx", "k.onnx"), old)

    def test_old_data_goes_with_its_model(self):
        write = self.models_of_two_files()
        self.opc(*write, "1.npz")
        (first,) = self.data_of("k.onnx")
        self.opc(*write, "1.npz") # the same again
        self.assertEqual(self.data_of("k.onnx"), [first])
        other = first.replace("k.onnx", "other.onnx")
        for name in (other, "k.onnx.0000000000000000.data"): # named by no model of this name
            shutil.copy(self.path(first), self.path(name))
        self.opc(*write, "2.npz")
        second = [name for name in self.data_of("k.onnx") if name != "k.onnx.0000000000000000.data"]
        self.assertEqual((len(second), second == [first], os.path.exists(self.path(other))), (1, False, True))
        os.remove(self.path("k.onnx.0000000000000000.data"))
        # A second model reads the data, too: it stays.
        shutil.copy(self.path("k.onnx"), self.path("copy.onnx"))
        self.opc(*write, "1.npz")
        self.assertEqual(self.data_of("k.onnx"), sorted([first, *second]))
        self.opc("run", "copy.onnx", "--quiet", "--outputs", "c.npz")
        np.testing.assert_array_equal(np.load(self.path("c.npz"))["ow2"], np.load(self.path("2.npz"))["w2"])
        # The name that earlier versions gave.
        with open(self.path("k.onnx"), "rb") as f:
            model = f.read()
        os.rename(self.path(first), self.path("k.onnx.data"))
        os.remove(self.path("copy.onnx"))
        with open(self.path("k.onnx"), "wb") as f:
            f.write(model.replace(first.encode(), b"k.onnx.data" + b"/" * (len(first) - 11)))
        self.opc(*write, "2.npz")
        self.assertEqual(self.data_of("k.onnx"), second)
        # Behind a link, in another folder: beside the model.
        os.mkdir(self.path("sub"))
        os.symlink("sub/m.onnx", self.path("link.onnx"))
        self.opc(*write[:-2], "link.onnx", "--weights", "1.npz")
        self.assertEqual(len(os.listdir(self.path("sub"))), 2)
        self.opc("run", "link.onnx", "--quiet", "--outputs", "l.npz")
        np.testing.assert_array_equal(np.load(self.path("l.npz"))["ow2"], np.load(self.path("1.npz"))["w2"])

    def test_imported_models_go_out_again(self):
        w = np.arange(6, dtype=F32).reshape(3, 2)
        data = m.model(m.graph([m.node("MatMul", ["x", "w"], ["h"]), m.node("Gather", ["h", "i"], ["g"], axis=1), m.node("Softmax", ["g"], ["y"])],
                               [m.value("x", [2, 3])], [m.value("y")], [m.tensor("w", w), m.tensor("i", np.array([1, 0], np.int64))]))
        with open(self.path("in.onnx"), "wb") as f:
            f.write(data)
        self.opc("compile", "in.onnx", "--emit", "onnx", "-o", "out.onnx")
        self.assertEqual([n for n in self.nodes("out.onnx") if n != "Constant"], ["MatMul", "Gather", "Softmax"])
        for what in ("in.onnx", "out.onnx"):
            self.opc("run", what, "--input", "x=1,2,3,4,5,6", "--output", f"y={what}.npy", "--quiet")
        np.testing.assert_array_equal(np.load(self.path("in.onnx.npy")), np.load(self.path("out.onnx.npy")))

    def test_reductions_come_back_as_they_were(self):
        """With and without the reduced axes, each is one op again, of the same attributes."""
        ops, text = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "logsumexp"), input_op("x", 2, 3, 4)
        for axes in ((1,), (0, 2), (0, 1, 2)):
            for keeps in ("true", "false"):
                for op in ops:
                    name = f"{op}_{''.join(map(str, axes))}_{keeps}"
                    text += tensor_op(name, op, {"input_tensor": "x/out"}, "output_tensor",
                                      f'attr {{ key: "axis" value {{ at_list_int32 {{ {" ".join(f"val: {a}" for a in axes)} }} }} }} '
                                      f'attr {{ key: "keepdims" value {{ at_bool: {keeps} }} }}')
                    text += output_op("o_" + name, f"{name}/output_tensor_0")
        self.opc("compile", self.graph(text), "--emit", "onnx", "-o", "r.onnx")
        shown = [{o["name"]: (o["type"], o["attrs"], o["outputs"][0]["shape"]) for o in json.loads(self.opc("show", graph, "--json").stdout)["ops"]}
                 for graph in ("g.pbtxt", "r.onnx")]
        self.assertEqual(len(shown[0]), 36)
        self.assertEqual(*shown)

    def test_what_a_step_writes_is_an_output(self):
        sgd = self.graph('op { name: "w" variable_conf { out: "out" shape { dim: 2 } data_type: kFloat initializer { constant_conf { value: 3 } } } }\n' +
                         input_op("g", 2) + 'op { name: "s" user_conf { op_type_name: "sgd_update" input { key: "model" value { s: "w/out" } } '
                         'input { key: "model_diff" value { s: "g/out" } } attr { key: "learning_rate_val" value { at_float: 0.5 } } } }\n' +
                         output_op("now", "w/out"))
        said = self.opc("compile", sgd, "--emit", "onnx", "-o", "s.onnx").stderr
        self.assertIn("w.next", said)
        self.opc("run", "s.onnx", "--input", "g=2,4", "--output", "w.next=n.npy", "--quiet")
        np.testing.assert_array_equal(np.load(self.path("n.npy")), np.array([2, 1], F32))

    def test_variables_that_nothing_reads_are_left_out(self):
        """A plan has no values for them; an op that does nothing for an output goes with its variable."""

        def variable(name):
            return (f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ dim: 2 }} data_type: kFloat '
                    'initializer { constant_conf { value: 3 } } } }\n')

        graph = self.graph(input_op("x", 2) + variable("w") + variable("unused") + variable("idle") + tensor_op("dead", "relu", {"x": "idle/out"}, "y") +
                           tensor_op("p", "broadcast_mul", {"x": "x/out", "y": "w/out"}, "z") + output_op("o", "p/z_0"))
        self.opc("grad", graph, "--loss", "o", "--optimizer", "sgd", "--lr", "0.5", "-o", "step.pbtxt")
        for what, kept in ((graph, {"w"}), ("step.pbtxt", {"w", "train_step"})):
            self.opc("compile", what, "--emit", "onnx", "-o", "u.onnx")
            self.assertEqual([n for n, _ in self.ports("u.onnx")[0]], ["x"])
            self.assertEqual({dict(m.fields(b))[8].decode() for n, b in self.fields_of("u.onnx")[1] if n == 5}, kept)
            self.assertNotIn("Relu", self.nodes("u.onnx"))
            self.opc("run", "u.onnx", "--input", "x=1,2", "--output", "o=o.npy", "--quiet")
            np.testing.assert_array_equal(np.load(self.path("o.npy")), np.array([3, 6], F32))
        # The gradient of the sum of x w is x.
        self.opc("run", "u.onnx", "--input", "x=1,2", "--output", "w.next=n.npy", "--quiet")
        np.testing.assert_array_equal(np.load(self.path("n.npy")), np.array([2.5, 2], F32))


class Numbers(Case):
    """What other programs compute of an exported model: opc's own results, given here by the integers of Python."""
    NAMES = {"kFloat": np.float32, "kDouble": np.float64, "kFloat16": np.float16, "kInt8": np.int8, "kUInt8": np.uint8, "kInt16": np.int16, "kUInt16": np.uint16,
             "kInt32": np.int32, "kUInt32": np.uint32, "kInt64": np.int64}

    def everywhere(self, model, given, wanted):
        """Of the model, of what is exported of it, and of that in ONNX Runtime."""
        self.opc("compile", model, "--emit", "onnx", "-o", "out.onnx")
        np.savez(self.path("in.npz"), **given)
        results = {}
        for what in (model, "out.onnx"):
            self.opc("run", what, "--no-fuse", "--quiet", "--inputs", "in.npz", "--outputs", "made.npz")
            results[what] = dict(np.load(self.path("made.npz")))
        if ort.judges(self):
            results["ONNX Runtime"] = ort.run(self.dir, [("out.onnx", given)])[0]
        for who, made in results.items():
            for name, want in wanted.items():
                with self.subTest(who, name=name):
                    np.testing.assert_array_equal(made[name], want, strict=True)

    def test_numbers_out_of_range_are_held_to_it(self):
        """Towards zero, to the ends of the range; NaN is 0."""
        text, given, wanted = "", {}, {}
        for real in ("kFloat", "kDouble", "kFloat16"):
            with np.errstate(over="ignore"):
                values = np.array([0, -0.5, 2.7, -2.7, np.nan, np.inf, -np.inf, 1e30, -1e30, *(s * (2.0 ** b + d) for b in (7, 8, 15, 16, 31, 32, 63) for s in (1, -1) for d in (-1, 0, 1))],
                                  self.NAMES[real])
            if real == "kFloat16": # which ONNX Runtime for Node is not given
                given["wide"], source = values.astype(F32), real + "/out_0"
                text += input_op("wide", values.size) + tensor_op(real, "cast", {"in": "wide/out"}, "out", f'attr {{ key: "dtype" value {{ at_data_type: {real} }} }}')
            else:
                given[real], source = values, real + "/out"
                text += input_op(real, values.size, dtype=real)
            for whole in ("kInt8", "kUInt8", "kInt16", "kUInt16", "kInt32", "kUInt32", "kInt64"):
                name, ends = f"{real}_{whole}", np.iinfo(self.NAMES[whole])
                text += tensor_op(name, "cast", {"in": source}, "out", f'attr {{ key: "dtype" value {{ at_data_type: {whole} }} }}') + output_op("o_" + name, f"{name}/out_0")
                held = [0 if v != v else ends.max if v == np.inf else ends.min if v == -np.inf else min(max(int(v), ends.min), ends.max) for v in values.tolist()]
                wanted["o_" + name] = np.array(held, self.NAMES[whole])
        self.everywhere(self.graph(text), given, wanted)

    def test_quantised_by_blocks(self):
        x = np.array([[-300, -5, 0, 7, 300, 1e6]], F32)
        with open(self.path("q.onnx"), "wb") as f:
            f.write(m.model(m.graph([m.node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1, block_size=3)], [m.value("x", x.shape)], [m.value("y", None, 2)],
                                    [m.tensor("s", np.ones((1, 2), F32)), m.tensor("z", np.zeros((1, 2), np.uint8))]), opset=21))
        self.everywhere("q.onnx", {"x": x}, {"y": np.array([[0, 0, 0, 7, 255, 255]], np.uint8)})

    def test_powers_come_back_as_they_were(self):
        """Bits of norms over windows and images, whose powers are products where they are small whole numbers."""
        x = np.random.default_rng(3).uniform(-2, 2, (1, 2, 7, 6)).astype(F32)
        windows = np.lib.stride_tricks.sliding_window_view(np.abs(x.astype(np.float64)), (3, 2), (2, 3))
        for p in (1, 2, 3, 4):
            with open(self.path("p.onnx"), "wb") as f:
                f.write(m.model(m.graph([m.node("LpPool", ["x"], ["y"], p=p, kernel_shape=[3, 2]), m.node("GlobalLpPool", ["x"], ["z"], p=p)], [m.value("x", x.shape)],
                                        [m.value("y"), m.value("z")]), opset=18))
            self.opc("compile", "p.onnx", "--emit", "onnx", "-o", "out.onnx")
            np.save(self.path("x.npy"), x)
            made = []
            for what in ("p.onnx", "out.onnx"):
                self.opc("run", what, "--no-fuse", "--quiet", "--input", "x=@x.npy", "--outputs", "made.npz")
                made.append(dict(np.load(self.path("made.npz"))))
            np.testing.assert_allclose(made[0]["y"], (windows ** p).sum((-1, -2)) ** (1 / p), rtol=2e-6)
            np.testing.assert_allclose(made[0]["z"], (np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p), rtol=2e-6)
            for name in "yz":
                np.testing.assert_array_equal(made[0][name], made[1][name], f"{name}, p={p}")

    def test_numbers_that_half_precision_does_not_have(self):
        """An op of f16 computes in f32, with a number of f32 beside: so does what is written."""
        number = lambda v: f'attr {{ key: "has_float_operand" value {{ at_bool: true }} }} attr {{ key: "float_operand" value {{ at_double: {v} }} }}'
        x = np.array([0.001, 0.25, -0.5, 1000, 3, 0.2], np.float16)
        np.savez(self.path("in.npz"), x=x)
        for op, value, casts in (("scalar_mul", 100000.0, 2), ("scalar_mul", 1e-9, 2), ("scalar_fmod", 0.1, 2), ("scalar_mul", 0.5, 0)):
            with self.subTest(op=op, value=value):
                text = input_op("x", 6, dtype="kFloat16") + tensor_op("t", op, {"in": "x/out"}, "out", number(value)) + output_op("y", "t/out_0")
                self.opc("compile", self.graph(text), "--emit", "onnx", "-o", "m.onnx", "-q")
                for model in ("g.pbtxt", "m.onnx"):
                    self.opc("run", model, "--inputs", "in.npz", "--outputs", model + ".npz", "--print", "none", "-q")
                graph, back = (np.load(self.path(f + ".npz"))["y"] for f in ("g.pbtxt", "m.onnx"))
                self.assertEqual(graph.tobytes(), back.tobytes())
                if op == "scalar_mul":
                    np.testing.assert_array_equal(graph, (x.astype(F32) * F32(value)).astype(np.float16))
                    self.assertEqual(self.nodes("m.onnx").count("Cast"), casts)

    def test_divisions_of_long_integers(self):
        """Those beyond 2^53, which f64 has not, and those at the ends of the range."""
        ends = np.iinfo(np.int64)
        numbers = [ends.min, ends.min + 1, -(2**53) - 1, -7, -1, 0, 1, 7, 2**53 + 1, 3**39, ends.max - 1, ends.max]
        x, y = (a.ravel() for a in np.meshgrid(np.array(numbers, np.int64), np.array(numbers, np.int64)))
        text = input_op("x", x.size, dtype="kInt64") + input_op("y", x.size, dtype="kInt64")
        wrapped = lambda v: (v - ends.min) % 2**64 + ends.min

        def quotient(a, b):
            return wrapped(a // b) if b else 0

        def remainder(a, b):
            return (abs(a) % abs(b)) * (-1 if a < 0 else 1) if b else 0

        rules = {"broadcast_floor_mod": lambda a, b: a % b if b else 0, "broadcast_fmod": remainder, "floordiv": quotient}
        wanted = {}
        for op, rule in rules.items():
            text += tensor_op(op, op, {"x": "x/out", "y": "y/out"}, "z" if op.startswith("broadcast") else "out") + output_op("o_" + op, f"{op}/{'z' if op.startswith('broadcast') else 'out'}_0")
            wanted["o_" + op] = np.array([rule(a, b) for a, b in zip(x.tolist(), y.tolist())], np.int64)
        for k in (3, -3, -1, 2**53 + 1, ends.min):
            name = f"by{k}".replace("-", "_")
            text += tensor_op(name, "scalar_floordiv", {"in": "x/out"}, "out", f'attr {{ key: "has_int_operand" value {{ at_bool: true }} }} attr {{ key: "int_operand" value {{ at_int64: {k} }} }} '
                              'attr { key: "has_float_operand" value { at_bool: false } } attr { key: "float_operand" value { at_double: 0 } }')
            text += output_op("o_" + name, f"{name}/out_0")
            wanted["o_" + name] = np.array([quotient(a, k) for a in x.tolist()], np.int64)
        self.everywhere(self.graph(text), {"x": x, "y": y}, wanted)


class Refused(Case):
    def test_all_ops_without_a_form_are_listed(self):
        small = self.graph(input_op("x", 3, dtype="kInt32") + tensor_op("a", "broadcast_bitwise_and", {"x": "x/out", "y": "x/out"}, "z") +
                           tensor_op("b", "broadcast_bitwise_and", {"x": "a/z_0", "y": "x/out"}, "z") +
                           tensor_op("c", "broadcast_bitwise_or", {"x": "b/z_0", "y": "x/out"}, "z") + output_op("o", "c/z_0"))
        said = self.opc("compile", small, "--emit", "onnx", "--opset", "17", "-o", "o.onnx", code=4).stderr
        self.assertIn("OPC0423", said)
        self.assertIn("3 ops cannot be written as ONNX", said)
        self.assertRegex(said, r"broadcast_bitwise_and: BitwiseAnd is of operator set 18; 2 ops, the first is a \(g.pbtxt:2\)")
        self.assertRegex(said, r"broadcast_bitwise_or: BitwiseOr is of operator set 18; 1 op, the first is c \(g.pbtxt:4\)")
        self.assertFalse(os.path.exists(self.path("o.onnx")))

    def test_options(self):
        graph = os.path.join(DIGITS, "mlp.pbtxt")
        for opset in ("16", "27", "99"):
            said = self.opc("compile", graph, "--emit", "onnx", "--opset", opset, "-o", "o.onnx", code=2).stderr
            self.assertIn("17 to 26", said)
        self.opc("compile", graph, "--emit", "onnx", "--opset", "x", "-o", "o.onnx", code=2)
        self.opc("compile", graph, "--emit", "onnx", "--opset", "0", "-o", "o.onnx", code=2)
        self.assertIn("--opset is for --emit onnx", self.opc("compile", graph, "--opset", "17", "-o", "o.plan", code=2).stderr)
        self.assertIn("--weights is for --emit onnx", self.opc("compile", graph, "--weights", "w.npz", "-o", "o.plan", code=2).stderr)
        self.assertIn("--partial-weights is for --emit onnx",
                      self.opc("compile", graph, "--partial-weights", "-o", "o.plan", code=2).stderr)
        self.assertIn("give --weights",
                      self.opc("compile", graph, "--emit", "onnx", "--partial-weights", "-o", "o.onnx", code=2).stderr)
        for phase in ("import", "fuse", "plan"):
            self.assertIn("--to", self.opc("compile", graph, "--emit", "onnx", "--to", phase, "-o", "o.onnx", code=2).stderr)

    def test_files(self):
        graph = os.path.join(DIGITS, "mlp.pbtxt")
        self.assertIn("OPC0", self.opc("compile", graph, "--emit", "onnx", "-o", "no/such/o.onnx", code=2).stderr)
        os.mkdir(self.path("folder.onnx"))
        self.opc("compile", graph, "--emit", "onnx", "-o", "folder.onnx", code=2)
        self.assertIn("OPC0706", self.opc("compile", graph, "--emit", "onnx", "--weights", "none.npz", "-o", "o.onnx", code=2).stderr)
        np.savez(self.path("w.npz"), nobody=np.zeros(3, F32))
        self.assertIn("OPC0717", self.opc("compile", graph, "--emit", "onnx", "--weights", "w.npz", "-o", "o.onnx", code=2).stderr)
        self.assertFalse(os.path.exists(self.path("o.onnx")))
        shutil.copy(graph, self.path("g.onnx"))
        self.assertIn("OPC0002", self.opc("compile", "g.onnx", "--emit", "onnx", "-o", "g.onnx", code=2).stderr)
        if os.geteuid() != 0:
            os.mkdir(self.path("closed"), stat.S_IRUSR | stat.S_IXUSR)
            self.assertIn("OPC0707", self.opc("compile", graph, "--emit", "onnx", "-o", "closed/o.onnx", code=2).stderr)

    def test_open_sizes(self):
        graph = self.graph(input_op("x", -1, 3) + tensor_op("y", "relu", {"x": "x/out"}, "y") + output_op("o", "y/y_0"))
        self.assertIn("OPC0207", self.opc("compile", graph, "--emit", "onnx", "-o", "o.onnx", code=3).stderr)
        self.opc("compile", graph, "--emit", "onnx", "--shape", "x=2,3", "-o", "o.onnx")
        self.assertEqual(self.nodes("o.onnx"), ["Relu"])


if __name__ == "__main__":
    unittest.main()
