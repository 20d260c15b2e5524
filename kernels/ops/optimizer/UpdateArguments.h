// What the device code of model updates is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// A number: the element of a tensor, or `value` where there is no tensor.
struct DeviceScalar {
  const void *data;
  int32_t isDouble, unused;
  double value;
};

struct UpdateArguments {
  int64_t n;
  void *model, *copy; // copy: null for none
  const void *diff;
  const int64_t *skipIf; // null for none
  DeviceScalar rate, scaleBy;
  double rateScale, scale, l1, l2, weightDecay;
  int32_t diffKind, copyKind; // 0: the model's type, 1: f16, 2: bf16
  // momentum_update
  void *momentum;
  double beta, keep;
  int32_t nesterov, maximize;
  // adam_update
  void *m, *v, *maxV; // maxV: null without amsgrad
  DeviceScalar correction1, correction2;
  double beta1, beta2, rest1, rest2, epsilon;
};

} // namespace opc::ops
