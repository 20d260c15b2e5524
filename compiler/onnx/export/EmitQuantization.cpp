// Quantised integers, their products and convolutions as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "EmitWindows.h"
#include "OnnxEmitters.h"

#include <optional>

namespace opc::onnx_export {
namespace {

/// Scales or zero points, shaped to broadcast over `x`.
Wire alongAxis(Emission &e, const Wire &w, const Wire &x, int64_t axis) {
  if (w.shape.elem_cnt() == 1) return e.reshape(w, Shape());
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), 1);
  dims[static_cast<size_t>(axis < 0 ? axis + x.rank() : axis)] = w.shape.elem_cnt();
  return e.reshape(w, dims);
}

/// The type in which opc computes.
DataType computed(DataType type) { return type == kDouble ? kDouble : kFloat; }

/// QuantizeLinear and DequantizeLinear are of f32 and 8 bits everywhere; other types are written out.
bool hasNode(DataType quantized, DataType real) {
  return (quantized == kUInt8 || quantized == kInt8) && computed(real) == kFloat;
}

/// steps, rounded, moved by the zero point and held to the range of the op's output.
Wire held(Emission &e, const Wire &steps, int64_t axis) {
  const DataType type = e.madeFirst().data_type();
  Wire y = e.cast(e.unary("Round", steps), kDouble); // 32 bits do not fit in f32
  if (e.has("zero_point")) y = e.add(y, e.cast(alongAxis(e, e.raw("zero_point"), steps, axis), kDouble));
  const ElementType &to = elementType(type);
  y = e.binary("Min", e.binary("Max", y, e.number(y, to.lowest)), e.number(y, to.highest));
  return e.cast(y, type);
}

/// By a node: `x` in f32 by `scale`.
Wire quantized(Emission &e, const Wire &x, const Wire &scale) {
  const DataType type = e.madeFirst().data_type();
  const bool isOne = scale.shape.elem_cnt() == 1;
  const auto shaped = [&](const Wire &w) { return isOne ? e.reshape(w, Shape()) : w; };
  std::vector<Wire> inputs = {x, shaped(scale)};
  if (e.has("zero_point"))
    inputs.push_back(shaped(e.raw("zero_point")));
  else if (type != kUInt8)
    inputs.push_back(
        e.constant(type, inputs[1].shape, std::vector<double>(static_cast<size_t>(scale.shape.elem_cnt()))));
  return e.node("QuantizeLinear", inputs, {{"axis", e.i("axis")}}, type, x.shape);
}

void convertQuantize(Emission &e) {
  const DataType real = e.raw("in").type;
  const Wire x = e.cast(e.raw("in"), computed(real)), scale = e.cast(e.raw("scale"), computed(real));
  if (hasNode(e.madeFirst().data_type(), real)) return e.out(quantized(e, x, scale));
  e.out(held(e, e.div(x, alongAxis(e, scale, x, e.i("axis"))), e.i("axis")));
}

void convertDequantize(Emission &e) {
  const DataType real = e.madeFirst().data_type();
  const Wire x = e.raw("in"), scale = e.cast(e.raw("scale"), computed(real));
  if (!hasNode(x.type, real)) {
    Wire y = e.cast(x, kInt64);
    if (e.has("zero_point")) y = e.sub(y, e.cast(alongAxis(e, e.raw("zero_point"), x, e.i("axis")), kInt64));
    return e.out(e.cast(e.mul(e.cast(y, computed(real)), alongAxis(e, scale, x, e.i("axis"))), real));
  }
  const bool isOne = scale.shape.elem_cnt() == 1;
  const auto shaped = [&](const Wire &w) { return isOne ? e.reshape(w, Shape()) : w; };
  std::vector<Wire> inputs = {x, shaped(scale)};
  if (e.has("zero_point")) inputs.push_back(shaped(e.raw("zero_point")));
  e.out(e.cast(e.node("DequantizeLinear", inputs, {{"axis", e.i("axis")}}, kFloat, x.shape), real));
}

