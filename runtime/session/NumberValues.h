// Tensors of a model that are parts of ops: what they are, for who gives them values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "Session.h"

#include "plan.pb.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace opc::runtime {

class NumberValues {
public:
  /// Errors: OPC0812.
  static Result<NumberValues> read(const plan::Plan &plan);
  /// What messages call one.
  static std::string shown(const std::string &name) { return "'" + name + "', a number of the model,"; }
  bool has(const std::string &name) const { return numbers_.count(name) != 0; }
  /// In the plan's order.
  const std::vector<PortInfo> &list() const { return list_; }
  /// OPC0719 where there is such a number and it has another value. `isVariable`: other ops read it as one.
  Status check(const std::string &name, const HostTensor &tensor, bool isVariable) const;

private:
  std::unordered_map<std::string, graph::ModelNumber> numbers_;
  std::vector<PortInfo> list_;
};

} // namespace opc::runtime
