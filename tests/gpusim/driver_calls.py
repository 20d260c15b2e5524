"""The stand-in driver's functions one by one: what they return, what they refuse; CUDA_SIM; no function is left out."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import tempfile
import unittest

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
PROGRAM = os.path.join(BUILD, "bin", "opc_gpusim_calls")
LIBRARY = os.path.join(BUILD, "lib", "opc", "gpusim", "libcuda.so.1")
# What each scenario asks of CUDA_SIM; those of ALL are the same under every policy.
OPTIONS = {"devices": "devices=2,cc=90,driver=12040,memory=64M", "memory": "memory=64M", "libraries": "driver=12040", "peers": "devices=2", "peers_denied": "devices=4,peers=pairs",
           "peer_streams": "devices=2", "warnings": "findings=warn"}
ALL = ("contexts", "memory", "modules", "libraries", "graphs", "capture_rules", "peers", "peers_denied", "peer_streams", "sticky", "threads", "host_functions", "forks", "warnings")


def run(scenario, sim):
    return subprocess.run([PROGRAM, *scenario], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, CUDA_SIM=sim, OPC_GPUSIM_LIBRARY=LIBRARY))


def init(sim):
    """cuInit's code and what it says, in a process of its own."""
    done = run(["init"], sim)
    return int(done.stdout), done.stderr


class Calls(unittest.TestCase):
    def test_scenarios(self):
        called = {}
        for name in run([], "").stdout.split():
            for policy in ("late", "eager", "random") if name in ALL else ("late",):
                with self.subTest(scenario=name, policy=policy), tempfile.TemporaryDirectory() as d:
                    report = os.path.join(d, "report.json")
                    done = run([name], ",".join(filter(None, [OPTIONS.get(name), f"policy={policy},seed=2,report={report}"])))
                    self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
                    with open(report, encoding="utf-8") as f:
                        for function, count in json.load(f)["calls"].items():
                            called[function] = called.get(function, 0) + count
        with open(os.path.join(SOURCE, "tools", "gpusim", "driver", "DriverFunctions.h"), encoding="utf-8") as f:
            functions = re.findall(r'X\(\w+,\s*"(\w+)"', f.read().replace("\\\n", " "))
        self.assertGreater(len(functions), 90)
        self.assertEqual(sorted(set(functions) - set(called)), [])


class Options(unittest.TestCase):
    def test_wrong_ones(self):
        wrong = {
            "seeds=3": "'seeds=3' is none of seed=, policy=, devices=, peers=, cc=, memory=, driver=, limit=, fail=, skip=, drop=, alter=, blocks=, findings=, report=",
            "late": "'late' is none of",
            "policy=soon": "policy= takes late, eager or random, and here is 'soon'",
            "seed=-1": "seed= takes a number from 0, and here is '-1'",
            "seed=": "seed= takes a number from 0",
            "devices=17": "devices= takes a number from 0 to 16",
            "peers=some": "peers= takes all, pairs or none, and here is 'some'",
            "cc=70": "cc= takes 75, 80, 86, 89 or 90",
            "memory=4T": "memory= takes bytes of each device",
            "memory=0": "memory= takes",
            "driver=5": "driver= takes",
            "findings=none": "findings= takes error or warn",
            "limit=0": "limit= takes a number of instructions from 1",
            "report=": "report= takes a file",
            "fail=cuMemAlloc": "fail= takes FUNCTION:CALL:CODE",
            "fail=cuNothing:1:2": "fail= takes",
            "fail=cuMemAlloc:0:2": "fail= takes",
            "fail=cuMemAlloc:1:12345": "fail= takes",
            "drop=my_kernel": "drop= takes FUNCTION:N",
            "drop=my_kernel:0": "drop= takes FUNCTION:N",
            "alter=my_kernel": "alter= takes KERNEL:grid, KERNEL:OFFSET+N or KERNEL:OFFSET/OFFSET",
            "alter=my_kernel:+4": "alter= takes",
            "alter=my_kernel:8-4": "alter= takes",
            "blocks=0": "blocks= takes a number of blocks from 1",
            "seed=1,seed=2": "seed= is given twice",
        }
        for sim, text in wrong.items():
            code, said = init(sim)
            self.assertEqual(code, 1, sim)
            self.assertIn("gpusim: error 1 (CUDA_ERROR_INVALID_VALUE): CUDA_SIM: ", said)
            self.assertIn(text, said)

    def test_right_ones(self):
        for sim in ("", "seed=18446744073709551615", "policy=random,cc=75", "memory=64M,devices=16", "driver=11080,findings=warn,limit=1000",
                    "drop=a:1,drop=a:2", "alter=a:grid,alter=a:0+1,alter=b:8/16"):
            self.assertEqual(init(sim), (0, ""), sim)

    def test_no_device(self):
        self.assertEqual(init("devices=0"), (100, ""))

    def test_injected_failure(self):
        code, said = init("fail=cuInit:1:999")
        self.assertEqual(code, 999)
        self.assertIn("cuInit: call 1, injected by fail= of CUDA_SIM", said)

    def test_a_failure_that_does_not_come(self):
        code, said = init("fail=cuMemAlloc:3:2,fail=cuInit:1:999,fail=ncclAllReduce:1:3")
        self.assertEqual(code, 999)
        for text in ("fail=cuMemAlloc:3:2 of CUDA_SIM has not happened: there were 0 calls", "fail=ncclAllReduce:1:3 of CUDA_SIM has not happened"):
            self.assertIn("gpusim: warning: " + text, said)
        self.assertNotIn("fail=cuInit:1:999 of CUDA_SIM has not happened", said)

    def test_report_to_stderr(self):
        self.assertEqual(json.loads(init("seed=7,report=-")[1])["seed"], 7)

    def test_report_of_a_process(self):
        with tempfile.TemporaryDirectory() as d:
            for _ in range(2):
                self.assertEqual(init(f"report={d}/of-%p.json"), (0, ""))
            names = os.listdir(d)
            self.assertEqual(len(names), 2)
            self.assertTrue(all(re.fullmatch(r"of-\d+\.json", name) for name in names), names)

    def test_report_that_cannot_be_written(self):
        code, said = init("report=/nowhere/report.json")
        self.assertEqual(code, 1)  # now, and not at exit, when nobody hears it
        self.assertIn("CUDA_SIM: report=/nowhere/report.json cannot be written: No such file or directory", said)


if __name__ == "__main__":
    unittest.main()
