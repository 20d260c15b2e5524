"""Runs programs of other systems' documents, typed in as printed, as a user does: with the paths that opc prints."""
# SPDX-License-Identifier: Apache-2.0
import functools
import os
import subprocess
import sys

import numpy as np

from scratch import OPC, ScratchTest

# The same program again, with what sessions have called.
TRACED = """\
import runpy, sys
from opc_styles import classes
sys.argv.pop(0)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("TRACE", *classes.trace)
"""


@functools.cache
def path_of(option):
    return subprocess.run([OPC, "--config", "none", "python", option], capture_output=True, text=True, check=True).stdout.strip()


def environment():
    """Only PYTHONPATH is set."""
    paths = {"PYTHONPATH": path_of("--path") + ":" + path_of("--compat-path"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**{k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "OPC_PYTHON_MODULE")}, **paths}


def traced(done):
    """What a process that ran TRACED says."""
    return next(line.split()[1:] for line in reversed(done.stdout.splitlines()) if line.startswith("TRACE"))


class StyleTest(ScratchTest):
    def python(self, *words):
        return subprocess.run([sys.executable, *words], cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=120)

    def program(self, *listings):
        """What the listings print together."""
        done = self.python(self.write("program.py", *listings))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def failing(self, *listings):
        """What a program that is wrong prints on standard error."""
        done = self.python(self.write("program.py", *listings))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stderr

    def trace(self, *listings):
        """The ops whose kernels sessions have called."""
        return traced(self.python("-c", TRACED, self.write("program.py", *listings)))

    def command_agrees(self, name, loss, trained):
        """ops/ has the class and nothing else does: `opc` runs g.pbtxt, with w.npz, and differentiates it, with Python's numbers."""
        for more, expected in (("--fill", "ones"), loss), (("--weights", "w.npz", "--input", "x=f32[4,3]:" + ",".join("1" * 12)), trained):
            done = self.opc("run", "g.pbtxt", "--op-path", "ops", *more, "--outputs", "out")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertAlmostEqual(float(np.load(os.path.join(self.folder, "out", "loss.npy"))), expected, places=5)
        for way in (("--wrt", "x"), ("--wrt", "x", "--check")):
            done = self.opc("grad", "g.pbtxt", "--op-path", "ops", "--loss", "loss", *way)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("agree", done.stdout)
        self.assertIn(f'op_type_name: "{name}"', self.opc("ops", "show", name, "--op-path", "ops").stdout)

    def opc(self, *words):
        return super().opc(*words, env={**os.environ, "PYTHONPATH": environment()["PYTHONPATH"]})
