// Ops that ONNX has no form for, as nodes of a domain that opc alone knows.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxOwnNodes.h"

#include "MutableInputs.h"
#include "OnnxTensors.h"
#include "PrintableText.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace opc::onnx_export {
namespace {

/// Attributes in the kind that ONNX has for them; what it has none for is a tensor or the number of an element type
/// (docs/onnx.md, "Export"). False where there is no way to write one.
class AttributeWriter {
public:
  explicit AttributeWriter(onnx::Attribute *to) : to_(to) {}

  bool write(const AttrValue &value) {
    return std::visit([this](const auto &v) { return one(v); }, value.variant());
  }

private:
  bool one(const std::monostate &) { return false; }
  bool one(const RawAttr &) { return false; }
  bool one(int32_t v) { return one(int64_t{v}); }
  bool one(bool v) { return one(int64_t{v}); }
  bool one(DataType v) { return one(int64_t{elementType(v).onnx}); }
  bool one(int64_t v) {
    to_->set_type(onnx::Attribute::INT);
    to_->set_i(v);
    return true;
  }
  bool one(float v) {
    to_->set_type(onnx::Attribute::FLOAT);
    to_->set_f(v);
    return true;
  }
  bool one(double v) {
    if (const auto narrow = static_cast<float>(v); static_cast<double>(narrow) == v || std::isnan(v))
      return one(narrow);
    to_->set_type(onnx::Attribute::TENSOR);
    wire::toOnnx({Shape(), kDouble}, {reinterpret_cast<const char *>(&v), sizeof v}, to_->mutable_t());
    return true;
  }
  bool one(const std::string &v) {
    to_->set_type(onnx::Attribute::STRING);
    to_->set_s(v);
    return true;
  }
  bool one(const Shape &v) { return integers(v); }
  bool one(const std::vector<int32_t> &v) { return integers(v); }
  bool one(const std::vector<int64_t> &v) { return integers(v); }
  bool one(const std::vector<DataType> &v) {
    std::vector<int64_t> numbers;
    for (const DataType type : v) numbers.push_back(elementType(type).onnx);
    return integers(numbers);
  }
  bool one(const std::vector<float> &v) {
    to_->set_type(onnx::Attribute::FLOATS);
    for (const float x : v) to_->add_floats(x);
    return true;
  }
  bool one(const std::vector<std::string> &v) {
    to_->set_type(onnx::Attribute::STRINGS);
    for (const std::string &x : v) to_->add_strings(x);
    return true;
  }
  bool one(const std::vector<Shape> &v) {
    to_->set_type(onnx::Attribute::TENSORS);
    for (const Shape &shape : v) {
      const DimVector &dims = shape.dim_vec();
      wire::toOnnx({Shape({shape.NumAxes()}), kInt64},
                   {reinterpret_cast<const char *>(dims.data()), dims.size() * sizeof(int64_t)}, to_->add_tensors());
    }
    return true;
  }
  template <class List> bool integers(const List &list) {
    to_->set_type(onnx::Attribute::INTS);
    for (const int64_t v : list) to_->add_ints(v);
    return true;
  }

  onnx::Attribute *to_;
};

/// Who reads the node back counts the values: of several arguments of any number nobody could tell which is whose.
void refuseUncountable(const Emission &e, const std::vector<user_op::ArgDef> &args, const char *what) {
  const auto variadic = std::count_if(args.begin(), args.end(), [](const user_op::ArgDef &a) { return a.atLeast; });
  if (variadic > 1)
    e.refuse("it has " + std::to_string(variadic) + " " + what + " of any number, and a node has one list for all");
}

void refuseWriting(const Emission &e) {
  const std::vector<bool> isWritten = mutableInputs(e.instance);
  for (size_t k = 0; k < isWritten.size(); ++k)
    if (isWritten[k]) e.refuse("it writes its input '" + e.instance.inputArgs()[k].first + "', which no node does");
}

} // namespace

void emitOwnNode(Emission &e) {
  const user_op::OpDef &def = e.instance.def();
  refuseUncountable(e, def.inputs, "inputs");
  refuseUncountable(e, def.outputs, "outputs");
  refuseWriting(e);
  onnx::Node *node = e.nodesHere().graph().add_node();
  node->set_op_type(def.name);
  node->set_domain(kOwnDomain);
  for (const auto &[name, value] : e.instance.conf().attrs) {
    onnx::Attribute *attribute = node->add_attribute();
    attribute->set_name(name);
    if (!AttributeWriter(attribute).write(value)) e.refuse("its attribute '" + name + "' is of no kind of ONNX");
  }
  for (const user_op::ArgDef &arg : def.inputs) {
    const int32_t count = arg.atLeast ? e.count(arg.name) : arg.count;
    for (int32_t k = 0; k < count; ++k) node->add_input(e.has(arg.name, k) ? e.raw(arg.name, k).name : "");
  }
  std::vector<std::pair<std::pair<std::string, int32_t>, Wire>> made;
  for (const user_op::ArgDef &arg : def.outputs) {
    const int32_t count = arg.atLeast ? e.instance.wrapper().output_size(arg.name) : arg.count;
    for (int32_t k = 0; k < count; ++k) {
      if (!e.wants(arg.name, k)) {
        node->add_output("");
        continue;
      }
      const user_op::TensorDesc &desc = e.made(arg.name, k);
      made.push_back({{arg.name, k}, {e.nodesHere().fresh(e.op.name), desc.data_type(), desc.shape()}});
      node->add_output(made.back().second.name);
    }
  }
  if (const std::string library = libraryOf(def); !library.empty()) {
    onnx::StringPair *pair = node->add_metadata_props();
    pair->set_key(kLibraryKey);
    pair->set_value(printableName(library));
  }
  for (const auto &[arg, wire] : made) e.out(arg.first, wire, arg.second);
}

std::string libraryOf(const user_op::OpDef &def) {
  return std::filesystem::path(def.origin.library).filename().string();
}

} // namespace opc::onnx_export
