// CPU kernels of the poolings: vectorised loops over rows (channels_first) or channels (channels_last).
#include "PoolGeometry.h"
#include "RegisterFloating.h"
#include "SimdExp.h"
#include "StagedTensors.h"

#include <limits>

namespace opc::ops {
namespace {

using namespace opc::cpu;

/// Taps of one output position in one dimension: first * dilation - ... clipped to the input.
struct Window {
  int64_t begin, end; // input positions begin, begin + step, ... < end
};
Window clip(const PoolGeometry &g, size_t dim, int64_t position) {
  int64_t begin = position * g.stride[dim] - g.before[dim];
  const int64_t end = std::min(begin + g.dilation[dim] * (g.kernel[dim] - 1) + 1, g.in[dim]);
  if (begin < 0) begin += (-begin + g.dilation[dim] - 1) / g.dilation[dim] * g.dilation[dim];
  return {begin, end};
}

template <class T> constexpr T lowest() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
/// NaN wins over everything.
template <class T> bool beats(T v, T best) { return v > best || v != v; }

/// Calls f(row, d, h): one task for each row of outputs of each plane.
template <class F> void forRows(DeviceCtx *d, const PoolGeometry &g, int64_t planes, int64_t rowCost, F f) {
  const int64_t rows = g.out[0] * g.out[1];
  d->parallelFor(planes * rows, rowGrain(rowCost), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) f(t / rows, t % rows / g.out[1], t % g.out[1]);
  });
}

int64_t taps(const PoolGeometry &g) { return g.kernel[0] * g.kernel[1] * g.kernel[2]; }

/// The columns w of a row of outputs whose tap kw lies inside the input.
struct Columns {
  int64_t first, last, offset;
};
Columns columnsOf(const PoolGeometry &g, int64_t kw) {
  const int64_t offset = kw * g.dilation[2] - g.before[2];
  const int64_t first = offset >= 0 ? 0 : (-offset + g.stride[2] - 1) / g.stride[2];
  const int64_t last = g.in[2] - 1 - offset < 0 ? 0 : std::min(g.out[2], (g.in[2] - 1 - offset) / g.stride[2] + 1);
  return {first, last, offset};
}

/// Calls f(y row, x row, columns) for each tap of each row of outputs of channels_first tensors; init(y row) before.
template <class T, class Init, class F, class Done>
void overRows(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y, Init init, F f, Done done) {
  forRows(d, g, g.batch * g.channels, g.out[2] * taps(g), [&](int64_t plane, int64_t od, int64_t oh) {
    const T *from = x + plane * g.inPlane();
    T *row = y + plane * g.outPlane() + (od * g.out[1] + oh) * g.out[2];
    init(row, g.out[2]);
    const Window wd = clip(g, 0, od), wh = clip(g, 1, oh);
    for (int64_t id = wd.begin; id < wd.end; id += g.dilation[0])
      for (int64_t ih = wh.begin; ih < wh.end; ih += g.dilation[1])
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
          const Columns c = columnsOf(g, kw);
          f(row, from + (id * g.in[1] + ih) * g.in[2] + c.offset, c);
        }
    done(row, od, oh);
  });
}

/// Calls f(y pixel, x pixel, channels) for each tap of each output of channels_last tensors.
template <class T, class Init, class F, class Done>
void overPixels(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y, Init init, F f, Done done) {
  forRows(d, g, g.batch, g.out[2] * taps(g) * g.channels, [&](int64_t n, int64_t od, int64_t oh) {
    const T *from = x + n * g.inPlane() * g.channels;
    const Window wd = clip(g, 0, od), wh = clip(g, 1, oh);
    for (int64_t ow = 0; ow < g.out[2]; ++ow) {
      T *pixel = y + ((n * g.out[0] + od) * g.out[1] + oh) * g.out[2] * g.channels + ow * g.channels;
      init(pixel, g.channels);
      const Window ww = clip(g, 2, ow);
      for (int64_t id = wd.begin; id < wd.end; id += g.dilation[0])
        for (int64_t ih = wh.begin; ih < wh.end; ih += g.dilation[1])
          for (int64_t iw = ww.begin; iw < ww.end; iw += g.dilation[2])
            f(pixel, from + ((id * g.in[1] + ih) * g.in[2] + iw) * g.channels);
      done(pixel, od, oh, ow);
    }
  });
}

