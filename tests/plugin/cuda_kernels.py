# Plugins with CUDA sources: built with opc sdk --cuda, run and checked on the simulated GPU.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import build_and_load as base  # noqa: E402
from oneflow_listings import MYRELU_CPU_KERNEL, MYRELU_GPU_KERNEL, MYRELU_OP  # noqa: E402
from schedules import SCHEDULES  # noqa: E402

SOURCE = base.SOURCE
NVCC = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
FAULTS = ("race", "beyond", "unwritten", "wrong", "astray")
scratch = base.scratch.name
OWN_STREAM = """static cudaStream_t ownStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}
"""


def flags(*which):
    return subprocess.run([base.OPC, "sdk", *which], check=True, capture_output=True, text=True).stdout.split()


def compiled(name, command, *sources):
    """The object of a source, which may be given as a text."""
    path = os.path.join(scratch, name)
    done = subprocess.run([*command, "-c", *sources, "-o", path], capture_output=True, text=True, cwd=scratch)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    assert "warning" not in done.stderr, f"{' '.join(command)}\n{done.stderr}"  # of opc's headers, or for want of its flags
    return path


def linked(name, *objects):
    path = os.path.join(scratch, name)
    done = subprocess.run([base.CXX, "-shared", "-o", path, *objects, *flags("--ldflags", "--cuda")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def nvcc():
    return [NVCC, "-O1", "-lineinfo", "-Xcompiler", "-fPIC", *flags("--cflags", "--cuda")]


def cxx(*more):
    return [base.CXX, "-O0", "-fPIC", *flags("--cflags"), *more]


def graph(op, arguments=("in", "out"), dtype="kFloat", dims=(5,)):
    path = os.path.join(scratch, f"{op}_{dtype}.pbtxt")
    shape = " ".join(f"dim: {d}" for d in dims)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ {shape} }} data_type: {dtype} }} }} }}\n'
                f'op {{ name: "it" user_conf {{ op_type_name: "{op}" input {{ key: "{arguments[0]}" value {{ s: "x/out" }} }} '
                f'output {{ key: "{arguments[1]}" value {{ s: "it/{arguments[1]}_0" }} }} }} }}\n'
                f'op {{ name: "y" output_conf {{ in: "it/{arguments[1]}_0" out: "out" }} }}\n')
    return path


def opc(*args, sim="", code=0, plugin):
    done = subprocess.run([base.OPC, *args, "--plugin", plugin], capture_output=True, text=True, cwd=scratch, timeout=300,
                          env=dict(os.environ, CUDA_SIM=sim))
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done


class WithNvcc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not NVCC:
            raise unittest.SkipTest("nvcc is not here")


