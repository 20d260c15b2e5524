# Plans with bytes that are no text: whatever is wrong is an opc.Error, and names that are read are Python's strings.
# SPDX-License-Identifier: Apache-2.0
import os
import struct
import sys
import tempfile
import unittest

import numpy as np
import opc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from plan_bytes import xxh64  # noqa: E402

GRAPH = """op { name: "input" input_conf { out: "out" blob_conf { shape { dim: 2 } data_type: kFloat } } }
op { name: "weight" variable_conf { out: "out" shape { dim: 2 } data_type: kFloat initializer { constant_conf { value: 2 } } } }
op { name: "sum" user_conf { op_type_name: "add_n" input { key: "in" value { s: "input/out" s: "weight/out" } }
                             output { key: "out" value { s: "sum/out_0" } } } }
op { name: "result" output_conf { in: "sum/out_0" } }
"""


class DamagedPlans(unittest.TestCase):
    def test_bytes_that_are_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            with open(path, "w", encoding="utf-8") as f:
                f.write(GRAPH)
            plan = os.path.join(folder, "g.plan")
            opc.load(path).compile().save(plan)
            with open(plan, "rb") as f:
                good = f.read()
            ran = refused = 0
            for at in range(32, len(good)):
                for byte in (0xFF, 0x80):
                    bad = bytearray(good)
                    bad[at] = byte
                    bad[16:32] = struct.pack("<QQ", len(bad) - 32, xxh64(bytes(bad[32:])))
                    with open(plan, "wb") as f:
                        f.write(bad)
                    try:
                        session = opc.load(plan).session()
                        session.run(**{name: np.ones(2, np.float32) for name in session.inputs})
                        ran += 1
                    except opc.Error as e:
                        self.assertTrue(str(e))
                        refused += 1
            self.assertGreater(ran, 20)
            self.assertGreater(refused, 100)


if __name__ == "__main__":
    unittest.main()
