// A graph as an ONNX model of opc's own ops.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxModel.h"

#include "PrintableText.h"
#include "TextParts.h"

#include "onnx.pb.h"

#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

namespace opc {
namespace {

constexpr int64_t kIrVersion = 8, kStandardOpset = 17; // the oldest that hold the model
constexpr const char *kDomain = "opc.ops";

std::string realText(double value) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

/// Attributes are what ONNX has for them: integers and bools INT, floats FLOAT, texts and element types STRING, shapes
/// and lists of integers INTS. A double that no float holds is a STRING with all of its digits, as is what ONNX has no
/// kind for.
class AttributeWriter {
public:
  explicit AttributeWriter(onnx::Attribute *to) : to_(to) {}

  void write(const AttrValue &value) {
    if (const auto *v = value.get<int32_t>()) return integer(*v);
    if (const auto *v = value.get<int64_t>()) return integer(*v);
    if (const auto *v = value.get<bool>()) return integer(*v);
    if (const auto *v = value.get<float>()) return real(*v);
    if (const auto *v = value.get<double>()) return real(*v);
    if (const auto *v = value.get<std::string>()) return text(printableName(*v));
    if (const auto *v = value.get<DataType>()) return text(dataTypeName(*v));
    if (const auto *v = value.get<Shape>()) return integers(v->dim_vec());
    if (const auto *v = value.get<std::vector<int32_t>>()) return integers(*v);
    if (const auto *v = value.get<std::vector<int64_t>>()) return integers(*v);
    if (const auto *v = value.get<std::vector<float>>()) return reals(*v);
    if (const auto *v = value.get<std::vector<std::string>>()) return texts(*v, printableName);
    if (const auto *v = value.get<std::vector<DataType>>()) return texts(*v, dataTypeName);
    text(printableName(value.toString()));
  }

private:
  void integer(int64_t v) {
    to_->set_type(onnx::Attribute::INT);
    to_->set_i(v);
  }
  void real(double v) {
    const auto narrow = static_cast<float>(v);
    if (static_cast<double>(narrow) != v && !std::isnan(v)) return text(realText(v));
    to_->set_type(onnx::Attribute::FLOAT);
    to_->set_f(narrow);
  }
  void text(const std::string &v) {
    to_->set_type(onnx::Attribute::STRING);
    to_->set_s(v);
  }
  template <class List> void integers(const List &list) {
    to_->set_type(onnx::Attribute::INTS);
    for (const auto v : list) to_->add_ints(v);
  }
  void reals(const std::vector<float> &list) {
    to_->set_type(onnx::Attribute::FLOATS);
    for (const float v : list) to_->add_floats(v);
  }
  template <class List, class Text> void texts(const List &list, const Text &textOf) {
    to_->set_type(onnx::Attribute::STRINGS);
    for (const auto &v : list) to_->add_strings(textOf(v));
  }

  onnx::Attribute *to_;
};

bool isOf(OnnxPart part, const GraphOp &op) { return (op.role == "forward") == (part == OnnxPart::kForward); }

class ModelWriter {
public:
  ModelWriter(const GraphFacts &facts, OnnxPart part) : facts_(facts), part_(part) {
    for (const GraphTensor &t : facts.inputs) known_.try_emplace(t.tensor, Known{&t, "input"});
    for (const GraphTensor &t : facts.variables) known_.try_emplace(t.tensor, Known{&t, "variable"});
    for (const GraphOp &op : facts.ops)
      for (const GraphTensor &t : op.outputs) known_.try_emplace(t.tensor, Known{&t, ""});
  }

  std::string bytes(const std::string &name) {
    onnx::Model model;
    model.set_ir_version(kIrVersion);
    model.set_producer_name("opc");
    graph_ = model.mutable_graph();
    graph_->set_name(printableName(name));
    find();
    nameValues();
    for (const GraphTensor &t : facts_.inputs) addInput(t.tensor);
    for (const GraphTensor &t : facts_.variables) addInput(t.tensor);
    for (const std::string &tensor : fromOther_) addInput(tensor);
    for (const GraphOp &op : facts_.ops)
      if (isOf(part_, op)) addNode(op);
    for (const GraphTensor &t : facts_.outputs)
      if (isMadeHere(t)) addOutput(t);
    for (const std::string &tensor : toOther_) describe(tensor, graph_->add_output(), "read by the backward pass");
    auto *own = model.add_opset_import();
    own->set_domain(kDomain);
    own->set_version(1);
    auto *standard = model.add_opset_import();
    standard->set_domain("");
    standard->set_version(kStandardOpset);
    return model.SerializeAsString();
  }

private:
  struct Known {
    const GraphTensor *tensor;
    const char *kind; // "input", "variable"; empty for what an op makes
  };

