// What the kernels of fused_conv2d read from its attributes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConvOp.h"

namespace opc::ops {

/// The geometry; the weight's layout is that of weight_format, whatever the images' is.
Maybe<ConvGeometry> fusedGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                  Extent extent = Extent::kWhole);
Maybe<ConvExtras::Activation> activationOf(const UserOpConfWrapper &conf);

} // namespace opc::ops
