// Crash bundles and reproducers that are read: by anybody, from anybody.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Config.h"
#include "opc/Status.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

/// How a command failed, as a bundle says it.
struct RecordedFailure {
  int exitCode = 0;
  std::string code, signal, phase, pass;
  bool operator==(const RecordedFailure &) const = default;
  /// "OPC0999 in phase simplify, pass opc-merge-equal-ops (SIGSEGV)".
  std::string text() const;
};

struct BundleFile {
  std::string path;
  std::string version;
  std::vector<std::string> command;                         // {} for the graph
  std::string graphPath, graphFile;                         // as it was called; a file of the bundle, or ""
  std::string graph;                                        // its bytes, when the bundle has them
  std::string graphDigest;                                  // SHA-256
  std::vector<std::pair<std::string, std::string>> plugins; // path, SHA-256
  std::map<std::string, std::vector<std::string>> settings;
  std::vector<ToleranceRule> tolerances; // of the settings
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<RecordedFailure> failure; // a reproducer has none
};

/// Reads a folder opc-crash-..., or a file of `opc compile --reproducer`. Links are not followed, sizes and digests are
/// checked. Errors: OPC0706, OPC0750.
Result<BundleFile> readBundle(const std::string &path);
/// Whether `path` may be one: a folder with a bundle.json, or a file that begins as a reproducer does.
bool looksLikeBundle(const std::string &path);
/// The failure of a bundle.json in `folder`; none when there is none that can be read.
std::optional<RecordedFailure> failureIn(const std::string &folder);

} // namespace opc::cli
