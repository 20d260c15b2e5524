"""The package as files: what an import takes along, the wheel, types for checkers."""
# SPDX-License-Identifier: Apache-2.0
import base64
import csv
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

import opc

SOURCE = os.environ["OPC_SOURCE_DIR"]
PACKAGE = os.path.join(os.environ["OPC_BUILD_DIR"], "python")
PROGRAM = "import opc; g = opc.Graph(); g.output('y', g.input('x', (2,)) + 1); print(g.compile().run(x=[1.0, 2.0])['y'], opc.__file__)"


class Package(unittest.TestCase):
    def wheel(self, folder):
        script = os.path.join(SOURCE, "tools", "python", "make_wheel.py")
        done = subprocess.run([sys.executable, script, PACKAGE, opc.__version__, folder], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def test_the_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.wheel(folder)
            self.assertRegex(os.path.basename(path), rf"^opc-{opc.__version__}-cp3\d+-cp3\d+-linux_\w+\.whl$")
            with zipfile.ZipFile(path) as wheel:
                names = wheel.namelist()
                for name in ("opc/__init__.py", "opc/ops.pyi", "opc/py.typed", f"opc-{opc.__version__}.dist-info/METADATA"):
                    self.assertIn(name, names)
                record = wheel.read(f"opc-{opc.__version__}.dist-info/RECORD").decode().splitlines()
                self.assertEqual(len(record), len(names))
                for name, digest, size in list(csv.reader(record))[:-1]:
                    data = wheel.read(name)
                    self.assertEqual((digest, int(size)), ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data)))
                site = os.path.join(folder, "site")
                wheel.extractall(site)
            if importlib.util.find_spec("pip"):
                site = os.path.join(folder, "installed")
                subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", site, path], check=True, capture_output=True)
            found = subprocess.run([sys.executable, "-c", PROGRAM], env=dict(os.environ, PYTHONPATH=site), cwd=folder, capture_output=True, text=True, check=True)
            self.assertEqual(found.stdout.split("]")[0], "[2. 3.")
            self.assertTrue(found.stdout.split("] ")[1].startswith(site))

    def test_equal_contents_make_equal_wheels(self):
        script = importlib.util.spec_from_file_location("make_wheel", os.path.join(SOURCE, "tools", "python", "make_wheel.py"))
        module = importlib.util.module_from_spec(script)
        script.loader.exec_module(module)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "opc"))
            for name in ("b.py", "_core.so", "a.pyi", "notes.txt"):
                with open(os.path.join(folder, "opc", name), "w", encoding="utf-8") as f:
                    f.write(name)
            made = []
            for out in ("one", "two"):
                with open(module.make(folder, "1.2.3", os.path.join(folder, out)), "rb") as f:
                    made.append(f.read())
            self.assertEqual(made[0], made[1])
            os.remove(os.path.join(folder, "opc", "_core.so"))
            self.assertRaises(SystemExit, module.make, folder, "1.2.3", folder)

    def test_the_benchmark_answers(self):
        """No time is judged: docs/benchmarks.md has the figures and their limits."""
        command = [sys.executable, os.path.join(SOURCE, "tools", "bench_python.py"), "--build", os.environ["OPC_BUILD_DIR"], "--rounds", "1", "--json"]
        rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
        self.assertEqual([r["name"] for r in rows], ["python/import", "python/graph_10000_ops", "python/run_one_op"])
        self.assertTrue(all(np.isfinite(r["value"]) for r in rows), rows)  # one round: a difference of two times may be negative

    @unittest.skipIf(shutil.which("mypy") is None, "no mypy")
    def test_type_checkers(self):
        lines = ["import opc", "import numpy as np", "g = opc.Graph()", "x = g.input('x', (2, 3))",
                 "y: opc.Tensor = opc.ops.relu(2 * x @ g.variable('w', (3, 2), init=0) + 1, name='act')[0:1].sum(axis=0).T",
                 "opc.train(g.training_step('y', opc.optim.SGD(0.1)), {'x': 'x.npy'}, epochs=2)", "out = g.compile(mesh=(2,)).run(x=np.ones((2, 3), 'f'))",
                 "opc.ops.relu(1)", "opc.ops.relu(x, slope=2)", "opc.ops.matmul(x)", "g.grad(3)"]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.py")
            with open(program, "w", encoding="utf-8") as f:
                f.write("\n".join(lines) + "\n")
            done = subprocess.run(["mypy", "--cache-dir", os.path.join(folder, "cache"), program], env=dict(os.environ, MYPYPATH=PACKAGE), capture_output=True, text=True, cwd=folder)
        errors = re.findall(r"(\S+):(\d+): error", done.stdout)
        self.assertEqual(sorted({(os.path.basename(f), int(n)) for f, n in errors}), [("program.py", n) for n in (8, 9, 10, 11)], done.stdout)

    def test_every_public_name_is_there_and_said(self):
        for name in opc.__all__:
            self.assertTrue(getattr(opc, name).__doc__ or name == "__version__", name)

    def test_an_import_brings_no_other_package(self):
        code = "import sys, numpy; before = set(sys.modules); import opc; print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names) - {'_xxsubinterpreters', '_interpreters'}))"
        found = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=PACKAGE), capture_output=True, text=True, check=True)
        self.assertEqual(found.stdout.strip(), "['opc']")


if __name__ == "__main__":
    unittest.main()
