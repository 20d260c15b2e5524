// ONNX's convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxWindows.h"

#include <algorithm>

namespace opc::onnx {

namespace {

void checkRange(const Conversion &c, const std::string &attribute, const std::vector<int64_t> &values, int64_t least) {
  constexpr int64_t kMost = INT32_MAX / 4;
  for (int64_t v : values)
    if (v < least || v > kMost)
      c.invalid((c.hasAttr(attribute) ? "attribute '" + attribute + "'" : "the shape of its kernel") + " has " +
                std::to_string(v) + ", and must be from " + std::to_string(least) + " to " + std::to_string(kMost));
}

} // namespace

Windows windowsOf(const Conversion &c, const Term &images, std::vector<int64_t> kernel) {
  if (images->rank() < 3) c.invalid("images [n, channels, ...] are wanted, not " + images->shape().ToString());
  const auto dims = static_cast<size_t>(images->rank() - 2);
  Windows w;
  w.kernel = c.ints("kernel_shape", kernel);
  if (w.kernel.empty()) c.invalid("attribute 'kernel_shape' is missing");
  w.strides = c.ints("strides", std::vector<int64_t>(dims, 1));
  w.dilations = c.ints("dilations", std::vector<int64_t>(dims, 1));
  const auto pads = c.ints("pads", std::vector<int64_t>(2 * dims, 0));
  if (w.kernel.size() != dims || w.strides.size() != dims || w.dilations.size() != dims || pads.size() != 2 * dims)
    c.invalid("its attributes are not for " + std::to_string(dims) + " dimensions");
  checkRange(c, "kernel_shape", w.kernel, 1);
  checkRange(c, "strides", w.strides, 1);
  checkRange(c, "dilations", w.dilations, 1);
  checkRange(c, "pads", pads, 0);
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(dims));
  w.after.assign(pads.begin() + static_cast<int64_t>(dims), pads.end());
  w.ceils = c.flag("ceil_mode", false);
  const std::string automatic = c.s("auto_pad", "NOTSET");
  if (automatic == "VALID")
    std::fill(w.before.begin(), w.before.end(), 0), std::fill(w.after.begin(), w.after.end(), 0);
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    for (size_t k = 0; k < dims; ++k) {
      const int64_t size = images->dim(static_cast<int64_t>(k) + 2), extent = (w.kernel[k] - 1) * w.dilations[k] + 1;
      const int64_t count = (size + w.strides[k] - 1) / w.strides[k];
      const int64_t all = std::max<int64_t>(0, (count - 1) * w.strides[k] + extent - size);
      w.before[k] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.after[k] = all - w.before[k];
    }
  return w;
}

int64_t windowCount(const Windows &w, size_t k, int64_t size) {
  const int64_t room = size + w.before[k] + w.after[k] - ((w.kernel[k] - 1) * w.dilations[k] + 1);
  const int64_t beyond = w.ceils ? w.strides[k] - 1 : 0; // what the last window may lack
  if (room + beyond < 0) return 0;
  int64_t count = (room + beyond) / w.strides[k] + 1;
  // A window must not begin in what is padded behind.
  if (w.ceils && (count - 1) * w.strides[k] >= size + w.before[k]) --count;
  return count;
}

std::vector<int64_t> kernelOf(const Term &weight) {
  const DimVector &dims = weight->shape().dim_vec();
  return dims.size() < 3 ? std::vector<int64_t>() : std::vector<int64_t>(dims.begin() + 2, dims.end());
}

Attrs convolutionAttrs(const Windows &w, int64_t filters, int64_t groups) {
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", filters},
                {"padding_before", w.before},
                {"kernel_size", w.kernel},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", groups}});
  return attrs;
}

Term paddedImages(Conversion &c, const Term &x, const std::vector<int64_t> &before, const std::vector<int64_t> &after,
                  const Term &value) {
  std::vector<int64_t> first{0, 0}, last{0, 0};
  first.insert(first.end(), before.begin(), before.end());
  last.insert(last.end(), after.begin(), after.end());
  return padded(c, x, first, last, "constant", value);
}

