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
    for (ir::UserOp op : ops) change(op);
    for (Operation *op : llvm::reverse(moves_))
      if (op->use_empty()) op->erase();
  }

private:
  void change(ir::UserOp op) {
    const StringRef type = op.getOpType();
    if (type == "reduce_mean" || type == "reduce_max" || type == "reduce_sum") return reduction(op);
    if (op.getOuts().empty() || !isImage(op.getOuts()[0])) return;
    const user_op::OpDef *def = op.def();
    const bool isComputed = isOfLibrary(op.getOuts()[0]);
    if (type == "fused_conv2d" || type == "fused_integer_conv2d") return isComputed ? convolution(op) : void();
    if (def && def->pooledDims == 2) return isComputed ? pooling(op) : void();
    if (type == "normalization") return isComputed ? normalization(op) : void();
    if (type == "cat" || type == "concat") return join(op);
    elementwise(op);
  }

  static bool isOfLibrary(Value v) {
    const Type element = cast<RankedTensorType>(v.getType()).getElementType();
    return element.isF32() || element.isInteger(8);
  }
  /// Half precision stands between what is computed in f32 (widenHalf).
  static bool isImage(Value v) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    return type && type.getRank() == 4 && type.hasStaticShape() &&
           (isOfLibrary(v) || type.getElementType().isF16() || type.getElementType().isBF16());
  }
  /// Between bytes and real numbers, in the same way everywhere.
  static bool hasOneScale(ir::UserOp op) {
    const StringRef type = op.getOpType();
    if (type != "quantize_linear" && type != "dequantize_linear") return false;
    return llvm::all_of(op.getArgs().drop_front(), [](Value v) {
      auto t = cast<RankedTensorType>(v.getType());
      return t.hasStaticShape() && t.getNumElements() == 1;
    });
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

  /// Of a channels_first image: one channel, or one pixel.
  static bool movesNothing(Value v) {
    auto type = cast<RankedTensorType>(v.getType());
    return type.getDimSize(1) == 1 || type.getDimSize(2) * type.getDimSize(3) == 1;
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
  /// `name` is the attribute that says which axes are which, where there is one.
  void rewrite(ir::UserOp op, ArrayRef<Value> operands, StringRef name = "", const AttrValue &value = {}) {
    OpBuilder b(op);
    auto copy = cast<ir::UserOp>(b.clone(*op));
    copy->removeAttr(ir::kShardingAttr); // it is of the other layout; the op's rules hold for the pieces, too
    copy.getArgsMutable().assign(operands);
    copy->getResult(0).setType(permuted(op.getOuts()[0].getType(), kToLast));
    if (!name.empty()) setAttribute(copy, name, value);
    replace(b, op, copy.getOuts()[0]);
  }
  void replace(OpBuilder &b, ir::UserOp op, Value image) {
    Value back = moved(b, image, kToFirst, "@channels_first");
    last_[back] = image;
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
    rewrite(op, operands, "data_format", AttrValue(std::string("channels_last")));
  }

  void pooling(ir::UserOp op) {
    Value x = op.input("x");
    if (!isChannelsFirst(op) || op.getOuts().size() != 1 || !last_.contains(x)) return;
    rewrite(op, {last_[x]}, "data_format", AttrValue(std::string("channels_last")));
  }

  /// With stored statistics: as elementwise ops with vectors for the channels, which one loop computes with what
  /// stands before and behind. They round as the op's kernel does.
  void normalization(ir::UserOp op) {
    Value x = op.input("x"), added = op.input("_add_to_output");
    const auto axis = op.attribute<int32_t>("axis", 0);
    if (op.attribute<bool>("training", false) || (axis != 1 && axis != -3) || !last_.contains(x) ||
        !llvm::all_of(op.getOuts().drop_front(), [](Value v) { return v.use_empty(); }))
      return;
    OpBuilder b(op);
    const std::string name = ir::readLocation(op.getLoc()).name;
    const auto part = [&](StringRef suffix) { return ir::renamed(op.getLoc(), name + suffix.str()); };
    const auto unary = [&](StringRef type, Value v, StringRef suffix) {
      return ir::UserOpBuilder(b, type).in("x", v).make(part(suffix), "y", v.getType()).getOuts()[0];
    };
    const auto binary = [&](StringRef type, Value v, Value w, Location loc) {
      return ir::UserOpBuilder(b, type).in("x", v).in("y", w).make(loc, "z", v.getType()).getOuts()[0];
    };
    const Value variance = op.input("moving_variance");
    Value scale = ir::UserOpBuilder(b, "scalar_add")
                      .in("in", variance)
                      .attr("has_int_operand", AttrValue(false))
                      .attr("has_float_operand", AttrValue(true))
                      .attr("int_operand", AttrValue(int64_t{0}))
                      .attr("float_operand", AttrValue(static_cast<double>(op.attribute<float>("epsilon", 0.0f))))
                      .make(part("@variance"), "out", variance.getType())
                      .getOuts()[0];
    scale = unary("reciprocal", unary("sqrt", scale, "@deviation"), "@inverse");
    scale = binary("broadcast_mul", scale, op.input("gamma"), part("@scale"));
    Value y = binary("broadcast_sub", last(b, x), op.input("moving_mean"), part("@centered"));
    y = binary("broadcast_mul", y, scale, part("@scaled"));
    y = binary("broadcast_add", y, op.input("beta"), added ? part("@shifted") : op.getLoc());
    if (added) y = binary("broadcast_add", y, last(b, added), op.getLoc());
    replace(b, op, y);
  }

  /// Images of one number of pixels, their channels side by side.
  void join(ir::UserOp op) {
    const auto axis = op.attribute<int64_t>("axis", 0);
    SmallVector<Value> operands;
    for (Value v : op.getArgs()) operands.push_back(last_.lookup(v));
    if ((axis == 1 || axis == -3) && llvm::all_of(operands, [](Value v) { return static_cast<bool>(v); }))
      rewrite(op, operands, "axis", AttrValue(int64_t{3}));
  }

  /// Of all pixels of a channel.
  void reduction(ir::UserOp op) {
    Value x = op.input("input_tensor");
    auto axes = op.attribute<std::vector<int32_t>>("axis", {});
    for (int32_t &axis : axes) axis += axis < 0 ? 4 : 0;
    llvm::sort(axes);
    if (axes != std::vector<int32_t>{2, 3} || !last_.contains(x)) return;
    const AttrValue moved(std::vector<int32_t>{1, 2});
    if (isImage(op.getOuts()[0])) return rewrite(op, {last_[x]}, "axis", moved);
    op.getArgsMutable().assign(last_[x]);
    op->removeAttr(ir::kShardingAttr);
    setAttribute(op, "axis", moved);
  }

  void elementwise(ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    const bool isOfElements = def && (def->scalar || op.getOpType() == "cast" || hasOneScale(op));
    if (!isOfElements || op.getOuts().size() != 1) return;
    OpBuilder b(op);
    SmallVector<Value> operands(op.getArgs());
    bool any = false;
    for (Value v : operands) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type || !type.hasStaticShape()) return;
      if (type.getNumElements() == 1) continue; // the same everywhere
      if (type.getRank() != 4 || (!last_.contains(v) && !movesNothing(v))) return;
      any |= last_.contains(v) && type.getShape() == cast<RankedTensorType>(op.getOuts()[0].getType()).getShape();
    }
    if (!any) return;
    for (Value &v : operands)
      if (cast<RankedTensorType>(v.getType()).getNumElements() != 1) v = last(b, v);
    rewrite(op, operands);
  }

  DenseMap<Value, Value> last_; // channels_first image -> the same in channels_last
  SmallVector<Operation *> moves_;
};

} // namespace

void keepChannelsLast(ModuleOp module) { ChannelsLast().run(module); }

} // namespace opc
