// sparse_cross_entropy and nll: losses of the probability, or its logarithm, of one class in each row.
// SPDX-License-Identifier: Apache-2.0
#include "SimdExp.h"
#include "loss/LossRows.h"

#include <cmath>

namespace opc::ops::loss {
namespace {

Maybe<void> inferSparse(InferContext *ctx) {
  JUST(checkLabels(ctx, "prediction", "label"));
  JUST(checkDepth(ctx, "prediction"));
  const TensorDesc &prediction = ctx->In("prediction");
  ctx->Out("out") = TensorDesc(rowsOf(prediction.shape()), prediction.data_type());
  return Maybe<void>::Ok();
}
Maybe<void> inferNll(InferContext *ctx) {
  JUST(checkLabels(ctx, "input", "target"));
  JUST(checkWeight(ctx, "input"));
  const TensorDesc &input = ctx->In("input");
  ctx->Out("output") = ctx->Out("out_weight") = TensorDesc(rowsOf(input.shape()), input.data_type());
  return Maybe<void>::Ok();
}

template <class T> class SparseKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const LabelledRows rows(ctx, "label", "prediction");
    const T *x = staged.in("prediction");
    T *out = staged.out("out");
    return rows.forEachRow(cpu::rowGrain(rows.size), [=, n = rows.size](int64_t r, int64_t k) {
      // Each device may have some of the classes: 0 where another one has the label.
      out[r] = k < 0 ? T(0) : -std::log(x[r * n + k]);
    });
  }
};

template <class T> class NllKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const LabelledRows rows(ctx, "target", "input", ctx->Attr<int64_t>("ignore_index"));
    const T *x = staged.in("input"), *weight = staged.in("weight");
    T *out = staged.out("output"), *outWeight = staged.out("out_weight");
    return rows.forEachRow(4096, [=, n = rows.size](int64_t r, int64_t k) {
      outWeight[r] = k < 0 ? T(0) : weight ? weight[k] : T(1);
      out[r] = k < 0 ? T(0) : -x[r * n + k] * outWeight[r];
    });
  }
};

REGISTER_USER_OP("sparse_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Output("out")
    .Attr<int64_t>("depth", 0)
    .SetTensorDescInferFn(inferSparse)
    .Sharding("... classes, ... -> ...", Sum("classes"))
    .Doc("out = -log prediction[label], where prediction holds probabilities. A label outside the classes is an "
         "error at run time.")
    .Cases({Case("rows").In("prediction", {5, 7}, 0.1, 1).In("label", kInt64, {5}, 0, 7).Attr<int64_t>("depth", 7)})
    .Kernel<SparseKernel, types::Floating>("prediction");

REGISTER_USER_OP("nll")
    .Input("input")
    .Input("target")
    .OptionalInput("weight")
    .Output("output")
    .Output("out_weight")
    .Attr<int64_t>("ignore_index", -100)
    .SetTensorDescInferFn(inferNll)
    .Sharding("... classes, ..., classes -> ..., ...", Sum("classes"))
    // The classes' weights are constants of the loss, as in PyTorch.
    .SetInputArgModifyFn([](GetInputArgModifier modifier, const UserOpConfWrapper &) {
      if (auto *weight = modifier("weight", 0)) weight->set_requires_grad(false);
    })
    .Doc("The last axis of input holds log probabilities of classes; output = -weight[target] * input[target], "
         "out_weight = weight[target] (1 without weight), both 0 where target (i32 or i64) equals ignore_index. "
         "Another target outside the classes is an error at run time.")
    .Cases({Case("plain").In("input", {5, 4}, -3, 0).In("target", kInt64, {5}, 0, 4),
            Case("weighted")
                .In("input", {2, 3, 4}, -3, 0)
                .In("target", kInt32, {2, 3}, 0, 4)
                .In("weight", {4}, 0.5, 2)
                .Attr<int64_t>("ignore_index", 2)})
    .Kernel<NllKernel, types::Floating>("input");

} // namespace
} // namespace opc::ops::loss
