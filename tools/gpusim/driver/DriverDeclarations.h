// The functions of libcuda.so.1, declared: for the stand-in itself and for what is linked to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DriverFunctions.h"

namespace opc::gpusim::driver {

#define GPUSIM_DECLARE(symbol, name, parameters)                                                                       \
  extern "C" __attribute__((visibility("default"))) CuResult symbol parameters;
GPUSIM_FUNCTIONS(GPUSIM_DECLARE)
#undef GPUSIM_DECLARE

} // namespace opc::gpusim::driver
