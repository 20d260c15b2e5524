// Generated graphs, as text.
// SPDX-License-Identifier: Apache-2.0
#include "Graphs.h"

#include <algorithm>
#include <cstdint>

namespace opc::bench {
namespace {

std::string input(const std::string &dims) {
  return "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { " + dims + " } data_type: kFloat } } }\n";
}
std::string output(const std::string &tensor) {
  return "op { name: \"y\" output_conf { in: \"" + tensor + "\" out: \"out\" } }\n";
}
std::string variable(const std::string &name, const std::string &dims) {
  return "op { name: \"" + name + "\" variable_conf { out: \"out\" shape { " + dims +
         " } data_type: kFloat initializer { random_uniform_conf { min: -0.3 max: 0.3 } } } }\n";
}

} // namespace

std::string addChain(int ops, int width) {
  std::string g = input("dim: " + std::to_string(width)), previous = "x/out";
  for (int i = 0; i < ops; ++i) {
    const std::string name = "add" + std::to_string(i);
    g += "op { name: \"" + name + "\" user_conf { op_type_name: \"scalar_add\" input { key: \"in\" value { s: \"" +
         previous + "\" } } output { key: \"out\" value { s: \"" + name +
         "/out_0\" } } attr { key: \"has_float_operand\" value { at_bool: true } }" +
         " attr { key: \"float_operand\" value { at_double: 0.5 } } } }\n";
    previous = name + "/out_0";
  }
  return g + output(previous);
}

std::string randomDag(int ops, int width) {
  std::string g = input("dim: " + std::to_string(width));
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
    const std::string name = "n" + std::to_string(i);
    g += "op { name: \"" + name + "\" user_conf { op_type_name: \"" +
         (draw(2) ? "broadcast_add" : "broadcast_maximum") + "\" input { key: \"x\" value { s: \"" + tensor(i - 1) +
         "\" } } input { key: \"y\" value { s: \"" + tensor(other) + "\" } } output { key: \"z\" value { s: \"" + name +
         "/z_0\" } } } }\n";
  }
  return g + output(tensor(ops));
}

std::string mlpChain(int ops) {
  std::string g = input("dim: 8 dim: 8"), previous = "x/out";
  for (int i = 0; i < ops; ++i) {
    const std::string n = std::to_string(i);
    if (i % 3 == 0) {
      g += variable("w" + n, "dim: 8 dim: 8");
      g += "op { name: \"mm" + n + "\" user_conf { op_type_name: \"matmul\" input { key: \"a\" value { s: \"" +
           previous + "\" } } input { key: \"b\" value { s: \"w" + n +
           "/out\" } } output { key: \"out\" value { s: \"mm" + n + "/out_0\" } } } }\n";
      previous = "mm" + n + "/out_0";
    } else if (i % 3 == 1) {
      g += variable("b" + n, "dim: 8");
      g += "op { name: \"ba" + n + "\" user_conf { op_type_name: \"bias_add\" input { key: \"a\" value { s: \"" +
           previous + "\" } } input { key: \"b\" value { s: \"b" + n +
           "/out\" } } output { key: \"out\" value { s: \"ba" + n +
           "/out_0\" } } attr { key: \"axis\" value { at_int32: 1 } } } }\n";
      previous = "ba" + n + "/out_0";
    } else {
      g += "op { name: \"re" + n + "\" user_conf { op_type_name: \"relu\" input { key: \"x\" value { s: \"" + previous +
           "\" } } output { key: \"y\" value { s: \"re" + n + "/y_0\" } } } }\n";
      previous = "re" + n + "/y_0";
    }
  }
  return g + output(previous);
}

} // namespace opc::bench
