// What the scatters share: the output while values go into it. f16 and bf16 add up in an f32 copy, kept in the
// temporary buffer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/HalfConversion.h"
#include "support/Operator.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace opc::ops {

/// What becomes of an element for which a scatter has a value. Integers wrap around.
struct Replace {
  template <class A> static A apply(A, A value) { return value; }
};
struct Add {
  template <class A> static A apply(A a, A value) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<std::make_unsigned_t<A>>(a) + static_cast<std::make_unsigned_t<A>>(value));
    else
      return a + value;
  }
};
struct Multiply {
  template <class A> static A apply(A a, A value) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(value));
    else
      return a * value;
  }
};

template <class T> constexpr bool addsInFloat = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// The output of a scatter while it is being added to.
template <class T> class Accumulated {
public:
  using Acc = std::conditional_t<addsInFloat<T>, float, T>;
  /// Output `out`, which starts as a copy of input `base`, or as zeros when null. T may stand for any type of its size.
  Accumulated(KernelBindContext *ctx, const char *out, const char *base) {
    Tensor &t = ctx->Out(out);
    base_ = base ? static_cast<const T *>(ctx->In(base).raw_dptr()) : nullptr;
    out_ = static_cast<T *>(t.mut_raw_dptr());
    count_ = t.shape().elem_cnt();
    if constexpr (addsInFloat<T>)
      acc_ = count_ ? ctx->Tmp<float>() : nullptr;
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
  /// Adds row i of each of `rows.outer` repetitions at rows.offset(o, i), in the order of i; -1 leaves a row out.
  /// Threads share out the columns and the repetitions, so that no sum depends on their number.
  template <class Rows> void addRows(DeviceCtx *dev, const T *values, const Rows &rows) const {
    constexpr int64_t kTile = 128;
    const int64_t n = rows.n, inner = rows.inner, tiles = (inner + kTile - 1) / kTile;
    dev->parallelFor(rows.outer * tiles, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n * std::min(inner, kTile))),
                     [&](int64_t b, int64_t e) {
                       for (int64_t job = b; job < e; ++job) {
                         const int64_t o = job / tiles, c0 = job % tiles * kTile, m = std::min(kTile, inner - c0);
                         for (int64_t i = 0; i < n; ++i) {
                           const int64_t offset = rows.offset(o, i);
                           if (offset < 0) continue;
                           Acc *to = acc_ + offset + c0;
                           const T *from = values + (o * n + i) * inner + c0;
                           for (int64_t c = 0; c < m; ++c) to[c] = Add::apply(to[c], value(from[c]));
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

/// Options of a scatter's kernels: room for the f32 copy of `out`.
inline KernelOptions accumulates(const char *out) {
  return KernelOptions().TmpSize([out](InferContext *ctx) -> size_t {
    const TensorDesc &d = ctx->Out(out);
    const bool half = d.data_type() == kFloat16 || d.data_type() == kBFloat16;
    return half ? static_cast<size_t>(d.shape().elem_cnt()) * sizeof(float) : 0;
  });
}

} // namespace opc::ops
