# Ranks on several simulated GPUs exchange from device to device where there is no NCCL: every kind of boxing against numpy, also in uneven pieces;
# sums with the CPU's bits, devices that do not reach each other, calls that fail. gpusim_exchange_mutants takes copies and waits away.
# SPDX-License-Identifier: Apache-2.0
import os
import time
import unittest

import numpy as np

import device_ranks
from device_ranks import CUTS, HAS_MPI, SCHEDULES, STAGES, opc

WHOLE = CUTS["sums, whole"][0]


class Peers(device_ranks.Cut, device_ranks.Schedules):
    def setUp(self):
        super().setUp()
        before = os.environ.get("OPC_COLLECTIVES")
        os.environ["OPC_COLLECTIVES"] = "peer"
        self.addCleanup(lambda: os.environ.pop("OPC_COLLECTIVES") if before is None else os.environ.update(OPC_COLLECTIVES=before))

    def test_every_kind(self):
        """No byte goes through the host between the inputs and the outputs, nor does the driver take one there."""
        seen = set()
        for devices in (2, 3, 4):
            for name, (cuts, _) in CUTS.items():
                with self.subTest(name, devices=devices):
                    seen |= self.kinds(devices, cuts)
                    done, found = self.report(*self.call(devices, cuts, "--stats"), sim=f"devices={devices}")
                    self.check()
                    self.assertIn("ranks exchange from device to device (", done.stderr)
                    self.assertEqual([f for f in found["calls"] if f.startswith("nccl")], [])
                    self.assertEqual(found["copies"]["peer_staged"]["count"], 0)
                    _, host = self.report(*self.call(devices, cuts), sim=f"devices={devices}", OPC_COLLECTIVES="host")
                    self.assertLess(found["copies"]["device_to_host"]["count"], host["copies"]["device_to_host"]["count"])
        self.assertLessEqual({"all_to_all", "all_gather", "all_reduce", "reduce_scatter", "slice"}, seen)

    def test_the_bits_of_the_host(self):
        """Sums are added up in the order of the ranks, as in the CPU's memory, of four addends too."""
        for name, (cuts, _) in CUTS.items():
            bits = []
            for way in ("peer", "host"):
                self.ok(*self.call(4, cuts), sim="devices=4", OPC_COLLECTIVES=way)
                bits.append(np.load(self.path("out.npz"))["y"].tobytes())
            self.assertEqual(*bits, name)

    def test_deterministic_beside_nccl(self):
        """What NCCL may not add up goes from device to device where it can."""
        for peers, is_direct in (("all", True), ("none", False)):
            _, found = self.report(*self.call(4, WHOLE, "--deterministic"), sim="devices=4,peers=" + peers, OPC_COLLECTIVES="auto")
            self.check()
            self.assertNotIn("ncclAllReduce", found["calls"])
            self.assertEqual("cuMemcpyPeerAsync" in found["calls"], is_direct)

    def test_stages(self):
        for where, ranks in STAGES:
            for sim in SCHEDULES:
                done = self.stages(*where, "--stats", "--repeat", "2", sim=f"devices={ranks},{sim}")
                self.assertIn("ranks exchange from device to device", done.stderr)

    def test_devices_that_do_not_reach_each_other(self):
        """Pairs that do, and none: who does not goes through the CPU's memory, and OPC_COLLECTIVES=peer is an error then."""
        for peers in ("pairs", "none"):
            done = opc(*self.call(4, WHOLE), sim="devices=4,peers=" + peers)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("error[OPC0725]: the ranks cannot exchange from device to device; not all devices reach each other's memory", done.stderr)
            self.assertIn("without OPC_COLLECTIVES=peer they take NCCL, or the CPU's memory", done.stderr)

    @unittest.skipUnless(HAS_MPI, "mpirun is not here")
    def test_processes(self):
        call = self.call(2, WHOLE)
        call[call.index("sim:0-1")] = "sim"
        done = opc(*call, sim="devices=2", launcher=("mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("the ranks cannot exchange from device to device; they are processes", done.stderr)

    def test_failures(self):
        """Of each call, and of a rank: said with the step and the rank, and nobody waits for ever."""
        for cuts, faults in ((WHOLE, ("cuEventCreate:3:2", "cuStreamWaitEvent:1:700", "cuMemcpyPeerAsync:1:700", "cuLaunchKernel:3:719",
                                      "cuLaunchKernel:9:719")),
                             (CUTS["rows, columns, whole"][0], ("cuMemcpyPeerAsync:2:700", "cuMemcpyPeerAsync:5:700", "cuStreamWaitEvent:4:700"))):
            for fault in faults:
                with self.subTest(fault):
                    begin = time.monotonic()
                    done = opc(*self.call(2, cuts, "--repeat", "2"), sim=f"devices=2,fail={fault}")
                    self.assertLess(time.monotonic() - begin, 100)
                    self.assertEqual(done.returncode, 5, done.stderr)
                    self.assertRegex(done.stderr, r"error\[OPC0631\]")
                    self.assertRegex(done.stderr, "rank [01]")
        # Access that the driver refuses, whatever it has said before.
        done = opc(*self.call(2, WHOLE), sim="devices=2,fail=cuCtxEnablePeerAccess:1:217")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("not all devices reach each other's memory", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
