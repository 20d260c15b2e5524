// Placements, shardings and boxing steps of a plan, and the interface of the whole job.
// SPDX-License-Identifier: Apache-2.0
#include "PlanSharding.h"

#include "Device.h"
#include "NdSignatures.h"
#include "OutsideJob.h"
#include "PlanFile.h"
#include "PlanReading.h"
#include "PrintableText.h"
#include "SbpCode.h"
#include "Signatures.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace opc::runtime {
namespace {

constexpr int64_t kMaxRanks = int64_t{1} << 20;

} // namespace

Result<std::vector<Placement>> readPlacements(const plan::Plan &plan, int64_t ranks) {
  std::vector<Placement> placements;
  for (int i = 0; i < plan.placement_size(); ++i) {
    const plan::Placement &p = plan.placement(i);
    const std::string name = concat("placement ", i);
    if (p.dim_size() == 0 || p.dim_size() > 16)
      return bad("OPC0715", name, " has ", p.dim_size(), " dimensions; 1 to 16 are possible");
    Placement placement;
    int64_t product = 1;
    for (int64_t d : p.dim()) {
      if (d < 1 || __builtin_mul_overflow(product, d, &product) || product > kMaxRanks)
        return bad("OPC0715", name, " has the dimension ", d);
      placement.dims.push_back(d);
    }
    if (product != p.rank_size())
      return bad("OPC0715", name, " is a mesh of ", product, " devices and lists ", p.rank_size(), " ranks");
    std::unordered_set<uint32_t> seen;
    for (uint32_t r : p.rank()) {
      if (r >= ranks) return bad("OPC0715", name, " lists rank ", r, " of ", ranks);
      if (!seen.insert(r).second) return bad("OPC0715", name, " lists rank ", r, " twice");
      placement.ranks.push_back(r);
    }
    placements.push_back(std::move(placement));
  }
  return placements;
}

Result<TensorSharding> readSharding(const plan::Sharding &p, DataType type, const std::vector<Placement> &placements,
                                    int64_t rank, const std::string &what) {
  if (p.placement() >= placements.size())
    return bad("OPC0715", what, " is on placement ", p.placement(), " of ", placements.size());
  const Placement &placement = placements[p.placement()];
  TensorSharding s;
  s.placement = p.placement();
  if (p.dim_size() > kMaxRank) return bad("OPC0715", what, " has rank ", p.dim_size());
  for (int64_t d : p.dim())
    if (d < 0) return bad("OPC0715", what, " has the dimension ", d);
  s.logical = Shape(DimVector(p.dim().begin(), p.dim().end()));
  if (Result<int64_t> bytes = tensorBytes(user_op::TensorDesc(s.logical, type)); !bytes)
    return bad("OPC0715", what + ": " + bytes.status().message());
  for (int32_t state : p.state()) {
    const std::optional<SbpParallel> known = stateOfCode(state);
    if (!known) return bad("OPC0715", what, " has the state ", state);
    s.states.push_back(*known);
  }
  if (!isLegal(s.logical, type, s.states, placement.dims, false))
    return bad("OPC0715", what, ", ", user_op::TensorDesc(s.logical, type).toString(), " in all, cannot be ",
               toString(s.states), " on a mesh of ", counted(placement.dims.size(), "dimension"));
  if (const std::optional<int64_t> position = placement.positionOf(rank)) {
    s.isHere = true;
    s.position = *position;
    s.box = localBox(s.logical, s.states, placement.dims, *position);
    const std::vector<int64_t> at = placement.coordinates(*position);
    for (size_t m = 0; m < at.size(); ++m)
      if (s.states[m].has_partial_sum_parallel() && at[m] != 0) s.holdsValue = false;
  }
  return s;
}

namespace {

/// Whether a step of this kind leads from one state to the other on its mesh dimension.
bool leads(BoxingKind kind, const SbpParallel &from, const SbpParallel &to) {
  const bool s = from.has_split_parallel(), b = from.has_broadcast_parallel(), p = from.has_partial_sum_parallel();
  const bool toS = to.has_split_parallel(), toB = to.has_broadcast_parallel(), toP = to.has_partial_sum_parallel();
  switch (kind) {
  case BoxingKind::kSlice: return b && toS;
  case BoxingKind::kPartialOf: return b && toP;
  case BoxingKind::kPad: return s && toP;
  case BoxingKind::kAllGather: return s && toB;
  case BoxingKind::kAllToAll: return s && toS && from.axis() != to.axis();
  case BoxingKind::kReduceScatter: return p && toS;
  case BoxingKind::kAllReduce: return p && toB;
  case BoxingKind::kExchange: return false;
  }
  return false;
}

/// An inner dimension that splits the axis that this one splits: then the pieces of this dimension are not contiguous
/// parts of what the group has, and the step would be another.
bool splitsInside(const NdSbp &states, size_t dim, int64_t axis) {
  for (size_t m = dim + 1; m < states.size(); ++m)
    if (states[m].has_split_parallel() && states[m].axis() == axis) return true;
  return false;
}

} // namespace

