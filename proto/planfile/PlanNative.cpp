// The frame around machine code.
// SPDX-License-Identifier: Apache-2.0
#include "PlanNative.h"
#include "PlanFile.h"

#include "opc/Version.h"

#include <algorithm>
#include <string>

namespace opc {
namespace {

constexpr uint32_t kPage = 4096, kMostLanes = 64;
constexpr size_t kMostBytes = size_t{16} << 20;

Status bad(std::string message) {
  return Status(StatusCode::kInvalidGraph, "OPC0823", "invalid plan: " + std::move(message))
      .withHelp("compile the graph again: opc compile --native");
}

std::string faultOf(const plan::NativeCode &code, const plan::NativeCode::Image &image) {
  const auto size = static_cast<uint64_t>(image.data().size());
  if (image.level() == plan::NativeCode::Image::NONE) return "is for no level";
  if (size > kMostBytes) return "has more than " + std::to_string(kMostBytes) + " bytes";
  if (image.code() == 0 || image.code() % kPage != 0 || image.code() > size)
    return "has " + std::to_string(image.code()) + " executable bytes of " + std::to_string(size) +
           ", expected whole pages of " + std::to_string(kPage);
  if (image.entry() >= image.code())
    return "begins at byte " + std::to_string(image.entry()) + " of " + std::to_string(image.code());
  if (image.lanes() == 0 || kMostLanes % image.lanes() != 0)
    return "computes " + std::to_string(image.lanes()) + " elements at a time";
  if (image.checksum() != nativeChecksum(code, image)) return "is damaged: its checksum does not match";
  return "";
}

Status checkReferences(const plan::Plan &part, int codes) {
  for (const plan::Task &task : part.task()) {
    if (task.native_size() > std::max(1, task.body_size()))
      return bad("task " + task.name() + " has more loops with machine code than ops");
    for (const plan::Task &op : task.body())
      if (op.native_size() > 0) return bad("an op in the body of task " + task.name() + " has machine code of its own");
    for (uint32_t n : task.native())
      if (n > static_cast<uint32_t>(codes))
        return bad("the machine code of task " + task.name() + " is " + std::to_string(n) + " of " +
                   std::to_string(codes));
    for (const plan::Plan &graph : task.graph()) OPC_RETURN_IF_ERROR(checkReferences(graph, codes));
  }
  return Status::ok();
}

} // namespace

uint64_t nativeRegion(std::string_view key) { return planChecksum("opc " OPC_VERSION_STRING "\n" + std::string(key)); }

uint64_t nativeChecksum(const plan::NativeCode &code, const plan::NativeCode::Image &image) {
  std::string bytes;
  for (uint64_t n : {uint64_t{code.region()}, static_cast<uint64_t>(image.level()), uint64_t{image.lanes()},
                     uint64_t{image.entry()}, uint64_t{image.code()}})
    for (int i = 0; i < 64; i += 8) bytes += static_cast<char>(n >> i & 0xffu);
  return planChecksum(bytes + image.data());
}

Status checkNativeCode(const plan::Plan &plan) {
  if (plan.native_size() > kMaxNativeCodes)
    return bad("it has machine code of more than " + std::to_string(kMaxNativeCodes) + " loops");
  for (int i = 0; i < plan.native_size(); ++i) {
    const plan::NativeCode &code = plan.native(i);
    const std::string name = "machine code " + std::to_string(i);
    if (code.image_size() == 0 || code.image_size() > kMaxNativeImages)
      return bad(name + " has " + std::to_string(code.image_size()) + " images");
    for (int k = 0; k < code.image_size(); ++k) {
      if (const std::string fault = faultOf(code, code.image(k)); !fault.empty())
        return bad("image " + std::to_string(k) + " of " + name + " " + fault);
      if (k > 0 && code.image(k).level() <= code.image(k - 1).level())
        return bad("images of " + name + " are not in the order of their levels");
    }
  }
  OPC_RETURN_IF_ERROR(checkReferences(plan, plan.native_size()));
  for (const plan::Plan &part : plan.part()) {
    if (part.native_size() > 0) return bad("a part has machine code of its own");
    OPC_RETURN_IF_ERROR(checkReferences(part, plan.native_size()));
  }
  return Status::ok();
}

} // namespace opc
