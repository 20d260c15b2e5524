// Sharding rules that depend on ranks and attributes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Axes.h"

namespace opc::ops {

/// The term of a tensor in a sharding rule: a factor for each axis, "." for one that cannot be split, ".." for the
/// others, which cannot.
using AxisFactors = std::vector<std::string>;

/// "a0", "a1", ...: every axis a factor of its own, but for those in `whole`.
inline AxisFactors axisFactors(int64_t rank, const std::vector<int64_t> &whole = {}, const std::string &name = "a") {
  AxisFactors factors;
  for (int64_t a = 0; a < rank; ++a) factors.push_back(name + std::to_string(a));
  for (int64_t a : whole) factors[static_cast<size_t>(a)] = ".";
  return factors;
}

/// The term of an input that is added to the outputs; of a tensor whose values are not read.
inline AxisFactors added(AxisFactors term) { return term.insert(term.begin(), "+"), term; }
inline AxisFactors unread(AxisFactors term) { return term.insert(term.begin(), "?"), term; }

/// The factors one after the other, separated by blanks.
inline std::string factorText(const AxisFactors &factors) {
  std::string text;
  for (const std::string &factor : factors) text += factor + " ";
  return text;
}

/// The rule with these terms: shardingRule({a, b}, {y}, Linear({0})).
template <class... Parts>
user_op::ShardingRule shardingRule(const std::vector<AxisFactors> &inputs, const std::vector<AxisFactors> &outputs,
                                   const Parts &...parts) {
  std::string text;
  const auto side = [&](const std::vector<AxisFactors> &terms) {
    for (size_t t = 0; t < terms.size(); ++t) text += (t ? ", " : "") + factorText(terms[t]);
  };
  side(inputs);
  text += "-> ";
  side(outputs);
  return user_op::ShardingRule(text, parts...);
}

/// The rule with the signatures that split these factors before others.
inline user_op::ShardingRule inOrder(const AxisFactors &first, user_op::ShardingRule rule) {
  return rule.einsum = factorText(first) + ": " + rule.einsum, rule;
}
/// The rule with a sum over each of these factors.
inline user_op::ShardingRule withSums(const AxisFactors &sums, user_op::ShardingRule rule) {
  for (const std::string &factor : sums) rule.add(user_op::Sum(factor));
  return rule;
}

/// The rule of an op whose tensors all have the same axes, of which those in `whole` stay in one piece. With `linear`
/// the inputs may be partial sums together.
inline user_op::ShardingRule alikeRule(const user_op::SbpContext &ctx, int64_t rank, const std::vector<int64_t> &whole,
                                       bool linear = true) {
  std::vector<int32_t> inputs;
  for (const auto &[arg, index] : ctx.inputs())
    if (index == 0) inputs.push_back(static_cast<int32_t>(inputs.size()));
  const AxisFactors axes = axisFactors(rank, whole);
  user_op::ShardingRule rule = shardingRule(std::vector<AxisFactors>(inputs.size(), axes), {axes});
  if (linear) rule.add(user_op::Linear(inputs));
  return rule;
}

} // namespace opc::ops
