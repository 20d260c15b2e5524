// Notes of ops in exported models: written, read, and held against the nodes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxOpNotes.h"

#include "AttrWire.h"
#include "OnnxOpsExport.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

namespace opc::onnx_export {
namespace {

constexpr const char *kKey = "opc.op", *kNodesKey = "opc.nodes";
constexpr const char *kFirst = "/1"; // behind the op's name: that of the first of several nodes
constexpr size_t kMostText = 1 << 16, kMostNodes = 1 << 12;
constexpr int64_t kFreeElements = 1 << 22; // of tables that an emitter may write whatever the model has

/// Says nothing of texts that cannot be read.
struct Quiet final : google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string &) override {}
};

const std::string *entryOf(const onnx::Node &node, const char *key) {
  for (const onnx::StringPair &p : node.metadata_props())
    if (p.key() == key) return &p.value();
  return nullptr;
}

void addEntry(onnx::Node *node, const char *key, std::string value) {
  onnx::StringPair *pair = node->add_metadata_props();
  pair->set_key(key);
  pair->set_value(std::move(value));
}

bool isConstant(const onnx::Node &node) { return node.domain().empty() && node.op_type() == "Constant"; }

bool isSame(const onnx::Tensor &a, const StoredTensor &b) {
  const Shape &shape = b.desc.shape();
  const DataType type = b.desc.data_type();
  return a.data_type() == elementType(type).onnx &&
         a.raw_data() == (isPackedInFiles(type) ? packElements(type, {b.bytes.data(), b.bytes.size()}) : b.bytes) &&
         std::equal(a.dims().begin(), a.dims().end(), shape.begin(), shape.end());
}

/// Whether an emitter's tables can be those of the model. They have a cell for each pair of indices along an axis that
/// changes at most, and a table, or a weight as large, is then among what the nodes read: a note alone must not cost
/// memory.
bool isOfSize(const OpInstance &instance, const std::vector<const onnx::Node *> &nodes, const NodesAround &around) {
  int64_t known = kFreeElements, given = 0;
  for (const onnx::Node *node : nodes)
    for (const std::string &name : node->input())
      if (const StoredTensor *value = name.empty() ? nullptr : around.constant(name))
        known = std::max(known, value->desc.shape().elem_cnt());
  for (const user_op::TensorDesc &in : instance.inputDescs()) given = std::max(given, in.shape().elem_cnt());
  for (const user_op::TensorDesc &out : instance.outputDescs()) {
    if (out.shape().elem_cnt() / 256 > std::max(given, known)) return false;
    if (instance.inputDescs().empty()) continue;
    const Shape &from = instance.inputDescs()[0].shape(), &to = out.shape();
    for (int64_t k = 0; k < to.NumAxes() && from.NumAxes() == to.NumAxes(); ++k)
      if (from.At(k) != to.At(k) && from.At(k) > 0 && to.At(k) > known / from.At(k)) return false;
    if (from.NumAxes() != to.NumAxes() && to.elem_cnt() > std::max(16 * std::min(given, INT64_MAX / 16), known))
      return false;
  }
  return true;
}

/// Nodes that were just written against those of a model.
class NodeMatch {
public:
  NodeMatch(const onnx::Graph &written, const NodesAround &around) : around_(around) {
    for (const onnx::Tensor &t : written.initializer()) constants_[t.name()] = &t;
    for (const onnx::Node &node : written.node())
      if (isConstant(node)) constants_[node.output(0)] = &node.attribute(0).t();
  }

  bool nodes(const onnx::Graph &written, const std::vector<const onnx::Node *> &there) {
    size_t k = 0;
    for (const onnx::Node &node : written.node()) {
      if (isConstant(node)) continue;
      if (k == there.size() || !one(node, *there[k])) return false;
      ++k;
    }
    return k == there.size();
  }
  /// The model's name of a value of the written nodes.
  const std::string &nameOf(const std::string &written) const {
    const auto it = names_.find(written);
    return it == names_.end() ? written : it->second;
  }

private:
  bool read(const std::string &a, const std::string &b) const {
    const auto constant = constants_.find(a);
    if (constant == constants_.end()) return nameOf(a) == b;
    const StoredTensor *known = around_.constant(b);
    return known && isSame(*constant->second, *known);
  }

