// Problem -> pairwise costs in whole units, and assignments -> solutions.
// SPDX-License-Identifier: Apache-2.0
#include "CostModel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace opc::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// All sets of at most `limit` of the states other than `produced`, small sets first.
std::vector<std::vector<uint32_t>> copySets(uint32_t states, uint32_t produced, int limit) {
  std::vector<std::vector<uint32_t>> sets = {{}};
  size_t first = 0;
  for (int size = 1; size <= limit; ++size) {
    const size_t end = sets.size();
    for (size_t s = first; s < end; ++s)
      for (uint32_t c = sets[s].empty() ? 0 : sets[s].back() + 1; c < states; ++c) {
        if (c == produced) continue;
        std::vector<uint32_t> more = sets[s];
        more.push_back(c);
        sets.push_back(std::move(more));
      }
    first = end;
  }
  return sets;
}

void push(std::vector<uint32_t> *key, double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  key->push_back(static_cast<uint32_t>(bits));
  key->push_back(static_cast<uint32_t>(bits >> 32));
}

bool isPinned(const OpKind &kind, size_t input) { return !kind.pinned.empty() && kind.pinned[input]; }

bool isCost(double seconds) { return seconds >= 0; } // infinity is; NaN is not

} // namespace

Fault check(const Problem &problem, const Options &options) {
  if (options.copies < 0 || options.copies > 2) return {"copies must be 0, 1 or 2", -1};
  for (const TensorKind &k : problem.tensorKinds) {
    if (k.states == 0) return {"a tensor kind has no state", -1};
    if (k.boxing.size() != size_t{k.states} * k.states) return {"boxing must have states * states entries", -1};
    if (k.bytes.size() != k.states) return {"bytes must have an entry for each state", -1};
    for (uint32_t s = 0; s < k.states; ++s)
      if (k.boxing[s * k.states + s] != 0) return {"boxing from a state to itself must be 0", -1};
    for (double b : k.boxing)
      if (!isCost(b)) return {"boxing seconds must not be negative", -1};
  }
  for (const Tensor &t : problem.tensors) {
    if (t.kind >= problem.tensorKinds.size()) return {"a tensor has an unknown kind", -1};
    if (!(t.held >= 0) || !std::isfinite(t.held)) return {"held must be a number, 0 or more", -1};
    if (!(t.discount >= 0) || !std::isfinite(t.discount)) return {"discount must be a number, 0 or more", -1};
  }
  std::vector<bool> produced(problem.tensors.size(), false);
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    const Op &op = problem.ops[o];
    const int64_t at = static_cast<int64_t>(o);
    if (op.kind >= problem.opKinds.size()) return {"an op has an unknown kind", at};
    const OpKind &kind = problem.opKinds[op.kind];
    if (!kind.pinned.empty() && kind.pinned.size() != op.inputs.size())
      return {"pinned must have an entry for each input", at};
    for (uint32_t t : op.inputs)
      if (t >= problem.tensors.size() || !produced[t]) return {"an op reads a tensor that no op before it makes", at};
    for (uint32_t t : op.outputs) {
      if (t >= problem.tensors.size() || produced[t]) return {"a tensor is the output of two ops", at};
      produced[t] = true;
    }
    for (const OpKind::Signature &s : kind.signatures) {
      if (s.inputs.size() != op.inputs.size() || s.outputs.size() != op.outputs.size())
        return {"a signature must have a state for each input and output", at};
      if (!isCost(s.seconds)) return {"the seconds of a signature must not be negative", at};
      for (size_t i = 0; i < s.inputs.size(); ++i)
        if (s.inputs[i] >= problem.tensorKinds[problem.tensors[op.inputs[i]].kind].states)
          return {"a signature wants a state that the tensor does not have", at};
      for (size_t i = 0; i < s.outputs.size(); ++i)
        if (s.outputs[i] >= problem.tensorKinds[problem.tensors[op.outputs[i]].kind].states)
          return {"a signature makes a state that the tensor does not have", at};
    }
  }
  for (bool p : produced)
    if (!p) return {"a tensor is the output of no op", -1};
  return {};
}

