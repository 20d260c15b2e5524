// How strict a check is: categories, rules that are left out, what costs may grow by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Config.h"
#include "GraphCheck.h"
#include "Option.h"

#include <string>
#include <vector>

namespace opc::cli {

class StrictnessFlags {
public:
  std::vector<Option> options();
  /// Errors: OPC0001 for a category, a rule or a cost that there is not.
  Status apply(const Config &config, CheckSettings *settings) const;

private:
  Status applyGrowth(const Config &config, CheckSettings *settings) const;
  std::vector<std::string> use_, except_, ignore_, grow_;
};

} // namespace opc::cli
