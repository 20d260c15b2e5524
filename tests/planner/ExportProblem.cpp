// A training graph's planning problem as a weighted constraint network (.wcsp) for toulbar2, and the planner's answer.
// The network is written from the definition in SignaturePlanner.h alone; it shares no code with the planner.
// SPDX-License-Identifier: Apache-2.0
#include "SignaturePlanner.h"
#include "TrainingNets.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace opc;
using namespace opc::planner;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kTop = 1000000000000000ll; // above any sum: "impossible"

struct Table {
  size_t a, b;
  std::vector<double> costs; // [a][b]
};

struct Value {
  uint32_t produced;
  std::vector<uint32_t> copies;
};

int64_t units(double seconds, double unit) {
  return seconds < kInfinity ? std::min(kTop, static_cast<int64_t>(std::llround(seconds / unit))) : kTop;
}

/// The same problem as a network of cost functions. Variables: ops, then tensors.
struct Network {
  std::vector<std::vector<double>> unary;
  std::vector<Table> tables;
};

/// For each tensor every state that it may be produced in, alone and with a copy in another.
std::vector<std::vector<Value>> valuesOf(const Problem &p, int copies) {
  std::vector<std::vector<Value>> values(p.tensors.size());
  for (size_t t = 0; t < p.tensors.size(); ++t) {
    const uint32_t states = p.tensorKinds[p.tensors[t].kind].states;
    for (uint32_t s = 0; s < states; ++s) {
      values[t].push_back({s, {}});
      for (uint32_t c = 0; copies > 0 && c < states; ++c)
        if (c != s) values[t].push_back({s, {c}});
    }
  }
  return values;
}

Network networkOf(const Problem &p, const std::vector<std::vector<Value>> &values) {
  const size_t ops = p.ops.size();
  Network n;
  for (const Op &op : p.ops) {
    std::vector<double> u;
    for (const auto &s : p.opKinds[op.kind].signatures) u.push_back(s.seconds);
    n.unary.push_back(u);
  }
  for (size_t t = 0; t < p.tensors.size(); ++t) {
    const TensorKind &kind = p.tensorKinds[p.tensors[t].kind];
    std::vector<double> u;
    for (const Value &v : values[t]) {
      double cost = 0;
      for (uint32_t c : v.copies) cost += kind.boxing[v.produced * kind.states + c];
      u.push_back(cost * p.tensors[t].discount);
    }
    n.unary.push_back(u);
  }
  for (size_t o = 0; o < ops; ++o) {
    const OpKind &kind = p.opKinds[p.ops[o].kind];
    for (size_t i = 0; i < p.ops[o].inputs.size() + p.ops[o].outputs.size(); ++i) {
      const bool input = i < p.ops[o].inputs.size();
      const size_t at = input ? i : i - p.ops[o].inputs.size();
      const uint32_t t = input ? p.ops[o].inputs[at] : p.ops[o].outputs[at];
      const TensorKind &tensor = p.tensorKinds[p.tensors[t].kind];
      Table table{o, ops + t, {}};
      for (const auto &s : kind.signatures)
        for (const Value &v : values[t]) {
          double cost = 0;
          if (!input || (!kind.pinned.empty() && kind.pinned[at])) {
            cost = (input ? s.inputs : s.outputs)[at] == v.produced ? 0 : kInfinity;
          } else {
            cost = tensor.boxing[v.produced * tensor.states + s.inputs[at]];
            for (uint32_t c : v.copies) cost = std::min(cost, tensor.boxing[c * tensor.states + s.inputs[at]]);
            cost *= p.tensors[t].discount;
          }
          table.costs.push_back(cost);
        }
      n.tables.push_back(std::move(table));
    }
  }
  return n;
}

void write(const Network &n, double unit, FILE *out) {
  size_t largest = 0;
  for (const auto &u : n.unary) largest = std::max(largest, u.size());
  std::fprintf(out, "sbp %zu %zu %zu %lld\n", n.unary.size(), largest, n.unary.size() + n.tables.size(),
               static_cast<long long>(kTop));
  for (const auto &u : n.unary) std::fprintf(out, "%zu ", u.size());
  std::fprintf(out, "\n");
  for (size_t v = 0; v < n.unary.size(); ++v) {
    std::fprintf(out, "1 %zu 0 %zu\n", v, n.unary[v].size());
    for (size_t x = 0; x < n.unary[v].size(); ++x)
      std::fprintf(out, "%zu %lld\n", x, static_cast<long long>(units(n.unary[v][x], unit)));
  }
  for (const Table &t : n.tables) {
    const size_t columns = n.unary[t.b].size();
    // The most frequent cost is the default.
    std::map<int64_t, size_t> counts;
    for (double c : t.costs) ++counts[units(c, unit)];
    int64_t usual = 0;
    size_t most = 0;
    for (const auto &[cost, count] : counts)
      if (count > most) {
        usual = cost;
        most = count;
      }
    std::fprintf(out, "2 %zu %zu %lld %zu\n", t.a, t.b, static_cast<long long>(usual), t.costs.size() - most);
    for (size_t i = 0; i < t.costs.size(); ++i)
      if (const int64_t c = units(t.costs[i], unit); c != usual)
        std::fprintf(out, "%zu %zu %lld\n", i / columns, i % columns, static_cast<long long>(c));
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s NET SIZE MESH COPIES OUT.wcsp\n", argv[0]);
    return 2;
  }
  const std::string net = argv[1];
  const int size = std::atoi(argv[2]);
  const auto mesh = parseMesh(argv[3]);
  if (!mesh) return 2;
  bench::Cluster cluster = bench::clusterOf(*mesh);
  cluster.gradientDiscount = 0.5;
  Problem p;
  if (net == "gpt")
    p = bench::gpt(cluster, size, {16, 512, 1024, 16, 32000});
  else if (net == "resnet")
    p = bench::resnet(cluster, std::vector<int>(static_cast<size_t>(size), 2), 64);
  else if (net == "inception")
    p = bench::inception(cluster, size, 64);
  else if (net == "diamonds")
    p = bench::diamonds(cluster, size, 1024, 512);
  else
    return 2;
  Options options;
  options.copies = std::atoi(argv[4]);
  const Solution s = solve(p, options);
  const double unit = s.cost / 1e10;
  FILE *out = std::fopen(argv[5], "w");
  if (!out) return 1;
  write(networkOf(p, valuesOf(p, options.copies)), unit, out);
  std::fclose(out);
  std::printf("{\"ops\": %zu, \"feasible\": %s, \"cost\": %.17g, \"gap\": %.17g, \"method\": \"%s\", \"unit\": %.17g, "
              "\"terms\": %zu}\n",
              p.ops.size(), s.feasible ? "true" : "false", s.cost, s.gap, s.method.c_str(), unit,
              p.ops.size() * 4 + p.tensors.size());
  return 0;
}
