// Graphs -> ONNX models in ONNX's own ops.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxExport.h"

#include "OnnxEmitters.h"
#include "OnnxOpsExport.h"
#include "OnnxOwnNodes.h"
#include "OnnxTensors.h"
#include "PrintableText.h"

#include "opc/Scalar.h"

#include <algorithm>
#include <set>

namespace opc {

namespace onnx_export {

const EmitterTable &EmitterTable::get() {
  static const EmitterTable table = [] {
    EmitterTable t;
    for (const auto add : {addActivations,  addShapes,       addConstants, addReductions,     addMatrices,
                           addQuantization, addConvolutions, addPooling,   addNormalizations, addLosses,
                           addIndexing,     addPadding,      addResizing,  addScans,          addRandom,
                           addUpdates,      addSchedules,    addAttention, addRecurrent,      addRecurrentGradients,
                           addControl})
      add(&t);
    return t;
  }();
  return table;
}

const Emitter *EmitterTable::find(const std::string &op) const {
  const auto it = emitters_.find(op);
  return it == emitters_.end() ? nullptr : &it->second;
}

void EmitterTable::add(const std::string &op, Types types, std::function<void(Emission &)> emit, const std::string &to,
                       const std::string &note) {
  emitters_[op] = {types, std::move(emit), to, note, false, false};
}

namespace {

constexpr uint64_t kInlineBytes = 1 << 20, kAlignment = 4096;
constexpr const char *kBoundedOp = "bounded", *kBoundedAxis = "axis"; // what an output that is cut is made by
constexpr const char *kNext = ".next"; // behind a variable's name: the output that it holds after a step

/// The version of the format that came with an operator set.
int64_t irVersionOf(int64_t opset) {
  return opset >= 25 ? 13 : opset >= 24 ? 12 : opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : 8;
}

/// One attempt in one operator set.
class ModelExport {
public:
  ModelExport(const GraphFacts &facts, const Registry &registry, const ExportRequest &request, int64_t opset)
      : facts_(facts), request_(request), opset_(opset), nodes_(model_.mutable_graph()),
        ops_(registry, request, opset) {}

  /// The operator set that it needs; `opset` when it is done.
  int64_t run(ExportedModel *result) {
    model_.set_ir_version(irVersionOf(opset_));
    model_.set_producer_name("opc");
    onnx::Graph &graph = nodes_.graph();
    graph.set_name(printableName(request_.name));
    nameValues();
    for (const GraphOp &op : facts_.ops) ops_.write(op, nodes_, &wires_, &next_);
    result->refused = ops_.refused();
    for (size_t k = 0; k < facts_.outputs.size(); ++k) writeOutput(facts_.outputs[k], outputNames_[k]);
    for (const auto &[tensor, name] : next_) writeNext(tensor, name, result);
    result->ownNodes = ops_.ownNodes();
    import("", opset_);
    if (!request_.blockProducts.empty()) import(kContributed, 1);
    if (!result->ownNodes.empty()) import(kOwnDomain, kOwnVersion);
    if (!result->refused.empty() || ops_.needed() > opset_) return ops_.needed();
    moveData(result);
    result->opset = opset_;
    result->bytes = model_.SerializeAsString();
    return opset_;
  }

private:
  void import(const char *domain, int64_t version) {
    onnx::OperatorSet *set = model_.add_opset_import();
    set->set_domain(domain);
    set->set_version(version);
  }

  void know(const GraphTensor &t, const std::string &name) {
    wires_.try_emplace(t.tensor, Wire{name, t.dtype, t.shape});
  }

  /// Inputs, outputs and variables keep their names; what an op makes for an output has the output's.
  void nameValues() {
    onnx::Graph &graph = nodes_.graph();
    for (const GraphTensor &t : facts_.inputs) {
      know(t, nodes_.fresh(t.name));
      describe(wires_.at(t.tensor), graph.add_input());
    }
    std::set<std::string> made;
    for (const GraphOp &op : facts_.ops)
      for (const GraphTensor &t : op.outputs) made.insert(t.tensor);
    for (const GraphTensor &t : facts_.outputs) {
      outputNames_.push_back(nodes_.fresh(t.name));
      if (made.count(t.tensor) && !cutter(t)) know(t, outputNames_.back());
    }
    for (const GraphTensor &t : facts_.variables) {
      know(t, nodes_.fresh(t.name));
      const auto value = request_.variables.find(t.name);
      if (value == request_.variables.end())
        describe(wires_.at(t.tensor), graph.add_input());
      else
        write(wires_.at(t.tensor), value->second);
    }
    for (const auto &[tensor, value] : request_.constants) {
      const Wire constant = nodes_.constant(value.desc.data_type(), value.desc.shape(), std::string(value.bytes));
      wires_.try_emplace(tensor, constant);
    }
    for (const GraphOp &op : facts_.ops)
      for (const GraphTensor &t : op.outputs)
        if (!wires_.count(t.tensor)) know(t, nodes_.fresh(t.tensor));
  }

  void write(const Wire &wire, const StoredTensor &value) {
    onnx::Tensor *tensor = nodes_.graph().add_initializer();
    tensor->set_name(wire.name);
    const user_op::TensorDesc desc(wire.shape, wire.type);
    if (!request_.dataFile || value.bytes.size() <= kInlineBytes || isPackedInFiles(wire.type))
      return wire::toOnnx(desc, value.bytes, tensor);
    wire::toOnnxType(desc, tensor);
    outside_.emplace(tensor, &value);
  }

