// ONNX's ops on elements: arithmetic, comparisons, logic, mathematics.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "opc/PackedElements.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace opc::onnx {

Term aligned(Conversion &c, const Term &x, const Term &y) {
  if (c.version >= 7 || x->rank() == y->rank() || y->rank() == 0) return y;
  if (!c.flag("broadcast", false))
    c.invalid("operands of the ranks " + std::to_string(x->rank()) + " and " + std::to_string(y->rank()) +
              " need broadcast=1");
  // The second operand's dimensions stand at `axis` of the first one's.
  const int64_t axis = c.hasAttr("axis") ? c.axisOf(c.i("axis", 0), x->rank()) : x->rank() - y->rank();
  DimVector dims = y->shape().dim_vec();
  const int64_t behind = x->rank() - axis - y->rank();
  if (behind < 0) c.invalid("the second operand does not fit at axis " + std::to_string(axis));
  dims.insert(dims.end(), static_cast<size_t>(behind), 1);
  return c.reshape(y, dims);
}

namespace {

void unary(ConverterTable *t, const std::string &op, const std::string &to) {
  t->add(op, [to](Conversion &c) { c.out(c.op(to, {c.in(0)})); }, to);
}

void binary(ConverterTable *t, const std::string &op, const std::string &to) {
  t->add(
      op,
      [to](Conversion &c) {
        const Term x = c.in(0);
        c.out(c.op(to, {x, aligned(c, x, c.in(1))}));
      },
      to);
}

/// Variadic ops, folded from the left.
void variadic(ConverterTable *t, const std::string &op, const std::string &to, bool isMean = false) {
  t->add(
      op,
      [to, isMean](Conversion &c) {
        const std::vector<Term> all = c.all();
        Term x = all[0];
        for (size_t k = 1; k < all.size(); ++k) x = c.op(to, {x, all[k]});
        c.out(isMean ? c.op("broadcast_div", {x, like(c, x, static_cast<double>(all.size()))}) : x);
      },
      to);
}

/// A number for all elements that is never another one.
std::optional<double> fixedNumber(Conversion &c, const Term &y) {
  if (!y->isFixed || !y->value || y->shape().elem_cnt() != 1) return std::nullopt;
  return c.knownFloats(y, "a number").at(0);
}

/// x^y as products, which take a fraction of a power's time: what exporters write for the square of a norm and the cube
/// of GELU's approximation. Null for other exponents.
Term smallPower(Conversion &c, const Term &x, const Term &y) {
  if (y->rank() > x->rank()) return nullptr;
  const std::optional<double> exponent = fixedNumber(c, y);
  if (exponent == 1.0) return x;
  if (exponent == 2.0) return c.op("square", {x});
  if (exponent != 3.0) return nullptr;
  const bool isHalf = x->type() == kFloat16 || x->type() == kBFloat16; // whose square is not rounded
  const Term wide = isHalf ? c.cast(x, kFloat) : x;
  return c.cast(c.op("broadcast_mul", {c.op("square", {wide}), wide}), x->type());
}

/// Whether `type` has all these numbers: those of an exponent that never changes.
bool hasAll(Conversion &c, DataType type, const Term &y) {
  if (!y->isFixed || !y->value) return false;
  const Term there = c.op("cast", {y}, {{"dtype", type}}), back = c.op("cast", {there}, {{"dtype", y->type()}});
  const Term isSame = c.op("broadcast_equal", {back, y});
  const auto same = isSame->value ? Conversion::peeked(isSame) : std::vector<double>{0};
  return std::all_of(same.begin(), same.end(), [](double is) { return is != 0; });
}

/// In which x^y is computed where the two have different types, both of which it has: whether an exponent is odd is
/// its last bit. Products of whole numbers wrap around, so that the low bits of those of 64 are those of fewer.
DataType powerType(Conversion &c, const Term &x, const Term &y) {
  const auto isNarrow = [](const Term &t) {
    return t->isFloating() ? t->type() != kDouble : elementType(t->type()).bits <= 16;
  };
  if (x->isFloating() && hasAll(c, x->type(), y)) return x->type();
  if (x->isFloating()) return isNarrow(x) && isNarrow(y) ? kFloat : kDouble;
  if (y->isFloating()) return kDouble; // which has all of i32
  return elementType(y->type()).isSigned ? kInt64 : kUInt64;
}

} // namespace

