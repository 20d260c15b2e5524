# Batches in parts: convolutions computed for one sample after the other have the bits of the samples alone, in less memory.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import struct
import sys
import unittest

import numpy as np

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
SIDE, CHANNELS = 28, 64  # 0.2 MB of f32 a sample
BATCH = 24


def dims(*shape):
    return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"


def op(name, kind, inputs, attrs=""):
    args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} {attrs} }} }}'


def conv(name, x, w, size=1):
    ints = lambda key, *v: f'attr {{ key: "{key}" value {{ at_list_int32 {{ ' + " ".join(f"val: {i}" for i in v) + " } } }"
    return op(name, "conv2d", {"in": x, "weight": w},
              f'attr {{ key: "filters" value {{ at_int32: {CHANNELS} }} }} ' + ints("kernel_size", size, size) + " " + ints("padding_before", size // 2, size // 2))


def network(batch, extra=()):
    """Two residual blocks of 1x1 and 3x3 convolutions with what is between them, and the mean of each image."""
    lines = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(batch, CHANNELS, SIDE, SIDE)} data_type: kFloat }} }} }}']
    for name, size in (("wa", 1), ("wb", 3), ("wc", 1), ("wd", 3)):
        lines.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {dims(CHANNELS, CHANNELS, size, size)} data_type: kFloat initializer {{ random_normal_conf {{ mean: 0 std: 0.06 }} }} }} }}')
    last = "x/out"
    for first, second, wide, tag in (("wa", "wb", 3, "1"), ("wc", "wd", 3, "2")):
        lines += [conv(f"a{tag}", last, f"{first}/out"), op(f"r{tag}", "relu", {"x": f"a{tag}/out_0"}),
                  conv(f"b{tag}", f"r{tag}/y_0", f"{second}/out", wide), op(f"s{tag}", "broadcast_add", {"x": f"b{tag}/out_0", "y": last}),
                  op(f"t{tag}", "silu", {"in": f"s{tag}/z_0"})]
        last = f"t{tag}/out_0"
    lines += [op("m", "reduce_mean", {"input_tensor": last}, 'attr { key: "axis" value { at_list_int32 { val: 2 val: 3 } } } attr { key: "keepdims" value { at_bool: false } }'),
              'op { name: "y" output_conf { in: "m/output_tensor_0" } }', *extra]
    return "\n".join([*lines, ""])


