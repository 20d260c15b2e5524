// Which plugin is being opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

/// The plugin whose static constructors are running, for what ends a process; null: none.
const char *openingPlugin() noexcept;

} // namespace opc
