// What -v shows: progress for people who look for the reason of something, on standard error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc::cli {

/// 0: nothing, 1: logInfo, 2: logDebug too.
void startLog(int verbosity);
void logInfo(const std::string &text);
void logDebug(const std::string &text);

} // namespace opc::cli
