// Whether somebody has asked for kernels that keep NaN.
// SPDX-License-Identifier: Apache-2.0
#include "opc/NanKeeping.h"

#include <atomic>

namespace opc::user_op {

// Of the process: what runs beside it gets the same numbers in more time.
static std::atomic<int> asked{0};

NanKeeping::NanKeeping() { asked.fetch_add(1, std::memory_order_relaxed); }
NanKeeping::~NanKeeping() { asked.fetch_sub(1, std::memory_order_relaxed); }

bool keepsNan() { return asked.load(std::memory_order_relaxed) > 0; }

} // namespace opc::user_op
