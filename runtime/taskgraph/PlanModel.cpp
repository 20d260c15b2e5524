// From a plan message to a PlanModel: memory, tensors, the interface, streams. PlanTasks.cpp reads the tasks.
// SPDX-License-Identifier: Apache-2.0
#include "PlanModel.h"

#include "Device.h"
#include "PlanFile.h"
#include "PlanReading.h"

#include <unordered_set>

namespace opc::runtime {
namespace {

class Builder {
public:
  Builder(const plan::Plan &plan, const JobPlan &job, int64_t rank) : plan_(plan), job_(job) {
    m_.rank = rank;
    m_.microBatches = job.microBatches;
  }

  Result<PlanModel> build(const Registry &registry, const std::shared_ptr<NativeImages> &native) {
    m_.graph = plan_.graph();
    OPC_RETURN_IF_ERROR(arenas());
    OPC_RETURN_IF_ERROR(registers());
    OPC_RETURN_IF_ERROR(tensors());
    OPC_RETURN_IF_ERROR(interface());
    OPC_RETURN_IF_ERROR(streams());
    OPC_RETURN_IF_ERROR(readTasks(plan_, places_, registry, job_, native, &m_));
    return std::move(m_);
  }

private:
  Status arenas() {
    for (const plan::Arena &a : plan_.arena()) {
      if (deviceTypeOf(a.device()) == DeviceType::kInvalidDevice)
        return Status(StatusCode::kUnsupported, "OPC0820",
                      "the plan is for device " + quoted(a.device()) + ", which is not available")
            .withHelp("devices are " + deviceNames());
      OPC_ASSIGN_OR_RETURN(std::string device, deviceOfRank(a.device(), m_.rank));
      OPC_RETURN_IF_ERROR(checkBeside(device, "an arena"));
      m_.arenas.push_back({std::move(device), a.bytes()});
    }
    return Status::ok();
  }

  /// A plan is for the CPU and one other device.
  Status checkBeside(const std::string &device, const std::string &what) {
    if (deviceTypeOf(device) == DeviceType::kCPU) return Status::ok();
    if (other_.empty()) other_ = device;
    if (other_ == device) return Status::ok();
    return Status(StatusCode::kUnsupported, "OPC0820",
                  concat(what, " is for device ", quoted(device), ", and the plan is for ", quoted(other_)))
        .withHelp("a plan is for one device beside the CPU");
  }

  Status registers() {
    for (int i = 0; i < plan_.register__size(); ++i) {
      const plan::Register &p = plan_.register_(i);
      const std::string name = concat("register ", i, " (", p.name(), ")");
      ModelRegister r{.name = p.name(),
                      .arena = p.arena(),
                      .offset = p.offset(),
                      .bytes = p.bytes(),
                      .stride = p.stride(),
                      .credits = p.has_credits() ? p.credits() : 1,
                      .kind = p.kind()};
      if (r.arena >= m_.arenas.size())
        return bad("OPC0811", name, " lies in arena ", r.arena, " of ", m_.arenas.size());
      if (r.credits == 0 || r.credits > kMostSlots)
        return bad("OPC0813", name, " has ", r.credits, " credits; 1 to ", kMostSlots, " are possible");
      const bool isBatched = r.kind == plan::Register::INPUT && r.credits == job_.microBatches;
      if (r.isPersistent() && r.credits != 1 && !isBatched)
        return bad(
            "OPC0813",
            name + " holds what lasts, an input, a variable, a constant or a prepared tensor, and has several slots");
      if (r.isPrepared() && job_.ranks > 1)
        return bad("OPC0816", name + " is prepared, in a part for one of several ranks");
      if (r.offset % 64 != 0 || r.stride % 64 != 0) return bad("OPC0813", name + " is not aligned to 64 bytes");
      uint64_t end = 0;
      const bool overflow = __builtin_mul_overflow(uint64_t{r.credits - 1}, r.stride, &end) ||
                            __builtin_add_overflow(end, r.offset, &end) || __builtin_add_overflow(end, r.bytes, &end);
      if (overflow || end > m_.arenas[r.arena].second)
        return bad("OPC0813", name, " ends outside its arena of ", m_.arenas[r.arena].second, " bytes");
      if (r.credits > 1 && r.stride < r.bytes) return bad("OPC0813", name + " has slots that overlap");
      m_.registers.push_back(std::move(r));
    }
    return Status::ok();
  }

