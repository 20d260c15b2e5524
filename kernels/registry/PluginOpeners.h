// Plugins that are no shared libraries: who knows how to open them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PluginLoader.h"

#include <functional>
#include <string>

namespace opc {

/// Opens what a path names, and says what registrations it brings.
struct PluginOpener {
  std::string name; // "manifest"; one opener of a name, the last one that was given
  std::function<bool(const std::string &path)> fits;
  std::function<Result<LoadedPlugin>(const std::string &path)> open;
  std::string library = {}; // what libraryName() calls what it opens; empty: as a shared library
  bool isPython = false;    // the operators that it opens are defined in Python
};

/// From now on openPlugin() asks `opener` before it takes a path for a shared library.
void setPluginOpener(PluginOpener opener);
/// The opener of a path; nullptr when it is a shared library's.
std::shared_ptr<const PluginOpener> pluginOpener(const std::string &path);
/// What kernels from `library`, of their Origin, are said to be of where that is kept: a shared library's file name.
std::string libraryName(const std::string &library);
/// Whether operators from `library`, of their Origin, are defined in Python, which has other words than C++ for the
/// same.
bool isDefinedInPython(const std::string &library);

} // namespace opc
