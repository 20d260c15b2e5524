# Ranks on several simulated GPUs exchange over NCCL's stand-in, as work of the devices' streams: every kind of boxing against numpy, also in uneven
# pieces; the option that demands or refuses it; what happens where NCCL, a call of it, a device or a rank fails; and each wait between a stream of
# exchanges and its neighbours taken away, which has to be noticed.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import time
import unittest

import device_ranks
from device_ranks import BIN, CUTS, HAS_MPI, LAYOUTS, SCHEDULES, STAGES, opc
from schedules import silent, skips


class Nccl(device_ranks.Cut):
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
        for where, ranks in STAGES:
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
        report = self.path("report.json")

        def run(sim):
            self.same(self.weights("run", *step, steps=1, sim="devices=2," + sim), want)

        run("report=" + report)
        with open(report, encoding="utf-8") as f:
            mutants = list(skips(json.load(f), ("cuStreamWaitEvent",)))
        self.assertGreaterEqual(len(mutants), 4)  # there and back, on two devices
        self.assertEqual(silent(mutants, run), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