Result<std::vector<BoxingOp>> readBoxing(const plan::Boxing &p, const std::vector<DataType> &types,
                                         const std::vector<Placement> &placements, int64_t rank) {
  const std::optional<BoxingKind> kind = parseBoxingKind(p.kind());
  if (!kind) return bad("OPC0716", "there is no boxing " + quoted(p.kind()));
  if (p.from_size() == 0 || p.from_size() != p.to_size())
    return bad("OPC0716", "it boxes ", p.from_size(), " tensors into ", p.to_size());
  if (!p.reduction().empty() && p.reduction() != "sum" && p.reduction() != "max")
    return bad("OPC0716", "there is no reduction " + quoted(p.reduction()));
  if (static_cast<size_t>(p.from_size()) != types.size())
    return bad("OPC0716", "it boxes ", p.from_size(), " tensors and has ", types.size(), " arguments");
  const bool isExchange = *kind == BoxingKind::kExchange;
  std::vector<BoxingOp> ops;
  for (int i = 0; i < p.from_size(); ++i) {
    const std::string name = concat("tensor ", i, " of the boxing");
    const DataType type = types[static_cast<size_t>(i)];
    OPC_ASSIGN_OR_RETURN(const TensorSharding from, readSharding(p.from(i), type, placements, rank, name));
    OPC_ASSIGN_OR_RETURN(const TensorSharding to, readSharding(p.to(i), type, placements, rank, name));
    if (from.logical != to.logical)
      return bad("OPC0716", name + " has the shape " + from.logical.ToString() + " before and " +
                                to.logical.ToString() + " after it");
    if (!from.isHere && !to.isHere) return bad("OPC0716", "rank ", rank, " has no part in it");
    if (p.from(i).placement() != p.from(0).placement() || p.to(i).placement() != p.to(0).placement())
      return bad("OPC0716", "its tensors are on several placements");
    const auto reduction = p.reduction() == "max" ? BoxingReduction::kMax : BoxingReduction::kSum;
    ops.push_back({{*kind, p.mesh_dim(), from.states, to.states, reduction},
                   from.logical,
                   type,
                   placements[from.placement],
                   placements[to.placement]});
    const std::string states = toString(from.states) + " to " + toString(to.states);
    if (isExchange) {
      if (p.mesh_dim() != -1 || hasPartial(from.states) || hasPartial(to.states))
        return bad("OPC0716", "an exchange cannot lead from " + states);
    } else {
      const auto dim = static_cast<size_t>(p.mesh_dim());
      bool fits = from.placement == to.placement && p.mesh_dim() >= 0 && dim < from.states.size() &&
                  leads(*kind, from.states[dim], to.states[dim]);
      for (size_t m = 0; fits && m < from.states.size(); ++m) fits = m == dim || from.states[m] == to.states[m];
      for (const NdSbp *s : {&from.states, &to.states})
        if (fits && (*s)[dim].has_split_parallel()) fits = !splitsInside(*s, dim, (*s)[dim].axis());
      if (!fits)
        return bad("OPC0716", p.kind(), " on mesh dimension ", p.mesh_dim(), " cannot lead from ", states,
                   from.placement == to.placement ? "" : " on another placement");
    }
  }
  return ops;
}

namespace {

Result<bool> isNdSignature(const OpInstance &op, const std::vector<TensorSharding> &shardings,
                           const Placement &placement) {
  constexpr int64_t kMostDims = 4; // their number grows with the power of the dimensions
  if (std::count_if(placement.dims.begin(), placement.dims.end(), [](int64_t d) { return d > 1; }) > kMostDims)
    return false;
  NdSignature wanted;
  for (const TensorSharding &s : shardings) {
    wanted.states.push_back(s.states);
    for (size_t m = 0; m < placement.dims.size(); ++m) // one device: as good as whole
      if (placement.dims[m] == 1) wanted.states.back()[m] = SbpParallel::broadcast();
  }
  OPC_ASSIGN_OR_RETURN(std::vector<NdSignature> all, ndSignaturesOf(op, placement.dims));
  return std::find(all.begin(), all.end(), wanted) != all.end();
}

} // namespace