void convertRequantize(Emission &e) {
  const Wire in = e.cast(e.raw("in"), kFloat), scale = e.raw("scale");
  const Wire steps = e.mul(in, alongAxis(e, scale, in, e.i("axis")));
  if (!hasNode(e.madeFirst().data_type(), kFloat)) return e.out(held(e, steps, e.i("axis")));
  const Wire one = e.constant(kFloat, scale.shape, std::vector<double>(static_cast<size_t>(scale.shape.elem_cnt()), 1));
  e.out(quantized(e, steps, one));
}

void convertDynamic(Emission &e) {
  const Wire x = e.raw("in");
  const std::vector<Wire> made =
      e.nodes("DynamicQuantizeLinear", {x}, {}, {{kUInt8, x.shape}, {kFloat, Shape()}, {kUInt8, Shape()}});
  e.out("out", made[0]);
  e.out("scale", made[1]);
  e.out("zero_point", made[2]);
}

/// A zero point, or 0 where one must stand before another.
Wire zeroOf(Emission &e, const std::string &arg) {
  const std::string name = arg + "_zero_point";
  if (!e.has(name)) return e.constant(e.raw(arg).type, Shape(), {0});
  const Wire zero = e.raw(name);
  return zero.shape.elem_cnt() == 1 ? e.reshape(zero, Shape()) : zero;
}

std::vector<Wire> operands(Emission &e, const Wire &a, const Wire &b, const char *left, const char *right) {
  const std::string zeros[] = {std::string(left) + "_zero_point", std::string(right) + "_zero_point"};
  std::vector<Wire> inputs = {a, b};
  if (e.has(zeros[0]) || e.has(zeros[1])) inputs.push_back(zeroOf(e, left));
  if (e.has(zeros[1])) inputs.push_back(zeroOf(e, right));
  return inputs;
}

/// Less its zero points, which stand along `axis`, in i32.
Wire centred(Emission &e, const Wire &x, const std::string &arg, int64_t axis) {
  const Wire wide = e.cast(x, kInt32);
  if (!e.has(arg + "_zero_point")) return wide;
  const Wire zero = e.cast(zeroOf(e, arg), kInt32);
  if (zero.rank() == 0) return e.sub(wide, zero);
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), 1);
  dims[static_cast<size_t>(axis)] = zero.dim(0);
  return e.sub(wide, e.reshape(zero, dims));
}

/// Sums as real numbers, or as these in 8 bits; `axis` has the columns or filters.
Wire finished(Emission &e, const Wire &sums, int64_t axis) {
  const Wire kept = e.b("relu") ? e.binary("Max", sums, e.number(sums, 0)) : sums;
  const Wire wide = e.cast(kept, kFloat), steps = e.mul(wide, alongAxis(e, e.raw("scale"), wide, axis));
  return e.madeFirst().data_type() == kFloat ? steps : held(e, steps, axis);
}

Wire productSums(Emission &e) {
  Wire b = e.raw("b");
  if (e.b("transpose_b")) {
    std::vector<int64_t> perm;
    for (int64_t k = 0; k + 2 < b.rank(); ++k) perm.push_back(k);
    perm.insert(perm.end(), {b.rank() - 1, b.rank() - 2});
    b = e.transpose(b, perm);
  }
  const Wire a = e.raw("a");
  // ONNX Runtime's MatMulInteger has no zero points of rows, and no products of nothing.
  const bool hasNode = a.dim(-1) > 0 && (!e.has("a_zero_point") || e.raw("a_zero_point").shape.elem_cnt() == 1);
  const Wire made = hasNode ? e.node("MatMulInteger", operands(e, a, b, "a", "b"), {}, kInt32, e.madeFirst().shape())
                            : e.matmul(centred(e, a, "a", a.rank() - 2), centred(e, b, "b", b.rank() - 1));
  return e.has("bias") ? e.add(made, e.raw("bias")) : made;
}

