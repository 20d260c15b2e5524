// A graph that is compiled for sizes in a range.
// SPDX-License-Identifier: Apache-2.0
#include "SizeVariants.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace opc {
namespace {

/// What an op is and reads, without shapes.
std::string textOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << op->getName().getStringRef() << " " << ir::opName(op);
  if (auto constant = dyn_cast<ir::ConstantOp>(op)) os << " " << constant.getValue().getAsOpaquePointer();
  if (auto user = dyn_cast<ir::UserOp>(op)) os << " " << user.getOpType() << " " << user.getOpAttrs();
  for (Value v : op->getOperands()) os << " < " << ir::tensorName(v);
  for (Value v : op->getResults()) os << " > " << ir::tensorName(v);
  return text;
}

std::map<std::string, Operation *> structureOf(ModuleOp module) {
  std::map<std::string, Operation *> ops;
  for (Operation &op : graphBlock(module))
    if (!op.hasTrait<OpTrait::IsTerminator>()) ops.emplace(textOf(&op), &op);
  return ops;
}

bool isSame(const std::map<std::string, Operation *> &a, const std::map<std::string, Operation *> &b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto &x, const auto &y) { return x.first == y.first; });
}

/// Gradients and updates have been made for one size: the share of a mean is 1 / n.
LogicalResult checkForward(ModuleOp module) {
  for (Operation &op : graphBlock(module)) {
    const user_op::OpDef *def = ir::definitionOf(&op);
    if (ir::roleOf(&op) == ir::Role::kForward && (!def || def->gradientOf.empty())) continue;
    emitFinding(op.getLoc(), "OPC0220",
                "op " + ir::opName(&op) + " belongs to a backward or optimizer graph, which is made for one size",
                "make gradients and training steps for a fixed shape: --shape x=64,784");
    return failure();
  }
  return success();
}

} // namespace

LogicalResult SizeVariants::begin(ModuleOp module, const SizeRequest &request) {
  if (checkForward(module).failed()) return failure();
  const size_t ops = static_cast<size_t>(std::distance(graphBlock(module).begin(), graphBlock(module).end()));
  const auto samples = sampleSizes(request.sizes, std::clamp<size_t>(200'000 / std::max<size_t>(ops, 1), 6, 64));
  for (size_t k = samples.size(); k-- > 0;) // the largest at last
    if (setSizes(module, request, samples[k]).failed()) return failure();
  // Near the largest, and somewhere inside; no two sizes alike.
  for (int k = 0; k < 2; ++k) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < request.sizes.size(); ++i) {
      const SizeRange &r = request.sizes[i];
      const auto length = r.max - r.min, step = static_cast<int64_t>(i) + 1;
      sizes.push_back(std::max(r.min, k ? r.max - length / 3 - 2 * step : r.max - step));
    }
    if (sizes == samples[0] || (k == 1 && sizes == sizes_[0])) continue;
    OwningOpRef<ModuleOp> copy = module.clone();
    if (setSizes(*copy, request, sizes).failed()) return failure();
    copies_.push_back(std::move(copy));
    sizes_.push_back(std::move(sizes));
  }
  return success();
}

LogicalResult SizeVariants::settle(OwningOpRef<ModuleOp> *module, const Registry &registry, const SizeRequest &request,
                                   SizeFacts *facts) {
  const auto own = structureOf(**module);
  std::vector<std::map<std::string, Operation *>> others;
  for (auto &copy : copies_) others.push_back(structureOf(*copy));
  const bool agrees =
      others.empty() || std::any_of(others.begin(), others.end(), [&](const auto &o) { return isSame(own, o); });
  if (!agrees && others.size() == 2 && isSame(others[0], others[1])) {
    *module = std::move(copies_[0]);
  } else if (!agrees) {
    const auto differs = std::find_if(own.begin(), own.end(), [&](const auto &o) { return !others[0].count(o.first); });
    Operation *at = differs == own.end() ? (*module).get().getOperation() : differs->second;
    std::vector<int64_t> largest;
    for (const SizeRange &r : request.sizes) largest.push_back(r.max);
    emitFinding(at->getLoc(), "OPC0220",
                "the compiler simplifies or joins op " + ir::opName(at) + " in one way where " +
                    sizesText(request.sizes, largest) + " and in another where " + sizesText(request.sizes, sizes_[0]),
                "opc compile --no-fuse, or another range: one in which no two shapes are equal by chance");
    return failure();
  }
  copies_.clear();
  return sweepSizes(**module, registry, request, facts);
}

} // namespace opc
