// max_pool_Nd_grad, avg_pool_Nd_grad and adaptive_avg_poolNd_grad for N = 1, 2, 3, and the gradient rules of all
// poolings.
// SPDX-License-Identifier: Apache-2.0
#include "PoolWindows.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/GradientSteps.h"
#include "support/IndexCheck.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;
using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;

enum class Kind { kMax, kAvg, kAdaptive };

Maybe<PoolGeometry> geometryOf(const TensorDesc &x, const user_op::UserOpConfWrapper &conf, int dims, Kind kind) {
  if (kind == Kind::kAdaptive) return adaptiveGeometry(x, conf, dims);
  return poolGeometry(x, conf, dims, kind == Kind::kMax);
}

Maybe<void> infer(InferContext *ctx, int dims, Kind kind) {
  const TensorDesc x = ctx->InputTensorDesc("x", 0), dy = ctx->InputTensorDesc("dy", 0);
  if (!IsFloatingDataType(x.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << "x is " << x.toString() << ", expected a floating type";
  const Shape out = poolShape(JUST(geometryOf(x, ctx->user_op_conf(), dims, kind)));
  const TensorDesc want(out, x.data_type());
  for (const char *arg : {"dy", "y"})
    if (ctx->has_input(arg, 0) && ctx->InputTensorDesc(arg, 0) != want)
      return Error::ShapeMismatch() << arg << " is " << ctx->InputTensorDesc(arg, 0).toString() << ", expected "
                                    << want.toString() << ", what the pooling makes of x, " << x.toString();
  if (ctx->has_input("indice", 0) && ctx->InputTensorDesc("indice", 0) != TensorDesc(out, kInt64))
    return Error::ShapeMismatch() << "indice is " << ctx->InputTensorDesc("indice", 0).toString() << ", expected "
                                  << TensorDesc(out, kInt64).toString();
  *ctx->MutOutputTensorDesc("dx", 0) = x;
  return Maybe<void>::Ok();
}

/// Planes of one channel: where they begin in x and y, and the distance of neighbours.
struct Planes {
  explicit Planes(const PoolGeometry &g) : g(g), count(g.batch * g.channels), step(g.channelsLast ? g.channels : 1) {}
  int64_t in(int64_t plane) const { return at(plane, g.inPlane()); }
  int64_t out(int64_t plane) const { return at(plane, g.outPlane()); }
  int64_t at(int64_t plane, int64_t size) const {
    if (!g.channelsLast) return plane * size;
    return plane / g.channels * size * g.channels + plane % g.channels;
  }
  const PoolGeometry &g;
  int64_t count, step;
};

/// The position of the first largest element of a window (NaN wins), as max_pool's indice. Written without branches on
/// values: which element wins is anybody's guess.
template <class T>
int64_t largestOf(const PoolGeometry &g, const T *plane, int64_t step, Window d, Window h, Window w) {
  int64_t where = (std::min(d.begin, g.in[0] - 1) * g.in[1] + std::min(h.begin, g.in[1] - 1)) * g.in[2] +
                  std::min(w.begin, g.in[2] - 1);
  T best = lowest<T>();
  for (int64_t id = d.begin; id < d.end; id += g.dilation[0])
    for (int64_t ih = h.begin; ih < h.end; ih += g.dilation[1]) {
      const int64_t row = (id * g.in[1] + ih) * g.in[2];
      for (int64_t iw = w.begin; iw < w.end; iw += g.dilation[2]) {
        const T v = plane[(row + iw) * step];
        const bool wins = (v > best) | ((v != v) & (best == best));
        best = wins ? v : best;
        where = wins ? row + iw : where;
      }
    }
  return where;
}

/// Four such windows at once; nothing when one holds a NaN.
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
            const int64_t at =
                indices ? indices[o] : largestOf(g, from, planes.step, t.at(0, d), t.at(1, h), t.at(2, w));
            to[at * planes.step] += dy[o];
          }
    }
  });
}

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

