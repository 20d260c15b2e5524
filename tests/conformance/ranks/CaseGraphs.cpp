// The sample cases of the operators as graphs.
// SPDX-License-Identifier: Apache-2.0
#include "TestGraph.h"

#include "AttrWire.h"
#include "DerivedGradient.h"
#include "MutableInputs.h"
#include "OpInstance.h"
#include "TensorFill.h"
#include "graph.pb.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>

namespace opc::ranks {

using user_op::Case;
using user_op::CaseInput;
using user_op::OpConf;
using user_op::OpDef;
using user_op::TensorDesc;

Tolerance toleranceOf(DataType type) { return {elementType(type).rtol, elementType(type).atol}; }

namespace {

class Maker {
public:
  Maker(const Registry &registry, const OpDef &def) : registry_(registry), def_(def) {}

  /// Adds the case to the graph; false when the CPU does not have it.
  bool add(const Case &sample, DataType type, const std::string &name) {
    OpConf conf;
    conf.name = name;
    conf.type = def_.name;
    conf.attrs = sample.attrs();
    std::vector<std::pair<std::string, const CaseInput *>> sources;
    for (const CaseInput &in : sample.inputs()) {
      auto b = std::find_if(conf.inputs.begin(), conf.inputs.end(), [&](const auto &x) { return x.name == in.arg; });
      if (b == conf.inputs.end()) b = conf.inputs.insert(conf.inputs.end(), {in.arg, {}});
      sources.emplace_back(name + "." + in.arg + "_" + std::to_string(b->tensors.size()), &in);
      b->tensors.push_back(sources.back().first + "/out");
    }
    for (const auto &[arg, count] : sample.outputs()) {
      user_op::ArgBinding b{arg, {}};
      for (int32_t i = 0; i < count; ++i) b.tensors.push_back(name + "/" + arg + "_" + std::to_string(i));
      conf.outputs.push_back(std::move(b));
    }
    if (!completeOpConf(def_, &conf)) return false;
    OpInstance op(def_, conf);
    std::vector<std::string> sourceOf; // by flat input
    for (const auto &b : op.conf().inputs)
      for (const std::string &t : b.tensors) sourceOf.push_back(t.substr(0, t.size() - 4));
    for (size_t i = 0; i < sourceOf.size(); ++i)
      for (const auto &[source, in] : sources)
        if (source == sourceOf[i])
          op.inputDescs()[i] = TensorDesc(in->shape, in->type == kInvalidDataType ? type : in->type);
    if (!op.infer()) return false;
    if (!def_.isView && !op.selectKernel(registry_, DeviceType::kCPU)) return false;

    const std::vector<bool> isWritten = mutableInputs(op);
    for (const auto &[source, in] : sources) {
      const auto at = static_cast<size_t>(std::find(sourceOf.begin(), sourceOf.end(), source) - sourceOf.begin());
      addSource(source, *in, op.inputDescs()[at], isWritten[at]);
    }
    addOp(op, name);
    return true;
  }

  TestGraph finish(const std::string &name) {
    graph_.name = name;
    google::protobuf::TextFormat::PrintToString(net_, &graph_.text);
    return std::move(graph_);
  }

private:
  void addSource(const std::string &name, const CaseInput &in, const TensorDesc &desc, bool isVariable) {
    graph::OperatorConf *op = net_.add_op();
    op->set_name(name);
    const auto type = static_cast<graph::DataTypeProto>(desc.data_type());
    if (isVariable) {
      op->mutable_variable_conf()->set_out("out");
      wire::toProto(desc.shape(), op->mutable_variable_conf()->mutable_shape());
      op->mutable_variable_conf()->set_data_type(type);
    } else {
      op->mutable_input_conf()->set_out("out");
      wire::toProto(desc.shape(), op->mutable_input_conf()->mutable_blob_conf()->mutable_shape());
      op->mutable_input_conf()->mutable_blob_conf()->set_data_type(type);
    }
    auto value = HostTensor::create(desc.data_type(), desc.shape());
    if (!value) return; // the session will say that nothing was fed
    const bool isInteger = IsIntegralDataType(desc.data_type());
    fillUniform(&*value, in.lo, isInteger && in.hi > in.lo ? in.hi - 1 : in.hi, {1, stableHash(name)});
    (isVariable ? graph_.variables : graph_.inputs).emplace(name, std::move(*value));
    if (isVariable) allow(name, desc.data_type());
  }

