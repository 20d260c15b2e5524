// Ops on a device and on the CPU, and the copies between them.
// SPDX-License-Identifier: Apache-2.0
#include "AssignDevices.h"

#include "AttrBridge.h"
#include "DeviceCopy.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "OpForms.h"
#include "Passes.h"
#include "UserOpBuilder.h"
#include "VariableReads.h"

using namespace mlir;

namespace opc {
namespace {

ir::DeviceAttr deviceAttr(MLIRContext *context, DeviceType type) {
  return ir::DeviceAttr::get(context, StringAttr::get(context, DeviceTag(type)), 0);
}

bool isSource(Value v) { return !ir::isTask(v.getDefiningOp()); }

/// Tasks alone: an output may lie anywhere.
SmallVector<Operation *> readersOf(Value v) {
  SmallVector<Operation *> readers;
  for (Operation *user : v.getUsers())
    if (ir::isTask(user)) readers.push_back(user);
  return readers;
}

bool hasReadersOnCpuAlone(Value v) {
  const SmallVector<Operation *> readers = readersOf(v);
  return !readers.empty() && llvm::all_of(readers, [](Operation *op) { return isOnCpu(op); });
}

class DeviceAssigner {
public:
  DeviceAssigner(ModuleOp module, const Registry &registry, bool fallback)
      : block_(graphBlock(module)), registry_(registry), fallback_(fallback), builder_(module.getContext()),
        afterWrites_(readsAfterWrites(block_)) {}

  LogicalResult run() {
    std::vector<Operation *> tasks;
    for (Operation &op : block_)
      if (ir::isTask(&op)) tasks.push_back(&op);
    for (Operation *op : tasks)
      if (auto user = dyn_cast<ir::UserOp>(op)) place(user);
    for (Operation *op : tasks)
      if (auto user = dyn_cast<ir::UserOp>(op)) followView(user);
    if (llvm::none_of(tasks, [](Operation *op) { return isOnCpu(op); })) return success();
    for (Operation *op : tasks)
      if (auto user = dyn_cast<ir::UserOp>(op); user && noteWrites(user).failed()) return failure();
    for (Operation &op : block_)
      if (!ir::isTask(&op))
        for (Value v : op.getResults()) side_[v] = homeOf(v);
    for (Operation *op : tasks)
      for (Value v : op->getResults()) side_[v] = isOnCpu(op);
    for (Operation *op : tasks)
      if (cross(op).failed()) return failure();
    return success();
  }

private:
  void place(ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    if (!fallback_ || !def || op.getDeviceAttr()) return;
    const ir::OpForm form(op, ir::OpForm::kResults);
    const bool *falls = fallsBack_.find(form);
    if (!falls) {
      const std::unique_ptr<OpInstance> instance = ir::toInstance(op, *def);
      const auto has = [&](DeviceType device) { return bool(instance->selectKernel(registry_, device)); };
      falls = &fallsBack_.add(form, instance && !has(DeviceType::kGPU) && has(DeviceType::kCPU));
    }
    if (*falls) placeOnCpu(op);
  }

  /// What a view shows stays where it is, unless the device reads it.
  static void followView(ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    if (def && def->isView && !op.getDeviceAttr() && op.getArgs().size() == 1 && !isSource(op.getArgs()[0]) &&
        isOnCpu(op.getArgs()[0].getDefiningOp()) && hasReadersOnCpuAlone(op.getOuts()[0]))
      placeOnCpu(op);
  }

  /// Remembers who writes which of its inputs; all writers of a variable are on one side.
  LogicalResult noteWrites(ir::UserOp op) {
    const user_op::OpDef &def = *op.def();
    if (!def.modifyInputs) return success();
    const std::unique_ptr<OpInstance> instance = ir::toInstance(op, def);
    const std::vector<bool> written = mutableInputs(*instance);
    for (auto [i, v] : llvm::enumerate(op.getArgs())) {
      if (!written[i] || (mayStayUnwritten(*instance, i) && !v.getDefiningOp<ir::VariableOp>())) continue;
      const auto [first, isNew] = writers_.try_emplace(v, op);
      if (isNew || isOnCpu(first->second) == isOnCpu(op)) continue;
      return refuse(op, v, "which op " + ir::opName(first->second) + " writes on the " + nameOf(first->second), op);
    }
    return success();
  }

  static std::string nameOf(Operation *op) { return isOnCpu(op) ? "cpu" : "device"; }
  LogicalResult refuse(Operation *op, Value v, const std::string &why, Operation *writer) {
    emitStatus(op, Status(StatusCode::kUnsupported, "OPC0415",
                          cast<ir::UserOp>(op).getOpType().str() + ": it writes its input " + ir::tensorName(v) +
                              " on the " + nameOf(writer) + ", " + why)
                       .withHelp("place all ops that write it on the same side: --place GLOB=cpu"));
    return failure();
  }

  bool homeOf(Value v) const {
    const auto writer = writers_.find(v);
    return writer == writers_.end() ? hasReadersOnCpuAlone(v) : isOnCpu(writer->second);
  }

  LogicalResult cross(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      const Value v = operand.get();
      if (side_.lookup(v) == isOnCpu(op)) continue;
      if (const auto writer = writers_.find(v); writer != writers_.end() && writer->second == op)
        return refuse(op, v, "which lies on the " + std::string(side_.lookup(v) ? "cpu" : "device"), op);
      operand.set(copied(v, op, behind(builder_.getContext(), afterWrites_.lookup(&operand))));
    }
    return success();
  }

