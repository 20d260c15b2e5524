// ONNX's quantised ops, as exact products of integers.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxWindows.h"
#include "opc/PackedElements.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace opc::onnx {
namespace {

/// Scales or zero points as the ops take them: one number, or a vector; null where there are none.
Term alongAxis(Conversion &c, const Term &t) {
  if (!t) return nullptr;
  if (t->shape().elem_cnt() == 1) return c.reshape(t, {});
  if (t->rank() != 1) c.unsupported("scales of blocks: " + t->desc.toString());
  return t;
}

const std::vector<DataType> kBytes = {kUInt8, kInt8}, kReals = {kFloat, kFloat16, kBFloat16};

/// Input `input`, which must be one number of such a type, as a tensor of rank 0; null where it is left out.
Term number(Conversion &c, size_t input, const std::vector<DataType> &types) {
  if (!c.has(input)) return nullptr;
  c.checkType(input, types);
  if (c.in(input)->shape().elem_cnt() != 1)
    c.invalid(c.inputText(input) + " is " + c.in(input)->desc.toString() + ", and must be one number");
  return c.reshape(c.in(input), {});
}

enum class Lines { kRows, kColumns };

/// Scales or zero points of a matrix: one number, or one for each row or column, as a vector or as [1, n] and [n, 1].
Term ofMatrix(Conversion &c, size_t input, Lines lines, const std::vector<DataType> &types) {
  if (!c.has(input)) return nullptr;
  c.checkType(input, types);
  const Term t = c.in(input);
  const int64_t n = t->shape().elem_cnt();
  if (n == 1) return c.reshape(t, {});
  if (t->rank() == 1 || t->dim(lines == Lines::kColumns ? -1 : -2) == n) return c.reshape(t, {n});
  const char *one = lines == Lines::kColumns ? "column" : "row";
  c.unsupported(c.inputText(input) + " is " + t->desc.toString() + "; it can be one number or one for each " + one +
                    ", the same in all matrices",
                std::string("its size is 1, or that of the ") + one + "s");
}

bool isQuantized(DataType type) {
  return type == kUInt8 || type == kInt8 || type == kUInt16 || type == kInt16 || type == kInt32;
}

/// `scale` and `zero` of one tensor have one shape.
std::vector<Term> withZero(Conversion &c, const Term &x, const Term &scale, const Term &zero) {
  std::vector<Term> inputs{x, scale};
  if (zero) inputs.push_back(zero->shape() == scale->shape() ? zero : c.expand(zero, scale->shape()));
  return inputs;
}

/// round(x / scale) + zero, held to the range of `type`.
Term quantized(Conversion &c, const Term &x, const Term &scale, const Term &zero, DataType type, int64_t axis = 0) {
  if (!isQuantized(type)) c.unsupported(std::string("quantisation to ") + elementType(type).name);
  return c.op("quantize_linear", withZero(c, x, c.cast(scale, x->type()), zero), {{"axis", axis}, {"dtype", type}});
}

int64_t blockSize(const Conversion &c) {
  const int64_t size = c.i("block_size", 0);
  if (size < 0) c.invalid("attribute 'block_size' is " + std::to_string(size) + ", and must be 0 (none) or positive");
  return size;
}

/// Of a tensor with an element for each block, one for each element of x along the axis.
Term spread(Conversion &c, const Term &blocks, int64_t axis, int64_t block, int64_t size) {
  DimVector apart = blocks->shape().dim_vec(), whole = apart;
  apart.insert(apart.begin() + axis + 1, 1);
  const Term parts = c.reshape(blocks, apart);
  apart[static_cast<size_t>(axis) + 1] = block;
  whole[static_cast<size_t>(axis)] *= block;
  return c.slice(c.reshape(c.expand(parts, Shape(apart)), whole), axis, 0, size);
}

/// Input `input`, a scale or zero point, in `type`, as it broadcasts to input 0.
Term besideData(Conversion &c, size_t input, DataType type) {
  const Term x = c.in(0), t = c.cast(c.in(input), type);
  const int64_t block = blockSize(c);
  if (t->shape().elem_cnt() == 1 && block == 0) return c.reshape(t, {});
  const int64_t axis = c.axisOf(c.i("axis", 1), x->rank());
  if (block == 0) {
    if (t->rank() != 1) c.unsupported("scales of blocks: " + t->desc.toString());
    DimVector dims(static_cast<size_t>(x->rank()), 1);
    dims[static_cast<size_t>(axis)] = t->dim(0);
    return c.reshape(t, dims);
  }
  DimVector wanted = x->shape().dim_vec();
  wanted[static_cast<size_t>(axis)] = (x->dim(axis) + block - 1) / block;
  if (t->shape().dim_vec() != wanted)
    c.invalid(c.inputText(input) + " is " + t->desc.toString() + ", and blocks of " + std::to_string(block) +
              " along axis " + std::to_string(axis) + " ask for " + Shape(wanted).ToString());
  return spread(c, t, axis, block, x->dim(axis));
}

/// The type that whole numbers under a byte are computed in, which has their bits; others' own.
DataType inBytes(DataType type) {
  if (!isNarrowIntegerType(type)) return type;
  return elementType(type).isSigned ? kInt8 : kUInt8;
}

/// Whole numbers of 2 and 4 bits, floats of a byte and less, and blocks: x / scale (+ zero), rounded as `type` rounds.
void quantizeStored(Conversion &c, DataType type) {
  const bool isWhole = isQuantized(inBytes(type));
  if (!isWhole && !contains<types::Storage>(type))
    c.unsupported(std::string("quantisation to ") + elementType(type).name);
  const int64_t asked = c.i("precision", 0);
  const DataType in = asked ? c.elementTypeOf(asked) : kFloat;
  Term y = c.cast(c.op("broadcast_div", {c.cast(c.in(0), in), besideData(c, 1, in)}), kFloat);
  if (isWhole) y = c.op("rint", {y});
  if (c.has(2) && (isWhole || type == kFloat4E2M1)) y = c.op("broadcast_add", {y, besideData(c, 2, kFloat)});
  c.out(c.op("cast", {y}, {{"dtype", type}, {"saturate", c.flag("saturate", true)}}));
}

/// In which input 0 is divided by its scale: that of the two that has more of the numbers, if the node does not say.
DataType divisionType(const Conversion &c) {
  if (const int64_t asked = c.i("precision", 0)) return c.elementTypeOf(asked);
  const DataType type = c.in(0)->type();
  const bool isHalf = type == kFloat16 || type == kBFloat16;
  return !c.in(0)->isFloating() || (isHalf && c.in(1)->type() != type) ? kFloat : type;
}

void convertQuantize(Conversion &c) {
  const int64_t asked = c.i("output_dtype", 0);
  const DataType type = c.has(2) ? c.draft.typeInModel(*c.in(2)) : asked ? c.elementTypeOf(asked) : kUInt8;
  if (asked && c.elementTypeOf(asked) != type)
    c.invalid(std::string("attribute 'output_dtype' is ") + elementType(c.elementTypeOf(asked)).name + ", and " +
                  c.inputText(2) + " is of type " + elementType(type).name,
              "the zero point has the type of the output");
  if (blockSize(c) > 0 || contains<types::Storage>(type) || c.in(1)->type() == kFloat8E8M0)
    return quantizeStored(c, type);
  c.checkType(1, {kFloat, kFloat16, kBFloat16, kDouble, kInt32});
  const Term x = c.in(0), zero = c.has(2) ? alongAxis(c, c.in(2)) : nullptr, scale = alongAxis(c, c.in(1));
  const int64_t axis = scale->rank() == 0 ? 0 : c.axisOf(c.i("axis", 1), x->rank());
  const Quantized *known = c.draft.quantized(x);
  if (known && known->isSum && scale->rank() == 0) {
    const Term steps = c.op("broadcast_div", {known->scale, c.cast(scale, kFloat)});
    return c.out(
        c.op("requantize", withZero(c, known->integers, steps, zero), {{"axis", known->axis}, {"dtype", type}}));
  }
  c.out(quantized(c, c.cast(x, divisionType(c)), scale, zero, type, axis));
}

/// Blocks, and floats of a byte and less: (x - zero) * scale.
void dequantizeStored(Conversion &c) {
  c.checkType(1, {kFloat, kFloat16, kBFloat16, kFloat8E8M0});
  const Term x = c.in(0), scale = c.in(1);
  const bool isReal = contains<types::Storage>(x->type());
  if (!isQuantized(x->type()) && !isReal)
    c.unsupported(std::string("quantised numbers of type ") + elementType(x->type()).name);
  Term real = c.cast(x, kFloat);
  if (c.has(2)) {
    c.checkType(2, {x->type()});
    const bool areOne = c.in(2)->shape().elem_cnt() == 1 && scale->shape().elem_cnt() == 1;
    if (c.in(2)->shape() != scale->shape() && !areOne)
      c.invalid(c.inputText(2) + " has not the shape of " + c.inputText(1));
    real = c.op("broadcast_sub", {real, besideData(c, 2, kFloat)});
  }
  real = c.op("broadcast_mul", {real, besideData(c, 1, kFloat)});
  const int64_t asked = c.i("output_dtype", 0);
  if (!asked && scale->type() == kFloat8E8M0)
    c.invalid("the scale is " + scale->desc.toString() + ", and attribute 'output_dtype' does not say another type");
  c.out(c.cast(real, asked ? c.elementTypeOf(asked) : scale->type()));
}

void convertDequantize(Conversion &c) {
  for (const size_t k : {0, 2})
    if (c.has(k)) c.replace(k, c.cast(c.in(k), inBytes(c.in(k)->type())));
  if (blockSize(c) > 0 || contains<types::Storage>(c.in(0)->type()) || c.in(1)->type() == kFloat8E8M0)
    return dequantizeStored(c);
  c.checkType(1, {kFloat, kFloat16, kBFloat16, kDouble});
  const Term x = c.in(0), scale = alongAxis(c, c.in(1)), zero = c.has(2) ? alongAxis(c, c.in(2)) : nullptr;
  const int64_t axis = scale->rank() == 0 ? 0 : c.axisOf(c.i("axis", 1), x->rank());
  if (!isQuantized(x->type())) c.unsupported(std::string("quantised numbers of type ") + elementType(x->type()).name);
  if (c.has(2)) c.checkType(2, {x->type()});
  const Term y = c.op("dequantize_linear", withZero(c, x, scale, zero), {{"axis", axis}});
  if (y->type() == kFloat) c.draft.note({y, x, scale, zero, axis, false});
  const int64_t asked = c.i("output_dtype", 0);
  c.out(asked ? c.cast(y, c.elementTypeOf(asked)) : y);
}

void convertDynamicQuantize(Conversion &c) {
  const std::vector<Term> made = c.ops("dynamic_quantize_linear", {c.in(0)});
  for (int k = 0; k < 3; ++k) c.out(k, made[static_cast<size_t>(k)]);
}

/// The exact product of `a` and `b`, less their zero points, which are one number or a vector, in i32; a vector is a
/// row of a or a column of b.
Term integerProduct(Conversion &c, const Term &a, const Term &aZero, const Term &b, const Term &bZero,
                    const Term &bias = nullptr, bool transB = false) {
  const Term left = a->rank() == 1 ? c.reshape(a, {1, a->dim(0)}) : a;
  const Term right = b->rank() == 1 ? c.reshape(b, {b->dim(0), 1}) : b;
  const Term y = c.op("integer_matmul", {left, right, aZero, bZero, bias}, {{"transpose_b", transB}});
  DimVector dims = y->shape().dim_vec();
  if (b->rank() == 1) dims.pop_back();
  if (a->rank() == 1) dims.erase(dims.end() - (b->rank() == 1 ? 1 : 2));
  return dims == y->shape().dim_vec() ? y : c.reshape(y, dims);
}

/// The zero points of the rows of input `of`, or of its columns, in input `input`.
Term zeroOf(Conversion &c, size_t input, size_t of, Lines lines) {
  c.checkType(of, kBytes);
  return ofMatrix(c, input, lines, {c.in(of)->type()});
}

void convertMatMulInteger(Conversion &c) {
  const Term rows = zeroOf(c, 2, 0, Lines::kRows), columns = zeroOf(c, 3, 1, Lines::kColumns);
  c.out(integerProduct(c, c.in(0), rows, c.in(1), columns));
}

/// 32-bit sums of products as `type`: their scales over that of the result.
Term requantized(Conversion &c, const Term &sum, const Term &left, const Term &right, const Term &scale,
                 const Term &zero, int64_t axis) {
  const Term steps = c.op(
      "broadcast_div", {c.op("broadcast_mul", {c.cast(left, kFloat), c.cast(right, kFloat)}), c.cast(scale, kFloat)});
  return c.op("requantize", withZero(c, sum, steps, zero), {{"axis", axis}, {"dtype", zero->type()}});
}

bool isByte(const Term &t) { return t->type() == kUInt8 || t->type() == kInt8; }

/// The stored integers of `real`: of 8 bits with one scale, or with one for each element of `axis`.
const Quantized *storedBytes(Conversion &c, const Term &real, int64_t axis) {
  const Quantized *known = c.draft.quantized(real);
  if (!known || known->isSum || !isByte(known->integers)) return nullptr;
  return known->scale->rank() == 0 || known->axis == axis ? known : nullptr;
}

/// `bias` in steps of `scale` where it is stored so; else null.
Term storedSteps(Conversion &c, const Term &bias, const Term &scale) {
  const Quantized *known = c.draft.quantized(bias);
  if (!known || known->integers->type() != kInt32 || known->zero || !known->scale->value || !scale->value)
    return nullptr;
  const std::vector<double> own = Conversion::peeked(known->scale), wanted = Conversion::peeked(scale);
  bool same = own.size() == wanted.size();
  for (size_t k = 0; same && k < own.size(); ++k) same = std::abs(own[k] - wanted[k]) <= 1e-6 * wanted[k];
  if (!same) return nullptr;
  const Term steps = known->integers;
  return c.draft.rely(known->scale), c.draft.rely(scale), steps;
}

/// The largest |integer - zero| of bytes; of those of the run, as far as their type goes.
double largest(const Quantized &bytes) {
  const bool isSigned = bytes.integers->type() == kInt8;
  const double low = isSigned ? -128 : 0, high = low + 255;
  if (bytes.zero && !bytes.zero->value) return 255;
  double most = bytes.zero ? 0 : std::max(-low, high);
  if (bytes.zero)
    for (double zero : Conversion::peeked(bytes.zero)) most = std::max({most, zero - low, high - zero});
  return most;
}

/// The sum of |weight - zero| for each of the channels along `axis` of a matrix, or of filters; empty when they are not
/// known.
std::vector<double> weightSums(const Quantized &weight, int64_t axis) {
  const Term &w = weight.integers;
  if (!w->value || (weight.zero && !weight.zero->value)) return {};
  const std::vector<double> zeros = weight.zero ? Conversion::peeked(weight.zero) : std::vector<double>{0};
  const auto channels = static_cast<size_t>(w->dim(axis));
  const size_t inner = axis == 0 && channels ? static_cast<size_t>(w->shape().elem_cnt()) / channels : 1;
  const std::string_view bytes = w->value->bytes;
  std::vector<double> sums(channels, 0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t k = i / inner % channels;
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const double q = w->type() == kInt8 ? static_cast<signed char>(byte) : byte;
    sums[k] += std::abs(q - zeros[zeros.size() == 1 ? 0 : k]);
  }
  return sums;
}

constexpr double kMostSum = 2147483647.0, kMostSteps = 1 << 30;

/// The product of real numbers that stand for bytes, in 32 bits.
class ByteProduct {
public:
  /// `axis` is that of the channels in the weight, `terms` the number of products in a sum.
  ByteProduct(Conversion &c, Quantized in, Quantized weight, int64_t axis, int64_t terms)
      : c_(c), in_(std::move(in)), weight_(std::move(weight)), axis_(axis), terms_(static_cast<double>(terms)) {
    scale_ = c.op("broadcast_mul", {in_.scale, weight_.scale});
  }

