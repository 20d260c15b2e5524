// A graph as it would be locked: compiled, run on generated inputs, and put together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFinding.h"
#include "Lock.h"
#include "OutputRun.h"
#include "Pipeline.h"
#include "Registry.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

struct LockRequest {
  CompileOptions options;
  LockTarget target;   // its shapes may name inputs that the graph does not have
  ModelRequest model;  // of a model of another system
  bool runs = true;    // the section numerics
  NumericFacts inputs; // seed and range
  OutputRequest output;
};

/// What could be made of a graph. With `exitCode` it is not whole, and `findings` say why: GRAPH_INVALID, RUN_FAILED.
struct MadeLock {
  Lock lock;
  std::vector<Diagnostic> warnings;
  std::string plan;                               // SHA-256 of the plan
  std::vector<NamedOutput> values;                // that OutputRequest::keepsValues asks for
  bool isModel = false;                           // of another system
  std::optional<std::vector<std::string>> inputs; // where LockTarget::shapes has any, and the graph could be read
  std::vector<GraphFinding> findings;
  int exitCode = 0;
};

/// `name` is the file, as findings call it.
MadeLock makeLock(const Registry &registry, const LockRequest &request, const std::string &name, SharedBytes bytes);

} // namespace opc::cli
