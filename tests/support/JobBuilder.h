// Builds plans of several ranks by hand, for tests of the runtime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"
#include "Placement.h"
#include "PlanBuilder.h"

#include <string>
#include <vector>

namespace opc::test {

/// Parts under construction; tensors are named with their whole shapes and states.
class JobBuilder {
public:
  explicit JobBuilder(int64_t ranks) {
    plan.set_producer("test");
    for (int64_t r = 0; r < ranks; ++r) plan.add_part_of_rank(0);
  }
  uint32_t placement(const std::vector<int64_t> &dims, const std::vector<int64_t> &ranks) {
    plan::Placement *p = plan.add_placement();
    for (int64_t d : dims) p->add_dim(d);
    for (int64_t r : ranks) p->add_rank(static_cast<uint32_t>(r));
    return static_cast<uint32_t>(plan.placement_size() - 1);
  }
  Placement at(uint32_t placement) const {
    Placement p;
    for (int64_t d : plan.placement(static_cast<int>(placement)).dim()) p.dims.push_back(d);
    for (uint32_t r : plan.placement(static_cast<int>(placement)).rank()) p.ranks.push_back(r);
    return p;
  }
  plan::Sharding sharding(uint32_t placement, const std::string &states, const Shape &whole) const {
    plan::Sharding s;
    s.set_placement(placement);
    const NdSbp list = *parseNdSbp(states);
    for (const SbpParallel &state : list)
      s.add_state(state.has_split_parallel()       ? static_cast<int32_t>(state.axis())
                  : state.has_broadcast_parallel() ? -1
                                                   : -2);
    for (int64_t d : whole) s.add_dim(d);
    return s;
  }
  /// What a rank has of a tensor.
  Shape local(uint32_t placement, const std::string &states, const Shape &whole, int64_t rank) const {
    const Placement p = at(placement);
    return localShape(whole, *parseNdSbp(states), p.dims, *p.positionOf(rank));
  }
  /// Adds what `ranks` run.
  void part(const PlanBuilder &b, const std::vector<int64_t> &ranks) {
    *plan.add_part() = b.plan;
    for (int64_t r : ranks) plan.set_part_of_rank(static_cast<int>(r), static_cast<uint32_t>(plan.part_size() - 1));
  }
  std::string encode() const { return encodePlan(plan); }

  plan::Plan plan;
};

/// A boxing task of one tensor. `in` or `out` may be absent (-1).
inline plan::Task *box(PlanBuilder &b, const std::string &name, const std::string &kind, int dim, int64_t in,
                       const plan::Sharding &from, int64_t out, const plan::Sharding &to, uint32_t stream = 0) {
  Args inputs, outputs;
  if (in >= 0) inputs.push_back({"in", {static_cast<uint32_t>(in)}});
  if (out >= 0) outputs.push_back({"out", {static_cast<uint32_t>(out)}});
  plan::Task *t = b.task(name, "opc.boxing", inputs, outputs, stream);
  t->mutable_boxing()->set_kind(kind);
  t->mutable_boxing()->set_mesh_dim(dim);
  *t->mutable_boxing()->add_from() = from;
  *t->mutable_boxing()->add_to() = to;
  return t;
}

} // namespace opc::test
