// The inputs of an ONNX model: what their shapes are, and what must be said of them before the model is a graph.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxInputs.h"
#include "NearestNames.h"
#include "OnnxNames.h"
#include "OnnxTensors.h"
#include "OpInstance.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace opc::onnx {

bool isParameter(const Node &node, size_t index) {
  // Inputs that say how an op computes, by its name: statistics, bounds, scales and zero points, what is filled in.
  static const std::map<std::string, std::set<size_t>> kSettings = {
      {"BatchNormalization", {3, 4}},
      {"Clip", {1, 2}},
      {"DequantizeLinear", {1, 2}},
      {"DynamicQuantizeMatMul", {2, 3}},
      {"MatMulIntegerToFloat", {2, 3, 4, 5}},
      {"MatMulNBits", {2, 3}},
      {"NonMaxSuppression", {3, 4}},
      {"OneHot", {1, 2}},
      {"Pad", {2}},
      {"QGemm", {1, 2, 4, 5, 7, 8}},
      {"QLinearAdd", {1, 2, 4, 5, 6, 7}},
      {"QLinearAveragePool", {1, 2, 3, 4}},
      {"QLinearConv", {1, 2, 4, 5, 6, 7}},
      {"QLinearGlobalAveragePool", {1, 2, 3, 4}},
      {"QLinearLeakyRelu", {1, 2, 3, 4}},
      {"QLinearMatMul", {1, 2, 4, 5, 6, 7}},
      {"QLinearMul", {1, 2, 4, 5, 6, 7}},
      {"QLinearSigmoid", {1, 2, 3, 4}},
      {"QLinearSoftmax", {1, 2, 3, 4}},
      {"QuantizeLinear", {1, 2}},
      {"Range", {0, 1, 2}},
      {"Resize", {1, 2}},
      {"Upsample", {1}},
  };
  // Behind those of the result any number of tensors, each with its scale and zero point.
  if (node.op_type() == "QLinearConcat") return index >= 2 && (index - 2) % 3 == 0;
  const auto found = kSettings.find(node.op_type());
  return found == kSettings.end() || !found->second.count(index);
}

bool isOfMaps(const Type &type) {
  if (type.has_map_type()) return true;
  if (type.has_sequence_type()) return isOfMaps(type.sequence_type().elem_type());
  return type.has_optional_type() && isOfMaps(type.optional_type().elem_type());
}

/// What the given shapes say of sizes with names. One name is one number.
bool ModelInputs::bindSizes(NamedSizes *found) {
  NamedSizes &sizes = *found;
  for (const auto &[name, size] : request_.model.dims) sizes[name] = {size, ""};
  for (const Value &v : graph_.input()) {
    const auto given = request_.shapes.find(v.name());
    if (given == request_.shapes.end() || !v.type().has_tensor_type()) continue;
    const TensorShape &shape = v.type().tensor_type().shape();
    const auto rank = static_cast<size_t>(shape.dim_size());
    if (v.type().tensor_type().has_shape() && rank != given->second.size()) {
      return refuse("OPC0324", "input '" + shown(v.name()) + "' has rank " + std::to_string(rank) +
                                   ", the given shape " + Shape(given->second).ToString() + " has " +
                                   std::to_string(given->second.size()));
    }
    for (size_t k = 0; k < rank; ++k) {
      const auto &dim = shape.dim(static_cast<int>(k));
      if (dim.dim_param().empty()) continue;
      const auto [known, isNew] = sizes.emplace(dim.dim_param(), std::make_pair(given->second[k], v.name()));
      if (isNew || known->second.first == given->second[k]) continue;
      return refuse(
          "OPC0324",
          "size '" + shown(dim.dim_param()) + "' is " + std::to_string(known->second.first) +
              (known->second.second.empty() ? " by --dim" : " in input '" + shown(known->second.second) + "'") +
              " and " + std::to_string(given->second[k]) + " in input '" + shown(v.name()) + "'",
          "one name of a size is one number");
    }
  }
  return true;
}

