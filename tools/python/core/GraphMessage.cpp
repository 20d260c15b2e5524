// A graph's message grows op by op. The compiler reads its text like any other graph's.
// SPDX-License-Identifier: Apache-2.0
#include "GraphMessage.h"

#include "AttrWire.h"
#include "OpSuggestions.h"
#include "PluginOverrides.h"
#include "PythonErrors.h"
#include "TextParts.h"

#include <google/protobuf/text_format.h>

namespace opc::python {
namespace {

std::string lineOf(const google::protobuf::Message &message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string line;
  printer.PrintToString(message, &line);
  return line;
}

} // namespace

bool GraphMessage::isJob() const {
  return job_.has_placement() || job_.has_job_conf() || job_.has_job_parallel_view_conf();
}

std::string GraphMessage::text() const {
  if (!text_.empty()) return text_;
  if (isJob()) {
    std::string all;
    google::protobuf::TextFormat::PrintToString(job_, &all);
    return all;
  }
  std::string all;
  for (const graph::OperatorConf &op : job_.net().op()) all += "op { " + lineOf(op) + "}\n";
  for (const graph::ModelNumber &n : job_.net().model_number()) all += "model_number { " + lineOf(n) + "}\n";
  return all;
}

std::string GraphMessage::freeName(const std::string &name) {
  if (!names_.count(name)) return name;
  int &next = counters_[name];
  for (;;) {
    std::string numbered = name + "_" + std::to_string(++next);
    if (!names_.count(numbered)) return numbered;
  }
}

const user_op::TensorDesc *GraphMessage::find(const std::string &tensor) const {
  const auto it = tensors_.find(tensor);
  return it == tensors_.end() ? nullptr : &it->second;
}

Result<graph::OperatorConf *> GraphMessage::begin(const std::string &name, const PythonPlace &place) {
  if (name.empty()) return Status(StatusCode::kInvalidGraph, "OPC0105", "an op, input, variable or output has no name");
  if (!names_.insert(name).second)
    return Status(StatusCode::kInvalidGraph, "OPC0106",
                  concat("graph '", name_, "' has an op called '", name, "' already"))
        .withHelp("give another name, or work within opc.name_scope(\"...\")");
  text_.clear();
  return wire::addOp(job_.mutable_net(), name, place);
}

namespace {

/// Ops are inferred as they come, so every size is known from the start.
Status checkSizes(const std::string &name, const user_op::TensorDesc &desc) {
  for (const int64_t d : desc.shape().dim_vec())
    if (d < 0)
      return Status(StatusCode::kInvalidGraph, "OPC0207", concat("'", name, "' has a dimension of ", d))
          .withHelp("give the size that most runs have; compile(shapes={\"" + name + "\": ...}) replaces it");
  return Status::ok();
}

} // namespace

Result<TensorFact> GraphMessage::addInput(const std::string &name, const user_op::TensorDesc &desc,
                                          const PythonPlace &place) {
  OPC_RETURN_IF_ERROR(checkSizes(name, desc));
  OPC_ASSIGN_OR_RETURN(graph::OperatorConf * op, begin(name, place));
  wire::toProto(desc, op->mutable_input_conf());
  return TensorFact{name + "/out", tensors_[name + "/out"] = desc};
}

Result<TensorFact> GraphMessage::addVariable(const std::string &name, const user_op::TensorDesc &desc,
                                             const graph::InitializerConf &init, bool trainable,
                                             const PythonPlace &place) {
  OPC_RETURN_IF_ERROR(checkSizes(name, desc));
  OPC_ASSIGN_OR_RETURN(graph::OperatorConf * op, begin(name, place));
  graph::VariableOpConf *conf = op->mutable_variable_conf();
  wire::toProto(desc, conf);
  if (init.type_case() != graph::InitializerConf::TYPE_NOT_SET) *conf->mutable_initializer() = init;
  if (!trainable) conf->set_trainable(false);
  return TensorFact{name + "/out", tensors_[name + "/out"] = desc};
}

Status GraphMessage::addOutput(const std::string &name, const std::string &tensor, const PythonPlace &place) {
  OPC_ASSIGN_OR_RETURN(graph::OperatorConf * op, begin(name, place));
  wire::makeOutput(tensor, op);
  return Status::ok();
}

namespace {

/// The conf completed and inferred. `conf` must have its name.
Result<OpInstance> instantiate(const Registry &registry, const GraphMessage &graph, user_op::OpConf conf) {
  const user_op::OpDef *def = findGraphOp(registry, conf.type);
  if (!def) {
    const std::string suggestion = suggestOps(registry, conf.type);
    return Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type '" + conf.type + "'")
        .withHelp(suggestion.empty() ? "opc.ops lists the operators" : suggestion);
  }
  OPC_RETURN_IF_ERROR(completeOpConf(*def, &conf));
  OpInstance instance(*def, std::move(conf));
  size_t flat = 0;
  for (const user_op::ArgBinding &arg : instance.conf().inputs)
    for (const std::string &tensor : arg.tensors) instance.inputDescs()[flat++] = *graph.find(tensor);
  OPC_RETURN_IF_ERROR(instance.infer());
  return instance;
}

user_op::OpConf confOf(const NewOp &op, const std::string &name) {
  user_op::OpConf conf;
  conf.name = name;
  conf.type = op.type;
  conf.attrs = op.attrs;
  for (const auto &[arg, tensors] : op.inputs) conf.inputs.push_back({arg, tensors});
  for (const auto &[arg, count] : op.outputs) {
    user_op::ArgBinding &binding = conf.outputs.emplace_back(user_op::ArgBinding{arg, {}});
    for (int32_t i = 0; i < count; ++i) binding.tensors.push_back(concat(name, "/", arg, "_", i));
  }
  return conf;
}

} // namespace

bool GraphMessage::addOp(const Registry &registry, NewOp op, std::vector<std::pair<std::string, TensorFact>> *outputs,
                         std::string *name, Diagnostic *finding) {
  *name = op.name.empty() ? freeName(op.type.substr(op.type.rfind(':') + 1)) : op.name;
  Result<OpInstance> made = instantiate(registry, *this, confOf(op, *name));
  if (!made) return *finding = explain(made.status(), op, *name), false;
  Result<graph::OperatorConf *> begun = begin(*name, op.place);
  if (!begun) return *finding = explain(begun.status(), op, *name), false;
  for (const std::string &first : op.after) (*begun)->add_ctrl_in_op_name(first);
  user_op::OpConf written = made->conf();
  written.type = op.type;
  written.attrs = op.attrs; // those that were given: defaults stay out of the file
  wire::toProto(written, (*begun)->mutable_user_conf());
  size_t flat = 0;
  for (const user_op::ArgBinding &arg : written.outputs)
    for (const std::string &tensor : arg.tensors)
      outputs->emplace_back(arg.name, TensorFact{tensor, tensors_[tensor] = made->outputDescs()[flat++]});
  return true;
}

const std::string &GraphMessage::producer(const std::string &tensor) const {
  static const std::string unknown;
  const std::string name = tensor.substr(0, tensor.rfind('/'));
  for (const graph::OperatorConf &op : job_.net().op())
    if (op.name() == name) return op.loc();
  return unknown;
}

Diagnostic GraphMessage::explain(const Status &status, const NewOp &op, const std::string &name) const {
  Diagnostic d;
  d.code = status.id();
  d.message = status.message();
  d.help = status.help();
  d.subject = "op " + name;
  d.range = placeOf(op.place);
  for (const auto &[arg, tensors] : op.inputs)
    for (size_t i = 0; i < tensors.size() && d.operands.size() < 8; ++i) {
      const user_op::TensorDesc *desc = find(tensors[i]);
      d.operands.push_back({concat(arg, tensors.size() > 1 ? "_" + std::to_string(i) : "", ": ", tensors[i], "  ",
                                   desc ? desc->toString() : "unknown"),
                            "made by " + tensors[i].substr(0, tensors[i].rfind('/')), placeOf(producer(tensors[i]))});
    }
  return d;
}

void GraphMessage::become(graph::Job job, std::string text, std::vector<TensorFact> tensors) {
  job_ = std::move(job);
  text_ = std::move(text);
  tensors_.clear();
  names_.clear();
  for (TensorFact &t : tensors) tensors_[t.name] = std::move(t.desc);
  for (const graph::OperatorConf &op : job_.net().op()) names_.insert(op.name());
}

} // namespace opc::python
