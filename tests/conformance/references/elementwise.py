# References of the elementwise families: unary, binary with broadcasting, comparison, logical, scalar.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
import torch.nn.functional as F
from torch import special

from .table import REFERENCES, Typed, reference


def t(a):
    return torch.from_numpy(np.array(a, order="C"))  # a copy keeps rank 0, which ascontiguousarray does not


def unary(name, fn):
    """An op of one tensor, by a torch function."""
    REFERENCES[name] = lambda c: fn(t(c.only())).numpy()


def unary_attr(name, fn):
    """An op of one tensor and attributes: fn(case, tensor)."""
    REFERENCES[name] = lambda c: fn(c, t(c.only())).numpy()


sqrt_2_over_pi = float(np.sqrt(2 / np.pi))

for name, fn in {
    "abs": torch.abs, "negative": torch.neg, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
    "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "square": torch.square, "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
    "erf": torch.erf, "erfc": torch.erfc, "lgamma": torch.lgamma, "digamma": torch.digamma,
    "trigamma": lambda x: special.polygamma(1, x), "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "rint": torch.round, "trunc": torch.trunc, "sign": torch.sign, "relu": torch.relu, "sigmoid": torch.sigmoid,
    "sigmoid_v2": torch.sigmoid, "gelu": F.gelu, "silu": F.silu, "mish": lambda x: x * torch.tanh(F.softplus(x)),
    "selu": F.selu, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "log_sigmoid": F.logsigmoid,
    "logsigmoid": F.logsigmoid, "softsign": F.softsign, "identity": lambda x: x.clone(), "copy": lambda x: x.clone(),
    "fast_gelu": lambda x: 0.5 * x * (1 + torch.tanh(sqrt_2_over_pi * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "square_relu": lambda x: torch.relu(x) ** 2,
    "reciprocal_no_nan": lambda x: torch.where(x == 0, torch.zeros_like(x), 1 / x),
    "relu6": F.relu6, "amp_white_identity": lambda x: x.clone(),
    "amp_black_identity": lambda x: x.clone(), "frac": torch.frac, "sinc": torch.sinc, "erfinv": torch.erfinv,
    "i0": special.i0, "i0e": special.i0e, "i1": special.i1, "i1e": special.i1e, "exp2_": torch.exp2,
    "tanhshrink": F.tanhshrink,
}.items():
    unary(name, fn)

for name, fn in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": lambda x: x == 0,
                 "is_nan": np.isnan}.items():
    REFERENCES[name] = lambda c, fn=fn: Typed(fn(c.only()), "bool")

REFERENCES["bitwise_not"] = lambda c: 1 - c.only() if c.dtype == "bool" else ~c.only()
REFERENCES["not_equal_zero"] = lambda c: (c.only() != 0).astype(c.only().dtype)  # 0 or 1 in the input's type
unary_attr("leaky_relu", lambda c, x: F.leaky_relu(x, c.attr("alpha")))
unary_attr("elu", lambda c, x: F.elu(x, c.attr("alpha", default=1.0)))
unary_attr("celu", lambda c, x: F.celu(x, c.attr("alpha", default=1.0)))
unary_attr("hardtanh", lambda c, x: torch.clamp(x, c.attr("min_val"), c.attr("max_val")))
unary_attr("hardshrink", lambda c, x: F.hardshrink(x, c.attr("lambd")))
unary_attr("softshrink", lambda c, x: F.softshrink(x, c.attr("alpha", "lambd")))
unary_attr("threshold", lambda c, x: torch.where(x > c.attr("threshold_val"), x, torch.full_like(x, c.attr("value"))))
unary_attr("softplus", lambda c, x: F.softplus(x, c.attr("beta", default=1.0), c.attr("threshold", default=20.0)))
unary_attr("mvlgamma", lambda c, x: torch.mvlgamma(x, c.attr("p")))


def clip(low, high):
    def fn(c):
        x = c.only()
        kind = "floating" if c.floating else "integral"
        if low:
            x = np.maximum(x, c.attr(f"{kind}_min"))
        if high:
            x = np.minimum(x, c.attr(f"{kind}_max"))
        return x

    return fn


REFERENCES["clip_by_scalar"] = clip(True, True)
REFERENCES["clip_by_scalar_min"] = clip(True, False)
REFERENCES["clip_by_scalar_max"] = clip(False, True)


# --- two tensors -----------------------------------------------------------------------------------------------------
def int_pow(x, y):
    """Integer powers modulo 2^64; a negative exponent truncates towards zero, as in C++."""
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, np.int64)
    for i in np.ndindex(x.shape):
        b, e = int(x[i]), int(y[i])
        if e >= 0:
            v = pow(b, e, 1 << 64)
            out[i] = v - (1 << 64) if v >= 1 << 63 else v
        else:
            out[i] = 1 if b == 1 else (1 if e % 2 == 0 else -1) if b == -1 else 0
    return out


