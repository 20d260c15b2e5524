// Single ops in another element type, or on another device.
// SPDX-License-Identifier: Apache-2.0
#include "OpFlags.h"

#include <algorithm>

namespace opc::cli {

namespace {

/// "fc*=f32" at its last '=': names of ops may have one.
Result<std::pair<std::string, std::string>> splitFlag(const std::string &flag, const std::string &text,
                                                      const std::string &example) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return usageError(flag + " takes " + example + ", not '" + text + "'",
                      "GLOB is of names of ops, or of their types");
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

} // namespace

std::vector<Option> OpFlags::options() {
  return {{"--cast-ops", 0, "GLOB=TYPE",
           "compute the ops of these names or types in f16, bf16, f32 or f64, with casts around them (repeatable)",
           &casts_},
          {"--place", 0, "GLOB=DEVICE",
           "run the ops of these names or types there, whatever their device_tag says: cpu (repeatable)", &places_},
          {"--allow-cpu-fallback", 0, "", "with --device gpu or sim: ops that have no kernel there run on the CPU",
           &allowCpuFallback_},
          {"--no-winograd", 0, "",
           "compute 3x3 convolutions directly: slower, with smaller errors (docs/numerics.md#convolutions)",
           &noWinograd_}};
}

Status OpFlags::apply(CompileOptions *options) const {
  for (const std::string &text : casts_) {
    OPC_ASSIGN_OR_RETURN(auto flag, splitFlag("--cast-ops", text, "GLOB=TYPE"));
    const std::vector<std::string> types = {"f16", "bf16", "f32", "f64"};
    if (std::find(types.begin(), types.end(), flag.second) == types.end())
      return usageError("--cast-ops " + text + ": ops are computed in " + orList(types) + ", not in '" + flag.second +
                        "'");
    options->castOps.push_back({flag.first, parseDataType(flag.second)});
  }
  for (const std::string &text : places_) {
    OPC_ASSIGN_OR_RETURN(auto flag, splitFlag("--place", text, "GLOB=DEVICE"));
    const std::string device = flag.second.substr(0, flag.second.find(':'));
    if (device == "gpu" || device == "sim")
      return Status(StatusCode::kUnsupported, "OPC0006",
                    "--place " + text + ": single ops go to the cpu alone, not to '" + flag.second + "'")
          .withHelp("--device " + flag.second + " runs the graph there, and --place GLOB=cpu takes ops from it");
    if (flag.second != "cpu")
      return usageError("--place " + text + ": unknown device '" + flag.second + "'",
                        "the devices are cpu, gpu and sim");
    options->onCpu.push_back(flag.first);
  }
  options->cpuFallback = allowCpuFallback_;
  options->winograd = !noWinograd_;
  return Status::ok();
}

} // namespace opc::cli