  bool one(const onnx::Node &a, const onnx::Node &b) {
    if (a.op_type() != b.op_type() || a.domain() != b.domain() || a.input_size() != b.input_size() ||
        a.output_size() != b.output_size() || a.attribute_size() != b.attribute_size())
      return false;
    for (int k = 0; k < a.input_size(); ++k)
      if (!read(a.input(k), b.input(k))) return false;
    for (const onnx::Attribute &attr : a.attribute()) {
      const auto found = std::find_if(b.attribute().begin(), b.attribute().end(),
                                      [&](const onnx::Attribute &other) { return other.name() == attr.name(); });
      if (found == b.attribute().end() || attr.SerializeAsString() != found->SerializeAsString()) return false;
    }
    for (int k = 0; k < a.output_size(); ++k) {
      if (a.output(k).empty() != b.output(k).empty()) return false;
      names_[a.output(k)] = b.output(k);
    }
    return true;
  }

  const NodesAround &around_;
  std::map<std::string, const onnx::Tensor *> constants_; // of the written nodes
  std::map<std::string, std::string> names_;
};

} // namespace

void setOpNote(const OpNote &note, onnx::Node *first) {
  graph::UserOpConf conf;
  wire::toProto(note.conf, &conf);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  if (!printer.PrintToString(conf, &text) || text.size() > kMostText || note.nodes > kMostNodes) return;
  while (!text.empty() && text.back() == ' ') text.pop_back();
  addEntry(first, kKey, std::move(text));
  addEntry(first, kNodesKey, std::to_string(note.nodes));
}

std::optional<OpNote> opNoteOf(const onnx::Node &first) {
  const std::string *text = entryOf(first, kKey), *count = entryOf(first, kNodesKey);
  if (!text || !count || text->size() > kMostText || count->size() > 4 || count->empty() ||
      !std::all_of(count->begin(), count->end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  graph::UserOpConf conf;
  google::protobuf::TextFormat::Parser parser;
  Quiet quiet;
  parser.RecordErrorsTo(&quiet);
  if (!parser.ParseFromString(*text, &conf)) return std::nullopt;
  std::string name = first.name();
  if (name.size() > 2 && name.compare(name.size() - 2, 2, kFirst) == 0) name.resize(name.size() - 2);
  return OpNote{wire::fromProto(name, conf), std::stoul(*count)};
}

bool isWrittenSo(const OpNote &note, const std::vector<const onnx::Node *> &nodes, const NodesAround &around,
                 const Registry &registry, std::vector<std::string> *outputs) {
  const user_op::OpDef *def = registry.findOp(note.conf.type);
  if (!def) return false;
  GraphOp op;
  op.name = note.conf.name;
  op.type = note.conf.type;
  op.attrs = note.conf.attrs;
  onnx::Graph graph;
  Nodes made(&graph);
  std::map<std::string, Wire> wires;
  for (const user_op::ArgBinding &b : note.conf.inputs)
    for (size_t k = 0; k < b.tensors.size(); ++k) {
      const auto wire = around.read(b.tensors[k]);
      if (!wire || (!wires.count(wire->name) && made.fresh(wire->name) != wire->name)) return false;
      wires.try_emplace(wire->name, *wire);
      op.inputs.push_back({{b.name, static_cast<int32_t>(k)}, wire->name});
    }
  user_op::OpConf conf = note.conf;
  if (!completeOpConf(*def, &conf).isOk()) return false;
  OpInstance instance(*def, conf);
  for (size_t k = 0; k < instance.inputArgs().size(); ++k) {
    const auto &[arg, index] = instance.inputArgs()[k];
    const auto wire = wires.find(instance.wrapper().input(arg, index));
    if (wire == wires.end()) return false;
    instance.inputDescs()[k] = user_op::TensorDesc(wire->second.shape, wire->second.type);
  }
  if (!instance.infer().isOk() || !isOfSize(instance, nodes, around)) return false;
  outputs->clear();
  for (size_t k = 0; k < instance.outputArgs().size(); ++k) {
    const auto &[arg, index] = instance.outputArgs()[k];
    const std::string &name = instance.wrapper().output(arg, index);
    const user_op::TensorDesc &desc = instance.outputDescs()[k];
    if (!wires.emplace(name, Wire{name, desc.data_type(), desc.shape()}).second || made.fresh(name) != name)
      return false;
    op.outputs.push_back({});
    GraphTensor &t = op.outputs.back();
    t.slot = {arg, index};
    t.name = t.slot.text();
    t.tensor = name;
    t.dtype = desc.data_type();
    t.shape = desc.shape();
    outputs->push_back(name);
  }
  const ExportRequest request;
  OpsExport ops(registry, request, around.opset);
  std::map<std::string, std::string> next;
  ops.write(op, made, &wires, &next);
  if (!ops.refused().empty() || ops.needed() > around.opset || !next.empty()) return false;
  NodeMatch match(graph, around);
  if (!match.nodes(graph, nodes)) return false;
  // What leaves the group must be called so there, too.
  return std::all_of(outputs->begin(), outputs->end(), [&](const std::string &o) { return match.nameOf(o) == o; });
}

} // namespace opc::onnx_export
