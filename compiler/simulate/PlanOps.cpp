// From tasks of a plan to op instances.
// SPDX-License-Identifier: Apache-2.0
#include "PlanOps.h"

#include "AttrWire.h"
#include "ControlOp.h"
#include "MutableInputs.h"
#include "NdSbp.h"
#include "Placement.h"
#include "Region.h"
#include "SbpCode.h"

#include <algorithm>
#include <set>

namespace opc::simulate {
namespace {

user_op::TensorDesc descOf(const plan::Tensor &t) {
  return {Shape(DimVector(t.dim().begin(), t.dim().end())), static_cast<DataType>(t.data_type())};
}

/// Where the piece of a rank lies; nothing for a sharding that makes no sense, and for ranks outside its placement.
std::optional<user_op::TensorShard> shardOf(const plan::Plan &plan, const plan::Sharding &s, DataType type,
                                            int64_t rank) {
  if (s.placement() >= static_cast<uint32_t>(plan.placement_size())) return std::nullopt;
  const plan::Placement &p = plan.placement(static_cast<int>(s.placement()));
  Placement placement{{p.dim().begin(), p.dim().end()}, {p.rank().begin(), p.rank().end()}};
  const auto position = placement.positionOf(rank);
  if (!position || s.state_size() != p.dim_size()) return std::nullopt;
  user_op::TensorShard shard;
  shard.logical = user_op::TensorDesc(Shape(DimVector(s.dim().begin(), s.dim().end())), type);
  for (int32_t state : s.state()) {
    const std::optional<SbpParallel> known = stateOfCode(state);
    if (!known || state >= s.dim_size()) return std::nullopt;
    shard.states.push_back(*known);
  }
  shard.begin = localBox(shard.logical.shape(), shard.states, placement.dims, *position).begin;
  return shard;
}

} // namespace

std::string costKey(const plan::Plan &part, const plan::Task &task) {
  std::string key = task.op_type();
  const auto number = [&](uint64_t v) { key.append(reinterpret_cast<const char *>(&v), sizeof v); };
  for (const auto *list : {&task.input(), &task.output()})
    for (const plan::Argument &a : *list) {
      key += '\0' + a.name();
      for (uint32_t t : a.tensor()) {
        const plan::Tensor &tensor = part.tensor(static_cast<int>(t));
        number(tensor.data_type());
        number(static_cast<uint64_t>(tensor.dim_size()));
        for (int64_t d : tensor.dim()) number(static_cast<uint64_t>(d));
      }
    }
  for (const plan::Attribute &a : task.attr()) key += '\1' + a.name() + a.value().SerializeAsString();
  for (const plan::Task &t : task.body()) key += '\2' + costKey(part, t);
  for (const plan::Plan &graph : task.graph()) {
    key += '\3';
    for (const plan::Task &t : graph.task()) key += '\2' + costKey(graph, t);
  }
  return key;
}

bool isPrepared(const plan::Plan &part, const plan::Task &task) {
  for (const plan::Argument &a : task.output())
    for (uint32_t t : a.tensor())
      if (const plan::Tensor &made = part.tensor(static_cast<int>(t)); made.has_register_())
        return part.register_(static_cast<int>(made.register_())).kind() == plan::Register::PREPARED;
  return false;
}

double graphRuns(const OpInstance &op) {
  switch (controlKind(op.def().name)) {
  case ControlKind::kParts: return static_cast<double>(batchParts(op).parts);
  case ControlKind::kLoop: return static_cast<double>(std::max<int64_t>(loopParts(op).length, 1));
  case ControlKind::kIf:
  case ControlKind::kNone: break;
  }
  return 1;
}

Result<OpInstance> opOfTask(const plan::Plan &plan, const plan::Plan &part, const plan::Task &task,
                            const Registry &registry, int64_t rank) {
  const user_op::OpDef *def = task.body_size() ? &regionOp() : registry.findOp(task.op_type());
  if (!def)
    return Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type '" + task.op_type() + "'")
        .withContext("task " + task.name());
  user_op::OpConf conf;
  conf.name = task.name();
  conf.type = task.op_type();
  for (const plan::Attribute &a : task.attr()) conf.attrs.emplace(a.name(), wire::fromProto(a.value()));
  // Tensors are named by their index: completion puts the arguments into another order. An output that the plan does
  // not have gets the op's own name for it, which is not a number.
  const auto bind = [](const auto &list, std::vector<user_op::ArgBinding> *out) {
    for (const plan::Argument &a : list) {
      out->push_back({a.name(), {}});
      for (uint32_t t : a.tensor()) out->back().tensors.push_back(std::to_string(t));
    }
  };
  bind(task.input(), &conf.inputs);
  bind(task.output(), &conf.outputs);
  if (Status s = completeOpConf(*def, &conf); !s.isOk()) return std::move(s).withContext("task " + task.name());
  OpInstance op(*def, std::move(conf));
  // Shardings follow the plan's own order of arguments.
  std::map<uint32_t, const plan::Sharding *> shardingOf;
  int next = 0;
  for (const auto *list : {&task.input(), &task.output()})
    for (const plan::Argument &a : *list)
      for (uint32_t t : a.tensor())
        if (next < task.sharding_size()) shardingOf[t] = &task.sharding(next++);
  std::vector<user_op::TensorShard> shards;
  const auto describe = [&](const std::vector<user_op::ArgBinding> &list, std::vector<user_op::TensorDesc> *descs) {
    size_t i = 0;
    for (const user_op::ArgBinding &b : list)
      for (const std::string &t : b.tensors) {
        user_op::TensorDesc &desc = (*descs)[i++];
        if (t.empty() || t.find_first_not_of("0123456789") != std::string::npos) {
          desc = user_op::TensorDesc(Shape({0}), kFloat);
          continue;
        }
        const auto index = static_cast<uint32_t>(std::stoul(t));
        desc = descOf(part.tensor(static_cast<int>(index)));
        const auto sharding = shardingOf.find(index);
        if (rank < 0 || sharding == shardingOf.end()) continue;
        if (auto shard = shardOf(plan, *sharding->second, desc.data_type(), rank)) shards.push_back(std::move(*shard));
      }
  };
  describe(op.conf().inputs, &op.inputDescs());
  describe(op.conf().outputs, &op.outputDescs());
  if (!shards.empty() && shards.size() == op.inputDescs().size() + op.outputDescs().size()) {
    const plan::Placement &p = plan.placement(static_cast<int>(task.sharding(0).placement()));
    const auto position = std::find(p.rank().begin(), p.rank().end(), static_cast<uint32_t>(rank)) - p.rank().begin();
    op.setShards(std::move(shards), ParallelContext(position, p.rank_size()));
  }
  return op;
}

Result<OpCost> costOfTask(const plan::Plan &plan, const plan::Plan &part, const plan::Task &task,
                          const Registry &registry, const OpInstance &op) {
  OpCost cost = costOf(op);
  if (task.graph_size()) {
    // What goes through memory is what the op reads and makes; what is computed is that of its graphs.
    cost.flops = 0;
    for (const plan::Plan &graph : task.graph()) {
      double flops = 0;
      for (const plan::Task &t : graph.task()) {
        OPC_ASSIGN_OR_RETURN(const OpInstance inner, opOfTask(graph, graph, t, registry));
        OPC_ASSIGN_OR_RETURN(const OpCost own, costOfTask(graph, graph, t, registry, inner));
        flops += own.flops;
      }
      cost.flops = std::max(cost.flops, flops); // of branches one is taken
    }
    cost.flops *= graphRuns(op);
    return cost;
  }
  if (task.body_size() == 0) return cost;
  // What goes through memory is the region's, or that of all updates; what is computed is that of the ops.
  cost.flops = 0;
  if (!task.region()) cost.bytes = 0;
  for (const plan::Task &t : task.body()) {
    OPC_ASSIGN_OR_RETURN(const OpInstance step, opOfTask(plan, part, t, registry));
    const OpCost own = costOf(step);
    cost.flops += own.flops;
    if (!task.region()) cost.bytes += own.bytes;
  }
  return cost;
}

namespace {

class OpSearch {
public:
  OpSearch(const plan::Plan &plan, const Registry &registry) : plan_(plan), registry_(registry) {}

