// Options: ranges, choices, sizes; one message for a value that does not fit.
// SPDX-License-Identifier: Apache-2.0
#include "Option.h"

#include "NearestNames.h"
#include "NumberText.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace opc::cli {

namespace {

template <class T> struct Plain {
  using type = T;
};
template <class T> struct Plain<std::optional<T>> {
  using type = T;
};
/// What a target points to, without the optional around it.
template <class T> using PlainTarget = typename Plain<std::remove_pointer_t<T>>::type;
template <class T> constexpr bool isOptional = !std::is_same_v<PlainTarget<T>, std::remove_pointer_t<T>>;

template <class T> std::optional<T> read(const Option &o, const std::string &text) {
  std::optional<T> value;
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    if (!o.choices.empty() && std::find(o.choices.begin(), o.choices.end(), text) == o.choices.end()) value.reset();
  } else {
    if constexpr (std::is_same_v<T, uint64_t>)
      value = o.isSize ? parseBytes(text) : parseInteger<T>(text);
    else if constexpr (std::is_same_v<T, double>)
      value = parseReal(text);
    else
      value = parseInteger<T>(text);
    // Written so that NaN is in no range.
    const double number = static_cast<double>(value.value_or(T{}));
    if (o.least && !(o.isAbove ? number > *o.least : number >= *o.least)) value.reset();
    if (o.most && !(number <= *o.most)) value.reset();
    if (!std::isfinite(number)) value.reset();
  }
  return value;
}

std::string textOf(double v) { return roundedText(v, 17); }

/// Whether the value is where something lies: "FILE", "FILE|DIR", "LIB".
bool isPath(const std::string &label) {
  const std::string first = label.substr(0, label.find('|'));
  return first == "FILE" || first == "DIR" || first == "LIB";
}

} // namespace

Status usageError(const std::string &message, const std::string &help) {
  return Status(StatusCode::kUsage, "OPC0001", message).withHelp(help);
}

std::string orList(const std::vector<std::string> &words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

Option Option::from(double smallest, std::string what) && {
  least = smallest;
  noun = std::move(what);
  return std::move(*this);
}

Option Option::above(double bound, std::string what) && {
  isAbove = true;
  return std::move(*this).from(bound, std::move(what));
}

Option Option::range(double smallest, double largest, std::string what) && {
  most = largest;
  return std::move(*this).from(smallest, std::move(what));
}

Option Option::oneOf(std::vector<std::string> words) && {
  choices = std::move(words);
  if (value.empty())
    for (const std::string &w : choices) value += (value.empty() ? "" : "|") + w;
  return std::move(*this);
}

Option Option::bytes(std::string such) && {
  isSize = true;
  example = std::move(such);
  return std::move(*this).from(1);
}

Option Option::taking(std::string what, std::string help) && {
  noun = std::move(what);
  hint = std::move(help);
  return std::move(*this);
}

bool Option::isRepeatable() const {
  const auto *reader = std::get_if<TextReader>(&target);
  return reader ? reader->repeats : std::holds_alternative<std::vector<std::string> *>(target);
}

bool Option::isCalled(const std::string &argument) const {
  return (!name.empty() && argument == name) || (letter && argument == std::string("-") + letter);
}

std::string Option::shown() const { return name.empty() ? std::string("-") + letter : name; }

const char *Option::typeName() const {
  return std::visit(
      [&](const auto &to) -> const char * {
        using T = PlainTarget<std::decay_t<decltype(to)>>;
        if constexpr (std::is_same_v<T, bool>) return "flag";
        if constexpr (std::is_same_v<T, Repetitions>) return "count";
        if constexpr (std::is_same_v<T, double>) return "number";
        if constexpr (std::is_integral_v<T>) return isSize ? "size" : "integer";
        return choices.empty() ? "text" : "choice";
      },
      target);
}

std::string Option::takes() const {
  if (std::holds_alternative<TextReader>(target)) return noun; // its words, if it has any, make a list
  if (!choices.empty()) return orList(choices);
  if (isSize) return "a size such as " + example;
  const std::string type = typeName();
  if (type != "integer" && type != "number") return "";
  if (isAbove) return "a " + noun + " above " + textOf(*least);
  const bool isUnsigned =
      std::holds_alternative<uint64_t *>(target) || std::holds_alternative<std::optional<uint64_t> *>(target);
  if (!least && isUnsigned) return "a whole number from 0 to " + std::to_string(std::numeric_limits<uint64_t>::max());
  std::string text = "a " + noun;
  if (least) text += " from " + textOf(*least);
  if (most) text += " to " + textOf(*most);
  return text;
}

std::string Option::standard() const {
  return std::visit(
      [](const auto &to) -> std::string {
        using Target = std::decay_t<decltype(to)>;
        using T = PlainTarget<Target>;
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, Repetitions> ||
                      std::is_same_v<T, std::vector<std::string>> || isOptional<Target>)
          return "";
        else if constexpr (std::is_same_v<T, TextReader>)
          return to.standard;
        else if constexpr (std::is_same_v<T, std::string>)
          return *to;
        else if constexpr (std::is_same_v<T, double>)
          return realText(*to);
        else
          return std::to_string(*to);
      },
      target);
}

Status Option::refuse(const std::string &text) const {
  std::vector<std::string> near;
  if (!std::holds_alternative<TextReader>(target)) near = nearestNames(text, choices, 1);
  return usageError(shown() + " takes " + takes() + ", not '" + text + "'",
                    near.empty() ? hint : "did you mean " + near[0] + "?");
}

Status Option::set(const std::vector<std::string> &values) const {
  if (isPath(value) && std::find(values.begin(), values.end(), "") != values.end())
    return usageError(shown() + " is given an empty text, and takes a path",
                      "a variable of the shell that is not set? Leave " + shown() + " out, or give it a path");
  return std::visit(
      [&](const auto &to) -> Status {
        using Target = std::decay_t<decltype(to)>;
        using T = PlainTarget<Target>;
        if constexpr (std::is_same_v<T, bool>) {
          *to = true;
        } else if constexpr (std::is_same_v<T, Repetitions>) {
          *to.count = static_cast<int>(values.size());
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          to->insert(to->end(), values.begin(), values.end());
        } else if (values.size() > 1 && !isRepeatable()) {
          return usageError(shown() + " is given " + std::to_string(values.size()) + " times",
                            "give " + shown() + " once");
        } else if constexpr (std::is_same_v<T, TextReader>) {
          for (const std::string &text : values)
            if (!to.read(text)) return refuse(text);
        } else {
          const auto value = read<T>(*this, values.front());
          if (!value) return refuse(values.front());
          *to = *value;
        }
        return Status::ok();
      },
      target);
}

} // namespace opc::cli
