// Graphs of tasks (if, loop, batch_parts): plans in a plan.
// SPDX-License-Identifier: Apache-2.0
#include "PlanGraphs.h"

#include <algorithm>
#include <set>
#include <string>

namespace opc {
namespace {

Status bad(std::string message) {
  return Status(StatusCode::kInvalidGraph, "OPC0826", "invalid plan: " + std::move(message))
      .withHelp("compile the graph again");
}

/// What of a plan is not for a graph of a task; empty: nothing.
std::string faultOf(const plan::Plan &graph) {
  if (graph.part_size() || graph.part_of_rank_size() || graph.placement_size()) return "is for several ranks";
  if (graph.has_micro_batches()) return "has micro-batches";
  if (graph.size_size()) return "leaves sizes open";
  if (graph.native_size()) return "has machine code of its own";
  if (graph.interface().variable_size()) return "has variables";
  if (graph.stream_size() > 1 || graph.arena_size() > 1) return "has several streams or arenas";
  for (const plan::Register &r : graph.register_())
    if (r.has_credits() && r.credits() > 1) return "has registers of several slots";
  for (const plan::Task &task : graph.task()) {
    if (task.has_boxing()) return "moves tensors between ranks";
    if (task.stride() > 1 || task.lag()) return "has tasks that skip steps or lag";
  }
  return "";
}

Status check(const plan::Plan &plan, int depth) {
  for (const plan::Task &task : plan.task()) {
    for (const plan::Task &op : task.body())
      if (op.graph_size()) return bad("an op in the body of task " + task.name() + " has graphs");
    if (!task.graph_size()) continue;
    if (depth == kMostPlanGraphDepth)
      return bad("graphs of tasks lie in one another more than " + std::to_string(kMostPlanGraphDepth) + " deep");
    if (task.graph_size() > kMostTaskGraphs)
      return bad("task " + task.name() + " has " + std::to_string(task.graph_size()) + " graphs");
    if (plan.size_size() || plan.part_size())
      return bad("task " + task.name() + " has graphs, and the plan leaves sizes open or is for several ranks");
    for (const plan::Plan &graph : task.graph()) {
      if (const std::string fault = faultOf(graph); !fault.empty())
        return bad("a graph of task " + task.name() + " " + fault);
      OPC_RETURN_IF_ERROR(check(graph, depth + 1));
    }
  }
  return Status::ok();
}

} // namespace

Status checkPlanGraphs(const plan::Plan &plan) {
  for (const plan::Plan &part : plan.part())
    for (const plan::Task &task : part.task())
      if (task.graph_size()) return bad("task " + task.name() + " has graphs, and the plan is for several ranks");
  return check(plan, 0);
}

/// An input of a graph is in the graph's memory where each turn or part has another one (docs/plan-format.md).
static bool isOwnInput(const plan::Task &task, int64_t input) {
  const auto number = [&](const char *name) {
    for (const plan::Attribute &a : task.attr())
      if (a.name() == name) return a.value().at_int64();
    return int64_t{0};
  };
  if (task.op_type() == "batch_parts") return input < number("cut");
  if (task.op_type() != "loop") return false;
  const int64_t states = number("states");
  return input == 0 || (input > states && input - states <= number("sequences"));
}

static uint64_t graphBytes(const plan::Task &task, const plan::Plan &graph) {
  uint64_t bytes = 0;
  for (const plan::Arena &arena : graph.arena())
    if (__builtin_add_overflow(bytes, arena.bytes(), &bytes)) return UINT64_MAX;
  const plan::Interface &interface = graph.interface();
  std::set<uint32_t> lent; // a damaged plan may name one twice
  for (int k = 0; k < interface.input_size(); ++k) {
    if (isOwnInput(task, k) || interface.input(k).tensor() >= static_cast<uint32_t>(graph.tensor_size())) continue;
    const uint32_t place = graph.tensor(static_cast<int>(interface.input(k).tensor())).register_();
    if (place < static_cast<uint32_t>(graph.register__size()) && lent.insert(place).second)
      bytes -= std::min<uint64_t>(bytes, graph.register_(static_cast<int>(place)).bytes());
  }
  for (const plan::Task &inner : graph.task())
    if (__builtin_add_overflow(bytes, taskGraphBytes(inner), &bytes)) return UINT64_MAX;
  return bytes;
}

uint64_t taskGraphBytes(const plan::Task &task) {
  uint64_t bytes = 0;
  for (const plan::Plan &graph : task.graph())
    if (__builtin_add_overflow(bytes, graphBytes(task, graph), &bytes)) return UINT64_MAX;
  return bytes;
}

} // namespace opc