def reference(x, weights):
    """The same in f64, by shifted products."""
    def convolved(v, w):
        size = w.shape[2]
        padded = np.pad(v, ((0, 0), (0, 0), (size // 2,) * 2, (size // 2,) * 2))
        return sum(np.einsum("nchw,oc->nohw", padded[:, :, i:i + SIDE, j:j + SIDE], w[:, :, i, j]) for i in range(size) for j in range(size))

    v = x.astype(np.float64)
    for first, second in (("wa", "wb"), ("wc", "wd")):
        s = convolved(np.maximum(convolved(v, weights[first]), 0), weights[second]) + v
        v = s / (1 + np.exp(-s))
    return v.mean(axis=(2, 3))


class BatchParts(FolderTest):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(7)
        self.x = draw.standard_normal((BATCH, CHANNELS, SIDE, SIDE), dtype=np.float32)
        self.weights = {n: (draw.standard_normal((CHANNELS, CHANNELS, k, k)) * 0.06).astype(np.float32) for n, k in (("wa", 1), ("wb", 3), ("wc", 1), ("wd", 3))}
        np.save(self.path("x.npy"), self.x)
        np.savez(self.path("w.npz"), **self.weights)
        self.file("g.pbtxt", network(BATCH))

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def opc(self, *args, env=(), **more):
        return super().opc(*args, env={**os.environ, **dict(env)}, **more)

    def run_graph(self, graph, *more, x="x.npy", program=OPC):
        os.makedirs(self.path("made"), exist_ok=True)
        self.opc(*(["run"] if program == OPC else []), graph, "--weights", "w.npz", "--input", f"x=@{x}", "--outputs", "made", *more, program=program)
        return np.load(self.path("made/y.npy"))

    def fusion(self, graph):
        return json.loads(self.opc("show", graph, "--what", "fusion", "--json").stdout)["fusion"]

    def test_samples_have_the_bits_that_they_have_alone(self):
        parts = self.fusion("g.pbtxt")["parts"]
        self.assertEqual(len(parts), 1)
        self.assertGreater(parts[0]["parts"], 1)
        self.assertEqual(BATCH % parts[0]["parts"], 0)
        self.assertLessEqual({"r1", "s1", "t1", "r2"}, set(parts[0]["ops"]))
        together = self.run_graph("g.pbtxt", "-j", "1")
        np.testing.assert_allclose(together, reference(self.x, self.weights), rtol=2e-5, atol=2e-5)
        self.file("one.pbtxt", network(1))
        self.assertEqual(self.fusion("one.pbtxt")["parts"], [])
        for i in range(0, BATCH, 5):
            np.save(self.path("one.npy"), self.x[i:i + 1])
            self.assertEqual(self.run_graph("one.pbtxt", x="one.npy").tobytes(), together[i:i + 1].tobytes(), i)
        for threads in ("2", "3", "5", "7", "16"):  # some share the parts out, others share the work of each
            self.assertEqual(self.run_graph("g.pbtxt", "-j", threads).tobytes(), together.tobytes(), threads)
        self.assertEqual(self.run_graph("g.pbtxt", "--repeat", "3").tobytes(), together.tobytes())
        self.assertEqual(self.run_graph("g.pbtxt", "--no-codegen").tobytes(), together.tobytes())

    def test_a_plan(self):
        together = self.run_graph("g.pbtxt")
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        with open(self.path("g.plan"), "rb") as f:
            self.assertEqual(struct.unpack("<I", f.read(12)[8:])[0], 6)
        for program in (OPC, RUNTIME):
            for threads in ("1", "2"):
                self.assertEqual(self.run_graph("g.plan", "-j", threads, program=program).tobytes(), together.tobytes(), (program, threads))
        kernels = self.opc("show", "g.plan", "--what", "tasks").stdout
        self.assertIn("cpu/batch_parts", kernels)

    def test_memory(self):
        def memory(graph, *more):
            self.opc("compile", graph, "-o", "m.plan", *more)
            return json.loads(self.opc("show", "m.plan", "--what", "memory", "--json").stdout)["memory"]

        parts, whole = memory("g.pbtxt"), memory("g.pbtxt", "--no-fuse")
        graphs = [s for s in parts["slots"] if s["kind"] == "graph"]
        self.assertEqual(len(graphs), 1)
        self.opc("compile", "g.pbtxt", "-o", "m.plan")
        page = self.opc("report", "m.plan", "-o", "-").stdout
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
        kinds = json.loads(re.search(r"const kinds = (\[.*?\]);", page)[1])
        self.assertEqual([kinds[s[1]] for s in data["memory"]["slots"]], [s["kind"] for s in parts["slots"]])
        drawing = self.opc("show", "m.plan", "--what", "memory", "--as", "svg").stdout
        self.assertIn('<rect class="graph"', drawing)
        self.assertIn(".md .graph{", drawing)
        self.assertIn("graphs in ops, variables, constants and inputs", drawing)
        self.assertGreater(graphs[0]["bytes"], 2 * 4 * CHANNELS * SIDE * SIDE)  # two tensors of a sample
        self.assertLess(parts["activation_bytes"] + graphs[0]["bytes"], whole["activation_bytes"] * 2 / 3)
        # Each thread's graph counts for the limit; where one graph has all parts, that one.
        self.opc("compile", "g.pbtxt", "-o", "m.plan")
        for threads, count in ((1, 1), (2, 2), (3, 3), (64, 1)):
            least = parts["arena_bytes"] + (count - 1) * graphs[0]["bytes"]
            given = ("m.plan", "--weights", "w.npz", "--input", "x=@x.npy", "-j", str(threads), "--max-memory")
            for program in (OPC, RUNTIME):
                command = ("run", *given) if program == OPC else given
                self.opc(*command, str(least), program=program)
                said = self.opc(*command, str(least - 1), code=4, program=program).stderr
                self.assertIn(f"the plan needs {least} bytes of memory" + (f" with {threads} threads" if count > 1 else ""), said)
                self.assertEqual("(-j)" in said, count > 1)
        shown = json.loads(self.opc("show", "g.pbtxt", "--what", "memory", "--json").stdout)["memory"]
        self.assertEqual(shown["arena_bytes"], parts["arena_bytes"])
        self.assertEqual(json.loads(self.opc("show", "g.pbtxt", "--what", "cost", "--json").stdout)["peak_bytes"], parts["arena_bytes"])
        self.assertIn("graphs in ops", self.opc("show", "g.pbtxt", "--what", "memory").stdout)

    def test_what_it_computes_is_counted(self):
        """Operations of a plan are those of the graph's convolutions, by the formula, and a step takes the time that they take."""
        convolutions = sum(2 * w.size * BATCH * SIDE * SIDE for w in self.weights.values())
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        costs = {what: json.loads(self.opc("show", what, "--what", "cost", "--json").stdout) for what in ("g.pbtxt", "g.plan")}
        self.assertAlmostEqual(costs["g.plan"]["flops"] / costs["g.pbtxt"]["flops"], 1, delta=0.03)
        self.assertAlmostEqual(costs["g.plan"]["flops"] / convolutions, 1, delta=0.06)
        made = json.loads(self.opc("run", "g.plan", "--weights", "w.npz", "--input", "x=@x.npy", "--profile", "--print", "none", "--json").stdout)
        inside = sum(op["flops"] for op in made["profile"]["ops"] if op.get("in") == "t2")
        self.assertGreater(inside, 0.9 * convolutions)
        self.file("c.json", json.dumps({"schema": 1, "name": "one", "device": {"flops": {"f32": 1e9}, "memory_bandwidth": 1e12, "memory_bytes": 1 << 34},
                                        "levels": [{"name": "none", "devices": 1, "latency": 0, "bandwidth": 1e12}]}))
        step = json.loads(self.opc("compile", "g.pbtxt", "-o", "g.plan", "--simulate", "c.json", "--json").stdout)["simulation"]["step_seconds"]
        whole = json.loads(self.opc("compile", "g.pbtxt", "-o", "g.plan", "--no-fuse", "--simulate", "c.json", "--json").stdout)["simulation"]["step_seconds"]
        self.assertAlmostEqual(step / whole, 1, delta=0.05)

    def test_outputs_inside(self):
        """What is an output, or read by an op of another kind, is there, under its name."""
        self.file("g.pbtxt", network(BATCH, ['op { name: "inner" output_conf { in: "t1/out_0" } }', op("top", "reduce_max", {"input_tensor": "r2/y_0"}, 'attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } }'), 'op { name: "largest" output_conf { in: "top/output_tensor_0" } }']))
        made = {}
        for kind, more in (("fused", ()), ("alone", ("--no-fuse",))):
            os.mkdir(self.path(kind))
            self.opc("run", "g.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", "--outputs", kind, *more)
            made[kind] = {n: np.load(self.path(f"{kind}/{n}.npy")) for n in ("y", "inner", "largest")}
        self.assertTrue(self.fusion("g.pbtxt")["parts"])
        for name, value in made["alone"].items():
            np.testing.assert_allclose(made["fused"][name], value, rtol=1e-5, atol=1e-5, err_msg=name)

    def test_looking_inside(self):
        os.mkdir(self.path("seen"))
        self.opc("run", "g.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", "--capture", "r1*=seen")
        inner = [n for n in os.listdir(self.path("seen")) if "r1" in n]
        self.assertEqual(len(inner), 1, "an op inside is an op of the graph where one looks at it")
        self.opc("run", "g.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", "--trace", "t.json")
        with open(self.path("t.json"), encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        inside = [e for e in events if "fused_conv2d" in json.dumps(e.get("args", {})) and "batch_parts" in json.dumps(e)]
        self.assertTrue(inside, "the event of the parts lists their ops")

    def test_machine_code_in_a_plan(self):
        """The loops of the part's graph have code, which runs where that is asked for, with the same bits."""
        together = self.run_graph("g.pbtxt")
        native = json.loads(self.opc("compile", "g.pbtxt", "--native=v3", "-o", "native.plan", "--json").stdout)["native"]
        self.assertGreater(native["loops"], 0)
        self.assertGreater(native["codes"], 0)
        for program in (OPC, RUNTIME):
            self.assertEqual(self.run_graph("native.plan", program=program).tobytes(), together.tobytes(), program)
            said = self.opc(*(["run"] if program == OPC else []), "native.plan", "--weights", "w.npz", "--input", "x=@x.npy", "--allow-native", "--stats",
                            "--outputs", "made", program=program, env={"OPC_CODE_LEVEL": "v3"}.items()).stderr
            self.assertRegex(said, "the plan's machine code for [1-9]")
            self.assertEqual(np.load(self.path("made/y.npy")).tobytes(), together.tobytes(), program)

    def test_errors_inside(self):
        """An error of an op inside has its line in the file, and says which samples its part has."""
        text = network(BATCH).replace(conv("b1", "r1/y_0", "wb/out", 3), "\n".join([
            f'op {{ name: "i" input_conf {{ out: "out" blob_conf {{ {dims(BATCH, CHANNELS, SIDE, SIDE)} data_type: kInt32 }} }} }}',
            op("moved", "dim_gather", {"input": "r1/y_0", "index": "i/out"}, 'attr { key: "dim" value { at_int32: 3 } }'), conv("b1", "moved/output_0", "wb/out", 3)]))
        self.file("moved.pbtxt", text)
        line = [k for k, row in enumerate(text.split("\n"), 1) if '"moved" user_conf' in row][0]
        parts = self.fusion("moved.pbtxt")["parts"][0]
        self.assertIn("moved", parts["ops"])
        index = np.zeros((BATCH, CHANNELS, SIDE, SIDE), np.int32)
        index[9, 3, 4, 5] = 77
        np.save(self.path("i.npy"), index)
        self.opc("compile", "moved.pbtxt", "-o", "moved.plan")
        size = BATCH // parts["parts"]
        for graph, program in (("moved.pbtxt", OPC), ("moved.plan", OPC), ("moved.plan", RUNTIME)):
            said = self.opc(*(["run"] if program == OPC else []), graph, "--weights", "w.npz", "--input", "x=@x.npy", "--input", "i=@i.npy", code=5, program=program).stderr
            self.assertIn(f"index[{9 % size},3,4,5] = 77 is outside [0, 28)", said)
            self.assertIn(f"(in part {9 // size + 1} of {parts['parts']} of the batch, which begins with sample {9 // size * size})", said)
            self.assertIn(f"running op moved at moved.pbtxt:{line}:1", said)
        # A place is no text: names that look like a model's node, or like a line, change nothing.
        name = "moved: node 1:2:3.pbtxt"
        for loc in ("my: node train.py:41", "other.pbtxt:7:3"):
            self.file(name, text.replace('name: "moved" user_conf', f'name: "moved" loc: "{loc}" user_conf'))
            self.opc("compile", name, "-o", "moved.plan")
            for graph in (name, "moved.plan"):
                said = self.opc("run", graph, "--weights", "w.npz", "--input", "x=@x.npy", "--input", "i=@i.npy", code=5).stderr
                self.assertIn(f"running op moved at {name}:{line}:1", said)
                self.assertNotIn(loc, said)

    def test_a_graph_with_parts(self):
        """What the phase has made is a graph again, for one device and, written out, for two."""
        together = self.run_graph("g.pbtxt")
        self.opc("compile", "g.pbtxt", "--to", "fuse", "--emit", "pbtxt", "-o", "parts.pbtxt")
        with open(self.path("parts.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn("batch_parts", text)
        self.assertEqual(self.run_graph("parts.pbtxt").tobytes(), together.tobytes())
        np.testing.assert_allclose(self.run_graph("parts.pbtxt", "--mesh", "2", "--in-process"), together, rtol=1e-5, atol=1e-5)
        for change, code in ((('key: "parts" value { at_int64: ', 'key: "parts" value { at_int64: 7'), "OPC0202"), ):
            number = re.search(re.escape(change[0]) + r"(\d+)", text)
            self.file("bad.pbtxt", text.replace(number.group(0), change[1]))
            said = self.opc("compile", "bad.pbtxt", "-o", "bad.plan", code=3).stderr
            self.assertIn("7 equal parts", said)
        other = text.replace(number.group(0), change[0] + str(2 * int(number.group(1))) if BATCH % (2 * int(number.group(1))) == 0 else change[0] + "2")
        self.file("bad.pbtxt", other)
        self.assertIn("OPC0826", self.opc("compile", "bad.pbtxt", "-o", "bad.plan", code=3).stderr)

    def test_differences_inside(self):
        """A plan has no text of its graphs: what they compute is compared, whatever it is called."""
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        self.assertEqual(self.opc("diff", "g.pbtxt", "g.plan").stdout, "no difference\n")
        text = network(BATCH)
        self.file("renamed.pbtxt", "# a line more\n" + text.replace('"r1', '"first'))
        self.file("other.pbtxt", text.replace(op("r1", "relu", {"x": "a1/out_0"}), op("r1", "hardswish", {"in": "a1/out_0"})).replace("r1/y_0", "r1/out_0"))
        for name in ("renamed", "other"):
            self.opc("compile", f"{name}.pbtxt", "-o", f"{name}.plan")
        self.assertEqual(self.opc("diff", "g.plan", "renamed.plan").stdout, "no difference\n")
        for pair in (("g.plan", "other.plan"), ("g.pbtxt", "other.plan"), ("g.plan", "other.pbtxt")):
            self.assertRegex(self.opc("diff", *pair, code=1).stdout, r"op +~ +t2 +attr graph: \"sha256:[0-9a-f]+")

    def test_draws_in_a_part(self):
        """A graph of parts that somebody has written may draw: the numbers are those of the part and the step, for any threads."""
        inner = (f'op {{ name: "in0" input_conf {{ out: "out" blob_conf {{ {dims(2, 300)} data_type: kFloat }} }} }} ' +
                 op("drop", "dropout", {"in": "in0/out"}, 'attr { key: "rate" value { at_float: 0.5 } }') + ' op { name: "out0" output_conf { in: "drop/out_0" } }')
        self.file("draws.pbtxt", "\n".join([
            f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(16, 300)} data_type: kFloat }} }} }}',
            op("p", "batch_parts", {"in": "x/out"}, "attr { key: \"graph\" value { at_string: '" + inner + "' } } attr { key: \"parts\" value { at_int64: 8 } } "
               'attr { key: "cut" value { at_int64: 1 } } attr { key: "dtypes" value { at_list_data_type { val: kFloat } } } '
               f'attr {{ key: "shapes" value {{ at_list_shape {{ val {{ dim: 16 dim: 300 }} }} }} }}'),
            'op { name: "y" output_conf { in: "p/out_0" } }']))

        def drawn(*more):
            self.opc("run", "draws.pbtxt", "--input", "x=ones", "--output", "y=y.npy", "--print", "none", *more)
            return np.load(self.path("y.npy"))

        for steps in ("1", "3"):
            alone = drawn("-j", "1", "--repeat", steps)
            self.assertEqual(len({alone[2 * k:2 * k + 2].tobytes() for k in range(8)}), 8)
            for threads in ("2", "3", "8"):
                np.testing.assert_array_equal(drawn("-j", threads, "--repeat", steps), alone, err_msg=f"{threads} threads, {steps} steps")
        self.assertTrue((drawn("--repeat", "2") != drawn()).any())

    def test_parts_of_nothing(self):
        """What is empty has any number of equal parts, and a run would compute each of them."""
        for shape in ((0, 3), (10**15, 0)):
            for parts in (1, 10**15, 2**63 - 1 if shape[0] == 0 else 10**12):
                inner = (f'op {{ name: "in0" input_conf {{ out: "out" blob_conf {{ {dims(shape[0] // parts, shape[1])} data_type: kFloat }} }} }} ' +
                         op("r", "relu", {"x": "in0/out"}) + ' op { name: "out0" output_conf { in: "r/y_0" } }')
                self.file("empty.pbtxt", "\n".join([
                    f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(*shape)} data_type: kFloat }} }} }}',
                    op("p", "batch_parts", {"in": "x/out"}, "attr { key: \"graph\" value { at_string: '" + inner + "' } } attr { key: \"parts\" value { at_int64: " + str(parts) + " } } "
                       'attr { key: "cut" value { at_int64: 1 } } attr { key: "dtypes" value { at_list_data_type { val: kFloat } } } '
                       f'attr {{ key: "shapes" value {{ at_list_shape {{ val {{ dim: {shape[0]} dim: {shape[1]} }} }} }} }}'),
                    'op { name: "y" output_conf { in: "p/out_0" } }']))
                with self.subTest(shape=shape, parts=parts):
                    done = self.opc("run", "empty.pbtxt", "--fill", "ones", "--print", "none", code=0 if parts == 1 else 3)
                    if parts > 1:
                        self.assertIn(f"error[OPC0203]: batch_parts: parts is {parts}, and the tensors that are cut have no elements, expected 1", done.stderr)

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "builds under sanitizers have no Python package")
    def test_weights_that_are_set(self):
        """Each thread's graph has packed the weights: others that a session is given take their place."""
        sys.path.insert(0, os.path.join(os.environ["OPC_BUILD_DIR"], "python"))
        import opc  # noqa: E402
        session = opc.load(self.path("g.pbtxt")).compile().session()
        for factor in (1, -0.5):
            weights = {name: (w * np.float32(factor)).astype(np.float32) for name, w in self.weights.items()}
            np.savez(self.path("w.npz"), **weights)
            session.load_weights(self.path("w.npz"))
            np.testing.assert_allclose(session.run(x=self.x)["y"], reference(self.x, weights), rtol=2e-5, atol=2e-5)

    def test_none_where_weights_change(self):
        self.file("loss.pbtxt", network(BATCH) + op("loss", "reduce_mean", {"input_tensor": "m/output_tensor_0"}, 'attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } attr { key: "keepdims" value { at_bool: false } }') + '\nop { name: "l" output_conf { in: "loss/output_tensor_0" } }\n')
        self.opc("grad", "loss.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "step.pbtxt")
        self.assertEqual(self.fusion("step.pbtxt")["parts"], [])


if __name__ == "__main__":
    unittest.main()
