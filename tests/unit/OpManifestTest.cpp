// Manifests of operators in Python: what is read, and what is refused before anything else happens.
// SPDX-License-Identifier: Apache-2.0
#include "OpManifest.h"
#include "Signatures.h"
#include "SizeFormula.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::python;

namespace {

const std::string kSignature = R"(
  input { name: "x" }
  input { name: "others" minimum: 2 }
  input { name: "bias" optional: true }
  output { name: "y" }
  attr { name: "alpha" type: "float" default_value { at_float: 0.25 } }
)";
const std::string kRest = R"(
  infer { like: "x" }
  gradient { op: "demo::f_grad" input { arg: "dy" of: "y" what: "dy" } output { arg: "dx" of: "x" } }
  code { module: "acts" qualified_name: "f" content_hash: "00" file: "acts.py" line: 7 }
)";

std::string manifest(const std::string &rest, const std::string &signature = kSignature,
                     const std::string &name = "demo::f") {
  return "version: 1\nop { name: \"" + name + "\"" + signature + rest + "}\n";
}

/// What is said of a manifest, "" when it is valid. It is always said with the code and where.
std::string said(const std::string &text) {
  const auto ops = manifestOps(text, "g.ops.pbtxt");
  if (ops) return "";
  CHECK(ops.status().id() == "OPC0920");
  CHECK(ops.status().code() == StatusCode::kInvalidGraph);
  CHECK(ops.status().message().find("g.ops.pbtxt") == 0);
  CHECK_FALSE(ops.status().help().empty());
  return ops.status().message();
}

bool says(const std::string &text, const std::string &part) {
  const std::string found = said(text);
  INFO(found);
  return found.find(part) != std::string::npos;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

} // namespace

TEST_CASE("a manifest's op is a definition as any", "[op_manifest]") {
  const auto ops = manifestOps(manifest(kRest), "g.ops.pbtxt");
  REQUIRE(ops);
  REQUIRE(ops->ops.size() == 1);
  REQUIRE(ops->grads.size() == 1);
  const user_op::OpDef &def = ops->ops[0];
  CHECK(def.name == "demo::f");
  REQUIRE(def.inputs.size() == 3);
  CHECK(def.inputs[2].name == "bias");
  REQUIRE(def.attrs.size() == 1);
  CHECK(def.attrs[0].type == kAtFloat);
  CHECK(def.kernels.size() == 1);
  CHECK(def.origin.file == "acts.py");
  CHECK(def.origin.line == 7);
  CHECK(def.said == user_op::Purity::kPure);
  CHECK(manifestOps("version: 1", "empty.ops.pbtxt"));
}

