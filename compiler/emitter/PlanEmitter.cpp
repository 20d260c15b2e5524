// Execution schedule -> plan file.
// SPDX-License-Identifier: Apache-2.0
#include "PlanEmitter.h"
#include "AttrBridge.h"
#include "AttrWire.h"
#include "ControlOp.h"
#include "Graph.h"
#include "GraphAttributes.h"
#include "GraphEmitter.h"
#include "Locations.h"
#include "NativeEmitter.h"
#include "PlanFile.h"
#include "RegionCode.h"

#include "opc/Version.h"
#include "plan.pb.h"
#include <google/protobuf/arena.h>

using namespace mlir;

namespace opc {
namespace {

StringRef baseName(StringRef path) { return path.substr(path.rfind('/') + 1); }

plan::Register::Kind registerKind(BufferKind kind) {
  switch (kind) {
  case BufferKind::kInput: return plan::Register::INPUT;
  case BufferKind::kVariable: return plan::Register::VARIABLE;
  case BufferKind::kConstant: return plan::Register::CONSTANT;
  case BufferKind::kWorkspace: return plan::Register::WORKSPACE;
  case BufferKind::kPrepared: return plan::Register::PREPARED;
  case BufferKind::kActivation: break;
  }
  return plan::Register::ACTIVATION;
}

/// Of what ir::readLocation() reads the range, without a copy; null where nobody knows it.
FileLineColRange rangeIn(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc)) loc = name.getChildLoc();
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    const auto range = llvm::find_if(fused.getLocations(), [](Location l) { return isa<FileLineColRange>(l); });
    if (range != fused.getLocations().end()) loc = *range;
  }
  return dyn_cast<FileLineColRange>(loc);
}

void location(Operation *op, plan::Location *out) {
  // Of a model, and of text made of one: "model.onnx: node 17 ..."
  if (const ir::OpPlace place = ir::placeOf(op->getLoc()); !place.node.empty())
    return out->set_file(place.file + ": " + place.node);
  const FileLineColRange range = rangeIn(op->getLoc());
  if (!range || range.getStartLine() == 0) return;
  out->set_file(baseName(range.getFilename()).str());
  out->set_line(range.getStartLine());
  out->set_column(range.getStartColumn());
}

void addWorkspace(const ExecutionSchedule &schedule, const ScheduledTask &scheduled, plan::Plan *plan, plan::Task *t) {
  if (scheduled.workspace < 0) return;
  auto *w = plan->add_tensor();
  w->set_register_(static_cast<uint32_t>(scheduled.workspace));
  w->set_data_type(graph::kChar);
  w->add_dim(static_cast<int64_t>(schedule.buffers[static_cast<size_t>(scheduled.workspace)].plan.bytes));
  w->set_name(t->name() + "/tmp_buffer");
  t->set_workspace(static_cast<uint32_t>(plan->tensor_size()));
}

struct GivenValue {
  const StoredTensor *tensor;
  std::shared_ptr<ValuePages> pages;
};
/// Loses those that a plan has got.
struct GivenValues {
  explicit GivenValues(const VariableValues &values) {
    const auto pages = pagesOf(values);
    for (const auto &[name, value] : values) left.emplace(name, GivenValue{&value, pages.at(value.owner.get())});
  }
  std::map<std::string, GivenValue> left;
  OutsideValues outside;
};

class Emitter {
public:
  Emitter(const ExecutionSchedule &schedule, plan::Plan *plan, GivenValues *values, const SizeFacts *sizes = nullptr)
      : schedule_(schedule), plan_(plan), values_(values), sizes_(sizes) {}

