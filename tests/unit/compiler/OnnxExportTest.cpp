// Graphs as ONNX models: names, constants, what is refused, the same bytes each time.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxExport.h"
#include "Pipeline.h"
#include "TestRegistry.h"

#include "onnx.pb.h"

#include <catch2/catch.hpp>

#include <set>

using namespace opc;
using opc::test::registry;

namespace {

std::string input(const std::string &name, const std::string &type = "kFloat") {
  return "op { name: '" + name + "' input_conf { out: 'out' blob_conf { shape { dim: 3 } data_type: " + type +
         " } } }\n";
}

std::string unary(const std::string &name, const std::string &type, const std::string &x) {
  return "op { name: '" + name + "' user_conf { op_type_name: '" + type + "' input { key: 'x' value { s: '" + x +
         "' } } output { key: 'y' value { s: '" + name + "/y_0' } } } }\n";
}

std::string output(const std::string &name, const std::string &tensor) {
  return "op { name: '" + name + "' output_conf { in: '" + tensor + "' out: 'out' } }\n";
}

GraphFacts factsOf(const std::string &text) {
  Pipeline pipeline(registry(), {});
  REQUIRE(pipeline.import("g.pbtxt", text));
  REQUIRE(pipeline.run(Phase::kGrad));
  return pipeline.facts();
}

onnx::Model modelOf(const ExportedModel &exported) {
  onnx::Model model;
  REQUIRE(exported.refused.empty());
  REQUIRE(model.ParseFromString(exported.bytes));
  return model;
}

onnx::Model modelOf(const std::string &text) {
  ExportRequest request;
  request.name = "g";
  return modelOf(exportModel(factsOf(text), registry(), request));
}

/// Every name is made once, before it is read.
void checkNames(const onnx::Model &model) {
  std::set<std::string> known;
  for (const auto &v : model.graph().input()) CHECK(known.insert(v.name()).second);
  for (const auto &t : model.graph().initializer()) CHECK(known.insert(t.name()).second);
  for (const auto &n : model.graph().node()) {
    for (const std::string &x : n.input()) CHECK((x.empty() || known.count(x)));
    for (const std::string &y : n.output()) CHECK((y.empty() || known.insert(y).second));
  }
  for (const auto &v : model.graph().output()) CHECK(known.count(v.name()));
}

} // namespace

TEST_CASE("an op that ONNX has is one node with the output's name", "[onnx_export]") {
  const onnx::Model model = modelOf(input("x") + unary("a", "relu", "x/out") + output("o", "a/y_0"));
  checkNames(model);
  REQUIRE(model.graph().node_size() == 1);
  CHECK(model.graph().node(0).op_type() == "Relu");
  CHECK(model.graph().node(0).name() == "a");
  CHECK(model.graph().node(0).output(0) == "o");
  CHECK(model.graph().input(0).name() == "x");
  CHECK(model.opset_import(0).version() == 17);
  CHECK(model.ir_version() == 8);
}

TEST_CASE("outputs that are an input, or one tensor twice, are copies", "[onnx_export]") {
  const onnx::Model model = modelOf(input("x") + unary("a", "relu", "x/out") + output("o", "a/y_0") +
                                    output("p", "a/y_0") + output("q", "x/out"));
  checkNames(model);
  REQUIRE(model.graph().output_size() == 3);
  REQUIRE(model.graph().node_size() == 3);
  std::set<std::string> copied;
  for (const auto &n : model.graph().node())
    if (n.op_type() == "Identity") copied.insert(n.input(0) + " -> " + n.output(0));
  CHECK(copied == std::set<std::string>{"o -> p", "x -> q"});
}

TEST_CASE("names of values do not meet", "[onnx_export]") {
  // The expression's inner values would be called as the op's tensor of another op is.
  const std::string text = input("x") + unary("a", "log1p", "x/out") + unary("a/1", "log1p", "a/y_0") +
                           unary("constant", "log1p", "a/1/y_0") + output("o", "constant/y_0");
  checkNames(modelOf(text));
}

