// A region of three elementwise ops, as a plan has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanBuilder.h"
#include "PlanModel.h"

#include <catch2/catch.hpp>

namespace opc::test {

/// y = last(first(x) * x) of n elements; an op with two operands has x as the second one.
inline std::shared_ptr<const Region> regionOf(const std::string &last, DataType type = kFloat, int64_t n = 1000,
                                              const std::string &first = "exp", bool isBinary = false) {
  PlanBuilder b;
  const Shape shape{n};
  const uint32_t x = b.input("x", shape, type), e = b.tensor("e", shape, type), z = b.tensor("z", shape, type),
                 y = b.tensor("y", shape, type);
  for (uint32_t inner : {e, z}) b.plan.mutable_tensor(static_cast<int>(inner))->clear_register_();
  plan::Task *task = b.task("all", "opc.fused", {{"in", {x}}}, {{"out", {y}}});
  task->set_region(true);
  PlanBuilder parts;
  parts.task("first", first, {{"x", {x}}}, {{"y", {e}}});
  parts.task("mul", "broadcast_mul", {{"x", {e}}, {"y", {x}}}, {{"z", {z}}});
  if (isBinary)
    parts.task("last", last, {{"x", {z}}, {"y", {x}}}, {{"z", {y}}});
  else
    parts.task("last", last, {{"x", {z}}}, {{"y", {y}}});
  for (const plan::Task &t : parts.plan.task()) {
    *task->add_body() = t;
    task->mutable_body(task->body_size() - 1)->clear_stream();
  }
  b.output("y", y);
  const auto model = runtime::buildPlanModel(b.plan, registry());
  INFO(model.status().toString());
  REQUIRE(model.isOk());
  return model->tasks[0].region;
}

} // namespace opc::test
