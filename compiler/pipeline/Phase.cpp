// The names of the phases.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"

namespace opc {
namespace {

struct PhaseText {
  const char *name, *doc;
};
constexpr PhaseText kPhases[] = {
    // in the order of Phase
    {"import", "read the graph, resolve names, order the ops"},
    {"shape", "infer every tensor's shape and dtype"},
    {"grad", "add the gradient subgraph, when one is asked for"},
    {"simplify", "fold constants, merge equal ops, drop what nobody reads"},
    {"sbp", "choose how every tensor is cut over the devices"},
    {"boxing", "make every transition between cuts an op, and each rank's graph"},
    {"fuse", "join what a library or one loop computes, choose layouts"},
    {"tasks", "choose the order of execution"},
    {"memory", "select kernels, plan buffers and offsets"},
    {"plan", "write the plan"},
};

} // namespace

const char *phaseName(Phase phase) { return kPhases[static_cast<size_t>(phase)].name; }
const char *phaseDoc(Phase phase) { return kPhases[static_cast<size_t>(phase)].doc; }

const std::vector<Phase> &allPhases() {
  static const std::vector<Phase> phases = [] {
    std::vector<Phase> list;
    for (size_t i = 0; i < std::size(kPhases); ++i) list.push_back(static_cast<Phase>(i));
    return list;
  }();
  return phases;
}

std::optional<Phase> parsePhase(const std::string &name) {
  for (Phase p : allPhases())
    if (name == phaseName(p)) return p;
  return std::nullopt;
}

} // namespace opc
