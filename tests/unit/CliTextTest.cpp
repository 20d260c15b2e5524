// What the command line prints: diagnostics, comparisons, help; and how it reads its arguments.
// SPDX-License-Identifier: Apache-2.0
#include "CommandLine.h"
#include "CommandWords.h"
#include "DiagnosticJson.h"
#include "DiagnosticText.h"
#include "ErrorCatalog.h"
#include "LargeNumbers.h"
#include "RunTimes.h"
#include "TensorCompare.h"
#include "TensorSpec.h"
#include "Terminal.h"
#include "TextParts.h"
#include "TextTable.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <limits>

using namespace opc;
using namespace opc::cli;

namespace {

HostTensor tensor(const std::string &spec) { return std::move(*makeTensor(*parseTensorSpec(spec), {})); }

Diagnostic shapeError() {
  Diagnostic d;
  d.code = "OPC0203";
  d.message = "matmul: inner dimensions differ (784 vs 512)";
  d.subject = "op fc1";
  d.range = {"mlp.pbtxt", 2, 3, 2, 19};
  d.operands = {{"a: relu0/out_0  f32[32,784]", "made by relu0", {"mlp.pbtxt", 1, 1, 1, 5}},
                {"b: fc1.w/out  f32[512,10]", "variable", {}}};
  d.help = "transpose_b: true would give f32[32,512]";
  d.notes = {"python: train.py:41"};
  return d;
}

struct Flags {
  bool json = false;
  int verbose = 0;
  std::string out;
  std::optional<std::string> limit;
  std::vector<std::string> inputs;
  std::string stats;
  CommandSpec spec() {
    CommandSpec s;
    s.name = "run";
    s.arguments = "GRAPH";
    s.options = {{"--json", 0, "", "", &json},
                 {"--verbose", 'v', "", "", Repetitions{&verbose}},
                 {"--output", 'o', "FILE", "", &out},
                 {"--limit", 0, "N", "", &limit},
                 {"--input", 0, "NAME=SPEC", "a value", &inputs, true},
                 {"--stats", 0, "[=json]", "", &stats}};
    s.maxArguments = 2;
    return s;
  }
};

} // namespace

TEST_CASE("a diagnostic shows its line, caret, operands and way out", "[cli][text]") {
  const SourceText source{"mlp.pbtxt", "op { name: \"relu0\" }\n  op { name: \"fc1\" user_conf {\n}\n"};
  CHECK(diagnosticText(shapeError(), source, {false, 80}) ==
        "error[OPC0203]: matmul: inner dimensions differ (784 vs 512)\n"
        "  --> mlp.pbtxt:2:3\n"
        "  |\n"
        "2 |   op { name: \"fc1\" user_conf {\n"
        "  |   ^^^^^^^^^^^^^^^^ op fc1\n"
        "   = a: relu0/out_0  f32[32,784]   made by relu0  mlp.pbtxt:1:1\n"
        "   = b: fc1.w/out  f32[512,10]     variable\n"
        "help: transpose_b: true would give f32[32,512]\n"
        "note: python: train.py:41\n"
        "more: opc explain OPC0203\n");
}

TEST_CASE("long and hostile lines stay within the terminal", "[cli][text]") {
  Diagnostic d = shapeError();
  d.range = {"g", 1, 5001, 1, 5004};
  d.operands.clear();
  const SourceText source{"g", std::string(5000, 'a') + "bad" + std::string(5000, 'c')};
  for (int width : {20, 80, 200}) {
    const std::string text = diagnosticText(d, source, {false, width});
    CHECK(text.find("bad") != std::string::npos);
    CHECK(text.find("^^^ op fc1") != std::string::npos);
    CHECK(text.find(std::string(static_cast<size_t>(width) + 10, 'a')) == std::string::npos);
  }
  d.range = {"g", 1, 3, 1, 4};
  const std::string text = diagnosticText(d, {"g", "\x1b[2J\t\xff\xc3\xa4"}, {false, 80});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\xc3\xa4") != std::string::npos);
  d.range = {"g", 9, 1, 9, 2}; // a line that the file does not have
  CHECK(diagnosticText(d, {"g", "one line"}, {false, 80}).find("g:9:1") != std::string::npos);
}

