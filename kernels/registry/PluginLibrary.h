// Which shared library a plugin is, whatever path names it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc {

/// The same for each path of one library that openPlugin() has opened; null: none was opened there.
const void *pluginLibrary(const std::string &path);

} // namespace opc
