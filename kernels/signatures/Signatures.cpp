// The SBP signatures of an op: from its sharding rule, or as its definition lists them.
// SPDX-License-Identifier: Apache-2.0
#include "Signatures.h"
#include "HostContexts.h"
#include "PluginCode.h"
#include "TextParts.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc {

using user_op::OpDef;
using user_op::ReductionKind;
using user_op::TensorDesc;

namespace {

class ListContext final : public HostContext<user_op::SbpContext> {
public:
  ListContext(const OpInstance &op, int64_t parts) : HostContext(op), parts_(parts) {}
  DeviceType device_type() const override { return DeviceType::kCPU; }
  int64_t parallel_num() const override { return parts_; }
  std::vector<SbpSignature> found;

protected:
  const TensorDesc *findInputDesc(const std::string &arg, int32_t index) const override {
    const int i = op_->findInput(arg, index);
    return i < 0 ? nullptr : &op_->inputDescs()[static_cast<size_t>(i)];
  }
  const TensorDesc *findOutputDesc(const std::string &arg, int32_t index) const override {
    const int i = op_->findOutput(arg, index);
    return i < 0 ? nullptr : &op_->outputDescs()[static_cast<size_t>(i)];
  }
  std::vector<SbpSignature> *signatures() override { return &found; }

private:
  int64_t parts_;
};

Status ruleError(const OpDef &def, const std::string &message) {
  const std::string place = def.origin.file.empty() ? "" : " (" + whereRegistered(def.origin) + ")";
  return Status(StatusCode::kInvalidGraph, "OPC0301", "op type '" + def.name + "': " + message + place)
      .withHelp("a rule has a term for each argument: \"m k, k n -> m n\"; docs/sbp.md");
}

/// The factors of one tensor's axes; "" for an axis that cannot be split.
using Factors = std::vector<std::string>;

/// "m k" over a tensor of some rank. "..." stands for the axes that the other names leave, numbered from the right, so
/// that tensors of different rank align as in broadcasting.
Result<Factors> expandTerm(const OpDef &op, const std::string &term, int64_t rank) {
  std::vector<std::string> names = splitAt(term, ' ');
  std::erase(names, "");
  const auto dots = std::count(names.begin(), names.end(), "...");
  const int64_t named = static_cast<int64_t>(names.size()) - dots;
  if (dots > 1 || (dots == 0 ? rank != named : rank < named))
    return ruleError(op,
                     "the sharding rule's term '" + term + "' does not fit a tensor of rank " + std::to_string(rank));
  Factors factors;
  for (const std::string &n : names) {
    if (n == "...")
      for (int64_t k = rank - named; k-- > 0;) factors.push_back("..." + std::to_string(k));
    else
      factors.push_back(n == "." ? "" : n);
  }
  return factors;
}

std::vector<std::string> splitTerms(const std::string &text) {
  std::vector<std::string> terms = splitAt(text, ',');
  for (std::string &t : terms) {
    while (!t.empty() && t.back() == ' ') t.pop_back();
    while (!t.empty() && t.front() == ' ') t.erase(0, 1);
  }
  return terms;
}

/// The names in the terms of one side of a rule: factors and "...".
std::vector<std::string> namesIn(const std::vector<std::string> &terms) {
  std::vector<std::string> names;
  for (const std::string &term : terms)
    for (std::string &name : splitAt(term, ' '))
      if (!name.empty() && name != ".") names.push_back(std::move(name));
  return names;
}
bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The two sides of a rule, by terms.
struct RuleSides {
  std::vector<std::string> inputs, outputs;
};
Result<RuleSides> sidesOf(const OpDef &def, const user_op::ShardingRule &rule) {
  const size_t arrow = rule.einsum.find("->");
  if (arrow == std::string::npos) return ruleError(def, "the sharding rule '" + rule.einsum + "' has no ->");
  return RuleSides{splitTerms(rule.einsum.substr(0, arrow)), splitTerms(rule.einsum.substr(arrow + 2))};
}

class RuleSignatures {
public:
  RuleSignatures(const OpInstance &op, const user_op::ShardingRule &rule) : op_(op), rule_(rule) {}