  void run(ModuleOp module) {
    for (const SizeRange &r : sizes_ ? sizes_->sizes : std::vector<SizeRange>()) {
      auto *size = plan_->add_size();
      size->set_name(r.name);
      size->set_min(r.min);
      size->set_max(r.max);
    }
    auto *arena = plan_->add_arena();
    arena->set_device(schedule_.device);
    arena->set_bytes(schedule_.memory.arenaBytes);
    if (schedule_.cpuMemory) {
      auto *beside = plan_->add_arena();
      beside->set_device(DeviceTag(DeviceType::kCPU));
      beside->set_bytes(schedule_.cpuMemory->arenaBytes);
    }
    for (const ScheduledBuffer &b : schedule_.buffers) {
      auto *r = plan_->add_register_();
      r->set_name(b.name);
      r->set_arena(static_cast<uint32_t>(b.arena));
      r->set_offset(b.plan.offset);
      r->set_bytes(b.stride ? b.stride : alignBuffer(b.plan.bytes));
      if (b.stride) r->set_stride(b.stride);
      r->set_credits(b.credits);
      r->set_kind(registerKind(b.kind));
    }
    for (uint32_t s = 0; s < schedule_.streams; ++s) plan_->add_stream()->set_device(deviceOf(s));
    size_t next = 0;
    for (Operation &op : graphBlock(module)) {
      if (auto in = dyn_cast<ir::InputOp>(&op)) {
        port(plan_->mutable_interface()->add_input(), in.getName(), in.getOut(), &op);
      } else if (auto out = dyn_cast<ir::OutputOp>(&op)) {
        port(plan_->mutable_interface()->add_output(), out.getName(), out.getIn(), &op);
      } else if (auto var = dyn_cast<ir::VariableOp>(&op)) {
        variable(var);
      } else if (auto c = dyn_cast<ir::ConstantOp>(&op)) {
        auto *constant = plan_->mutable_interface()->add_constant();
        constant->set_tensor(tensor(c.getOut()));
        constant->set_data(ir::denseToBytes(cast<DenseElementsAttr>(c.getValue())));
        if (const auto list = shardings(&op); !list.empty()) sharding(list[0], constant->mutable_sharding());
      } else if (ir::isTask(&op)) {
        const ScheduledTask &scheduled = schedule_.tasks[next++];
        plan_->mutable_stream(static_cast<int>(scheduled.stream))->add_task(static_cast<uint32_t>(plan_->task_size()));
        if (auto user = dyn_cast<ir::UserOp>(&op))
          task(scheduled, user);
        else if (auto fused = dyn_cast<ir::FusedOp>(&op))
          region(scheduled, fused);
        else
          boxing(scheduled, cast<ir::BoxingOp>(&op));
      }
    }
  }

  void addGraphs(const ControlPlans *graphs) { graphs_ = graphs; }

  /// Machine code, if it is to have any, goes to the whole plan. It is the CPU's.
  void addNative(NativeEmitter *native, plan::Plan *whole) {
    native_ = isOnDevice(schedule_) ? nullptr : native;
    whole_ = whole;
  }

private:
  std::string deviceOf(uint32_t stream) const {
    if (stream == 0) return schedule_.device;
    if (!schedule_.cpuMemory || stream >= static_cast<uint32_t>(DeviceStream::kFirstChannel)) return "comm";
    return stream == static_cast<uint32_t>(DeviceStream::kCpu) ? DeviceTag(DeviceType::kCPU) : schedule_.device;
  }

