// diagonal_grad, a diagonal put back into a tensor of zeros, and the gradient rules of diag and diagonal.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Diagonals.h"
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  const int64_t k = ctx->Attr<int32_t>("offset");
  if (in.shape().NumAxes() < 2)
    return Error::ShapeMismatch() << "in is " << in.toString() << ", which has fewer than two axes";
  const TensorDesc want(diagonalShape(in.shape(), k), in.data_type());
  JUST(expectIn(ctx, "dy", want, ", diagonal " + std::to_string(k) + " of in, " + in.toString()));
  return setOut(ctx, "dx", in);
}

std::unique_ptr<BoundKernel> bindDiagonalGrad(KernelBindContext *ctx) {
  return bindPutDiagonal(ctx, "dy", "dx", ctx->Attr<int32_t>("offset"));
}

/// The values of in are not read.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("in").shape().NumAxes();
  const AxisFactors in = axisFactors(rank);
  return shardingRule({diagonalFactors(rank), unread(in)}, {in}, Sum("entries"), Linear({0}));
}

REGISTER_USER_OP("diagonal_grad")
    .GradientOf("diagonal")
    .With(TensorArgs{{"dy", "in"}, {"dx"}})
    .Attr<int32_t>("offset", 0)
    .With(rules(infer, sharding))
    .Doc("The gradient of diagonal: dx has the shape of in, whose values are not read, with dy on diagonal `offset` "
         "of the first two axes and zeros elsewhere.")
    .Cases({Case("matrix").In("dy", {3}).In("in", {3, 5}).Attr<int32_t>("offset", 1).Types({kFloat, kDouble}),
            Case("stack")
                .In("dy", {2, 3})
                .In("in", {4, 3, 2})
                .Attr<int32_t>("offset", -1)
                .Types({kFloat, kDouble, kFloat16})})
    .With(onCpuAndGpu<FunctionKernel<bindDiagonalGrad>>());

/// diag of a vector takes its diagonal back; diag of a matrix puts it back, into diagonal_grad's zeros.
void diagGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  const int32_t k = g.attr<int32_t>("diagonal");
  if (g.shape("in").NumAxes() == 1)
    g.bind("in", g.add("diag", "in").in("in", g.dy("out")).attr("diagonal", k).out());
  else
    g.bind("in", g.add("diagonal_grad", "in").in("dy", g.dy("out")).in("in", g.x("in")).attr("offset", k).out("dx"));
}
REGISTER_USER_OP_GRAD("diag").SetBackwardOpConfGenFn(gradientRule(diagGradient));

REGISTER_USER_OP_GRAD("diagonal")
    .SetBackwardOpConfGenFn(linearGradient({"in", "out"}, "diagonal_grad", {"dy", "dx"}, {"offset"}, {{"in", "in"}}));
REGISTER_USER_OP_GRAD("diagonal_grad")
    .SetBackwardOpConfGenFn(linearGradient({"dy", "dx"}, "diagonal", {"in", "out"}, {"offset"}));

} // namespace
} // namespace opc::ops
