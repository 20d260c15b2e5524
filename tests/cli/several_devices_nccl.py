# Ranks on several simulated GPUs exchange over NCCL's stand-in, as work of the devices' streams: every kind of boxing against numpy, also in uneven
# pieces; the option that demands or refuses it; what happens where NCCL, a call of it, a device or a rank fails; and each wait between a stream of
# exchanges and its neighbours taken away, which has to be noticed.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import time
import unittest

import numpy as np
from several_devices import BIN, HAS_MPI, LAYOUTS, SCHEDULES, Ranked, data, opc

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

    def mutants(self, run, least, functions=("cuStreamWaitEvent",)):
        """`run` gives the right numbers, or fails, as it does without each wait of a stream for another one."""
        report = self.path("report.json")
        run("whole", f"devices=2,report={report}")
        with open(report, encoding="utf-8") as f:
            found = json.load(f)
        mutants = [f"{call.split(':')[0]}:{n}:{call.split(':')[1]}" for call, count in found["stream_calls"].items()
                   if call.split(":")[0] in functions for n in range(1, count + 1)]
        self.assertGreaterEqual(len(mutants), least)
        silent = []
        for mutant in mutants:
            for sim in ("policy=late", "policy=eager", "policy=random,seed=3"):
                try:
                    run("mutant", f"devices=2,skip={mutant},{sim}")
                except AssertionError:
                    break
            else:
                silent.append(mutant)
        self.assertEqual(silent, [])


