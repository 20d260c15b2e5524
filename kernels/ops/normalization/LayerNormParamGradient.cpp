// layer_norm_param_grad and rms_norm_param_grad, and their gradient rules.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "normalization/RowsGradients.h"
#include "reduce/ReducePlan.h"

#include "opc/ColumnsLoop.h"

#include <algorithm>

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> inferLayer(InferContext *ctx) {
  JUST(checkInputs<false>(ctx));
  const Shape x = ctx->In("x").shape();
  setStatistics(ctx, {"beta_diff", "gamma_diff"}, trailing(x, JUST(axisOf<int64_t>(ctx, "begin_params_axis", x))));
  return Maybe<void>::Ok();
}
Maybe<void> inferRms(InferContext *ctx) {
  const int64_t lead = JUST(checkInputs<true>(ctx));
  setStatistics(ctx, {"weight_grad"}, trailing(ctx->In("x").shape(), lead));
  return Maybe<void>::Ok();
}

/// x's dimensions from `params` on: each element of a parameter's gradient comes from its own column. Those before the
/// parameters and the `lead` statistics: each part has some of the addends.
template <bool kRms> Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("x").shape();
  const int64_t lead = ctx.In(kInverse<kRms>).shape().NumAxes();
  const int64_t params = kRms ? lead : JUST(axisOf<int64_t>(&ctx, "begin_params_axis", shape));
  const AxisFactors x = axisFactors(shape.NumAxes()), sums(x.begin(), x.begin() + std::min(lead, params));
  AxisFactors rows = sums, all = sums, columns{".."};
  rows.push_back("..");
  if (params >= lead) columns.assign(x.begin() + params, x.end());
  all.resize(static_cast<size_t>(params), ".");
  all.insert(all.end(), columns.begin(), columns.end());
  std::vector<AxisFactors> inputs{all, all, rows, rows}, outputs{columns, columns};
  if (kRms) { // it has no mean, and one parameter
    inputs.pop_back();
    outputs.pop_back();
  }
  return inOrder(columns, withSums(sums, shardingRule(inputs, outputs, Linear({0}))));
}

constexpr int64_t kBlock = 1024; // parameters side by side
constexpr int64_t kRows = 16;    // rows that are added up in T, before f64

/// Adds what rows of n elements have for `width` neighbouring parameters, parameter j of row r at dy[r * n + j].
void addRows(const float *dy, const float *x, const float *means, const float *inverses, int64_t rows, int64_t n,
             int64_t width, float *gammas, float *betas) {
  rowMath().parameterRows(dy, x, means, inverses, rows, n, width, gammas, betas);
}
void addRows(const double *dy, const double *x, const double *means, const double *inverses, int64_t rows, int64_t n,
             int64_t width, double *gammas, double *betas) {
  for (int64_t r = 0; r < rows; ++r) {
    const double *d = dy + r * n, *v = x + r * n, mean = means ? means[r] : 0, inverse = inverses[r];
    for (int64_t j = 0; j < width; ++j) {
      gammas[j] += d[j] * ((v[j] - mean) * inverse);
      betas[j] += d[j];
    }
  }
}

/// The rows of a piece: those of reduce_sum over as many rows.
int64_t pieceOf(int64_t rows, int64_t n) { return ReducePlan::make(Shape{rows, n}, {0}).chunkUnits; }

/// A piece of rows: the sums of `width` neighbouring parameters.
template <class T>
void sumPiece(const T *dy, const T *x, const T *means, const T *inverses, int64_t rows, int64_t n, int64_t width,
              double *gammas, double *betas) {
  std::fill_n(gammas, width, 0.0);
  std::fill_n(betas, width, 0.0);
  for (int64_t r = 0; r < rows; r += kRows) {
    alignas(64) T gamma[kBlock], beta[kBlock];
    std::fill_n(gamma, width, T(0));
    std::fill_n(beta, width, T(0));
    addRows(dy + r * n, x + r * n, means ? means + r : nullptr, inverses + r, std::min(kRows, rows - r), n, width,
            gamma, beta);
    for (int64_t j = 0; j < width; ++j) {
      gammas[j] += static_cast<double>(gamma[j]);
      betas[j] += static_cast<double>(beta[j]);
    }
  }
}

/// The sums of `width` neighbouring parameters over rows of n elements: of pieces, which are added in their order.
template <class T>
void sumRows(const T *dy, const T *x, const T *means, const T *inverses, int64_t rows, int64_t n, int64_t width,
             double *gammas, double *betas) {
  const int64_t piece = pieceOf(rows, n);
  sumPiece(dy, x, means, inverses, std::min(piece, rows), n, width, gammas, betas);
  double gamma[kBlock], beta[kBlock];
  for (int64_t r = piece; r < rows; r += piece) {
    sumPiece(dy + r * n, x + r * n, means ? means + r : nullptr, inverses + r, std::min(piece, rows - r), n, width,
             gamma, beta);
    for (int64_t j = 0; j < width; ++j) {
      gammas[j] += gamma[j];
      betas[j] += beta[j];
    }
  }
}

