// Which op of one graph is which of another, and what is said of the differences.
// SPDX-License-Identifier: Apache-2.0
#include "GraphComparison.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <random>

namespace opc {
namespace {

/// Facts that are put together by hand.
struct Builder {
  GraphFacts facts;
  uint32_t line = 0;

  static GraphTensor tensor(const std::string &name, const std::string &value, Shape shape) {
    GraphTensor t;
    t.name = name;
    t.tensor = value;
    t.dtype = kFloat;
    t.shape = std::move(shape);
    return t;
  }
  SourceRange next() { return {"g.pbtxt", ++line, 1, line, 9}; }
  std::string input(const std::string &name, Shape shape = {4, 4}) {
    facts.inputs.push_back(tensor(name, name + "/out", shape));
    facts.inputs.back().range = next();
    return name + "/out";
  }
  std::string variable(const std::string &name, Shape shape = {4, 4}) {
    facts.variables.push_back(tensor(name, name + "/out", shape));
    facts.variables.back().range = next();
    facts.variables.back().trainable = true;
    return name + "/out";
  }
  std::string op(const std::string &name, const std::string &type, const std::vector<std::string> &inputs,
                 std::map<std::string, AttrValue> attrs = {}) {
    GraphOp op;
    op.name = name;
    op.type = type;
    op.attrs = std::move(attrs);
    op.range = next();
    for (size_t i = 0; i < inputs.size(); ++i) op.inputs.push_back({{"x", static_cast<int32_t>(i)}, inputs[i]});
    op.outputs = {tensor("y_0", name + "/y_0", {4, 4})};
    facts.ops.push_back(std::move(op));
    return name + "/y_0";
  }
  void output(const std::string &name, const std::string &value) {
    facts.outputs.push_back(tensor(name, value, {4, 4}));
    facts.outputs.back().range = next();
  }
};

/// Three layers: product with a variable, then relu. `prefix` is put before every name of an op.
Builder layers(const std::string &prefix, int count = 3) {
  Builder b;
  std::string x = b.input("x");
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    x = b.op(prefix + "fc" + n, "matmul", {x, b.variable("w" + n)}, {{"transpose_b", AttrValue(false)}});
    x = b.op(prefix + "act" + n, "relu", {x});
  }
  b.output("y", x);
  return b;
}

std::vector<std::string> rulesOf(const GraphDifference &d) {
  std::vector<std::string> rules;
  for (const GraphFinding &f : d.findings) rules.push_back(f.rule + " " + (f.tensor.empty() ? f.op : f.tensor));
  return rules;
}
using Rules = std::vector<std::string>;

} // namespace

TEST_CASE("a graph does not differ from itself", "[diff]") {
  const Builder a = layers("");
  const GraphDifference d = compareGraphs(a.facts, a.facts);
  CHECK(rulesOf(d) == Rules{});
  CHECK(d.paired == 11);
  CHECK(d.renamed == 0);
  CHECK(d.reordered == 0);
  CHECK(d.quality == 1);
}

TEST_CASE("an attribute that is not a number equals itself", "[diff]") {
  Builder a;
  a.output("y", a.op("pad", "pad", {a.input("x")}, {{"value", AttrValue(std::nanf(""))}}));
  CHECK(rulesOf(compareGraphs(a.facts, a.facts)) == Rules{});
}

TEST_CASE("renamed ops are no others", "[diff]") {
  const GraphDifference d = compareGraphs(layers("").facts, layers("model/").facts);
  CHECK(rulesOf(d) == Rules{"OP_RENAMED model/fc0", "OP_RENAMED model/act0", "OP_RENAMED model/fc1",
                            "OP_RENAMED model/act1", "OP_RENAMED model/fc2", "OP_RENAMED model/act2"});
  CHECK(d.renamed == 6);
  CHECK(d.findings[0].severity == Severity::kNote);
  CHECK(d.findings[0].message == "renamed from fc0");
}

TEST_CASE("names that are numbered anew name other ops", "[diff]") {
  // A layer more at the beginning: act0 is act1 now, and act1 is act2.
  Builder a, b;
  a.output("y", a.op("act1", "relu", {a.op("t", "tanh", {a.op("act0", "relu", {a.input("x")})})}));
  b.output("y",
           b.op("act2", "relu", {b.op("t", "tanh", {b.op("act1", "relu", {b.op("act0", "exp", {b.input("x")})})})}));
  const GraphDifference d = compareGraphs(a.facts, b.facts);
  Rules rules = rulesOf(d);
  std::sort(rules.begin(), rules.end());
  CHECK(rules == Rules{"EDGE_CHANGED act1", "OP_ADDED act0", "OP_RENAMED act1", "OP_RENAMED act2"});
}

