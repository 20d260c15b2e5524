// Which ops are quantised, by their operands.
// SPDX-License-Identifier: Apache-2.0
#include "QuantizableOps.h"

#include "TextParts.h"

#include "opc/ElementTypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace opc::cli {

namespace {

constexpr int64_t kMostTerms = INT32_MAX / (255 * 127); // of a sum of u8 times i8 in 32 bits
constexpr size_t kShownOps = 3;

/// Null where the op has no such attribute, or of another type.
template <class T> const T *attrOf(const GraphOp &op, const char *name) {
  const auto it = op.attrs.find(name);
  return it == op.attrs.end() ? nullptr : it->second.get<T>();
}

bool isSet(const GraphOp &op, const char *name) {
  const bool *value = attrOf<bool>(op, name);
  return value && *value;
}

/// The first tensor of the input `arg` of an op.
size_t inputOf(const GraphOp &op, const std::string &arg) {
  const auto isIt = [&](const auto &in) { return in.slot.argument == arg && in.slot.index == 0; };
  return static_cast<size_t>(std::find_if(op.inputs.begin(), op.inputs.end(), isIt) - op.inputs.begin());
}

bool isConvolution(const std::string &type) { return type == "conv1d" || type == "conv2d" || type == "conv3d"; }
bool isProduct(const std::string &type) {
  return type == "matmul" || type == "broadcast_matmul" || type == "batch_matmul";
}

/// Of ops that are never quantised; "" for others.
std::string neverReason(const std::string &type) {
  if (type == "deconv1d" || type == "deconv2d" || type == "deconv3d") return "a transposed convolution";
  if (type == "lstm" || type == "gru" || type == "rnn") return "a recurrent layer";
  if (type == "dot" || type == "matrix_vector_product" || type == "vector_matrix_product")
    return "a product with a vector";
  return "";
}

bool isOfInterest(const std::string &type) {
  return isConvolution(type) || isProduct(type) || !neverReason(type).empty();
}

class Choice {
public:
  Choice(const GraphFacts &facts, const QuantizeContext &context) : facts_(facts), c_(context) {
    for (size_t i = 0; i < facts.variables.size(); ++i) variables_[facts.variables[i].tensor] = i;
    for (const auto *list : {&facts.inputs, &facts.variables})
      for (const GraphTensor &t : *list) tensors_[t.tensor] = &t;
    for (const GraphOp &op : facts.ops)
      for (const GraphTensor &t : op.outputs) tensors_[t.tensor] = &t;
  }

  void consider(size_t i, QuantizableOps *found) const {
    const GraphOp &op = facts_.ops[i];
    if (c_.kept.count(op.name) || op.outputs.empty()) return;
    QuantizableOp q;
    q.op = i;
    std::string reason = inside(op);
    if (reason.empty() && !isOfInterest(op.type)) return;
    if (reason.empty()) reason = neverReason(op.type);
    if (reason.empty() && !IsFloatingDataType(op.outputs[0].dtype)) return;
    if (reason.empty()) reason = reasonOf(op, &q);
    if (reason.empty())
      found->ops.push_back(q);
    else if (op.role == "forward")
      found->plain.push_back({op.name, op.type, reason, op.outputs[0].dtype == kFloat});
  }

private:
  /// Graphs in ops are not looked into.
  std::string inside(const GraphOp &op) const {
    for (const auto &[name, attr] : op.attrs) {
      const auto *text = attr.get<std::string>();
      const auto graph = text ? c_.graphs.find(*text) : c_.graphs.end();
      if (graph == c_.graphs.end()) continue;
      for (const GraphOp &inner : graph->second.facts.ops)
        if (isOfInterest(inner.type) || !inside(inner).empty())
          return "the graph in it has products, convolutions or layers";
    }
    return "";
  }

  const Shape &shapeOf(const std::string &tensor) const {
    static const Shape none;
    const auto it = tensors_.find(tensor);
    return it == tensors_.end() ? none : it->second->shape;
  }

  std::string reasonOf(const GraphOp &op, QuantizableOp *q) const {
    const std::optional<OperandPlaces> places = operandsOf(op);
    if (!places) return "its operands are not known";
    q->argument = places->isProduct ? "a" : "in";
    q->data = places->data, q->weight = places->weight;
    const std::string &data = op.inputs[q->data].tensor, &weight = op.inputs[q->weight].tensor;
    if (op.outputs[0].dtype != kFloat)
      return concat("computed in ", dataTypeName(op.outputs[0].dtype), ", and f32 is quantised");
    const auto variable = variables_.find(weight);
    if (variable != variables_.end() && c_.updated.count(weight)) return "the graph updates the weight";
    if (c_.constants.isConstant(data))
      return variable != variables_.end() || c_.constants.isConstant(weight) ? "all operands are constant"
                                                                             : "the weight is the left operand";
    if (variable == variables_.end())
      return c_.constants.isConstant(weight) ? weightReason(weight) : "both operands are data";
    if (!c_.values.count(facts_.variables[variable->second].name)) return "the weight has no value";
    if (!places->isProduct && c_.mode == QuantizeMode::kBlocks) return "4-bit weights are of products alone";
    q->variable = variable->second;
    return termsReason(op, q);
  }

