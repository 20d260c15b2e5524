// checkKernels() in a process of its own, which kernels may end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"
#include "JsonOutput.h"
#include "KernelCheck.h"
#include "ProcessOutput.h"

#include <optional>

namespace opc::cli {

/// In that process: a line of JSON before each case that is tried, and one with each op's report.
void writeKernelTrials(Terminal &terminal, const Registry &registry, const std::vector<const user_op::OpDef *> &ops);

/// Runs this program with `arguments`, which make it write the trials of the ops whose names follow, and reads them. An
/// op that ends the process crashes, one of which a case takes more than `seconds` hangs; the ops behind it have
/// another process. Errors: OPC0604 where no case had begun.
Result<KernelReport> runKernelTrials(const std::vector<std::string> &arguments,
                                     const std::vector<const user_op::OpDef *> &ops, double seconds);

/// A line of its own, also behind what a kernel prints.
void writeJsonLine(Terminal &terminal, const Json &line);
Json kernelFindingJson(const KernelFinding &finding);
std::optional<KernelFinding> readKernelFinding(const Json &finding);
/// The line before a case.
void writeBeginning(Terminal &terminal, const std::string &op, const std::string &sample, const std::string &type);
/// The line before another process, whose start is no part of a case.
void writeStart(Terminal &terminal);
/// Waits `seconds` after the line before a case. What is no case, as the start of the process, has a minute or as long.
ProcessWatch watchBeginnings(double seconds);
/// What the op whose case had begun is at fault for: "it ends the process: Segmentation fault".
KernelFinding faultOfEnd(KernelFinding begun, const ProcessEnd &end, double seconds);

/// The findings as a list, and in words.
Json kernelFaultsJson(const KernelReport &report);
std::string kernelFaultsText(const KernelReport &report);

} // namespace opc::cli