template <class T> void maxPool(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y) {
  const auto init = [](T *row, int64_t n) { std::fill_n(row, n, lowest<T>()); };
  if (g.channelsLast) {
    overPixels(
        d, g, x, y, init,
        [&](T *to, const T *from) {
          for (int64_t c = 0; c < g.channels; ++c) to[c] = beats(from[c], to[c]) ? from[c] : to[c];
        },
        [](T *, int64_t, int64_t, int64_t) {});
    return;
  }
  overRows(
      d, g, x, y, init,
      [&](T *to, const T *from, Columns c) {
        const int64_t step = g.stride[2];
        if (step == 1)
          for (int64_t w = c.first; w < c.last; ++w) to[w] = beats(from[w], to[w]) ? from[w] : to[w];
        else if (step == 2)
          for (int64_t w = c.first; w < c.last; ++w) to[w] = beats(from[w * 2], to[w]) ? from[w * 2] : to[w];
        else
          for (int64_t w = c.first; w < c.last; ++w) to[w] = beats(from[w * step], to[w]) ? from[w * step] : to[w];
      },
      [](T *, int64_t, int64_t) {});
}

/// With the positions of the maxima; in channels_last the planes are interleaved.
template <class T> void maxPoolWithIndices(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y, int64_t *indices) {
  const int64_t step = g.channelsLast ? g.channels : 1;
  forRows(d, g, g.batch * g.channels, g.out[2] * taps(g) * 2, [&](int64_t plane, int64_t od, int64_t oh) {
    const int64_t n = plane / g.channels, c = plane % g.channels;
    const T *from = x + (g.channelsLast ? n * g.inPlane() * g.channels + c : plane * g.inPlane());
    const int64_t base = g.channelsLast ? n * g.outPlane() * g.channels + c : plane * g.outPlane();
    const Window wd = clip(g, 0, od), wh = clip(g, 1, oh);
    for (int64_t ow = 0; ow < g.out[2]; ++ow) {
      const Window ww = clip(g, 2, ow);
      T best = lowest<T>();
      int64_t where = (std::min(wd.begin, g.in[0] - 1) * g.in[1] + std::min(wh.begin, g.in[1] - 1)) * g.in[2] + std::min(ww.begin, g.in[2] - 1);
      for (int64_t id = wd.begin; id < wd.end; id += g.dilation[0])
        for (int64_t ih = wh.begin; ih < wh.end; ih += g.dilation[1])
          for (int64_t iw = ww.begin; iw < ww.end; iw += g.dilation[2]) {
            const int64_t at = (id * g.in[1] + ih) * g.in[2] + iw;
            const T v = from[at * step];
            if (beats(v, best) && !(best != best)) {
              best = v;
              where = at;
            }
          }
      const int64_t to = base + ((od * g.out[1] + oh) * g.out[2] + ow) * step;
      y[to] = best;
      indices[to] = where;
    }
  });
}

/// What the sums are divided by, in one dimension: the window's elements inside x, or inside x and its padding.
int64_t extent(const PoolGeometry &g, size_t dim, int64_t position, bool withPadding) {
  const int64_t begin = position * g.stride[dim] - g.before[dim];
  const int64_t end = begin + g.kernel[dim];
  if (withPadding) return std::min(end, g.in[dim] + g.after[dim]) - begin;
  return std::max<int64_t>(0, std::min(end, g.in[dim]) - std::max<int64_t>(begin, 0));
}

template <class T>
void avgPool(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y, bool withPadding, int64_t divisor) {
  const auto init = [](T *row, int64_t n) { std::fill_n(row, n, T(0)); };
  const auto count = [&](int64_t od, int64_t oh, int64_t ow) {
    if (divisor != 0) return static_cast<T>(divisor);
    return static_cast<T>(extent(g, 0, od, withPadding) * extent(g, 1, oh, withPadding) * extent(g, 2, ow, withPadding));
  };
  if (g.channelsLast) {
    overPixels(
        d, g, x, y, init,
        [&](T *to, const T *from) {
          for (int64_t c = 0; c < g.channels; ++c) to[c] += from[c];
        },
        [&](T *to, int64_t od, int64_t oh, int64_t ow) {
          const T by = count(od, oh, ow);
          for (int64_t c = 0; c < g.channels; ++c) to[c] /= by;
        });
    return;
  }
  overRows(
      d, g, x, y, init,
      [&](T *to, const T *from, Columns c) {
        const int64_t step = g.stride[2];
        if (step == 1)
          for (int64_t w = c.first; w < c.last; ++w) to[w] += from[w];
        else
          for (int64_t w = c.first; w < c.last; ++w) to[w] += from[w * step];
      },
      [&](T *to, int64_t od, int64_t oh) {
        for (int64_t w = 0; w < g.out[2]; ++w) to[w] /= count(od, oh, w);
      });
}

