// Data flow of a plan: who makes, who reads, in which order, and the waits between streams.
#include "PlanModel.h"

#include <algorithm>
#include <map>

namespace opc::runtime {
namespace {

Status flow(const PlanModel &m, uint32_t task, const std::string &message) {
  return Status(StatusCode::kInvalidGraph, "OPC0816", "invalid plan: " + message)
      .withHelp("compile the graph again")
      .withContext(m.describe(task));
}

/// For each tensor the one whose bytes it shows, through any chain of views. Linear: every chain is walked once.
Result<std::vector<uint32_t>> resolveViews(const PlanModel &m) {
  std::vector<uint32_t> root(m.tensors.size(), kNone), walkedBy(m.tensors.size(), kNone), chain;
  for (uint32_t tensor = 0; tensor < m.tensors.size(); ++tensor) {
    uint32_t t = tensor;
    chain.clear();
    while (root[t] == kNone) {
      if (walkedBy[t] == tensor)
        return flow(m, m.tensors[t].producer, "tensor '" + m.tensors[t].name + "' is a view of itself");
      walkedBy[t] = tensor;
      const uint32_t p = m.tensors[t].producer;
      if (p == kNone || !m.tasks[p].isView) {
        root[t] = t;
        break;
      }
      chain.push_back(t);
      t = m.tasks[p].inputs[0];
    }
    for (uint32_t link : chain) root[link] = root[t];
  }
  return root;
}

} // namespace

Result<std::vector<CrossEdge>> checkDataFlow(const PlanModel &m) {
  Result<std::vector<uint32_t>> views = resolveViews(m);
  if (!views) return views.status();
  const std::vector<uint32_t> &root = *views;

  // Writes, stream by stream. version[r] counts the writes of register r; a tensor is intact while its version is
  // current.
  std::vector<uint32_t> regVersion(m.registers.size(), 0), version(m.tensors.size(), kNone);
  std::vector<uint32_t> writerStream(m.registers.size(), kNone), firstWriter(m.registers.size(), kNone),
      lastWriter(m.registers.size(), kNone);
  std::vector<uint32_t> mutator(m.registers.size(), kNone); // the stream that updates a variable
  for (const PlanModel::Stream &stream : m.streams) {
    for (uint32_t index : stream.tasks) {
      const ModelTask &task = m.tasks[index];
      for (size_t i = 0; i < task.inputs.size(); ++i) {
        const uint32_t t = root[task.inputs[i]];
        const ModelTensor &tensor = m.tensors[t];
        const uint32_t producer = tensor.producer;
        if (producer == kNone) {
          if (!tensor.isSource) return flow(m, index, "it reads tensor '" + tensor.name + "', which nothing makes");
        } else {
          const ModelTask &maker = m.tasks[producer];
          if (task.stride % maker.stride != 0)
            return flow(m, index,
                        "it runs every " + std::to_string(task.stride) + " steps and reads tensor '" + tensor.name +
                            "', made every " + std::to_string(maker.stride));
          if (maker.stream == task.stream) {
            if (maker.position >= task.position)
              return flow(m, index,
                          "it reads tensor '" + tensor.name + "' before " + m.describe(producer) + " makes it");
            if (version[t] != regVersion[tensor.reg])
              return flow(m, index,
                          "it reads tensor '" + tensor.name + "' after " + m.describe(lastWriter[tensor.reg]) +
                              " has overwritten it");
          }
        }
        if (task.isView || !task.mutableInput[i]) continue;
        const ModelRegister &r = m.registers[tensor.reg];
        if (r.kind == plan::Register::VARIABLE) {
          if (mutator[tensor.reg] != kNone && mutator[tensor.reg] != task.stream)
            return flow(m, index, "it updates variable '" + tensor.name + "', which another stream updates too");
          mutator[tensor.reg] = task.stream;
        } else if (r.kind != plan::Register::ACTIVATION) {
          return flow(m, index, "it writes its input '" + tensor.name + "', which is no variable");
        }
      }
      if (task.isView) continue;
      for (size_t o = 0; o < task.outputs.size(); ++o) {
        const ModelTensor &out = m.tensors[task.outputs[o]];
        const ModelRegister &r = m.registers[out.reg];
        if (r.kind != plan::Register::ACTIVATION)
          return flow(m, index,
                      "it makes tensor '" + out.name + "' in a register for " + plan::Register::Kind_Name(r.kind));
        for (size_t other = 0; other < o; ++other)
          if (m.tensors[task.outputs[other]].reg == out.reg)
            return flow(m, index, "two of its outputs share a register");
        // Writing where an input lies needs the kernel's consent, and what lies there must be of the same extent.
        for (size_t i = 0; i < task.inputs.size(); ++i) {
          const ModelTensor &in = m.tensors[task.inputs[i]];
          if (in.reg == out.reg && in.bytes && out.bytes && (!task.mayShare(o, i) || in.bytes != out.bytes))
            return flow(m, index,
                        "it writes tensor '" + out.name + "' over its input '" + in.name +
                            "', which its kernel does not offer");
        }
        if (writerStream[out.reg] == kNone) {
          writerStream[out.reg] = task.stream;
          firstWriter[out.reg] = index;
        } else if (writerStream[out.reg] != task.stream) {
          return flow(m, index, "it writes register '" + r.name + "', which another stream writes too");
        }
        lastWriter[out.reg] = index;
        version[task.outputs[o]] = ++regVersion[out.reg];
      }
    }
  }

  // Readers in other streams, and what outputs show.
  std::map<std::pair<uint32_t, uint32_t>, CrossEdge> edges; // by register, reader stream
  std::vector<bool> isShared(m.registers.size(), false);
  for (const PlanModel::Stream &stream : m.streams) {
    for (uint32_t index : stream.tasks) {
      const ModelTask &task = m.tasks[index];
      if (task.isView) continue;
      for (size_t i = 0; i < task.inputs.size(); ++i) {
        const uint32_t t = root[task.inputs[i]], reg = m.tensors[t].reg;
        if (mutator[reg] != kNone && mutator[reg] != task.stream)
          return flow(m, index, "it reads variable '" + m.tensors[t].name + "', which another stream updates");
        const uint32_t producer = m.tensors[t].producer;
        if (producer == kNone || m.tasks[producer].stream == task.stream) continue;
        if (version[t] != regVersion[reg])
          return flow(m, index,
                      "it reads tensor '" + m.tensors[t].name + "' of another stream, which " +
                          m.describe(lastWriter[reg]) + " overwrites");
        if (task.mutableInput[i])
          return flow(m, index, "it writes its input '" + m.tensors[t].name + "', which another stream makes");
        isShared[reg] = true;
        CrossEdge edge;
        edge.reg = reg;
        edge.writerStream = m.tasks[producer].stream;
        edge.readerStream = task.stream;
        edge.firstWriter = firstWriter[reg];
        edge.lastWriter = lastWriter[reg];
        edge.firstReader = edge.lastReader = index;
        auto [it, isNew] = edges.emplace(std::make_pair(reg, task.stream), edge);
        if (!isNew) it->second.lastReader = index;
      }
    }
  }
  for (const ModelPort &out : m.outputs) {
    const ModelTensor &t = m.tensors[root[out.tensor]];
    if (t.producer == kNone && !t.isSource)
      return Status(StatusCode::kInvalidGraph, "OPC0816",
                    "invalid plan: output '" + out.name + "' is tensor '" + t.name + "', which nothing makes");
    if (t.producer != kNone && version[root[out.tensor]] != regVersion[t.reg])
      return Status(StatusCode::kInvalidGraph, "OPC0816",
                    "invalid plan: output '" + out.name + "' is tensor '" + t.name + "', which " +
                        m.describe(lastWriter[t.reg]) + " overwrites");
  }
  // A workspace belongs to one stream.
  std::vector<uint32_t> workspaceStream(m.registers.size(), kNone);
  for (uint32_t i = 0; i < m.tasks.size(); ++i) {
    if (m.tasks[i].workspace == kNone) continue;
    uint32_t &s = workspaceStream[m.tensors[m.tasks[i].workspace].reg];
    if (s != kNone && s != m.tasks[i].stream) return flow(m, i, "its workspace is used by another stream too");
    s = m.tasks[i].stream;
  }

  std::vector<CrossEdge> list;
  for (const auto &[key, edge] : edges) list.push_back(edge);
  OPC_RETURN_IF_ERROR(checkMemory(m, isShared));
  OPC_RETURN_IF_ERROR(checkWaits(m, list));
  return list;
}

Status checkWaits(const PlanModel &m, const std::vector<CrossEdge> &edges) {
  // Within one step a task waits for its predecessor in the stream and for the makers of what it reads elsewhere. Waits
  // for credits reach back at least one step, so only these edges can close a cycle without credits.
  if (m.streams.size() < 2) return Status::ok();
  std::vector<std::vector<uint32_t>> next(m.tasks.size());
  std::vector<uint32_t> waits(m.tasks.size(), 0);
  auto add = [&](uint32_t from, uint32_t to) {
    next[from].push_back(to);
    ++waits[to];
  };
  for (const PlanModel::Stream &s : m.streams)
    for (size_t i = 1; i < s.tasks.size(); ++i) add(s.tasks[i - 1], s.tasks[i]);
  for (const CrossEdge &e : edges) add(e.lastWriter, e.firstReader);
  std::vector<uint32_t> ready;
  for (uint32_t t = 0; t < m.tasks.size(); ++t)
    if (waits[t] == 0) ready.push_back(t);
  size_t done = 0;
  while (!ready.empty()) {
    const uint32_t t = ready.back();
    ready.pop_back();
    ++done;
    for (uint32_t n : next[t])
      if (--waits[n] == 0) ready.push_back(n);
  }
  if (done == m.tasks.size()) return Status::ok();
  for (const CrossEdge &e : edges)
    if (waits[e.firstReader] != 0 && waits[e.lastWriter] != 0)
      return Status(StatusCode::kInvalidGraph, "OPC0819",
                    "invalid plan: deadlock: " + m.describe(e.firstReader) + " and " + m.describe(e.lastWriter) +
                        " wait for each other, through register '" + m.registers[e.reg].name + "'")
          .withHelp("compile the graph again");
  return Status(StatusCode::kInternal, "OPC0819", "a wait cycle without an edge between streams");
}

} // namespace opc::runtime
