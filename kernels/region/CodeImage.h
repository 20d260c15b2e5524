// Machine code of a region as bytes that run wherever they are mapped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeLevel.h"
#include "RegionCode.h"

#include <optional>
#include <string>
#include <string_view>

namespace opc {

constexpr uint32_t kImagePage = 4096;
constexpr size_t kMaxImageBytes = size_t{16} << 20;

/// Executable bytes, which end at a page, and then constants. The code reaches its constants by their distance, and
/// names nothing outside.
struct CodeImage {
  CodeLevel level = CodeLevel::kNone;
  uint32_t lanes = 0; // RegionCode::lanes
  uint32_t entry = 0; // offset of RegionCode::Function
  uint32_t code = 0;  // bytes that are executable
  std::string_view bytes;
};

/// What is wrong with the numbers of an image; empty where nothing is. Of what the code does they say nothing.
std::string faultOf(const CodeImage &image);

/// Copies the image to memory that is writable first and then executable, never both, and is freed with what is
/// returned. Null, with the reason, where faultOf() finds something or there is no memory.
std::shared_ptr<const RegionCode> mapImage(const CodeImage &image, std::string *reason);

/// Makes images (compiler/codegen).
class RegionImager {
public:
  struct Made {
    CodeImage image; // without its bytes
    std::string bytes;
  };
  virtual ~RegionImager() = default;
  /// Nothing, with the reason, for a region of which no image can be made.
  virtual std::optional<Made> make(const Region &region, CodeLevel level, std::string *reason) = 0;
};

} // namespace opc
