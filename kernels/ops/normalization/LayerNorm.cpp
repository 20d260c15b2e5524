// layer_norm and rms_norm: normalisation of trailing dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/Axes.h"
#include "support/RegisterFloating.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

Shape leading(const Shape &s, int64_t end) { return Shape(DimVector(s.begin(), s.begin() + end)); }
Shape trailing(const Shape &s, int64_t begin) { return Shape(DimVector(s.begin() + begin, s.end())); }

/// Splits of x along its leading dimensions [0, end); the named outputs follow, everything else is broadcast.
Maybe<void> splitLeading(user_op::SbpContext *ctx, int64_t end) {
  for (int64_t i = 0; i < end; ++i) {
    auto builder = ctx->NewBuilder();
    for (const auto &in : ctx->inputs()) {
      if (in.first == "x")
        builder.Split(user_op::OpArg(in.first, 0), i);
      else
        builder.Broadcast(user_op::OpArg(in.first, 0));
    }
    for (const auto &out : ctx->outputs()) builder.Split(user_op::OpArg(out.first, 0), i);
    builder.Build();
  }
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("layer_norm")
    .Input("x")
    .OptionalInput("beta")
    .OptionalInput("gamma")
    .Output("y")
    .Output("mean")
    .Output("inv_variance")
    .Attr<bool>("center", false)
    .Attr<bool>("scale", false)
    .Attr<int64_t>("begin_norm_axis", 0)
    .Attr<int64_t>("begin_params_axis", 0)
    .Attr<double>("epsilon", 0.0)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      JUST(checkFloating("x", x));
      const int64_t rank = x.shape().NumAxes();
      const int64_t norm = JUST(resolveAxis(ctx->Attr<int64_t>("begin_norm_axis"), rank, "begin_norm_axis"));
      const int64_t params = JUST(resolveAxis(ctx->Attr<int64_t>("begin_params_axis"), rank, "begin_params_axis"));
      JUST(checkEpsilon(ctx->Attr<double>("epsilon")));
      JUST(checkSwitch(ctx, "center", "beta"));
      JUST(checkSwitch(ctx, "scale", "gamma"));
      const Shape paramShape = trailing(x.shape(), params);
      JUST(checkParameter(ctx, "beta", paramShape, "x's dimensions from begin_params_axis on"));
      JUST(checkParameter(ctx, "gamma", paramShape, "x's dimensions from begin_params_axis on"));
      *ctx->MutOutputTensorDesc("y", 0) = x;
      for (const char *s : {"mean", "inv_variance"})
        *ctx->MutOutputTensorDesc(s, 0) = TensorDesc(leading(x.shape(), norm), statisticsType(x.data_type()));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      const int64_t norm = JUST(resolveAxis(ctx->Attr<int64_t>("begin_norm_axis"), rank));
      const int64_t params = JUST(resolveAxis(ctx->Attr<int64_t>("begin_params_axis"), rank));
      return splitLeading(ctx, std::min(norm, params));
    })
    .Doc("Layer normalisation (Ba, Kiros, Hinton, 2016) of x's dimensions from begin_norm_axis on: y = (x - mean) * "
         "inv_variance * gamma + beta, with mean and inv_variance = 1 / sqrt(variance + epsilon) taken over those "
         "dimensions (population variance). mean and inv_variance have x's leading dimensions and are f32 when x is "
         "f16 or bf16. gamma (scale: true) and beta (center: true) have x's dimensions from begin_params_axis on.")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({Case("affine")
                .In("x", {3, 19}, -3, 3)
                .In("beta", {19})
                .In("gamma", {19}, 0.5, 2)
                .Attr("center", true)
                .Attr("scale", true)
                .Attr("begin_norm_axis", int64_t{1})
                .Attr("begin_params_axis", int64_t{1})
                .Attr("epsilon", 1e-5),
            Case("plain")
                .In("x", {2, 3, 5}, -3, 3)
                .Attr("begin_norm_axis", int64_t{-2})
                .Attr("begin_params_axis", int64_t{-1})
                .Attr("epsilon", 1e-5),
            Case("whole")
                .In("x", {4, 6}, -3, 3)
                .In("gamma", {6}, 0.5, 2)
                .Attr("scale", true)
                .Attr("begin_params_axis", int64_t{1})
                .Attr("epsilon", 1e-3),
            Case("no_rows")
                .In("x", {0, 8})
                .Attr("begin_norm_axis", int64_t{1})
                .Attr("begin_params_axis", int64_t{1})
                .Attr("epsilon", 1e-5)});

