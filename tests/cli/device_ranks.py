# Ranks on simulated GPUs: the digits' training and a graph in states that are asked for, with what its runs leave. For several_devices.py
# and those that look at the ways of exchange (several_devices_nccl.py, several_devices_peers.py).
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
from schedules import SCHEDULES

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
HAS_MPI = shutil.which("mpirun") and os.path.exists(os.path.join(BIN, "..", "lib", "libopc_mpi.so"))
BATCH = 8
LAYOUTS = {"data": ["--sbp", "relu?=S(0)", "--sbp", "fc?_grad_b=P"], "tensor": ["--sbp", "fc1_w=S(0)", "--sbp", "fc2_w=S(1)"]}
# The digits in two stages, and the ranks of that.
STAGES = ((["--device", "sim:0-1", "--stage", "fc1*=0", "--stage", "fc2*,relu*,fc3*=1"], 2),
          (["--device", "sim:0-3", "--stage", "fc1*=0-1", "--stage", "fc2*,relu*,fc3*=2-3", "--sbp", "image=S(0)"], 4))


def opc(*args, sim="", launcher=(), program=os.path.join(BIN, "opc"), text=None, **variables):
    environment = dict(os.environ, CUDA_SIM=sim, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
    return subprocess.run([*launcher, program, *args], capture_output=True, text=True, timeout=120, env=environment, input=text)


def data(name):
    return os.path.join(DIGITS, name)


class Ranked(unittest.TestCase):
    """The digits' training, and what runs of it leave."""

    @classmethod
    def setUpClass(cls):
        need_simulator()
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        text = ""
        for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
            with open(data(name), encoding="utf-8") as f:
                text += f.read() + "\n"
        cls.train = os.path.join(cls.folder, "train.pbtxt")
        done = opc("grad", "-", "--shape", f"image={BATCH},64", "--shape", f"label={BATCH}", "--loss", "loss", "--optimizer", "adam", "--lr", "0.002", "-o",
                   cls.train, text=text)
        assert done.returncode == 0, done.stderr

    def path(self, name):
        return os.path.join(self.folder, f"{self._testMethodName}-{name}")

    def ok(self, *args, **kw):
        done = opc(*args, **kw)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def weights(self, name, *where, steps=2, graph=None, **kw):
        """What the variables are after some steps."""
        checkpoint = self.path(name + ".safetensors")
        self.ok("run", graph or self.train, *where, "--feed-dataset", f"image=@{data('train_images.npy')},label=@{data('train_labels.npy')}",
                *(() if graph else ("--batch", str(BATCH))), "--seed", "7", "--steps", str(steps), "--save", checkpoint, **kw)
        values = weight_files.read(checkpoint)
        os.remove(checkpoint)
        self.assertGreater(len(values), 4)
        return values

    def same(self, got, want, rtol=1e-4, atol=1e-6):
        self.assertEqual(sorted(got), sorted(want))
        for name, value in want.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(got[name], value, rtol=rtol, atol=atol, err_msg=name)
            else:
                np.testing.assert_array_equal(got[name], value, name)


class Schedules(Ranked):
    """The digits under every schedule, against the CPU's ranks."""

    def test_training(self):
        """Two steps, in data and in tensor parallel."""
        for flags in LAYOUTS.values():
            want = self.weights("cpu", *flags, "--ranks", "2", "--in-process")
            for sim in SCHEDULES:
                self.same(self.weights("sim", *flags, "--device", "sim:0-1", sim="devices=2," + sim), want)

    def test_four_devices(self):
        flags = ["--mesh", "2x2", "--sbp", "fc1_w=[B,S(0)]", "--sbp", "image=[S(0),B]"]
        want = self.weights("cpu", *flags, "--in-process")
        for sim in SCHEDULES:
            self.same(self.weights("sim", *flags, "--device", "sim:0-3", sim="devices=4," + sim), want)


# y = relu(sigmoid(tanh(relu(x))) w) v, all of it in the states that --sbp names.
GRAPH = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 7 dim: 10 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 10 dim: 9 } data_type: kFloat initializer { random_uniform_conf { min: -1 max: 1 } } } }
op { name: "v" variable_conf { out: "out" shape { dim: 9 dim: 6 } data_type: kFloat initializer { random_uniform_conf { min: -1 max: 1 } } } }
op { name: "a" user_conf { op_type_name: "relu" input { key: "x" value { s: "x/out" } } output { key: "y" value { s: "a/y_0" } } } }
op { name: "b" user_conf { op_type_name: "tanh" input { key: "x" value { s: "a/y_0" } } output { key: "y" value { s: "b/y_0" } } } }
op { name: "c" user_conf { op_type_name: "sigmoid" input { key: "x" value { s: "b/y_0" } } output { key: "y" value { s: "c/y_0" } } } }
op { name: "m" user_conf { op_type_name: "matmul" input { key: "a" value { s: "c/y_0" } } input { key: "b" value { s: "w/out" } }
  output { key: "out" value { s: "m/out_0" } } } }
