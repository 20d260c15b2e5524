// Values of variables that lie elsewhere than in a plan's message: in a mapped file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ValuePages.h"
#include "plan.pb.h"

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>

namespace opc {

struct OutsideValue {
  std::string_view bytes;
  std::shared_ptr<ValuePages> pages; // of its file; not null
};
/// The data of these variables is there and empty in the message.
using OutsideValues = std::unordered_map<const plan::Interface::Variable *, OutsideValue>;

/// Smaller ones are not worth it.
inline constexpr size_t kLeastOutside = 4096;

/// A variable's data, wherever it lies.
std::string_view dataOf(const plan::Interface::Variable &variable, const OutsideValues &outside);

} // namespace opc
