// What a training run writes down step by step: a file of JSON lines, and curves as SVG.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

/// The numbers of one step: its number (1 for the first), its epoch (1 for the first), and the outputs of one element.
struct StepMetrics {
  int64_t step = 0, epoch = 0;
  std::vector<std::pair<std::string, double>> values;
};

/// What an output is called among the numbers of a step: "output.step" where a line has a number of its own of that
/// name, else as the graph calls it.
std::string metricName(const std::string &output);

/// {"step":1,"epoch":1,"loss":2.3}: one line, without the line end. Numbers as they read back; "nan", "inf" as text.
std::string metricsLine(const StepMetrics &metrics);

/// A file of such lines. A run that goes on from a checkpoint keeps the lines up to the checkpoint's step and drops the
/// rest, so that the file becomes that of a run which was never stopped. Lines that cannot be written, on a full disk,
/// are kept and tried again.
class MetricsFile {
public:
  MetricsFile() = default;
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;
  /// Writes what it can.
  ~MetricsFile();
  /// Begins the file, or goes on after step `from` (> 0) of it. `earlier` receives the lines that stay. Errors:
  /// OPC0707, and OPC0706 for a file that cannot be read.
  Status open(const std::string &path, int64_t from, std::vector<StepMetrics> *earlier);
  bool isOpen() const { return fd_ >= 0; }
  /// Adds a line; writes when there is a page of them. Errors: OPC0707; the lines stay for the next call.
  Status write(const StepMetrics &metrics);
  /// Hands everything to the operating system: before a checkpoint that counts on it. Errors: OPC0707.
  Status flush();

private:
  static constexpr size_t kPage = 4096, kMostPending = size_t{64} << 20;
  std::string path_, pending_;
  int fd_ = -1;
  bool isBehind_ = false; // the last attempt has failed
};

/// A drawing of each value over the steps, one panel below the other; at most a few thousand points each, with the
/// smallest and largest value of every stretch kept.
std::string metricsSvg(const std::string &title, const std::vector<StepMetrics> &metrics);

} // namespace opc::cli
