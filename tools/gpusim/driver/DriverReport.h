// What was done and found: counters and findings, and the JSON of report=FILE.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Machine.h"

#include <map>
#include <string>
#include <vector>

namespace opc::gpusim::driver {

struct SimOptions;

struct CountAndBytes {
  uint64_t count = 0, bytes = 0;
  void add(uint64_t n) { ++count, bytes += n; }
};

struct KernelTotals {
  uint64_t launches = 0;
  Counters counters;
  std::map<uint32_t, LineCounters> lines; // by PTX line
};

struct ReportedFinding {
  int code = 0;
  std::string kind, text;
};

struct DriverReport {
  std::map<std::string, uint64_t> calls;       // by function
  std::map<std::string, uint64_t> streamCalls; // "cuEventRecord:2": of those that name a stream, by its number
  uint64_t launches = 0, graphLaunches = 0, graphNodes = 0, synchronisations = 0, queries = 0, hostFunctions = 0;
  CountAndBytes hostToDevice, deviceToHost, deviceToDevice, peer, peerStaged,
      fills;                        // peerStaged: of peer, those without access
  std::vector<uint64_t> used, peak; // bytes of each device
  std::map<std::string, KernelTotals> kernels;
  std::vector<ReportedFinding> findings;

  void add(const std::string &kernel, const Outcome &outcome);
  /// `lines`: also the counters of each PTX line.
  std::string json(const SimOptions &options, bool lines = true) const;
  /// To the file of the options, or to stderr; nothing without one. False: it could not be written.
  bool write(const SimOptions &options) const;
};

} // namespace opc::gpusim::driver
