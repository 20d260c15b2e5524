// oneDNN's descriptions of a convolution's tensors and window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConvGeometry.h"

#include <dnnl.hpp>

namespace opc::ops {

/// [batch, channels, spatial...] in f32 with the strides of the geometry's layout; unused spatial dimensions are
/// dropped.
dnnl::memory::desc dnnlPlain(const ConvGeometry &g, int64_t batch, int64_t channels,
                             const std::array<int64_t, 3> &spatial);
/// The weight in the geometry's layout, with a dimension of groups in front when there are several.
dnnl::memory::desc dnnlWeight(const ConvGeometry &g);
/// The same dimensions in whatever layout the library prefers.
inline dnnl::memory::desc dnnlAny(const dnnl::memory::desc &d) {
  return {d.dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

/// Strides, dilation (0 is none) and padding of the used spatial dimensions.
struct DnnlWindow {
  explicit DnnlWindow(const ConvGeometry &g) {
    for (size_t i = 3 - static_cast<size_t>(g.dims); i < 3; ++i) {
      strides.push_back(g.stride[i]);
      dilates.push_back(g.dilation[i] - 1);
      padding.push_back(g.padding[i]);
    }
  }
  dnnl::memory::dims strides, dilates, padding;
};

} // namespace opc::ops
