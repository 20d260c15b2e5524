# Regions of graphs for GPUs, on the simulated one: their generated PTX has the bits of the CPU's kernels, for every elementwise op and
# type, special values and random graphs; ptxas takes it for every target; without it the ops' own kernels run.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest
from gpu_build import need_simulator
from plan_bytes import Message, Plan
from plugin_build import build_plugin
from regions import OPC, PLUGIN, RUNTIME, UNARY, Graph, attribute, random_graph, values

sys.path.insert(0, os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", "gpusim"))
from ptxas import KERNEL, find_ptxas  # noqa: E402

NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}


def bits(array):
    """Bytes in which all NaNs are one: which operand's a NaN is depends on the machine."""
    if array.dtype.kind == "f":
        array = array.copy()
        array[np.isnan(array)] = np.nan
    if array.dtype == np.dtype("V2"):  # bf16
        whole = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return bits(whole)
    return array.dtype.str, array.shape, array.tobytes()


class OnGpu(FolderTest):
    """What tests of regions on the simulated GPU share."""

    def opc(self, *args, code=0, program=OPC, sim="", **env):
        return super().opc(*args, code=code, program=program, env={**os.environ, "CUDA_SIM": sim, **env})

    def write(self, g, rng):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        np.savez(self.path("in.npz"), **{name: values(rng, shape, dtype) for name, (shape, dtype) in g.inputs.items()})

    def outputs(self, *args, what="g.pbtxt", program=OPC, **more):
        shutil.rmtree(self.path("out"), ignore_errors=True)
        self.opc(*(["run", what] if program == OPC else [what]), "--inputs", "in.npz", "--outputs", "out", "--print", "none", *args, program=program, **more)
        return self.read()

    def read(self):
        return {f: np.load(os.path.join(self.path("out"), f)) for f in sorted(os.listdir(self.path("out")))}

    def run_counted(self, *args, **more):
        """The outputs of g.pbtxt on the simulated GPU, and what that run has compiled."""
        shutil.rmtree(self.path("out"), ignore_errors=True)
        made = self.stats("--outputs", "out", *args, **more)["codegen"]
        return self.read(), made

    def same(self, a, b):
        self.assertEqual(sorted(a), sorted(b))
        for name in a:
            if bits(a[name]) != bits(b[name]):
                self.fail(f"{name}: {a[name].ravel()[:8]} is not {b[name].ravel()[:8]}, {np.count_nonzero(a[name] != b[name])} of {a[name].size}")

    def fusion(self, *args):
        return json.loads(self.opc("show", "g.pbtxt", "--device", "sim", "--what", "fusion", "--json", *args).stdout)["fusion"]

    def stats(self, *args, **more):
        return json.loads(self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--print", "none", "--stats", "--json", "--device", "sim", *args, **more).stdout)["stats"]

    def every_op(self):
        return json.loads(self.opc("ops", "--json").stdout)["ops"]

    def ptx(self, *args):
        """The code of g.pbtxt's regions, as it is kept on disk."""
        shutil.rmtree(self.path("cache"), ignore_errors=True)
        found = []
        for _ in range(2):
            made = json.loads(self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--print", "none", "--stats", "--json", "--device", "sim", *args,
                                       OPC_CACHE_DIR=self.path("cache"), OPC_CACHE_SIZE="64M", HOME=self.folder, XDG_CACHE_HOME=self.folder).stdout)["stats"]["codegen"]
            found.append((made["compiled"], made["cached"]))
        self.assertEqual(found[0][1], 0)
        self.assertEqual(found[1], (found[0][0], found[0][0]))
        texts = []
        for folder, _, files in os.walk(self.path("cache")):
            for file in files:
                with open(os.path.join(folder, file), "rb") as f:
                    data = f.read()
                if b".version" in data:
                    texts.append(data[data.index(b".version") :].rstrip(b"\0").decode("ascii"))
        self.assertEqual(len(texts), found[0][0])
        return texts

    def assemble(self, text):
        """By ptxas, for every target: a kernel of 256 threads that spills nothing."""
        ptxas = find_ptxas()
        self.assertTrue(ptxas, "ptxas beside nvcc")
        with open(self.path("k.ptx"), "w", encoding="ascii") as f:
            f.write(text)
        for arch in ("75", "80", "86", "89", "90"):
            done = subprocess.run([ptxas, "-v", f"-arch=sm_{arch}", "-o", "/dev/null", self.path("k.ptx")], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            ((_, _, frame, stores, loads, registers),) = KERNEL.findall(done.stdout + done.stderr)
            self.assertEqual((frame, stores, loads), ("0", "0", "0"), arch)
            self.assertLessEqual(int(registers) * 256, 65536, arch)


class RegionsOnGpu(OnGpu):
    def elementwise_ops(self):
        ops = {}
        for op in self.every_op():
            if op["scalar"]:
                for kernel in op["kernels"]:
                    if kernel["dtype"] in NUMPY and kernel["device"] != "gpu":
                        ops.setdefault(kernel["dtype"], []).append(op)
        self.assertGreater(sum(len(of_type) for of_type in ops.values()), 500)
        return sorted(ops.items())

    def test_every_elementwise_op(self):
        """Behind a selection, in every type, at a size that leaves a rest behind the packs. What is in no region is left out: those ops whose function is the C library's."""
        rng, counted = np.random.default_rng(3), {}
        for dtype, ops in self.elementwise_ops():
            with self.subTest(dtype=dtype):
                g = Graph()
                x, y, c = g.input((3, 211), dtype), g.input((3, 211), dtype), g.input((3, 211), "bool")
                names = {}
                for i, op in enumerate(op for op in ops if op["name"] not in ("where", "masked_fill")):
                    attrs = " ".join(attribute(k, v) for k, v in op["cases"][0]["attrs"].items())
                    first = g.where(c, x, g.input((1,), dtype))
                    ins = [(arg["name"], first if k == 0 else y) for k, arg in enumerate(op["inputs"])]
                    made = g.op(op["name"], ins, op["outputs"][0]["name"], x[1], dtype, attrs)
                    g.output(f"y{i}", made)
                    names[made[0].split("/")[0]] = (op["name"], f"y{i}")
                self.write(g, rng)
                fusion = self.fusion()
                joined = {op for region in fusion["regions"] for op in region["ops"]}
                self.assertEqual({r["without_code"] for r in fusion["regions"] if r.get("without_code")}, set())
                alone = {names[op][0]: reasons for op, reasons in ((a["op"], a["reasons"]) for a in fusion["alone"]) if op in names}
                self.assertEqual({r for reasons in alone.values() for r in reasons}, {"device_code"} if alone else set())
                counted[dtype] = (len(names), len(alone))
                cpu, (sim, stats) = self.outputs("-j", "1", "--no-fuse"), self.run_counted()
                for op, (name, end) in names.items():
                    if op in joined:
                        with self.subTest(op=name):
                            self.same({end: cpu[f"{end}.npy"]}, {end: sim[f"{end}.npy"]})
                self.assertEqual((stats["refused"], stats["compiled"] + stats["reused"]), (0, len(fusion["regions"])))
        self.assertEqual([counted[t][1] for t in ("i8", "i32", "i64", "u8", "bool")], [0] * 5)
        self.assertLess(counted["f32"][1], counted["f32"][0] / 4)
        self.assertLess(counted["f64"][1], counted["f64"][0] / 2)

    def test_random_graphs(self):
        """Broadcasts, comparisons, selections, casts; under several schedules. Functions that the C library has stand between regions: those graphs are compared but for them."""
        regions = 0
        for seed in range(16):
            with self.subTest(seed=seed):
                g = random_graph(seed)
                self.write(g, np.random.default_rng(seed))
                fusion = self.fusion()
                regions += len(fusion["regions"])
                want = self.outputs("-j", "1")
                for sim in ("policy=late", f"policy=random,seed={seed}"):
                    got = self.outputs("--device", "sim", sim=sim)
                    if not fusion["alone"]:
                        self.same(want, got)
        self.assertGreater(regions, 12)


    def chain(self, *types, shape=(3, 1000), dtype="f32"):
        g = Graph()
        x = g.input(shape, dtype)
        for type in types:
            x = g.unary(type, x) if type in UNARY else g.op(type, [("x", x)], "y", x[1], x[2])
        g.output("y", x)
        self.write(g, np.random.default_rng(1))

    def test_bf16(self):
        """Every op that has bf16, between casts: numpy has no such type."""
        g, names = Graph(), {}
        x, y = (g.cast(g.input((3, 211), "f32"), "bf16") for _ in range(2))
        c = g.input((3, 211), "bool")
        for op in [op for op in self.every_op() if any(k["dtype"] == "bf16" and k["device"] != "gpu" for k in op["kernels"])]:
            if op["name"] in ("where", "masked_fill") or not op["scalar"]:
                continue
            attrs = " ".join(attribute(k, v) for k, v in op["cases"][0]["attrs"].items())
            first = g.where(c, x, g.cast(g.input((1,), "f32"), "bf16"))
            ins = [(arg["name"], first if k == 0 else y) for k, arg in enumerate(op["inputs"])]
            made = g.op(op["name"], ins, op["outputs"][0]["name"], x[1], "bf16", attrs)
            names[made[0].split("/")[0]] = f"y{len(names)}.npy"
            g.output(f"y{len(names) - 1}", made)
        self.write(g, np.random.default_rng(5))
        joined = {op for region in self.fusion()["regions"] for op in region["ops"]} & set(names)
        self.assertGreater(len(joined), 60)
        cpu, sim = self.outputs("-j", "1", "--no-fuse"), self.outputs("--device", "sim")
        for op in joined:
            with self.subTest(op=op):
                self.same({names[op]: cpu[names[op]]}, {names[op]: sim[names[op]]})

    def test_broadcasts(self):
        """Along every dimension, where the last one divides into packs and where it does not; one element and many."""
        for shape, parts in (((4, 6, 8), [(8,), (6, 1), (4, 1, 8), (1,), (4, 1, 1)]), ((5, 3, 7), [(7,), (3, 1), (5, 1, 7)]), ((2, 3, 4, 5, 6), [(3, 1, 5, 1), (2, 1, 4, 1, 6), (6,)]), ((1,), [(1, 1)]), ((), [()])):
            for dtype in ("f32", "i8", "f64"):
                with self.subTest(shape=shape, dtype=dtype):
                    g = Graph()
                    x = g.unary("negative", g.input(shape, dtype))
                    for part in parts:
                        x = g.binary("broadcast_add", x, g.input(part, dtype))
                        x = g.where(g.binary("broadcast_less", x, g.input(part, dtype)), x, g.input(part, dtype))
                    g.output("y", x)
                    self.write(g, np.random.default_rng(2))
                    self.assertGreaterEqual(sum(len(r["ops"]) for r in self.fusion()["regions"]), 3 * len(parts))
                    self.same(self.outputs("-j", "1"), self.outputs("--device", "sim", sim="policy=random,seed=2"))

    def test_code_is_what_ptxas_takes(self):
        """Every rounding is named, accesses are of 16 bytes, and ptxas spills nothing for any target."""
        long = ["exp", "tanh", "erf", "gelu", "sigmoid", "log", "sin", "silu", "softsign", "square"] * 6
        for types, dtype in ((["exp", "tanh", "negative"], "f32"), (["gelu", "sigmoid", "sin"], "f16"), (["sqrt", "square"], "f64"), (["negative", "abs"], "i8"), (long, "f32"), (long, "f16")):
            with self.subTest(types=types[:3], dtype=dtype, ops=len(types)):
                self.chain(*types, dtype=dtype)
                (text,) = self.ptx()
                self.assertRegex(text, r"\.target sm_75")
                self.assertRegex(text, r"\.maxntid 256")
                self.assertNotRegex(text, r"\b(add|sub|mul|div|fma|sqrt|rcp)\.f(16|32|64)\b|\.approx|\.ftz|\.extern|\.local")
                wide = {"f32": "v4.b32", "f16": "v4.b32", "f64": "v2.b64", "i8": "v2.b32"}[dtype]
                for access in ("ld", "st"):
                    self.assertRegex(text, rf"{access}\.global\.{wide}".replace("b32", "[bf]32").replace("b64", "[bf]64"))
                self.assemble(text)

    def test_without_code(self):
        """The ops' own kernels: what needs no rounding has the same bits, the rest CUDA's functions. Memory that they share is used again."""
        g = Graph()
        x, b = g.input((33, 64), "i32"), g.input((64,), "i32")
        y = g.binary("broadcast_mul", g.unary("negative", x), b)
        z = g.where(g.binary("broadcast_less", y, b), g.unary("abs", x), y)
        g.output("y", y)
        g.output("z", g.cast(g.unary("square", z), "f32"))
        self.write(g, np.random.default_rng(0))
        want = self.outputs("-j", "1", "--no-fuse")
        self.opc("compile", "g.pbtxt", "--device", "sim", "-o", "g.plan")
        for sim in ("policy=late", "policy=eager", "policy=random,seed=3"):
            self.same(want, self.outputs("--device", "sim", "--no-codegen", sim=sim))
            self.same(want, self.outputs(what="g.plan", program=RUNTIME, sim=sim))
            self.same(want, self.outputs("--device", "sim", sim=sim))
        self.assertEqual(self.stats("--no-codegen")["codegen"]["compiled"], 0)
        self.chain("exp", "tanh", "erf", "gelu", "sigmoid")
        want = self.outputs("-j", "1")["y.npy"]
        self.opc("compile", "g.pbtxt", "--device", "sim", "-o", "g.plan")
        for got in (self.outputs("--device", "sim", "--no-codegen"), self.outputs("--device", "sim", "--no-fuse"), self.outputs(what="g.plan", program=RUNTIME)):
            np.testing.assert_allclose(got["y.npy"], want, rtol=2e-6, atol=1e-7)

    def test_steps_are_one_launch(self):
        """A region is one task and one kernel; a plan of several replays as a graph, with code and by the ops' own kernels."""
        self.chain("exp", "tanh", "negative")
        tasks = json.loads(self.opc("show", "g.pbtxt", "--device", "sim", "--what", "tasks", "--json").stdout)["tasks"]
        self.assertEqual([(t["op"], t["kernel"], t["region"]) for t in tasks], [("op1", "gpu/exp/f32", 0), ("op2", "gpu/tanh/f32", 0), ("op3", "gpu/negative/f32", 0)])
        g = Graph()
        x = g.input((3, 100), "f32")
        for _ in range(3):
            x = g.op("roll", [("in", g.unary("exp", g.unary("tanh", x)))], "out", x[1], x[2], 'attr { key: "shifts" value { at_list_int32 { val: 1 } } } attr { key: "dims" value { at_list_int32 { val: 0 } } }')
        g.output("y", x)
        self.write(g, np.random.default_rng(0))
        want = self.outputs("-j", "1")
        for graphs in ("1", "0"):
            self.same(want, self.outputs("--device", "sim", "--repeat", "4", OPC_CUDA_GRAPHS=graphs))
            alone = self.outputs("--device", "sim", "--repeat", "4", "--no-codegen", OPC_CUDA_GRAPHS=graphs)
            np.testing.assert_allclose(alone["y.npy"], want["y.npy"], rtol=2e-6, atol=1e-7)

    def test_ops_of_plugins(self):
        """In a region with others, and alone, by the expression; where no code is made, an error that says so."""
        build_plugin(self.path("libhump.so"), PLUGIN, "-O1", "-march=x86-64-v3", "-ffp-contract=off")
        plugin = ("--plugin", "./libhump.so")
        for types in (["tanh", "hump", "negative"], ["hump"]):
            with self.subTest(types=types):
                self.chain(*types)
                want = self.outputs("-j", "1", *plugin)
                self.same(want, self.outputs("--device", "sim", *plugin))
                alone = self.outputs("--device", "sim", "--no-fuse", *plugin)
                np.testing.assert_allclose(alone["y.npy"], want["y.npy"], rtol=2e-6, atol=1e-7)
                self.assertEqual(self.stats(*plugin)["codegen"]["compiled"], 1)
                said = self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--device", "sim", "--no-codegen", *plugin, code=4).stderr
                self.assertIn("OPC0411", said)
                self.assertIn("hump: it has no kernel for GPUs, and its region has no generated code", said)
                self.opc("compile", "g.pbtxt", "--device", "sim", "-o", "g.plan", *plugin)
                self.assertIn("OPC0411", self.opc("g.plan", "--inputs", "in.npz", *plugin, program=RUNTIME, code=4).stderr)
        # Alone, as its cases in every type, with the simulator's counters; and an error where its launch has one.
        self.assertIn("not applicable: no kernel for sim", self.opc("verify", "hump", "relu", "--device", "sim", "--no-codegen", *plugin).stdout)
        found = json.loads(self.opc("verify", "hump", "--device", "sim", "--json", *plugin).stdout)["ops"][0]
        self.assertEqual((found["types"], found["without_kernel"], found["failures"], found["largest_difference"]), (["f32", "f16", "bf16"], ["f64"], [], 0))
        self.assertEqual(sum(kernel["launches"] for kernel in found["kernels"]), found["samples"] - 3)  # of no elements there is nothing to launch
        found = json.loads(self.opc("verify", "hump", "--device", "sim", "--json", *plugin, code=1, sim="fail=cuLaunchKernel:2:719").stdout)["ops"][0]
        self.assertEqual([f["kind"] for f in found["failures"]], ["error"])
        found = self.opc("plugin", "check", "./libhump.so", "--device", "sim").stdout
        self.assertRegex(found, r"on sim: hump  as on the cpu: \d+ samples in f32, f16, bf16")

    def test_mixed_and_several_devices(self):
        self.chain("exp", "tanh", "negative", "abs", "sqrt")
        want = self.outputs("-j", "1")
        got = self.outputs("--device", "sim", "--place", "op3=cpu")
        self.same(want, got)
        made = self.opc("compile", "g.pbtxt", "--device", "sim", "--place", "op3=cpu", "--to", "fuse", "--emit", "mlir", "-o", "-").stdout
        self.assertEqual(made.count("opc.fused"), 2)
        self.chain("exp", "tanh", "negative", shape=(4, 1000))
        want = self.outputs("-j", "1")
        self.same(want, self.outputs("--device", "sim:0-1", "--sbp", "in0*=S(0)", sim="devices=2"))

    def test_plans_that_no_compiler_makes(self):
        self.chain("exp", "tanh")
        self.opc("compile", "g.pbtxt", "--device", "sim", "-o", "g.plan")
        with open(self.path("g.plan"), "rb") as f:
            plan = f.read()
        self.assertNotIn(b".version", plan)
        g = Graph()
        x = g.op("softmax", [("in", g.unary("exp", g.input((64, 32), "f64")))], "out", (64, 32), "f64")
        g.output("y", g.unary("exp", x))
        self.write(g, np.random.default_rng(0))
        self.opc("compile", "g.pbtxt", "-o", "rows.plan")
        with open(self.path("rows.plan"), "rb") as f:
            rows = f.read()
        for data, old, new in ((plan, b"\x04tanh", b"\x04asin"), (rows, b"\x03cpu", b"\x03sim")):
            changed = Plan(data)
            self.assertIn(old, changed.message.encode())
            changed.message = Message(changed.message.encode().replace(old, new))
            with open(self.path("bad.plan"), "wb") as f:
                f.write(changed.bytes())
            said = self.opc("run", "bad.plan", "--fill", "ones", code=3).stderr
            self.assertIn("OPC0816", said)
            self.assertIn("goes element by element or by rows there", said)


if __name__ == "__main__":
    need_simulator()
    unittest.main()
