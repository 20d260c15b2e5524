// ONNX's convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxWindows.h"

#include <algorithm>

namespace opc::onnx {

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
  for (size_t k = 0; k < dims; ++k)
    if (w.kernel[k] < 1 || w.strides[k] < 1 || w.dilations[k] < 1 || pads[k] < 0 || pads[k + dims] < 0 ||
        std::max({w.kernel[k], w.strides[k], w.dilations[k], pads[k], pads[k + dims]}) > INT32_MAX / 4)
      c.invalid("a kernel, stride, dilation or pad that cannot be");
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
  if (room < 0) return 0;
  int64_t count = (w.ceils ? (room + w.strides[k] - 1) / w.strides[k] : room / w.strides[k]) + 1;
  // A window must not begin in what is padded behind.
  if (w.ceils && (count - 1) * w.strides[k] >= size + w.before[k]) --count;
  return count;
}

namespace {

std::vector<int64_t> kernelOf(const Term &weight) {
  const DimVector &dims = weight->shape().dim_vec();
  return dims.size() < 3 ? std::vector<int64_t>() : std::vector<int64_t>(dims.begin() + 2, dims.end());
}

/// A pad of the spatial dimensions.
Term paddedImages(Conversion &c, const Term &x, const std::vector<int64_t> &before, const std::vector<int64_t> &after) {
  std::vector<int64_t> first{0, 0}, last{0, 0};
  first.insert(first.end(), before.begin(), before.end());
  last.insert(last.end(), after.begin(), after.end());
  return padded(c, x, first, last, "constant", nullptr);
}

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
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", weight->dim(0)},
                {"padding_before", w.before},
                {"kernel_size", w.kernel},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", c.i("group", 1)}});
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
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", weight->dim(1) * groups},
                {"padding_before", std::vector<int64_t>(dims, 0)},
                {"kernel_size", w.kernel},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", groups},
                {"output_padding", std::vector<int64_t>(dims, 0)}});
  bool isPlain = w.isEven() && !wanted;
  for (size_t k = 0; k < dims; ++k) isPlain &= extra[k] < w.strides[k] && w.before[k] >= 0;
  if (isPlain) attrs["padding_before"] = w.before, attrs["output_padding"] = extra;
  Term y = c.op("deconv" + std::to_string(dims) + "d", {x, weight}, attrs);
  if (!isPlain) { // the whole result, cropped or filled to what is wanted
    std::vector<int64_t> before, after;
    for (size_t k = 0; k < dims; ++k) before.push_back(-w.before[k]), after.push_back(extra[k] - w.after[k]);
    y = paddedImages(c, y, before, after);
  }
  c.out(c.has(2) ? c.op("bias_add", {y, c.in(2)}, {{"axis", int64_t{1}}}) : y);
}

void convertCol2Im(Conversion &c) {
  const Term x = c.in(0);
  const auto size = c.knownInts(1), block = c.knownInts(2);
  if (size.size() != 2 || block.size() != 2)
    c.unsupported("blocks of " + std::to_string(block.size()) + " dimensions: opc folds 2");
  const auto pads = c.ints("pads", {0, 0, 0, 0});
  if (pads.size() != 4 || pads[0] != pads[2] || pads[1] != pads[3]) c.unsupported("unequal pads");
  c.out(c.op("fold", {x},
             {{"output_size", size},
              {"kernel_size", block},
              {"padding", std::vector<int64_t>{pads[0], pads[1]}},
              {"strides", c.ints("strides", {1, 1})},
              {"dilation_rate", c.ints("dilations", {1, 1})}}));
}

} // namespace

void addConvolutions(ConverterTable *t) {
  t->add("Conv", convertConv, "conv1d, conv2d, conv3d, pad", "more than 3 spatial dimensions, integers");
  t->add("ConvTranspose", convertConvTranspose, "deconv1d, deconv2d, deconv3d, pad, slice, bias_add",
         "more than 3 spatial dimensions");
  t->add("Col2Im", convertCol2Im, "fold", "other than 2 dimensions, unequal pads");
}

} // namespace opc::onnx
