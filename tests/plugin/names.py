# What a plugin calls its operator decides nothing: networks with my_max_pool_2d_grad are planned and fused as with any other.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import numpy as np

from plugin_build import build_plugin

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
scratch = tempfile.TemporaryDirectory()
LIBRARY = os.path.join(scratch.name, "libnames.so")
TYPES = ("my_quite_plain_name", "my_max_pool_2d_grad", "my_plain_max_pool2d")  # of one length

# conv -> relu -> pooling -> the plugin's op -> conv: all but the plugin's op can stay in the library's layout.
GRAPH = '''
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 1 dim: 8 dim: 8 dim: 8 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 8 dim: 8 dim: 1 dim: 1 } data_type: kFloat initializer { constant_conf { value: 0.125 } } } }
op { name: "conv" user_conf { op_type_name: "conv2d" input { key: "in" value { s: "x/out" } } input { key: "weight" value { s: "w/out" } }
  attr { key: "filters" value { at_int32: 8 } } attr { key: "kernel_size" value { at_list_int32 { val: 1 val: 1 } } } } }
op { name: "relu" user_conf { op_type_name: "relu" input { key: "x" value { s: "conv/out_0" } } } }
op { name: "pool" user_conf { op_type_name: "max_pool_2d" input { key: "x" value { s: "relu/y_0" } }
  attr { key: "kernel_size" value { at_list_int32 { val: 2 val: 2 } } } attr { key: "stride" value { at_list_int32 { val: 2 val: 2 } } } } }
op { name: "own" user_conf { op_type_name: "TYPE" input { key: "x" value { s: "pool/y_0" } } } }
op { name: "again" user_conf { op_type_name: "conv2d" input { key: "in" value { s: "own/y_0" } } input { key: "weight" value { s: "w/out" } }
  attr { key: "filters" value { at_int32: 8 } } attr { key: "kernel_size" value { at_list_int32 { val: 1 val: 1 } } } } }
op { name: "y" output_conf { in: "again/out_0" out: "out" } }
'''


def setUpModule():
    build_plugin(LIBRARY, os.path.join(SOURCE, "tests", "plugin", "names", "ops.cpp"))


def made(op_type, *command):
    """What opc writes for the network with the operator of this name, with the name taken out of it."""
    with open(os.path.join(scratch.name, "net.pbtxt"), "w") as f:
        f.write(GRAPH.replace("TYPE", op_type))
    done = subprocess.run([OPC, *command, "--plugin", LIBRARY], capture_output=True, text=True, cwd=scratch.name, timeout=120)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(scratch.name, "out"), "rb") as f:
        data = f.read()
    data = data[32:] if data.startswith(b"OPCPLAN") else data  # the header has the checksum
    return data.replace(op_type.encode(), b"?" * len(op_type))


class Names(unittest.TestCase):
    def test_plans(self):
        for flags in ([], ["--mesh", "2"]):
            plain = made(TYPES[0], "compile", "net.pbtxt", "-o", "out", *flags)
            if not flags:
                self.assertIn(b"fused_conv2d", plain, "the network is to be fused")
            for other in TYPES[1:]:
                self.assertEqual(plain, made(other, "compile", "net.pbtxt", "-o", "out", *flags), other)

    def test_values(self):
        x = np.arange(512, dtype=np.float32).reshape(1, 8, 8, 8)
        np.save(os.path.join(scratch.name, "x.npy"), x)
        pooled = x.mean(1, keepdims=True).reshape(1, 1, 4, 2, 4, 2).max((3, 5))
        for op_type in TYPES:
            with open(os.path.join(scratch.name, "net.pbtxt"), "w") as f:
                f.write(GRAPH.replace("TYPE", op_type))
            done = subprocess.run([OPC, "run", "net.pbtxt", "--plugin", LIBRARY, "--input", "x=@x.npy", "--outputs", "y.npz"],
                                  capture_output=True, text=True, cwd=scratch.name, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            y = np.load(os.path.join(scratch.name, "y.npz"))["y"]
            np.testing.assert_allclose(y, np.repeat(2 * pooled, 8, 1), rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
