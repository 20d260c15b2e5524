// --native of opc compile: machine code in a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "NativeFacts.h"
#include "Option.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

class NativeFlags {
public:
  Option option();
  bool isAsked() const { return !levels_.empty(); }
  /// Errors: a word that is no level; --native with what is no plan for the cpu.
  Status check(bool isPlan, const CompileOptions &options);
  void apply(Pipeline *pipeline) const;

private:
  std::string levels_; // "true" for all
  std::vector<CodeLevel> wanted_;
};

/// "machine code of 3 loops of 4 (v3, v4): 6 images, 48 KiB in 0.05 s", and a line for each loop that has none.
std::string nativeText(const NativeFacts &facts);
Json nativeJson(const NativeFacts &facts);

} // namespace opc::cli
