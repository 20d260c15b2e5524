# Element types from their definitions, in exact fractions: codes to values, values to the nearest code.
# SPDX-License-Identifier: Apache-2.0
"""The judge of conversions. A value is a Fraction, or one of the strings "nan", "inf", "-inf", "-0"."""
import json
from fractions import Fraction

import numpy as np


class Float:
    """A binary float by the width of its exponent and mantissa and its bias. `finite`: no infinities; the code of all
    ones is NaN, every other code a number. `unsigned_zero`: in place of -0 there is the one NaN, no infinities, and a
    bias that is one larger. `plain`: every code is a number; NaN becomes the largest."""

    def __init__(self, exponent, mantissa, finite=False, unsigned_zero=False, plain=False):
        self.exponent, self.mantissa, self.finite = exponent, mantissa, finite or unsigned_zero or plain
        self.unsigned_zero = unsigned_zero
        self.bias = (1 << (exponent - 1)) - 1 + unsigned_zero
        self.bits = 1 + exponent + mantissa
        self.sign = 1 << (self.bits - 1)
        self.special = (1 << exponent) - 1 << mantissa  # infinity where there is one
        self.nan = self.sign if unsigned_zero else self.sign - 1
        self.largest = self.sign - 1 if unsigned_zero or plain else self.nan - 1 if finite else self.special - 1

    def value(self, code):
        if self.unsigned_zero and code == self.nan:
            return "nan"
        negative, code = code >= self.sign, code & (self.sign - 1)
        if code > self.largest:
            return "nan" if self.finite or code != self.special else "-inf" if negative else "inf"
        if code == 0:
            return "-0" if negative else Fraction(0)
        e, m = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        significand = m if e == 0 else m + (1 << self.mantissa)
        v = significand * Fraction(2) ** (max(e, 1) - self.bias - self.mantissa)
        return -v if negative else v

    def code(self, v, saturate):
        """To nearest, ties to even. `saturate`: what is too large, infinity included, becomes the largest number."""
        if v == "nan":
            return self.nan
        if v in ("inf", "-inf", "-0"):
            sign = self.sign if v[0] == "-" else 0
            return 0 if v == "-0" and self.unsigned_zero else sign | (0 if v == "-0" else self.too_large(saturate))
        if v == 0:
            return 0
        sign, v = (self.sign if v < 0 else 0), abs(v)
        scale = v.numerator.bit_length() - v.denominator.bit_length()  # 2^scale within a factor of two of v
        if Fraction(2) ** scale > v:
            scale -= 1
        e = max(scale + self.bias, 1)
        steps = v / Fraction(2) ** (e - self.bias - self.mantissa)
        whole, rest = steps.numerator // steps.denominator, steps - steps.numerator // steps.denominator
        if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
            whole += 1
        code = whole + ((e - 1) << self.mantissa)  # carries into the exponent as the format has it
        if code == 0 and self.unsigned_zero:
            return 0
        return sign | (code if code <= self.largest else self.too_large(saturate))

    def too_large(self, saturate):
        return self.largest if saturate else self.nan if self.finite else self.special


class PowerOfTwo:
    """E8M0: 2 to the code less 127, NaN for 255. From a number the least one that is not smaller than the magnitude."""

    bits, largest, mantissa, sign, special, nan = 8, 254, 0, 0, 255, 255

    def value(self, code):
        return "nan" if code == 255 else Fraction(2) ** (code - 127)

    def code(self, v, saturate):
        if v in ("nan", "inf", "-inf"):
            return 255
        v = 0 if v == "-0" else abs(v)
        code = 0
        if v > Fraction(2) ** -127:
            code = max(0, v.numerator.bit_length() - v.denominator.bit_length() + 126)
            while Fraction(2) ** (code - 127) < v:
                code += 1
        return code if code <= 254 else 254 if saturate else 255


class Integer:
    def __init__(self, bits, signed):
        self.bits = bits
        self.lowest, self.highest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def value(self, code):
        return Fraction(code - (1 << self.bits) if code > self.highest else code)

    def code(self, v, from_integer):
        if v == "nan" or v == "-0":
            return 0
        if v in ("inf", "-inf"):
            v = self.highest if v == "inf" else self.lowest
        elif not from_integer:
            v = max(self.lowest, min(self.highest, int(v)))  # int() truncates toward zero
        return int(v) & ((1 << self.bits) - 1)