  /// What is read and made here, and what goes from one part to the other.
  void find() {
    std::set<std::string> there; // read by the other part
    std::set<std::string> seen;
    for (const GraphOp &op : facts_.ops) {
      if (isOf(part_, op))
        for (const GraphTensor &t : op.outputs) made_.insert(t.tensor);
      for (const auto &[slot, tensor] : op.inputs) (isOf(part_, op) ? read_ : there).insert(tensor);
    }
    if (part_ == OnnxPart::kForward)
      for (const GraphTensor &t : facts_.outputs) // of an input or a variable itself
        if (!isMadeByOp(t.tensor)) read_.insert(t.tensor);
    for (const GraphOp &op : facts_.ops)
      for (const GraphTensor &t : op.outputs) {
        if (made_.count(t.tensor) && there.count(t.tensor)) toOther_.push_back(t.tensor);
        if (!made_.count(t.tensor) && read_.count(t.tensor)) fromOther_.push_back(t.tensor);
      }
  }
  bool isMadeByOp(const std::string &tensor) const {
    const auto found = known_.find(tensor);
    return found != known_.end() && !*found->second.kind;
  }
  bool isMadeHere(const GraphTensor &output) const {
    return isMadeByOp(output.tensor) ? made_.count(output.tensor) > 0 : part_ == OnnxPart::kForward;
  }

  /// A model's values have one name each, which is valid UTF-8: two names may come to look alike.
  std::string fresh(const std::string &wanted) {
    const std::string shown = wanted.empty() ? "unnamed" : printableName(wanted);
    std::string name = shown;
    for (int i = 2; !taken_.insert(name).second; ++i) name = concat(shown, "~", i);
    return name;
  }
  void nameValues() {
    for (const GraphTensor &t : facts_.inputs) names_.try_emplace(t.tensor, fresh(t.name));
    for (const GraphTensor &t : facts_.variables) names_.try_emplace(t.tensor, fresh(t.name));
    for (const GraphTensor &t : facts_.outputs) outputNames_.push_back(fresh(t.name));
    for (const GraphOp &op : facts_.ops)
      for (const GraphTensor &t : op.outputs) names_.try_emplace(t.tensor, fresh(t.tensor));
  }

  void describe(const std::string &tensor, onnx::Value *value, const std::string &words) {
    const GraphTensor &t = *known_.at(tensor).tensor;
    setType(t, names_.at(tensor), value);
    if (!words.empty()) value->set_doc_string(words);
  }
  static void setType(const GraphTensor &t, const std::string &name, onnx::Value *value) {
    value->set_name(name);
    auto *type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(elementType(t.dtype).onnx);
    auto *shape = type->mutable_shape();
    for (int64_t i = 0; i < t.shape.NumAxes(); ++i) shape->add_dim()->set_dim_value(t.shape.At(i));
  }
  void addInput(const std::string &tensor) {
    if (!read_.count(tensor) && (part_ == OnnxPart::kBackward || !known_.at(tensor).kind[0])) return;
    const Known &known = known_.at(tensor);
    std::string words = known.kind;
    if (words.empty()) words = "made by the forward part";
    if (!known.tensor->initializer.empty()) words += ", " + printableName(known.tensor->initializer);
    describe(tensor, graph_->add_input(), words);
  }

  void addNode(const GraphOp &op) {
    auto *node = graph_->add_node();
    node->set_name(printableName(op.name));
    node->set_op_type(printableName(op.type));
    node->set_domain(kDomain);
    std::string slots = "inputs", places;
    for (const auto &[slot, tensor] : op.inputs) {
      const auto name = names_.find(tensor);
      node->add_input(name == names_.end() ? "" : name->second);
      slots += " " + slot.text();
    }
    slots += ", outputs";
    for (const GraphTensor &t : op.outputs) {
      node->add_output(names_.at(t.tensor));
      slots += " " + t.name;
      describe(t.tensor, graph_->add_value_info(), "");
    }
    if (op.range.known()) places = concat("; ", op.range.file, ":", op.range.line, ":", op.range.column);
    if (!op.loc.empty()) places += "; " + op.loc;
    node->set_doc_string(printableName(slots + places));
    for (const auto &[name, value] : op.attrs) {
      auto *attribute = node->add_attribute();
      attribute->set_name(printableName(name));
      AttributeWriter(attribute).write(value);
    }
  }

  void addOutput(const GraphTensor &output) {
    const std::string &name = outputNames_[static_cast<size_t>(&output - facts_.outputs.data())];
    auto *node = graph_->add_node();
    node->set_name(name);
    node->set_op_type("Identity");
    node->add_input(names_.at(output.tensor));
    node->add_output(name);
    setType(*known_.at(output.tensor).tensor, name, graph_->add_output());
  }

  const GraphFacts &facts_;
  const OnnxPart part_;
  onnx::Graph *graph_ = nullptr;
  std::unordered_map<std::string, Known> known_;       // by tensor; looked up, never walked
  std::set<std::string> read_, made_;                  // here
  std::vector<std::string> fromOther_, toOther_;       // tensors
  std::unordered_map<std::string, std::string> names_; // by tensor; looked up, never walked
  std::vector<std::string> outputNames_;
  std::set<std::string> taken_;
};

} // namespace

std::string onnxModel(const GraphFacts &facts, const std::string &name, OnnxPart part) {
  return ModelWriter(facts, part).bytes(name);
}

bool hasBackwardPart(const GraphFacts &facts) {
  for (const GraphOp &op : facts.ops)
    if (isOf(OnnxPart::kBackward, op)) return true;
  return false;
}

} // namespace opc
