// A planning problem as variables and pairwise costs, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PairGraph.h"
#include "SignaturePlanner.h"

#include <string>
#include <vector>

namespace opc::planner {

/// What is wrong with a problem, and the op where it shows (-1: none in particular); empty: nothing.
struct Fault {
  std::string what;
  int64_t op = -1;
};
Fault check(const Problem &problem, const Options &options);

/// What a tensor's variable stands for: its produced state and the states of its copies, ascending.
struct TensorValue {
  uint32_t produced = 0;
  std::vector<uint32_t> copies;
};

/// The variables of a problem: one for each op (its signature), one for each tensor (a TensorValue), in the order of
/// the ops, each followed by its outputs. Costs are in units of `unit` seconds, a power of two.
class CostModel {
public:
  CostModel(const Problem &problem, const Options &options, CostTables *tables);

  /// The graph where a byte of a held tensor costs `price` seconds more, and a second costs `secondsWeight`.
  PairGraph graph(double secondsWeight = 1, double price = 0);
  double unit() const { return unit_; }

  /// Signatures and copies of an assignment to the graph's variables.
  void decode(const std::vector<uint32_t> &values, Solution *solution) const;
  /// The op of a variable: its own, or the tensor's producer.
  int64_t opOf(uint32_t variable) const;

private:
  struct Domain { // of a tensor
    uint32_t kind;
    std::vector<TensorValue> values;
  };
  Cost units(double seconds) const;
  uint32_t domainOf(const Tensor &tensor, uint32_t opKind, uint32_t output, uint32_t readers);
  uint32_t producerTable(uint32_t opKind, uint32_t output, uint32_t domain);
  uint32_t readerTable(uint32_t opKind, uint32_t input, uint32_t domain, double weight);
  uint32_t tensorTable(uint32_t domain, double weight, double bytePrice);
  void chooseUnit(double secondsWeight, double price);

  const Problem &problem_;
  const Options &options_;
  CostTables *tables_;
  double unit_ = 1;
  std::vector<uint32_t> opVariable_, tensorVariable_, domain_, readers_;
  std::vector<int64_t> opOf_;
  std::vector<bool> shortest_; // by tensor kind: no boxing is cheaper by way of a third state
  std::vector<Domain> domains_;
  SequenceIndex domainKeys_;
};

/// Bytes of held tensors on a device, produced state and copies.
uint64_t heldBytes(const Problem &problem, const Solution &solution);
/// The cost by definition with the given copies; infinity when it is not possible.
double costWithCopies(const Problem &problem, const std::vector<uint32_t> &signature,
                      const std::vector<std::vector<uint32_t>> &copies);

} // namespace opc::planner
