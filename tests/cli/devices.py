# --device: GPUs that are not there, graphs that cannot run on one, and graphs that do, on the simulated one.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from gpu_build import need_simulator
from plugin_build import build_plugin
from schedules import SCHEDULES

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
BATCH = 16


def opc(*args, sim="", text=None, device="", **kw):
    environment = dict(os.environ, CUDA_SIM=sim, OPC_DEVICE=device)
    return subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, text=True, timeout=300, env=environment, input=text, **kw)


def read(name):
    with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
        return f.read()


def doctor():
    return json.loads(opc("doctor", "--json").stdout)


def has(device):
    return next(d["available"] for d in doctor()["devices"] if d["name"] == device)


def chain(*types, dims=(4, 5)):
    """A graph of unary ops after one input."""
    shape = " ".join(f"dim: {d}" for d in dims)
    ops = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ {shape} }} data_type: kFloat }} }} }}']
    last = "x/out"
    for n, (op, arg, out, attrs) in enumerate(types):
        ops.append(f'op {{ name: "op{n}" user_conf {{ op_type_name: "{op}" input {{ key: "{arg}" value {{ s: "{last}" }} }} '
                   f'output {{ key: "{out}" value {{ s: "op{n}/{out}_0" }} }} {attrs} }} }}')
        last = f"op{n}/{out}_0"
    ops.append(f'op {{ name: "y" output_conf {{ in: "{last}" out: "out" }} }}')
    return "\n".join(ops)


RELU = ("relu", "in", "out", "")
TANH = ("tanh", "x", "y", "")
LOG = ("log", "x", "y", "")
OWN = ("wave_of", "x", "y", "")
PLUGIN = """#include "opc/Elementwise.h"
using namespace opc;
// erfc is the C library's: on a GPU no code is generated for it.
OPC_SCALAR(WaveOf, x) { return sin(x) * 0.375 + cos(x * 1.625) + erfc(x) * 0; }
REGISTER_USER_OP("wave_of").Input("x").Output("y").Doc("A function that no built-in op has.").Elementwise<WaveOf, user_op::types::Floating>();
"""


