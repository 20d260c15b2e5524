# Updates of many variables in one launch on the simulated GPU: the bits of separate ones, for every optimizer and size, in every schedule.
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
from schedules import SCHEDULES

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
sys.path.insert(0, os.path.join(SOURCE, "tools"))
import bench_device  # noqa: E402

TYPES = {"f32": ("kFloat", np.float32), "f64": ("kDouble", np.float64), "f16": ("kFloat16", np.float16)}
# Around the chunks that a block takes at once; more variables than a launch takes.
SIZES = [1, 2, 3, 33, 255, 256, 257, 2047, 2048, 2049, 4096, 5000, 70001] + [7 + 5 * i for i in range(90)]
A_LAUNCH = 80
# The state of each, and attributes for every second variable.
OPTIMIZERS = {
    "sgd": ((), "l1", "at_float: 0.125"),
    "momentum": (("momentum",), "nesterov", "at_bool: true"),
    "adam": (("m", "v", "max_v"), "amsgrad", "at_bool: true"),
    "rmsprop": (("mean_square", "mean_gradient"), "centered", "at_bool: true"),
    "adagrad": (("sum",), "lr_decay", "at_float: 0.25"),
}
OPTIONAL = ("max_v", "mean_gradient")


class Updates:
    """The text of a graph that updates variables by its inputs."""

    def __init__(self):
        self.lines, self.inputs, self.many = [], {}, 0
        self.random = np.random.default_rng(5)

    def input(self, kind, *shape):
        name, (proto, dtype) = f"x{len(self.inputs)}", TYPES.get(kind, ("kInt64", np.int64))
        dims = " ".join(f"dim: {d}" for d in shape)
        self.lines.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {proto} }} }} }}')
        self.inputs[name] = self.random.uniform(-1, 1, shape).astype(dtype)
        return f"{name}/out"

    def variable(self, kind, size, value):
        """Its output is what it has become. A GPU begins with the CPU's numbers."""
        self.many += 1
        name = f"v{self.many}"
        start = f"random_uniform_conf {{ min: {value} max: {value + 1} }}"
        self.lines.append(f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ dim: {size} }} data_type: {TYPES[kind][0]} initializer {{ {start} }} }} }}')
        self.lines.append(f'op {{ name: "{name}_now" output_conf {{ in: "{name}/out" out: "out" }} }}')
        return f"{name}/out"

    def update(self, optimizer, kind, size, number, **more):
        """`more`: other arguments of the op."""
        state, name, value = OPTIMIZERS[optimizer]
        given = {"model": self.variable(kind, size, -0.5), "model_diff": more.pop("model_diff", None) or self.input(kind, size), **more}
        given.update({arg: self.variable(kind, size, 0) for arg in state if number % 2 or arg not in OPTIONAL})
        attrs = {"learning_rate_val": "at_float: 0.0625", "weight_decay": f"at_float: {number / 128}"}
        if number % 2:
            attrs[name] = value
        self.many += 1
        text = "".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }} ' for k, v in given.items())
        text += "".join(f'attr {{ key: "{k}" value {{ {v} }} }} ' for k, v in attrs.items())
        self.lines.append(f'op {{ name: "u{self.many}" user_conf {{ op_type_name: "{optimizer}_update" {text}}} }}')

    def save(self, folder):
        with open(os.path.join(folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join([*self.lines, ""]))
        np.savez(os.path.join(folder, "in.npz"), **self.inputs)


class UpdatesOnGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_simulator()

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def opc(self, *args, sim="", code=0, graphs="1"):
        program = "opc-runtime" if args[0].endswith(".plan") else "opc"
        given = [option for option in os.environ.get("OPC_TEST_SIM", "").split(",") if option]
        reports = [option for option in given if option.startswith("report=")]  # gpusim_executed_lines wants them, and so do the tests here
        options = [sim, f"report={self.path('report.json')}", *(option for option in given if option not in reports)]
        environment = dict(os.environ, CUDA_SIM=",".join(filter(None, options)), OPC_CUDA_GRAPHS=graphs)
        done = subprocess.run([os.path.join(BIN, program), *args], cwd=self.folder, capture_output=True, text=True, timeout=600, env=environment)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if reports and "alter=" not in sim and os.path.exists(self.path("report.json")):
            folder = os.path.dirname(reports[0].removeprefix("report="))
            shutil.copy(self.path("report.json"), tempfile.mkstemp(suffix=".json", dir=folder)[1])
        return done

    def launches(self, part="_update"):
        with open(self.path("report.json"), encoding="utf-8") as f:
            return {name: kernel["launches"] for name, kernel in json.load(f)["kernels"].items() if part in name}

    def values(self, *args, what="g.pbtxt", device="sim", steps=4, **run):
        """The bits of all outputs."""
        given = ["--inputs", "in.npz"] if os.path.exists(self.path("in.npz")) else []
        words = [] if what.endswith(".plan") else ["run"]
        where = [] if what.endswith(".plan") else ["--device", device]
        self.opc(*words, what, *where, *given, "--repeat", str(steps), "--outputs", "out.npz", "--print", "none", *args, **run)
        with np.load(self.path("out.npz")) as z:
            return {k: z[k].tobytes() for k in z.files}

    def same(self, found, want):
        self.assertEqual(sorted(found), sorted(want))
        self.assertEqual([name for name, bits in want.items() if found[name] != bits], [])

    def test_every_optimizer(self):
        """Sizes around the pieces that blocks take, attributes that differ, more variables than one launch has room for."""
        for optimizer in OPTIMIZERS:
            for kind in ("f32", "f64"):
                with self.subTest(optimizer=optimizer, kind=kind):
                    graph = Updates()
                    for number, size in enumerate(SIZES if kind == "f32" else SIZES[:40]):
                        graph.update(optimizer, kind, size, number)
                    graph.save(self.folder)
                    many = len(SIZES) if kind == "f32" else 40
                    want = self.values("--no-fuse")
                    self.assertEqual(self.launches(), {f"{optimizer}_update_{kind}": 4 * many})
                    self.same(self.values(), want)
                    self.assertEqual(self.launches(), {f"{optimizer}_updates_{kind}": 4 * -(-many // A_LAUNCH)})
                    # Blocks that go on to other chunks, other orders of blocks and warps.
                    self.same(self.values(sim="blocks=3,seed=7"), want)

    def test_every_schedule(self):
        graph = Updates()
        for number, optimizer in enumerate([*OPTIMIZERS] * 4):
            graph.update(optimizer, "f32", 100 + 531 * number, number)
        graph.save(self.folder)
        self.opc("compile", "g.pbtxt", "--device", "sim", "-o", "g.plan")
        want = self.values("--no-fuse")
        for schedule in SCHEDULES:
            for graphs in ("0", "1"):
                self.same(self.values(sim=schedule, graphs=graphs), want)
                self.assertEqual(self.launches(), {f"{optimizer}_updates_f32": 4 for optimizer in OPTIMIZERS})
                self.same(self.values("--no-codegen", sim=schedule, graphs=graphs), want)
                self.same(self.values(what="g.plan", sim=schedule, graphs=graphs), want)
        cpu = self.values(device="cpu")
        for name, bits in want.items():
            np.testing.assert_allclose(np.frombuffer(bits, np.float32), np.frombuffer(cpu[name], np.float32), rtol=2e-5, atol=1e-6)

    def test_millions(self):
        graph = Updates()
        for number, size in enumerate((1, 1500000, 3)):
            graph.update("sgd", "f32", size, number)
        graph.save(self.folder)
        want = self.values("--no-fuse", steps=1)
        self.same(self.values(steps=1), want)
        self.assertEqual(self.launches(), {"sgd_updates_f32": 1})

    def test_arguments_on_the_device(self):
        """Rates, scales and gradients of other types, copies in 16 bits, and updates that are left out, in one launch."""
        graph = Updates()
        rate, wide, scale, zero, one = graph.input("f32", 1), graph.input("f64", 1), graph.input("f32", 1), graph.input("i64", 1), graph.input("i64", 1)
        graph.inputs["x3"][:], graph.inputs["x4"][:] = 0, 1
        for optimizer in OPTIMIZERS:
            for kind, number in (("f32", 1), ("f64", 2)):
                graph.update(optimizer, kind, 300, 1, learning_rate=rate if kind == "f32" else wide)
                graph.update(optimizer, kind, 301, 2, skip_if=one)
                graph.update(optimizer, kind, 302, 3, skip_if=zero, scale_by_tensor=scale if kind == "f32" else wide)
            graph.update(optimizer, "f32", 303, 4, model_diff=graph.input("f16", 303))
            if optimizer in ("sgd", "adam"):
                graph.update(optimizer, "f32", 304, 5, model_copy=graph.variable("f16", 304, 0))
        graph.save(self.folder)
        want = self.values("--no-fuse")
        self.same(self.values(), want)
        self.assertEqual(self.launches(), {f"{optimizer}_updates_{kind}": 4 for optimizer in OPTIMIZERS for kind in ("f32", "f64")})
        left_out = [name for name, bits in self.values(steps=1).items() if bits == want[name]]
        self.assertGreaterEqual(len(left_out), 2 * len(OPTIMIZERS))  # those with skip_if 1 stay as they are

    def training(self, text, optimizer, *shape):
        with open(self.path("loss.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        self.opc("grad", "loss.pbtxt", *shape, "--loss", "loss", "--optimizer", optimizer, "--lr", "0.03125", "-o", "step.pbtxt")

    def separate_and_joined(self, name, steps=3):
        """A training step's variables and launches, with its updates as tasks of their own and joined. Regions run op by op, so that all else is the same."""
        given = ("--fill", "rand", "--seed", "3")
        want = self.values("--no-fuse", *given, what=name, steps=steps)
        separate = self.launches("")
        self.same(self.values("--no-codegen", *given, what=name, steps=steps), want)
        joined = self.launches("")
        return separate, joined

    def test_training_steps_of_the_digits(self):
        for net, optimizer in (("mlp", "adam"), ("cnn", "momentum:beta=0.5")):
            with self.subTest(net=net):
                step = bench_device.training(os.path.join(BIN, "opc"), self.folder, net, optimizer).graph
                separate, joined = self.separate_and_joined(step)
                kind = optimizer.split(":")[0]
                variables, launches = separate[f"{kind}_update_f32"] // 3, joined[f"{kind}_updates_f32"] // 3 + joined.get(f"{kind}_update_f32", 0) // 3
                self.assertEqual(variables, {"mlp": 6, "cnn": 10}[net])
                self.assertLess(launches, variables)  # the largest gradients do not wait for each other
                self.assertEqual(sum(separate.values()) - sum(joined.values()), 3 * (variables - launches))

    def test_training_step_of_a_transformer(self):
        subprocess.run([sys.executable, os.path.join(SOURCE, "docs", "examples", "models", "make_models.py"), self.folder, "--models", "encoder", "--batch", "1", "--tiny"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(self.path("encoder_b1.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        last = text[text.rindex('name: "y"'):].split('in: "')[1].split('"')[0]
        text += f'''
op {{ name: "square" user_conf {{ op_type_name: "square" input {{ key: "x" value {{ s: "{last}" }} }} }} }}
op {{ name: "mean" user_conf {{ op_type_name: "reduce_mean" input {{ key: "input_tensor" value {{ s: "square/y_0" }} }} attr {{ key: "axis" value {{ at_list_int32 {{ val: 0 val: 1 val: 2 }} }} }} attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}
op {{ name: "loss" output_conf {{ in: "mean/output_tensor_0" out: "out" }} }}
'''
        self.training(text, "adam")
        separate, joined = self.separate_and_joined("step.pbtxt", steps=2)
        variables = separate["adam_update_f32"] // 2
        self.assertGreater(variables, 20)
        launches = (joined["adam_updates_f32"] + joined.get("adam_update_f32", 0)) // 2
        self.assertLess(launches, variables / 3)
        self.assertEqual(sum(separate.values()) - sum(joined.values()), 2 * (variables - launches))

    def test_wrong_tables_are_noticed(self):
        """The ends of chunks, how many there are, and the addresses of the first two updates, one after the other."""
        graph = Updates()
        for number, size in enumerate((3072, 2560, 64)):  # without room between them
            graph.update("momentum", "f32", size, number)
        graph.save(self.folder)
        want = self.values(steps=2)
        ends, first = 8, 8 + 8 * A_LAUNCH
        changes = [f"{ends}+1", f"{ends + 8}+1", f"{ends}/{ends + 8}", "0+1"]
        for update in (first, first + 368):
            changes += [f"{update}+1", f"{update + 8}+4", f"{update + 24}+4", f"{update}/{update + 8}", f"{update + 8}/{update + 24}"]
        for change in changes:
            done = self.opc("run", "g.pbtxt", "--device", "sim", "--inputs", "in.npz", "--repeat", "2", "--outputs", "out.npz", "--print", "none",
                            sim=f"alter=momentum_updates_f32:{change}", code=None)
            if done.returncode == 0:
                with np.load(self.path("out.npz")) as z:
                    self.assertTrue(any(z[k].tobytes() != want[k] for k in z.files), change)

    def test_other_places(self):
        """An update on the CPU stays alone, one whose gradient comes from there waits for it, ranks join their own."""
        graph = Updates()
        for number in range(6):
            graph.update("adam", "f32", 100 + 40 * number, number)
        graph.save(self.folder)
        want = self.values("--no-fuse")
        first = next(line.split('"')[1] for line in graph.lines if "adam_update" in line)
        self.values("--place", f"{first}=cpu", "--no-fuse")
        mixed = self.values("--place", f"{first}=cpu", "--no-fuse")
        for schedule in SCHEDULES:
            self.same(self.values("--place", f"{first}=cpu", sim=schedule), mixed)
        self.assertEqual(self.launches(), {"adam_updates_f32": 4})
        same = sum(mixed[name] == bits for name, bits in want.items())
        self.assertGreaterEqual(same, len(want) - 4)
        step = bench_device.training(os.path.join(BIN, "opc"), self.folder, "mlp", "sgd").graph
        os.remove(self.path("in.npz"))
        apart = self.values("--no-fuse", "--fill", "rand", "--seed", "3", what=step, device="sim:0-1", sim="devices=2")
        self.same(self.values("--no-codegen", "--fill", "rand", "--seed", "3", what=step, device="sim:0-1", sim="devices=2"), apart)
        self.assertIn("sgd_updates_f32", self.launches())

    def test_what_is_shown(self):
        graph = Updates()
        for number in range(3):
            graph.update("sgd", "f32", 50, number)
        graph.save(self.folder)
        tasks = json.loads(self.opc("show", "g.pbtxt", "--what", "tasks", "--json", "--device", "sim").stdout)["tasks"]
        self.assertEqual(len({t["region"] for t in tasks if "sgd_update" in t["kernel"]}), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