  Result<std::vector<SbpSignature>> run() {
    OPC_RETURN_IF_ERROR(checkShardingRule(op_.def(), rule_));
    OPC_ASSIGN_OR_RETURN(const RuleSides sides, sidesOf(op_.def(), rule_));
    OPC_RETURN_IF_ERROR(place(sides.inputs, op_.def().inputs, op_.inputArgs(), op_.inputDescs(), &inputs_));
    OPC_RETURN_IF_ERROR(place(sides.outputs, op_.def().outputs, op_.outputArgs(), op_.outputDescs(), &outputs_));
    dropBroadcastAxes();
    std::vector<SbpSignature> found;
    for (const std::string &factor : order_) splitFactor(factor, &found);
    for (const auto &group : rule_.linear) linearGroup(group, &found);
    return found;
  }

private:
  /// Factors for each tensor. Arguments that the rule has no term for cannot be split.
  Status place(const std::vector<std::string> &terms, const std::vector<user_op::ArgDef> &args,
               const user_op::ArgList &list, const std::vector<TensorDesc> &descs, std::vector<Factors> *out) {
    for (size_t t = 0; t < list.size(); ++t) {
      size_t arg = 0;
      while (arg < args.size() && args[arg].name != list[t].first) ++arg;
      const int64_t rank = descs[t].shape().NumAxes();
      if (arg >= terms.size()) {
        out->push_back(Factors(static_cast<size_t>(rank)));
        continue;
      }
      OPC_ASSIGN_OR_RETURN(Factors factors, expandTerm(op_.def(), terms[arg], rank));
      for (size_t a = 0; a < factors.size(); ++a) {
        const std::string &f = factors[a];
        if (f.empty()) continue;
        if (!size_.count(f)) order_.push_back(f);
        size_[f] = std::max(size_[f], descs[t].shape().At(static_cast<int64_t>(a)));
      }
      out->push_back(std::move(factors));
    }
    return Status::ok();
  }

  void dropBroadcastAxes() {
    auto drop = [&](std::vector<Factors> &tensors, const std::vector<TensorDesc> &descs) {
      for (size_t t = 0; t < tensors.size(); ++t)
        for (size_t a = 0; a < tensors[t].size(); ++a)
          if (std::string &f = tensors[t][a]; !f.empty() && descs[t].shape().At(static_cast<int64_t>(a)) != size_[f])
            f.clear();
    };
    drop(inputs_, op_.inputDescs());
    drop(outputs_, op_.outputDescs());
  }

  /// The axis of a factor; -1: the tensor does not have it; -2: twice.
  static int64_t axisOf(const Factors &factors, const std::string &factor) {
    int64_t axis = -1;
    for (size_t a = 0; a < factors.size(); ++a)
      if (factors[a] == factor) axis = axis == -1 ? static_cast<int64_t>(a) : -2;
    return axis;
  }

  void splitFactor(const std::string &factor, std::vector<SbpSignature> *found) const {
    SbpSignature s;
    for (size_t t = 0; t < inputs_.size(); ++t) {
      const int64_t axis = axisOf(inputs_[t], factor);
      if (axis == -2) return;
      const auto &[arg, index] = op_.inputArgs()[t];
      s.set(arg, index, axis < 0 ? SbpParallel::broadcast() : SbpParallel::split(axis));
    }
    for (size_t t = 0; t < outputs_.size(); ++t) {
      const int64_t axis = axisOf(outputs_[t], factor);
      if (axis == -2) return;
      const auto &[arg, index] = op_.outputArgs()[t];
      if (axis >= 0) {
        s.set(arg, index, SbpParallel::split(axis));
        continue;
      }
      bool sum = false;
      for (const auto &r : rule_.reductions) sum |= r.factor == factor && r.kind == ReductionKind::kSum;
      if (!sum) return;
      s.set(arg, index, SbpParallel::partialSum());
    }
    found->push_back(std::move(s));
  }

  void linearGroup(const user_op::LinearGroup &group, std::vector<SbpSignature> *found) const {
    SbpSignature s;
    bool isThere = false; // else all its inputs are optional ones that this op does without
    for (const auto &[arg, index] : op_.inputArgs()) {
      int32_t position = 0;
      while (op_.def().inputs[static_cast<size_t>(position)].name != arg) ++position;
      const bool in = std::find(group.inputs.begin(), group.inputs.end(), position) != group.inputs.end();
      isThere |= in;
      s.set(arg, index, in ? SbpParallel::partialSum() : SbpParallel::broadcast());
    }
    if (!isThere) return;
    for (const auto &[arg, index] : op_.outputArgs()) s.set(arg, index, SbpParallel::partialSum());
    found->push_back(std::move(s));
  }

