// Options by declaration: what each type takes, what it refuses and how it says so.
// SPDX-License-Identifier: Apache-2.0
#include "CommandLine.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::cli;

namespace {

/// Parses `args` for one option; the error's message, or "".
std::string parse(const Option &option, const std::vector<std::string> &args) {
  CommandSpec spec;
  spec.name = "test";
  spec.options = {option};
  const Result<ParsedArguments> parsed = parseArguments(spec, {}, args);
  if (!parsed) CHECK(parsed.status().code() == StatusCode::kUsage);
  return parsed ? "" : parsed.status().message();
}

} // namespace

TEST_CASE("numbers have ranges", "[options]") {
  int64_t n = 7;
  const Option count = Option{"--count", 'c', "N", "", &n}.range(1, 4096);
  CHECK(parse(count, {}) == "");
  CHECK(n == 7);
  CHECK(parse(count, {"--count", "4096"}) == "");
  CHECK(n == 4096);
  CHECK(parse(count, {"-c", "1"}) == "");
  CHECK(n == 1);
  for (const char *wrong : {"0", "4097", "-1", "1.5", "x", "", "99999999999999999999"})
    CHECK(parse(count, {"--count", wrong}) ==
          "--count takes a number from 1 to 4096, not '" + std::string(wrong) + "'");
  CHECK(parse(count, {"--count", "1", "--count", "2"}) == "--count is given 2 times");

  std::optional<double> x;
  const Option real = Option{"--x", 0, "X", "", &x}.above(0, "number of seconds");
  for (const char *wrong : {"0", "-1", "nan", "inf", "1s"})
    CHECK(parse(real, {"--x", wrong}) == "--x takes a number of seconds above 0, not '" + std::string(wrong) + "'");
  CHECK_FALSE(x);
  CHECK(parse(real, {"--x=1e-3"}) == "");
  CHECK(x == 1e-3);

  uint64_t seed = 0;
  CHECK(parse({"--seed", 0, "N", "", &seed}, {"--seed", "18446744073709551615"}) == "");
  CHECK(seed == 18446744073709551615u);
  CHECK(parse({"--seed", 0, "N", "", &seed}, {"--seed", "18446744073709551616"}) ==
        "--seed takes a whole number from 0 to 18446744073709551615, not '18446744073709551616'");
}

TEST_CASE("sizes are bytes", "[options]") {
  std::optional<uint64_t> bytes;
  const Option size = Option{"--memory", 0, "SIZE", "", &bytes}.bytes("16G");
  CHECK(parse(size, {"--memory", "3K"}) == "");
  CHECK(bytes == 3072u);
  CHECK(parse(size, {"--memory", "0"}) == "--memory takes a size such as 16G, not '0'");
  CHECK(std::string(size.typeName()) == "size");
}

TEST_CASE("an empty text is no path", "[options]") {
  std::string file;
  for (const char *label : {"FILE", "DIR", "LIB", "FILE|DIR"})
    CHECK(parse({"--at", 0, label, "", &file}, {"--at", ""}) == "--at is given an empty text, and takes a path");
  std::vector<std::string> files;
  CHECK(parse({"--at", 0, "FILE", "", &files}, {"--at", "a", "--at", ""}) ==
        "--at is given an empty text, and takes a path");
  CHECK(files.empty());
  CHECK(parse({"--name", 0, "NAME", "", &file}, {"--name", ""}) == "");
}

TEST_CASE("words are of a list", "[options]") {
  std::string mode = "train";
  const Option choice = Option{"--mode", 0, "", "", &mode}.oneOf({"infer", "train", "both"});
  CHECK(choice.value == "infer|train|both");
  CHECK(choice.standard() == "train");
  CHECK(parse(choice, {"--mode", "both"}) == "");
  CHECK(mode == "both");
  CHECK(parse(choice, {"--mode", "bth"}) == "--mode takes infer, train or both, not 'bth'");
  CHECK(mode == "both");
}

TEST_CASE("values have types of their own", "[options]") {
  auto even = [](const std::string &text) -> std::optional<int> {
    return text.size() % 2 ? std::nullopt : std::optional<int>(static_cast<int>(text.size()));
  };
  int length = 0;
  const Option one = Option{"--word", 0, "W", "", into(&length, even, "0")}.taking("a word", "of even length");
  CHECK(one.standard() == "0");
  CHECK_FALSE(one.isRepeatable());
  CHECK(parse(one, {"--word", "four"}) == "");
  CHECK(length == 4);
  CHECK(parse(one, {"--word", "three"}) == "--word takes a word, not 'three'");
  CHECK(one.set({"three"}).help() == "of even length");
  CHECK(parse(one, {"--word", "four", "--word", "five"}) == "--word is given 2 times");
  CHECK(length == 4);

  std::vector<int> lengths;
  const Option many = Option{"--words", 0, "W", "", intoEach(&lengths, even)}.taking("words");
  CHECK(many.isRepeatable());
  CHECK(parse(many, {"--words", "four", "--words=go"}) == "");
  CHECK(lengths == std::vector<int>{4, 2});
  CHECK(parse(many, {"--words", "go", "--words=odd"}) == "--words takes words, not 'odd'");
}

TEST_CASE("flags count, lists grow, what was given is known", "[options]") {
  int verbose = 0;
  std::vector<std::string> inputs;
  CommandSpec spec;
  spec.name = "test";
  spec.options = {{"--verbose", 'v', "", "", Repetitions{&verbose}}, {"--input", 0, "NAME=SPEC", "", &inputs}};
  spec.maxArguments = 1;
  const Result<ParsedArguments> parsed = parseArguments(spec, {}, {"-vv", "--input", "a=1", "file", "--input=b=2"});
  REQUIRE(parsed);
  CHECK(verbose == 2);
  CHECK(inputs == std::vector<std::string>{"a=1", "b=2"});
  CHECK(parsed->given == std::set<std::string>{"--input", "--verbose"});
  CHECK(parsed->positional == std::vector<std::string>{"file"});
}
