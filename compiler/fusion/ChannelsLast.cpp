// Images between convolutions stay in the layout that the library computes in.
// SPDX-License-Identifier: Apache-2.0
#include "LibraryFusion.h"
#include "Locations.h"
#include "UserOpBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace opc {
namespace {

constexpr int32_t kToLast[] = {0, 2, 3, 1}, kToFirst[] = {0, 3, 1, 2};

class ChannelsLast {
public:
  void run(ModuleOp module) {
    SmallVector<ir::UserOp> ops;
    module.walk([&](ir::UserOp op) { ops.push_back(op); });
    for (ir::UserOp op : ops) {
      if (op.getOuts().empty() || !isImage(op.getOuts()[0])) continue;
      if (op.getOpType() == "fused_conv2d")
        convolution(op);
      else if (const user_op::OpDef *def = op.def(); def && def->pooledDims == 2)
        pooling(op);
      else
        elementwise(op);
    }
    for (Operation *op : llvm::reverse(moves_))
      if (op->use_empty()) op->erase();
  }

private:
  static bool isImage(Value v) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    return type && type.getRank() == 4 && type.getElementType().isF32() && type.hasStaticShape();
  }
  static bool isChannelsFirst(ir::UserOp op) {
    return op.attribute<std::string>("data_format", "channels_first") == "channels_first";
  }
  static RankedTensorType permuted(Type type, ArrayRef<int32_t> perm) {
    auto t = cast<RankedTensorType>(type);
    SmallVector<int64_t> dims;
    for (int32_t p : perm) dims.push_back(t.getDimSize(static_cast<unsigned>(p)));
    return RankedTensorType::get(dims, t.getElementType());
  }

  /// The same image in the other layout: a transpose, or a view where it moves nothing.
  Value moved(OpBuilder &b, Value v, ArrayRef<int32_t> perm, StringRef suffix) {
    const RankedTensorType type = permuted(v.getType(), perm);
    const bool first = perm[1] == 2; // to channels_last
    auto from = cast<RankedTensorType>(v.getType());
    const int64_t channels = from.getDimSize(first ? 1 : 3),
                  pixels = first ? from.getDimSize(2) * from.getDimSize(3) : from.getDimSize(1) * from.getDimSize(2);
    const Location loc = ir::renamed(v.getLoc(), ir::readLocation(v.getLoc()).name + suffix.str());
    ir::UserOp op;
    if (channels == 1 || pixels == 1) {
      DimVector dims(type.getShape().begin(), type.getShape().end());
      dims[0] = -1; // images of any number
      op = ir::UserOpBuilder(b, "reshape")
               .in("in", v)
               .attr("shape", AttrValue(Shape(std::move(dims))))
               .make(loc, "out", type);
    } else
      op = ir::UserOpBuilder(b, "transpose")
               .in("input", v)
               .attr("perm", AttrValue(std::vector<int32_t>(perm.begin(), perm.end())))
               .attr("batch_axis_non_change", AttrValue(false))
               .make(loc, "output", type);
    moves_.push_back(op);
    return op.getOuts()[0];
  }

  /// `v` in channels_last, made where it is missing.
  Value last(OpBuilder &b, Value v) {
    Value &known = last_[v];
    if (!known) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointAfterValue(v); // other readers may come before this one
      known = moved(b, v, kToLast, "@channels_last");
    }
    return known;
  }

  /// A copy of `op` that reads `operands` and makes a channels_last image; its old result becomes a move of that.
  void rewrite(ir::UserOp op, ArrayRef<Value> operands, bool hasFormat) {
    OpBuilder b(op);
    auto copy = cast<ir::UserOp>(b.clone(*op));
    copy->removeAttr(ir::kShardingAttr); // it is of the other layout; the op's rules hold for the pieces, too
    copy.getArgsMutable().assign(operands);
    copy->getResult(0).setType(permuted(op.getOuts()[0].getType(), kToLast));
    if (hasFormat) {
      NamedAttrList attrs(copy.getOpAttrs());
      attrs.set("data_format", b.getStringAttr("channels_last"));
      copy.setOpAttrsAttr(attrs.getDictionary(b.getContext()));
    }
    Value back = moved(b, copy.getOuts()[0], kToFirst, "@channels_first");
    last_[back] = copy.getOuts()[0];
    op.getOuts()[0].replaceAllUsesWith(back);
    op.erase();
  }

  void convolution(ir::UserOp op) {
    if (!isChannelsFirst(op)) return;
    OpBuilder b(op);
    SmallVector<Value> operands(op.getArgs());
    Value in = op.input("in"), added = op.input("_add_to_output");
    for (Value &v : operands)
      if (v == in || v == added) v = last(b, v);
    rewrite(op, operands, true);
  }

  void pooling(ir::UserOp op) {
    Value x = op.input("x");
    if (!isChannelsFirst(op) || op.getOuts().size() != 1 || !last_.contains(x)) return;
    rewrite(op, {last_[x]}, true);
  }

  void elementwise(ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    if (!def || !def->scalar || op.getOuts().size() != 1) return;
    SmallVector<Value> operands;
    bool any = false;
    for (Value v : op.getArgs()) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type || !type.hasStaticShape()) return;
      if (type.getNumElements() == 1) { // the same everywhere
        operands.push_back(v);
        continue;
      }
      auto found = last_.find(v);
      if (type.getShape() != cast<RankedTensorType>(op.getOuts()[0].getType()).getShape() || found == last_.end())
        return;
      operands.push_back(found->second);
      any = true;
    }
    if (any) rewrite(op, operands, false);
  }

  DenseMap<Value, Value> last_; // channels_first image -> the same in channels_last
  SmallVector<Operation *> moves_;
};

} // namespace

void keepChannelsLast(ModuleOp module) { ChannelsLast().run(module); }

} // namespace opc
