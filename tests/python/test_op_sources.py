"""Which sources of a folder of --op-path run, and as what: packages, files that fail, files that only build graphs."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import unittest

from style_programs import StyleTest

RELATIVE = """
import opc
from . import helper
from .below.deep import TWO
@opc.op("demo::thrice", like="x")
def thrice(x):
    return x * helper.THREE
@thrice.grad(needs=[])
def _(dy):
    return dy * helper.THREE
@opc.op("demo::apart", like="x", isolation="process")
def apart(x):
    return x * helper.THREE * TWO
"""
BUILD = "import opc, p.rel; g = opc.Graph('g'); x = g.input('x', (1,)); g.output('y', p.rel.thrice(x)); g.output('z', p.rel.apart(x)); g.save('g.pbtxt')"
TWICE = """
import opc
@opc.op("demo::twice", like="x")
def twice(x):
    return x * 2
"""


class Sources(StyleTest):
    def in_package(self):
        os.makedirs(self.path("p/below"))
        self.write("p/__init__.py", "")
        self.write("p/helper.py", "THREE = 3")
        self.write("p/below/deep.py", "from ..helper import THREE", "TWO = THREE - 1")  # below has no __init__.py
        self.write("p/rel.py", RELATIVE)
        self.program(BUILD)

    def values(self, *words):
        return sorted(line.split()[-1] for line in self.command("run", "g.pbtxt", "--fill", "ones", *words).splitlines())

    def test_relative_imports(self):
        self.in_package()
        self.assertEqual(self.values("--op-path", "."), ["[3]", "[6]"])
        self.assertIn("every gradient agrees", self.command("grad", "g.pbtxt", "--op-path", ".", "--loss", "y", "--wrt", "x", "--check"))
        os.remove(self.path("g.ops.pbtxt"))
        self.assertEqual(self.values("--op-path", "p"), ["[3]", "[6]"])

    def test_a_package_is_in_the_folder_above(self):
        self.in_package()
        said = self.opc("run", "g.pbtxt", "--fill", "ones", "--op-path", "p").stderr
        self.assertIn("OPC0923", said)
        self.assertIn(f"p is a package: name the folder that it lies in: --op-path {os.path.realpath(self.folder)}\n", said)

    def twice(self, manifest=False):
        os.makedirs(self.path("ops"), exist_ok=True)
        self.write("ops/twice.py", TWICE)
        self.program("import sys; sys.path.append('ops'); import opc, twice; g = opc.Graph('g'); g.output('y', twice.twice(g.input('x', (1,)))); g.save('g.pbtxt')")
        if not manifest:
            os.remove(self.path("g.ops.pbtxt"))

    def test_a_source_that_fails_beside_the_one_that_is_wanted(self):
        for manifest in (False, True):
            with self.subTest(manifest=manifest):
                self.twice(manifest)
                self.write("ops/bad.py", "import opc", "import nothing_of_this_name", "opc.op")
                self.assertEqual(self.values("--op-path", "ops"), ["[2]"])
                done = self.opc("check", "g.pbtxt", "--op-path", "ops", "--update", "--update-in-ci")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("bad.py was left out, with the operators that it defines: ModuleNotFoundError: No module named 'nothing_of_this_name'", done.stderr)
                self.assertEqual(self.opc("verify", "demo::twice", "--op-path", "ops").returncode, 0)

    def test_a_source_that_fails_and_is_wanted(self):
        self.twice()
        self.write("ops/twice.py", "import nothing_of_this_name", TWICE)
        self.write("ops/other.py", TWICE.replace("twice", "other"))
        done = self.opc("run", "g.pbtxt", "--fill", "ones", "--op-path", "ops")
        self.assertEqual(done.returncode, 3)
        for part in ("demo::twice", "twice.py was left out", "nothing_of_this_name"):
            self.assertIn(part, done.stderr)
        os.remove(self.path("ops/other.py"))
        done = self.opc("run", "g.pbtxt", "--fill", "ones", "--op-path", "ops")
        self.assertEqual(done.returncode, 5)
        self.assertIn("error[OPC0622]", done.stderr)

    def test_an_op_that_only_the_program_defines_is_no_modules(self):
        os.makedirs(self.path("ops"))
        below = "    " + TWICE.replace("\n", "\n    ")
        use = "g = opc.Graph('g'); g.output('y', twice(g.input('x', (1,)))); g.save('g.pbtxt')"
        self.write("ops/twice.py", "import opc", 'if __name__ == "__main__":', below, "    " + use)
        self.assertEqual(self.python("ops/twice.py").stderr, "")
        done = self.opc("run", "g.pbtxt", "--fill", "ones", "--op-path", "ops")
        self.assertEqual(done.returncode, 4, done.stderr)
        for part in ("OPC0923", "twice.py defines no op 'demo::twice'", 'at the top level of the module, in no function and not below `if __name__ == "__main__":`'):
            self.assertIn(part, done.stderr)

    def test_a_program_that_builds_graphs_does_not_run(self):
        self.twice()
        self.write("ops/build.py", "import opc, twice", "print('built')", "g = opc.Graph('h')", "g.output('y', twice.twice(g.input('x', (1,))))", "g.save('h.pbtxt')")
        done = self.opc("run", "g.pbtxt", "--fill", "ones", "--op-path", "ops")
        self.assertEqual((done.returncode, "built" in done.stderr), (0, False), done.stderr)
        self.assertFalse(os.path.exists(self.path("h.pbtxt")))

    def test_what_kernels_print_is_not_in_the_output(self):
        self.twice()
        self.write("ops/twice.py", "import sys", TWICE.replace("return", "print('seen 1'); print('seen 2', file=sys.stdout); print('seen 3', file=sys.__stdout__)\n    return"))
        done = self.opc("run", "g.pbtxt", "--fill", "ones", "--op-path", "ops", "--json")
        self.assertEqual([line for line in done.stderr.splitlines() if "seen" in line], ["seen 1", "seen 2", "seen 3"], done.stderr)
        self.assertEqual(json.loads(done.stdout)["schema"], 1)


if __name__ == "__main__":
    unittest.main()
