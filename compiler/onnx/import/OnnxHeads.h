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

/// What is added to scores so that none is of a key behind its query; `past` keys come before the queries.
Term causalMask(const Conversion &c, DataType type, int64_t queries, int64_t keys, int64_t past);
/// A mask as what is added to scores.
Term additive(Conversion &c, const Term &mask, DataType type);

struct Heads {
  Term q, k, v; // [batch, heads, length, size]
  Term mask;    // added to scores; may be null
  double scale, softcap = 0;
  DataType precision = kInvalidDataType; // of the softmax, where it is another one
};
/// Scores on their way to shares.
struct Scores {
  Term plain, capped, masked, shares;
};
/// softmax(scale q k^T + mask) v.
Term attended(Conversion &c, const Heads &h, Scores *scores = nullptr);
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
