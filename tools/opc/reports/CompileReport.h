// What a compilation did, for --stats and `show --what phases|memory`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "Pipeline.h"

#include <string>

namespace opc::cli {

Json phasesJson(const std::vector<PhaseFacts> &phases);
std::string phasesText(const std::vector<PhaseFacts> &phases);

/// With `slots`, every buffer; the JSON always has the totals.
Json memoryJson(const MemoryFacts &memory, bool slots);
/// Whether graphs in ops take memory of their own.
bool hasGraphSlots(const MemoryFacts &memory);
/// Totals, the lower bound, the largest buffers, and live activation bytes over the schedule in 60 columns.
std::string memoryText(const MemoryFacts &memory);

} // namespace opc::cli