CostModel::CostModel(const Problem &problem, const Options &options, CostTables *tables)
    : problem_(problem), options_(options), tables_(tables), opVariable_(problem.ops.size()),
      tensorVariable_(problem.tensors.size()), domain_(problem.tensors.size()), readers_(problem.tensors.size(), 0) {
  for (const TensorKind &k : problem.tensorKinds) {
    bool shortest = true;
    const size_t n = k.states;
    for (size_t via = 0; via < n && shortest; ++via)
      for (size_t a = 0; a < n && shortest; ++a)
        for (size_t b = 0; b < n; ++b)
          // Sums of path lengths differ in the last digits; a detour that saves no more than that saves nothing.
          if (k.boxing[a * n + via] + k.boxing[via * n + b] < k.boxing[a * n + b] * (1 - 1e-12)) shortest = false;
    shortest_.push_back(shortest);
  }
  for (const Op &op : problem.ops)
    for (uint32_t t : op.inputs) ++readers_[t];
  opOf_.reserve(problem.ops.size() + problem.tensors.size());
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    const Op &op = problem.ops[o];
    opVariable_[o] = static_cast<uint32_t>(opOf_.size());
    opOf_.push_back(static_cast<int64_t>(o));
    for (uint32_t i = 0; i < op.outputs.size(); ++i) {
      const uint32_t t = op.outputs[i];
      tensorVariable_[t] = static_cast<uint32_t>(opOf_.size());
      opOf_.push_back(static_cast<int64_t>(o));
      domain_[t] = domainOf(problem.tensors[t], op.kind, i, readers_[t]);
    }
  }
}

int64_t CostModel::opOf(uint32_t variable) const { return opOf_[variable]; }

/// The values that a tensor may have: states that a signature of its producer makes, with sets of copies. One reader
/// needs no copy where boxing is the shortest way already.
uint32_t CostModel::domainOf(const Tensor &tensor, uint32_t opKind, uint32_t output, uint32_t readers) {
  const int copies = readers == 0 || (readers == 1 && shortest_[tensor.kind]) ? 0 : options_.copies;
  const uint32_t id = domainKeys_.id({tensor.kind, opKind, output, static_cast<uint32_t>(copies)});
  if (id < domains_.size()) return id;
  const TensorKind &kind = problem_.tensorKinds[tensor.kind];
  std::vector<bool> made(kind.states, false);
  for (const OpKind::Signature &s : problem_.opKinds[opKind].signatures) made[s.outputs[output]] = true;
  Domain domain{tensor.kind, {}};
  for (uint32_t p = 0; p < kind.states; ++p) {
    if (!made[p]) continue;
    for (std::vector<uint32_t> &set : copySets(kind.states, p, copies)) {
      // A copy that cannot be made, or that costs nothing to make anew for each reader, is of no use.
      bool useful = true;
      for (uint32_t c : set) {
        const double b = kind.boxing[p * kind.states + c];
        useful &= b < kInfinity && !(b == 0 && shortest_[tensor.kind]);
      }
      if (useful) domain.values.push_back({p, std::move(set)});
    }
  }
  domains_.push_back(std::move(domain));
  return id;
}

/// One unit is the largest power of two for which the sum of the largest finite costs of everything stays below 2^56
/// units: no sum can reach kNever, and a cost is off by at most half of 2^-56 of that sum.
void CostModel::chooseUnit(double secondsWeight, double price) {
  double total = 0;
  std::vector<double> opMost(problem_.opKinds.size(), -1), boxingMost(problem_.tensorKinds.size(), -1),
      bytesMost(problem_.tensorKinds.size(), 0);
  for (size_t k = 0; k < problem_.tensorKinds.size(); ++k) {
    boxingMost[k] = 0;
    for (double b : problem_.tensorKinds[k].boxing)
      if (b < kInfinity) boxingMost[k] = std::max(boxingMost[k], b);
    for (uint64_t b : problem_.tensorKinds[k].bytes) bytesMost[k] = std::max(bytesMost[k], static_cast<double>(b));
  }
  for (const Op &op : problem_.ops) {
    if (opMost[op.kind] < 0) {
      opMost[op.kind] = 0;
      for (const OpKind::Signature &s : problem_.opKinds[op.kind].signatures)
        if (s.seconds < kInfinity) opMost[op.kind] = std::max(opMost[op.kind], s.seconds);
    }
    total += opMost[op.kind] * secondsWeight;
  }
  for (size_t t = 0; t < problem_.tensors.size(); ++t) {
    const Tensor &tensor = problem_.tensors[t];
    total += boxingMost[tensor.kind] * tensor.discount * secondsWeight * (readers_[t] + options_.copies);
    total += bytesMost[tensor.kind] * tensor.held * price * (1 + options_.copies);
  }
  unit_ = total > 0 && std::isfinite(total) ? std::ldexp(1.0, std::ilogb(total) + 1 - 56) : 1;
}

Cost CostModel::units(double seconds) const {
  if (!(seconds < kInfinity)) return kNever;
  const double u = seconds / unit_;
  return u < static_cast<double>(kNever / 8) ? static_cast<Cost>(std::llround(u)) : kNever;
}

