// Whether all ranks have the same plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

#include <string_view>

namespace opc::runtime {

/// Compares a digest of `bytes` over all ranks. Collective. OPC0723 names which ranks have which: "the ranks have
/// different plans: ranks 0,2-3 have 1f6c..., rank 1 has 90ab...". `what`: "plans".
Status checkAllHaveTheSame(Communicator &comm, const std::string &what, std::string_view bytes);

/// "0-3", "0,2,5-6"; `ranks` ascending.
std::string rankListText(const std::vector<int64_t> &ranks);

} // namespace opc::runtime
