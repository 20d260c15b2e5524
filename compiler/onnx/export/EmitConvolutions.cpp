// Convolutions and their gradients as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "EmitWindows.h"
#include "OnnxEmitters.h"

#include <algorithm>

namespace opc::onnx_export {

bool isChannelsLast(Emission &e) { return e.s("data_format") == "channels_last"; }

Wire channelsFirst(Emission &e, const Wire &x, bool isLast) {
  if (!isLast) return x;
  std::vector<int64_t> perm = {0, x.rank() - 1};
  for (int64_t k = 1; k + 1 < x.rank(); ++k) perm.push_back(k);
  return e.transpose(x, perm);
}

Wire channelsBack(Emission &e, const Wire &x, bool toLast) {
  if (!toLast) return x;
  std::vector<int64_t> perm = {0};
  for (int64_t k = 2; k < x.rank(); ++k) perm.push_back(k);
  perm.push_back(1);
  return e.transpose(x, perm);
}

std::vector<int64_t> listOf(Emission &e, const char *attr, size_t size, int64_t otherwise) {
  std::vector<int64_t> list = e.ints(attr);
  if (list.empty()) list.assign(size, otherwise);
  return list;
}

namespace {

struct Convolution {
  std::vector<int64_t> kernel, strides, pads, dilations;
  int64_t groups;
  size_t dims() const { return kernel.size(); }
  int64_t extent(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
};

/// By the attributes of an op whose filter (channels first) is `weight`.
Convolution convolutionOf(Emission &e, const Shape &weight) {
  Convolution c;
  c.kernel = {weight.begin() + 2, weight.end()};
  c.strides = listOf(e, "strides", c.dims(), 1);
  c.pads = listOf(e, "padding_before", c.dims(), 0);
  c.dilations = listOf(e, "dilation_rate", c.dims(), 1);
  c.groups = e.i("groups");
  return c;
}

/// Pads behind an axis by which the windows end where the output ends.
std::vector<int64_t> padsOf(const Convolution &c) {
  std::vector<int64_t> pads = c.pads;
  pads.insert(pads.end(), c.pads.begin(), c.pads.end());
  return pads;
}

NodeAttrs attrsOf(const Convolution &c, std::vector<int64_t> pads) {
  return {{"kernel_shape", c.kernel},
          {"strides", c.strides},
          {"dilations", c.dilations},
          {"group", c.groups},
          {"pads", std::move(pads)}};
}

Shape channelsFirst(const Shape &shape, bool isLast) {
  if (!isLast) return shape;
  std::vector<int64_t> dims = {shape.At(0), shape.At(shape.NumAxes() - 1)};
  dims.insert(dims.end(), shape.begin() + 1, shape.end() - 1);
  return Shape(dims.data(), static_cast<int64_t>(dims.size()));
}

/// With everything that comes after it: `tail` sees channels first.
Wire convolved(Emission &e, bool weightIsLast) {
  const bool isLast = isChannelsLast(e);
  const Wire x = channelsFirst(e, e.in("in"), isLast), w = channelsFirst(e, e.in("weight"), weightIsLast);
  std::vector<Wire> inputs = {x, w};
  if (e.has("bias")) inputs.push_back(e.in("bias"));
  if (e.has("bias_multiplier")) e.refuse("a bias with a multiplier");
  const Convolution c = convolutionOf(e, w.shape);
  return e.node("Conv", inputs, attrsOf(c, padsOf(c)), x.type, channelsFirst(e.madeFirst().shape(), isLast));
}

Wire plusAddend(Emission &e, const Wire &y) { return e.has("_add_to_output") ? e.add(y, e.in("_add_to_output")) : y; }

void convertConv(Emission &e) {
  const bool isLast = isChannelsLast(e);
  e.out(plusAddend(e, channelsBack(e, convolved(e, isLast), isLast)));
}

void convertFusedConv(Emission &e) {
  const bool isLast = isChannelsLast(e);
  Wire y = convolved(e, e.s("weight_format") == "channels_last");
  if (e.has("gamma"))
    y = e.node("BatchNormalization", {y, e.in("gamma"), e.in("beta"), e.in("moving_mean"), e.in("moving_variance")},
               {{"epsilon", e.f("epsilon")}}, y.type, y.shape);
  y = plusAddend(e, channelsBack(e, y, isLast));
  if (e.s("activation") == "relu") y = e.unary("Relu", y);
  if (e.s("activation") == "clip")
    y = e.binary("Min", e.binary("Max", y, e.number(y, e.f("activation_min"))), e.number(y, e.f("activation_max")));
  e.out(y);
}

/// A transposed convolution to a tensor of `shape`.
Wire transposedTo(Emission &e, const Wire &dy, const Wire &w, const Convolution &c, const Shape &shape) {
  std::vector<int64_t> more; // what the windows do not reach
  for (size_t k = 0; k < c.dims(); ++k) {
    const auto axis = static_cast<int64_t>(k) + 2;
    more.push_back(shape.At(axis) - ((dy.dim(axis) - 1) * c.strides[k] + c.extent(k) - 2 * c.pads[k]));
  }
  NodeAttrs attrs = attrsOf(c, padsOf(c));
  attrs.insert({"output_padding", more});
  return e.node("ConvTranspose", {dy, w}, attrs, dy.type, shape);
}

void convertDeconv(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const Wire x = channelsFirst(e, e.in("in"), isLast), w = channelsFirst(e, e.in("weight"), isLast);
  const Convolution c = convolutionOf(e, w.shape);
  e.out(channelsBack(e, transposedTo(e, x, w, c, channelsFirst(e.madeFirst().shape(), isLast)), isLast));
}

void convertDataGrad(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const Wire dy = channelsFirst(e, e.in("dy"), isLast), w = channelsFirst(e, e.in("filter"), isLast);
  const Convolution c = convolutionOf(e, w.shape);
  e.out(
      plusAddend(e, channelsBack(e, transposedTo(e, dy, w, c, channelsFirst(e.madeFirst().shape(), isLast)), isLast)));
}

/// The convolution of x with dy where batch and channels change places, and strides and dilations.
Wire filterGrad(Emission &e, const Wire &x, const Wire &dy, const Convolution &c) {
  std::vector<int64_t> swap = {1, 0};
  for (int64_t k = 2; k < x.rank(); ++k) swap.push_back(k);
  const Wire from = e.transpose(x, swap), windows = e.transpose(dy, swap);
  Convolution other = c;
  other.groups = 1;
  std::swap(other.strides, other.dilations);
  std::vector<int64_t> dims = {x.dim(1), dy.dim(1)};
  for (size_t k = 0; k < c.dims(); ++k) {
    const auto axis = static_cast<int64_t>(k) + 2;
    other.kernel[k] = dy.dim(axis);
    dims.push_back((x.dim(axis) + 2 * c.pads[k] - other.extent(k)) / other.strides[k] + 1);
  }
  Wire made = e.node("Conv", {from, windows}, attrsOf(other, padsOf(other)), x.type,
                     Shape(dims.data(), static_cast<int64_t>(dims.size())));
  for (size_t k = 0; k < c.dims(); ++k) made = e.slice(made, static_cast<int64_t>(k) + 2, 0, c.kernel[k]);
  return e.transpose(made, swap);
}

void convertFilterGrad(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const Wire dy = channelsFirst(e, e.in("dy"), isLast), x = channelsFirst(e, e.in("x"), isLast);
  const Convolution c = convolutionOf(e, channelsFirst(e.madeFirst().shape(), isLast));
  std::vector<Wire> parts;
  const int64_t in = x.dim(1) / c.groups, out = dy.dim(1) / c.groups;
  for (int64_t g = 0; g < c.groups; ++g)
    parts.push_back(filterGrad(e, e.slice(x, 1, g * in, (g + 1) * in), e.slice(dy, 1, g * out, (g + 1) * out), c));
  e.out(channelsBack(e, e.concat(parts, 0), isLast));
}

void convertBiasGrad(Emission &e) {
  const Wire dy = e.in("dy");
  const int64_t channels = isChannelsLast(e) ? dy.rank() - 1 : 1;
  std::vector<int64_t> axes;
  for (int64_t k = 0; k < dy.rank(); ++k)
    if (k != channels) axes.push_back(k);
  e.out(e.reduce("ReduceSum", dy, axes, false));
}

} // namespace

void addConvolutions(EmitterTable *t) {
  for (const char *name : {"conv1d", "conv2d", "conv3d"})
    t->add(name, Types::kNumbers, convertConv, "Conv, Transpose, Add");
  for (const char *name : {"deconv1d", "deconv2d", "deconv3d"})
    t->add(name, Types::kNumbers, convertDeconv, "ConvTranspose, Transpose");
  t->add("fused_conv2d", Types::kNumbers, convertFusedConv, "Conv, BatchNormalization, Add, Relu, Max, Min");
  t->add("conv_data_grad", Types::kWide, convertDataGrad, "ConvTranspose, Transpose");
  t->add("conv_filter_grad", Types::kWide, convertFilterGrad, "Conv, Transpose, Slice, Concat");
  t->add("conv_bias_grad", Types::kWide, convertBiasGrad, "ReduceSum");
  t->isAnotherAlone({"conv_bias_grad"});
}

} // namespace opc::onnx_export
