// Cross entropies over a last axis of classes: softmax_cross_entropy, sparse_softmax_cross_entropy, their gradients,
// sparse_cross_entropy and nll.
// SPDX-License-Identifier: Apache-2.0
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/CpuKernels.h"
#include "support/IndexCheck.h"
#include "support/RegisterFloating.h"

#include <cmath>

namespace opc::ops {
namespace {

using cpu::StagedTensors;

Shape rowsOf(const Shape &classes) { return Shape(DimVector(classes.begin(), classes.end() - 1)); }

/// `classes` has rank 1 or more, and `rows` is its shape without the last axis.
Maybe<void> checkRows(const InferContext *ctx, const char *classes, const char *rows) {
  const Shape c = ctx->InputShape(classes, 0), r = ctx->InputShape(rows, 0);
  if (c.NumAxes() == 0 || rowsOf(c) != r)
    return (Error::ShapeMismatch() << classes << " is " << c.ToString() << ", " << rows << " is " << r.ToString())
        .help(std::string("the last axis of ") + classes + " holds the classes; " + rows + " has the axes before it");
  return Maybe<void>::Ok();
}
Maybe<void> checkDepth(const InferContext *ctx, const char *classes) {
  const int64_t depth = ctx->Attr<int64_t>("depth"),
                n = ctx->InputShape(classes, 0).At(ctx->InputShape(classes, 0).NumAxes() - 1);
  if (depth > 0 && depth != n)
    return (Error("OPC0205") << "depth is " << depth << ", " << classes << " has " << n << " classes")
        .help("leave depth out, or make it the number of classes");
  return Maybe<void>::Ok();
}

/// prob = softmax(x); gives the log of the sum of exponentials, so that -log prob[k] = lse - x[k].
template <class T> T softmaxRow(const T *x, T *prob, int64_t n) {
  T top = cpu::rowMax(x, n); // may miss a NaN, which the sum then has
  if (std::isinf(top) && top < 0) top = 0;
  T sum = 0;
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const __m256 shift = _mm256_set1_ps(top);
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(prob + i, cpu::simdExpNonPositive(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift)));
    // The tail goes the same way, so that equal logits have equal probabilities.
    if (i < n) {
      const __m256i tail = cpu::Simd<float>::mask(n - i);
      cpu::Simd<float>::store(prob + i,
                              cpu::simdExpNonPositive(_mm256_sub_ps(cpu::Simd<float>::load(x + i, tail), shift)), tail);
    }
    sum = cpu::rowSum(prob, n, [](__m256 v) { return v; });
  } else {
    for (; i < n; ++i) sum += prob[i] = std::exp(x[i] - top);
  }
  const T inverse = 1 / sum;
  for (i = 0; i < n; ++i) prob[i] *= inverse;
  return std::log(sum) + top;
}
using cpu::rowGrain;

Maybe<void> inferSparse(InferContext *ctx) {
  JUST(checkIndexType(ctx, "label"));
  JUST(checkRows(ctx, "prediction", "label"));
  JUST(checkDepth(ctx, "prediction"));
  const TensorDesc prediction = *ctx->TensorDesc4ArgNameAndIndex("prediction", 0);
  if (ctx->has_output("prob", 0)) *ctx->TensorDesc4ArgNameAndIndex("prob", 0) = prediction;
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(rowsOf(prediction.shape()), prediction.data_type());
  return Maybe<void>::Ok();
}
Maybe<void> inferDense(InferContext *ctx) {
  const TensorDesc prediction = *ctx->TensorDesc4ArgNameAndIndex("prediction", 0);
  if (ctx->InputTensorDesc("label", 0) != prediction || prediction.shape().NumAxes() == 0)
    return (Error::ShapeMismatch() << "label is " << ctx->InputTensorDesc("label", 0).toString() << ", prediction is "
                                   << prediction.toString())
        .help("label holds a probability for each class of prediction, in its dtype; for class numbers use "
              "sparse_softmax_cross_entropy");
  *ctx->TensorDesc4ArgNameAndIndex("prob", 0) = prediction;
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(rowsOf(prediction.shape()), prediction.data_type());
  return Maybe<void>::Ok();
}
Maybe<void> inferGrad(InferContext *ctx) {
  const TensorDesc prob = *ctx->TensorDesc4ArgNameAndIndex("prob", 0);
  JUST(checkRows(ctx, "prob", "dy"));
  if (ctx->user_op_conf().has_attr("depth")) {
    JUST(checkIndexType(ctx, "label"));
    JUST(checkRows(ctx, "prob", "label"));
    JUST(checkDepth(ctx, "prob"));
  } else if (ctx->InputShape("label", 0) != prob.shape()) {
    return Error::ShapeMismatch() << "label is " << ctx->InputShape("label", 0).ToString() << ", prob is "
                                  << prob.shape().ToString();
  }
  *ctx->TensorDesc4ArgNameAndIndex("prediction_diff", 0) = prob;
  return Maybe<void>::Ok();
}

