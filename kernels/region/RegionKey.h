// What a region computes, as text: regions of one key have one code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include <string>

namespace opc {

/// The ops of a region over elements with their attributes and expressions, the types of its values and how they are
/// joined: the same text in every process of this version. Shapes do not matter, but for inputs of one element; nor
/// does it matter from which file an op of a plugin comes.
std::string regionKey(const Region &region);
/// Whether a step's op is one of ours, whose functions are known. Nobody knows how those of plugins were compiled.
bool isBuiltIn(const RegionStep &step);
/// A step as a region of its own.
Region stepAlone(const Region &region, size_t step);

} // namespace opc