  std::string weightReason(const std::string &weight) const {
    return shapeOf(weight).NumAxes() > 2 ? "the weight is a stack of matrices" : "the weight cannot be computed first";
  }

  /// By sizes and attributes.
  std::string termsReason(const GraphOp &op, QuantizableOp *q) const {
    const GraphTensor &weight = facts_.variables[q->variable];
    if (weight.dtype != kFloat) return concat("the weight is ", dataTypeName(weight.dtype), ", and f32 is quantised");
    if (isProduct(op.type)) {
      if (weight.shape.NumAxes() != 2) return "the weight is a stack of matrices";
      if (isSet(op, "transpose_a")) return "the data is transposed";
      q->axis = isSet(op, "transpose_b") ? 0 : 1;
    }
    if (weight.shape.NumAxes() < 2) return "the weight is no matrix";
    if (weight.shape.elem_cnt() == 0) return "the weight is empty";
    if (c_.mode != QuantizeMode::kStatic) return "";
    if (shapeOf(op.inputs[q->data].tensor).elem_cnt() == 0) return "the data is empty";
    const int64_t terms = weight.shape.elem_cnt() / weight.shape.At(q->axis);
    if (terms > kMostTerms) return concat("sums of over ", kMostTerms, " products may not fit in 32 bits");
    return "";
  }

  const GraphFacts &facts_;
  const QuantizeContext &c_;
  std::map<std::string, size_t> variables_; // by tensor
  std::map<std::string, const GraphTensor *> tensors_;
};

} // namespace

std::optional<OperandPlaces> operandsOf(const GraphOp &op) {
  const bool isOfMatrices = isProduct(op.type);
  if (!isOfMatrices && !isConvolution(op.type)) return std::nullopt;
  const OperandPlaces places{inputOf(op, isOfMatrices ? "a" : "in"), inputOf(op, isOfMatrices ? "b" : "weight"),
                             isOfMatrices};
  if (places.data == op.inputs.size() || places.weight == op.inputs.size()) return std::nullopt;
  return places;
}

double factorOf(const GraphOp &op) {
  const double *factor = attrOf<double>(op, "alpha");
  return factor ? *factor : 1;
}

QuantizableOps quantizableOps(const GraphFacts &facts, const QuantizeContext &context) {
  QuantizableOps found;
  const Choice choice(facts, context);
  for (size_t i = 0; i < facts.ops.size(); ++i) choice.consider(i, &found);
  return found;
}

std::vector<std::string> plainOpTexts(const std::vector<PlainOp> &ops) {
  std::vector<std::pair<const PlainOp *, std::vector<std::string>>> groups; // the first op, and all names
  for (const PlainOp &op : ops) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto &g) {
      return g.first->reason == op.reason && g.first->isF32 == op.isF32;
    });
    if (group == groups.end()) group = groups.insert(group, {&op, {}});
    group->second.push_back(op.name);
  }
  std::vector<std::string> texts;
  for (auto &[first, names] : groups) {
    const size_t count = names.size();
    names.resize(std::min(count, kShownOps));
    if (count == 1)
      texts.push_back(concat("op ", names[0], first->isF32 ? " stays in f32: " : " stays as it is: ", first->reason));
    else
      texts.push_back(
          concat(counted(count, "op"), first->isF32 ? " stay in f32: " : " stay as they are: ", first->reason, " (",
                 joined(names, ", "), count > kShownOps ? concat(" and ", count - kShownOps, " more)") : ")"));
  }
  return texts;
}

Json plainOpsJson(const std::vector<PlainOp> &ops) {
  Json list = Json::array();
  for (const PlainOp &op : ops) list.push_back({{"op", op.name}, {"type", op.type}, {"reason", op.reason}});
  return list;
}

Status checkWeights(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                    const std::vector<QuantizableOp> &ops) {
  for (const QuantizableOp &q : ops) {
    const std::string &name = facts.variables[q.variable].name, &op = facts.ops[q.op].name;
    const StoredTensor &value = values.at(name);
    for (size_t at = 0; at < value.bytes.size(); at += sizeof(float)) {
      float x;
      std::memcpy(&x, value.bytes.data() + at, sizeof x);
      if (!std::isfinite(x))
        return Status(StatusCode::kExecution, "OPC0620",
                      "variable " + name + ", the weight of op " + op + ", is not finite: it has no scale")
            .withHelp("--keep " + op + " leaves the op in f32");
    }
    letGo(value);
  }
  return Status::ok();
}

} // namespace opc::cli
