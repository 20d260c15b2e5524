// A graph as it grows in Python: the message that the importer reads, and what is known of its tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RegistrySnapshot.h"

#include "Diagnostic.h"
#include "OpInstance.h"
#include "graph.pb.h"

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace opc::python {

/// Where an op was made: "train.py:41".
using PythonPlace = std::string;

/// A tensor of the graph as Python sees it.
struct TensorFact {
  std::string name; // "fc1/out_0"
  user_op::TensorDesc desc;
};

/// An op to be added. Attributes are values of the definition's types.
struct NewOp {
  std::string type, name; // no name: made from the type
  std::vector<std::pair<std::string, std::vector<std::string>>> inputs;
  std::map<std::string, AttrValue> attrs;
  std::map<std::string, int32_t> outputs; // optional and variadic ones
  PythonPlace place;
  std::vector<std::string> after; // ops that run first
};

/// One op after the other, each checked and inferred as it comes, by the rules that the compiler applies to the whole.
class GraphMessage {
public:
  explicit GraphMessage(std::string name) : name_(std::move(name)) {}

  const std::string &name() const { return name_; }
  const graph::Job &job() const { return job_; }
  /// Whether it has settings of a job beside its ops.
  bool isJob() const;
  /// The text of the messages: as it was read while nothing is added, else a line for each op.
  std::string text() const;
  /// `name`, or the first of name_1, name_2, ... that no op has.
  std::string freeName(const std::string &name);
  /// What a tensor is; null for a name that the graph does not have.
  const user_op::TensorDesc *find(const std::string &tensor) const;

  /// Errors: OPC0104 for a name that is taken.
  Result<TensorFact> addInput(const std::string &name, const user_op::TensorDesc &desc, const PythonPlace &place);
  Result<TensorFact> addVariable(const std::string &name, const user_op::TensorDesc &desc,
                                 const graph::InitializerConf &init, bool trainable, const PythonPlace &place);
  Status addOutput(const std::string &name, const std::string &tensor, const PythonPlace &place);
  /// The outputs, with the argument that each belongs to. The finding says what is wrong, in the compiler's words.
  bool addOp(const Registry &registry, NewOp op, std::vector<std::pair<std::string, TensorFact>> *outputs,
             std::string *name, Diagnostic *finding);
  /// Takes the place of what is there: a graph that was read, whose tensors are known.
  void become(graph::Job job, std::string text, std::vector<TensorFact> tensors);

private:
  Result<graph::OperatorConf *> begin(const std::string &name, const PythonPlace &place);
  Diagnostic explain(const Status &status, const NewOp &op, const std::string &name) const;
  const std::string &producer(const std::string &tensor) const;

  std::string name_;
  graph::Job job_;
  std::string text_; // canonical, of what was read; empty when something was added
  std::unordered_map<std::string, user_op::TensorDesc> tensors_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> counters_;
};

} // namespace opc::python
