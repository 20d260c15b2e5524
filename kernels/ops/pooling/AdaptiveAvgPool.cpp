// adaptive_avg_pool1d, adaptive_avg_pool2d and adaptive_avg_pool3d.
// SPDX-License-Identifier: Apache-2.0
#include "PoolLoops.h"
#include "PoolOp.h"

namespace opc::ops {
namespace {

template <class T> void adaptiveAvgPool(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y) {
  const auto window = [&](size_t dim, int64_t i) { return adaptiveWindow(g, dim, i); };
  const int64_t cost = std::max<int64_t>(1, g.inPlane() / std::max<int64_t>(1, g.out[0] * g.out[1]));
  if (g.channelsLast) {
    forRows(d, g, g.batch, cost * g.channels, [&](int64_t n, int64_t od, int64_t oh) {
      const Window wd = window(0, od), wh = window(1, oh);
      for (int64_t ow = 0; ow < g.out[2]; ++ow) {
        const Window ww = window(2, ow);
        T *to = y + (((n * g.out[0] + od) * g.out[1] + oh) * g.out[2] + ow) * g.channels;
        std::fill_n(to, g.channels, T(0));
        for (int64_t id = wd.begin; id < wd.end; ++id)
          for (int64_t ih = wh.begin; ih < wh.end; ++ih)
            for (int64_t iw = ww.begin; iw < ww.end; ++iw) {
              const T *from = x + (((n * g.in[0] + id) * g.in[1] + ih) * g.in[2] + iw) * g.channels;
              for (int64_t c = 0; c < g.channels; ++c) to[c] += from[c];
            }
        const T by = static_cast<T>((wd.end - wd.begin) * (wh.end - wh.begin) * (ww.end - ww.begin));
        for (int64_t c = 0; c < g.channels; ++c) to[c] /= by;
      }
    });
    return;
  }
  forRows(d, g, g.batch * g.channels, cost, [&](int64_t plane, int64_t od, int64_t oh) {
    const Window wd = window(0, od), wh = window(1, oh);
    for (int64_t ow = 0; ow < g.out[2]; ++ow) {
      const Window ww = window(2, ow);
      T sum = 0;
      if (ww.begin == 0 && ww.end == g.in[2]) // whole rows: one run a depth
        for (int64_t id = wd.begin; id < wd.end; ++id)
          sum += rowSum(x + plane * g.inPlane() + (id * g.in[1] + wh.begin) * g.in[2], (wh.end - wh.begin) * g.in[2],
                        [](typename Simd<T>::V v) { return v; });
      else
        for (int64_t id = wd.begin; id < wd.end; ++id)
          for (int64_t ih = wh.begin; ih < wh.end; ++ih)
            sum += rowSum(x + plane * g.inPlane() + (id * g.in[1] + ih) * g.in[2] + ww.begin, ww.end - ww.begin,
                          [](typename Simd<T>::V v) { return v; });
      y[plane * g.outPlane() + (od * g.out[1] + oh) * g.out[2] + ow] =
          sum / static_cast<T>((wd.end - wd.begin) * (wh.end - wh.begin) * (ww.end - ww.begin));
    }
  });
}

template <class T> class AdaptiveAvgPoolKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const PoolGeometry g = poolGeometry(ctx, Pooling::kAdaptive).inRows();
    const T *x = staged.in("x");
    T *y = staged.out("y");
    return bindTask([=](DeviceCtx *d) { adaptiveAvgPool(d, g, x, y); });
  }
};

using Longs = std::vector<int64_t>;

std::function<void(OpRegistry &)> definition(int dims) {
  return [dims](OpRegistry &op) {
    op.With(poolDefinition(dims, Pooling::kAdaptive))
        .Doc("The means of output_size windows a spatial dimension that cover x evenly: window i of n over a dimension "
             "of size s holds the elements from floor(i * s / n) to ceil((i + 1) * s / n) - 1. x is [N, C, spatial...] "
             "(channels_first) or [N, spatial..., C].")
        .Kernel<AdaptiveAvgPoolKernel, types::Floating>("x");
  };
}

REGISTER_USER_OP("adaptive_avg_pool1d")
    .With(definition(1))
    .Cases({Case("uneven").In("x", {2, 3, 10}).Attr("output_size", Longs{4})});

REGISTER_USER_OP("adaptive_avg_pool2d")
    .With(definition(2))
    .Cases({Case("global").In("x", {2, 3, 5, 4}).Attr("output_size", Longs{1, 1}),
            Case("uneven").In("x", {1, 2, 7, 5}).Attr("output_size", Longs{3, 4}),
            Case("channels_last")
                .In("x", {2, 5, 4, 3})
                .Attr("output_size", Longs{2, 2})
                .Attr("data_format", std::string("channels_last"))});

REGISTER_USER_OP("adaptive_avg_pool3d")
    .With(definition(3))
    .Cases({Case("uneven").In("x", {1, 2, 4, 5, 6}).Attr("output_size", Longs{2, 3, 4})});

} // namespace
} // namespace opc::ops
