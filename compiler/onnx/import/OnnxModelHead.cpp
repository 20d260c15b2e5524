// What an ONNX model says of all its nodes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxModelHead.h"
#include "OnnxInputs.h"
#include "OnnxNames.h"

namespace opc::onnx {
namespace {

constexpr int64_t kNewestOpset = 28;

} // namespace

std::string domainOf(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

int64_t versionOf(const Opsets &opsets, const std::string &domain) {
  const auto known = opsets.find(domain);
  return known == opsets.end() ? 1 : known->second;
}

std::optional<Refusal> ModelHead::readOpsets(const Model &model) {
  for (const OperatorSet &o : model.opset_import()) {
    const auto [known, isNew] = opsets_.emplace(domainOf(o.domain()), o.version());
    if (!isNew && known->second != o.version())
      return Refusal{"OPC0321",
                     "the model imports two versions of one operator set: " + std::to_string(known->second) + " and " +
                         std::to_string(o.version()),
                     "a model has one version for each domain"};
  }
  if (opsets_.empty() && model.ir_version() >= 3) // before, there was one set alone
    return Refusal{"OPC0321", "the model says of no operator set that it is in it",
                   "if the file was copied or downloaded, check that it is complete"};
  const int64_t version = opsets_.emplace("", 1).first->second;
  if (version < 1)
    return Refusal{"OPC0321", "the version of the operator set is " + std::to_string(version), "versions begin at 1"};
  if (version > kNewestOpset)
    return Refusal{"OPC0422",
                   "the model is of operator set " + std::to_string(version) + ", and the newest that opc knows is " +
                       std::to_string(kNewestOpset),
                   "export it with an older one, or convert it: onnx.version_converter.convert_version(model, " +
                       std::to_string(kNewestOpset) + ")"};
  return std::nullopt;
}

std::optional<Refusal> ModelHead::read(const Model &model) {
  if (!model.has_graph()) return Refusal{"OPC0321", "the model has no graph", "save it again"};
  if (auto refusal = readOpsets(model)) return refusal;
  for (const Value &v : model.graph().output())
    if (isOfMaps(v.type()))
      return Refusal{
          "OPC0422", "output '" + shown(v.name()) + "' is a map or made of maps, and opc has tensors",
          "leave out the node that makes it, ZipMap as a rule: skl2onnx writes tensors with options={'zipmap': False}"};
  for (const Function &f : model.functions()) functions_[{domainOf(f.domain()), f.name(), f.overload()}] = &f;
  return std::nullopt;
}

const Function *ModelHead::function(const Node &node) const {
  if (functions_.empty()) return nullptr;
  const auto known = functions_.find({domainOf(node.domain()), node.op_type(), node.overload()});
  return known == functions_.end() ? nullptr : known->second;
}

} // namespace opc::onnx