class Bool:
    bits = 8

    def value(self, code):
        return Fraction(1 if code else 0)

    def code(self, v, _):
        return int(v == "nan" or v != "-0" and v != 0)


# name: (name in graph files, the type that holds a code, format); f8 stand for ONNX's and MLIR's E4M3FN and E5M2.
TYPES = {
    "f32": ("kFloat", np.uint32, Float(8, 23)), "f64": ("kDouble", np.uint64, Float(11, 52)),
    "f16": ("kFloat16", np.uint16, Float(5, 10)), "bf16": ("kBFloat16", np.uint16, Float(8, 7)),
    "i8": ("kInt8", np.uint8, Integer(8, True)), "u8": ("kUInt8", np.uint8, Integer(8, False)),
    "i16": ("kInt16", np.uint16, Integer(16, True)), "u16": ("kUInt16", np.uint16, Integer(16, False)),
    "i32": ("kInt32", np.uint32, Integer(32, True)), "u32": ("kUInt32", np.uint32, Integer(32, False)),
    "i64": ("kInt64", np.uint64, Integer(64, True)), "u64": ("kUInt64", np.uint64, Integer(64, False)),
    "bool": ("kBool", np.uint8, Bool()),
    "f8e4m3fn": ("kFloat8E4M3FN", np.uint8, Float(4, 3, finite=True)), "f8e5m2": ("kFloat8E5M2", np.uint8, Float(5, 2)),
    "f8e4m3fnuz": ("kFloat8E4M3FNUZ", np.uint8, Float(4, 3, unsigned_zero=True)),
    "f8e5m2fnuz": ("kFloat8E5M2FNUZ", np.uint8, Float(5, 2, unsigned_zero=True)), "f8e8m0": ("kFloat8E8M0", np.uint8, PowerOfTwo()),
    "f4e2m1": ("kFloat4E2M1", np.uint8, Float(2, 1, plain=True)),
    "i4": ("kInt4", np.uint8, Integer(4, True)), "u4": ("kUInt4", np.uint8, Integer(4, False)),
    "i2": ("kInt2", np.uint8, Integer(2, True)), "u2": ("kUInt2", np.uint8, Integer(2, False)),
}
STORED = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2", "u2")  # which nothing computes in
STORED_FLOATS = STORED[:6]
FILE_TYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "bf16": "V2", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4",
              "u32": "<u4", "i64": "<i8", "u64": "<u8", "bool": "?", **dict.fromkeys(STORED, "V1")}


def convert(code, source, target, saturate=True):
    """The code of a `source` element in `target`, as the op cast converts it."""
    if source == target:
        return code
    value = TYPES[source][2].value(code)
    to = TYPES[target][2]
    if isinstance(to, Integer):
        return to.code(value, isinstance(TYPES[source][2], Integer))
    return to.code(value, saturate and to.bits <= 8)


def fits(code, source, target):
    """Whether a conversion only rounds: no number leaves the target's range, no infinity becomes something else."""
    value, to = TYPES[source][2].value(code), TYPES[target][2]
    if isinstance(to, Bool):
        return True
    if isinstance(to, Integer):
        return value == "-0" or not isinstance(value, str) and to.lowest <= int(value) <= to.highest
    if to is TYPES["f4e2m1"][2]:  # which has no code for what is too large: 7 is halfway to the next power of two
        return value == "-0" or not isinstance(value, str) and abs(value) < 7
    got = to.value(to.code(value, False))
    if value in ("inf", "-inf", "nan"):
        return got == value
    return got == "-0" or not isinstance(got, str)


