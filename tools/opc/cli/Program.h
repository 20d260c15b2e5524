// What every program of opc does around its work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Terminal.h"

#include <functional>
#include <string>

namespace opc::cli {

/// What is told of a crash, in the handler of its signal: the code of opc or of a plugin crashed, or (`isKernel`) the
/// kernel of an op. The part of an error that was begun (CrashText.h) goes on when it was no kernel.
using CrashReport = void (*)(int signal, bool isKernel);
/// With a report, a crash outside of kernels ends the program with kExitInternal.
void onCrash(CrashReport report);
/// Instead of the plain text: what std::terminate() says and does where no plugin and no kernel is to blame. It ends
/// the process.
using StrayReport = void (*)(const std::string &what);
void onStrayException(StrayReport report);

/// Says so and ends the process as an error where an operator or a plugin calls _exit(status) in this process; else
/// nothing.
void noteEnd(int status);

/// The exit code of `work`, or that of the exception that ended it; what was written has then left the process. Before
/// main() begins, a processor that lacks what the kernels need ends the program with OPC0007.
int runProgram(Terminal &terminal, const std::function<int()> &work);

} // namespace opc::cli
