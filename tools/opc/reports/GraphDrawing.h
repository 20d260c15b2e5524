// Graphs and memory plans as SVG, graphs as DOT: the same bytes for the same facts, by no other program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opc::cli {

/// What a difference makes of a node, by node of FactNodes; empty for a graph alone.
enum class NodeMark : uint8_t { kNone, kAdded, kRemoved, kChanged, kRenamed };
using NodeMarks = std::vector<NodeMark>;

/// Two lanes: forward ops, and backward ops beside what they are of. With states on a mesh, ops have the colour of
/// their first output's state, and edges that need a transition are red.
std::string graphSvg(const GraphFacts &facts, const std::string &title, const NodeMarks &marks = {});
/// Edges of DOT, without a layout.
std::string graphDot(const GraphFacts &facts, const std::string &title);
/// The class of the state of an op's first output: "(S(0), B) -> (S(0))" gives s0, "... -> ([B, P])" gives P. A part of
/// a sum counts before a split, and a split before a copy.
std::string stateClass(const std::string &signature);
/// Addresses over tasks.
std::string memorySvg(const MemoryFacts &memory, const std::string &title);

} // namespace opc::cli
