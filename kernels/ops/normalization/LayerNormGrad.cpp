// layer_norm_grad, layer_norm_param_grad, rms_norm_grad and rms_norm_param_grad.
// SPDX-License-Identifier: Apache-2.0
#include "NormGradRows.h"
#include "NormRules.h"
#include "StagedTensors.h"
#include "support/Axes.h"
#include "support/RegisterFloating.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::OpArg;
using user_op::TensorDesc;

Shape leading(const Shape &s, int64_t end) { return Shape(DimVector(s.begin(), s.begin() + end)); }
Shape trailing(const Shape &s, int64_t begin) { return Shape(DimVector(s.begin() + begin, s.end())); }

/// dy has x's type, and each of `statistics` x's leading dimensions; gives how many those are.
Maybe<int64_t> checkInputs(InferContext *ctx, std::initializer_list<const char *> statistics) {
  const TensorDesc x = ctx->InputTensorDesc("x", 0);
  JUST(checkFloating("x", x));
  if (ctx->InputTensorDesc("dy", 0) != x)
    return Error::ShapeMismatch() << "dy is " << ctx->InputTensorDesc("dy", 0).toString() << ", expected x's type, "
                                  << x.toString();
  const int64_t lead = ctx->InputShape(*statistics.begin(), 0).NumAxes();
  for (const char *s : statistics) {
    const TensorDesc d = ctx->InputTensorDesc(s, 0);
    if (lead > x.shape().NumAxes() || d.shape() != leading(x.shape(), lead) ||
        d.data_type() != statisticsType(x.data_type()))
      return Error::ShapeMismatch() << s << " is " << d.toString() << ", expected "
                                    << dataTypeName(statisticsType(x.data_type()))
                                    << " with the leading dimensions of x, " << x.toString();
  }
  return lead;
}
Maybe<void> checkAddend(InferContext *ctx) {
  const TensorDesc x = ctx->InputTensorDesc("x", 0);
  if (ctx->has_input("_add_to_output", 0) && ctx->InputTensorDesc("_add_to_output", 0) != x)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->InputTensorDesc("_add_to_output", 0).toString()
                                  << ", expected x's type, " << x.toString();
  return Maybe<void>::Ok();
}

/// Splits along x's leading dimensions [0, end): the parameters are whole, the outputs follow or (sums) are partial.
/// And partial sums of dy.
Maybe<void> leadingSbp(user_op::SbpContext *ctx, int64_t end, bool sums) {
  for (int64_t i = 0; i < end; ++i) {
    auto builder = ctx->NewBuilder();
    for (const auto &in : ctx->inputs()) {
      if (in.first == "gamma" || in.first == "weight")
        builder.Broadcast(OpArg(in.first, 0));
      else
        builder.Split(OpArg(in.first, 0), i);
    }
    for (const auto &out : ctx->outputs()) {
      if (sums)
        builder.PartialSum(OpArg(out.first, 0));
      else
        builder.Split(OpArg(out.first, 0), i);
    }
    builder.Build();
  }
  addLinearSignature(ctx, {"dy", "_add_to_output"});
  return Maybe<void>::Ok();
}

/// The gradients of parameters, which have x's dimensions from `begin` on: each element comes from its own column.
void columnSbp(user_op::SbpContext *ctx, int64_t begin) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
  for (int64_t i = begin; i < rank; ++i)
    ctx->NewBuilder()
        .Broadcast(ctx->inputs())
        .Split(OpArg("dy", 0), i)
        .Split(OpArg("x", 0), i)
        .Split(ctx->outputs(), i - begin)
        .Build();
}

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Rows of n elements. gamma, if given, repeats every `period` elements of x.
template <class T>
void rowGradients(DeviceCtx *d, const T *dy, const T *x, const T *means, const T *inverses, const T *gamma,
                  const T *add, T *dx, int64_t rows, int64_t n, int64_t period) {
  d->parallelFor(rows, rowGrain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *from = dy + r * n;
      T *to = dx + r * n;
      if (!gamma) {
        std::copy_n(from, n, to);
      } else {
        for (int64_t done = 0; done < n;) {
          const int64_t at = (r * n + done) % period, run = std::min(n - done, period - at);
          for (int64_t i = 0; i < run; ++i) to[done + i] = from[done + i] * gamma[at + i];
          done += run;
        }
      }
      normGradRow(x + r * n, to, n, means ? means[r] : T(0), inverses[r], means != nullptr);
      if (add)
        for (int64_t i = 0; i < n; ++i) to[i] += add[r * n + i];
    }
  });
}