class Nccl(Cut):
    def test_every_kind(self):
        seen = set()
        for devices in (2, 3, 4):
            for name, (cuts, calls) in CUTS.items():
                with self.subTest(name, devices=devices):
                    kinds = self.kinds(devices, cuts)
                    seen |= kinds
                    _, found = self.report(*self.call(devices, cuts), sim=f"devices={devices}")
                    self.check()
                    for kind, call in calls.items():
                        self.assertTrue(devices == 4 or kind in kinds, kinds)  # of four, gathering all may cost less
                        if kind in kinds:
                            self.assertGreater(sum(n for f, n in found["calls"].items() if f.startswith(call)), 0, found["calls"])
        self.assertLessEqual({"all_to_all", "all_gather", "all_reduce", "reduce_scatter", "slice"}, seen)

    def test_every_schedule(self):
        for cuts, _ in CUTS.values():
            for sim in SCHEDULES:
                self.ok(*self.call(4, cuts, "--repeat", "3"), sim="devices=4," + sim)
                self.check()

    def test_nothing_goes_through_the_cpu(self):
        """Over NCCL a step copies inputs to the devices and outputs back, and nothing between; else there and back for each exchange."""
        cuts = CUTS["sums, whole"][0]
        done, found = self.report(*self.call(2, cuts, "--stats"), sim="devices=2")
        self.assertIn("ranks exchange over NCCL 2.28.9\n", done.stderr)
        again, host = self.report(*self.call(2, cuts, "--stats", "--json"), sim="devices=2", OPC_COLLECTIVES="host")
        self.check()
        self.assertEqual(json.loads(again.stdout)["stats"]["collectives"], "through the CPU's memory")
        self.assertEqual([f for f in host["calls"] if f.startswith("nccl")], [])
        self.assertGreater(host["copies"]["device_to_host"]["count"], found["copies"]["device_to_host"]["count"])
        self.assertGreater(found["copies"]["peer"]["bytes"], 0)
        self.assertEqual(host["copies"]["peer"]["bytes"], 0)
        done = opc(*self.call(2, cuts), sim="devices=2", OPC_COLLECTIVES="mpi")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("OPC_COLLECTIVES is 'mpi', and takes auto, nccl, peer or host", done.stderr)

    def test_sums_in_the_order_of_the_ranks(self):
        """--deterministic: three and more addends are added up as on CPUs, bit for bit, whatever NCCL does."""
        cuts = CUTS["sums, whole"][0]
        _, found = self.report(*self.call(2, cuts, "--deterministic"), sim="devices=2")
        self.assertGreater(found["calls"]["ncclAllReduce"], 0)  # of two addends the order cannot be seen
        _, found = self.report(*self.call(4, cuts, "--deterministic"), sim="devices=4")
        self.assertNotIn("ncclAllReduce", found["calls"])
        self.check()

    def test_training(self):
        """Two steps of the digits, in data and tensor parallel, through the CPU's memory and over NCCL alike."""
        for layout, flags in LAYOUTS.items():
            want = self.weights("cpu", *flags, "--ranks", "2", "--in-process")
            for way in ("nccl", "host"):
                self.same(self.weights(way, *flags, "--device", "sim:0-1", sim="devices=2", OPC_COLLECTIVES=way), want)

    def test_without_nccl(self):
        """Another installation, which has the simulator's driver alone."""
        os.makedirs(os.path.join(self.path("there"), "bin"))
        os.makedirs(os.path.join(self.path("there"), "lib", "opc", "gpusim"))
        shutil.copy(os.path.join(BIN, "opc"), os.path.join(self.path("there"), "bin", "opc"))
        shutil.copy(os.path.join(BIN, "..", "lib", "opc", "gpusim", "libcuda.so.1"), os.path.join(self.path("there"), "lib", "opc", "gpusim"))
        call = self.call(2, CUTS["sums, whole"][0], "--stats")
        for peers, way in (("all", "from device to device"), ("none", "through the CPU's memory")):
            done = opc(*call, sim="devices=2,peers=" + peers, program=os.path.join(self.path("there"), "bin", "opc"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, rf"ranks exchange {way} \(rank 0: /.*/lib/opc/gpusim/libnccl.so.2 cannot be opened\)")
            self.check()
        done = opc(*call, sim="devices=2", program=os.path.join(self.path("there"), "bin", "opc"), OPC_COLLECTIVES="nccl")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("error[OPC0725]: the ranks cannot exchange over NCCL; rank 0: ", done.stderr)
        self.assertIn("without OPC_COLLECTIVES=nccl they go from device to device, or take the CPU's memory", done.stderr)

    @unittest.skipUnless(HAS_MPI, "mpirun is not here")
    def test_processes(self):
        """The simulator's NCCL is for threads: processes take the CPU's memory, unless that is refused."""
        mpirun = ("mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2")
        call = [a for a in self.call(2, CUTS["sums, whole"][0], "--stats")]
        call[call.index("sim:0-1")] = "sim"
        done = opc(*call, sim="devices=2", launcher=mpirun)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ranks exchange through the CPU's memory (rank 0: the simulator's NCCL is for ranks of one process)", done.stderr)
        self.check()
        done = opc(*call, sim="devices=2", launcher=mpirun, OPC_COLLECTIVES="nccl")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0725", done.stderr)

    def test_stages(self):
        for where, ranks in ((["--device", "sim:0-1", "--stage", "fc1*=0", "--stage", "fc2*,relu*,fc3*=1"], 2),
                             (["--device", "sim:0-3", "--stage", "fc1*=0-1", "--stage", "fc2*,relu*,fc3*=2-3", "--sbp", "image=S(0)"], 4)):
            report = self.path("report.json")
            for sim in SCHEDULES:
                done = self.stages(*where, "--stats", "--repeat", "2", sim=f"devices={ranks},report={report},{sim}")
                self.assertIn("ranks exchange over NCCL", done.stderr)
            with open(report, encoding="utf-8") as f:
                calls = json.load(f)["calls"]
            self.assertGreater(calls["ncclSend"], 0)
            self.assertEqual(calls["ncclSend"], calls["ncclRecv"])

    def test_failures(self):
        """Of each call, and of the devices: said with the step and the rank, and nobody waits for ever."""
        for cuts, faults in ((CUTS["sums, whole"][0], ("ncclGetUniqueId:1:2", "ncclCommInitRankConfig:1:2", "ncclCommInitRankConfig:2:3", "ncclAllReduce:1:3",
                                                       "ncclAllReduce:2:1", "ncclGroupStart:2:5", "ncclGroupEnd:1:1", "ncclGroupEnd:2:6")),
                             (CUTS["sums, in rows"][0], ("ncclReduce:1:1", "ncclReduce:4:2")),
                             (CUTS["rows, columns, whole"][0], ("ncclSend:1:1", "ncclRecv:2:3", "ncclSend:3:6"))):
            for fault in faults:
                with self.subTest(fault):
                    begin = time.monotonic()
                    done = opc(*self.call(2, cuts, "--repeat", "2"), sim=f"devices=2,fail={fault}")
                    self.assertLess(time.monotonic() - begin, 100)
                    self.assertEqual(done.returncode, 5, done.stderr)
                    if fault.endswith(":6"):  # what NCCL says of another rank's failure, so any rank may be heard first
                        said = r"error\[OPC0721\]: .*NCCL: \w"
                    else:
                        said = r"error\[OPC0724\]: (\S+: )?NCCL: " + fault.split(":")[0]
                    self.assertRegex(done.stderr, said)
                    self.assertRegex(done.stderr, "on rank [01]")
        for fault in ("cuLaunchKernel:3:719", "cuLaunchKernel:7:719", "cuStreamCreate:3:2", "cuMemAlloc:2:2"):
            with self.subTest(fault):
                begin = time.monotonic()
                done = opc(*self.call(2, CUTS["sums, whole"][0], "--repeat", "2"), sim=f"devices=2,fail={fault}")
                self.assertLess(time.monotonic() - begin, 100)
                self.assertIn(done.returncode, (4, 5), done.stderr)
                self.assertRegex(done.stderr, r"error\[OPC06(14|31)\]")
                self.assertRegex(done.stderr, "rank [01]")

    def test_mutants(self):
        """Each wait of a stream for another one, in a step of training whose gradients travel beside the computation."""
        step = ("--device", "sim:0-1", *LAYOUTS["data"])
        want = self.weights("cpu", *LAYOUTS["data"], "--ranks", "2", "--in-process", steps=1)
        self.mutants(lambda name, sim: self.same(self.weights(name, *step, steps=1, sim=sim), want), 4)  # there and back, on two devices


if __name__ == "__main__":
    unittest.main(verbosity=2)
