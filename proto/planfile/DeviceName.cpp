// Names of devices, read.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceName.h"

#include <cctype>

namespace opc {
namespace {

/// A number of at most three digits; -1 for other texts.
int numberOf(const std::string &text) {
  if (text.empty() || text.size() > 3) return -1;
  int number = 0;
  for (char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

} // namespace

std::optional<DeviceName> readDeviceName(const std::string &name) {
  const size_t colon = name.find(':');
  DeviceName parsed{name.substr(0, colon), 0, 0};
  if (parsed.kind != "cpu" && parsed.kind != "gpu" && parsed.kind != "sim") return std::nullopt;
  if (colon == std::string::npos) return parsed;
  const size_t dash = name.find('-', colon);
  parsed.ordinal = numberOf(name.substr(colon + 1, dash == std::string::npos ? dash : dash - colon - 1));
  parsed.last = dash == std::string::npos ? parsed.ordinal : numberOf(name.substr(dash + 1));
  if (parsed.ordinal < 0 || parsed.last < parsed.ordinal) return std::nullopt;
  if (parsed.kind == "cpu" && parsed.last != 0) return std::nullopt;
  return parsed;
}

std::string deviceNames() { return "cpu, gpu, gpu:N, sim, sim:N; gpu:0-3 and sim:0-3 of several ranks"; }

} // namespace opc
