// The sizes of an attention, checked, and how its kernels cut it into blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"

namespace opc::ops {

/// query [heads..., n, d], key [heads..., m, d], value [heads..., m, dv]; out [heads..., n, dv]. All leading dimensions
/// together are `heads` here.
struct AttentionShape {
  int64_t heads = 0, n = 0, m = 0, d = 0, dv = 0;
  double scale = 1;
  bool causal = false;
  // The mask, when there is one: where each head's begins, and the strides of its rows and columns (0: broadcast).
  std::vector<int64_t> maskOffset;
  int64_t maskRow = 0, maskColumn = 0;

  /// Queries in a block, and heads that one product serves (a divisor of `heads`): so that a block's scores, group x
  /// rows x m numbers, stay in a core's cache. By the sizes alone.
  int64_t rows() const {
    const int64_t fit = (int64_t{1} << 17) / std::max<int64_t>(1, m);
    return std::min(std::max<int64_t>(1, n), std::clamp<int64_t>(fit, 24, 192));
  }
  int64_t group() const {
    int64_t g = std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(1, rows() * m), 1, 8);
    while (g > 1 && heads % g != 0) --g;
    return g;
  }
  /// The keys that queries before `end` can see.
  int64_t keysBefore(int64_t end) const { return causal ? std::min(m, end) : m; }
};

/// Checks query, key, value and mask of an op; gives the sizes.
Maybe<AttentionShape> attentionShape(const InferContext *ctx);
AttentionShape attentionShape(const KernelContext *ctx);

/// Parts of a definition: the inputs that forward and backward op begin with; attributes, tolerances and rules.
void attentionInputs(OpRegistry &op);
std::function<void(OpRegistry &)> attentionRules(bool forward);

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