TEST_CASE("the same graph gives the same bytes", "[onnx_export]") {
  const GraphFacts facts = factsOf(input("x") + unary("a", "log1p", "x/out") + output("o", "a/y_0"));
  CHECK(exportModel(facts, registry(), {}).bytes == exportModel(facts, registry(), {}).bytes);
}

TEST_CASE("bf16 is computed in f32", "[onnx_export]") {
  const onnx::Model model = modelOf(input("x", "kBFloat16") + unary("a", "relu", "x/out") + output("o", "a/y_0"));
  checkNames(model);
  REQUIRE(model.graph().node_size() == 3);
  CHECK(model.graph().node(0).op_type() == "Cast");
  CHECK(model.graph().node(0).attribute(0).i() == 1);
  CHECK(model.graph().node(2).attribute(0).i() == 16);
  CHECK(model.graph().node(2).name() == "a/3");
}

TEST_CASE("ops without a form are nodes of opc's own domain", "[onnx_export]") {
  const std::string text = input("x") + unary("a", "lgamma", "x/out") + unary("b", "relu", "a/y_0") +
                           unary("c", "digamma", "b/y_0") + output("o", "c/y_0");
  const ExportedModel exported = exportModel(factsOf(text), registry(), {});
  CHECK(exported.refused.empty());
  CHECK(exported.ownNodes == std::map<std::string, size_t>{{"digamma", 1}, {"lgamma", 1}});
  const onnx::Model model = modelOf(text);
  checkNames(model);
  REQUIRE(model.graph().node_size() == 3);
  CHECK(model.graph().node(0).domain() == "opc");
  CHECK(model.graph().node(0).op_type() == "lgamma");
  CHECK(model.graph().node(1).domain().empty());
  REQUIRE(model.opset_import_size() == 2);
  CHECK(model.opset_import(1).domain() == "opc");
  CHECK(model.opset_import(1).version() == 1);
}

TEST_CASE("every op of a later operator set is refused, with its place", "[onnx_export]") {
  const auto bits = [](const std::string &name, const std::string &of) {
    return "op { name: '" + name + "' user_conf { op_type_name: 'broadcast_bitwise_and' input { key: 'x' value { s: '" +
           of + "' } } input { key: 'y' value { s: '" + of + "' } } } }\n";
  };
  const GraphFacts facts =
      factsOf(input("x", "kInt32") + bits("a", "x/out") + bits("b", "a/z_0") + output("o", "b/z_0"));
  ExportRequest request;
  request.opset = 17;
  const ExportedModel exported = exportModel(facts, registry(), request);
  CHECK(exported.bytes.empty());
  REQUIRE(exported.refused.size() == 2);
  CHECK(exported.refused[0].name == "a");
  CHECK(exported.refused[1].type == "broadcast_bitwise_and");
  CHECK(exported.refused[1].range.line == 3);
}

TEST_CASE("variables without a value are inputs", "[onnx_export]") {
  const std::string text = "op { name: 'w' variable_conf { out: 'out' shape { dim: 3 } data_type: kFloat } }\n" +
                           unary("a", "relu", "w/out") + output("o", "a/y_0");
  CHECK(modelOf(text).graph().input_size() == 1);
  ExportRequest request;
  const float values[] = {1, 2, 3};
  request.variables["w"] = {user_op::TensorDesc(Shape({3}), kFloat),
                            std::string_view(reinterpret_cast<const char *>(values), sizeof values), nullptr};
  const onnx::Model model = modelOf(exportModel(factsOf(text), registry(), request));
  CHECK(model.graph().input_size() == 0);
  REQUIRE(model.graph().initializer_size() == 1);
  CHECK(model.graph().initializer(0).raw_data().size() == 12);
}

TEST_CASE("all ops have an entry in the table", "[onnx_export]") {
  size_t without = 0;
  for (const ExportedOp &op : exportedOnnxOps(registry())) without += op.becomes.empty();
  CHECK(without <= 15 + 2); // and if and loop, whose graphs are opc's
}
