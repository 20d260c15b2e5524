// Forward ops that the backward pass computes again: less memory for more work.
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "NearestNames.h"
#include "TrainingGraph.h"

#include <cmath>
#include <fnmatch.h>

using namespace mlir;

namespace opc {
namespace {

bool isBackward(Operation *op) { return ir::roleOf(op) != ir::Role::kForward; }

class Recomputation {
public:
  explicit Recomputation(ModuleOp module) : module_(module) {
    for (Operation &op : graphBlock(module))
      if (auto user = dyn_cast<ir::UserOp>(&op)) (isBackward(&op) ? backward_ : forward_).push_back(user);
  }

  /// False: a glob that matches no op (reported).
  bool choose(const RecomputeConfig &config) {
    if (config.segments != 0) {
      chooseSegments(config.segments);
      return true;
    }
    for (const std::string &given : config.ops) {
      const bool drop = given[0] == '!';
      const std::string glob = drop ? given.substr(1) : given;
      bool hit = false;
      for (ir::UserOp op : forward_) {
        if (fnmatch(glob.c_str(), ir::opName(op).c_str(), 0) != 0) continue;
        hit = true;
        if (drop)
          chosen_.erase(op);
        else if (mayRepeat(op))
          chosen_.insert(op);
      }
      if (hit) continue;
      std::vector<std::string> names;
      for (ir::UserOp op : forward_) names.push_back(ir::opName(op));
      emitRequestFinding(
          module_.getLoc(), "OPC0508", "--recompute " + given + " matches no op of the forward graph",
          didYouMean(glob, names, "opc show GRAPH --what ops lists them; sqrt and a number from 2 are taken, too"));
      return false;
    }
    return true;
  }

  FailureOr<size_t> run() {
    for (ir::UserOp op : backward_) {
      for (OpOperand &operand : op->getOpOperands()) {
        auto maker = operand.get().getDefiningOp<ir::UserOp>();
        if (!maker || !chosen_.contains(maker)) continue;
        ir::UserOp clone = cloneOf(maker, op);
        operand.set(clone.getOuts()[cast<OpResult>(operand.get()).getResultNumber()]);
      }
    }
    return clones_.size();
  }

private:
  bool mayRepeat(ir::UserOp op) const {
    const user_op::OpDef *def = op.def();
    return def && def->pure && !(def->modifyInputs && writesInputs(*def, ir::toOpConf(op)));
  }