  /// The tensor on the side of `reader`. A variable is read when its turn comes, before it is written, by a copy beside
  /// it: streams do not read what another one writes.
  /// `after`: the ops that have written it by then.
  Value copied(Value v, Operation *reader, Attribute after) {
    Value &known = copies_[{v, after}];
    if (known) return known;
    builder_.setInsertionPoint(reader);
    Value from = v;
    const bool toCpu = isOnCpu(reader);
    if (isWritten(v)) from = copy(v, reader, ".read", toCpu ? ir::DeviceAttr() : cpu(), after);
    known = copy(from, reader, toCpu ? ".to_cpu" : ".to_device",
                 toCpu ? cpu() : deviceAttr(builder_.getContext(), DeviceType::kGPU), Attribute());
    return known;
  }
  /// Whether it is a variable that an op writes, or a view of one.
  bool isWritten(Value v) const {
    while (auto op = v.getDefiningOp<ir::UserOp>()) {
      const user_op::OpDef *def = op.def();
      if (!def || !def->isView) return false;
      v = op.getArgs()[0];
    }
    return writers_.count(v) > 0;
  }
  ir::DeviceAttr cpu() { return deviceAttr(builder_.getContext(), DeviceType::kCPU); }

  Value copy(Value v, Operation *reader, const char *suffix, ir::DeviceAttr device, Attribute after) {
    const std::string name = uniqueName(ir::tensorName(v) + suffix);
    auto op = ir::UserOpBuilder(builder_, kCopyOp)
                  .in("in", v)
                  .role(isa<ir::UserOp>(reader) ? cast<ir::UserOp>(reader).getRole() : ir::Role::kForward)
                  .make(ir::renamed(reader->getLoc(), name), "out", v.getType());
    if (device) op.setDeviceAttr(device);
    if (after) op->setAttr(ir::kCtrlInAttr, after);
    const Value out = op.getOuts()[0];
    side_[out] = isOnCpu(op);
    return out;
  }

  std::string uniqueName(std::string name) {
    const unsigned count = names_[name]++;
    return count ? name + "_" + std::to_string(count) : name;
  }

  Block &block_;
  const Registry &registry_;
  const bool fallback_;
  ir::ByForm<bool> fallsBack_;
  OpBuilder builder_;
  const llvm::DenseMap<OpOperand *, WritersBefore> afterWrites_;
  llvm::DenseMap<Value, Operation *> writers_;
  llvm::DenseMap<Value, bool> side_; // whether it lies on the CPU
  llvm::DenseMap<std::pair<Value, Attribute>, Value> copies_;
  std::map<std::string, unsigned> names_;
};

} // namespace

bool isOnCpu(Operation *op) {
  auto user = dyn_cast<ir::UserOp>(op);
  return user && user.getDeviceAttr() && user.getDeviceAttr().getKind().getValue() == DeviceTag(DeviceType::kCPU);
}

void placeOnCpu(ir::UserOp op) { op.setDeviceAttr(deviceAttr(op.getContext(), DeviceType::kCPU)); }

DeviceSides::DeviceSides(Block &block, DeviceType device) : device_(device) {
  if (device == DeviceType::kCPU) return;
  for (Operation &op : block) areTwo_ |= ir::isTask(&op) && opc::isOnCpu(&op);
  if (!areTwo_) return;
  for (Operation &op : block)
    if (!ir::isTask(&op))
      for (Value v : op.getResults()) sources_[v] = hasReadersOnCpuAlone(v);
}

bool DeviceSides::isOnCpu(Value v) const {
  if (!areTwo_) return device_ == DeviceType::kCPU;
  return isSource(v) ? sources_.lookup(v) : opc::isOnCpu(v.getDefiningOp());
}

uint32_t DeviceSides::streamOf(Operation *op) const {
  auto boxing = dyn_cast<ir::BoxingOp>(op);
  const uint32_t channel = boxing ? static_cast<uint32_t>(boxing.getChannel()) : 0;
  if (!areTwo_) return channel;
  const auto number = [](DeviceStream s) { return static_cast<uint32_t>(s); };
  if (channel > 0) return number(DeviceStream::kFirstChannel) + channel - 1;
  const bool isHere = opc::isOnCpu(op);
  const bool crosses = op->getNumOperands() == 1 && isOnCpu(op->getOperand(0)) != isHere;
  if (crosses) return number(isHere ? DeviceStream::kToCpu : DeviceStream::kToDevice);
  return number(isHere ? DeviceStream::kCpu : DeviceStream::kDevice);
}

DeviceType DeviceSides::kernelsOf(Operation *op) const {
  return areTwo_ && streamOf(op) == static_cast<uint32_t>(DeviceStream::kCpu) ? DeviceType::kCPU : device_;
}

LogicalResult assignDevices(ModuleOp module, const Registry &registry, bool fallback) {
  return DeviceAssigner(module, registry, fallback).run();
}

#define GEN_PASS_DEF_ASSIGNDEVICES
#include "Passes.h.inc"

namespace {

struct AssignDevicesPass : impl::AssignDevicesBase<AssignDevicesPass> {
  using AssignDevicesBase::AssignDevicesBase;
  void runOnGraph() override {
    if (assignDevices(getOperation(), registryOf(&getContext()), fallback).failed()) signalPassFailure();
  }
};

} // namespace

} // namespace opc
