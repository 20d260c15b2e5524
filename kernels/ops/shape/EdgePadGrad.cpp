// reflection_pad1d_grad, reflection_pad2d_grad, replication_pad1d_grad, replication_pad2d_grad: padded gradients added
// up where the elements came from.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "shape/EdgePads.h"
#include "support/CpuKernels.h"
#include "support/RegisterFloating.h"

#include <algorithm>

namespace opc::ops {
namespace {

using cpu::StagedTensors;
using List = std::vector<int64_t>;

Maybe<void> inferEdgeGrad(InferContext *ctx) {
  const TensorDesc dy = ctx->InputTensorDesc("dy", 0), x = ctx->InputTensorDesc("x", 0);
  const Shape padded = JUST(edgePaddedShape(ctx, x.shape()));
  if (dy.shape() != padded || dy.data_type() != x.data_type())
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", expected "
                                  << TensorDesc(padded, x.data_type()).toString() << ", what the padding makes of x, "
                                  << x.toString();
  *ctx->MutOutputTensorDesc("dx", 0) = x;
  return Maybe<void>::Ok();
}

template <class T> class EdgePadGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *dy = staged.in("dy");
    T *dx = staged.out("dx");
    const EdgePads e = edgePadsOf(ctx, ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape());
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      const int64_t nRows = static_cast<int64_t>(e.rows.size()), nCols = static_cast<int64_t>(e.columns.size());
      dev->parallelFor(e.planes, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, nRows * nCols)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t p = begin; p < end; ++p) {
                           T *plane = dx + p * e.inPlane;
                           std::fill_n(plane, e.inPlane, T(0));
                           for (int64_t r = 0; r < nRows; ++r) {
                             const T *from = dy + (p * nRows + r) * nCols;
                             T *to = plane + e.rows[static_cast<size_t>(r)] * e.inColumns;
                             for (int64_t c = 0; c < nCols; ++c) to[e.columns[static_cast<size_t>(c)]] += from[c];
                           }
                         }
                       });
      staged.store(dev);
    });
  }
};

user_op::Case sample(Shape dy, Shape x, List padding) {
  return user_op::Case("plain").In("dy", dy).In("x", x).Attr("padding", padding);
}

#define OPC_EDGE_PAD_GRAD(name, ...)                                                                                   \
  REGISTER_USER_OP(name "_grad")                                                                                       \
      .GradientOf(name)                                                                                                \
      .Input("dy")                                                                                                     \
      .Input("x")                                                                                                      \
      .Output("dx")                                                                                                    \
      .RequiredAttr<List>("padding")                                                                                   \
      .SetTensorDescInferFn(inferEdgeGrad)                                                                             \
      .SetGetSbpFn([](user_op::SbpContext *ctx) {                                                                      \
        return edgePadSbp(ctx, ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape());                           \
      })                                                                                                               \
      .Doc("The gradient of " name ": each element of dx, which has the shape of x, is the sum of dy over the places " \
           "to which the pad copied it. The values of x are not read.")                                                \
      .Cases({sample(__VA_ARGS__)});                                                                                   \
  OPC_REGISTER_FLOATING_CPU_KERNELS(name "_grad", EdgePadGradKernel, "dy")

OPC_EDGE_PAD_GRAD("reflection_pad1d", {2, 3, 10}, {2, 3, 5}, List{2, 3});
OPC_EDGE_PAD_GRAD("reflection_pad2d", {2, 2, 8, 8}, {2, 2, 4, 5}, List{2, 1, 1, 3});
OPC_EDGE_PAD_GRAD("replication_pad1d", {2, 3, 14}, {2, 3, 5}, List{2, 7});
OPC_EDGE_PAD_GRAD("replication_pad2d", {2, 2, 13, 8}, {2, 2, 4, 5}, List{2, 1, 6, 3});

} // namespace
} // namespace opc::ops