  void addOp(const OpInstance &instance, const std::string &name) {
    graph::OperatorConf *op = net_.add_op();
    op->set_name(name);
    auto *user = op->mutable_user_conf();
    user->set_op_type_name(def_.name);
    auto bind = [](auto *entry, const user_op::ArgBinding &b) {
      entry->set_key(b.name);
      for (const std::string &t : b.tensors) entry->mutable_value()->add_s(t);
    };
    for (const auto &b : instance.conf().inputs) bind(user->add_input(), b);
    for (const auto &[key, value] : instance.conf().attrs) {
      auto *entry = user->add_attr();
      entry->set_key(key);
      wire::toProto(value, entry->mutable_value());
    }
    size_t flat = 0;
    for (const auto &b : instance.conf().outputs) {
      bind(user->add_output(), b);
      for (const std::string &t : b.tensors) {
        std::string end = t;
        std::replace(end.begin(), end.end(), '/', '.');
        allow(end, instance.outputDescs()[flat++].data_type());
        addOutput(end, t);
      }
    }
    if (!flat) // an update: a graph needs an output, and the variable is looked at afterwards
      addOutput(name + ".done", instance.conf().inputs[0].tensors[0]);
  }

  void addOutput(const std::string &name, const std::string &tensor) {
    graph::OperatorConf *op = net_.add_op();
    op->set_name(name);
    op->mutable_output_conf()->set_in(tensor);
    op->mutable_output_conf()->set_out("out");
  }

  void allow(const std::string &name, DataType type) {
    Tolerance t = toleranceOf(type);
    if (auto own = def_.tolerances.find(type); own != def_.tolerances.end())
      t = {std::max(t.rtol, own->second.first), std::max(t.atol, own->second.second)};
    graph_.tolerances[name] = t;
  }

  const Registry &registry_;
  const OpDef &def_;
  graph::DLNetConf net_;
  TestGraph graph_;
};

} // namespace

std::vector<TestGraph> caseGraphs(const Registry &registry, const OpDef &op, const std::vector<DataType> &types,
                                  bool alone) {
  std::vector<TestGraph> graphs;
  auto together = std::make_unique<Maker>(registry, op);
  int added = 0, number = 0;
  for (const Case &sample : op.cases) {
    const auto &inputs = sample.inputs();
    const bool varies =
        std::any_of(inputs.begin(), inputs.end(), [](const auto &i) { return i.type == kInvalidDataType; });
    for (DataType type : types) {
      const auto &own = sample.types();
      if (varies && !own.empty() && std::find(own.begin(), own.end(), type) == own.end()) continue;
      const std::string name = "i" + std::to_string(number++);
      if (alone) together = std::make_unique<Maker>(registry, op);
      if (!together->add(sample, type, name)) continue;
      ++added;
      if (alone) graphs.push_back(together->finish(op.name + "." + name));
      if (!varies) break;
    }
  }
  if (!alone && added) graphs.push_back(together->finish(op.name));
  return graphs;
}

std::vector<const OpDef *> opsWithCases(const Registry &registry) {
  std::vector<const OpDef *> ops = registry.ops();
  for (const OpDef *op : registry.ops()) {
    if (!op->scalar) continue;
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      auto derived = registry.derivedGradient(*op, static_cast<int32_t>(i));
      if (derived && *derived && !registry.findGrad(op->name)) ops.push_back(&(*derived)->def);
    }
  }
  return ops;
}

} // namespace opc::ranks
