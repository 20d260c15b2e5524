// What machine code a plan got.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

struct NativeFacts {
  struct Refused {
    std::string op, level; // the loop's first op; "v3"
    std::string reason;
  };
  uint64_t loops = 0;  // over elements, in all regions
  uint64_t codes = 0;  // different ones of them that have code
  uint64_t images = 0; // one for each level
  uint64_t bytes = 0;  // of all images
  double seconds = 0;  // that making them took
  std::vector<Refused> refused;
};

} // namespace opc