  const OpInstance &op_;
  const user_op::ShardingRule &rule_;
  std::vector<Factors> inputs_, outputs_;
  std::vector<std::string> order_; // factors as they first appear
  std::map<std::string, int64_t> size_;
};

/// What a text says of more arguments than there are, or of factors that nobody has.
Status checkTerms(const OpDef &def, const user_op::ShardingRule &rule, const RuleSides &sides) {
  const std::string text = "the sharding rule '" + rule.einsum + "' ";
  const auto fits = [&](const std::vector<std::string> &terms, const std::vector<user_op::ArgDef> &args,
                        const char *what) {
    if (terms.size() <= args.size() || (args.empty() && namesIn(terms).empty() && terms.size() == 1))
      return Status::ok();
    return ruleError(def, text + "has the term '" + terms[args.size()] + "' too many: the op has " +
                              counted(args.size(), what));
  };
  OPC_RETURN_IF_ERROR(fits(sides.inputs, def.inputs, "input"));
  OPC_RETURN_IF_ERROR(fits(sides.outputs, def.outputs, "output"));
  const std::vector<std::string> in = namesIn(sides.inputs), out = namesIn(sides.outputs);
  const auto isReduced = [&](const std::string &name) {
    return std::any_of(rule.reductions.begin(), rule.reductions.end(), [&](const auto &r) { return r.factor == name; });
  };
  // A factor that outputs alone have is for kernels that know which part is theirs, as one_hot's. Where an input has
  // one that goes nowhere, one of the two is misspelt.
  const auto lost =
      std::find_if(in.begin(), in.end(), [&](const auto &name) { return !contains(out, name) && !isReduced(name); });
  if (lost == in.end()) return Status::ok();
  for (const std::string &name : out)
    if (!contains(in, name))
      return ruleError(def, text + "has '" + name + "' in an output and in no input, and '" + *lost +
                                "' in an input, in no output and not reduced")
          .withHelp("give both one name; where the input's axis cannot be cut, write . for '" + *lost +
                    "', and the kernel asks for its part of '" + name + "' (ShardBegin); docs/sbp.md");
  return Status::ok();
}

bool hasAddition(DataType type) { return type != kBool && isTensorDataType(type); }

} // namespace

Status checkShardingRule(const OpDef &def, const user_op::ShardingRule &rule) {
  if (rule.empty()) return Status::ok();
  const std::string text = "the sharding rule '" + rule.einsum + "' ";
  OPC_ASSIGN_OR_RETURN(const RuleSides sides, sidesOf(def, rule));
  OPC_RETURN_IF_ERROR(checkTerms(def, rule, sides));
  std::vector<std::string> known = namesIn(sides.inputs);
  for (std::string &name : namesIn(sides.outputs)) known.push_back(std::move(name));
  for (const user_op::FactorReduction &r : rule.reductions)
    if (!contains(known, r.factor))
      return ruleError(def, text + "reduces '" + r.factor + "', which is in no term of it");
  const auto inputs = static_cast<int32_t>(def.inputs.size());
  for (const user_op::LinearGroup &group : rule.linear) {
    if (group.inputs.empty()) return ruleError(def, text + "has a Linear without inputs");
    for (const int32_t i : group.inputs)
      if (i < 0 || i >= inputs)
        return ruleError(def, text + "is Linear in input " + std::to_string(i) + ": the op has " +
                                  counted(inputs, "input") + ", numbered from 0");
  }
  return Status::ok();
}

std::string signatureText(const OpInstance &op, const SbpSignature &signature) {
  auto list = [&](const user_op::ArgList &args) {
    return "(" +
           joined(args, ", ",
                  [&](const auto &arg) {
                    const SbpParallel *s = signature.find(arg.first, arg.second);
                    return s ? s->toString() : std::string("B");
                  }) +
           ")";
  };
  return list(op.inputArgs()) + " -> " + list(op.outputArgs());
}