Status checkSignature(const OpInstance &op, const std::vector<TensorSharding> &shardings, const Placement &placement) {
  const size_t inputs = op.inputDescs().size();
  auto matches = [&](const OpInstance &instance, size_t dim) -> Result<bool> {
    OPC_ASSIGN_OR_RETURN(std::vector<SbpSignature> signatures, signaturesOf(instance, placement.dims[dim]));
    for (const SbpSignature &s : signatures) {
      bool all = true;
      for (size_t i = 0; all && i < shardings.size(); ++i) {
        const auto &arg = i < inputs ? op.inputArgs()[i] : op.outputArgs()[i - inputs];
        const SbpParallel *state = s.find(arg.first, arg.second);
        all = state && *state == shardings[i].states[dim];
      }
      if (all) return true;
    }
    return false;
  };
  for (size_t dim = 0; dim < placement.dims.size(); ++dim) {
    const bool allB = std::all_of(shardings.begin(), shardings.end(),
                                  [&](const TensorSharding &s) { return s.states[dim].has_broadcast_parallel(); });
    if (allB || placement.dims[dim] == 1) continue;
    OPC_ASSIGN_OR_RETURN(bool found, matches(op, dim));
    if (!found && dim > 0) { // of what the outer dimensions leave
      OpInstance rest = op;
      for (size_t i = 0; i < shardings.size(); ++i) {
        NdSbp outer(shardings[i].states.begin(), shardings[i].states.begin() + static_cast<ptrdiff_t>(dim));
        outer.resize(placement.dims.size(), SbpParallel::broadcast());
        const Shape shape = localShape(shardings[i].logical, outer, placement.dims, shardings[i].position);
        user_op::TensorDesc &d = i < inputs ? rest.inputDescs()[i] : rest.outputDescs()[i - inputs];
        d = user_op::TensorDesc(shape, d.data_type());
      }
      OPC_ASSIGN_OR_RETURN(found, matches(rest, dim));
    }
    if (found) continue;
    // Views have compound axes, which only the signatures of the whole mesh know.
    OPC_ASSIGN_OR_RETURN(const bool asView, isNdSignature(op, shardings, placement));
    if (asView) return Status::ok();
    std::string states;
    for (size_t i = 0; i < shardings.size(); ++i)
      states += (i == 0 ? "(" : i == inputs ? ") -> (" : ", ") + shardings[i].states[dim].toString();
    return bad("OPC0715", "the op cannot be cut by ", states, ") on mesh dimension ", dim, " of ", placement.dims[dim],
               " devices");
  }
  return Status::ok();
}

namespace {

/// Joins the interfaces of all parts: a name is one tensor, wherever it stands.
class JobReader {
public:
  JobReader(const plan::Plan &plan, const OutsideValues &outside, JobPlan *job)
      : plan_(plan), outside_(outside), job_(job) {}

  Status read() {
    for (int i = 0; i < std::max(1, plan_.part_size()); ++i) {
      const plan::Plan &part = plan_.part_size() ? plan_.part(i) : plan_;
      const plan::Interface &in = part.interface();
      findMakers(part);
      for (const auto &p : in.input()) OPC_RETURN_IF_ERROR(port(part, p, "input", &job_->inputs));
      for (const auto &p : in.output()) OPC_RETURN_IF_ERROR(port(part, p, "output", &job_->outputs));
      for (const auto &v : in.variable()) OPC_RETURN_IF_ERROR(variable(part, v));
    }
    return Status::ok();
  }

private:
  void findMakers(const plan::Plan &part) {
    makerStride_.assign(static_cast<size_t>(part.tensor_size()), 1);
    for (const plan::Task &task : part.task())
      for (const plan::Argument &a : task.output())
        for (uint32_t t : a.tensor())
          if (t < makerStride_.size()) makerStride_[t] = std::max(1u, task.stride());
  }

