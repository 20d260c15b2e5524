// --cast-ops and --place: single ops in another element type, or on another device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

class OpFlags {
public:
  std::vector<Option> options();
  /// Errors: OPC0001, OPC0006 for a device that is not here.
  Status apply(CompileOptions *options) const;
  /// --place on another device than the CPU: OPC0006.
  Status checkDevice(const std::string &device) const;
  bool any() const { return !casts_.empty() || !places_.empty(); }

private:
  std::vector<std::string> casts_, places_;
};

} // namespace opc::cli