uint32_t CostModel::producerTable(uint32_t opKind, uint32_t output, uint32_t domain) {
  const std::vector<OpKind::Signature> &signatures = problem_.opKinds[opKind].signatures;
  const std::vector<TensorValue> &values = domains_[domain].values;
  std::vector<Cost> entries;
  entries.reserve(signatures.size() * values.size());
  for (const OpKind::Signature &s : signatures)
    for (const TensorValue &v : values) entries.push_back(v.produced == s.outputs[output] ? 0 : kNever);
  return tables_->intern({static_cast<uint32_t>(signatures.size()), static_cast<uint32_t>(values.size())},
                         std::move(entries));
}

uint32_t CostModel::readerTable(uint32_t opKind, uint32_t input, uint32_t domain, double weight) {
  const OpKind &kind = problem_.opKinds[opKind];
  const std::vector<TensorValue> &values = domains_[domain].values;
  const TensorKind &tensor = problem_.tensorKinds[domains_[domain].kind];
  const bool pinned = isPinned(kind, input);
  std::vector<Cost> entries, byState(tensor.states);
  entries.reserve(kind.signatures.size() * values.size());
  for (const TensorValue &v : values) {
    for (uint32_t s = 0; s < tensor.states; ++s) {
      if (pinned) {
        byState[s] = s == v.produced ? 0 : kNever;
        continue;
      }
      double least = tensor.boxing[v.produced * tensor.states + s];
      for (uint32_t c : v.copies) least = std::min(least, tensor.boxing[c * tensor.states + s]);
      byState[s] = least == 0 ? 0 : units(least * weight);
    }
    for (const OpKind::Signature &s : kind.signatures) entries.push_back(byState[s.inputs[input]]);
  }
  return tables_->intern({static_cast<uint32_t>(values.size()), static_cast<uint32_t>(kind.signatures.size())},
                         std::move(entries));
}

uint32_t CostModel::tensorTable(uint32_t domain, double weight, double bytePrice) {
  const TensorKind &kind = problem_.tensorKinds[domains_[domain].kind];
  std::vector<Cost> entries;
  for (const TensorValue &v : domains_[domain].values) {
    double seconds = 0, bytes = static_cast<double>(kind.bytes[v.produced]);
    for (uint32_t c : v.copies) {
      seconds += kind.boxing[v.produced * kind.states + c];
      bytes += static_cast<double>(kind.bytes[c]);
    }
    entries.push_back(units(seconds * weight + bytes * bytePrice));
  }
  return tables_->intern({static_cast<uint32_t>(entries.size())}, std::move(entries));
}

PairGraph CostModel::graph(double secondsWeight, double price) {
  chooseUnit(secondsWeight, price);
  PairGraph graph;
  graph.unary.resize(opOf_.size());
  SequenceIndex keys;
  std::vector<uint32_t> results, key;
  enum : uint32_t { kProducer, kReader, kTensor };
  auto memoised = [&](auto make) {
    const uint32_t id = keys.id(key);
    if (id == results.size()) results.push_back(make());
    return results[id];
  };
  std::vector<uint32_t> opTable(problem_.opKinds.size(), UINT32_MAX);
  std::vector<std::pair<uint32_t, uint32_t>> mine; // tensor variable and table of an op's inputs
  for (size_t o = 0; o < problem_.ops.size(); ++o) {
    const Op &op = problem_.ops[o];
    const uint32_t variable = opVariable_[o];
    if (opTable[op.kind] == UINT32_MAX) {
      std::vector<Cost> entries;
      for (const OpKind::Signature &s : problem_.opKinds[op.kind].signatures)
        entries.push_back(s.seconds == 0 ? 0 : units(s.seconds * secondsWeight));
      opTable[op.kind] = tables_->intern({static_cast<uint32_t>(entries.size())}, std::move(entries));
    }
    graph.unary[variable] = opTable[op.kind];
    mine.clear();
    for (uint32_t i = 0; i < op.inputs.size(); ++i) {
      const uint32_t t = op.inputs[i];
      const double weight = problem_.tensors[t].discount * secondsWeight;
      key = {kReader, op.kind, i, domain_[t]};
      push(&key, weight);
      const uint32_t table = memoised([&] { return readerTable(op.kind, i, domain_[t], weight); });
      const auto same =
          std::find_if(mine.begin(), mine.end(), [&](const auto &m) { return m.first == tensorVariable_[t]; });
      if (same != mine.end())
        same->second = tables_->sum(same->second, table);
      else
        mine.push_back({tensorVariable_[t], table});
    }
    for (const auto &[v, table] : mine) graph.edges.push_back({v, variable, table});
    for (uint32_t i = 0; i < op.outputs.size(); ++i) {
      const uint32_t t = op.outputs[i];
      key = {kProducer, op.kind, i, domain_[t]};
      graph.edges.push_back(
          {variable, tensorVariable_[t], memoised([&] { return producerTable(op.kind, i, domain_[t]); })});
      const double weight = problem_.tensors[t].discount * secondsWeight, bytePrice = problem_.tensors[t].held * price;
      key = {kTensor, domain_[t]};
      push(&key, weight);
      push(&key, bytePrice);
      graph.unary[tensorVariable_[t]] = memoised([&] { return tensorTable(domain_[t], weight, bytePrice); });
    }
  }
  return graph;
}

