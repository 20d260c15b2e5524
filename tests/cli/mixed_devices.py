# Graphs whose ops run on a GPU and on the CPU, with copies between the two: on the simulated GPU, under several schedules, against numpy
# and the CPU. What a run copies and waits for is taken away call by call, and has to be noticed.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

import weight_files
from gpu_build import need_simulator
from plugin_build import build_plugin
from schedules import SCHEDULES, silent, skips

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
PLUGIN = """#include "opc/Elementwise.h"
using namespace opc;
// erfc is the C library's: on a GPU no code is generated for it.
OPC_SCALAR(WaveOf, x) { return sin(x) * 0.375 + cos(x * 1.625) + erfc(x) * 0; }
OPC_SCALAR(DriftOf, x) { return x * 0.875 + sin(x * 0.625) * 0.125 + erfc(x) * 0; }
REGISTER_USER_OP("wave_of").Input("x").Output("y").Doc("A function that no built-in op has.").Elementwise<WaveOf, user_op::types::Floating>();
REGISTER_USER_OP("drift_of").Input("x").Output("y").Doc("Another one.").Elementwise<DriftOf, user_op::types::Floating>();
"""
FILES = tempfile.mkdtemp()


def wave(x):
    return np.sin(x) * 0.375 + np.cos(x * 1.625)


def drift(x):
    return x * 0.875 + np.sin(x * 0.625) * 0.125


def opc(*args, sim="", **kw):
    return subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, text=True, timeout=300, env=dict(os.environ, CUDA_SIM=sim), **kw)


def source(name, kind="input", dims=(4, 5), more=""):
    shape = "shape { " + " ".join(f"dim: {d}" for d in dims) + " }"
    if kind == "input":
        return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ {shape} data_type: kFloat }} }} }}'
    return f'op {{ name: "{name}" variable_conf {{ out: "out" {shape} data_type: kFloat {more} }} }}'


def user(name, op, ins, out="y", tag="", attrs=""):
    inputs = " ".join(f'input {{ key: "{arg}" value {{ s: "{tensor}" }} }}' for arg, tensor in ins)
    tag = f'device_tag: "{tag}" ' if tag else ""
    outputs = f'output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }}' if out else ""
    return f'op {{ name: "{name}" {tag}user_conf {{ op_type_name: "{op}" {inputs} {outputs} {attrs} }} }}'


def result(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}'


# h = relu(x), w = wave(h), t = tanh(w), y = t + h, z = drift(t): two ops of the plugin, on both sides of the device's.
MIXED = "\n".join([source("x"), user("h", "relu", [("x", "x/out")]), user("w", "wave_of", [("x", "h/y_0")]), user("t", "tanh", [("x", "w/y_0")]),
                   user("s", "broadcast_add", [("x", "t/y_0"), ("y", "h/y_0")], "z"), user("d", "drift_of", [("x", "t/y_0")]),
                   result("y", "s/z_0"), result("z", "d/y_0")])
X = np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)


def mixed_numbers(x):
    h = np.maximum(x.astype(np.float64), 0)
    t = np.tanh(wave(h))
    return t + h, drift(t)


def setUpModule():
    build_plugin(os.path.join(FILES, "ops.so"), PLUGIN)


def tearDownModule():
    shutil.rmtree(FILES)


