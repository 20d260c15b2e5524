// Cross-entropy over classes that are split.
// SPDX-License-Identifier: Apache-2.0
#include "SplitSoftmax.h"
#include "Graph.h"
#include "Locations.h"
#include "UserOpBuilder.h"

using namespace mlir;

namespace opc {
namespace {

constexpr int kPrediction = 0, kLabel = 1, kProb = 2, kOut = 3;

/// The mesh dimensions on which the classes are split.
uint64_t splitDims(ir::UserOp op, const std::vector<NdSbp> &states) {
  const int64_t last = cast<RankedTensorType>(op.getArgs()[0].getType()).getRank() - 1;
  uint64_t dims = 0;
  for (size_t m = 0; m < states[kPrediction].size(); ++m)
    if (states[kPrediction][m] == SbpParallel::split(last)) dims |= uint64_t{1} << m;
  return dims;
}

class Expansion {
public:
  Expansion(ir::UserOp op, const std::vector<NdSbp> &states, uint64_t split)
      : op_(op), states_(states), split_(split), builder_(op) {}

  void run() {
    const auto type = cast<RankedTensorType>(op_.getArgs()[0].getType());
    const int64_t last = type.getRank() - 1;
    SmallVector<int64_t> rowDims(type.getShape());
    rowDims.back() = 1;
    const Type rows = RankedTensorType::get(rowDims, type.getElementType());
    const auto labelType = cast<RankedTensorType>(op_.getArgs()[1].getType());
    const NdSbp pieces = states_[kPrediction];
    const NdSbp whole = onSplit(SbpParallel::broadcast()), addends = onSplit(SbpParallel::partialSum());
    const AttrValue axis(std::vector<int32_t>{static_cast<int32_t>(last)});
    Value x = op_.getArgs()[0], label = op_.getArgs()[1];

    const auto overClasses = [&](StringRef part, const char *reduction, Value v) {
      ir::UserOpBuilder reduce(builder_, reduction);
      reduce.in("input_tensor", v).attr("axis", axis).attr("keepdims", AttrValue(true));
      return make(part, reduce, "output_tensor", rows, {pieces, addends});
    };
    Value top = overClasses("top", "reduce_max", x);
    top.getDefiningOp()->setAttr(ir::kLocalAttr, builder_.getUnitAttr());
    top = maximum(top, addends, whole);
    Value shifted = make("shifted", ir::UserOpBuilder(builder_, "broadcast_sub").in("x", x).in("y", top), "z", type,
                         {pieces, whole, pieces});
    Value e = make("exp", ir::UserOpBuilder(builder_, "exp").in("x", shifted), "y", type, {pieces, pieces});
    Value sum = overClasses("sum", "reduce_sum", e);
    Value prob = make("prob", ir::UserOpBuilder(builder_, "broadcast_div").in("x", e).in("y", sum), "z", type,
                      {pieces, whole, pieces});
    Value index = make(
        "index",
        ir::UserOpBuilder(builder_, "expand_dims").in("in", label).attr("axis", AttrValue(static_cast<int32_t>(last))),
        "out", RankedTensorType::get(rowDims, labelType.getElementType()), {states_[kLabel], whole});
    Value logit = make("logit",
                       ir::UserOpBuilder(builder_, "dim_gather")
                           .in("input", shifted)
                           .in("index", index)
                           .attr("dim", AttrValue(static_cast<int32_t>(last))),
                       "output", rows, {pieces, whole, addends});
    Value logSum = make("log_sum", ir::UserOpBuilder(builder_, "log").in("x", sum), "y", rows, {whole, whole});
    Value losses = make("losses", ir::UserOpBuilder(builder_, "broadcast_sub").in("x", logSum).in("y", logit), "z",
                        rows, {whole, whole, whole});
    Value out = make("out", ir::UserOpBuilder(builder_, "squeeze").in("in", losses).attr("axes", axis), "out",
                     op_.getOuts()[1].getType(), {whole, states_[kOut]});
    op_.getOuts()[0].replaceAllUsesWith(prob);
    op_.getOuts()[1].replaceAllUsesWith(out);
    // Copies and transfers that the planner chose are those of the results.
    op_.erase();
  }

private:
  /// The prediction's states with another one where the classes are split.
  NdSbp onSplit(SbpParallel state) const {
    NdSbp s = states_[kPrediction];
    for (size_t m = 0; m < s.size(); ++m)
      if (split_ >> m & 1) s[m] = state;
    return s;
  }

