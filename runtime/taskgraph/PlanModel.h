// A plan that has been checked: indices resolved, ops matched with their definitions, kernels chosen. What the executor
// is built from. Nothing in it is taken on trust from the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Batch.h"
#include "OpInstance.h"
#include "PlanSharding.h"
#include "Region.h"
#include "plan.pb.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace opc::runtime {

struct ModelRegister {
  std::string name;
  uint32_t arena = 0;
  uint64_t offset = 0, bytes = 0, stride = 0;
  uint32_t credits = 1;
  plan::Register::Kind kind = plan::Register::ACTIVATION;
  bool isWritten = false; // a task writes it through a mutable input: a variable that is updated
  bool isPersistent() const {
    return kind == plan::Register::INPUT || kind == plan::Register::VARIABLE || kind == plan::Register::CONSTANT ||
           isPrepared();
  }
  bool isPrepared() const { return kind == plan::Register::PREPARED; }
  /// Holds the same in all steps, once it has its value.
  bool isConstant() const {
    return kind == plan::Register::CONSTANT || isPrepared() || (kind == plan::Register::VARIABLE && !isWritten);
  }
  /// End of the last slot.
  uint64_t end() const { return offset + (credits - 1) * stride + bytes; }
};

constexpr uint32_t kNone = UINT32_MAX;

struct ModelTensor {
  std::string name;
  uint32_t reg = 0; // kNone: inside a region, in no memory of the plan
  user_op::TensorDesc desc;
  uint64_t bytes = 0;
  uint32_t producer = kNone; // the task that makes it; kNone for inputs, variables and constants
  bool isSource = false;     // an input, a variable or a constant
};

struct ModelTask {
  std::string name, type;
  GraphPlace where;
  std::optional<OpInstance> op; // moved out when the last kernel task has been made
  const user_op::KernelDef *kernel = nullptr;
  std::vector<uint32_t> inputs, outputs;    // tensors, flat, in the op instance's order
  std::vector<bool> mutableInput;           // the kernel writes this input (optimizer updates)
  std::vector<std::pair<int, int>> inplace; // (output, input) that may share memory; sorted
  uint32_t workspace = kNone;               // tensor
  uint64_t workspaceBytes = 0;              // what the kernel asked for
  uint64_t graphBytes = 0;                  // memory of its graphs, beside the arenas; of one thread
  uint32_t stream = 0, position = 0;        // position: index in the stream
  uint32_t stride = 1;
  uint32_t lag = 0;        // at turn t of its stream it does step t - lag
  bool isView = false;     // output and first input are the same bytes: nothing to execute
  bool isPrepared = false; // makes tensors that are the same in all steps: runs before the first one, and in none
  bool isRun() const { return !isView && !isPrepared; } // in steps
  /// A boxing task has no op: one step for each pair of tensors. Not all ranks have both: who is outside the source has
  /// no inputs, who is outside the target no outputs.
  std::vector<BoxingOp> boxing;
  bool isBoxing() const { return !boxing.empty(); }
  std::shared_ptr<const Region> region;                // what the loop of a task of several ops computes
  std::shared_ptr<const Batch> batch;                  // or a task of several updates
  std::shared_ptr<const user_op::KernelDef> ownKernel; // made for this task: `kernel`, where it is not null
  struct Part {
    std::string name, type;
    GraphPlace where;
  };
  std::vector<Part> parts; // the ops of a region, of updates or of a graph, in their order

  bool mayShare(size_t output, size_t input) const {
    return std::binary_search(inplace.begin(), inplace.end(),
                              std::pair(static_cast<int>(output), static_cast<int>(input)));
  }
};

struct ModelPort {
  std::string name;
  uint32_t tensor = 0;
  bool trainable = false;                 // of a variable
  std::optional<TensorSharding> sharding; // on several ranks
};
struct ModelConstant {
  uint32_t tensor = 0;
  std::optional<TensorSharding> sharding; // the plan has the whole tensor
};

class NativeImages;

/// The device of streams that hold boxing tasks alone.
constexpr char kCommDevice[] = "comm";

/// What one rank runs.
struct PlanModel {
  std::string graph;
  int64_t rank = 0, microBatches = 1;
  std::vector<std::pair<std::string, uint64_t>> arenas; // device, bytes
  std::vector<ModelRegister> registers;
  std::vector<ModelTensor> tensors;
  std::vector<ModelTask> tasks;
  struct Stream {
    std::string device;
    std::vector<uint32_t> tasks;
    bool isComm() const { return device == kCommDevice; }
  };
  std::vector<Stream> streams;
  std::vector<ModelPort> inputs, outputs, variables;
  std::vector<ModelConstant> constants; // in the order of plan.interface.constant
  bool hasBoxing() const {
    return std::any_of(tasks.begin(), tasks.end(), [](const ModelTask &t) { return t.isBoxing(); });
  }

  uint64_t graphBytes() const {
    uint64_t bytes = 0;
    for (const ModelTask &t : tasks)
      if (__builtin_add_overflow(bytes, t.graphBytes, &bytes)) return UINT64_MAX;
    return bytes;
  }

  /// "task 17, op fc1 (matmul) at mlp.pbtxt:14:3".
  std::string describe(uint32_t task) const;
};

/// Everything but data flow and memory: references, sizes, operators, shapes, kernels. `plan` is the part of `rank`.
/// With `native`, regions get the machine code that the plan has for them.
/// Codes OPC0201, OPC0411, OPC0715, OPC0716, OPC0811 to OPC0815, OPC0818, OPC0820, and those of the op rules; OPC0824
/// and OPC0825.
Result<PlanModel> buildPlanModel(const plan::Plan &plan, const Registry &registry, const JobPlan &job = {},
                                 int64_t rank = 0, const std::shared_ptr<NativeImages> &native = nullptr);

/// A data dependence between streams, through one register.
struct CrossEdge {
  uint32_t reg = 0;
  uint32_t firstWriter = 0, lastWriter = 0, firstReader = 0, lastReader = 0; // tasks
};

/// Data flow and memory: every tensor is made once, before it is read, and intact when it is (OPC0816); registers that
/// share memory are never alive together (OPC0817); no wait cycle without credits (OPC0819). Returns the edges between
/// streams, by register, then reader stream.
Result<std::vector<CrossEdge>> checkDataFlow(const PlanModel &model);
/// The memory half of checkDataFlow: `isShared[r]` says that register r is used by several streams.
Status checkMemory(const PlanModel &model, const std::vector<bool> &isShared);
/// The deadlock part.
Status checkWaits(const PlanModel &model, const std::vector<CrossEdge> &edges);

} // namespace opc::runtime
