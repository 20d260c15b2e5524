// Takes barriers and waits out of PTX, for tests that have to notice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SimOptions.h"

#include <string>
#include <string_view>
#include <vector>

namespace opc::gpusim::driver {

/// Replaces the instructions that `dropped` names by spaces: lines stay where they are. Functions that are not in this
/// text are passed over. False, and `error` says how many there are, for an instruction that a function does not have.
bool dropWaits(std::string_view ptx, const std::vector<DroppedWait> &dropped, std::string *result, std::string *error);

} // namespace opc::gpusim::driver
