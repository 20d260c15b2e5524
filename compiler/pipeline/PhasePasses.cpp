// Which passes a phase has.
// SPDX-License-Identifier: Apache-2.0
#include "PhasePasses.h"

#include "ControlGraphs.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace opc {

/// The simplifications in order. Each needs one walk: removing a no-op can make two ops equal, and merging two ops
/// makes no new no-op.
static void populateSimplify(OpPassManager &passes, bool splatsOnly) {
  FoldConstantsOptions folding;
  folding.splatsOnly = splatsOnly;
  passes.addPass(createFoldConstants(folding));
  passes.addPass(createRemoveNoOps());
  passes.addPass(createMergeEqualOps());
  passes.addPass(createEliminateDeadOps());
}

void populatePhase(Phase phase, OpPassManager &passes, const CompileOptions &options, GraphFacts *facts) {
  switch (phase) {
  case Phase::kShape:
    passes.addPass(createInferShapes());
    // Ops with graphs run on one CPU.
    if (options.mesh || options.device != "cpu") passes.addPass(createWriteOutControl(controlTexts(options)));
    if (options.cut.hasParts()) {
      if (!options.castOps.empty()) passes.addPass(createCastOps(options.castOps, CastStep::kNames));
      passes.addPass(createCutGraph(options.cut));
    }
    if (!options.castOps.empty())
      passes.addPass(createCastOps(options.castOps, options.cut.hasParts() ? CastStep::kOps : CastStep::kAll));
    return;
  case Phase::kGrad:
    if (!options.gradient) return;
    passes.addPass(createDropTrainConf());
    passes.addPass(createAddGradients(*options.gradient, facts ? &facts->gradients : nullptr, controlTexts(options)));
    return;
  case Phase::kSimplify:
    passes.addPass(createRequireOutputs());
    if (options.simplify) populateSimplify(passes, /*splatsOnly=*/false);
    return;
  case Phase::kSbp:
    if (!options.mesh) return;
    passes.addPass(createPlaceOps(*options.mesh));
    passes.addPass(createAssignSignatures(*options.mesh, facts ? &facts->mesh : nullptr));
    return;
  case Phase::kBoxing:
    if (!options.mesh) return;
    passes.addPass(createInsertBoxing(*options.mesh));
    passes.addPass(createScheduleOps());
    passes.addPass(createNumberBoxings());
    passes.addPass(createAssignLags(*options.mesh));
    passes.addPass(createSplitRanks(*options.mesh));
    return;
  case Phase::kFuse: {
    auto *const found = facts ? &facts->fusion : nullptr;
    // What lies inside of a region has no size of its own, and would need one at every size of a range.
    const bool isFixed = options.sizes.empty();
    if (options.deviceType() != DeviceType::kCPU) { // libraries are the CPU's
      if (isFixed) passes.addPass(createFormRegions({/*gpu=*/true, options.fuse && options.regions}, found));
      return;
    }
    if (!options.fuse) return;
    // Whoever looks at every tensor expects the graph's types, and layouts.
    if (options.regions && options.prepares && isFixed && !options.mesh) passes.addPass(createWidenHalf());
    FuseConvolutionsOptions convolutions;
    convolutions.winograd = options.winograd;
    convolutions.keeps.assign(options.keptTensors.begin(), options.keptTensors.end());
    passes.addPass(createFuseConvolutions(convolutions));
    // Which ops there are follows from their sizes; of ranks that share heads each has its own.
    if (options.regions && isFixed && !options.mesh) passes.addPass(createFuseAttention());
    if (options.regions) passes.addPass(createKeepChannelsLast());
    if (options.regions && options.prepares && isFixed && !options.mesh) passes.addPass(createPrepareOps());
    if (options.regions && isFixed && !options.mesh)
      passes.addPass(createCutBatches(controlTexts(options), facts ? &facts->batchParts : nullptr));
    if (options.regions && isFixed) passes.addPass(createFormRegions({}, found));
    return;
  }
  case Phase::kSchedule:
    if (options.deviceType() != DeviceType::kCPU) passes.addPass(createAssignDevices({options.cpuFallback}));
    passes.addPass(createScheduleOps());
    if (options.fuse && options.regions && options.sizes.empty())
      passes.addPass(createBatchUpdates({options.deviceType() == DeviceType::kGPU}));
    return;
  case Phase::kImport:
  case Phase::kMemory:
  case Phase::kPlan: return;
  }
}

void populateRewrite(Rewrite rewrite, OpPassManager &passes, const CompileOptions &options) {
  switch (rewrite) {
  case Rewrite::kPrune: passes.addPass(createPruneGraph(options.cut)); return;
  case Rewrite::kTidy: return populateSimplify(passes, /*splatsOnly=*/true);
  }
}

void populatePipeline(Phase to, OpPassManager &passes, const CompileOptions &options, GraphFacts *facts) {
  for (Phase phase : allPhases()) {
    if (phase > to) return;
    const bool byRank = options.mesh && phase > Phase::kBoxing;
    populatePhase(phase, byRank ? passes.nest<ModuleOp>() : passes, options, facts);
  }
}

} // namespace opc
