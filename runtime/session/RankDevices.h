// What is to be said of the devices behind a run: how those of several ranks exchange, what the simulator has found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc {

/// How the ranks of this process exchange what lies on their devices: "over NCCL 2.28.9", "through the CPU's memory
/// (rank 0: libnccl.so.2 cannot be opened)"; empty where no session has run on several devices.
std::string exchangeOfDevices();

/// How many errors the simulator has found so far, those included that came up when nobody waited any more: as a
/// session's streams end. 0 where it has not been used.
size_t simulatorErrors();

} // namespace opc