TEST_CASE("errors are counted, and a code is explained once", "[cli][text]") {
  const std::string text = diagnosticsText({shapeError(), shapeError()}, 7, {"mlp.pbtxt", ""}, {false, 80});
  CHECK(text.find("7 errors in mlp.pbtxt; the first 2 are shown\n") != std::string::npos);
  CHECK(text.find("more:") == text.rfind("more:"));
  CHECK(diagnosticsText({shapeError()}, 1, {"mlp.pbtxt", ""}, {false, 80}).find("1 error in mlp.pbtxt\n") !=
        std::string::npos);
  Diagnostic asked;
  asked.code = "OPC0502", asked.message = "--loss lost: none", asked.isOfRequest = true;
  CHECK(diagnosticsText({asked}, 1, {"mlp.pbtxt", ""}, {false, 80}) ==
        "error[OPC0502]: --loss lost: none\nmore: opc explain OPC0502\n\n1 error\n");
  CHECK(diagnosticsText({asked, shapeError()}, 2, {"mlp.pbtxt", ""}, {false, 80}).find("2 errors in mlp.pbtxt\n") !=
        std::string::npos);
  CHECK(diagnosticText(shapeError(), {}, {true, 80}).find("\x1b[1;31merror[OPC0203]:") == 0);
  const std::string json = failureJson({shapeError()}, 1, 3);
  CHECK(json.find("\"code\": \"OPC0203\"") != std::string::npos);
  CHECK(json.find("\"line\": 2") != std::string::npos);
}

TEST_CASE("colour follows flag, environment and terminal, in this order", "[cli][terminal]") {
  unsetenv("NO_COLOR"), unsetenv("FORCE_COLOR"), setenv("TERM", "xterm", 1);
  CHECK(wantsColor(ColorMode::kAuto, true));
  CHECK_FALSE(wantsColor(ColorMode::kAuto, false));
  setenv("TERM", "dumb", 1);
  CHECK_FALSE(wantsColor(ColorMode::kAuto, true));
  setenv("FORCE_COLOR", "1", 1);
  CHECK(wantsColor(ColorMode::kAuto, false));
  setenv("NO_COLOR", "", 1); // empty is unset
  CHECK(wantsColor(ColorMode::kAuto, false));
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(wantsColor(ColorMode::kAuto, true));
  CHECK(wantsColor(ColorMode::kAlways, false));
  unsetenv("NO_COLOR"), unsetenv("FORCE_COLOR");
  setenv("COLUMNS", "5", 1);
  CHECK(terminalWidth() == 20);
  setenv("COLUMNS", "x", 1);
  CHECK(terminalWidth() >= 20);
  unsetenv("COLUMNS");
}

TEST_CASE("comparison finds what differs and what would pass", "[cli][compare]") {
  const HostTensor e = tensor("f32[2,2]:1,2,0,100"), a = tensor("f32[2,2]:1,2.1,0.01,100");
  const Comparison c = compareTensors(a, e, {0.01, 0.001}, false);
  CHECK(c.mismatches == 2);
  CHECK(indexText(a.shape(), c.worst) == "[0, 1]");
  CHECK(c.maxAbs == Approx(0.1));
  CHECK_FALSE(c.passingRtol); // 0 is expected where 0.01 was found
  REQUIRE(c.passingAtol);
  CHECK(compareTensors(a, e, {0.01, *c.passingAtol}, false).passed());
  const std::string text = mismatchText("y", a, e, c, {0.01, 0.001});
  CHECK(text.find("2 of 4 values differ (50 %)") != std::string::npos);
  CHECK(text.find("got 2.1, expected 2") != std::string::npos);
  CHECK(text.find("--atol y:") != std::string::npos);

  const HostTensor n = tensor("f32[2]:nan,inf");
  CHECK(compareTensors(n, n, {0, 0}, false).mismatches == 1);
  CHECK(compareTensors(n, n, {0, 0}, true).passed());
  CHECK(compareTensors(tensor("f32[1]:-inf"), tensor("f32[1]:inf"), {1, 1e30}, true).mismatches == 1);
  CHECK(
      compareTensors(tensor("i64[1]:9007199254740993"), tensor("i64[1]:9007199254740992"), {0, 0}, false).mismatches ==
      1);
  CHECK(compareTensors(tensor("f32[0]:0"), tensor("f32[0]:0"), {0, 0}, false).passed());
  // No bound, and yet 0 times it is nothing.
  const Tolerance none{std::numeric_limits<double>::infinity(), 0.5};
  CHECK(compareTensors(tensor("f32[3]:0,7,0"), tensor("f32[3]:0,1,0.25"), none, false).passed());
  const Comparison zero = compareTensors(tensor("f32[3]:0,7,1"), tensor("f32[3]:0,1,0"), none, false);
  CHECK(zero.mismatches == 1);
  CHECK(zero.worst == 2);
  CHECK(zero.passingAtol.value_or(0) == 1);
  CHECK(defaultTolerance(kFloat).rtol == 1.3e-6);
  CHECK(defaultTolerance(kInt32).atol == 0);
}

