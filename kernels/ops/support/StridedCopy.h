// The engine of the data-movement operators: copies an n-dimensional box between two strided layouts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

namespace opc::ops {

/// A copy of `dims` elements from `src + sum(i*srcStrides)` to `dst + sum(i*dstStrides)`. Strides count elements; those
/// of the source may be negative or zero. Decided once (dimensions merged, a loop chosen), run many times; the result
/// does not depend on the number of threads. Source and destination must not overlap.
class StridedCopy {
public:
  StridedCopy() = default;
  StridedCopy(size_t elementSize, const DimVector &dims, const DimVector &srcStrides, const DimVector &dstStrides);
  /// To a contiguous destination.
  StridedCopy(size_t elementSize, const DimVector &dims, const DimVector &srcStrides)
      : StridedCopy(elementSize, dims, srcStrides, contiguous(dims)) {}
  /// `src` and `dst` point at the element with index 0.
  void run(const DeviceCtx *ctx, const void *src, void *dst) const;

private:
  enum class Loop { kEmpty, kBytes, kTiles, kInterleave, kStrided };
  struct Dim {
    int64_t size, src, dst;
  };
  static DimVector contiguous(const DimVector &dims);
  template <class T> void runStrided(const DeviceCtx *ctx, const T *src, T *dst) const;
  template <class T> void runTiles(const DeviceCtx *ctx, const T *src, T *dst) const;
  template <class T> void runInterleave(const DeviceCtx *ctx, const T *src, T *dst) const;
  void runBytes(const DeviceCtx *ctx, const char *src, char *dst) const;
  void runOnGpu(const DeviceCtx *ctx, const void *src, void *dst) const;

  Loop loop_ = Loop::kEmpty;
  size_t elementSize_ = 1;
  std::vector<Dim> outer_; // outermost first
  Dim inner_{1, 1, 1};     // the innermost loop; for kTiles and kInterleave dst stride 1
  Dim tile_{1, 1, 1};      // kTiles, kInterleave: the dimension in which the source is contiguous
  int64_t rows_ = 1;       // product of outer_
};

/// memcpy on several threads; nothing when the addresses are equal.
void copyBytes(const DeviceCtx *ctx, const void *src, void *dst, int64_t bytes);
/// The task of an op whose output `out` is the bytes of `in`: copies when the planner could not give both tensors the
/// same memory, and does nothing when it could.
std::unique_ptr<user_op::BoundKernel> bindView(user_op::KernelBindContext *ctx);
/// Sets `count` elements of `elementSize` bytes to the element at `value`.
void fillElements(const DeviceCtx *ctx, size_t elementSize, const void *value, void *dst, int64_t count);

} // namespace opc::ops