  /// Positions between forward ops, spread evenly, each moved to where the fewest bytes cross within its stretch.
  /// What crosses stays; ops after the last cut stay too, since the backward pass begins with them.
  void chooseSegments(int64_t segments) {
    // Only ops whose results the backward pass reads, or that lead to such, matter; the order is the graph's.
    const size_t n = forward_.size();
    if (segments < 0)
      segments = std::max<int64_t>(2, static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(n)))));
    segments = std::min<int64_t>(segments, static_cast<int64_t>(n));
    if (segments < 2) return;
    llvm::DenseMap<Operation *, size_t> position;
    for (size_t i = 0; i < n; ++i) position[forward_[i]] = i;
    // crossing[i]: bytes made before position i and read by forward ops from i on.
    std::vector<int64_t> crossing(n + 1, 0);
    std::vector<size_t> lastUse(n, 0);
    for (size_t i = 0; i < n; ++i)
      for (Value v : forward_[i].getOuts()) {
        size_t last = i;
        for (Operation *user : v.getUsers())
          if (auto it = position.find(user); it != position.end()) last = std::max(last, it->second);
        lastUse[i] = std::max(lastUse[i], last);
        crossing[i + 1] += ir::bytesOf(v); // from i + 1 to last: a difference list, summed up below
        if (last + 1 <= n) crossing[last + 1] -= ir::bytesOf(v);
      }
    for (size_t p = 1; p <= n; ++p) crossing[p] += crossing[p - 1];
    std::vector<size_t> cuts;
    for (int64_t s = 1; s < segments; ++s) {
      const double ideal = static_cast<double>(n) * static_cast<double>(s) / static_cast<double>(segments);
      const double reach = static_cast<double>(n) / static_cast<double>(segments) / 2;
      size_t best = static_cast<size_t>(ideal);
      for (double p = std::ceil(ideal - reach); p <= ideal + reach; ++p) {
        if (p < 1 || p >= static_cast<double>(n)) continue;
        const auto at = static_cast<size_t>(p);
        const double here = std::fabs(p - ideal), there = std::fabs(static_cast<double>(best) - ideal);
        if (crossing[at] < crossing[best] || (crossing[at] == crossing[best] && here < there)) best = at;
      }
      if (cuts.empty() || best > cuts.back()) cuts.push_back(best);
    }
    for (size_t i = 0; i < cuts.back(); ++i) {
      if (!mayRepeat(forward_[i])) continue;
      bool crosses = false;
      for (size_t c : cuts) crosses |= i < c && lastUse[i] >= c;
      if (!crosses) chosen_.insert(forward_[i]);
    }
  }

  /// The clone that `reader` and later backward ops use. It waits for what `reader` waits for: without that it could
  /// run at once and keep its result through the whole backward pass.
  ir::UserOp cloneOf(ir::UserOp op, ir::UserOp reader) {
    if (auto it = clones_.find(op); it != clones_.end()) return it->second;
    // Makers first. The depth is that of a segment, which may be the whole graph: no recursion.
    std::vector<ir::UserOp> stack{op};
    while (!stack.empty()) {
      ir::UserOp next = stack.back();
      if (clones_.count(next)) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (Value v : next.getArgs())
        if (auto maker = v.getDefiningOp<ir::UserOp>(); maker && chosen_.contains(maker) && !clones_.count(maker)) {
          stack.push_back(maker);
          ready = false;
        }
      if (!ready) continue;
      stack.pop_back();
      make(next, reader);
    }
    return clones_[op];
  }

  void make(ir::UserOp op, ir::UserOp reader) {
    OpBuilder builder(reader);
    auto clone = cast<ir::UserOp>(builder.clone(*op.getOperation()));
    bool first = true;
    for (OpOperand &operand : clone->getOpOperands()) {
      auto maker = operand.get().getDefiningOp<ir::UserOp>();
      if (!maker) continue;
      if (auto it = clones_.find(maker); it != clones_.end()) {
        operand.set(it->second.getOuts()[cast<OpResult>(operand.get()).getResultNumber()]);
        first = false;
      }
    }
    if (first)
      if (Operation *before = gradientMaker(reader)) {
        const std::string name = ir::opName(before);
        clone->setAttr(ir::kCtrlInAttr, builder.getStrArrayAttr({name}));
        before->setAttr(ir::kOrderedAttr, builder.getUnitAttr());
      }
    clone.setRole(ir::Role::kBackward);
    clone->removeAttr(ir::kGradientOfAttr); // it computes what the op does
    clone->setLoc(ir::renamed(op->getLoc(), ir::opName(op) + "_recompute"));
    clones_[op] = clone;
    isClone_.insert(clone);
  }

  /// A backward op whose result the reader needs: the gradient that has come down to it.
  Operation *gradientMaker(ir::UserOp reader) const {
    for (Value v : reader.getArgs()) {
      auto maker = v.getDefiningOp<ir::UserOp>();
      if (maker && isBackward(maker) && !isClone_.contains(maker)) return maker;
    }
    return nullptr;
  }

  ModuleOp module_;
  std::vector<ir::UserOp> forward_, backward_;
  llvm::DenseSet<Operation *> chosen_;
  llvm::DenseMap<Operation *, ir::UserOp> clones_;
  llvm::DenseSet<Operation *> isClone_;
};

} // namespace

FailureOr<size_t> recompute(ModuleOp module, const RecomputeConfig &config) {
  Recomputation r(module);
  if (!r.choose(config)) return failure();
  return r.run();
}

} // namespace opc