/// sparse_softmax_cross_entropy, and sparse_cross_entropy (whose prediction is the probabilities).
template <class T> class SparseKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("prediction");
    T *prob = staged.out("prob"), *out = staged.out("out");
    const Tensor *label = ctx->Tensor4ArgNameAndIndex("label", 0);
    const Shape rowShape = label->shape(), full = ctx->Tensor4ArgNameAndIndex("prediction", 0)->shape();
    const int64_t n = full.At(full.NumAxes() - 1), rows = rowShape.elem_cnt();
    const IndexRange range = indexRange(ctx, "prediction", full.NumAxes() - 1);
    return withIndexType(label->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *labels = label->dptr<I>();
      return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
        checkIndices(dev, labels, rowShape, range.whole, "label", "the classes");
        staged.load(dev);
        dev->parallelFor(rows, rowGrain(n), [&](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r) {
            const T *row = x + r * n;
            const int64_t k = range.place(labels[r]);
            // Of probabilities each device may have some of the classes: 0 where another one has the label.
            if (prob)
              out[r] = softmaxRow(row, prob + r * n, n) - row[k];
            else
              out[r] = range.holds(k) ? -std::log(row[k]) : T(0);
          }
        });
        staged.store(dev);
      });
    });
  }
};

template <class T> class DenseKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("prediction"), *label = staged.in("label");
    T *prob = staged.out("prob"), *out = staged.out("out");
    const Shape full = ctx->Tensor4ArgNameAndIndex("prediction", 0)->shape();
    const int64_t n = full.At(full.NumAxes() - 1), rows = full.Count(0, full.NumAxes() - 1);
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(rows, rowGrain(n), [&](int64_t b, int64_t e) {
        for (int64_t r = b; r < e; ++r) {
          if (n == 0) {
            out[r] = 0;
            continue;
          }
          const T *row = x + r * n, *target = label + r * n;
          const T lse = softmaxRow(row, prob + r * n, n);
          T sum = 0; // a class without probability adds nothing, even when its logit is minus infinity
          for (int64_t i = 0; i < n; ++i) sum += target[i] == 0 ? T(0) : target[i] * (lse - row[i]);
          out[r] = sum;
        }
      });
      staged.store(dev);
    });
  }
};

template <class T> class GradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *prob = staged.in("prob"), *dy = staged.in("dy");
    T *dx = staged.out("prediction_diff");
    const Shape full = ctx->Tensor4ArgNameAndIndex("prob", 0)->shape();
    const int64_t n = full.At(full.NumAxes() - 1), rows = full.Count(0, full.NumAxes() - 1);
    if (!ctx->user_op_conf().has_attr("depth")) {
      const T *label = staged.in("label");
      return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
        staged.load(dev);
        dev->parallelFor(rows, rowGrain(n), [&](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r) {
            const T total = cpu::rowSum(label + r * n, n, [](typename cpu::Simd<T>::V v) { return v; });
            for (int64_t i = r * n; i < (r + 1) * n; ++i) dx[i] = dy[r] * (prob[i] * total - label[i]);
          }
        });
        staged.store(dev);
      });
    }
    const Tensor *label = ctx->Tensor4ArgNameAndIndex("label", 0);
    const Shape rowShape = label->shape();
    const IndexRange range = indexRange(ctx, "prob", full.NumAxes() - 1);
    return withIndexType(label->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *labels = label->dptr<I>();
      return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
        checkIndices(dev, labels, rowShape, range.whole, "label", "the classes");
        staged.load(dev);
        dev->parallelFor(rows, rowGrain(n), [&](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r) {
            for (int64_t i = r * n; i < (r + 1) * n; ++i) dx[i] = dy[r] * prob[i];
            if (const int64_t place = range.place(labels[r]); range.holds(place))
              dx[r * n + place] = dy[r] * (prob[r * n + place] - 1);
          }
        });
        staged.store(dev);
      });
    });
  }
};

