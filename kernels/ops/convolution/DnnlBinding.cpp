// Descriptions of convolutions to oneDNN, and reorders of their tensors.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlBinding.h"

#include "opc/PackedInputs.h"

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

memory::desc dnnlPlain(const ConvGeometry &g, int64_t batch, int64_t channels, const Spatial &spatial) {
  const auto s = g.strides(channels, spatial);
  memory::dims dims{batch, channels}, strides{s[0], s[1]};
  for (size_t i = firstSpatial(g.dims); i < 3; ++i) {
    dims.push_back(spatial[i]);
    strides.push_back(s[2 + i]);
  }
  return {dims, memory::data_type::f32, strides};
}

memory::desc dnnlWeight(ConvGeometry g, bool channelsLast) {
  g.channelsLast = channelsLast;
  const memory::desc flat = dnnlPlain(g, g.filters, g.channels / g.groups, g.kernel);
  if (g.groups == 1) return flat;
  memory::dims dims = flat.dims(), strides(flat.data.format_desc.blocking.strides,
                                           flat.data.format_desc.blocking.strides + flat.data.ndims);
  dims[0] = g.filters / g.groups;
  dims.insert(dims.begin(), g.groups);
  strides.insert(strides.begin(), strides[0] * (g.filters / g.groups));
  return {dims, memory::data_type::f32, strides};
}

DnnlWindow::DnnlWindow(const ConvGeometry &g) {
  for (size_t i = firstSpatial(g.dims); i < 3; ++i) {
    strides.push_back(g.stride[i]);
    dilates.push_back(g.dilation[i] - 1);
    padding.push_back(g.padding[i]);
  }
}

dnnl::convolution_forward::primitive_desc dnnlHint(const DnnlWindow &w, const memory::desc &in,
                                                   const memory::desc &weight, const memory::desc &out) {
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, in, weight, out, w.strides,
           w.dilates, w.padding, w.padding},
          cpu::dnnlAttributes(),
          cpu::dnnlEngine()};
}

DnnlExecution dnnlReorderOf(const memory::desc &from, const void *data, const memory::desc &to, void *into) {
  dnnl::reorder::primitive_desc rd(cpu::dnnlEngine(), from, cpu::dnnlEngine(), to, cpu::dnnlAttributes());
  DnnlExecution e(rd, dnnl::reorder(rd));
  e.bind(DNNL_ARG_FROM, from, data);
  e.bind(DNNL_ARG_TO, to, into);
  return e;
}

void *DnnlBuffers::add(const memory::desc &d) {
  return buffers_.emplace_back(static_cast<int64_t>(d.get_size())).get();
}

const void *DnnlBuffers::copy(const memory::desc &from, const void *data, const memory::desc &to,
                              const std::string &key) {
  if (key.empty()) return buffers_.emplace_back(cpu::dnnlReordered(from, data, to)).get();
  const std::string form(reinterpret_cast<const char *>(&to.data), sizeof to.data);
  return shared_
      .emplace_back(sharedPack(key + form,
                               [&] {
                                 auto pack = std::make_shared<cpu::Scratch<char>>(cpu::dnnlReordered(from, data, to));
                                 return std::shared_ptr<const void>(pack, pack->get());
                               }))
      .get();
}

const void *DnnlBuffers::in(const memory::desc &from, const void *data, const memory::desc &to,
                            std::optional<DnnlExecution> *reorder) {
  if (to == from) return data;
  void *buffer = add(to);
  *reorder = dnnlReorderOf(from, data, to, buffer);
  return buffer;
}

} // namespace opc::ops
