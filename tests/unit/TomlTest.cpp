// The part of TOML that opc reads: values as the specification (toml.io, v1.0.0) has them, and mistakes with their
// place.
// SPDX-License-Identifier: Apache-2.0
#include "Toml.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::cli;

namespace {

TomlValue read(const std::string &text) {
  Result<TomlValue> v = parseToml(text, "f.toml");
  INFO(v.status().toString());
  REQUIRE(v);
  return std::move(*v);
}
const TomlValue &at(const TomlValue &v, const std::string &key) {
  REQUIRE(v.table());
  const TomlValue *found = v.table()->find(key);
  INFO(key);
  REQUIRE(found);
  return *found;
}
std::string error(const std::string &text) {
  Result<TomlValue> v = parseToml(text, "f.toml");
  if (v) return "ok";
  CHECK(v.status().id() == "OPC0008");
  return v.status().message();
}

} // namespace

TEST_CASE("toml values", "[toml]") {
  const TomlValue v = read("\xEF\xBB\xBF# a comment\r\n"
                           "s = \"a \\\"b\\\" \\u00e9\\t\" # after\n"
                           "l = 'C:\\new'\n"
                           "i = 1_000\nn = -17\nf = 6.02e23\nb = true\n"
                           "a = [ 1, 2, # two\n  3, ]\n"
                           "t = { x = 1, y.z = \"w\" }\n"
                           "[one.\"two three\"]\nk = false\n[other]\n");
  CHECK(std::get<std::string>(at(v, "s").value) == "a \"b\" \xC3\xA9\t");
  CHECK(std::get<std::string>(at(v, "l").value) == "C:\\new");
  CHECK(std::get<int64_t>(at(v, "i").value) == 1000);
  CHECK(std::get<int64_t>(at(v, "n").value) == -17);
  CHECK(std::get<double>(at(v, "f").value) == 6.02e23);
  CHECK(std::get<bool>(at(v, "b").value));
  CHECK(std::get<TomlValue::Array>(at(v, "a").value).size() == 3);
  CHECK(std::get<std::string>(at(at(at(v, "t"), "y"), "z").value) == "w");
  CHECK_FALSE(std::get<bool>(at(at(at(v, "one"), "two three"), "k").value));
  CHECK(at(v, "f").line == 6);
  CHECK(at(v, "f").column == 5);
  CHECK(at(v, "other").table()->entries.empty());
}

TEST_CASE("toml mistakes have a place", "[toml]") {
  CHECK(error("a = 1\na = 2") == "f.toml:2:1: 'a' is given twice");
  CHECK(error("[t]\n[t]") == "f.toml:2:1: this table is there already");
  CHECK(error("a = \"x") == "f.toml:1:5: the string is not closed");
  CHECK(error("a = x").rfind("f.toml:1:5: 'x' is no value", 0) == 0);
  CHECK(error("a =") == "f.toml:1:4: a value is missing");
  CHECK(error("a") == "f.toml:1:2: '=' is missing");
  CHECK(error("a = 1 b = 2").rfind("f.toml:1:7: one statement a line", 0) == 0);
  CHECK(error("a = [1, 2").rfind("f.toml:1:5: the array is not closed", 0) == 0);
  CHECK(error("a = {x = 1").rfind("f.toml:1:5: the table is not closed", 0) == 0);
  CHECK(error("a = 1\n[a]").rfind("f.toml:2:1: 'a' is no table", 0) == 0);
  CHECK(error("[[a]]").find("arrays of tables") != std::string::npos);
  CHECK(error("a = \"\"\"x\"\"\"").find("several lines") != std::string::npos);
  CHECK(error("a = 1__0") != "ok");
  CHECK(error("a = 2020-01-01") != "ok");
  CHECK(error("= 1") != "ok");
  CHECK(error("a = \"\\q\"") == "f.toml:1:6: no escape '\\q'");
  CHECK(error("a = \"\\ud800\"") != "ok");
  CHECK(error(std::string(100000, '[')) != "ok");
  CHECK(error("a = " + std::string(100000, '[')) != "ok");
  std::string deep = "a = ";
  for (int i = 0; i < 100000; ++i) deep += "{b = ";
  CHECK(error(deep) != "ok");
  const std::string whole = "[one.\"two\"]\nk = { x = [1, 2.5, \"s\"], y = 'l' } # c\nz = true\n";
  for (size_t n = 0; n < whole.size(); ++n) (void)parseToml(whole.substr(0, n), "f.toml"); // none crashes
}