  Status tensors() {
    m_.tensors.reserve(static_cast<size_t>(plan_.tensor_size()));
    for (int i = 0; i < plan_.tensor_size(); ++i) {
      const plan::Tensor &p = plan_.tensor(i);
      const std::string name = concat("tensor ", i, " (", p.name(), ")");
      const bool isInner = !p.has_register_(); // readTasks() sees to it that a region alone uses it
      if (!isInner && p.register_() >= m_.registers.size())
        return bad("OPC0811", name, " lies in register ", p.register_(), " of ", m_.registers.size());
      if (p.dim_size() > kMaxRank) return bad("OPC0812", name, " has rank ", p.dim_size(), "; the limit is ", kMaxRank);
      for (int64_t d : p.dim())
        if (d < 0) return bad("OPC0812", name, " has the dimension ", d);
      ModelTensor t;
      t.name = p.name();
      t.reg = isInner ? kNone : p.register_();
      const auto type = static_cast<DataType>(p.data_type());
      // Workspaces are bytes.
      const bool isWorkspace = !isInner && m_.registers[t.reg].kind == plan::Register::WORKSPACE;
      if (!isTensorDataType(type) && !(type == kChar && isWorkspace))
        return bad("OPC0812", name + " has the element type " + dataTypeName(type));
      t.desc = user_op::TensorDesc(Shape(DimVector(p.dim().begin(), p.dim().end())), type);
      const Result<int64_t> bytes = tensorBytes(t.desc);
      if (!bytes) return bad("OPC0812", name + ": " + bytes.status().message());
      t.bytes = static_cast<uint64_t>(*bytes);
      if (!isInner && t.bytes > m_.registers[t.reg].bytes)
        return bad("OPC0814", name, " is ", t.desc.toString(), ", ", t.bytes, " bytes; its register has ",
                   m_.registers[t.reg].bytes);
      m_.tensors.push_back(std::move(t));
    }
    return Status::ok();
  }

  Status source(uint32_t tensor, plan::Register::Kind kind, const std::string &what) {
    if (tensor >= m_.tensors.size()) return bad("OPC0811", what, " is tensor ", tensor, " of ", m_.tensors.size());
    ModelTensor &t = m_.tensors[tensor];
    if (t.reg == kNone) return bad("OPC0811", what + " lies in no register");
    if (m_.registers[t.reg].kind != kind)
      return bad("OPC0811", what + " lies in a register of another kind (" +
                                plan::Register::Kind_Name(m_.registers[t.reg].kind) + ")");
    if (usedSources_.empty()) usedSources_.resize(m_.registers.size());
    if (usedSources_[t.reg])
      return bad("OPC0817", what + " shares its register with another input, variable or constant");
    usedSources_[t.reg] = true;
    t.isSource = true;
    return Status::ok();
  }
  /// `kind`: of the registers of sources; nothing for outputs, which may lie anywhere.
  template <class P>
  Status port(const P &p, const char *what, std::optional<plan::Register::Kind> kind,
              std::unordered_set<std::string> *names, std::optional<TensorSharding> *sharding) {
    if (!names->insert(p.name()).second) return bad("OPC0811", "two ", what, "s named ", quoted(p.name()));
    const std::string name = concat(what, " ", quoted(p.name()));
    if (kind) OPC_RETURN_IF_ERROR(source(p.tensor(), *kind, name));
    if (p.tensor() >= m_.tensors.size())
      return bad("OPC0811", name, " is tensor ", p.tensor(), " of ", m_.tensors.size());
    if (m_.tensors[p.tensor()].reg == kNone) return bad("OPC0811", name, " lies in no register");
    return cut(p, name, sharding);
  }

