// What compiling took goes back before a run takes its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::cli {

/// Gives freed memory back to the system, and the pages of the program itself, of which the compiler is the larger
/// part: those that are needed are read again.
void giveBackFreed();

} // namespace opc::cli