REGISTER_USER_OP("rms_norm")
    .Input("x")
    .OptionalInput("weight")
    .Output("y")
    .Output("inv_rms")
    .RequiredAttr<Shape>("normalized_shape")
    .Attr<float>("epsilon", 1e-5f)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      const Shape &normalized = ctx->Attr<Shape>("normalized_shape");
      JUST(checkFloating("x", x));
      JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
      const int64_t begin = x.shape().NumAxes() - normalized.NumAxes();
      if (normalized.NumAxes() == 0 || begin < 0 || trailing(x.shape(), begin) != normalized)
        return Error::ShapeMismatch() << "normalized_shape is " << normalized.ToString()
                                      << ", which are not the last dimensions of x, " << x.toString();
      JUST(checkParameter(ctx, "weight", normalized, "the normalized_shape"));
      *ctx->MutOutputTensorDesc("y", 0) = x;
      *ctx->MutOutputTensorDesc("inv_rms", 0) = TensorDesc(leading(x.shape(), begin), statisticsType(x.data_type()));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      return splitLeading(ctx, ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes() -
                                   ctx->Attr<Shape>("normalized_shape").NumAxes());
    })
    .Doc("Root-mean-square normalisation (Zhang, Sennrich, 2019) of x's last dimensions, which normalized_shape "
         "names: y = x * inv_rms * weight, inv_rms = 1 / sqrt(mean of x^2 + epsilon). inv_rms has x's leading "
         "dimensions and is f32 when x is f16 or bf16.")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({Case("weighted").In("x", {3, 19}, -3, 3).In("weight", {19}, 0.5, 2).Attr("normalized_shape", Shape{19}),
            Case("plain").In("x", {2, 3, 5}, -3, 3).Attr("normalized_shape", Shape{3, 5}).Attr("epsilon", 1e-3f),
            Case("no_rows").In("x", {0, 8}).Attr("normalized_shape", Shape{8})});

/// y = (x - mean) * scale [* gamma] [+ beta]; gamma and beta may be absent.
template <class T> void affineRow(const T *x, T *y, int64_t n, T mean, T scale, const T *gamma, const T *beta) {
  if (gamma && beta)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
  else if (gamma)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * gamma[i];
  else if (beta)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + beta[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
}

/// The same with parameters that repeat every `period` elements, the row beginning at element `first` of x.
template <class T>
void affineCyclic(const T *x, T *y, int64_t n, T mean, T scale, const T *gamma, const T *beta, int64_t first,
                  int64_t period) {
  int64_t done = 0;
  while (done < n) {
    const int64_t at = (first + done) % period, run = std::min(n - done, period - at);
    affineRow(x + done, y + done, run, mean, scale, gamma ? gamma + at : nullptr, beta ? beta + at : nullptr);
    done += run;
  }
}

template <class T> class LayerNormKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const int64_t rank = shape.NumAxes();
    const int64_t norm = valueOf(resolveAxis(ctx->Attr<int64_t>("begin_norm_axis"), rank));
    const int64_t params = valueOf(resolveAxis(ctx->Attr<int64_t>("begin_params_axis"), rank));
    const int64_t rows = shape.Count(0, norm), n = shape.Count(norm), period = shape.Count(params);
    const T epsilon = static_cast<T>(ctx->Attr<double>("epsilon"));
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x"), *beta = tensors.in("beta"), *gamma = tensors.in("gamma");
    T *y = tensors.out("y"), *means = tensors.out("mean"), *inverses = tensors.out("inv_variance");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      d->parallelFor(rows, rowGrain(n), [&](int64_t begin, int64_t end) {
        using S = Simd<T>;
        for (int64_t r = begin; r < end; ++r) {
          const T *row = x + r * n;
          const T mean = rowSum(row, n, [](typename S::V v) { return v; }) / static_cast<T>(n);
          const auto center = S::set1(mean);
          const T variance = rowSum(row, n,
                                    [&](typename S::V v) {
                                      const auto c = S::sub(v, center);
                                      return S::mul(c, c);
                                    }) /
                             static_cast<T>(n);
          const T inverse = T(1) / std::sqrt(variance + epsilon);
          means[r] = mean;
          inverses[r] = inverse;
          if (period == n || (!gamma && !beta))
            affineRow(row, y + r * n, n, mean, inverse, gamma, beta);
          else
            affineCyclic(row, y + r * n, n, mean, inverse, gamma, beta, r * n, period);
        }
      });
      tensors.store(d);
    });
  }
};

template <class T> class RmsNormKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const int64_t begin = shape.NumAxes() - ctx->Attr<Shape>("normalized_shape").NumAxes();
    const int64_t rows = shape.Count(0, begin), n = shape.Count(begin);
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x"), *weight = tensors.in("weight");
    T *y = tensors.out("y"), *inverses = tensors.out("inv_rms");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      d->parallelFor(rows, rowGrain(n), [&](int64_t first, int64_t last) {
        using S = Simd<T>;
        for (int64_t r = first; r < last; ++r) {
          const T *row = x + r * n;
          const T mean = rowSum(row, n, [](typename S::V v) { return S::mul(v, v); }) / static_cast<T>(n);
          const T inverse = T(1) / std::sqrt(mean + epsilon);
          inverses[r] = inverse;
          affineRow(row, y + r * n, n, T(0), inverse, weight, static_cast<const T *>(nullptr));
        }
      });
      tensors.store(d);
    });
  }
};

OPC_REGISTER_FLOATING_CPU_KERNELS("layer_norm", LayerNormKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("rms_norm", RmsNormKernel, "x");

} // namespace
} // namespace opc::ops
