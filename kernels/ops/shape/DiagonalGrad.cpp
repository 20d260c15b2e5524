// diagonal_grad: a diagonal put back into a tensor of zeros.
// SPDX-License-Identifier: Apache-2.0
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

#include <algorithm>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc dy = ctx->InputTensorDesc("dy", 0), in = ctx->InputTensorDesc("in", 0);
  const int64_t k = ctx->Attr<int32_t>("offset");
  if (in.shape().NumAxes() < 2)
    return Error::ShapeMismatch() << "in is " << in.toString() << ", which has fewer than two axes";
  DimVector want(in.shape().begin() + 2, in.shape().end());
  const int64_t rows = in.shape().At(0), cols = in.shape().At(1);
  want.push_back(std::max<int64_t>(0, k >= 0 ? std::min(rows, cols - k) : std::min(rows + k, cols)));
  if (dy != TensorDesc(Shape(want), in.data_type()))
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", expected "
                                  << TensorDesc(Shape(want), in.data_type()).toString() << ", diagonal " << k
                                  << " of in, " << in.toString();
  *ctx->MutOutputTensorDesc("dx", 0) = in;
  return Maybe<void>::Ok();
}

class DiagonalGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *dy = ctx->Tensor4ArgNameAndIndex("dy", 0);
    Tensor *dx = ctx->Tensor4ArgNameAndIndex("dx", 0);
    const Shape shape = dx->shape();
    const size_t size = GetSizeOfDataType(dx->data_type());
    const int64_t k = ctx->Attr<int32_t>("offset"), rest = shape.Count(2), cols = shape.At(1), all = shape.elem_cnt();
    const int64_t length = dy->shape().At(dy->shape().NumAxes() - 1);
    const StridedCopy copy(size, {rest, length}, {length, 1}, {1, (cols + 1) * rest});
    const void *from = dy->raw_dptr();
    char *to = static_cast<char *>(dx->mut_raw_dptr());
    char *start = to + (length == 0 ? 0 : (k >= 0 ? k : -k * cols) * rest * static_cast<int64_t>(size));
    return user_op::bindTask([=](DeviceCtx *dev) {
      const uint64_t zero = 0;
      fillElements(dev, size, &zero, to, all);
      copy.run(dev, from, start);
    });
  }
};

REGISTER_USER_OP("diagonal_grad")
    .GradientOf("diagonal")
    .Input("dy")
    .Input("in")
    .Output("dx")
    .Attr<int32_t>("offset", 0)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
      for (int64_t a = 2; a < rank; ++a)
        ctx->NewBuilder()
            .Split(user_op::OpArg("dy", 0), a - 2)
            .Split(user_op::OpArg("in", 0), a)
            .Split(user_op::OpArg("dx", 0), a)
            .Build();
      ctx->NewBuilder()
          .PartialSum(user_op::OpArg("dy", 0))
          .Broadcast(user_op::OpArg("in", 0))
          .PartialSum(user_op::OpArg("dx", 0))
          .Build();
      return Maybe<void>::Ok();
    })
    .Doc("The gradient of diagonal: dx has the shape of in, whose values are not read, with dy on diagonal `offset` "
         "of the first two axes and zeros elsewhere.")
    .Cases({user_op::Case("matrix").In("dy", {3}).In("in", {3, 5}).Attr<int32_t>("offset", 1).Types({kFloat, kDouble}),
            user_op::Case("stack")
                .In("dy", {2, 3})
                .In("in", {4, 3, 2})
                .Attr<int32_t>("offset", -1)
                .Types({kFloat, kDouble, kFloat16})});
OPC_ANY_TYPE_CPU_KERNEL("diagonal_grad", DiagonalGradKernel);

} // namespace
} // namespace opc::ops
