// Weights that are computed of weights.
// SPDX-License-Identifier: Apache-2.0
#include "ConstantTensors.h"

#include "FoldOp.h"
#include "OnnxOutput.h"
#include "QuantizableOps.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>

namespace opc::cli {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 32; // weights are large

StoredTensor stored(OpTensor tensor) {
  const auto owner = std::make_shared<const OpTensor>(std::move(tensor));
  return {owner->desc(), std::string_view(owner->dptr<char>(), owner->bytes()), owner};
}

} // namespace

ConstantTensors::ConstantTensors(const Registry &registry, const GraphFacts &facts,
                                 const std::map<std::string, StoredTensor> &values,
                                 const std::map<std::string, StoredTensor> &constants,
                                 const std::set<std::string> &updated)
    : registry_(registry), facts_(facts), values_(constants) {
  for (const GraphTensor &v : facts_.variables)
    if (const auto it = values.find(v.name); it != values.end() && !updated.count(v.tensor))
      values_.emplace(v.tensor, it->second);
  for (size_t i = 0; i < facts_.ops.size(); ++i) {
    const GraphOp &op = facts_.ops[i];
    const user_op::OpDef *def = registry_.findOp(op.type);
    if (!def || !def->pure || op.inputs.empty() || op.type == "if" || op.type == "loop") continue;
    if (!std::all_of(op.inputs.begin(), op.inputs.end(), [&](const auto &in) { return isConstant(in.tensor); }))
      continue;
    for (const GraphTensor &t : op.outputs) makers_.emplace(t.tensor, i);
  }
}

const StoredTensor *ConstantTensors::value(const std::string &tensor) {
  if (const auto known = values_.find(tensor); known != values_.end()) return &known->second;
  if (!makers_.count(tensor)) return nullptr;
  std::set<size_t> wanted; // ops, in the order of the graph
  for (std::vector<std::string> open = {tensor}; !open.empty();) {
    const std::string t = open.back();
    open.pop_back();
    if (values_.count(t) || !wanted.insert(makers_.at(t)).second) continue;
    for (const auto &in : facts_.ops[makers_.at(t)].inputs) open.push_back(in.tensor);
  }
  std::map<std::string, StoredTensor> made;
  for (const size_t op : wanted)
    if (!compute(facts_.ops[op], &made)) return nullptr;
  const auto found = made.find(tensor);
  return found == made.end() ? nullptr : &values_.emplace(tensor, found->second).first->second;
}

bool ConstantTensors::compute(const GraphOp &op, std::map<std::string, StoredTensor> *made) const {
  SingleOp single{op.type, {}, op.attrs, {}, op.name};
  std::vector<const StoredTensor *> given;
  for (const auto &[slot, tensor] : op.inputs) {
    const auto it = values_.find(tensor);
    given.push_back(it == values_.end() ? &made->at(tensor) : &it->second);
    single.inputs.emplace_back(slot.argument, given.back()->desc);
  }
  for (const GraphTensor &t : op.outputs) {
    int32_t &count = single.outputs[t.slot.argument];
    count = std::max(count, t.slot.index + 1);
  }
  std::vector<size_t> order;
  const Result<OpInstance> instance = instanceOf(registry_, single, &order);
  if (!instance) return false;
  std::vector<std::string_view> operands;
  for (const size_t from : order) operands.push_back(given[from]->bytes);
  auto results = foldOp(registry_, *instance, operands, kMostBytes);
  if (!results) return false;
  for (const GraphTensor &t : op.outputs) {
    const int at = instance->findOutput(t.slot.argument, t.slot.index);
    if (at < 0) return false;
    made->insert_or_assign(t.tensor, stored(std::move((*results)[static_cast<size_t>(at)])));
  }
  return true;
}

namespace {

class Folder {
public:
  Folder(ConstantTensors &constants, GraphFacts *facts, std::map<std::string, StoredTensor> *values)
      : constants_(constants), facts_(*facts), values_(*values) {
    for (const GraphTensor &v : facts_.variables) variables_[v.tensor] = v.name;
    for (const auto *list : {&facts_.inputs, &facts_.outputs, &facts_.variables})
      for (const GraphTensor &t : *list) {
        names_.insert(t.name);
        shapes_.emplace(t.tensor, t.shape);
      }
    for (const GraphOp &op : facts_.ops) {
      names_.insert(op.name);
      for (const GraphTensor &t : op.outputs) shapes_.insert_or_assign(t.tensor, t.shape);
    }
  }