  const Quantized &in() const { return in_; }
  const Quantized &weight() const { return weight_; }
  const Term &scale() const { return scale_; }

  /// Whether sums stay within 32 bits, whatever the run's bytes are, with steps up to `more` added.
  bool fits(double more) {
    if (terms_ * largest(in_) * largest(weight_) + more <= kMostSum) return true;
    const std::vector<double> &sums = ofChannels();
    if (sums.empty() || *std::max_element(sums.begin(), sums.end()) * largest(in_) + more > kMostSum) return false;
    c_.draft.rely(weight_.integers); // another weight may not fit
    if (weight_.zero) c_.draft.rely(weight_.zero);
    if (in_.zero) c_.draft.rely(in_.zero);
    return true;
  }

  /// The bias as whole steps of the scale, where that loses nothing that counts; else null, and it is to be added to
  /// the real sums: a step of a channel without weights may be so small, or 0, that no whole number of them makes its
  /// bias.
  Term biasSteps(const Term &bias) {
    if (const Term stored = storedSteps(c_, bias, scale_)) {
      if (!stored->value) return fits(kMostSteps) ? stored : nullptr;
      double most = 0;
      for (double b : Conversion::peeked(stored)) most = std::max(most, std::abs(b));
      if (most >= kMostSteps) c_.draft.rely(stored);
      return fits(std::max(most, kMostSteps)) ? stored : nullptr;
    }
    if (!bias->value || !scale_->value || !fits(kMostSteps) || !areSteps(bias)) return nullptr;
    c_.draft.rely(bias), c_.draft.rely(scale_);
    return quantized(c_, bias, scale_, nullptr, kInt32);
  }

private:
  const std::vector<double> &ofChannels() {
    if (sums_.empty()) sums_ = weightSums(weight_, axis_);
    return sums_;
  }

