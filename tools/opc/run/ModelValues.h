// Values of variables that came with a graph (an ONNX model).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StoredTensor.h"
#include "ValueGiver.h"

#include <map>
#include <set>
#include <string>

namespace opc::cli {

using ModelValues = std::map<std::string, StoredTensor>;

/// Sets the variables of which the command line gives no others; their names. Those of another type than the graph's
/// are left out.
Result<std::set<std::string>> giveModelValues(Session &session, const ModelValues &values, const NamedValues &inputs,
                                              const ValueFlags &flags);

} // namespace opc::cli