void CostModel::decode(const std::vector<uint32_t> &values, Solution *solution) const {
  solution->signature.resize(problem_.ops.size());
  solution->copies.assign(problem_.tensors.size(), {});
  for (size_t o = 0; o < problem_.ops.size(); ++o) solution->signature[o] = values[opVariable_[o]];
  for (size_t t = 0; t < problem_.tensors.size(); ++t)
    solution->copies[t] = domains_[domain_[t]].values[values[tensorVariable_[t]]].copies;
}

uint64_t heldBytes(const Problem &problem, const Solution &solution) {
  double bytes = 0;
  for (size_t o = 0; o < problem.ops.size(); ++o)
    for (size_t i = 0; i < problem.ops[o].outputs.size(); ++i) {
      const uint32_t t = problem.ops[o].outputs[i];
      const TensorKind &kind = problem.tensorKinds[problem.tensors[t].kind];
      const uint32_t produced = problem.opKinds[problem.ops[o].kind].signatures[solution.signature[o]].outputs[i];
      double here = static_cast<double>(kind.bytes[produced]);
      for (uint32_t c : solution.copies[t]) here += static_cast<double>(kind.bytes[c]);
      bytes += here * problem.tensors[t].held;
    }
  // What no device has is as much as none.
  return bytes < std::ldexp(1.0, 64) ? static_cast<uint64_t>(std::round(bytes)) : UINT64_MAX;
}

double costWithCopies(const Problem &problem, const std::vector<uint32_t> &signature,
                      const std::vector<std::vector<uint32_t>> &copies) {
  double cost = 0;
  std::vector<uint32_t> produced(problem.tensors.size());
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    const Op &op = problem.ops[o];
    const OpKind &kind = problem.opKinds[op.kind];
    const OpKind::Signature &s = kind.signatures[signature[o]];
    cost += s.seconds;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const uint32_t t = op.inputs[i];
      const TensorKind &tensor = problem.tensorKinds[problem.tensors[t].kind];
      if (isPinned(kind, i) && s.inputs[i] != produced[t]) return kInfinity;
      double least = tensor.boxing[produced[t] * tensor.states + s.inputs[i]];
      for (uint32_t c : copies[t]) least = std::min(least, tensor.boxing[c * tensor.states + s.inputs[i]]);
      if (least > 0) cost += least < kInfinity ? least * problem.tensors[t].discount : kInfinity;
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const uint32_t t = op.outputs[i];
      const TensorKind &tensor = problem.tensorKinds[problem.tensors[t].kind];
      produced[t] = s.outputs[i];
      for (uint32_t c : copies[t]) {
        const double boxing = tensor.boxing[produced[t] * tensor.states + c];
        cost += boxing < kInfinity ? boxing * problem.tensors[t].discount : kInfinity;
      }
    }
  }
  return cost;
}

double costOf(const Problem &problem, const std::vector<uint32_t> &signature, int maxCopies) {
  Options options;
  options.copies = maxCopies;
  if (!check(problem, options).what.empty() || signature.size() != problem.ops.size()) return kInfinity;
  std::vector<uint32_t> produced(problem.tensors.size());
  std::vector<std::vector<uint32_t>> wanted(problem.tensors.size());
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    const Op &op = problem.ops[o];
    if (signature[o] >= problem.opKinds[op.kind].signatures.size()) return kInfinity;
    const OpKind::Signature &s = problem.opKinds[op.kind].signatures[signature[o]];
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (!isPinned(problem.opKinds[op.kind], i)) wanted[op.inputs[i]].push_back(s.inputs[i]);
    for (size_t i = 0; i < op.outputs.size(); ++i) produced[op.outputs[i]] = s.outputs[i];
  }
  std::vector<std::vector<uint32_t>> copies(problem.tensors.size());
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    const TensorKind &kind = problem.tensorKinds[problem.tensors[t].kind];
    double best = kInfinity;
    for (const std::vector<uint32_t> &set : copySets(kind.states, produced[t], maxCopies)) {
      double cost = 0;
      for (uint32_t c : set) cost += kind.boxing[produced[t] * kind.states + c];
      for (uint32_t w : wanted[t]) {
        double least = kind.boxing[produced[t] * kind.states + w];
        for (uint32_t c : set) least = std::min(least, kind.boxing[c * kind.states + w]);
        cost += least;
      }
      if (cost < best) {
        best = cost;
        copies[t] = set;
      }
      if (wanted[t].empty()) break;
    }
  }
  return costWithCopies(problem, signature, copies);
}

} // namespace opc::planner
