// avg_pool_1d, avg_pool_2d and avg_pool_3d.
// SPDX-License-Identifier: Apache-2.0
#include "PoolLoops.h"
#include "PoolOp.h"

namespace opc::ops {
namespace {

/// `extents`: of each output column.
template <class T>
void avgPool(DeviceCtx *d, const PoolTables &t, const T *x, T *y, bool withPadding, int64_t divisor,
             const std::vector<T> &extents) {
  const PoolGeometry &g = t.g;
  const auto rows = [&](int64_t od, int64_t oh) {
    return extent(g, 0, od, withPadding) * extent(g, 1, oh, withPadding);
  };
  if (g.channelsLast)
    poolPixels<T, Total<T>>(d, t, x, y, [&](T *pixel, int64_t od, int64_t oh, int64_t ow) {
      const T by = static_cast<T>(divisor != 0 ? divisor : rows(od, oh) * extent(g, 2, ow, withPadding));
      for (int64_t c = 0; c < g.channels; ++c) pixel[c] /= by;
    });
  else
    poolRows<T, Total<T>>(d, t, x, y, [&](T *row, int64_t od, int64_t oh, int64_t first, int64_t n) {
      if (divisor != 0) {
        for (int64_t w = 0; w < n; ++w) row[w] /= static_cast<T>(divisor);
        return;
      }
      const T count = static_cast<T>(rows(od, oh)), *columns = extents.data() + first;
      for (int64_t w = 0; w < n; ++w) row[w] /= count * columns[w];
    });
}

template <class T> class AvgPoolKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    PoolTables tables(poolGeometry(ctx, Pooling::kAvg).inRows());
    const T *x = staged.in("x");
    T *y = staged.out("y");
    const bool withPadding = ctx->Attr<bool>("count_include_pad");
    const int64_t divisor = ctx->Attr<int32_t>("divisor_override");
    std::vector<T> extents;
    for (int64_t w = 0; w < tables.g.out[2]; ++w)
      extents.push_back(static_cast<T>(extent(tables.g, 2, w, withPadding)));
    return bindTask([=, tables = std::move(tables), extents = std::move(extents)](DeviceCtx *d) {
      avgPool(d, tables, x, y, withPadding, divisor, extents);
    });
  }
};

std::function<void(OpRegistry &)> definition(int dims) {
  return [dims](OpRegistry &op) {
    op.With(poolDefinition(dims, Pooling::kAvg))
        .Doc(std::string("The mean of each window: its sum divided by the number of its elements inside x (with "
                         "count_include_pad: inside x and its padding), or by divisor_override unless that is 0. ") +
             kWindowsDoc)
        .Kernel<AvgPoolKernel, types::Floating>("x");
  };
}

REGISTER_USER_OP("avg_pool_1d")
    .With(definition(1))
    .Cases({windowed(Case("plain").In("x", {2, 3, 9}), {{3}, {2}, {1}})});

REGISTER_USER_OP("avg_pool_2d")
    .With(definition(2))
    .Cases({windowed(Case("plain").In("x", {2, 3, 6, 8}), {{2, 2}}),
            windowed(Case("counted").In("x", {1, 2, 7, 6}), {{3, 3}, {2, 2}, {1, 1}})
                .Attr("count_include_pad", true)
                .Attr("ceil_mode", true),
            windowed(Case("divided").In("x", {1, 2, 5, 5}), {{2, 2}, {1, 1}}).Attr("divisor_override", int32_t{3}),
            windowed(Case("channels_last").In("x", {2, 5, 4, 9}), {{3, 2}, {1, 2}, {1, 0}, true})});

REGISTER_USER_OP("avg_pool_3d")
    .With(definition(3))
    .Cases({windowed(Case("plain").In("x", {1, 2, 4, 5, 6}), {{2, 2, 2}})});

} // namespace
} // namespace opc::ops
