// ONNX's quantised ops, computed exactly in wider types.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxWindows.h"

#include <numeric>

namespace opc::onnx {
namespace {

/// Scales and zero points of one axis, shaped to broadcast over it.
Term alongAxis(Conversion &c, const Term &t, const Term &x, int64_t axis) {
  if (t->shape().elem_cnt() == 1) return c.reshape(t, {});
  if (t->rank() != 1) c.unsupported("scales of blocks");
  DimVector dims(static_cast<size_t>(x->rank()), 1);
  dims[static_cast<size_t>(c.axisOf(axis, x->rank()))] = t->dim(0);
  return c.reshape(t, dims);
}

/// round(x / scale) + zero, held to the range of `type`.
Term quantized(Conversion &c, const Term &x, const Term &scale, const Term &zero, DataType type) {
  const Term steps = c.op("rint", {c.op("broadcast_div", {x, c.cast(scale, x->type())})});
  const Term moved = zero ? c.op("broadcast_add", {steps, c.cast(zero, x->type())}) : steps;
  const ElementType &to = elementType(type);
  if (!IsIntegralDataType(type)) c.unsupported(std::string("quantisation to ") + to.name);
  return c.cast(c.op("clip_by_scalar", {moved}, {{"floating_min", to.lowest}, {"floating_max", to.highest}}), type);
}

void convertQuantize(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.i("axis", 1);
  const Term zero = c.has(2) ? alongAxis(c, c.in(2), x, axis) : nullptr;
  const DataType type = zero ? zero->type() : c.i("output_dtype", 0) ? c.elementTypeOf(c.i("output_dtype", 0)) : kUInt8;
  c.out(quantized(c, c.cast(x, x->isFloating() ? x->type() : kFloat), alongAxis(c, c.in(1), x, axis), zero, type));
}

void convertDequantize(Conversion &c) {
  const Term x = c.in(0), scale = alongAxis(c, c.in(1), x, c.i("axis", 1));
  Term y = c.cast(x, kInt32);
  if (c.has(2)) y = c.op("broadcast_sub", {y, c.cast(alongAxis(c, c.in(2), x, c.i("axis", 1)), kInt32)});
  c.out(c.op("broadcast_mul", {c.cast(y, scale->type()), scale}));
}

void convertDynamicQuantize(Conversion &c) {
  const Term x = c.in(0);
  std::vector<int64_t> axes(static_cast<size_t>(x->rank()));
  std::iota(axes.begin(), axes.end(), 0);
  const Term zero = like(c, x, 0);
  const Term low = c.op("broadcast_minimum", {reduced(c, "reduce_min", x, axes, false), zero});
  const Term high = c.op("broadcast_maximum", {reduced(c, "reduce_max", x, axes, false), zero});
  const Term scale = c.op("broadcast_div", {c.op("broadcast_sub", {high, low}), like(c, x, 255)});
  const Term point =
      c.op("rint", {c.op("clip_by_scalar", {c.op("broadcast_sub", {zero, c.op("broadcast_div", {low, scale})})},
                         {{"floating_min", 0.0}, {"floating_max", 255.0}})});
  c.out(0, quantized(c, x, scale, point, kUInt8));
  c.out(1, scale);
  c.out(2, c.cast(point, kUInt8));
}

/// x - zero as i32; a zero point of rows or columns stands at `axis`.
Term centred(Conversion &c, const Term &x, const Term &zero, int64_t axis) {
  const Term wide = c.cast(x, kInt32);
  return zero ? c.op("broadcast_sub", {wide, c.cast(alongAxis(c, zero, x, axis), kInt32)}) : wide;
}

Term integerProduct(Conversion &c, const Term &a, const Term &b) {
  if (a->rank() == 2 && b->rank() == 2) return c.op("matmul", {a, b});
  if (a->rank() == b->rank() && a->rank() > 2) return c.op("batch_matmul", {a, b});
  if (b->rank() == 2 && a->rank() > 2) return c.op("broadcast_matmul", {a, b});
  c.unsupported("a product of the ranks " + std::to_string(a->rank()) + " and " + std::to_string(b->rank()));
}

void convertMatMulInteger(Conversion &c) {
  const Term a = c.in(0), b = c.in(1);
  c.out(integerProduct(c, centred(c, a, c.maybe(2), a->rank() - 2), centred(c, b, c.maybe(3), b->rank() - 1)));
}

void convertQLinearMatMul(Conversion &c) {
  const Term a = c.in(0), b = c.in(3);
  const Term y = integerProduct(c, centred(c, a, c.in(2), a->rank() - 2), centred(c, b, c.in(5), b->rank() - 1));
  const Term left = alongAxis(c, c.in(1), a, a->rank() - 2), right = alongAxis(c, c.in(4), b, b->rank() - 1);
  const Term scale = c.op("broadcast_mul", {c.cast(left, kFloat), c.cast(right, kFloat)});
  const Term real = c.op("broadcast_mul", {c.cast(y, kFloat), scale});
  c.out(quantized(c, real, c.reshape(c.in(6), {}), c.reshape(c.in(7), {}), c.in(7)->type()));
}

/// Exact: sums of products of 8-bit numbers are whole in f64.
Term integerConv(Conversion &c, const Term &x, const Term &weight, const Term &bias) {
  const DimVector &dims = weight->shape().dim_vec();
  Windows w =
      windowsOf(c, x, dims.size() < 3 ? std::vector<int64_t>() : std::vector<int64_t>(dims.begin() + 2, dims.end()));
  if (w.dims() > 3) c.unsupported(std::to_string(w.dims()) + " spatial dimensions");
  std::vector<int64_t> first{0, 0}, last{0, 0};
  first.insert(first.end(), w.before.begin(), w.before.end());
  last.insert(last.end(), w.after.begin(), w.after.end());
  const Term images = padded(c, c.cast(x, kDouble), first, last, "constant", nullptr);
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", weight->dim(0)},
                {"padding_before", std::vector<int64_t>(w.dims(), 0)},
                {"kernel_size", w.kernel},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", c.i("group", 1)}});
  std::vector<Term> inputs{images, c.cast(weight, kDouble)};
  if (bias) inputs.push_back(c.cast(bias, kDouble));
  return c.op("conv" + std::to_string(w.dims()) + "d", inputs, attrs);
}

void convertConvInteger(Conversion &c) {
  c.out(
      c.cast(integerConv(c, centred(c, c.in(0), c.maybe(2), 1), centred(c, c.in(1), c.maybe(3), 0), nullptr), kInt32));
}

void convertQLinearConv(Conversion &c) {
  const Term x = c.in(0), weight = c.in(3);
  const Term sum = integerConv(c, centred(c, x, c.in(2), 1), centred(c, weight, c.in(5), 0), c.maybe(8));
  const Term scale = c.op("broadcast_div", {c.op("broadcast_mul", {c.cast(c.reshape(c.in(1), {}), kDouble),
                                                                   c.cast(alongAxis(c, c.in(4), sum, 1), kDouble)}),
                                            c.cast(c.reshape(c.in(6), {}), kDouble)});
  const Term steps = c.op("broadcast_mul", {sum, scale});
  c.out(quantized(c, steps, c.scalar(kDouble, 1), c.reshape(c.in(7), {}), c.in(7)->type()));
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
  const Term sum =
      c.op("matmul", {centred(c, c.in(0), c.maybe(2), 0), centred(c, c.in(3), c.maybe(5), c.i("transB", 0) ? 0 : 1)},
           {{"transpose_a", c.i("transA", 0) != 0}, {"transpose_b", c.i("transB", 0) != 0}});
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
  const Term y = integerProduct(c, centred(c, a, c.maybe(4), a->rank() - 2), centred(c, b, c.maybe(5), b->rank() - 1));
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
  t->add("QGemm", convertQGemm, "matmul on i32, then as QuantizeLinear", "", domain);
  t->add("MatMulIntegerToFloat", convertMatMulToFloat, "as MatMulInteger, broadcast_mul", "", domain);
}

} // namespace

void addQuantization(ConverterTable *t) {
  t->add("QuantizeLinear", convertQuantize, "broadcast_div, rint, clip_by_scalar, cast",
         "blocks, 4- and 8-bit floats, 4-bit integers");
  t->add("DequantizeLinear", convertDequantize, "cast, broadcast_sub, broadcast_mul", "as QuantizeLinear");
  t->add("DynamicQuantizeLinear", convertDynamicQuantize, "reduce_min, reduce_max, broadcast_div, rint, cast");
  t->add("MatMulInteger", convertMatMulInteger, "matmul, batch_matmul, broadcast_matmul on i32");
  t->add("QLinearMatMul", convertQLinearMatMul, "as MatMulInteger, then as QuantizeLinear");
  t->add("ConvInteger", convertConvInteger, "conv1d, conv2d, conv3d on f64");
  t->add("QLinearConv", convertQLinearConv, "as ConvInteger, then as QuantizeLinear");
  addQuantizedContributed(t);
}

} // namespace opc::onnx