template <class T, Kind K> class PoolGradKernel : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const TensorDesc &x = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
    const auto geometry = geometryOf(x, ctx->user_op_conf(), static_cast<int>(x.shape().NumAxes()) - 2, K);
    if (!geometry.IsOk()) throw ContractError(geometry.status().message());
    const PoolGeometry g = geometry.value();
    PoolTables tables(K == Kind::kAdaptive ? PoolGeometry() : g);
    StagedTensors<T> tensors(ctx);
    const T *in = K == Kind::kMax ? tensors.in("x") : nullptr, *dy = tensors.in("dy");
    T *dx = tensors.out("dx");
    const int64_t *indices = nullptr;
    if (const user_op::Tensor *t = ctx->Tensor4ArgNameAndIndex("indice", 0)) indices = t->dptr<int64_t>();
    const bool withPadding = K == Kind::kAvg && ctx->Attr<bool>("count_include_pad");
    const int64_t fixed = K == Kind::kAvg ? ctx->Attr<int32_t>("divisor_override") : 0;
    const Shape outShape = ctx->TensorDesc4ArgNameAndIndex("dy", 0)->shape();
    return user_op::bindTask([=, tensors = std::move(tensors), tables = std::move(tables)](DeviceCtx *d) {
      tensors.load(d);
      if constexpr (K == Kind::kMax) {
        if (indices) checkIndices(d, indices, outShape, g.inPlane(), "indice", "the positions of x");
        maxPoolGrad(d, tables, in, indices, dy, dx);
      } else if constexpr (K == Kind::kAvg) {
        spread(
            d, g, dy, dx, [&](size_t dim, int64_t i) { return tables.at(dim, i); },
            [&](int64_t od, int64_t oh, int64_t ow) {
              if (fixed != 0) return static_cast<T>(fixed);
              return static_cast<T>(extent(g, 0, od, withPadding) * extent(g, 1, oh, withPadding) *
                                    extent(g, 2, ow, withPadding));
            });
      } else {
        const auto window = [&](size_t dim, int64_t i) { return adaptiveWindow(g, dim, i); };
        const auto length = [&](size_t dim, int64_t i) {
          const Window w = window(dim, i);
          return w.end - w.begin;
        };
        spread(d, g, dy, dx, window, [&](int64_t od, int64_t oh, int64_t ow) {
          return static_cast<T>(length(0, od) * length(1, oh) * length(2, ow));
        });
      }
      tensors.store(d);
    });
  }
};
template <class T> using MaxPoolGradKernel = PoolGradKernel<T, Kind::kMax>;
template <class T> using AvgPoolGradKernel = PoolGradKernel<T, Kind::kAvg>;
template <class T> using AdaptiveAvgPoolGradKernel = PoolGradKernel<T, Kind::kAdaptive>;

// --- definitions -----------------------------------------------------------------------------------------------------

user_op::OpRegistry poolGrad(const std::string &pooling, int line, int dims, Kind kind, const std::string &doc) {
  user_op::OpRegistry op(pooling + "_grad", __FILE__, line);
  op.GradientOf(pooling);
  if (kind == Kind::kMax)
    op.Input("x").OptionalInput("y").OptionalInput("indice").Input("dy");
  else
    op.Input("dy").Input("x");
  op.Output("dx").Attr<std::string>("data_format", "channels_first");
  if (kind == Kind::kAdaptive)
    op.RequiredAttr<Longs>("output_size");
  else
    op.Attr<Ints>("padding", {})
        .Attr<Ints>("padding_after", {})
        .RequiredAttr<Ints>("kernel_size")
        .Attr<Ints>("stride", {})
        .Attr<bool>("ceil_mode", false)
        .ArgAlias("padding_before", "padding")
        .ArgAlias("pool_size", "kernel_size")
        .ArgAlias("strides", "stride");
  if (kind == Kind::kMax) op.Attr<Ints>("dilation", {}).Attr<bool>("return_indices", false);
  if (kind == Kind::kAvg) op.Attr<bool>("count_include_pad", false).Attr<int32_t>("divisor_override", 0);
  op.SetTensorDescInferFn([dims, kind](InferContext *ctx) { return infer(ctx, dims, kind); })
      .SetGetSbpFn(poolSbp)
      .Doc(doc + " The attributes are those of the pooling.");
  return op;
}
user_op::OpRegistry maxPoolGrad(int line, int dims) {
  return poolGrad("max_pool_" + std::to_string(dims) + "d", line, dims, Kind::kMax,
                  "The gradient of max_pool_" + std::to_string(dims) +
                      "d: each element of dy is added to dx where the first largest element of its window was, which "
                      "is looked for in x, or read from indice when that is given. y, which older graphs pass, is "
                      "not read.");
}
user_op::OpRegistry avgPoolGrad(int line, int dims) {
  return poolGrad("avg_pool_" + std::to_string(dims) + "d", line, dims, Kind::kAvg,
                  "The gradient of avg_pool_" + std::to_string(dims) +
                      "d: each element of dy, divided as the pooling divides, is added to the elements of dx in its "
                      "window. The values of x are not read.");
}
user_op::OpRegistry adaptiveAvgPoolGrad(int line, int dims) {
  return poolGrad("adaptive_avg_pool" + std::to_string(dims) + "d", line, dims, Kind::kAdaptive,
                  "The gradient of adaptive_avg_pool" + std::to_string(dims) +
                      "d: each element of dy, divided by the size of its window, is added to the elements of dx in "
                      "it. The values of x are not read.");
}

