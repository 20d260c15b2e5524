# How long runs take: percentiles, also of interrupted runs, the profile by op, and tables on terminals of any width.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
MLP = os.path.join(SOURCE, "docs", "examples", "digits", "mlp.pbtxt")

PRODUCT = '''op { name: "a" input_conf { out: "out" blob_conf { shape { dim: 256 dim: 384 } data_type: kFloat } } }
op { name: "b" input_conf { out: "out" blob_conf { shape { dim: 384 dim: 512 } data_type: kFloat } } }
op { name: "product" user_conf { op_type_name: "matmul" input { key: "a" value { s: "a/out" } } input { key: "b" value { s: "b/out" } } } }
op { name: "wave" user_conf { op_type_name: "sin" input { key: "x" value { s: "product/out_0" } } } }
op { name: "y" output_conf { in: "wave/y_0" } }'''

SMALL = """op { name: "a" input_conf { out: "out" blob_conf { shape { dim: 64 dim: 384 } data_type: kFloat } } }
op { name: "b" input_conf { out: "out" blob_conf { shape { dim: 384 dim: 384 } data_type: kFloat } } }
op { name: "product" user_conf { op_type_name: "matmul" input { key: "a" value { s: "a/out" } } input { key: "b" value { s: "b/out" } } } }
op { name: "shares" user_conf { op_type_name: "softmax" input { key: "in" value { s: "product/out_0" } } } }
op { name: "turned" user_conf { op_type_name: "transpose" input { key: "input" value { s: "product/out_0" } } attr { key: "perm" value { at_list_int32 { val: 1 val: 0 } } } } }
op { name: "wave" user_conf { op_type_name: "sin" input { key: "x" value { s: "product/out_0" } } } }
op { name: "sum" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "wave/y_0" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "y0" output_conf { in: "shares/out_0" } }
op { name: "y1" output_conf { in: "turned/output_0" } }
op { name: "y2" output_conf { in: "sum/output_tensor_0" } }"""


