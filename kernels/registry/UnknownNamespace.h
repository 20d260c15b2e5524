// What may be said of an op that no registry knows and whose name has a namespace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc {

/// "; an operator in Python ..." for "demo::relu", "" for a name without a namespace.
inline std::string hintOfNamespace(const std::string &type) {
  if (type.find("::") == std::string::npos) return "";
  return "; if it is written in Python, --op-path DIR names the folder of its source, and the file NAME.ops.pbtxt "
         "belongs beside NAME.pbtxt";
}

} // namespace opc
