# Regions: one loop gives the bits that its ops give one after the other, for every elementwise op and type, and random graphs;
# as a loop over tiles and as machine code of either level.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import random
import subprocess
import unittest

import numpy as np
import numpy_headers  # noqa: F401

from code_levels import SETTINGS
from folder_test import FolderTest
from plugin_build import build_plugin

PLUGIN = """#include "opc/Elementwise.h"
using namespace opc::user_op;
OPC_SCALAR(Hump, x, a) { return select(x > 0, exp(-x * x) * a, tanh(x) + a); }
REGISTER_USER_OP("hump").Input("x").Output("y").Attr<float>("a", 0.5f).Elementwise<Hump, types::Floating>();
"""
OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
PROTO = {"f32": "kFloat", "f64": "kDouble", "f16": "kFloat16", "bf16": "kBFloat16", "i8": "kInt8", "i16": "kInt16", "i32": "kInt32", "i64": "kInt64", "u8": "kUInt8", "u16": "kUInt16", "u32": "kUInt32", "u64": "kUInt64", "bool": "kBool"}
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}
# What few ops are used with: where every op is tested with every type.
NUMPY_ALL = {**NUMPY, "bf16": np.dtype("V2"), "i16": np.int16, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
UNARY = {  # op: input, output
    "relu": ("x", "y"), "exp": ("x", "y"), "tanh": ("x", "y"), "erf": ("x", "y"), "gelu": ("in", "out"), "sigmoid": ("x", "y"), "negative": ("x", "y"),
    "abs": ("x", "y"), "sqrt": ("x", "y"), "log": ("x", "y"), "sin": ("x", "y"), "silu": ("in", "out"), "floor": ("x", "y"), "square": ("x", "y"), "softsign": ("in", "out"),
}
BINARY = ["broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_maximum", "broadcast_minimum"]
TESTS = ["broadcast_less", "broadcast_equal", "broadcast_greater"]


def graph_between_rolls(seed):
    rng, g = random.Random(seed), Graph()
    tensors, read = [], set()
    roll = 'attr { key: "shifts" value { at_list_int32 { val: 1 } } }'

    def add(x, made):
        read.update(t[0] for t in x)
        tensors.append(made)

    x = g.input((1024,), "f32")
    add([x], g.op("roll", [("in", x)], "out", x[1], x[2], roll))
    for _ in range(rng.choice([3, 4, 5, 6, 8, 10, 14, 20])):
        kind, a = rng.random(), rng.choice(tensors[-4:])
        if kind < 0.25:
            add([a], g.op("roll", [("in", a)], "out", a[1], a[2], roll))
        elif kind < 0.4:
            add([a], g.cast(a, rng.choice(["f32", "f64", "f16", "i8"])))
        elif kind < 0.6:
            add([a], g.unary("negative", a))
        else:
            b = rng.choice([t for t in tensors if t[2] == a[2]])
            add([a, b], g.binary("broadcast_add", a, b))
    for i, t in enumerate(t for t in tensors if t[0] not in read):
        g.output(f"y{i}", t)
    return g


class Graph:
    """Text of a graph, op by op. Tensors are (name, shape, dtype)."""

    def __init__(self):
        self.ops, self.inputs, self.count = [], {}, 0

    def input(self, shape, dtype):
        name = f"in{len(self.inputs)}"
        dims = " ".join(f"dim: {d}" for d in shape)
        self.ops.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {PROTO[dtype]} }} }} }}')
        self.inputs[name] = (shape, dtype)
        return f"{name}/out", tuple(shape), dtype

    def op(self, type, inputs, output, shape, dtype, attrs=""):
        self.count += 1
        name = f"op{self.count}"
        ins = " ".join(f'input {{ key: "{k}" value {{ s: "{t[0]}" }} }}' for k, t in inputs)
        self.ops.append(f'op {{ name: "{name}" user_conf {{ op_type_name: "{type}" {ins} {attrs} }} }}')
        return f"{name}/{output}_0", tuple(shape), dtype

    def unary(self, type, x):
        return self.op(type, [(UNARY[type][0], x)], UNARY[type][1], x[1], x[2])

    def binary(self, type, x, y):
        return self.op(type, [("x", x), ("y", y)], "z", np.broadcast_shapes(x[1], y[1]), "bool" if type in TESTS else x[2])

    def cast(self, x, dtype):
        return self.op("cast", [("in", x)], "out", x[1], dtype, f'attr {{ key: "dtype" value {{ at_data_type: {PROTO[dtype]} }} }}')

    def where(self, c, x, y):
        return self.op("where", [("condition", c), ("x", x), ("y", y)], "out", np.broadcast_shapes(c[1], x[1], y[1]), x[2])

    def output(self, name, x):
        self.ops.append(f'op {{ name: "{name}" output_conf {{ in: "{x[0]}" }} }}')

    def text(self):
        return "\n".join(self.ops) + "\n"


