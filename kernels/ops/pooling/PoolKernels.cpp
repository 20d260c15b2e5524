// CPU kernels of the poolings: vectorised loops over rows (channels_first) or channels (channels_last).
// SPDX-License-Identifier: Apache-2.0
#include "PoolWindows.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;

/// The two ways to gather a window, for elements and for vectors.
template <class T> struct Largest {
  using V = typename Simd<T>::V;
  static constexpr T start() { return lowest<T>(); }
  static T take(T so, T v) { return beats(v, so) ? v : so; }
  // The instructions give the second operand when either is NaN; a NaN found so far has to be put back.
  static V take(V so, V v) {
    if constexpr (std::is_same_v<T, float>)
      return _mm256_blendv_ps(_mm256_max_ps(so, v), so, _mm256_cmp_ps(so, so, _CMP_UNORD_Q));
    else if constexpr (std::is_same_v<T, double>)
      return _mm256_blendv_pd(_mm256_max_pd(so, v), so, _mm256_cmp_pd(so, so, _CMP_UNORD_Q));
    else
      return _mm256_max_epi32(so, v);
  }
};
template <class T> struct Total {
  using V = typename Simd<T>::V;
  static constexpr T start() { return T(0); }
  static T take(T so, T v) { return so + v; }
  static V take(V so, V v) { return Simd<T>::add(so, v); }
};

/// Calls f(plane, d, h): one task for each row of outputs of each plane.
template <class F> void forRows(DeviceCtx *d, const PoolGeometry &g, int64_t planes, int64_t rowCost, F f) {
  const int64_t rows = g.out[0] * g.out[1];
  d->parallelFor(planes * rows, rowGrain(rowCost), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) f(t / rows, t % rows / g.out[1], t % g.out[1]);
  });
}

int64_t taps(const PoolGeometry &g) { return g.kernel[0] * g.kernel[1] * g.kernel[2]; }

template <class Way, class T> void takeRow(T *__restrict to, const T *__restrict from, int64_t n) {
  using S = Simd<T>;
  int64_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth) S::store(to + i, Way::take(S::load(to + i), S::load(from + i)));
  for (; i < n; ++i) to[i] = Way::take(to[i], from[i]);
}

/// from[0], from[2], ..., one vector of them; reads one element more.
template <class T> typename Simd<T>::V loadEverySecond(const T *from) {
  static_assert(sizeof(T) == 4);
  const float *p = reinterpret_cast<const float *>(from);
  const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), 0x88));
  const __m256d ordered = _mm256_permute4x64_pd(even, 0xd8);
  if constexpr (std::is_same_v<T, float>)
    return _mm256_castpd_ps(ordered);
  else
    return _mm256_castpd_si256(ordered);
}

/// One output of channels_first tensors, tap by tap.
template <class T, class Way> T poolOne(const PoolGeometry &g, const T *plane, Window d, Window h, Window w) {
  T so = Way::start();
  for (int64_t id = d.begin; id < d.end; id += g.dilation[0])
    for (int64_t ih = h.begin; ih < h.end; ih += g.dilation[1])
      for (int64_t iw = w.begin; iw < w.end; iw += g.dilation[2])
        so = Way::take(so, plane[(id * g.in[1] + ih) * g.in[2] + iw]);
  return so;
}