  bool areSteps(const Term &bias) {
    const std::vector<double> values = Conversion::peeked(bias), scales = Conversion::peeked(scale_);
    const std::vector<double> &sums = ofChannels();
    for (size_t k = 0; k < values.size(); ++k) {
      const double step = scales[scales.size() == 1 ? 0 : k], whole = values[k] / step;
      if (!(step >= 0x1p-100) || !(std::abs(whole) < kMostSteps)) return false; // NaN, too
      // A rounded bias is lost in the rounding of what it is added to, unless there is next to nothing of that.
      const bool isExact = static_cast<float>(std::nearbyint(whole) * step) == static_cast<float>(values[k]);
      if (!isExact && (sums.size() != values.size() || sums[k] < 16)) return false;
    }
    return true;
  }

  Conversion &c_;
  Quantized in_, weight_;
  int64_t axis_;
  double terms_;
  Term scale_;
  std::vector<double> sums_;
};

void convertQLinearMatMul(Conversion &c) {
  for (size_t k = 0; k < 8; ++k) c.in(k);
  const Term left = ofMatrix(c, 1, Lines::kRows, kReals), right = ofMatrix(c, 4, Lines::kColumns, kReals);
  const Term sum = integerProduct(c, c.in(0), zeroOf(c, 2, 0, Lines::kRows), c.in(3), zeroOf(c, 5, 3, Lines::kColumns));
  if (c.in(6)->shape().elem_cnt() != 1)
    c.unsupported(c.inputText(6) + " is " + c.in(6)->desc.toString() + ": a scale for each row of the result");
  const Term scale = number(c, 6, kReals), zero = number(c, 7, kBytes);
  if (left->rank() == 0) return c.out(requantized(c, sum, left, right, scale, zero, -1));
  // A scale for each row, and perhaps for each column: no vector has both.
  const Term rows = c.reshape(left, {left->dim(0), 1});
  const Term real = c.op("broadcast_mul",
                         {c.cast(sum, kFloat), c.op("broadcast_mul", {c.cast(rows, kFloat), c.cast(right, kFloat)})});
  c.out(quantized(c, real, scale, zero, zero->type()));
}

/// The exact convolution in i32.
Term integerConv(Conversion &c, const Term &given, const Term &xZero, const Term &weight, const Term &weightZero,
                 const Term &bias) {
  Term x = given;
  Windows w = windowsOf(c, x, kernelOf(weight));
  if (w.dims() > 3) c.unsupported(std::to_string(w.dims()) + " spatial dimensions");
  if (!w.isEven()) {
    // The zero point all around: of the run, it is taken off before.
    if (xZero && !xZero->value) c.unsupported("unequal pads around a zero point that is known in the run only");
    x = paddedImages(c, x, w.before, w.after, xZero);
    w.before.assign(w.dims(), 0);
  }
  return c.op("integer_conv" + std::to_string(w.dims()) + "d", {x, weight, xZero, weightZero, bias},
              convolutionAttrs(w, weight->dim(0), c.i("group", 1)));
}

} // namespace

