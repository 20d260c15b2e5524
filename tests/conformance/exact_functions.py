# What every elementwise op computes, exactly: floats by mpmath, integers by Python's.
# SPDX-License-Identifier: Apache-2.0
"""FLOATS[op](x, y, ..., **attributes) takes Python floats and gives an mpf, a float (infinities, NaN, signed operands' results)
or an Near(value, scale): a value that is a difference of larger numbers, whose error is counted in units of the last place of
`scale`. None: not judged (a step of the op's documented formula overflows where the value does not).
INTEGERS[op](x, y, ..., wrap=, **attributes) takes and gives ints; wrap() takes a number into the type. An op that is in
neither may have its function beside its reference: @exact in references/table.py."""
import importlib
import math
import os
from fractions import Fraction

from mpmath import mp, mpf

mp.prec = 160
INF, NAN = math.inf, math.nan


class Near:
    def __init__(self, value, scale):
        self.value, self.scale = value, scale


def pole(x):
    """1 / x for a zero x."""
    return math.copysign(INF, x)


def by(fn, high=NAN, low=NAN, zero=None, least=None, most=None):
    """fn on mpf where it is real and finite; its limits at infinity; NaN outside [least, most]."""

    def of(x):
        if math.isnan(x) or (least is not None and x < least) or (most is not None and x > most):
            return NAN
        if math.isinf(x):
            return high if x > 0 else low
        if x == 0 and zero is not None:
            return zero(x)
        return fn(mpf(x))

    return of


def sigmoid(x):
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def acosh(x):
    t = x - 1
    return mp.log1p(t + mp.sqrt(2 * t + t * t))


def asinh(x):
    a = abs(x)
    return mp.sign(x) * mp.log1p(a + a * a / (1 + mp.sqrt(1 + a * a)))


def atanh(x):
    return INF * float(mp.sign(x)) if abs(x) == 1 else mp.log1p(2 * x / (1 - x)) / 2


def is_pole(x):
    return math.isfinite(x) and x <= 0 and x == math.floor(x)


def erf(x):
    return mp.erf(x) if abs(x) < 1000 else mp.sign(x)


def erfc(x):
    return mp.erfc(x) if abs(x) < 1000 else 1 - mp.sign(x)


def lgamma(x):
    if is_pole(x):
        return INF
    return by(lambda v: Near(mp.log(abs(mp.gamma(v))) if abs(v) < 200 else mp.re(mp.loggamma(v)), 1), INF, INF)(x)


def psi(n, x):
    """digamma and trigamma; mpmath steps up from negative x one by one."""
    if x > 0:
        return mp.psi(n, x)
    return mp.psi(0, 1 - x) - mp.pi / mp.tan(mp.pi * x) if n == 0 else (mp.pi / mp.sin(mp.pi * x)) ** 2 - mp.psi(1, 1 - x)


def polygamma(n, at_pole):
    def of(x):
        if x == 0:
            return at_pole(x)
        if is_pole(x):
            return NAN if n == 0 else INF
        return by(lambda v: Near(psi(n, v), 1 if n == 0 else 0), INF if n == 0 else 0.0, NAN if n == 0 else INF)(x)

    return of


def whole(fn):
    """A rounding of a float to an integer, exact; infinities and NaN stay."""
    return lambda x: x if not math.isfinite(x) else mpf(int(fn(Fraction(x))))


def sign(x):
    return x if math.isnan(x) else float((x > 0) - (x < 0))


