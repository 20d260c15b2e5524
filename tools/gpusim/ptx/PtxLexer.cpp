// PTX text as tokens: words, words behind dots, numbers in PTX's many forms.
// SPDX-License-Identifier: Apache-2.0
#include "PtxLexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>

namespace opc::gpusim {

namespace {

enum : uint8_t { kDigit = 1, kStart = 2, kInWord = 4, kHex = 8, kMark = 16 };

/// What a character can be part of.
constexpr std::array<uint8_t, 256> kKinds = [] {
  std::array<uint8_t, 256> kinds{};
  for (int c = '0'; c <= '9'; ++c) kinds[size_t(c)] = kDigit | kInWord | kHex;
  for (int c = 'a'; c <= 'z'; ++c) {
    const uint8_t hex = c <= 'f' ? kHex : 0;
    kinds[size_t(c)] = kinds[size_t(c - 'a' + 'A')] = uint8_t(kStart | kInWord | hex);
  }
  for (const char c : {'_', '$', '%'}) kinds[size_t(c)] = kStart | kInWord;
  for (const char c : std::string_view("{}()[]<>,;:=+-@!|*&~?")) kinds[size_t(c)] = kMark;
  return kinds;
}();

bool is(char c, uint8_t kinds) { return kKinds[static_cast<unsigned char>(c)] & kinds; }
bool isDigit(char c) { return is(c, kDigit); }
bool isWord(char c) { return is(c, kInWord); }

} // namespace

Lexer::Lexer(std::string_view ptx) : text_(ptx) {
  // ptxas' input often ends with a zero byte, as a C string does.
  while (!text_.empty() && text_.back() == '\0') text_.remove_suffix(1);
}

void Lexer::skipSpace() {
  for (; at_ < text_.size(); ++at_) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
    } else if (c == '/' && at(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    } else if (c == '/' && at(1) == '*') {
      size_t end = text_.find("*/", at_ + 2);
      if (end == text_.npos) fail("a comment has no end");
      for (; at_ < end; ++at_) line_ += text_[at_] == '\n';
      ++at_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      break;
    }
  }
}

/// One character, whatever it is, and what of a word follows.
void Lexer::skipWord() {
  do ++at_;
  while (at_ < text_.size() && isWord(text_[at_]));
}

Token Lexer::next() {
  skipSpace();
  Token t;
  t.line = line_;
  if (at_ >= text_.size()) return t;
  char c = text_[at_];
  size_t begin = at_;
  if (is(c, kStart)) {
    skipWord();
    t.kind = Token::kWord;
    t.text = text_.substr(begin, at_ - begin);
  } else if (c == '.' && isWord(at(1))) {
    for (skipWord(); at() == ':' && at(1) == ':' && isWord(at(2)); skipWord()) at_ += 2;
    t.kind = Token::kDotWord;
    t.text = text_.substr(begin + 1, at_ - begin - 1);
  } else if (isDigit(c)) {
    number(t);
  } else if (c == '"') {
    for (++at_; at() != '"'; ++at_)
      if (at_ >= text_.size() || at() == '\n') fail("a string has no end");
    ++at_;
    t.kind = Token::kString;
    t.text = text_.substr(begin + 1, at_ - begin - 2);
  } else if (is(c, kMark)) {
    ++at_;
    t.kind = Token::kPunctuation;
    t.punctuation = c;
    t.text = text_.substr(begin, 1);
  } else {
    char shown[8];
    std::snprintf(shown, sizeof shown, "0x%02x", static_cast<unsigned char>(c));
    fail(std::string("a character that PTX does not have: ") +
         (c >= 32 && c < 127 ? std::string("'") + c + "'" : shown));
  }
  return t;
}

void Lexer::number(Token &t) {
  size_t begin = at_;
  if (at() == '0' && (at(1) == 'f' || at(1) == 'F' || at(1) == 'd' || at(1) == 'D')) {
    bool single = at(1) == 'f' || at(1) == 'F';
    at_ += 2;
    t.value = digits(16, single ? 8 : 16);
    t.kind = single ? Token::kFloat32 : Token::kFloat64;
  } else if (at() == '0' && (at(1) == 'x' || at(1) == 'X')) {
    at_ += 2;
    t.value = digits(16, 0);
    t.kind = Token::kInteger;
  } else if (at() == '0' && (at(1) == 'b' || at(1) == 'B')) {
    at_ += 2;
    t.value = digits(2, 0);
    t.kind = Token::kInteger;
  } else {
    decimal(t);
  }
  if (t.kind == Token::kInteger && at() == 'U') ++at_;
  if (isWord(at())) fail("a number goes on as a word: " + std::string(text_.substr(begin, at_ - begin + 1)));
  t.text = text_.substr(begin, at_ - begin);
}

/// Digits of a base, exactly `count` of them unless that is 0.
uint64_t Lexer::digits(int base, size_t count) {
  size_t begin = at_;
  while (is(at(), kHex)) ++at_;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + at_, value, base);
  if (at_ == begin || error != std::errc() || end != text_.data() + at_ || (count && at_ - begin != count))
    fail("a number is wrong: " + std::string(text_.substr(begin, at_ - begin)));
  return value;
}

void Lexer::decimal(Token &t) {
  size_t begin = at_;
  while (isDigit(at())) ++at_;
  bool real = at() == '.' && isDigit(at(1));
  if (real)
    for (++at_; isDigit(at());) ++at_;
  if (at() == 'e' || at() == 'E') {
    real = true;
    at_ += at(1) == '+' || at(1) == '-' ? 2 : 1;
    while (isDigit(at())) ++at_;
  }
  const char *from = text_.data() + begin, *to = text_.data() + at_;
  if (real) {
    double value = 0;
    if (std::from_chars(from, to, value).ptr != to) fail("a number is wrong: " + std::string(from, to));
    t.value = std::bit_cast<uint64_t>(value);
    t.kind = Token::kFloat64;
    return;
  }
  auto [end, error] = std::from_chars(from, to, t.value, to - from > 1 && *from == '0' ? 8 : 10);
  if (error != std::errc() || end != to) fail("a number is wrong: " + std::string(from, to));
  t.kind = Token::kInteger;
}

} // namespace opc::gpusim
