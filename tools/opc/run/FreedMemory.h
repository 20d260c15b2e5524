// What starting and compiling took goes back before a run takes its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::cli {

/// Gives the pages of the program's and its libraries' code and constants back: those that are needed are read again.
void giveBackCode();
/// Gives back what has been freed, and the code, of which the compiler is the larger part.
void giveBackFreed();

} // namespace opc::cli
