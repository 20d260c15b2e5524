// The SBP signatures of an op on a mesh of any rank.
// SPDX-License-Identifier: Apache-2.0
#include "NdSignatures.h"
#include "Signatures.h"

#include <algorithm>
#include <map>

namespace opc {

namespace {

/// A 1-D signature with its states in the order of the op's tensors.
using Flat = std::vector<SbpParallel>;

bool isAllBroadcast(const Flat &s) {
  return std::all_of(s.begin(), s.end(), [](const SbpParallel &p) { return p.has_broadcast_parallel(); });
}

bool splitSameAxis(const Flat &a, const Flat &b) {
  for (size_t t = 0; t < a.size(); ++t)
    if (a[t].has_split_parallel() && a[t] == b[t]) return true;
  return false;
}

/// The 1-D signatures of one op by number of devices.
class FlatLists {
public:
  explicit FlatLists(const OpInstance &op) : op_(op) {}
  Result<const std::vector<Flat> *> on(int64_t parts) {
    const auto known = lists_.find(parts);
    if (known != lists_.end()) return &known->second;
    OPC_ASSIGN_OR_RETURN(auto signatures, signaturesOf(op_, parts));
    std::vector<Flat> list;
    for (const SbpSignature &s : signatures) {
      Flat &flat = list.emplace_back();
      for (const auto &[arg, index] : op_.inputArgs()) flat.push_back(*s.find(arg, index));
      for (const auto &[arg, index] : op_.outputArgs()) flat.push_back(*s.find(arg, index));
    }
    return &lists_.emplace(parts, std::move(list)).first->second;
  }

private:
  const OpInstance &op_;
  std::map<int64_t, std::vector<Flat>> lists_;
};

/// One signature a mesh dimension, from the product of the 1-D lists.
class ProductSignatures {
public:
  ProductSignatures(const OpInstance &op, const std::vector<int64_t> &dims) : dims_(dims), lists_(op) {}

  Status run(std::vector<std::vector<Flat>> *found) {
    found_ = found;
    return extend();
  }

private:
  Status extend() {
    const size_t m = chosen_.size();
    if (m == dims_.size()) {
      found_->push_back(chosen_);
      return Status::ok();
    }
    OPC_ASSIGN_OR_RETURN(auto list, lists_.on(dims_[m]));
    for (const Flat &s : *list) {
      if (dims_[m] == 1 && !isAllBroadcast(s)) continue;
      OPC_ASSIGN_OR_RETURN(auto fits, this->fits(s));
      if (!fits) continue;
      chosen_.push_back(s);
      OPC_RETURN_IF_ERROR(extend());
      chosen_.pop_back();
    }
    return Status::ok();
  }

  /// Whether a signature may come inside those chosen for the outer dimensions.
  Result<bool> fits(const Flat &s) {
    if (isAllBroadcast(s)) return true;
    int64_t together = dims_[chosen_.size()];
    bool again = false;
    for (size_t m = 0; m < chosen_.size(); ++m) {
      if (chosen_[m] == s) {
        again = true;
        together *= dims_[m];
      } else if (splitSameAxis(chosen_[m], s)) {
        return false;
      }
    }
    if (!again) return true;
    OPC_ASSIGN_OR_RETURN(auto list, lists_.on(together));
    return std::find(list->begin(), list->end(), s) != list->end();
  }

  const std::vector<int64_t> &dims_;
  FlatLists lists_;
  std::vector<Flat> chosen_;
  std::vector<std::vector<Flat>> *found_ = nullptr;
};

/// Compound axes: pairs of axes that start at the same element count of what the outer dimensions leave.
class ViewSignatures {
public:
  ViewSignatures(const OpInstance &op, const std::vector<int64_t> &dims) : op_(op), dims_(dims) {}

  void run(std::vector<std::vector<Flat>> *found) {
    found_ = found;
    const Shape &in = op_.inputDescs()[0].shape(), &out = op_.outputDescs()[0].shape();
    extend({in, in}, {out, out});
  }

private:
  /// The local shapes of the first device, which has the largest pieces, and of the last.
  using Local = std::pair<Shape, Shape>;

