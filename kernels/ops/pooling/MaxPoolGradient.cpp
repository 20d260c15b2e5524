// Gradient rules of max_pool_Nd; max_pool_Nd_grad and their rules.
// SPDX-License-Identifier: Apache-2.0
#include "PoolOp.h"
#include "SimdExp.h"
#include "support/GradientSteps.h"
#include "support/IndexCheck.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;

/// Four windows of 2 x 2 at once; nothing when one holds a NaN.
inline bool fourPairs(const float *top, const float *bottom, const float *dy, float *dxTop, float *dxBottom) {
  const __m256 t = _mm256_loadu_ps(top), b = _mm256_loadu_ps(bottom);
  if (_mm256_movemask_ps(_mm256_cmp_ps(t, b, _CMP_UNORD_Q)) != 0) return false;
  const auto swapped = [](__m256 v) { return _mm256_permute_ps(v, 0xb1); }; // neighbours change places
  const __m256 column = _mm256_max_ps(t, b), best = _mm256_max_ps(column, swapped(column));
  const __m256 odd = _mm256_castsi256_ps(_mm256_set1_epi64x(static_cast<int64_t>(0xffffffff00000000ull)));
  // The first of equals: an odd lane yields to its even neighbour, the bottom row to the top one.
  const auto first = [&](__m256 equal) { return _mm256_andnot_ps(_mm256_and_ps(odd, swapped(equal)), equal); };
  const __m256 inTop = _mm256_cmp_ps(t, best, _CMP_EQ_OQ), inBottom = _mm256_cmp_ps(b, best, _CMP_EQ_OQ);
  const __m256 anyTop = _mm256_or_ps(inTop, swapped(inTop));
  const __m128 d = _mm_loadu_ps(dy);
  const __m256 twice = _mm256_set_m128(_mm_unpackhi_ps(d, d), _mm_unpacklo_ps(d, d));
  _mm256_storeu_ps(dxTop, _mm256_and_ps(twice, first(inTop)));
  _mm256_storeu_ps(dxBottom, _mm256_and_ps(twice, _mm256_andnot_ps(anyTop, first(inBottom))));
  return true;
}

/// The gradient of a row of 2 x 2 windows that lie inside, two apart.
template <class T> void rowOfPairs(const T *top, int64_t width, int64_t count, const T *dy, T *dx) {
  const T *bottom = top + width;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, float>)
      if (i + 4 <= count && fourPairs(top + 2 * i, bottom + 2 * i, dy + i, dx + 2 * i, dx + width + 2 * i)) {
        i += 3;
        continue;
      }
    const T v[4] = {top[2 * i], top[2 * i + 1], bottom[2 * i], bottom[2 * i + 1]};
    T best = v[0];
    int which = 0;
    for (int k = 1; k < 4; ++k) {
      const bool wins = (v[k] > best) | ((v[k] != v[k]) & (best == best));
      best = wins ? v[k] : best;
      which = wins ? k : which;
    }
    const T d = dy[i];
    dx[2 * i] = which == 0 ? d : T(0);
    dx[2 * i + 1] = which == 1 ? d : T(0);
    dx[width + 2 * i] = which == 2 ? d : T(0);
    dx[width + 2 * i + 1] = which == 3 ? d : T(0);
  }
}
/// Whether the windows are those: the most usual pooling, whose windows do not overlap.
bool isPairs(const PoolGeometry &g) {
  return !g.channelsLast && g.in[0] == 1 && g.kernel[0] == 1 && g.out[0] == 1 && g.kernel[1] == 2 && g.kernel[2] == 2 &&
         g.stride[1] == 2 && g.stride[2] == 2 && g.dilation[1] == 1 && g.dilation[2] == 1 && g.before[1] == 0 &&
         g.before[2] == 0 && 2 * g.out[1] <= g.in[1] && 2 * g.out[2] <= g.in[2];
}

template <class T>
void maxPoolGrad(DeviceCtx *ctx, const PoolTables &t, const T *x, const int64_t *indices, const T *dy, T *dx) {
  const PoolGeometry &g = t.g;
  const Planes planes(g);
  ctx->parallelFor(planes.count, rowGrain(g.inPlane() + g.outPlane() * 4), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T *from = x + planes.in(p);
      T *to = dx + planes.in(p);
      int64_t o = planes.out(p);
      if (!indices && isPairs(g)) {
        if (2 * g.out[1] < g.in[1] || 2 * g.out[2] < g.in[2]) std::fill_n(to, g.inPlane(), T(0));
        for (int64_t h = 0; h < g.out[1]; ++h)
          rowOfPairs(from + 2 * h * g.in[2], g.in[2], g.out[2], dy + o + h * g.out[2], to + 2 * h * g.in[2]);
        continue;
      }
      for (int64_t i = 0; i < g.inPlane(); ++i) to[i * planes.step] = T(0);
      for (int64_t d = 0; d < g.out[0]; ++d)
        for (int64_t h = 0; h < g.out[1]; ++h)
          for (int64_t w = 0; w < g.out[2]; ++w, o += planes.step) {
            const Window wd = t.at(0, d), wh = t.at(1, h), ww = t.at(2, w);
            if (wd.isEmpty() || wh.isEmpty() || ww.isEmpty())
              continue; // no element is its largest, whatever indice says
            const int64_t at = indices ? indices[o] : largestOf(g, from, planes.step, wd, wh, ww).where;
            to[at * planes.step] += dy[o];
          }
    }
  });
}

