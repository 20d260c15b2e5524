// A benchmark row and the list of benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace opc::bench {

/// One line of the table. `reference` is a peer or a limit, measured or stated in the same run; ratio = value /
/// reference.
struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  double reference = 0;
  std::string referenceName;
  double ratio() const { return reference != 0 ? value / reference : 0; }
};

/// A benchmark makes one or more rows. `names` are the rows' names, so that a filter can skip the work.
struct Benchmark {
  std::vector<std::string> names;
  std::function<std::vector<Row>()> run;
};

std::vector<Benchmark> taskOverhead();
std::vector<Benchmark> compileTime();
std::vector<Benchmark> startUp();
std::vector<Benchmark> libraryKernels();
std::vector<Benchmark> plannerTime();

/// Median of `repeats` timings of f, in seconds.
double medianSeconds(int repeats, const std::function<void()> &f);

/// Runs f in a child process; its answer and the child's peak resident size in bytes. f's exit by a signal gives -1.
struct ChildResult {
  double value = -1;
  double peakBytes = 0;
};
ChildResult inChild(const std::function<double()> &f);

} // namespace opc::bench
