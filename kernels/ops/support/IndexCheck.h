// Index operands: reading them in their own integer type, and the range check that names the first bad one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/PieceRange.h"

#include <algorithm>
#include <atomic>

namespace opc::ops {

/// Calls f with a value of the C++ type of an index tensor (i32 or i64).
template <class F> auto withIndexType(DataType type, F &&f) {
  if (type == kInt32) return f(int32_t{});
  if (type == kInt64) return f(int64_t{});
  throw ContractError(std::string("indices are ") + dataTypeName(type) + "; they must be i32 or i64");
}

/// The same with the tensor's elements.
template <class F> auto withIndices(const user_op::Tensor &indices, F &&f) {
  return withIndexType(indices.data_type(), [&](auto tag) { return f(indices.dptr<decltype(tag)>()); });
}

/// For shape rules: the dtype of an index operand.
inline Maybe<void> checkIndexType(const user_op::InferContext *ctx, const std::string &arg) {
  const DataType t = ctx->In(arg).data_type();
  if (t != kInt32 && t != kInt64)
    return (Error::TypeError() << arg << " is " << dataTypeName(t) << ", indices are i32 or i64")
        .help("cast " + arg + " to i32 or i64");
  return Maybe<void>::Ok();
}

/// The index tuple of flat element `at` of a tensor: "[1,2]".
inline std::string positionText(const Shape &shape, int64_t at) {
  std::string s;
  for (int64_t k = shape.NumAxes() - 1; k >= 0; --k) {
    s = std::to_string(at % shape.At(k)) + (s.empty() ? "" : ",") + s;
    at /= shape.At(k);
  }
  return "[" + s + "]";
}

/// "indices[1,2] = 9 is outside [0, 5), the range of the gathered axis".
inline std::string outsideText(const char *arg, const Shape &shape, int64_t position, int64_t value, int64_t limit,
                               const std::string &into) {
  return std::string(arg) + positionText(shape, position) + " = " + std::to_string(value) + " is outside [0, " +
         std::to_string(limit) + "), the range of " + into;
}

/// In one thread without a context. Throws a ContractError that names the first index outside [0, limit): `arg`, its
/// position, its value and the range.
template <class I>
void checkIndices(const DeviceCtx *ctx, const I *indices, const Shape &shape, int64_t limit, const char *arg,
                  const char *into) {
  const int64_t n = shape.elem_cnt();
  std::atomic<bool> bad{false};
  const auto check = [&](int64_t begin, int64_t end) {
    I lo = 0, hi = -1; // no branch in the loop, so that it vectorises
    for (int64_t i = begin; i < end; ++i) {
      lo = std::min(lo, indices[i]);
      hi = std::max(hi, indices[i]);
    }
    if (lo < 0 || static_cast<int64_t>(hi) >= limit) bad.store(true, std::memory_order_relaxed);
  };
  ctx ? ctx->parallelFor(n, 32768, check) : check(0, n);
  if (!bad.load(std::memory_order_relaxed)) return;
  for (int64_t i = 0; i < n; ++i)
    if (indices[i] < 0 || static_cast<int64_t>(indices[i]) >= limit)
      throw ContractError(outsideText(arg, shape, i, static_cast<int64_t>(indices[i]), limit, into));
}

} // namespace opc::ops
