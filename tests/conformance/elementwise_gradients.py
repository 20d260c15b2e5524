# First and second derivatives of every elementwise op against mpmath, and its gradients at kinks against kinks.py.
# SPDX-License-Identifier: Apache-2.0
"""usage: elementwise_gradients.py [-v] [OP...]       needs python3 with numpy and mpmath

In f64, on 40 random points of the sample cases' domains: opc grad, and opc grad of that for the sum of an op's gradients, against
numeric derivatives of exact_functions.py, or of @exact in the op's reference, in 160 bits. An op with a gradient that has no exact
function has failed. With names: the derivatives of these alone, and no kinks."""
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

try:
    from mpmath import mp, mpf

    from exact_functions import Near, exact_function
except ImportError as e:
    raise unittest.SkipTest(f"{e}; tools/dev/setup.sh --tests installs mpmath")

from kinks import KINKS, SECOND
from registry_cases import Attr, CaseInstance, load_registry, opc_binary

NAMES = [a for a in sys.argv[1:] if not a.startswith("-")] if __name__ == "__main__" else []
# Functions that exact_functions.py computes with fractions: the same, to be differentiated.
SMOOTH = {
    "broadcast_add": lambda x, y: x + y, "broadcast_sub": lambda x, y: x - y, "broadcast_mul": lambda x, y: x * y,
    "broadcast_div": lambda x, y: x / y, "abs": abs, "negative": lambda x: -x, "frac": lambda x: x - int(x),
    "broadcast_fmod": lambda x, y: x - y * int(x / y), "broadcast_floor_mod": lambda x, y: x - y * mp.floor(x / y),
    "lerp": lambda x, y, w: x + w * (y - x), "broadcast_maximum": max, "broadcast_minimum": min, "relu": lambda x: max(x, 0),
    "broadcast_pow": mp.power, "xlogy": lambda x, y: x * mp.log(y), "xdivy": lambda x, y: x / y, "atan2": mp.atan2,
    "relu_grad": lambda y, dy: dy if y > 0 else 0 * dy, "leaky_relu_grad": lambda x, dy, alpha: dy if x > 0 else alpha * dy,
    "lgamma": lambda x: mp.loggamma(x), "digamma": lambda x: mp.psi(0, x), "trigamma": lambda x: mp.psi(1, x),
    "scalar_lerp": lambda x, y, **a: x + mpf(a["float_operand"]) * (y - x), "scalar_pow": lambda x, **a: mp.power(x, mpf(a["float_operand"])),
    "scalar_reverse_pow": lambda x, **a: mp.power(mpf(a["float_operand"]), x),
    "scalar_add": lambda x, **a: x + mpf(a["float_operand"]), "scalar_mul": lambda x, **a: x * mpf(a["float_operand"]),
    "scalar_div": lambda x, **a: x / mpf(a["float_operand"]), "scalar_fmod": lambda x, **a: x - mpf(a["float_operand"]) * int(x / mpf(a["float_operand"])),
    "clip_by_scalar": lambda x, floating_min, floating_max, **_: min(max(x, floating_min), floating_max),
    "clip_by_scalar_min": lambda x, floating_min, **_: max(x, floating_min), "clip_by_scalar_max": lambda x, floating_max, **_: min(x, floating_max),
    "hardtanh": lambda x, min_val, max_val: min(max(x, min_val), max_val),
    "threshold": lambda x, threshold_val, value: value if x <= threshold_val else x,
    "smooth_l1_loss_grad": lambda x, t, dy, beta: dy * ((x - t) / beta if abs(x - t) < beta else mp.sign(x - t)),
}
for name, same in (("multiply", "broadcast_mul"), ("pow", "broadcast_pow"), ("elementwise_maximum", "broadcast_maximum"),
                   ("elementwise_minimum", "broadcast_minimum")):
    SMOOTH[name] = SMOOTH[same]
# Covered as their forms with two tensors; the mask of the others takes no gradient.
ELSEWHERE = {"scalar_add_by_tensor", "scalar_sub_by_tensor", "scalar_mul_by_tensor", "scalar_div_by_tensor", "where", "masked_fill"}
# Piecewise constant: no gradient reaches the operand.
FLAT = {"floor", "ceil", "round", "rint", "trunc", "sign", "floordiv", "truncdiv", "scalar_floordiv", "scalar_truncdiv"}