  Location location(StringRef part) { return ir::renamed(op_.getLoc(), ir::opName(op_) + "/" + part.str()); }

  Value make(StringRef part, ir::UserOpBuilder &maker, StringRef output, Type type, const std::vector<NdSbp> &states) {
    ir::UserOp made = maker.make(location(part), output, type);
    made->setAttr(ir::kStatesAttr, stateList(builder_.getContext(), states));
    if (Attribute p = op_->getAttr(ir::kPlacementAttr)) made->setAttr(ir::kPlacementAttr, p);
    return made.getOuts()[0];
  }

  Value maximum(Value v, NdSbp from, const NdSbp &to) {
    const auto placement = builder_.getI32IntegerAttr(static_cast<int32_t>(placementOf(op_)));
    for (size_t m = 0; m < from.size(); ++m) {
      if (!(split_ >> m & 1)) continue;
      NdSbp next = from;
      next[m] = to[m];
      auto boxing =
          ir::BoxingOp::create(builder_, location("max" + std::to_string(m)), TypeRange(v.getType()), ValueRange(v),
                               builder_.getStringAttr(boxingKindName(BoxingKind::kAllReduce)),
                               builder_.getI32IntegerAttr(static_cast<int32_t>(m)), builder_.getStringAttr("max"),
                               stateList(builder_.getContext(), from), stateList(builder_.getContext(), next),
                               placement, placement, builder_.getI32IntegerAttr(0));
      if (Attribute p = op_->getAttr(ir::kPlacementAttr)) boxing->setAttr(ir::kPlacementAttr, p);
      v = boxing.getOuts()[0];
      from = next;
    }
    return v;
  }

  ir::UserOp op_;
  const std::vector<NdSbp> states_;
  const uint64_t split_;
  OpBuilder builder_;
};

} // namespace

bool maySplitClasses(ir::UserOp op) {
  return op.getOpType() == "sparse_softmax_cross_entropy" && op.getArgs().size() == 2 && op.getOuts().size() == 2;
}

std::optional<std::vector<NdSbp>> splitClassStates(ir::UserOp op, const std::vector<NdSbp> &base, uint64_t split) {
  const int64_t last = cast<RankedTensorType>(op.getArgs()[0].getType()).getRank() - 1;
  std::vector<NdSbp> states = base;
  for (size_t m = 0; m < base[0].size(); ++m) {
    if (!(split >> m & 1)) continue;
    for (const NdSbp &s : base)
      if (!s[m].has_broadcast_parallel()) return std::nullopt;
    states[kPrediction][m] = states[kProb][m] = SbpParallel::split(last);
  }
  return states;
}

double splitClassSeconds(ir::UserOp op, const std::vector<NdSbp> &states, uint64_t split, const Placement &placement,
                         const MeshLinks &links) {
  const user_op::TensorDesc rows = ir::descOf(op.getOuts()[1].getType());
  double seconds = 0;
  NdSbp from = states[kOut];
  for (size_t m = 0; m < from.size(); ++m)
    if (split >> m & 1) from[m] = SbpParallel::partialSum();
  for (size_t m = 0; m < from.size(); ++m) {
    if (!(split >> m & 1)) continue;
    NdSbp to = from;
    to[m] = SbpParallel::broadcast();
    const BoxingStep step{BoxingKind::kAllReduce, static_cast<int32_t>(m), from, to};
    seconds += 3 * boxingSeconds({step, rows.shape(), rows.data_type(), placement, placement}, links);
    from = std::move(to);
  }
  return seconds;
}

void expandSplitClasses(ModuleOp module) {
  GraphStates states;
  for (Operation &op : llvm::make_early_inc_range(graphBlock(module)))
    if (auto user = dyn_cast<ir::UserOp>(op); user && maySplitClasses(user)) {
      const std::vector<NdSbp> chosen = states.of(user);
      if (const uint64_t split = splitDims(user, chosen)) Expansion(user, chosen, split).run();
    }
}

} // namespace opc