// --- nll
// -----------------------------------------------------------------------------------------------------------------

Maybe<void> inferNll(InferContext *ctx) {
  JUST(checkIndexType(ctx, "target"));
  JUST(checkRows(ctx, "input", "target"));
  const TensorDesc input = *ctx->TensorDesc4ArgNameAndIndex("input", 0);
  const int64_t n = input.shape().At(input.shape().NumAxes() - 1);
  if (ctx->has_input("weight", 0) && ctx->InputTensorDesc("weight", 0) != TensorDesc(Shape({n}), input.data_type()))
    return (Error::ShapeMismatch() << "weight is " << ctx->InputTensorDesc("weight", 0).toString() << ", input has "
                                   << n << " classes")
        .help("weight has one entry a class, in the dtype of input");
  const TensorDesc out(rowsOf(input.shape()), input.data_type());
  *ctx->TensorDesc4ArgNameAndIndex("output", 0) = out;
  *ctx->TensorDesc4ArgNameAndIndex("out_weight", 0) = out;
  return Maybe<void>::Ok();
}

template <class T> class NllKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("input"), *weight = staged.in("weight");
    T *out = staged.out("output"), *outWeight = staged.out("out_weight");
    const Tensor *target = ctx->Tensor4ArgNameAndIndex("target", 0);
    const Shape rowShape = target->shape(), full = ctx->Tensor4ArgNameAndIndex("input", 0)->shape();
    const int64_t n = full.At(full.NumAxes() - 1), rows = rowShape.elem_cnt(),
                  ignore = ctx->Attr<int64_t>("ignore_index");
    const IndexRange range = indexRange(ctx, "input", full.NumAxes() - 1);
    return withIndexType(target->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *targets = target->dptr<I>();
      return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
        // ignore_index need not be a class, so that the range check has to look at each target.
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t k = static_cast<int64_t>(targets[r]);
          if (k != ignore && (k < 0 || k >= range.whole)) {
            throw ContractError("target" + positionText(rowShape, r) + " = " + std::to_string(k) + " is outside [0, " +
                                std::to_string(range.whole) + "), the range of the classes, and is not ignore_index (" +
                                std::to_string(ignore) + ")");
          }
        }
        staged.load(dev);
        dev->parallelFor(rows, 4096, [&](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r) {
            const int64_t k = range.place(targets[r]);
            // 0 also where another device has the class.
            const bool ignored = static_cast<int64_t>(targets[r]) == ignore || !range.holds(k);
            outWeight[r] = ignored ? T(0) : weight ? weight[k] : T(1);
            out[r] = ignored ? T(0) : -x[r * n + k] * outWeight[r];
          }
        });
        staged.store(dev);
      });
    });
  }
};

