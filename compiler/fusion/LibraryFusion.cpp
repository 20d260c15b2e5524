// The library fusions as passes.
// SPDX-License-Identifier: Apache-2.0
#include "LibraryFusion.h"
#include "AttrBridge.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "OpcDialect.h"
#include "Passes.h"
#include "PrepareOps.h"
#include "Regions.h"
#include "WidenHalf.h"

#include <fnmatch.h>

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

bool isKept(Value v, const KeptTensors &kept) {
  if (kept.empty()) return false;
  const std::string name = ir::tensorName(v);
  return llvm::any_of(kept, [&](const std::string &glob) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; });
}

void setAttribute(ir::UserOp op, StringRef name, const AttrValue &value) {
  NamedAttrList attrs(op.getOpAttrs());
  attrs.set(name, ir::toMlir(op.getContext(), value));
  op.setOpAttrsAttr(attrs.getDictionary(op.getContext()));
}

#define GEN_PASS_DEF_WIDENHALF
#define GEN_PASS_DEF_FUSECONVOLUTIONS
#define GEN_PASS_DEF_FUSEATTENTION
#define GEN_PASS_DEF_KEEPCHANNELSLAST
#define GEN_PASS_DEF_PREPAREOPS
#define GEN_PASS_DEF_FORMREGIONS
#include "Passes.h.inc"

namespace {

struct WidenHalfPass : impl::WidenHalfBase<WidenHalfPass> {
  void runOnGraph() override { widenHalf(getOperation(), registryOf(&getContext())); }
};

struct FuseConvolutionsPass : impl::FuseConvolutionsBase<FuseConvolutionsPass> {
  using Base::Base;
  void runOnGraph() override {
    if (trains(getOperation())) {
      if (winograd) filterConvolutions(getOperation());
      return;
    }
    const KeptTensors kept(keeps.begin(), keeps.end());
    fuseConvolutions(getOperation(), winograd, kept);
    fuseIntegers(getOperation(), kept);
  }
};

struct FuseAttentionPass : impl::FuseAttentionBase<FuseAttentionPass> {
  void runOnGraph() override {
    if (!trains(getOperation())) fuseAttention(getOperation(), registryOf(&getContext()));
  }
};

struct KeepChannelsLastPass : impl::KeepChannelsLastBase<KeepChannelsLastPass> {
  void runOnGraph() override {
    if (!trains(getOperation())) keepChannelsLast(getOperation());
  }
};

struct PrepareOpsPass : impl::PrepareOpsBase<PrepareOpsPass> {
  void runOnGraph() override { prepareOps(getOperation()); }
};

struct FormRegionsPass : impl::FormRegionsBase<FormRegionsPass> {
  explicit FormRegionsPass(const FormRegionsOptions &options = {}, std::vector<FusionFacts> *facts = nullptr)
      : Base(options), facts(facts) {}
  void runOnGraph() override {
    const Registry &registry = registryOf(&getContext());
    if (!join) {
      if (gpu) formSingleRegions(getOperation(), registry);
      return;
    }
    FusionFacts made;
    const DeviceType device = gpu ? DeviceType::kGPU : DeviceType::kCPU;
    if (failed(formRegions(getOperation(), registry, device, facts ? &made : nullptr))) return signalPassFailure();
    if (facts) facts->push_back(std::move(made));
  }
  std::vector<FusionFacts> *facts;
};

} // namespace

std::unique_ptr<Pass> createFormRegions(const FormRegionsOptions &options, std::vector<FusionFacts> *facts) {
  return std::make_unique<FormRegionsPass>(options, facts);
}
} // namespace opc
