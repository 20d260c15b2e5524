// --cast-ops, --place and --allow-cpu-fallback: single ops in another element type, or on another device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

class OpFlags {
public:
  /// What they are called, for what refuses them.
  static std::string names() { return "--cast-ops, --place, --allow-cpu-fallback and --no-winograd"; }
  std::vector<Option> options();
  /// Errors: OPC0001, OPC0006 for a device that is not here.
  Status apply(CompileOptions *options) const;
  bool any() const { return !casts_.empty() || !places_.empty() || allowCpuFallback_ || noWinograd_; }

private:
  std::vector<std::string> casts_, places_;
  bool allowCpuFallback_ = false, noWinograd_ = false;
};

} // namespace opc::cli
