// PTX text as tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opc::gpusim {

struct Token {
  enum Kind : uint8_t {
    kEnd,
    kWord,    // add, %r1, $L__BB0_2, foo
    kDotWord, // .f32, .shared::cta, without the dot
    kInteger,
    kFloat32, // 0f3F800000: bits
    kFloat64, // 0d.. and decimal: bits
    kString,  // without quotes
    kPunctuation,
  } kind = kEnd;
  char punctuation = 0;
  uint32_t line = 0;
  uint64_t value = 0;
  std::string_view text;
};

/// What is wrong with a line of PTX. Thrown and caught within this library.
struct PtxError {
  uint32_t line;
  std::string message;
};

/// All tokens, the last one kEnd. Throws PtxError.
std::vector<Token> tokenize(std::string_view ptx);

} // namespace opc::gpusim
