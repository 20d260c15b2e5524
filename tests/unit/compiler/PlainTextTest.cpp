// Plain text against protobuf's own parser: what is read is the same, and what is no plain text is left alone.
// SPDX-License-Identifier: Apache-2.0
#include "PlainText.h"

#include "graph.pb.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

using namespace opc;
namespace pb = google::protobuf;

namespace {

class Silent : public pb::io::ErrorCollector {
public:
  void AddError(int, int, const std::string &) override { ++said; }
  void AddWarning(int, int, const std::string &) override { ++said; }
  int said = 0;
};

/// The binary form of what protobuf reads without a word.
std::optional<std::string> byProtobuf(const std::string &text) {
  graph::Job job;
  Silent silent;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.AllowPartialMessage(true);
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(text, &job) || silent.said) return std::nullopt;
  return job.SerializePartialAsString();
}

struct Read {
  std::string bytes;
  TextBlocks ops;
};
std::optional<Read> plainly(const std::string &text) {
  graph::Job job;
  Read read;
  if (!readPlainText(text, &job, graph::DLNetConf::descriptor()->FindFieldByName("op"), &read.ops)) {
    CHECK(job.ByteSizeLong() == 0);
    CHECK(read.ops.empty());
    return std::nullopt;
  }
  read.bytes = job.SerializePartialAsString();
  return read;
}

std::string attr(const std::string &value) {
  return "net { op { name: \"a\" user_conf { op_type_name: \"t\" attr { key: \"k\" value { " + value + " } } } } }";
}

const char *const kGraph = R"(# a comment { with a brace
net {
  op { name: "x" loc: 'a "quoted" {' input_conf { out: "out" blob_conf { shape { dim: 2 dim: -1 } data_type: kFloat } } }
  op: < name: "r", user_conf { op_type_name: "relu"; input { key: "x" value { s: "x/out" s: "\"\\\t\n" } } # here, too }
    attr { key: "a" value { at_double: -1.5e-3 } } attr { key: "b" value { at_bool: false } } } >
}
job_conf { job_name: "j" default_data_type: kFloat16 }
)";

} // namespace

TEST_CASE("plain text: read as protobuf reads it", "[importer]") {
  for (const char *value : {"at_int32: 5",
                            "at_int32: -2147483648",
                            "at_int64: 9223372036854775807",
                            "at_int64:-1",
                            "at_bool: true",
                            "at_double: 0.1",
                            "at_double: 3",
                            "at_double: 1e308",
                            "at_double: -0",
                            "at_double: 123456789012345678",
                            "at_double: 5.",
                            "at_float: 0.1",
                            "at_float: -3.4028234e38",
                            "at_float: 1e-45",
                            "at_float: 16777217",
                            "at_string: 'it is \"so\"'",
                            "at_string: \"\\a\\b\\f\\n\\r\\t\\v\\\\\\?\\'\\\"\"",
                            "at_string: \"\"",
                            "at_bytes: \"b\"",
                            "at_shape { dim: 1 dim: 2 }",
                            "at_shape: { }",
                            "at_data_type: kInt8",
                            "at_list_float { val: 1 val: 2.5 }",
                            "at_list_string < val: \"a\" >",
                            "at_list_shape { val { dim: 3 } val { } }"}) {
    INFO(value);
    const auto expected = byProtobuf(attr(value));
    const auto found = plainly(attr(value));
    REQUIRE(expected);
    REQUIRE(found);
    CHECK(found->bytes == *expected);
  }
  const std::string text = kGraph;
  const auto found = plainly(text);
  REQUIRE(found);
  CHECK(found->bytes == byProtobuf(text).value());
  REQUIRE(found->ops.size() == 2);
  CHECK(text.substr(found->ops[0].first, 13) == "op { name: \"x");
  CHECK(text[found->ops[0].second - 1] == '}');
  CHECK(text.substr(found->ops[1].first, 14) == "op: < name: \"r");
  CHECK(text.substr(found->ops[1].second - 1, 2) == ">\n");
}

TEST_CASE("plain text: rarer spellings and errors are left to protobuf", "[importer]") {
  for (const char *value : {"at_int32: 0x10",
                            "at_int32: 010",
                            "at_int32: 2147483648",
                            "at_int32: -2147483649",
                            "at_int32: 1.0",
                            "at_int64: 9223372036854775808",
                            "at_int32: 1a",
                            "at_int32 5",
                            "at_int32: - 5",
                            "at_bool: 1",
                            "at_bool: yes",
                            "at_double: inf",
                            "at_double: nan",
                            "at_double: 1f",
                            "at_double: 0x1p3",
                            "at_double: 1e400",
                            "at_double: .5",
                            "at_float: 1e39",
                            "at_string: \"\\x41\"",
                            "at_string: \"\\101\"",
                            "at_string: \"a\" \"b\"",
                            "at_string: \"\xc3\xa9\"",
                            "at_string: \"open",
                            "at_string: \"a\nb\"",
                            "at_string: a",
                            "at_data_type: 2",
                            "at_data_type: kNone",
                            "at_shape { dim: [1, 2] }",
                            "at_shape: 3",
                            "at_shape { dim: 1",
                            "at_shape { dim: 1 >",
                            "at_int32: 1 at_int32: 2",
                            "at_int32: 1 at_bool: true",
                            "at_nothing: 1",
                            "[a.b]: 1",
                            "at_int32: 1 }"})
    CHECK_FALSE(plainly(attr(value)));
  CHECK_FALSE(plainly("net { } net { }"));
  CHECK_FALSE(plainly("net { op { name: \"a\" name: \"b\" } }"));
  CHECK_FALSE(plainly(std::string("net { op { name: \"a\0\" } }", 26)));
  std::string deep = "net { op { user_conf { attr { value { ";
  for (int i = 0; i < 200; ++i) deep += "at_list_shape { ";
  CHECK_FALSE(plainly(deep));
}

TEST_CASE("plain text: one character less or other, and nothing is read that protobuf does not read so", "[importer]") {
  const std::string text = kGraph;
  int read = 0;
  for (size_t i = 0; i < text.size(); ++i)
    for (const char *other :
         {"", " ", "}", "{", "\"", "'", "#", "0", "e", "-", ".", ":", ",", ";", "\n", "\\", "x", "_"}) {
      const std::string changed = text.substr(0, i) + other + text.substr(i + 1);
      const auto found = plainly(changed);
      if (!found) continue;
      ++read;
      const auto expected = byProtobuf(changed);
      INFO(changed);
      REQUIRE(expected);
      REQUIRE(found->bytes == *expected);
    }
  CHECK(read > 1000);
}
