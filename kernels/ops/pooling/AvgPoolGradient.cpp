// Gradient rules of avg_pool_Nd and adaptive_avg_poolNd; their backward ops, which spread, and the rules of those.
// SPDX-License-Identifier: Apache-2.0
#include "PoolOp.h"
#include "SimdExp.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using Longs = std::vector<int64_t>;

/// Spreads dy / divisor(d, h, w) over window(dim, i) of each output.
template <class T, class WindowOf, class Divisor>
void spread(DeviceCtx *ctx, const PoolGeometry &g, const T *dy, T *dx, WindowOf window, Divisor divisor) {
  if (g.channelsLast) {
    ctx->parallelFor(g.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        T *image = dx + n * g.inPlane() * g.channels;
        std::fill_n(image, g.inPlane() * g.channels, T(0));
        const T *from = dy + n * g.outPlane() * g.channels;
        for (int64_t d = 0; d < g.out[0]; ++d)
          for (int64_t h = 0; h < g.out[1]; ++h)
            for (int64_t w = 0; w < g.out[2]; ++w, from += g.channels) {
              const Window wd = window(0, d), wh = window(1, h), ww = window(2, w);
              const T by = divisor(d, h, w);
              for (int64_t id = wd.begin; id < wd.end; ++id)
                for (int64_t ih = wh.begin; ih < wh.end; ++ih)
                  for (int64_t iw = ww.begin; iw < ww.end; ++iw) {
                    T *to = image + ((id * g.in[1] + ih) * g.in[2] + iw) * g.channels;
                    for (int64_t c = 0; c < g.channels; ++c) to[c] += from[c] / by;
                  }
            }
      }
    });
    return;
  }
  ctx->parallelFor(g.batch * g.channels, rowGrain(g.inPlane() + g.outPlane() * 4), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T *plane = dx + p * g.inPlane();
      std::fill_n(plane, g.inPlane(), T(0));
      const T *from = dy + p * g.outPlane();
      for (int64_t d = 0; d < g.out[0]; ++d)
        for (int64_t h = 0; h < g.out[1]; ++h) {
          const Window wd = window(0, d), wh = window(1, h);
          for (int64_t w = 0; w < g.out[2]; ++w, ++from) {
            const Window ww = window(2, w);
            const T share = *from / divisor(d, h, w);
            for (int64_t id = wd.begin; id < wd.end; ++id)
              for (int64_t ih = wh.begin; ih < wh.end; ++ih) {
                T *row = plane + (id * g.in[1] + ih) * g.in[2];
                for (int64_t iw = ww.begin; iw < ww.end; ++iw) row[iw] += share;
              }
          }
        }
    }
  });
}

template <class T> class AvgPoolGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const PoolGeometry g = poolGeometry(ctx, Pooling::kAvg).inRows();
    const T *dy = staged.in("dy");
    T *dx = staged.out("dx");
    const bool withPadding = ctx->Attr<bool>("count_include_pad");
    const int64_t fixed = ctx->Attr<int32_t>("divisor_override");
    return bindTask([=, tables = PoolTables(g)](DeviceCtx *d) {
      const auto divisor = [&](int64_t od, int64_t oh, int64_t ow) {
        if (fixed != 0) return static_cast<T>(fixed);
        return static_cast<T>(extent(g, 0, od, withPadding) * extent(g, 1, oh, withPadding) *
                              extent(g, 2, ow, withPadding));
      };
      spread(d, g, dy, dx, [&](size_t dim, int64_t i) { return tables.at(dim, i); }, divisor);
    });
  }
};

template <class T> class AdaptiveAvgPoolGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const PoolGeometry g = poolGeometry(ctx, Pooling::kAdaptive).inRows();
    const T *dy = staged.in("dy");
    T *dx = staged.out("dx");
    return bindTask([=](DeviceCtx *d) {
      const auto window = [&](size_t dim, int64_t i) { return adaptiveWindow(g, dim, i); };
      const auto length = [&](size_t dim, int64_t i) {
        const Window w = window(dim, i);
        return w.end - w.begin;
      };
      spread(d, g, dy, dx, window, [&](int64_t od, int64_t oh, int64_t ow) {
        return static_cast<T>(length(0, od) * length(1, oh) * length(2, ow));
      });
    });
  }
};

std::function<void(OpRegistry &)> definition(int dims, Pooling kind, const std::string &pooling) {
  const std::string divided = kind == Pooling::kAvg
                                  ? ", divided as the pooling divides, is added to the elements of dx in its window."
                                  : ", divided by the size of its window, is added to the elements of dx in it.";
  return [=](OpRegistry &op) {
    op.GradientOf(pooling).With(poolGradDefinition(dims, kind,
                                                   "The gradient of " + pooling + ": each element of dy" + divided +
                                                       " The values of x are not read."));
    if (kind == Pooling::kAvg)
      op.Kernel<AvgPoolGradKernel, types::Floating>("x");
    else
      op.Kernel<AdaptiveAvgPoolGradKernel, types::Floating>("x");
  };
}
Case sample(const char *name, Shape x, Shape dy) { return Case(name).In("dy", std::move(dy)).In("x", std::move(x)); }

REGISTER_USER_OP("avg_pool_1d_grad")
    .With(definition(1, Pooling::kAvg, "avg_pool_1d"))
    .Cases({windowed(sample("plain", {2, 3, 9}, {2, 3, 5}), {{3}, {2}, {1}})});

