// NaN in kernels of libraries that lose it: a relu or clip that is part of a convolution gives its lower bound for NaN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::user_op {

/// While one lives, in whatever thread, kernels that would lose a NaN take another way, which may be slower and has the
/// same bits for all numbers. The host makes one when the processor says that a step has met a NaN, and does the step
/// again (FE_INVALID: what such kernels end with, a maximum or minimum of two numbers, raises it for every NaN).
class NanKeeping {
public:
  NanKeeping();
  ~NanKeeping();
  NanKeeping(const NanKeeping &) = delete;
  NanKeeping &operator=(const NanKeeping &) = delete;
};

/// Asked by such kernels when they run.
bool keepsNan();

} // namespace opc::user_op
