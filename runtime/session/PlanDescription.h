// What a plan file says, for people: its interface, its tasks, its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"
#include "RunObserver.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opc {

/// A size that a plan leaves open: the inputs give it.
struct SizeInfo {
  std::string name;
  int64_t min = 1, max = 1;
};
/// A named tensor at the border of a plan.
struct PortInfo {
  std::string name;
  /// Where the plan leaves sizes open: of an input, the shape that a session has been given; of an output, that of the
  /// sizes that it was last prepared for. The largest at first.
  user_op::TensorDesc desc;
  std::string sizes = {};      // "n,784": the shape in terms of the plan's sizes; empty when it does not depend on them
  Shape smallest = {};         // when it does: the shape at the smallest sizes
  std::string tensor = {};     // in a description: the value's name
  bool trainable = false;      // of a variable
  bool hasInitializer = false; // or a value in the plan
  bool hasValue = false;       // in the plan
  std::string reader = {};     // of a number of the model: the first node that reads it; may be empty
};

struct PlanDescription {
  struct Buffer {
    std::string name, kind; // "activation", "input", "variable", "constant", "workspace"
    uint64_t offset = 0, bytes = 0;
    uint32_t firstTask = 0, lastTask = 0; // in the order of the plan's tasks
  };
  /// Machine code of one level.
  struct Native {
    std::string level;  // "v3"
    uint64_t loops = 0; // that differ; equal ones have one image
    uint64_t bytes = 0;
  };
  std::string producer, graph;
  int64_t ranks = 1;                                // that the plan is for
  std::vector<PortInfo> inputs, outputs, variables; // of the largest sizes
  std::vector<SizeInfo> sizes;                      // that the plan leaves open
  std::map<std::string, std::string> sizesOf;       // by tensor, where they depend on the sizes: "n,784"
  std::vector<ObservedTask> tasks;
  std::vector<std::vector<std::pair<std::string, AttrValue>>> attrs; // by task
  std::vector<Buffer> buffers;
  std::vector<Native> native; // levels that there are
  uint64_t arenaBytes = 0, persistentBytes = 0;
  /// The bytes of buffers, without the persistent ones, that are alive at each task of the plan (ObservedTask::index);
  /// after the last one what the caller fetches.
  std::vector<uint64_t> live;
  uint64_t liveLowerBound = 0; // the largest of them
};

/// Decodes and checks what a plan has for one rank, as Session::load does, without taking its memory.
Result<PlanDescription> describePlan(std::string_view planBytes, const Registry &registry, int64_t rank = 0);

} // namespace opc
