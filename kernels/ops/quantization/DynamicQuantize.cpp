// dynamic_quantize_linear: quantisation by the range of the values at hand.
// SPDX-License-Identifier: Apache-2.0
#include "Quantized.h"
#include "support/FunctionKernel.h"

#include <algorithm>
#include <cmath>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (in.data_type() != kFloat)
    return Error::TypeError().id("OPC0204").help("cast it") << "in is " << in.toString() << ", expected f32";
  ctx->Out("out") = TensorDesc(in.shape(), kUInt8);
  ctx->Out("scale") = TensorDesc(Shape(), kFloat);
  return setOut(ctx, "zero_point", TensorDesc(Shape(), kUInt8));
}

std::unique_ptr<BoundKernel> bindDynamicQuantize(KernelBindContext *ctx) {
  constexpr int64_t kPiece = 16384;
  const int64_t n = ctx->In("in").shape().elem_cnt(), pieces = (n + kPiece - 1) / kPiece;
  const float *in = ctx->In("in").dptr<float>();
  uint8_t *out = ctx->Out("out").mut_dptr<uint8_t>(), *zeroPoint = ctx->Out("zero_point").mut_dptr<uint8_t>();
  float *scaleOut = ctx->Out("scale").mut_dptr<float>();
  return bindTask(
      [=, ranges = std::vector<std::pair<float, float>>(static_cast<size_t>(pieces))](DeviceCtx *d) mutable {
        d->parallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
          for (int64_t t = begin; t < end; ++t) {
            float low = 0, high = 0;
            for (int64_t i = t * kPiece; i < std::min(n, (t + 1) * kPiece); ++i) {
              low = std::min(low, in[i]);
              high = std::max(high, in[i]);
            }
            ranges[static_cast<size_t>(t)] = {low, high};
          }
        });
        float low = 0, high = 0;
        for (const auto &[l, h] : ranges) low = std::min(low, l), high = std::max(high, h);
        // Nothing but zeros: any scale would do, 1 divides.
        const float scale = high > low ? (high - low) / 255.0f : 1.0f;
        float zero = std::rint(0.0f - low / scale);
        zero = zero > 0.0f ? zero : 0.0f; // NaN, of an infinite range, is 0
        zero = zero < 255.0f ? zero : 255.0f;
        *scaleOut = scale;
        *zeroPoint = static_cast<uint8_t>(zero);
        d->parallelFor(n, kPiece, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            float v = std::rint(in[i] / scale) + zero;
            v = v > 0.0f ? v : 0.0f;
            v = v < 255.0f ? v : 255.0f;
            out[i] = static_cast<uint8_t>(static_cast<int32_t>(v));
          }
        });
      });
}

REGISTER_USER_OP("dynamic_quantize_linear")
    .With(TensorArgs{{"in"}, {"out", "scale", "zero_point"}})
    .SetTensorDescInferFn(infer)
    .Sharding(".. -> .., .., ..") // the range is that of all elements
    .NoGrad("rounding has the derivative 0 almost everywhere")
    .Doc("Quantises f32 to u8 by its own range: low and high are the least and the largest element, or 0 when that is "
         "beyond them; scale = (high - low) / 255, zero_point = round(-low / scale), out = round(in / scale) + "
         "zero_point, held to [0, 255]. Rounding is to the nearest, ties to even. When all elements are 0, scale is 1.")
    .Cases({Case("both_signs").In("in", kFloat, {3, 50}, -2, 5), Case("positive").In("in", kFloat, {40}, 1, 3),
            Case("negative").In("in", kFloat, {4, 1, 5}, -3, -1), Case("zeros").In("in", kFloat, {7}, 0, 0)})
    .Kernel<FunctionKernel<bindDynamicQuantize>>();

} // namespace
} // namespace opc::ops
