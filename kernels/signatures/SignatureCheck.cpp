// Proves or refutes SBP signatures by execution.
// SPDX-License-Identifier: Apache-2.0
#include "SignatureCheck.h"
#include "CaseTrial.h"
#include "MutableInputs.h"
#include "NdSignatures.h"
#include "Placement.h"
#include "TextParts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <tuple>

namespace opc {
namespace {

using user_op::Case;
using user_op::OpDef;
using user_op::TensorDesc;

/// Calls f(offset in the whole, offset in the piece, elements) for each run of a box along the last axis.
template <class F> void forEachRun(const Shape &whole, const Box &box, F &&f) {
  if (box.elements() == 0) return;
  const auto rank = static_cast<size_t>(whole.NumAxes());
  if (rank == 0) return f(int64_t{0}, int64_t{0}, int64_t{1});
  std::vector<int64_t> at = box.begin;
  const int64_t run = box.size[rank - 1];
  for (int64_t piece = 0;; piece += run) {
    int64_t offset = 0;
    for (size_t a = 0; a < rank; ++a) offset = offset * whole.At(static_cast<int64_t>(a)) + at[a];
    f(offset, piece, run);
    size_t a = rank - 1;
    while (a > 0 && ++at[a - 1] == box.begin[a - 1] + box.size[a - 1]) at[a - 1] = box.begin[a - 1], --a;
    if (a == 0) return;
  }
}

/// A piece of a block.
OpTensor cut(const OpTensor &whole, const Box &box) {
  OpTensor b(TensorDesc(Shape(box.size), whole.type()));
  const auto size = static_cast<int64_t>(GetSizeOfDataType(b.type()));
  forEachRun(whole.shape(), box, [&](int64_t offset, int64_t piece, int64_t run) {
    std::memcpy(b.mut_dptr() + piece * size, whole.dptr() + offset * size, static_cast<size_t>(run * size));
  });
  return b;
}
/// The inverse: writes a piece into its place, or adds it there.
void place(const OpTensor &part, const Box &box, bool add, OpTensor *whole) {
  const auto size = static_cast<int64_t>(GetSizeOfDataType(part.type()));
  forEachRun(whole->shape(), box, [&](int64_t offset, int64_t piece, int64_t run) {
    if (!add)
      std::memcpy(whole->mut_dptr() + offset * size, part.dptr() + piece * size, static_cast<size_t>(run * size));
    for (int64_t i = 0; i < run && add; ++i)
      setElement(whole, offset + i, element(*whole, offset + i) + element(part, piece + i));
  });
}

/// An addend: the parts sum to the whole.
OpTensor addend(const OpTensor &whole, int64_t parts, int64_t part, uint64_t seed) {
  OpTensor b = whole;
  const bool floating = IsFloatingDataType(whole.type());
  for (int64_t i = 0; i < whole.elements(); ++i) {
    auto share = [&](int64_t p) {
      const double u = uniformAt(seed + static_cast<uint64_t>(i * parts + p)) * 4 - 2;
      return floating ? u : std::floor(u);
    };
    double value = 0;
    if (part + 1 < parts) {
      value = share(part);
    } else {
      value = element(whole, i);
      for (int64_t p = 0; p + 1 < parts; ++p) value -= share(p);
    }
    setElement(&b, i, value);
  }
  return b;
}

/// A device's place in the dimensions of a mesh where a state is P: which addend of how many; and in those where it is
/// B: 0 for the first of the replicas.
struct Role {
  int64_t addend = 0, addends = 1, replica = 0;
};
Role roleOf(const NdSbp &states, const Placement &mesh, int64_t position) {
  Role role;
  const std::vector<int64_t> at = mesh.coordinates(position);
  for (size_t m = 0; m < at.size(); ++m) {
    if (states[m].has_partial_sum_parallel()) {
      role.addend = role.addend * mesh.dims[m] + at[m];
      role.addends *= mesh.dims[m];
    } else if (states[m].has_broadcast_parallel()) {
      role.replica = role.replica * mesh.dims[m] + at[m];
    }
  }
  return role;
}

std::string numberText(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", v);
  return buffer;
}

/// One case of an op with values, and what the whole gives.
class Trial {
public:
  /// False: the case cannot be run (no kernel for a type it needs).
  bool prepare(const Registry &registry, const OpDef &def, const Case &c, DataType type) {
    registry_ = &registry;
    case_ = &c;
    std::optional<CaseTrial> trial = trialOf(registry, def, c, type);
    if (!trial) return false;
    op_ = std::make_unique<OpInstance>(std::move(trial->op));
    inputs_ = std::move(trial->inputs);
    written_ = mutableInputs(*op_);
    std::vector<OpTensor> copies = inputs_;
    if (!runOp(registry, *op_, &copies, &whole_).isOk()) return false;
    wholeWritten_ = std::move(copies);
    return true;
  }

  const OpInstance &op() const { return *op_; }

