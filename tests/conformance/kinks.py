# What gradients are where a function has a kink, a pole or an undefined product: the table of docs/numerics.md.
# SPDX-License-Identifier: Apache-2.0
"""KINKS: op, where (for the page), why that value, attributes, [(operands, first derivatives by each operand)].
SECOND: op, attributes, [(operand, second derivative)]: smooth functions that are written with a kink."""
import math

INF, NAN = math.inf, math.nan
LN2 = math.log(2)

KINKS = [
    ("abs", "0", "the middle", {}, [((0.0,), (0,)), ((-0.0,), (0,))]),
    ("relu", "0", "as PyTorch", {}, [((0.0,), (0,))]),
    ("square_relu", "0", "smooth", {}, [((0.0,), (0,))]),
    ("leaky_relu", "0", "the left side, as PyTorch", {"alpha": 0.25}, [((0.0,), (0.25,))]),
    ("elu", "0", "the left side, as PyTorch", {"alpha": 0.75}, [((0.0,), (0.75,))]),
    ("celu", "0", "smooth", {"alpha": 0.75}, [((0.0,), (1,))]),
    ("selu", "0", "the left side, as PyTorch", {}, [((0.0,), (1.0507009873554805 * 1.6732632423543772,))]),
    ("softsign", "0", "smooth", {}, [((0.0,), (1,))]),
    ("softshrink", "both ends of the flat part", "the flat side, as PyTorch", {"alpha": 0.5}, [((0.5,), (0,)), ((-0.5,), (0,))]),
    ("hardshrink", "both ends of the flat part", "the flat side, as PyTorch", {"lambd": 0.5}, [((0.5,), (0,)), ((-0.5,), (0,))]),
    ("hardtanh", "both limits", "the flat side, as PyTorch", {"min_val": -1.5, "max_val": 1.0}, [((-1.5,), (0,)), ((1.0,), (0,))]),
    ("hardsigmoid", "-3, 3", "the flat side, as PyTorch", {}, [((-3.0,), (0,)), ((3.0,), (0,))]),
    ("hardswish", "-3, 3", "outside: 0 and 1", {}, [((-3.0,), (0,)), ((3.0,), (1,))]),
    ("threshold", "the threshold", "the flat side, as PyTorch", {"threshold_val": 0.5, "value": -1.0}, [((0.5,), (0,))]),
    ("clip_by_scalar", "both limits", "1, as PyTorch's clamp", {"floating_min": -1.0, "floating_max": 1.5}, [((-1.0,), (1,)), ((1.5,), (1,)), ((1.6,), (0,)), ((-1.1,), (0,))]),
    ("clip_by_scalar_min", "the limit", "1, as PyTorch's clamp", {"floating_min": -0.5}, [((-0.5,), (1,)), ((-0.6,), (0,))]),
    ("clip_by_scalar_max", "the limit", "1, as PyTorch's clamp", {"floating_max": 0.5}, [((0.5,), (1,)), ((0.6,), (0,))]),
    ("broadcast_maximum", "x = y", "half each, as PyTorch", {}, [((2.0, 2.0), (0.5, 0.5))]),
    ("broadcast_minimum", "x = y", "half each, as PyTorch", {}, [((2.0, 2.0), (0.5, 0.5))]),
    ("broadcast_fmod", "x a multiple of y", "1 and minus the quotient, as PyTorch", {}, [((6.0, 3.0), (1, -2)), ((-6.0, 3.0), (1, 2)), ((1.0, 0.1), (1, -9))]),
    ("broadcast_floor_mod", "x a multiple of y", "1 and minus the quotient, as PyTorch", {}, [((6.0, 3.0), (1, -2)), ((-6.0, 3.0), (1, 2)), ((-1.0, 0.1), (1, 10))]),
    ("broadcast_pow", "x = 0, y > 0", "by x the limit, by y 0", {}, [((0.0, 2.0), (0, 0)), ((0.0, 1.0), (1, 0)), ((0.0, 0.5), (INF, 0))]),
    ("broadcast_pow", "x = 0, y = 0", "0 by both, as PyTorch", {}, [((0.0, 0.0), (0, 0))]),
    ("broadcast_pow", "x = 0, y < 0", "minus infinity by both, as PyTorch", {}, [((0.0, -1.0), (-INF, -INF)), ((0.0, -0.5), (-INF, -INF))]),
    ("broadcast_pow", "x < 0", "by y NaN: log x is", {}, [((-2.0, 2.0), (-4, NAN)), ((-2.0, 3.0), (12, NAN))]),
    ("broadcast_pow", "y = 0", "0 and log x", {}, [((2.0, 0.0), (0, LN2)), ((1e-310, 0.0), (0, math.log(1e-310)))]),
    ("pow", "x = 0", "as broadcast_pow", {}, [((0.0, 2.0), (0, 0)), ((0.0, -1.0), (-INF, -INF))]),
    ("scalar_pow", "0", "the limit", {"has_float_operand": True, "float_operand": 1.0}, [((0.0,), (1,))]),
    ("scalar_pow", "number 0", "0", {"has_float_operand": True, "float_operand": 0.0}, [((0.0,), (0,)), ((1e-310,), (0,)), ((-1e-310,), (0,)), ((INF,), (0,))]),
    ("xlogy", "x = 0, y > 0", "log y and 0", {}, [((0.0, 2.0), (LN2, 0)), ((0.0, 0.5), (-LN2, 0)), ((0.0, INF), (0, 0))]),
    ("xlogy", "x = 0, y <= 0", "0 by both; by x as PyTorch", {}, [((0.0, 0.0), (0, 0)), ((0.0, -1.0), (0, 0))]),
    ("xlogy", "x > 0, y = 0", "the limits", {}, [((2.0, 0.0), (-INF, INF))]),
    ("xdivy", "x = 0", "1 / y and 0", {}, [((0.0, 2.0), (0.5, 0)), ((0.0, -4.0), (-0.25, 0))]),
    ("xdivy", "x = 0, y = 0", "0 by both", {}, [((0.0, 0.0), (0, 0))]),
    ("atan2", "the origin", "NaN, as PyTorch", {}, [((0.0, 0.0), (NAN, NAN))]),
    ("sqrt", "0", "the limit", {}, [((0.0,), (INF,))]),
    ("reciprocal_no_nan", "0", "0", {}, [((0.0,), (0,)), ((2.0,), (-0.25,))]),
    ("asin", "-1, 1", "the limit", {}, [((1.0,), (INF,)), ((-1.0,), (INF,))]),
    ("acos", "-1, 1", "the limit", {}, [((1.0,), (-INF,)), ((-1.0,), (-INF,))]),
    ("lgamma", "near 0", "digamma, that is -1/x", {}, [((-1e-8,), (99999999.422784314424,)), ((-1e-16,), (1e16,)), ((-1e-300,), (1e300,)), ((0.0,), (-INF,)), ((-0.0,), (INF,))]),
    ("lgamma", "negative integers", "NaN", {}, [((-1.0,), (NAN,)), ((-7.0,), (NAN,))]),
    ("digamma", "near 0", "trigamma, that is 1/x^2", {}, [((-1e-8,), (1.0000000000000001e16,)), ((-1e-100,), (1e200,)), ((0.0,), (INF,)), ((-3.0,), (INF,))]),
    ("trigamma", "near 0", "-2/x^3", {}, [((-1e-8,), (2e24,)), ((1e-8,), (-2e24,)), ((0.0,), (-INF,))]),
]

SECOND = [
    ("log_sigmoid", {}, [(0.0, -0.25), (1.5, -0.14914645207033286), (-1.5, -0.14914645207033286)]),
    ("softplus", {"beta": 2.0, "threshold": 20.0}, [(0.0, 0.5), (0.75, 0.29829290414066571)]),
    ("scalar_pow", {"has_float_operand": True, "float_operand": 2.0}, [(0.0, 2.0), (-3.0, 2.0)]),
    ("scalar_pow", {"has_float_operand": True, "float_operand": 1.0}, [(0.0, 0.0), (2.0, 0.0), (1e-310, 0.0), (-1e-310, 0.0)]),
    ("scalar_pow", {"has_float_operand": True, "float_operand": 0.0}, [(0.0, 0.0), (2.0, 0.0)]),
    ("square_relu", {}, [(2.0, 2.0), (-2.0, 0.0)]),
    ("lgamma", {}, [(-1e-8, 1.0000000000000001e16), (1.0, math.pi**2 / 6)]),
    ("xlogy", {}, []),
]
