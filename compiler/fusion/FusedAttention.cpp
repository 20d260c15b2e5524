// A product of queries and keys, what scales and masks it, a softmax and a product with values ->
// scaled_dot_product_attention (docs/adr/0006-library-fusion.md).
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "Graph.h"
#include "LibraryFusion.h"
#include "Locations.h"
#include "OpInstance.h"
#include "UserOpBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;

namespace opc {
namespace {

RankedTensorType typeOf(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && type.hasStaticShape() && !type.getEncoding() ? type : RankedTensorType();
}

DenseElementsAttr constantOf(Value v) {
  auto constant = v.getDefiningOp<ir::ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

/// A constant of one f32.
std::optional<double> numberOf(Value v) {
  const DenseElementsAttr value = constantOf(v);
  if (!value || !value.isSplat() || !value.getElementType().isF32() || value.getNumElements() != 1) return std::nullopt;
  return value.getSplatValue<APFloat>().convertToFloat();
}

/// How many keys further each query sees than its number, where a mask is that of causality: as many as `seen`, by row
/// and column, says of each.
template <class Seen> std::optional<int64_t> causalOffset(int64_t n, int64_t m, Seen seen) {
  int64_t first = 0;
  while (first < m && seen(0, first)) ++first;
  if (first == 0) return std::nullopt; // the first query sees nothing: not how a causal mask begins
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      if (seen(i, j) != (j < first + i)) return std::nullopt;
  return first - 1;
}

/// The ops of one attention, found from its softmax.
class AttentionMatch {
public:
  explicit AttentionMatch(ir::UserOp softmax) : softmax_(softmax) {}

  bool find() {
    const RankedTensorType scores = typeOf(softmax_.input("in"));
    if (!scores || !scores.getElementType().isF32() || scores.getRank() < 3) return false;
    rank_ = scores.getRank(), n_ = scores.getDimSize(rank_ - 2), m_ = scores.getDimSize(rank_ - 1);
    if (!findValues()) return false;
    Value at = softmax_.input("in");
    taken_.push_back(softmax_);
    while (at.hasOneUse()) {
      ir::UserOp op = at.getDefiningOp<ir::UserOp>();
      if (!op || typeOf(at) != scores) return false;
      taken_.push_back(op);
      if (op.getOpType() == "batch_matmul") return findKeys(op) && isWorthIt();
      const std::optional<Value> before = step(op, scores);
      if (!before) return false;
      at = *before;
    }
    return false;
  }

  void fuse(const Registry &registry) {
    Operation *place = values_;
    OpBuilder b(place);
    const Location location = ir::locationOfMaker(values_.getOuts()[0]);
    SmallVector<Value> operands{query_, key(b), values_.input("b")};
    user_op::OpConf conf;
    conf.name = "attention";
    conf.type = "scaled_dot_product_attention";
    conf.inputs = {{"query", {"q/out"}}, {"key", {"k/out"}}, {"value", {"v/out"}}};
    if (const Value mask = maskFor(b)) {
      conf.inputs.push_back({"mask", {"m/out"}});
      operands.push_back(mask);
    }
    conf.attrs["scale"] = AttrValue(scale_);
    if (offset_) {
      conf.attrs["causal"] = AttrValue(true);
      conf.attrs["offset"] = AttrValue(*offset_);
    }
    const user_op::OpDef *def = registry.findOp(conf.type);
    if (!def || !completeOpConf(*def, &conf).isOk()) return;
    OpInstance instance(*def, conf);
    for (auto [i, v] : llvm::enumerate(operands)) instance.inputDescs()[i] = ir::descOf(v);
    if (!instance.infer().isOk()) return;
    SmallVector<Type> types;
    for (const user_op::TensorDesc &d : instance.outputDescs()) types.push_back(ir::tensorType(b.getContext(), d));
    ir::UserOp made = ir::UserOpBuilder(b, conf, operands, types).make(location);
    values_.getOuts()[0].replaceAllUsesWith(made.getOuts()[0]);
    values_.erase();
    for (ir::UserOp op : taken_) {
      const SmallVector<Value> read(op.getArgs());
      op.erase();
      for (Value v : read)
        if (Operation *maker = v.getDefiningOp(); maker && v.use_empty() && isa<ir::ConstantOp>(maker)) maker->erase();
    }
    if (turned_ && turned_.getOuts()[0].use_empty()) turned_.erase();
  }

private:
  /// softmax value.
  bool findValues() {
    values_ = onlyReader(softmax_.getOuts()[0]);
    if (!values_ || values_.getOpType() != "batch_matmul" || values_.input("a") != softmax_.getOuts()[0]) return false;
    return isPlain(values_) && !values_.attribute<bool>("transpose_b", false) &&
           values_.attribute<double>("alpha", 1) == 1 && typeOf(values_.input("b"));
  }
  static bool isPlain(ir::UserOp product) {
    return !product.attribute<bool>("transpose_a", false) && !product.input("_add_to_output");
  }
  /// One op between the products; gives the scores that it reads, nothing where it is another one.
  std::optional<Value> step(ir::UserOp op, RankedTensorType scores) {
    const StringRef type = op.getOpType();
    if (type == "where") return masked(op, scores);
    if (type != "broadcast_add" && type != "broadcast_mul" && type != "broadcast_div") return std::nullopt;
    const bool isFirst = typeOf(op.input("x")) == scores;
    const Value from = op.input(isFirst ? "x" : "y"), other = op.input(isFirst ? "y" : "x");
    if (typeOf(from) != scores || !typeOf(other)) return std::nullopt;
    if (type == "broadcast_add") return added(from, other);
    if (scaled_ || typeOf(other).getNumElements() != 1 || typeOf(other).getRank() > rank_ ||
        (!isFirst && type == "broadcast_div"))
      return std::nullopt;
    scaled_ = true;
    // Only a number that is known: moved to the queries, another one could make them infinite.
    const std::optional<double> factor = numberOf(other);
    if (!factor) return std::nullopt;
    scale_ = type == "broadcast_mul" ? *factor : 1 / *factor;
    if (scale_ == 0 || !std::isfinite(static_cast<float>(scale_))) return std::nullopt;
    return from;
  }
  /// One mask: scores are scaled before it.
  bool mayMask() const { return !scaled_ && !mask_ && !condition_ && !offset_; }
  std::optional<Value> added(Value from, Value mask) {
    if (!mayMask() || !typeOf(mask).getElementType().isF32()) return std::nullopt;
    if (const DenseElementsAttr value = constantOf(mask); value && isMatrix(value.getType()) && !value.isSplat()) {
      const auto cells = value.getValues<float>();
      // Between 0 and what no score outweighs there is no other number.
      if (llvm::all_of(cells, [](float x) { return x == 0 || x <= kNever; }))
        offset_ = causalOffset(n_, m_, [&](int64_t i, int64_t j) { return cells[i * m_ + j] == 0; });
    }
    // A row that -inf hides whole is NaN after the softmax, and 0 in the fused op.
    if (!offset_ && mayHideRows(mask)) return std::nullopt;
    if (!offset_) mask_ = mask;
    return from;
  }
  std::optional<Value> masked(ir::UserOp op, RankedTensorType scores) {
    const Value condition = op.input("condition"), from = op.input("x"), other = op.input("y");
    const std::optional<double> hidden = numberOf(other);
    if (!mayMask() || typeOf(from) != scores || !hidden || !(*hidden <= kNever) || !typeOf(condition) ||
        !typeOf(condition).getElementType().isInteger(1))
      return std::nullopt;
    if (const DenseElementsAttr value = constantOf(condition); value && isMatrix(value.getType()) && !value.isSplat()) {
      const auto cells = value.getValues<bool>();
      offset_ = causalOffset(n_, m_, [&](int64_t i, int64_t j) { return cells[i * m_ + j]; });
    }
    if (!offset_ && std::isinf(*hidden)) return std::nullopt; // as in added()
    if (!offset_) condition_ = condition, hidden_ = *hidden;
    return from;
  }
  /// Of a mask that is known: whether it has an infinity. One of the run is a choice of finite numbers, or not known.
  static bool mayHideRows(Value mask) {
    const DenseElementsAttr value = constantOf(mask);
    return value && llvm::any_of(value.getValues<float>(), [](float x) { return std::isinf(x); });
  }
  bool isMatrix(ShapedType type) const {
    if (type.getRank() < 2 || type.getNumElements() != n_ * m_) return false;
    return type.getDimSize(type.getRank() - 2) == n_ && type.getDimSize(type.getRank() - 1) == m_;
  }

  /// With few scores the three ops are as fast, since these stay in the cache; but causal ones are computed by half,
  /// and for a few queries to turn the keys costs more than the product.
  bool isWorthIt() const {
    constexpr int64_t kManyScores = int64_t{256} * 256, kManyCausalScores = int64_t{128} * 128, kManyKeys = 128,
                      kFewQueries = 16;
    if (n_ * m_ >= (offset_ ? kManyCausalScores : kManyScores)) return true;
    return turned_ && n_ <= kFewQueries && m_ >= kManyKeys;
  }
  bool findKeys(ir::UserOp product) {
    if (!isPlain(product)) return false;
    scale_ *= product.attribute<double>("alpha", 1);
    query_ = product.input("a"), keys_ = product.input("b");
    const bool isNumber = scale_ != 0 && std::isfinite(static_cast<float>(scale_));
    if (!isNumber || !typeOf(query_) || !typeOf(keys_)) return false;
    if (product.attribute<bool>("transpose_b", false)) return true;
    turned_ = keys_.getDefiningOp<ir::UserOp>();
    if (!turned_ || turned_.getOpType() != "transpose" || !typeOf(turned_.input("input"))) turned_ = {};
    return bool(turned_);
  }
  /// The keys, with a row each: those that were turned for the product are turned otherwise.
  Value key(OpBuilder &b) {
    if (!turned_) return keys_;
    std::vector<int32_t> perm = turned_.attribute<std::vector<int32_t>>("perm", {});
    std::swap(perm[static_cast<size_t>(rank_ - 2)], perm[static_cast<size_t>(rank_ - 1)]);
    const Value from = turned_.input("input");
    if (llvm::is_sorted(perm)) return from;
    const RankedTensorType was = typeOf(keys_);
    SmallVector<int64_t> dims(was.getShape());
    std::swap(dims[static_cast<size_t>(rank_ - 2)], dims[static_cast<size_t>(rank_ - 1)]);
    return ir::UserOpBuilder(b, "transpose")
        .in("input", from)
        .attrsOf(turned_, {"batch_axis_non_change"})
        .attr("perm", AttrValue(perm))
        .make(ir::renamed(turned_.getLoc(), ir::opName(turned_) + "_rows"), "output",
              RankedTensorType::get(dims, was.getElementType()))
        .getOuts()[0];
  }
  /// What is added to scores. A choice between scores and a number becomes 0 or that number: a query that sees no key
  /// keeps the average that it had.
  Value maskFor(OpBuilder &b) {
    if (!condition_) return mask_;
    const Type type = RankedTensorType::get(typeOf(condition_).getShape(), b.getF32Type());
    const auto scalar = RankedTensorType::get({}, b.getF32Type());
    const Location location = ir::renamed(softmax_.getLoc(), ir::opName(softmax_) + "_mask");
    const auto number = [&](float v) -> Value {
      return ir::ConstantOp::create(b, location, scalar, DenseElementsAttr::get(scalar, v), ir::Role::kForward);
    };
    return ir::UserOpBuilder(b, "where")
        .in("condition", condition_)
        .in("x", number(0))
        .in("y", number(static_cast<float>(hidden_)))
        .make(location, "out", type)
        .getOuts()[0];
  }

  static constexpr float kNever = -1e30f; // no score is beyond
  ir::UserOp softmax_, values_, turned_;
  SmallVector<ir::UserOp> taken_; // from the softmax up
  Value query_, keys_, mask_, condition_;
  double hidden_ = 0;
  int64_t rank_ = 0, n_ = 0, m_ = 0;
  double scale_ = 1;
  bool scaled_ = false;
  std::optional<int64_t> offset_;
};

} // namespace

void fuseAttention(ModuleOp module, const Registry &registry) {
  SmallVector<ir::UserOp> all;
  module.walk([&](ir::UserOp op) {
    if (op.getOpType() == "softmax") all.push_back(op);
  });
  for (ir::UserOp op : all)
    if (AttentionMatch match(op); match.find()) match.fuse(registry);
}

} // namespace opc
