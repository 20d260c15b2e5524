// Prices of tasks: ops by their cost on the local pieces, boxing by its bytes and the links it uses.
// SPDX-License-Identifier: Apache-2.0
#include "PlanPrices.h"

#include "PlanOps.h"
#include "SbpCode.h"

#include <algorithm>

namespace opc::simulate {
namespace {

double tensorSize(const plan::Tensor &t) {
  double n = static_cast<double>(GetSizeOfDataType(static_cast<DataType>(t.data_type())));
  for (int64_t d : t.dim()) n *= static_cast<double>(d);
  return n;
}

NdSbp statesOf(const plan::Sharding &s) {
  NdSbp states;
  for (int32_t x : s.state()) states.push_back(stateOfCode(x).value_or(SbpParallel::partialSum()));
  return states;
}

/// Whether every rank that is to have the tensor has the whole of it already.
bool isAtHand(const BoxingOp &op) {
  if (op.step.kind != BoxingKind::kExchange || !isBroadcast(op.step.from)) return false;
  std::vector<int64_t> has = op.source.ranks, wants = op.target.ranks;
  std::sort(has.begin(), has.end());
  std::sort(wants.begin(), wants.end());
  return std::includes(has.begin(), has.end(), wants.begin(), wants.end());
}

} // namespace

PlanPrices::PlanPrices(const plan::Plan &plan, const Registry &registry, const ClusterDescription &cluster)
    : plan_(plan), registry_(registry), cluster_(cluster) {
  device_ =
      deviceSpeed(cluster, std::min<int64_t>(std::max(1, plan.part_of_rank_size()), cluster.levels.front().devices));
}

Status PlanPrices::bad(const std::string &message) const {
  return Status(StatusCode::kInvalidGraph, "OPC0745", "the plan cannot be simulated: " + message)
      .withHelp("compile the graph again");
}

Status PlanPrices::readPlacements() {
  const int64_t ranks = std::max(1, plan_.part_of_rank_size());
  for (const plan::Placement &p : plan_.placement()) {
    Placement placement;
    int64_t size = 1;
    for (int64_t d : p.dim()) {
      if (d < 1 || d > ranks) return bad("a placement has a dimension of " + std::to_string(d));
      size *= d;
      if (size > ranks) break;
      placement.dims.push_back(d);
    }
    for (uint32_t r : p.rank()) {
      if (static_cast<int64_t>(r) >= ranks)
        return bad("a placement names rank " + std::to_string(r) + " of " + std::to_string(ranks));
      placement.ranks.push_back(r);
    }
    if (size != placement.size() || placement.dims.empty())
      return bad("a placement has " + std::to_string(placement.size()) + " ranks for a mesh of another size");
    placements_.push_back(std::move(placement));
  }
  if (!placements_.empty()) levels_.emplace(cluster_, placements_.front());
  for (const Placement &p : placements_) {
    OPC_ASSIGN_OR_RETURN(std::vector<PlacementLink> found, placementLinks(cluster_, p, &placements_.front()));
    MeshLinks links = meshLinks(found);
    links_.push_back({std::move(found), std::move(links), levels_->spanOf(p.ranks)});
  }
  if (ranks > cluster_.levels.back().devices)
    return Status(StatusCode::kUsage, "OPC0744",
                  "the plan is for " + std::to_string(ranks) + " ranks, the cluster '" + cluster_.name + "' has " +
                      std::to_string(cluster_.levels.back().devices) + " devices")
        .withHelp("make the last level larger, or the mesh smaller");
  return Status::ok();
}

Status PlanPrices::check(const plan::Plan &part, uint32_t index) const {
  const std::string where = "part " + std::to_string(index);
  for (const plan::Tensor &t : part.tensor())
    if (t.register_() >= static_cast<uint32_t>(part.register__size()))
      return bad(where + ", tensor " + t.name() + " lies in no register");
  for (const plan::Task &t : part.task()) {
    for (const auto *list : {&t.input(), &t.output()})
      for (const plan::Argument &a : *list)
        for (uint32_t tensor : a.tensor())
          if (tensor >= static_cast<uint32_t>(part.tensor_size()))
            return bad(where + ", task " + t.name() + " has an argument without a tensor");
    for (const plan::Plan &graph : t.graph()) OPC_RETURN_IF_ERROR(check(graph, index));
  }
  std::vector<bool> listed(static_cast<size_t>(part.task_size()), false);
  for (const plan::Stream &s : part.stream())
    for (uint32_t t : s.task()) {
      if (t >= listed.size() || listed[t])
        return bad(where + " has a stream with a task that is not there or not its own");
      listed[t] = true;
    }
  return Status::ok();
}

Result<double> PlanPrices::computeSeconds(const plan::Plan &part, const plan::Task &task) {
  // A view whose output is its input's memory is not executed.
  const user_op::OpDef *def = registry_.findOp(task.op_type());
  if (def && def->isView && task.input_size() > 0 && task.output_size() > 0 && task.input(0).tensor_size() > 0 &&
      task.output(0).tensor_size() > 0) {
    const plan::Tensor &in = part.tensor(static_cast<int>(task.input(0).tensor(0)));
    const plan::Tensor &out = part.tensor(static_cast<int>(task.output(0).tensor(0)));
    if (in.register_() == out.register_()) return 0.0;
    OpCost copy;
    copy.bytes = 2 * tensorSize(out);
    return opSeconds(device_, task.op_type(), copy, static_cast<DataType>(out.data_type()));
  }
  const std::string key = costKey(part, task);
  if (const auto known = prices_.find(key); known != prices_.end()) return known->second;
  OPC_ASSIGN_OR_RETURN(const OpInstance op, opOfTask(plan_, part, task, registry_));
  if (task.graph_size()) {
    OPC_ASSIGN_OR_RETURN(const double once, graphSeconds(task));
    return prices_[key] = graphRuns(op) * once;
  }
  OPC_ASSIGN_OR_RETURN(const OpCost cost, costOfTask(plan_, part, task, registry_, op));
  return prices_[key] = opSeconds(device_, op.def().name, cost, computeType(op));
}

Result<double> PlanPrices::graphSeconds(const plan::Task &task) {
  double most = 0;
  for (const plan::Plan &graph : task.graph()) {
    double sum = 0;
    for (const plan::Task &t : graph.task()) {
      OPC_ASSIGN_OR_RETURN(const double seconds, computeSeconds(graph, t));
      sum += seconds;
    }
    most = std::max(most, sum);
  }
  return most;
}

Result<BoxingTask> PlanPrices::boxingTask(const plan::Plan &part, const plan::Task &task) const {
  const plan::Boxing &b = task.boxing();
  const std::optional<BoxingKind> kind = parseBoxingKind(b.kind());
  if (!kind) return bad("task " + task.name() + " is a boxing of the unknown kind '" + b.kind() + "'");
  std::vector<uint32_t> tensors;
  for (const auto *list : {&task.input(), &task.output()})
    if (tensors.empty()) // a rank that only receives has outputs alone
      for (const plan::Argument &a : *list) tensors.insert(tensors.end(), a.tensor().begin(), a.tensor().end());
  const auto n = static_cast<int>(tensors.size());
  if (b.from_size() < n || b.from_size() != b.to_size() || b.from_size() == 0)
    return bad("task " + task.name() + " does not say how its tensors are cut");
  BoxingTask result;
  for (int i = 0; i < b.from_size(); ++i) {
    const plan::Sharding &from = b.from(i), &to = b.to(i);
    if (from.placement() >= placements_.size() || to.placement() >= placements_.size())
      return bad("task " + task.name() + " is for a placement that is not there");
    BoxingOp op;
    op.source = placements_[from.placement()];
    op.target = placements_[to.placement()];
    op.step = {*kind, b.mesh_dim(), statesOf(from), statesOf(to),
               b.reduction() == "max" ? BoxingReduction::kMax : BoxingReduction::kSum};
    op.shape = Shape(DimVector(from.dim().begin(), from.dim().end()));
    const auto type = i < n ? part.tensor(static_cast<int>(tensors[static_cast<size_t>(i)])).data_type()
                            : part.tensor(static_cast<int>(tensors.empty() ? 0 : tensors[0])).data_type();
    op.type = static_cast<DataType>(type);
    const bool collective = *kind != BoxingKind::kExchange;
    const auto legal = [&](const NdSbp &states, const Placement &p) {
      return states.size() == p.dims.size() && std::all_of(states.begin(), states.end(), [&](const SbpParallel &s) {
               return !s.has_split_parallel() || s.axis() < op.shape.NumAxes();
             });
    };
    if (!legal(op.step.from, op.source) || !legal(op.step.to, op.target) || (collective && op.source != op.target) ||
        (collective && (b.mesh_dim() < 0 || static_cast<size_t>(b.mesh_dim()) >= op.source.dims.size())))
      return bad("task " + task.name() + " is a boxing whose states do not fit its mesh");
    if (i == 0) result.source = from.placement(), result.target = to.placement();
    if (from.placement() != result.source || to.placement() != result.target)
      return bad("task " + task.name() + " joins tensors of different placements");
    result.ops.push_back(std::move(op));
  }
  result.travels = *kind != BoxingKind::kSlice && *kind != BoxingKind::kPartialOf && *kind != BoxingKind::kPad &&
                   !std::all_of(result.ops.begin(), result.ops.end(), isAtHand);
  return result;
}

PlacementLink PlanPrices::between(uint32_t source, uint32_t target) const {
  PlacementLink link;
  link.level = levels_->levelOf(links_[source].span | links_[target].span);
  return link;
}

double PlanPrices::seconds(const BoxingTask &task) const {
  const BoxingKind kind = task.ops[0].step.kind;
  if (!task.travels) { // a copy of the piece
    double bytes = 0;
    for (const BoxingOp &op : task.ops) {
      const int64_t elements = localShape(op.shape, op.step.from, op.source.dims, 0).elem_cnt() +
                               localShape(op.shape, op.step.to, op.target.dims, 0).elem_cnt();
      bytes += static_cast<double>(elements) * static_cast<double>(GetSizeOfDataType(op.type));
    }
    OpCost copy;
    copy.bytes = bytes;
    return opSeconds(device_, "opc.boxing", copy, kFloat);
  }
  MeshLinks links = links_[task.source].links;
  links.between = linkOf(between(task.source, task.target), kind);
  double sum = 0;
  for (const BoxingOp &op : task.ops) { // one message carries all tensors of a bucket
    sum += boxingSeconds(op, links);
    links.between.latency = 0;
    for (Link &l : links.dims) l.latency = 0;
    for (auto &kinds : links.kinds)
      for (auto &[_, l] : kinds) l.latency = 0;
  }
  return sum;
}

uint64_t PlanPrices::bytesOf(const BoxingTask &task, int64_t rank) const {
  if (!task.travels) return 0;
  uint64_t sum = 0;
  for (const BoxingOp &op : task.ops)
    if (op.source.positionOf(rank)) sum += static_cast<uint64_t>(bytesSent(op, rank));
  return sum;
}

std::pair<std::string, std::string> PlanPrices::linkName(const BoxingTask &task) const {
  const auto mesh = [](const Placement &p) {
    std::string text;
    for (int64_t d : p.dims) text += (text.empty() ? "" : "x") + std::to_string(d);
    return text;
  };
  const BoxingStep &step = task.ops[0].step;
  if (step.kind != BoxingKind::kExchange)
    return {"axis " + std::to_string(step.meshDim) + " of " + mesh(task.ops[0].source),
            links_[task.source].levels[static_cast<size_t>(step.meshDim)].level->name};
  return {task.source == task.target ? "exchange on " + mesh(task.ops[0].source) : "between placements",
          between(task.source, task.target).level->name};
}

} // namespace opc::simulate
