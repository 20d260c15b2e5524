// opc debug replay: the command of a crash bundle once more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BundleFile.h"
#include "FailureSignature.h"
#include "Invocation.h"

#include <string>
#include <vector>

namespace opc::cli {

struct ReplayOptions {
  bool anyFile = false;
  double timeout = 60;
};

/// A bundle's command, to be run on its graph or on another one. Its files go to a folder that lives as long as this.
class CrashReplay {
public:
  CrashReplay(const Invocation &invocation, ReplayOptions options) : invocation_(invocation), options_(options) {}
  ~CrashReplay();
  CrashReplay(const CrashReplay &) = delete;
  CrashReplay &operator=(const CrashReplay &) = delete;

  /// Errors: OPC0706, OPC0750, OPC0751.
  Status open(const std::string &bundle);
  const BundleFile &bundle() const { return bundle_; }
  /// Where the bundle's graph is now.
  const std::string &graph() const { return graph_; }
  /// Options of the bundle's command that are left out.
  const std::vector<std::string> &dropped() const { return dropped_; }

  struct Result {
    FailureSignature signature;
    RecordedFailure failure; // exit code 0: it did not fail
  };
  opc::Result<Result> runOn(const std::string &graph) const;

private:
  Status makeScratch();
  Status placeGraph();
  std::string settings() const;
  std::string shellCommand(const std::string &graph) const;

  const Invocation &invocation_;
  const ReplayOptions options_;
  BundleFile bundle_;
  std::string scratch_, graph_;
  std::vector<std::string> words_, dropped_;
};

/// Exit code 0: the same failure came, 1: another one or none did.
Outcome<int> replayCrash(Invocation &invocation, const ReplayOptions &options, const std::string &path);

} // namespace opc::cli
