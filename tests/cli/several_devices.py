# One graph on several simulated GPUs: each rank has one, threads of one process and processes under mpirun. Against the CPU's mesh of the
# same plan: data and tensor parallel training of the digits, a step of a transformer, two and four devices, under several schedules.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

import numpy as np

import device_ranks
from device_ranks import HAS_MPI, LAYOUTS, SCHEDULES, SOURCE, data, opc


class Devices(device_ranks.Schedules):
    def test_labels_of_classes_that_are_split(self):
        """d of the loss by the logits is dy * (prob - one hot): of a rank with a part of the classes, too."""
        graph = self.path("split.pbtxt")
        with open(graph, "w", encoding="utf-8") as f:
            f.write("""op { name: "p" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 10 } data_type: kFloat } } }
op { name: "l" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kInt32 } } }
op { name: "dy" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }
op { name: "g" user_conf { op_type_name: "sparse_softmax_cross_entropy_grad" input { key: "label" value { s: "l/out" } }
  input { key: "dy" value { s: "dy/out" } } input { key: "prob" value { s: "p/out" } }
  output { key: "prediction_diff" value { s: "g/prediction_diff_0" } } attr { key: "depth" value { at_int64: 10 } } } }
op { name: "o" output_conf { in: "g/prediction_diff_0" out: "out" } }
""")
        rng, labels = np.random.default_rng(3), np.array([4, 8, 0, 9], np.int32)
        prob, dy = rng.random((4, 10), np.float32), rng.random(4, np.float32)
        np.savez(self.path("in.npz"), p=prob, l=labels, dy=dy)
        self.ok("run", graph, "--inputs", self.path("in.npz"), "--outputs", self.path("out.npz"), "--sbp", "g/prediction_diff_0=S(1)", "--device", "sim:0-1",
                sim="devices=2")
        want = dy[:, None] * (prob - (np.arange(10) == labels[:, None]))
        np.testing.assert_allclose(np.load(self.path("out.npz"))["o"], want, rtol=1e-6, atol=1e-7)

    def test_inference(self):
        """The digits on two devices, beside the weights' known answers."""
        call = ["run", data("mlp.pbtxt"), "--weights", data("mlp_weights.npz"), "--input", f"image=@{data('test_images.npy')}", "--outputs", self.path("out")]
        for sim in SCHEDULES:
            done = self.ok(*call, "--device", "sim:0-1", "--sbp", "image=S(0)", "--stats", sim="devices=2," + sim)
            self.assertIn("rank 1: ", done.stdout + done.stderr)
            got = np.load(os.path.join(self.path("out"), "logits.npy"))
            np.testing.assert_allclose(got, np.load(data("mlp_test_logits.npy")), rtol=1e-4, atol=1e-4)

    def test_each_rank_has_its_device(self):
        report = self.path("report.json")
        self.weights("ckpt", *LAYOUTS["data"], "--device", "sim:1-2", sim=f"devices=3,report={report}")
        with open(report, encoding="utf-8") as f:
            used = json.load(f)["peak_bytes"]
        self.assertEqual([bytes > 0 for bytes in used], [False, True, True])

    def test_a_transformer(self):
        """A step of training of two layers, heads and the feed-forward layers cut: the loss of two steps. On four devices two pairs cut the batch, too."""
        graph = self.path("gpt.pbtxt")
        with open(graph, "w", encoding="utf-8") as f:
            subprocess.run([sys.executable, os.path.join(SOURCE, "docs", "examples", "distributed", "make_graphs.py"), "gpt", "--layers", "2", "--batch", "2",
                            "--sequence", "4", "--hidden", "16", "--heads", "2", "--vocabulary", "32"], check=True, stdout=f)
        step = self.path("step.pbtxt")
        self.ok("grad", graph, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", step)
        inputs = json.loads(self.ok("show", step, "--json").stdout)["inputs"]
        given = []
        for i in inputs:
            values = np.arange(int(np.prod(i["shape"]))).reshape(i["shape"]) * 7 % 32
            np.save(self.path(i["name"] + ".npy"), values.astype(np.int32 if "32" in i["dtype"] else np.int64))
            given += ["--input", f"{i['name']}=@{self.path(i['name'] + '.npy')}"]
        cuts = {"layer?_attn_[qkv]_w": "S(1)", "layer?_attn_proj_w": "S(0)", "layer?_fc1_w": "S(1)", "layer?_fc2_w": "S(0)"}
        call = ["run", step, *given, "--repeat", "2", "--outputs", self.path("out")]
        pair = [word for name, state in cuts.items() for word in ("--sbp", f"{name}={state}")]
        pairs = [word for name, state in cuts.items() for word in ("--sbp", f"{name}=[B,{state}]")] + ["--sbp", f"{inputs[0]['name']}=[S(0),B]", "--mesh", "2x2"]
        self.ok(*call, *pair, "--ranks", "2", "--in-process")
        want = np.load(os.path.join(self.path("out"), "loss.npy"))
        for devices, where in ((2, pair), (4, pairs)):
            for sim in SCHEDULES:
                self.ok(*call, *where, "--device", f"sim:0-{devices - 1}", sim=f"devices={devices},{sim}")
                np.testing.assert_allclose(np.load(os.path.join(self.path("out"), "loss.npy")), want, rtol=1e-4)

    @unittest.skipUnless(HAS_MPI, "mpirun is not here")
    def test_processes(self):
        """Ranks of mpirun, which find their device by their number; and a plan that was made before."""
        want = self.weights("cpu", *LAYOUTS["data"], "--ranks", "2", "--in-process")
        mpirun = ("mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2")
        self.same(self.weights("mpi", *LAYOUTS["data"], "--device", "sim", launcher=mpirun, sim="devices=2"), want)
        plan = self.path("step.plan")
        self.ok("compile", self.train, "--mesh", "2", *LAYOUTS["data"], "--device", "sim", "-o", plan)
        self.assertIn("opc.boxing", json.dumps(json.loads(self.ok("show", plan, "--json", "--what", "ops").stdout)))
        self.same(self.weights("plan", graph=plan, launcher=mpirun, sim="devices=2"), want)
        self.same(self.weights("threads", "--ranks", "2", "--in-process", graph=plan, sim="devices=2"), want)

    def test_devices_and_ranks(self):
        """As many of one as of the other."""
        call = ["run", data("mlp.pbtxt"), "--fill", "ones"]
        for words, says in ((["--device", "sim:0-1", "--ranks", "4", "--in-process"], "--device sim:0-1 names 2 devices, and there are 4 ranks"),
                            (["--device", "sim:0-1", "--mesh", "4"], "--mesh is a mesh of 4 ranks, and --device names 2 devices"),
                            (["--device", "sim:1", "--mesh", "2", "--in-process"], "--device sim:1 names 1 device, and there are 2 ranks"),
                            (["--device", "sim:1-0"], "unknown device 'sim:1-0'"), (["--device", "cpu:0-1"], "unknown device 'cpu:0-1'"),
                            (["--device", "sim:0-"], "unknown device 'sim:0-'"), (["--device", "sim:0,gpu:0"], "unknown device 'sim:0,gpu:0'")):
            done = opc(*call, *words, sim="devices=4")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
        done = opc(*call, "--device", "sim:0-3", sim="devices=2")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("there is no device sim:3: the driver has 2", done.stderr)
        self.assertIn("CUDA_SIM=devices=4 simulates more", done.stderr)
        done = opc(*call, "--device", "sim:0-1", "--micro-batches", "2", sim="devices=2")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("micro-batches run on the cpu", done.stderr)
        done = opc("verify", "relu", "--device", "sim:0-1", sim="devices=2")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("'sim:0-1' are several devices, and one is wanted", done.stderr)

    def test_a_setting_of_several_devices(self):
        """OPC_DEVICE says the same as --device of a graph; a plan has its own."""
        call = ["run", data("mlp.pbtxt"), "--weights", data("mlp_weights.npz"), "--input", f"image=@{data('test_images.npy')}", "--outputs", self.path("out"),
                "--stats"]
        done = self.ok(*call, "--sbp", "image=S(0)", sim="devices=2", OPC_DEVICE="sim:0-1")
        self.assertIn("rank 1: ", done.stderr)
        np.testing.assert_allclose(np.load(os.path.join(self.path("out"), "logits.npy")), np.load(data("mlp_test_logits.npy")), rtol=1e-4, atol=1e-4)
        plan = self.path("one.plan")
        self.ok("compile", data("mlp.pbtxt"), "--device", "sim", "-o", plan)
        call[1] = plan
        self.assertNotIn("rank 1: ", self.ok(*call, sim="devices=2", OPC_DEVICE="sim:0-1").stderr)

    def test_a_plan_of_several_devices(self):
        """--device has to be the plan's, and the way out is that one."""
        plan = self.path("two.plan")
        self.ok("compile", data("mlp.pbtxt"), "--device", "sim", "--mesh", "2", "--sbp", "image=S(0)", "-o", plan)
        done = opc("run", plan, "--fill", "ones", "--device", "sim", sim="devices=2")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"--device sim: the plan {plan} is for sim:0-1", done.stderr)
        self.assertIn("help: give --device sim:0-1, or leave it out", done.stderr)
        self.ok("run", plan, "--fill", "ones", "--device", "sim:0-1", sim="devices=2")
        done = opc("run", plan, "--fill", "ones", "--device", "cpu", sim="devices=2")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("opc compile GRAPH --device cpu", done.stderr)

    def test_a_device_that_fails(self):
        call = ["run", data("mlp.pbtxt"), "--fill", "ones", "--device", "sim:0-1", "--sbp", "image=S(0)"]
        done = opc(*call, sim="devices=2,memory=1000")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0614", done.stderr)
        self.assertRegex(done.stderr, "on sim:[01]")
        self.assertIn("largest buffers are", done.stderr)
        done = opc(*call, sim="devices=2,fail=cuLaunchKernel:3:719")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("OPC0631", done.stderr)
        self.assertRegex(done.stderr, "on rank [01]")


if __name__ == "__main__":
    unittest.main(verbosity=2)