Term power(Conversion &c, const Term &x, const Term &y) {
  const Term small = smallPower(c, x, y);
  if (small || x->type() == y->type()) return small ? small : c.op("broadcast_pow", {x, y});
  const DataType type = powerType(c, x, y); // the result has the base's
  return c.cast(c.op("broadcast_pow", {c.cast(x, type), c.cast(y, type)}), x->type());
}

namespace {

void convertPow(Conversion &c) {
  const Term x = c.in(0);
  c.out(power(c, x, aligned(c, x, c.in(1))));
}

void convertMod(Conversion &c) {
  const Term x = c.in(0), y = c.in(1);
  const bool isC = c.flag("fmod", false);
  if (!isC && x->isFloating()) c.invalid("numbers with fractions need fmod=1");
  c.out(c.op(isC ? "broadcast_fmod" : "broadcast_floor_mod", {x, y}));
}

void convertShift(Conversion &c) {
  const Term x = c.in(0), y = c.in(1);
  const std::string direction = c.s("direction", "");
  if (direction.empty()) c.invalid("attribute 'direction' is missing");
  const Term factor = c.op("broadcast_pow", {c.cast(like(c, x, 2), kDouble), c.cast(y, kDouble)});
  const int bits = elementType(x->type()).bits;
  // A shift by the width or more leaves nothing: neither product nor quotient has a bit of it.
  const Term isWhole = c.op("broadcast_less", {y, like(c, y, bits)});
  const Term by = c.cast(c.op("where", {isWhole, factor, c.scalar(kDouble, 1)}), x->type());
  const Term shifted = c.op(direction == "LEFT" ? "broadcast_mul" : "broadcast_div", {x, by});
  c.out(c.op("where", {isWhole, shifted, like(c, x, 0)}));
}

void convertClip(Conversion &c) {
  Term x = c.in(0);
  Term low, high;
  if (c.version < 11) {
    const bool areThere = c.version >= 6; // those that are left out are the last numbers of f32
    constexpr double kMost = std::numeric_limits<float>::max();
    if (areThere || c.hasAttr("min")) low = like(c, x, c.f("min", -kMost));
    if (areThere || c.hasAttr("max")) high = like(c, x, c.f("max", kMost));
  } else {
    low = c.maybe(1), high = c.maybe(2);
  }
  for (const Term &b : {low, high})
    if (b && b->shape().elem_cnt() != 1)
      c.invalid("a bound of shape " + b->shape().ToString() + ", and must be one number");
  if (low && high && low->value && high->value && x->isFloating()) {
    const double from = c.knownFloats(low, "min")[0], to = c.knownFloats(high, "max")[0];
    if (from <= to) return c.out(c.op("clip_by_scalar", {x}, {{"floating_min", from}, {"floating_max", to}}));
  }
  // A constant is a bound of the op, at which the gradient goes on to x; a maximum shares it between x and the bound,
  // which may be another one where it is a variable.
  const auto bounded = [&](const Term &b, const char *ofNumber, const char *attr, const char *ofTensor) {
    const double number = b->isFixed && b->value && x->isFloating() ? c.knownFloats(b, attr)[0] : std::nan("");
    x = std::isnan(number) ? c.op(ofTensor, {x, c.reshape(b, {})}) : c.op(ofNumber, {x}, {{attr, number}});
  };
  if (low) bounded(low, "clip_by_scalar_min", "floating_min", "broadcast_maximum");
  if (high) bounded(high, "clip_by_scalar_max", "floating_max", "broadcast_minimum");
  c.out(low || high ? x : c.op("identity", {x}));
}

void convertIsInf(Conversion &c) {
  const Term x = c.in(0);
  const bool positive = c.flag("detect_positive", true), negative = c.flag("detect_negative", true);
  const double inf = std::numeric_limits<double>::infinity();
  if (positive && negative) return c.out(c.op("isinf", {x}));
  if (!positive && !negative) return c.out(c.expand(c.scalar(kBool, 0), x->shape()));
  c.out(c.op("broadcast_equal", {x, like(c, x, positive ? inf : -inf)}));
}

void convertWhere(Conversion &c) {
  const Shape all = broadcastShape(c, {c.in(0)->shape(), c.in(1)->shape(), c.in(2)->shape()});
  (void)all;
  c.out(c.op("where", {c.in(0), c.in(1), c.in(2)}));
}

/// The power of two below a magnitude or, of those around it, the nearer one, a tie going up: as bits of f32, where all
/// powers of two that f8e8m0 has but the least are exponents alone.
Term powerOfTwo(Conversion &c, const Term &x, bool isNearest, bool saturates) {
  constexpr int32_t kExponent = 0x7f800000, kLargest = 0x7f000000, kNormal = 0x00800000;
  const auto number = [&](int32_t v) { return c.scalar(kInt32, v); };
  const Term bits = c.op("broadcast_bitwise_and", {c.op("bit_cast", {x}, {{"dtype", kInt32}}), number(0x7fffffff)});
  Term sum = bits;
  if (isNearest) {
    // The least power of two, 2^-127, is half of the least exponent: between the two, too, lies a middle.
    const Term half =
        c.op("where", {c.op("broadcast_less", {bits, number(kNormal)}), number(0x200000), number(0x400000)});
    const Term isFinite = c.op("broadcast_less", {bits, number(kExponent)});
    const Term finite = c.op("broadcast_minimum", {bits, number(kExponent - 1)});
    Term rounded = c.op("broadcast_add", {finite, half});
    if (saturates) rounded = c.op("broadcast_minimum", {rounded, number(kLargest)});
    sum = c.op("where", {isFinite, rounded, bits});
  }
  return c.op("bit_cast", {c.op("broadcast_bitwise_and", {sum, number(kExponent)})}, {{"dtype", kFloat}});
}

void convertCast(Conversion &c, DataType to) {
  const Term x = c.in(0);
  const bool saturates = c.flag("saturate", true);
  const std::string mode = c.s("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    c.invalid("attribute 'round_mode' is '" + mode + "', and must be up, down or nearest");
  const DataType from = x->type();
  if (from == to) return c.out(c.op("identity", {x}));
  if (to == kBool && !contains<types::Storage>(from)) return c.out(c.op("broadcast_not_equal", {x, like(c, x, 0)}));
  if (to == kFloat8E8M0 && mode != "up")
    return c.out(c.cast(powerOfTwo(c, c.cast(x, kFloat), mode == "nearest", saturates), to));
  // To the nearest whole number, and of that the low bits: no other type of whole numbers is made so.
  const bool isReal = x->isFloating() || (contains<types::Storage>(from) && !isNarrowIntegerType(from));
  if (isNarrowIntegerType(to) && isReal)
    return c.out(c.cast(c.cast(c.op("rint", {c.cast(x, from == kDouble ? kDouble : kFloat)}), kInt32), to));
  if (!saturates && contains<types::Storage>(to)) return c.out(c.op("cast", {x}, {{"dtype", to}, {"saturate", false}}));
  c.out(c.op("cast", {x}, {{"dtype", to}}));
}

void convertBitCast(Conversion &c) {
  const Term x = c.in(0);
  const DataType to = c.elementTypeOf(c.required("to"));
  const ElementType &from = elementType(x->type());
  if (from.bits != elementType(to).bits && (from.bits < 8 || isPackedInFiles(to)))
    c.invalid("bits of " + x->desc.toString() + " as elements of type " + elementType(to).name,
              "the sizes must be equal");
  // Of whole numbers under a byte the low bits are all bits.
  const bool areWhole = isNarrowIntegerType(x->type()) && isNarrowIntegerType(to);
  if (isPackedInFiles(to) && !areWhole && x->type() != to)
    c.unsupported(std::string("bits of ") + from.name + " as " + elementType(to).name);
  c.out(c.op(areWhole ? "cast" : "bit_cast", {x}, {{"dtype", to}}));
}

} // namespace

void addElementwise(ConverterTable *t) {
  for (auto [op, to] : std::initializer_list<std::pair<const char *, const char *>>{{"Abs", "abs"},
                                                                                    {"Acos", "acos"},
                                                                                    {"Acosh", "acosh"},
                                                                                    {"Asin", "asin"},
                                                                                    {"Asinh", "asinh"},
                                                                                    {"Atan", "atan"},
                                                                                    {"Atanh", "atanh"},
                                                                                    {"Ceil", "ceil"},
                                                                                    {"Cos", "cos"},
                                                                                    {"Cosh", "cosh"},
                                                                                    {"Erf", "erf"},
                                                                                    {"Exp", "exp"},
                                                                                    {"Floor", "floor"},
                                                                                    {"IsNaN", "isnan"},
                                                                                    {"Log", "log"},
                                                                                    {"Neg", "negative"},
                                                                                    {"Not", "logical_not"},
                                                                                    {"BitwiseNot", "bitwise_not"},
                                                                                    {"Reciprocal", "reciprocal"},
                                                                                    {"Round", "rint"},
                                                                                    {"Sign", "sign"},
                                                                                    {"Sin", "sin"},
                                                                                    {"Sinh", "sinh"},
                                                                                    {"Sqrt", "sqrt"},
                                                                                    {"Tan", "tan"},
                                                                                    {"Tanh", "tanh"}})
    unary(t, op, to);
  for (auto [op, to] :
       std::initializer_list<std::pair<const char *, const char *>>{{"Add", "broadcast_add"},
                                                                    {"Sub", "broadcast_sub"},
                                                                    {"Mul", "broadcast_mul"},
                                                                    {"Div", "broadcast_div"},
                                                                    {"And", "broadcast_logical_and"},
                                                                    {"Or", "broadcast_logical_or"},
                                                                    {"Xor", "broadcast_logical_xor"},
                                                                    {"BitwiseAnd", "broadcast_bitwise_and"},
                                                                    {"BitwiseOr", "broadcast_bitwise_or"},
                                                                    {"BitwiseXor", "broadcast_bitwise_xor"},
                                                                    {"Equal", "broadcast_equal"},
                                                                    {"Greater", "broadcast_greater"},
                                                                    {"Less", "broadcast_less"},
                                                                    {"GreaterOrEqual", "broadcast_greater_equal"},
                                                                    {"LessOrEqual", "broadcast_less_equal"}})
    binary(t, op, to);
  variadic(t, "Max", "broadcast_maximum");
  variadic(t, "Min", "broadcast_minimum");
  variadic(t, "Sum", "broadcast_add");
  variadic(t, "Mean", "broadcast_add", true);
  t->add("Pow", convertPow, "broadcast_pow; square, broadcast_mul for the numbers 2 and 3");
  t->add("Mod", convertMod, "broadcast_fmod, broadcast_floor_mod");
  t->add("BitShift", convertShift, "broadcast_pow, broadcast_mul, broadcast_div");
  t->add("Clip", convertClip,
         "clip_by_scalar, clip_by_scalar_min, clip_by_scalar_max, broadcast_maximum, broadcast_minimum");
  t->add("IsInf", convertIsInf, "isinf, broadcast_equal");
  t->add("Where", convertWhere, "where");
  t->add(
      "Cast",
      [](Conversion &c) {
        if (c.version < 6) c.unsupported("its type as a text, as before operator set 6");
        convertCast(c, c.elementTypeOf(c.required("to")));
      },
      "cast", "strings");
  t->add("BitCast", convertBitCast, "bit_cast; cast of types under a byte",
         "types of other sizes, bool from others, f4e2m1");
  t->add("CastLike", [](Conversion &c) { convertCast(c, c.draft.typeInModel(*c.in(1))); }, "cast", "as Cast");
  t->add("Identity", [](Conversion &c) { c.out(c.any(0)); }, "nothing");
}

} // namespace opc::onnx
