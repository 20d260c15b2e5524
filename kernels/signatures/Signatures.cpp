// The SBP signatures of an op: from its sharding rule, or as its definition lists them.
// SPDX-License-Identifier: Apache-2.0
#include "Signatures.h"
#include "HostContexts.h"
#include "TextParts.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc {

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

Status ruleError(const OpInstance &op, const std::string &message) {
  return Status(StatusCode::kInvalidGraph, "OPC0301", "op type '" + op.def().name + "': " + message)
      .withHelp("a rule has a term for each argument: \"m k, k n -> m n\"; docs/sbp.md");
}

/// The factors of one tensor's axes; "" for an axis that cannot be split.
using Factors = std::vector<std::string>;

/// "m k" over a tensor of some rank. "..." stands for the axes that the other names leave, numbered from the right, so
/// that tensors of different rank align as in broadcasting.
Result<Factors> expandTerm(const OpInstance &op, const std::string &term, int64_t rank) {
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

class RuleSignatures {
public:
  RuleSignatures(const OpInstance &op, const user_op::ShardingRule &rule) : op_(op), rule_(rule) {}

  Result<std::vector<SbpSignature>> run() {
    const size_t arrow = rule_.einsum.find("->");
    if (arrow == std::string::npos) return ruleError(op_, "the sharding rule '" + rule_.einsum + "' has no ->");
    OPC_RETURN_IF_ERROR(place(splitTerms(rule_.einsum.substr(0, arrow)), op_.def().inputs, op_.inputArgs(),
                              op_.inputDescs(), &inputs_));
    OPC_RETURN_IF_ERROR(place(splitTerms(rule_.einsum.substr(arrow + 2)), op_.def().outputs, op_.outputArgs(),
                              op_.outputDescs(), &outputs_));
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
      OPC_ASSIGN_OR_RETURN(Factors factors, expandTerm(op_, terms[arg], rank));
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
    for (const auto &[arg, index] : op_.inputArgs()) {
      int32_t position = 0;
      while (op_.def().inputs[static_cast<size_t>(position)].name != arg) ++position;
      const bool in = std::find(group.inputs.begin(), group.inputs.end(), position) != group.inputs.end();
      s.set(arg, index, in ? SbpParallel::partialSum() : SbpParallel::broadcast());
    }
    for (const auto &[arg, index] : op_.outputArgs()) s.set(arg, index, SbpParallel::partialSum());
    found->push_back(std::move(s));
  }

  const OpInstance &op_;
  const user_op::ShardingRule &rule_;
  std::vector<Factors> inputs_, outputs_;
  std::vector<std::string> order_; // factors as they first appear
  std::map<std::string, int64_t> size_;
};

bool hasAddition(DataType type) { return type != kBool && isTensorDataType(type); }

} // namespace

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
    return Status(StatusCode::kInvalidGraph, "OPC0301",
                  "op type '" + op.def().name + "': its SBP function lists " + signatureText(op, s) + ", " + message)
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
  if (op.def().getSbp) {
    const Maybe<void> done = op.def().getSbp(&context);
    if (!done.IsOk()) return ruleError(op, "its SBP function failed: " + done.status().message());
    listed = std::move(context.found);
    for (const SbpSignature &signature : listed) OPC_RETURN_IF_ERROR(checkListed(op, signature));
    rule = {};
  } else if (op.def().shardingOf) {
    Maybe<user_op::ShardingRule> found = op.def().shardingOf(context);
    if (!found.IsOk()) return ruleError(op, "its sharding rule failed: " + found.status().message());
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
