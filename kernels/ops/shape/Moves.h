// The task of an op that only moves elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/FunctionKernel.h"
#include "support/Operator.h"
#include "support/StridedCopy.h"

#include "opc/MovingKernel.h"

namespace opc::ops {

/// Where a box of elements lies in a row-major tensor: its first element, and the strides of its axes.
struct Place {
  int64_t offset = 0;
  DimVector strides;
};
inline Place wholePlace(const Shape &shape) { return {0, rowMajorStrides(shape)}; }

/// Fills the output, or copies another tensor to it, and then copies boxes.
class Moves {
public:
  explicit Moves(const Tensor &like) : elementSize_(GetSizeOfDataType(like.data_type())) {}
  /// `out` becomes zeros, or the element with these bytes.
  Moves &fill(Tensor &out, uint64_t element = 0);
  Moves &begin(const Tensor &base, Tensor &out);
  Moves &copy(const DimVector &dims, const Tensor &in, const Place &from, Tensor &out, const Place &to);
  std::unique_ptr<BoundKernel> bind() const;

private:
  struct Box {
    StridedCopy copy;
    const char *src;
    char *dst;
  };
  size_t elementSize_;
  const void *base_ = nullptr;
  void *begun_ = nullptr; // the output that is filled or copied to
  uint64_t element_ = 0;
  int64_t count_ = 0;
  std::vector<Box> boxes_;
};

/// The kernel whose Bind is `bind(ctx)`, and whose elements come from where `map(ctx)` says, on one device.
template <auto bind, auto map> class MoveKernel final : public BindingKernel, public MovingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override { return bind(ctx); }
  Status MakeMap(const KernelContext &ctx, MoveMap *to) const override {
    *to = map(ctx);
    return Status::ok();
  }
};

/// Kernels on the CPU and on GPUs, where nobody asks for the map: .With(moves<bindPad, padMap>).
template <auto bind, auto map> void moves(OpRegistry &op) {
  op.Kernel<MoveKernel<bind, map>>().template Kernel<FunctionKernel<bind>>(KernelOptions().Device(DeviceType::kGPU));
}

/// All of the output from the op's first input.
inline MoveMap readMap(const Shape &out, std::vector<AxisRead> reads) {
  return {{{0, DimVector(out.dim_vec().size(), 0), out.dim_vec(), std::move(reads)}}};
}

/// out = the elements of `in` at `from`.
std::unique_ptr<BoundKernel> bindRead(const Tensor &in, const Place &from, Tensor &out);

/// Element types of sample cases.
inline const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool};

} // namespace opc::ops
