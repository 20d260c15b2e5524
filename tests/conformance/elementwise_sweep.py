# Every elementwise op in every element type on special and random values, against exact values; the bounds of docs/numerics.md.
# SPDX-License-Identifier: Apache-2.0
"""usage: elementwise_sweep.py [-v] [--values N] [--write] [OP...]       needs python3 with numpy and mpmath

An op is elementwise when the registry knows its expression. Each gets N (2000) values: every special one of its type, or pairs of
them, and random ones over its whole range and near 1. What it gives is compared with exact_functions.py: integers and truth
values exactly, floats in units of the last place (ulp) of the exact value, infinities and NaN as themselves. The largest error
of each op and type must not exceed its bound in ulp_bounds.json, from which docs/numerics.md is generated; --write makes new
bounds, from 500 values and N. An op may have its exact function and its bound beside its reference (@exact); one without an exact
function has failed."""
import copy
import json
import math
import os
import sys
import tempfile
import unittest
import zlib

import numpy as np

try:
    from exact_functions import Near, beside_reference, exact_function
    from mpmath import mp, mpf
except ImportError as e:
    raise unittest.SkipTest(f"{e}; tools/dev/setup.sh --tests installs mpmath")

from driver import Graph
from registry_cases import DTYPES, FLOATING, CaseInstance, from_dtype, load_registry, to_dtype

BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ulp_bounds.json")
# Type: bits of the significand, least and largest exponent of 2.
FORMATS = {"f64": (53, -1022, 1023), "f32": (24, -126, 127), "f16": (11, -14, 15), "bf16": (8, -126, 127)}
INTEGER_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": -8, "u16": -16, "u32": -32, "u64": -64}
TENSOR_AND_NUMBER = ("scalar_add_by_tensor", "scalar_sub_by_tensor", "scalar_mul_by_tensor", "scalar_div_by_tensor")
# What is judged where the functions are used: constants are rounded to the type, and far out their error grows with the operand.
RANGES = {
    **dict.fromkeys(("gelu", "fast_gelu", "quick_gelu", "silu", "elu", "celu", "selu", "mish", "softplus", "scalar_reverse_pow"), (-30, 30)),
    **dict.fromkeys(("gelu_grad", "fast_gelu_grad", "quick_gelu_grad", "silu_grad", "tanh_grad"), (-12, 12)),
    **dict.fromkeys(("sigmoid_grad", "binary_cross_entropy_grad"), (0, 1)),
    **dict.fromkeys(("binary_cross_entropy_with_logits_grad", "smooth_l1_loss_grad", "lerp", "scalar_lerp", "softsign", "hardswish", "hardsigmoid"), (-30, 30)),
}


def special_floats(dtype):
    p, least, most = FORMATS[dtype]
    tiny, eps, large = math.ldexp(1, least), math.ldexp(1, 1 - p), math.ldexp(2 - math.ldexp(1, 1 - p), most)
    values = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 0.1, 0.3, 1e-8, 10.0, 20.0, 88.0, 100.0, 709.0, 1e4, math.pi, math.pi / 2, math.e, 1.4616321449683623,
              1 + eps, 1 - eps / 2, tiny, tiny * eps, tiny * (1 - eps), eps, large, large / 2, math.ldexp(1, p), math.ldexp(1, p) - 1, math.sqrt(large), math.inf]
    return values + [-v for v in values] + [math.nan]


def draw_floats(rng, dtype, n, lo, hi):
    """Uniform in the domain and in [-4, 4], and with any exponent."""
    p, least, most = FORMATS[dtype]
    any_size = np.ldexp(rng.uniform(1, 2, n), rng.integers(least - 3, most, n)) * rng.choice([-1, 1], n)
    middle = np.ldexp(rng.uniform(1, 2, n), rng.integers(max(least, -24), 7, n)) * rng.choice([-1, 1], n)
    kinds = [rng.uniform(lo, hi, n), rng.uniform(-4, 4, n), any_size, middle, np.round(rng.uniform(-30, 30, n) * 2) / 2]
    return np.choose(rng.integers(0, len(kinds), n), kinds)