/// The real numbers that sums along `axis` stand for.
static Term realSums(Conversion &c, const Term &sum, const Term &scale, int64_t axis) {
  const Term real = c.op("dequantize_linear", {sum, scale}, {{"axis", axis}});
  c.draft.note({real, sum, scale, nullptr, axis, true});
  return real;
}

Term convolvedIntegers(Conversion &c) {
  const Quantized *x = storedBytes(c, c.in(0), -1), *weight = storedBytes(c, c.in(1), 0);
  if (!x || !weight || (x->zero && !x->zero->value)) return nullptr;
  const Shape &filters = weight->integers->shape();
  const int64_t channels = filters.At(0);
  ByteProduct p(c, *x, *weight, 0, channels ? filters.elem_cnt() / channels : 0);
  if (!p.fits(0)) return nullptr;
  const Term steps = c.has(2) ? p.biasSteps(c.in(2)) : nullptr;
  const Term sum = integerConv(c, p.in().integers, p.in().zero, p.weight().integers, p.weight().zero, steps);
  const Term real = realSums(c, sum, p.scale(), 1);
  if (steps || !c.has(2)) return real;
  DimVector along(static_cast<size_t>(real->rank()), 1);
  along[1] = channels;
  return c.op("broadcast_add", {real, c.reshape(c.in(2), along)});
}

