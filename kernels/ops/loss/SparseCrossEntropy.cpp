// sparse_cross_entropy and nll: losses of the probability, or its logarithm, of one class in each row.
// SPDX-License-Identifier: Apache-2.0
#include "loss/LossRows.h"

#include "opc/RowsKernel.h"

#include <cmath>

namespace opc::ops::loss {
namespace {

Maybe<void> inferSparse(InferContext *ctx) {
  JUST(checkLabels(ctx, "prediction", "label"));
  JUST(checkDepth(ctx, "prediction"));
  const TensorDesc &prediction = ctx->In("prediction");
  return setOut(ctx, "out", TensorDesc(rowsOf(prediction.shape()), prediction.data_type()));
}
Maybe<void> inferNll(InferContext *ctx) {
  JUST(checkLabels(ctx, "input", "target"));
  JUST(checkWeight(ctx, "input"));
  const TensorDesc &input = ctx->In("input");
  ctx->Out("out_weight") = TensorDesc(rowsOf(input.shape()), input.data_type());
  return setOut(ctx, "output", ctx->Out("out_weight"));
}

template <class T> class SparseKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const ClassOfRow label(ctx, "label", "prediction");
    RowFunction<T> f =
        label.function<T>({{"prediction", RowPart::kRow}, {"label", RowPart::kIndex}}, {{"out", RowPart::kOne}});
    f.run = [label, n = f.size](const RowArguments<T> &a) {
      for (int64_t r = 0; r < a.count; ++r) {
        // Each device may have some of the classes: 0 where another one has the label.
        const int64_t k = label.of(a.in[1], r);
        a.out[0][r] = k < 0 ? T(0) : -std::log(a.x(0)[r * n + k]);
      }
    };
    return f;
  }
};

template <class T> class NllKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const ClassOfRow target(ctx, "target", "input", ctx.Attr<int64_t>("ignore_index"));
    RowFunction<T> f =
        target.function<T>({{"input", RowPart::kRow}, {"target", RowPart::kIndex}, {"weight", RowPart::kWhole}},
                           {{"output", RowPart::kOne}, {"out_weight", RowPart::kOne}});
    f.run = [target, n = f.size](const RowArguments<T> &a) {
      const T *weight = a.x(2);
      for (int64_t r = 0; r < a.count; ++r) {
        const int64_t k = target.of(a.in[1], r);
        const T own = k < 0 ? T(0) : weight ? weight[k] : T(1);
        a.out[1][r] = own;
        a.out[0][r] = k < 0 ? T(0) : -a.x(0)[r * n + k] * own;
      }
    };
    return f;
  }
};

REGISTER_USER_OP("sparse_cross_entropy")
    .With(TensorArgs{{"prediction", "label"}, {"out"}})
    .Attr<int64_t>("depth", 0)
    .With(rules(inferSparse, "... classes, ... -> ...", Sum("classes")))
    .Doc("out = -log prediction[label], where prediction holds probabilities. A label outside the classes is an "
         "error at run time.")
    .Cases({Case("rows").In("prediction", {5, 7}, 0.1, 1).In("label", kInt64, {5}, 0, 7).Attr<int64_t>("depth", 7)})
    .Kernel<SparseKernel, types::Floating>("prediction");

REGISTER_USER_OP("nll")
    .With(TensorArgs{{"input", "target"}, {"output", "out_weight"}})
    .OptionalInput("weight")
    .Attr<int64_t>("ignore_index", -100)
    .With(rules(inferNll, "... classes, ..., classes -> ..., ...", Sum("classes")))
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