  /// Whether another kernel gives the same bits: what a random op draws depends on its seed, its name and the run.
  bool repeats() const {
    std::vector<OpTensor> copies = inputs_, again;
    return runOp(*registry_, *op_, &copies, &again).isOk() && again == whole_;
  }

  /// True when the parts give the whole; else `detail` says what differs.
  bool holds(const NdSignature &signature, const Placement &mesh, std::string *detail) const {
    // Reassembled outputs, then inputs that the op writes.
    std::vector<OpTensor> together = whole_, written = wholeWritten_;
    // Replicas of a piece: the same addend of the same box.
    std::map<std::tuple<size_t, int64_t, std::vector<int64_t>>, OpTensor> first;
    for (int64_t part = 0; part < mesh.size(); ++part) {
      OpInstance shard = *op_;
      std::vector<user_op::TensorShard> shards;
      std::vector<Box> boxes;
      for (size_t t = 0; t < signature.states.size(); ++t) {
        const NdSbp &states = signature.states[t];
        const TensorDesc &logical = descOf(t);
        boxes.push_back(localBox(logical.shape(), states, mesh.dims, part));
        shards.push_back({logical, boxes.back().begin, states});
      }
      std::vector<OpTensor> inputs;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const Role role = roleOf(signature.states[i], mesh, part);
        inputs.push_back(role.addends > 1 ? cut(addend(inputs_[i], role.addends, role.addend, 77 * (i + 1)), boxes[i])
                                          : cut(inputs_[i], boxes[i]));
        shard.inputDescs()[i] = inputs.back().desc();
      }
      // Outputs have the shapes that the signature says: attributes may hold sizes of the whole.
      for (size_t o = 0; o < shard.outputDescs().size(); ++o)
        shard.outputDescs()[o] = TensorDesc(Shape(boxes[inputs_.size() + o].size), op_->outputDescs()[o].data_type());
      shard.setShards(std::move(shards), ParallelContext(part, mesh.size()));
      std::vector<OpTensor> outputs;
      if (Status s = runOp(*registry_, shard, &inputs, &outputs); !s.isOk()) {
        *detail = where(signature, mesh) + ": part " + std::to_string(part) + " fails: " + s.message();
        return false;
      }
      /// Takes a result of this part; false when it differs from its replica's.
      auto take = [&](const OpTensor &piece, size_t t, const std::string &what, OpTensor *into) {
        const Role role = roleOf(signature.states[t], mesh, part);
        if (role.replica == 0) {
          place(piece, boxes[t], role.addend > 0, into);
          if (role.addends > 1) first[{t, role.addend, boxes[t].begin}] = piece;
          return true;
        }
        const OpTensor &whole = t < inputs_.size() ? wholeWritten_[t] : whole_[t - inputs_.size()];
        return same(piece, role.addends > 1 ? first[{t, role.addend, boxes[t].begin}] : cut(whole, boxes[t]),
                    boxes[t].begin, what, signature, mesh, detail);
      };
      for (size_t o = 0; o < outputs.size(); ++o)
        if (!take(outputs[o], inputs_.size() + o,
                  "output " + op_->outputArgs()[o].first + " of part " + std::to_string(part), &together[o]))
          return false;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (written_[i] &&
            !take(inputs[i], i, "what part " + std::to_string(part) + " writes to " + op_->inputArgs()[i].first,
                  &written[i]))
          return false;
    }
    for (size_t o = 0; o < together.size(); ++o)
      if (!same(together[o], whole_[o], {}, "output " + op_->outputArgs()[o].first, signature, mesh, detail))
        return false;
    for (size_t i = 0; i < written.size(); ++i)
      if (written_[i] && !same(written[i], wholeWritten_[i], {}, "what is written to " + op_->inputArgs()[i].first,
                               signature, mesh, detail))
        return false;
    return true;
  }

private:
  const TensorDesc &descOf(size_t tensor) const {
    return tensor < inputs_.size() ? inputs_[tensor].desc() : op_->outputDescs()[tensor - inputs_.size()];
  }

  /// "case big on 3 parts, x f64[4,5], attributes {alpha: 2}".
  std::string where(const NdSignature &signature, const Placement &mesh) const {
    std::string text =
        caseName(*case_) + " on " + joined(mesh.dims, "x") + " parts, " + signatureText(*op_, signature) + ", inputs";
    for (size_t i = 0; i < inputs_.size(); ++i)
      text += (i ? ", " : " ") + op_->inputArgs()[i].first + " " + inputs_[i].desc().toString();
    const std::string attrs =
        joined(case_->attrs(), ", ", [](const auto &a) { return a.first + ": " + a.second.toString(); });
    return attrs.empty() ? text : text + ", attributes {" + attrs + "}";
  }

