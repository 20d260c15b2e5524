// Convolutions and their gradients on the matrix units of GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convolution/ConvCuda.h"
#include "convolution/ConvUnitArguments.h"

#include <optional>

namespace opc::ops {

enum class ConvProduct { kForward, kData, kFilter };

/// One product, ready to be launched. It is for groups of whole tiles: with few columns the units would be idle.
class ConvUnits {
public:
  /// None where the device or the session has no units for the type, or indices are too large for the tables.
  static std::optional<ConvUnits> of(DeviceCtx *device, const ConvGeometry &g, const ConvArguments &a,
                                     ConvProduct product, DataType type);
  void run(DeviceCtx *device) const;

private:
  cuda::CudaFunction kernel_;
  cuda::Dim3 grid_;
  ConvUnitArguments arguments_;
};

} // namespace opc::ops
