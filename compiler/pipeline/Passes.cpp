// The compiler's phases as MLIR passes.
// SPDX-License-Identifier: Apache-2.0
#include "Passes.h"
#include "GradientGeneration.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "LibraryFusion.h"
#include "OpcDialect.h"
#include "Schedule.h"
#include "ShapeInference.h"
#include "Simplify.h"
#include "TrainingGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace opc {
namespace {

struct SchedulePass : PassWrapper<SchedulePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SchedulePass)
  StringRef getArgument() const override { return "opc-schedule"; }
  StringRef getDescription() const override { return "Chooses the order of execution with the smallest peak"; }
  void runOnOperation() override {
    if (schedule(getOperation()).failed()) signalPassFailure();
  }
};

/// Shows the memory plan in the IR: each result's offset as an attribute of its op.
struct PlanMemoryPass : PassWrapper<PlanMemoryPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanMemoryPass)
  explicit PlanMemoryPass(const Registry &registry) : registry(&registry) {}
  StringRef getArgument() const override { return "opc-plan-memory"; }
  StringRef getDescription() const override { return "Plans buffers and writes their offsets as opc.offsets"; }
  void runOnOperation() override {
    ExecutionSchedule execution;
    if (planExecution(getOperation(), *registry, DeviceType::kCPU, &execution).failed()) return signalPassFailure();
    Builder b(&getContext());
    for (Operation &op : graphBlock(getOperation())) {
      SmallVector<int64_t> offsets;
      for (Value v : op.getResults())
        offsets.push_back(static_cast<int64_t>(execution.buffers[execution.bufferOf.lookup(v)].plan.offset));
      if (!offsets.empty()) op.setAttr(ir::kOffsetsAttr, b.getDenseI64ArrayAttr(offsets));
    }
    getOperation()->setAttr(ir::kArenaBytesAttr, b.getI64IntegerAttr(static_cast<int64_t>(execution.memory.arenaBytes)));
  }
  const Registry *registry;
};

/// Gradients as outputs NAME.grad; with segments, recomputation; with a learning rate, sgd updates instead.
struct GradientPass : PassWrapper<GradientPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GradientPass)
  explicit GradientPass(const Registry &registry) : registry(&registry) {}
  GradientPass(const GradientPass &other) : PassWrapper(other), registry(other.registry) {}
  StringRef getArgument() const override { return "opc-grad"; }
  StringRef getDescription() const override { return "Generates the gradient subgraph of a loss"; }
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Value loss = findLoss(module, lossName);
    auto wanted = findWanted(module, std::vector<std::string>(wrt.begin(), wrt.end()));
    if (!loss || failed(wanted)) return signalPassFailure();
    auto made = generateGradients(module, *registry, {loss}, *wanted);
    if (failed(made)) return signalPassFailure();
    RecomputeConfig again;
    again.segments = segments;
    if (!again.empty() && failed(recompute(module, again))) return signalPassFailure();
    if (rate > 0) {
      TrainingConfig training;
      training.groups.emplace_back();
      training.groups[0].learningRate = rate;
      if (failed(addTraining(module, *registry, training, *made))) return signalPassFailure();
      return;
    }
    GraphBuilder builder(module, *registry);
    for (const GeneratedGradient &g : *made)
      if (g.gradient) builder.addOutput(g.name + ".grad", g.gradient);
  }
  Option<std::string> lossName{*this, "loss", llvm::cl::desc("The loss: a tensor, output or op")};
  ListOption<std::string> wrt{*this, "wrt", llvm::cl::desc("Globs; none: the trainable variables")};
  Option<int64_t> segments{*this, "segments", llvm::cl::desc("Recompute in so many segments"), llvm::cl::init(0)};
  Option<double> rate{*this, "sgd", llvm::cl::desc("Add sgd updates at this rate"), llvm::cl::init(0.0)};
  const Registry *registry;
};

/// Hands the registry to the dialect when a context loads it.
struct RegistryExtension : DialectExtension<RegistryExtension, ir::OpcDialect> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RegistryExtension)
  explicit RegistryExtension(const Registry *registry) : registry(registry) {}
  void apply(MLIRContext *, ir::OpcDialect *dialect) const final { dialect->setRegistry(registry); }
  const Registry *registry;
};

} // namespace

void registerOpcPasses(DialectRegistry *dialects, const Registry &registry) {
  dialects->insert<func::FuncDialect, ir::OpcDialect>();
  const Registry *r = &registry;
  dialects->addExtension(TypeID::get<RegistryExtension>(), std::make_unique<RegistryExtension>(r));
  registerPass([r] { return createShapeInferencePass(*r); });
  registerPass([r] { return createFoldConstantsPass(*r); });
  registerPass([r] { return createRemoveNoOpsPass(*r); });
  registerPass([] { return createEliminateDeadOpsPass(); });
  registerPass([] { return createFuseConvolutionsPass(); });
  registerPass([] { return createKeepChannelsLastPass(); });
  registerPass([r]() -> std::unique_ptr<Pass> { return std::make_unique<GradientPass>(*r); });
  registerPass([]() -> std::unique_ptr<Pass> { return std::make_unique<SchedulePass>(); });
  registerPass([r]() -> std::unique_ptr<Pass> { return std::make_unique<PlanMemoryPass>(*r); });
  registerPass([] { return createCSEPass(); });
}

} // namespace opc