/// Of channels_first images; `shape` is that of the sums. ONNX Runtime's ConvInteger has one zero point for all
/// filters: where each has its own, the sums under a filter of ones, times it, are taken off.
Wire convSums(Emission &e, const Wire &x, const Shape &shape) {
  const Wire w = e.raw("weight");
  const auto dims = static_cast<size_t>(x.rank() - 2);
  const int64_t groups = e.i("groups");
  std::vector<int64_t> pads = listOf(e, "padding_before", dims, 0);
  pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<int64_t>(dims));
  const auto sums = [&](const std::vector<Wire> &inputs, const Shape &made) {
    return e.node("ConvInteger", inputs,
                  {{"kernel_shape", std::vector<int64_t>(w.shape.begin() + 2, w.shape.end())},
                   {"strides", listOf(e, "strides", dims, 1)},
                   {"dilations", listOf(e, "dilation_rate", dims, 1)},
                   {"group", groups},
                   {"pads", pads}},
                  kInt32, made);
  };
  std::vector<int64_t> filters(dims + 1, 1);
  filters[0] = w.dim(0);
  std::vector<Wire> inputs = operands(e, x, w, "in", "weight");
  std::optional<Wire> zeros;
  if (inputs.size() == 4 && inputs[3].rank() > 0) {
    zeros = inputs[3];
    inputs.pop_back();
    if (const std::optional<Wire> one = e.nodesHere().asNumber(*zeros)) inputs.push_back(*one), zeros.reset();
  }
  Wire made = sums(inputs, shape);
  if (zeros) {
    Shape ones = w.shape, each = shape;
    ones.Set(0, groups), each.Set(1, groups);
    inputs[1] = e.constant(w.type, ones, std::vector<double>(static_cast<size_t>(ones.elem_cnt()), 1));
    Wire under = sums(inputs, each);
    if (groups > 1) { // one for each filter of the group
      std::vector<int64_t> apart(each.begin(), each.end());
      apart.insert(apart.begin() + 2, 1);
      under = e.reshape(under, apart);
      apart[2] = w.dim(0) / groups;
      under = e.reshape(e.expand(under, Shape(apart)), shape);
    }
    made = e.sub(made, e.mul(under, e.reshape(e.cast(*zeros, kInt32), filters)));
  }
  return e.has("bias") ? e.add(made, e.reshape(e.raw("bias"), filters)) : made;
}

void convertProduct(Emission &e) { e.out(productSums(e)); }
void convertFusedProduct(Emission &e) { e.out(finished(e, productSums(e), -1)); }
void convertConv(Emission &e) { e.out(convSums(e, e.raw("in"), e.madeFirst().shape())); }

void convertFusedConv(Emission &e) {
  const Shape &made = e.madeFirst().shape();
  if (!isChannelsLast(e)) return e.out(finished(e, convSums(e, e.raw("in"), made), 1));
  const Shape first{made.At(0), made.At(3), made.At(1), made.At(2)};
  const Wire x = e.transpose(e.raw("in"), {0, 3, 1, 2});
  e.out(e.transpose(finished(e, convSums(e, x, first), 1), {0, 2, 3, 1}));
}

} // namespace

void addQuantization(EmitterTable *t) {
  t->add("quantize_linear", Types::kOwn, convertQuantize, "QuantizeLinear; Div, Round, Min, Max, Cast");
  t->add("dequantize_linear", Types::kOwn, convertDequantize, "DequantizeLinear; Sub, Cast, Mul");
  t->add("requantize", Types::kOwn, convertRequantize, "Cast, Mul, QuantizeLinear");
  t->add("dynamic_quantize_linear", Types::kOwn, convertDynamic, "DynamicQuantizeLinear");
  t->add("integer_matmul", Types::kOwn, convertProduct, "MatMulInteger, Add; Sub, MatMul");
  t->add("fused_integer_matmul", Types::kOwn, convertFusedProduct, "as integer_matmul, Max, Mul, Round, Min, Cast");
  t->add("fused_integer_conv2d", Types::kOwn, convertFusedConv,
         "ConvInteger, Add, Sub, Max, Mul, Round, Min, Cast, Transpose");
  for (const char *name : {"integer_conv1d", "integer_conv2d", "integer_conv3d"})
    t->add(name, Types::kOwn, convertConv, "ConvInteger, Add; Sub, Mul of a zero point for each filter");
  t->nodesSayMore({"quantize_linear", "dequantize_linear", "requantize", "dynamic_quantize_linear", "integer_matmul",
                   "fused_integer_matmul", "fused_integer_conv2d", "integer_conv1d", "integer_conv2d",
                   "integer_conv3d"});
}

} // namespace opc::onnx_export