def opc(*args, program="opc", env=None, code=0):
    done = subprocess.run([os.path.join(BIN, program), *args], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done


class Times(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.graph = os.path.join(self.folder, "g.pbtxt")
        with open(self.graph, "w") as f:
            f.write(PRODUCT)

    def test_percentiles(self):
        said = opc("run", MLP, "--fill", "rand", "--repeat", "25", "--print", "none").stderr
        self.assertRegex(said, r"25 runs: p50 \S+ \S+, p90 \S+ \S+, p99 \S+ \S+, fastest \S+ \S+, slowest \S+ \S+")
        timing = json.loads(opc("run", MLP, "--fill", "rand", "--repeat", "25", "--json").stdout)["timing"]
        self.assertEqual(timing["runs"], 25)
        self.assertIs(timing["interrupted"], False)
        order = [timing[k] for k in ("min_s", "p50_s", "p90_s", "p99_s", "max_s")]
        self.assertEqual(order, sorted(order))
        self.assertGreater(order[0], 0)
        for runs in ("1", "2", "4", "25"):  # of an even number, too
            timing = json.loads(opc("run", MLP, "--fill", "rand", "--repeat", runs, "--json").stdout)["timing"]
            self.assertEqual(timing["median_s"], timing["p50_s"])
        # The 99th of 25 values by nearest rank is the largest.
        self.assertEqual(timing["p99_s"], timing["max_s"])

    def test_runs_that_try_threads_have_the_bits_of_one(self):
        """Small tasks are tried with threads and without; which way is taken then is the machine's affair. These take some microseconds, and have loops that
        threads share: a product in two pieces, a softmax, a transpose, a sum, an elementwise op."""
        self.graph = os.path.join(self.folder, "small.pbtxt")
        with open(self.graph, "w") as f:
            f.write(SMALL)
        made = []
        for threads, runs in (("1", "1"), ("3", "1"), ("3", "2"), ("3", "3"), ("3", "9"), ("3", "30")):
            out = os.path.join(self.folder, "y.npz")
            opc("run", self.graph, "--fill", "rand", "--repeat", runs, "-j", threads, "--outputs", out, "--print", "none")
            with open(out, "rb") as f:
                made.append(f.read())
        self.assertEqual([m == made[0] for m in made], [True] * 6)

    def interrupted(self, number, *args, program="opc"):
        """The process of a run without end, stopped once it has started."""
        process = subprocess.Popen([os.path.join(BIN, program), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        mark = os.path.join(f"/proc/{process.pid}/status")
        for _ in range(600):  # until it catches signals
            with open(mark) as f:
                caught = int(re.search(r"SigCgt:\s*(\w+)", f.read())[1], 16)
            if caught >> (number - 1) & 1:
                break
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def test_interrupted(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            returned, out, err = self.interrupted(number, "run", self.graph, "--fill", "rand", "--repeat", "1000000000")
            self.assertEqual(returned, code, err)
            self.assertRegex(err, r"interrupted: [\d,]+ runs?: p50 \S+ \S+, p90 \S+ \S+, p99 ")
            self.assertIn("y", out)  # the outputs of the last run
        returned, out, err = self.interrupted(signal.SIGINT, "run", self.graph, "--fill", "rand", "--repeat", "1000000000", "--json", "--profile")
        timing = json.loads(out)["timing"]
        self.assertEqual(returned, 130)
        self.assertIs(timing["interrupted"], True)
        self.assertLess(timing["runs"], 1000000000)
        plan = os.path.join(self.folder, "g.plan")
        opc("compile", self.graph, "-o", plan)
        returned, out, err = self.interrupted(signal.SIGINT, plan, "--fill", "rand", "--repeat", "1000000000", program="opc-runtime")
        self.assertEqual(returned, 130, err)
        self.assertRegex(err, r"runs?: p50 \S+ \S+, p90 ")
        # One run is not worth catching a signal for: it ends as every program does.
        self.assertIn("p50", opc(plan, "--fill", "rand", "--repeat", "3", "--stats", program="opc-runtime").stderr)

    def test_profile_of_graphs_in_ops(self):
        """The tasks of a batch's parts have rows of their own: of all parts and threads together, by the clock."""
        import batch_parts

        with open(self.graph, "w") as f:
            f.write(batch_parts.network(batch_parts.BATCH))
        side, channels = batch_parts.SIDE, batch_parts.CHANNELS
        for threads in ("1", "2"):
            done = opc("run", self.graph, "--fill", "rand", "--repeat", "3", "--warmup", "1", "--profile", "--json", "-j", threads)
            ops = json.loads(done.stdout)["profile"]["ops"]
            whole = [op for op in ops if op["type"] == "batch_parts"]
            self.assertEqual(len(whole), 1)
            inner = {op["op"]: op for op in ops if op.get("in") == whole[0]["op"]}
            # Of all parts together what one convolution of the whole batch computes: 2 * filters * channels * taps for each pixel.
            work = sorted(op["flops"] for op in inner.values() if op["type"] == "fused_conv2d")
            product = 2 * batch_parts.BATCH * side * side * channels * channels
            self.assertEqual(len(work), 4)
            for flops, taps in zip(work, (1, 1, 9, 9)):
                self.assertAlmostEqual(flops / product, taps, delta=0.05)
            self.assertAlmostEqual(sum(op["share"] for op in ops), 1, 6)
            self.assertGreater(sum(op["share"] for op in inner.values()), 0.5)
            for op in inner.values():
                self.assertGreater(op["mean_s"], 0, op)
        said = opc("run", self.graph, "--fill", "rand", "--repeat", "2", "--profile", "--print", "none").stderr
        self.assertRegex(said, r"(?m)^\S+ in " + re.escape(whole[0]["op"]) + r" +fused_conv2d")

    def test_profile(self):
        profile = json.loads(opc("run", self.graph, "--fill", "rand", "--repeat", "20", "--warmup", "3", "--profile", "--json").stdout)["profile"]
        self.assertEqual(profile["runs"], 20)
        self.assertGreater(profile["peak"]["flops_per_s"], 1e8)
        self.assertGreater(profile["peak"]["bytes_per_s"], 1e8)
        ops = {op["op"]: op for op in profile["ops"]}
        self.assertEqual(set(ops), {"product", "wave"})
        product = ops["product"]
        self.assertEqual(product["type"], "matmul")
        self.assertEqual(product["flops"], 2 * 256 * 384 * 512)  # a multiplication and an addition for each term
        self.assertEqual(product["bytes"], 4 * (256 * 384 + 384 * 512 + 256 * 512))
        self.assertEqual(product["limit"], "compute")
        self.assertAlmostEqual(sum(op["share"] for op in profile["ops"]), 1, 6)
        for op in profile["ops"]:
            self.assertLessEqual(op["p50_s"], op["p90_s"])
            self.assertLessEqual(op["p90_s"], op["p99_s"])
            seconds = max(op["flops"] / profile["peak"]["flops_per_s"], op["bytes"] / profile["peak"]["bytes_per_s"])
            self.assertAlmostEqual(op["peak_share"], seconds / op["p50_s"], 6)
        self.assertEqual([t["ops"] for t in profile["types"]], [1, 1])
        mlp = json.loads(opc("run", MLP, "--fill", "rand", "--profile", "--json", "--no-fuse").stdout)["profile"]
        kinds = {t["type"]: t["ops"] for t in mlp["types"]}
        self.assertEqual(kinds["matmul"], 3)
        self.assertEqual(sum(kinds.values()), len(mlp["ops"]))

    def test_profile_table(self):
        said = opc("run", self.graph, "--fill", "rand", "--repeat", "5", "--profile", "--print", "none").stderr
        self.assertRegex(said, r"profile of 5 runs: .* in ops; measured peak \S+ GFLOP/s \(f32 products\), \S+ GB/s \(copies\)")
        self.assertRegex(said, r"OP +KIND +P50 +P90 +P99 +SHARE +GFLOP/S +GB/S +OF PEAK\n")
        self.assertRegex(said, r"product +matmul +.*\d %.*% (compute|memory)")
        # The rates are those of the column P50: what is printed has three digits.
        p50, unit, rate = re.search(r"product +matmul +(\S+) (\S+) .*? % +(\S+) ", said).groups()
        seconds = float(p50) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]
        self.assertAlmostEqual(float(rate) * seconds * 1e9 / (2 * 256 * 384 * 512), 1, delta=0.02)
        self.assertRegex(said, r"KIND +OPS +P50")
        self.assertRegex(said, r"sin +1 ")
        opc("run", self.graph, "--fill", "rand", "--profile", "--ranks", "2", "--in-process", "--mesh", "2", code=2)

    def test_tables_fit_the_terminal(self):
        commands = (("ops",), ("show", MLP, "--what", "ops"), ("show", MLP, "--what", "tensors"), ("show", MLP),
                    ("show", MLP, "--what", "sbp", "--mesh", "2x2"), ("run", MLP, "--fill", "rand", "--profile", "--print", "none"))
        for columns in (40, 80, 200):
            for command in commands:
                done = opc(*command, env={**os.environ, "COLUMNS": str(columns)})
                lines = (done.stderr if "--profile" in command else done.stdout).split("\n")
                lines = [line for line in lines if not line.startswith(("profile of", "mesh", "step:", "cost")) and ": " not in line[:30]]
                self.assertGreater(len(lines), 4, command)
                for line in lines:
                    if not re.search("planned in|transition|: list of op", line):
                        self.assertLessEqual(len(line), columns, (command, line))
        # What reads a pipe gets all of it.
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        whole = opc("ops", env=environment).stdout
        self.assertGreater(max(len(line) for line in whole.split("\n")), 200)
        self.assertNotIn("...\n", whole)


if __name__ == "__main__":
    unittest.main()
