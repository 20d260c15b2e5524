// The library fusions in order.
// SPDX-License-Identifier: Apache-2.0
#include "LibraryFusion.h"
#include "AttrBridge.h"
#include "MutableInputs.h"
#include "OpcDialect.h"

using namespace mlir;

namespace opc {
namespace {

/// A graph that trains. Where it updates variables, kernels find their weights changed at every step; where it has
/// backward ops, those read the tensors in between, in the layout that they were written in.
bool trains(ModuleOp module) {
  bool found = false;
  module.walk([&](ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    found |= op.getRole() != ir::Role::kForward || (def && !def->gradientOf.empty()) ||
             (def && def->modifyInputs && writesInputs(*def, ir::toOpConf(op)));
  });
  return found;
}

struct FuseConvolutionsPass : PassWrapper<FuseConvolutionsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FuseConvolutionsPass)
  StringRef getArgument() const override { return "opc-fuse-convolutions"; }
  StringRef getDescription() const override { return "conv2d and what follows it become fused_conv2d"; }
  void runOnOperation() override { fuseConvolutions(getOperation()); }
};
struct KeepChannelsLastPass : PassWrapper<KeepChannelsLastPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepChannelsLastPass)
  StringRef getArgument() const override { return "opc-channels-last"; }
  StringRef getDescription() const override { return "Images between fused convolutions stay in channels_last"; }
  void runOnOperation() override { keepChannelsLast(getOperation()); }
};

} // namespace

void fuseForLibraries(ModuleOp module) {
  if (trains(module)) return;
  fuseConvolutions(module);
  keepChannelsLast(module);
}

std::unique_ptr<Pass> createFuseConvolutionsPass() { return std::make_unique<FuseConvolutionsPass>(); }
std::unique_ptr<Pass> createKeepChannelsLastPass() { return std::make_unique<KeepChannelsLastPass>(); }

} // namespace opc
