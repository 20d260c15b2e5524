// ONNX's quantised ops, as exact products of integers.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxWindows.h"

#include <numeric>

namespace opc::onnx {
namespace {

/// Scales or zero points as the ops take them: one number, or a vector; null where there are none.
Term alongAxis(Conversion &c, const Term &t) {
  if (!t) return nullptr;
  if (t->shape().elem_cnt() == 1) return c.reshape(t, {});
  if (t->rank() != 1) c.unsupported("scales of blocks");
  return t;
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

void convertQuantize(Conversion &c) {
  const Term x = c.in(0), zero = c.has(2) ? alongAxis(c, c.in(2)) : nullptr, scale = alongAxis(c, c.in(1));
  const DataType type = zero ? zero->type() : c.i("output_dtype", 0) ? c.elementTypeOf(c.i("output_dtype", 0)) : kUInt8;
  const int64_t axis = scale->rank() == 0 ? 0 : c.axisOf(c.i("axis", 1), x->rank());
  c.out(quantized(c, c.cast(x, x->isFloating() ? x->type() : kFloat), scale, zero, type, axis));
}

void convertDequantize(Conversion &c) {
  const Term x = c.in(0), scale = alongAxis(c, c.in(1)), zero = c.has(2) ? alongAxis(c, c.in(2)) : nullptr;
  const int64_t axis = scale->rank() == 0 ? 0 : c.axisOf(c.i("axis", 1), x->rank());
  if (!isQuantized(x->type())) c.unsupported(std::string("quantised numbers of type ") + elementType(x->type()).name);
  c.out(c.op("dequantize_linear", withZero(c, x, scale, zero), {{"axis", axis}}));
}

void convertDynamicQuantize(Conversion &c) {
  const std::vector<Term> made = c.ops("dynamic_quantize_linear", {c.in(0)});
  for (int k = 0; k < 3; ++k) c.out(k, made[static_cast<size_t>(k)]);
}

/// The exact product of `a` and `b`, less their zero points, in i32; a vector is a row of a or a column of b.
Term integerProduct(Conversion &c, const Term &a, const Term &aZero, const Term &b, const Term &bZero) {
  const Term left = a->rank() == 1 ? c.reshape(a, {1, a->dim(0)}) : a;
  const Term right = b->rank() == 1 ? c.reshape(b, {b->dim(0), 1}) : b;
  const Term y = c.op("integer_matmul", {left, right, alongAxis(c, aZero), alongAxis(c, bZero)});
  DimVector dims = y->shape().dim_vec();
  if (b->rank() == 1) dims.pop_back();
  if (a->rank() == 1) dims.erase(dims.end() - (b->rank() == 1 ? 1 : 2));
  return dims == y->shape().dim_vec() ? y : c.reshape(y, dims);
}

void convertMatMulInteger(Conversion &c) { c.out(integerProduct(c, c.in(0), c.maybe(2), c.in(1), c.maybe(3))); }

/// 32-bit sums of products as `type`: their scales over that of the result.
Term requantized(Conversion &c, const Term &sum, const Term &left, const Term &right, const Term &scale,
                 const Term &zero, int64_t axis) {
  const Term steps = c.op(
      "broadcast_div", {c.op("broadcast_mul", {c.cast(left, kFloat), c.cast(right, kFloat)}), c.cast(scale, kFloat)});
  return c.op("requantize", withZero(c, sum, steps, zero), {{"axis", axis}, {"dtype", zero->type()}});
}

void convertQLinearMatMul(Conversion &c) {
  const Term a = c.in(0), b = c.in(3), left = alongAxis(c, c.in(1)), right = alongAxis(c, c.in(4));
  const Term sum = integerProduct(c, a, c.in(2), b, c.in(5));
  const Term scale = alongAxis(c, c.in(6)), zero = alongAxis(c, c.in(7));
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
  const DimVector &dims = weight->shape().dim_vec();
  Term x = given;
  Windows w =
      windowsOf(c, x, dims.size() < 3 ? std::vector<int64_t>() : std::vector<int64_t>(dims.begin() + 2, dims.end()));
  if (w.dims() > 3) c.unsupported(std::to_string(w.dims()) + " spatial dimensions");
  if (!w.isEven()) {
    // The zero point all around: of the run, it is taken off before.
    std::vector<int64_t> first{0, 0}, last{0, 0};
    first.insert(first.end(), w.before.begin(), w.before.end());
    last.insert(last.end(), w.after.begin(), w.after.end());
    if (xZero && !xZero->value) c.unsupported("unequal pads around a zero point that is known in the run only");
    x = padded(c, x, first, last, "constant", xZero);
    w.before.assign(w.dims(), 0);
  }
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", weight->dim(0)},
                {"padding_before", w.before},
                {"kernel_size", w.kernel},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", c.i("group", 1)}});
  return c.op("integer_conv" + std::to_string(w.dims()) + "d",
              {x, weight, alongAxis(c, xZero), alongAxis(c, weightZero), bias}, attrs);
}

void convertConvInteger(Conversion &c) { c.out(integerConv(c, c.in(0), c.maybe(2), c.in(1), c.maybe(3), nullptr)); }

void convertQLinearConv(Conversion &c) {
  const Term sum = integerConv(c, c.in(0), c.in(2), c.in(3), c.in(5), c.maybe(8));
  c.out(requantized(c, sum, alongAxis(c, c.in(1)), alongAxis(c, c.in(4)), alongAxis(c, c.in(6)), alongAxis(c, c.in(7)),
                    1));
}

// Ops of ONNX Runtime's domain: computed on the real numbers that the integers stand for ------------------------------

/// Input `k` with its scale and zero point behind it.
Term realOf(Conversion &c, size_t k) {
  Term y = c.cast(c.in(k), kInt32);
  const auto one = [&](size_t j) { return c.in(j)->shape().elem_cnt() == 1 ? c.reshape(c.in(j), {}) : c.in(j); };
  if (c.has(k + 2)) y = c.op("broadcast_sub", {y, c.cast(one(k + 2), kInt32)});
  return c.op("broadcast_mul", {c.cast(y, kFloat), c.cast(one(k + 1), kFloat)});
}

/// As the type of input 0 of the node, by the scale in input `k` and the zero point behind it.
void giveQuantized(Conversion &c, const Term &real, size_t k, DataType type) {
  c.out(quantized(c, real, c.reshape(c.in(k), {}), c.has(k + 1) ? c.reshape(c.in(k + 1), {}) : nullptr, type));
}

template <class F> std::function<void(Conversion &)> quantizedUnary(F f) {
  return [f](Conversion &c) { giveQuantized(c, f(c, realOf(c, 0)), 3, c.in(0)->type()); };
}

std::function<void(Conversion &)> quantizedBinary(const char *op) {
  return [op](Conversion &c) { giveQuantized(c, c.op(op, {realOf(c, 0), realOf(c, 3)}), 6, c.in(0)->type()); };
}

void convertQLinearConcat(Conversion &c) {
  std::vector<Term> parts;
  for (size_t k = 2; k + 1 < c.inputCount(); k += 3) parts.push_back(realOf(c, k));
  if (parts.empty()) c.invalid("it has nothing to join");
  const int64_t axis = c.axisOf(c.required("axis"), parts[0]->rank());
  giveQuantized(c, parts.size() == 1 ? parts[0] : c.op("cat", parts, {{"axis", axis}}), 0, c.in(2)->type());
}

void convertQGemm(Conversion &c) {
  const Term a = c.i("transA", 0) != 0 ? c.transpose(c.in(0), {1, 0}) : c.in(0);
  const Term sum = c.op("integer_matmul", {a, c.in(3), alongAxis(c, c.maybe(2)), alongAxis(c, c.maybe(5))},
                        {{"transpose_b", c.i("transB", 0) != 0}});
  const Term all = c.has(6) ? c.op("broadcast_add", {sum, c.in(6)}) : sum;
  const Term right = c.in(4)->shape().elem_cnt() == 1 ? c.reshape(c.in(4), {}) : c.in(4);
  const Term real =
      c.op("broadcast_mul", {c.cast(all, kFloat), c.op("broadcast_mul", {c.reshape(c.in(1), {}), right})});
  if (!c.has(7)) return c.out(c.scaled(real, c.f("alpha", 1)));
  giveQuantized(c, c.scaled(real, c.f("alpha", 1)), 7, c.in(0)->type());
}

/// A, B, the scales of both, their zero points, a bias.
void convertMatMulToFloat(Conversion &c) {
  const Term a = c.in(0), b = c.in(1);
  const Term y = integerProduct(c, a, c.maybe(4), b, c.maybe(5));
  const Term right = c.in(3)->shape().elem_cnt() == 1 ? c.reshape(c.in(3), {}) : c.in(3);
  const Term real = c.op("broadcast_mul", {c.cast(y, kFloat), c.op("broadcast_mul", {c.reshape(c.in(2), {}), right})});
  c.out(c.has(6) ? c.op("broadcast_add", {real, c.in(6)}) : real);
}

void addQuantizedContributed(ConverterTable *t) {
  const char *const domain = "com.microsoft";
  t->add("QuantizeLinear", convertQuantize, "as QuantizeLinear", "as QuantizeLinear", domain);
  t->add("DequantizeLinear", convertDequantize, "as DequantizeLinear", "as QuantizeLinear", domain);
  t->add("QLinearAdd", quantizedBinary("broadcast_add"), "broadcast_add on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearMul", quantizedBinary("broadcast_mul"), "broadcast_mul on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearSigmoid", quantizedUnary([](Conversion &c, const Term &x) { return c.op("sigmoid", {x}); }),
         "sigmoid on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearLeakyRelu", quantizedUnary([](Conversion &c, const Term &x) {
           return c.op("leaky_relu", {x}, {{"alpha", c.f("alpha", 0.01)}});
         }),
         "leaky_relu on f32, then as QuantizeLinear", "", domain);
  t->add("QLinearGlobalAveragePool", quantizedUnary([](Conversion &c, const Term &x) {
           if (c.i("channels_last", 0)) c.unsupported("channels_last");
           std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(x->rank() - 2, 0)));
           std::iota(axes.begin(), axes.end(), 2);
           return reduced(c, "reduce_mean", x, axes, true);
         }),
         "reduce_mean on f32, then as QuantizeLinear", "channels_last", domain);
  t->add("QLinearConcat", convertQLinearConcat, "cat on f32, then as QuantizeLinear", "", domain);
  t->add("QGemm", convertQGemm, "integer_matmul, then as QuantizeLinear", "", domain);
  t->add("MatMulIntegerToFloat", convertMatMulToFloat, "as MatMulInteger, broadcast_mul", "", domain);
}

} // namespace

void addQuantization(ConverterTable *t) {
  t->add("QuantizeLinear", convertQuantize, "quantize_linear", "blocks, 4- and 8-bit floats, 4-bit integers");
  t->add("DequantizeLinear", convertDequantize, "dequantize_linear", "as QuantizeLinear");
  t->add("DynamicQuantizeLinear", convertDynamicQuantize, "dynamic_quantize_linear");
  t->add("MatMulInteger", convertMatMulInteger, "integer_matmul");
  t->add("QLinearMatMul", convertQLinearMatMul, "integer_matmul, requantize");
  t->add("ConvInteger", convertConvInteger, "integer_conv1d, integer_conv2d, integer_conv3d");
  t->add("QLinearConv", convertQLinearConv, "as ConvInteger, requantize");
  addQuantizedContributed(t);
}

} // namespace opc::onnx
