// The operators that this process knows, as snapshots: whoever has one keeps it while others are registered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <functional>
#include <memory>
#include <string>

namespace opc::python {

/// Shared: programs and sessions outlive the snapshot that was current when they were made.
using RegistryPtr = std::shared_ptr<const Registry>;

/// The present snapshot; the built-in operators at first. From any thread.
RegistryPtr currentRegistry();

/// A part of every snapshot from now on. It is called for each new one, so it must give the same thing again; it runs
/// no Python, for it is called under a lock.
using RegistryPart = std::function<Status(Registry *)>;
/// Adds a part, or replaces the one of that name, and makes the next snapshot. On failure nothing changes.
Status setRegistryPart(const std::string &name, RegistryPart part);
/// Adds a plugin's operators.
Status addPlugin(const std::string &path);

} // namespace opc::python