TEST_CASE("an elementwise op cuts its tensors by axes from the right", "[op_manifest][sbp]") {
  const auto ops = manifestOps(manifest(" elementwise: true infer { like: \"x\" } code { module: \"acts\" }",
                                        " input { name: \"x\" } input { name: \"y\" } output { name: \"z\" }"),
                               "g.ops.pbtxt");
  REQUIRE(ops);
  const auto signatures = [&](const Shape &x, const Shape &y, const Shape &z) {
    OpInstance op(ops->ops[0], {"op", "demo::f", {{"x", {"a/out"}}, {"y", {"b/out"}}}, {{"z", {"op/z_0"}}}, {}});
    op.inputDescs() = {user_op::TensorDesc(x, kFloat), user_op::TensorDesc(y, kFloat)};
    op.outputDescs() = {user_op::TensorDesc(z, kFloat)};
    const auto found = signaturesOf(op, 2);
    REQUIRE(found);
    std::vector<std::string> list;
    for (const SbpSignature &s : *found) list.push_back(signatureText(op, s));
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(signatures({4, 2}, {4, 2}, {4, 2}) ==
        List{"(S(0), S(0)) -> (S(0))", "(S(1), S(1)) -> (S(1))", "(B, B) -> (B)"});
  CHECK(signatures({4, 2}, {2}, {4, 2}) == List{"(S(0), B) -> (S(0))", "(S(1), S(0)) -> (S(1))", "(B, B) -> (B)"});
  CHECK(signatures({4, 1}, {1, 4}, {4, 4}) == List{"(S(0), B) -> (S(0))", "(B, S(1)) -> (S(1))", "(B, B) -> (B)"});
  CHECK(signatures({}, {4}, {4}) == List{"(B, S(0)) -> (S(0))", "(B, B) -> (B)"});
  CHECK(signatures({4, 2}, {4, 2}, {4, 1}) == List{"(S(0), S(0)) -> (S(0))", "(B, B) -> (B)"});
  CHECK(signatures({1}, {1}, {4}) == List{"(B, B) -> (B)"}); // nobody says what a piece of it is made of
}

TEST_CASE("a manifest that is cut off anywhere is refused or is whole", "[op_manifest]") {
  const std::string whole = manifest(kRest);
  size_t refused = 0;
  for (size_t n = 0; n < whole.size(); ++n) refused += !said(whole.substr(0, n)).empty();
  // What is cut after "version: 1" or before the last newline is a manifest; the rest is none.
  CHECK(refused >= whole.size() - 3);
}

TEST_CASE("what a manifest cannot say", "[op_manifest]") {
  const std::string good = manifest(kRest);
  CHECK(said(good).empty());
  CHECK(says(replaced(good, "version: 1", "version: 2"), "version 2, and this opc reads version 1"));
  CHECK(says(replaced(good, "version: 1", ""), "version 0"));
  CHECK(says(replaced(good, "like:", "unlike:"), "line 9"));
  for (const char *name : {"relu", "::relu", "demo::", "demo::a b", "1::x", "a::b::", "../a::b", ""})
    CHECK(says(manifest(kRest, kSignature, name), "no name of an operator in a namespace"));
  CHECK(said(manifest(kRest, kSignature, "a::b::c")).empty());
  CHECK(says(replaced(good, "\"bias\"", "\"x\""), "'x' is named twice"));
  CHECK(says(replaced(good, "\"alpha\"", "\"x\""), "'x' cannot name an attribute"));
  CHECK(says(replaced(good, "minimum: 2", "minimum: -2"), "negative minimum"));
  CHECK(says(replaced(good, "\"float\"", "\"map\""), "has the type 'map', which is none"));
  CHECK(says(replaced(good, "at_float: 0.25", "at_string: \"0.25\""), "the default of 'alpha' is no float"));
  CHECK(says(replaced(good, "like: \"x\"", "like: \"z\""), "no input 'z'"));
  CHECK(says(replaced(good, "of: \"y\"", "of: \"q\""), "reads 'dy' of 'q'"));
  CHECK(says(replaced(good, "of: \"x\"", "of: \"q\""), "no input 'q'"));
  CHECK(says(replaced(good, "infer {", "infer { like: \"x\" } infer {"), "2 shape rules for 1 outputs"));
  CHECK(says(manifest(kRest + " aux: \"z\""), "no input 'z'"));
  CHECK(says(manifest(kRest + " inplace { input: \"x\" output: \"x\" }"), "x -> x"));
  CHECK(says(replaced(good, "like: \"x\"", "like: \"x\" data_type: kOFRecord"), "element type is none of tensors"));
}

TEST_CASE("numbers of a manifest that no tensor has", "[op_manifest]") {
  const std::string python = "code { module: \"acts\" }";
  const auto record = [&](const std::string &input, const std::string &output) {
    return manifest("recorded { input {" + input + "} output {" + output + "} }" + python);
  };
  CHECK(said(record("dim: 2 data_type: kFloat", "dim: 3 data_type: kFloat")).empty());
  CHECK(says(record("dim: 2 data_type: kFloat", "dim: -3 data_type: kFloat"), "a size of -3"));
  CHECK(says(record("dim: 2 data_type: kFloat", "dim: 4611686018427387904 dim: 4 data_type: kFloat"), "too many"));
  CHECK(says(record("dim: 2 data_type: kFloat", "dim: 2"), "element type"));
  CHECK(says(record("dim: 2 data_type: kOFRecord", "dim: 2 data_type: kFloat"), "element type"));
  CHECK(says(manifest(kRest + "case { input { arg: \"x\" dim: -1 } }"), "a size of -1"));
  CHECK(says(manifest(kRest + "case { input { arg: \"q\" dim: 1 } }"), "no input 'q'"));
  CHECK(says(manifest(kRest + "case { input { arg: \"x\" dim: 1 index: -1 } }"), "index"));
  CHECK(says(manifest(kRest + "timeout_s: -1"), "timeout"));
  CHECK(says(manifest(kRest + "timeout_s: nan"), "timeout"));
}

TEST_CASE("gradient rules of ops that refer to each other", "[op_manifest]") {
  // The op `a` of the rule reads the gradient of y and one more tensor; the gradient of x is the output of `a`.
  const auto node = [](const std::string &tensor) {
    return "node { name: \"a\" op: \"multiply\" input { arg: \"x\" tensor: \"dy:y\" } input { arg: \"y\" tensor: \"" +
           tensor + "\" } } ";
  };
  const auto rule = [&](const std::string &nodes, const std::string &arg = "x", const std::string &tensor = "a:z") {
    return manifest("infer { like: \"x\" } gradient {" + nodes + "result { arg: \"" + arg + "\" tensor: \"" + tensor +
                    "\" } }");
  };
  CHECK(said(rule(node("x:x"))).empty());
  CHECK(said(rule(node("x:others:1"))).empty());
  // Itself; one that comes later, or never; no input; no index.
  for (const char *tensor : {"a:z", "b:z", "x:q", "x:x:-1", "x:x:99999999999", "x:x:1:2", "a", ":x", ""})
    CHECK(says(rule(node(tensor)), std::string("'") + tensor + "', which is neither of the op nor made before"));
  CHECK(says(rule(node("x:x"), "q"), "no input 'q'"));
  CHECK(says(rule(node("x:x"), "x", "b:z"), "'b:z'"));
  CHECK(says(rule(node("x:x") + node("x:x")), "'a' is named twice"));
}

TEST_CASE("manifests that are made to cost much", "[op_manifest]") {
  std::string deep = "case { input { arg: \"x\" } ";
  for (int i = 0; i < 100'000; ++i) deep += "attr { ";
  CHECK_FALSE(said(manifest(deep)).empty());
  std::string longName(1 << 20, 'a');
  CHECK(says(manifest(kRest, kSignature, "demo::" + longName), "no name of an operator"));
  // Many ops are many ops, in time that grows with them.
  std::string many = "version: 1\n";
  for (int i = 0; i < 2'000; ++i)
    many += "op { name: \"demo::f" + std::to_string(i) + "\"" + kSignature + "infer { like: \"x\" } }\n";
  const auto ops = manifestOps(many, "many.ops.pbtxt");
  REQUIRE(ops);
  CHECK(ops->ops.size() == 2'000);
}

TEST_CASE("formulas of sizes", "[op_manifest]") {
  FormulaNames names;
  names.size = [](const std::string &arg, int64_t axis) -> Result<int64_t> {
    if (arg == "x" && axis == 1) return int64_t{7};
    if (arg == "x" && axis == -1) return int64_t{9};
    return Status(StatusCode::kInvalidGraph, "OPC0203", "no " + arg);
  };
  names.attr = [](const std::string &name) -> Result<int64_t> {
    if (name == "n") return int64_t{3};
    return Status(StatusCode::kInvalidGraph, "OPC0920", "no " + name);
  };
  // The values are those of Python's operators + - * //.
  for (const auto &[text, value] : std::vector<std::pair<std::string, int64_t>>{{"5", 5},
                                                                                {"x[1]", 7},
                                                                                {"x[-1]", 9},
                                                                                {"(x[1] + 2 * n) / 4", 3},
                                                                                {"x[1]//2", 3},
                                                                                {"-7 / 2", -4},
                                                                                {"2 - 3 - 4", -5},
                                                                                {"- - 3", 3},
                                                                                {"8 / 2 / 2", 2},
                                                                                {"-(x[1]) * n", -21},
                                                                                {"9223372036854775807", INT64_MAX}}) {
    INFO(text);
    const auto found = evaluateFormula(text, names);
    REQUIRE(found);
    CHECK(*found == value);
  }
  const std::string nested = std::string(200, '(') + "1" + std::string(200, ')');
  for (const std::string &text :
       {std::string(""), std::string("1 +"), std::string("x[]"), std::string("x[1"), std::string("(1"),
        std::string("1)"), std::string("2 ** 3"), std::string("1 / 0"), std::string("n / -1"),
        std::string("9223372036854775808"), std::string("9223372036854775807 + 1"),
        std::string("4611686018427387904 * 2"), std::string("m"), std::string("z[0]"), nested,
        std::string(300, '-') + "1", std::string(10'000, ' ') + "1", std::string("x[99999999999999999999]")}) {
    INFO(text);
    CHECK_FALSE(evaluateFormula(text, names));
  }
}