  /// Other inputs only give the shape: they are in the state of the output, or B, or, where the output is B, also P,
  /// for the gradient of a partial sum.
  void choose(const SbpParallel &in, const SbpParallel &out, const Local &nextIn, const Local &nextOut) {
    std::vector<SbpParallel> others{out};
    if (op_.inputDescs().size() > 1) {
      if (!out.has_broadcast_parallel())
        others.push_back(SbpParallel::broadcast());
      else if (dims_[chosen_.size()] > 1)
        others.insert(others.begin(), SbpParallel::partialSum());
    }
    for (const SbpParallel &other : others) {
      Flat s{in};
      s.resize(op_.inputDescs().size(), other);
      s.push_back(out);
      chosen_.push_back(std::move(s));
      extend(nextIn, nextOut);
      chosen_.pop_back();
    }
  }

  static Local cut(const Local &local, int64_t axis, int64_t parts) {
    Local next = local;
    const int64_t large = local.first.At(axis);
    next.first.Set(axis, (large + parts - 1) / parts);
    next.second.Set(axis, local.second.At(axis) / parts);
    return next;
  }

  void extend(const Local &in, const Local &out) {
    const size_t m = chosen_.size();
    if (m == dims_.size()) {
      found_->push_back(chosen_);
      return;
    }
    const int64_t n = dims_[m];
    if (n > 1) {
      const Shape &a = in.first, &b = out.first;
      for (int64_t i = 0; i < a.NumAxes(); ++i) {
        for (int64_t j = 0; j < b.NumAxes(); ++j) {
          const bool even = in.second.At(i) == a.At(i) && out.second.At(j) == b.At(j);
          const bool equal = a.At(i) == b.At(j) && in.second.At(i) == out.second.At(j);
          if (in.second.At(i) < n || out.second.At(j) < n || a.Count(0, i) != b.Count(0, j) ||
              in.second.Count(0, i) != out.second.Count(0, j))
            continue;
          if (equal || (even && a.At(i) % n == 0 && b.At(j) % n == 0))
            choose(SbpParallel::split(i), SbpParallel::split(j), cut(in, i, n), cut(out, j, n));
        }
      }
      choose(SbpParallel::partialSum(), SbpParallel::partialSum(), in, out);
    }
    choose(SbpParallel::broadcast(), SbpParallel::broadcast(), in, out);
  }

  const OpInstance &op_;
  const std::vector<int64_t> &dims_;
  std::vector<Flat> chosen_;
  std::vector<std::vector<Flat>> *found_ = nullptr;
};

} // namespace

Result<std::vector<NdSignature>> ndSignaturesOf(const OpInstance &op, const std::vector<int64_t> &meshDims) {
  std::vector<std::vector<Flat>> found; // by signature, by mesh dimension
  if (op.def().isView && !op.inputDescs().empty() && op.outputDescs().size() == 1)
    ViewSignatures(op, meshDims).run(&found);
  else
    OPC_RETURN_IF_ERROR(ProductSignatures(op, meshDims).run(&found));
  const size_t inputs = op.inputDescs().size(), tensors = inputs + op.outputDescs().size();
  std::vector<NdSignature> result;
  for (const std::vector<Flat> &byDim : found) {
    NdSignature s;
    bool legal = true;
    for (size_t t = 0; t < tensors && legal; ++t) {
      NdSbp &states = s.states.emplace_back();
      for (const Flat &flat : byDim) states.push_back(flat[t]);
      const user_op::TensorDesc &desc = t < inputs ? op.inputDescs()[t] : op.outputDescs()[t - inputs];
      legal = isLegal(desc.shape(), desc.data_type(), states, meshDims, true);
    }
    if (legal) result.push_back(std::move(s));
  }
  return result;
}

std::string signatureText(const OpInstance &op, const NdSignature &signature) {
  std::string text = "(";
  const size_t inputs = op.inputDescs().size();
  for (size_t t = 0; t < signature.states.size(); ++t) {
    if (t == inputs) text += ") -> (";
    text += (t == 0 || t == inputs ? "" : ", ") + toString(signature.states[t]);
  }
  if (signature.states.size() == inputs) text += ") -> (";
  return text + ")";
}

} // namespace opc
