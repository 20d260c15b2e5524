# What a run on a GPU says of drivers that cannot be used, copies of tensors in several pieces, and how a training goes on there: on the
# simulated one.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

import weight_files
from gpu_build import need_simulator
from schedules import SCHEDULES

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
STAND_IN = os.path.join(BUILD, "lib", "opc", "gpusim")
HALF = 1 << 20  # bytes of pinned memory that one piece of a copy takes (PinnedStaging)
GRAPH = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: %d } data_type: kFloat } } }
op { name: "act" user_conf { op_type_name: "%s" input { key: "x" value { s: "x/out" } } output { key: "y" value { s: "act/y_0" } } } }
op { name: "y" output_conf { in: "act/y_0" } }
"""


def opc(*args, sim="", text=None, **variables):
    return subprocess.run([OPC, *args], capture_output=True, text=True, timeout=300, input=text, env=dict(os.environ, CUDA_SIM=sim, **variables))


def facts():
    return json.loads(opc("doctor", "--json").stdout)


class Drivers(unittest.TestCase):
    """--device gpu, with the simulator's driver as the one of the system."""

    def setUp(self):
        if not os.path.exists(os.path.join(STAND_IN, "libcuda.so.1")):
            self.skipTest("this build has no GPU simulator")

    def refused(self, folder, sim, *words):
        """What commands say that would run on the GPU; they have printed nothing else."""
        with tempfile.TemporaryDirectory() as scratch:
            for call in (["run", "-", "--fill", "ones", "--device", "gpu"], ["run", "-", "--fill", "ones", "--device", "gpu:1"], ["verify", "relu", "--device", "gpu"],
                         ["debug", "first-diff", "-", "--fill", "ones", "--device", "gpu"]):
                done = opc(*call, sim=sim, text=GRAPH % (3, "relu"), LD_LIBRARY_PATH=folder, HOME=scratch)
                self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
                self.assertEqual(re.findall(r"^error\[(OPC\d+)\]", done.stderr, re.M), ["OPC0630"], done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_a_driver_that_is_too_old(self):
        self.refused(STAND_IN, "driver=12040", "error[OPC0630]: the CUDA driver is too old: it is for CUDA 12.4, and the kernels of opc need 13.0",
                     "help: install NVIDIA's driver for CUDA 13.0 or later")

    def test_no_device(self):
        self.refused(STAND_IN, "devices=0", "error[OPC0630]: the CUDA driver finds no GPU: CUDA_ERROR_NO_DEVICE (100)", "see whether nvidia-smi lists a GPU",
                     "give the graph to the CPU: --device cpu")

    def test_a_driver_that_cannot_begin(self):
        self.refused(STAND_IN, "fail=cuInit:1:999", "error[OPC0630]: the CUDA driver cannot be used: CUDA_ERROR_UNKNOWN (999)", "see whether nvidia-smi lists a GPU")

    def test_a_driver_without_the_functions(self):
        """A library of the driver's name that has none of them: of a time before CUDA 4, say."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ.get("OPC_PLUGIN_CXX", "g++"), "-shared", "-x", "c++", "/dev/null", "-o", os.path.join(folder, "libcuda.so.1")], check=True)
            self.refused(folder, "", "error[OPC0630]: the CUDA driver libcuda.so.1 is too old: it has no cu", "help: install NVIDIA's driver for CUDA 13.0 or later")

    def test_a_driver_that_is_new_enough(self):
        """The same calls are right with the least version, so that it is the version that was refused."""
        need_simulator()
        for version in ("13000", "13020"):
            done = opc("run", "-", "--fill", "ones", "--device", "gpu", sim=f"driver={version}", text=GRAPH % (3, "relu"), LD_LIBRARY_PATH=STAND_IN)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("[1, 1, 1]", done.stdout)


class OnGpu(unittest.TestCase):
    def setUp(self):
        need_simulator()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def ok(self, *args, **kw):
        done = opc(*args, **kw)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)


class Pieces(OnGpu):
    """Tensors of 5 MiB and three elements: six pieces each way through the two halves of the pinned memory."""

    ELEMENTS = 5 * HALF // 4 + 3

    def call(self):
        self.x = ((np.arange(self.ELEMENTS) - self.ELEMENTS // 2) / 8).astype(np.float32)  # no two are equal, all are exact
        np.save(self.path("x.npy"), self.x)
        graph = self.write("g.pbtxt", GRAPH % (self.ELEMENTS, "abs"))
        return ["run", graph, "--device", "sim", "--input", f"x=@{self.path('x.npy')}", "--output", f"y={self.path('y.npy')}", "--print", "none"]

    def is_right(self):
        return np.load(self.path("y.npy")).tobytes() == np.abs(self.x).tobytes()

    def test_every_schedule(self):
        call = self.call()
        for sim in SCHEDULES:
            for more in ((), ("--repeat", "3")):
                self.ok(*call, *more, sim=f"{sim},report={self.path('r.json')}")
                self.assertTrue(self.is_right(), sim)
                os.remove(self.path("y.npy"))
        with open(self.path("r.json")) as f:
            report = json.load(f)
        self.assertEqual((report["calls"]["cuMemcpyHtoDAsync"], report["calls"]["cuMemcpyDtoHAsync"]), (3 * 6, 6))

    def test_each_wait_and_copy_matters(self):
        """A half is written again, or read, when its copy has ended: without one of these waits, or of the copies, there are other numbers. Before
        the first two pieces of the result stand waits for the input's last ones, which the whole stream was waited for."""
        call = self.call()
        self.ok(*call, sim=f"report={self.path('r.json')}")
        with open(self.path("r.json")) as f:
            calls = json.load(f)["calls"]
        silent = []
        for function in ("cuEventSynchronize", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"):
            for n in range(1, calls[function] + 1):
                if os.path.exists(self.path("y.npy")):
                    os.remove(self.path("y.npy"))
                done = opc(*call, sim=f"policy=late,skip={function}:{n}")
                if done.returncode == 0 and self.is_right():
                    silent.append(f"{function}:{n}")
        self.assertEqual(calls["cuEventSynchronize"], 4 + 2 + 6)
        self.assertEqual(silent, ["cuEventSynchronize:5", "cuEventSynchronize:6"])


class Trainings(OnGpu):
    def network(self):
        text = ""
        for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
            with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
                text += f.read() + "\n"
        self.ok("grad", "-", "--shape", "image=8,64", "--shape", "label=8", "--loss", "loss", "--optimizer", "adam", "--lr", "0.002", "-o", self.path("t.pbtxt"), text=text)

    def trained(self, name, steps, *more, device="sim", sim=""):
        data = ",".join(f"{what}=@{os.path.join(DIGITS, f'train_{what}s.npy')}" for what in ("image", "label"))
        self.ok("run", self.path("t.pbtxt"), "--device", device, "--feed-dataset", data, "--batch", "8", "--seed", "5", "--shuffle", "--steps", str(steps),
                "--save", self.path(name), *more, sim=sim)
        return weight_files.read(self.path(name))

    def test_a_run_that_goes_on(self):
        """Two steps, a checkpoint and two more steps: the bits of four steps at once, whatever the schedule; on the CPU nearly the same."""
        self.network()
        cpu = self.trained("cpu.st", 4, device="cpu")
        start = self.trained("start.st", 1)
        for number, sim in enumerate(SCHEDULES):
            whole = self.trained(f"whole{number}.st", 4, sim=sim)
            self.trained(f"half{number}.st", 2, sim=sim)
            rest = self.trained(f"rest{number}.st", 4, "--resume", self.path(f"half{number}.st"), sim=sim)
            self.assertEqual(sorted(rest), sorted(whole))
            self.assertGreater(len(whole), 12)  # weights, and two moments of each
            for key, value in whole.items():
                self.assertEqual(rest[key].tobytes(), value.tobytes(), (sim, key))
                np.testing.assert_allclose(value, cpu[key], rtol=1e-4, atol=1e-6, err_msg=key)
            self.assertTrue(any((whole[key] != start[key]).any() for key in whole))
        # From one device to the other.
        self.trained("half.st", 2, device="cpu")
        moved = self.trained("moved.st", 4, "--resume", self.path("half.st"))
        for key, value in cpu.items():
            np.testing.assert_allclose(moved[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


if __name__ == "__main__":
    unittest.main(verbosity=2)