/// `what`: "input 'x' is a tensor".
std::optional<DataType> ModelInputs::typeOf(const std::string &what, const Type::TensorType &type) {
  if (const DataType known = wire::fromOnnxType(type.elem_type()); known != kInvalidDataType) return known;
  if (type.elem_type() == 0)
    refuse("OPC0321", what + " without an element type",
           "save the model again with the types of its inputs: onnx.helper.make_tensor_value_info(name, type, shape)");
  else
    refuse("OPC0422", what + " of ONNX's element type " + std::to_string(type.elem_type()) +
                          (type.elem_type() == 8 ? " (strings)" : "") + ", which opc does not have");
  return std::nullopt;
}

const std::vector<int64_t> *ModelInputs::elementShape(const std::string &name) const {
  for (const auto *given : {&request_.shapes, &request_.model.elements})
    if (const auto found = given->find(name); found != given->end()) return &found->second;
  return nullptr;
}

/// A sequence has an input for each element that is given, NAME.0, NAME.1 and so on; an optional has its value's.
bool ModelInputs::bindElements(const Value &v) {
  const bool isOptional = v.type().has_optional_type();
  const Type &inner = isOptional ? v.type().optional_type().elem_type() : v.type();
  const bool isList = inner.has_sequence_type();
  const Type &element = isList ? inner.sequence_type().elem_type() : inner;
  if (!element.has_tensor_type()) {
    return refuse("OPC0422", "input '" + shown(v.name()) + "' is " + (isList ? "a sequence" : "an optional") +
                                 " of what is no tensor, and opc has those of tensors alone");
  }
  const std::optional<DataType> type =
      typeOf("input '" + shown(v.name()) + "' is " + (isList ? "a sequence of tensors" : "an optional tensor"),
             element.tensor_type());
  if (!type) return false;
  for (size_t k = 0; isList || k == 0; ++k) {
    const std::string name = v.name() + (isList ? "." + std::to_string(k) : "");
    const std::vector<int64_t> *shape = elementShape(name);
    if (!shape) break;
    const user_op::TensorDesc desc{Shape(*shape), *type};
    if (shape->size() > static_cast<size_t>(kMaxRank))
      return refuse("OPC0321", "input '" + shown(name) + "' has " + std::to_string(shape->size()) + " dimensions");
    if (auto bytes = tensorBytes(desc); !bytes)
      return refuse("OPC0321", "input '" + shown(name) + "': " + bytes.status().message());
    if (!descs_.emplace(name, desc).second)
      return refuse("OPC0321", "two inputs are called '" + shown(name) + "'" +
                                   (isList ? ", one of them an element of '" + shown(v.name()) + "'" : ""));
  }
  return true;
}

bool ModelInputs::bindTensor(const Value &v, const NamedSizes &sizes) {
  const auto &type = v.type().tensor_type();
  const std::optional<DataType> known = typeOf("input '" + shown(v.name()) + "' is a tensor", type);
  if (!known) return false;
  const DataType dtype = *known;
  DimVector dims;
  if (const auto given = request_.shapes.find(v.name()); given != request_.shapes.end()) {
    dims = given->second;
  } else {
    isOpen_ |= !type.has_shape();
    for (const auto &dim : type.shape().dim()) {
      const auto size = sizes.find(dim.dim_param());
      dims.push_back(!dim.dim_param().empty() ? (size == sizes.end() ? -1 : size->second.first)
                     : dim.has_dim_value()    ? dim.dim_value()
                                              : -1);
      if (dim.has_dim_value() && dim.dim_value() < 0) dims.back() = -1;
      isOpen_ |= dims.back() < 0;
    }
  }
  user_op::TensorDesc desc{Shape(dims), dtype};
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return refuse("OPC0321", "input '" + shown(v.name()) + "' has " + std::to_string(dims.size()) + " dimensions");
  }
  if (std::find(dims.begin(), dims.end(), -1) == dims.end())
    if (auto bytes = tensorBytes(desc); !bytes) {
      return refuse("OPC0321", "input '" + shown(v.name()) + "': " + bytes.status().message());
    }
  if (!descs_.emplace(v.name(), desc).second) {
    return refuse("OPC0321", "two inputs are called '" + shown(v.name()) + "'");
  }
  return true;
}

