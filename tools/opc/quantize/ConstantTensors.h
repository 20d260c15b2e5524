// What a graph computes of its weights and constants alone, and its value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "Registry.h"
#include "StoredTensor.h"

#include <map>
#include <set>
#include <string>

namespace opc::cli {

class ConstantTensors {
public:
  /// `values` by variable, `constants` by tensor; `updated`: the tensors of variables that the graph writes. The
  /// registry must outlive this.
  ConstantTensors(const Registry &registry, const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                  const std::map<std::string, StoredTensor> &constants, const std::set<std::string> &updated);
  /// Weights and constants themselves, too.
  bool isConstant(const std::string &tensor) const { return values_.count(tensor) || makers_.count(tensor); }
  /// Computed when it is first asked for. Null where it cannot be: no kernel, no memory.
  const StoredTensor *value(const std::string &tensor);

private:
  bool compute(const GraphOp &op, std::map<std::string, StoredTensor> *made) const;
  const Registry &registry_;
  const GraphFacts facts_;
  std::map<std::string, size_t> makers_;       // the op of each tensor that is computed of constants alone
  std::map<std::string, StoredTensor> values_; // by tensor
};

/// What products and convolutions read that is computed of weights and constants alone becomes a weight of its own, a
/// factor of a product goes into its weight, and a stack of equal matrices becomes one. Ops in `kept` stay as they are.
/// What nobody reads any more is taken off; `values` gets those of the new weights, by variable.
void foldWeights(const Registry &registry, const std::set<std::string> &kept, ConstantTensors &constants,
                 GraphFacts *facts, std::map<std::string, StoredTensor> *values);

} // namespace opc::cli