namespace {

/// What an SBP function lists: states of arguments that there are, and of every output where something is cut. An
/// output that is forgotten would count as whole on every device, with the values of one part.
Status checkListed(const OpInstance &op, const SbpSignature &s) {
  const auto wrong = [&](const std::string &message) {
    return ruleError(op.def(), "its SBP function lists " + signatureText(op, s) + ", " + message)
        .withHelp("a signature names each output that there is: .Split(ctx->outputs(), 0), .Broadcast(...) or "
                  ".PartialSum(...); docs/sbp.md");
  };
  const auto isDeclared = [](const std::vector<user_op::ArgDef> &args, const std::string &name) {
    return std::any_of(args.begin(), args.end(), [&](const auto &a) { return a.name == name; });
  };
  bool isCut = false;
  for (const auto &[arg, state] : s.states) {
    // What is left open is B: to say so of an argument that only some ops of a family have is no harm.
    if (state.kind() == SbpParallel::kUnset || state.has_broadcast_parallel()) continue;
    isCut = true;
    const auto &[name, index] = arg;
    if (op.findInput(name, index) >= 0 || op.findOutput(name, index) >= 0) continue;
    if (!isDeclared(op.def().inputs, name) && !isDeclared(op.def().outputs, name))
      return wrong("with a state of '" + name + "', which is no input or output of it");
    const auto isNamed = [&](const auto &other) { return other.first == name; };
    const auto count = std::count_if(op.inputArgs().begin(), op.inputArgs().end(), isNamed) +
                       std::count_if(op.outputArgs().begin(), op.outputArgs().end(), isNamed);
    if (count > 0) // else an optional one that is not there
      return wrong("with a state of '" + name + "' " + std::to_string(index) + ", of which there are " +
                   std::to_string(count));
  }
  for (const auto &[name, index] : op.outputArgs()) {
    const SbpParallel *state = s.find(name, index);
    if (isCut && (!state || state->kind() == SbpParallel::kUnset))
      return wrong("with no state of the output '" + name + "' " + std::to_string(index));
  }
  return Status::ok();
}

/// Every tensor gets a state (what was left open is B); false when the signature is not legal here.
bool complete(const OpInstance &op, int64_t parts, SbpSignature *s) {
  SbpSignature whole;
  auto take = [&](const user_op::ArgList &list, const std::vector<TensorDesc> &descs) {
    for (size_t t = 0; t < list.size(); ++t) {
      const SbpParallel *given = s->find(list[t].first, list[t].second);
      const SbpParallel state = given && given->kind() != SbpParallel::kUnset ? *given : SbpParallel::broadcast();
      const Shape &shape = descs[t].shape();
      if (state.has_split_parallel() &&
          (state.axis() < 0 || state.axis() >= shape.NumAxes() || shape.At(state.axis()) < parts))
        return false;
      if (state.has_partial_sum_parallel() && !hasAddition(descs[t].data_type())) return false;
      whole.set(list[t].first, list[t].second, state);
    }
    return true;
  };
  if (!take(op.inputArgs(), op.inputDescs()) || !take(op.outputArgs(), op.outputDescs())) return false;
  *s = std::move(whole);
  return true;
}

} // namespace

Result<std::vector<SbpSignature>> signaturesOf(const OpInstance &op, int64_t parts) {
  std::vector<SbpSignature> listed;
  ListContext context(op, parts);
  user_op::ShardingRule rule = op.def().sharding;
  const PluginRule here(op.def().name, op.def().origin);
  if (op.def().getSbp) {
    const Maybe<void> done = op.def().getSbp(&context);
    if (!done.IsOk()) return ruleError(op.def(), "its SBP function failed: " + done.status().message());
    listed = std::move(context.found);
    for (const SbpSignature &signature : listed) OPC_RETURN_IF_ERROR(checkListed(op, signature));
    rule = {};
  } else if (op.def().shardingOf) {
    Maybe<user_op::ShardingRule> found = op.def().shardingOf(context);
    if (!found.IsOk()) return ruleError(op.def(), "its sharding rule failed: " + found.status().message());
    rule = found.value();
  }
  if (!rule.empty()) {
    OPC_ASSIGN_OR_RETURN(std::vector<SbpSignature> made, RuleSignatures(op, rule).run());
    listed = std::move(made);
  }
  listed.emplace_back(); // all-B
  std::vector<SbpSignature> result;
  std::set<std::string> known;
  for (SbpSignature &s : listed)
    if (complete(op, parts, &s) && known.insert(signatureText(op, s)).second) result.push_back(std::move(s));
  return result;
}

} // namespace opc
