// Planning for several devices as passes: placements, states, transitions, pace, the ranks' graphs.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingInsertion.h"
#include "CopiesOfEffects.h"
#include "EmitStatus.h"
#include "MeshText.h"
#include "Passes.h"
#include "PhysicalGraph.h"
#include "PipelineStages.h"
#include "SignatureAssignment.h"

using namespace mlir;

namespace opc {

#define GEN_PASS_DEF_PLACEOPS
#define GEN_PASS_DEF_ASSIGNSIGNATURES
#define GEN_PASS_DEF_INSERTBOXING
#define GEN_PASS_DEF_NUMBERBOXINGS
#define GEN_PASS_DEF_ASSIGNLAGS
#define GEN_PASS_DEF_SPLITRANKS
#include "Passes.h.inc"

namespace {

/// A pass over a MeshRequest: one that it is given, or the one that its options describe.
template <class Derived, template <class> class Base> class MeshPass : public Base<Derived> {
public:
  using Base<Derived>::Base;
  MeshPass() = default;
  MeshPass(const MeshPass &other) : Base<Derived>(other), request_(other.request_) {}
  explicit MeshPass(const MeshRequest &request) : request_(request) {}

  void runOnGraph() override {
    ModuleOp module = this->getOperation();
    if (request_) {
      if (derived().run(module, *request_).failed()) this->signalPassFailure();
      return;
    }
    auto request = described(module.getLoc());
    if (failed(request) || derived().run(module, *request).failed()) this->signalPassFailure();
  }

private:
  Derived &derived() { return *static_cast<Derived *>(this); }

  FailureOr<MeshRequest> described(Location location) {
    MeshRequest r;
    auto complain = [&](const std::string &option, const std::string &text) {
      return emitFinding(location, "OPC0001", option + " does not take '" + text + "'");
    };
    const auto dims = parseMesh(this->mesh);
    if (!dims) return complain("mesh", this->mesh);
    r.dims = *dims;
    for (const std::string &text : this->pins) {
      const auto pin = parsePin(text);
      if (!pin) return complain("sbp", text);
      r.pins.push_back(*pin);
    }
    for (const std::string &text : this->stages) {
      const auto stage = parseStage(text);
      if (!stage) return complain("stage", text);
      r.stages.push_back(*stage);
    }
    r.microBatches = this->microBatches;
    r.deviceMemory = static_cast<uint64_t>(this->deviceMemory);
    r.overlap = !this->noOverlap;
    if (this->randomSeed >= 0) r.randomSeed = static_cast<uint64_t>(this->randomSeed);
    return r;
  }

  std::optional<MeshRequest> request_; // without one the options say it
};

struct PlaceOpsPass : MeshPass<PlaceOpsPass, impl::PlaceOpsBase> {
  using MeshPass::MeshPass;
  LogicalResult run(ModuleOp module, const MeshRequest &request) { return placeOps(module, request); }
};

struct AssignSignaturesPass : MeshPass<AssignSignaturesPass, impl::AssignSignaturesBase> {
  using MeshPass::MeshPass;
  AssignSignaturesPass(const MeshRequest &request, MeshFacts *facts) : MeshPass(request), facts(facts) {}
  LogicalResult run(ModuleOp module, const MeshRequest &request) {
    MeshFacts unseen;
    warnOfCopies(module, request.devices());
    return assignSignatures(module, request, facts ? facts : &unseen);
  }
  MeshFacts *facts = nullptr;
};

struct InsertBoxingPass : MeshPass<InsertBoxingPass, impl::InsertBoxingBase> {
  using MeshPass::MeshPass;
  LogicalResult run(ModuleOp module, const MeshRequest &request) { return insertBoxing(module, request); }
};

struct NumberBoxingsPass : impl::NumberBoxingsBase<NumberBoxingsPass> {
  void runOnGraph() override { numberBoxings(getOperation()); }
};

struct AssignLagsPass : MeshPass<AssignLagsPass, impl::AssignLagsBase> {
  using MeshPass::MeshPass;
  LogicalResult run(ModuleOp module, const MeshRequest &request) { return assignLags(module, request); }
};

struct SplitRanksPass : MeshPass<SplitRanksPass, impl::SplitRanksBase> {
  using MeshPass::MeshPass;
  LogicalResult run(ModuleOp module, const MeshRequest &request) {
    putBeside(module, makePhysicalGraphs(module, request.devices()));
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createPlaceOps(const MeshRequest &request) { return std::make_unique<PlaceOpsPass>(request); }
std::unique_ptr<Pass> createAssignSignatures(const MeshRequest &request, MeshFacts *facts) {
  return std::make_unique<AssignSignaturesPass>(request, facts);
}
std::unique_ptr<Pass> createInsertBoxing(const MeshRequest &request) {
  return std::make_unique<InsertBoxingPass>(request);
}
std::unique_ptr<Pass> createAssignLags(const MeshRequest &request) { return std::make_unique<AssignLagsPass>(request); }
std::unique_ptr<Pass> createSplitRanks(const MeshRequest &request) { return std::make_unique<SplitRanksPass>(request); }

} // namespace opc
