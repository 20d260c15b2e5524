// The outputs of one element: losses and other numbers to watch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"
#include "TrainingLog.h"

#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

class ScalarOutputs {
public:
  explicit ScalarOutputs(const Session &session);
  std::vector<std::string> names() const;
  /// Of the last step. Errors: those of Session::fetch, also of a copy from the device that fails.
  Result<std::vector<std::pair<std::string, double>>> read(const Session &session) const;

private:
  std::vector<PortInfo> outputs_;
};

} // namespace opc::cli
