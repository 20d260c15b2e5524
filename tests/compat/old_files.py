# Files of every version of opc and of its formats: graphs and checkpoints give their numbers, plans and plugins do or are refused in one sentence.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "cli"))
from plan_bytes import Plan  # noqa: E402

BUILD = pathlib.Path(os.environ["OPC_BUILD_DIR"])
OPC, RUNTIME = BUILD / "bin/opc", BUILD / "bin/opc-runtime"
VERSIONS = {f.parent.name: json.loads(f.read_text()) for f in sorted(HERE.glob("*/version.json"))}
RTOL, ATOL = 1e-5, 1e-6  # another processor adds in another order
# What reads the number of a format in a file that was written in it, and where the sources say which is written today.
FORMATS = {
    "*.plan": (rb"OPCPLAN\0(.)\0\0\0", "proto/planfile/PlanFile.h", r"kPlanVersion = (\d+);"),
    "*.so": (rb"libopc_sdk\.so\.(\d+)\0", "kernels/sdk/include/opc/Version.h", r"OPC_SDK_API_VERSION (\d+)"),
    "*.safetensors": (rb'"format": *"opc-checkpoint-(\d+)"', "runtime/session/Checkpoint.cpp", r'"opc-checkpoint-(\d+)"'),
    "*.lock": (rb'"opc_lock":(\d+)', "compiler/lock/Lock.h", r"kLockVersion = (\d+);"),
    "*.ops.pbtxt": (rb"\nversion: (\d+)\n", "kernels/python/manifest/OpManifest.cpp", r"kVersion = (\d+);"),
}


def written_today(kind):
    _, source, number = FORMATS[kind]
    return int(re.search(number, (SOURCE / source).read_text(encoding="utf-8")).group(1))


def number_of(file):
    kind = next(kind for kind in FORMATS if file.match(kind))
    found = re.search(FORMATS[kind][0], file.read_bytes(), re.DOTALL).group(1)
    return int(found) if found.isdigit() else found[0]


def opc(*arguments, command=OPC, libraries=""):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    options = ["--config", "none"] if command == OPC else []
    return subprocess.run([str(command), *map(str, arguments), *options], capture_output=True, text=True, env=environment, timeout=120)


