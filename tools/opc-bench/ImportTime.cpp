// Import of large generated ONNX models: processor time and peak memory.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "Pipeline.h"

#include "onnx.pb.h"

#include <cstdio>

namespace opc::bench {
namespace {

// What the importer is to keep for 100,000 nodes.
constexpr double kMaxSeconds = 3;
constexpr int kFloat32 = 1; // TensorFile.ElementType

void describe(onnx::Value *value, const std::string &name, int64_t rows, int64_t columns) {
  value->set_name(name);
  auto *tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(kFloat32);
  for (const int64_t dim : {rows, columns}) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
}

void initializer(onnx::Graph *graph, const std::string &name, const std::vector<int64_t> &dims) {
  onnx::Tensor *tensor = graph->add_initializer();
  tensor->set_name(name), tensor->set_data_type(kFloat32);
  size_t elements = 1;
  for (const int64_t dim : dims) tensor->add_dims(dim), elements *= static_cast<size_t>(dim);
  tensor->set_raw_data(std::string(elements * sizeof(float), '\0'));
}

/// Nodes from x to y, f32[8, 8]: `types` by turns, with weights of their own where they take any.
std::string modelOf(int nodes, const std::vector<std::string> &types) {
  onnx::Model model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::Graph *graph = model.mutable_graph();
  graph->set_name("generated");
  describe(graph->add_input(), "x", 8, 8), describe(graph->add_output(), "y", 8, 8);
  std::string last = "x";
  for (int i = 0; i < nodes; ++i) {
    const std::string &type = types[static_cast<size_t>(i) % types.size()], number = std::to_string(i);
    onnx::Node *node = graph->add_node();
    node->set_name("node_" + number), node->set_op_type(type);
    node->add_input(last);
    if (type == "MatMul" || type == "Add") {
      initializer(graph, "w_" + number, type == "Add" ? std::vector<int64_t>{8} : std::vector<int64_t>{8, 8});
      node->add_input("w_" + number);
    }
    last = i + 1 == nodes ? "y" : "t_" + number;
    node->add_output(last);
  }
  return model.SerializeAsString();
}

double importSeconds(std::string bytes) {
  const Registry registry = linkedRegistry();
  const double start = processorSeconds();
  Pipeline pipeline(registry, {});
  if (!pipeline.import("generated.onnx", SharedBytes(std::move(bytes)))) {
    for (const auto &d : pipeline.diagnostics()) std::fprintf(stderr, "%s: %s\n", d.code.c_str(), d.message.c_str());
    return -1;
  }
  return processorSeconds() - start;
}

} // namespace

std::vector<Benchmark> importTime() {
  std::vector<Benchmark> list;
  for (const auto &[name, types] :
       {std::pair<std::string, std::vector<std::string>>{"chain", {"Tanh"}}, {"products", {"MatMul", "Add", "Relu"}}}) {
    const std::string row = "import/onnx_" + name + "_100000";
    list.push_back({{row}, [row, types] {
                      const ChildResult r = inChild([&] { return importSeconds(modelOf(100000, types)); });
                      return std::vector<Row>{{row, r.value, "s", kMaxSeconds, "limit"}};
                    }});
  }
  return list;
}

} // namespace opc::bench