TEST_CASE("arguments", "[cli][arguments]") {
  Flags f;
  auto parsed = parseArguments(f.spec(), {},
                               {"--json", "-vv", "-o", "-", "--input", "a=[1]:x,y=", "--input=-b=--c", "g.pbtxt",
                                "--stats=json", "--", "--odd"});
  INFO(parsed.status().toString());
  REQUIRE(parsed);
  CHECK(f.json);
  CHECK(f.verbose == 2);
  CHECK(f.out == "-");
  CHECK(f.inputs == std::vector<std::string>{"a=[1]:x,y=", "-b=--c"});
  CHECK(f.stats == "json");
  CHECK(parsed->positional == std::vector<std::string>{"g.pbtxt", "--odd"});

  Flags g;
  CHECK(parseArguments(g.spec(), {}, {"--stats", "g.pbtxt"})->positional.size() == 1); // the value is joined or absent
  CHECK(g.stats == "true");
  CHECK(parseArguments(g.spec(), {}, {"-h", "--nonsense"})->shortHelp);
  CHECK(parseArguments(g.spec(), {}, {"-"})->positional == std::vector<std::string>{"-"});
  auto message = [&](const std::vector<std::string> &args) {
    return parseArguments(Flags().spec(), {}, args).status().toString();
  };
  CHECK(message({"--inptu", "x"}).find("did you mean --input?") != std::string::npos);
  CHECK(message({"--inp", "x"}).find("unknown option '--inp'") != std::string::npos); // no abbreviations
  CHECK(message({"--limit", "1", "--limit", "2"}).find("2 times") != std::string::npos);
  CHECK(message({"--limit"}).find("needs a value") != std::string::npos);
  CHECK(message({"a", "b", "c"}).find("too many arguments") != std::string::npos);
  CHECK(message({"--json=1"}).find("--json takes no value, and '--json=1' gives one") != std::string::npos);
  CHECK(message({"--input", "--json=1", "g"}) == "ok"); // the value of another option
}

TEST_CASE("options, their values and arguments are told apart", "[cli][arguments]") {
  const std::vector<Option> options = Flags().spec().options;
  const auto kinds = [&](const std::vector<std::string> &args) {
    std::string text;
    for (const Word &w : wordsOf(options, args)) {
      text += w.kind == Word::Kind::kOption       ? "option"
              : w.kind == Word::Kind::kValue      ? "value"
              : w.kind == Word::Kind::kPositional ? "argument"
                                                  : "end";
      for (const Option *o : w.options) text += " " + o->shown();
      text += ";";
    }
    return text;
  };
  CHECK(kinds({"-vo", "-v", "g", "-oout", "--input", "--json", "--input=a", "--stats", "g"}) ==
        "option --verbose --output;value;argument;option --output;option --input;value;option --input;option --stats;"
        "argument;");
  CHECK(kinds({"-x", "-vx", "-", "--no-such", "--", "-v", "--"}) ==
        "option;option --verbose;argument;option;end;argument;argument;");
  const auto without = [&](const std::vector<std::string> &args) {
    return joined(withoutOption(options, args, "--output"), " ");
  };
  CHECK(without({"-o", "a", "run", "-vo", "b", "-vvoc", "-od", "--output", "e", "--output=f", "g"}) == "run -v -vv g");
  CHECK(without({"--input", "-o", "g", "--", "-o", "h"}) == "--input -o g -- -o h");
  CHECK(without({"g", "-o"}) == "g");
  CHECK(firstPositional(options, {"-vo", "a", "run", "b"}) == 2);
}