namespace {

void convertConv(Conversion &c) {
  Term x = c.in(0);
  const Term weight = c.in(1);
  Windows w = windowsOf(c, x, kernelOf(weight));
  if (w.dims() > 3) c.unsupported(std::to_string(w.dims()) + " spatial dimensions: opc convolves up to 3");
  if (!x->isFloating()) c.unsupported("a convolution of integers");
  if (const Term sums = convolvedIntegers(c)) return c.out(sums);
  if (!w.isEven()) {
    x = paddedImages(c, x, w.before, w.after);
    w.before.assign(w.dims(), 0);
  }
  const Attrs attrs = convolutionAttrs(w, weight->dim(0), c.i("group", 1));
  std::vector<Term> inputs{x, weight};
  if (c.has(2)) inputs.push_back(c.in(2));
  c.out(c.op("conv" + std::to_string(w.dims()) + "d", inputs, attrs));
}

void convertConvTranspose(Conversion &c) {
  const Term x = c.in(0), weight = c.in(1);
  Windows w = windowsOf(c, x, kernelOf(weight));
  const size_t dims = w.dims();
  if (dims > 3) c.unsupported(std::to_string(dims) + " spatial dimensions: opc convolves up to 3");
  const int64_t groups = c.i("group", 1);
  std::vector<int64_t> extra = c.ints("output_padding", std::vector<int64_t>(dims, 0));
  if (extra.size() != dims) c.invalid("attribute 'output_padding' is not for " + std::to_string(dims) + " dimensions");
  for (int64_t e : extra)
    if (e < 0) c.invalid("attribute 'output_padding' has " + std::to_string(e) + ", and must not be negative");
  const auto wanted = c.ints("output_shape");
  const std::string automatic = c.s("auto_pad", "NOTSET");
  const auto full = [&](size_t k) {
    return (x->dim(static_cast<int64_t>(k) + 2) - 1) * w.strides[k] + (w.kernel[k] - 1) * w.dilations[k] + 1;
  };
  if (wanted || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const size_t skip = wanted && wanted->size() == dims + 2 ? 2 : 0;
    if (wanted && wanted->size() != dims + skip)
      c.invalid("attribute 'output_shape' is not for " + std::to_string(dims) + " dimensions");
    for (size_t k = 0; k < dims; ++k) {
      const int64_t to = wanted ? (*wanted)[k + skip] : x->dim(static_cast<int64_t>(k) + 2) * w.strides[k];
      const int64_t all = full(k) + extra[k] - to, cropped = std::max<int64_t>(all, 0); // what lacks is behind
      w.before[k] = automatic == "SAME_UPPER" ? cropped / 2 : cropped - cropped / 2;
      w.after[k] = all - w.before[k];
    }
  }
  bool isPlain = w.isEven() && !wanted;
  for (size_t k = 0; k < dims; ++k) isPlain &= extra[k] < w.strides[k] && w.before[k] >= 0;
  const std::vector<int64_t> none(dims, 0);
  Attrs attrs = convolutionAttrs(w, weight->dim(1) * groups, groups);
  attrs["padding_before"] = isPlain ? w.before : none;
  attrs["output_padding"] = isPlain ? extra : none;
  Term y = c.op("deconv" + std::to_string(dims) + "d", {x, weight}, attrs);
  if (!isPlain) { // the whole result, cropped or filled to what is wanted
    std::vector<int64_t> before, after;
    for (size_t k = 0; k < dims; ++k) before.push_back(-w.before[k]), after.push_back(extra[k] - w.after[k]);
    y = paddedImages(c, y, before, after);
  }
  c.out(c.has(2) ? c.op("bias_add", {y, c.in(2)}, {{"axis", int64_t{1}}}) : y);
}

/// The row or column at which every tap of every window samples, [n, offset groups, taps, windows...]; `axis`: 0 of
/// rows, 1 of columns. Scaled so that the image lies from -1 to 1, as grid_sample has it.
Term sampledAt(Conversion &c, const Windows &w, const Term &offsets, size_t axis, int64_t size) {
  const int64_t taps = w.kernel[0] * w.kernel[1], count = offsets->dim(static_cast<int64_t>(axis) + 4);
  std::vector<double> begin;
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t window = 0; window < count; ++window)
      begin.push_back(static_cast<double>(window * w.strides[axis] - w.before[axis] +
                                          (axis == 0 ? tap / w.kernel[1] : tap % w.kernel[1]) * w.dilations[axis]));
  const Shape along = axis == 0 ? Shape({1, 1, taps, count, 1}) : Shape({1, 1, taps, 1, count});
  const Term own = c.slice(offsets, 3, static_cast<int64_t>(axis), static_cast<int64_t>(axis) + 1);
  const Term given = c.reshape(own, {own->dim(0), own->dim(1), taps, own->dim(4), own->dim(5)});
  const Term at = c.op("broadcast_add", {given, c.constant(given->type(), along, begin)});
  const double pixels = static_cast<double>(size);
  return c.plus(c.scaled(at, 2 / pixels), 1 / pixels - 1);
}

