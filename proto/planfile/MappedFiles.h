// Files that are mapped: who reads one that becomes shorter meanwhile can be told so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstddef>
#include <string>

namespace opc {

/// Notes that `size` bytes at `data` are those of the file of this name, until forgetMapping(data).
void rememberMapping(const char *data, size_t size, const std::string &path);
void forgetMapping(const char *data);

/// The name of the file of which `address` is mapped, or null. Async-signal-safe.
const char *pathOfMapping(const void *address);

/// OPC0702 where a mapped file, or the one of which `address` is mapped, has fewer bytes by now than are mapped: what
/// was read beyond its end was zeros, or ends the process.
Status mappingsAreWhole(const void *address = nullptr);

} // namespace opc