class Names(unittest.TestCase):
    def test_no_driver(self):
        if has("gpu"):
            self.skipTest("this machine has a GPU")
        done = opc("run", "-", "--fill", "ones", "--device", "gpu", text=chain(RELU))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0630", done.stderr)
        self.assertRegex(done.stderr, "no CUDA driver|finds no GPU|too old")
        self.assertIn("give the graph to the CPU: --device cpu", done.stderr)

    def test_a_build_without_nvcc(self):
        """Then what runs there are regions, whose code needs no nvcc, and nothing else; whoever asks is told why."""
        has_kernels = doctor()["device_kernels"] > 0
        why = None if has_kernels else "this build has no kernels for GPUs (nvcc)"
        ops = {op["name"]: op["no_gpu"] for op in json.loads(opc("ops", "--json").stdout)["ops"]}
        self.assertEqual({ops["matmul"], ops["softmax"]}, {why})
        if has("sim"):
            product = ("matmul", "a", "out", 'input { key: "b" value { s: "x/out" } } attr { key: "transpose_b" value { at_bool: true } }')
            done = opc("run", "-", "--fill", "ones", "--device", "sim", text=chain(product))
            self.assertEqual(done.returncode, 0 if has_kernels else 4, done.stderr)
            self.assertEqual("this build has no kernels for GPUs: build opc where nvcc is found" in done.stderr, not has_kernels)

    def test_unknown_device(self):
        for device in ("quantum", "gpu:", "gpu:x", "sim:1:2", "cpu:1"):
            done = opc("run", "-", "--device", device, text=chain(RELU))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"unknown device '{device}'", done.stderr)

    def test_commands_of_the_cpu(self):
        for words, name in ((("bench", "-", "--fill", "ones"), "bench"), (("check", "g.pbtxt"), "check"),
                            (("grad", "-", "--loss", "y", "--check"), "grad --check"), (("report", "-", "-o", "-"), "report"),
                            (("debug", "reduce", "g.pbtxt", "--check", "true", "-o", "s.pbtxt"), "debug reduce"),
                            (("debug", "replay", "opc-crash-0"), "debug replay")):
            for call in ([*words, "--device", "sim"], ["--device", "sim", *words]):
                done = opc(*call, text=chain(RELU))
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("OPC0006", done.stderr)
                self.assertIn(f"opc {name} works on the cpu, and the device is 'sim'", done.stderr)

    def test_settings_that_mean_nothing_here(self):
        """What OPC_DEVICE says of graphs ends no command that runs none."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "g.pbtxt"), "w") as f:
                f.write(chain(RELU, TANH))
            done = opc("compile", "g.pbtxt", "-o", "g.plan", cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            for words in (("bench", "g.plan", "--fill", "ones", "--rounds", "6"),
                          ("debug", "first-diff", "g.plan", "--fill", "ones", "--reference", "one-thread"),
                          ("debug", "reduce", "g.pbtxt", "--check", "! grep -q tanh {}", "-o", "s.pbtxt")):
                done = opc(*words, device="gpu:7", cwd=folder)
                self.assertEqual(done.returncode, 0, (words, done.stderr))
            done = opc("bench", "g.pbtxt", "--fill", "ones", device="sim", cwd=folder)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0006", done.stderr)

    def test_single_ops_elsewhere(self):
        if not has("gpu"):
            done = opc("verify", "relu", "--device", "gpu")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0630", done.stderr)
        for option in (("--parts", "2"), ("--timeout", "9"), ("--sound",), ("--results",)):
            done = opc("verify", "relu", "--device", "sim", *option)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{option[0]} is for what runs on the cpu, and the device is 'sim'", done.stderr)
        done = opc("debug", "first-diff", "-", "--fill", "ones", "--device", "sim", "--mesh", "2", text=chain(RELU))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0006", done.stderr)
        self.assertIn("--mesh runs on the cpu, and the device is 'sim'", done.stderr)

    def test_gradients_are_made_for_any_device(self):
        plain = opc("grad", "-", "--loss", "y", "--wrt", "x", text=chain(RELU))
        self.assertEqual(plain.returncode, 0, plain.stderr)
        done = opc("grad", "-", "--loss", "y", "--wrt", "x", text=chain(RELU), device="sim")
        self.assertEqual(done.stdout, plain.stdout, done.stderr)

    def test_a_plan_goes_by_its_own_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.plan")
            done = opc("compile", "-", "-o", path, text=chain(RELU))
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "opc.toml"), "w") as f:
                f.write('[target]\ndevices = "sim"\n')
            want = opc("run", path, "--fill", "ones").stdout
            for call in ({"device": "sim"}, {"device": "gpu:7"}, {"cwd": folder}):
                done = opc("run", path, "--fill", "ones", **call)
                self.assertEqual((done.returncode, done.stdout), (0, want), done.stderr)
            self.assertEqual(opc("run", path, "--fill", "ones", "--device", "cpu", device="sim").returncode, 0)
            done = opc("run", path, "--fill", "ones", "--device", "sim")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--device sim: the plan {path} is for cpu", done.stderr)
            self.assertIn("compile the graph for sim", done.stderr)

    def test_no_single_op_elsewhere(self):
        for command in ("run", "compile"):
            done = opc(command, "-", "--device", "sim", "--place", "relu*=gpu", *(["-o", "/dev/null"] if command == "compile" else []),
                       text=chain(RELU))
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0006", done.stderr)
            self.assertIn("--place relu*=gpu: single ops go to the cpu alone, not to 'gpu'", done.stderr)

    def test_setting(self):
        done = subprocess.run([os.path.join(BIN, "opc"), "run", "-"], capture_output=True, text=True, input=chain(RELU),
                              env=dict(os.environ, OPC_DEVICE="quantum"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("unknown device 'quantum' in OPC_DEVICE", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "opc.toml"), "w") as f:
                f.write('[target]\ndevices = "quantum"\n')
            done = opc("run", "-", text=chain(RELU), cwd=folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, r"unknown device 'quantum' in \S*opc\.toml:2")

    def test_several_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            with open(path, "w") as f:
                f.write(chain(RELU))
            done = opc("run", path, "--shape", "x=1..4,5", "--fill", "ones", "--device", "sim")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0006", done.stderr)
            self.assertIn("sizes in a range (--shape x=1..4,5) are for the cpu, and the device is 'sim'", done.stderr)
            done = opc("compile", path, "--shape", "x=1..4,5", "--device", "sim", "-o", os.path.join(folder, "g.plan"))
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0006", done.stderr)
            self.assertIn("plans of sizes in a range are for the cpu, and the device is 'sim'", done.stderr)
            done = opc("run", path, "--ranks", "2", "--in-process", "--fill", "ones", "--device", "sim")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0630", done.stderr)
            self.assertIn("there is no device sim:1: the driver has 1", done.stderr)


class OnGpu(unittest.TestCase):
    def setUp(self):
        need_simulator()
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run_ok(self, *args, **kw):
        done = opc(*args, **kw)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_plan_in_python(self):
        """The simulator is where opc is, whatever program has opened it."""
        package = os.path.join(BIN, "..", "python")
        if not os.path.exists(os.path.join(package, "opc")):
            self.skipTest("this build has no Python package")
        self.run_ok("compile", "-", "--device", "sim", "-o", self.path("chain.plan"), text=chain(RELU, TANH))
        np.save(self.path("x.npy"), np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5))
        script = "import numpy as np, opc, sys\nx = np.load(sys.argv[2])\nprint(np.abs(opc.load(sys.argv[1]).run(x=x)['y'] - np.tanh(np.maximum(x, 0))).max() < 1e-6)"
        done = subprocess.run([sys.executable, "-c", script, self.path("chain.plan"), self.path("x.npy")], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=package, CUDA_SIM=""))
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    def plugin(self, name="wave_of", value="sin(x) * 0.375 + cos(x * 1.625) + erfc(x) * 0", more=""):
        """A library with an op; a function that no built-in op has has no kernel for GPUs."""
        text = PLUGIN.replace("wave_of", name).replace("sin(x) * 0.375 + cos(x * 1.625) + erfc(x) * 0", value) + more
        return build_plugin(self.path("wave.so"), text)

    def test_plan_names_the_device(self):
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(chain(RELU, TANH))
        self.run_ok("compile", self.path("g.pbtxt"), "--device", "sim", "-o", self.path("g.plan"))
        shown = self.run_ok("show", self.path("g.plan"), "--what", "tasks").stdout
        self.assertIn("gpu/relu/f32", shown)
        self.assertNotIn("cpu/", shown)
        x = np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)
        np.save(self.path("x.npy"), x)
        self.run_ok("run", self.path("g.plan"), "--input", f"x=@{self.path('x.npy')}", "--output", f"y={self.path('y.npy')}")
        np.testing.assert_allclose(np.load(self.path("y.npy")), np.tanh(np.maximum(x, 0)), rtol=1e-6, atol=1e-6)
        call = ["run", self.path("g.plan"), "--fill", "ones"]
        want = self.run_ok(*call).stdout
        for device in ("sim", "sim:0"):
            self.assertEqual(self.run_ok(*call, "--device", device).stdout, want)
        done = opc(*call, "--device", "cpu")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"the plan {self.path('g.plan')} is for sim", done.stderr)
        self.assertIn("compile the graph for cpu", done.stderr)

    def test_machine_code_that_a_driver_refuses(self):
        """The simulator runs PTX alone. It is offered cubins with OPC_CUDA_CUBINS=1, once, and gets the PTX that they were made of."""
        code = doctor()["device_code"]
        self.assertEqual(sorted(code, key=float), code)
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(chain(RELU, ("softmax", "in", "out", "")))
        call = ["run", self.path("g.pbtxt"), "--fill", "rand", "--device", "sim", "--no-fuse"]

        def run(cubins, sim=""):
            environment = dict(os.environ, CUDA_SIM=",".join(filter(None, ["report=" + self.path("report.json"), sim])), OPC_CUDA_CUBINS=cubins)
            done = subprocess.run([os.path.join(BIN, "opc"), *call], capture_output=True, text=True, timeout=300, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("report.json"), encoding="utf-8") as f:
                return done, json.load(f)["calls"]["cuModuleLoadData"]

        want, loads = run("0")
        self.assertEqual(run("")[1], loads)
        refused = "a cubin is machine code of a GPU; only PTX can run here"
        for sim in ("", "fail=cuModuleLoadData:1:200", "cc=75", "cc=89"):
            done, tried = run("1", sim)
            fits = any(c.split(".")[0] == ("8" if sim != "cc=75" else "7") for c in code)
            self.assertEqual((done.stdout, tried), (want.stdout, loads + fits), sim)
            self.assertEqual(done.stderr.count(refused), int(fits and "fail" not in sim), done.stderr)

    def test_comparing_plans(self):
        """bench and debug first-diff run plans where they say."""
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(chain(RELU, TANH))
        for device in ("sim", "cpu"):
            self.run_ok("compile", self.path("g.pbtxt"), "--device", device, "-o", self.path(f"{device}.plan"))
        sim, cpu = self.path("sim.plan"), self.path("cpu.plan")
        compare = ["debug", "first-diff", sim, "--reference", cpu, "--fill", "rand"]
        self.run_ok(*compare)
        broken = opc(*compare, sim="fail=cuLaunchKernel:1:719")  # so the first plan was on the simulated GPU
        self.assertEqual(broken.returncode, 5, broken.stderr)
        self.run_ok("bench", sim, "--fill", "rand", "--rounds", "6")
        done = opc("bench", sim, "--fill", "rand", "--device", "cpu")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("is for sim", done.stderr)

    def test_first_difference(self):
        """Of a graph: op by op against the CPU, and as a chain."""
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(chain(RELU, TANH, ("exp", "x", "y", "")))
        call = ["debug", "first-diff", self.path("g.pbtxt"), "--device", "sim", "--fill", "rand", "--json"]
        for more, isolated in (([], True), (["--chain"], False), (["--reference", "f64"], True)):
            found = json.loads(self.run_ok(*call, *more, sim="policy=random,seed=2").stdout)
            self.assertEqual((found["compared"], found["differences"], found["isolated"]), (3, [], isolated))
            self.assertIn("on the cpu", found["reference"])
        folder = self.path("inside")  # tensors of which one is wrong: the op behind it is right by itself, and not in a chain
        self.run_ok("run", self.path("g.pbtxt"), "--fill", "rand", "--capture", f"*={folder}", "--no-simplify")
        wrong = os.path.join(folder, "op0", "out_0.npy")
        np.save(wrong, np.load(wrong) + 1)
        isolated = opc(*call, "--reference", folder)
        self.assertEqual(isolated.returncode, 1, isolated.stderr)
        self.assertEqual([d["op"] for d in json.loads(isolated.stdout)["differences"]], ["op0", "op1"])
        chained = opc(*call, "--reference", folder, "--chain")
        self.assertEqual([d["op"] for d in json.loads(chained.stdout)["differences"]], ["op0"])
        done = opc("debug", "first-diff", "-", "--plugin", self.plugin(), "--fill", "rand", "--device", "sim", text=chain(RELU, OWN))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0411", done.stderr)

    def test_first_difference_has_the_inputs_that_were_given(self):
        """Values of --input and --fill, on both sides: cleared memory would be right for relu of nothing but zeros."""
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(chain(RELU, dims=(3,)))
        call = ["debug", "first-diff", self.path("g.pbtxt"), "--device", "sim", "--json"]
        for given, value in ((["--input", "x=f32[3]:5,6,7"], 7), (["--fill", "ones"], 1)):
            self.run_ok(*call, *given)
            done = opc(*call, *given, sim="skip=cuLaunchKernel:1")  # relu's result stays 0
            self.assertEqual(done.returncode, 1, done.stderr)
            found = json.loads(done.stdout)["differences"]
            self.assertEqual([(d["op"], d["mismatches"], d["max_abs"]) for d in found], [("op0", 3, value)])

    def test_verify(self):
        done = self.run_ok("verify", "relu", "softmax", "reduce_sum", "matmul", "--device", "sim", "--json", sim="policy=random,seed=9")
        document = json.loads(done.stdout)
        self.assertTrue(document["passed"])
        for op in document["ops"]:
            self.assertIn("f32", op["types"])
            self.assertGreater(op["samples"], 3)
            self.assertGreater(len(op["kernels"]), 0)
            for kernel in op["kernels"]:
                self.assertGreaterEqual(kernel["sectors"], kernel["ideal_sectors"])
        broken = opc("verify", "relu", "--device", "sim", "--json", sim="fail=cuLaunchKernel:1:719")
        self.assertEqual(broken.returncode, 1, broken.stderr)
        failure = json.loads(broken.stdout)["ops"][0]["failures"]
        self.assertEqual([f["kind"] for f in failure], ["error"])  # and the device is had anew for the other samples
        self.assertIn("CUDA_ERROR_LAUNCH_FAILED", failure[0]["text"])

    def test_verify_on_a_small_device(self):
        """Too little memory says nothing of the op."""
        for words in (("verify", "relu"), ("verify", "relu", "--json"), ("plugin", "check", self.plugin("tanh_of", "tanh(x)"))):
            done = opc(*words, "--device", "sim", sim="memory=100")
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            self.assertIn("error[OPC0614]: cannot get ", done.stderr)
            self.assertNotIn("FAILED", done.stdout)
        self.assertIn("case ", done.stderr)

    def test_limit_of_instructions(self):
        done = opc("verify", "softmax", "--device", "sim", "--json", sim="limit=20")
        self.assertEqual(done.returncode, 1, done.stderr)
        failures = json.loads(done.stdout)["ops"][0]["failures"]
        self.assertEqual({f["kind"] for f in failures}, {"endless"})
        self.assertIn("the warp has executed 21 instructions and does not end", failures[0]["text"])
        self.run_ok("verify", "softmax", "--device", "sim", sim="limit=1000000")

    def test_doctor_and_what_cuda_sim_says(self):
        self.run_ok("doctor", sim="seed=3")
        done = opc("doctor", sim="colour=red")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("<-- a problem", done.stdout)
        self.assertIn("sim: CUDA_SIM=colour=red: the CUDA driver cannot be used", done.stderr)
        self.assertEqual(len(json.loads(opc("doctor", "--json", sim="colour=red").stdout)["problems"]), 1)

    def test_a_report_that_cannot_be_written(self):
        done = opc("run", "-", "--fill", "ones", "--device", "sim", sim="report=/nowhere/r.json", text=chain(RELU))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("CUDA_SIM: report=/nowhere/r.json cannot be written: No such file or directory", done.stderr)
        self.assertIn("OPC0630", done.stderr)

    def test_a_copy_to_the_host_that_fails(self):
        """Of a training's numbers: each of the copies that a run makes is the first to fail in turn."""
        text = chain(RELU, dims=(1,))
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(text)
        np.save(self.path("x.npy"), np.array([1, 2, 3], np.float32))
        call = ["run", self.path("g.pbtxt"), "--device", "sim", "--feed-dataset", f"x=@{self.path('x.npy')}", "--batch", "1"]
        self.assertIn("y 3", self.run_ok(*call).stdout)
        report = self.path("report.json")
        self.run_ok(*call, sim=f"report={report}")
        with open(report) as f:
            copies = json.load(f)["calls"]["cuMemcpyDtoHAsync"]
        self.assertGreaterEqual(copies, 3)
        for n in range(1, copies + 1):
            done = opc(*call, sim=f"fail=cuMemcpyDtoHAsync:{n}:719")
            self.assertEqual(done.returncode, 5, f"copy {n} of {copies}: {done.stdout}{done.stderr}")
            self.assertIn("error[OPC0631]", done.stderr)

    def test_help_of_a_failed_operation(self):
        """--observe sync is no way out where it is given."""
        call = ["run", "-", "--fill", "ones", "--device", "sim"]
        way = "--observe sync waits after each op"
        done = opc(*call, sim="limit=5", text=chain(RELU, TANH))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(way, done.stderr)
        done = opc(*call, "--observe", "sync", sim="limit=5", text=chain(RELU, TANH))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("relu", done.stderr)
        self.assertIn("the device takes no more work from this process", done.stderr)
        self.assertNotIn(way, done.stderr)

    def test_profile_has_no_peak_of_another_device(self):
        call = ["run", "-", "--fill", "ones", "--profile"]
        said = self.run_ok(*call, "--device", "sim", text=chain(RELU)).stderr
        self.assertRegex(said, r"profile of 1 run: .* in ops\n")
        self.assertNotIn("peak", said.lower())
        self.assertRegex(said, r"OP +KIND +P50 +P90 +P99 +SHARE +GFLOP/S +GB/S\n")
        self.assertIn("OF PEAK", self.run_ok(*call, text=chain(RELU)).stderr)
        document = json.loads(self.run_ok(*call, "--device", "sim", "--json", text=chain(RELU)).stdout)
        self.assertIsNone(document["profile"]["peak"])

    def test_looking_inside(self):
        """Captures, traps, the reference and filled memory, by copies to the host."""
        x = np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)
        np.save(self.path("x.npy"), x)
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(chain(RELU, LOG, TANH))
        call = ["run", self.path("g.pbtxt"), "--device", "sim", "--input", f"x=@{self.path('x.npy')}"]
        self.run_ok(*call, "--capture", f"*={self.path('inside')}", "--reference", "cpu", "--observe", "sync")
        inside = np.load(os.path.join(self.path("inside"), "op0", "out_0.npy"))
        self.assertEqual(inside.tobytes(), np.maximum(x, 0).tobytes())
        done = opc(*call, "--trap", "inf", cwd=self.scratch)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("error[OPC0620]: log: op1/y_0[0, 0] is -inf", done.stderr)
        folder = next(n for n in os.listdir(self.scratch) if n.startswith("opc-trap-"))
        with open(os.path.join(self.scratch, folder, "run.sh")) as f:
            self.assertIn("--trap inf --device sim", f.read())
        plain = self.run_ok(*call, "--repeat", "2").stdout
        os.environ["OPC_POISON"] = "1"
        self.addCleanup(os.environ.pop, "OPC_POISON")
        self.assertEqual(self.run_ok(*call, "--repeat", "2").stdout, plain)

    def test_ops_without_a_kernel(self):
        plugin = self.plugin()
        done = opc("run", "-", "--plugin", plugin, "--fill", "ones", "--device", "sim", text=chain(RELU, OWN, TANH, OWN))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(done.stderr.count("OPC0411"), 3, done.stderr)  # each op, and where to read more
        self.assertIn('no gpu kernel for "wave_of" with inputs f32', done.stderr)

    def test_why_ops_have_no_kernel(self):
        """The list has a reason for each: of built-in ops there are those whose graphs run on the CPU, and those that say so."""
        declared = 'REGISTER_USER_OP("%s").Input("x").Output("y").Doc("An op.").SetTensorDescInferFn(same)'
        more = "\n".join(['#include "opc/Op.h"', "OPC_SCALAR(Drift, x) { return x * 0.875 + sin(x * 0.625) * 0.125; }",
                          "Maybe<void> same(user_op::InferContext *ctx) { return ctx->Out(\"y\") = ctx->In(\"x\"), Maybe<void>::Ok(); }",
                          "struct OnCpu final : user_op::OpKernel { void Compute(user_op::KernelComputeContext *) const override {}",
                          "  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; } };",
                          'REGISTER_USER_OP("drift_of").Input("x").Output("y").Doc("An op.").Elementwise<Drift, user_op::types::Floating>();',
                          'REGISTER_CPU_ONLY_USER_OP("kept").Input("x").Output("y").Doc("An op.").Elementwise<WaveOf, user_op::types::Floating>();',
                          declared % "of_nothing" + ";", declared % "of_the_cpu" + ";",
                          'REGISTER_USER_KERNEL("of_the_cpu").SetCreateFn<OnCpu>().SetIsMatchedHob(user_op::HobDeviceType() == DeviceType::kCPU);'])
        plugin = self.plugin(more=more)
        beside = "of its expression, and it has no kernel beside that"
        want = {"wave_of": f"no code is generated for erfc {beside}", "if": "its graphs run on the CPU", "loop": "its graphs run on the CPU", "batch_parts": "its graphs run on the CPU",
                "drift_of": "code is generated for its expression in a region, and it has no kernel beside that",
                "kept": "its library says that it is for the CPU alone", "of_nothing": "it has no kernel at all", "of_the_cpu": "its kernels are for the CPU"}
        ops = json.loads(self.run_ok("ops", "--json", "--plugin", plugin).stdout)["ops"]
        want.update({op["name"]: want["kept"] for op in ops if op["library"] == "built-in" and op["no_gpu"] == want["kept"]})
        self.assertEqual({op["name"]: op["no_gpu"] for op in ops if op["no_gpu"] is not None}, want)
        call = ["ops", "--missing", "gpu", "--plugin", plugin]
        self.assertEqual({op["name"]: op["no_gpu"] for op in json.loads(self.run_ok(*call, "--json").stdout)["ops"]}, want)
        head, *lines = self.run_ok(*call).stdout.rstrip("\n").split("\n")
        self.assertRegex(head, r"OP +KERNELS +LIBRARY +WHY IT HAS NO KERNEL FOR GPUS")
        self.assertEqual({line.split()[0]: line[head.index("WHY"):] for line in lines}, want)

    def test_out_of_memory(self):
        done = opc("run", "-", "--fill", "ones", "--device", "sim", sim="memory=1000000", text=chain(RELU, dims=(1000, 1000)))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0614", done.stderr)
        self.assertIn("on sim", done.stderr)
        self.assertRegex(done.stderr, r"largest buffers are \S+ \(4000000 bytes\)")

    def test_a_launch_that_fails(self):
        done = opc("run", "-", "--fill", "ones", "--device", "sim", sim="fail=cuLaunchKernel:1:719", text=chain(RELU))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("error[OPC0631]: relu: launching a kernel: CUDA_ERROR_LAUNCH_FAILED (719)", done.stderr)
        self.assertIn("op0", done.stderr)

    def test_device_code_that_does_not_load(self):
        done = opc("run", "-", "--fill", "ones", "--device", "sim", sim="fail=cuModuleLoadData:1:218", text=chain(RELU))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("error[OPC0631]: relu: loading the device code of ", done.stderr)
        self.assertNotIn("OPC0601", done.stderr)

    def test_help_of_the_simulator(self):
        done = opc("run", "-", "--fill", "ones", "--device", "sim", sim="colour=red", text=chain(RELU))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0630", done.stderr)
        self.assertIn("see whether CUDA_SIM is as", done.stderr)
        self.assertNotIn("nvidia-smi", done.stderr)
        call = ["run", "-", "--fill", "ones", "--device", "sim:1"]
        done = opc(*call, text=chain(RELU))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("CUDA_SIM=devices=2 simulates more", done.stderr)
        self.run_ok(*call, sim="devices=2", text=chain(RELU))

    def test_doctor_numbers_gpus(self):
        """With the simulator as the system's driver."""
        driver = os.path.join(os.environ["OPC_BUILD_DIR"], "lib", "opc", "gpusim")
        found = subprocess.run([os.path.join(BIN, "opc"), "doctor"], capture_output=True, text=True,
                               env=dict(os.environ, LD_LIBRARY_PATH=driver, CUDA_SIM="devices=2")).stdout
        self.assertRegex(found, r"  gpu:0 +\S.*\n  gpu:1 +\S")

    def test_fork(self):
        """A child of a process that has opened the device."""
        with tempfile.TemporaryDirectory() as folder:
            path, plan = os.path.join(folder, "g.pbtxt"), os.path.join(folder, "g.plan")
            with open(path, "w") as f:
                f.write(chain(RELU, dims=(3,)))
            self.assertEqual(opc("compile", path, "--device", "sim", "-o", plan).returncode, 0)
            code = """import os, sys, numpy, opc
program, x = opc.load(sys.argv[1]), numpy.float32([-1, 0, 2])
def go(who):
    try: print(who, [v.tolist() for v in program.run(x=x).values()])
    except opc.Error as e: print(who, e.code, "before fork()" in str(e))
go("parent")
sys.stdout.flush()
if os.fork() == 0:
    go("child")
    sys.stdout.flush()
    os._exit(0)
os.wait()
go("parent")"""
            done = subprocess.run([sys.executable, "-c", code, plan], capture_output=True, text=True,
                                  env=dict(os.environ, CUDA_SIM="", PYTHONPATH=os.path.join(os.environ["OPC_BUILD_DIR"], "python")))
            self.assertEqual(done.stdout, "parent [[0.0, 0.0, 2.0]]\nchild OPC0630 True\nparent [[0.0, 0.0, 2.0]]\n", done.stderr)

    def trained(self, text, steps, policies):
        """The losses of each step and of the weights in the end, by device."""
        done = opc("grad", "-", "--shape", f"image={BATCH},64", "--shape", f"label={BATCH}", "--loss", "loss", "--optimizer",
                   "adam", "--lr", "0.002", "-o", self.path("train.pbtxt"), text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.save(self.path("image.npy"), np.load(os.path.join(DIGITS, "train_images.npy"))[:BATCH])
        np.save(self.path("label.npy"), np.load(os.path.join(DIGITS, "train_labels.npy"))[:BATCH])
        feed = ["--input", f"image=@{self.path('image.npy')}", "--input", f"label=@{self.path('label.npy')}", "--seed", "3"]
        losses = {}
        for device, policy in (("cpu", ""), *(("sim", p) for p in policies)):
            saved = self.path(f"{device}{policy}.safetensors")
            dataset = f"image=@{self.path('image.npy')},label=@{self.path('label.npy')}"
            self.run_ok("run", self.path("train.pbtxt"), "--device", device, "--seed", "3", "--feed-dataset", dataset, "--batch", str(BATCH),
                        "--steps", str(steps), "--save", saved, sim=policy)
            out = self.path(f"o{len(losses)}")
            self.run_ok("run", self.path("train.pbtxt"), "--device", device, *feed, "--weights", saved, "--outputs", out, sim=policy)
            losses[device + policy] = np.load(os.path.join(out, "loss.npy"))
        return losses

    def assert_as_on_the_cpu(self, losses, rtol, below):
        for name, loss in losses.items():
            np.testing.assert_allclose(loss, losses["cpu"], rtol=rtol, err_msg=name)
        self.assertLess(float(losses["cpu"].mean()), below)

    def test_mlp_trains_as_on_the_cpu(self):
        losses = self.trained(read("mlp.pbtxt") + read("mlp_loss.pbtxt"), 2, SCHEDULES)
        self.assert_as_on_the_cpu(losses, 1e-5, 2.3)

    def test_cnn_trains_as_on_the_cpu(self):
        """Two steps; batch normalisation with the running statistics, and with those of the batch."""
        network = read("cnn.pbtxt") + read("cnn_loss.pbtxt")
        trains = network.replace('attr { key: "training" value { at_bool: false } }', 'attr { key: "training" value { at_bool: true } }')
        self.assertEqual(trains.count("at_bool: true"), network.count("at_bool: true") + 1)
        for text in (network, trains):
            losses = self.trained(text, 2, SCHEDULES)
            self.assert_as_on_the_cpu(losses, 1e-4, 2.3)

    def test_digits_are_read(self):
        """The trained networks on the simulated GPU; what PyTorch says to the same images."""
        np.save(self.path("image.npy"), np.load(os.path.join(DIGITS, "test_images.npy"))[:BATCH])
        for net in ("mlp", "cnn"):
            want = np.load(os.path.join(DIGITS, f"{net}_test_logits.npy"))[:BATCH]
            for sim in SCHEDULES:
                self.run_ok("run", os.path.join(DIGITS, f"{net}.pbtxt"), "--device", "sim", "--shape", f"image={BATCH},64", "--weights",
                            os.path.join(DIGITS, f"{net}_weights.npz"), "--input", f"image=@{self.path('image.npy')}",
                            "--output", f"logits={self.path('logits.npy')}", sim=sim)
                np.testing.assert_allclose(np.load(self.path("logits.npy")), want, rtol=1e-3, atol=1e-4, err_msg=f"{net} {sim}")


if __name__ == "__main__":
    unittest.main()
