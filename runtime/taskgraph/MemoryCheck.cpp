// Memory of a plan: registers that overlap are never alive together.
// SPDX-License-Identifier: Apache-2.0
#include "PlanModel.h"

#include <algorithm>
#include <map>

namespace opc::runtime {
namespace {

Status overlap(const PlanModel &m, uint32_t a, uint32_t b, const std::string &why) {
  return Status(StatusCode::kInvalidGraph, "OPC0817",
                "invalid plan: registers '" + m.registers[a].name + "' and '" + m.registers[b].name + "' share memory" +
                    why)
      .withHelp("compile the graph again");
}

/// How one stream uses its registers: where each is first written and last read.
struct Span {
  uint32_t first = kNone, last = 0;
  void use(uint32_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
};

/// The address ranges in use at one moment, per arena, keyed by where they begin.
class ActiveRanges {
public:
  explicit ActiveRanges(size_t arenas) : byArena_(arenas) {}
  /// Adds a register; returns one that is in its way, or kNone.
  uint32_t insert(const ModelRegister &r, uint32_t index) {
    auto &ranges = byArena_[r.arena];
    auto after = ranges.lower_bound(r.offset);
    if (after != ranges.end() && after->first < r.end()) return after->second.second;
    if (after != ranges.begin())
      if (auto before = std::prev(after); before->second.first > r.offset) return before->second.second;
    ranges.emplace_hint(after, r.offset, std::make_pair(r.end(), index));
    return kNone;
  }
  void erase(const ModelRegister &r, uint32_t index) {
    auto &ranges = byArena_[r.arena];
    if (auto it = ranges.find(r.offset); it != ranges.end() && it->second.second == index) ranges.erase(it);
  }

private:
  std::vector<std::map<uint64_t, std::pair<uint64_t, uint32_t>>> byArena_; // begin -> end, register
};

/// Whether the kernel offers to write output `o` over every input that lies in register `reg`.
bool readersMayShare(const PlanModel &m, const ModelTask &t, size_t o, uint32_t reg) {
  for (size_t i = 0; i < t.inputs.size(); ++i)
    if (m.tensors[t.inputs[i]].reg == reg && !t.mayShare(o, i)) return false;
  return true;
}

/// Registers of different owners may not touch. An owner is a stream, or the register itself when it must keep its
/// memory for itself.
Status checkOwners(const PlanModel &m, const std::vector<uint64_t> &owner) {
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < m.registers.size(); ++r)
    if (m.registers[r].end() > m.registers[r].offset) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(m.registers[a].arena, m.registers[a].offset, a) <
           std::tie(m.registers[b].arena, m.registers[b].offset, b);
  });
  // The furthest end so far, and the furthest among the other owners: enough to know whether anybody else reaches here.
  struct Reach {
    uint64_t end = 0, owner = UINT64_MAX;
    uint32_t reg = kNone;
  } best, other;
  uint32_t arena = kNone;
  for (uint32_t r : order) {
    const ModelRegister &reg = m.registers[r];
    if (reg.arena != arena) {
      arena = reg.arena;
      best = other = Reach();
    }
    const Reach &rival = best.owner == owner[r] ? other : best;
    if (rival.reg != kNone && rival.end > reg.offset) {
      const bool persistent = reg.isPersistent() || m.registers[rival.reg].isPersistent();
      return overlap(m, rival.reg, r,
                     persistent ? ", and one of them holds an input, a variable, a constant or a prepared tensor"
                                : ", and several streams use them");
    }
    if (best.owner == owner[r]) {
      if (reg.end() > best.end) best = {reg.end(), owner[r], r};
    } else if (reg.end() > best.end) {
      other = best;
      best = {reg.end(), owner[r], r};
    } else if (reg.end() > other.end) {
      other = {reg.end(), owner[r], r};
    }
  }
  return Status::ok();
}

} // namespace

