"""Operators of shared libraries: loaded one after the other, for graphs that are made afterwards."""
# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import subprocess
import tempfile
import unittest

import numpy as np

import opc

SOURCE = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "myrelu_plugin")
OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")


def build(folder, name):
    """The example's library, its op renamed."""
    flags = [shlex.split(subprocess.run([OPC, "sdk", f], capture_output=True, text=True, check=True).stdout) for f in ("--cflags", "--ldflags")]
    sources = []
    for part in ("myrelu_op.cpp", "myrelu_cpu_kernel.cpp"):
        with open(os.path.join(SOURCE, part), encoding="utf-8") as f:
            text = f.read().replace("myrelu", name)
        sources.append(os.path.join(folder, name + part))
        with open(sources[-1], "w", encoding="utf-8") as f:
            f.write(text)
    library = os.path.join(folder, f"lib{name}.so")
    subprocess.run(["g++", "-O1", "-fPIC", "-shared", *flags[0], *sources, "-o", library, *flags[1]], check=True)
    return library


def run(name):
    g = opc.Graph()
    g.output("y", opc.ops.function(name)(g.input("x", (3,))))
    return g.compile()


class Plugins(unittest.TestCase):
    def test_two_libraries(self):
        x, y = np.array([-1, 0, 2], "f"), [0, 0, 2]
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(AttributeError):
                opc.ops.firstrelu
            opc.load_plugin(build(folder, "firstrelu"))
            first = run("firstrelu")
            np.testing.assert_array_equal(first.run(x=x)["y"], y)
            opc.load_plugin(build(folder, "secondrelu"))
            opc.load_plugin(os.path.join(folder, "libfirstrelu.so"))  # is there already
            for name in ("firstrelu", "secondrelu", "relu"):
                np.testing.assert_array_equal(run(name).run(x=x)["y"], y)
            np.testing.assert_array_equal(first.run(x=x)["y"], y)  # of the operators that were known then
            self.assertIn("firstrelu", dir(opc.ops))

    def test_what_is_no_plugin(self):
        for path, code in (("/no/such/library.so", "OPC0902"), (__file__, "OPC0902")):
            with self.assertRaises(opc.UnsupportedError) as caught:
                opc.load_plugin(path)
            self.assertEqual(caught.exception.code, code)
        np.testing.assert_array_equal(run("relu").run(x=np.ones(3, "f"))["y"], 1)


if __name__ == "__main__":
    unittest.main()
