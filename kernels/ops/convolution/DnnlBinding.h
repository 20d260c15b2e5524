// How a convolution is described to oneDNN and bound to its tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConvGeometry.h"
#include "DnnlHandle.h"
#include "Parallel.h"

#include <optional>

namespace opc::ops {

/// [batch, channels, spatial...] in f32 with the strides of the geometry's layout; unused spatial dimensions are
/// dropped.
dnnl::memory::desc dnnlPlain(const ConvGeometry &g, int64_t batch, int64_t channels, const Spatial &spatial);
inline dnnl::memory::desc dnnlIn(const ConvGeometry &g, int64_t batch) { return dnnlPlain(g, batch, g.channels, g.in); }
inline dnnl::memory::desc dnnlOut(const ConvGeometry &g, int64_t batch) {
  return dnnlPlain(g, batch, g.filters, g.out);
}
/// The weight in the given layout, with a dimension of groups in front when there are several.
dnnl::memory::desc dnnlWeight(ConvGeometry g, bool channelsLast);
/// The same dimensions in whatever layout the library prefers.
inline dnnl::memory::desc dnnlAny(const dnnl::memory::desc &d) {
  return {d.dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

/// Strides, dilation (0 is none) and padding of the used spatial dimensions.
struct DnnlWindow {
  explicit DnnlWindow(const ConvGeometry &g);
  dnnl::memory::dims strides, dilates, padding;
};
/// The forward convolution that the library asks for as a hint; its layouts do not bind the backward one.
dnnl::convolution_forward::primitive_desc dnnlHint(const DnnlWindow &w, const dnnl::memory::desc &in,
                                                   const dnnl::memory::desc &weight, const dnnl::memory::desc &out);

/// Memory in the library's layouts, beside the tensors.
class DnnlBuffers {
public:
  void *add(const dnnl::memory::desc &d);
  /// A copy, made at once; `key` says what `data` was made of, for kernels that may share it ("": nobody may).
  const void *copy(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to,
                   const std::string &key = "");
  /// `data` in layout `to`: where it lies when that is `from`, else in a buffer that *reorder fills.
  const void *in(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to,
                 std::optional<cpu::DnnlExecution> *reorder);

private:
  std::vector<cpu::Scratch<char>> buffers_;
  std::vector<std::shared_ptr<const void>> shared_;
};
cpu::DnnlExecution dnnlReorderOf(const dnnl::memory::desc &from, const void *data, const dnnl::memory::desc &to,
                                 void *into);

/// Calls f(i) for each of n shares of the work, which the library does on one thread each.
template <class F> void forEachShare(DeviceCtx *ctx, int64_t n, F f) {
  cpu::FirstException failure;
  ctx->parallelFor(n, 1, [&](int64_t begin, int64_t end) {
    cpu::setLibraryThreads(1);
    for (int64_t i = begin; i < end; ++i) failure.guard([&] { f(i); });
  });
  cpu::setLibraryThreads(ctx->threads());
  failure.rethrow();
}

} // namespace opc::ops
