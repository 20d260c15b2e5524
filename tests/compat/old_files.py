# Files of every version of opc: graphs and checkpoints give their numbers, plans and plugins do or are refused in one sentence.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["OPC_BUILD_DIR"])
OPC, RUNTIME = BUILD / "bin/opc", BUILD / "bin/opc-runtime"
VERSIONS = {f.parent.name: json.loads(f.read_text()) for f in sorted(HERE.glob("*/version.json"))}
RTOL, ATOL = 1e-5, 1e-6  # another processor adds in another order


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

    def each(self):
        self.assertIn("0.1.0", VERSIONS)
        for version, facts in VERSIONS.items():
            with self.subTest(version):
                yield HERE / version, facts

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
        for folder, _ in self.each():
            for graph in ("graph.pbtxt", "graph.pb"):
                out = self.scratch / "y.npy"
                done = opc("run", folder / graph, "--input", f"x=@{folder}/x.npy", "--output", f"y={out}", "--print", "none")
                self.gives(done, out, np.load(folder / "y.npy"))

    def test_checkpoints(self):
        for folder, _ in self.each():
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

    def test_plans(self):
        ours = self.plan_format()
        for folder, facts in self.each():
            for command in (OPC, RUNTIME):
                out = self.scratch / "out"
                done = opc(*(["run"] if command == OPC else []), folder / "graph.plan", "--input", f"x=@{folder}/x.npy", "--outputs",
                           out, "--print", "none", command=command)
                if facts["plan_format"] == ours or done.returncode == 0:
                    self.gives(done, out / "y.npy", np.load(folder / "y.npy"))
                else:
                    self.refused(done, facts["plan_format"], ours, "opc compile")

    def test_plan_of_tomorrow(self):
        self.plan_format() # makes a plan
        # The newest format that there is: this plan has no values of variables, and an older one.
        header = (HERE.parent.parent / "proto/planfile/PlanFile.h").read_text()
        ours = int(re.search(r"kPlanVersion = (\d+);", header).group(1))
        data = bytearray((self.scratch / "now.plan").read_bytes())
        data[8:12] = (ours + 7).to_bytes(4, "little")
        (self.scratch / "tomorrow.plan").write_bytes(data)
        for command in (OPC, RUNTIME):
            done = opc(*(["run"] if command == OPC else []), self.scratch / "tomorrow.plan", command=command)
            self.refused(done, ours + 7, ours, "opc compile")

    def plan_format(self):
        plan = self.scratch / "now.plan"
        done = opc("compile", HERE / "0.1.0/graph.pbtxt", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int.from_bytes(plan.read_bytes()[8:12], "little")

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
        for folder, facts in self.each():
            self.assertLess((folder / "twice.so").stat().st_size, 50_000)
            done = self.run_plugin(folder, folder / "twice.so")
            if facts["sdk_api"] == ours or done.returncode == 0:
                self.gives(done, self.scratch / "y.npy", np.float32([2, -4, 7, 0]))
            else:
                self.refused(done, facts["sdk_api"], ours, "opc sdk")

    def test_plugin_of_tomorrow(self):
        """It asks for a library that is not here."""
        ours = self.sdk_api()
        folder, facts = next((HERE / v, f) for v, f in VERSIONS.items())
        data = (folder / "twice.so").read_bytes()
        name = f"libopc_sdk.so.{facts['sdk_api']}\0".encode()
        self.assertIn(name, data)
        library = self.scratch / "tomorrow.so"
        library.write_bytes(data.replace(name, b"libopc_sdk.so.9\0"))
        self.refused(self.run_plugin(folder, library), 9, ours, "opc sdk")

    def sdk_api(self):
        return json.loads(opc("--version", "--json").stdout)["sdk_api"]

    def test_releases_are_kept(self):
        """Every release of the change log has its files here."""
        log = (HERE.parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
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