TEST_CASE("an attribute, an edge and a type are found where they changed", "[diff]") {
  const Builder a = layers("");
  SECTION("attribute") {
    Builder b = layers("");
    b.facts.ops[2].attrs["transpose_b"] = AttrValue(true);
    const GraphDifference d = compareGraphs(a.facts, b.facts);
    REQUIRE(rulesOf(d) == Rules{"OP_ATTR_CHANGED fc1"});
    CHECK(d.findings[0].message == "attr transpose_b: false -> true");
    CHECK(d.findings[0].expected == "false");
    CHECK(d.findings[0].found == "true");
    CHECK(d.findings[0].range.line == b.facts.ops[2].range.line);
  }
  SECTION("the same with every op renamed") {
    Builder b = layers("n_");
    b.facts.ops[2].attrs["transpose_b"] = AttrValue(true);
    Rules rules = rulesOf(compareGraphs(a.facts, b.facts));
    std::erase_if(rules, [](const std::string &r) { return r.rfind("OP_RENAMED", 0) == 0; });
    CHECK(rules == Rules{"OP_ATTR_CHANGED n_fc1"});
  }
  SECTION("an attribute of another kind that reads alike") {
    Builder x, y;
    x.output("y", x.op("o", "full", {}, {{"n", AttrValue(int32_t{3})}}));
    y.output("y", y.op("o", "full", {}, {{"n", AttrValue(int64_t{3})}}));
    const GraphDifference d = compareGraphs(x.facts, y.facts);
    REQUIRE(rulesOf(d) == Rules{"OP_ATTR_CHANGED o"});
    CHECK(d.findings[0].message == "attr n: kAtInt32 3 -> kAtInt64 3");
  }
  SECTION("edge: two variables change places") {
    Builder b = layers("");
    std::swap(b.facts.ops[0].inputs[1].tensor, b.facts.ops[2].inputs[1].tensor);
    CHECK(rulesOf(compareGraphs(a.facts, b.facts)) == Rules{"EDGE_CHANGED fc0", "EDGE_CHANGED fc1"});
  }
  SECTION("type of an op") {
    Builder b = layers("");
    b.facts.ops[3].type = "tanh";
    CHECK(rulesOf(compareGraphs(a.facts, b.facts)) == Rules{"OP_TYPE_CHANGED act1"});
  }
  SECTION("type of a tensor") {
    Builder b = layers("");
    b.facts.ops[3].outputs[0].shape = {8, 4};
    const GraphDifference d = compareGraphs(a.facts, b.facts);
    REQUIRE(rulesOf(d) == Rules{"TENSOR_TYPE_CHANGED act1/y_0"});
    CHECK(d.findings[0].message == "type f32[4,4] -> f32[8,4]");
  }
}

TEST_CASE("ops that come and go", "[diff]") {
  const Builder a = layers("");
  Builder b;
  std::string x = b.input("x");
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    x = b.op("fc" + n, "matmul", {x, b.variable("w" + n)}, {{"transpose_b", AttrValue(false)}});
    if (i == 1) x = b.op("t2", "transpose", {b.op("t1", "transpose", {x})});
    x = b.op("act" + n, "relu", {x});
  }
  b.output("y", x);
  const GraphDifference d = compareGraphs(a.facts, b.facts);
  CHECK(rulesOf(d) == Rules{"OP_ADDED t1", "OP_ADDED t2", "EDGE_CHANGED act1"});
  CHECK(d.findings[0].message == "added: transpose f32[4,4] -> f32[4,4]");
  const GraphDifference back = compareGraphs(b.facts, a.facts);
  CHECK(rulesOf(back) == Rules{"EDGE_CHANGED act1", "OP_REMOVED t1", "OP_REMOVED t2"});
  // What is gone stands in the older file.
  CHECK(back.findings[1].range.line == b.facts.ops[3].range.line);
}

TEST_CASE("values are bound to ports by name, so a port is its name", "[diff]") {
  Builder a, b;
  const std::string ax = a.input("x"), ay = a.input("y");
  a.output("z", a.op("s", "sub", {ax, ay}));
  const std::string by = b.input("y"), bx = b.input("x");
  b.output("z", b.op("s", "sub", {by, bx}));
  CHECK(rulesOf(compareGraphs(a.facts, b.facts)) == Rules{"IO_ORDER_CHANGED y", "EDGE_CHANGED s", "EDGE_CHANGED s"});

  Builder c;
  const std::string cx = c.input("left", {4, 5}), cy = c.input("y");
  c.output("z", c.op("s", "sub", {cx, cy}));
  const GraphDifference d = compareGraphs(a.facts, c.facts);
  REQUIRE(rulesOf(d) == Rules{"INPUT_REMOVED left", "INPUT_TYPE_CHANGED left"});
  CHECK(d.findings[0].expected == "x");
  CHECK(d.findings[0].found == "left");
}