def tensors(path):
    """Those of a safetensors file, f32 and i64 as all of ours are."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    kinds = {"F32": "f4", "I64": "i8", "I32": "i4"}
    return {k: np.frombuffer(data[8 + size :][slice(*v["data_offsets"])], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


class Compat(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def each(self, file):
        """The folders that have such a file."""
        folders = sorted(f.parent for f in HERE.glob("*/" + file))
        self.assertIn(HERE / "0.1.0", folders)
        for folder in folders:
            with self.subTest(folder.name):
                yield folder

    def gives(self, done, got, want):
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_allclose(np.load(got), want, RTOL, ATOL)

    def refused(self, done, theirs, ours, way_out):
        """Exit code 4, and one sentence with both versions and the command that helps."""
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        sentence = done.stderr.split("\n")[0]
        self.assertRegex(sentence, r"^error\[OPC0\d{3}\]: ")
        for word in (rf"version {theirs}\b", rf"version {ours}\b", way_out):
            self.assertRegex(sentence, word)

    def test_graphs(self):
        for folder in self.each("y.npy"):
            for graph in filter(pathlib.Path.exists, (folder / f"graph.{kind}" for kind in ("pbtxt", "pb", "onnx"))):
                out = self.scratch / "y.npy"
                done = opc("run", graph, "--input", f"x=@{folder}/x.npy", "--output", f"y={out}", "--print", "none")
                self.gives(done, out, np.load(folder / "y.npy"))

    def test_checkpoints(self):
        for folder in self.each("half.safetensors"):
            out = self.scratch / "whole.safetensors"
            done = opc("run", folder / "train.pbtxt", "--feed-dataset", f"x=@{folder}/data.npy", "--batch", "4", "--shuffle", "--seed", "5",
                       "--resume", folder / "half.safetensors", "--epochs", "4", "--save", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            # Checkpoints of 0.1 do not say what their data held: they are taken as they are, and that is said.
            self.assertEqual("does not say what its data held" in done.stderr, folder.name.startswith("0.1."), done.stderr)
            got, want, half = tensors(out), tensors(folder / "whole.safetensors"), tensors(folder / "half.safetensors")
            self.assertEqual(sorted(got), sorted(want))
            for name in want:
                np.testing.assert_allclose(got[name], want[name], RTOL, ATOL, err_msg=name)
            self.assertFalse(np.allclose(half["w1"], want["w1"], RTOL, ATOL), "the second half of the training changes nothing")
            # The weights alone, in the graph that they were trained for.
            y = self.scratch / "y.npy"
            done = opc("run", folder / "graph.pbtxt", "--weights", folder / "whole.safetensors", "--input", f"x=@{folder}/x.npy",
                       "--output", f"y={y}", "--print", "none")
            self.gives(done, y, forward(np.load(folder / "x.npy").astype(np.float64), want))

    def test_checkpoint_of_tomorrow(self):
        folder, half = HERE / "0.1.0", self.scratch / "half.safetensors"
        half.write_bytes((folder / "half.safetensors").read_bytes().replace(b"opc-checkpoint-1", b"opc-checkpoint-9"))
        done = opc("run", folder / "train.pbtxt", "--feed-dataset", f"x=@{folder}/data.npy", "--batch", "4", "--resume", half,
                   "--epochs", "4")
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("OPC0711", "opc-checkpoint-9", f"opc-checkpoint-{written_today('*.safetensors')}", "--weights"):
            self.assertIn(word, done.stderr)

    def run_plan(self, plan, folder, *options, command):
        return opc(*(["run"] if command == OPC else []), plan, "--input", f"x=@{folder}/x.npy", "--outputs", self.scratch / "out",
                   "--print", "none", *options, command=command)

    def test_plans(self):
        ours = json.loads(opc("--version", "--json").stdout)["version"]
        for folder in self.each("graph.plan"):
            plan = folder / "graph.plan"
            theirs = re.search(rb"opc (\d+\.\d+\.\d+)", plan.read_bytes()).group(1).decode()
            # Machine code is checked against the ops' own loops: that of another version may be refused, and the plan runs without it.
            for options in ([], ["--allow-native"]):
                for command in (OPC, RUNTIME):
                    done = self.run_plan(plan, folder, *options, command=command)
                    if theirs == ours or done.returncode == 0:
                        self.gives(done, self.scratch / "out/y.npy", np.load(folder / "y.npy"))
                    else:
                        self.refused(done, theirs, ours, "opc compile")

    def test_plan_of_tomorrow(self):
        ours = written_today("*.plan")
        data = bytearray((HERE / "plan-2/graph.plan").read_bytes())
        data[8:12] = (ours + 7).to_bytes(4, "little")
        (self.scratch / "tomorrow.plan").write_bytes(data)
        for command in (OPC, RUNTIME):
            done = opc(*(["run"] if command == OPC else []), self.scratch / "tomorrow.plan", command=command)
            self.refused(done, ours + 7, ours, "opc compile")

    def test_plan_that_another_version_does_not_take(self):
        """Its ops or kernels have changed: the sentence says so, and not that the file is damaged."""
        ours = json.loads(opc("--version", "--json").stdout)["version"]
        data = (HERE / "plan-2/graph.plan").read_bytes()
        made = re.search(rb"opc (\d+\.\d+\.\d+)", data).group()
        for producer in (b"opc 0.0.9", b"opc " + ours.encode()):
            plan = Plan(data.replace(made, producer.ljust(len(made))).replace(b"relu", b"rely"))
            (self.scratch / "g.plan").write_bytes(plan.bytes())
            for command in (OPC, RUNTIME):
                done = self.run_plan(self.scratch / "g.plan", HERE / "plan-2", command=command)
                if producer == b"opc 0.0.9":
                    self.refused(done, "0.0.9", ours, "opc compile")
                else:
                    self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("unknown op type 'rely'", done.stderr)

    def test_numbers_of_a_model(self):
        """A plan of before knows what became part of its ops: the same value is fine, another one is refused."""
        folder = HERE / "plan-6-numbers"
        for low, code in ((-0.25, 0), (-0.5, 2)):
            np.savez(self.scratch / "low.npz", low=np.float32(low))
            for command in (OPC, RUNTIME):
                done = self.run_plan(folder / "graph.plan", folder, "--weights", self.scratch / "low.npz", "--partial-weights", command=command)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("OPC0719" in done.stderr, code != 0, done.stderr)

    def test_sizes_in_a_range(self):
        folder = HERE / "plan-2-sizes"
        x = np.linspace(-1, 2, 42, dtype=np.float32).reshape(7, 6)
        np.save(self.scratch / "x.npy", x)
        for command in (OPC, RUNTIME):
            done = self.run_plan(folder / "graph.plan", self.scratch, command=command)
            self.gives(done, self.scratch / "out/y.npy", np.maximum(np.exp(x.astype(np.float64)) + x, 0))

    def locked(self, folder):
        """A copy of a folder with a lock, and the file of its graph."""
        copy = self.scratch / folder.name
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        return next(f for f in (copy / "graph.pbtxt", copy / "graph.onnx") if f.exists())

    def test_locks(self):
        """What they say of a graph holds, but for costs, which may be counted in another way."""
        folders = [f.parent for f in HERE.glob("*/graph.opc.lock")]
        self.assertGreater(len(folders), 2)
        for folder in folders:
            with self.subTest(folder.name):
                done = opc("check", self.locked(folder), "--use", "PARALLEL")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_locks_say_since(self):
        """Parts that the first locks of the same number did not have are there in younger ones, and are compared."""
        details, constants = HERE / "lock-1-details", HERE / "lock-1-constants"
        first, text = (HERE / "lock-1/graph.opc.lock").read_text(), (details / "graph.opc.lock").read_text()
        for part in ('"detailed":[', '"after":["as"]'):
            self.assertNotIn(part, first)
            self.assertIn(part, text)
        self.assertNotIn('"constants"', first)
        self.assertIn('"constants":[\n{', (constants / "graph.opc.lock").read_text())
        for folder, old, new, rule in ((details, b' ctrl_in_op_name: "as"', b"", "EDGE_CHANGED"), (details, b"std: 0.5", b"std: 0.25", "OP_ATTR_CHANGED"),
                                       (details, b'op_type_name: \\"exp\\"', b'op_type_name: \\"expm1\\"', "OP_ATTR_CHANGED"),
                                       (constants, np.float32(0.75).tobytes(), np.float32(0.5).tobytes(), "OP_ATTR_CHANGED")):
            with self.subTest(changed=new):
                graph = self.locked(folder)
                before = graph.read_bytes()
                self.assertIn(old, before)
                graph.write_bytes(before.replace(old, new))
                done = opc("check", graph, "--use", "PARALLEL", "--no-run")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn(rule, done.stdout)

    def test_manifests(self):
        """A graph with operators in Python is read with its manifest, and runs where there is Python."""
        folders = [f.parent for f in HERE.glob("*/graph.ops.pbtxt")]
        self.assertTrue(folders)
        x, w = (np.random.default_rng(n).normal(size=shape).astype(np.float32) for n, shape in ((1, (4, 6)), (2, (6, 5))))
        np.savez(self.scratch / "in.npz", x=x, w=w)
        for folder in folders:
            with self.subTest(folder.name):
                plan, y = self.scratch / "graph.plan", self.scratch / "y.npy"
                done = opc("compile", folder / "graph.pbtxt", "-o", plan)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = opc("grad", folder / "graph.pbtxt", "--loss", "l/y_0", "--wrt", "x", "-o", self.scratch / "grad.pbtxt")
                self.assertEqual(done.returncode, 0, done.stderr)
                if (BUILD / "lib/libopc_python.so").exists():
                    copy = self.scratch / folder.name  # Python leaves what it compiles beside a source
                    shutil.copytree(folder, copy)
                    done = opc("run", copy / "graph.pbtxt", "--op-path", copy, "--inputs", self.scratch / "in.npz", "--output", f"y={y}", "--print", "none")
                    self.gives(done, y, np.where(x > 0, x, x / 4).astype(np.float64) @ w)

    def test_manifest_of_tomorrow(self):
        folder, ours = HERE / "manifest-1", written_today("*.ops.pbtxt")
        copy = self.scratch / "tomorrow"
        shutil.copytree(folder, copy)
        text = (copy / "graph.ops.pbtxt").read_text()
        (copy / "graph.ops.pbtxt").write_text(text.replace("version: 1\n", "version: 9\n"))
        done = opc("compile", copy / "graph.pbtxt", "-o", self.scratch / "graph.plan")
        self.assertNotEqual(done.returncode, 0)
        for word in ("graph.ops.pbtxt", "version 9", f"version {ours}"):
            self.assertIn(word, done.stderr)

    def test_ir_of_another_version(self):
        """It belongs to the version that wrote it: any other one is refused, with both."""
        folder, saved = HERE / "0.1.0", self.scratch / "g.mlir"
        ours = json.loads(opc("--version", "--json").stdout)["version"]
        done = opc("compile", folder / "graph.pbtxt", "--to", "shape", "--emit", "mlir", "-o", saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = saved.read_text()
        self.assertEqual(text.count(f'opc = "{ours}"'), 1)
        for version, code in ((ours, 0), ("0.0.9", 3)):
            saved.write_text(text.replace(f'opc = "{ours}"', f'opc = "{version}"'))
            done = opc("compile", saved, "--from", "shape", "-o", self.scratch / "g.plan")
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertIn("OPC0114", done.stderr)
                self.assertIn(f"written by opc {version}, and this is {ours}", done.stderr)

    def run_plugin(self, folder, library):
        """With this build's SDK where the loader looks, and no other: a build folder may hold older ones."""
        libraries = self.scratch / "lib"
        if not libraries.exists():
            libraries.mkdir()
            (libraries / f"libopc_sdk.so.{self.sdk_api()}").symlink_to(BUILD / "lib/libopc_sdk.so")
        return opc("run", folder / "plugin.pbtxt", "--plugin", library, "--input", "x=f32[4]:1,-2,3.5,0", "--output",
                   f"y={self.scratch}/y.npy", "--print", "none", libraries=libraries)

    def test_plugins(self):
        ours = self.sdk_api()
        for folder in self.each("twice.so"):
            theirs = number_of(folder / "twice.so")
            self.assertLess((folder / "twice.so").stat().st_size, 50_000)
            done = self.run_plugin(folder, folder / "twice.so")
            if theirs == ours or done.returncode == 0:
                self.gives(done, self.scratch / "y.npy", np.float32([2, -4, 7, 0]))
            else:
                self.refused(done, theirs, ours, "opc sdk")

    def test_plugin_of_tomorrow(self):
        """It asks for a library that is not here."""
        ours = self.sdk_api()
        folder = HERE / "0.1.0"
        data = (folder / "twice.so").read_bytes()
        name = b"libopc_sdk.so.1\0"
        self.assertIn(name, data)
        library = self.scratch / "tomorrow.so"
        library.write_bytes(data.replace(name, b"libopc_sdk.so.9\0"))
        self.refused(self.run_plugin(folder, library), 9, ours, "opc sdk")

    def sdk_api(self):
        return json.loads(opc("--version", "--json").stdout)["sdk_api"]

    def test_every_number_of_a_format_has_files(self):
        for kind in FORMATS:
            with self.subTest(kind):
                here = {number_of(f) for f in HERE.glob("*/" + kind)}
                self.assertEqual(here, set(range(1, written_today(kind) + 1)),
                                 "tests/compat/make_formats.py BUILD FOLDER writes what is missing (README.md)")

    def test_folders_say_what_they_have(self):
        for folder in HERE.glob("*-*"):
            self.assertEqual({str(number_of(f)) for kind in FORMATS for f in folder.glob(kind)}, {folder.name.split("-")[1]})
        for version, facts in VERSIONS.items():
            self.assertEqual(facts, {"version": version, "plan_format": number_of(HERE / version / "graph.plan"),
                                     "sdk_api": number_of(HERE / version / "twice.so")})

    def test_releases_are_kept(self):
        """Every release of the change log has its files here."""
        log = (SOURCE / "CHANGELOG.md").read_text(encoding="utf-8")
        releases = re.findall(r"^## (\d+\.\d+\.\d+) - ", log, re.M)
        self.assertIn("0.1.0", releases)
        self.assertEqual([r for r in releases if r not in VERSIONS], [], "tests/compat/make_version.py BUILD writes them")


def forward(x, w):
    """The graph of make_version.py in f64."""
    from math import erf

    h = x @ w["w1"].T.astype(np.float64) + w["b1"]
    h = h * (1 + np.vectorize(erf)(h / 2**0.5)) / 2
    z = h @ w["w2"].T.astype(np.float64)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


if __name__ == "__main__":
    unittest.main()
