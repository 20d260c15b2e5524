// sparse_cross_entropy_grad and nll_grad: gradients that are zero but at the label.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "support/CpuKernels.h"
#include "support/IndexCheck.h"
#include "support/RegisterFloating.h"

#include <algorithm>

namespace opc::ops {
namespace {

using cpu::StagedTensors;

Maybe<void> infer(InferContext *ctx, const char *classes, const char *label, const char *dy, const char *out) {
  JUST(checkIndexType(ctx, label));
  const TensorDesc x = ctx->InputTensorDesc(classes, 0);
  if (x.shape().NumAxes() == 0) return Error::ShapeMismatch() << classes << " is a scalar: it has no axis of classes";
  const Shape rows(DimVector(x.shape().begin(), x.shape().end() - 1));
  if (ctx->InputShape(label, 0) != rows || ctx->InputTensorDesc(dy, 0) != TensorDesc(rows, x.data_type()))
    return Error::ShapeMismatch() << label << " is " << ctx->InputShape(label, 0).ToString() << ", " << dy << " is "
                                  << ctx->InputTensorDesc(dy, 0).toString() << ", expected the shape "
                                  << rows.ToString() << ", that of " << classes << ", " << x.toString()
                                  << ", without its last axis";
  const int64_t n = x.shape().At(x.shape().NumAxes() - 1);
  if (ctx->has_input("weight", 0) && ctx->InputTensorDesc("weight", 0) != TensorDesc(Shape({n}), x.data_type()))
    return Error::ShapeMismatch() << "weight is " << ctx->InputTensorDesc("weight", 0).toString() << ", " << classes
                                  << " has " << n << " classes";
  *ctx->MutOutputTensorDesc(out, 0) = x;
  return Maybe<void>::Ok();
}

/// Zeros, and `value(row, class)` at the label of each row; of the classes that this device has.
template <class T, class I, class Value>
void fillRows(DeviceCtx *dev, T *dx, const I *labels, int64_t rows, const IndexRange &range, int64_t ignore,
              bool ignores, Value value) {
  const int64_t n = range.size;
  dev->parallelFor(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), [&](int64_t b, int64_t e) {
    std::fill(dx + b * n, dx + e * n, T(0));
    for (int64_t r = b; r < e; ++r) {
      const int64_t k = range.place(labels[r]);
      if (range.holds(k) && (!ignores || static_cast<int64_t>(labels[r]) != ignore)) dx[r * n + k] = value(r, k);
    }
  });
}

template <class T> class SparseCrossEntropyGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("prediction"), *dy = staged.in("dy");
    T *dx = staged.out("prediction_diff");
    const Tensor *label = ctx->Tensor4ArgNameAndIndex("label", 0);
    const Shape rowShape = label->shape(), full = ctx->TensorDesc4ArgNameAndIndex("prediction", 0)->shape();
    const int64_t n = full.At(full.NumAxes() - 1), rows = rowShape.elem_cnt();
    const IndexRange range = indexRange(ctx, "prediction", full.NumAxes() - 1);
    return withIndexType(label->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *labels = label->dptr<I>();
      return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
        checkIndices(dev, labels, rowShape, range.whole, "label", "the classes");
        staged.load(dev);
        fillRows(dev, dx, labels, rows, range, 0, false, [&](int64_t r, int64_t k) { return -dy[r] / x[r * n + k]; });
        staged.store(dev);
      });
    });
  }
};

template <class T> class NllGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *weight = staged.in("weight"), *dy = staged.in("out_grad");
    T *dx = staged.out("in_grad");
    const Tensor *target = ctx->Tensor4ArgNameAndIndex("target", 0);
    const Shape rowShape = target->shape(), full = ctx->TensorDesc4ArgNameAndIndex("input", 0)->shape();
    const IndexRange range = indexRange(ctx, "input", full.NumAxes() - 1);
    const int64_t rows = rowShape.elem_cnt(), ignore = ctx->Attr<int64_t>("ignore_index");
    return withIndexType(target->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *targets = target->dptr<I>();
      return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t k = static_cast<int64_t>(targets[r]);
          if (k != ignore && (k < 0 || k >= range.whole))
            throw ContractError("target" + positionText(rowShape, r) + " = " + std::to_string(k) + " is outside [0, " +
                                std::to_string(range.whole) + "), the range of the classes, and is not ignore_index (" +
                                std::to_string(ignore) + ")");
        }
        staged.load(dev);
        fillRows(dev, dx, targets, rows, range, ignore, true,
                 [&](int64_t r, int64_t k) { return weight ? -dy[r] * weight[k] : -dy[r]; });
        staged.store(dev);
      });
    });
  }
};

REGISTER_USER_OP("sparse_cross_entropy_grad")
    .GradientOf("sparse_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Input("dy")
    .Output("prediction_diff")
    .Attr<int64_t>("depth", 0)
    .SetTensorDescInferFn([](InferContext *ctx) { return infer(ctx, "prediction", "label", "dy", "prediction_diff"); })
    .Sharding("... classes, ..., ... -> ... classes", user_op::Linear({2}))
    .Doc("The gradient of sparse_cross_entropy: prediction_diff = -dy / prediction at the label, 0 elsewhere.")
    .Cases({user_op::Case("rows")
                .In("prediction", {5, 7}, 0.1, 1)
                .In("label", kInt64, {5}, 0, 7)
                .In("dy", {5})
                .Attr<int64_t>("depth", 7)});

REGISTER_USER_OP("nll_grad")
    .GradientOf("nll")
    .Input("out_grad")
    .Input("input")
    .Input("target")
    .OptionalInput("weight")
    .Output("in_grad")
    .Attr<int64_t>("ignore_index", -100)
    .SetTensorDescInferFn([](InferContext *ctx) { return infer(ctx, "input", "target", "out_grad", "in_grad"); })
    .Sharding("..., ... classes, ..., classes -> ... classes", user_op::Linear({0}))
    .Doc("The gradient of nll: in_grad = -out_grad * weight[target] at the target, 0 elsewhere and where the target "
         "is ignore_index. The values of input are not read.")
    .Cases({user_op::Case("plain").In("out_grad", {5}).In("input", {5, 4}).In("target", kInt64, {5}, 0, 4),
            user_op::Case("weighted")
                .In("out_grad", {2, 3})
                .In("input", {2, 3, 4})
                .In("target", kInt32, {2, 3}, 0, 4)
                .In("weight", {4}, 0.5, 2)
                .Attr<int64_t>("ignore_index", 2)});

OPC_REGISTER_FLOATING_CPU_KERNELS("sparse_cross_entropy_grad", SparseCrossEntropyGradKernel, "prediction");
OPC_REGISTER_FLOATING_CPU_KERNELS("nll_grad", NllGradKernel, "out_grad");

} // namespace
} // namespace opc::ops