bool ModelInputs::bind() {
  NamedSizes sizes;
  if (!bindSizes(&sizes)) return false;
  std::set<std::string> initialized;
  for (const Tensor &t : graph_.initializer()) initialized.insert(t.name());
  for (const SparseTensor &t : graph_.sparse_initializer()) initialized.insert(t.values().name());
  for (const Value &v : graph_.input()) {
    if (initialized.count(v.name())) continue;
    if (v.name().empty() || v.name().size() > kMaxName) {
      return refuse("OPC0321", v.name().empty() ? "an input has no name"
                                                : "a name of " + std::to_string(v.name().size()) + " bytes: '" +
                                                      shown(v.name()) + "'");
    }
    if (isOfMaps(v.type()))
      return refuse("OPC0422", "input '" + shown(v.name()) + "' is a map or made of maps, and opc has tensors",
                    "give the numbers to the node that reads them, as a tensor");
    if (v.type().has_sequence_type() || v.type().has_optional_type()) {
      if (!bindElements(v)) return false;
      continue;
    }
    if (!v.type().has_tensor_type()) {
      return refuse(v.has_type() ? "OPC0422" : "OPC0321",
                    "input '" + shown(v.name()) + "' is " +
                        (v.has_type() ? "no tensor, sequence or optional" : "of no type"));
    }
    if (!bindTensor(v, sizes)) return false;
  }
  return checkGiven();
}

/// Names that were given must be of the model.
bool ModelInputs::checkGiven() {
  bool ok = true;
  std::vector<std::string> names, dims;
  std::unordered_set<std::string> known; // of dims
  for (const Value &v : graph_.input()) {
    names.push_back(printableName(v.name()));
    for (const auto &dim : v.type().tensor_type().shape().dim())
      if (!dim.dim_param().empty() && known.insert(dim.dim_param()).second) dims.push_back(dim.dim_param());
  }
  for (const auto &[name, size] : request_.model.dims)
    if (!known.count(name))
      ok = refuse("OPC0005", "--dim names '" + shown(name) + "', which is no size of the model's inputs",
                  didYouMeanAmong(name, dims, "the inputs have no sizes with names"));
  std::set<std::string> initialized;
  for (const Tensor &t : graph_.initializer()) initialized.insert(t.name());
  for (const SparseTensor &t : graph_.sparse_initializer()) initialized.insert(t.values().name());
  for (const std::string &name : request_.model.constants)
    if (!descs_.count(name) && !initialized.count(name))
      ok = refuse("OPC0005", "--const names '" + shown(name) + "', which is no input or initializer of the model",
                  didYouMeanAmong(name, names, "the model has no inputs"));
  return ok;
}

/// What must be bound, and the options that do.
std::pair<std::string, std::string> ModelInputs::unboundText() const {
  std::string list, flags;
  std::set<std::string> named;
  size_t found = 0;
  constexpr size_t kMostShown = 100;
  for (const Value &v : graph_.input()) {
    const auto desc = descs_.find(v.name());
    if (desc == descs_.end() || !v.type().has_tensor_type()) continue;
    const auto &shape = v.type().tensor_type().shape();
    bool isNameless = !v.type().tensor_type().has_shape();
    std::string dims;
    for (int k = 0; k < shape.dim_size(); ++k) {
      const bool isOpen = k < desc->second.shape().NumAxes() && desc->second.shape().At(k) < 0;
      const std::string &name = shape.dim(k).dim_param();
      dims += (k ? "," : "") + (isOpen ? std::string("N") : std::to_string(shape.dim(k).dim_value()));
      if (!isOpen) continue;
      isNameless |= name.empty();
      if (name.empty() || !named.insert(name).second || ++found > kMostShown) continue;
      list += (list.empty() ? "" : ", ") + std::string("'") + shown(name) + "' (dimension " + std::to_string(k) +
              " of '" + shown(v.name()) + "')";
      flags += " --dim " + shown(name) + "=N";
    }
    if (!isNameless || ++found > kMostShown) continue;
    list += (list.empty() ? "" : ", ") + std::string("sizes without a name of '") + shown(v.name()) + "'";
    flags += " --shape " + shown(v.name()) + "=" + dims;
  }
  if (found > kMostShown) list += " and " + std::to_string(found - kMostShown) + " more", flags += " ...";
  return {"the model leaves sizes open, and its ops follow from them: " + list, "bind them:" + flags};
}

} // namespace opc::onnx
