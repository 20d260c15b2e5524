// The gradients of reflection_pad1d, reflection_pad2d, replication_pad1d and replication_pad2d: added up where the
// elements came from.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Pads.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

using List = std::vector<int64_t>;

template <EdgeForm form> Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  const TensorDesc want(JUST(paddedShape(x.shape(), JUST(padsOfEdge(*ctx, x.shape(), form)))), x.data_type());
  JUST(expectIn(ctx, "dy", want, ", what the padding makes of x, " + x.toString()));
  return setOut(ctx, "dx", x);
}

template <EdgeForm form> struct Grad {
  template <class T> class Kernel final : public StagedKernel<T> {
    std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
      const EdgePads e = edgePadsOf(*ctx, ctx->Desc("x").shape(), form);
      const T *dy = staged.in("dy");
      T *dx = staged.out("dx");
      return bindTask([=](DeviceCtx *dev) {
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
      });
    }
  };
};

template <EdgeForm form> std::unique_ptr<BoundKernel> bindOnGpu(KernelBindContext *ctx) {
  const Tensor &dy = ctx->In("dy");
  Tensor &dx = ctx->Out("dx");
  return bindLaunch(ctx, kernelOf("edge_pad_grad", dy.data_type()), dx.shape().elem_cnt(),
                    edgeArguments(*ctx, ctx->Desc("x").shape(), form, dy.raw_dptr(), dx.mut_raw_dptr()));
}

/// The gradient of `pad`.
template <EdgeForm form>
std::function<void(OpRegistry &)> edgePadGrad(const char *pad, Shape dy, Shape x, List padding) {
  return [=](OpRegistry &op) {
    op.GradientOf(pad)
        .With(TensorArgs{{"dy", "x"}, {"dx"}})
        .RequiredAttr<List>("padding")
        .With(rules(infer<form>, edgeSharding<form>))
        .Doc(std::string("The gradient of ") + pad +
             ": each element of dx, which has the shape of x, is the sum of dy over the places to which the pad copied "
             "it. The values of x are not read.")
        .Cases({Case("plain").In("dy", dy).In("x", x).Attr("padding", padding)})
        .template Kernel<Grad<form>::template Kernel, types::Floating>("dy")
        .template Kernel<OfFunction<bindOnGpu<form>>::template Kernel, types::Floating>("dy", onGpu());
  };
}
auto padGradient(const char *grad) { return linearGradient({"x", "y"}, grad, {"dy", "dx"}, {"padding"}, {{"x", "x"}}); }
/// The gradient is linear: its own gradient is the pad.
auto padGradGradient(const char *pad) { return linearGradient({"dy", "dx"}, pad, {"x", "y"}, {"padding"}); }

REGISTER_USER_OP("reflection_pad1d_grad")
    .With(edgePadGrad<kReflect1d>("reflection_pad1d", {2, 3, 10}, {2, 3, 5}, {2, 3}));
REGISTER_USER_OP_GRAD("reflection_pad1d").SetBackwardOpConfGenFn(padGradient("reflection_pad1d_grad"));
REGISTER_USER_OP_GRAD("reflection_pad1d_grad").SetBackwardOpConfGenFn(padGradGradient("reflection_pad1d"));

REGISTER_USER_OP("reflection_pad2d_grad")
    .With(edgePadGrad<kReflect2d>("reflection_pad2d", {2, 2, 8, 8}, {2, 2, 4, 5}, {2, 1, 1, 3}));
REGISTER_USER_OP_GRAD("reflection_pad2d").SetBackwardOpConfGenFn(padGradient("reflection_pad2d_grad"));
REGISTER_USER_OP_GRAD("reflection_pad2d_grad").SetBackwardOpConfGenFn(padGradGradient("reflection_pad2d"));

REGISTER_USER_OP("replication_pad1d_grad")
    .With(edgePadGrad<kReplicate1d>("replication_pad1d", {2, 3, 14}, {2, 3, 5}, {2, 7}));
REGISTER_USER_OP_GRAD("replication_pad1d").SetBackwardOpConfGenFn(padGradient("replication_pad1d_grad"));
REGISTER_USER_OP_GRAD("replication_pad1d_grad").SetBackwardOpConfGenFn(padGradGradient("replication_pad1d"));

REGISTER_USER_OP("replication_pad2d_grad")
    .With(edgePadGrad<kReplicate2d>("replication_pad2d", {2, 2, 13, 8}, {2, 2, 4, 5}, {2, 1, 6, 3}));
REGISTER_USER_OP_GRAD("replication_pad2d").SetBackwardOpConfGenFn(padGradient("replication_pad2d_grad"));
REGISTER_USER_OP_GRAD("replication_pad2d_grad").SetBackwardOpConfGenFn(padGradGradient("replication_pad2d"));

} // namespace
} // namespace opc::ops