/// Rows of outputs of channels_first tensors: the input rows of a window are gathered into one padded line, the columns
/// of that line afterwards, both in registers. done(row, d, h) finishes a row.
template <class T, class Way, class Done>
void poolRows(DeviceCtx *d, const PoolTables &t, const T *x, T *y, Done done) {
  using S = Simd<T>;
  constexpr int64_t kCells = 2048, kMaxRows = 64, W = S::kWidth;
  const PoolGeometry &g = t.g;
  const int64_t step = g.stride[2], cells = (g.out[2] - 1) * step + g.dilation[2] * (g.kernel[2] - 1) + 1;
  const int64_t used = std::min(g.in[2], cells - g.before[2]); // columns of x that any window sees
  const bool fits = cells <= kCells && g.kernel[0] * g.kernel[1] <= kMaxRows;
  const auto start = S::set1(Way::start());
  forRows(d, g, g.batch * g.channels, g.in[2] * g.kernel[0] * g.kernel[1] + g.out[2] * g.kernel[2],
          [&](int64_t plane, int64_t od, int64_t oh) {
            const T *from = x + plane * g.inPlane();
            T *row = y + plane * g.outPlane() + (od * g.out[1] + oh) * g.out[2];
            const Window wd = t.at(0, od), wh = t.at(1, oh);
            if (!fits) {
              for (int64_t w = 0; w < g.out[2]; ++w) row[w] = poolOne<T, Way>(g, from, wd, wh, t.at(2, w));
              return done(row, od, oh);
            }
            const T *sources[kMaxRows];
            int64_t rows = 0;
            for (int64_t id = wd.begin; id < wd.end; id += g.dilation[0])
              for (int64_t ih = wh.begin; ih < wh.end; ih += g.dilation[1])
                sources[rows++] = from + (id * g.in[1] + ih) * g.in[2];
            T line[kCells + 2 * W];
            std::fill_n(line, g.before[2], Way::start());
            std::fill(line + g.before[2] + used, line + cells + 2 * W, Way::start());
            T *inner = line + g.before[2];
            int64_t i = 0;
            for (; i + W <= used; i += W) {
              auto so = start;
              for (int64_t r = 0; r < rows; ++r) so = Way::take(so, S::load(sources[r] + i));
              S::store(inner + i, so);
            }
            for (; i < used; ++i) {
              T so = Way::start();
              for (int64_t r = 0; r < rows; ++r) so = Way::take(so, sources[r][i]);
              inner[i] = so;
            }
            int64_t w = 0;
            if (step == 1)
              for (; w + W <= g.out[2]; w += W) {
                auto so = start;
                for (int64_t k = 0; k < g.kernel[2]; ++k) so = Way::take(so, S::load(line + w + k * g.dilation[2]));
                S::store(row + w, so);
              }
            if constexpr (sizeof(T) == 4)
              if (step == 2)
                for (; w + W <= g.out[2]; w += W) {
                  auto so = start;
                  for (int64_t k = 0; k < g.kernel[2]; ++k)
                    so = Way::take(so, loadEverySecond(line + 2 * w + k * g.dilation[2]));
                  S::store(row + w, so);
                }
            for (; w < g.out[2]; ++w) {
              T so = Way::start();
              for (int64_t k = 0; k < g.kernel[2]; ++k) so = Way::take(so, line[w * step + k * g.dilation[2]]);
              row[w] = so;
            }
            done(row, od, oh);
          });
}

/// Pixels of channels_last tensors, four vectors of channels in registers at a time. done(pixel, channels, d, h, w)
/// finishes them.
template <class T, class Way, class Done>
void poolPixels(DeviceCtx *d, const PoolTables &t, const T *x, T *y, Done done) {
  using S = Simd<T>;
  constexpr int64_t kBlock = 4 * S::kWidth;
  const PoolGeometry &g = t.g;
  forRows(d, g, g.batch, g.out[2] * taps(g) * g.channels, [&](int64_t n, int64_t od, int64_t oh) {
    const T *from = x + n * g.inPlane() * g.channels;
    const Window wd = t.at(0, od), wh = t.at(1, oh);
    for (int64_t ow = 0; ow < g.out[2]; ++ow) {
      T *pixel = y + (((n * g.out[0] + od) * g.out[1] + oh) * g.out[2] + ow) * g.channels;
      const Window ww = t.at(2, ow);
      for (int64_t c = 0; c < g.channels; c += kBlock) {
        const int64_t width = std::min(kBlock, g.channels - c);
        typename S::V v0 = S::set1(Way::start()), v1 = v0, v2 = v0, v3 = v0;
        T so[kBlock];
        for (T &v : so) v = Way::start();
        for (int64_t id = wd.begin; id < wd.end; id += g.dilation[0])
          for (int64_t ih = wh.begin; ih < wh.end; ih += g.dilation[1])
            for (int64_t iw = ww.begin; iw < ww.end; iw += g.dilation[2]) {
              const T *tap = from + ((id * g.in[1] + ih) * g.in[2] + iw) * g.channels + c;
              if (width == kBlock) {
                v0 = Way::take(v0, S::load(tap));
                v1 = Way::take(v1, S::load(tap + S::kWidth));
                v2 = Way::take(v2, S::load(tap + 2 * S::kWidth));
                v3 = Way::take(v3, S::load(tap + 3 * S::kWidth));
              } else {
                takeRow<Way>(so, tap, width);
              }
            }
        if (width == kBlock) {
          S::store(pixel + c, v0);
          S::store(pixel + c + S::kWidth, v1);
          S::store(pixel + c + 2 * S::kWidth, v2);
          S::store(pixel + c + 3 * S::kWidth, v3);
        } else {
          std::copy_n(so, width, pixel + c);
        }
      }
      done(pixel, od, oh, ow);
    }
  });
}

