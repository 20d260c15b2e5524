// Axis attributes: negative values resolved, ranges and duplicates checked, with messages that name the way out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <algorithm>

namespace opc::ops {

/// `axis` in [-rank, rank) as an axis in [0, rank). `what` names the attribute in the error.
inline Maybe<int64_t> resolveAxis(int64_t axis, int64_t rank, const std::string &what = "axis") {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) return Error("OPC0205") << what << " is " << axis << ", but the operand has rank 0 and so no axes";
    return (Error("OPC0205") << what << " is " << axis << ", but the operand has rank " << rank)
        .help("use an axis from " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

/// A list of axes, resolved, sorted, each at most once.
template <class Int>
Maybe<std::vector<int64_t>> resolveAxes(const std::vector<Int> &axes, int64_t rank, const std::string &what = "axis") {
  std::vector<int64_t> out;
  for (Int a : axes) out.push_back(JUST(resolveAxis(a, rank, what)));
  std::sort(out.begin(), out.end());
  for (size_t i = 1; i < out.size(); ++i)
    if (out[i] == out[i - 1])
      return (Error("OPC0205") << what << " lists axis " << out[i] << " twice")
          .help("name each axis once; -1 is the last axis");
  return out;
}

/// The value of a Maybe in code that throws (kernels, whose op was inferred before).
template <class T> T valueOf(const Maybe<T> &m) {
  if (!m.IsOk()) throw ContractError(m.status().message());
  return m.value();
}

/// Row-major strides, in elements.
inline DimVector rowMajorStrides(const Shape &shape) {
  DimVector s(static_cast<size_t>(shape.NumAxes()));
  int64_t n = 1;
  for (int64_t i = shape.NumAxes() - 1; i >= 0; --i) {
    s[static_cast<size_t>(i)] = n;
    n *= shape.At(i);
  }
  return s;
}

/// a * b, or an error when the product does not fit.
inline Maybe<int64_t> checkedMul(int64_t a, int64_t b, const char *what) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    return Error("OPC0206") << what << " overflows 63 bits (" << a << " * " << b << ")";
  return r;
}

} // namespace opc::ops