TEST_CASE("help fits the terminal", "[cli][arguments]") {
  Flags f;
  for (int width : {20, 80})
    for (const bool full : {false, true})
      CHECK(helpText(f.spec(), {}, full, width).find("--input NAME=SPEC") != std::string::npos);
  CHECK(wrapText("aaa bbb ccc", 2, 12) == "  aaa bbb\n  ccc\n");
  CHECK(shellQuoted("f32[2]:1,2") == "'f32[2]:1,2'");
  CHECK(shellQuoted("it's") == "'it'\\''s'");
  CHECK(shellQuoted("g.pbtxt") == "g.pbtxt");
}

TEST_CASE("the catalogue has a title and a text for each code", "[cli][explain]") {
  const auto topics = allTopics();
  REQUIRE(topics.size() > 80);
  for (const ErrorTopic &t : topics) {
    INFO(t.name);
    CHECK_FALSE(t.title.empty());
    CHECK(t.body.size() > 20);
  }
  CHECK(topics[0].name == "exit-codes");
}

TEST_CASE("numbers that no integer type has are written all the same", "[cli][text]") {
  CHECK(wholeJson(1234.4).dump() == "1234");
  CHECK(wholeJson(1e19).dump() == "10000000000000000000"); // above i64, within u64
  CHECK(Json::parse(wholeJson(1e20).dump()).get<double>() == 1e20);
  CHECK(Json::parse(wholeJson(1.5e300).dump()).get<double>() == 1.5e300);
  CHECK(wholeText(1234567) == "1,234,567");
  CHECK(wholeText(1.2346e20) == "1.235e20");
  CHECK(largeBytesText(1536) == "1.5 KiB");
  CHECK(largeBytesText(std::ldexp(3.0, 70)) == "3072 EiB");
}

TEST_CASE("tables lose the ends of their widest cells and no more than a width asks", "[cli][text]") {
  const std::vector<std::vector<std::string>> rows = {
      {"OP", "WHAT"}, {"a_rather_long_name", "x"}, {"b", "twelve words"}};
  CHECK(textTable(rows) == "OP                  WHAT\na_rather_long_name  x\nb                   twelve words\n");
  CHECK(textTable(rows, 80) == textTable(rows));
  CHECK(textTable(rows, 24) == "OP           WHAT\na_rather...  x\nb            twelve w...\n");
  CHECK(textTable({{"\u00fc\u00fc", "x"}, {"abc", "y"}}) == "\u00fc\u00fc   x\nabc  y\n");
  CHECK(textTable({{"\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"}}, 8) ==
        "\u00fc\u00fc\u00fc\u00fc\u00fc...\n");
  for (size_t width : {1, 5, 20})
    for (const std::string &line :
         splitAt(textTable({{"abcdef", "ghijkl", "mnopqr", "stuvwx", "yz0123"}}, width), '\n'))
      CHECK(line.size() <= width);
}

TEST_CASE("percentiles are by nearest rank", "[cli][text]") {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  CHECK(percentileOf(ten, 50) == 5);
  CHECK(percentileOf(ten, 90) == 9);
  CHECK(percentileOf(ten, 99) == 10);
  CHECK(percentileOf(ten, 0) == 1);
  CHECK(percentileOf(ten, 100) == 10);
  CHECK(percentileOf({7}, 50) == 7);
  CHECK(percentileOf({}, 50) == 0);
  CHECK(runTimesText({0.002, 0.001}) ==
        "2 runs: p50 1.00 ms, p90 2.00 ms, p99 2.00 ms, fastest 1.00 ms, slowest 2.00 ms");
  CHECK(runTimesText({}) == "0 runs");
}