op { name: "r" user_conf { op_type_name: "relu" input { key: "x" value { s: "m/out_0" } } output { key: "y" value { s: "r/y_0" } } } }
op { name: "n" user_conf { op_type_name: "matmul" input { key: "a" value { s: "r/y_0" } } input { key: "b" value { s: "v/out" } }
  output { key: "out" value { s: "n/out_0" } } } }
op { name: "y" output_conf { in: "n/out_0" out: "out" } }
"""
# Which kinds of steps a layout has, and what NCCL is called for them.
CUTS = {
    "rows, columns, whole": (["a/y_0=S(0)", "b/y_0=S(1)", "c/y_0=B"], {"all_to_all": "ncclSend", "all_gather": "ncclSend"}),
    "even columns of x": (["a/y_0=S(1)", "b/y_0=S(0)", "c/y_0=B"], {"all_to_all": "ncclRecv"}),
    "sums, whole": (["c/y_0=S(1)", "w=S(0)", "m/out_0=P", "r/y_0=B"], {"all_reduce": "ncclAllReduce"}),
    "sums, in rows": (["c/y_0=S(1)", "w=S(0)", "m/out_0=P", "r/y_0=S(0)"], {"reduce_scatter": "ncclReduce"}),
    "sums, in columns": (["r/y_0=S(1)", "v=S(0)", "n/out_0=P"], {"all_reduce": "ncclAllReduce"}),
}


class Cut(Ranked):
    """The graph, in the states that are asked for."""

    def setUp(self):
        self.graph = self.path("graph.pbtxt")
        with open(self.graph, "w", encoding="utf-8") as f:
            f.write(GRAPH)
        rng = np.random.default_rng(5)
        self.x = rng.standard_normal((7, 10), np.float32)
        self.w, self.v = rng.standard_normal((10, 9), np.float32), rng.standard_normal((9, 6), np.float32)
        np.save(self.path("x.npy"), self.x)
        np.savez(self.path("weights.npz"), w=self.w, v=self.v)

    def call(self, devices, cuts, *more):
        return ["run", self.graph, "--input", f"x=@{self.path('x.npy')}", "--weights", self.path("weights.npz"), "--outputs", self.path("out.npz"),
                "--device", f"sim:0-{devices - 1}", *(word for cut in cuts for word in ("--sbp", cut)), *more]

    def check(self):
        x, w, v = (a.astype(np.float64) for a in (self.x, self.w, self.v))
        want = np.maximum(1 / (1 + np.exp(-np.tanh(np.maximum(x, 0)))) @ w, 0) @ v
        np.testing.assert_allclose(np.load(self.path("out.npz"))["y"], want, rtol=1e-5, atol=1e-5)

    def report(self, *call, sim, **kw):
        """A run, and what the simulator has counted."""
        path = self.path("report.json")
        done = self.ok(*call, sim=f"{sim},report={path}", **kw)
        with open(path, encoding="utf-8") as f:
            return done, json.load(f)

    def kinds(self, devices, cuts):
        plan = self.path("plan")
        self.ok("compile", self.graph, "--device", "sim", "--mesh", str(devices), *(word for cut in cuts for word in ("--sbp", cut)), "-o", plan)
        tasks = json.loads(self.ok("show", plan, "--what", "tasks", "--json").stdout)["tasks"]
        self.assertEqual([t["op"] for t in tasks if ".to_cpu" in t["op"] or ".to_device" in t["op"]], [])
        return {t["kernel"].split("/")[1] for t in tasks if t["kernel"].startswith("comm/")}

    def stages(self, *where, **kw):
        """The digits in two stages: what one has made goes on to the other."""
        done = self.ok("run", data("mlp.pbtxt"), "--weights", data("mlp_weights.npz"), "--input", f"image=@{data('test_images.npy')}", "--outputs",
                       self.path("logits.npz"), *where, **kw)
        np.testing.assert_allclose(np.load(self.path("logits.npz"))["logits"], np.load(data("mlp_test_logits.npy")), rtol=1e-4, atol=1e-4)
        return done

    def test_every_schedule(self):
        for cuts, _ in CUTS.values():
            for sim in SCHEDULES:
                self.ok(*self.call(4, cuts, "--repeat", "3"), sim="devices=4," + sim)
                self.check()
