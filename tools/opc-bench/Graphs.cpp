// Generated graphs, as text.
// SPDX-License-Identifier: Apache-2.0
#include "Graphs.h"

#include "Pipeline.h"
#include "TextParts.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace opc::bench {

Registry linkedRegistry() {
  Registry registry;
  if (Status s = registry.addLinked(); !s.isOk()) std::fprintf(stderr, "opc-bench: %s\n", s.toString().c_str());
  registry.freeze();
  return registry;
}

std::string planOf(const Registry &registry, const std::string &name, const std::string &graph, bool regions) {
  CompileOptions options;
  options.regions = regions;
  Pipeline pipeline(registry, options);
  if (pipeline.import(name, graph) && pipeline.run(Phase::kPlan)) return pipeline.emit(Emit::kPlan);
  for (const Diagnostic &d : pipeline.diagnostics()) std::fprintf(stderr, "%s: %s\n", name.c_str(), d.message.c_str());
  return "";
}

namespace {
std::string typeOf(const std::vector<int64_t> &dims) {
  return concat("shape { ", joined(dims, " ", [](int64_t d) { return concat("dim: ", d); }), " } data_type: kFloat ");
}
} // namespace

std::string input(const std::string &name, const std::vector<int64_t> &dims) {
  return concat("op { name: \"", name, "\" input_conf { out: \"out\" blob_conf { ", typeOf(dims), "} } }\n");
}
std::string variable(const std::string &name, const std::vector<int64_t> &dims) {
  return concat("op { name: \"", name, "\" variable_conf { out: \"out\" ", typeOf(dims),
                "initializer { random_uniform_conf { min: -0.1 max: 0.1 } } } }\n");
}
std::string output(const std::string &tensor) {
  return concat("op { name: \"y\" output_conf { in: \"", tensor, "\" out: \"out\" } }\n");
}
std::string op(const std::string &name, const std::string &type,
               const std::vector<std::pair<std::string, std::string>> &inputs, const std::string &outputs,
               const std::string &attrs) {
  std::string text = concat("op { name: \"", name, "\" user_conf { op_type_name: \"", type, "\"");
  for (const auto &[arg, tensor] : inputs)
    text += concat(" input { key: \"", arg, "\" value { s: \"", tensor, "\" } }");
  for (const std::string &arg : splitAt(outputs, ' '))
    if (!arg.empty()) text += concat(" output { key: \"", arg, "\" value { s: \"", name, "/", arg, "_0\" } }");
  return text + attrs + " } }\n";
}
std::string attr(const std::string &name, const std::string &value) {
  return concat(" attr { key: \"", name, "\" value { ", value, " } }");
}

std::string addChain(int ops, int width) {
  std::string g = input("x", {width}), previous = "x/out";
  for (int i = 0; i < ops; ++i) {
    const std::string name = concat("add", i);
    g += op(name, "scalar_add", {{"in", previous}}, "out",
            attr("has_float_operand", "at_bool: true") + attr("float_operand", "at_double: 0.5"));
    previous = name + "/out_0";
  }
  return g + output(previous);
}

std::string randomDag(int ops, int width) {
  std::string g = input("x", {width});
  uint64_t state = 88172645463325252ull; // xorshift64: the same graph everywhere
  auto draw = [&](int n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<int>(state % static_cast<uint64_t>(n));
  };
  auto tensor = [](int i) { return i == 0 ? std::string("x/out") : "n" + std::to_string(i) + "/z_0"; };
  for (int i = 1; i <= ops; ++i) {
    // Mostly recent tensors, so that lifetimes stay as short as in real graphs; the previous one always, so that none
    // is dead.
    const int other = std::max(0, i - 1 - draw(50));
    const std::string type = draw(2) ? "broadcast_add" : "broadcast_maximum";
    g += op(concat("n", i), type, {{"x", tensor(i - 1)}, {"y", tensor(other)}}, "z");
  }
  return g + output(tensor(ops));
}

std::string mlpChain(int ops) {
  std::string g = input("x", {8, 8}), previous = "x/out";
  for (int i = 0; i < ops; ++i) {
    const std::string n = std::to_string(i);
    if (i % 3 == 0) {
      g += variable("w" + n, {8, 8}) + op("mm" + n, "matmul", {{"a", previous}, {"b", "w" + n + "/out"}}, "out");
      previous = "mm" + n + "/out_0";
    } else if (i % 3 == 1) {
      g += variable("b" + n, {8}) +
           op("ba" + n, "bias_add", {{"a", previous}, {"b", "b" + n + "/out"}}, "out", attr("axis", "at_int32: 1"));
      previous = "ba" + n + "/out_0";
    } else {
      g += op("re" + n, "relu", {{"x", previous}}, "y");
      previous = "re" + n + "/y_0";
    }
  }
  return g + output(previous);
}

} // namespace opc::bench