  /// What a region reads, and what it hands out, is a tensor of the graph.
  static Value outside(Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      auto fused = dyn_cast<ir::FusedOp>(argument.getOwner()->getParentOp());
      return fused ? fused.getArgs()[argument.getArgNumber()] : v;
    }
    auto fused = dyn_cast<ir::FusedOp>(v.getDefiningOp()->getParentOp());
    if (!fused) return v;
    for (OpOperand &use : v.getUses())
      if (isa<ir::YieldOp>(use.getOwner())) return fused.getOuts()[use.getOperandNumber()];
    return v;
  }

  uint32_t tensor(Value v) {
    v = outside(v);
    auto [it, fresh] = tensors_.try_emplace(v, static_cast<uint32_t>(plan_->tensor_size()));
    if (!fresh) return it->second;
    const user_op::TensorDesc desc = ir::descOf(v.getType());
    auto *t = plan_->add_tensor();
    if (auto buffer = schedule_.bufferOf.find(v); buffer != schedule_.bufferOf.end()) t->set_register_(buffer->second);
    t->set_data_type(static_cast<graph::DataTypeProto>(desc.data_type()));
    for (int64_t d : desc.shape()) t->add_dim(d);
    t->set_name(ir::tensorName(v));
    if (sizes_)
      if (auto shape = sizes_->shapes.find(v); shape != sizes_->shapes.end()) open(shape->second, t);
    return it->second;
  }

  /// The dimensions that depend on the sizes; what the tensor has by now is their bound.
  static void open(const std::vector<SizeExpression> &shape, plan::Tensor *t) {
    for (size_t i = 0; i < shape.size(); ++i) {
      const int axis = static_cast<int>(i);
      t->add_bound(t->dim(axis));
      auto *extent = t->add_extent();
      if (shape[i].isFixed()) continue;
      t->set_dim(axis, -1);
      for (const SizeExpression::Factor &from : shape[i].factors) {
        auto *factor = extent->add_factor();
        if (from.constant) factor->set_constant(from.constant);
        for (int64_t c : from.coefficient) factor->add_coefficient(c);
        if (from.divisor != 1) factor->set_divisor(from.divisor);
      }
    }
  }

  void port(plan::Interface::Port *p, StringRef name, Value v, Operation *op) {
    p->set_name(name.str());
    p->set_tensor(tensor(v));
    if (const auto list = shardings(op); !list.empty()) sharding(list[0], p->mutable_sharding());
  }

  static SmallVector<ir::ShardingAttr> shardings(Operation *op) {
    auto list = op->getAttrOfType<ArrayAttr>(ir::kShardingAttr);
    return list ? llvm::to_vector(list.getAsRange<ir::ShardingAttr>()) : SmallVector<ir::ShardingAttr>();
  }
  static void sharding(ir::ShardingAttr from, plan::Sharding *to) {
    to->set_placement(from.getPlacement());
    for (int64_t code : from.getState().getCodes()) to->add_state(static_cast<int32_t>(code));
    for (int64_t d : from.getDims()) to->add_dim(d);
  }

  void variable(ir::VariableOp op) {
    auto *v = plan_->mutable_interface()->add_variable();
    v->set_name(op.getName().str());
    v->set_tensor(tensor(op.getOut()));
    v->set_trainable(op.getTrainable());
    if (auto initializer = op.getInitializerAttr()) v->mutable_initializer()->CopyFrom(messageOf(initializer));
    v->set_has_seed(op.getSeed().has_value());
    v->set_random_seed(static_cast<int64_t>(op.getSeed().value_or(0)));
    location(op, v->mutable_location());
    const auto list = shardings(op);
    if (!list.empty()) sharding(list[0], v->mutable_sharding());
    const auto value = values_->left.find(v->name());
    if (value == values_->left.end()) return;
    user_op::TensorDesc whole = ir::descOf(op.getOut().getType());
    if (!list.empty()) whole.set_shape(Shape(DimVector(list[0].getDims().begin(), list[0].getDims().end())));
    if (value->second.tensor->desc == whole) give(value->second, v);
    values_->left.erase(value);
  }

  void give(const GivenValue &value, plan::Interface::Variable *v) {
    const std::string_view bytes = value.tensor->bytes;
    if (bytes.size() < kLeastOutside) return v->set_data(std::string(bytes));
    v->set_data("");
    values_->outside.emplace(v, OutsideValue{bytes, value.pages});
  }

  /// Many variables have few initializers.
  const graph::InitializerConf &messageOf(ir::InitializerAttr initializer) {
    const auto [known, isNew] = initializers_.try_emplace(initializer);
    if (isNew) toProto(initializer, &known->second);
    return known->second;
  }

  void argument(StringRef name, ValueRange values, plan::Argument *out) {
    out->set_name(name.str());
    for (Value v : values) out->add_tensor(tensor(v));
  }

  /// The inputs, less those that the kernel must not see. Marks in `isHidden` the slots that are left out.
  void inputs(ir::UserOp op, const std::vector<bool> &hidden, std::vector<bool> *isHidden, plan::Task *out) {
    isHidden->assign(hidden.size(), false);
    size_t next = 0;
    op.forEachInputArg([&](StringRef name, ValueRange values) {
      const size_t slot = next;
      next += values.size();
      if (values.size() == 1 && slot < hidden.size() && hidden[slot])
        (*isHidden)[slot] = true;
      else
        argument(name, values, out->add_input());
    });
  }

  static void setPace(Operation *op, plan::Task *task) {
    if (auto lag = op->getAttrOfType<IntegerAttr>(ir::kLagAttr)) task->set_lag(static_cast<uint32_t>(lag.getInt()));
    if (auto stride = op->getAttrOfType<IntegerAttr>(ir::kStrideAttr))
      task->set_stride(static_cast<uint32_t>(stride.getInt()));
  }

  /// A task of many tensors, of an op that is in no registry.
  template <class Op> plan::Task *taskOf(const ScheduledTask &scheduled, Op op, const char *type) {
    auto *t = plan_->add_task();
    t->set_name(ir::opName(op));
    t->set_op_type(type);
    if (!op.getArgs().empty()) argument("in", op.getArgs(), t->add_input());
    if (!op.getOuts().empty()) argument("out", op.getOuts(), t->add_output());
    t->set_stream(scheduled.stream);
    setPace(op, t);
    t->set_kernel(kernelName(schedule_, scheduled));
    location(op, t->mutable_location());
    return t;
  }

  void boxing(const ScheduledTask &scheduled, ir::BoxingOp op) {
    plan::Task *t = taskOf(scheduled, op, "opc.boxing");
    auto *b = t->mutable_boxing();
    b->set_kind(op.getKind().str());
    b->set_mesh_dim(static_cast<int32_t>(op.getMeshDim()));
    b->set_reduction(op.getReduction().str());
    const auto list = shardings(op);
    for (size_t i = 0; i < list.size() / 2; ++i) sharding(list[i], b->add_from());
    for (size_t i = list.size() / 2; i < list.size(); ++i) sharding(list[i], b->add_to());
  }

  /// What a task is, wherever it runs.
  void computation(ir::UserOp op, const std::vector<bool> &hidden, std::vector<bool> *isHidden, plan::Task *t) {
    t->set_name(ir::opName(op));
    t->set_op_type(op.getOpType().str());
    inputs(op, hidden, isHidden, t);
    op.forEachOutputArg([&](StringRef name, ValueRange values) { argument(name, values, t->add_output()); });
    for (NamedAttribute a : op.getOpAttrs()) {
      auto *attr = t->add_attr();
      attr->set_name(a.getName().str());
      wire::toProto(ir::fromMlir(a.getValue()), attr->mutable_value());
    }
    location(op, t->mutable_location());
  }

  void region(const ScheduledTask &scheduled, ir::FusedOp op) {
    plan::Task *t = taskOf(scheduled, op, kRegionType);
    if (scheduled.region) t->set_region(true);
    if (scheduled.region && native_) native_->add(scheduled.region, whole_, t);
    std::vector<bool> isHidden;
    const auto body = op.getBody().front().getOps<ir::UserOp>();
    auto add = [&](ir::UserOp user, std::string kernel) {
      plan::Task *part = t->add_body();
      computation(user, {}, &isHidden, part);
      for (ir::ShardingAttr s : shardings(user)) sharding(s, part->add_sharding());
      part->set_kernel(std::move(kernel));
    };
    if (scheduled.batch)
      for (auto [user, s] : llvm::zip(body, scheduled.batch->steps)) add(user, kernelName(s.op.def(), *s.kernel));
    else
      for (auto [user, step] : llvm::zip(body, scheduled.region->steps)) add(user, kernelName(schedule_, step));
    addWorkspace(schedule_, scheduled, plan_, t);
  }

  /// The plans of an op's graphs stand for their texts.
  void graphsOf(ir::UserOp op, const std::vector<std::string> &plans, plan::Task *t) {
    for (const std::string &name : controlGraphs(controlKind(op.getOpType())))
      for (plan::Attribute &attr : *t->mutable_attr())
        if (attr.name() == name) attr.mutable_value()->set_at_string("");
    for (const std::string &plan : plans) {
      t->add_graph()->ParsePartialFromString(planPayload(plan));
      if (native_) native_->adopt(t->mutable_graph(t->graph_size() - 1), whole_);
    }
  }

  void task(const ScheduledTask &scheduled, ir::UserOp op) {
    auto *t = plan_->add_task();
    std::vector<bool> isHidden;
    computation(op, scheduled.hidden, &isHidden, t);
    t->set_stream(scheduled.stream);
    setPace(op, t);
    for (auto [i, s] : llvm::enumerate(shardings(op)))
      if (i >= isHidden.size() || !isHidden[i]) sharding(s, t->add_sharding());
    t->set_kernel(kernelName(schedule_, scheduled));
    if (graphs_)
      if (const auto own = graphs_->find(op); own != graphs_->end()) graphsOf(op, own->second.files, t);
    if (native_) alone(scheduled, op, t);
    addWorkspace(schedule_, scheduled, plan_, t);
  }

  /// Machine code of an op that is in no region. Of sizes that the run decides these are the largest; at one that is
  /// too small for it the run leaves it alone.
  void alone(const ScheduledTask &scheduled, ir::UserOp op, plan::Task *t) {
    const user_op::OpDef *def = op.def();
    if (!def || !scheduled.kernel || scheduled.stream != 0 || !shardings(op).empty() || !scheduled.hidden.empty())
      return;
    const auto instance = ir::toInstance(op, *def);
    if (!instance) return;
    if (const auto region = regionOfOne(*instance, *scheduled.kernel)) native_->add(region, whole_, t);
  }

  const ExecutionSchedule &schedule_;
  plan::Plan *plan_;
  GivenValues *values_;
  const SizeFacts *sizes_;
  NativeEmitter *native_ = nullptr;
  plan::Plan *whole_ = nullptr;
  const ControlPlans *graphs_ = nullptr;
  llvm::DenseMap<Value, uint32_t> tensors_;
  llvm::DenseMap<Attribute, graph::InitializerConf> initializers_;
};

} // namespace

