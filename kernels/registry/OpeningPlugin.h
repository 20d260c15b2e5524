// Which plugin is being opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

/// The plugin whose static constructors are running, for what ends a process; null: none.
const char *openingPlugin() noexcept;
/// Whether one has ever been opened: threads that nobody knows may be its.
bool hasOpenedPlugin() noexcept;

} // namespace opc
