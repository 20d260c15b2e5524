// Machine code that a plan brings: what can be checked of it without running it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"
#include "plan.pb.h"

#include <cstdint>
#include <string_view>

namespace opc {

constexpr int kMaxNativeCodes = 65536;
constexpr int kMaxNativeImages = 8; // of one loop: one for each level

/// What NativeCode::region is for a loop that is described so (regionKey() in RegionKey.h).
uint64_t nativeRegion(std::string_view key);
/// What Image::checksum is.
uint64_t nativeChecksum(const plan::NativeCode &code, const plan::NativeCode::Image &image);

/// Sizes, levels, checksums and references (OPC0823), of a plan and of its parts. decodePlan() calls it: whether the
/// code is run or not, a plan that is damaged is refused.
Status checkNativeCode(const plan::Plan &plan);

} // namespace opc
