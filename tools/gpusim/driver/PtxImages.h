// Finds the PTX in what is given as code: text, a fat binary, a cubin.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaAbi.h"
#include "SimOptions.h"

#include <memory>
#include <string>

namespace opc::gpusim {
class Module;
}

namespace opc::gpusim::driver {

/// kNoBinaryForGpu for machine code alone, kInvalidPtx, kUnsupportedPtxVersion, kInvalidImage; `error` says why.
CuResult readImage(const void *image, const SimOptions &options, std::shared_ptr<const Module> *module,
                   std::string *error);

} // namespace opc::gpusim::driver