/// Sums of `width` neighbouring parameters over rows of n elements, parameter j of row r at dy[r * n + j]: in T over a
/// few rows, which the vectors do, and in f64 over these.
template <class T>
void sumRows(const T *dy, const T *x, const T *means, const T *inverses, int64_t rows, int64_t n, int64_t width,
             double *gammas, double *betas) {
  constexpr int64_t kRows = 16, kBlock = 64;
  for (int64_t r0 = 0; r0 < rows; r0 += kRows) {
    T gamma[kBlock] = {}, beta[kBlock] = {};
    for (int64_t r = r0; r < std::min(rows, r0 + kRows); ++r) {
      const T *d = dy + r * n, *v = x + r * n;
      const T mean = means ? means[r] : T(0), inverse = inverses[r];
      for (int64_t j = 0; j < width; ++j) {
        gamma[j] += d[j] * ((v[j] - mean) * inverse);
        beta[j] += d[j];
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      gammas[j] += static_cast<double>(gamma[j]);
      betas[j] += static_cast<double>(beta[j]);
    }
  }
}

/// gammaDiff[j] and betaDiff[j]: sums over all elements of x that parameter j (of `period`) is for, in f64, in order.
template <class T>
void parameterGradients(DeviceCtx *d, const T *dy, const T *x, const T *means, const T *inverses, T *gammaDiff,
                        T *betaDiff, int64_t elements, int64_t n, int64_t period) {
  constexpr int64_t kBlock = 64; // parameters side by side
  d->parallelFor(period, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t j0 = begin; j0 < end; j0 += kBlock) {
      const int64_t width = std::min(kBlock, end - j0);
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

template <class T, bool Rms> class NormGradKernel : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const char *inverseArg = Rms ? "inv_rms" : "inv_variance", *gammaArg = Rms ? "weight" : "gamma";
    const int64_t lead = ctx->TensorDesc4ArgNameAndIndex(inverseArg, 0)->shape().NumAxes();
    const int64_t rows = shape.Count(0, lead), n = shape.Count(lead);
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *x = tensors.in("x"), *means = Rms ? nullptr : tensors.in("mean"),
            *inverses = tensors.in(inverseArg), *gamma = tensors.in(gammaArg), *add = tensors.in("_add_to_output");
    T *dx = tensors.out("dx");
    const int64_t period = gamma ? ctx->TensorDesc4ArgNameAndIndex(gammaArg, 0)->shape().elem_cnt() : n;
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      rowGradients(d, dy, x, means, inverses, gamma, add, dx, rows, n, period);
      tensors.store(d);
    });
  }
};
template <class T> class LayerNormGradKernel final : public NormGradKernel<T, false> {};
template <class T> class RmsNormGradKernel final : public NormGradKernel<T, true> {};

template <class T, bool Rms> class NormParamGradKernel : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const char *inverseArg = Rms ? "inv_rms" : "inv_variance";
    const int64_t lead = ctx->TensorDesc4ArgNameAndIndex(inverseArg, 0)->shape().NumAxes();
    const int64_t elements = shape.elem_cnt(), n = std::max<int64_t>(1, shape.Count(lead));
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *x = tensors.in("x"), *means = Rms ? nullptr : tensors.in("mean"),
            *inverses = tensors.in(inverseArg);
    T *gammaDiff = tensors.out(Rms ? "weight_grad" : "gamma_diff"),
      *betaDiff = Rms ? nullptr : tensors.out("beta_diff");
    const int64_t axis = Rms ? lead : valueOf(resolveAxis(ctx->Attr<int64_t>("begin_params_axis"), shape.NumAxes()));
    const int64_t period = shape.Count(axis);
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      parameterGradients(d, dy, x, means, inverses, gammaDiff, betaDiff, elements, n, period);
      tensors.store(d);
    });
  }
};
template <class T> class LayerNormParamGradKernel final : public NormParamGradKernel<T, false> {};
template <class T> class RmsNormParamGradKernel final : public NormParamGradKernel<T, true> {};

// --- definitions -----------------------------------------------------------------------------------------------------

