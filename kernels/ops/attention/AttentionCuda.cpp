// scaled_dot_product_attention and its gradient on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaPrecision.h"
#include "attention/AttentionArguments.h"
#include "attention/AttentionShape.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

using cuda::CudaLaunch;
using cuda::Dim3;

void placeMask(const Shape &mask, const Shape &query, AttentionArguments *a) {
  const int64_t rank = query.NumAxes(), missing = rank - mask.NumAxes();
  const auto stride = [&](int64_t axis) {
    const int64_t own = axis - missing;
    return own < 0 || mask.At(own) == 1 ? int64_t{0} : mask.Count(own + 1);
  };
  a->leadRank = static_cast<int32_t>(rank - 2);
  for (int64_t i = 0; i < rank - 2; ++i) {
    a->leadDims[i] = query.At(i);
    a->maskLead[i] = stride(i);
  }
  a->maskRow = stride(rank - 2);
  a->maskColumn = stride(rank - 1);
}

AttentionArguments argumentsOf(KernelBindContext *ctx) {
  const AttentionShape s = attentionShape(ctx);
  AttentionArguments a{};
  a.query = ctx->In("query").raw_dptr();
  a.key = ctx->In("key").raw_dptr();
  a.value = ctx->In("value").raw_dptr();
  a.heads = s.heads, a.n = s.n, a.m = s.m, a.d = s.d, a.dv = s.dv;
  a.perKey = s.perKey;
  a.offset = s.offset, a.left = s.left, a.right = s.right;
  a.scale = s.scale, a.softcap = s.softcap;
  if (s.hasLengths()) {
    a.lengths = ctx->In("key_lengths").raw_dptr();
    a.lengthsAre64 = ctx->In("key_lengths").data_type() == kInt64;
    a.sequenceHeads = s.sequenceHeads;
  }
  if (ctx->Has("mask")) {
    a.mask = ctx->In("mask").raw_dptr();
    a.maskIsBool = ctx->In("mask").data_type() == kBool;
    placeMask(ctx->In("mask").shape(), ctx->In("query").shape(), &a);
  }
  return a;
}

/// A block for 16 rows of each head and 128 columns of a result.
Dim3 gridOf(int64_t rows, int64_t columns, int64_t heads) {
  const auto limited = [](int64_t n, int64_t limit) { return static_cast<uint32_t>(std::clamp<int64_t>(n, 1, limit)); };
  return {limited((rows + 15) / 16, INT32_MAX), limited((columns + 127) / 128, 65535), limited(heads, 65535)};
}
std::string kernelOf(KernelBindContext *ctx, const char *name) {
  return ops::kernelOf(name, ctx->In("query").data_type());
}

/// The matrix units take 128 queries at a time, of 16-bit floats; with few queries most of them would be idle.
bool takesMatrixUnits(KernelBindContext *ctx, const AttentionArguments &a) {
  constexpr int64_t kFewQueries = 32;
  const DataType type = ctx->In("query").data_type();
  return type != DataType::kFloat && a.n > kFewQueries &&
         cuda::CudaPrecision::of(ctx->device_ctx()).takesMatrixUnits(type);
}

std::unique_ptr<BoundKernel> bindAttention(KernelBindContext *ctx) {
  AttentionArguments a = argumentsOf(ctx);
  a.to = ctx->Out("out").mut_raw_dptr();
  a.sums = ctx->Out("log_sum").mut_raw_dptr();
  if (takesMatrixUnits(ctx, a)) {
    const int64_t blocks = (a.n + 127) / 128 * ((a.dv + 127) / 128) * a.heads;
    return bindGrid(ctx, kernelOf(ctx, "attention_units"), a.heads * a.n, cuda::gridOf(blocks, INT32_MAX), a);
  }
  return bindGrid(ctx, kernelOf(ctx, "attention"), a.heads * a.n, gridOf(a.n, a.dv, a.heads), a);
}

size_t alongBytes(InferContext *ctx) {
  const Shape &query = ctx->In("query").shape();
  return static_cast<size_t>(query.Count(0, query.NumAxes() - 1)) * 3 * sizeof(double);
}

std::unique_ptr<BoundKernel> bindAttentionGrad(KernelBindContext *ctx) {
  AttentionArguments a = argumentsOf(ctx);
  a.out = ctx->In("out").raw_dptr();
  a.dout = ctx->In("dout").raw_dptr();
  a.logSum = ctx->In("log_sum").raw_dptr();
  if (ctx->Has("dlog_sum")) a.dlogSum = ctx->In("dlog_sum").raw_dptr();
  a.dquery = ctx->Out("dquery").mut_raw_dptr();
  a.dkey = ctx->Out("dkey").mut_raw_dptr();
  a.dvalue = ctx->Out("dvalue").mut_raw_dptr();
  if (ctx->Has("dscores")) a.dscores = ctx->Out("dscores").mut_raw_dptr();
  a.along = ctx->Tmp<char>();
  const auto kernel = [&](const char *name) { return CudaLaunch::of(ctx->device_ctx()).function(kernelOf(ctx, name)); };
  return bindTask([=, along = kernel("attention_along"), query = kernel("attention_query_grad"),
                   key = kernel("attention_key_grad")](DeviceCtx *dev) {
    CudaLaunch &device = CudaLaunch::of(dev);
    if (a.heads * a.n > 0) {
      device.run(along, cuda::blocksFor(a.heads * a.n * 32), {cuda::kBlock, 1, 1}, 0, a);
      device.run(query, gridOf(a.n, a.d, a.heads), {cuda::kBlock, 1, 1}, 0, a);
    }
    if (a.heads * a.m > 0)
      device.run(key, gridOf(a.m, std::max(a.d, a.dv), a.heads / a.perKey), {cuda::kBlock, 1, 1}, 0, a);
  });
}

const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("scaled_dot_product_attention")
    .Kernel<OfFunction<bindAttention>::Kernel, types::Floating>("query", kOnGpu);
REGISTER_KERNELS("scaled_dot_product_attention_grad")
    .Kernel<OfFunction<bindAttentionGrad>::Kernel, types::Floating>("query", KernelOptions(kOnGpu).TmpSize(alongBytes));

} // namespace
} // namespace opc::ops
