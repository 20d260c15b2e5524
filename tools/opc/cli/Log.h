// What -v shows: progress for people who look for the reason of something, on standard error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc::cli {

/// -1: nothing, 0: logNote, 1: logInfo too, 2: logDebug too.
void startLog(int verbosity);
/// What is worth a word without -v: "note: ...".
void logNote(const std::string &text);
void logInfo(const std::string &text);
void logDebug(const std::string &text);

} // namespace opc::cli
