// Numbers in digits that became infinite, found by their places in the text.
// SPDX-License-Identifier: Apache-2.0
#include "TextNumbers.h"

#include "ParseHints.h"
#include "TextParts.h"
#include "opc/Convert.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

namespace opc {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;
using Tree = pb::TextFormat::ParseInfoTree;

class NoErrors : public pb::io::ErrorCollector {
  void AddError(int, pb::io::ColumnNumber, const std::string &) override {}
};

bool isReal(const Field *f) { return f->cpp_type() == Field::CPPTYPE_DOUBLE || f->cpp_type() == Field::CPPTYPE_FLOAT; }

/// The values of a field that holds real numbers.
std::vector<double> realsOf(const pb::Message &m, const Field *f) {
  const pb::Reflection *r = m.GetReflection();
  const bool isDouble = f->cpp_type() == Field::CPPTYPE_DOUBLE;
  if (!f->is_repeated()) return {isDouble ? r->GetDouble(m, f) : static_cast<double>(r->GetFloat(m, f))};
  std::vector<double> all;
  for (int i = 0; i < r->FieldSize(m, f); ++i)
    all.push_back(isDouble ? r->GetRepeatedDouble(m, f, i) : static_cast<double>(r->GetRepeatedFloat(m, f, i)));
  return all;
}

template <class F> void eachMessage(const pb::Message &m, const Field *f, F &&call) {
  const pb::Reflection *r = m.GetReflection();
  if (!f->is_repeated()) return call(r->GetMessage(m, f), -1);
  for (int i = 0; i < r->FieldSize(m, f); ++i) call(r->GetRepeatedMessage(m, f, i), i);
}

bool hasInfinity(const pb::Message &m) {
  std::vector<const Field *> fields;
  m.GetReflection()->ListFields(m, &fields);
  return std::any_of(fields.begin(), fields.end(), [&](const Field *f) {
    bool found = false;
    if (f->cpp_type() == Field::CPPTYPE_MESSAGE) {
      eachMessage(m, f, [&](const pb::Message &inner, int) { found = found || hasInfinity(inner); });
    } else if (isReal(f)) {
      const std::vector<double> values = realsOf(m, f);
      found = std::any_of(values.begin(), values.end(), [](double v) { return std::isinf(v); });
    }
    return found;
  });
}

class NumberCheck {
public:
  NumberCheck(const std::string &name, std::string_view text, std::vector<Diagnostic> *diagnostics)
      : name_(name), text_(text), diagnostics_(diagnostics) {}

  bool found() const { return found_; }

  void check(const pb::Message &m, const Tree *places) {
    std::vector<const Field *> fields;
    m.GetReflection()->ListFields(m, &fields);
    for (const Field *f : fields) {
      if (f->cpp_type() == Field::CPPTYPE_MESSAGE) {
        eachMessage(m, f, [&](const pb::Message &inner, int i) {
          if (const Tree *own = places->GetTreeForNested(f, i)) check(inner, own);
        });
      } else if (isReal(f)) {
        const std::vector<double> values = realsOf(m, f);
        if (std::none_of(values.begin(), values.end(), [](double v) { return std::isinf(v); })) continue;
        // A list in brackets has one place.
        for (int i = f->is_repeated() ? 0 : -1; i < (f->is_repeated() ? static_cast<int>(values.size()) : 0); ++i)
          checkTokens(f, places->GetLocationRange(f, i));
      }
    }
  }

private:
  /// The numbers of a field and its values, as they stand in the text.
  void checkTokens(const Field *field, const pb::TextFormat::ParseLocationRange &place) {
    if (place.start.line < 0) return;
    const size_t begin = offsetOf(text_, place.start.line, std::max(place.start.column, 0));
    const size_t end = std::max(begin, offsetOf(text_, std::max(place.end.line, 0), std::max(place.end.column, 0)));
    const std::string_view part = text_.substr(begin, end - begin);
    pb::io::ArrayInputStream input(part.data(), static_cast<int>(part.size()));
    NoErrors ignored;
    pb::io::Tokenizer tokens(&input, &ignored);
    tokens.set_allow_f_after_float(true);
    tokens.set_comment_style(pb::io::Tokenizer::SH_COMMENT_STYLE);
    tokens.set_require_space_after_number(false);
    while (tokens.Next())
      if (isTooLarge(field, tokens.current()))
        report(field, begin + offsetOf(part, tokens.current().line, tokens.current().column), tokens.current().text);
  }

  static bool isTooLarge(const Field *field, const pb::io::Tokenizer::Token &token) {
    double value = 0;
    if (token.type == pb::io::Tokenizer::TYPE_FLOAT) {
      value = pb::io::Tokenizer::ParseFloat(token.text);
    } else if (token.type == pb::io::Tokenizer::TYPE_INTEGER) {
      const char *end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec == std::errc::result_out_of_range) return true;
    }
    return std::isinf(field->cpp_type() == Field::CPPTYPE_FLOAT ? static_cast<double>(convertElement<float>(value))
                                                                : value);
  }

  void report(const Field *field, size_t at, const std::string &number) {
    const bool isFloat = field->cpp_type() == Field::CPPTYPE_FLOAT;
    constexpr size_t kMost = 40; // digits that say which
    Diagnostic d;
    d.code = "OPC0101";
    d.message = concat(field->name(), " is ", number.size() > kMost ? number.substr(0, kMost) + "..." : number,
                       ", larger than every number of ",
                       isFloat ? "f32 (at most 3.4028235e38)" : "f64 (at most 1.7976931348623157e308)");
    d.help = "write inf where infinity is meant";
    d.range.file = name_;
    const std::string_view before = text_.substr(0, at);
    d.range.line = d.range.endLine = static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    d.range.column = static_cast<uint32_t>(at - (before.rfind('\n') + 1)) + 1; // npos + 1 is 0
    d.range.endColumn = d.range.column + static_cast<uint32_t>(number.size());
    diagnostics_->push_back(std::move(d));
    found_ = true;
  }

  const std::string &name_;
  std::string_view text_;
  std::vector<Diagnostic> *diagnostics_;
  bool found_ = false;
};

} // namespace

bool checkNumbers(const std::string &name, std::string_view text, const pb::Message &message,
                  std::vector<Diagnostic> *diagnostics) {
  if (!hasInfinity(message)) return true;
  const std::unique_ptr<pb::Message> again(message.New());
  Tree places;
  NoErrors ignored;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&ignored);
  parser.WriteLocationsTo(&places);
  parser.AllowPartialMessage(true);
  parser.AllowUnknownField(true);
  pb::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&input, again.get())) return true;
  NumberCheck check(name, text, diagnostics);
  check.check(*again, &places);
  return !check.found();
}

} // namespace opc
