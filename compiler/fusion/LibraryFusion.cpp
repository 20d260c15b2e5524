// The library fusions as passes.
// SPDX-License-Identifier: Apache-2.0
#include "LibraryFusion.h"
#include "AttrBridge.h"
#include "DeviceRegions.h"
#include "MutableInputs.h"
#include "OpcDialect.h"
#include "Passes.h"
#include "Regions.h"

using namespace mlir;

namespace opc {

bool trains(ModuleOp module) {
  bool found = false;
  module.walk([&](ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    found |= op.getRole() != ir::Role::kForward || (def && !def->gradientOf.empty()) ||
             (def && def->modifyInputs && writesInputs(*def, ir::toOpConf(op)));
  });
  return found;
}

#define GEN_PASS_DEF_FUSECONVOLUTIONS
#define GEN_PASS_DEF_KEEPCHANNELSLAST
#define GEN_PASS_DEF_FORMREGIONS
#include "Passes.h.inc"

namespace {

struct FuseConvolutionsPass : impl::FuseConvolutionsBase<FuseConvolutionsPass> {
  void runOnOperation() override {
    if (trains(getOperation())) return;
    fuseConvolutions(getOperation());
    fuseIntegers(getOperation());
  }
};

struct KeepChannelsLastPass : impl::KeepChannelsLastBase<KeepChannelsLastPass> {
  void runOnOperation() override {
    if (!trains(getOperation())) keepChannelsLast(getOperation());
  }
};

struct FormRegionsPass : impl::FormRegionsBase<FormRegionsPass> {
  explicit FormRegionsPass(DeviceType device = DeviceType::kCPU, bool joins = true,
                           std::vector<FusionFacts> *facts = nullptr)
      : device(device), joins(joins), facts(facts) {}
  void runOnOperation() override {
    if (!joins) return formSingleRegions(getOperation(), registryOf(&getContext()));
    FusionFacts made;
    if (failed(formRegions(getOperation(), registryOf(&getContext()), device, facts ? &made : nullptr)))
      return signalPassFailure();
    if (facts) facts->push_back(std::move(made));
  }
  DeviceType device;
  bool joins;
  std::vector<FusionFacts> *facts;
};

} // namespace

std::unique_ptr<Pass> createFormRegions(std::vector<FusionFacts> *facts) {
  return std::make_unique<FormRegionsPass>(DeviceType::kCPU, true, facts);
}
std::unique_ptr<Pass> createFormDeviceRegions(bool joins, std::vector<FusionFacts> *facts) {
  return std::make_unique<FormRegionsPass>(DeviceType::kGPU, joins, facts);
}
} // namespace opc
