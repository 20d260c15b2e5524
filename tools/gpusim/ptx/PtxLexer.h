// PTX text as tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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

/// One token after the other: the text of a large module is read without a list of them.
class Lexer {
public:
  /// `ptx` must outlive the lexer and its tokens.
  explicit Lexer(std::string_view ptx);
  /// kEnd at the end of the text and from then on. Throws PtxError.
  Token next();

private:
  char at(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  [[noreturn]] void fail(std::string message) const { throw PtxError{line_, std::move(message)}; }
  void skipSpace();
  void skipWord();
  void number(Token &t);
  uint64_t digits(int base, size_t count);
  void decimal(Token &t);

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

} // namespace opc::gpusim
