// What the converters of attention share: heads, masks, turned pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxConverters.h"

namespace opc::onnx {

/// [batch, length, heads * size] -> [batch, heads, length, size], and back.
Term split(Conversion &c, const Term &x, int64_t heads);
Term joined(Conversion &c, const Term &x);
/// Each of the heads `times` times, one after another.
Term repeated(Conversion &c, const Term &x, int64_t times);

/// A mask as what is added to scores.
Term additive(Conversion &c, const Term &mask, DataType type);

/// Where queries stand that come behind a past: no number, which the sizes of a model may decide.
constexpr int64_t kAtEnd = -1;

struct Heads {
  Term q, k, v; // [batch, heads, length, size]; keys and values may have fewer heads, which queries share
  Term mask;    // added to scores, or of bool for what is seen; may be null
  double scale, softcap = 0;
  // Query i stands at place i + offset among the keys (kAtEnd: the last at the last), and sees those from `left` before
  // it to `right` behind it (-1: all). With lengths [batch] the last query stands at the last key that counts.
  int64_t offset = 0, left = -1, right = -1;
  bool isCausal = false;
  Term lengths;
};
/// softmax(scale q k^T + mask) v.
Term attended(Conversion &c, const Heads &h);

/// Scores on their way to shares.
struct Scores {
  Term plain, capped, masked, shares;
};
/// The same by an op for each step, for scores that are looked at or a softmax of another type than the op's. The mask,
/// which is added, has all that is not seen.
Term composed(Conversion &c, Heads h, DataType precision, Scores *scores);
/// Which queries see no key: the rows of a mask that are -inf alone, [..., 1]. Null where there is none.
Term blindRows(Conversion &c, const Term &mask);

/// How pairs are turned: neighbours or the two halves, of the first `size` elements (0: all).
struct RotaryForm {
  bool isInterleaved = false;
  int64_t size = 0;
};
/// The angles of places: tables [places, half] at `positions` [batch or 1, length], or without them tables [batch or 1,
/// length, half].
struct Angles {
  Term cosine, sine, positions;
  size_t input; // of the node, which the positions are made of
};
/// x [batch, heads, length, size] turned by the angles of its places.
Term rotated(Conversion &c, const Term &x, const Angles &angles, const RotaryForm &form);

} // namespace opc::onnx