def gauss(x):
    """The normal distribution's function."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def density(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def tanh_of_cubic(x):
    return mp.tanh(mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3))


def fast_gelu_slope(x):
    t = tanh_of_cubic(x)
    return (1 + t) / 2 + x / 2 * (1 - t * t) * mp.sqrt(2 / mp.pi) * (1 + 3 * mpf("0.044715") * x * x)


def nan_or(fn):
    """fn where no operand is NaN."""
    return lambda *operands, **attrs: NAN if any(math.isnan(v) for v in operands) else fn(*operands, **attrs)


def arithmetic(op):
    """Of two floats, by IEEE: what numpy's f64 gives where an operand is special, exact elsewhere."""

    def of(x, y):
        if not (math.isfinite(x) and math.isfinite(y)):
            return ieee(op, x, y)
        if op == "/" and y == 0:
            return ieee(op, x, y)
        a, b = Fraction(x), Fraction(y)
        return ratio({"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op]())

    return of


def ratio(f):
    return mpf(f.numerator) / mpf(f.denominator) if f.denominator & (f.denominator - 1) else mp.ldexp(f.numerator, 1 - f.denominator.bit_length())


def ieee(op, x, y):
    import numpy as np

    with np.errstate(all="ignore"):
        x, y = np.float64(x), np.float64(y)
        return float({"+": x + y, "-": x - y, "*": x * y, "/": x / y}[op])


def fmod(x, y):
    if math.isinf(x) or y == 0:
        return NAN
    return x if math.isinf(y) else math.fmod(x, y)  # exact in f64


def floor_mod(x, y):
    r = fmod(x, y)
    if math.isnan(r) or r == 0 or (r < 0) == (y < 0):
        return r
    return y if math.isinf(y) else ratio(Fraction(r) + Fraction(y))


def quotient(rounded, infinite):
    def of(x, y):
        if y == 0:
            return ieee("/", x, y)
        if math.isinf(x):
            return infinite(x, y)
        if math.isinf(y):
            return float(rounded(Fraction(0) if x == 0 or (x > 0) == (y > 0) else Fraction(-1, 2)))
        return mpf(rounded(Fraction(x) / Fraction(y)))

    return of


def power(x, y):
    """C's pow."""
    if y == 0 or x == 1:
        return 1.0
    if math.isnan(x) or math.isnan(y):
        return NAN
    if x == 0 or math.isinf(x) or math.isinf(y):
        try:
            return math.pow(x, y)
        except (ValueError, ZeroDivisionError):  # 0 to a negative power
            odd = y == math.floor(y) and y % 2 == 1
            return math.copysign(INF, x) if odd else INF
    if x < 0:
        if y != math.floor(y):
            return NAN
        return (-1) ** (int(y) % 2) * mp.power(-mpf(x), mpf(y))
    return mp.power(mpf(x), mpf(y))


def atan2(x, y):
    if x == 0 or y == 0 or math.isinf(x) or math.isinf(y):  # a multiple of pi / 4
        return mp.pi * round(math.atan2(x, y) / (math.pi / 4)) / 4
    return mp.atan2(mpf(x), mpf(y))


def xlogy(x, y):
    if x == 0:
        return 0.0
    if y == 0 or y < 0 or math.isinf(x) or math.isinf(y):
        log = NAN if y < 0 else -INF if y == 0 else INF if math.isinf(y) else math.log(y)
        return ieee("*", x, log)
    return mpf(x) * mp.log(mpf(y))


def lerp(x, y, w):
    if not all(map(math.isfinite, (x, y, w))):
        return ieee("+", x, ieee("*", w, ieee("-", y, x)))
    a, b, c = Fraction(x), Fraction(y), Fraction(w)
    part = c * (b - a)
    return Near(ratio(a + part), max(ratio(abs(a)), ratio(abs(part))))


def extreme(pick):
    return nan_or(lambda x, y: pick(x, y))


def limit(x, low=-INF, high=INF):
    return x if math.isnan(x) else min(max(x, low), high)


def smooth(fn, scale=None, high=NAN, low=NAN):
    """An activation: fn on mpf; `scale` of the operand where it cancels."""

    def of(x, **attrs):
        if math.isnan(x):
            return NAN
        if math.isinf(x):
            return high if x > 0 else low(attrs) if callable(low) else low
        value = fn(mpf(x), **{k: mpf(v) for k, v in attrs.items()})
        return Near(value, scale(mpf(x))) if scale else value

    return of


def slope(fn, scale=None):
    """The gradient dy * fn(x) of finite operands."""

    def of(x, dy, **attrs):
        if not (math.isfinite(x) and math.isfinite(dy)):
            return NAN if math.isnan(x) or math.isnan(dy) else None
        value = fn(mpf(x), **{k: mpf(v) for k, v in attrs.items()})
        return Near(value * mpf(dy), abs(mpf(dy)) * (scale(mpf(x)) if scale else 0))

    return of


def choose(condition, x, y):
    return x if condition else y


def exp_unit(x, alpha):
    return x if x > 0 else alpha * mp.expm1(x)


FLOATS = {
    "abs": lambda x: abs(x), "negative": lambda x: -x, "sign": sign,
    "square": by(lambda x: x * x, INF, INF),
    "exp": by(mp.exp, INF, 0.0), "exp2": by(lambda x: mp.power(2, x), INF, 0.0), "expm1": by(mp.expm1, INF, -1.0),
    "log": by(mp.log, INF, NAN, lambda x: -INF, 0), "log2": by(lambda x: mp.log(x) / mp.ln2, INF, NAN, lambda x: -INF, 0),
    "log10": by(lambda x: mp.log(x) / mp.ln10, INF, NAN, lambda x: -INF, 0),
    "log1p": by(lambda x: mp.log1p(x) if x > -1 else -INF, INF, NAN, None, -1),
    "sqrt": by(mp.sqrt, INF, NAN, None, 0), "rsqrt": by(lambda x: 1 / mp.sqrt(x), 0.0, NAN, pole, 0),
    "reciprocal": by(lambda x: 1 / x, 0.0, 0.0, pole), "reciprocal_no_nan": by(lambda x: 1 / x, 0.0, 0.0, lambda x: 0.0),
    "sin": by(mp.sin), "cos": by(mp.cos), "tan": by(mp.tan),
    "asin": by(mp.asin, least=-1, most=1), "acos": by(mp.acos, least=-1, most=1), "atan": by(mp.atan, mp.pi / 2, -mp.pi / 2),
    "sinh": by(mp.sinh, INF, -INF), "cosh": by(mp.cosh, INF, INF), "tanh": by(mp.tanh, 1.0, -1.0),
    "asinh": by(asinh, INF, -INF), "acosh": by(acosh, INF, NAN, None, 1), "atanh": by(atanh, least=-1, most=1),
    "erf": by(erf, 1.0, -1.0), "erfc": by(erfc, 0.0, 2.0),
    "lgamma": lgamma, "digamma": polygamma(0, lambda x: -pole(x)), "trigamma": polygamma(1, lambda x: INF),
    "sigmoid": by(sigmoid, 1.0, 0.0), "log_sigmoid": by(lambda x: -softplus(-x), 0.0, -INF),
    "floor": whole(math.floor), "ceil": whole(math.ceil), "round": whole(round), "rint": whole(round), "trunc": whole(math.trunc),
    "frac": lambda x: NAN if not math.isfinite(x) else ratio(Fraction(x) - math.trunc(x)),
    "isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite,
    "logical_not": lambda x: x == 0, "not_equal_zero": lambda x: float(x != 0),
    "relu": lambda x: x if math.isnan(x) else max(x, 0.0), "square_relu": by(lambda x: x * x if x > 0 else mpf(0), INF, 0.0),
    "leaky_relu": smooth(lambda x, alpha: x if x > 0 else alpha * x, None, INF, -INF),
    "gelu": smooth(lambda x: x * gauss(x), abs, INF), "fast_gelu": smooth(lambda x: x / 2 * (1 + tanh_of_cubic(x)), abs, INF),
    "quick_gelu": smooth(lambda x: x * sigmoid(mpf("1.702") * x), None, INF), "silu": smooth(lambda x: x * sigmoid(x), None, INF),
    "elu": smooth(exp_unit, None, INF, lambda a: -a["alpha"]),
    "celu": smooth(lambda x, alpha: x if x > 0 else alpha * mp.expm1(x / alpha), None, INF, lambda a: -a["alpha"]),
    "selu": smooth(lambda x: mpf("1.0507009873554804934193349852946") * exp_unit(x, mpf("1.6732632423543772848170429916717")), None, INF, -1.7580993408473766),
    "mish": smooth(lambda x: x * mp.tanh(softplus(x)), None, INF),
    "softplus": smooth(lambda x, beta, threshold: x if beta * x > threshold else softplus(beta * x) / beta, None, INF, 0.0),
    "softsign": smooth(lambda x: x / (1 + abs(x))),
    "softshrink": smooth(lambda x, alpha: mp.sign(x) * max(abs(x) - alpha, mpf(0)), None, INF, -INF),
    "hardshrink": smooth(lambda x, lambd: x if abs(x) > lambd else mpf(0), None, INF, -INF),
    "hardswish": smooth(lambda x: x * min(max(x + 3, 0), 6) / 6, None, INF, 0.0),
    "hardsigmoid": smooth(lambda x: mpf(min(max(x + 3, 0), 6)) / 6, None, 1.0, 0.0),
    "hardtanh": lambda x, min_val, max_val: limit(x, min_val, max_val),
    "threshold": lambda x, threshold_val, value: value if x <= threshold_val else x,
    "clip_by_scalar": lambda x, floating_min, floating_max, **_: limit(x, floating_min, floating_max),
    "clip_by_scalar_min": lambda x, floating_min, **_: limit(x, low=floating_min),
    "clip_by_scalar_max": lambda x, floating_max, **_: limit(x, high=floating_max),
    "broadcast_add": arithmetic("+"), "broadcast_sub": arithmetic("-"), "broadcast_mul": arithmetic("*"), "broadcast_div": arithmetic("/"),
    "broadcast_fmod": nan_or(fmod), "broadcast_floor_mod": nan_or(floor_mod),
    "floordiv": nan_or(quotient(math.floor, lambda x, y: NAN)), "truncdiv": nan_or(quotient(math.trunc, lambda x, y: ieee("/", x, y))),
    "broadcast_pow": power, "broadcast_maximum": extreme(max), "broadcast_minimum": extreme(min),
    "atan2": nan_or(atan2), "xlogy": nan_or(xlogy), "xdivy": nan_or(lambda x, y: 0.0 if x == 0 else FLOATS["broadcast_div"](x, y)),
    "lerp": nan_or(lerp),
    "where": choose,
    "broadcast_equal": lambda x, y: x == y, "broadcast_not_equal": lambda x, y: x != y, "broadcast_less": lambda x, y: x < y,
    "broadcast_less_equal": lambda x, y: x <= y, "broadcast_greater": lambda x, y: x > y, "broadcast_greater_equal": lambda x, y: x >= y,
    "broadcast_logical_and": lambda x, y: x != 0 and y != 0, "broadcast_logical_or": lambda x, y: x != 0 or y != 0,
    "broadcast_logical_xor": lambda x, y: (x != 0) != (y != 0),
    # Gradient operators that are written out, as functions of their operands.
    "relu_grad": lambda y, dy: dy if y > 0 else 0.0,
    "leaky_relu_grad": lambda x, dy, alpha: dy if x > 0 else FLOATS["broadcast_mul"](dy, alpha),
    "sigmoid_grad": slope(lambda y: y * (1 - y)),
    "tanh_grad": slope(lambda x: mp.sech(x) ** 2, lambda x: 1),
    "gelu_grad": slope(lambda x: gauss(x) + x * density(x), lambda x: 1),
    "fast_gelu_grad": slope(fast_gelu_slope, lambda x: 1 + abs(x)),
    "silu_grad": slope(lambda x: sigmoid(x) * (1 + x * sigmoid(-x)), lambda x: sigmoid(x) * (1 + abs(x))),
    "quick_gelu_grad": slope(lambda x: sigmoid(mpf("1.702") * x) * (1 + mpf("1.702") * x * sigmoid(-mpf("1.702") * x)),
                             lambda x: sigmoid(mpf("1.702") * x) * (1 + 2 * abs(x))),
}


def loss_slope(fn):
    def of(x, target, dy, **attrs):
        if not all(map(math.isfinite, (x, target, dy))):
            return None
        value, scale = fn(mpf(x), mpf(target), **{k: mpf(v) for k, v in attrs.items()})
        return Near(value * mpf(dy), scale * abs(mpf(dy)))

    return of


FLOATS["binary_cross_entropy_grad"] = loss_slope(lambda x, t: ((x - t) / max(x * (1 - x), mpf("1e-12")), 0))
FLOATS["binary_cross_entropy_with_logits_grad"] = loss_slope(lambda x, t: (sigmoid(x) - t, max(sigmoid(x), abs(t))))
FLOATS["smooth_l1_loss_grad"] = loss_slope(lambda x, t, beta: ((x - t) / beta if abs(x - t) < beta else mp.sign(x - t), 0))


def operand(attrs, integral=False):
    """The number of a scalar_* op."""
    if attrs.pop("has_int_operand", False):
        v = attrs.pop("int_operand")
    else:
        v = attrs.pop("float_operand", None)
    for name in ("has_float_operand", "int_operand", "float_operand", "has_bool_operand", "bool_operand", "exponent"):
        attrs.pop(name, None)
    return int(v) if integral else float(v)


def with_number(name):
    """The scalar_* form of an op of two tensors."""
    FLOATS["scalar_" + name.removeprefix("broadcast_")] = lambda x, **attrs: FLOATS[name](x, operand(attrs))


for name in ("broadcast_add", "broadcast_mul", "broadcast_div", "broadcast_fmod", "floordiv", "truncdiv", "broadcast_pow",
             "broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor"):
    with_number(name)
for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    FLOATS["scalar_logical_" + name] = lambda x, name=name, **attrs: FLOATS["broadcast_" + name](x, operand(attrs))
FLOATS["scalar_reverse_pow"] = lambda x, **attrs: power(operand(attrs), x)
FLOATS["scalar_lerp"] = lambda x, y, **attrs: lerp(x, y, operand(attrs))
FLOATS["masked_fill"] = lambda x, mask, **attrs: operand(attrs) if mask else x
for name, same in (("multiply", "broadcast_mul"), ("pow", "broadcast_pow"), ("elementwise_maximum", "broadcast_maximum"),
                   ("elementwise_minimum", "broadcast_minimum"), ("scalar_add_by_tensor", "broadcast_add"),
                   ("scalar_sub_by_tensor", "broadcast_sub"), ("scalar_mul_by_tensor", "broadcast_mul"),
                   ("scalar_div_by_tensor", "broadcast_div")):
    FLOATS[name] = FLOATS[same]


# --- integers -------------------------------------------------------------------------------------------------------------------


def int_div(x, y):
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def int_fmod(x, y):
    return 0 if y == 0 else x - y * int_div(x, y)


def int_power(x, y):
    if y >= 0:
        return pow(x, y, 2**64)
    return 1 if x == 1 else (-1 if y % 2 else 1) if x == -1 else 0


INTEGERS = {
    "abs": abs, "negative": lambda x: -x, "sign": lambda x: (x > 0) - (x < 0), "square": lambda x: x * x,
    "relu": lambda x: max(x, 0), "isnan": lambda x: False, "isinf": lambda x: False, "isfinite": lambda x: True,
    "logical_not": lambda x: x == 0, "not_equal_zero": lambda x: int(x != 0), "bitwise_not": lambda x: ~x,
    "clip_by_scalar": lambda x, integral_min, integral_max, **_: min(max(x, integral_min), integral_max),
    "clip_by_scalar_min": lambda x, integral_min, **_: max(x, integral_min),
    "clip_by_scalar_max": lambda x, integral_max, **_: min(x, integral_max),
    "broadcast_add": lambda x, y: x + y, "broadcast_sub": lambda x, y: x - y, "broadcast_mul": lambda x, y: x * y,
    "broadcast_div": int_div, "truncdiv": int_div, "floordiv": lambda x, y: 0 if y == 0 else x // y,
    "broadcast_fmod": int_fmod, "broadcast_floor_mod": lambda x, y: 0 if y == 0 else x % y,
    "broadcast_pow": int_power, "broadcast_maximum": max, "broadcast_minimum": min,
    "broadcast_bitwise_and": lambda x, y: x & y, "broadcast_bitwise_or": lambda x, y: x | y, "broadcast_bitwise_xor": lambda x, y: x ^ y,
    "where": choose,
}
for name in list(FLOATS):
    if name.startswith(("broadcast_equal", "broadcast_not", "broadcast_less", "broadcast_greater", "broadcast_logical")):
        INTEGERS[name] = FLOATS[name]
for name in ("broadcast_add", "broadcast_mul", "broadcast_div", "broadcast_fmod", "floordiv", "truncdiv", "broadcast_pow",
             "broadcast_bitwise_and", "broadcast_bitwise_or", "broadcast_bitwise_xor",
             "broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor"):
    INTEGERS["scalar_" + name.removeprefix("broadcast_")] = lambda x, name=name, **attrs: INTEGERS[name](x, operand(attrs, True))
for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    INTEGERS["scalar_logical_" + name] = lambda x, name=name, **attrs: INTEGERS["broadcast_" + name](x, operand(attrs, True))
INTEGERS["masked_fill"] = lambda x, mask, **attrs: (operand(attrs) != 0 if isinstance(x, bool) else operand(attrs, True)) if mask else x
for name, same in (("multiply", "broadcast_mul"), ("elementwise_maximum", "broadcast_maximum"), ("elementwise_minimum", "broadcast_minimum"),
                   ("scalar_add_by_tensor", "broadcast_add"), ("scalar_sub_by_tensor", "broadcast_sub"),
                   ("scalar_mul_by_tensor", "broadcast_mul"), ("scalar_div_by_tensor", "broadcast_div")):
    INTEGERS[name] = INTEGERS[same]


# --- beside references ----------------------------------------------------------------------------------------------------------


def beside_reference(op):
    """What @exact says of an op in references/OP.py, or None."""
    if not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "references", f"{op}.py")):
        return None  # and no other reference is imported, which may need PyTorch
    importlib.import_module(f"references.{op}")
    return importlib.import_module("references.table").EXACT.get(op)


def with_mpf(fn):
    """As FLOATS and INTEGERS have it, of a function of mpf that @exact gave."""

    def of(*x, **attrs):
        if any(math.isnan(v) for v in x):
            return NAN
        take = lambda v: mpf(v) if isinstance(v, float) else v  # noqa: E731
        value = fn(*map(take, x), **{k: take(v) for k, v in attrs.items()})
        return value if value is None or mp.isfinite(value) else float(value)

    return of


def exact_function(op, floating=True):
    """That of the tables, or the one beside the op's reference; None without any."""
    table = FLOATS if floating else INTEGERS
    if op in table:
        return table[op]
    beside = beside_reference(op)
    return with_mpf(beside.fn) if beside else None