template <class T> class MaxPoolGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const PoolGeometry g = poolGeometry(ctx, Pooling::kMax).inRows();
    const T *x = staged.in("x"), *dy = staged.in("dy");
    T *dx = staged.out("dx");
    const int64_t *indices = ctx->Has("indice") ? ctx->In("indice").dptr<int64_t>() : nullptr;
    const Shape outShape = ctx->In("dy").shape();
    return bindTask([=, tables = PoolTables(g)](DeviceCtx *d) {
      if (indices) checkIndices(d, indices, outShape, g.inPlane(), "indice", "the positions of x");
      maxPoolGrad(d, tables, x, indices, dy, dx);
    });
  }
};

std::function<void(OpRegistry &)> definition(int dims, const std::string &pooling) {
  return [=](OpRegistry &op) {
    op.GradientOf(pooling)
        .With(poolGradDefinition(dims, Pooling::kMax,
                                 "The gradient of " + pooling +
                                     ": each element of dy is added to dx where the first largest element of its "
                                     "window was, which is looked for in x, or read from indice when that is given. y, "
                                     "which older graphs pass, is not read."))
        .Kernel<MaxPoolGradKernel, types::Floating>("x");
  };
}
Case sample(const char *name, Shape x, Shape dy, double lo = -5, double hi = 5) {
  return Case(name).In("x", std::move(x), lo, hi).In("dy", std::move(dy));
}

REGISTER_USER_OP("max_pool_1d_grad")
    .With(definition(1, "max_pool_1d"))
    .Cases({windowed(sample("plain", {2, 3, 9}, {2, 3, 5}), {{3}, {2}, {1}})});

REGISTER_USER_OP("max_pool_2d_grad")
    .With(definition(2, "max_pool_2d"))
    .Cases({windowed(sample("plain", {2, 3, 6, 8}, {2, 3, 3, 4}), {{2, 2}}),
            windowed(sample("ties", {1, 2, 5, 23}, {1, 2, 2, 11}, 0, 2), {{2, 2}}),
            windowed(sample("ceil", {1, 2, 7, 6}, {1, 2, 4, 4}), {{3, 2}, {2, 2}, {1, 1}}).Attr("ceil_mode", true),
            windowed(sample("dilated", {1, 2, 7, 7}, {1, 2, 5, 4}), {{2, 2}, {1, 1}}).Attr("dilation", Ints{2, 3}),
            windowed(sample("channels_last", {2, 5, 4, 9}, {2, 4, 2, 9}), {{2, 2}, {1, 2}, {}, true})});

REGISTER_USER_OP("max_pool_3d_grad")
    .With(definition(3, "max_pool_3d"))
    .Cases({windowed(sample("plain", {1, 2, 4, 5, 6}, {1, 2, 2, 2, 3}), {{2, 2, 2}})});

// --- rules -----------------------------------------------------------------------------------------------------------

GradientOp poolOp(GradientRule &g, const char *type, const char *suffix) {
  GradientOp op = g.add(type, suffix);
  op.same({"padding", "padding_after", "data_format", "kernel_size", "stride", "ceil_mode", "dilation"});
  return op;
}

auto maxPoolGradient(const char *gradOp) {
  return gradientRule([gradOp](GradientRule &g) {
    if (!g.needs("x")) return;
    GradientOp grad = poolOp(g, gradOp, "x");
    grad.in("x", g.x("x")).in("dy", g.dy("y"));
    if (g.hasOutput("indice")) grad.in("indice", g.y("indice"));
    g.bind("x", grad.out("dx"));
  });
}
REGISTER_USER_OP_GRAD("max_pool_1d").SetBackwardOpConfGenFn(maxPoolGradient("max_pool_1d_grad"));
REGISTER_USER_OP_GRAD("max_pool_2d").SetBackwardOpConfGenFn(maxPoolGradient("max_pool_2d_grad"));
REGISTER_USER_OP_GRAD("max_pool_3d").SetBackwardOpConfGenFn(maxPoolGradient("max_pool_3d_grad"));

/// dx = dy at the largest elements: the gradient by dy gathers there. Where x moves a maximum, dx jumps: x has none.
void gatherMaxima(GradientRule &g, const char *pooling) {
  if (!g.needs("dy")) return;
  const std::string indices = g.hasInput("indice")
                                  ? g.x("indice")
                                  : poolOp(g, pooling, "pool").in("x", g.x("x")).output("indice").out("indice");
  // One axis of positions instead of the spatial ones.
  const Shape &x = g.shape("x"), &dy = g.shape("dy");
  const bool last = g.attr<std::string>("data_format") == "channels_last";
  const auto flat = [&](const Shape &s) {
    const int64_t r = s.NumAxes();
    return last ? Shape{s.At(0), s.Count(1, r - 1), s.At(r - 1)} : Shape{s.At(0), s.At(1), s.Count(2)};
  };
  const std::string from = reshaped(g, g.dy("dx"), x, flat(x), "dx_flat");
  const std::string at = reshaped(g, indices, dy, flat(dy), "indice_flat");
  const std::string found = g.add("dim_gather", "gathered")
                                .in("input", from)
                                .in("index", at)
                                .attr("dim", int32_t{last ? 1 : 2})
                                .out("output");
  g.bind("dy", reshaped(g, found, flat(dy), dy, "dy"));
}

auto maxPoolGradGradient(const char *pooling) {
  return gradientRule([pooling](GradientRule &g) { gatherMaxima(g, pooling); });
}
REGISTER_USER_OP_GRAD("max_pool_1d_grad").SetBackwardOpConfGenFn(maxPoolGradGradient("max_pool_1d"));
REGISTER_USER_OP_GRAD("max_pool_2d_grad").SetBackwardOpConfGenFn(maxPoolGradGradient("max_pool_2d"));
REGISTER_USER_OP_GRAD("max_pool_3d_grad").SetBackwardOpConfGenFn(maxPoolGradGradient("max_pool_3d"));

} // namespace
} // namespace opc::ops
