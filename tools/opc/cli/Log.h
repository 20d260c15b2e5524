// What -v shows: progress for people who look for the reason of something, on standard error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>

namespace opc::cli {

/// -1: nothing, 0: logNote, 1: logInfo too, 2: logDebug too.
void startLog(int verbosity);
/// From now on all of it goes to the end of a file as well, whatever the verbosity; `title` stands first. Errors:
/// OPC0002 for a file that is there and no log, OPC0707.
Status openLog(const std::string &path, const std::string &title);
bool logs();
/// OPC0707 when the file could not take all of it so far.
Status logWritten();
/// Lines for the file alone: what has been said on standard error already.
void logText(const std::string &text);
/// What is worth a word without -v: "note: ...".
void logNote(const std::string &text);
void logInfo(const std::string &text);
void logDebug(const std::string &text);

} // namespace opc::cli