/// The same for regions: the sums of a piece in f64, and behind them, until it is done, those of its last rows in T.
template <class T> class ParameterColumns final : public ColumnsLoop {
public:
  ParameterColumns(const KernelContext &ctx, int64_t count, int64_t n, const char *inverse, const char *gamma) {
    rows = count;
    size = n;
    pieceRows = pieceOf(count, n);
    for (const auto &[name, number] : ctx.inputs()) {
      const char *const known[] = {"dy", "x", "mean", inverse};
      for (size_t k = 0; k < std::size(at_); ++k)
        if (name == known[k]) at_[k] = static_cast<int>(inputs.size());
      inputs.push_back(name == known[0] || name == known[1] ? RowPart::kRow : RowPart::kOne);
    }
    for (const auto &[name, number] : ctx.outputs()) {
      isGamma_.push_back(name == gamma);
      outputs.push_back(RowPart::kWhole);
    }
  }

  size_t StateBytes() const override { return static_cast<size_t>(2 * size) * (sizeof(double) + sizeof(T)); }
  size_t KeptBytes() const override { return static_cast<size_t>(2 * size) * sizeof(double); }

  void Run(const void *const *in, void *const *out, int64_t first, int64_t count, void *) const override {
    auto *sums = static_cast<double *>(out[0]);
    auto *last = reinterpret_cast<T *>(sums + 2 * size);
    const auto operand = [&](size_t k) { return at_[k] < 0 ? nullptr : static_cast<const T *>(in[at_[k]]); };
    const T *dy = operand(0), *x = operand(1), *means = operand(2), *inverses = operand(3);
    for (int64_t done = 0; done < count;) {
      const int64_t at = (first + done) % pieceRows, inBlock = at % kRows;
      const int64_t left = std::min(rows - first - done, std::min(kRows - inBlock, pieceRows - at));
      const int64_t n = std::min(count - done, left);
      if (at == 0) std::fill_n(sums, 2 * size, 0.0);
      if (inBlock == 0) std::fill_n(last, 2 * size, T(0));
      addRows(dy + done * size, x + done * size, means ? means + done : nullptr, inverses + done, n, size, size, last,
              last + size);
      if (n == left)
        for (int64_t j = 0; j < 2 * size; ++j) sums[j] += static_cast<double>(last[j]);
      done += n;
    }
  }

  void Finish(const char *parts, size_t stride, void *const *out, int64_t begin, int64_t end) const override {
    const auto part = [&](int64_t piece) {
      return reinterpret_cast<const double *>(parts + static_cast<size_t>(piece) * stride);
    };
    for (size_t o = 0; o < isGamma_.size(); ++o)
      for (int64_t j = begin; out[o] && j < end; ++j) {
        const int64_t column = isGamma_[o] ? j : size + j;
        double sum = part(0)[column];
        for (int64_t p = 1; p < pieces(); ++p) sum += part(p)[column];
        static_cast<T *>(out[o])[j] = static_cast<T>(sum);
      }
  }

private:
  int at_[4] = {-1, -1, -1, -1}; // among the inputs: dy, x, mean, inverse
  std::vector<bool> isGamma_;    // by output
};

/// gammaDiff[j] and betaDiff[j]: sums over all elements of x that parameter j (of `period`) is for, in f64, in order.
template <class T>
void parameterGradients(DeviceCtx *d, const T *dy, const T *x, const T *means, const T *inverses, T *gammaDiff,
                        T *betaDiff, int64_t elements, int64_t n, int64_t period) {
  constexpr int64_t kGrain = 64, kInRow = 64; // parameters of a thread; those that lie in one row where rows are short
  const int64_t block = period == n ? kBlock : kInRow;
  d->parallelFor(period, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t j0 = begin; j0 < end; j0 += block) {
      const int64_t width = std::min(block, end - j0);
      double gammas[kBlock] = {}, betas[kBlock] = {};
      if (period == n) sumRows(dy + j0, x + j0, means, inverses, elements / n, n, width, gammas, betas);
      for (int64_t base = j0; period != n && base < elements; base += period) {
        // All of the block lies in one row, or the rows are shorter than the parameters.
        const int64_t row = base / n;
        if ((base + width - 1) / n == row) {
          const T mean = means ? means[row] : T(0), inverse = inverses[row];
          if (gammaDiff)
            for (int64_t j = 0; j < width; ++j)
              gammas[j] += static_cast<double>(dy[base + j] * ((x[base + j] - mean) * inverse));
          if (betaDiff)
            for (int64_t j = 0; j < width; ++j) betas[j] += static_cast<double>(dy[base + j]);
          continue;
        }
        for (int64_t j = 0; j < width; ++j) {
          const int64_t r = (base + j) / n;
          gammas[j] += static_cast<double>(dy[base + j] * ((x[base + j] - (means ? means[r] : T(0))) * inverses[r]));
          betas[j] += static_cast<double>(dy[base + j]);
        }
      }
      for (int64_t j = 0; j < width; ++j) {
        if (gammaDiff) gammaDiff[j0 + j] = static_cast<T>(gammas[j]);
        if (betaDiff) betaDiff[j0 + j] = static_cast<T>(betas[j]);
      }
    }
  });
}

