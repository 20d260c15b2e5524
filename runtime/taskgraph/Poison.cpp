// OPC_POISON=1: what ends with which task, and the filling.
// SPDX-License-Identifier: Apache-2.0
#include "Poison.h"

#include <cstdlib>
#include <string_view>

namespace opc::runtime {
namespace {

bool mayEnd(const ModelRegister &r) { return !r.isPersistent() && r.bytes > 0; }

bool overlap(const ModelRegister &a, const ModelRegister &b) {
  return a.arena == b.arena && a.offset < b.end() && b.offset < a.end();
}

/// Calls `visit` for each register that a task uses.
template <class Visit> void forEachRegister(const PlanModel &model, const ModelTask &task, Visit visit) {
  for (const auto *tensors : {&task.inputs, &task.outputs})
    for (uint32_t t : *tensors) visit(model.tensors[t].reg);
  if (task.workspace != kNone) visit(model.tensors[task.workspace].reg);
}

} // namespace

Result<bool> Poison::isAsked() {
  const char *value = std::getenv("OPC_POISON");
  const std::string_view text = value ? value : "";
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  return Status(StatusCode::kUsage, "OPC0001", "OPC_POISON is '" + std::string(text) + "', and takes 0 or 1");
}

Poison::Poison(const PlanModel &model) : ends_(model.tasks.size()) {
  constexpr uint32_t kSeveral = kNone - 1;
  std::vector<uint32_t> user(model.registers.size(), kNone), last(model.registers.size(), kNone);
  for (uint32_t s = 0; s < model.streams.size(); ++s) {
    std::vector<uint32_t> views; // registers of views that stand behind the last task
    for (uint32_t index : model.streams[s].tasks) {
      const ModelTask &task = model.tasks[index];
      forEachRegister(model, task, [&](uint32_t r) {
        user[r] = user[r] == kNone || user[r] == s ? s : kSeveral;
        if (task.isView)
          views.push_back(r);
        else
          last[r] = index;
      });
      if (task.isView) continue;
      for (uint32_t r : views) last[r] = index;
      views.clear();
    }
    for (uint32_t r : views) last[r] = kNone;
  }
  for (const ModelPort &p : model.outputs) last[model.tensors[p.tensor].reg] = kNone;
  for (uint32_t r = 0; r < model.registers.size(); ++r) {
    if (last[r] == kNone || user[r] == kSeveral || !mayEnd(model.registers[r])) continue;
    // An output may be written over an input that ends.
    bool isTaken = false;
    for (uint32_t out : model.tasks[last[r]].outputs) {
      const uint32_t to = model.tensors[out].reg;
      isTaken |= to != r && overlap(model.registers[r], model.registers[to]);
    }
    if (!isTaken) ends_[last[r]].push_back(r);
  }
}

Status Poison::fill(const ModelRegister &r, uint64_t slot, const Arenas &arenas, Stream &stream) {
  const std::vector<char> bytes(r.bytes, static_cast<char>(kByte));
  OPC_RETURN_IF_ERROR(arenas.device(r.arena).copyFromHost(stream, arenas.at(r.arena, r.offset + slot * r.stride),
                                                          bytes.data(), bytes.size()));
  return stream.synchronize();
}

Status Poison::fillAll(const PlanModel &model, const Arenas &arenas, const std::vector<Stream *> &streams) {
  for (const ModelRegister &r : model.registers)
    for (uint64_t slot = 0; mayEnd(r) && slot < r.credits; ++slot)
      OPC_RETURN_IF_ERROR(fill(r, slot, arenas, *streams[r.arena]));
  return Status::ok();
}

Status Poison::fillAfter(uint32_t task, const PlanModel &model, const Arenas &arenas, Stream &stream, int64_t step) {
  for (uint32_t index : ends_[task]) {
    const ModelRegister &r = model.registers[index];
    OPC_RETURN_IF_ERROR(fill(r, static_cast<uint64_t>(step) % r.credits, arenas, stream));
  }
  return Status::ok();
}

} // namespace opc::runtime
