// bounded: a tensor of which there is only as much as a count says.
// SPDX-License-Identifier: Apache-2.0
#include "index/FoundArguments.h"
#include "support/CudaTask.h"
#include "support/ElementBytes.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"
#include "support/PieceRange.h"
#include "support/SbpRules.h"

#include <algorithm>
#include <cstring>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x"), count = ctx->In("count");
  const int64_t axis = ctx->Attr<int64_t>("axis");
  if (axis < 0 || axis >= x.shape().NumAxes())
    return Error("OPC0205") << "axis is " << axis << ", and x is " << x.toString();
  if (count.data_type() != kInt32 && count.data_type() != kInt64)
    return (Error::TypeError() << "count is " << dataTypeName(count.data_type())).help("a count is i32 or i64");
  if (count.shape().elem_cnt() != 1)
    return Error::ShapeMismatch() << "count is " << count.toString() << ", it should be one number";
  return setOut(ctx, "y", x);
}

/// The first `there` of each `size` runs of `run` bytes, zeros behind them.
void keep(const char *x, char *y, int64_t outer, int64_t size, int64_t run, int64_t there) {
  const auto kept = static_cast<size_t>(there * run), rest = static_cast<size_t>((size - there) * run);
  for (int64_t o = 0; o < outer; ++o, x += size * run, y += size * run) {
    if (x != y && kept) std::memcpy(y, x, kept);
    if (rest) std::memset(y + kept, 0, rest);
  }
}

std::unique_ptr<BoundKernel> bindBounded(KernelBindContext *ctx) {
  const Tensor &in = ctx->In("x"), &count = ctx->In("count");
  Tensor &out = ctx->Out("y");
  const int64_t axis = ctx->Attr<int64_t>("axis");
  const Shape &shape = in.shape();
  const PieceRange piece = pieceRange(ctx, "y", axis);
  const int64_t outer = shape.Count(0, axis), inner = shape.Count(axis + 1), size = piece.size, begin = piece.begin;
  const bool isWide = count.data_type() == kInt64;
  if (isOnGpu(ctx))
    return bindLaunch(ctx, kernelOf("bounded", elementSize(in)), shape.elem_cnt(), in.raw_dptr(), count.raw_dptr(),
                      out.mut_raw_dptr(), shape.elem_cnt(), inner, size, begin, static_cast<int32_t>(isWide));
  const auto *wide = isWide ? count.dptr<int64_t>() : nullptr;
  const auto *narrow = isWide ? nullptr : count.dptr<int32_t>();
  const char *x = static_cast<const char *>(in.raw_dptr());
  char *y = static_cast<char *>(out.mut_raw_dptr());
  const int64_t run = inner * static_cast<int64_t>(elementSize(in));
  return bindTask([=](DeviceCtx *) {
    const int64_t all = wide ? *wide : *narrow;
    keep(x, y, outer, size, run, std::clamp<int64_t>(all - begin, 0, size));
  });
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const AxisFactors axes = axisFactors(ctx.In("x").shape().NumAxes());
  const AxisFactors count(static_cast<size_t>(ctx.In("count").shape().NumAxes()), ".");
  return shardingRule({axes, count}, {axes}, Linear({0}));
}

Case sample(const char *name, Shape x, int64_t axis, int64_t most) {
  return Case(name)
      .In("x", std::move(x), -3, 3)
      .In("count", kInt64, {1}, 0, static_cast<double>(most))
      .Attr<int64_t>("axis", axis)
      .Types({kFloat, kFloat16, kInt64, kUInt8, kDouble});
}

REGISTER_USER_OP("bounded")
    .With(TensorArgs{{"x", "count"}, {"y"}})
    .RequiredAttr<int64_t>("axis")
    .With(rules(infer, sharding))
    .Doc(
        "A tensor of which only a run knows how much there is: y is x as far as count (one i32 or i64) says along axis, "
        "and 0 behind it. An output that is made by this op is fetched cut to the count, where that is an output, too.")
    .Cases({sample("rows", {7, 3}, 0, 7), sample("columns", {3, 5}, 1, 5), sample("middle", {2, 4, 3}, 1, 9),
            Case("narrow").In("x", {6}, -3, 3).In("count", kInt32, {}, -2, 3).Attr<int64_t>("axis", 0).Types({kFloat})})
    .With(onCpuAndGpu<FunctionKernel<bindBounded>>(KernelOptions().Inplace("y", "x")));

} // namespace
} // namespace opc::ops
