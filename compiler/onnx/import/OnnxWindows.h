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

/// How many windows fit along a dimension.
int64_t windowCount(const Windows &w, size_t k, int64_t size);

inline Attrs dataFormat() { return {{"data_format", std::string("channels_first")}}; }

} // namespace opc::onnx