Status checkMemory(const PlanModel &m, const std::vector<bool> &isShared) {
  const size_t count = m.registers.size();
  std::vector<uint64_t> owner(count);
  for (uint32_t r = 0; r < count; ++r) owner[r] = (uint64_t{1} << 32) + r;
  std::vector<Span> span(count);
  std::vector<bool> isWorkspace(count, false);
  for (const ModelTask &t : m.tasks) {
    if (t.isView) continue;
    auto touch = [&](uint32_t tensor, bool workspace) {
      const uint32_t r = m.tensors[tensor].reg;
      if (m.registers[r].isPersistent() || isShared[r]) return;
      owner[r] = t.stream;
      if (workspace)
        isWorkspace[r] = true;
      else
        span[r].use(t.position);
    };
    for (uint32_t i : t.inputs) touch(i, false);
    for (uint32_t o : t.outputs) touch(o, false);
    if (t.workspace != kNone) touch(t.workspace, true);
  }
  for (const ModelPort &out : m.outputs) { // intact until the end of the step
    const uint32_t r = m.tensors[out.tensor].reg;
    if (!m.registers[r].isPersistent() && !isShared[r]) span[r].last = kNone;
  }
  OPC_RETURN_IF_ERROR(checkOwners(m, owner));

  // One stream at a time: walk its tasks with the set of live ranges.
  for (const PlanModel::Stream &stream : m.streams) {
    ActiveRanges live(m.arenas.size());
    std::vector<std::vector<uint32_t>> ends(stream.tasks.size());
    for (uint32_t position = 0; position < stream.tasks.size(); ++position) {
      const uint32_t index = stream.tasks[position];
      const ModelTask &t = m.tasks[index];
      if (t.isView) continue;
      auto begins = [&](uint32_t tensor) {
        const uint32_t r = m.tensors[tensor].reg;
        const ModelRegister &reg = m.registers[r];
        return owner[r] == t.stream && span[r].first == position && reg.end() > reg.offset;
      };
      auto start = [&](uint32_t r) -> Status {
        if (uint32_t rival = live.insert(m.registers[r], r); rival != kNone)
          return overlap(m, rival, r, " while both are in use").withContext(m.describe(index));
        if (span[r].last != kNone) ends[span[r].last].push_back(r);
        return Status::ok();
      };
      // Outputs and workspace beside the inputs that are still alive; an output that may take an input's place last.
      const uint32_t workspace = t.workspace == kNone ? kNone : m.tensors[t.workspace].reg;
      if (workspace != kNone && m.registers[workspace].end() > m.registers[workspace].offset)
        if (uint32_t rival = live.insert(m.registers[workspace], workspace); rival != kNone)
          return overlap(m, rival, workspace, " while both are in use").withContext(m.describe(index));
      std::vector<std::pair<size_t, size_t>> takesOver; // output, input
      for (size_t o = 0; o < t.outputs.size(); ++o) {
        if (!begins(t.outputs[o])) continue;
        const ModelTensor &out = m.tensors[t.outputs[o]];
        bool later = false;
        for (size_t i = 0; i < t.inputs.size() && !later; ++i) {
          const ModelTensor &in = m.tensors[t.inputs[i]];
          const ModelRegister &a = m.registers[in.reg], &b = m.registers[out.reg];
          if (in.reg != out.reg && a.arena == b.arena && a.offset == b.offset && a.credits == 1 && b.credits == 1 &&
              in.bytes == out.bytes && span[in.reg].last == position && owner[in.reg] == t.stream &&
              readersMayShare(m, t, o, in.reg)) {
            takesOver.push_back({o, i});
            later = true;
          }
        }
        if (!later) OPC_RETURN_IF_ERROR(start(out.reg));
      }
      for (const auto &[o, i] : takesOver) {
        const uint32_t in = m.tensors[t.inputs[i]].reg;
        live.erase(m.registers[in], in);
        OPC_RETURN_IF_ERROR(start(m.tensors[t.outputs[o]].reg));
      }
      if (workspace != kNone) live.erase(m.registers[workspace], workspace);
      for (uint32_t r : ends[position]) live.erase(m.registers[r], r);
    }
  }
  return Status::ok();
}

} // namespace opc::runtime