def opc(*arguments):
    done = subprocess.run([opc_binary(), *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"opc {' '.join(arguments[:2])} gave exit code {done.returncode}:\n{done.stderr}")
    return done


class Batch:
    """Ops side by side in one f64 graph, each with its own inputs, and their derivatives."""

    def __init__(self):
        self.lines, self.inputs, self.outputs = [], {}, []

    def add(self, number, op, attrs, values):
        prefix = f"i{number}"
        conf = [f'op_type_name: "{op["name"]}"']
        for arg, array in zip(op["inputs"], values):
            name = f"{prefix}_{arg['name']}"
            self.lines.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {len(array)} }} data_type: kDouble }} }} }}')
            conf.append(f'input {{ key: "{arg["name"]}" value {{ s: "{name}/out" }} }}')
            self.inputs[name] = np.asarray(array, np.float64)
        out = op["outputs"][0]["name"]
        conf.append(f'output {{ key: "{out}" value {{ s: "{prefix}/{out}_0" }} }}')
        conf += [f'attr {{ key: "{k}" value {{ {a.text()} }} }}' for k, a in attrs.items()]
        self.lines.append(f'op {{ name: "{prefix}" user_conf {{ {" ".join(conf)} }} }}')
        self.outputs.append(f"{prefix}/{out}_0")

    def derivatives(self, order):
        """[{input: gradient}], of first order and, if asked for, of the sum of each op's first gradients."""
        found = []
        with tempfile.TemporaryDirectory() as folder:
            path, losses = os.path.join(folder, "0.pbtxt"), self.outputs
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(self.lines) + "\n")
            np.savez(os.path.join(folder, "in.npz"), **self.inputs)
            for k in range(1, order + 1):
                wrt, graph = list(self.inputs), os.path.join(folder, f"{k}.pbtxt")
                while True:  # a gradient that is constant has no second one
                    done = subprocess.run([opc_binary(), "grad", path, *pairs("--loss", losses), *pairs("--wrt", wrt), "-o", graph, "--max-errors", "1000"],
                                          capture_output=True, text=True, timeout=300)
                    idle = set(re.findall(r"does not depend differentiably on (\S+);", done.stderr))
                    if done.returncode == 0 or k == 1 or not idle:
                        break
                    wrt = [n for n in wrt if n not in idle]
                if done.returncode:
                    raise AssertionError(f"opc grad gave exit code {done.returncode}:\n{done.stderr}")
                with open(graph, encoding="utf-8") as f:
                    text = re.sub(r'"(i\d+_\w+)\.grad"', rf'"\1.d{k}"', f.read())
                with open(graph, "w", encoding="utf-8") as f:
                    f.write(text)
                out = os.path.join(folder, f"out{k}")
                opc("run", graph, "--inputs", os.path.join(folder, "in.npz"), "--outputs", out, "--print", "none")
                found.append({n: np.load(os.path.join(out, f"{n}.d{k}.npy")) for n in wrt if os.path.exists(os.path.join(out, f"{n}.d{k}.npy"))})
                path, losses = graph, [f"{n}.d{k}" for n in wrt if f'"{n}.d{k}"' in text]
        return found


def pairs(name, values):
    return [x for v in values for x in (name, v)]


def plain(v):
    return v.value if isinstance(v, Near) else v


def exact_derivatives(fn, point):
    """(first by each operand, second: of the sum of the first by each)."""
    n = len(point)
    unit = lambda *at: tuple(sum(i == a for a in at) for i in range(n))  # noqa: E731
    diff = lambda order: mp.diff(fn, point if n > 1 else point[0], order if n > 1 else order[0])  # noqa: E731
    first = [diff(unit(i)) for i in range(n)]
    return first, [sum(diff(unit(i, j)) for j in range(n)) for i in range(n)]


def close(got, exact, rtol):
    if math.isnan(exact) or math.isinf(exact):
        return got == exact or (math.isnan(got) and math.isnan(exact))
    return abs(got - float(exact)) <= rtol * max(1.0, abs(float(exact)))