/// The statistics of half types are f32.
Case statistics(Case c, Shape lead, std::initializer_list<const char *> args, std::vector<DataType> types) {
  for (const char *a : args) c.In(a, lead, 0.5, 1.5);
  return c.Types(std::move(types));
}
Case halfStatistics(Case c, Shape lead, std::initializer_list<const char *> args) {
  for (const char *a : args) c.In(a, kFloat, lead, 0.5, 1.5);
  return c.Types({kFloat16, kBFloat16});
}
const std::vector<DataType> kPlain = {kFloat, kDouble};

REGISTER_USER_OP("layer_norm_grad")
    .GradientOf("layer_norm")
    .Input("dy")
    .Input("x")
    .Input("mean")
    .Input("inv_variance")
    .OptionalInput("gamma")
    .OptionalInput("_add_to_output")
    .Output("dx")
    .Attr<int64_t>("begin_norm_axis", 0)
    .Attr<double>("epsilon", 0.0)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const int64_t lead = JUST(checkInputs(ctx, {"mean", "inv_variance"}));
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      const int64_t norm =
          JUST(resolveAxis(ctx->Attr<int64_t>("begin_norm_axis"), x.shape().NumAxes(), "begin_norm_axis"));
      if (norm != lead)
        return Error::ShapeMismatch() << "begin_norm_axis is " << norm << ", but mean has " << lead << " dimensions";
      if (ctx->has_input("gamma", 0)) {
        const Shape &gamma = ctx->InputShape("gamma", 0);
        const int64_t begin = x.shape().NumAxes() - gamma.NumAxes();
        if (begin < 0) return Error::ShapeMismatch() << "gamma has more dimensions than x, " << x.toString();
        JUST(checkParameter(ctx, "gamma", trailing(x.shape(), begin), "the last dimensions of x"));
      }
      JUST(checkAddend(ctx));
      *ctx->MutOutputTensorDesc("dx", 0) = x;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      int64_t end = JUST(resolveAxis(ctx->Attr<int64_t>("begin_norm_axis"), rank));
      if (ctx->has_input("gamma", 0))
        end = std::min(end, rank - ctx->LogicalTensorDesc4InputArgNameAndIndex("gamma", 0).shape().NumAxes());
      return leadingSbp(ctx, end, false);
    })
    .Doc("The gradient of layer_norm by x: with d = dy * gamma, xhat = (x - mean) * inv_variance and means over the "
         "normalised dimensions, dx = inv_variance * (d - mean(d) - xhat * mean(d * xhat)), plus _add_to_output when "
         "it is given.")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({statistics(Case("affine").In("dy", {3, 19}).In("x", {3, 19}, -3, 3).In("gamma", {19}, 0.5, 2), {3},
                       {"mean", "inv_variance"}, kPlain)
                .Attr("begin_norm_axis", int64_t{1}),
            statistics(Case("plain").In("dy", {2, 3, 5}).In("x", {2, 3, 5}, -3, 3).In("_add_to_output", {2, 3, 5}), {2},
                       {"mean", "inv_variance"}, kPlain)
                .Attr("begin_norm_axis", int64_t{-2}),
            statistics(Case("whole").In("dy", {4, 6}).In("x", {4, 6}, -3, 3).In("gamma", {6}, 0.5, 2), {},
                       {"mean", "inv_variance"}, kPlain),
            halfStatistics(Case("half").In("dy", {3, 19}).In("x", {3, 19}, -3, 3).In("gamma", {19}, 0.5, 2), {3},
                           {"mean", "inv_variance"})
                .Attr("begin_norm_axis", int64_t{1})});

