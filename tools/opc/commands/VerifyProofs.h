// checkPurity() and checkSignatures() in a process of their own, which kernels may end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"
#include "KernelCheck.h"
#include "PurityCheck.h"
#include "SignatureCheck.h"

namespace opc::cli {

struct Proofs {
  PurityReport purity;
  std::vector<SignatureCheck> signatures; // in the order of the ops
};

/// In that process: lines of JSON, one before each case or op that is tried, and those with what was found.
void writeProofs(Terminal &terminal, const Registry &registry, const std::vector<const user_op::OpDef *> &ops,
                 PurityOptions purity, SignatureCheckOptions signatures);

/// Runs this program with `arguments`, which make it write the proofs of the ops whose names follow, and reads them. An
/// op that ends the process crashes, one of which a case takes more than `seconds` hangs: that is added to `kernels`;
/// then the others are tried anew, since what has run before is part of what purity is. Errors: OPC0604 where no op had
/// begun.
Result<Proofs> runProofs(const std::vector<std::string> &arguments, std::vector<const user_op::OpDef *> ops,
                         double seconds, KernelReport *kernels);

} // namespace opc::cli
