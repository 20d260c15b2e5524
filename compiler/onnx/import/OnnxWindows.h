// Windows that move over images: what convolutions and poolings of ONNX have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxConversion.h"

namespace opc::onnx {

struct Windows {
  std::vector<int64_t> kernel, strides, dilations, before, after; // one for each spatial dimension
  bool ceils = false;
  size_t dims() const { return kernel.size(); }
  bool isEven() const { return before == after; }
};

/// From the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode, for images [n, channels, ...].
/// `kernel`: where the attribute is left out; empty: it must be there.
Windows windowsOf(const Conversion &c, const Term &images, std::vector<int64_t> kernel);
/// The spatial sizes of a weight [filters, channels, ...]; empty where there are none.
std::vector<int64_t> kernelOf(const Term &weight);

/// How many windows fit along a dimension.
int64_t windowCount(const Windows &w, size_t k, int64_t size);

inline Attrs dataFormat() { return {{"data_format", std::string("channels_first")}}; }
/// The attributes of a convolution by these windows.
Attrs convolutionAttrs(const Windows &w, int64_t filters, int64_t groups);

/// A pad of the spatial dimensions with `value`, or with zeros. Negative pads crop.
Term paddedImages(Conversion &c, const Term &x, const std::vector<int64_t> &before, const std::vector<int64_t> &after,
                  const Term &value = nullptr);

} // namespace opc::onnx