/// On a GPU a step's kernel is generated from what its kernel on the CPU computes.
static std::string kernelName(const std::string &device, const std::string &op, const std::string &dtype) {
  return device + "/" + op + (dtype.empty() ? "" : "/" + dtype);
}
std::string kernelName(const user_op::OpDef &op, const user_op::KernelDef &kernel) {
  const KernelTarget target = kernelTarget(kernel);
  return kernelName(target.device.empty() ? "cpu" : target.device, op.name, target.dtype);
}
std::string kernelName(const ExecutionSchedule &schedule, const RegionStep &step) {
  return isOnDevice(schedule) ? kernelName("gpu", step.op.def().name, kernelTarget(*step.kernel).dtype)
                              : kernelName(step.op.def(), *step.kernel);
}
bool isOnDevice(const ExecutionSchedule &schedule) { return schedule.device != "cpu"; }

std::string kernelName(const ExecutionSchedule &schedule, const ScheduledTask &task) {
  if (auto boxing = dyn_cast<ir::BoxingOp>(task.op)) return "comm/" + boxing.getKind().str();
  if (task.region || task.batch) return (isOnDevice(schedule) ? "gpu/" : "cpu/") + std::string(kRegionType);
  return kernelName(*cast<ir::UserOp>(task.op).def(), *task.kernel);
}

