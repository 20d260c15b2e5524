// What messages are put together from: nearest names, lists, counts.
// SPDX-License-Identifier: Apache-2.0
#include "CommandOptions.h"
#include "NearestNames.h"
#include "PrintableText.h"
#include "TextParts.h"

#include <catch2/catch.hpp>

#include <map>

using namespace opc;

TEST_CASE("a misspelt name gets the nearest ones, or what else is said", "[spelling]") {
  const std::vector<std::string> names = {"relu", "gelu", "softmax"};
  CHECK(nearestNames("rleu", names).front() == "relu");
  CHECK(didYouMean("softmx", names) == "did you mean softmax?");
  CHECK(didYouMean("softmx", names, "", "'") == "did you mean 'softmax'?");
  CHECK(didYouMean("elu", names, "", "'", 2) == "did you mean 'gelu' or 'relu'?");
  CHECK(didYouMean("convolution", names, "opc ops lists them") == "opc ops lists them");
  CHECK(didYouMean("convolution", {}).empty());
}

TEST_CASE("where no name is near, the first ten are shown", "[spelling]") {
  CHECK(didYouMeanAmong("convolution", {"a", "b"}, "it has none") == "it has a, b");
  CHECK(didYouMeanAmong("convolution", {}, "it has none") == "it has none");
  CHECK(didYouMeanAmong("fc1.v", {"fc1.w"}, "it has none") == "did you mean 'fc1.w'?");
  std::vector<std::string> many;
  for (char c = 'a'; c <= 'm'; ++c) many.push_back(std::string(1, c));
  CHECK(didYouMeanAmong("convolution", many, "", "it holds ") == "it holds a, b, c, d, e, f, g, h, i, j and 3 more");
}

TEST_CASE("parts, lists and counts become texts", "[spelling]") {
  CHECK(concat("rank ", 3, " of ", size_t{8}, ':', std::string(" x"), std::string_view("y")) == "rank 3 of 8: xy");
  CHECK(concat(int64_t{-5}, " ", uint8_t{200}) == "-5 200");
  CHECK(concat().empty());
  CHECK(joined(std::vector<int64_t>{2, 4, 8}, "x") == "2x4x8");
  CHECK(joined(std::vector<std::string>{"", "b"}, ", ") == ", b");
  CHECK(joined(std::vector<std::string>(), ", ").empty());
  const std::map<std::string, int> attrs = {{"a", 1}, {"b", 2}};
  CHECK(joined(attrs, " ", [](const auto &p) { return concat(p.first, "=", p.second); }) == "a=1 b=2");
  CHECK(splitAt("a,,b,", ',') == std::vector<std::string>{"a", "", "b", ""});
  CHECK(splitAt("", ',') == std::vector<std::string>{""});
  struct Named {
    std::string name;
  };
  CHECK(namesOf(std::vector<Named>{{"x"}, {"y"}}) == std::vector<std::string>{"x", "y"});
  CHECK(counted(1, "op") == "1 op");
  CHECK(counted(0, "op") == "0 ops");
  CHECK(counted(uint64_t{12}, "gradient") == "12 gradients");
}

TEST_CASE("what a terminal would obey is spelled", "[spelling]") {
  CHECK(printableText("a\tb\nc") == "a\tb\nc");
  CHECK(printableName("a\tb\nc") == "a\\tb\\nc");
  CHECK(printableText("\x1b[31mred\r\x07\x7f") == "\\x1b[31mred\\x0d\\x07\\x7f");
  CHECK(printableText(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printableText("caf\u00e9 \u4e2d \U0001f600") == "caf\u00e9 \u4e2d \U0001f600");
  CHECK(printableText("\xc2\x9b"
                      "31m") == "\\u009b31m"); // CSI as one character
  CHECK(printableText("\x9b"
                      "31m") == "\\x9b"
                                "31m"); // and as one byte
  CHECK(printableText("\u202e\u2028\u2066") == "\\u202e\\u2028\\u2066");
  CHECK(printableText("\xc0\x9b\xed\xa0\x80\xe4\xb8") == "\\xc0\\x9b\\xed\\xa0\\x80\\xe4\\xb8"); // no UTF-8
  CHECK(printableName(printableName("\x1b\n")) == printableName("\x1b\n"));
  CHECK(printableJson("{\"a\x7f\": \"\xc2\x9b\"}\n") == "{\"a\\u007f\": \"\\u009b\"}\n");
}

TEST_CASE("options that stand behind no command are found", "[spelling]") {
  const auto all = [](const std::string &text) {
    std::vector<std::string> found;
    for (size_t from = 0; const auto option = nextBareOption(text, from); from = option->second)
      found.push_back(text.substr(option->first, option->second - option->first));
    return found;
  };
  using Found = std::vector<std::string>;
  CHECK(all("give one: --shape x=2,3, or opc run --input x=@file.npy") == Found{"--shape"});
  CHECK(all("raise --max-memory (--batch 2)") == Found{"--max-memory", "--batch"});
  CHECK(all("opc grad --explain NAME shows why; leave it out of --wrt") == Found{"--wrt"});
  CHECK(all("`opc sdk --cflags` and `opc sdk --ldflags`").empty());
  CHECK(all("a--b, a -- b, --").empty());
}
