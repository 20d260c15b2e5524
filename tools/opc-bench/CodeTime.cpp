// What compiling regions to machine code costs.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "Codegen.h"
#include "Session.h"
#include "TextParts.h"

#include <array>
#include <cstdio>
#include <random>

namespace opc::bench {
namespace {

constexpr int kRegions = 50;
constexpr double kMaxSeconds = 0.5; // of one core, with the rest of loading a plan

/// Regions of 3 to 9 ops on f32, no two of the same: shapes tell them apart in the graph, and functions to the
/// compiler.
std::string differentRegions(unsigned seed) {
  struct Function {
    const char *type, *in, *out;
  };
  constexpr std::array<Function, 12> kFunctions = {{{"relu", "x", "y"},
                                                    {"exp", "x", "y"},
                                                    {"tanh", "x", "y"},
                                                    {"erf", "x", "y"},
                                                    {"sigmoid", "x", "y"},
                                                    {"negative", "x", "y"},
                                                    {"abs", "x", "y"},
                                                    {"square", "x", "y"},
                                                    {"sqrt", "x", "y"},
                                                    {"floor", "x", "y"},
                                                    {"silu", "in", "out"},
                                                    {"gelu", "in", "out"}}};
  std::mt19937 random(seed);
  std::string graph;
  for (int r = 0; r < kRegions; ++r) {
    const std::string base = concat("r", r);
    graph += input(base, {1000 + r});
    std::string last = base + "/out";
    for (int k = 0; k < 3 + r % 7; ++k) {
      const std::string name = concat(base, "_", k);
      if (k % 3 == 1) {
        graph += op(name, k % 2 ? "broadcast_add" : "broadcast_mul", {{"x", last}, {"y", base + "/out"}}, "z");
        last = name + "/z_0";
      } else {
        const Function &f = kFunctions[random() % kFunctions.size()];
        graph += op(name, f.type, {{f.in, last}}, f.out);
        last = concat(name, "/", f.out, "_0");
      }
    }
    graph += output(last, "y" + base);
  }
  return graph;
}

std::vector<Row> codeTime(const std::string &name) {
  const Registry registry = linkedRegistry();
  const std::string plan = planOf(registry, name, differentRegions(7));
  double best = -1;
  for (int round = 0; round < 3; ++round) {
    const auto compiler = codeLevel() == CodeLevel::kNone ? nullptr : RegionCodegen::create(codeLevel(), true);
    const auto before = regionCompiler();
    setRegionCompiler(compiler);
    const double start = processorSeconds();
    auto session = Session::load(plan, registry, {});
    const bool isReady = session && session->prepare().isOk();
    const double seconds = processorSeconds() - start;
    setRegionCompiler(before);
    if (!compiler || !isReady) return {{name, -1, "s", kMaxSeconds, "limit"}};
    const CodegenStats stats = compiler->stats();
    if (stats.compiled != kRegions) {
      std::fprintf(stderr, "%s: %llu regions have code\n", name.c_str(),
                   static_cast<unsigned long long>(stats.compiled));
      return {};
    }
    if (best < 0 || seconds < best) best = seconds;
  }
  return {{name, best, "s", kMaxSeconds, "limit"}};
}

} // namespace

std::vector<Benchmark> codeCompileTime() {
  const std::string name = concat("codegen/", kRegions, "_regions");
  return {{{name}, [name] { return codeTime(name); }}};
}

} // namespace opc::bench