class Document(WithNvcc):
    """The three sources of OneFlow's page on operators, as printed there."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, text in (("op.cpp", MYRELU_OP), ("cpu.cpp", MYRELU_CPU_KERNEL), ("gpu.cu", MYRELU_GPU_KERNEL)):
            with open(os.path.join(scratch, name), "w", encoding="utf-8") as f:
                f.write(text)
        cls.plugin = linked("libfinal_relu.so", compiled("op.o", cxx(), "op.cpp"), compiled("cpu.o", cxx(), "cpu.cpp"),
                            compiled("gpu.o", nvcc(), "gpu.cu"))

    def test_runs(self):
        x = np.random.default_rng(3).standard_normal(40000).astype(np.float32)  # more than the 32 x 1024 threads
        np.save(os.path.join(scratch, "x.npy"), x)
        big = graph("myrelu", dims=(40000,))
        for sim in SCHEDULES:
            opc("run", big, "--device", "sim", "--input", "x=@x.npy", "--output", "y=y.npy", sim=sim, plugin=self.plugin)
            self.assertEqual(np.load(os.path.join(scratch, "y.npy")).tobytes(), np.maximum(x, 0).tobytes())

    def test_its_words(self):
        done = opc("run", graph("myrelu"), "--device", "sim", "--input", "x=f32[5]:-2,-1,0,1,2", plugin=self.plugin)
        self.assertIn("[0, 0, 0, 1, 2]", done.stdout)

    def test_a_launch_that_is_refused(self):
        """The page's kernel with a block of 4,096 threads: nothing is launched, and the kernel does not ask."""
        with open(os.path.join(scratch, "large.cu"), "w", encoding="utf-8") as f:
            f.write(MYRELU_GPU_KERNEL.replace("<<<32, 1024,", "<<<1, 4096,"))
        plugin = linked("liblarge_relu.so", os.path.join(scratch, "op.o"), os.path.join(scratch, "cpu.o"), compiled("large.o", nvcc(), "large.cu"))
        for more in ((), ("--repeat", "3")):
            done = opc("run", graph("myrelu"), "--device", "sim", "--fill", "ones", *more, code=5, plugin=plugin)
            self.assertIn("error[OPC0631]: myrelu: CUDA's runtime has refused a call of the kernel: ", done.stderr)
            self.assertIn("running op it at ", done.stderr)
            self.assertIn("at most 1024 threads a block", done.stderr)

    def test_another_cuda_runtime(self):
        """nvcc's default is a runtime inside of the plugin, and other programs than opc load the toolkit's: their launches would be lost."""
        inside = os.path.join(scratch, "libinside_relu.so")
        objects = [os.path.join(scratch, name) for name in ("op.o", "cpu.o", "gpu.o")]
        top = re.search(r"^#\$ TOP=(.*)$", subprocess.run([NVCC, "--dryrun", "-c", "x.cu"], capture_output=True, text=True).stderr, re.M)[1]
        toolkit, = glob.glob(os.path.join(top, "targets", "x86_64*", "lib"))
        done = subprocess.run([base.CXX, "-shared", "-o", inside, *objects, *flags("--ldflags"), os.path.join(toolkit, "libcudart_static.a"), "-ldl", "-lrt", "-lpthread"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = opc("run", graph("myrelu"), "--device", "sim", "--fill", "ones", code=4, plugin=inside)
        self.assertIn("error[OPC0633]: myrelu: the plugin", done.stderr)
        self.assertIn("-cudart shared", done.stderr)
        plan, folder = os.path.join(scratch, "relu.plan"), os.path.join(os.path.dirname(base.OPC), "..", "lib", "opc", "gpusim")
        opc("compile", graph("myrelu"), "--device", "sim", "-o", plan, plugin=self.plugin)
        call = [os.path.join(os.path.dirname(base.OPC), "opc-runtime"), plan, "--plugin", self.plugin, "--input", "x=f32[5]:-2,-1,0,1,2"]
        done = subprocess.run(call, capture_output=True, text=True, env=dict(os.environ, CUDA_SIM="", LD_LIBRARY_PATH=folder))
        self.assertIn("[0, 0, 0, 1, 2]", done.stdout, done.stderr)
        done = subprocess.run(call, capture_output=True, text=True, env=dict(os.environ, CUDA_SIM="", LD_LIBRARY_PATH=toolkit))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0633", done.stderr)
        self.assertIn("LD_LIBRARY_PATH=", done.stderr)

    def test_work_that_nobody_waits_for(self):
        """The page's kernel in a stream of its own, which nobody waits for: found as the session ends, and said by the exit code."""
        with open(os.path.join(scratch, "own.cu"), "w", encoding="utf-8") as f:
            f.write(MYRELU_GPU_KERNEL.replace("<<<32, 1024, 0, ctx->device_ctx()->cuda_stream()>>>", "<<<32, 1024, 0, ownStream()>>>").replace(
                "namespace oneflow {", OWN_STREAM + "namespace oneflow {", 1))
        plugin = linked("libown_relu.so", os.path.join(scratch, "op.o"), os.path.join(scratch, "cpu.o"), compiled("own.o", nvcc(), "own.cu"))
        done = opc("run", graph("myrelu"), "--device", "sim", "--fill", "ones", "--print", "none", code=5, plugin=plugin)
        self.assertIn("OPC0631", done.stderr)

    def test_float_kernel_for_double(self):
        """The page registers the kernel of floats for doubles, too."""
        done = opc("run", graph("myrelu", dtype="kDouble"), "--device", "sim", "--fill", "ones", code=5, plugin=self.plugin)
        self.assertIn("f64", done.stderr)
        self.assertIn("f32", done.stderr)
        self.assertIn("myrelu", done.stderr)
        opc("run", graph("myrelu", dtype="kDouble"), "--fill", "ones", plugin=self.plugin)  # the CPU's kernel is a template

    def test_first_difference(self):
        opc("debug", "first-diff", graph("myrelu"), "--device", "sim", "--fill", "rand", plugin=self.plugin)

    def test_verify(self):
        done = opc("verify", "myrelu", "--device", "sim", "--json", code=1, plugin=self.plugin)
        op = json.loads(done.stdout)["ops"][0]
        self.assertEqual(op["types"], ["f64", "f32"])
        self.assertEqual({(f["type"], f["kind"]) for f in op["failures"]}, {("f64", "error")})
        self.assertTrue(any("ReluForwardGpu" in k["kernel"] for k in op["kernels"]), op)

    def test_the_example_of_these_pages(self):
        """make GPU=1 in docs/examples/myrelu_plugin."""
        folder = os.path.join(scratch, "example")
        shutil.copytree(base.EXAMPLE, folder)
        environment = dict(os.environ, PATH=os.path.dirname(NVCC) + ":" + os.environ["PATH"])
        done = subprocess.run(["make", "GPU=1", "OPC=" + base.OPC, "CXX=" + base.CXX], cwd=folder, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        plugin = os.path.join(folder, "libmyrelu.so")
        done = opc("run", os.path.join(folder, "myrelu.pbtxt"), "--device", "sim", "--input", "x=f32[5]:-2,-1,0,1,2", plugin=plugin)
        self.assertIn("[0, 0, 0, 1, 2]", done.stdout)
        op = json.loads(opc("verify", "myrelu", "--device", "sim", "--json", plugin=plugin).stdout)["ops"][0]
        self.assertEqual((op["types"], op["without_kernel"], op["samples"]), (["f32"], ["f64"], 3))


class Faults(WithNvcc):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plugin = linked("libfaulty.so", compiled("faulty.o", nvcc(), os.path.join(SOURCE, "tests", "plugin", "cuda", "faulty.cu")))

    def verified(self, *names, code, sim=""):
        done = opc("verify", *(f"faulty_{n}" for n in names), "--device", "sim", "--json", code=code, plugin=self.plugin, sim=sim)
        document = json.loads(done.stdout)
        self.assertEqual(document["passed"], code == 0)
        return {op["op"][len("faulty_"):]: op for op in document["ops"]}

    def test_each_is_named(self):
        kinds = {"race": "race", "beyond": "out of bounds", "unwritten": "unwritten", "wrong": "numbers", "astray": "out of bounds"}
        for sim in ("", "seed=4,policy=random"):
            found = self.verified("none", *FAULTS, code=1, sim=sim)
            self.assertEqual(found["none"]["failures"], [])
            for name, kind in kinds.items():
                self.assertIn(kind, {f["kind"] for f in found[name]["failures"]}, found[name])
            self.assertRegex(found["race"]["failures"][0]["text"], r"faulty\.cu:\d+")

    def test_after_a_fault_the_next_is_checked(self):
        found = self.verified("beyond", "none", code=1)
        self.assertEqual((found["none"]["failures"], found["none"]["samples"]), ([], 1))

    def test_counters(self):
        kernel = self.verified("none", code=0)["none"]["kernels"][0]
        self.assertEqual(kernel["launches"], 1)
        self.assertEqual(kernel["sectors"], 2 * 512 * 4 // 32)  # every element read once and written once
        self.assertEqual(kernel["sectors"], kernel["ideal_sectors"])
        self.assertEqual(kernel["wavefronts"], kernel["ideal_wavefronts"])

    def test_text(self):
        done = opc("verify", "faulty_*", "--device", "sim", code=1, plugin=self.plugin)
        self.assertRegex(done.stdout, r"faulty_none  as on the cpu: 1 sample in f32, the largest difference is 0\n +KERNEL")
        self.assertRegex(done.stdout, r"faulty_race  FAILED: \d+ failures in 1 sample in f32\n(  .*\n)*  case two_blocks in f32: race\n")
        self.assertIn("6 ops on sim: 6 samples, 5 failed; 0 not applicable", done.stderr)
        self.assertNotIn("gpusim: error", done.stderr)

    def test_plugin_check(self):
        done = subprocess.run([base.OPC, "plugin", "check", self.plugin, "--device", "sim", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        found = {c["op"]: c for c in json.loads(done.stdout)["plugins"][0]["on_device"]}
        self.assertEqual(len(found), 6)
        self.assertEqual([name for name, c in found.items() if not c["failures"]], ["faulty_none"])

    def test_first_difference_names_it(self):
        path = graph("faulty_wrong", ("x", "y"), dims=(512,))
        done = opc("debug", "first-diff", path, "--device", "sim", "--fill", "ones", code=1, plugin=self.plugin)
        self.assertIn("first difference: it/y_0, made by op it (faulty_wrong)", done.stdout)
        self.assertIn("512 of 512 values differ", done.stdout)


    def chain(self, *faults):
        """A graph of these ops one behind the other, each in its own line."""
        ops = [f'op {{ name: "op{n}" user_conf {{ op_type_name: "faulty_{fault}" input {{ key: "x" value {{ s: "{f"op{n - 1}/y_0" if n else "x/out"}" }} }} '
               f'output {{ key: "y" value {{ s: "op{n}/y_0" }} }} }} }}' for n, fault in enumerate(faults)]
        path = os.path.join(scratch, "_".join(faults) + ".pbtxt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 512 } data_type: kFloat } } }', *ops,
                               f'op {{ name: "y" output_conf {{ in: "op{len(faults) - 1}/y_0" out: "out" }} }}']))
        return path

    def test_an_illegal_address_has_its_op(self):
        """Between ops that are right: with --observe sync the one that did it is named, whenever the device works."""
        path = self.chain("none", "astray", "none")
        for sim in SCHEDULES:
            done = opc("run", path, "--device", "sim", "--fill", "ones", "--observe", "sync", code=5, plugin=self.plugin, sim=sim)
            first = next(line for line in done.stderr.split("\n") if line.startswith("error["))
            self.assertRegex(first, r"^error\[OPC0631\]: faulty_astray: .*CUDA_ERROR_ILLEGAL_ADDRESS \(700\)")
            self.assertIn("op1", done.stderr)
            self.assertIn("none_astray_none.pbtxt:3:", done.stderr)
            self.assertNotIn("faulty_none", done.stderr)
            self.assertNotIn("--observe sync waits after each op", done.stderr)
        done = opc("run", path, "--device", "sim", "--fill", "ones", code=5, plugin=self.plugin, sim="policy=late")
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS (700)", done.stderr)
        self.assertIn("--observe sync waits after each op", done.stderr)

    def test_poison_shows_what_was_not_written(self):
        """A kernel that leaves the last element out: memory that was cleared, or that holds what was there before, looks right; poisoned memory is NaN."""
        values = np.arange(1, 513, dtype=np.float32)
        np.save(os.path.join(scratch, "v.npy"), values)
        for faults, without in ((("unwritten",), 0), (("none", "none", "unwritten", "none"), None), (("none", "none"), 512)):
            for sim in SCHEDULES:
                got = {}
                for poison in ("0", "1"):
                    os.environ["OPC_POISON"] = poison
                    try:
                        opc("run", self.chain(*faults), "--device", "sim", "--input", "x=@v.npy", "--output", "y=y.npy", "--repeat", "3", plugin=self.plugin, sim=sim)
                    finally:
                        del os.environ["OPC_POISON"]
                    got[poison] = np.load(os.path.join(scratch, "y.npy"))
                    self.assertEqual(got[poison][:511].tobytes(), values[:511].tobytes(), (faults, sim))
                self.assertTrue(np.isfinite(got["0"]).all(), (faults, sim, got))
                self.assertEqual(np.isnan(got["1"][511]), "unwritten" in faults, (faults, sim))
                if without is not None:
                    self.assertEqual(got["0"][511], without)


class WithoutDeviceCode(unittest.TestCase):
    """What every kernel of a build without nvcc says, and here one that no build has."""

    def test_exit_code(self):
        if not next(d["available"] for d in json.loads(base.opc("doctor", "--json").stdout)["devices"] if d["name"] == "sim"):
            self.skipTest("this build has no GPU simulator")
        plugin = base.build("libno_device_code.so", os.path.join(SOURCE, "tests", "plugin", "cuda", "no_device_code.cpp"),
                            extra=["-I" + os.path.join(SOURCE, "kernels", "cuda")])
        path = graph("no_device_code", ("x", "y"))
        done = opc("run", path, "--device", "sim", "--fill", "ones", code=4, plugin=plugin)
        self.assertIn("OPC0632", done.stderr)
        self.assertIn("this build has no device code of kernel 'a_kernel_of_no_build'", done.stderr)


del base.setUpModule  # its libraries are for its own tests

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + ["-v"] + sys.argv[1:])
