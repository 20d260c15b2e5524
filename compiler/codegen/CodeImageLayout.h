// From an object file to an image: every reference is resolved, and none leads outside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeImage.h"

#include <optional>
#include <string>
#include <string_view>

namespace opc::codegen {

/// `object` is one of compileToObject(). Nothing, with the reason, where it needs what is not in it, or where code and
/// constants do not find each other by their distance.
std::optional<RegionImager::Made> layOutImage(std::string_view object, CodeLevel level, unsigned lanes,
                                              std::string *reason);

} // namespace opc::codegen