  /// Compares two blocks; `begin` is where they lie in the whole tensor.
  bool same(const OpTensor &found, const OpTensor &expected, const std::vector<int64_t> &begin, const std::string &what,
            const NdSignature &signature, const Placement &mesh, std::string *detail) const {
    const DataType type = expected.type();
    double rtol = 0, atol = 0;
    if (type == kDouble)
      rtol = 1e-9, atol = 1e-9;
    else if (type == kFloat)
      rtol = 1e-4, atol = 1e-4;
    else if (IsFloatingDataType(type))
      rtol = 4e-2, atol = 4e-2;
    for (int64_t i = 0; i < expected.elements(); ++i) {
      const double a = element(found, i), b = element(expected, i);
      if (std::isnan(a) && std::isnan(b)) continue;
      if (a == b || std::fabs(a - b) <= atol + rtol * std::fabs(b)) continue;
      std::string index;
      int64_t rest = i;
      for (int64_t axis = expected.shape().NumAxes(); axis-- > 0;) {
        const int64_t size = expected.shape().At(axis);
        const int64_t at = rest % size + (begin.empty() ? 0 : begin[static_cast<size_t>(axis)]);
        index = std::to_string(at) + (index.empty() ? "" : ", " + index);
        rest /= size;
      }
      *detail = where(signature, mesh) + ": " + what + " differs first at [" + index + "]: " + numberText(a) +
                ", the whole gives " + numberText(b);
      return false;
    }
    return true;
  }

  const Registry *registry_ = nullptr;
  const Case *case_ = nullptr;
  std::unique_ptr<OpInstance> op_;
  std::vector<OpTensor> inputs_, whole_, wholeWritten_;
  std::vector<bool> written_;
};

/// The widest type in which a case runs.
bool prepareTrial(const Registry &registry, const OpDef &op, const Case &c, Trial *trial) {
  for (DataType type : {kDouble, kFloat, kInt64, kInt32, kBool}) {
    if (!c.types().empty() && std::find(c.types().begin(), c.types().end(), type) == c.types().end()) continue;
    if (trial->prepare(registry, op, c, type)) return true;
  }
  return false;
}

/// Whether what a signature says of one mesh dimension is refuted already: then it says nothing new.
bool hasRefutedPart(const OpInstance &op, const NdSignature &s, const std::vector<SignatureCheck> &checks) {
  for (size_t m = 0; !s.states.empty() && m < s.states[0].size(); ++m) {
    NdSignature part;
    for (const NdSbp &states : s.states) part.states.push_back({states[m]});
    const std::string text = signatureText(op, part);
    for (const SignatureCheck &c : checks)
      if (c.verdict == SignatureVerdict::kUnsound && c.signature == text) return true;
  }
  return false;
}

} // namespace

std::vector<SignatureCheck> checkSignatures(const Registry &registry, const OpDef &op,
                                            const SignatureCheckOptions &options) {
  std::vector<SignatureCheck> checks;
  auto find = [&](const std::string &signature) -> SignatureCheck & {
    for (SignatureCheck &c : checks)
      if (c.signature == signature) return c;
    checks.push_back({op.name, signature, SignatureVerdict::kNotApplicable, 0, ""});
    return checks.back();
  };
  if (op.cases.empty()) {
    find("").detail = "it has no cases (.Cases)";
    return checks;
  }
  size_t ran = 0;
  const auto begins = [&](const Case &c) {
    if (options.begins) options.begins(op.name, caseName(c));
  };
  for (const Case &c : op.cases) {
    begins(c);
    Trial trial;
    if (!prepareTrial(registry, op, c, &trial)) continue;
    ++ran;
    if (!op.pure && !op.modifyInputs && !trial.repeats()) {
      find("").detail = "its results differ from run to run";
      return checks;
    }
    for (const std::vector<int64_t> &dims : options.meshes) {
      begins(c);
      const Placement mesh = Placement::dense(dims);
      auto signatures = ndSignaturesOf(trial.op(), dims);
      if (!signatures) {
        SignatureCheck &check = find("");
        check.verdict = SignatureVerdict::kUnsound;
        check.detail = signatures.status().message();
        return checks;
      }
      for (const NdSignature &s : *signatures) {
        if (!s.states.empty() && std::all_of(s.states.begin(), s.states.end(), isBroadcast)) continue; // says nothing
        if (dims.size() > 1 && hasRefutedPart(trial.op(), s, checks)) continue;
        SignatureCheck &check = find(signatureText(trial.op(), s));
        if (check.verdict == SignatureVerdict::kUnsound) continue; // one counterexample is enough
        ++check.trials;
        std::string detail;
        const bool holds = trial.holds(s, mesh, &detail);
        check.verdict = holds ? SignatureVerdict::kSound : SignatureVerdict::kUnsound;
        if (!holds) check.detail = detail;
      }
    }
  }
  if (checks.empty() && ran > 0)
    checks.push_back(
        {op.name, "", SignatureVerdict::kNoRules, 0, "it declares no signature but all-broadcast that fits its cases"});
  else if (checks.empty())
    find("").detail = "none of its cases runs here";
  return checks;
}

} // namespace opc