  Status interface() {
    const plan::Interface &in = plan_.interface();
    std::unordered_set<std::string> inputs, outputs, variables;
    for (const auto &p : in.input()) {
      m_.inputs.push_back({p.name(), p.tensor(), false, {}});
      OPC_RETURN_IF_ERROR(port(p, "input", plan::Register::INPUT, &inputs, &m_.inputs.back().sharding));
    }
    for (const auto &p : in.output()) {
      m_.outputs.push_back({p.name(), p.tensor(), false, {}});
      OPC_RETURN_IF_ERROR(port(p, "output", std::nullopt, &outputs, &m_.outputs.back().sharding));
    }
    for (const auto &p : in.variable()) {
      m_.variables.push_back({p.name(), p.tensor(), p.trainable(), {}});
      OPC_RETURN_IF_ERROR(port(p, "variable", plan::Register::VARIABLE, &variables, &m_.variables.back().sharding));
    }
    for (int i = 0; i < in.constant_size(); ++i) {
      const auto &p = in.constant(i);
      const std::string what = concat("constant ", i);
      OPC_RETURN_IF_ERROR(source(p.tensor(), plan::Register::CONSTANT, what));
      ModelConstant constant{p.tensor(), {}};
      OPC_RETURN_IF_ERROR(cut(p, what, &constant.sharding));
      user_op::TensorDesc whole = m_.tensors[p.tensor()].desc;
      if (constant.sharding) whole = user_op::TensorDesc(constant.sharding->logical, whole.data_type());
      Result<int64_t> bytes = tensorBytes(whole);
      if (!bytes || (!job_.constantsTaken && p.data().size() != static_cast<uint64_t>(*bytes)))
        return bad("OPC0812", what, " has ", p.data().size(), " bytes of data, its tensor is ", whole.toString());
      m_.constants.push_back(std::move(constant));
    }
    return Status::ok();
  }

  /// Reads a sharding, if there is one, and checks that the tensor is this rank's piece.
  template <class P> Status cut(const P &p, const std::string &what, std::optional<TensorSharding> *out) {
    if (!p.has_sharding()) {
      if (job_.ranks > 1) return bad("OPC0715", what + " does not say how it is cut");
      return Status::ok();
    }
    OPC_ASSIGN_OR_RETURN(*out, readPiece(p.sharding(), p.tensor(), what, m_, job_));
    return Status::ok();
  }
  Status streams() {
    places_.assign(static_cast<size_t>(plan_.task_size()), {kNone, 0});
    for (uint32_t s = 0; s < static_cast<uint32_t>(plan_.stream_size()); ++s) {
      const plan::Stream &p = plan_.stream(static_cast<int>(s));
      if (p.device() != kCommDevice && deviceTypeOf(p.device()) == DeviceType::kInvalidDevice)
        return Status(StatusCode::kUnsupported, "OPC0820",
                      concat("stream ", s, " is for device ", quoted(p.device()), ", which is not available"))
            .withHelp("devices are " + deviceNames());
      std::string device = p.device();
      if (device != kCommDevice) {
        OPC_ASSIGN_OR_RETURN(device, deviceOfRank(device, m_.rank));
        OPC_RETURN_IF_ERROR(checkBeside(device, concat("stream ", s)));
      }
      PlanModel::Stream stream;
      stream.device = std::move(device);
      for (uint32_t t : p.task()) {
        if (t >= places_.size()) return bad("OPC0811", "stream ", s, " lists task ", t, " of ", places_.size());
        if (places_[t].first != kNone) return bad("OPC0811", "task ", t, " is listed twice");
        places_[t] = {s, static_cast<uint32_t>(stream.tasks.size())};
        stream.tasks.push_back(t);
      }
      m_.streams.push_back(std::move(stream));
    }
    // Threads are a resource that a file must not be able to exhaust.
    if (m_.streams.size() > 256) return bad("OPC0811", m_.streams.size(), " streams; the limit is 256");
    for (size_t t = 0; t < places_.size(); ++t)
      if (places_[t].first == kNone) return bad("OPC0811", "task ", t, " is in no stream");
    return Status::ok();
  }

  const plan::Plan &plan_;
  const JobPlan &job_;
  PlanModel m_;
  TaskPlaces places_;
  std::vector<bool> usedSources_;
  std::string other_; // the device that is not the CPU
};

} // namespace

std::string PlanModel::describe(uint32_t task) const {
  const ModelTask &t = tasks[task];
  return concat("task ", task, ", op ", t.name, " (", t.type, ")", t.where.at());
}

Result<PlanModel> buildPlanModel(const plan::Plan &plan, const Registry &registry, const JobPlan &job, int64_t rank,
                                 const std::shared_ptr<NativeImages> &native) {
  return Builder(plan, job, rank).build(registry, native);
}

} // namespace opc::runtime
