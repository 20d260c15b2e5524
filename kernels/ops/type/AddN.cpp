// add_n: the sum of tensors of one shape, which gradient accumulation produces.
// SPDX-License-Identifier: Apache-2.0
#include "AddNArguments.h"
#include "opc/HalfConversion.h"
#include "support/CudaTask.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc first = ctx->In("in");
  for (int32_t i = 1; i < ctx->input_size("in"); ++i) {
    const TensorDesc &d = ctx->In("in", i);
    if (d.shape() != first.shape())
      return (Error::ShapeMismatch() << "in_" << i << " is " << d.shape().ToString() << ", in_0 is "
                                     << first.shape().ToString())
          .help("add_n does not broadcast; use broadcast_add");
    if (d.data_type() != first.data_type())
      return (Error::TypeError() << "in_" << i << " is " << dataTypeName(d.data_type()) << ", in_0 is "
                                 << dataTypeName(first.data_type()))
          .help("cast the inputs to one dtype");
  }
  return setOut(ctx, "out", first);
}

using cuda::AddNArguments;

template <class T> constexpr bool isHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// Sums block by block, so that the running sum stays in the first-level cache. Integers wrap around.
template <class T> class AddNKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    std::vector<const T *> in;
    for (int32_t i = 0; i < ctx->input_size("in"); ++i) in.push_back(ctx->In("in", i).dptr<T>());
    T *out = ctx->Out("out").mut_dptr<T>();
    const int64_t n = ctx->Out("out").shape().elem_cnt();
    if (isOnGpu(ctx)) return bindOnGpu(ctx, in, out, n);
    return bindTask([=, in = std::move(in)](DeviceCtx *dev) {
      dev->parallelFor(n, 16384, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; b += kBlock) addBlock(in, b, out, std::min(kBlock, end - b));
      });
    });
  }

private:
  /// As many inputs as one launch takes; a launch for more of them begins with the sum so far.
  static std::unique_ptr<BoundKernel> bindOnGpu(KernelBindContext *ctx, const std::vector<const T *> &in, T *out,
                                                int64_t n) {
    std::vector<AddNArguments> launches;
    uintptr_t addresses = reinterpret_cast<uintptr_t>(out);
    for (const T *x : in) {
      addresses |= reinterpret_cast<uintptr_t>(x);
      if (launches.empty() || launches.back().count == AddNArguments::kInputs) {
        const bool isFirst = launches.empty();
        launches.push_back({});
        launches.back().n = n;
        launches.back().out = out;
        if (!isFirst) launches.back().in[launches.back().count++] = out;
      }
      launches.back().in[launches.back().count++] = x;
    }
    for (AddNArguments &a : launches) a.isAligned = addresses % 16 == 0;
    const cuda::CudaFunction f =
        cuda::CudaLaunch::of(ctx->device_ctx()).function(kernelOf("add_n", GetDataType<T>::value));
    return bindTask([=](DeviceCtx *dev) {
      for (const AddNArguments &a : launches)
        if (n > 0) cuda::CudaLaunch::of(dev).run(f, cuda::blocksFor(n), {cuda::kBlock, 1, 1}, 0, a);
    });
  }
  static constexpr int64_t kBlock = 2048;
  static void addBlock(const std::vector<const T *> &in, int64_t at, T *out, int64_t n) {
    if constexpr (isHalf<T>) {
      float sum[kBlock], next[kBlock];
      cpu::widen(in[0] + at, sum, n);
      for (size_t k = 1; k < in.size(); ++k) {
        cpu::widen(in[k] + at, next, n);
        for (int64_t i = 0; i < n; ++i) sum[i] += next[i];
      }
      cpu::narrow(sum, out + at, n);
    } else {
      // Signed overflow is undefined in C++; unsigned arithmetic has the same bits.
      using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
      T sum[kBlock];
      std::copy_n(in[0] + at, n, sum);
      for (size_t k = 1; k < in.size(); ++k) {
        const T *next = in[k] + at;
        for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<T>(static_cast<U>(sum[i]) + static_cast<U>(next[i]));
      }
      std::copy_n(sum, n, out + at);
    }
  }
};

REGISTER_USER_OP("add_n")
    .InputWithMinimum("in", 1)
    .Output("out")
    .With(rules(infer, "... -> ...", Linear({0})))
    .Doc("The sum of the inputs, added in their order, all of one shape and dtype. f16 and bf16 are added in f32; "
         "integers wrap around.")
    .Cases({Case("two").In("in", {3, 5}).In("in", {3, 5}, -1, 1, 1),
            Case("four").In("in", {33}).In("in", {33}, -1, 1, 1).In("in", {33}, -1, 1, 2).In("in", {33}, -1, 1, 3)})
    .With(onCpuAndGpu<AddNKernel, types::Numbers>("in", KernelOptions().Inplace("out", "in")));

} // namespace
} // namespace opc::ops
