// Initializers of variables as a lock has them.
// SPDX-License-Identifier: Apache-2.0
#include "LockRecords.h"

#include "graph.pb.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace opc::lock {
namespace {

using Field = google::protobuf::FieldDescriptor;

bool isNumber(const std::string &text, double wanted) {
  char *end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && value == wanted && std::signbit(value) == std::signbit(wanted);
}

bool isNumber(const std::string &text, int64_t wanted) {
  int64_t value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  return r.ec == std::errc() && r.ptr == text.data() + text.size() && value == wanted;
}

/// Whether "0.000000e+00 : f32" is what the field has where a graph says nothing.
bool isDefault(const Field &field, const std::string &text) {
  const std::string number = text.substr(0, text.find(" : "));
  switch (field.cpp_type()) {
  case Field::CPPTYPE_FLOAT: return isNumber(number, static_cast<double>(field.default_value_float()));
  case Field::CPPTYPE_DOUBLE: return isNumber(number, field.default_value_double());
  case Field::CPPTYPE_INT32: return isNumber(number, static_cast<int64_t>(field.default_value_int32()));
  case Field::CPPTYPE_INT64: return isNumber(number, static_cast<int64_t>(field.default_value_int64()));
  case Field::CPPTYPE_ENUM: return isNumber(number, static_cast<int64_t>(field.default_value_enum()->number()));
  default: return false;
  }
}

} // namespace

std::string withoutDefaults(const std::string &text) {
  const size_t open = text.find(" {"), close = text.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open + 2) return text;
  const Field *kind = graph::InitializerConf::descriptor()->FindFieldByName(text.substr(0, open));
  if (!kind || !kind->message_type()) return text;
  std::string kept;
  for (size_t at = open + 2; at < close;) {
    const size_t end = std::min(text.find(", ", at), close);
    const std::string entry = text.substr(at, end - at);
    const size_t equals = entry.find(" = ");
    const Field *field =
        equals == std::string::npos ? nullptr : kind->message_type()->FindFieldByName(entry.substr(0, equals));
    if (!field || !isDefault(*field, entry.substr(equals + 3))) kept += (kept.empty() ? "" : ", ") + entry;
    at = end + 2;
  }
  return text.substr(0, open + 2) + kept + text.substr(close);
}

} // namespace opc::lock