class Derivatives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ops = {o["name"]: o for o in load_registry()}

    def test_every_op(self):
        rng = np.random.default_rng(3)
        batch, judged = Batch(), []
        for name, op in self.ops.items():
            if not op["scalar"] or op["no_grad"] or name in ELSEWHERE or name in FLAT or NAMES and name not in NAMES:
                continue
            exact = SMOOTH.get(name) or exact_function(name)
            self.assertTrue(exact, f"{name} has a gradient and no exact function: @exact in references/{name}.py is one")
            case = CaseInstance(op, op["cases"][0], "f64")
            if "f64" not in {k["dtype"] for k in op["kernels"]}:
                continue
            values = [rng.uniform(lo, hi, 40) for _, _, _, _, lo, hi in case.inputs()]
            batch.add(len(judged), op, case.attrs(), values)
            judged.append((name, exact, case.all_attrs(), values))
        self.assertGreaterEqual(len(judged), len(NAMES) or 81)
        first, second = batch.derivatives(2)
        wrong = []
        for number, (name, function, attrs, values) in enumerate(judged):
            attrs = {k: v for k, v in attrs.items() if k not in ("has_int_operand", "has_float_operand", "int_operand", "exponent")} if name in SMOOTH else attrs
            fn = lambda *x: plain(function(*x, **dict(attrs)))  # noqa: E731, B023
            args = [f"i{number}_{a['name']}" for a in self.ops[name]["inputs"]]
            for at, point in enumerate(zip(*values)):
                exact = exact_derivatives(fn, [mpf(float(v)) for v in point])
                for order, got in enumerate((first, second)):
                    for arg, e in zip(args, exact[order]):
                        g = float(got[arg][at]) if arg in got else 0.0
                        if not close(g, e, (1e-11, 1e-10)[order]):
                            wrong.append(f"{name}: derivative {order + 1} by {arg} at {point} is {g!r}, exact {float(e)!r}")
        self.assertEqual(wrong[:20], [], f"{len(wrong)} wrong derivatives")

    def attrs_of(self, op, values):
        types = {a["name"]: a["type"] for a in op["attrs"]}
        return {k: Attr({"type": types[k], "value": v}) for k, v in values.items()}

    def test_kinks(self):
        batch = Batch()
        for number, (name, _, _, attrs, points) in enumerate(KINKS):
            batch.add(number, self.ops[name], self.attrs_of(self.ops[name], attrs), list(zip(*[p for p, _ in points])))
        (got,) = batch.derivatives(1)
        wrong = []
        for number, (name, _, _, _, points) in enumerate(KINKS):
            for at, (point, slopes) in enumerate(points):
                for arg, want in zip(self.ops[name]["inputs"], slopes):
                    g = float(got[f"i{number}_{arg['name']}"][at])
                    if not (close(g, want, 0) or math.isfinite(want) and abs(g - want) <= 4e-15 * abs(want)):
                        wrong.append(f"{name}: the derivative by {arg['name']} at {point} is {g!r}, expected {want!r}")
        self.assertEqual(wrong, [])

    def test_second_at_kinks(self):
        batch = Batch()
        entries = [e for e in SECOND if e[2]]
        for number, (name, attrs, points) in enumerate(entries):
            batch.add(number, self.ops[name], self.attrs_of(self.ops[name], attrs), [[p for p, _ in points]])
        second = batch.derivatives(2)[1]
        for number, (name, attrs, points) in enumerate(entries):
            arg = f"i{number}_{self.ops[name]['inputs'][0]['name']}"
            for at, (point, want) in enumerate(points):
                with self.subTest(op=name, at=point, **attrs):
                    np.testing.assert_allclose(second[arg][at], want, rtol=1e-12, atol=1e-300)

    def test_mixed(self):
        """By x and then by y, where one factor is zero: d^2/dx dy of x^y is x^(y-1) (1 + y log x), of x log y 1/y."""
        batch = Batch()
        points = {"broadcast_pow": [(2.0, 0.0), (3.0, 0.0), (0.5, 1.0)], "xlogy": [(0.0, 2.0), (0.0, 0.25)], "xdivy": [(0.0, 2.0), (0.0, -0.5)]}
        for number, (name, at) in enumerate(points.items()):
            batch.add(number, self.ops[name], {}, list(zip(*at)))
        second = batch.derivatives(2)[1]
        of = {"broadcast_pow": lambda x, y: (y * (y - 1) * x ** (y - 2) + x ** (y - 1) * (1 + y * math.log(x)), x**y * math.log(x) ** 2 + x ** (y - 1) * (1 + y * math.log(x))),
              "xlogy": lambda x, y: (1 / y, 1 / y - x / y**2), "xdivy": lambda x, y: (-1 / y**2, -1 / y**2 + 2 * x / y**3)}
        for number, (name, at) in enumerate(points.items()):
            for i, (x, y) in enumerate(at):
                for arg, want in zip("xy", of[name](x, y)):
                    with self.subTest(op=name, by=arg, at=(x, y)):
                        np.testing.assert_allclose(second[f"i{number}_{arg}"][i], want, rtol=1e-12)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + [a for a in sys.argv[1:] if a.startswith("-")] + ["Derivatives.test_every_op"] * bool(NAMES))
