// Sums of 8-bit integers and what makes bytes or real numbers of them -> fused_integer_conv2d, fused_integer_matmul.
// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"
#include "LibraryFusion.h"
#include "Locations.h"
#include "UserOpBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace opc {
namespace {

/// A product of integers and what stands behind it.
struct Sums {
  explicit Sums(ir::UserOp op) : op(op), isConv(op.getOpType() == "integer_conv2d"), last(op.getOuts()[0]) {
    const int64_t rank = cast<RankedTensorType>(last.getType()).getRank();
    channel = isConv ? 1 : rank - 1;
  }

  ir::UserOp op;
  bool isConv, relu = false;
  int64_t channel;
  Value last, scale, zero;
  SmallVector<Operation *> taken; // in order

  /// Takes what reads the sums alone. False once there is nothing to take.
  bool take() {
    ir::UserOp next = scale ? ir::UserOp() : onlyReader(last);
    if (!next) return false;
    const StringRef type = next.getOpType();
    const bool ok = type == "broadcast_maximum"                           ? takeRelu(next)
                    : type == "requantize" || type == "dequantize_linear" ? takeScale(next)
                                                                          : false;
    if (!ok) return false;
    last = next.getOuts()[0];
    taken.push_back(next);
    return true;
  }

private:
  static bool isZero(Value v) {
    auto constant = v.getDefiningOp<ir::ConstantOp>();
    auto value = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
    return value && value.getNumElements() == 1 && (*value.begin()).isZero();
  }
  bool takeRelu(ir::UserOp next) {
    Value x = next.input("x"), y = next.input("y");
    relu = isZero(x == last ? y : x) && next.getOuts()[0].getType() == last.getType();
    return relu;
  }
  /// One number, or one for each channel or column.
  bool fits(ir::UserOp next, Value v) const {
    if (!v) return true;
    auto type = cast<RankedTensorType>(v.getType());
    if (!type.hasStaticShape() || type.getRank() > 1) return false;
    if (type.getRank() == 0) return true;
    const int64_t rank = cast<RankedTensorType>(last.getType()).getRank(), axis = next.attribute<int32_t>("axis", 1);
    return (axis < 0 ? axis + rank : axis) == channel;
  }
  bool takeScale(ir::UserOp next) {
    auto made = cast<RankedTensorType>(next.getOuts()[0].getType()).getElementType();
    const Value by = next.input("scale"), point = next.input("zero_point");
    if (next.input("in") != last || !fits(next, by) || !fits(next, point)) return false;
    if (!made.isF32() && !made.isInteger(8)) return false;
    if (made.isF32() && point) return false;
    scale = by, zero = point;
    return true;
  }
};

/// Attributes speak of the whole; what is fused is of the device's pieces.
void speakOfPieces(const Sums &sums, ir::UserOpBuilder &maker) {
  if (!sums.isConv || !sums.op->hasAttr(ir::kShardingAttr)) return;
  ir::UserOp conv = sums.op;
  const auto channels = [&](const char *arg) {
    return cast<RankedTensorType>(conv.input(arg).getType()).getDimSize(1);
  };
  maker.attr("filters", AttrValue(int32_t{0}));
  if (const int64_t own = channels("weight"); own > 0)
    maker.attr("groups", AttrValue(static_cast<int32_t>(channels("in") / own)));
}

void fuse(ir::UserOp op, const KeptTensors &kept) {
  Sums sums(op);
  while (!isKept(sums.last, kept) && sums.take()) {
  }
  if (!sums.scale) return;
  Operation *place = sums.last.getDefiningOp();
  auto end = cast<ir::UserOp>(place);
  OpBuilder b(place);
  ir::UserOpBuilder maker(b, sums.isConv ? "fused_integer_conv2d" : "fused_integer_matmul");
  const char *const left = sums.isConv ? "in" : "a", *const right = sums.isConv ? "weight" : "b";
  maker.in(left, op.input(left)).in(right, op.input(right));
  for (const char *arg : {left, right}) {
    const std::string zero = std::string(arg) + "_zero_point";
    maker.in(zero, op.input(zero));
  }
  maker.in("bias", op.input("bias")).in("scale", sums.scale).in("zero_point", sums.zero);
  if (sums.isConv)
    maker.attrsOf(op,
                  {"filters", "padding_before", "data_format", "kernel_size", "strides", "dilation_rate", "groups"});
  else
    maker.attrsOf(op, {"transpose_b"});
  speakOfPieces(sums, maker);
  const bool isReal = cast<RankedTensorType>(sums.last.getType()).getElementType().isF32();
  maker.attr("dtype", AttrValue(isReal ? kFloat : end.attribute<DataType>("dtype", kUInt8)))
      .attr("relu", AttrValue(sums.relu));
  ir::UserOp fused = maker.make(ir::locationOfMaker(sums.last), "out", sums.last.getType());
  sums.last.replaceAllUsesWith(fused.getOuts()[0]);
  for (Operation *taken : llvm::reverse(sums.taken)) taken->erase();
  op.erase();
}

bool isProduct(ir::UserOp op) {
  if (op.getOpType() != "integer_conv2d" && op.getOpType() != "integer_matmul") return false;
  return isa<RankedTensorType>(op.getOuts()[0].getType());
}

} // namespace

void fuseIntegers(ModuleOp module, const KeptTensors &kept) {
  SmallVector<ir::UserOp> products;
  module.walk([&](ir::UserOp op) {
    if (isProduct(op)) products.push_back(op);
  });
  for (ir::UserOp op : products) fuse(op, kept);
}

} // namespace opc
