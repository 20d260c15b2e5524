// Checks of how kernels behave.
// SPDX-License-Identifier: Apache-2.0
#include "RunChecks.h"

#include "Log.h"
#include "TextParts.h"

#include <functional>
#include <string_view>

namespace opc::cli {

std::optional<ObserveKinds> readObserveKinds(const std::string &text) {
  ObserveKinds kinds;
  for (const std::string &word : splitAt(text, ',')) {
    if (word == "sync")
      kinds.sync = true;
    else if (word == "access")
      kinds.access = true;
    else if (word == "profile")
      kinds.profile = true;
    else
      return std::nullopt;
  }
  return kinds.any() ? std::optional(kinds) : std::nullopt;
}

Option observeOption(ObserveKinds *to) {
  return Option{
      "--observe", 0, "KINDS",
      "sync: each op is named (-v -v, --log) before it runs; access: no kernel changes what it only reads; profile: "
      "--profile",
      into(to, readObserveKinds)}
      .oneOf({"sync", "access", "profile"})
      .taking("sync, access and profile", "--observe sync,access");
}

Status TaskTurns::before(const ObservedTask &task, int64_t, TaskData &) {
  logDebug("running op " + task.name + " (" + task.type + ")" + task.where.at());
  return Status::ok();
}

namespace {

bool isReadOnly(const ObservedTensor &input) { return !input.isMutable && !input.isOverwritten; }

Result<size_t> hashOf(const ObservedTensor &input, size_t i, TaskData &data) {
  const size_t bytes = static_cast<size_t>(input.desc.shape().elem_cnt()) * GetSizeOfDataType(input.desc.data_type());
  if (bytes == 0) return size_t{0};
  OPC_ASSIGN_OR_RETURN(const void *at, data.input(i));
  return std::hash<std::string_view>()({static_cast<const char *>(at), bytes});
}

} // namespace

Status AccessCheck::before(const ObservedTask &task, int64_t, TaskData &data) {
  std::vector<size_t> hashes(task.inputs.size());
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (!isReadOnly(task.inputs[i])) continue;
    OPC_ASSIGN_OR_RETURN(hashes[i], hashOf(task.inputs[i], i, data));
  }
  std::lock_guard guard(lock_);
  hashes_[task.stream] = std::move(hashes);
  return Status::ok();
}

Status AccessCheck::after(const ObservedTask &task, int64_t, TaskData &data) {
  if (task.isView) return Status::ok();
  std::vector<size_t> hashes;
  {
    std::lock_guard guard(lock_);
    hashes = std::move(hashes_[task.stream]);
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    const ObservedTensor &input = task.inputs[i];
    if (!isReadOnly(input)) continue;
    OPC_ASSIGN_OR_RETURN(const size_t now, hashOf(input, i, data));
    if (now == hashes[i]) continue;
    return Status(StatusCode::kExecution, "OPC0627",
                  task.type + ": the kernel has changed its input " + input.argument + ", " + input.name)
        .withContext("running op " + task.name + task.where.at())
        .withHelp("write to the outputs alone, or declare the input with SetInputArgModifyFn");
  }
  return Status::ok();
}

} // namespace opc::cli