def trunc_div(x, y):
    if np.issubdtype(x.dtype, np.integer):
        x, y = np.broadcast_arrays(x, y)
        return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))
    return x / y


def divide(x, y):
    return trunc_div(x, y)


def power(x, y):
    return int_pow(x, y) if np.issubdtype(x.dtype, np.integer) else np.power(x, y)


def xlogy(x, y):
    return torch.xlogy(t(x), t(y)).numpy()


def xdivy(x, y):
    x, y = np.broadcast_arrays(x, y)
    return np.where(x == 0, 0.0, x / np.where(y == 0, 1, y))


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide, "maximum": np.maximum,
    "minimum": np.minimum, "pow": power, "fmod": np.fmod, "floor_mod": np.mod, "atan2": np.arctan2, "xlogy": xlogy,
    "xdivy": xdivy, "hypot": np.hypot, "squared_difference": lambda x, y: (x - y) ** 2,
    "floordiv": np.floor_divide, "floor_div": np.floor_divide,
    "truncdiv": lambda x, y: np.trunc(x / y) if x.dtype.kind == "f" else trunc_div(x, y),
    "trunc_div": lambda x, y: np.trunc(x / y) if x.dtype.kind == "f" else trunc_div(x, y),
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}
COMPARE = {
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "less": np.less, "less_equal": np.less_equal, "logical_and": lambda x, y: (x != 0) & (y != 0),
    "logical_or": lambda x, y: (x != 0) | (y != 0), "logical_xor": lambda x, y: (x != 0) ^ (y != 0),
}


def two(c):
    """The two operands in the definition's order."""
    tensors = [v[0] for v in c.inputs.values() if v]
    if len(tensors) == 1:  # one argument that binds two tensors
        tensors = [v for v in c.inputs.values() if v][0]
    return tensors


for base, fn in BINARY.items():
    for name in (f"broadcast_{base}", f"elementwise_{base}", base):
        REFERENCES.setdefault(name, lambda c, fn=fn: fn(*two(c)))
    scalar = lambda c, fn=fn: fn(c.only(), np.asarray(c.operand()).astype(c.only().dtype))  # noqa: E731
    REFERENCES[f"scalar_{base}"] = scalar
    REFERENCES[f"scalar_{base}_by_tensor"] = lambda c, fn=fn: fn(c.get("x"), c.get("scalar"))
for base, fn in COMPARE.items():
    for name in (f"broadcast_{base}", f"elementwise_{base}", base):
        REFERENCES.setdefault(name, lambda c, fn=fn: Typed(fn(*two(c)), "bool"))
    for name in (f"scalar_{base}", f"scalar_logical_{base}"):
        REFERENCES[name] = lambda c, fn=fn: Typed(fn(c.only(), c.operand()), "bool")
for base in ("and", "or", "xor"):
    REFERENCES[f"scalar_logical_{base}"] = lambda c, fn=COMPARE[f"logical_{base}"]: Typed(fn(c.only(), c.operand()), "bool")

REFERENCES["multiply"] = lambda c: np.multiply(*two(c))
REFERENCES["multiply_"] = REFERENCES["multiply"]
REFERENCES["broadcast_isclose_eq_nan"] = lambda c: Typed(np.isclose(*two(c), rtol=c.attr("rtol"), atol=c.attr("atol"), equal_nan=True), "bool")
REFERENCES["broadcast_isclose_neq_nan"] = lambda c: Typed(np.isclose(*two(c), rtol=c.attr("rtol"), atol=c.attr("atol")), "bool")


@reference("scalar_pow")
def scalar_pow(c):
    e = c.attr("exponent")
    if e is None or c.attr("has_int_operand", default=False) or c.attr("has_float_operand", default=False):
        e = c.operand()
    return power(c.only(), np.asarray(e).astype(c.only().dtype))