def edge_codes(name):
    """Codes of a type that try its conversions: all of 8 bits; else zeros, limits, subnormals, specials, and for each type
    the neighbours of its limits, of halfway points between its numbers and of powers of two."""
    _, unsigned, form = TYPES[name]
    if isinstance(form, Bool):
        return [0, 1]
    if form.bits <= 8:
        return list(range(1 << form.bits))
    points = {Fraction(0), Fraction(1), Fraction(-1), Fraction(5, 2), Fraction(-3, 2), 1 + Fraction(1, 1 << 11) + Fraction(1, 1 << 30)}
    for _, _, to in TYPES.values():
        if isinstance(to, Integer):
            points |= {Fraction(x) + d for x in (to.lowest, to.highest) for d in (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1)}
        elif isinstance(to, (Float, PowerOfTwo)):
            codes = range(to.largest + 1) if to.bits <= 8 else [0, 1, 2, to.special >> 1, (1 << to.mantissa) - 1, 1 << to.mantissa, to.largest - 1, to.largest]
            for c in codes:  # the number, and halfway to the next
                here = to.value(c)
                step = here - to.value(c - 1) if c else Fraction(0)
                points |= {here, here + step / 2, -here - step / 2}
    for power in (11, 24, 31, 52, 53, 60, 62, 63):  # integers that lose bits on the way to a float
        points |= {Fraction((1 << power) + d) for d in (-1, 0, 1)} | {Fraction((1 << power) + (1 << max(power - 8, 0)) + d) for d in (-1, 0, 1)}
    codes = set()
    if isinstance(form, Integer):
        for p in points:
            codes |= {int(p) & ((1 << form.bits) - 1)} if form.lowest <= p <= form.highest else set()
    else:
        for p in points:
            near = form.code(p, False)
            codes |= {c for c in (near - 1, near, near + 1) if 0 <= c < 1 << form.bits}
        codes |= {form.sign, form.special, form.sign | form.special, form.nan}
    return sorted(codes)


def array(codes, name):
    """The elements as an npy file holds them: integers under a byte with their sign."""
    form, given = TYPES[name][2], np.array(codes, TYPES[name][1])
    if form.bits < 8 and isinstance(form, Integer):
        given = np.where(given > form.highest, given.astype(int) - (1 << form.bits), given).astype(np.int8)
    return given.view(FILE_TYPES[name])


SAFETENSORS = {"f32": "F32", "f64": "F64", "f16": "F16", "bf16": "BF16", "i8": "I8", "u8": "U8", "i16": "I16", "u16": "U16", "i32": "I32",
               "u32": "U32", "i64": "I64", "u64": "U64", "bool": "BOOL", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2", "f8e4m3fnuz": "F8_E4M3FNUZ", "f8e5m2fnuz": "F8_E5M2FNUZ",
               "f8e8m0": "F8_E8M0", "f4e2m1": "F4", "i4": "I4", "u4": "U4", "i2": "I2", "u2": "U2"}


def packed(elements, bits):
    """Elements of less than a byte as files of safetensors and ONNX have them: the first in the lowest bits."""
    out = bytearray((elements.size * bits + 7) // 8)
    for k, v in enumerate(elements.reshape(-1).view(np.uint8)):
        out[k * bits // 8] |= (int(v) & ((1 << bits) - 1)) << (k * bits % 8)
    return bytes(out)



def safetensors(tensors):
    """The bytes of a safetensors file of {name: (type, elements)}: npz cannot say which type two bytes without a meaning are."""
    header, data = {}, b""
    for name, (dtype, elements) in tensors.items():
        bits = TYPES[dtype][2].bits
        stored = packed(elements, bits) if bits < 8 else elements.tobytes()
        header[name] = {"dtype": SAFETENSORS[dtype], "shape": list(elements.shape), "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def codes(values, name):
    """The codes of what a file held."""
    form, held = TYPES[name][2], values.view(TYPES[name][1]).reshape(-1)
    if form.bits < 8 and isinstance(form, Integer) and form.lowest < 0:
        held = held.view(np.int8)
    if form.bits < 8:
        low, high = (form.lowest, form.highest) if isinstance(form, Integer) else (0, (1 << form.bits) - 1)
        assert ((held >= low) & (held <= high)).all(), (name, held)
    return [int(c) & ((1 << form.bits) - 1) if form.bits < 8 else int(c) for c in held]


def same(code, expected, name):
    form = TYPES[name][2]
    return code == expected or isinstance(form, Float) and form.value(code) == "nan" == form.value(expected)
