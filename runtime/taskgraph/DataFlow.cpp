// Data flow of a plan: who makes, who reads, in which order, and the waits between streams.
// SPDX-License-Identifier: Apache-2.0
#include "PlanModel.h"

#include "ControlOp.h"
#include "Device.h"
#include "PlanReading.h"

#include <algorithm>
#include <map>

namespace opc::runtime {
namespace {

template <class... Parts> Status flow(const PlanModel &m, uint32_t task, const Parts &...message) {
  return bad("OPC0816", message...).withContext(m.describe(task));
}

/// For each tensor the one whose bytes it shows, through any chain of views. Linear: every chain is walked once.
Result<std::vector<uint32_t>> resolveViews(const PlanModel &m) {
  std::vector<uint32_t> root(m.tensors.size(), kNone), walkedBy(m.tensors.size(), kNone), chain;
  for (uint32_t tensor = 0; tensor < m.tensors.size(); ++tensor) {
    uint32_t t = tensor;
    chain.clear();
    while (root[t] == kNone) {
      if (walkedBy[t] == tensor)
        return flow(m, m.tensors[t].producer, "tensor '", m.tensors[t].name, "' is a view of itself");
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

/// Whether `a` comes before `b` in every step of their stream: a task with a larger lag does a step in a later turn.
bool comesBefore(const ModelTask &a, const ModelTask &b) {
  return a.lag != b.lag ? a.lag < b.lag : a.position < b.position;
}

std::string lagText(uint32_t lag) { return "lags by " + counted(lag, "step"); }

/// What lags allow within one stream: a register lives from the turn of its writers to that of its last reader, and so
/// needs a slot for each turn between them; a variable is read between the updates that the order of steps puts it
/// between.
Status checkLags(const PlanModel &m, const std::vector<uint32_t> &root, const std::vector<uint32_t> &firstWriter,
                 const std::vector<uint32_t> &version, const std::vector<uint32_t> &regVersion) {
  std::vector<std::vector<uint32_t>> mutators(m.registers.size()); // tasks that write an input
  for (const PlanModel::Stream &stream : m.streams)
    for (uint32_t index : stream.tasks)
      for (size_t i = 0; i < m.tasks[index].inputs.size(); ++i)
        if (!m.tasks[index].isView && m.tasks[index].mutableInput[i]) {
          std::vector<uint32_t> &list = mutators[m.tensors[root[m.tasks[index].inputs[i]]].reg];
          if (list.empty() || m.tasks[list.back()].lag != m.tasks[index].lag ||
              m.tasks[list.back()].stride != m.tasks[index].stride)
            list.push_back(index); // one of each kind says it all
        }
  for (const PlanModel::Stream &stream : m.streams) {
    for (uint32_t index : stream.tasks) {
      const ModelTask &task = m.tasks[index];
      for (uint32_t input : task.inputs) {
        const uint32_t t = root[input];
        const ModelTensor &tensor = m.tensors[t];
        const ModelRegister &r = m.registers[tensor.reg];
        if (mutators[tensor.reg].size() > 64) return flow(m, index, "too many tasks update '", tensor.name, "'");
        for (uint32_t other : mutators[tensor.reg]) {
          const ModelTask &update = m.tasks[other];
          if (update.stream != task.stream || update.lag == task.lag) continue;
          // An update at the last micro-batch of a run comes after all that lags less, and before what runs at the last
          // micro-batch, too.
          const bool once = r.kind == plan::Register::VARIABLE && m.microBatches > 1 && update.stride == m.microBatches;
          if (!once || (task.lag > update.lag && task.stride != m.microBatches))
            return flow(m, index, "it ", lagText(task.lag), " and reads '", tensor.name, "', which ", m.describe(other),
                        " updates, which ", lagText(update.lag));
        }
        if (tensor.producer == kNone || r.isPrepared()) continue;
        const ModelTask &maker = m.tasks[tensor.producer];
        if (maker.stream != task.stream || maker.lag == task.lag) continue;
        if (version[t] != regVersion[tensor.reg])
          return flow(m, index, "it reads tensor '", tensor.name, "' in a later turn, when it has been overwritten");
        if (r.credits < task.lag - m.tasks[firstWriter[tensor.reg]].lag + 1)
          return flow(m, index, "it ", lagText(task.lag), " and reads tensor '", tensor.name, "', which ",
                      lagText(maker.lag), ", through a register of ", counted(r.credits, "slot"));
      }
    }
  }
  return Status::ok();
}

/// Registers that live from one turn to another, and those of outputs in streams with lags, have their memory for
/// themselves.
void keepAcrossTurns(const PlanModel &m, std::vector<bool> *isShared) {
  std::vector<uint32_t> lag(m.registers.size(), kNone);
  std::vector<bool> streamLags(m.streams.size(), false);
  for (const ModelTask &t : m.tasks) {
    if (t.isView) continue;
    if (t.lag) streamLags[t.stream] = true;
    for (const auto *list : {&t.inputs, &t.outputs})
      for (uint32_t tensor : *list) {
        const uint32_t r = m.tensors[tensor].reg;
        if (lag[r] == kNone) lag[r] = t.lag;
        if (lag[r] != t.lag) (*isShared)[r] = true;
      }
  }
  for (const ModelPort &out : m.outputs) {
    const ModelTensor &t = m.tensors[out.tensor];
    if (t.producer != kNone && streamLags[m.tasks[t.producer].stream]) (*isShared)[t.reg] = true;
  }
}

/// Follows the bytes of every register through the streams.
class DataFlow {
public:
  DataFlow(const PlanModel &model, std::vector<uint32_t> views)
      : m(model), root(std::move(views)), regVersion(m.registers.size(), 0), version(m.tensors.size(), kNone),
        writerStream(m.registers.size(), kNone), firstWriter(m.registers.size(), kNone),
        lastWriter(m.registers.size(), kNone), mutator(m.registers.size(), kNone), isShared(m.registers.size(), false) {
  }

  Result<std::vector<CrossEdge>> check() {
    for (const PlanModel::Stream &stream : m.streams)
      for (uint32_t index : stream.tasks) OPC_RETURN_IF_ERROR(write(index));
    for (const PlanModel::Stream &stream : m.streams)
      for (uint32_t index : stream.tasks) OPC_RETURN_IF_ERROR(readElsewhere(index));
    OPC_RETURN_IF_ERROR(show());
    OPC_RETURN_IF_ERROR(checkWorkspaces());
    const bool hasLags = std::any_of(m.tasks.begin(), m.tasks.end(), [](const ModelTask &t) { return t.lag != 0; });
    if (hasLags) {
      OPC_RETURN_IF_ERROR(checkLags(m, root, firstWriter, version, regVersion));
      keepAcrossTurns(m, &isShared);
    }
    std::vector<CrossEdge> list;
    for (const auto &[key, edge] : edges) list.push_back(edge);
    OPC_RETURN_IF_ERROR(checkMemory(m, isShared));
    OPC_RETURN_IF_ERROR(checkWaits(m, list));
    return list;
  }

private:
  /// A task in the order of its stream: what it reads is there, and it may write what it writes.
  Status write(uint32_t index) {
    const ModelTask &task = m.tasks[index];
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      OPC_RETURN_IF_ERROR(read(index, root[task.inputs[i]]));
      if (!task.isView && task.mutableInput[i]) OPC_RETURN_IF_ERROR(update(index, m.tensors[root[task.inputs[i]]]));
    }
    if (task.isView) return Status::ok();
    if (task.isPrepared) OPC_RETURN_IF_ERROR(checkPrepared(index));
    for (size_t o = 0; o < task.outputs.size(); ++o) {
      OPC_RETURN_IF_ERROR(checkOutput(index, o));
      OPC_RETURN_IF_ERROR(checkWriters(index, m.tensors[task.outputs[o]].reg));
      const uint32_t reg = m.tensors[task.outputs[o]].reg;
      lastWriter[reg] = index;
      version[task.outputs[o]] = ++regVersion[reg];
    }
    return Status::ok();
  }

  Status read(uint32_t index, uint32_t t) const {
    const ModelTask &task = m.tasks[index];
    const ModelTensor &tensor = m.tensors[t];
    const uint32_t producer = tensor.producer;
    if (producer == kNone) {
      if (!tensor.isSource) return flow(m, index, "it reads tensor '", tensor.name, "', which nothing makes");
      return Status::ok();
    }
    const ModelTask &maker = m.tasks[producer];
    if (task.stride % maker.stride != 0)
      return flow(m, index, "it runs every ", task.stride, " steps and reads tensor '", tensor.name, "', made every ",
                  maker.stride);
    if (maker.stream != task.stream) return Status::ok();
    if (!comesBefore(maker, task))
      return flow(m, index, "it reads tensor '", tensor.name, "' before ", m.describe(producer), " makes it");
    if (maker.lag == task.lag && version[t] != regVersion[tensor.reg])
      return flow(m, index, "it reads tensor '", tensor.name, "' after ", m.describe(lastWriter[tensor.reg]),
                  " has overwritten it");
    return Status::ok();
  }

  Status update(uint32_t index, const ModelTensor &tensor) {
    const plan::Register::Kind kind = m.registers[tensor.reg].kind;
    const uint32_t stream = m.tasks[index].stream;
    if (kind == plan::Register::VARIABLE) {
      if (mutator[tensor.reg] != kNone && mutator[tensor.reg] != stream)
        return flow(m, index, "it updates variable '", tensor.name, "', which another stream updates too");
      mutator[tensor.reg] = stream;
    } else if (kind != plan::Register::ACTIVATION) {
      return flow(m, index, "it writes its input '", tensor.name, "', which is no variable");
    }
    return Status::ok();
  }

  Status checkOutput(uint32_t index, size_t o) const {
    const ModelTask &task = m.tasks[index];
    const ModelTensor &out = m.tensors[task.outputs[o]];
    const ModelRegister &r = m.registers[out.reg];
    if (r.kind != plan::Register::ACTIVATION && !r.isPrepared())
      return flow(m, index, "it makes tensor '", out.name, "' in a register for ", plan::Register::Kind_Name(r.kind));
    for (size_t other = 0; other < o; ++other)
      if (m.tensors[task.outputs[other]].reg == out.reg) return flow(m, index, "two of its outputs share a register");
    // Writing where an input lies needs the kernel's consent, and what lies there must be of the same extent.
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      const ModelTensor &in = m.tensors[task.inputs[i]];
      if (in.reg == out.reg && in.bytes && out.bytes && (!task.mayShare(o, i) || in.bytes != out.bytes))
        return flow(m, index, "it writes tensor '", out.name, "' over its input '", in.name,
                    "', which its kernel does not offer");
    }
    return Status::ok();
  }

  /// A task that runs once, before the first step: what it reads is the same in all steps, and so is what it makes of
  /// it. All that it makes is prepared; what it reads of that kind, tasks before it in its stream have made.
  Status checkPrepared(uint32_t index) const {
    const ModelTask &task = m.tasks[index];
    const std::string makes =
        concat("it makes the prepared tensor ", quoted(m.tensors[task.outputs[0]].name), ", and ");
    if (task.isBoxing() || task.stride != 1 || task.lag != 0) return flow(m, index, makes, "belongs to a step");
    if (deviceTypeOf(m.streams[task.stream].device) != DeviceType::kCPU)
      return flow(m, index, makes, "is not of the CPU");
    if (!isPure(task)) return flow(m, index, makes, "may make another one in the next step");
    for (uint32_t out : task.outputs) {
      const uint32_t reg = m.tensors[out].reg;
      if (!m.registers[reg].isPrepared())
        return flow(m, index, makes, quoted(m.tensors[out].name), ", which is not prepared");
      if (writerStream[reg] != kNone) return flow(m, index, makes, "another task writes its register, too");
    }
    for (uint32_t in : task.inputs) {
      const ModelTensor &tensor = m.tensors[root[in]];
      if (!m.registers[tensor.reg].isConstant())
        return flow(m, index, makes, "reads tensor ", quoted(tensor.name), ", which is not the same in all steps");
      if (tensor.producer != kNone && m.tasks[tensor.producer].stream != task.stream)
        return flow(m, index, makes, "reads tensor ", quoted(tensor.name), ", which another stream prepares");
    }
    return Status::ok();
  }

  /// Whether equal inputs give equal outputs, whenever the task runs.
  static bool isPure(const ModelTask &task) {
    const auto isPureOp = [](const OpInstance &op) {
      return op.def().pure && controlKind(op.def().name) == ControlKind::kNone;
    };
    if (task.region)
      return std::all_of(task.region->steps.begin(), task.region->steps.end(),
                         [&](const RegionStep &step) { return isPureOp(step.op); });
    return !task.batch && task.op && isPureOp(*task.op);
  }

  /// All writers of a register are in one stream and lag alike.
  Status checkWriters(uint32_t index, uint32_t reg) {
    const ModelTask &task = m.tasks[index];
    const std::string &name = m.registers[reg].name;
    if (writerStream[reg] == kNone) {
      writerStream[reg] = task.stream;
      firstWriter[reg] = index;
    } else if (writerStream[reg] != task.stream) {
      return flow(m, index, "it writes register '", name, "', which another stream writes too");
    } else if (m.tasks[firstWriter[reg]].lag != task.lag) {
      return flow(m, index, "it ", lagText(task.lag), " and writes register '", name, "', which ",
                  m.describe(firstWriter[reg]), " writes, which ", lagText(m.tasks[firstWriter[reg]].lag));
    }
    return Status::ok();
  }

  /// What a task reads that another stream makes: an edge between the streams.
  Status readElsewhere(uint32_t index) {
    const ModelTask &task = m.tasks[index];
    for (size_t i = 0; !task.isView && i < task.inputs.size(); ++i) {
      const uint32_t t = root[task.inputs[i]], reg = m.tensors[t].reg;
      if (mutator[reg] != kNone && mutator[reg] != task.stream)
        return flow(m, index, "it reads variable '", m.tensors[t].name, "', which another stream updates");
      const uint32_t producer = m.tensors[t].producer;
      if (producer == kNone || m.tasks[producer].stream == task.stream || m.registers[reg].isPrepared()) continue;
      if (version[t] != regVersion[reg])
        return flow(m, index, "it reads tensor '", m.tensors[t].name, "' of another stream, which ",
                    m.describe(lastWriter[reg]), " overwrites");
      if (task.mutableInput[i])
        return flow(m, index, "it writes its input '", m.tensors[t].name, "', which another stream makes");
      isShared[reg] = true;
      const CrossEdge edge{reg, firstWriter[reg], lastWriter[reg], index, index};
      auto [it, isNew] = edges.emplace(std::make_pair(reg, task.stream), edge);
      if (isNew) continue;
      if (comesBefore(task, m.tasks[it->second.firstReader])) it->second.firstReader = index;
      if (comesBefore(m.tasks[it->second.lastReader], task)) it->second.lastReader = index;
    }
    return Status::ok();
  }

  Status show() const {
    for (const ModelPort &out : m.outputs) {
      const ModelTensor &t = m.tensors[root[out.tensor]];
      const std::string what = "invalid plan: output '" + out.name + "' is tensor '" + t.name + "', which ";
      if (t.producer == kNone && !t.isSource)
        return Status(StatusCode::kInvalidGraph, "OPC0816", what + "nothing makes");
      if (t.producer != kNone && version[root[out.tensor]] != regVersion[t.reg])
        return Status(StatusCode::kInvalidGraph, "OPC0816", what + m.describe(lastWriter[t.reg]) + " overwrites");
    }
    return Status::ok();
  }

  /// A workspace belongs to one stream.
  Status checkWorkspaces() const {
    std::vector<uint32_t> workspaceStream(m.registers.size(), kNone);
    for (uint32_t i = 0; i < m.tasks.size(); ++i) {
      if (m.tasks[i].workspace == kNone) continue;
      uint32_t &s = workspaceStream[m.tensors[m.tasks[i].workspace].reg];
      if (s != kNone && s != m.tasks[i].stream) return flow(m, i, "its workspace is used by another stream too");
      s = m.tasks[i].stream;
    }
    return Status::ok();
  }

  const PlanModel &m;
  const std::vector<uint32_t> root; // of a tensor: the one whose bytes it shows
  /// regVersion[r] counts the writes of register r; a tensor is intact while its version is current.
  std::vector<uint32_t> regVersion, version;
  std::vector<uint32_t> writerStream, firstWriter, lastWriter; // by register
  std::vector<uint32_t> mutator;                               // by register: the stream that updates a variable
  std::vector<bool> isShared;                                  // by register: used by several streams
  std::map<std::pair<uint32_t, uint32_t>, CrossEdge> edges;    // by register, reader stream
};

} // namespace

Result<std::vector<CrossEdge>> checkDataFlow(const PlanModel &m) {
  OPC_ASSIGN_OR_RETURN(std::vector<uint32_t> views, resolveViews(m));
  return DataFlow(m, std::move(views)).check();
}

namespace {

/// With lags the events are (task, step), and an edge says how many steps later the second one is at the earliest.
/// Waiting never ends where a cycle of edges leads to the same step or an earlier one: a cycle of weight 0 or less,
/// found as a negative cycle of the weights n * w - 1 (Bellman and Ford; n is more than a cycle can have edges).
Status checkLaggedWaits(const PlanModel &m, const std::vector<CrossEdge> &edges) {
  struct Edge {
    uint32_t from, to;
    int64_t weight;
  };
  // Only tasks that wait or signal matter; between them a stream's order is a chain.
  std::vector<bool> meets(m.tasks.size(), false);
  for (const CrossEdge &e : edges)
    for (uint32_t t : {e.firstWriter, e.lastWriter, e.firstReader, e.lastReader}) meets[t] = true;
  std::vector<uint32_t> nodes;
  std::vector<Edge> list;
  auto lag = [&](uint32_t t) { return static_cast<int64_t>(m.tasks[t].lag); };
  for (const PlanModel::Stream &s : m.streams) {
    uint32_t first = kNone, last = kNone;
    for (uint32_t t : s.tasks) {
      if (!meets[t]) continue;
      nodes.push_back(t);
      if (first == kNone) first = t;
      if (last != kNone) list.push_back({last, t, lag(last) - lag(t)});
      last = t;
    }
    if (first != kNone) list.push_back({last, first, lag(last) - lag(first) + 1});
  }
  for (const CrossEdge &e : edges) {
    list.push_back({e.lastWriter, e.firstReader, 0});
    list.push_back({e.lastReader, e.firstWriter, static_cast<int64_t>(m.registers[e.reg].credits)});
  }
  const auto n = static_cast<int64_t>(nodes.size()) + 1;
  std::vector<int64_t> least(m.tasks.size(), 0);
  for (int64_t round = 0; round < n; ++round) {
    const Edge *changed = nullptr;
    for (const Edge &e : list)
      if (const int64_t v = least[e.from] + n * e.weight - 1; v < least[e.to]) {
        least[e.to] = v;
        changed = &e;
      }
    if (!changed) return Status::ok();
    if (round + 1 == n || (round + 1) * static_cast<int64_t>(list.size()) > int64_t{1} << 28)
      return Status(StatusCode::kInvalidGraph, "OPC0819",
                    "invalid plan: deadlock: " + m.describe(changed->from) + " and " + m.describe(changed->to) +
                        " wait for each other, over " + std::to_string(edges.size()) +
                        " registers between streams and their lags")
          .withHelp("compile the graph again");
  }
  return Status::ok();
}

} // namespace

Status checkWaits(const PlanModel &m, const std::vector<CrossEdge> &edges) {
  // Within one step a task waits for its predecessor in the stream and for the makers of what it reads elsewhere. Waits
  // for credits reach back at least one step, so only these edges can close a cycle without credits.
  if (m.streams.size() < 2) return Status::ok();
  if (std::any_of(m.tasks.begin(), m.tasks.end(), [](const ModelTask &t) { return t.lag != 0; }))
    return checkLaggedWaits(m, edges);
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
