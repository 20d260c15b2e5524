// What the adding scatters share: f16 and bf16 add up in an f32 copy of the output, kept in the temporary buffer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/HalfConversion.h"
#include "support/CpuKernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace opc::ops {

template <class T> constexpr bool addsInFloat = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// The output of a scatter while it is being added to.
template <class T> class Accumulated {
public:
  using Acc = std::conditional_t<addsInFloat<T>, float, T>;
  /// `base` (or zeros when null) is what the output starts from.
  Accumulated(KernelBindContext *ctx, const std::string &out, const T *base) : base_(base) {
    Tensor *t = ctx->Tensor4ArgNameAndIndex(out, 0);
    out_ = t->template mut_dptr<T>();
    count_ = t->shape().elem_cnt();
    if constexpr (addsInFloat<T>)
      acc_ = count_ ? static_cast<float *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr()) : nullptr;
    else
      acc_ = out_;
  }
  void begin(DeviceCtx *dev) const {
    dev->parallelFor(count_, 32768, [&](int64_t b, int64_t e) {
      if (!base_)
        std::memset(static_cast<void *>(acc_ + b), 0, static_cast<size_t>(e - b) * sizeof(Acc));
      else if constexpr (addsInFloat<T>)
        cpu::widen(base_ + b, acc_ + b, e - b);
      else if (base_ != acc_)
        std::copy(base_ + b, base_ + e, acc_ + b);
    });
  }
  void end(DeviceCtx *dev) const {
    if constexpr (addsInFloat<T>)
      dev->parallelFor(count_, 32768, [&](int64_t b, int64_t e) { cpu::narrow(acc_ + b, out_ + b, e - b); });
  }
  Acc *data() const { return acc_; }
  static Acc value(T x) {
    if constexpr (addsInFloat<T>)
      return static_cast<float>(x);
    else
      return x;
  }
  /// Integers wrap around.
  static Acc add(Acc a, Acc b) {
    if constexpr (std::is_integral_v<Acc>)
      return static_cast<Acc>(static_cast<std::make_unsigned_t<Acc>>(a) + static_cast<std::make_unsigned_t<Acc>>(b));
    else
      return a + b;
  }
  static Acc mul(Acc a, Acc b) {
    if constexpr (std::is_integral_v<Acc>)
      return static_cast<Acc>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
  /// acc[at(i) + c] += rows[i * inner + c], in the order of i for each c; threads share out the columns and the `outer`
  /// repetitions, so that no sum depends on their number. `at(o, i)` gives the offset, -1 to leave a row out.
  template <class At>
  void addRows(DeviceCtx *dev, const T *rows, int64_t outer, int64_t n, int64_t inner, At at) const {
    constexpr int64_t kTile = 128;
    const int64_t tiles = (inner + kTile - 1) / kTile;
    dev->parallelFor(outer * tiles, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n * std::min(inner, kTile))),
                     [&](int64_t b, int64_t e) {
                       for (int64_t job = b; job < e; ++job) {
                         const int64_t o = job / tiles, c0 = job % tiles * kTile, m = std::min(kTile, inner - c0);
                         for (int64_t i = 0; i < n; ++i) {
                           const int64_t offset = at(o, i);
                           if (offset < 0) continue;
                           Acc *to = acc_ + offset + c0;
                           const T *from = rows + (o * n + i) * inner + c0;
                           for (int64_t c = 0; c < m; ++c) to[c] = add(to[c], value(from[c]));
                         }
                       }
                     });
  }

private:
  const T *base_;
  T *out_;
  Acc *acc_;
  int64_t count_;
};

/// Room for the f32 copy of `out`.
inline user_op::InferTmpSizeFn accumulatorSize(std::string out) {
  return [out](InferContext *ctx) -> size_t {
    const TensorDesc &d = ctx->OutputTensorDesc(out, 0);
    const bool half = d.data_type() == kFloat16 || d.data_type() == kBFloat16;
    return half ? static_cast<size_t>(d.shape().elem_cnt()) * sizeof(float) : 0;
  };
}

} // namespace opc::ops
