// ONNX models whose large tensors stay where the file has them.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxParsedModel.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::onnx;

namespace {

std::string elements(size_t bytes, char first) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(first + static_cast<char>(i % 97));
  return text;
}

Tensor *fill(Tensor *tensor, const std::string &name, const std::string &raw) {
  tensor->set_name(name);
  tensor->add_dims(static_cast<int64_t>(raw.size()));
  tensor->set_data_type(2);
  tensor->set_raw_data(raw);
  tensor->set_doc_string("behind the elements");
  return tensor;
}

/// Large and small tensors, in the graph, in a node, in a graph of a node.
Model sample() {
  Model model;
  model.set_ir_version(8);
  Graph *graph = model.mutable_graph();
  graph->set_name("g");
  fill(graph->add_initializer(), "large", elements(10000, 1));
  fill(graph->add_initializer(), "small", elements(16, 2));
  Node *node = graph->add_node();
  node->set_op_type("Constant");
  Attribute *value = node->add_attribute();
  value->set_name("value");
  fill(value->mutable_t(), "of a node", elements(5000, 3));
  Node *branch = graph->add_node();
  branch->set_op_type("If");
  Graph *inner = branch->add_attribute()->mutable_g();
  fill(inner->add_initializer(), "inside", elements(8192, 4));
  fill(graph->add_initializer(), "last", elements(4097, 5));
  model.add_opset_import()->set_version(17);
  return model;
}

bool liesIn(std::string_view part, const SharedBytes &file) {
  return part.data() >= file.view().data() && part.data() + part.size() <= file.view().data() + file.size();
}

void checkSame(const Tensor &parsed, const Tensor &tensor, const ParsedModel &model) {
  CHECK(model.rawData(parsed) == tensor.raw_data());
  CHECK(liesIn(model.rawData(parsed), model.file()) == (tensor.raw_data().size() >= 4096));
  Tensor whole = parsed;
  whole.set_raw_data(std::string(model.rawData(parsed)));
  CHECK(whole.SerializeAsString() == tensor.SerializeAsString());
}

} // namespace

TEST_CASE("large tensors of a model are not copied", "[onnx]") {
  const Model model = sample();
  ParsedModel parsed;
  REQUIRE(parsed.parse(model.SerializeAsString()));
  const Graph &graph = model.graph(), &read = parsed.model().graph();
  REQUIRE(read.initializer_size() == 3);
  for (int i = 0; i < 3; ++i) checkSame(read.initializer(i), graph.initializer(i), parsed);
  checkSame(read.node(0).attribute(0).t(), graph.node(0).attribute(0).t(), parsed);
  checkSame(read.node(1).attribute(0).g().initializer(0), graph.node(1).attribute(0).g().initializer(0), parsed);
  CHECK(read.name() == "g");
  CHECK(parsed.model().opset_import(0).version() == 17);
  CHECK(parsed.model().ir_version() == 8);
  CHECK(parsed.model().ByteSizeLong() < 1000);
}

TEST_CASE("what stands behind a model is merged into it", "[onnx]") {
  Model more;
  fill(more.mutable_graph()->add_initializer(), "added", elements(6000, 6));
  const std::string bytes = sample().SerializeAsString() + more.SerializeAsString();
  Model whole;
  REQUIRE(whole.ParseFromString(bytes));
  ParsedModel parsed;
  REQUIRE(parsed.parse(bytes));
  REQUIRE(parsed.model().graph().initializer_size() == 4);
  for (int i = 0; i < 4; ++i) checkSame(parsed.model().graph().initializer(i), whole.graph().initializer(i), parsed);
  // Of elements that are given twice the last ones count.
  Tensor first, second;
  first.set_raw_data(elements(9000, 7));
  second.set_raw_data(elements(8, 8));
  for (const bool isLargeLast : {false, true}) {
    const std::string twice = isLargeLast ? second.SerializeAsString() + first.SerializeAsString()
                                          : first.SerializeAsString() + second.SerializeAsString();
    std::string graph = "\x2a", model = "\x3a"; // fields 5 and 7, and their lengths
    const auto length = [](std::string *to, size_t n) {
      *to += static_cast<char>((n & 127) | 128);
      *to += static_cast<char>(n >> 7);
    };
    length(&graph, twice.size());
    graph += twice;
    length(&model, graph.size());
    model += graph;
    ParsedModel last;
    REQUIRE(last.parse(model));
    CHECK(last.rawData(last.model().graph().initializer(0)) == (isLargeLast ? first : second).raw_data());
  }
}

TEST_CASE("damaged models are no models", "[onnx]") {
  const std::string bytes = sample().SerializeAsString();
  Model plain;
  for (size_t n = 1; n < bytes.size(); n += n < 200 || n + 200 > bytes.size() ? 1 : 97) {
    ParsedModel parsed;
    CHECK(parsed.parse(bytes.substr(0, n)) == plain.ParseFromString(bytes.substr(0, n)));
  }
  // Graphs in one another, each large enough to be looked into.
  Model deep;
  Graph *graph = deep.mutable_graph();
  for (int i = 0; i < 200; ++i) graph = graph->add_node()->add_attribute()->mutable_g();
  fill(graph->add_initializer(), "t", elements(5000, 9));
  ParsedModel parsed;
  CHECK_FALSE(parsed.parse(deep.SerializeAsString()));
}