class Mixed(unittest.TestCase):
    def setUp(self):
        need_simulator()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        np.save(self.path("x.npy"), X)
        self.write("g.pbtxt", MIXED)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def ok(self, *args, **kw):
        done = opc(*args, **kw)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def call(self, graph="g.pbtxt", *more):
        return ["run", self.path(graph), "--plugin", os.path.join(FILES, "ops.so"), "--device", "sim", "--input", f"x=@{self.path('x.npy')}",
                "--outputs", self.path("out"), *more]

    def results(self, *names):
        return [np.load(os.path.join(self.path("out"), n + ".npy")) for n in names]

    def check_mixed(self):
        for got, want in zip(self.results("y", "z"), mixed_numbers(X)):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_every_schedule(self):
        for sim in SCHEDULES:
            for more in ((), ("--repeat", "3")):
                self.ok(*self.call("g.pbtxt", "--allow-cpu-fallback", *more), sim=sim)
                self.check_mixed()

    def test_all_ops_without_a_kernel_are_listed(self):
        done = opc(*self.call())
        self.assertEqual(done.returncode, 4, done.stderr)
        for op, line in (("wave_of", 3), ("drift_of", 6)):
            self.assertIn(f'error[OPC0411]: no gpu kernel for "{op}" with inputs f32', done.stderr)
            self.assertIn(f"g.pbtxt:{line}:", done.stderr)
        self.assertIn("--allow-cpu-fallback runs it on the CPU", done.stderr)

    def test_plans_show_the_copies(self):
        self.ok("compile", self.path("g.pbtxt"), "--plugin", os.path.join(FILES, "ops.so"), "--device", "sim", "--allow-cpu-fallback", "-o", self.path("g.plan"))
        tasks = json.loads(self.ok("show", self.path("g.plan"), "--plugin", os.path.join(FILES, "ops.so"), "--what", "tasks", "--json").stdout)["tasks"]
        streams = {t["op"]: (t["stream"], t["kernel"].split("/")[0]) for t in tasks}
        self.assertEqual({op: streams[op] for op in "hwtsd"}, {"h": (0, "gpu"), "w": (1, "cpu"), "t": (0, "gpu"), "s": (0, "gpu"), "d": (1, "cpu")})
        copies = {op: s for op, s in streams.items() if op not in "hwtsd"}
        self.assertEqual(copies, {"h/y_0.to_cpu": (3, "gpu"), "w/y_0.to_device": (2, "gpu"), "t/y_0.to_cpu": (3, "gpu")})
        memory = json.loads(self.ok("show", self.path("g.plan"), "--plugin", os.path.join(FILES, "ops.so"), "--what", "memory", "--json").stdout)["memory"]
        self.assertEqual(memory["arena_bytes"], 5 * 128)  # of the device: x, h, w, t and y of 80 bytes each, in steps of 64
        self.ok("run", self.path("g.plan"), "--device", "sim", "--plugin", os.path.join(FILES, "ops.so"), "--input", f"x=@{self.path('x.npy')}", "--outputs", self.path("out"))
        self.check_mixed()
        done = opc("run", self.path("g.plan"), "--allow-cpu-fallback", "--fill", "ones")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--allow-cpu-fallback and --no-winograd need the graph", done.stderr)

    def test_nothing_changes_where_all_ops_have_kernels(self):
        self.write("all.pbtxt", MIXED.replace("wave_of", "exp").replace("drift_of", "relu"))
        for more, plan in ((), "a"), (("--allow-cpu-fallback",), "b"):
            self.ok("compile", self.path("all.pbtxt"), "--device", "sim", *more, "-o", self.path(plan))
        with open(self.path("a"), "rb") as a, open(self.path("b"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_placed_ops(self):
        """--place, tags of both kinds, and the job's placement: the same plan."""
        plain = MIXED.replace("wave_of", "exp").replace("drift_of", "sin")
        tagged = plain.replace('name: "w" ', 'name: "w" device_tag: "cpu" ').replace('name: "h" ', 'name: "h" device_tag: "gpu" ')
        placement = 'placement { placement_group { op_set { op_name: "w" } parallel_conf { device_name: "@0:0" device_tag: "cpu" } } ' \
                    'placement_group { op_set { op_name: "h" op_name: "t" } parallel_conf { device_name: "@0:0" device_tag: "cuda" } } }'
        for name, text, more in (("placed", plain, ("--place", "w=cpu")), ("tagged", tagged, ()), ("job", "net { " + plain + " } " + placement, ())):
            graph = self.write(name + ".pbtxt", text)
            self.ok("compile", graph, "--device", "sim", *more, "-o", self.path(name))
            shown = json.loads(self.ok("show", self.path(name), "--what", "tasks", "--json").stdout)["tasks"]
            self.assertEqual([t["op"] for t in shown if t["kernel"].startswith("cpu/")], ["w"], name)
            self.ok(*self.call(name + ".pbtxt", *more))
            h = np.maximum(X.astype(np.float64), 0)
            np.testing.assert_allclose(self.results("y")[0], np.tanh(np.exp(h)) + h, rtol=1e-5)
        # Tags of one kind say nothing: the command decides.
        self.write("one.pbtxt", plain.replace('name: "w" ', 'name: "w" device_tag: "cpu" '))
        self.ok("compile", self.path("one.pbtxt"), "--device", "sim", "-o", self.path("one"))
        self.assertNotIn("cpu/", self.ok("show", self.path("one"), "--what", "tasks").stdout)
        done = opc("run", self.path("one.pbtxt"), "--fill", "ones", "--place", "w=gpu")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("single ops go to the cpu alone, not to 'gpu'", done.stderr)

    def test_training(self):
        """w <- w - 0.1 d(sum of drift(wave(x * w)))/dw, by ops of both sides; the update is the device's, then the CPU's."""
        text = "\n".join([source("x"), source("w", "variable", more="initializer { constant_conf { value: 0.5 } }"),
                          user("p", "broadcast_mul", [("x", "x/out"), ("y", "w/out")], "z"), user("v", "wave_of", [("x", "p/z_0")]),
                          user("d", "drift_of", [("x", "v/y_0")]),
                          user("sum", "reduce_sum", [("input_tensor", "d/y_0")], "output_tensor",
                               attrs='attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } }'),
                          result("loss", "sum/output_tensor_0")])
        self.write("loss.pbtxt", text)
        plugin = ["--plugin", os.path.join(FILES, "ops.so")]
        self.ok("grad", self.path("loss.pbtxt"), *plugin, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", self.path("step.pbtxt"))
        w = np.full(X.shape, 0.5)
        x = X.astype(np.float64)
        for _ in range(3):
            p = x * w
            v = wave(p)
            w = w - 0.1 * (0.875 + 0.078125 * np.cos(v * 0.625)) * (0.375 * np.cos(p) - 1.625 * np.sin(p * 1.625)) * x
        np.save(self.path("steps.npy"), np.concatenate([X] * 3))
        for sim in SCHEDULES:
            for more in ((), ("--place", "*update*=cpu"), ("--place", "p=cpu")):
                checkpoint = self.path("ckpt.safetensors")
                self.ok("run", self.path("step.pbtxt"), *plugin, "--device", "sim", "--allow-cpu-fallback", *more, "--feed-dataset", f"x=@{self.path('steps.npy')}",
                        "--batch", "4", "--steps", "3", "--save", checkpoint, sim=sim)
                np.testing.assert_allclose(weight_files.read(checkpoint)["w"], w, rtol=1e-5, atol=1e-6)
                os.remove(checkpoint)

    def test_two_sides_write_a_variable(self):
        text = "\n".join([source("x"), source("w", "variable", more="initializer { constant_conf { value: 0.5 } }"),
                          user("a", "assign", [("ref", "w/out"), ("value", "x/out")], ""),
                          user("b", "assign", [("ref", "w/out"), ("value", "x/out")], "").replace('name: "b" ', 'name: "b" ctrl_in_op_name: "a" '),
                          user("r", "relu", [("x", "x/out")]), result("y", "r/y_0")])
        self.write("two.pbtxt", text)
        done = opc("compile", self.path("two.pbtxt"), "--device", "sim", "--place", "b=cpu", "-o", self.path("two.plan"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("error[OPC0415]: assign: it writes its input w/out on the cpu, which op a writes on the device", done.stderr)

    def test_looking_inside(self):
        self.ok(*self.call("g.pbtxt", "--allow-cpu-fallback", "--capture", f"*={self.path('inside')}", "--observe", "sync"), sim="policy=random,seed=5")
        self.check_mixed()
        want = wave(np.maximum(X.astype(np.float64), 0))
        np.testing.assert_allclose(np.load(os.path.join(self.path("inside"), "w", "y_0.npy")), want, rtol=1e-5, atol=1e-6)
        os.environ["OPC_POISON"] = "1"
        self.addCleanup(os.environ.pop, "OPC_POISON")
        self.ok(*self.call("g.pbtxt", "--allow-cpu-fallback", "--repeat", "2"))
        self.check_mixed()

    def test_first_difference(self):
        """Where ops run on both sides each answers for itself, too."""
        plugin = ["--plugin", os.path.join(FILES, "ops.so")]
        call = ["debug", "first-diff", self.path("g.pbtxt"), *plugin, "--device", "sim", "--input", f"x=@{self.path('x.npy')}"]
        done = opc(*call)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("--allow-cpu-fallback runs it on the CPU", done.stderr)
        for more in ((), ("--chain",), ("--place", "t=cpu")):
            self.assertIn("no difference: ", self.ok(*call, "--allow-cpu-fallback", *more).stderr)

    def test_memory_that_is_not_there(self):
        for sim, says in (("memory=64", "on sim"), ("fail=cuMemHostAlloc:1:2", "of memory that sim copies from")):
            done = opc(*self.call("g.pbtxt", "--allow-cpu-fallback"), sim=sim)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0614", done.stderr)
            self.assertIn(says, done.stderr)
            self.assertRegex(done.stderr, r"largest buffers are \S+ \(\d+ bytes\)")

    def test_mutants(self):
        """Each copy of a step, and each wait for one, in a run of one step."""
        report = self.path("report.json")
        self.ok(*self.call("g.pbtxt", "--allow-cpu-fallback"), sim=f"report={report}")
        with open(report) as f:
            mutants = list(skips(json.load(f), ("cuStreamWaitEvent", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync")))
        self.assertGreaterEqual(len(mutants), 3 + 3)  # copies of the step, x, y; edges between the device's streams

        def run(sim):
            shutil.rmtree(self.path("out"), ignore_errors=True)
            self.ok(*self.call("g.pbtxt", "--allow-cpu-fallback"), sim=sim)
            self.check_mixed()

        self.assertEqual(silent(mutants, run), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
