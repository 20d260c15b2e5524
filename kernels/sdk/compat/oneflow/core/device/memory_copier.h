// Copies a box of one array into another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/nd_index.h"

namespace oneflow {

/// `extent` elements from `src_pos` of an array of `src_shape` to `dst_pos` of one of `dst_shape`.
struct MemoryCopyNdDesc {
  Shape dst_shape, src_shape;
  NdIndex dst_pos, src_pos;
  Shape extent;
  /// The same copy; OneFlow joins axes here, which the copier below does not need.
  MemoryCopyNdDesc CreateDimReducedDesc() const { return *this; }
};

class MemoryCopier {
public:
  OF_DISALLOW_COPY_AND_MOVE(MemoryCopier);
  MemoryCopier() = default;
  virtual ~MemoryCopier() = default;
  /// Elements are bytes.
  void Copy(DeviceCtx *ctx, void *dst, const void *src, const MemoryCopyNdDesc &desc) const {
    copyBox(ctx, dst, src, desc, 1);
  }
  template <class T> void CopyElem(DeviceCtx *ctx, void *dst, const void *src, const MemoryCopyNdDesc &desc) const {
    copyBox(ctx, dst, src, desc, sizeof(T));
  }

protected:
  virtual void copyBox(DeviceCtx *ctx, void *dst, const void *src, const MemoryCopyNdDesc &desc, size_t size) const = 0;
};

class HostMemoryCopier final : public MemoryCopier {
private:
  void copyBox(DeviceCtx *, void *dst, const void *src, const MemoryCopyNdDesc &d, size_t size) const override {
    const int64_t rank = d.extent.NumAxes();
    CHECK(rank > 0 && d.dst_shape.NumAxes() == rank && d.src_shape.NumAxes() == rank && d.dst_pos.NumAxes() == rank &&
          d.src_pos.NumAxes() == rank)
        << "shapes and positions of a copy differ in rank";
    for (int64_t i = 0; i < rank; ++i)
      CHECK(d.dst_pos.At(i) >= 0 && d.dst_pos.At(i) + d.extent.At(i) <= d.dst_shape.At(i) && d.src_pos.At(i) >= 0 &&
            d.src_pos.At(i) + d.extent.At(i) <= d.src_shape.At(i))
          << "a copy reaches beyond axis " << i;
    if (d.extent.elem_cnt() == 0) return;
    const size_t row = static_cast<size_t>(d.extent.At(rank - 1)) * size;
    DimVector index(static_cast<size_t>(rank), 0);
    for (;;) {
      int64_t from = 0, to = 0;
      for (int64_t i = 0; i < rank; ++i) {
        from = from * d.src_shape.At(i) + d.src_pos.At(i) + index[static_cast<size_t>(i)];
        to = to * d.dst_shape.At(i) + d.dst_pos.At(i) + index[static_cast<size_t>(i)];
      }
      std::memcpy(static_cast<char *>(dst) + static_cast<size_t>(to) * size,
                  static_cast<const char *>(src) + static_cast<size_t>(from) * size, row);
      int64_t axis = rank - 2;
      while (axis >= 0 && ++index[static_cast<size_t>(axis)] == d.extent.At(axis))
        index[static_cast<size_t>(axis--)] = 0;
      if (axis < 0) return;
    }
  }
};

/// The caller owns it.
inline MemoryCopier *NewDefaultMemoryCopier(DeviceType device) {
  CHECK(device == DeviceType::kCPU) << "the compat headers copy on the CPU";
  return new HostMemoryCopier();
}

} // namespace oneflow