template <class T> void adaptiveAvgPool(DeviceCtx *d, const PoolGeometry &g, const T *x, T *y) {
  const auto window = [&](size_t dim, int64_t i) {
    return Window{i * g.in[dim] / g.out[dim], ((i + 1) * g.in[dim] + g.out[dim] - 1) / g.out[dim]};
  };
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
      for (int64_t id = wd.begin; id < wd.end; ++id)
        for (int64_t ih = wh.begin; ih < wh.end; ++ih)
          sum += rowSum(x + plane * g.inPlane() + (id * g.in[1] + ih) * g.in[2] + ww.begin, ww.end - ww.begin,
                        [](typename Simd<T>::V v) { return v; });
      y[plane * g.outPlane() + (od * g.out[1] + oh) * g.out[2] + ow] =
          sum / static_cast<T>((wd.end - wd.begin) * (wh.end - wh.begin) * (ww.end - ww.begin));
    }
  });
}

enum class Kind { kMax, kAvg, kAdaptive };

template <class T, Kind K> class PoolKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const user_op::TensorDesc &desc = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
    const int dims = static_cast<int>(desc.shape().NumAxes()) - 2;
    const auto geometry = K == Kind::kAdaptive ? adaptiveGeometry(desc, ctx->user_op_conf(), dims)
                                               : poolGeometry(desc, ctx->user_op_conf(), dims, K == Kind::kMax);
    if (!geometry.IsOk()) throw ContractError(geometry.status().message());
    const PoolGeometry g = geometry.value();
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x");
    T *y = tensors.out("y");
    int64_t *indices = nullptr;
    if (user_op::Tensor *t = ctx->Tensor4ArgNameAndIndex("indice", 0)) indices = t->mut_dptr<int64_t>();
    const bool withPadding = K == Kind::kAvg && ctx->Attr<bool>("count_include_pad");
    const int64_t divisor = K == Kind::kAvg ? ctx->Attr<int32_t>("divisor_override") : 0;
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      if constexpr (K == Kind::kMax) {
        if (indices)
          maxPoolWithIndices(d, g, x, y, indices);
        else
          maxPool(d, g, x, y);
      } else if constexpr (K == Kind::kAvg) {
        avgPool(d, g, x, y, withPadding, divisor);
      } else {
        adaptiveAvgPool(d, g, x, y);
      }
      tensors.store(d);
    });
  }
};
template <class T> using MaxPoolKernel = PoolKernel<T, Kind::kMax>;
template <class T> using AvgPoolKernel = PoolKernel<T, Kind::kAvg>;
template <class T> using AdaptiveAvgPoolKernel = PoolKernel<T, Kind::kAdaptive>;

#define OPC_REGISTER_MAX_POOL(op)                                                                                      \
  OPC_REGISTER_FLOATING_CPU_KERNELS(op, MaxPoolKernel, "x");                                                           \
  OPC_REGISTER_CPU_KERNEL(op, MaxPoolKernel<int32_t>, "x", kInt32)
OPC_REGISTER_MAX_POOL("max_pool_1d");
OPC_REGISTER_MAX_POOL("max_pool_2d");
OPC_REGISTER_MAX_POOL("max_pool_3d");
OPC_REGISTER_FLOATING_CPU_KERNELS("avg_pool_1d", AvgPoolKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("avg_pool_2d", AvgPoolKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("avg_pool_3d", AvgPoolKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("adaptive_avg_pool1d", AdaptiveAvgPoolKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("adaptive_avg_pool2d", AdaptiveAvgPoolKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("adaptive_avg_pool3d", AdaptiveAvgPoolKernel, "x");

} // namespace
} // namespace opc::ops
