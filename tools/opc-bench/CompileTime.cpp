// Import to plan of large generated graphs: processor time, peak memory, and growth with size.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "Pipeline.h"

#include <cstdio>
#include <malloc.h>

namespace opc::bench {
namespace {

// What the compiler is to keep for 100,000 ops: seconds, bytes, and the growth from 10,000 ops.
constexpr double kMaxSeconds = 1.5, kMaxBytes = 1.5e9, kMaxGrowth = 11;

double compileSeconds(const std::string &text) {
  mallopt(M_TOP_PAD, 64 << 20); // as the command opc does
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const Registry registry = linkedRegistry();
  const double start = processorSeconds();
  Pipeline pipeline(registry, {});
  if (!pipeline.import("generated.pbtxt", text) || !pipeline.run(Phase::kPlan)) {
    for (const auto &d : pipeline.diagnostics()) std::fprintf(stderr, "%s: %s\n", d.code.c_str(), d.message.c_str());
    return -1;
  }
  return processorSeconds() - start;
}

} // namespace

std::vector<Benchmark> compileTime() {
  struct Shape {
    const char *name;
    std::function<std::string(int)> make;
  };
  const std::vector<Shape> shapes = {{"chain", [](int n) { return addChain(n, 8); }},
                                     {"dag", [](int n) { return randomDag(n, 64); }},
                                     {"mlpchain", [](int n) { return mlpChain(n); }},
                                     {"elementwise", [](int n) { return elementwiseDag(n); }},
                                     {"fan", [](int n) { return fan(n); }}};
  std::vector<Benchmark> list;
  for (const Shape &s : shapes) {
    const std::string base = std::string("compile/") + s.name;
    list.push_back({{base + "_100000", base + "_100000_memory", base + "_growth"}, [s, base] {
                      const ChildResult small = inChild([&] { return compileSeconds(s.make(10000)); });
                      const ChildResult large = inChild([&] { return compileSeconds(s.make(100000)); });
                      return std::vector<Row>{
                          {base + "_100000", large.value, "s", kMaxSeconds, "limit"},
                          {base + "_100000_memory", large.peakBytes / 1e6, "MB", kMaxBytes / 1e6, "limit"},
                          {base + "_growth", large.value / small.value, "x from 10,000 ops", kMaxGrowth, "limit"}};
                    }});
  }
  return list;
}

} // namespace opc::bench