Term multipliedIntegers(Conversion &c, const Term &a, const Term &b, bool transB, const Term &bias) {
  const int64_t axis = transB ? 0 : b->rank() - 1;
  const Quantized *left = storedBytes(c, a, -1), *right = storedBytes(c, b, axis);
  if (!left || !right || a->rank() < 2 || b->rank() != 2) return nullptr;
  const int64_t columns = b->dim(axis);
  if (bias && (bias->rank() == 0 || bias->dim(-1) != columns || bias->shape().elem_cnt() != columns)) return nullptr;
  ByteProduct p(c, *left, *right, axis, b->dim(transB ? 1 : 0));
  if (!p.fits(0)) return nullptr;
  const Term added = bias ? c.reshape(bias, {columns}) : nullptr;
  const Term steps = bias ? p.biasSteps(added) : nullptr;
  const Term sum = integerProduct(c, p.in().integers, p.in().zero, p.weight().integers, p.weight().zero, steps, transB);
  const Term real = realSums(c, sum, p.scale(), a->rank() - 1);
  return steps || !bias ? real : c.op("broadcast_add", {real, added});
}

void noteRelu(Conversion &c, const Term &made, const Term &x) {
  const Quantized *known = c.draft.quantized(x);
  if (!known || !known->isSum || !known->scale->value) return;
  const Quantized sum = *known;
  for (double scale : Conversion::peeked(sum.scale))
    if (!(scale >= 0)) return; // negative sums stand for what Relu keeps
  c.draft.rely(sum.scale);
  const Term held = c.op("broadcast_maximum", {sum.integers, c.scalar(kInt32, 0)});
  c.draft.note({made, held, sum.scale, nullptr, sum.axis, true});
}