  template <class P>
  Status port(const plan::Plan &part, const P &p, const std::string &kind, std::vector<JobPort> *list,
              bool *isNew = nullptr) {
    const std::string what = kind + " " + quoted(p.name());
    if (p.tensor() >= static_cast<uint32_t>(part.tensor_size()))
      return bad("OPC0811", what, " is tensor ", p.tensor(), " of ", part.tensor_size());
    const plan::Tensor &tensor = part.tensor(static_cast<int>(p.tensor()));
    const auto type = static_cast<DataType>(tensor.data_type());
    if (!isTensorDataType(type)) return bad("OPC0812", what + " has the element type " + dataTypeName(type));
    if (tensor.register_() >= static_cast<uint32_t>(part.register__size()))
      return bad("OPC0811", what, " lies in register ", tensor.register_(), " of ", part.register__size());
    const plan::Register &reg = part.register_(static_cast<int>(tensor.register_()));
    JobPort port;
    port.name = p.name();
    port.stride = makerStride_[p.tensor()];
    port.isBatched = job_->microBatches > 1 && kind != "variable" && reg.credits() == job_->microBatches;
    if (p.has_sharding()) {
      OPC_ASSIGN_OR_RETURN(TensorSharding s, readSharding(p.sharding(), type, job_->placements, 0, what));
      port.placement = s.placement;
      port.states = s.states;
      port.desc = user_op::TensorDesc(s.logical, type);
    } else if (plan_.part_size()) {
      return bad("OPC0715", what + " does not say how it is cut");
    } else {
      for (int64_t d : tensor.dim())
        if (d < 0) return bad("OPC0812", what, " has the dimension ", d);
      if (tensor.dim_size() > kMaxRank) return bad("OPC0812", what, " has rank ", tensor.dim_size());
      port.desc = user_op::TensorDesc(Shape(DimVector(tensor.dim().begin(), tensor.dim().end())), type);
    }
    if (port.isBatched && port.desc.shape().NumAxes() == 0) port.isBatched = false; // no axis to split
    if (port.isBatched) {
      int64_t whole = 0;
      if (__builtin_mul_overflow(port.desc.shape().At(0), job_->microBatches, &whole))
        return bad("OPC0812", what, " is too large in ", job_->microBatches, " micro-batches");
      Shape shape = port.desc.shape();
      shape.Set(0, whole);
      if (Result<int64_t> bytes = tensorBytes(user_op::TensorDesc(shape, type)); !bytes)
        return bad("OPC0812", what + ": " + bytes.status().message());
    }
    auto [it, fresh] = index_.emplace(kind + " " + p.name(), list->size());
    if (isNew) *isNew = fresh;
    if (fresh) {
      list->push_back(std::move(port));
      return Status::ok();
    }
    JobPort &known = (*list)[it->second];
    // Where a later stage reads an output, its slots may be as many as micro-batches, and fewer elsewhere: then nobody
    // has them all, and it is the last one's.
    if (kind == "output") known.isBatched = port.isBatched = known.isBatched && port.isBatched;
    const bool sameCut = kind == "input" || (known.placement == port.placement && known.states == port.states);
    if (known.desc != port.desc || known.isBatched != port.isBatched || !sameCut)
      return bad("OPC0715", what + " is not the same in all parts");
    return Status::ok();
  }

  Status variable(const plan::Plan &part, const plan::Interface::Variable &v) {
    bool isNew = false;
    OPC_RETURN_IF_ERROR(port(part, v, "variable", &job_->variables, &isNew));
    const std::string what = "variable '" + v.name() + "'";
    if (!isNew && v.has_data()) return bad("OPC0812", what, " has its value in a second part");
    if (!isNew) return Status::ok();
    JobPort &port = job_->variables.back();
    port.hasValue = v.has_data();
    if (port.hasValue) {
      OPC_ASSIGN_OR_RETURN(const int64_t bytes, tensorBytes(port.desc));
      if (const size_t size = dataOf(v, outside_).size(); size != static_cast<uint64_t>(bytes))
        return bad("OPC0812", what, " has a value of ", size, " bytes; ", port.desc.toString(), " has ", bytes);
    }
    port.trainable = v.trainable();
    port.hasInitializer = v.has_initializer() && v.initializer().type_case() != graph::InitializerConf::TYPE_NOT_SET;
    port.hasSeed = v.has_seed();
    port.seed = v.random_seed();
    port.initializer = v.initializer();
    port.where = placeOf(v.location());
    return Status::ok();
  }

  const plan::Plan &plan_;
  const OutsideValues &outside_;
  JobPlan *job_;
  std::vector<uint32_t> makerStride_; // by tensor of the part
  std::unordered_map<std::string, size_t> index_;
};

/// Names are shown, on lines of their own: opc writes none that a terminal would obey.
Status checkNames(const plan::Plan &plan) {
  const auto check = [](const auto &list, const char *what) -> Status {
    for (const auto &item : list)
      if (const std::string shown = printableName(item.name()); shown != item.name())
        return bad("OPC0811", what, " '", shown, "' has control characters in its name");
    return Status::ok();
  };
  OPC_RETURN_IF_ERROR(check(plan.task(), "task"));
  OPC_RETURN_IF_ERROR(check(plan.register_(), "register"));
  OPC_RETURN_IF_ERROR(check(plan.tensor(), "tensor"));
  OPC_RETURN_IF_ERROR(check(plan.interface().input(), "input"));
  OPC_RETURN_IF_ERROR(check(plan.interface().output(), "output"));
  OPC_RETURN_IF_ERROR(check(plan.interface().variable(), "variable"));
  for (const plan::Plan &part : plan.part()) OPC_RETURN_IF_ERROR(checkNames(part));
  return Status::ok();
}

} // namespace

