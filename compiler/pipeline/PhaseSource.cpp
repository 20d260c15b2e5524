// A phase as input of opc-opt.
// SPDX-License-Identifier: Apache-2.0
#include "PhaseSource.h"

#include "PhasePasses.h"

using namespace mlir;

namespace opc {

std::string phaseSource(Phase phase, ModuleOp module, llvm::ArrayRef<OwningOpRef<ModuleOp>> parts,
                        const CompileOptions &options) {
  std::string text = std::string("// before the phase ") + phaseName(phase) + "\n// opc-opt --pass-pipeline='";
  llvm::raw_string_ostream os(text);
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  OwningOpRef<ModuleOp> whole;
  if (!parts.empty()) {
    whole = ModuleOp::create(UnknownLoc::get(module.getContext()));
    for (const auto &part : parts) whole->push_back(ModuleOp(part.get()).clone());
  }
  populatePhase(phase, whole ? passes.nest<ModuleOp>() : passes, options, nullptr);
  passes.printAsTextualPipeline(os);
  os << "' failing.mlir\n";
  OpPrintingFlags flags;
  flags.enableDebugInfo();
  (whole ? *whole : module)->print(os, flags);
  os << "\n";
  return text;
}

} // namespace opc
