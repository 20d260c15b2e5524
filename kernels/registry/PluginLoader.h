// Opens shared libraries that bring operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <string>
#include <vector>

namespace opc {

/// What loading one library brought.
struct PluginInfo {
  std::string path;
  int apiVersion = 0;
  std::vector<std::string> ops, kernels, grads; // op type names, sorted; one entry a registration
  std::string source;                           // of operators in Python, where they come from; "" for a library
};

/// "loaded plugins: a.so, b.so; operators in Python: g.ops.pbtxt", and how one is loaded where there are none.
std::string loadedText(const std::vector<PluginInfo> &plugins);

/// A library that is open, and what its static registrars have left. It stays open until the process ends.
struct LoadedPlugin {
  PluginInfo info;
  user_op::PendingRegistrations registrations;
};

/// Opens a plugin: a shared library of this SDK version. Errors: OPC0902 when it is none, OPC0905 for another version.
Result<LoadedPlugin> openPlugin(const std::string &path);

} // namespace opc
