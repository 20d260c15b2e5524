// Repeated fields of messages, which are vectors here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/util.h"

namespace oneflow {
template <class T> using PbRf = std::vector<T>;
template <class T> using PbRpf = std::vector<T>;
} // namespace oneflow
