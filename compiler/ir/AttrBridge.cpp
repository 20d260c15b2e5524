// Between the SDK's values and MLIR's.
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "Locations.h"
#include "opc/PackedElements.h"

using namespace mlir;

namespace opc::ir {
namespace {

struct ToMlir {
  MLIRContext *ctx;
  Attribute operator()(std::monostate) const { return UnitAttr::get(ctx); }
  Attribute operator()(int32_t v) const { return IntegerAttr::get(IntegerType::get(ctx, 32), v); }
  Attribute operator()(int64_t v) const { return IntegerAttr::get(IntegerType::get(ctx, 64), v); }
  Attribute operator()(bool v) const { return BoolAttr::get(ctx, v); }
  Attribute operator()(float v) const { return FloatAttr::get(Float32Type::get(ctx), APFloat(v)); }
  Attribute operator()(double v) const { return FloatAttr::get(Float64Type::get(ctx), APFloat(v)); }
  Attribute operator()(const std::string &v) const { return StringAttr::get(ctx, v); }
  Attribute operator()(const Shape &v) const { return ShapeAttr::get(ctx, DenseI64ArrayAttr::get(ctx, v.dim_vec())); }
  Attribute operator()(DataType v) const { return DataTypeAttr::get(ctx, v); }
  Attribute operator()(const std::vector<int32_t> &v) const { return DenseI32ArrayAttr::get(ctx, v); }
  Attribute operator()(const std::vector<int64_t> &v) const { return DenseI64ArrayAttr::get(ctx, v); }
  Attribute operator()(const std::vector<float> &v) const { return DenseF32ArrayAttr::get(ctx, v); }
  template <class T> Attribute operator()(const std::vector<T> &v) const {
    SmallVector<Attribute> values;
    for (const T &x : v) values.push_back((*this)(x));
    return ListAttr::get(ctx, GetAttrType<std::vector<T>>::value, ArrayAttr::get(ctx, values));
  }
  Attribute operator()(const opc::RawAttr &v) const {
    return ir::RawAttr::get(ctx, v.type, StringAttr::get(ctx, v.bytes));
  }
};

} // namespace

Attribute toMlir(MLIRContext *ctx, const AttrValue &value) { return std::visit(ToMlir{ctx}, value.variant()); }

AttrValue fromMlir(Attribute attr) {
  if (auto b = dyn_cast<BoolAttr>(attr)) return b.getValue();
  if (auto i = dyn_cast<IntegerAttr>(attr)) {
    if (i.getType().isInteger(32)) return static_cast<int32_t>(i.getInt());
    if (i.getType().isInteger(64)) return static_cast<int64_t>(i.getInt());
    return {};
  }
  if (auto f = dyn_cast<FloatAttr>(attr)) {
    if (f.getType().isF32()) return f.getValue().convertToFloat();
    if (f.getType().isF64()) return f.getValue().convertToDouble();
    return {};
  }
  if (auto s = dyn_cast<StringAttr>(attr)) return s.str();
  if (auto s = dyn_cast<ShapeAttr>(attr)) return Shape(DimVector(s.getDims().begin(), s.getDims().end()));
  if (auto d = dyn_cast<DataTypeAttr>(attr)) return static_cast<DataType>(d.getValue());
  if (auto l = dyn_cast<DenseI32ArrayAttr>(attr))
    return std::vector<int32_t>(l.asArrayRef().begin(), l.asArrayRef().end());
  if (auto l = dyn_cast<DenseI64ArrayAttr>(attr))
    return std::vector<int64_t>(l.asArrayRef().begin(), l.asArrayRef().end());
  if (auto l = dyn_cast<DenseF32ArrayAttr>(attr))
    return std::vector<float>(l.asArrayRef().begin(), l.asArrayRef().end());
  if (auto r = dyn_cast<ir::RawAttr>(attr)) return opc::RawAttr{static_cast<AttrType>(r.getKind()), r.getBytes().str()};
  if (auto l = dyn_cast<ListAttr>(attr)) {
    std::vector<DataType> types;
    std::vector<Shape> shapes;
    std::vector<std::string> strings;
    for (Attribute a : l.getValues()) {
      AttrValue v = fromMlir(a);
      if (auto *t = v.get<DataType>()) types.push_back(*t);
      if (auto *s = v.get<Shape>()) shapes.push_back(*s);
      if (auto *s = v.get<std::string>()) strings.push_back(*s);
    }
    if (l.getKind() == kAtListDataType) return types;
    if (l.getKind() == kAtListShape) return shapes;
    if (l.getKind() == kAtListString) return strings;
  }
  return {};
}

namespace {
/// T is the table's MLIR type; integers have their width and whether they are unsigned besides.
unsigned widthOf(const ElementType &e) { return e.kind == ElementClass::kBool ? 1 : static_cast<unsigned>(e.bits); }
bool isUnsigned(const ElementType &e) { return e.kind != ElementClass::kBool && !e.isSigned; }
template <class T> Type make(MLIRContext *ctx, const ElementType &e) {
  if constexpr (std::is_same_v<T, IntegerType>)
    return IntegerType::get(ctx, widthOf(e), isUnsigned(e) ? IntegerType::Unsigned : IntegerType::Signless);
  else
    return T::get(ctx);
}
template <class T> bool isMadeFrom(Type t, const ElementType &e) {
  if constexpr (std::is_same_v<T, IntegerType>) {
    auto i = dyn_cast<IntegerType>(t);
    return i && i.getWidth() == widthOf(e) && i.isUnsigned() == isUnsigned(e);
  } else {
    return isa<T>(t);
  }
}
} // namespace

Type elementType(MLIRContext *ctx, DataType type) {
  switch (type) {
#define OPC_ELEMENT(enumerator, number, cpp, name, numpy, npy, onnx, safetensors, mlir, ...)                           \
  case enumerator: return make<mlir>(ctx, opc::elementType(type));
    OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  default: return {};
  }
}

DataType dataType(Type t) {
#define OPC_ELEMENT(enumerator, number, cpp, name, numpy, npy, onnx, safetensors, mlir, ...)                           \
  if (isMadeFrom<mlir>(t, opc::elementType(enumerator))) return enumerator;
  OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  return kInvalidDataType;
}

Type tensorType(MLIRContext *ctx, const user_op::TensorDesc &desc) {
  Type element = elementType(ctx, desc.data_type());
  if (!element) return UnresolvedType::get(ctx);
  SmallVector<int64_t> dims;
  for (int64_t d : desc.shape()) dims.push_back(d < 0 ? ShapedType::kDynamic : d);
  return RankedTensorType::get(dims, element);
}

bool describe(Type type, user_op::TensorDesc *desc) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) return false;
  DimVector dims;
  for (int64_t d : tensor.getShape()) dims.push_back(ShapedType::isDynamic(d) ? -1 : d);
  *desc = user_op::TensorDesc(Shape(std::move(dims)), dataType(tensor.getElementType()));
  return true;
}

