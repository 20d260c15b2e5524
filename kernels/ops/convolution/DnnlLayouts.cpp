// oneDNN's descriptions of a convolution's tensors.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlLayouts.h"

namespace opc::ops {

using dnnl::memory;

memory::desc dnnlPlain(const ConvGeometry &g, int64_t batch, int64_t channels, const std::array<int64_t, 3> &spatial) {
  const auto s = g.strides(channels, spatial);
  memory::dims dims{batch, channels}, strides{s[0], s[1]};
  for (size_t i = 3 - static_cast<size_t>(g.dims); i < 3; ++i) {
    dims.push_back(spatial[i]);
    strides.push_back(s[2 + i]);
  }
  return {dims, memory::data_type::f32, strides};
}

memory::desc dnnlWeight(const ConvGeometry &g) {
  const memory::desc flat = dnnlPlain(g, g.filters, g.channels / g.groups, g.kernel);
  if (g.groups == 1) return flat;
  memory::dims dims = flat.dims(), strides(flat.data.format_desc.blocking.strides,
                                           flat.data.format_desc.blocking.strides + flat.data.ndims);
  dims[0] = g.filters / g.groups;
  dims.insert(dims.begin(), g.groups);
  strides.insert(strides.begin(), strides[0] * (g.filters / g.groups));
  return {dims, memory::data_type::f32, strides};
}

} // namespace opc::ops
