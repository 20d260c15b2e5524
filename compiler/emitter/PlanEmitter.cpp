// Execution schedule -> plan file.
#include "PlanEmitter.h"
#include "AttrBridge.h"
#include "AttrWire.h"
#include "Locations.h"
#include "PlanFile.h"

#include "opc/Version.h"
#include "plan.pb.h"

#include <google/protobuf/text_format.h>

using namespace mlir;

namespace opc {
namespace {

std::string baseName(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

plan::Register::Kind registerKind(BufferKind kind) {
  switch (kind) {
  case BufferKind::kInput: return plan::Register::INPUT;
  case BufferKind::kVariable: return plan::Register::VARIABLE;
  case BufferKind::kConstant: return plan::Register::CONSTANT;
  case BufferKind::kWorkspace: return plan::Register::WORKSPACE;
  case BufferKind::kActivation: break;
  }
  return plan::Register::ACTIVATION;
}

class Emitter {
public:
  Emitter(const ExecutionSchedule &schedule, plan::Plan *plan) : schedule_(schedule), plan_(plan) {}

  void run(ModuleOp module) {
    auto *arena = plan_->add_arena();
    arena->set_device("cpu");
    arena->set_bytes(schedule_.memory.arenaBytes);
    for (const ScheduledBuffer &b : schedule_.buffers) {
      auto *r = plan_->add_register_();
      r->set_name(b.name);
      r->set_arena(0);
      r->set_offset(b.plan.offset);
      r->set_bytes(alignBuffer(b.plan.bytes));
      r->set_credits(1);
      r->set_kind(registerKind(b.kind));
    }
    auto *stream = plan_->add_stream();
    stream->set_device("cpu");
    size_t next = 0;
    for (Operation &op : graphBlock(module)) {
      if (auto in = dyn_cast<ir::InputOp>(&op)) {
        port(plan_->mutable_interface()->add_input(), in.getName(), in.getOut());
      } else if (auto out = dyn_cast<ir::OutputOp>(&op)) {
        port(plan_->mutable_interface()->add_output(), out.getName(), out.getIn());
      } else if (auto var = dyn_cast<ir::VariableOp>(&op)) {
        variable(var);
      } else if (auto c = dyn_cast<ir::ConstantOp>(&op)) {
        auto *constant = plan_->mutable_interface()->add_constant();
        constant->set_tensor(tensor(c.getOut()));
        constant->set_data(ir::denseToBytes(cast<DenseElementsAttr>(c.getValue())));
      } else if (isa<ir::UserOp>(&op)) {
        stream->add_task(static_cast<uint32_t>(plan_->task_size()));
        task(schedule_.tasks[next++]);
      }
    }
  }

private:
  uint32_t tensor(Value v) {
    auto [it, fresh] = tensors_.try_emplace(v, static_cast<uint32_t>(plan_->tensor_size()));
    if (!fresh) return it->second;
    user_op::TensorDesc desc;
    ir::describe(v.getType(), &desc);
    auto *t = plan_->add_tensor();
    t->set_register_(schedule_.bufferOf.lookup(v));
    t->set_data_type(static_cast<graph::DataTypeProto>(desc.data_type()));
    for (int64_t d : desc.shape()) t->add_dim(d);
    t->set_name(ir::tensorName(v));
    return it->second;
  }

  void port(plan::Interface::Port *p, StringRef name, Value v) {
    p->set_name(name.str());
    p->set_tensor(tensor(v));
  }

  void location(Operation *op, plan::Location *out) {
    const ir::OpLocation l = ir::readLocation(op->getLoc());
    if (l.line == 0) return;
    out->set_file(baseName(l.file));
    out->set_line(l.line);
    out->set_column(l.column);
  }

  void variable(ir::VariableOp op) {
    auto *v = plan_->mutable_interface()->add_variable();
    v->set_name(op.getName().str());
    v->set_tensor(tensor(op.getOut()));
    graph::VariableOpConf conf;
    google::protobuf::TextFormat::ParseFromString(op.getConf().str(), &conf); // written by the importer
    v->set_trainable(conf.trainable());
    if (conf.has_initializer()) *v->mutable_initializer() = conf.initializer();
    v->set_has_seed(conf.has_random_seed());
    v->set_random_seed(conf.random_seed());
    location(op, v->mutable_location());
  }

  void arguments(ArrayAttr names, ArrayRef<int32_t> sizes, ValueRange values, const std::vector<bool> &hidden,
                 google::protobuf::RepeatedPtrField<plan::Argument> *out) {
    unsigned next = 0;
    for (auto [name, size] : llvm::zip(names, sizes)) {
      if (next < hidden.size() && size == 1 && hidden[next]) {
        ++next;
        continue;
      }
      auto *a = out->Add();
      a->set_name(cast<StringAttr>(name).str());
      for (int32_t i = 0; i < size; ++i) a->add_tensor(tensor(values[next++]));
    }
  }

  void task(const ScheduledTask &scheduled) {
    ir::UserOp op = scheduled.op;
    auto *t = plan_->add_task();
    t->set_name(ir::opName(op));
    t->set_op_type(op.getOpType().str());
    arguments(op.getInputNames(), op.getInputSizes(), op.getArgs(), scheduled.hidden, t->mutable_input());
    arguments(op.getOutputNames(), op.getOutputSizes(), op.getOuts(), {}, t->mutable_output());
    for (NamedAttribute a : op.getOpAttrs()) {
      auto *attr = t->add_attr();
      attr->set_name(a.getName().str());
      wire::toProto(ir::fromMlir(a.getValue()), attr->mutable_value());
    }
    t->set_stream(0);
    const KernelTarget target = kernelTarget(*scheduled.kernel);
    t->set_kernel((target.device.empty() ? "cpu" : target.device) + "/" + op.getOpType().str() +
                  (target.dtype.empty() ? "" : "/" + target.dtype));
    if (scheduled.workspace >= 0) {
      auto *w = plan_->add_tensor();
      w->set_register_(static_cast<uint32_t>(scheduled.workspace));
      w->set_data_type(graph::kChar);
      w->add_dim(static_cast<int64_t>(schedule_.buffers[static_cast<size_t>(scheduled.workspace)].plan.bytes));
      w->set_name(t->name() + "/tmp_buffer");
      t->set_workspace(static_cast<uint32_t>(plan_->tensor_size()));
    }
    location(op, t->mutable_location());
  }

  const ExecutionSchedule &schedule_;
  plan::Plan *plan_;
  llvm::DenseMap<Value, uint32_t> tensors_;
};

} // namespace

std::string emitPlan(ModuleOp module, const ExecutionSchedule &schedule, const std::string &graphName) {
  plan::Plan plan;
  plan.set_producer("opc " OPC_VERSION_STRING);
  plan.set_graph(baseName(graphName));
  Emitter(schedule, &plan).run(module);
  return encodePlan(plan);
}

} // namespace opc
