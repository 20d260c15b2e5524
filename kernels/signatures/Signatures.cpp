// The SBP signatures of an op: from its sharding rule, or as its definition lists them.
// SPDX-License-Identifier: Apache-2.0
#include "Signatures.h"
#include "HostContexts.h"
#include "PluginCode.h"
#include "TextParts.h"
#include "opc/Scalar.h"

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

/// One axis of a tensor in a rule: "" for the factor of an axis that cannot be split.
struct Axis {
  std::string factor;
  bool isMultiple = false; // "c*"
};
/// What a rule says of one tensor.
struct Term {
  std::vector<Axis> axes;
  bool isAdded = false;  // "+"
  bool isUnread = false; // "?"
};

/// "m k" over a tensor of some rank. "..." stands for the axes that the other names leave, numbered from the right, so
/// that tensors of different rank align as in broadcasting; ".." for axes that cannot be split.
Result<Term> expandTerm(const OpDef &op, const std::string &text, int64_t rank) {
  std::vector<std::string> names = splitAt(text, ' ');
  std::erase(names, "");
  Term term;
  if (!names.empty() && (names[0] == "+" || names[0] == "?")) {
    (names[0] == "+" ? term.isAdded : term.isUnread) = true;
    names.erase(names.begin());
  }
  const auto isOpen = [](const std::string &name) { return name == ".." || name == "..."; };
  const auto open = std::count_if(names.begin(), names.end(), isOpen);
  const int64_t named = static_cast<int64_t>(names.size()) - open;
  if (open > 1 || (open == 0 ? rank != named : rank < named))
    return ruleError(op,
                     "the sharding rule's term '" + text + "' does not fit a tensor of rank " + std::to_string(rank));
  for (std::string &n : names) {
    if (isOpen(n))
      for (int64_t k = rank - named; k-- > 0;) term.axes.push_back({n == ".." ? "" : "..." + std::to_string(k)});
    else if (n.size() > 1 && n.back() == '*')
      term.axes.push_back({n.substr(0, n.size() - 1), true});
    else
      term.axes.push_back({n == "." ? "" : n});
  }
  return term;
}

std::vector<std::string> splitTerms(const std::string &text) {
  std::vector<std::string> terms = splitAt(text, ',');
  for (std::string &t : terms) {
    while (!t.empty() && t.back() == ' ') t.pop_back();
    while (!t.empty() && t.front() == ' ') t.erase(0, 1);
  }
  return terms;
}

/// The names in some terms: factors and "...".
std::vector<std::string> namesIn(const std::vector<std::string> &terms) {
  std::vector<std::string> names;
  for (const std::string &term : terms)
    for (std::string &name : splitAt(term, ' ')) {
      if (name.size() > 1 && name.back() == '*') name.pop_back();
      if (!name.empty() && name != "." && name != ".." && name != "+" && name != "?") names.push_back(std::move(name));
    }
  return names;
}
bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A rule's text: the factors that it puts first, and its two sides by terms.
struct RuleText {
  std::vector<std::string> first, inputs, outputs;
};
Result<RuleText> textOf(const OpDef &def, const user_op::ShardingRule &rule) {
  const size_t arrow = rule.einsum.find("->");
  if (arrow == std::string::npos) return ruleError(def, "the sharding rule '" + rule.einsum + "' has no ->");
  RuleText text{{}, {}, splitTerms(rule.einsum.substr(arrow + 2))};
  std::string inputs = rule.einsum.substr(0, arrow);
  if (const size_t colon = inputs.find(':'); colon != std::string::npos) {
    text.first = namesIn({inputs.substr(0, colon)});
    inputs.erase(0, colon + 1);
  }
  text.inputs = splitTerms(inputs);
  return text;
}

class RuleSignatures {
public:
  RuleSignatures(const OpInstance &op, const user_op::ShardingRule &rule, int64_t parts)
      : op_(op), rule_(rule), parts_(parts) {}

