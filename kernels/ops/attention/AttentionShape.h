// The sizes of an attention, checked, and how its kernels cut it into blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"

namespace opc::ops {

/// query [heads..., n, d], key [keyHeads..., m, d], value [keyHeads..., m, dv]; out [heads..., n, dv]. All leading
/// dimensions together are `heads` here; `perKey` heads of queries, one after another, share a head of keys.
struct AttentionShape {
  int64_t heads = 0, n = 0, m = 0, d = 0, dv = 0;
  int64_t perKey = 1;
  double scale = 1, softcap = 0;
  // Query i stands at place i + offset among the keys and sees those from `left` before it to `right` behind it (-1:
  // all). With lengths, one for each `sequenceHeads` heads, the last query stands at the last key that counts.
  int64_t offset = 0, left = -1, right = -1, sequenceHeads = 0;
  // The mask, when there is one: where each head's begins, and the strides of its rows and columns (0: broadcast).
  std::vector<int64_t> maskOffset;
  int64_t maskRow = 0, maskColumn = 0;

  int64_t keyHeads() const { return heads / perKey; }
  bool hasLengths() const { return sequenceHeads > 0; }
  /// Queries in a block, and heads that one product serves (a divisor of `heads`): so that a block's scores, group x
  /// rows x m numbers, stay in a core's cache. By the sizes alone.
  int64_t rows() const {
    const int64_t fit = (int64_t{1} << 17) / std::max<int64_t>(1, m);
    const int64_t most = std::clamp<int64_t>(fit, 24, 192), blocks = std::max<int64_t>(1, (n + most - 1) / most);
    return std::max<int64_t>(1, (n + blocks - 1) / blocks); // no last block of a few
  }
  /// The heads that share keys lie one after another: where a block has all their queries, they are rows of one
  /// product, and the keys are read once. Else such heads are computed one by one: their gradients add up.
  bool stacksHeads() const { return rows() >= n && perKey * n * m <= int64_t{1} << 19; }
  int64_t group() const {
    if (perKey > 1 && !stacksHeads()) return 1;
    const int64_t most = keyHeads();
    int64_t g = std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(1, perKey * rows() * m), 1, 32);
    while (g > 1 && most % g != 0) --g;
    return g * perKey;
  }
};

/// Keys [begin, end).
struct KeyRange {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
/// The keys, of the first `length`, that queries [first, first + rows) see between them.
inline KeyRange keysSeen(const AttentionShape &a, int64_t offset, int64_t length, int64_t first, int64_t rows) {
  int64_t begin = 0, end = length;
  if (a.right >= 0) end = std::min(end, first + rows + offset + a.right);
  if (a.left >= 0) begin = std::max(begin, first + offset - a.left);
  end = std::max<int64_t>(end, 0);
  return {std::min(begin, end), end};
}

/// Checks the inputs of an op; gives the sizes.
Maybe<AttentionShape> attentionShape(const InferContext *ctx);
AttentionShape attentionShape(const KernelContext *ctx);

/// Parts of a definition: the inputs that forward and backward op begin with; attributes, tolerances and rules.
void attentionInputs(OpRegistry &op);
std::function<void(OpRegistry &)> attentionRules(bool forward);
/// The attributes that forward and backward op share.
inline constexpr std::initializer_list<const char *> kAttentionAttributes = {"causal", "scale",       "softcap",
                                                                             "offset", "window_left", "window_right"};

/// f32 for the half types.
inline DataType scoreType(DataType t) { return t == kDouble ? kDouble : kFloat; }
/// The tensor of a number for each query: log_sum.
inline TensorDesc sumsOf(const TensorDesc &query) {
  return TensorDesc(Shape(DimVector(query.shape().begin(), query.shape().end() - 1)), scoreType(query.data_type()));
}
/// `query` with rows of another length: out and the scores.
inline TensorDesc rowsLike(TensorDesc query, int64_t length) {
  query.mut_shape()->Set(query.shape().NumAxes() - 1, length);
  return query;
}

} // namespace opc::ops
