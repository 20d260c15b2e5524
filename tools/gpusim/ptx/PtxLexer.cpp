// PTX text as tokens: words, words behind dots, numbers in PTX's many forms.
// SPDX-License-Identifier: Apache-2.0
#include "PtxLexer.h"

#include <bit>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace opc::gpusim {

namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%'; }
bool isWord(char c) { return isStart(c) || isDigit(c); }
bool isHex(char c) { return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Lexer {
public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4 + 1);
    do tokens.push_back(next());
    while (tokens.back().kind != Token::kEnd);
    return tokens;
  }

private:
  char at(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  [[noreturn]] void fail(std::string message) const { throw PtxError{line_, std::move(message)}; }

  void skipSpace() {
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\n') {
        ++line_;
      } else if (c == '/' && at(1) == '/') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
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

  Token next() {
    skipSpace();
    Token t;
    t.line = line_;
    if (at_ >= text_.size()) return t;
    char c = text_[at_];
    size_t begin = at_;
    if (isStart(c)) {
      while (isWord(at())) ++at_;
      t.kind = Token::kWord;
      t.text = text_.substr(begin, at_ - begin);
    } else if (c == '.' && isWord(at(1))) {
      for (++at_; isWord(at()) || (at() == ':' && at(1) == ':' && isWord(at(2)));) at_ += at() == ':' ? 2 : 1;
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
    } else if (std::strchr("{}()[]<>,;:=+-@!|*&~?", c) && c != '\0') {
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

  void number(Token &t) {
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
  uint64_t digits(int base, size_t count) {
    size_t begin = at_;
    while (isHex(at())) ++at_;
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + at_, value, base);
    if (at_ == begin || error != std::errc() || end != text_.data() + at_ || (count && at_ - begin != count))
      fail("a number is wrong: " + std::string(text_.substr(begin, at_ - begin)));
    return value;
  }

  void decimal(Token &t) {
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

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

} // namespace

std::vector<Token> tokenize(std::string_view ptx) {
  // ptxas' input often ends with a zero byte, as a C string does.
  while (!ptx.empty() && ptx.back() == '\0') ptx.remove_suffix(1);
  return Lexer(ptx).all();
}

} // namespace opc::gpusim
