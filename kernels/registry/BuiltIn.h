// Whether a definition or a kernel is the compiler's own, or a plugin's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <string>

namespace opc {

/// Linked into the program: its library has no path. Every plugin's has one, however the file is called.
inline bool isBuiltIn(const user_op::Origin &origin) { return origin.library.empty(); }

/// What messages and reports call its library: "built-in", or the plugin's path.
inline std::string libraryText(const user_op::Origin &origin) {
  return isBuiltIn(origin) ? "built-in" : origin.library;
}

} // namespace opc
