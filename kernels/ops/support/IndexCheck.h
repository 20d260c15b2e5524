// Index operands: reading them in their own integer type, and the range check that names the first bad one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

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

/// The entries of an indexed axis that this device has, of all that indices may name. On several devices the axis may
/// be split: each then deals with the indices that fall into its piece, and the results are partial sums.
struct IndexRange {
  int64_t begin = 0, size = 0, whole = 0;
  bool all() const { return size == whole; }
  /// The place of an index in the piece; out of [0, size) when another device has it.
  template <class I> int64_t place(I index) const { return static_cast<int64_t>(index) - begin; }
  bool holds(int64_t place) const { return static_cast<uint64_t>(place) < static_cast<uint64_t>(size); }
};
inline IndexRange indexRange(const user_op::KernelContext *ctx, const std::string &arg, int64_t axis) {
  return {ctx->ShardBegin(arg, 0, axis), ctx->Desc(arg).shape().At(axis),
          ctx->LogicalTensorDesc4ArgNameAndIndex(arg, 0)->shape().At(axis)};
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

/// Throws a ContractError that names the first index outside [0, limit): `arg`, its position, its value and the range.
template <class I>
void checkIndices(const DeviceCtx *ctx, const I *indices, const Shape &shape, int64_t limit, const char *arg,
                  const char *into) {
  const int64_t n = shape.elem_cnt();
  std::atomic<bool> bad{false};
  ctx->parallelFor(n, 32768, [&](int64_t begin, int64_t end) {
    I lo = 0, hi = -1; // no branch in the loop, so that it vectorises
    for (int64_t i = begin; i < end; ++i) {
      lo = std::min(lo, indices[i]);
      hi = std::max(hi, indices[i]);
    }
    if (lo < 0 || static_cast<int64_t>(hi) >= limit) bad.store(true, std::memory_order_relaxed);
  });
  if (!bad.load(std::memory_order_relaxed)) return;
  for (int64_t i = 0; i < n; ++i)
    if (indices[i] < 0 || static_cast<int64_t>(indices[i]) >= limit)
      throw ContractError(std::string(arg) + positionText(shape, i) + " = " + std::to_string(indices[i]) +
                          " is outside [0, " + std::to_string(limit) + "), the range of " + into);
}

} // namespace opc::ops