/// A convolution whose taps are moved: they are sampled, weighed by the mask, and multiplied by the weight.
void convertDeformConv(Conversion &c) {
  const Term x = c.in(0), weight = c.in(1), offset = c.in(2);
  if (x->rank() != 4) c.unsupported("images of " + std::to_string(x->rank() - 2) + " dimensions: opc moves taps of 2");
  const Windows w = windowsOf(c, x, kernelOf(weight));
  const int64_t n = x->dim(0), channels = x->dim(1), taps = w.kernel[0] * w.kernel[1];
  const int64_t groups = c.i("group", 1), moved = c.i("offset_group", 1);
  const int64_t high = windowCount(w, 0, x->dim(2)), wide = windowCount(w, 1, x->dim(3));
  if (groups < 1 || moved < 1 || channels % groups != 0 || channels % moved != 0 || weight->dim(0) % groups != 0)
    c.invalid("group and offset_group must divide the channels");
  for (size_t k = 1; k < 5; ++k)
    if (c.has(k)) c.checkType(k, {x->type()});
  c.checkShape(1, Shape({weight->dim(0), channels / groups, w.kernel[0], w.kernel[1]}), "its weight");
  c.checkShape(2, Shape({n, moved * taps * 2, high, wide}), "its offsets");
  if (c.has(3)) c.checkShape(3, Shape({weight->dim(0)}), "its biases");
  if (c.has(4)) c.checkShape(4, Shape({n, moved * taps, high, wide}), "its mask");
  const Term offsets = c.reshape(offset, {n, moved, taps, 2, high, wide});
  std::vector<Term> ends; // x before y
  for (const size_t axis : {size_t{1}, size_t{0}})
    ends.push_back(c.reshape(sampledAt(c, w, offsets, axis, x->dim(static_cast<int64_t>(axis) + 2)),
                             {n * moved, taps * high, wide, 1}));
  Term columns = c.op(
      "grid_sample",
      {c.reshape(x, {n * moved, channels / moved, x->dim(2), x->dim(3)}), c.op("cat", ends, {{"axis", int64_t{3}}})},
      {{"interpolation_mode", std::string("bilinear")},
       {"padding_mode", std::string("zeros")},
       {"align_corners", false}});
  if (c.has(4)) {
    const Term mask = c.reshape(c.in(4), {n * moved, 1, taps * high, wide});
    columns = c.op("broadcast_mul", {columns, mask});
  }
  columns = c.reshape(columns, {n, groups, channels / groups * taps, high * wide});
  const Term rows = c.reshape(weight, {groups, weight->dim(0) / groups, channels / groups * taps});
  const Term y = c.reshape(product(c, rows, columns), {n, weight->dim(0), high, wide});
  c.out(c.has(3) ? c.op("bias_add", {y, c.in(3)}, {{"axis", int64_t{1}}}) : y);
}

/// Columns of blocks added up to images. Each element of a block goes its own way: a transposed convolution of each
/// channel's elements, whose filters have a one at their places.
void convertCol2Im(Conversion &c) {
  const Term x = c.in(0);
  const auto size = c.knownInts(1);
  const auto dims = static_cast<int64_t>(size.size());
  if (dims < 1 || dims > 3) c.unsupported("blocks of " + std::to_string(dims) + " dimensions: opc folds up to 3");
  DimVector whole{x->dim(0), 1};
  for (const int64_t side : size) {
    if (side < 1 || side > INT32_MAX) c.invalid("an image cannot have a side of " + std::to_string(side));
    whole.push_back(side);
  }
  const auto block = c.knownInts(2);
  const Windows w = windowsOf(c, c.draft.parameter({Shape(whole), x->type()}), block);
  const int64_t elements = Shape(block).elem_cnt();
  DimVector blocks{x->dim(0), x->dim(1)}, filter{x->dim(1), 1};
  for (size_t k = 0; k < w.dims(); ++k) {
    blocks.push_back(windowCount(w, k, size[k]));
    filter.push_back(block[k]);
  }
  if (x->rank() != 3 || elements < 1 || x->dim(1) % elements != 0 || x->dim(2) != Shape(blocks).Count(2))
    c.invalid("columns [n, channels * " + std::to_string(elements) + ", " + std::to_string(Shape(blocks).Count(2)) +
              "] are wanted, not " + x->shape().ToString());
  if (dims == 2 && w.isEven())
    return c.out(c.op("fold", {x},
                      {{"output_size", size},
                       {"kernel_size", block},
                       {"padding", w.before},
                       {"strides", w.strides},
                       {"dilation_rate", w.dilations}}));
  std::vector<double> ones(static_cast<size_t>(x->dim(1) * elements), 0.0);
  for (int64_t row = 0; row < x->dim(1); ++row) ones[static_cast<size_t>(row * elements + row % elements)] = 1;
  const int64_t channels = x->dim(1) / elements;
  const std::vector<int64_t> none(w.dims(), 0);
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", channels},
                {"padding_before", none},
                {"kernel_size", block},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", channels},
                {"output_padding", none}});
  const Term y = c.op("deconv" + std::to_string(dims) + "d",
                      {c.reshape(x, blocks), c.constant(x->type(), Shape(filter), ones)}, attrs);
  std::vector<int64_t> before, after; // what lies in the padding goes, and images are as large as is wanted
  for (size_t k = 0; k < w.dims(); ++k) {
    before.push_back(-w.before[k]);
    after.push_back(size[k] + w.before[k] - y->dim(static_cast<int64_t>(k) + 2));
  }
  c.out(paddedImages(c, y, before, after));
}

} // namespace

void addConvolutions(ConverterTable *t) {
  t->add("Conv", convertConv, "conv1d, conv2d, conv3d, pad", "more than 3 spatial dimensions, integers");
  t->add("ConvTranspose", convertConvTranspose, "deconv1d, deconv2d, deconv3d, pad, slice, bias_add",
         "more than 3 spatial dimensions");
  t->add("DeformConv", convertDeformConv, "grid_sample, broadcast_mul, matmul", "other than 2 dimensions");
  t->add("Col2Im", convertCol2Im, "fold; deconv1d, deconv2d, deconv3d, pad", "more than 3 dimensions");
}

} // namespace opc::onnx
