// The planner core on training graphs: seconds of one core from problem to proven solution, and the gap that is left.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "TrainingNets.h"

#include <ctime>

namespace opc::bench {
namespace {

double cpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

} // namespace

std::vector<Benchmark> plannerTime() {
  struct Net {
    const char *name;
    double limit; // seconds of one core
    std::function<planner::Problem()> make;
  };
  const std::vector<Net> nets = {
      {"gpt_100000_on_8", 1.5, [] { return gpt(clusterOf({8}), 1042); }},
      {"gpt_33000_on_4x8", 8, [] { return gpt(clusterOf({4, 8}), 348); }},
      {"resnet50_on_8", 2, [] { return resnet(clusterOf({8})); }},
      {"resnet50_on_2x4", 2, [] { return resnet(clusterOf({2, 4})); }},
      {"resnet50_on_4x8", 2, [] { return resnet(clusterOf({4, 8})); }},
      {"inception_on_8", 2, [] { return inception(clusterOf({8})); }},
      {"inception_on_2x4", 2, [] { return inception(clusterOf({2, 4})); }},
      {"inception_on_4x8", 2, [] { return inception(clusterOf({4, 8})); }},
  };
  std::vector<Benchmark> list;
  for (const Net &n : nets) {
    const std::string name = std::string("planner/") + n.name;
    list.push_back({{name, name + "_gap"}, [n, name] {
                      const planner::Problem problem = n.make();
                      const double start = cpuSeconds();
                      const planner::Solution s = planner::solve(problem);
                      const double seconds = s.feasible ? cpuSeconds() - start : -1;
                      return std::vector<Row>{
                          {name, seconds, "s of one core", n.limit, "limit"},
                          {name + "_gap", s.feasible ? 100 * s.gap / s.cost : -1, "% of the cost", 0, ""}};
                    }});
  }
  return list;
}

} // namespace opc::bench