template <class T, bool Rms> class ParamGradKernel : public StagedKernel<T>, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    const NormShape s = rowsOf<Rms>(&ctx);
    const Shape &shape = ctx.Desc("x").shape();
    // Rows of a half type are computed in f32, all at once, where the op is alone.
    const bool isStored = ctx.Desc("x").data_type() == GetDataType<T>::value;
    if (!isStored || s.inner < 2 || s.outer < 2 || periodOf(&ctx, s, shape) != s.inner) return Status::ok();
    *loop =
        std::make_unique<ParameterColumns<T>>(ctx, s.outer, s.inner, kInverse<Rms>, Rms ? "weight_grad" : "gamma_diff");
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const NormShape s = rowsOf<Rms>(ctx);
    const Shape &shape = ctx->Desc("x").shape();
    const T *dy = staged.in("dy"), *x = staged.in("x"), *means = staged.in("mean"),
            *inverses = staged.in(kInverse<Rms>);
    T *gammaDiff = staged.out(Rms ? "weight_grad" : "gamma_diff"), *betaDiff = staged.out("beta_diff");
    const int64_t period = periodOf(ctx, s, shape);
    return bindTask([=, elements = shape.elem_cnt(), n = std::max<int64_t>(1, s.inner)](DeviceCtx *d) {
      parameterGradients(d, dy, x, means, inverses, gammaDiff, betaDiff, elements, n, period);
    });
  }

private:
  /// Parameters: elements after which the next one is for the first one again.
  static int64_t periodOf(const OpContext *ctx, const NormShape &s, const Shape &shape) {
    if constexpr (Rms)
      return s.inner;
    else
      return shape.Count(valueOf(axisOf<int64_t>(ctx, "begin_params_axis", shape)));
  }
};
template <class T> using LayerNormParamGradKernel = ParamGradKernel<T, false>;
template <class T> using RmsNormParamGradKernel = ParamGradKernel<T, true>;

REGISTER_USER_OP("layer_norm_param_grad")
    .With(gradientInputs<false>)
    .OptionalOutput("beta_diff")
    .OptionalOutput("gamma_diff")
    .Attr<int64_t>("begin_params_axis", 0)
    .With(rules(inferLayer, sharding<false>))
    .Doc("The gradients of layer_norm by its parameters: gamma_diff is the sum of dy * (x - mean) * inv_variance "
         "over the dimensions before begin_params_axis, beta_diff the sum of dy. Both are f32 when x is f16 or bf16; "
         "sums run in f64.")
    .Cases({withStatistics<false>(gradCase("both", {5, 70}), {5})
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff"),
            withStatistics<false>(gradCase("gamma", {2, 3, 5}), {2})
                .Attr("begin_params_axis", int64_t{-1})
                .Out("gamma_diff"),
            withStatistics<false>(gradCase("long", {2, 3, 5}), {2, 3})
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff"),
            withStatistics<false>(gradCase("half", {5, 7}), {5}, true)
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff")})
    .Kernel<LayerNormParamGradKernel, types::Floating>("x");

REGISTER_USER_OP("rms_norm_param_grad")
    .With(gradientInputs<true>)
    .Output("weight_grad")
    .With(rules(inferRms, sharding<true>))
    .Doc("The gradient of rms_norm by weight: the sum of dy * x * inv_rms over the leading dimensions; f32 when x is "
         "f16 or bf16.")
    .Cases({withStatistics<true>(gradCase("rows", {5, 70}), {5}),
            withStatistics<true>(gradCase("half", {5, 7}), {5}, true)})
    .Kernel<RmsNormParamGradKernel, types::Floating>("x");

void layerGradient(GradientRule &g) {
  const int64_t params = valueOf(resolveAxis(g.attr<int64_t>("begin_params_axis"), g.shape("x").NumAxes()));
  secondGradient(g, rowsView<false>(g, g.shape("mean").NumAxes(), params), {nullptr, "gamma_diff", "beta_diff"});
}
REGISTER_USER_OP_GRAD("layer_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(layerGradient));

void rmsGradient(GradientRule &g) {
  const int64_t lead = g.shape("inv_rms").NumAxes();
  secondGradient(g, rowsView<true>(g, lead, lead), {nullptr, "weight_grad", nullptr});
}
REGISTER_USER_OP_GRAD("rms_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(rmsGradient));

} // namespace
} // namespace opc::ops::norm
