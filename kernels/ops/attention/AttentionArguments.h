// What the device code of attention is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// A number of an added mask that is as low, or lower, takes the score's place: beside it any score is lost.
constexpr double kHidden = -1e30;
/// So large a logarithm of a sum has lost what was added to it: a finite mask hides all keys of the query.
constexpr double kRoughSum = 4096;

/// query [heads, n, d], key [heads / perKey, m, d], value [heads / perKey, m, dv]; out and dout [heads, n, dv].
struct AttentionArguments {
  const void *query, *key, *value, *mask; // mask: null for none
  const void *out, *dout;                 // of gradients
  const void *logSum, *dlogSum;           // of the scores' type; dlogSum null for none
  void *to, *sums;                        // the forward op's results
  void *dquery, *dkey, *dvalue, *dscores; // dscores null when nobody asks
  void *along;                            // three numbers for each query, which AttentionGradient.cu says
  const void *lengths;                    // of each sequence's keys, i32 or i64; null for none
  int64_t heads, n, m, d, dv, perKey, sequenceHeads;
  int64_t offset, left, right; // query i stands at i + offset, and sees `left` keys before and `right` behind; -1: all
  double scale, softcap;
  int32_t lengthsAre64, maskIsBool, leadRank, unused;
  int64_t leadDims[20], maskLead[20], maskRow, maskColumn; // strides of the mask, 0 where it repeats
};

} // namespace opc::ops
