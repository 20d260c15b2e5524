// One graph's check that cannot end those of the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

/// checkGraph(); what breaks off in it is a finding INTERNAL_ERROR of this graph, with the bundle that it has left.
CheckedGraph checkGuarded(const Registry &registry, const CheckSettings &settings, const std::string &path);

} // namespace opc::cli
