// ONNX models that end too early: whatever is left of them is a model, or is refused with one error.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "TestRegistry.h"
#include "onnx.pb.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace opc;

namespace {

void setValue(onnx::Value *value, const std::string &name, int32_t type, const std::vector<int64_t> &dims) {
  value->set_name(name);
  auto *tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  for (int64_t d : dims) tensor->mutable_shape()->add_dim()->set_dim_value(d);
}

void setTensor(onnx::Tensor *tensor, const std::string &name, const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t d : dims) tensor->add_dims(d), count *= d;
  tensor->set_name(name);
  tensor->set_data_type(1);
  for (int64_t k = 0; k < count; ++k) tensor->add_float_data(0.125F * static_cast<float>(k));
}

onnx::Node *addNode(onnx::Graph *graph, const std::string &op, const std::vector<std::string> &inputs,
                    const std::string &output) {
  onnx::Node *node = graph->add_node();
  node->set_op_type(op);
  node->set_name("the " + op + " of the model");
  for (const std::string &input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

/// A product, a branch, a function, sizes that are computed, tensors in raw bytes and in lists, and some nodes more.
std::string sample() {
  onnx::Model model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto *local = model.add_opset_import();
  local->set_domain("local"), local->set_version(1);
  onnx::Graph *graph = model.mutable_graph();
  graph->set_name("cut");
  setValue(graph->add_input(), "x", 1, {2, 3});
  setValue(graph->add_output(), "y", 1, {4, 2});
  setTensor(graph->add_initializer(), "w", {3, 4});
  onnx::Tensor *raw = graph->add_initializer();
  raw->set_name("b"), raw->set_data_type(1), raw->add_dims(4), raw->set_raw_data(std::string(16, '\1'));
  onnx::Tensor *yes = graph->add_initializer();
  yes->set_name("yes"), yes->set_data_type(9), yes->set_raw_data("\1");
  onnx::Tensor *sizes = graph->add_initializer();
  sizes->set_name("sizes"), sizes->set_data_type(7), sizes->add_dims(2), sizes->add_int64_data(4),
      sizes->add_int64_data(-1);
  addNode(graph, "MatMul", {"x", "w"}, "product");
  addNode(graph, "Add", {"product", "b"}, "sum");
  onnx::Node *choice = addNode(graph, "If", {"yes"}, "chosen");
  for (const char *branch : {"then_branch", "else_branch"}) {
    onnx::Attribute *a = choice->add_attribute();
    a->set_name(branch), a->set_type(onnx::Attribute::GRAPH);
    setValue(a->mutable_g()->add_output(), "t", 1, {});
    addNode(a->mutable_g(), branch[0] == 't' ? "Relu" : "Neg", {"sum"}, "t");
  }
  addNode(graph, "Twice", {"chosen"}, "doubled")->set_domain("local");
  std::string last = "doubled";
  for (const char *op : {"Abs", "Sqrt", "Exp", "Neg", "Tanh", "Sigmoid", "Relu", "Softplus"}) {
    addNode(graph, op, {last}, std::string("after ") + op);
    last = std::string("after ") + op;
  }
  addNode(graph, "Reshape", {last, "sizes"}, "y");
  onnx::Function *function = model.add_functions();
  function->set_name("Twice"), function->set_domain("local");
  function->add_input("a"), function->add_output("b");
  function->add_opset_import()->set_version(17);
  onnx::Node *inner = function->add_node();
  inner->set_op_type("Add"), inner->add_input("a"), inner->add_input("a"), inner->add_output("b");
  onnx::StringPair *note = model.add_metadata_props();
  note->set_key("what"), note->set_value("a model that is cut at every place");
  return model.SerializeAsString();
}

} // namespace

TEST_CASE("models that are cut at a thousand places", "[onnx]") {
  const std::string whole = sample();
  REQUIRE(whole.size() > 1000);
  CompileOptions options;
  options.planHasValues = false;
  size_t accepted = 0, refused = 0;
  // Every place of the last thousand, and each third one before.
  for (size_t n = whole.size() % 1000 % 3; n <= whole.size(); n += n + 1000 < whole.size() ? 3 : 1) {
    Pipeline pipeline(test::registry(), options);
    const bool ok = pipeline.import("<stdin>", whole.substr(0, n)) && pipeline.run(Phase::kShape);
    const auto &said = pipeline.diagnostics();
    const auto errors =
        std::count_if(said.begin(), said.end(), [](const Diagnostic &d) { return d.severity == Severity::kError; });
    INFO("the first " << n << " of " << whole.size() << " bytes: " << (said.empty() ? "" : said[0].message));
    REQUIRE(errors == (ok ? 0 : 1));
    if (!ok) {
      const StatusCode code = pipeline.errorClass();
      REQUIRE((code == StatusCode::kInvalidGraph || code == StatusCode::kUnsupported));
      REQUIRE_FALSE(said[0].code.empty());
    }
    ++(ok ? accepted : refused);
  }
  CHECK(accepted + refused >= 1000);
  CHECK(refused > 900);
  CHECK(accepted >= 1);
}
