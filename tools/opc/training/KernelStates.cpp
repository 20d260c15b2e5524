// What kernels keep for themselves, which no checkpoint holds.
// SPDX-License-Identifier: Apache-2.0
#include "KernelStates.h"

#include "PlanDescription.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

std::string statesOfKernels(const std::string &plan, const Registry &registry) {
  if (registry.plugins().empty()) return "";
  const Result<PlanDescription> described = describePlan(plan, registry);
  if (!described) return ""; // the session says why
  const ObservedTask *first = nullptr;
  size_t count = 0;
  for (const ObservedTask &task : described->tasks) {
    const auto &kernels = registry.kernels(task.type);
    const bool keeps = std::any_of(kernels.begin(), kernels.end(), [](const auto *k) { return k->hasState; });
    if (keeps && count++ == 0) first = &task;
  }
  if (!first) return "";
  return "the kernel of op " + first->name + " (" + first->type + ") keeps a state of its own" +
         (count > 1 ? ", as " + counted(count - 1, "more kernel") + " do" : "") +
         "; no checkpoint holds it: a run that --resume continues is not the same bit for bit";
}

} // namespace opc::cli
