// opc-opt: runs passes over IR text, for lit tests and for people who write passes.
// SPDX-License-Identifier: Apache-2.0
#include "GraphPass.h"
#include "OpcDialect.h"
#include "PhasePasses.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#include <cstdio>

namespace {

using namespace mlir;

#define GEN_PASS_REGISTRATION
namespace passes {
using namespace opc;
#include "Passes.h.inc"
} // namespace passes

/// Hands the registry to the dialect when a context loads it.
struct RegistryExtension : DialectExtension<RegistryExtension, opc::ir::OpcDialect> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RegistryExtension)
  explicit RegistryExtension(const opc::Registry *registry) : registry(registry) {}
  void apply(MLIRContext *, opc::ir::OpcDialect *dialect) const final { dialect->setRegistry(registry); }
  const opc::Registry *registry;
};

/// What opc compile would run, up to a phase.
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> to{*this, "to", llvm::cl::desc("The last phase"), llvm::cl::init("tasks")};
  Option<std::string> mesh{*this, "mesh", llvm::cl::desc("Dimensions of a mesh of devices; none: one device")};
  Option<std::string> loss{*this, "loss", llvm::cl::desc("Add the gradients of this loss")};
};

void addPipeline(OpPassManager &pm, const PipelineOptions &asked) {
  opc::CompileOptions options;
  if (!asked.loss.empty()) options.gradient.emplace().losses = {asked.loss};
  if (!asked.mesh.empty()) {
    const auto dims = opc::parseMesh(asked.mesh);
    if (!dims) llvm::report_fatal_error("opc-pipeline: mesh takes dimensions like 2x4", /*gen_crash_diag=*/false);
    options.mesh.emplace().dims = *dims;
  }
  const auto to = opc::parsePhase(asked.to);
  if (!to) llvm::report_fatal_error("opc-pipeline: there is no such phase", /*gen_crash_diag=*/false);
  opc::populatePipeline(*to, pm, options, nullptr);
}

} // namespace

int main(int argc, char **argv) {
  opc::Registry registry;
  if (opc::Status s = registry.addLinked(); !s.isOk()) {
    std::fprintf(stderr, "opc-opt: %s\n", s.toString().c_str());
    return 70;
  }
  registry.freeze();
  DialectRegistry dialects;
  dialects.insert<func::FuncDialect, opc::ir::OpcDialect>();
  dialects.addExtension(TypeID::get<RegistryExtension>(), std::make_unique<RegistryExtension>(&registry));
  passes::registerOpcPasses();
  registerPass([] { return createCSEPass(); });
  PassPipelineRegistration<PipelineOptions> pipeline("opc-pipeline", "The passes that opc compile runs", addPipeline);
  PassPipelineRegistration<> tidy("opc-tidy", "The passes over a graph that becomes a file", [](OpPassManager &pm) {
    opc::populateRewrite(opc::Rewrite::kTidy, pm, opc::CompileOptions());
  });
  if (succeeded(MlirOptMain(argc, argv, "opc-opt: passes of opc\n", dialects))) return 0;
  opc::throwAgain();
  return 1;
}
