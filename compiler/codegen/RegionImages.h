// Images of regions' code, for plans (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeImage.h"

#include <memory>

namespace opc {

/// Makes images whose code has given the bits of the loops, where this processor has the level.
std::unique_ptr<RegionImager> makeRegionImager();

} // namespace opc
