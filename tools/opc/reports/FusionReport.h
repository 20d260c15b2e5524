// Which ops one loop computes, and why others are alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FusionFacts.h"
#include "JsonOutput.h"

#include <string>

namespace opc::cli {

std::string fusionText(const FusionFacts &fusion, size_t width);
/// "regions", "alone", "boundaries".
Json fusionJson(const FusionFacts &fusion);

} // namespace opc::cli