static void addNumbers(const ModelNumbers &numbers, plan::Plan *plan) {
  for (const graph::ModelNumber &n : numbers) *plan->mutable_interface()->add_model_number() = n;
}

FilePieces emitPlan(ModuleOp module, const ExecutionSchedule &schedule, const std::string &graphName,
                    const VariableValues &values, const SizeFacts *sizes, NativeEmitter *native,
                    const ControlPlans &graphs) {
  google::protobuf::Arena arena; // messages without number, which go at once
  plan::Plan &plan = *google::protobuf::Arena::CreateMessage<plan::Plan>(&arena);
  plan.set_producer("opc " OPC_VERSION_STRING);
  plan.set_graph(baseName(graphName).str());
  GivenValues given(values);
  Emitter emitter(schedule, &plan, &given, sizes);
  emitter.addNative(native, &plan);
  emitter.addGraphs(&graphs);
  emitter.run(module);
  addNumbers(modelNumbersOf(module), &plan);
  return encodePlan(plan, given.outside);
}

FilePieces emitPlan(ArrayRef<RankPart> parts, ArrayRef<uint32_t> partOfRank, ArrayRef<Placement> placements,
                    uint32_t microBatches, const std::string &graphName, const VariableValues &values,
                    NativeEmitter *native, const ModelNumbers &numbers) {
  google::protobuf::Arena arena;
  plan::Plan &plan = *google::protobuf::Arena::CreateMessage<plan::Plan>(&arena);
  plan.set_producer("opc " OPC_VERSION_STRING);
  plan.set_graph(baseName(graphName).str());
  for (const Placement &p : placements) {
    auto *message = plan.add_placement();
    for (int64_t d : p.dims) message->add_dim(d);
    for (int64_t r : p.ranks) message->add_rank(static_cast<uint32_t>(r));
  }
  GivenValues given(values);
  for (const RankPart &p : parts) {
    plan::Plan *part = plan.add_part();
    part->set_graph(plan.graph());
    Emitter emitter(*p.schedule, part, &given);
    emitter.addNative(native, &plan);
    emitter.run(p.module);
  }
  for (uint32_t p : partOfRank) plan.add_part_of_rank(p);
  if (microBatches > 1) plan.set_micro_batches(microBatches);
  addNumbers(numbers, &plan);
  return encodePlan(plan, given.outside);
}

} // namespace opc
