// Whether products of f32 may be rounded: asked when a device is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::runtime {

/// Whether GPUs that this thread opens may round the factors of products of f32 to TF32: at first not.
bool isTf32Allowed();
void setTf32Allowed(bool allowed);

} // namespace opc::runtime