REGISTER_USER_OP("layer_norm_param_grad")
    .GradientOf("layer_norm")
    .Input("dy")
    .Input("x")
    .Input("mean")
    .Input("inv_variance")
    .OptionalOutput("beta_diff")
    .OptionalOutput("gamma_diff")
    .Attr<int64_t>("begin_params_axis", 0)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      JUST(checkInputs(ctx, {"mean", "inv_variance"}));
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      const int64_t axis =
          JUST(resolveAxis(ctx->Attr<int64_t>("begin_params_axis"), x.shape().NumAxes(), "begin_params_axis"));
      for (const char *s : {"beta_diff", "gamma_diff"})
        if (ctx->has_output(s, 0))
          *ctx->MutOutputTensorDesc(s, 0) = TensorDesc(trailing(x.shape(), axis), statisticsType(x.data_type()));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      const int64_t lead = ctx->LogicalTensorDesc4InputArgNameAndIndex("mean", 0).shape().NumAxes();
      const int64_t params = JUST(resolveAxis(ctx->Attr<int64_t>("begin_params_axis"), rank));
      if (params >= lead) columnSbp(ctx, params);
      return leadingSbp(ctx, std::min(lead, params), true);
    })
    .Doc("The gradients of layer_norm by its parameters: gamma_diff is the sum of dy * (x - mean) * inv_variance "
         "over the dimensions before begin_params_axis, beta_diff the sum of dy. Both are f32 when x is f16 or bf16; "
         "sums run in f64.")
    .Cases({statistics(Case("both").In("dy", {5, 70}).In("x", {5, 70}, -3, 3), {5}, {"mean", "inv_variance"}, kPlain)
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff"),
            statistics(Case("gamma").In("dy", {2, 3, 5}).In("x", {2, 3, 5}, -3, 3), {2}, {"mean", "inv_variance"},
                       kPlain)
                .Attr("begin_params_axis", int64_t{-1})
                .Out("gamma_diff"),
            statistics(Case("long").In("dy", {2, 3, 5}).In("x", {2, 3, 5}, -3, 3), {2, 3}, {"mean", "inv_variance"},
                       kPlain)
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff"),
            halfStatistics(Case("half").In("dy", {5, 7}).In("x", {5, 7}, -3, 3), {5}, {"mean", "inv_variance"})
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff")});

REGISTER_USER_OP("rms_norm_grad")
    .GradientOf("rms_norm")
    .Input("dy")
    .Input("x")
    .Input("inv_rms")
    .OptionalInput("weight")
    .Output("dx")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const int64_t lead = JUST(checkInputs(ctx, {"inv_rms"}));
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      JUST(checkParameter(ctx, "weight", trailing(x.shape(), lead), "the dimensions of x that inv_rms lacks"));
      *ctx->MutOutputTensorDesc("dx", 0) = x;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) {
      return leadingSbp(ctx, ctx->LogicalTensorDesc4InputArgNameAndIndex("inv_rms", 0).shape().NumAxes(), false);
    })
    .Doc("The gradient of rms_norm by x: with d = dy * weight and xhat = x * inv_rms, dx = inv_rms * (d - xhat * "
         "mean(d * xhat)), the mean over the normalised dimensions.")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({statistics(Case("weighted").In("dy", {3, 19}).In("x", {3, 19}, -3, 3).In("weight", {19}, 0.5, 2), {3},
                       {"inv_rms"}, kPlain),
            statistics(Case("plain").In("dy", {2, 3, 5}).In("x", {2, 3, 5}, -3, 3), {2}, {"inv_rms"}, kPlain),
            halfStatistics(Case("half").In("dy", {3, 19}).In("x", {3, 19}, -3, 3).In("weight", {19}, 0.5, 2), {3},
                           {"inv_rms"})});

REGISTER_USER_OP("rms_norm_param_grad")
    .GradientOf("rms_norm")
    .Input("dy")
    .Input("x")
    .Input("inv_rms")
    .Output("weight_grad")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const int64_t lead = JUST(checkInputs(ctx, {"inv_rms"}));
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      *ctx->MutOutputTensorDesc("weight_grad", 0) =
          TensorDesc(trailing(x.shape(), lead), statisticsType(x.data_type()));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) {
      const int64_t lead = ctx->LogicalTensorDesc4InputArgNameAndIndex("inv_rms", 0).shape().NumAxes();
      columnSbp(ctx, lead);
      return leadingSbp(ctx, lead, true);
    })
    .Doc("The gradient of rms_norm by weight: the sum of dy * x * inv_rms over the leading dimensions; f32 when x is "
         "f16 or bf16.")
    .Cases({statistics(Case("rows").In("dy", {5, 70}).In("x", {5, 70}, -3, 3), {5}, {"inv_rms"}, kPlain),
            halfStatistics(Case("half").In("dy", {5, 7}).In("x", {5, 7}, -3, 3), {5}, {"inv_rms"})});

OPC_REGISTER_FLOATING_CPU_KERNELS("layer_norm_grad", LayerNormGradKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("layer_norm_param_grad", LayerNormParamGradKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("rms_norm_grad", RmsNormGradKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("rms_norm_param_grad", RmsNormParamGradKernel, "x");

} // namespace
} // namespace opc::ops
