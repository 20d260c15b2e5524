# Derivatives of products up to the third, with zeros among the factors, against the polynomials that they are.
# SPDX-License-Identifier: Apache-2.0
"""The sum over i of w[i] times the product of the first i factors has the k-th derivatives sum of w[i] times the products of all
but k factors: whole numbers, computed here by leaving out each choice of factors. No division, so that zeros are like any number."""
import itertools
import math
import os
import re
import subprocess
import tempfile
import unittest

import numpy as np

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
# Rows of factors: no zero, one at each end, two, next to each other, all but one, all.
ROWS = [[2, 3, -1, 5], [0, 3, 2, -4], [3, 2, -2, 0], [3, 0, 2, -2], [2, 0, -3, 0], [5, 0, 0, 2], [0, 0, 7, 0], [0, 0, 0, 0], [1, 0, 1, 1]]


def products(x, terms, weights, directions):
    """sum over i of weights[i] and over m, n, ... of directions[0][m] * directions[1][n] * ... times the product of the factors of
    term i but k, m, n, ..., all different, for each k."""
    result = [0] * len(x)
    for i, factors in enumerate(terms):
        for left_out in itertools.permutations(factors, 1 + len(directions)):
            value = weights[i] * math.prod(d[m] for d, m in zip(directions, left_out[1:]))
            result[left_out[0]] += value * math.prod(x[j] for j in factors if j not in left_out)
    return result


def graph(op, shape, attrs, out, kind):
    dims = " ".join(f"dim: {d}" for d in shape)
    args = {"cumprod": ("x", "y"), "reduce_prod": ("input_tensor", "output_tensor")}[op]
    return f"""op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {kind} }} }} }}
op {{ name: "p" user_conf {{ op_type_name: "{op}" input {{ key: "{args[0]}" value {{ s: "x/out" }} }}
  output {{ key: "{args[1]}" value {{ s: "p/out_0" }} }} {attrs} }} }}
op {{ name: "loss" output_conf {{ in: "p/out_0" out: "out" }} }}
"""


class Products(unittest.TestCase):
    def derivatives(self, text, x, dy, order):
        """The gradients of the first `order` orders: each of the last one's sum with `directions` as weights."""
        rng = np.random.default_rng(5)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "0.pbtxt")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            inputs, loss, directions = {"x": x}, "p/out_0", []
            given = [dy]
            for k in range(1, order + 1):
                following = os.path.join(folder, f"{k}.pbtxt")
                subprocess.run([OPC, "grad", path, "--loss", loss, "--dy", "--wrt", "x", "-o", following], check=True, capture_output=True)
                with open(following, encoding="utf-8") as f:
                    names = re.findall(r'\n  name: "([^"]+)"', "\n" + f.read())
                new = [n for n in names if n.endswith(".dy") and n not in inputs]
                self.assertEqual(len(new), 1, names)
                inputs[new[0]] = given[-1]
                loss, path = [n for n in names if n.startswith("x.grad") and not n.endswith(".dy")][-1], following
                directions.append(given[-1])
                given.append(rng.integers(-3, 4, x.shape).astype(x.dtype))
            np.savez(os.path.join(folder, "in.npz"), **inputs)
            said = subprocess.run([OPC, "run", path, "--inputs", os.path.join(folder, "in.npz"), "--outputs", os.path.join(folder, "out"), "--print", "none"],
                                  capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stderr)
            return np.load(os.path.join(folder, "out", loss + ".npy")), directions[1:]

    def check(self, op, attrs, terms_of, x, dy, lines, kind="kDouble"):
        """`lines` cuts x and dy into rows of factors and rows of weights."""
        text = graph(op, x.shape, attrs, dy.shape, kind)
        for order in (1, 2, 3):
            got, directions = self.derivatives(text, x, dy, order)
            rows, weights = lines(x, dy)
            others = [lines(d, dy)[0] for d in directions]
            want = [products(r.tolist(), terms_of(len(r)), w.tolist(), [o[i].tolist() for o in others]) for i, (r, w) in enumerate(zip(rows, weights))]
            np.testing.assert_array_equal(lines(got, dy)[0], np.array(want), err_msg=f"{op} {attrs}, order {order}, of {x.tolist()}")

    def test_cumprod(self):
        x = np.array(ROWS, np.float64)
        dy = np.arange(1.0, x.size + 1).reshape(x.shape) % 5 - 2
        terms = lambda n: [list(range(i + 1)) for i in range(n)]  # noqa: E731
        self.check("cumprod", 'attr { key: "dim" value { at_int64: 1 } }', terms, x, dy, lambda a, w: (a, w))
        self.check("cumprod", 'attr { key: "dim" value { at_int64: -2 } }', terms, x.T.copy(), dy.T.copy(), lambda a, w: (a.T, w.T))
        self.check("cumprod", 'attr { key: "dim" value { at_int64: 1 } }', terms, x.astype(np.float32), dy.astype(np.float32), lambda a, w: (a, w), "kFloat")

    def test_reduce_prod(self):
        x = np.array(ROWS, np.float64)
        whole = lambda n: [list(range(n))]  # noqa: E731
        axis = lambda axes, keep: 'attr { key: "axis" value { at_list_int32 { ' + " ".join(f"val: {a}" for a in axes) + f' }} }} }} attr {{ key: "keepdims" value {{ at_bool: {keep} }} }}'  # noqa: E731
        dy = np.arange(1.0, 10.0)
        self.check("reduce_prod", axis([1], "false"), whole, x, dy, lambda a, w: (a, w[:, None]))
        self.check("reduce_prod", axis([0], "true"), whole, x.T.copy(), dy[None], lambda a, w: (a.T, w.T))
        self.check("reduce_prod", axis([-1], "false"), whole, x.astype(np.float32), dy.astype(np.float32), lambda a, w: (a, w[:, None]), "kFloat")
        # Two axes that are not neighbours: (2, 9, 2), the first and the last.
        apart = x.reshape(9, 2, 2).transpose(1, 0, 2).copy()
        self.check("reduce_prod", axis([0, 2], "false"), whole, apart, dy, lambda a, w: (a.transpose(1, 0, 2).reshape(9, 4), w[:, None]))
        # Of small sizes, and of none.
        self.check("reduce_prod", axis([1], "true"), whole, x[:, :1].copy(), dy[:, None], lambda a, w: (a, w))


if __name__ == "__main__":
    unittest.main()