namespace {

/// The scales or zero points of a convolution's filters.
Term ofFilters(Conversion &c, size_t input, const std::vector<DataType> &types) {
  if (!c.has(input)) return nullptr;
  c.checkType(input, types);
  return alongAxis(c, c.in(input));
}

void convertConvInteger(Conversion &c) {
  for (size_t k : {0, 1}) c.checkType(k, kBytes);
  const Term zero = number(c, 2, {c.in(0)->type()});
  c.out(integerConv(c, c.in(0), zero, c.in(1), ofFilters(c, 3, {c.in(1)->type()}), nullptr));
}

void convertQLinearConv(Conversion &c) {
  for (size_t k : {0, 3}) c.checkType(k, kBytes);
  for (size_t k = 0; k < 8; ++k) c.in(k);
  if (c.has(8)) c.checkType(8, {kInt32});
  const Term scale = number(c, 1, {kFloat}), zero = number(c, 2, {c.in(0)->type()});
  const Term steps = ofFilters(c, 4, {kFloat}), zeros = ofFilters(c, 5, {c.in(3)->type()});
  const Term sum = integerConv(c, c.in(0), zero, c.in(3), zeros, c.maybe(8));
  c.out(requantized(c, sum, scale, steps, number(c, 6, {kFloat}), number(c, 7, kBytes), 1));
}

// Ops of ONNX Runtime's domain: computed on the real numbers that the integers stand for ------------------------------

/// Input `k` with its scale and zero point behind it: a loop reads the integers through it.
Term realOf(Conversion &c, size_t k) {
  c.checkType(k, kBytes);
  c.in(k + 1);
  return c.op("dequantize_linear",
              withZero(c, c.in(k), number(c, k + 1, {kFloat}), number(c, k + 2, {c.in(k)->type()})));
}

/// As the type of input 0 of the node, by the scale in input `k` and the zero point behind it.
void giveQuantized(Conversion &c, const Term &real, size_t k, DataType type) {
  c.in(k);
  const Term scale = number(c, k, {kFloat});
  c.out(quantized(c, real, scale, number(c, k + 1, {type}), type));
}

template <class F> std::function<void(Conversion &)> quantizedUnary(F f) {
  return [f](Conversion &c) { giveQuantized(c, f(c, realOf(c, 0)), 3, c.in(0)->type()); };
}

std::function<void(Conversion &)> quantizedBinary(const char *op) {
  return [op](Conversion &c) { giveQuantized(c, c.op(op, {realOf(c, 0), realOf(c, 3)}), 6, c.in(0)->type()); };
}

/// An op of the standard domain on real numbers, with the node's attributes.
std::function<void(Conversion &)> quantizedAs(const char *op) {
  return [op](Conversion &c) {
    if (c.flag("channels_last", false)) c.unsupported("channels_last");
    const DataType type = c.in(0)->type();
    const int64_t opset = c.i("opset", c.version); // of which Softmax's axis is
    if ((opset < 13) != (c.version < 13))
      c.unsupported("attribute 'opset' is " + std::to_string(opset) + " in a model of operator set " +
                    std::to_string(c.version) + ": the axis has another meaning there");
    c.replace(0, realOf(c, 0));
    ConverterTable::get().find("", op)->convert(c);
    giveQuantized(c, c.results()[0], 3, type);
  };
}

void convertQLinearConcat(Conversion &c) {
  std::vector<Term> parts;
  for (size_t k = 2; k + 1 < c.inputCount(); k += 3) parts.push_back(realOf(c, k));
  if (parts.empty()) c.invalid("it has nothing to join");
  const int64_t axis = c.axisOf(c.required("axis"), parts[0]->rank());
  giveQuantized(c, parts.size() == 1 ? parts[0] : c.op("cat", parts, {{"axis", axis}}), 0, c.in(2)->type());
}

void convertQGemm(Conversion &c) {
  const Term a = c.flag("transA", false) ? c.transpose(c.in(0), {1, 0}) : c.in(0);
  c.checkType(0, kBytes), c.in(1), c.in(4);
  const Term zero = number(c, 2, {c.in(0)->type()});
  const Term sum = c.op("integer_matmul", {a, c.in(3), zero, zeroOf(c, 5, 3, Lines::kColumns)},
                        {{"transpose_b", c.flag("transB", false)}});
  if (c.has(6)) c.checkType(6, {kInt32});
  const Term all = c.has(6) ? c.op("broadcast_add", {sum, c.in(6)}) : sum;
  const Term right = ofMatrix(c, 4, Lines::kColumns, {kFloat});
  const Term real =
      c.op("broadcast_mul", {c.cast(all, kFloat), c.op("broadcast_mul", {number(c, 1, {kFloat}), right})});
  if (!c.has(7)) return c.out(c.scaled(real, c.f("alpha", 1)));
  giveQuantized(c, c.scaled(real, c.f("alpha", 1)), 7, c.in(0)->type());
}

/// A, B, the scales of both, their zero points, a bias.
void convertMatMulToFloat(Conversion &c) {
  const Term a = c.in(0), b = c.in(1);
  c.in(2), c.in(3);
  const Term y = integerProduct(c, a, zeroOf(c, 4, 0, Lines::kRows), b, zeroOf(c, 5, 1, Lines::kColumns));
  const Term left = number(c, 2, {kFloat}), right = ofMatrix(c, 3, Lines::kColumns, {kFloat});
  const Term real = c.op("broadcast_mul", {c.cast(y, kFloat), c.op("broadcast_mul", {left, right})});
  c.out(c.has(6) ? c.op("broadcast_add", {real, c.in(6)}) : real);
}

/// A, B, the scale of B, its zero point, a bias.
void convertDynamicMatMul(Conversion &c) {
  const std::vector<Term> a = c.ops("dynamic_quantize_linear", {c.in(0)});
  c.in(2);
  const Term sum = integerProduct(c, a[0], a[2], c.in(1), zeroOf(c, 3, 1, Lines::kColumns));
  const Term scale = c.op("broadcast_mul", {a[1], ofMatrix(c, 2, Lines::kColumns, {kFloat})});
  const Term real = c.op("broadcast_mul", {c.cast(sum, kFloat), scale});
  c.out(c.has(4) ? c.op("broadcast_add", {real, c.in(4)}) : real);
}

/// The numbers of `bits` bits in the bytes of the last axis, the first in the lowest bits, in f32.
Term unpacked(Conversion &c, const Term &bytes, int64_t bits) {
  if (bits == 8) return c.cast(bytes, kFloat);
  const Term wide = c.cast(bytes, kInt32);
  const Term high = c.op("broadcast_div", {wide, c.scalar(kInt32, 16)});
  const Term low = c.op("broadcast_sub", {wide, c.op("broadcast_mul", {high, c.scalar(kInt32, 16)})});
  DimVector dims = bytes->shape().dim_vec();
  dims.push_back(1);
  const Term pairs = c.op("cat", {c.reshape(low, dims), c.reshape(high, dims)}, {{"axis", bytes->rank()}});
  dims.pop_back();
  dims.back() *= 2;
  return c.cast(c.reshape(pairs, dims), kFloat);
}

/// Types are those of the specification, A has rows of `k`, the bias is of `n`.
void checkPacked(const Conversion &c, int64_t k, int64_t n) {
  c.checkType(0, kReals), c.checkType(1, {kUInt8});
  const DataType type = c.in(0)->type();
  c.checkType(2, {type});
  if (c.has(3)) c.checkType(3, {kUInt8, type});
  if (c.in(0)->rank() < 1 || c.in(0)->dim(-1) != k)
    c.invalid(c.inputText(0) + " is " + c.in(0)->desc.toString() + ", and attribute 'K' is " + std::to_string(k));
  if (!c.has(5)) return;
  c.checkType(5, {type}), c.checkShape(5, Shape({n}), "biases");
}

/// A and the transposed B, whose rows are blocks of 4 or 8 bits with a scale and a zero point each.
void convertMatMulNBits(Conversion &c) {
  const int64_t k = c.required("K"), n = c.required("N"), bits = c.i("bits", 4), block = c.required("block_size");
  c.i("accuracy_level", 0); // of the products: f32 is the most accurate
  if (bits != 4 && bits != 8) c.unsupported(std::to_string(bits) + " bits: 4 and 8 are known");
  if (c.has(4)) c.unsupported("an order of the rows in groups (g_idx)");
  if (c.i("weight_prepacked", 0)) c.unsupported("weights in the order of a processor (weight_prepacked)");
  if (k < 1 || n < 1) c.invalid("attributes 'K' and 'N' must be positive");
  if (block < 16 || (block & (block - 1)) != 0)
    c.invalid("attribute 'block_size' is " + std::to_string(block) + ", and must be a power of 2 from 16 on");
  checkPacked(c, k, n);
  const int64_t blocks = (k + block - 1) / block, zeroBytes = (blocks * bits + 7) / 8;
  if (c.in(1)->shape().elem_cnt() != n * blocks * (block * bits / 8) || c.in(2)->shape().elem_cnt() != n * blocks)
    c.invalid("B or its scales have not the sizes that K, N, bits and block_size ask for");
  const Term steps =
      c.reshape(unpacked(c, c.reshape(c.in(1), {n * blocks, block * bits / 8}), bits), {n, blocks, block});
  Term zero = c.scalar(kFloat, static_cast<double>(int64_t(1) << (bits - 1)));
  if (c.has(3) && c.in(3)->isFloating()) zero = c.reshape(c.cast(c.in(3), kFloat), {n, blocks, 1});
  if (c.has(3) && !c.in(3)->isFloating()) {
    if (c.in(3)->shape().elem_cnt() != n * zeroBytes) c.invalid("its zero points are not one for each block");
    zero = c.reshape(c.slice(unpacked(c, c.reshape(c.in(3), {n, zeroBytes}), bits), 1, 0, blocks), {n, blocks, 1});
  }
  const Term real =
      c.op("broadcast_mul", {c.op("broadcast_sub", {steps, zero}), c.reshape(c.cast(c.in(2), kFloat), {n, blocks, 1})});
  const Term weight = c.cast(c.slice(c.reshape(real, {n, blocks * block}), 1, 0, k), c.in(0)->type());
  const bool isRow = c.in(0)->rank() == 1;
  const Term a = isRow ? c.reshape(c.in(0), {1, k}) : c.in(0);
  const Term product = c.op(a->rank() == 2 ? "matmul" : "broadcast_matmul", {a, weight}, {{"transpose_b", true}});
  const Term y = isRow ? c.reshape(product, {n}) : product;
  c.out(c.has(5) ? c.op("broadcast_add", {y, c.in(5)}) : y);
}

void addQuantizedContributed(ConverterTable *t) {
  const char *const domain = "com.microsoft";
  t->add("QuantizeLinear", convertQuantize, "as QuantizeLinear", "", domain);
  t->add("DequantizeLinear", convertDequantize, "as DequantizeLinear", "", domain);
  t->add("QLinearAdd", quantizedBinary("broadcast_add"), "broadcast_add on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearMul", quantizedBinary("broadcast_mul"), "broadcast_mul on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearSigmoid", quantizedUnary([](Conversion &c, const Term &x) { return c.op("sigmoid", {x}); }),
         "sigmoid on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearLeakyRelu", quantizedUnary([](Conversion &c, const Term &x) {
           return c.op("leaky_relu", {x}, {{"alpha", c.f("alpha", 0.01)}});
         }),
         "leaky_relu on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearGlobalAveragePool", quantizedUnary([](Conversion &c, const Term &x) {
           if (c.flag("channels_last", false)) c.unsupported("channels_last");
           std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(x->rank() - 2, 0)));
           std::iota(axes.begin(), axes.end(), 2);
           return reduced(c, "reduce_mean", x, axes, true);
         }),
         "reduce_mean on f32, then as QuantizeLinear", "channels_last", domain);
  t->add("QLinearAveragePool", quantizedAs("AveragePool"), "as AveragePool on f32, then as QuantizeLinear",
         "channels_last, as AveragePool", domain);
  t->add("QLinearSoftmax", quantizedAs("Softmax"), "softmax on f32, then as QuantizeLinear",
         "an axis of another operator set", domain);
  t->add("QLinearConcat", convertQLinearConcat, "cat on f32, then as QuantizeLinear", "", domain);
  t->add("QGemm", convertQGemm, "integer_matmul, then as QuantizeLinear", "", domain);
  t->add("DynamicQuantizeMatMul", convertDynamicMatMul, "dynamic_quantize_linear, integer_matmul", "", domain);
  t->add("MatMulNBits", convertMatMulNBits, "broadcast_sub, broadcast_mul, matmul, broadcast_matmul",
         "g_idx, prepacked weights, bits other than 4 and 8", domain);
  t->add("MatMulIntegerToFloat", convertMatMulToFloat, "as MatMulInteger, broadcast_mul", "", domain);
}

} // namespace

void addQuantization(ConverterTable *t) {
  t->add("QuantizeLinear", convertQuantize,
         "quantize_linear; broadcast_div, rint, broadcast_add, cast of blocks, floats of a byte, types under a byte");
  t->add("DequantizeLinear", convertDequantize,
         "dequantize_linear; broadcast_sub, broadcast_mul of blocks and of floats of a byte or less");
  t->add("DynamicQuantizeLinear", convertDynamicQuantize, "dynamic_quantize_linear");
  t->add("MatMulInteger", convertMatMulInteger, "integer_matmul", "zero points that differ between matrices");
  t->add("QLinearMatMul", convertQLinearMatMul, "integer_matmul, requantize",
         "as MatMulInteger, a scale for each row of the result");
  t->add("ConvInteger", convertConvInteger, "integer_conv1d, integer_conv2d, integer_conv3d",
         "unequal pads with a zero point of the run, more than 3 spatial dimensions");
  t->add("QLinearConv", convertQLinearConv, "as ConvInteger, requantize", "as ConvInteger");
  addQuantizedContributed(t);
}

} // namespace opc::onnx
