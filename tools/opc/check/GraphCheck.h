// One graph against its lock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CheckReport.h"
#include "GraphLock.h"
#include "OutputComparison.h"
#include "Registry.h"
#include "Rules.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

/// A rule, or *, that is left out for the graphs that a glob fits.
struct IgnoredRule {
  std::string glob, rule;
  std::string place; // " (opc.toml:4)"; empty for the command line's
};

struct CheckSettings {
  RuleCategory use = RuleCategory::kCost;
  std::set<std::string> except; // rules
  std::vector<IgnoredRule> ignored;
  std::string ignoreFolder;             // that the globs are relative to: of the opc.toml; empty: the working directory
  std::map<std::string, double> growth; // what a cost of costNames() may grow by, as a part of what it was
  bool runs = true;
  bool isAgainst = false;          // another graph, in place of a lock:
  std::string revision;            // the same file of this revision, or
  std::string againstFile;         // this file
  std::optional<MeshRequest> mesh; // in place of the lock's
  std::string meshText;
  ModelRequest model;                                 // of ONNX models
  std::map<std::string, std::vector<int64_t>> shapes; // of inputs, in place of the lock's
  std::optional<std::vector<std::string>> tensors;    // globs of tensors to run for, in place of the lock's
  bool keepsValues = false;                           // whole outputs for a file beside the lock
  std::optional<std::string> standardInput;           // what "-" stands for
  int threads = 1;                                    // of a run
  ToleranceOf tolerance;
  bool isTwice = false;             // checked and run a second time, which must give the same
  bool hasForeignCode = false;      // of plugins or in Python, which may end the process that runs it
  std::vector<std::string> plugins; // that the registry has, for graphs with a manifest of their own
};
/// "peak_bytes", "flops", "comm_bytes", "tasks": costs that may not grow.
const std::vector<std::string> &costNames();

/// A graph that was looked at, and the lock that it would have now.
struct CheckedGraph {
  GraphReport report;
  Lock now;
  std::string plan;                // SHA-256 of the plan
  std::vector<NamedOutput> values; // whole, where they are kept
  bool isModel = false;
  std::optional<std::vector<std::string>> inputs; // as MadeLock has them
  std::optional<Lock> locked;
  bool isWhole = false; // it could be compiled, and run
};

/// Compiles and runs the graph, reads its lock and compares. Findings are filtered by the settings.
CheckedGraph checkGraph(const Registry &registry, const CheckSettings &settings, const std::string &path);

/// Whether a glob of `ignored` means this graph.
bool isIgnored(const CheckSettings &settings, const std::string &glob, const std::string &graph);

/// Rules that the settings leave: by category, `except` and `ignored`.
bool isWanted(const CheckSettings &settings, const GraphFinding &finding);

} // namespace opc::cli
