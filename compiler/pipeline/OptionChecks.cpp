// The ranges of a compilation's options.
// SPDX-License-Identifier: Apache-2.0
#include "OptionChecks.h"

#include "DeviceName.h"
#include "Placement.h"
#include "TextParts.h"

#include <cstdint>

namespace opc {
namespace {

constexpr int64_t kUint32 = UINT32_MAX;

Status refused(const std::string &option, const std::string &found, const std::string &expected) {
  return Status(StatusCode::kUsage, "OPC0001",
                concat("CompileOptions::", option, " is ", found, ", expected ", expected));
}

Status checkNumber(const char *option, int64_t value, int64_t least, int64_t most, const std::string &also = "") {
  if (value >= least && value <= most) return Status::ok();
  return refused(option, std::to_string(value), concat("a number from ", least, " to ", most, also));
}

Status checkMesh(const MeshRequest &mesh) {
  if (!parseMesh(joined(mesh.dims, "x")))
    return refused("mesh.dims", mesh.dims.empty() ? "empty" : joined(mesh.dims, "x"),
                   "1 to 8 dimensions of 1 or more, 1,048,576 devices at most");
  return checkNumber("mesh.microBatches", mesh.microBatches, 1, 1024);
}

Status checkGradient(const GradientRequest &gradient) {
  OPC_RETURN_IF_ERROR(checkNumber("gradient.order", gradient.order, 1, 4));
  OPC_RETURN_IF_ERROR(checkNumber("gradient.recompute.segments", gradient.recompute.segments, -1, kUint32,
                                  "; 0: none, -1: by the number of ops"));
  if (!gradient.training) return Status::ok();
  return checkNumber("gradient.training.accumulate", gradient.training->accumulate, 1, kUint32);
}

Status checkSizes(const SizeRequest &request) {
  for (const SizeRange &size : request.sizes)
    if (size.min < 1 || size.max < size.min)
      return refused("sizes: " + size.name, concat(size.min, "..", size.max), "a range that begins at 1 or later");
  const auto count = static_cast<int64_t>(request.sizes.size());
  for (const auto &[input, dims] : request.dims)
    for (const int size : dims)
      OPC_RETURN_IF_ERROR(checkNumber(("sizes.dims of " + input).c_str(), size, -1, count - 1, "; -1: fixed"));
  return Status::ok();
}

Status checkAll(const CompileOptions &options) {
  const auto device = readDeviceName(options.device);
  if (!device || (device->kind == "cpu" && options.device != "cpu")) // there is one: it has no number
    return refused("device", "'" + options.device + "'", "one of " + deviceNames());
  if (options.maxErrors == 0) return refused("maxErrors", "0", "1 or more: the first error says what is wrong");
  if (options.mesh) OPC_RETURN_IF_ERROR(checkMesh(*options.mesh));
  if (options.gradient) OPC_RETURN_IF_ERROR(checkGradient(*options.gradient));
  return checkSizes(options.sizes);
}

} // namespace

bool checkOptions(const CompileOptions &options, const std::string &graph, std::vector<Diagnostic> *found) {
  const Status asked = checkAll(options);
  if (asked) return true;
  Diagnostic d;
  d.severity = Severity::kError, d.code = asked.id();
  d.message = asked.message();
  d.range.file = graph;
  found->push_back(std::move(d));
  return false;
}

} // namespace opc