user_op::TensorDesc descOf(Type type) {
  user_op::TensorDesc desc;
  describe(type, &desc);
  return desc;
}

int64_t bytesOf(Value v) {
  auto tensor = dyn_cast<RankedTensorType>(v.getType());
  if (!tensor) return 0;
  auto bytes = static_cast<int64_t>(GetSizeOfDataType(dataType(tensor.getElementType())));
  for (int64_t d : tensor.getShape())
    if (ShapedType::isDynamic(d) || __builtin_mul_overflow(bytes, d, &bytes)) return 0;
  return bytes;
}

user_op::OpConf toOpConf(UserOp op) {
  user_op::OpConf conf;
  conf.name = opName(op);
  conf.type = op.getOpType().str();
  conf.inputs.reserve(op.getInputNames().size());
  conf.outputs.reserve(op.getOutputNames().size());
  op.forEachInputArg([&](StringRef arg, ValueRange values) {
    std::vector<std::string> &tensors = conf.inputs.emplace_back(user_op::ArgBinding{arg.str(), {}}).tensors;
    tensors.reserve(values.size());
    for (Value v : values) tensors.push_back(tensorName(v));
  });
  op.forEachOutputArg([&](StringRef arg, ValueRange values) {
    std::vector<std::string> &tensors = conf.outputs.emplace_back(user_op::ArgBinding{arg.str(), {}}).tensors;
    tensors.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      std::string &name = tensors.emplace_back();
      name.reserve(conf.name.size() + arg.size() + 8);
      name.append(conf.name).append("/").append(arg.data(), arg.size()).append("_").append(std::to_string(i));
    }
  });
  for (NamedAttribute a : op.getOpAttrs()) // sorted, as the map is
    conf.attrs.emplace_hint(conf.attrs.end(), a.getName().str(), fromMlir(a.getValue()));
  return conf;
}

std::unique_ptr<OpInstance> toInstance(UserOp op, const user_op::OpDef &def) {
  auto instance = std::make_unique<OpInstance>(def, toOpConf(op));
  if (instance->inputDescs().size() != op.getArgs().size() || instance->outputDescs().size() != op.getOuts().size())
    return nullptr;
  for (auto [i, operand] : llvm::enumerate(op.getArgs()))
    if (!describe(operand.getType(), &instance->inputDescs()[i])) return nullptr;
  for (auto [i, result] : llvm::enumerate(op.getOuts())) describe(result.getType(), &instance->outputDescs()[i]);
  return instance;
}

// Booleans are packed by DenseElementsAttr's raw form, and bytes of narrower integers have only their own bits set;
// everything else is stored as the bytes that it is.
DenseElementsAttr denseFromBytes(RankedTensorType type, ArrayRef<char> bytes) {
  const DataType element = dataType(type.getElementType());
  if (isNarrowIntegerType(element)) {
    SmallVector<char> low(bytes);
    for (char &c : low) c = static_cast<char>(c & ((1 << opc::elementType(element).bits) - 1));
    return DenseElementsAttr::getFromRawBuffer(type, low);
  }
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char c : bytes) values.push_back(c != 0);
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

std::string denseToBytes(DenseElementsAttr attr) {
  std::string out;
  if (attr.getElementType().isInteger(1)) {
    for (bool b : attr.getValues<bool>()) out.push_back(b ? 1 : 0);
    return out;
  }
  const DataType type = dataType(attr.getElementType()), element = isNarrowIntegerType(type) ? type : kInvalidDataType;
  ArrayRef<char> raw = attr.getRawData();
  if (!attr.isSplat()) out.assign(raw.begin(), raw.end());
  for (int64_t i = 0; attr.isSplat() && i < attr.getNumElements(); ++i) out.append(raw.begin(), raw.end());
  normalizeElements(element, out.data(), out.size());
  return out;
}

} // namespace opc::ir