REGISTER_USER_OP("avg_pool_2d_grad")
    .With(definition(2, Pooling::kAvg, "avg_pool_2d"))
    .Cases(
        {windowed(sample("plain", {2, 3, 6, 8}, {2, 3, 3, 4}), {{2, 2}}),
         windowed(sample("counted", {1, 2, 7, 6}, {1, 2, 4, 4}), {{3, 3}, {2, 2}, {1, 1}})
             .Attr("count_include_pad", true)
             .Attr("ceil_mode", true),
         windowed(sample("divided", {1, 2, 5, 5}, {1, 2, 4, 4}), {{2, 2}, {1, 1}}).Attr("divisor_override", int32_t{3}),
         windowed(sample("channels_last", {2, 5, 4, 9}, {2, 5, 2, 9}), {{3, 2}, {1, 2}, {1, 0}, true})});

REGISTER_USER_OP("avg_pool_3d_grad")
    .With(definition(3, Pooling::kAvg, "avg_pool_3d"))
    .Cases({windowed(sample("plain", {1, 2, 4, 5, 6}, {1, 2, 2, 2, 3}), {{2, 2, 2}})});

REGISTER_USER_OP("adaptive_avg_pool1d_grad")
    .With(definition(1, Pooling::kAdaptive, "adaptive_avg_pool1d"))
    .Cases({sample("uneven", {2, 3, 10}, {2, 3, 4}).Attr("output_size", Longs{4})});

REGISTER_USER_OP("adaptive_avg_pool2d_grad")
    .With(definition(2, Pooling::kAdaptive, "adaptive_avg_pool2d"))
    .Cases({sample("uneven", {1, 2, 7, 5}, {1, 2, 3, 4}).Attr("output_size", Longs{3, 4}),
            sample("channels_last", {2, 5, 4, 3}, {2, 2, 2, 3})
                .Attr("output_size", Longs{2, 2})
                .Attr("data_format", std::string("channels_last"))});

REGISTER_USER_OP("adaptive_avg_pool3d_grad")
    .With(definition(3, Pooling::kAdaptive, "adaptive_avg_pool3d"))
    .Cases({sample("uneven", {1, 2, 4, 5, 6}, {1, 2, 2, 3, 4}).Attr("output_size", Longs{2, 3, 4})});

// --- rules -----------------------------------------------------------------------------------------------------------

/// `op` with the attributes of the forward op.
GradientOp poolOp(GradientRule &g, const char *type, const char *suffix) {
  GradientOp op = g.add(type, suffix);
  for (const auto &[name, value] : g.op().op_conf().attrs) op.attr(name, value);
  return op;
}

auto meanGradient(const char *gradOp) {
  return gradientRule([gradOp](GradientRule &g) {
    if (g.needs("x")) g.bind("x", poolOp(g, gradOp, "x").in("dy", g.dy("y")).in("x", g.x("x")).out("dx"));
  });
}
REGISTER_USER_OP_GRAD("avg_pool_1d").SetBackwardOpConfGenFn(meanGradient("avg_pool_1d_grad"));
REGISTER_USER_OP_GRAD("avg_pool_2d").SetBackwardOpConfGenFn(meanGradient("avg_pool_2d_grad"));
REGISTER_USER_OP_GRAD("avg_pool_3d").SetBackwardOpConfGenFn(meanGradient("avg_pool_3d_grad"));
REGISTER_USER_OP_GRAD("adaptive_avg_pool1d").SetBackwardOpConfGenFn(meanGradient("adaptive_avg_pool1d_grad"));
REGISTER_USER_OP_GRAD("adaptive_avg_pool2d").SetBackwardOpConfGenFn(meanGradient("adaptive_avg_pool2d_grad"));
REGISTER_USER_OP_GRAD("adaptive_avg_pool3d").SetBackwardOpConfGenFn(meanGradient("adaptive_avg_pool3d_grad"));

/// The gradient is linear: its own gradient is the pooling.
auto meanGradGradient(const char *pooling) {
  return gradientRule([pooling](GradientRule &g) {
    if (g.needs("dy")) g.bind("dy", poolOp(g, pooling, "dy").in("x", g.dy("dx")).out("y"));
  });
}
REGISTER_USER_OP_GRAD("avg_pool_1d_grad").SetBackwardOpConfGenFn(meanGradGradient("avg_pool_1d"));
REGISTER_USER_OP_GRAD("avg_pool_2d_grad").SetBackwardOpConfGenFn(meanGradGradient("avg_pool_2d"));
REGISTER_USER_OP_GRAD("avg_pool_3d_grad").SetBackwardOpConfGenFn(meanGradGradient("avg_pool_3d"));
REGISTER_USER_OP_GRAD("adaptive_avg_pool1d_grad").SetBackwardOpConfGenFn(meanGradGradient("adaptive_avg_pool1d"));
REGISTER_USER_OP_GRAD("adaptive_avg_pool2d_grad").SetBackwardOpConfGenFn(meanGradGradient("adaptive_avg_pool2d"));
REGISTER_USER_OP_GRAD("adaptive_avg_pool3d_grad").SetBackwardOpConfGenFn(meanGradGradient("adaptive_avg_pool3d"));

} // namespace
} // namespace opc::ops
