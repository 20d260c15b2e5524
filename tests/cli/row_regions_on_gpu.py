# Regions by rows of graphs for GPUs, on the simulated one: their generated PTX has the bits of the CPU's kernels, one row at a time and
# another, under every schedule; its accesses are neighbours', ptxas spills nothing; without it the ops' own kernels run.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import numpy as np

import regions_on_gpu
from gpu_build import need_simulator
from plugin_build import build_plugin
from regions import PLUGIN, RUNTIME, values
from row_regions import PLUGIN as ROWS
from row_regions import RowGraph, every_op, random_rows

SHAPES = [(5, 2), (3, 7), (9, 31), (33, 65), (2, 3, 64), (4, 1000), (17, 3001)]
SCHEDULES = ("policy=late", "policy=eager", "policy=random,seed=7")


class RowRegionsOnGpu(regions_on_gpu.OnGpu):
    def write(self, g, rng, classes=2):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        given = {name: values(rng, shape, dtype) if dtype not in ("i32", "i64") else rng.integers(0, classes, shape, dtype.replace("i", "int")) for name, (shape, dtype) in g.inputs.items()}
        np.savez(self.path("in.npz"), **given)

    def test_every_op(self):
        """Each between an op on what it reads and one on what it makes; rows in registers, and longer ones; all kinds of ends."""
        for i, shape in enumerate(SHAPES):
            for dtype in ("f32", "f16", "bf16"):
                with self.subTest(shape=shape, dtype=dtype):
                    self.write(every_op(shape, dtype), np.random.default_rng(i), shape[-1])
                    fusion = self.fusion()
                    self.assertEqual({op["type"] for op in fusion["alone"]} - {"negative", "cast", "abs"}, set(), fusion["boundaries"])
                    got, stats = self.run_counted(sim=SCHEDULES[i % 3])
                    self.same(self.outputs("-j", "1", "--no-fuse"), got)
                    self.assertEqual((stats["refused"], stats["compiled"] + stats["reused"]), (0, len(fusion["regions"])))

    def test_random_graphs(self):
        """Results of rows that go back into them, broadcasts, several ops over rows behind each other."""
        rows = 0
        for seed in range(30):
            g = random_rows(seed)
            if any(dtype == "f64" for _, dtype in g.inputs.values()):
                continue  # softmax of f64 has the C library's exp: CUDA's kernels stand between
            with self.subTest(seed=seed):
                self.write(g, np.random.default_rng(seed))
                fusion = self.fusion()
                alone = {op["type"] for op in fusion["alone"]}
                rows += len(fusion["regions"])
                want = self.outputs("-j", "1", "--no-fuse")
                for sim in SCHEDULES:
                    got = self.outputs("--device", "sim", sim=sim)
                    if alone <= {"negative", "flip", "broadcast_add", "broadcast_sub", "broadcast_mul", "abs"}:  # the others are CUDA's
                        self.same(want, got)
        self.assertGreater(rows, 20)

    def attention(self, shape=(2, 3, 5, 40), dtype="f32"):
        """Scores with a scale and a mask, their softmax, and a gate behind it: what one kernel computes."""
        g = RowGraph()
        x = g.binary("broadcast_mul", g.input(shape, dtype), g.input((1,), dtype))
        x = g.binary("broadcast_add", x, g.input((shape[0], 1, 1, shape[-1]), dtype))
        x = g.binary("broadcast_add", x, g.input((shape[1], shape[2], 1), dtype))
        g.output("y", g.binary("broadcast_mul", g.softmax(x), g.input(shape, dtype)))
        self.write(g, np.random.default_rng(4))
        return g

    def test_against_numpy(self):
        """The formulas in f64."""
        self.attention()
        with np.load(self.path("in.npz")) as z:
            x, scale, mask, row, gate = (z[f"in{k}"].astype(np.float64) for k in range(5))
        finite = {f"in{k}": np.random.default_rng(k).uniform(-2, 2, a.shape).astype(np.float32) for k, a in enumerate((x, scale, mask, row, gate))}
        np.savez(self.path("in.npz"), **finite)
        x, scale, mask, row, gate = (finite[f"in{k}"].astype(np.float64) for k in range(5))
        s = x * scale + mask + row
        e = np.exp(s - s.max(-1, keepdims=True))
        (region,) = self.fusion()["regions"]
        self.assertEqual(len(region["ops"]), 5)
        for sim in SCHEDULES:
            np.testing.assert_allclose(self.outputs("--device", "sim", sim=sim)["y.npy"], e / e.sum(-1, keepdims=True) * gate, rtol=3e-6, atol=1e-7)
        g = RowGraph()
        a, gamma, beta = g.input((6, 300), "f32"), g.input((300,), "f32"), g.input((300,), "f32")
        y, mean, _ = g.layer_norm(g.unary("square", a), gamma, beta)
        g.output("y", g.unary("negative", y))
        g.output("m", g.unary("negative", mean))
        self.write(g, np.random.default_rng(0))
        finite = {f"in{k}": np.random.default_rng(k).uniform(-2, 2, shape).astype(np.float32) for k, shape in enumerate(((6, 300), (300,), (300,)))}
        np.savez(self.path("in.npz"), **finite)
        a, gamma, beta = (finite[f"in{k}"].astype(np.float64) for k in range(3))
        a = a * a
        want = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * gamma + beta
        got = self.outputs("--device", "sim")
        np.testing.assert_allclose(-got["y.npy"], want, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(-got["m.npy"], a.mean(-1), rtol=1e-6)

    def test_more_rows_than_warps(self):
        """A warp goes on with other rows; ends of rows are no ends of the kernel."""
        for shape in ((16500, 3), (16500, 33)):
            with self.subTest(shape=shape):
                g = RowGraph()
                x = g.softmax(g.unary("square", g.input(shape, "f32")))
                g.output("y", g.unary("negative", x))
                g.output("s", g.unary("square", g.reduce("reduce_sum", x, False)))
                self.write(g, np.random.default_rng(0))
                self.assertEqual(len(self.fusion()["regions"]), 1)
                self.same(self.outputs("-j", "1", "--no-fuse"), self.outputs("--device", "sim"))

    def test_labels_are_checked(self):
        """In the words of the CPU, of the op that has them; the second of two such ops, too."""
        g = RowGraph()
        x, first, second = g.input((6, 5), "f32"), g.input((6,), "i32"), g.input((6,), "i64")
        for name, label in (("first", first), ("second", second)):
            prob, loss = g.sparse_loss(g.unary("square", x), label)
            g.output(f"{name}_loss", g.unary("negative", loss))
            g.output(f"{name}_grad", g.unary("negative", g.sparse_loss_grad(label, g.unary("square", loss), prob)))
        self.write(g, np.random.default_rng(0), 5)
        self.same(self.outputs("-j", "1", "--no-fuse"), self.outputs("--device", "sim"))
        good = np.array([0, 1, 4, 4, 0, 0])
        for bad, name in (((good, good + [0, 0, 0, 1, 5, 0]), "[3] = 5 is outside [0, 5), the range of the classes"), ((good - [1, 0, 0, 0, 0, 0], good), "[0] = -1 is outside [0, 5)"),
                          ((good, good + [0, 0, 0, 0, 0, 1 << 40]), "[5] = 1099511627776 is outside [0, 5)")):
            with self.subTest(text=name):
                np.savez(self.path("in.npz"), in0=np.ones((6, 5), np.float32), in1=bad[0].astype(np.int32), in2=bad[1].astype(np.int64))
                for args in ((), ("--no-codegen",), ("--no-fuse",)):
                    said = self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--device", "sim", *args, code=5).stderr
                    self.assertIn("label" + name, said)
                    self.assertIn("sparse_softmax_cross_entropy", said)

    def test_without_code(self):
        """The ops' own kernels, one after the other, those with several results as well; in opc-runtime, too."""
        self.write(every_op((6, 40), "f32"), np.random.default_rng(2), 40)
        finite = {k: np.random.default_rng(1).uniform(0.5, 2, v.shape).astype(v.dtype) if v.dtype.kind == "f" else v for k, v in dict(np.load(self.path("in.npz"))).items()}
        np.savez(self.path("in.npz"), **finite)
        want = self.outputs("-j", "1", "--no-fuse")
        self.opc("compile", "g.pbtxt", "--device", "sim", "-o", "g.plan")
        for sim in SCHEDULES:
            for got in (self.outputs("--device", "sim", "--no-codegen", sim=sim), self.outputs(what="g.plan", program=RUNTIME, sim=sim)):
                self.assertEqual(sorted(got), sorted(want))
                for name, y in want.items():
                    np.testing.assert_allclose(got[name], y, rtol=1e-4, atol=2e-5, err_msg=name)

    def graphs(self):
        """What the code of several shapes and ops is looked at for."""
        for shape, dtype in (((64, 1024), "f32"), ((64, 4096), "f32"), ((64, 512), "f16")):
            g = RowGraph()
            a, b, gamma = g.input(shape, dtype), g.input(shape, dtype), g.input(shape[-1:], dtype)
            g.output("y", g.unary("negative", g.softmax(g.binary("broadcast_add", a, b))))
            yield "softmax", g
            g = RowGraph()
            a, b, gamma = g.input(shape, dtype), g.input(shape, dtype), g.input(shape[-1:], dtype)
            g.output("y", g.unary("gelu", g.layer_norm(g.binary("broadcast_add", a, b), gamma, gamma)[0]))
            yield "layer_norm", g
            g = RowGraph()
            a, b, gamma = g.input(shape, dtype), g.input(shape, dtype), g.input(shape[-1:], dtype)
            _, mean, inverse = g.layer_norm(a, gamma)
            g.output("y", g.unary("negative", g.layer_norm_grad(g.unary("square", b), a, mean, inverse, gamma)))
            yield "layer_norm_grad", g
            g = RowGraph()
            a, b = g.input(shape, dtype), g.input(shape, dtype)
            g.output("y", g.unary("negative", g.log_softmax_grad(a, g.binary("broadcast_sub", b, g.reduce("reduce_max", b, True)))))
            yield "log_softmax_grad", g

    def test_code_is_what_ptxas_takes(self):
        """Every rounding is named, there is no memory of a thread's own, and ptxas spills nothing for any target."""
        for kind, g in (*self.graphs(), ("every op", every_op((4, 1000), "f32")), ("every op", every_op((4, 300), "bf16"))):
            with self.subTest(kind=kind, inputs=list(g.inputs.values())[0]):
                self.write(g, np.random.default_rng(0))
                for text in self.ptx():
                    self.assertRegex(text, r"\.target sm_75")
                    self.assertRegex(text, r"shfl\.sync")
                    self.assertNotRegex(text, r"\b(add|sub|mul|div|fma|sqrt|rcp)\.f(16|32|64)\b|\.approx|\.ftz|\.extern|\.local")
                    self.assemble(text)

    def test_accesses_are_neighbours(self):
        """Sectors at most 1.15 of the least that hold the bytes; shared memory is not used."""
        for kind, g in self.graphs():
            with self.subTest(kind=kind, inputs=list(g.inputs.values())[0]):
                self.write(g, np.random.default_rng(0))
                self.outputs("--device", "sim", sim=f"report={self.path('report.json')}")
                with open(self.path("report.json"), encoding="utf-8") as f:
                    kernels = [(name, k) for name, k in json.load(f)["kernels"].items() if name.startswith("region_")]
                self.assertGreater(len(kernels), 0)
                for name, k in kernels:
                    self.assertLessEqual(k["sectors"], 1.15 * k["ideal_sectors"], name)
                    self.assertEqual(k["wavefronts"], k["ideal_wavefronts"])

    def test_ops_of_plugins(self):
        """Their scalar ops stand in the rows of others; their functions on rows do not."""
        for name, source in (("hump", PLUGIN), ("rows", ROWS)):
            build_plugin(self.path(f"lib{name}.so"), source, "-O1", "-march=x86-64-v3", "-ffp-contract=off")
        plugins = ("--plugin", "./libhump.so", "--plugin", "./librows.so")
        for shape in ((6, 100), (6, 1500)):
            with self.subTest(shape=shape):
                g = RowGraph()
                x = g.op("hump", [("x", g.input(shape, "f32"))], "y", shape, "f32")
                g.output("y", g.op("hump", [("x", g.layer_norm(x)[0])], "y", shape, "f32"))
                self.write(g, np.random.default_rng(0))
                (region,) = self.fusion(*plugins)["regions"]
                self.assertEqual(len(region["ops"]), 3)
                self.same(self.outputs("-j", "1", "--no-fuse", *plugins), self.outputs("--device", "sim", *plugins))
                self.assertIn("OPC0411", self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--device", "sim", "--no-codegen", *plugins, code=4).stderr)
        g = RowGraph()
        x = g.op("centered", [("x", g.unary("square", g.input((6, 100), "f32")))], "y", (6, 100), "f32")
        g.output("y", g.unary("negative", x))
        self.write(g, np.random.default_rng(0))
        self.assertIn("OPC0411", self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--device", "sim", *plugins, code=4).stderr)
        self.same(self.outputs("-j", "1", "--no-fuse", *plugins), self.outputs("--device", "sim", "--allow-cpu-fallback", *plugins))

    def test_one_launch(self):
        """One task, replayed as a graph; in the place of an input where that is free."""
        self.attention(shape=(2, 3, 5, 70))
        tasks = json.loads(self.opc("show", "g.pbtxt", "--device", "sim", "--what", "tasks", "--json").stdout)["tasks"]
        self.assertEqual({t["region"] for t in tasks}, {0})
        want = self.outputs("-j", "1", "--no-fuse")
        for graphs in ("1", "0"):
            self.same(want, self.outputs("--device", "sim", "--repeat", "3", OPC_CUDA_GRAPHS=graphs))
        for args in (("--observe", "sync"), ("--no-fuse",)):  # CUDA's kernels, or the region's
            got = self.outputs("--device", "sim", *args)["y.npy"]
            np.testing.assert_allclose(got, want["y.npy"], rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    need_simulator()
    unittest.main()
