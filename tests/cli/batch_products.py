# Products in parts of a batch: a transformer's layers, computed for some samples after the others, have the bits of the samples alone.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest
import unittest.mock

import numpy as np

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
BATCH, LENGTH, WIDTH, HEADS, HIDDEN, LAYERS = 16, 96, 256, 4, 1024, 2


def dims(*shape):
    return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"


def op(name, kind, inputs, attrs=""):
    args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} {attrs} }} }}'


def attr(key, **value):
    (kind, v), = value.items()
    return f'attr {{ key: "{key}" value {{ {kind}: {v} }} }} '


def listed(kind, *v):
    return {kind: "{ " + " ".join(f"val: {i}" for i in v) + " }"}


class Encoder:
    """Layers of attention and of two products, each with a sum and a normalization: as a graph, and in f64."""

    def __init__(self, batch, mask=False, inferred=False, hidden=HIDDEN):
        self.batch, self.lines, self.weights, self.hidden = batch, [], {}, hidden
        self.draw = np.random.default_rng(11)
        self.inferred = inferred  # reshapes say -1 for the batch
        last = "x/out"
        self.lines.append(f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(batch, LENGTH, WIDTH)} data_type: kFloat }} }} }}')
        if mask:
            self.variable("mask", np.triu(np.full((1, HEADS, LENGTH, LENGTH), -1e4, np.float32), 1))
        for k in range(LAYERS):
            last = self.layer(f"l{k}", last, mask)
        self.lines.append(f'op {{ name: "y" output_conf {{ in: "{last}" }} }}')

    def variable(self, name, value):
        self.weights[name] = np.ascontiguousarray(value, np.float32)
        self.lines.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {dims(*value.shape)} data_type: kFloat initializer {{ constant_conf {{ value: 0 }} }} }} }}')

    def linear(self, name, x, n, k):
        self.variable(f"{name}_w", self.draw.standard_normal((n, k)) / np.sqrt(n))
        self.variable(f"{name}_b", self.draw.standard_normal(k) * 0.1)
        self.lines += [op(name, "broadcast_matmul", {"a": x, "b": f"{name}_w/out"}), op(f"{name}_s", "broadcast_add", {"x": f"{name}/out_0", "y": f"{name}_b/out"})]
        return f"{name}_s/z_0"

    def heads(self, name, x):
        self.lines += [op(f"{name}_r", "reshape", {"in": x}, attr("shape", at_shape="{ " + " ".join(f"dim: {d}" for d in (-1 if self.inferred else self.batch, LENGTH, HEADS, WIDTH // HEADS)) + " }")),
                       op(f"{name}_t", "transpose", {"input": f"{name}_r/out_0"}, attr("perm", **listed("at_list_int32", 0, 2, 1, 3)))]
        return f"{name}_t/output_0"

    def norm(self, name, x):
        self.lines.append(op(name, "layer_norm", {"x": x}, attr("begin_norm_axis", at_int64=2) + attr("begin_params_axis", at_int64=2) + attr("epsilon", at_double=1e-5)))
        return f"{name}/y_0"

    def add(self, name, x, y):
        self.lines.append(op(name, "broadcast_add", {"x": x, "y": y}))
        return f"{name}/z_0"

    def layer(self, n, x, mask):
        q, k, v = (self.heads(f"{n}{t}h", self.linear(f"{n}{t}", x, WIDTH, WIDTH)) for t in "qkv")
        self.lines += [op(f"{n}a", "batch_matmul", {"a": q, "b": k}, attr("transpose_b", at_bool="true") + attr("alpha", at_double=0.125))]
        scores = self.add(f"{n}m", f"{n}a/out_0", "mask/out") if mask else f"{n}a/out_0"
        self.lines += [op(f"{n}p", "softmax", {"in": scores}), op(f"{n}o", "batch_matmul", {"a": f"{n}p/out_0", "b": v}),
                       op(f"{n}ot", "transpose", {"input": f"{n}o/out_0"}, attr("perm", **listed("at_list_int32", 0, 2, 1, 3))),
                       op(f"{n}or", "reshape", {"in": f"{n}ot/output_0"}, attr("shape", at_shape="{ " + " ".join(f"dim: {d}" for d in (self.batch, LENGTH, WIDTH)) + " }"))]
        x = self.norm(f"{n}n", self.add(f"{n}r", x, self.linear(f"{n}f", f"{n}or/out_0", WIDTH, WIDTH)))
        self.lines.append(op(f"{n}g", "gelu", {"in": self.linear(f"{n}u", x, WIDTH, self.hidden)}))
        return self.norm(f"{n}z", self.add(f"{n}e", x, self.linear(f"{n}d", f"{n}g/out_0", self.hidden, WIDTH)))

    def text(self):
        return "\n".join([*self.lines, ""])

    def reference(self, x):
        erf = np.vectorize(__import__("math").erf)
        w = {k: v.astype(np.float64) for k, v in self.weights.items()}
        linear = lambda n, v: v @ w[f"{n}_w"] + w[f"{n}_b"]
        split = lambda v: v.reshape(len(v), LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

        def norm(v):
            v = v - v.mean(-1, keepdims=True)
            return v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-5)

        v = x.astype(np.float64)
        for k in range(LAYERS):
            n = f"l{k}"
            a, b, c = (split(linear(f"{n}{t}", v)) for t in "qkv")
            s = a @ b.transpose(0, 1, 3, 2) * 0.125 + w.get("mask", 0)
            s = np.exp(s - s.max(-1, keepdims=True))
            o = (s / s.sum(-1, keepdims=True) @ c).transpose(0, 2, 1, 3).reshape(v.shape)
            v = norm(v + linear(f"{n}f", o))
            u = linear(f"{n}u", v)
            v = norm(v + linear(f"{n}d", u * (1 + erf(u / np.sqrt(2))) / 2))
        return v


class BatchProducts(FolderTest):
    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(5).standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32)
        np.save(self.path("x.npy"), self.x)

    def make(self, name, **options):
        model = Encoder(**options)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(model.text())
        np.savez(self.path("w.npz"), **model.weights)
        return model

    def opc(self, *args, env=(), **more):
        return super().opc(*args, env={**os.environ, **dict(env)}, **more)

    def run_graph(self, graph, *more, x="x.npy", program=OPC, env=()):
        os.makedirs(self.path("made"), exist_ok=True)
        self.opc(*(["run"] if program == OPC else []), graph, "--weights", "w.npz", "--input", f"x=@{x}", "--outputs", "made", *more, program=program, env=env)
        return np.load(self.path("made/y.npy"))

    def parts(self, graph):
        return json.loads(self.opc("show", graph, "--what", "fusion", "--json").stdout)["fusion"]["parts"]

    def test_samples_have_the_bits_that_they_have_alone(self):
        for options in ({}, {"mask": True}, {"inferred": True}):
            with self.subTest(**options):
                model = self.make("g.pbtxt", batch=BATCH, **options)
                part, = self.parts("g.pbtxt")
                self.assertGreater(part["parts"], 1)
                self.assertLessEqual({"l0q", "l0f", "l0g", "l1d", "l1z"}, set(part["ops"]), "all layers are in it, reshapes and attention among them")
                together = self.run_graph("g.pbtxt", "-j", "1")
                some = slice(0, BATCH, 5)
                np.testing.assert_allclose(together[some], model.reference(self.x[some]), rtol=2e-4, atol=2e-4)
                self.make("one.pbtxt", batch=1, **options)
                self.assertEqual(self.parts("one.pbtxt"), [])
                for i in range(0, BATCH, 5):
                    np.save(self.path("one.npy"), self.x[i:i + 1])
                    self.assertEqual(self.run_graph("one.pbtxt", x="one.npy").tobytes(), together[i:i + 1].tobytes(), i)
                for threads in ("2", "3", "5", "16", "40"):
                    self.assertEqual(self.run_graph("g.pbtxt", "-j", threads).tobytes(), together.tobytes(), threads)
                self.assertEqual(self.run_graph("g.pbtxt", "--no-codegen", "--repeat", "3").tobytes(), together.tobytes())
                self.assertEqual(self.run_graph("g.pbtxt", env={"OPC_CODE_LEVEL": "none"}.items()).tobytes(), together.tobytes())

    def test_what_became_of_each_op(self):
        """The graph of a part says it of its ops, as any graph does."""
        self.make("g.pbtxt", batch=BATCH)
        fusion = json.loads(self.opc("show", "g.pbtxt", "--what", "fusion", "--json").stdout)["fusion"]
        graph, = fusion["graphs"]
        part, = fusion["parts"]
        self.assertEqual((graph["op"], graph["graph"]), (part["op"], "graph"))
        inner = graph["fusion"]
        joined = {name for region in inner["regions"] for name in region["ops"]}
        alone = {a["op"]: a["reasons"] for a in inner["alone"]}
        self.assertEqual(joined | set(alone), set(part["ops"]))
        self.assertTrue({"l0g", "l0r", "l0n"} <= joined, joined)
        self.assertEqual(alone["l0q"], ["no_loop"])
        self.assertIn(f"\nIn the graph of {part['op']}: ", self.opc("show", "g.pbtxt", "--what", "fusion").stdout)

    def test_plans(self):
        self.make("g.pbtxt", batch=BATCH)
        together = self.run_graph("g.pbtxt")
        self.opc("compile", "g.pbtxt", "--native", "-o", "g.plan")
        for program in (OPC, RUNTIME):
            for more in (("-j", "1"), ("-j", "2"), ("--allow-native",)):
                self.assertEqual(self.run_graph("g.plan", *more, program=program).tobytes(), together.tobytes(), (program, more))

    def test_memory(self):
        """Weights are in memory once: as they are, one at a time, until they are packed."""
        if os.environ.get("OPC_SANITIZE"):
            self.skipTest("a sanitizer's memory is counted, too")
        model = self.make("g.pbtxt", batch=BATCH, hidden=6144)
        weights = sum(w.nbytes for w in model.weights.values())
        with open(self.path("small.pbtxt"), "w", encoding="utf-8") as f:
            f.write(f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(4)} data_type: kFloat }} }} }} ' + op("e", "exp", {"x": "x/out"}) + ' op { name: "y" output_conf { in: "e/y_0" } }')
        peak = ("import os,resource,subprocess,sys; code=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL).returncode; "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024); sys.exit(code)")

        def taken(*more):
            done = subprocess.run([sys.executable, "-c", peak, OPC, "run", *more, "--print", "none"], cwd=self.folder, capture_output=True, text=True, timeout=300, check=True)
            return int(done.stdout)

        nothing = taken("small.pbtxt", "--input", "x=ones")
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        memory = json.loads(self.opc("show", "g.plan", "--what", "memory", "--json").stdout)["memory"]
        graph, = (s["bytes"] for s in memory["slots"] if s["kind"] == "graph")
        self.assertLess(graph, weights / 2, "what the part reads where the task has it is not the part's memory")
        self.assertLess(memory["arena_bytes"], weights + (16 << 20), "weights count once")
        largest = max(w.nbytes for w in model.weights.values())
        for threads in (1, 2):
            # The arena has room for the weights; what is packed lies beside it.
            allowed = nothing + memory["arena_bytes"] + (threads - 1) * graph + largest + (4 << 20)
            self.assertGreater(2 * weights, weights + largest + (8 << 20), "twice the weights would show")
            self.assertLess(taken("g.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", "-j", str(threads)), allowed, threads)

    def test_products_by_rows(self):
        """What parts rely on: a row of a product with weights has the same bits, however many rows there are beside it, and threads."""
        draw = np.random.default_rng(3)
        for k, n in ((32, 32), (48, 200), (100, 96), (256, 512), (512, 1536), (768, 1000), (1000, 64), (3072, 768)):
            for transposed in (False, True):
                w = (draw.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
                np.savez(self.path("w.npz"), w=w.T if transposed else w)
                x = draw.standard_normal((512, k)).astype(np.float32)

                def rows(count, *more):
                    with open(self.path("p.pbtxt"), "w", encoding="utf-8") as f:
                        f.write("\n".join([f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(count, k)} data_type: kFloat }} }} }}',
                                           f'op {{ name: "w" variable_conf {{ out: "out" {dims(n, k) if transposed else dims(k, n)} data_type: kFloat initializer {{ constant_conf {{ value: 0 }} }} }} }}',
                                           op("p", "matmul", {"a": "x/out", "b": "w/out"}, attr("transpose_b", at_bool="true") if transposed else ""),
                                           'op { name: "y" output_conf { in: "p/out_0" } }']))
                    np.save(self.path("rows.npy"), x[:count])
                    return self.run_graph("p.pbtxt", *more, x="rows.npy")

                whole = rows(512)
                np.testing.assert_allclose(whole, x.astype(np.float64) @ w.astype(np.float64), rtol=1e-4, atol=1e-4)
                for count in (32, 49, 96, 128, 197, 256):
                    for threads in ("1", "7"):
                        self.assertEqual(rows(count, "-j", threads).tobytes(), whole[:count].tobytes(), (k, n, transposed, count, threads))
                # Fewer are computed by tiles of opc's own, which have the same bits with AVX2 and AVX-512.
                for count in (2, 8, 13, 31):
                    few = rows(count, "-j", "1")
                    np.testing.assert_allclose(few, x[:count].astype(np.float64) @ w.astype(np.float64), rtol=1e-4, atol=1e-4)
                    for level, threads in (("v3", "2"), ("v4", "7")):
                        with unittest.mock.patch.dict(os.environ, OPC_CODE_LEVEL=level):
                            self.assertEqual(rows(count, "-j", threads).tobytes(), few.tobytes(), (k, n, transposed, count, level, threads))
                for threads in ("2", "3", "4", "8", "16", "40"):
                    self.assertEqual(rows(512, "-j", threads).tobytes(), whole.tobytes(), (k, n, transposed, threads))

    def test_places_among_all_rows(self):
        """An op that deals with rows by their place among all of them is given all of them."""
        rows, width = 8192, 256
        draw = np.random.default_rng(6)
        x = draw.standard_normal((rows, width)).astype(np.float32)
        some, places = draw.standard_normal((4, width)).astype(np.float32), np.array([[8000], [3], [3], [4097]])
        weights = {f"w{k}": (draw.standard_normal((width, width)) / 16).astype(np.float32) for k in (1, 2, 3)}
        weights |= {"some": some, "places": places, "lines": np.broadcast_to(places, (4, width))}
        np.save(self.path("x.npy"), x)
        box = "".join(attr(key, **listed("at_list_int64", *v)) for key, v in (("start", (5, 0)), ("stop", (9, width)), ("step", (1, 1))))

        def replaced(v):
            v[5:9] = some
            return v

        def added(v):
            np.add.at(v, places[:, 0], some)
            return v

        cases = {"tril": ("tril", {"in": "h2/out_0"}, "out", "", np.tril), "triu": ("triu", {"in": "h2/out_0"}, "out", attr("diagonal", at_int64=-300), lambda v: np.triu(v, -300)),
                 "rows": ("slice_update", {"ref": "h2/out_0", "value": "some/out"}, "y", box, replaced),
                 "tuples": ("tensor_scatter_nd_add", {"params": "h2/out_0", "updates": "some/out", "indices": "places/out"}, "out", "", added),
                 "lines": ("dim_scatter_add", {"input": "h2/out_0", "index": "lines/out", "src": "some/out"}, "output", attr("dim", at_int32=0), added)}
        hidden = np.maximum(x.astype(np.float64) @ weights["w1"], 0) @ weights["w2"].astype(np.float64)
        for name, (kind, inputs, out, attrs, reference) in cases.items():
            with self.subTest(name):
                lines = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(rows, width)} data_type: kFloat }} }} }}']
                read = {v: value for v, value in weights.items() if v.startswith("w") or f"{v}/out" in inputs.values()}
                np.savez(self.path("w.npz"), **read)
                for variable, value in read.items():
                    dtype, initial = ("kFloat", "constant_conf") if value.dtype == np.float32 else ("kInt64", "constant_int_conf")
                    lines.append(f'op {{ name: "{variable}" variable_conf {{ out: "out" {dims(*value.shape)} data_type: {dtype} initializer {{ {initial} {{ value: 0 }} }} }} }}')
                lines += [op("h1", "matmul", {"a": "x/out", "b": "w1/out"}), op("r1", "relu", {"x": "h1/out_0"}), op("h2", "matmul", {"a": "r1/y_0", "b": "w2/out"}),
                          op("t", kind, inputs, attrs), op("h3", "matmul", {"a": f"t/{out}_0", "b": "w3/out"}), op("r3", "relu", {"x": "h3/out_0"}), 'op { name: "y" output_conf { in: "r3/y_0" } }']
                with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
                    f.write("\n".join(lines))
                self.assertTrue(all("t" not in part["ops"] for part in self.parts("g.pbtxt")))
                wanted = np.maximum(reference(hidden.copy()) @ weights["w3"].astype(np.float64), 0)
                np.testing.assert_allclose(self.run_graph("g.pbtxt"), wanted, rtol=1e-3, atol=1e-3)

    def test_weights_computed_once(self):
        """Packed, as they are with fusion, products of them may round otherwise than as they lie (docs/numerics.md)."""
        draw = np.random.default_rng(8)
        x, w = draw.standard_normal((64, 512)).astype(np.float32), draw.standard_normal((512, 2048)).astype(np.float32)
        np.savez(self.path("w.npz"), w=w)
        np.save(self.path("x.npy"), x)
        with open(self.path("p.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join([f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(64, 512)} data_type: kFloat }} }} }}',
                               f'op {{ name: "w" variable_conf {{ out: "out" {dims(512, 2048)} data_type: kFloat initializer {{ constant_conf {{ value: 0 }} }} }} }}',
                               op("t", "tanh", {"x": "w/out"}), op("p", "matmul", {"a": "x/out", "b": "t/y_0"}), 'op { name: "y" output_conf { in: "p/out_0" } }']))
        wanted = x.astype(np.float64) @ np.tanh(w.astype(np.float64))
        for more in ((), ("--no-fuse",)):
            np.testing.assert_allclose(self.run_graph("p.pbtxt", *more), wanted, rtol=1e-4, atol=1e-3)


if __name__ == "__main__":
    unittest.main()
