// Flags of LLVM and MLIR, by their own parser.
// SPDX-License-Identifier: Apache-2.0
#include "CompilerFlags.h"

#include "PhasePasses.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace opc {

namespace {

bool isSet = false;

#define GEN_PASS_REGISTRATION
#include "Passes.h.inc"

/// Those after which the parser would print and end the process.
constexpr llvm::StringLiteral kEnding[] = {"help", "h", "help-hidden", "help-list", "help-list-hidden", "version"};

bool endsProcess(llvm::StringRef flag) { return llvm::is_contained(kEnding, flag.ltrim('-').split('=').first); }

} // namespace

bool hasCompilerFlags() { return isSet; }

Status setCompilerFlags(const std::vector<std::string> &flags) {
  if (flags.empty() || isSet) return Status::ok();
  registerOpcPasses(); // flags name them
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  std::vector<const char *> words = {"opc"};
  for (const std::string &flag : flags) {
    if (flag.size() < 2 || flag[0] != '-' || endsProcess(flag))
      return Status(StatusCode::kUsage, "OPC0001", "--mlir takes a flag of LLVM or MLIR, not '" + flag + "'")
          .withHelp("--mlir=-mlir-print-ir-after-all; opc-opt --help lists them");
    words.push_back(flag.c_str());
  }
  std::string said;
  llvm::raw_string_ostream errors(said);
  if (!llvm::cl::ParseCommandLineOptions(static_cast<int>(words.size()), words.data(), "", &errors))
    return Status(StatusCode::kUsage, "OPC0001", "--mlir: " + llvm::StringRef(said).trim().str())
        .withHelp("opc-opt --help lists the flags");
  isSet = true;
  return Status::ok();
}

} // namespace opc
