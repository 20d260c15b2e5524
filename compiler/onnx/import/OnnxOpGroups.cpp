// Nodes of a model that exporting one op of opc has written, which become that op again.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxOpGroups.h"

#include "OnnxInputs.h"
#include "OnnxOpNotes.h"

#include <algorithm>
#include <unordered_set>

namespace opc::onnx {
namespace {

using onnx_export::OpNote;
using onnx_export::Wire;

bool isConstant(const Node &node) { return node.domain().empty() && node.op_type() == "Constant"; }

std::unordered_set<std::string> tensorsOf(const std::vector<user_op::ArgBinding> &args) {
  std::unordered_set<std::string> names;
  for (const user_op::ArgBinding &b : args) names.insert(b.tensors.begin(), b.tensors.end());
  return names;
}

} // namespace

OpGroups::OpGroups(const Nodes &nodes, const std::vector<int> &order,
                   const google::protobuf::RepeatedPtrField<Value> &outputs)
    : nodes_(nodes), order_(order) {
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node &n) { return n.metadata_props_size() > 0; })) return;
  for (const Node &node : nodes)
    for (const std::string &name : readsOf(node)) ++reads_[name];
  for (const Value &v : outputs) ++reads_[v.name()];
}

std::optional<OpGroups::Group> OpGroups::at(size_t place) const {
  if (reads_.empty()) return std::nullopt;
  const auto note = onnx_export::opNoteOf(nodes_[order_[place]]);
  if (!note || note->nodes == 0) return std::nullopt;
  Group group;
  group.name = note->conf.name;
  size_t k = place;
  for (; k < order_.size() && group.members.size() < note->nodes; ++k)
    (isConstant(nodes_[order_[k]]) ? group.constants : group.members).push_back(order_[k]);
  group.end = k;
  if (group.members.size() < note->nodes || !isAlone(group.members, *note)) return std::nullopt;
  return group;
}

bool OpGroups::isAlone(const std::vector<int> &members, const OpNote &note) const {
  const auto results = tensorsOf(note.conf.outputs);
  std::unordered_map<std::string, size_t> own;
  for (const int m : members)
    for (const std::string &name : readsOf(nodes_[m])) ++own[name];
  for (const int m : members)
    for (const std::string &name : nodes_[m].output()) {
      const auto all = reads_.find(name);
      if (!results.count(name) && all != reads_.end() && all->second != own[name]) return false;
    }
  return true;
}

/// Whether any of the nodes reads it where a trained value belongs.
bool OpGroups::isParameterOf(const std::vector<int> &members, const std::string &value) const {
  for (const int m : members)
    for (int k = 0; k < nodes_[m].input_size(); ++k)
      if (nodes_[m].input(k) == value && isParameter(nodes_[m], static_cast<size_t>(k))) return true;
  return false;
}

std::optional<std::vector<std::pair<std::string, Term>>> OpGroups::restored(const Group &group, const Find &find,
                                                                            int64_t opset, GraphDraft *draft) const {
  const auto note = onnx_export::opNoteOf(nodes_[group.members[0]]);
  const auto tensor = [&](const std::string &name) -> Term {
    const Term *term = find(name);
    return term && *term && (*term)->kind == Operand::Kind::kTensor ? *term : nullptr;
  };
  onnx_export::NodesAround around;
  around.opset = opset;
  around.constant = [&](const std::string &name) -> const StoredTensor * {
    const Term term = tensor(name);
    return term && term->value ? &*term->value : nullptr;
  };
  around.read = [&](const std::string &name) -> std::optional<Wire> {
    const Term term = tensor(name);
    // Of these the nodes that read them know more than their types.
    if (!term || draft->bounded(term) || draft->quantized(term) || draft->isNarrow(term)) return std::nullopt;
    return Wire{name, term->type(), term->shape()};
  };
  std::vector<const Node *> members;
  for (const int m : group.members) members.push_back(&nodes_[m]);
  std::vector<std::string> names;
  if (!isWrittenSo(*note, members, around, draft->registry(), &names)) return std::nullopt;
  std::vector<Term> inputs; // in the order of the op's arguments
  const user_op::OpDef &def = *draft->registry().findOp(note->conf.type);
  for (const user_op::ArgDef &arg : def.inputs) {
    const user_op::ArgBinding *given = note->conf.findInput(arg.name);
    if (arg.atLeast && &arg != &def.inputs.back()) return std::nullopt; // the draft could not tell them apart
    const size_t count = arg.atLeast ? given ? given->tensors.size() : 0 : static_cast<size_t>(arg.count);
    for (size_t k = 0; k < count; ++k) {
      const bool isThere = given && k < given->tensors.size();
      const Term term = isThere ? tensor(given->tensors[k]) : nullptr;
      draft->noteRead(term);
      const bool isParameter = term && isParameterOf(group.members, given->tensors[k]);
      inputs.push_back(!term || isParameter ? term : draft->untrained(term));
    }
  }
  std::map<std::string, int32_t> outputs;
  for (const user_op::ArgBinding &b : note->conf.outputs) outputs[b.name] = static_cast<int32_t>(b.tensors.size());
  const std::vector<Term> made = draft->add(note->conf.type, inputs, note->conf.attrs, outputs);
  std::vector<std::pair<std::string, Term>> results;
  for (size_t k = 0; k < names.size(); ++k) results.emplace_back(names[k], made.at(k));
  return results;
}

} // namespace opc::onnx