REGISTER_USER_OP("sparse_softmax_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Output("prob")
    .Output("out")
    .Attr<int64_t>("depth", 0)
    .SetTensorDescInferFn(inferSparse)
    .Sharding("... ., ... -> ... ., ...")
    .Doc("prob = softmax of prediction over its last axis, out = -log prob[label]. label (i32 or i64) has the axes "
         "of prediction before the last; a label outside the classes is an error at run time. depth, when above 0, "
         "must be the number of classes.")
    .Cases(
        {user_op::Case("rows").In("prediction", {5, 7}, -3, 3).In("label", kInt64, {5}, 0, 7).Attr<int64_t>("depth", 7),
         user_op::Case("image").In("prediction", {2, 3, 4}, -30, 30).In("label", kInt32, {2, 3}, 0, 4)});

REGISTER_USER_OP("softmax_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Output("prob")
    .Output("out")
    .SetTensorDescInferFn(inferDense)
    .Sharding("... ., ... . -> ... ., ...")
    .Doc("prob = softmax of prediction over its last axis, out = -sum(label * log prob) over it.")
    .Cases({user_op::Case("rows").In("prediction", {5, 7}, -3, 3).In("label", {5, 7}, 0, 1)});

REGISTER_USER_OP("sparse_softmax_cross_entropy_grad")
    .GradientOf("sparse_softmax_cross_entropy")
    .Input("label")
    .Input("dy")
    .Input("prob")
    .Output("prediction_diff")
    .Attr<int64_t>("depth", 0)
    .SetTensorDescInferFn(inferGrad)
    .Sharding("..., ..., ... classes -> ... classes", user_op::Linear({1}))
    .Doc("prediction_diff = dy * (prob - one_hot(label)): the gradient of sparse_softmax_cross_entropy.")
    .Cases({user_op::Case("rows")
                .In("label", kInt64, {5}, 0, 7)
                .In("dy", {5})
                .In("prob", {5, 7}, 0, 1)
                .Attr<int64_t>("depth", 7)});

REGISTER_USER_OP("softmax_cross_entropy_grad")
    .GradientOf("softmax_cross_entropy")
    .Input("label")
    .Input("dy")
    .Input("prob")
    .Output("prediction_diff")
    .SetTensorDescInferFn(inferGrad)
    .Sharding("... ., ..., ... . -> ... .", user_op::Linear({1}))
    .Doc("prediction_diff = dy * (prob * sum(label) - label): the gradient of softmax_cross_entropy; sum(label) is 1 "
         "for labels that are probabilities.")
    .Cases({user_op::Case("rows").In("label", {5, 7}, 0, 1).In("dy", {5}).In("prob", {5, 7}, 0, 1)});

REGISTER_USER_OP("sparse_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Output("out")
    .Attr<int64_t>("depth", 0)
    .SetTensorDescInferFn(inferSparse)
    .Sharding("... classes, ... -> ...", user_op::Sum("classes"))
    .Doc("out = -log prediction[label], where prediction holds probabilities. A label outside the classes is an "
         "error at run time.")
    .Cases({user_op::Case("rows")
                .In("prediction", {5, 7}, 0.1, 1)
                .In("label", kInt64, {5}, 0, 7)
                .Attr<int64_t>("depth", 7)});

REGISTER_USER_OP("nll")
    .Input("input")
    .Input("target")
    .OptionalInput("weight")
    .Output("output")
    .Output("out_weight")
    .Attr<int64_t>("ignore_index", -100)
    .SetTensorDescInferFn(inferNll)
    .Sharding("... classes, ..., classes -> ..., ...", user_op::Sum("classes"))
    // The classes' weights are constants of the loss, as in PyTorch.
    .SetInputArgModifyFn([](user_op::GetInputArgModifier modifier, const user_op::UserOpConfWrapper &) {
      if (auto *weight = modifier("weight", 0)) weight->set_requires_grad(false);
    })
    .Doc("The last axis of input holds log probabilities of classes; output = -weight[target] * input[target], "
         "out_weight = weight[target] (1 without weight), both 0 where target (i32 or i64) equals ignore_index. "
         "Another target outside the classes is an error at run time.")
    .Cases({user_op::Case("plain").In("input", {5, 4}, -3, 0).In("target", kInt64, {5}, 0, 4),
            user_op::Case("weighted")
                .In("input", {2, 3, 4}, -3, 0)
                .In("target", kInt32, {2, 3}, 0, 4)
                .In("weight", {4}, 0.5, 2)
                .Attr<int64_t>("ignore_index", 2)});

OPC_REGISTER_FLOATING_CPU_KERNELS("sparse_softmax_cross_entropy", SparseKernel, "prediction");
OPC_REGISTER_FLOATING_CPU_KERNELS("sparse_cross_entropy", SparseKernel, "prediction");
OPC_REGISTER_FLOATING_CPU_KERNELS("softmax_cross_entropy", DenseKernel, "prediction");
OPC_REGISTER_FLOATING_CPU_KERNELS("sparse_softmax_cross_entropy_grad", GradKernel, "prob");
OPC_REGISTER_FLOATING_CPU_KERNELS("softmax_cross_entropy_grad", GradKernel, "prob");
OPC_REGISTER_FLOATING_CPU_KERNELS("nll", NllKernel, "input");

} // namespace
} // namespace opc::ops
