// The vectors that shapes and lists of axes are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/fixed_vector.h"

#ifndef SHAPE_MAX_AXIS_SIZE
#define SHAPE_MAX_AXIS_SIZE 20
#endif

namespace oneflow {
using AxisVector = std::vector<int64_t>;
}