template <class T> void maxPool(DeviceCtx *d, const PoolTables &t, const T *x, T *y) {
  if (t.g.channelsLast)
    poolPixels<T, Largest<T>>(d, t, x, y, [](T *, int64_t, int64_t, int64_t) {});
  else
    poolRows<T, Largest<T>>(d, t, x, y, [](T *, int64_t, int64_t) {});
}

/// With the positions of the maxima; in channels_last the planes are interleaved.
template <class T> void maxPoolWithIndices(DeviceCtx *d, const PoolTables &t, const T *x, T *y, int64_t *indices) {
  const PoolGeometry &g = t.g;
  const int64_t step = g.channelsLast ? g.channels : 1;
  forRows(d, g, g.batch * g.channels, g.out[2] * taps(g) * 2, [&](int64_t plane, int64_t od, int64_t oh) {
    const int64_t n = plane / g.channels, c = plane % g.channels;
    const T *from = x + (g.channelsLast ? n * g.inPlane() * g.channels + c : plane * g.inPlane());
    const int64_t base = g.channelsLast ? n * g.outPlane() * g.channels + c : plane * g.outPlane();
    const Window wd = t.at(0, od), wh = t.at(1, oh);
    for (int64_t ow = 0; ow < g.out[2]; ++ow) {
      const Window ww = t.at(2, ow);
      T best = lowest<T>();
      int64_t where = (std::min(wd.begin, g.in[0] - 1) * g.in[1] + std::min(wh.begin, g.in[1] - 1)) * g.in[2] +
                      std::min(ww.begin, g.in[2] - 1);
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
    poolRows<T, Total<T>>(d, t, x, y, [&](T *row, int64_t od, int64_t oh) {
      if (divisor != 0) {
        for (int64_t w = 0; w < g.out[2]; ++w) row[w] /= static_cast<T>(divisor);
        return;
      }
      const T count = static_cast<T>(rows(od, oh)), *columns = extents.data();
      for (int64_t w = 0; w < g.out[2]; ++w) row[w] /= count * columns[w];
    });
}

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
    PoolTables tables(g);
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x");
    T *y = tensors.out("y");
    int64_t *indices = nullptr;
    if (user_op::Tensor *t = ctx->Tensor4ArgNameAndIndex("indice", 0)) indices = t->mut_dptr<int64_t>();
    const bool withPadding = K == Kind::kAvg && ctx->Attr<bool>("count_include_pad");
    std::vector<T> extents;
    if constexpr (K == Kind::kAvg)
      for (int64_t w = 0; w < g.out[2]; ++w) extents.push_back(static_cast<T>(extent(g, 2, w, withPadding)));
    const int64_t divisor = K == Kind::kAvg ? ctx->Attr<int32_t>("divisor_override") : 0;
    return user_op::bindTask(
        [=, tensors = std::move(tensors), tables = std::move(tables), extents = std::move(extents)](DeviceCtx *d) {
          tensors.load(d);
          if constexpr (K == Kind::kMax) {
            if (indices)
              maxPoolWithIndices(d, tables, x, y, indices);
            else
              maxPool(d, tables, x, y);
          } else if constexpr (K == Kind::kAvg) {
            avgPool(d, tables, x, y, withPadding, divisor, extents);
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
