// Lock files: JSON with one record a line, in an order that depends on the graph alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Lock.h"

#include "opc/Status.h"

#include <string>
#include <string_view>

namespace opc {

/// The file's text. Ops stand in topological order, ties by name; equal graphs give equal bytes.
std::string lockText(const Lock &lock);
/// A section's records as they stand in the file, one a line.
std::string lockSectionText(const Lock &lock, LockSection section);
/// Reads a lock. Of a newer version only `version` is set. Errors: OPC0120 with the line; a file is untrusted.
Result<Lock> readLock(std::string_view text, const std::string &name);

/// The name of the file that a lock is for, also of a lock that is damaged behind its first line or of a newer version;
/// "" where it says none.
std::string graphOfLock(std::string_view text);

/// Takes the sections of `from` that are named, and keeps the rest of `lock`.
void takeSections(const Lock &from, const std::set<LockSection> &sections, Lock *lock);

/// Attributes as a lock keeps them: long ones are a digest. Facts of a graph and of a lock are equal after it.
void shortenAttributes(GraphFacts *facts);

/// Whether a variable's initializer has fields that say their defaults; a lock leaves them out.
bool saysDefaults(const GraphTensor &variable);

/// GraphFacts::pieces of a graph that was compiled for a mesh: its parts as the lock says them.
void namePieces(GraphFacts *facts);

/// "graphs/mlp.opc.lock" for "graphs/mlp.pbtxt".
std::string lockPathOf(const std::string &graph);
/// "graphs/mlp.opc.inputs.npz": inputs and variables for the section numerics; "graphs/mlp.opc.outputs.npz": whole
/// outputs.
std::string inputsPathOf(const std::string &graph);
std::string valuesPathOf(const std::string &graph);
/// What a lock says of a file's bytes.
std::string digestOf(std::string_view bytes);

} // namespace opc
