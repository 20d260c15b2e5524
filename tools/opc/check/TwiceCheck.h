// --twice: a graph that is compiled and run again is the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

/// Checks the graphs again, from the last to the first and on one thread, and adds NONDETERMINISTIC where plan, lock or
/// the bits of an output differ.
void checkTwice(const Registry &registry, const CheckSettings &settings, std::vector<CheckedGraph> *checked);

} // namespace opc::cli