  /// `given`: registers of inputs that never change.
  void add(const plan::Plan &part, int64_t rank, const std::set<uint32_t> &given = {}) {
    for (const plan::Tensor &t : part.tensor())
      if (t.register_() >= static_cast<uint32_t>(part.register__size())) return;
    std::set<uint32_t> written; // registers
    std::vector<std::optional<OpInstance>> instances;
    for (const plan::Task &t : part.task()) instances.push_back(made(part, t, rank, &written));
    for (int k = 0; k < part.task_size(); ++k) {
      const plan::Task &task = part.task(k);
      std::optional<OpInstance> &op = instances[static_cast<size_t>(k)];
      if (!op || isPrepared(part, task) || !seen_.insert(costKey(part, task)).second) continue;
      std::vector<bool> constant;
      for (const user_op::ArgBinding &b : op->conf().inputs)
        for (const std::string &name : b.tensors) {
          const uint32_t r = part.tensor(std::stoi(name)).register_();
          const auto kind = part.register_(static_cast<int>(r)).kind();
          constant.push_back(
              given.count(r) ||
              ((kind == plan::Register::CONSTANT || kind == plan::Register::VARIABLE) && !written.count(r)) ||
              kind == plan::Register::PREPARED);
        }
      // By itself an op runs no graphs: the ops in them count.
      for (const plan::Plan &graph : task.graph()) add(graph, -1, constantInputs(graph, *op, constant));
      if (task.graph_size() == 0) ops.push_back({std::move(*op), std::move(constant)});
    }
  }

