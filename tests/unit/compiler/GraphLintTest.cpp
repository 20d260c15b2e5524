// What is doubtful in a graph by itself: dead ops, unused inputs, gradients that are missing, hazards of numbers.
// SPDX-License-Identifier: Apache-2.0
#include "GraphLint.h"
#include "Rules.h"

#include <catch2/catch.hpp>

using namespace opc;

namespace {

GraphTensor tensor(const std::string &name, const std::string &value, DataType type, Shape shape) {
  GraphTensor t;
  t.name = name;
  t.tensor = value;
  t.dtype = type;
  t.shape = std::move(shape);
  return t;
}

GraphOp op(const std::string &name, const std::string &type, const std::string &in, DataType dtype, Shape shape) {
  GraphOp o;
  o.name = name;
  o.type = type;
  o.inputs = {{{"x", 0}, in}};
  o.outputs = {tensor("y_0", name + "/y_0", dtype, std::move(shape))};
  return o;
}

std::vector<std::pair<std::string, std::string>> found(const GraphFacts &facts) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const GraphFinding &f : lintGraph(facts)) {
    CHECK(f.severity == Severity::kWarning);
    CHECK(findRule(f.rule));
    CHECK_FALSE(f.help.empty());
    list.push_back({f.rule, f.op});
  }
  return list;
}

using Found = std::vector<std::pair<std::string, std::string>>;

} // namespace

TEST_CASE("What no output depends on is dead, unless it runs", "[lock][lint]") {
  GraphFacts f;
  f.inputs = {tensor("x", "x/out", kFloat, {4}), tensor("unused", "unused/out", kFloat, {4})};
  f.variables = {tensor("w", "w/out", kFloat, {4})};
  f.ops = {op("a", "relu", "x/out", kFloat, {4}), op("b", "relu", "a/y_0", kFloat, {4}),
           op("c", "relu", "b/y_0", kFloat, {4}), op("d", "relu", "w/out", kFloat, {4})};
  f.outputs = {tensor("y", "a/y_0", kFloat, {4})};
  f.tasks = {{"a", "k", 0}, {"d", "k", 0}}; // d has an effect: the compiler kept it
  CHECK(found(f) == Found{{"DEAD_OP", "b"}, {"DEAD_OP", "c"}, {"UNUSED_INPUT", "unused"}});
}

TEST_CASE("A backward op is dead where no gradient, update or output needs it", "[lock][lint]") {
  GraphFacts f;
  f.inputs = {tensor("x", "x/out", kFloat, {4})};
  f.ops = {op("gradient", "relu", "x/out", kFloat, {4}), op("lost", "relu", "x/out", kFloat, {4}),
           op("needed", "relu", "x/out", kFloat, {4}), op("update", "relu", "needed/y_0", kFloat, {4}),
           op("y", "relu", "x/out", kFloat, {4})};
  for (GraphOp &o : f.ops) o.role = o.name == "y" ? "forward" : o.name == "update" ? "optimizer" : "backward";
  f.outputs = {tensor("y", "y/y_0", kFloat, {4})};
  GraphGradient g;
  g.name = "x", g.gradient = "gradient/y_0";
  f.gradients = {g};
  CHECK(found(f) == Found{{"DEAD_OP", "lost"}});
}

TEST_CASE("A variable without a gradient is named", "[lock][lint]") {
  GraphFacts f;
  GraphGradient with, without;
  with.name = "w1", with.gradient = "g/out";
  without.name = "w2";
  f.gradients = {with, without};
  CHECK(found(f) == Found{{"GRAD_MISSING", "w2"}});
}

TEST_CASE("The logarithm of a softmax or sigmoid, and sums beyond the type", "[lock][lint]") {
  GraphFacts f;
  f.inputs = {tensor("x", "x/out", kFloat, {4, 9}), tensor("h", "h/out", kFloat16, {2, 65505}),
              tensor("s", "s/out", kFloat16, {2, 65504}), tensor("b", "b/out", kBFloat16, {2, 1 << 20})};
  f.ops = {op("p", "softmax", "x/out", kFloat, {4, 9}),       op("l", "log", "p/y_0", kFloat, {4, 9}),
           op("fine", "log", "x/out", kFloat, {4, 9}),        op("large", "reduce_sum", "h/out", kFloat16, {2}),
           op("small", "reduce_sum", "s/out", kFloat16, {2}), op("wide", "reduce_sum", "b/out", kBFloat16, {2}),
           op("c", "cast", "p/y_0", kDouble, {4, 9}),         op("r", "reshape", "c/y_0", kDouble, {36}),
           op("behind", "log2", "r/y_0", kDouble, {36}),      op("g", "sigmoid", "x/out", kFloat, {4, 9}),
           op("g2", "log", "g/y_0", kFloat, {4, 9}),          op("e", "exp", "p/y_0", kFloat, {4, 9}),
           op("other", "log", "e/y_0", kFloat, {4, 9})};
  for (const GraphOp &o : f.ops) f.outputs.push_back(tensor(o.name, o.name + "/y_0", kFloat, {}));
  CHECK(found(f) == Found{{"NUMERIC_HAZARD", "l"},
                          {"NUMERIC_HAZARD", "large"},
                          {"NUMERIC_HAZARD", "behind"},
                          {"NUMERIC_HAZARD", "g2"}});
}