  void writeOutput(const GraphTensor &t, const std::string &name) {
    const Wire &wire = wires_.at(t.tensor);
    const GraphOp *cut = cutter(t);
    const int64_t axis = cut ? *cut->attrs.at(kBoundedAxis).get<int64_t>() : 0;
    if (cut)
      addNode("Slice", {wire.name, numbers(0), wires_.at(cut->inputs[1].tensor).name, numbers(axis)}, name);
    else if (wire.name != name)
      copy(wire.name, name);
    onnx::Value *value = nodes_.graph().add_output();
    describe({name, wire.type, wire.shape}, value);
    if (cut)
      value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(static_cast<int>(axis))->Clear();
  }

  /// The op that says how much of an output there is: its count, i64[1], is an output, too.
  const GraphOp *cutter(const GraphTensor &output) const {
    for (const GraphOp &op : facts_.ops) {
      if (op.type != kBoundedOp || op.outputs.at(0).tensor != output.tensor) continue;
      for (const GraphTensor &count : facts_.outputs)
        if (count.tensor == op.inputs.at(1).tensor && count.dtype == kInt64 && count.shape.NumAxes() == 1) return &op;
    }
    return nullptr;
  }
  /// One number, as the list that ONNX takes.
  std::string numbers(int64_t value) {
    return nodes_.constant(kInt64, Shape({1}), std::string(reinterpret_cast<const char *>(&value), sizeof value)).name;
  }

  void writeNext(const std::string &tensor, const std::string &value, ExportedModel *result) {
    const Wire &variable = wires_.at(tensor);
    const std::string name = nodes_.fresh(variable.name + kNext);
    copy(value, name);
    describe({name, variable.type, variable.shape}, nodes_.graph().add_output());
    result->next.push_back(name);
  }

  void copy(const std::string &from, const std::string &to) { addNode("Identity", {from}, to); }
  void addNode(const char *type, const std::vector<std::string> &inputs, const std::string &to) {
    onnx::Node *node = nodes_.graph().add_node();
    node->set_name(to);
    node->set_op_type(type);
    for (const std::string &input : inputs) node->add_input(input);
    node->add_output(to);
  }

  /// Large tensors go to the file beside the model.
  void moveData(ExportedModel *result) {
    if (!request_.dataFile) return;
    const auto say = [](onnx::Tensor &t, const char *key, const std::string &value) {
      onnx::StringPair *pair = t.add_external_data();
      pair->set_key(key);
      pair->set_value(value);
    };
    uint64_t end = 0;
    const auto add = [&](const StoredTensor &data) {
      end += data.bytes.size();
      result->data.push_back(data);
    };
    const auto own = [](std::string bytes) {
      const auto owner = std::make_shared<const std::string>(std::move(bytes));
      return StoredTensor{{}, *owner, owner};
    };
    std::vector<onnx::Tensor *> moved;
    for (onnx::Tensor &t : *nodes_.graph().mutable_initializer()) {
      const auto outside = outside_.find(&t);
      const bool isOutside = outside != outside_.end();
      const uint64_t size = isOutside ? outside->second->bytes.size() : t.raw_data().size();
      if (size <= kInlineBytes) continue;
      if (end % kAlignment) add(own(std::string(kAlignment - end % kAlignment, '\0')));
      say(t, "offset", std::to_string(end));
      say(t, "length", std::to_string(size));
      if (isOutside) {
        add(*outside->second);
      } else {
        const auto inside = std::make_shared<std::string>();
        inside->swap(*t.mutable_raw_data());
        add({{}, *inside, inside});
      }
      t.clear_raw_data();
      t.set_data_location(1);
      moved.push_back(&t);
    }
    if (moved.empty()) return;
    result->dataFile = request_.dataFile(result->data);
    for (onnx::Tensor *t : moved) say(*t, "location", result->dataFile);
  }

  const GraphFacts &facts_;
  const ExportRequest &request_;
  const int64_t opset_;
  onnx::Model model_;
  Nodes nodes_;
  OpsExport ops_;
  std::map<std::string, Wire> wires_;                            // by tensor of the graph
  std::map<const onnx::Tensor *, const StoredTensor *> outside_; // initializers that go to the file beside the model
  std::vector<std::string> outputNames_;
  std::map<std::string, std::string> next_; // by variable's tensor
};

} // namespace
} // namespace onnx_export

ExportedModel exportModel(const GraphFacts &facts, const Registry &registry, const ExportRequest &request) {
  int64_t opset = request.opset.value_or(kOldestExport);
  for (;;) {
    ExportedModel result;
    const int64_t needed = onnx_export::ModelExport(facts, registry, request, opset).run(&result);
    if (needed <= opset || request.opset || needed > kNewestExport) return result;
    opset = needed; // of a later set other forms may be shorter: all ops are written anew
  }
}

std::vector<ExportedOp> exportedOnnxOps(const Registry &registry) {
  std::vector<ExportedOp> list;
  for (const user_op::OpDef *def : registry.ops()) {
    const onnx_export::Emitter *emitter = onnx_export::EmitterTable::get().find(def->name);
    if (emitter)
      list.push_back({def->name, emitter->to, emitter->note});
    else if (def->scalar && onnx_export::missingFunction(*def->scalar).empty())
      list.push_back({def->name, "its expression", ""});
    else
      list.push_back({def->name, "", ""});
  }
  return list;
}

} // namespace opc
