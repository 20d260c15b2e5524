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
/// op that ends the process crashes; the ops behind it have another one. Errors: OPC0604 where no case had begun.
Result<KernelReport> runKernelTrials(const std::vector<std::string> &arguments,
                                     const std::vector<const user_op::OpDef *> &ops);

/// A line of its own, also behind what a kernel prints.
void writeJsonLine(Terminal &terminal, const Json &line);
Json kernelFindingJson(const KernelFinding &finding);
std::optional<KernelFinding> readKernelFinding(const Json &finding);
/// "it ends the process: Segmentation fault".
std::string processEndText(const ProcessEnd &end);

/// The findings as a list, and in words.
Json kernelFaultsJson(const KernelReport &report);
std::string kernelFaultsText(const KernelReport &report);

} // namespace opc::cli