const std::string kLast = "channels_last";
Case maxCase(const char *name, Shape x, Shape dy) {
  return Case(name).In("x", std::move(x), -5, 5).In("dy", std::move(dy));
}
Case avgCase(const char *name, Shape x, Shape dy) { return Case(name).In("dy", std::move(dy)).In("x", std::move(x)); }

[[maybe_unused]] const user_op::UserOpRegisterTrigger registrations[] = {
    maxPoolGrad(__LINE__, 1)
        .Cases({maxCase("plain", {2, 3, 9}, {2, 3, 5})
                    .Attr("kernel_size", Ints{3})
                    .Attr("stride", Ints{2})
                    .Attr("padding", Ints{1})}),
    maxPoolGrad(__LINE__, 2)
        .Cases({maxCase("plain", {2, 3, 6, 8}, {2, 3, 3, 4}).Attr("kernel_size", Ints{2, 2}),
                Case("ties").In("x", {1, 2, 5, 23}, 0, 2).In("dy", {1, 2, 2, 11}).Attr("kernel_size", Ints{2, 2}),
                maxCase("ceil", {1, 2, 7, 6}, {1, 2, 4, 4})
                    .Attr("kernel_size", Ints{3, 2})
                    .Attr("stride", Ints{2, 2})
                    .Attr("padding", Ints{1, 1})
                    .Attr("ceil_mode", true),
                maxCase("dilated", {1, 2, 7, 7}, {1, 2, 5, 4})
                    .Attr("kernel_size", Ints{2, 2})
                    .Attr("stride", Ints{1, 1})
                    .Attr("dilation", Ints{2, 3}),
                maxCase("channels_last", {2, 5, 4, 9}, {2, 4, 2, 9})
                    .Attr("kernel_size", Ints{2, 2})
                    .Attr("stride", Ints{1, 2})
                    .Attr("data_format", kLast)}),
    maxPoolGrad(__LINE__, 3)
        .Cases({maxCase("plain", {1, 2, 4, 5, 6}, {1, 2, 2, 2, 3}).Attr("kernel_size", Ints{2, 2, 2})}),
    avgPoolGrad(__LINE__, 1)
        .Cases({avgCase("plain", {2, 3, 9}, {2, 3, 5})
                    .Attr("kernel_size", Ints{3})
                    .Attr("stride", Ints{2})
                    .Attr("padding", Ints{1})}),
    avgPoolGrad(__LINE__, 2)
        .Cases({avgCase("plain", {2, 3, 6, 8}, {2, 3, 3, 4}).Attr("kernel_size", Ints{2, 2}),
                avgCase("counted", {1, 2, 7, 6}, {1, 2, 4, 4})
                    .Attr("kernel_size", Ints{3, 3})
                    .Attr("stride", Ints{2, 2})
                    .Attr("padding", Ints{1, 1})
                    .Attr("count_include_pad", true)
                    .Attr("ceil_mode", true),
                avgCase("divided", {1, 2, 5, 5}, {1, 2, 4, 4})
                    .Attr("kernel_size", Ints{2, 2})
                    .Attr("stride", Ints{1, 1})
                    .Attr("divisor_override", int32_t{3}),
                avgCase("channels_last", {2, 5, 4, 9}, {2, 5, 2, 9})
                    .Attr("kernel_size", Ints{3, 2})
                    .Attr("stride", Ints{1, 2})
                    .Attr("padding", Ints{1, 0})
                    .Attr("data_format", kLast)}),
    avgPoolGrad(__LINE__, 3)
        .Cases({avgCase("plain", {1, 2, 4, 5, 6}, {1, 2, 2, 2, 3}).Attr("kernel_size", Ints{2, 2, 2})}),
    adaptiveAvgPoolGrad(__LINE__, 1).Cases({avgCase("uneven", {2, 3, 10}, {2, 3, 4}).Attr("output_size", Longs{4})}),
    adaptiveAvgPoolGrad(__LINE__, 2)
        .Cases({avgCase("uneven", {1, 2, 7, 5}, {1, 2, 3, 4}).Attr("output_size", Longs{3, 4}),
                avgCase("channels_last", {2, 5, 4, 3}, {2, 2, 2, 3})
                    .Attr("output_size", Longs{2, 2})
                    .Attr("data_format", kLast)}),
    adaptiveAvgPoolGrad(__LINE__, 3)
        .Cases({avgCase("uneven", {1, 2, 4, 5, 6}, {1, 2, 2, 3, 4}).Attr("output_size", Longs{2, 3, 4})}),
};