Result<JobPlan> readJob(const plan::Plan &plan, int64_t ranks) { return readJob(plan, ranks, {}); }

Result<JobPlan> readJob(const plan::Plan &plan, int64_t ranks, const OutsideValues &outside) {
  JobPlan job;
  const bool hasParts = plan.part_size() > 0;
  job.ranks = hasParts ? plan.part_of_rank_size() : 1;
  if (job.ranks < 1 || job.ranks > kMaxRanks)
    return bad("OPC0715", "it is for ", counted(job.ranks, "rank"), "; 1 to ", kMaxRanks, " are possible");
  if (!hasParts && plan.part_of_rank_size()) return bad("OPC0715", "it names the parts of ranks and has no parts");
  if (job.ranks != ranks)
    return Status(StatusCode::kUsage, "OPC0714",
                  concat("the plan is for ", counted(job.ranks, "rank"), ", and it is run by ", ranks))
        .withHelp(job.ranks > 1 ? concat("opc run --ranks ", job.ranks, ", mpirun -n ", job.ranks,
                                         ", or compile the graph for another mesh: --mesh ", ranks)
                                : concat("compile the graph for several ranks: opc compile --mesh ", ranks));
  if (plan.micro_batches() > kMostSlots)
    return bad("OPC0715", plan.micro_batches(), " micro-batches; the limit is ", kMostSlots);
  job.microBatches = plan.micro_batches() ? plan.micro_batches() : 1;
  OPC_ASSIGN_OR_RETURN(job.placements, readPlacements(plan, job.ranks));
  if (hasParts) {
    if (plan.task_size() || plan.tensor_size() || plan.register__size() || plan.arena_size() || plan.stream_size())
      return bad("OPC0715", "a plan of parts has tasks of its own");
    for (const plan::Plan &part : plan.part())
      if (part.part_size() || part.placement_size() || part.part_of_rank_size() || part.has_micro_batches())
        return bad("OPC0715", "a part has parts, placements or micro-batches of its own");
    for (uint32_t part : plan.part_of_rank()) {
      if (part >= static_cast<uint32_t>(plan.part_size()))
        return bad("OPC0715", "a rank has part ", part, " of ", plan.part_size());
      job.partOfRank.push_back(part);
    }
  }
  OPC_RETURN_IF_ERROR(checkNames(plan));
  OPC_RETURN_IF_ERROR(JobReader(plan, outside, &job).read());
  return job;
}

const plan::Plan &partOf(const plan::Plan &plan, const JobPlan &job, int64_t rank) {
  return job.partOfRank.empty() ? plan : plan.part(static_cast<int>(job.partOfRank[static_cast<size_t>(rank)]));
}

GraphPlace placeOf(const plan::Location &location) {
  return {printableName(location.file()), location.line(), location.column()};
}

bool boxesOnDevices(const plan::Plan &plan) {
  const auto onDevice = [](const plan::Plan &part, uint32_t tensor) {
    if (tensor >= static_cast<uint32_t>(part.tensor_size())) return false;
    const uint32_t reg = part.tensor(static_cast<int>(tensor)).register_();
    if (reg >= static_cast<uint32_t>(part.register__size())) return false;
    const uint32_t arena = part.register_(static_cast<int>(reg)).arena();
    return arena < static_cast<uint32_t>(part.arena_size()) &&
           deviceTypeOf(part.arena(static_cast<int>(arena)).device()) != DeviceType::kCPU;
  };
  for (int p = 0; p < std::max(1, plan.part_size()); ++p) {
    const plan::Plan &part = plan.part_size() ? plan.part(p) : plan;
    for (const plan::Task &task : part.task())
      for (const auto *list : {&task.input(), &task.output()})
        for (const plan::Argument &a : *list)
          if (task.has_boxing() && a.tensor_size() > 0 && onDevice(part, a.tensor(0))) return true;
  }
  return false;
}

} // namespace opc::runtime
