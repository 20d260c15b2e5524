// SBP: how the tensors of an op may be cut over devices. Signatures listed by hand, or one sharding rule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/OpConf.h"
#include "opc/Tensor.h"

#include <map>
#include <string>
#include <vector>

namespace opc {

/// One tensor's state on one axis of the device mesh: S(axis), B or P.
class SbpParallel {
public:
  enum Kind { kUnset, kSplit, kBroadcast, kPartialSum };
  SbpParallel() = default;
  static SbpParallel split(int64_t axis) { return SbpParallel(kSplit, axis); }
  static SbpParallel broadcast() { return SbpParallel(kBroadcast, 0); }
  static SbpParallel partialSum() { return SbpParallel(kPartialSum, 0); }
  Kind kind() const { return kind_; }
  int64_t axis() const { return axis_; }
  bool has_split_parallel() const { return kind_ == kSplit; }
  bool has_broadcast_parallel() const { return kind_ == kBroadcast; }
  bool has_partial_sum_parallel() const { return kind_ == kPartialSum; }
  bool operator==(const SbpParallel &o) const { return kind_ == o.kind_ && (kind_ != kSplit || axis_ == o.axis_); }
  bool operator!=(const SbpParallel &o) const { return !(*this == o); }
  // OneFlow's messages for the three states: this object stands for each of them.
  const SbpParallel &split_parallel() const { return *this; }
  SbpParallel *mutable_split_parallel() { return kind_ = kSplit, this; }
  SbpParallel *mutable_broadcast_parallel() { return kind_ = kBroadcast, this; }
  SbpParallel *mutable_partial_sum_parallel() { return kind_ = kPartialSum, this; }
  void set_axis(int64_t axis) { axis_ = axis; }
  /// "S(0)", "B", "P".
  std::string toString() const;
  std::string DebugString() const { return toString(); }

private:
  SbpParallel(Kind kind, int64_t axis) : kind_(kind), axis_(axis) {}
  Kind kind_ = kUnset;
  int64_t axis_ = 0;
};

/// The state of each argument tensor of one op, on one mesh axis. Arguments that are not listed are unset.
struct SbpSignature {
  std::vector<std::pair<std::pair<std::string, int32_t>, SbpParallel>> states;
  void set(const std::string &arg, int32_t index, SbpParallel state);
  const SbpParallel *find(const std::string &arg, int32_t index) const;
  // As OneFlow's map from names like "in_0" to states.
  std::map<std::string, SbpParallel> bn_in_op2sbp_parallel() const;
  SbpSignature *mutable_bn_in_op2sbp_parallel() { return this; }
  SbpParallel &operator[](const std::string &argAndIndex);
};

class ParallelContext {
public:
  ParallelContext(int64_t id, int64_t num) : id_(id), num_(num) {}
  int64_t parallel_id() const { return id_; }
  int64_t parallel_num() const { return num_; }

private:
  int64_t id_, num_;
};

namespace user_op {

/// Collects one signature; Build() adds it to the context's list.
class UserOpSbpSignatureBuilder {
public:
  explicit UserOpSbpSignatureBuilder(std::vector<SbpSignature> *out) : out_(out) {}
  UserOpSbpSignatureBuilder &&Split(const OpArg &a, int64_t axis) && { return set(a, SbpParallel::split(axis)); }
  UserOpSbpSignatureBuilder &&Split(const std::vector<OpArg> &a, int64_t axis) && {
    return set(a, SbpParallel::split(axis));
  }
  UserOpSbpSignatureBuilder &&Split(const ArgList &a, int64_t axis) && { return set(a, SbpParallel::split(axis)); }
  UserOpSbpSignatureBuilder &&Broadcast(const OpArg &a) && { return set(a, SbpParallel::broadcast()); }
  UserOpSbpSignatureBuilder &&Broadcast(const std::vector<OpArg> &a) && { return set(a, SbpParallel::broadcast()); }
  UserOpSbpSignatureBuilder &&Broadcast(const ArgList &a) && { return set(a, SbpParallel::broadcast()); }
  UserOpSbpSignatureBuilder &&PartialSum(const OpArg &a) && { return set(a, SbpParallel::partialSum()); }
  UserOpSbpSignatureBuilder &&PartialSum(const std::vector<OpArg> &a) && { return set(a, SbpParallel::partialSum()); }
  UserOpSbpSignatureBuilder &&PartialSum(const ArgList &a) && { return set(a, SbpParallel::partialSum()); }
  void Build() && { out_->push_back(std::move(signature_)); }
  // The same on a named builder, which is how some sources write it.
  UserOpSbpSignatureBuilder &Split(const OpArg &a, int64_t axis) & { return set(a, SbpParallel::split(axis)), *this; }
  UserOpSbpSignatureBuilder &Split(const ArgList &a, int64_t axis) & { return set(a, SbpParallel::split(axis)), *this; }
  UserOpSbpSignatureBuilder &Broadcast(const OpArg &a) & { return set(a, SbpParallel::broadcast()), *this; }
  UserOpSbpSignatureBuilder &Broadcast(const ArgList &a) & { return set(a, SbpParallel::broadcast()), *this; }
  UserOpSbpSignatureBuilder &PartialSum(const OpArg &a) & { return set(a, SbpParallel::partialSum()), *this; }
  UserOpSbpSignatureBuilder &PartialSum(const ArgList &a) & { return set(a, SbpParallel::partialSum()), *this; }
  void Build() & { out_->push_back(signature_); }

private:
  UserOpSbpSignatureBuilder &&set(const OpArg &a, SbpParallel s) {
    signature_.set(a.name(), a.index(), s);
    return std::move(*this);
  }
  UserOpSbpSignatureBuilder &&set(const std::vector<OpArg> &args, SbpParallel s) {
    for (const OpArg &a : args) signature_.set(a.name(), a.index(), s);
    return std::move(*this);
  }
  UserOpSbpSignatureBuilder &&set(const ArgList &args, SbpParallel s) {
    for (const auto &a : args) signature_.set(a.first, a.second, s);
    return std::move(*this);
  }
  std::vector<SbpSignature> *out_;
  SbpSignature signature_;
};

/// How a factor that only inputs have is reduced.
enum class ReductionKind { kSum, kMax, kMin, kProd, kAnd, kOr };
struct FactorReduction {
  std::string factor;
  ReductionKind kind;
};
inline FactorReduction Sum(std::string f) { return {std::move(f), ReductionKind::kSum}; }
inline FactorReduction Max(std::string f) { return {std::move(f), ReductionKind::kMax}; }
inline FactorReduction Min(std::string f) { return {std::move(f), ReductionKind::kMin}; }
inline FactorReduction Prod(std::string f) { return {std::move(f), ReductionKind::kProd}; }
/// A set of inputs in which the op is jointly linear, the others held fixed.
struct LinearGroup {
  std::vector<int32_t> inputs;
};
inline LinearGroup Linear(std::vector<int32_t> inputs) { return {std::move(inputs)}; }

/// One einsum-like rule over named factors, from which every sound 1-D signature follows (docs/sbp.md).
/// "m k, k n -> m n": blanks separate dimensions, commas separate tensors, "." is a dimension that cannot be split,
/// "..." stands for the leading dimensions not named.
struct ShardingRule {
  ShardingRule() = default;
  /// ShardingRule("m n -> m", Sum("n"), Linear({0}))
  template <class... Parts> ShardingRule(std::string rule, const Parts &...parts) : einsum(std::move(rule)) {
    (add(parts), ...);
  }
  void add(const FactorReduction &r) { reductions.push_back(r); }
  void add(const LinearGroup &g) { linear.push_back(g); }
  bool empty() const { return einsum.empty(); }

  std::string einsum;
  std::vector<FactorReduction> reductions;
  std::vector<LinearGroup> linear;
};

} // namespace user_op
} // namespace opc
