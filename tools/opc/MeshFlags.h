// The flags that plan a graph for several devices, and what was planned as text.
#pragma once

#include "CommandLine.h"
#include "JsonOutput.h"
#include "MeshRequest.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

class MeshFlags {
public:
  std::vector<Option> options();
  /// Nothing without --mesh (unless `defaultDims` says what it is by default); then the other flags are usage errors.
  Result<std::optional<MeshRequest>> request(const std::vector<int64_t> &defaultDims = {}) const;

private:
  std::string mesh_, deviceMemory_, microBatches_, random_;
  std::vector<std::string> pins_, stages_;
  bool noOverlap_ = false;
};

std::string sbpText(const SbpReport &report);
Json sbpJson(const SbpReport &report);
/// The transitions alone, largest first.
std::string boxingText(const SbpReport &report);

} // namespace opc::cli
