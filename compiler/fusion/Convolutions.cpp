// conv2d and what follows it -> fused_conv2d.
// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"
#include "LibraryFusion.h"
#include "Locations.h"
#include "UserOpBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace opc {
namespace {

/// What has been taken into a convolution, in the order in which fused_conv2d computes.
struct Chain {
  enum Stage { kConvolved, kBiased, kNormalized, kAdded, kActivated };
  explicit Chain(ir::UserOp op) : conv(op), last(op.getOuts()[0]), bias(op.input("bias")) {
    added = op.input("_add_to_output");
    stage = added ? kAdded : bias ? kBiased : kConvolved;
    const auto format = op.attribute<std::string>("data_format", "channels_first");
    channel = format == "channels_last" ? 3 : 1;
  }

  ir::UserOp conv, norm;
  Value last, bias, added;
  Stage stage = kConvolved;
  int64_t channel = 1;
  std::string activation;
  double low = 0, high = 0;
  SmallVector<Operation *> taken; // after the convolution, in order

  bool isChannel(int64_t axis) const { return axis == channel || axis == channel - 4; }

  bool take(ir::UserOp op) {
    const StringRef type = op.getOpType();
    const bool ok = type == "bias_add"        ? takeBias(op)
                    : type == "normalization" ? takeNorm(op)
                    : type == "broadcast_add" ? takeSum(op)
                                              : takeActivation(op, type);
    if (!ok) return false;
    last = op.getOuts()[0];
    taken.push_back(op);
    return true;
  }

private:
  bool takeBias(ir::UserOp op) {
    if (stage != kConvolved || op.input("a") != last || !isChannel(op.attribute<int32_t>("axis", 0))) return false;
    bias = op.input("b");
    stage = kBiased;
    return true;
  }
  bool takeNorm(ir::UserOp op) {
    if (stage > kBiased || op.input("x") != last || op.attribute<bool>("training", false) ||
        !isChannel(op.attribute<int32_t>("axis", 0)))
      return false;
    for (Value statistic : op.getOuts().drop_front())
      if (!statistic.use_empty()) return false;
    norm = op;
    added = op.input("_add_to_output");
    stage = added ? kAdded : kNormalized;
    return true;
  }
  bool takeSum(ir::UserOp op) {
    if (stage > kNormalized) return false;
    Value x = op.input("x"), y = op.input("y");
    if (x.getType() != y.getType() || x.getType() != op.getOuts()[0].getType()) return false;
    added = x == last ? y : x;
    stage = kAdded;
    return true;
  }
  bool takeActivation(ir::UserOp op, StringRef type) {
    if (type == "relu") {
      activation = "relu";
    } else if (type == "clip_by_scalar") {
      if (!takeLimits(op.attribute<double>("floating_min", 0), op.attribute<double>("floating_max", 0))) return false;
    } else if (type == "hardtanh") {
      if (!takeLimits(op.attribute<double>("min_val", -1), op.attribute<double>("max_val", 1))) return false;
    } else {
      return false;
    }
    stage = kActivated;
    return true;
  }
  /// Limits the wrong way round, or NaN, are another function in the library than in the op.
  bool takeLimits(double least, double most) {
    if (!(least <= most)) return false;
    activation = "clip";
    low = least;
    high = most;
    return true;
  }
};

bool fits(ir::UserOp op) {
  if (op.getOpType() != "conv2d") return false;
  auto type = dyn_cast<RankedTensorType>(op.getOuts()[0].getType());
  auto in = dyn_cast<RankedTensorType>(op.input("in").getType());
  const auto hasElements = [](RankedTensorType t) { return t && t.hasStaticShape() && t.getNumElements() != 0; };
  return type && type.getElementType().isF32() && hasElements(type) && hasElements(in);
}

/// Windows that minimal filtering is for, of an op with such a weight.
bool hasDense3x3(ir::UserOp conv, StringRef weightArg, int64_t channelAxis) {
  const auto areOne = [&](const char *attribute) {
    return llvm::all_of(conv.attribute<std::vector<int32_t>>(attribute, {}), [](int32_t v) { return v == 1; });
  };
  const auto weight = cast<RankedTensorType>(conv.input(weightArg).getType());
  if (weight.getRank() != 4 || conv.attribute<int32_t>("groups", 1) != 1) return false;
  const int64_t first = channelAxis == 1 ? 2 : 1;
  return weight.getDimSize(first) == 3 && weight.getDimSize(first + 1) == 3 && areOne("strides") &&
         areOne("dilation_rate");
}

void fuse(ir::UserOp conv, bool winograd, const KeptTensors &kept) {
  Chain chain(conv);
  while (chain.stage != Chain::kActivated && !isKept(chain.last, kept)) {
    ir::UserOp next = onlyReader(chain.last);
    if (!next || !chain.take(next)) break;
  }
  Operation *place = chain.last.getDefiningOp();
  OpBuilder b(place);
  ir::UserOpBuilder maker(b, "fused_conv2d");
  maker.in("in", conv.input("in")).in("weight", conv.input("weight")).in("bias", chain.bias);
  if (chain.norm)
    for (const char *arg : {"gamma", "beta", "moving_mean", "moving_variance"}) maker.in(arg, chain.norm.input(arg));
  maker.in("_add_to_output", chain.added);
  maker.attrsOf(conv,
                {"filters", "padding_before", "data_format", "kernel_size", "strides", "dilation_rate", "groups"});
  if (conv->hasAttr(ir::kShardingAttr)) { // the attributes speak of the whole; what is fused is of the device's pieces
    const auto channels = [&](const char *arg) {
      return cast<RankedTensorType>(conv.input(arg).getType()).getDimSize(chain.channel);
    };
    maker.attr("filters", AttrValue(int32_t{0}));
    if (const int64_t own = channels("weight"); own > 0)
      maker.attr("groups", AttrValue(static_cast<int32_t>(channels("in") / own)));
  }
  maker.attr("weight_format", b.getStringAttr(chain.channel == 3 ? "channels_last" : "channels_first"));
  maker.attr("epsilon", AttrValue(chain.norm ? chain.norm.attribute<float>("epsilon", 0.0f) : 0.0f))
      .attr("activation", AttrValue(chain.activation))
      .attr("activation_min", AttrValue(chain.low))
      .attr("activation_max", AttrValue(chain.high));
  if (winograd && hasDense3x3(conv, "weight", chain.channel)) maker.attr("winograd", AttrValue(true));
  ir::UserOp fused = maker.make(ir::locationOfMaker(chain.last), "out", chain.last.getType());
  chain.last.replaceAllUsesWith(fused.getOuts()[0]);
  for (Operation *op : llvm::reverse(chain.taken)) op->erase();
  conv.erase();
}

} // namespace

void fuseConvolutions(ModuleOp module, bool winograd, const KeptTensors &kept) {
  SmallVector<ir::UserOp> convolutions;
  module.walk([&](ir::UserOp op) {
    if (fits(op)) convolutions.push_back(op);
  });
  for (ir::UserOp op : convolutions) fuse(op, winograd, kept);
}

void filterConvolutions(ModuleOp module) {
  module.walk([](ir::UserOp op) {
    const bool isForward = op.getOpType() == "conv2d";
    if (!isForward && op.getOpType() != "conv_data_grad") return;
    const auto type = dyn_cast<RankedTensorType>(op.getOuts()[0].getType());
    if (!type || !isa<FloatType>(type.getElementType()) || type.getElementType().isF64()) return;
    const bool last = op.attribute<std::string>("data_format", "channels_first") == "channels_last";
    if (hasDense3x3(op, isForward ? "weight" : "filter", last ? 3 : 1)) setAttribute(op, "winograd", AttrValue(true));
  });
}

} // namespace opc
