// Launches kernels with other arguments or a smaller grid than asked for, for tests that have to notice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Operation.h"
#include "SimOptions.h"

#include <string>
#include <vector>

namespace opc::gpusim::driver {

/// False, and `error` says why, where the kernel's parameters do not have the eight bytes.
bool alterLaunch(const std::vector<AlteredLaunch> &altered, KernelWork *work, std::string *error);

} // namespace opc::gpusim::driver
