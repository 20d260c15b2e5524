// --twice: a graph that is compiled and run again is the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

/// NONDETERMINISTIC for `first` where plan, lock or the bits of an output differ from those of its second check.
void compareTwice(const CheckSettings &settings, const CheckedGraph &second, CheckedGraph *first);

/// Checks the graphs again, from the last to the first and on one thread, and compares.
void checkTwice(const Registry &registry, const CheckSettings &settings, std::vector<CheckedGraph> *checked);

} // namespace opc::cli
