// Sizes of outputs as formulas.
// SPDX-License-Identifier: Apache-2.0
#include "SizeFormula.h"

#include <cctype>

namespace opc::python {

namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxLength = 256;

class Formula {
public:
  Formula(const std::string &text, const FormulaNames &names) : text_(text), names_(names) {}

  Result<int64_t> whole() {
    if (text_.size() > kMaxLength) return wrong("longer than " + std::to_string(kMaxLength) + " characters");
    OPC_ASSIGN_OR_RETURN(const int64_t value, sum());
    if (peek()) return wrong(std::string("'") + peek() + "' is not expected");
    return value;
  }

private:
  Status wrong(const std::string &why) const {
    return Status(StatusCode::kInvalidGraph, "OPC0920",
                  "the formula '" + text_ + "' of a size: " + why + " (column " + std::to_string(at_ + 1) + ")")
        .withHelp("formulas are numbers, \"x[0]\", integer attributes, + - * / and parentheses");
  }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Result<int64_t> sum() {
    OPC_ASSIGN_OR_RETURN(int64_t value, product());
    for (char c = peek(); c == '+' || c == '-'; c = peek()) {
      ++at_;
      OPC_ASSIGN_OR_RETURN(const int64_t right, product());
      if (c == '+' ? __builtin_add_overflow(value, right, &value) : __builtin_sub_overflow(value, right, &value))
        return wrong("the value overflows");
    }
    return value;
  }
  Result<int64_t> product() {
    OPC_ASSIGN_OR_RETURN(int64_t value, term());
    for (char c = peek(); c == '*' || c == '/'; c = peek()) {
      ++at_;
      if (c == '/') take('/');
      OPC_ASSIGN_OR_RETURN(const int64_t right, term());
      if (c == '*') {
        if (__builtin_mul_overflow(value, right, &value)) return wrong("the value overflows");
        continue;
      }
      if (right <= 0) return wrong("a division by " + std::to_string(right));
      value = value >= 0 ? value / right : -((-(value + 1)) / right) - 1; // rounds down, as Python's //
    }
    return value;
  }
  Result<int64_t> term() {
    if (++depth_ > kMaxDepth) return wrong("nested too deeply");
    Result<int64_t> value = atom();
    --depth_;
    return value;
  }
  Result<int64_t> atom() {
    const char c = peek();
    if (take('(')) {
      OPC_ASSIGN_OR_RETURN(const int64_t value, sum());
      if (!take(')')) return wrong("')' is missing");
      return value;
    }
    if (take('-')) {
      OPC_ASSIGN_OR_RETURN(int64_t value, term());
      if (__builtin_sub_overflow(int64_t{0}, value, &value)) return wrong("the value overflows");
      return value;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') return name();
    return wrong("a number or a name is missing");
  }
  Result<int64_t> number() {
    int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value))
        return wrong("the number is too large");
    return value;
  }
  Result<int64_t> name() {
    std::string word;
    for (; at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'); ++at_)
      word += text_[at_];
    if (!take('[')) return names_.attr(word);
    const bool negative = take('-');
    if (!std::isdigit(static_cast<unsigned char>(peek()))) return wrong("an axis is missing");
    OPC_ASSIGN_OR_RETURN(const int64_t axis, number());
    if (!take(']')) return wrong("']' is missing");
    return names_.size(word, negative ? -axis : axis);
  }

  const std::string &text_;
  const FormulaNames &names_;
  size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

Result<int64_t> evaluateFormula(const std::string &text, const FormulaNames &names) {
  return Formula(text, names).whole();
}

} // namespace opc::python
