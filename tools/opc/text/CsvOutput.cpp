// Records as comma-separated values.
// SPDX-License-Identifier: Apache-2.0
#include "CsvOutput.h"

#include <algorithm>
#include <vector>

namespace opc::cli {

namespace {

std::string cell(const Json &value) {
  const std::string text = value.is_null()     ? ""
                           : value.is_string() ? value.get<std::string>()
                                               : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

} // namespace

std::string csvText(const Json &rows) {
  std::vector<std::string> names;
  for (const Json &row : rows)
    for (const auto &[key, value] : row.items())
      if (std::find(names.begin(), names.end(), key) == names.end()) names.push_back(key);
  std::string text;
  for (const std::string &name : names) text += (&name == names.data() ? "" : ",") + cell(name);
  text += "\n";
  for (const Json &row : rows) {
    for (const std::string &name : names) {
      if (&name != names.data()) text += ',';
      if (row.contains(name)) text += cell(row[name]);
    }
    text += "\n";
  }
  return text;
}

} // namespace opc::cli
