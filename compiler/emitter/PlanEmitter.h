// Execution schedule -> plan file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ExecutionSchedule.h"
#include "FilePieces.h"
#include "Placement.h"
#include "SizeSweep.h"
#include "StoredTensor.h"

#include "graph.pb.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <string>
#include <vector>

namespace opc {

class NativeEmitter;

/// Values of variables, by name.
using VariableValues = std::map<std::string, StoredTensor>;

/// What of a model has become part of ops: a plan keeps it (kernels/wire/ModelNumber.h).
using ModelNumbers = std::vector<graph::ModelNumber>;

/// The plan files of an op's graphs, and the memory that they need together.
struct ControlPlan {
  std::vector<std::string> files;
  uint64_t bytes = 0;
};
using ControlPlans = llvm::DenseMap<mlir::Operation *, ControlPlan>;

/// The bytes of a plan file. `graphName` is what the plan calls its graph: a file name without folders, so that equal
/// graphs give equal plans wherever they lie. With `sizes` shapes that depend on them become expressions. Variables of
/// which `values` has a value of their type get it, and large ones are read where they lie. With `native` regions get
/// machine code.
FilePieces emitPlan(mlir::ModuleOp module, const ExecutionSchedule &schedule, const std::string &graphName,
                    const VariableValues &values = {}, const SizeFacts *sizes = nullptr,
                    NativeEmitter *native = nullptr, const ControlPlans &graphs = ControlPlans());

/// What a plan calls a task's kernel: "cpu/matmul/f32", "comm/all_reduce".
std::string kernelName(const ExecutionSchedule &schedule, const ScheduledTask &task);
/// Of a step of one of its regions.
std::string kernelName(const ExecutionSchedule &schedule, const RegionStep &step);
/// Whether its regions run on a GPU: those of a graph for one do, with or without a CPU beside it.
bool isOnDevice(const ExecutionSchedule &schedule);
std::string kernelName(const user_op::OpDef &op, const user_op::KernelDef &kernel);

/// What ranks whose pieces have equal shapes run.
struct RankPart {
  mlir::ModuleOp module;
  const ExecutionSchedule *schedule;
};
/// The bytes of a plan for several ranks.
FilePieces emitPlan(llvm::ArrayRef<RankPart> parts, llvm::ArrayRef<uint32_t> partOfRank,
                    llvm::ArrayRef<Placement> placements, uint32_t microBatches, const std::string &graphName,
                    const VariableValues &values = {}, NativeEmitter *native = nullptr,
                    const ModelNumbers &numbers = {});

} // namespace opc