def bfloat16(x):
    """Of f32, rounded to even; files have two bytes for each."""
    bits = np.atleast_1d(x).astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded.reshape(np.shape(x))).view(NUMPY_ALL["bf16"])


def values(rng, shape, dtype):
    if dtype == "bf16":
        return bfloat16(values(rng, shape, "f32"))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in ("f32", "f64", "f16"):
        x = (rng.standard_normal(shape) * rng.choice([0.1, 3.0, 60.0], shape)).astype(NUMPY[dtype])
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(NUMPY[dtype]).tiny / 2, np.finfo(NUMPY[dtype]).max], NUMPY[dtype])
        return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x).astype(NUMPY[dtype])
    info = np.iinfo(NUMPY_ALL[dtype])
    return rng.integers(info.min, info.max, shape, dtype=NUMPY_ALL[dtype], endpoint=True)


def one_nan(a):
    """Which NaN it is, where several operands are NaN, is left open."""
    if a.dtype == NUMPY_ALL["bf16"]:
        bits = a.view(np.uint16)
        return np.where((bits & 0x7FFF) > 0x7F80, np.uint16(0x7FC0), bits)
    return np.where(np.isnan(a), np.array(np.nan, a.dtype), a) if a.dtype.kind == "f" else a


def random_graph(seed):
    """3 to 30 elementwise ops of one shape, with broadcasts, comparisons, selections and casts."""
    pick = random.Random(seed)
    g = Graph()
    shape = pick.choice([(7,), (3, 5), (4, 1, 6), (2, 3, 4, 5), (33, 65), (1,), (), (5000,), (17, 300), (2, 1000, 3)])
    dtype = pick.choice(["f32", "f32", "f32", "f64", "f16"])
    made = [g.input(shape, dtype)]
    for _ in range(pick.randint(0, 3)):
        part = [d if pick.random() < 0.6 else 1 for d in shape]
        made.append(g.input(part[pick.randint(0, len(part)) if part else 0 :], dtype))
    full = [made[0]]
    for _ in range(pick.randint(3, 30)):
        x, kind = pick.choice(full[-4:]), pick.random()
        y = pick.choice(full + made)
        if kind < 0.45:
            r = g.unary(pick.choice(list(UNARY)), x)
        elif kind < 0.8:
            r = g.binary(pick.choice(BINARY), *pick.sample([x, y], 2))
        elif kind < 0.92:
            r = g.where(g.binary(pick.choice(TESTS), x, y), x, pick.choice(full))
        else:
            r = g.cast(g.cast(x, pick.choice(["f32", "f64", "i32", "bf16", "bool"])), dtype)
        full.append(r)
    g.output("last", full[-1])
    for i, x in enumerate(pick.sample(full[1:], min(2, len(full) - 1))):
        g.output(f"also{i}", x)
    return g


def attribute(name, attr):
    """An attribute as text, from a case of the registry."""
    kinds = {"kAtFloat": "at_float", "kAtDouble": "at_double", "kAtInt32": "at_int32", "kAtInt64": "at_int64", "kAtBool": "at_bool"}
    value = attr["value"]
    return f'attr {{ key: "{name}" value {{ {kinds[attr["type"]]}: {str(value).lower()} }} }}'