  /// Whether the op has another weight now.
  bool fold(GraphOp &op) {
    const std::optional<OperandPlaces> places = operandsOf(op);
    if (!places || constants_.isConstant(op.inputs[places->data].tensor)) return false;
    std::string &weight = op.inputs[places->weight].tensor;
    if (!constants_.isConstant(weight)) return false;
    const double factor = places->isProduct ? factorOf(op) : 1;
    const bool isStack = places->isProduct && keepsStack(op, shapes_.at(op.inputs[places->data].tensor));
    const std::string made = weightOf(weight, factor, isStack);
    if (made.empty() || (places->isProduct && shapes_.at(made).NumAxes() != 2)) return false;
    if (isStack) op.type = "broadcast_matmul";
    weight = made;
    if (factor != 1) op.attrs["alpha"] = AttrValue(1.0);
    return true;
  }

private:
  /// Of a product of stacks: whether the result has the stack of the data, whatever the weight's is.
  bool keepsStack(const GraphOp &op, const Shape &data) const {
    const Shape &out = op.outputs[0].shape;
    if (data.NumAxes() < 3 || data.NumAxes() != out.NumAxes()) return false;
    for (int64_t d = 0; d + 2 < data.NumAxes(); ++d)
      if (data.At(d) != out.At(d)) return false;
    return true;
  }

  /// Its tensor; "" where it stays what it is.
  std::string weightOf(const std::string &tensor, double factor, bool isStack) {
    const auto [known, isNew] = made_.try_emplace({tensor, factor, isStack});
    if (!isNew) return known->second;
    const StoredTensor *value = constants_.value(tensor);
    if (!value || value->desc.data_type() != kFloat) return "";
    StoredTensor weight = *value;
    if (isStack) weight = matrixOf(weight);
    if (factor != 1) weight = scaled(weight, factor);
    const auto variable = variables_.find(tensor);
    const bool isSame = variable != variables_.end() && factor == 1 && weight.desc == value->desc;
    if (isSame) return "";
    GraphTensor v;
    v.name = fresh(variable == variables_.end() ? tensor : variable->second + ".folded");
    v.tensor = v.name + "/out";
    v.dtype = kFloat;
    v.shape = weight.desc.shape();
    shapes_.insert_or_assign(v.tensor, v.shape);
    values_.insert_or_assign(v.name, std::move(weight));
    facts_.variables.push_back(v);
    return known->second = v.tensor;
  }

  /// The first matrix where all are its equals.
  static StoredTensor matrixOf(const StoredTensor &stack) {
    const Shape &shape = stack.desc.shape();
    if (shape.NumAxes() < 3 || shape.elem_cnt() == 0) return stack;
    const size_t bytes = static_cast<size_t>(shape.Count(shape.NumAxes() - 2)) * sizeof(float);
    const std::string_view first = stack.bytes.substr(0, bytes);
    for (size_t at = bytes; at < stack.bytes.size(); at += bytes)
      if (stack.bytes.substr(at, bytes) != first) return stack;
    const Shape matrix{shape.At(shape.NumAxes() - 2), shape.At(shape.NumAxes() - 1)};
    return {user_op::TensorDesc(matrix, kFloat), first, stack.owner};
  }

  static StoredTensor scaled(const StoredTensor &weight, double factor) {
    OpTensor made(weight.desc);
    std::memcpy(made.data(), weight.bytes.data(), weight.bytes.size()); // a file's bytes may lie anywhere
    for (int64_t i = 0; i < made.elements(); ++i) {
      float &x = made.mut_dptr<float>()[i];
      x = static_cast<float>(static_cast<double>(x) * factor);
    }
    return stored(std::move(made));
  }

  std::string fresh(std::string wanted) {
    std::replace(wanted.begin(), wanted.end(), '/', '.');
    std::string name = wanted;
    for (int n = 2; !names_.insert(name).second; ++n) name = wanted + "_" + std::to_string(n);
    return name;
  }

  ConstantTensors &constants_;
  GraphFacts &facts_;
  std::map<std::string, StoredTensor> &values_;
  std::map<std::string, std::string> variables_; // names by tensor
  std::map<std::string, Shape> shapes_;
  std::set<std::string> names_;
  std::map<std::tuple<std::string, double, bool>, std::string> made_; // by tensor, factor and whether stacks are one
};

} // namespace

void foldWeights(const Registry &registry, const std::set<std::string> &kept, ConstantTensors &constants,
                 GraphFacts *facts, std::map<std::string, StoredTensor> *values) {
  Folder folder(constants, facts, values);
  bool isChanged = false;
  for (GraphOp &op : facts->ops)
    if (!kept.count(op.name)) isChanged |= folder.fold(op);
  if (isChanged) OnnxOutput::dropUnread(registry, facts);
}

} // namespace opc::cli
