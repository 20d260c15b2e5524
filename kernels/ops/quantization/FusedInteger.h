// The sizes of fused_integer_conv2d.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convolution/ConvGeometry.h"

namespace opc::ops {

/// The weight is [filters, channels / groups, kernel...] whatever the images' layout is.
Maybe<ConvGeometry> fusedIntegerGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                         Extent extent = Extent::kWhole);

} // namespace opc::ops
