// An option of a command as data: its names, what its value may be, and where the value goes. Parsing, help,
// completion, the manual and the reference page follow from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace opc::cli {

/// A flag that counts how often it is given: -vv is 2.
struct Repetitions {
  int *count = nullptr;
};

/// A value of a type of its own.
struct TextReader {
  std::function<bool(const std::string &)> read; // false: the text is none of the type
  bool repeats = false;
  std::string standard = {}; // what stands when none is given, as text
};
/// A value that `read` makes of a text: a function from texts to optional values.
template <class T, class Read> TextReader into(T *to, Read read, std::string standard = "") {
  auto assign = [to, read](const std::string &text) {
    auto value = read(text);
    if (value) *to = *std::move(value);
    return value.has_value();
  };
  return {assign, false, std::move(standard)};
}
/// The same for every time that the option is given.
template <class T, class Read> TextReader intoEach(std::vector<T> *to, Read read) {
  auto add = [to, read](const std::string &text) {
    auto value = read(text);
    if (value) to->push_back(*std::move(value));
    return value.has_value();
  };
  return {add, true};
}
/// `value` for a word, what `read` makes of it for every other text.
template <class T, class Read> auto wordOr(const char *word, T value, Read read) {
  return [=](const std::string &text) -> std::optional<T> { return text == word ? value : read(text); };
}

/// Where an option's value goes. An optional one knows whether it was given; a list takes every time it is given.
using OptionTarget = std::variant<bool *, Repetitions, TextReader, std::string *, std::optional<std::string> *,
                                  std::vector<std::string> *, int *, int64_t *, uint64_t *, double *,
                                  std::optional<int64_t> *, std::optional<uint64_t> *, std::optional<double> *>;

struct Option {
  std::string name;  // "--input"
  char letter = 0;   // 'o' for -o
  std::string value; // "NAME=SPEC"; empty for a flag; "[=json]" when the value is optional and joined by '='
  std::string doc;
  OptionTarget target;
  bool brief = false; // shown by -h, not only by --help

  std::vector<std::string> choices = {};       // the words that a text may be; empty: any text
  std::optional<double> least = {}, most = {}; // of a number
  bool isAbove = false;                        // `least` itself is not allowed
  bool isSize = false;                         // 800M, 16G: bytes
  std::string noun = "number", example = {};   // for messages: "a number of threads"; of a size
  std::string hint = {};                       // help where a value does not fit

  Option from(double smallest, std::string what = "number") &&;
  Option above(double bound, std::string what = "number") &&;
  Option range(double smallest, double largest, std::string what = "number") &&;
  Option oneOf(std::vector<std::string> words) &&; // also the label of the value, when it has none
  Option bytes(std::string such = "800M or 16G") &&;
  /// Of a type of its own: what it takes, and what helps.
  Option taking(std::string what, std::string help = "") &&;

  bool takesValue() const { return !value.empty() && !hasJoinedValue(); }
  bool hasJoinedValue() const { return value.rfind("[=", 0) == 0; }
  bool isCalled(const std::string &argument) const; // "--output", "-o"
  /// "--output", or "-j" for an option of a letter alone.
  std::string shown() const;
  /// "flag", "count", "text", "choice", "integer", "number" or "size".
  const char *typeName() const;
  bool isRepeatable() const;
  /// What the value is, for messages: "a number from 1 to 4096"; empty for any text.
  std::string takes() const;
  /// The value that stands when none is given, as text; empty when there is none.
  std::string standard() const;

  /// Checks the values and sets the target. Errors: OPC0001 with the option, the value and what it takes.
  Status set(const std::vector<std::string> &values) const;

private:
  Status refuse(const std::string &text) const;
};

/// OPC0001.
Status usageError(const std::string &message, const std::string &help = "");
/// "a, b or c".
std::string orList(const std::vector<std::string> &words);

} // namespace opc::cli
