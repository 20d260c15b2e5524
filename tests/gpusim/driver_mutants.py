"""A client with copy, compute and side streams is silent under every schedule; what is left out of it is found."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

BUILD = os.environ["OPC_BUILD_DIR"]
CLIENT = os.path.join(BUILD, "bin", "opc_gpusim_client")
LIBRARY = os.path.join(BUILD, "lib", "opc", "gpusim", "libcuda.so.1")
POLICIES = ("late", "eager", "random")
EDGE = ("UNORDERED", "unwritten")  # a missing edge: the first finding is one of these

# What is left out or spoilt: the first finding, or the code of the refused call, in streams and in a graph (None: it has no such
# thing). Work that should have been captured may have run before the capture is refused.
FOUND = {
    "no_copy_to_compute": (EDGE, EDGE),
    "no_compute_to_copy": (EDGE, EDGE),
    "no_copy": (("unwritten",), ("unwritten",)),
    "no_fork": (EDGE, (905, *EDGE)),
    "no_join": (EDGE, (904,)),
    "no_back_pressure": (("UNORDERED",), ("UNORDERED",)),
    "no_credit": (("UNORDERED",), ("UNORDERED",)),
    "one_slot": (("UNORDERED",), ("UNORDERED",)),
    "wrong_n": (("out of bounds",), ("out of bounds",)),
    "misaligned": (("misaligned",), ("misaligned",)),
    "no_barrier": (("race", "unwritten"), ("race", "unwritten")),
    "no_async_wait": (("race", "unwritten"), ("race", "unwritten")),
    "pageable": ((1,), (1,)),
    "too_many_threads": ((1,), (1,)),
    "too_much_shared": ((1,), (1,)),
    "cubin": ((209,), (209,)),
    "bad_ptx": ((218,), (218,)),
    "legacy_stream": (None, (900,)),
    "sync_in_capture": (None, (900,)),
}
CODES = {"out of bounds": 700, "misaligned": 716}
# Edges that follow from others: without them the program is as right as with them.
REDUNDANT = ("redundant_side_wait", "redundant_join_wait")


class Mutants(unittest.TestCase):
    def client(self, *arguments, **options):
        """(exit code, output, report)"""
        with tempfile.TemporaryDirectory() as d:
            report = os.path.join(d, "report.json")
            sim = ",".join(f"{k}={v}" for k, v in dict(options, report=report).items())
            done = subprocess.run([CLIENT, *arguments], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, CUDA_SIM=sim, OPC_GPUSIM_LIBRARY=LIBRARY))
            found = {}
            if os.path.exists(report):
                with open(report, encoding="utf-8") as f:
                    found = json.load(f)
            return done.returncode, done.stdout + done.stderr, found

    def test_right_program_is_silent(self):
        runs = [("late", 0), ("eager", 0)] + [(p, s) for p in ("random", "late") for s in range(1, 21)]
        for mode in ([], ["--graph"]):
            for policy, seed in runs:
                code, text, report = self.client(*mode, policy=policy, seed=seed)
                self.assertEqual((code, text, report["findings"]), (0, "results right\n", []), (mode, policy, seed))

    def test_mutants(self):
        for mutant, expectations in FOUND.items():
            for mode, expected in zip(([], ["--graph"]), expectations):
                for policy in POLICIES if expected is not None else ():
                    with self.subTest(mutant=mutant, mode=mode, policy=policy):
                        code, text, report = self.client(*mode, mutant, policy=policy, seed=3)
                        self.assertEqual(code, 1, text)
                        found = report["findings"][0]["kind"] if report["findings"] else int(re.search(r"error (\d+) in cu", text).group(1))
                        self.assertIn(found, expected, text)
                        error = CODES.get(found, 719) if report["findings"] else found
                        self.assertIn(f"error {error} in cu", text)
                        self.assertIn(f"gpusim: error {error} (CUDA_ERROR_", text)

    def test_text_names_both_operations_and_the_bytes(self):
        text = self.client("no_back_pressure", policy="late")[1]
        self.assertRegex(text, r"UNORDERED: kernel twice \(operation \d+, stream 2\) reads bytes 0 to 2048 of the 10240 bytes of "
                               r"device memory at 0x[0-9a-f]+, which copy host to device \(operation \d+, stream 1\) writes|"
                               r"UNORDERED: copy host to device \(operation \d+, stream 1\) writes bytes 0 to 2048 of the 10240 bytes of "
                               r"device memory at 0x[0-9a-f]+, which kernel twice \(operation \d+, stream 2\) reads")

    def test_redundant_edges(self):
        for mutant in REDUNDANT:
            for policy in POLICIES:
                code, text, report = self.client(mutant, policy=policy, seed=5)
                self.assertEqual((code, text, report["findings"]), (0, "results right\n", []), (mutant, policy))

    def test_what_only_results_show(self):
        """The host's own reads and writes are not seen; their schedule is. So `late` is the default."""
        for mutant in ("no_host_wait", "overwritten_input"):
            for mode in ([], ["--graph"]):
                self.assertIn("results wrong", self.client(*mode, mutant)[1], mutant)
                self.assertIn("results right", self.client(*mode, mutant, policy="eager")[1], mutant)
                wrong = sum("results wrong" in self.client(*mode, mutant, policy="random", seed=s)[1] for s in range(1, 11))
                self.assertGreaterEqual(wrong, 1, mutant)

    def test_host_follows_a_device_pointer(self):
        for policy in POLICIES:
            code = self.client("device_pointer", policy=policy)[0]
            if os.environ.get("OPC_SANITIZE"):
                self.assertNotEqual(code, 0)  # the sanitizer has its own way to die
            else:
                self.assertEqual(code, -signal.SIGSEGV)

    def test_error_paths(self):
        code, text, _ = self.client(memory="8K")
        self.assertEqual((code, "error 2 in cuMemAlloc" in text), (1, True), text)
        self.assertIn("10240 bytes were asked of device 0, which has 8192 of 8192 left", text)
        for policy in POLICIES:
            code, text, _ = self.client(policy=policy, fail="cuLaunchKernel:5:719")
            self.assertEqual((code, "error 719 in cuLaunchKernel" in text), (1, True), text)

    def test_warnings(self):
        code, text, report = self.client("no_back_pressure", policy="late", findings="warn")
        self.assertIn("gpusim: warning 719", text)
        self.assertTrue(report["findings"])
        self.assertNotIn("error 719 in", text)
        self.assertIn("error 700 in", self.client("wrong_n", findings="warn")[1])  # hardware stops there, too

    def test_counters(self):
        _, _, report = self.client(policy="late")
        self.assertEqual(report["launches"], 4 * 5)
        self.assertEqual(report["copies"]["host_to_device"], {"count": 4, "bytes": 4 * 2048})
        self.assertEqual(report["copies"]["device_to_host"], {"count": 4, "bytes": 4 * 2048})
        self.assertEqual((report["synchronisations"], report["graph_launches"]), (1, 0))
        self.assertEqual(report["peak_bytes"], [5 * 2048 + 2048])
        self.assertEqual({k: v["launches"] for k, v in report["kernels"].items()},
                         {"twice": 4, "sum": 8, "square": 4, "reverse": 4})
        twice = report["kernels"]["twice"]
        self.assertEqual((twice["bytes_read"], twice["bytes_written"]), (4 * 2 * 2048, 4 * 2048))
        self.assertEqual((twice["sectors"], twice["ideal_sectors"]), (4 * 3 * 64, 4 * 3 * 64))
        _, _, report = self.client("--graph", policy="late")
        self.assertEqual((report["launches"], report["graph_launches"], report["graph_nodes"]), (0, 4, 20))


if __name__ == "__main__":
    unittest.main()
