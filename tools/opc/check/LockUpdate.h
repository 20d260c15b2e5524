// --update: locks are written, and what that accepts is said.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

struct UpdateFlags {
  bool wanted = false;
  bool isNamed = false; // with sections
  std::set<LockSection> sections;
  bool inCi = false, all = false;
  bool keepsValues = false; // whole outputs beside the lock
};

/// What --update was given: nothing ("true"), sections, or no ("0", "false"). Whether locks are written. Error:
/// OPC0001.
Result<bool> parseUpdate(const std::string &text, std::set<LockSection> *sections);

/// Writes the lock of every graph that is whole where it differs. What was found in what was written becomes a note,
/// and the rest stays. Without sections, values that have changed in several graphs are written with `all` alone.
/// Errors: OPC0707, OPC0001.
Status updateLocks(const UpdateFlags &flags, std::vector<CheckedGraph> *checked);

} // namespace opc::cli