class RegionCase(FolderTest):
    """Graphs by the command, in a folder of their own."""

    def opc(self, *args, level=None, **more):
        """level: of machine code, for all regions and be they small; a processor without v4 makes v3's."""
        return super().opc(*args, env={**os.environ, "OPC_CODE_LEVEL": level} if level else None, **more)

    def write(self, g, rng):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        np.savez(self.path("in.npz"), **{name: values(rng, shape, dtype) for name, (shape, dtype) in g.inputs.items()})

    def outputs(self, *args, program=OPC, what="g.pbtxt", level=None):
        self.opc("run" if program == OPC else what, *([what] if program == OPC else []), "--inputs", "in.npz", "--outputs", "out.npz", *args, program=program, level=level)
        return self.read()

    def read(self):
        with np.load(self.path("out.npz")) as z:
            return {k: (a.dtype.str, a.shape, hashlib.sha256(one_nan(a).tobytes()).hexdigest()) for k, a in z.items()}

    def run_counted(self, *args, level):
        """The outputs of g.pbtxt, and what that run has compiled."""
        made = self.codegen("--outputs", "out.npz", *args, level=level)
        return self.read(), made

    def codegen(self, *args, **more):
        """What a run of g.pbtxt has compiled."""
        return json.loads(self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--print", "none", "--stats", "--json", *args, **more).stdout)["stats"]["codegen"]

    def fusion(self, *args, level=None):
        return json.loads(self.opc("show", "g.pbtxt", "--what", "fusion", "--json", *args, level=level).stdout)["fusion"]


class Regions(RegionCase):
    def test_random_graphs(self):
        joined = 0
        for seed in range(24):
            with self.subTest(seed=seed):
                rng = np.random.default_rng(seed)
                g = random_graph(seed)
                self.write(g, rng)
                want = self.outputs("--no-fuse", "-j", "1")
                for args in (("-j", "1"), ("-j", "2")):
                    self.assertEqual(self.outputs(*args), want)
                    for level in SETTINGS:
                        self.assertEqual(self.outputs(*args, level=level), want, level)
                self.opc("compile", "g.pbtxt", "-o", "g.plan")
                with open(self.path("g.plan"), "rb") as f:
                    joined += b"opc.fused" in f.read()
                self.assertEqual(self.outputs("-j", "1", program=RUNTIME, what="g.plan"), want)
        self.assertGreater(joined, 18)

    def elementwise_ops(self):
        """{element type: ops of the registry that have an expression and a kernel of that type}."""
        ops = {}
        for op in json.loads(self.opc("ops", "--json").stdout)["ops"]:
            if op["scalar"]:
                for kernel in op["kernels"]:
                    if kernel["dtype"] in NUMPY_ALL and kernel["device"] != "gpu":
                        ops.setdefault(kernel["dtype"], []).append(op)
        self.assertGreater(sum(len(of_type) for of_type in ops.values()), 500)
        self.assertEqual(set(ops), set(NUMPY_ALL))
        return sorted(ops.items())

    def test_every_elementwise_op(self):
        """Each op of the registry that has an expression, after a selection, in every type that it takes: special values and others."""
        rng = np.random.default_rng(3)
        for dtype, ops in self.elementwise_ops():
            with self.subTest(dtype=dtype):
                g = Graph()
                x, y, c = g.input((3, 211), dtype), g.input((3, 211), dtype), g.input((3, 211), "bool")
                for i, op in enumerate(op for op in ops if op["name"] not in ("where", "masked_fill")):
                    attrs = " ".join(attribute(k, v) for k, v in op["cases"][0]["attrs"].items())
                    first = g.where(c, x, g.input((1,), dtype))  # no two are equal
                    ins = [(arg["name"], first if k == 0 else y) for k, arg in enumerate(op["inputs"])]
                    out = op["outputs"][0]["name"]
                    g.output(f"y{i}", g.op(op["name"], ins, out, x[1], dtype, attrs))
                self.write(g, rng)
                want = self.outputs("--no-fuse", "-j", "1")
                self.assertEqual(self.outputs("-j", "1", "--no-codegen"), want)
                runs = {level: self.run_counted("-j", "1", level=level) for level in SETTINGS}
                self.assertEqual({level: got for level, (got, _) in runs.items()}, {level: want for level in runs})
                made = runs["v3"][1]
                self.assertEqual((made["refused"], made["compiled"] + made["reused"] > 0), (0, True), made)
                tasks = json.loads(self.opc("show", "g.pbtxt", "--what", "tasks", "--json").stdout)["tasks"]
                self.assertEqual([t["op"] for t in tasks if "region" not in t], [])

    def test_every_elementwise_op_by_itself(self):
        """Outside of regions, with the bits of the kernels: of many elements and of few."""
        rng = np.random.default_rng(4)
        for dtype, ops in self.elementwise_ops():
            with self.subTest(dtype=dtype):
                for shape in ((3, 449), (7,)):
                    g = Graph()
                    x, y, c = g.input(shape, dtype), g.input(shape, dtype), g.input(shape, "bool")
                    for i, op in enumerate(ops):
                        attrs = " ".join(attribute(k, v) for k, v in op["cases"][0]["attrs"].items())
                        selects = op["name"] in ("where", "masked_fill")
                        kinds = [c if selects and arg["name"] in ("condition", "mask") else x if k == 0 else y for k, arg in enumerate(op["inputs"])]
                        ins = list(zip([arg["name"] for arg in op["inputs"]], kinds))
                        g.output(f"y{i}", g.op(op["name"], ins, op["outputs"][0]["name"], shape, dtype, attrs))
                    self.write(g, rng)
                    want = self.outputs("--no-fuse", "--no-codegen", "-j", "1")
                    # The loops themselves: for AVX-512 where the processor has it, and for AVX2.
                    self.assertEqual(self.outputs("--no-fuse", "--no-codegen", "-j", "1", level="v3"), want)
                    for level in SETTINGS:
                        for args in (("-j", "1"), ("-j", "2"))[: 1 if shape == (7,) else 2]:
                            got, made = self.run_counted("--no-fuse", *args, level=level)
                            self.assertEqual(got, want, level)
                            self.assertEqual((made["refused"], made["compiled"] + made["reused"]), (0, len(ops)), made)

    def test_level_that_there_is_none(self):
        done = subprocess.run([OPC, "ops"], capture_output=True, text=True, env={**os.environ, "OPC_CODE_LEVEL": "v5"}, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("OPC_CODE_LEVEL takes none, v3 or v4, not 'v5'", done.stderr)
        self.write(random_graph(0), np.random.default_rng(0))
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        done = subprocess.run([os.path.join(os.path.dirname(OPC), "opc-runtime"), "g.plan", "--fill", "ones"], capture_output=True, text=True,
                              env={**os.environ, "OPC_CODE_LEVEL": "v5"}, timeout=60, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("OPC_CODE_LEVEL takes none, v3 or v4, not 'v5'", done.stderr)

    def test_no_peak_grows(self):
        """Small graphs of elementwise ops and others, where joining moves what is alive together; some seeds had grown by up to 60 %."""
        joined = 0
        for seed in [*range(8), 5009, 5010, 5035, 5148, 5347, 5355, 5359, 5415]:
            with self.subTest(seed=seed):
                self.write(graph_between_rolls(seed), np.random.default_rng(seed))
                memory, fused = [], False
                for args in ((), ("--no-fuse",)):
                    self.opc("compile", "g.pbtxt", "-o", "g.plan", *args)
                    memory.append(json.loads(self.opc("show", "g.plan", "--what", "memory", "--json").stdout)["memory"])
                    tasks = json.loads(self.opc("show", "g.plan", "--what", "tasks", "--json").stdout)["tasks"]
                    fused |= any("region" in t for t in tasks)
                joined += fused
                self.assertLessEqual(memory[0]["activation_bytes"], memory[1]["activation_bytes"])
        self.assertGreater(joined, 9)

    def test_what_is_compiled_and_when(self):
        """Equal regions once, whatever their shape; small ones when they have run for long enough; none without the machine."""
        g = Graph()
        for shape in ((100,), (7, 9), (1 << 16,)):
            x = g.input(shape, "f32")
            g.output(f"y{len(shape)}{shape[0]}", g.unary("gelu", g.unary("exp", x)))
        self.write(g, np.random.default_rng(0))
        for level in ("v3", "v4"):  # v4 on every processor: without AVX-512 it is v3
            made = self.codegen(level=level)
            self.assertEqual([made[k] for k in ("compiled", "reused", "refused")], [1, 2, 0])
        self.assertEqual(self.codegen()["compiled"], 0)
        self.assertEqual(self.codegen(level="none")["compiled"], 0)
        self.assertEqual(self.codegen("--no-codegen", level="v3")["compiled"], 0)
        many = self.codegen("--repeat", "600")  # of 512 KiB: 256 MiB after 512 runs
        self.assertEqual((many["compiled"], many["reused"]), (1, 2))  # the small ones have the same code
        self.assertGreater(many["code_bytes"], 100)

    def test_ops_of_plugins(self):
        """One in a chain with others: one task, and machine code where it was compiled for this machine as the kernels are."""
        g = Graph()
        x = g.input((3, 1000), "f32")
        g.output("y", g.unary("negative", g.op("hump", [("x", g.unary("tanh", x))], "y", x[1], "f32")))
        self.write(g, np.random.default_rng(0))
        for options, counts in ((("-march=x86-64-v3", "-ffp-contract=off"), (1, 0)), ((), (0, 1))):
            build_plugin(self.path("libhump.so"), PLUGIN, "-O1", *options)
            plugin = ("--plugin", "./libhump.so")
            want = self.outputs("--no-fuse", "-j", "1", *plugin)
            for level in SETTINGS:
                self.assertEqual(self.outputs("-j", "1", *plugin, level=level), want)
            tasks = json.loads(self.opc("show", "g.pbtxt", "--what", "tasks", "--json", *plugin).stdout)["tasks"]
            self.assertEqual(len({t["region"] for t in tasks}), 1)
            made = self.codegen(*plugin, level="v3")
            self.assertEqual((made["compiled"], made["refused"]), counts)

    def test_version_of_plans(self):
        """A plan with a region whose header says version 1, which had none, is refused."""
        g = Graph()
        g.output("y", g.unary("exp", g.unary("tanh", g.input((4,), "f32"))))
        self.write(g, np.random.default_rng(0))
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        with open(self.path("g.plan"), "r+b") as f:
            f.seek(8)
            self.assertEqual(f.read(4), b"\2\0\0\0")
            f.seek(8)
            f.write(b"\1\0\0\0")
        for call in (("run", "g.plan", "--inputs", "in.npz"), ("show", "g.plan")):
            self.assertIn("OPC0804", self.opc(*call, code=3).stderr)

    def test_what_looks_inside_sees_every_tensor(self):
        g = Graph()
        x = g.input((4, 6), "f32")
        a = g.unary("exp", x)
        b = g.unary("tanh", a)
        g.output("y", g.unary("negative", b))
        self.write(g, np.random.default_rng(0))
        self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--capture", "*=seen", "--print", "none")
        found = [os.path.join(f, n) for f, _, names in os.walk(self.path("seen")) for n in names]
        self.assertEqual(len([n for n in found if n.endswith(".npy")]), 3, found)
        # A plan has the tensors that it has: those inside of its regions are not among them.
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        self.opc("run", "g.plan", "--inputs", "in.npz", "--capture", "*=of_plan", "--print", "none")
        found = [os.path.join(f, n) for f, _, names in os.walk(self.path("of_plan")) for n in names]
        self.assertEqual(len([n for n in found if n.endswith(".npy")]), 1, found)

    def test_what_looks_inside_sees_what_a_library_would_not_write(self):
        g = Graph()
        x, w = g.input((1, 3, 5, 5), "f32"), g.input((4, 3, 1, 1), "f32")
        g.output("y", g.unary("relu", g.op("conv2d", [("in", x), ("weight", w)], "out", (1, 4, 5, 5), "f32", 'attr { key: "filters" value { at_int32: 4 } }')))
        self.write(g, np.random.default_rng(0))
        given = {name: np.random.default_rng(i).standard_normal(shape).astype("f") for i, (name, (shape, _)) in enumerate(g.inputs.items())}
        np.savez(self.path("in.npz"), **given)
        expected = np.einsum("nchw,oc->nohw", given["in0"].astype(np.float64), given["in1"][:, :, 0, 0].astype(np.float64))
        run = ("run", "g.pbtxt", "--inputs", "in.npz", "--print", "none")
        self.opc(*run, "--outputs", "plain")
        self.opc(*run, "--outputs", "kept", "--capture", "op1/*=seen", "--capture-stats", "all.jsonl")
        found = [os.path.join(f, n) for f, _, names in os.walk(self.path("seen")) for n in names]
        self.assertEqual(len(found), 1, found)
        seen = np.load(found[0])
        np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-5)
        self.assertLess(seen.min(), 0, "before the relu")
        for folder in ("plain", "kept"):
            np.testing.assert_array_equal(np.load(self.path(folder + "/y.npy")), np.maximum(seen, 0))
        with open(self.path("all.jsonl"), encoding="utf-8") as f:
            self.assertEqual([json.loads(line)["tensor"] for line in f], ["op1/out_0", "op2/y_0"])
        said = self.opc(*run, "--capture", "gone*=seen", code=2).stderr
        self.assertIn("no task makes a tensor 'gone*'", said)
        self.assertIn("--no-simplify", said)


if __name__ == "__main__":
    unittest.main()