REFERENCES["scalar_reverse_pow"] = lambda c: power(np.asarray(c.operand()).astype(c.only().dtype), c.only())
REFERENCES["scalar_reverse_div"] = lambda c: divide(np.asarray(c.operand()).astype(c.only().dtype), c.only())
REFERENCES["scalar_reverse_sub"] = lambda c: np.asarray(c.operand()).astype(c.only().dtype) - c.only()


@reference("add_n")
def add_n(c):
    return np.sum(np.stack(c.all("in")), axis=0)


@reference("prelu")
def prelu(c):
    x, alpha = c.get("x"), c.get("alpha")
    if alpha.ndim == 1 and x.ndim > 1:
        alpha = alpha.reshape((1, -1) + (1,) * (x.ndim - 2))
    return np.where(x > 0, x, alpha * x)


@reference("lerp")
def lerp(c):
    start, end, weight = c.get("start"), c.get("end"), c.get("weight")
    return start + weight * (end - start)


@reference("scalar_lerp")
def scalar_lerp(c):
    return c.get("start") + c.operand() * (c.get("end") - c.get("start"))


@reference("where")
def where(c):
    return np.where(c.get("condition") != 0, c.get("x"), c.get("y"))


REFERENCES["where_scalar_xy"] = lambda c: np.where(c.get("condition") != 0, c.attr("x_float_operand"), c.attr("y_float_operand"))


@reference("masked_fill")
def masked_fill(c):
    return np.where(c.get("mask") != 0, np.asarray(c.operand()).astype(c.get("x").dtype), c.get("x"))


@reference("cast")
def cast(c):
    return cast_to(c.only(), c.attr("dtype"))


@reference("cast_like")
def cast_like(c):
    return cast_to(c.get("in"), c.types["dtype_like"])


def cast_to(x, dtype):
    if dtype == "bool":
        return Typed(x != 0, "bool")
    if dtype in ("f16", "bf16", "f32", "f64"):
        return Typed(x.astype(np.float64), dtype)
    return Typed(np.trunc(x).astype(np.int64), dtype)


# --- gradients of elementwise ops: f' by torch's autograd ----------------------------------------------------------------
def derivative(fn, dy, *tensors):
    """dy times the derivative of fn by its first tensor."""
    leaves = [t(a).clone().requires_grad_(i == 0) for i, a in enumerate(tensors)]
    fn(*leaves).backward(t(dy))
    return leaves[0].grad.numpy()


def unary_grad(name, fn):
    REFERENCES[f"{name}_grad"] = lambda c: derivative(lambda x: fn(c, x), c.get("dy"), c.get("x", "in"))


for name in ("abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh "
             "asinh acosh atanh erf erfc lgamma digamma negative floor ceil round sign").split():
    fn = {"negative": torch.neg}.get(name) or getattr(torch, name)
    unary_grad(name, lambda c, x, fn=fn: fn(x))
for name, fn in {"gelu": F.gelu, "silu": F.silu, "mish": F.mish, "selu": F.selu, "hardswish": F.hardswish,
                 "hardsigmoid": F.hardsigmoid, "log_sigmoid": F.logsigmoid, "softsign": F.softsign, "tanh": torch.tanh}.items():
    unary_grad(name, lambda c, x, fn=fn: fn(x))
unary_grad("leaky_relu", lambda c, x: F.leaky_relu(x, c.attr("alpha")))
unary_grad("elu", lambda c, x: F.elu(x, c.attr("alpha", default=1.0)))
unary_grad("celu", lambda c, x: F.celu(x, c.attr("alpha", default=1.0)))
unary_grad("softplus", lambda c, x: F.softplus(x, c.attr("beta", default=1.0), c.attr("threshold", default=20.0)))
unary_grad("scalar_pow", lambda c, x: x ** (c.attr("exponent") if "exponent" in c.attrs else c.operand()))

# These two take the forward result.
REFERENCES["relu_grad"] = lambda c: np.where(c.get("y") > 0, c.get("dy"), 0.0)
REFERENCES["sigmoid_grad"] = lambda c: c.get("dy") * c.get("y") * (1 - c.get("y"))


@reference("prelu")
def prelu(c):
    x, alpha = t(c.get("x")), t(c.get("alpha"))
    return F.prelu(x, alpha.reshape(-1)).numpy()