def columns(rng, specials, random, arity, n):
    """`arity` columns of n values: the specials with each other, then random(n)."""
    specials = np.asarray(specials)
    if arity == 1:
        chosen = [specials[:n]]
    else:
        grid = np.array(np.meshgrid(*[specials] * 2)).reshape(2, -1)
        grid = grid[:, rng.permutation(grid.shape[1])[: n * 3 // 5]]
        chosen = [grid[0], grid[1]] + [rng.choice(specials, grid.shape[1]) for _ in range(arity - 2)]
    return [np.concatenate([c, random(n - len(c))]) for c in chosen]


def range_of(op):
    """Where the op is judged, when that is not everywhere."""
    beside = beside_reference(op)
    return RANGES.get(op) or (beside.within if beside else None)


def bound_of(bounds, op, dtype):
    """The largest error that is right, in ulp; None: nobody said."""
    beside = beside_reference(op)
    return bounds[op].get(dtype) if op in bounds else beside.ulps if beside else None


def operands(op, dtype, n, lo, hi, arity):
    rng = np.random.default_rng(zlib.crc32(f"{op}|{dtype}".encode()))
    if dtype == "bool":
        return [rng.integers(0, 2, n).astype(bool) for _ in range(arity)]
    if dtype in FLOATING:
        specials = special_floats(dtype)
        if judged := range_of(op):
            lo, hi = judged
            specials = [v for v in specials if lo <= v <= hi or not math.isfinite(v)]
            if arity > 1:  # products of the smallest numbers are judged by broadcast_mul
                specials = [v for v in specials if v == 0 or abs(v) >= 1e-6]
            random = lambda m: np.where(rng.random(m) < 0.3, rng.uniform(lo, hi, m) * np.ldexp(1, -rng.integers(0, 20, m)), rng.uniform(lo, hi, m))  # noqa: E731
        else:
            random = lambda m: draw_floats(rng, dtype, m, lo, hi)  # noqa: E731
        with np.errstate(all="ignore"):
            return [to_dtype(np.asarray(c, np.float64), dtype) for c in columns(rng, specials, random, arity, n)]
    bits = INTEGER_BITS[dtype]
    least, most = (0, 2**-bits - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    kind = DTYPES[dtype][1]
    specials = np.array(sorted({v for v in (least, least + 1, most, most - 1, most // 2, -3, -2, -1, 0, 1, 2, 3, 7, 31) if least <= v <= most}), kind)
    random = lambda m: np.where(rng.random(m) < 0.5, rng.integers(least, most, m, kind, endpoint=True), rng.integers(max(least, -9), 10, m).astype(kind))  # noqa: E731
    return [c.astype(kind) for c in columns(rng, specials, random, arity, n)]


def instances_of(op, n):
    """The op's first case in every type, with n values for each tensor; by a tensor of one element, several."""
    types = sorted({k["dtype"] for k in op["kernels"] if k["dtype"] in DTYPES}) or [*FLOATING, "i32", "u8", "bool"]
    base = op["cases"][0]
    for dtype in types:
        lo, hi = base["inputs"][-1]["lo"], base["inputs"][-1]["hi"]
        arity = len(base["inputs"])
        if op["name"] in ("where", "masked_fill"):
            mask = 0 if op["name"] == "where" else 1
            values = operands(op["name"], dtype, n, lo, hi, arity)
            values[mask] = np.arange(n) % 3 == 0
            yield instance(op, base, dtype, values, {mask: "bool"})
        elif op["name"] in TENSOR_AND_NUMBER:
            x, number = operands(op["name"], dtype, n, lo, hi, 2)
            for i, at in enumerate((3, n // 2, n - 2, n - 1)):
                yield instance(op, base, dtype, [x[i::4], number[at : at + 1]], {})
        else:
            yield instance(op, base, dtype, operands(op["name"], dtype, n, lo, hi, arity), {})


def instance(op, base, dtype, values, own):
    case = copy.deepcopy(base)
    case["name"] = "sweep"
    for i, (given, array) in enumerate(zip(case["inputs"], values)):
        given["shape"] = list(array.shape)
        given["dtype"] = own.get(i)
    made = CaseInstance(op, case, dtype)
    made.values = values
    return made


def run(instances):
    """The first output of each, by one graph."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Graph()
        for number, made in enumerate(instances):
            vectors = {f"{made.name}|in|{arg}|{index}|{dtype}": array for (arg, index, dtype, *_), array in zip(made.inputs(), made.values)}
            graph.add(number, made, vectors)
        code, said = graph.run(folder)
        if code != 0:
            raise AssertionError(f"{instances[0].dtype}: opc run gave exit code {code}:\n{said}")
        return [np.load(os.path.join(folder, "out", f"{end}.npy")) for _, _, _, end in graph.wanted]


def ulps(got, exact, dtype):
    """The error in units of the last place; infinity when the kinds differ."""
    scale = 0
    if isinstance(exact, Near):
        exact, scale = exact.value, exact.scale
    if isinstance(exact, float) and not math.isfinite(exact):
        same = got == exact or (math.isnan(got) and math.isnan(exact))
        return 0.0 if same else math.inf
    if math.isnan(got):
        return math.inf
    exact = mpf(exact)
    p, least, most = FORMATS[dtype]
    if math.isinf(got):  # as if exponents went on
        got = math.copysign(math.ldexp(1, most), got) * 2 if most < 1023 else mp.sign(got) * mp.ldexp(1, most + 1)
        if abs(exact) >= abs(mpf(got)):
            return 0.0 if mp.sign(exact) == mp.sign(got) else math.inf
    size = max(abs(exact), abs(mpf(scale)))
    exponent = min(max(mp.frexp(size)[1] - 1, least), most) if size else least
    return float(abs(mpf(got) - exact) / mp.ldexp(1, exponent - p + 1))


def wrapped(value, dtype):
    if dtype == "bool":
        return int(value) & 1
    bits = INTEGER_BITS[dtype]
    value %= 2 ** abs(bits)
    return value - 2**bits if bits > 0 and value >= 2 ** (bits - 1) else value


def worst(made, got):
    """(error, operands, what came, what is exact) of the worst value; integers and truth values: 0 or infinity."""
    name, attrs = made.op["name"], made.all_attrs()
    floating = made.dtype in FLOATING
    function = exact_function(name, floating)
    if not function:
        return math.inf, f"no exact function in exact_functions.py, none with @exact in references/{name}.py", None, None
    result = got.view(np.uint16) if got.dtype == np.dtype("V2") else got
    given = [a if a.dtype == bool else from_dtype(a, made.dtype) if floating else a for a in made.values]
    given = [np.broadcast_to(g, got.shape).tolist() for g in given]
    truth = got.dtype == bool and made.dtype != "bool"
    values = result.tolist() if truth or not floating else from_dtype(result, made.dtype).tolist()
    found = (0.0, None, None, None)
    for y, *x in zip(values, *given):
        exact = function(*x, **dict(attrs))
        if exact is None:
            continue
        if truth:
            error = 0.0 if y == exact else math.inf
        elif floating:
            error = ulps(y, exact, made.dtype)
        else:
            error = 0.0 if int(y) == wrapped(int(exact), made.dtype) else math.inf
        if error > found[0]:
            found = (error, x, y, exact)
    return found


def bound(error):
    """A round number above the error, with room for compilers that fuse otherwise."""
    error = error if error <= 0.505 else error * 1.25
    for b in (0, 0.5, 0.51, 0.55, 0.6, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128):
        if error <= b:
            return b
    return math.ceil(error)


def main(argv):
    verbose, write = "-v" in argv, "--write" in argv
    n = int(argv[argv.index("--values") + 1]) if "--values" in argv else 2000
    names = [a for a in argv if not a.startswith("-") and not a.isdigit()]
    ops = [o for o in load_registry() if o["scalar"] and (not names or o["name"] in names)]
    errors, failures = {}, []
    bounds = {}
    if os.path.exists(BOUNDS):
        with open(BOUNDS, encoding="utf-8") as f:
            bounds = json.load(f)
    by_type = {}
    for op in ops:
        for made in [i for size in ((500, n) if write else (n,)) for i in instances_of(op, size)]:
            by_type.setdefault(made.dtype, []).append(made)
    for dtype, list_ in sorted(by_type.items()):
        for made, got in zip(list_, run(list_)):  # a graph a type
            error, x, y, exact = worst(made, got)
            name = made.op["name"]
            what = f"{name} {dtype}: of {x} came {y!r}, exact is {exact.value if isinstance(exact, Near) else exact}"
            if math.isinf(error):
                failures.append(what)
                continue
            if dtype not in FLOATING or got.dtype == bool:
                continue
            mine = errors.setdefault(name, {})
            mine[dtype] = max(mine.get(dtype, 0), error)
            if verbose:
                print(f"{name} {dtype}: {error:.3g} ulp at {x}")
            allowed = bound_of(bounds, name, dtype)
            if not write and (allowed is None or error > allowed):
                failures.append(f"{what}: {error:.3g} ulp, the bound is {allowed}")
    if write:
        made = {}
        for name, mine in sorted(errors.items()):
            least = 0.51 if max(mine.values()) > 0.5 else 0  # right rounding in some types only is luck
            made[name] = {t: max(least, bound(e)) for t, e in sorted(mine.items())}
        with open(BOUNDS, "w", encoding="utf-8") as f:
            f.write("{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in made.items()) + "\n}\n")
    for name in set(bounds) - {o["name"] for o in ops} if not names and not write else ():
        failures.append(f"{name}: ulp_bounds.json has it, the registry does not")
    for f in failures:
        print("FAIL", f)
    count = sum(len(made.values[0]) for list_ in by_type.values() for made in list_)
    print(f"elementwise_sweep: {len(ops)} ops, {len(by_type)} types, {count} values, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
