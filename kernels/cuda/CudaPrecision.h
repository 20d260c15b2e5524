// What products of matrices and convolutions ask of a GPU's executor, beside CudaLaunch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaLaunch.h"

namespace opc::cuda {

class CudaPrecision {
public:
  /// The one behind a kernel's executor, which must be a GPU's; while kernels are bound.
  static const CudaPrecision &of(const DeviceCtx *ctx) { return dynamic_cast<CudaPrecision &>(CudaLaunch::of(ctx)); }

  /// Whether products of f32 may round their factors to TF32. Only of devices whose matrix units take it.
  virtual bool allowsTf32() const = 0;
  /// Whether products of this type go through the matrix units.
  bool takesMatrixUnits(DataType type) const {
    if (type == DataType::kFloat) return allowsTf32();
    return (type == DataType::kFloat16 || type == DataType::kBFloat16) && hasMatrixUnits();
  }

protected:
  ~CudaPrecision() = default;
  virtual bool hasMatrixUnits() const = 0;
};

} // namespace opc::cuda
