// Conversions of integers.
// SPDX-License-Identifier: Apache-2.0
#include "type/Cast.cuh"

namespace opc::cuda {
OPC_EACH_INTEGER(OPC_CASTS)
} // namespace opc::cuda