  Result<std::vector<SbpSignature>> run() {
    OPC_RETURN_IF_ERROR(checkShardingRule(op_.def(), rule_));
    OPC_ASSIGN_OR_RETURN(const RuleText text, textOf(op_.def(), rule_));
    OPC_RETURN_IF_ERROR(place(text.inputs, op_.def().inputs, op_.inputArgs(), op_.inputDescs(), &inputs_));
    OPC_RETURN_IF_ERROR(place(text.outputs, op_.def().outputs, op_.outputArgs(), op_.outputDescs(), &outputs_));
    dropBroadcastAxes();
    const auto placeOf = [&](const std::string &factor) {
      const std::string &name = factor.starts_with("...") ? "..." : factor;
      return std::find(text.first.begin(), text.first.end(), name) - text.first.begin();
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](const auto &a, const auto &b) { return placeOf(a) < placeOf(b); });
    for (const std::string &factor : order_) splitFactor(factor);
    for (const auto &group : rule_.linear) linearGroup(group);
    unreadSums();
    return std::move(found_);
  }

private:
  using States = std::vector<SbpParallel>;

  /// Terms for each tensor. Arguments that the rule has no term for cannot be split.
  Status place(const std::vector<std::string> &terms, const std::vector<user_op::ArgDef> &args,
               const user_op::ArgList &list, const std::vector<TensorDesc> &descs, std::vector<Term> *out) {
    for (size_t t = 0; t < list.size(); ++t) {
      size_t arg = 0;
      while (arg < args.size() && args[arg].name != list[t].first) ++arg;
      const Shape &shape = descs[t].shape();
      OPC_ASSIGN_OR_RETURN(Term term, expandTerm(op_.def(), arg < terms.size() ? terms[arg] : "..", shape.NumAxes()));
      for (size_t a = 0; a < term.axes.size(); ++a) {
        const auto &[factor, isMultiple] = term.axes[a];
        const int64_t size = shape.At(static_cast<int64_t>(a));
        if (factor.empty()) continue;
        if (!size_.count(factor)) order_.push_back(factor);
        size_[factor] = std::max(size_[factor], isMultiple ? 0 : size);
        if (isMultiple) divided_.insert(factor);
        if (size % parts_ != 0) uneven_.insert(factor);
      }
      out->push_back(std::move(term));
    }
    return Status::ok();
  }

  void dropBroadcastAxes() {
    auto drop = [&](std::vector<Term> &tensors, const std::vector<TensorDesc> &descs) {
      for (size_t t = 0; t < tensors.size(); ++t)
        for (size_t a = 0; a < tensors[t].axes.size(); ++a)
          if (auto &[f, isMultiple] = tensors[t].axes[a];
              !f.empty() && !isMultiple && descs[t].shape().At(static_cast<int64_t>(a)) != size_[f])
            f.clear();
    };
    drop(inputs_, op_.inputDescs());
    drop(outputs_, op_.outputDescs());
  }

  /// The axis of a factor; -1: the tensor does not have it; -2: twice.
  static int64_t axisOf(const Term &term, const std::string &factor) {
    int64_t axis = -1;
    for (size_t a = 0; a < term.axes.size(); ++a)
      if (term.axes[a].factor == factor) axis = axis == -1 ? static_cast<int64_t>(a) : -2;
    return axis;
  }

  void splitFactor(const std::string &factor) {
    if (divided_.count(factor) && uneven_.count(factor)) return;
    const bool isSum = std::any_of(rule_.reductions.begin(), rule_.reductions.end(),
                                   [&](const auto &r) { return r.factor == factor && r.kind == ReductionKind::kSum; });
    States in, out;
    bool sums = false;
    for (const Term &term : outputs_) {
      const int64_t axis = axisOf(term, factor);
      if (axis == -2 || (axis == -1 && !isSum)) return;
      sums |= axis == -1;
      out.push_back(axis == -1 ? SbpParallel::partialSum() : SbpParallel::split(axis));
    }
    for (const Term &term : inputs_) {
      const int64_t axis = axisOf(term, factor);
      if (axis == -2) return;
      in.push_back(axis >= 0              ? SbpParallel::split(axis)
                   : sums && term.isAdded ? SbpParallel::partialSum()
                                          : SbpParallel::broadcast());
    }
    found_.push_back(signature(in, out));
  }

  /// Quotients of integers are rounded: those of addends do not add up to the sum's.
  bool roundsQuotients() const {
    const auto &function = op_.def().scalar;
    return function && !op_.outputDescs().empty() && IsIntegralDataType(op_.outputDescs()[0].data_type()) &&
           std::any_of(function->nodes().begin(), function->nodes().end(),
                       [](const auto &node) { return node.op == scalar::ScalarOp::kDiv; });
  }

  void linearGroup(const user_op::LinearGroup &group) {
    if (roundsQuotients()) return;
    States in, out;
    bool isThere = false; // else all its inputs are optional ones that this op does without
    for (size_t t = 0; t < inputs_.size(); ++t) {
      int32_t position = 0;
      while (op_.def().inputs[static_cast<size_t>(position)].name != op_.inputArgs()[t].first) ++position;
      const bool isIn = std::find(group.inputs.begin(), group.inputs.end(), position) != group.inputs.end();
      isThere |= isIn;
      in.push_back(isIn || inputs_[t].isAdded ? SbpParallel::partialSum() : SbpParallel::broadcast());
    }
    if (!isThere) return;
    for (const Term &term : outputs_)
      out.push_back(term.isUnread ? SbpParallel::broadcast() : SbpParallel::partialSum());
    found_.push_back(signature(in, out));
  }

  /// Inputs whose values are not read may be partial sums where the outputs are, and where all else is whole.
  void unreadSums() {
    if (std::none_of(inputs_.begin(), inputs_.end(), [](const Term &t) { return t.isUnread; })) return;
    const auto take = [&](SbpSignature s) {
      for (size_t t = 0; t < inputs_.size(); ++t) {
        if (!inputs_[t].isUnread) continue;
        if (!s.states[t].second.has_broadcast_parallel()) return;
        s.states[t].second = SbpParallel::partialSum();
      }
      found_.push_back(std::move(s));
    };
    const auto isSum = [](const auto &state) { return state.second.has_partial_sum_parallel(); };
    for (size_t i = 0, known = found_.size(); i < known; ++i) {
      const auto &states = found_[i].states;
      if (std::any_of(states.begin() + static_cast<ptrdiff_t>(inputs_.size()), states.end(), isSum)) take(found_[i]);
    }
    const auto whole = [](const std::vector<Term> &terms) { return States(terms.size(), SbpParallel::broadcast()); };
    take(signature(whole(inputs_), whole(outputs_)));
  }

  SbpSignature signature(const States &in, const States &out) const {
    SbpSignature s;
    for (size_t t = 0; t < in.size(); ++t) s.states.emplace_back(op_.inputArgs()[t], in[t]);
    for (size_t t = 0; t < out.size(); ++t) s.states.emplace_back(op_.outputArgs()[t], out[t]);
    return s;
  }

  const OpInstance &op_;
  const user_op::ShardingRule &rule_;
  const int64_t parts_;
  std::vector<Term> inputs_, outputs_;
  std::vector<std::string> order_; // factors as they first appear, those that the rule puts first before the others
  std::map<std::string, int64_t> size_;
  std::set<std::string> divided_, uneven_; // factors of which an axis is a multiple, and does not divide
  std::vector<SbpSignature> found_;
};

/// What a text says of more arguments than there are, or of factors that nobody has.
Status checkTerms(const OpDef &def, const user_op::ShardingRule &rule, const RuleText &sides) {
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
  for (const std::string &term : sides.outputs)
    if (term.starts_with("+")) return ruleError(def, text + "has the output '" + term + "': only inputs are added");
  const std::vector<std::string> in = namesIn(sides.inputs), out = namesIn(sides.outputs);
  for (const std::string &name : sides.first)
    if (!contains(in, name) && !contains(out, name))
      return ruleError(def, text + "puts '" + name + "' first, which is in no term of it");
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

/// Types that are only moved and converted have none.
bool hasAddition(DataType type) { return IsFloatingDataType(type) || IsIntegralDataType(type); }

} // namespace

Status checkShardingRule(const OpDef &def, const user_op::ShardingRule &rule) {
  if (rule.empty()) return Status::ok();
  const std::string text = "the sharding rule '" + rule.einsum + "' ";
  OPC_ASSIGN_OR_RETURN(const RuleText sides, textOf(def, rule));
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
    OPC_ASSIGN_OR_RETURN(std::vector<SbpSignature> made, RuleSignatures(op, rule, parts).run());
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
