"""What errors and warnings of operators in Python say is to be done: things that Python has."""
# SPDX-License-Identifier: Apache-2.0
import sys
import unittest
import warnings

import numpy as np

import opc
from style_programs import StyleTest, path_of

sys.path.append(path_of("--compat-path"))
import mxnet as mx  # noqa: E402

DRAWS = """
import numpy as np
import opc

seen = []

@opc.op("ways::draws", like="x", cases=[{"x": (4,)}])
def draws(x):
    seen.append(1)
    return x + np.float32(len(seen))
"""


@opc.op("ways::sized", shape={"y": ("n",), "z": ("x[0] - 3",)}, outputs=("y", "z"))
def sized(x, *, n: int):
    return np.zeros(n, "f"), x[3:]


@opc.op("ways::noisy", like="x", needs_rng=True)
def noisy(x, *, rng):
    return x


@mx.operator.register("ways_same")
class SameProp(mx.operator.CustomOpProp):
    pass


class WaysOut(StyleTest):
    def test_sizes_below_zero(self):
        for size, n, says in (
            (4, -1, "the size 'n' is -1\n.*\nhelp: sizes are 0 or more: give the attribute another value\n"),
            (2, 3, r"the size 'x\[0\] - 3' is -1\n.*\nhelp: the inputs are too small for the op\n"),
        ):
            with self.assertRaisesRegex(opc.GraphError, "(?s)" + says):
                sized(opc.Graph().input("x", (size,)), n=n)

    def test_copies_on_a_mesh(self):
        says = (
            "help: sbp= of opc.op, which operators in the styles of other frameworks lack, says what each device has; "
            "an op without side_effect=, needs_rng= and aux= is held to be pure\n"
        )
        for op in (noisy, lambda x: mx.sym.Custom(x, op_type="ways_same")):
            g = opc.Graph()
            g.output("y", op(g.input("x", (4,))))
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                g.compile(mesh=(2,))
            said = [str(w.message) for w in seen if "OPC0315" in str(w.message)]
            self.assertEqual(len(said), 1)
            self.assertIn(says, said[0] + "\n")

    def test_an_op_that_is_not_pure(self):
        self.write("draws.py", DRAWS)
        done = self.opc("verify", "ways::draws", "--op-path", ".")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("ways::draws  NOT_PURE", done.stdout)
        self.assertIn("declare it with side_effect=True, or mend its kernel\n", done.stdout)

    def test_a_source_with_a_byte_0(self):
        with open(self.path("zero.py"), "wb") as file:
            file.write(b"import opc\n@opc.op('z::z')\n\0\n")
        done = self.opc("ops", "show", "z::z", "--op-path", ".")
        self.assertRegex(done.stderr, r"SyntaxError: the source has a byte 0: it is no text in UTF-8 \(.*/zero.py:3\)")


if __name__ == "__main__":
    unittest.main()
