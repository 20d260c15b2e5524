// The descriptors 0, 1 and 2 of a program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

/// A program may be started with standard files that are closed: the next file that it opens would get their number,
/// and with it what is written to the standard output. Those that are missing become ones that fail as closed ones do.
/// To be called before anything is opened.
void openStandardFiles();

} // namespace opc
