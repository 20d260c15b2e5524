// One task of a plan as a graph of its own.
// SPDX-License-Identifier: Apache-2.0
#include "OpCase.h"

#include "AttrWire.h"
#include "graph.pb.h"

#include <google/protobuf/text_format.h>

#include <map>
#include <set>

namespace opc::runtime {
namespace {

/// Letters, digits, '_', '-' and '.' of `name`; anything else becomes '_'. Not in `taken`, to which it is added.
std::string plainName(const std::string &name, std::set<std::string> *taken) {
  std::string plain;
  for (char c : name) {
    const bool keep =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    plain += keep ? c : '_';
  }
  std::string unique = plain;
  for (int i = 2; !taken->insert(unique).second; ++i) unique = plain + "_" + std::to_string(i);
  return unique;
}

} // namespace

Result<std::string> taskGraphText(const ObservedTask &task, const OpInstance &op,
                                  std::vector<std::string> *inputNames) {
  graph::DLNetConf net;
  std::set<std::string> taken;
  const std::string opName = plainName(task.name, &taken);
  std::map<std::string, std::string> nameOf; // tensor -> input op
  inputNames->clear();
  for (const ObservedTensor &in : task.inputs) {
    auto [it, fresh] = nameOf.emplace(in.name, "");
    if (fresh) {
      it->second = plainName(in.name, &taken);
      graph::OperatorConf *conf = wire::addOp(&net, it->second);
      if (in.isMutable)
        wire::toProto(in.desc, conf->mutable_variable_conf());
      else
        wire::toProto(in.desc, conf->mutable_input_conf());
    }
    inputNames->push_back(it->second);
  }
  user_op::OpConf conf{opName, task.type, {}, {}, op.conf().attrs};
  auto bind = [](std::vector<user_op::ArgBinding> *list, const std::string &argument, const std::string &tensor) {
    if (list->empty() || list->back().name != argument) list->push_back({argument, {}});
    list->back().tensors.push_back(tensor);
  };
  for (size_t i = 0; i < task.inputs.size(); ++i)
    bind(&conf.inputs, task.inputs[i].argument, (*inputNames)[i] + "/out");
  std::vector<std::pair<std::string, std::string>> outputs; // name, tensor
  for (const ObservedTensor &out : task.outputs) {
    const std::string blob = out.argument + "_" + std::to_string(out.index);
    bind(&conf.outputs, out.argument, opName + "/" + blob);
    outputs.push_back({plainName(blob, &taken), opName + "/" + blob});
  }
  if (task.outputs.empty()) // an update: a graph needs an output, and the variable is there to look at
    for (size_t i = 0; i < task.inputs.size() && outputs.empty(); ++i)
      if (task.inputs[i].isMutable) outputs.push_back({plainName("before", &taken), (*inputNames)[i] + "/out"});
  wire::toProto(conf, wire::addOp(&net, opName)->mutable_user_conf());
  for (const auto &[name, tensor] : outputs) wire::makeOutput(tensor, wire::addOp(&net, name));
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  if (!printer.PrintToString(net, &text))
    return Status(StatusCode::kInternal, "OPC0901", "op " + task.name + " cannot be written as a graph");
  return text;
}

} // namespace opc::runtime
