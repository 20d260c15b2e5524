// What an ONNX model says of the types and shapes of its values.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxDeclaredTypes.h"
#include "OnnxNames.h"
#include "OnnxTensors.h"

namespace opc::onnx {

std::optional<Refusal> typeContradiction(const std::string &name, const Type &type, const Operand &value,
                                         const GraphDraft &draft) {
  const auto &tensor = type.tensor_type();
  const DataType own = draft.typeInModel(value);
  if (type.has_tensor_type() && (tensor.elem_type() == 0 || tensor.elem_type() == elementType(own).onnx))
    return std::nullopt;
  const DataType said = wire::fromOnnxType(tensor.elem_type());
  return Refusal{"OPC0322",
                 "'" + shown(name) + "' is " + value.desc.toString() + ", and the model says that it is " +
                     (!type.has_tensor_type()    ? "no tensor"
                      : said == kInvalidDataType ? "of ONNX's element type " + std::to_string(tensor.elem_type())
                                                 : dataTypeName(said)),
                 "save the model again with the types that its ops have: onnx.shape_inference.infer_shapes"};
}

DeclaredTypes::DeclaredTypes(const Graph &graph) {
  for (const auto *list : {&graph.value_info(), &graph.output()})
    for (const Value &v : *list)
      if (v.type().has_tensor_type() || v.type().has_sequence_type()) types_[v.name()] = &v.type();
}

const Type *DeclaredTypes::typeOf(const std::string &name, const Operand &value) const {
  const auto found = types_.find(name);
  return found == types_.end() || value.kind != Operand::Kind::kTensor ? nullptr : found->second;
}

std::optional<Refusal> DeclaredTypes::contradiction(const std::string &name, const Operand &value,
                                                    const GraphDraft &draft) const {
  const Type *type = typeOf(name, value);
  return type ? typeContradiction(name, *type, value, draft) : std::nullopt;
}

std::optional<std::string> DeclaredTypes::otherShape(const std::string &name, const Operand &value) const {
  const Type *type = typeOf(name, value);
  if (!type || !type->tensor_type().has_shape()) return std::nullopt;
  const auto &dims = type->tensor_type().shape().dim();
  bool fits = dims.size() == value.rank();
  std::string said;
  for (int k = 0; k < dims.size(); ++k) {
    fits &= !dims[k].has_dim_value() || dims.size() != value.rank() || dims[k].dim_value() == value.dim(k);
    said += (k ? "," : "") + (dims[k].has_dim_value() ? std::to_string(dims[k].dim_value()) : "?");
  }
  if (fits) return std::nullopt;
  return "[" + said + "]";
}

} // namespace opc::onnx
