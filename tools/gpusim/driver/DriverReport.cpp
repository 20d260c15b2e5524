// Writes the report: keys in a fixed order, numbers as they were counted.
// SPDX-License-Identifier: Apache-2.0
#include "DriverReport.h"

#include "SimOptions.h"

#include <cstdio>

namespace opc::gpusim::driver {
namespace {

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const unsigned char c : text) {
    char escape[8];
    if (c == '"' || c == '\\')
      out += '\\', out += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else if (c < 0x20)
      std::snprintf(escape, sizeof escape, "\\u%04x", c), out += escape;
    else
      out += static_cast<char>(c);
  }
  return out + "\"";
}

std::string field(const char *name, uint64_t value) { return quoted(name) + ": " + std::to_string(value); }

std::string countersJson(const Counters &c) {
  return field("instructions", c.instructions) + ", " + field("active_lanes", c.lanes) + ", " +
         field("requests", c.requests) + ", " + field("sectors", c.sectors) + ", " +
         field("ideal_sectors", c.idealSectors) + ", " + field("shared_requests", c.sharedRequests) + ", " +
         field("wavefronts", c.wavefronts) + ", " + field("ideal_wavefronts", c.idealWavefronts) + ", " +
         field("bytes_read", c.bytesRead) + ", " + field("bytes_written", c.bytesWritten);
}

std::string kernelJson(const KernelTotals &k, bool lines) {
  std::string out = "{" + field("launches", k.launches) + ", " + countersJson(k.counters);
  if (!lines) return out + "}";
  out += ", \"lines\": [";
  const char *comma = "";
  for (const auto &[number, line] : k.lines) {
    out += std::string(comma) + "\n      {" + field("ptx_line", number);
    if (!line.file.empty()) out += ", \"file\": " + quoted(line.file) + ", " + field("line", line.line);
    out += ", " + countersJson(line.counters) + "}";
    comma = ",";
  }
  return out + "]}";
}

template <class Map, class Writer> std::string object(const Map &map, Writer write) {
  std::string out = "{";
  const char *comma = "";
  for (const auto &[key, value] : map) {
    out += std::string(comma) + "\n    " + quoted(key) + ": " + write(value);
    comma = ",";
  }
  return out + "}";
}

} // namespace

void DriverReport::add(const std::string &kernel, const Outcome &outcome) {
  KernelTotals &totals = kernels[kernel];
  ++totals.launches;
  totals.counters.add(outcome.counters);
  for (const LineCounters &line : outcome.lines) {
    LineCounters &sum = totals.lines[line.ptxLine];
    sum.ptxLine = line.ptxLine, sum.file = line.file, sum.line = line.line;
    sum.counters.add(line.counters);
  }
}

std::string DriverReport::json(const SimOptions &o, bool lines) const {
  const auto copies = [](const char *name, const CountAndBytes &c) {
    return quoted(name) + ": {" + field("count", c.count) + ", " + field("bytes", c.bytes) + "}";
  };
  std::string out = "{\n  " + field("seed", o.seed) + ",\n  \"policy\": " + quoted(policyName(o.policy)) + ",\n  " +
                    field("devices", static_cast<uint64_t>(o.devices)) + ",\n  " +
                    field("compute_capability", static_cast<uint64_t>(o.computeCapability)) + ",\n  " +
                    field("driver", static_cast<uint64_t>(o.driver)) + ",\n  " + field("launches", launches) + ",\n  " +
                    field("graph_launches", graphLaunches) + ",\n  " + field("graph_nodes", graphNodes) + ",\n  " +
                    field("synchronisations", synchronisations) + ",\n  " + field("queries", queries) + ",\n  " +
                    field("host_functions", hostFunctions) + ",\n  \"copies\": {" +
                    copies("host_to_device", hostToDevice) + ", " + copies("device_to_host", deviceToHost) + ", " +
                    copies("device_to_device", deviceToDevice) + ", " + copies("peer", peer) + ", " +
                    copies("peer_staged", peerStaged) + "},\n  " + copies("fills", fills) + ",\n  \"peak_bytes\": [";
  for (size_t i = 0; i < peak.size(); ++i) out += (i ? ", " : "") + std::to_string(peak[i]);
  out += "],\n  \"calls\": " + object(calls, [](uint64_t n) { return std::to_string(n); });
  out += ",\n  \"stream_calls\": " + object(streamCalls, [](uint64_t n) { return std::to_string(n); });
  out += ",\n  \"kernels\": " + object(kernels, [&](const KernelTotals &k) { return kernelJson(k, lines); }) +
         ",\n  \"findings\": [";
  for (size_t i = 0; i < findings.size(); ++i)
    out += std::string(i ? "," : "") + "\n    {" + field("error", static_cast<uint64_t>(findings[i].code)) +
           ", \"kind\": " + quoted(findings[i].kind) + ", \"text\": " + quoted(findings[i].text) + "}";
  return out + "]\n}\n";
}

bool DriverReport::write(const SimOptions &options) const {
  if (options.report.empty()) return true;
  const std::string text = json(options);
  if (options.report == "-") return std::fwrite(text.data(), 1, text.size(), stderr) == text.size();
  std::FILE *file = std::fopen(options.report.c_str(), "w");
  if (!file) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

} // namespace opc::gpusim::driver
