// JSON documents of the command line.
// SPDX-License-Identifier: Apache-2.0
#include "JsonOutput.h"

#include "NumberText.h"
#include "PrintableText.h"

#include <cmath>

namespace opc::cli {

namespace {
std::string dumped(const Json &document, int indent) {
  return printableJson(document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace)) + "\n";
}
} // namespace

std::string jsonText(const Json &document) { return dumped(document, 1); }
std::string jsonLine(const Json &document) { return dumped(document, -1); }

Json shapeJson(const Shape &shape) {
  Json dims = Json::array();
  for (int64_t d : shape) dims.push_back(d);
  return dims;
}

Json realJson(double value) {
  if (!std::isfinite(value)) return realText(value);
  return value;
}

Json dtypeJson(DataType type) { return type == kInvalidDataType ? Json(nullptr) : Json(dataTypeName(type)); }

namespace {
Json valueJson(std::monostate) { return nullptr; }
Json valueJson(int32_t v) { return v; }
Json valueJson(int64_t v) { return v; }
Json valueJson(bool v) { return v; }
Json valueJson(double v) { return realJson(v); }
Json valueJson(float v) {
  // The shortest text of the float, not of the double it converts to: 0.1f is 0.1, not 0.10000000149011612.
  if (!std::isfinite(v)) return realText(v);
  char buffer[64];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return *parseReal(std::string_view(buffer, static_cast<size_t>(r.ptr - buffer)));
}
Json valueJson(const std::string &v) { return v; }
Json valueJson(const Shape &v) { return shapeJson(v); }
Json valueJson(DataType v) { return dtypeJson(v); }
Json valueJson(const RawAttr &v) { return std::to_string(v.bytes.size()) + " bytes"; }
template <class T> Json valueJson(const std::vector<T> &v) {
  Json list = Json::array();
  for (const T &e : v) list.push_back(valueJson(e));
  return list;
}
} // namespace

Json attrJson(const AttrValue &value) {
  return {{"type", attrTypeName(value.type())},
          {"value", std::visit([](const auto &v) { return valueJson(v); }, value.variant())}};
}

} // namespace opc::cli