  std::vector<PlanOp> ops;

private:
  std::optional<OpInstance> made(const plan::Plan &part, const plan::Task &t, int64_t rank,
                                 std::set<uint32_t> *written) const {
    const user_op::OpDef *def = registry_.findOp(t.op_type());
    bool known = def && !def->isView && !t.has_boxing();
    for (const auto *list : {&t.input(), &t.output()})
      for (const plan::Argument &a : *list)
        for (uint32_t x : a.tensor()) known &= x < static_cast<uint32_t>(part.tensor_size());
    if (!known) return std::nullopt;
    Result<OpInstance> op = opOfTask(plan_, part, t, registry_, rank);
    if (!op) return std::nullopt;
    const std::vector<bool> writes = mutableInputs(*op);
    size_t i = 0;
    for (const user_op::ArgBinding &b : op->conf().inputs)
      for (const std::string &name : b.tensors)
        if (writes[i++]) written->insert(part.tensor(std::stoi(name)).register_());
    return std::move(*op);
  }

  /// The registers of a graph's inputs that the op reads from tensors that never change.
  static std::set<uint32_t> constantInputs(const plan::Plan &graph, const OpInstance &op,
                                           const std::vector<bool> &constant) {
    const ControlKind kind = controlKind(op.def().name);
    // The condition of an `if` is none of them, and what a turn of a `loop` hands on changes.
    const size_t shift = kind == ControlKind::kParts ? 0 : 1;
    size_t first = 0;
    if (kind == ControlKind::kLoop) {
      const LoopParts parts = loopParts(op);
      first = 1 + parts.states + parts.sequences;
    }
    std::set<uint32_t> found;
    for (size_t k = first; k + shift < constant.size() && k < static_cast<size_t>(graph.interface().input_size());
         ++k) {
      const uint32_t tensor = graph.interface().input(static_cast<int>(k)).tensor();
      if (constant[k + shift] && tensor < static_cast<uint32_t>(graph.tensor_size()))
        found.insert(graph.tensor(static_cast<int>(tensor)).register_());
    }
    return found;
  }

  const plan::Plan &plan_;
  const Registry &registry_;
  std::set<std::string> seen_;
};

} // namespace

std::vector<PlanOp> distinctOps(const plan::Plan &plan, const Registry &registry) {
  OpSearch search(plan, registry);
  if (plan.part_size() == 0) search.add(plan, -1);
  for (int i = 0; i < plan.part_size(); ++i) {
    const auto rank = std::find(plan.part_of_rank().begin(), plan.part_of_rank().end(), static_cast<uint32_t>(i));
    search.add(plan.part(i), rank == plan.part_of_rank().end() ? -1 : rank - plan.part_of_rank().begin());
  }
  return std::move(search.ops);
}

} // namespace opc::simulate
