// A benchmark row and the list of benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
std::vector<Benchmark> importTime();
std::vector<Benchmark> startUp();
std::vector<Benchmark> libraryKernels();
std::vector<Benchmark> memoryBound();
std::vector<Benchmark> plannerTime();
std::vector<Benchmark> functionErrors();
std::vector<Benchmark> codeCompileTime();

/// A graph through compiler and session, and a peer that `makePeer` makes, by turns; each counts with its fastest run:
/// on a busy machine both have quiet moments, and only those compare. Inputs are of f32. Microseconds; empty, with what
/// is wrong on standard error, where the graph does not run.
std::vector<Row> compare(const std::string &name, const std::string &graph, int threads, const std::string &peer,
                         const std::function<std::function<void()>()> &makePeer, int rounds = 25);
/// Least of `runs` timings of f, in seconds.
double secondsOf(const std::function<void()> &f, int runs);
/// f(begin, end) on as many threads as there are parts of [0, n).
void inParallel(int threads, int64_t n, const std::function<void(int64_t begin, int64_t end)> &f);

/// Of this process so far. The compiler has one thread, and what else runs beside it does not count.
double processorSeconds();
/// Median of `repeats` timings of f, in seconds.
double medianSeconds(int repeats, const std::function<void()> &f);

/// Runs f in a child process; its answer and the child's peak resident size in bytes. f's exit by a signal gives -1.
struct ChildResult {
  double value = -1;
  double peakBytes = 0;
};
ChildResult inChild(const std::function<double()> &f);

} // namespace opc::bench