TEST_CASE("towers that are equal to one another stay together", "[diff]") {
  // Eight equal towers of ten ops on one input, summed in pairs; ops in another order and with other names.
  const auto build = [](const std::string &prefix, bool backwards) {
    Builder b;
    const std::string x = b.input("x");
    std::vector<std::string> tops;
    for (int t = 0; t < 8; ++t) {
      const int id = backwards ? 7 - t : t;
      std::string v = x;
      for (int i = 0; i < 10; ++i) v = b.op(prefix + std::to_string(id) + "_" + std::to_string(i), "relu", {v});
      tops.push_back(v);
    }
    for (int t = 0; t < 8; t += 2)
      b.output("y" + std::to_string(t), b.op(prefix + "sum" + std::to_string(t), "add",
                                             {tops[static_cast<size_t>(t)], tops[static_cast<size_t>(t) + 1]}));
    return b;
  };
  const GraphDifference d = compareGraphs(build("a", false).facts, build("b", true).facts);
  for (const GraphFinding &f : d.findings) CHECK(f.rule == "OP_RENAMED");
  CHECK(d.renamed == 84);
}

TEST_CASE("five thousand ops, renamed and in another order", "[diff]") {
  std::mt19937 random(7);
  const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  Builder a;
  std::vector<std::string> values = {a.input("x"), a.variable("w")};
  const char *const kTypes[] = {"relu", "tanh", "add", "mul", "matmul"};
  for (int i = 0; i < 5000; ++i) {
    const size_t type = pick(5);
    std::vector<std::string> inputs = {values[values.size() - 1 - pick(std::min<size_t>(values.size(), 40))]};
    if (type > 1) inputs.push_back(values[pick(values.size())]);
    values.push_back(a.op("op" + std::to_string(i), kTypes[type], inputs));
  }
  a.output("y", values.back());

  // Renamed, and in another order in which makers come first.
  Builder b = a;
  std::vector<uint32_t> lines(a.line + 1);
  std::iota(lines.begin(), lines.end(), 0);
  std::shuffle(lines.begin() + 1, lines.end(), random);
  const auto renamed = [](const std::string &tensor) {
    return tensor.rfind("op", 0) == 0 ? "n" + tensor.substr(2) : tensor;
  };
  for (GraphOp &op : b.facts.ops) {
    op.name = renamed(op.name);
    op.range.line = lines[op.range.line];
    op.outputs[0].tensor = renamed(op.outputs[0].tensor);
    for (auto &in : op.inputs) in.tensor = renamed(in.tensor);
  }
  b.facts.outputs[0].tensor = renamed(b.facts.outputs[0].tensor);
  std::vector<GraphOp> sorted;
  std::vector<bool> placed(b.facts.ops.size());
  std::map<std::string, bool> made = {{"x/out", true}, {"w/out", true}};
  std::vector<size_t> order(placed.size());
  std::iota(order.begin(), order.end(), size_t{0});
  while (sorted.size() < b.facts.ops.size()) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const GraphOp &op = b.facts.ops[i];
      if (placed[i] ||
          !std::all_of(op.inputs.begin(), op.inputs.end(), [&](const auto &in) { return made.count(in.tensor); }))
        continue;
      placed[i] = true;
      made[op.outputs[0].tensor] = true;
      sorted.push_back(op);
    }
  }
  b.facts.ops = std::move(sorted);

  const GraphDifference d = compareGraphs(a.facts, b.facts);
  CHECK(
      std::all_of(d.findings.begin(), d.findings.end(), [](const GraphFinding &f) { return f.rule == "OP_RENAMED"; }));
  CHECK(d.renamed == 5000);
  CHECK(d.reordered > 4500);
  CHECK(d.quality == 1);
}

TEST_CASE("costs have their directions", "[diff]") {
  GraphFacts a = layers("").facts, b = a;
  a.costs.peakBytes = 1000;
  b.costs.peakBytes = 1020;
  a.costs.flops = 3e6;
  b.costs.flops = 2e6;
  GraphDifference d = compareGraphs(a, b);
  REQUIRE(rulesOf(d) == Rules{"PEAK_MEMORY_GREW ", "FLOPS_GREW "});
  CHECK(d.findings[0].severity == Severity::kError);
  CHECK(d.findings[0].message == "peak memory 1,000 -> 1,020 bytes (+2 %)");
  CHECK(d.findings[1].severity == Severity::kNote);
  CHECK(d.findings[1].message == "operations 3,000,000 -> 2,000,000 flops (-33.3 %)");
  ComparisonOptions options;
  options.peakTolerance = 0.02;
  CHECK(compareGraphs(a, b, options).findings[0].severity == Severity::kNote);
  options.cost = false;
  CHECK(compareGraphs(a, b, options).findings.empty());
}

} // namespace opc