// --- rules -----------------------------------------------------------------------------------------------------------

#define OPC_WINDOW_ATTRS "padding", "padding_after", "data_format", "kernel_size", "stride", "ceil_mode"

void maxPoolGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  auto grad = g.add(g.op().op_type_name() + "_grad", "x");
  grad.in("x", g.x("x")).in("dy", g.dy("y")).same({OPC_WINDOW_ATTRS, "dilation"});
  if (g.hasOutput("indice")) grad.in("indice", g.y("indice"));
  g.bind("x", grad.out("dx"));
}
/// dx = dy at the largest elements: the gradient by dy gathers there. Where x moves a maximum, dx jumps: x has none.
void maxPoolGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string &type = g.op().op_type_name();
  std::string indices;
  if (g.hasInput("indice")) {
    indices = g.x("indice");
  } else {
    auto pool = g.add(type.substr(0, type.size() - 5), "pool");
    pool.in("x", g.x("x")).same({OPC_WINDOW_ATTRS, "dilation"}).output("indice");
    indices = pool.out("indice");
  }
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

void avgPoolGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add(g.op().op_type_name() + "_grad", "x")
                    .in("dy", g.dy("y"))
                    .in("x", g.x("x"))
                    .same({OPC_WINDOW_ATTRS, "count_include_pad", "divisor_override"})
                    .out("dx"));
}
/// The gradient is linear: its own gradient is the pooling.
void avgPoolGradGradient(GradientRule &g) {
  const std::string &type = g.op().op_type_name();
  if (g.needs("dy"))
    g.bind("dy", g.add(type.substr(0, type.size() - 5), "dy")
                     .in("x", g.dy("dx"))
                     .same({OPC_WINDOW_ATTRS, "count_include_pad", "divisor_override"})
                     .out("y"));
}

void adaptiveGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add(g.op().op_type_name() + "_grad", "x")
                    .in("dy", g.dy("y"))
                    .in("x", g.x("x"))
                    .same({"data_format", "output_size"})
                    .out("dx"));
}
void adaptiveGradGradient(GradientRule &g) {
  const std::string &type = g.op().op_type_name();
  if (g.needs("dy"))
    g.bind(
        "dy",
        g.add(type.substr(0, type.size() - 5), "dy").in("x", g.dy("dx")).same({"data_format", "output_size"}).out("y"));
}

#define OPC_POOL_GRADIENTS(op, Kernel, rule, gradRule)                                                                 \
  OPC_REGISTER_FLOATING_CPU_KERNELS(op "_grad", Kernel, "x");                                                          \
  REGISTER_USER_OP_GRAD(op).SetBackwardOpConfGenFn(gradientRule(rule));                                                \
  REGISTER_USER_OP_GRAD(op "_grad").SetBackwardOpConfGenFn(gradientRule(gradRule))
OPC_POOL_GRADIENTS("max_pool_1d", MaxPoolGradKernel, maxPoolGradient, maxPoolGradGradient);
OPC_POOL_GRADIENTS("max_pool_2d", MaxPoolGradKernel, maxPoolGradient, maxPoolGradGradient);
OPC_POOL_GRADIENTS("max_pool_3d", MaxPoolGradKernel, maxPoolGradient, maxPoolGradGradient);
OPC_POOL_GRADIENTS("avg_pool_1d", AvgPoolGradKernel, avgPoolGradient, avgPoolGradGradient);
OPC_POOL_GRADIENTS("avg_pool_2d", AvgPoolGradKernel, avgPoolGradient, avgPoolGradGradient);
OPC_POOL_GRADIENTS("avg_pool_3d", AvgPoolGradKernel, avgPoolGradient, avgPoolGradGradient);
OPC_POOL_GRADIENTS("adaptive_avg_pool1d", AdaptiveAvgPoolGradKernel, adaptiveGradient, adaptiveGradGradient);
OPC_POOL_GRADIENTS("adaptive_avg_pool2d", AdaptiveAvgPoolGradKernel, adaptiveGradient, adaptiveGradGradient);
OPC_POOL_GRADIENTS("adaptive_avg_pool3d", AdaptiveAvgPoolGradKernel, adaptiveGradient, adaptiveGradGradient);

} // namespace
} // namespace opc::ops
