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
std::string output(const std::string &tensor, const std::string &name) {
  return concat("op { name: \"", name, "\" output_conf { in: \"", tensor, "\" out: \"out\" } }\n");
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

namespace {
/// xorshift64: the same numbers everywhere.
class Draw {
public:
  int operator()(int n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int>(state_ % static_cast<uint64_t>(n));
  }

private:
  uint64_t state_ = 88172645463325252ull;
};
} // namespace

std::string randomDag(int ops, int width) {
  std::string g = input("x", {width});
  Draw draw;
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

std::string elementwiseDag(int ops) {
  std::string g = input("x", {8, 8});
  Draw draw;
  std::vector<std::string> tensors{"x/out"};
  auto any = [&] { return tensors[static_cast<size_t>(draw(static_cast<int>(tensors.size())))]; };
  auto recent = [&] {
    const int last = static_cast<int>(tensors.size());
    return tensors[static_cast<size_t>(last - 1 - draw(std::min(30, last)))];
  };
  for (int i = 0; i < ops; ++i) {
    const std::string name = concat("n", i);
    if (const int kind = draw(4); kind < 2) {
      g += op(name, kind == 0 ? "tanh" : "exp", {{"x", recent()}}, "y");
      tensors.push_back(name + "/y_0");
    } else {
      const std::string near = recent(), far = any();
      g += op(name, kind == 2 ? "broadcast_mul" : "broadcast_sub", {{"x", near}, {"y", far}}, "z");
      tensors.push_back(name + "/z_0");
    }
  }
  return g + output(tensors.back());
}

std::string fan(int ops) {
  std::string g = input("x", {8, 8});
  std::vector<std::string> ends;
  for (int i = 0; i < (ops + 1) / 2; ++i) {
    const std::string name = concat("n", i);
    g += op(name, "scalar_add", {{"in", "x/out"}}, "out",
            attr("has_float_operand", "at_bool: true") + attr("float_operand", concat("at_double: ", i + 1)));
    ends.push_back(name + "/out_0");
  }
  for (int i = 0; ends.size() > 1;) {
    std::vector<std::string> next;
    for (size_t k = 0; k + 1 < ends.size(); k += 2) {
      const std::string name = concat("m", i++);
      g += op(name, "broadcast_maximum", {{"x", ends[k]}, {"y", ends[k + 1]}}, "z");
      next.push_back(name + "/z_0");
    }
    if (ends.size() % 2 != 0) next.push_back(ends.back());
    ends = std::move(next);
  }
  return g + output(ends[0]);
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
