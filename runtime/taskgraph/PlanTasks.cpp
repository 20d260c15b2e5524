// From the tasks of a plan to those of a PlanModel: operators, arguments, shapes, kernels, boxing steps.
// SPDX-License-Identifier: Apache-2.0
#include "AttrWire.h"
#include "ColumnParts.h"
#include "ControlOp.h"
#include "ControlTask.h"
#include "Device.h"
#include "DeviceCopy.h"
#include "DeviceLoop.h"
#include "DeviceRegion.h"
#include "MutableInputs.h"
#include "NativeImages.h"
#include "PlanFile.h"
#include "PlanGraphs.h"
#include "PlanReading.h"
#include "PluginOverrides.h"
#include "UnknownNamespace.h"

#include <algorithm>
#include <unordered_map>

namespace opc::runtime {
namespace {

constexpr char kBoxingType[] = "opc.boxing";
// A little above what an op may have (completeOpConf()), low enough that checks of each against each end soon.
constexpr uint64_t kMaxArguments = 1 << 15;

/// Ops of tasks, against their definitions.
class OpReader {
protected:
  OpReader(const Registry &registry, PlanModel *model) : registry_(registry), m_(*model) {}

  /// The op of a task and the tensors of its arguments.
  Status op(const plan::Task &p, ModelTask *t) {
    const user_op::OpDef *def = p.op_type() == kRegionType ? &regionOp() : registry_.findOp(p.op_type());
    if (!def) return unknownOp(p.op_type());

    user_op::OpConf conf;
    conf.name = p.name();
    conf.type = p.op_type();
    for (const plan::Attribute &a : p.attr())
      if (!conf.attrs.emplace(a.name(), wire::fromProto(a.value())).second)
        return bad("OPC0811", "attribute " + quoted(a.name()) + " is given twice");
    OPC_RETURN_IF_ERROR(bind(p.input(), &conf.inputs));
    OPC_RETURN_IF_ERROR(bind(p.output(), &conf.outputs));
    OPC_RETURN_IF_ERROR(completeOpConf(*def, &conf));
    t->op.emplace(*def, std::move(conf));
    // Completion put the arguments into the definition's order: follow it by name.
    OPC_RETURN_IF_ERROR(flatten(p.input(), t->op->inputArgs(), true, *def, &t->inputs));
    OPC_RETURN_IF_ERROR(flatten(p.output(), t->op->outputArgs(), false, *def, &t->outputs));
    return Status::ok();
  }

  /// What a task reads and makes is in memory: tensors of no register are those inside of regions.
  Status inRegisters(const ModelTask &t) const {
    for (const auto *list : {&t.inputs, &t.outputs})
      for (uint32_t tensor : *list)
        if (m_.tensors[tensor].reg == kNone)
          return bad("OPC0811", "tensor ", quoted(m_.tensors[tensor].name), " lies in no register");
    return Status::ok();
  }

  static Status sameAsInferred(const ModelTask &t, size_t output, const user_op::TensorDesc &said) {
    if (t.op->outputDescs()[output] == said) return Status::ok();
    return Status(StatusCode::kInvalidGraph, "OPC0815",
                  "invalid plan: output " + t.op->outputArgs()[output].first + " is " + said.toString() +
                      ", the op gives " + t.op->outputDescs()[output].toString())
        .withHelp("the plan was made with another version of this op, perhaps of a plugin: compile the graph again");
  }

  Status makes(const std::vector<uint32_t> &outputs, uint32_t index) {
    for (uint32_t o : outputs) {
      ModelTensor &out = m_.tensors[o];
      if (out.isSource)
        return bad("OPC0816", "it makes tensor " + quoted(out.name) + ", which is an input, variable or constant");
      if (out.producer != kNone)
        return bad("OPC0816",
                   "it makes tensor " + quoted(out.name) + ", which " + m_.describe(out.producer) + " makes too");
      out.producer = index;
    }
    return Status::ok();
  }

  /// The memory for t->workspaceBytes.
  Status workspace(const plan::Task &p, ModelTask *t) {
    if (p.workspace() != 0) {
      t->workspace = p.workspace() - 1;
      if (t->workspace >= m_.tensors.size())
        return bad("OPC0811", "its workspace is tensor ", t->workspace, " of ", m_.tensors.size());
      const ModelTensor &w = m_.tensors[t->workspace];
      if (w.reg == kNone || m_.registers[w.reg].kind != plan::Register::WORKSPACE)
        return bad("OPC0811", "its workspace lies in a register that is none");
    }
    const uint64_t have = t->workspace == kNone ? 0 : m_.tensors[t->workspace].bytes;
    if (t->workspaceBytes <= have) return Status::ok();
    return Status(StatusCode::kInvalidGraph, "OPC0818",
                  concat("invalid plan: the kernel needs ", t->workspaceBytes, " bytes of workspace, the plan gives ",
                         have))
        .withHelp("the plan was made with other kernels: compile the graph again");
  }

private:
  Status unknownOp(const std::string &type) {
    std::string help = joined(registry_.nearest(type), "' or '");
    if (!help.empty()) help = "did you mean '" + help + "'? ";
    const std::string overriding = libraryOfOverriding(registry_, type);
    help += overriding.empty() ? loadedText(registry_.plugins()) : overriding;
    return Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type " + quoted(type))
        .withHelp(help + hintOfNamespace(type));
  }

  template <class Args> Status bind(const Args &args, std::vector<user_op::ArgBinding> *out) {
    for (const plan::Argument &a : args) {
      user_op::ArgBinding binding{a.name(), {}};
      for (uint32_t t : a.tensor()) {
        if (t >= m_.tensors.size())
          return bad("OPC0811", "argument ", quoted(a.name()), " is tensor ", t, " of ", m_.tensors.size());
        binding.tensors.push_back(m_.tensors[t].name);
      }
      out->push_back(std::move(binding));
    }
    return Status::ok();
  }

  template <class Args>
  Status flatten(const Args &given, const user_op::ArgList &args, bool isInput, const user_op::OpDef &def,
                 std::vector<uint32_t> *out) {
    for (const auto &[name, number] : args) {
      const plan::Argument *found = nullptr;
      for (const plan::Argument &a : given) {
        const user_op::ArgDef *arg = a.name() == name ? nullptr
                                     : isInput        ? def.findInput(a.name())
                                                      : def.findOutput(a.name());
        if (a.name() == name || (arg && arg->name == name)) found = &a;
      }
      if (!found || number >= found->tensor_size())
        return bad("OPC0811", std::string(isInput ? "input" : "output") + " '" + name + "' is missing");
      out->push_back(found->tensor(number));
    }
    return Status::ok();
  }

protected:
  const Registry &registry_;
  PlanModel &m_;
};

/// Tasks of type "opc.fused".
class RegionReader : protected OpReader {
protected:
  RegionReader(const Registry &registry, std::shared_ptr<NativeImages> native, PlanModel *model)
      : OpReader(registry, model), native_(std::move(native)) {}

  static void partsOf(const plan::Task &p, ModelTask *t) {
    for (const plan::Task &b : p.body()) t->parts.push_back({b.name(), b.op_type(), placeOf(b.location())});
  }

  /// A task of type "opc.fused": its body becomes a region.
  Status region(const plan::Task &p, uint32_t index) {
    ModelTask &t = m_.tasks[index];
    if (p.attr_size() || p.sharding_size())
      return bad("OPC0816", "a task of several ops has neither attributes nor shardings");
    OPC_RETURN_IF_ERROR(op(p, &t));
    OPC_RETURN_IF_ERROR(inRegisters(t));
    auto region = std::make_shared<Region>();
    std::unordered_map<uint32_t, uint32_t> values; // by tensor
    for (uint32_t tensor : t.inputs) {
      if (!values.emplace(tensor, static_cast<uint32_t>(values.size())).second)
        return bad("OPC0816", "it lists input ", quoted(m_.tensors[tensor].name), " twice");
      region->inputs.push_back(m_.tensors[tensor].desc);
    }
    if (t.outputs.empty()) return bad("OPC0816", "it makes nothing");
    partsOf(p, &t);
    for (const plan::Task &b : p.body())
      if (Status s = step(b, index, region.get(), &values); !s.isOk())
        return std::move(s).withContext("op " + b.name() + " (" + b.op_type() + ") in its body");
    for (uint32_t tensor : t.outputs) region->outputs.push_back(values[tensor]); // checkBody: a step makes it
    OPC_RETURN_IF_ERROR(completeRegion(region.get()));
    t.workspaceBytes = regionWorkspace(*region);
    if (p.workspace() && t.workspaceBytes == 0)
      return bad("OPC0816", "it has a workspace, and none of its ops puts rows together");
    OPC_RETURN_IF_ERROR(workspace(p, &t));
    for (size_t i = 0; i < t.inputs.size(); ++i) t.op->inputDescs()[i] = m_.tensors[t.inputs[i]].desc;
    for (size_t i = 0; i < t.outputs.size(); ++i) t.op->outputDescs()[i] = m_.tensors[t.outputs[i]].desc;
    OPC_RETURN_IF_ERROR(makes(t.outputs, index));
    t.mutableInput.assign(t.inputs.size(), false);
    t.inplace = regionInplacePairs(*region);
    t.region = region;
    OPC_RETURN_IF_ERROR(isOnDevice(t) ? deviceKernel(p, std::move(region), &t) : hostKernel(p, std::move(region), &t));
    t.kernel = t.ownKernel.get();
    return Status::ok();
  }

  bool isOnDevice(const ModelTask &t) const { return deviceTypeOf(m_.streams[t.stream].device) == DeviceType::kGPU; }
  Status hostKernel(const plan::Task &p, std::shared_ptr<const Region> region, ModelTask *t) {
    if (native_) OPC_RETURN_IF_ERROR(native_->prepare(p, region));
    t->ownKernel = std::make_shared<user_op::KernelDef>(regionKernel(std::move(region), native_));
    return Status::ok();
  }
  Status deviceKernel(const plan::Task &p, const std::shared_ptr<const Region> &region, ModelTask *t) {
    if (p.native_size()) return bad("OPC0816", "a region on a GPU has machine code");
    for (const RegionStep &s : region->steps)
      if (!mayJoinOnDevice(s.op, *s.kernel, joinable(s.op, *s.kernel)))
        return bad("OPC0816", "step ", s.op.conf().name,
                   " of a region on a GPU is none that goes element by element or by rows there");
    OPC_ASSIGN_OR_RETURN(user_op::KernelDef kernel, deviceRegionKernel(region, registry_));
    t->ownKernel = std::make_shared<user_op::KernelDef>(std::move(kernel));
    return Status::ok();
  }

  /// One op of a body.
  Status step(const plan::Task &p, uint32_t index, Region *region, std::unordered_map<uint32_t, uint32_t> *values) {
    ModelTask t;
    if (p.workspace() || p.sharding_size()) return bad("OPC0816", "it has a workspace or shardings");
    if (region->steps.size() == kMaxRegionSteps) return bad("OPC0816", "it is one of more than ", kMaxRegionSteps);
    OPC_RETURN_IF_ERROR(op(p, &t));
    RegionStep s{std::move(*t.op), nullptr, {}};
    for (size_t i = 0; i < t.inputs.size(); ++i) {
      s.op.inputDescs()[i] = m_.tensors[t.inputs[i]].desc;
      s.args.push_back(values->at(t.inputs[i])); // checkBody: known before
    }
    OPC_RETURN_IF_ERROR(s.op.infer());
    t.op.emplace(s.op);
    const auto &outputs = m_.tasks[index].outputs;
    for (size_t o = 0; o < t.outputs.size(); ++o) {
      const ModelTensor &out = m_.tensors[t.outputs[o]];
      OPC_RETURN_IF_ERROR(sameAsInferred(t, o, out.desc));
      values->emplace(t.outputs[o], static_cast<uint32_t>(region->values() + o));
      if (std::find(outputs.begin(), outputs.end(), t.outputs[o]) != outputs.end()) continue;
      if (out.reg != kNone) return bad("OPC0816", "it makes tensor ", quoted(out.name), ", which is no output");
      OPC_RETURN_IF_ERROR(makes({t.outputs[o]}, index));
    }
    OPC_ASSIGN_OR_RETURN(s.kernel, s.op.selectKernel(registry_, DeviceType::kCPU));
    Joinable loops = joinable(s.op, *s.kernel);
    if (!loops.may && s.op.outputDescs().size() != 1)
      return bad("OPC0816", "it makes several tensors, and not by rows");
    s.rows = std::move(loops.rows);
    s.moves = std::move(loops.moves);
    region->add(std::move(s));
    return Status::ok();
  }

  const std::shared_ptr<NativeImages> native_; // may be null
};

class TaskReader : RegionReader {
public:
  TaskReader(const plan::Plan &plan, const TaskPlaces &places, const Registry &registry, const JobPlan &job,
             std::shared_ptr<NativeImages> native, PlanModel *model)
      : RegionReader(registry, std::move(native), model), plan_(plan), places_(places), job_(job) {}

  Status task(uint32_t index) {
    const plan::Task &p = plan_.task(static_cast<int>(index));
    ModelTask &t = m_.tasks[index];
    t.name = p.name();
    t.type = p.op_type();
    t.where = placeOf(p.location());
    t.stream = places_[index].first;
    t.position = places_[index].second;
    t.stride = p.stride() == 0 ? 1 : p.stride();
    t.lag = p.lag();
    if (t.lag > kMostSlots) return bad("OPC0811", "it lags by ", t.lag, " steps; the limit is ", kMostSlots);
    if (p.has_stream() && p.stream() != t.stream)
      return bad("OPC0811", "it names stream ", p.stream(), " and is listed by stream ", t.stream);
    uint64_t arguments = 0;
    for (const auto *list : {&p.input(), &p.output()})
      for (const plan::Argument &a : *list) arguments += 1 + static_cast<uint64_t>(a.tensor_size());
    if (arguments > kMaxArguments) return bad("OPC0811", "it has more than ", kMaxArguments, " arguments");
    if (p.op_type() == kBoxingType) return boxing(p, index);
    if (p.has_boxing()) return bad("OPC0716", "a boxing task has the type opc.boxing");
    if (m_.streams[t.stream].isComm()) return bad("OPC0716", "a stream for communication holds boxing tasks alone");
    if (p.op_type() == kRegionType) {
      OPC_RETURN_IF_ERROR(p.region() ? region(p, index) : batch(p, index));
      return inReach(t, deviceTypeOf(m_.streams[t.stream].device));
    }
    if (p.graph_size() && controlKind(t.type) == ControlKind::kNone)
      return bad("OPC0826", "it has graphs, and its op has none");
    OPC_RETURN_IF_ERROR(single(p, &t));
    OPC_RETURN_IF_ERROR(alone(p, &t));
    OPC_RETURN_IF_ERROR(inReach(t, deviceTypeOf(m_.streams[t.stream].device)));
    return makes(t.outputs, index);
  }

private:
  /// Kernels follow pointers into memory of the device that they run on: others would lead nowhere. A device's copies
  /// reach the CPU's memory, too.
  Status inReach(const ModelTask &t, DeviceType device) const {
    if (t.isView) return Status::ok();
    const std::string &stream = m_.streams[t.stream].device;
    if (!t.isBoxing() && device != deviceTypeOf(stream))
      return Status(StatusCode::kUnsupported, "OPC0820",
                    "its kernel is the CPU's, and its stream is for " + quoted(stream))
          .withHelp("compile the graph again");
    const auto check = [&](uint32_t tensor) {
      const std::string &arena = m_.arenas[m_.registers[m_.tensors[tensor].reg].arena].first;
      const DeviceType lies = deviceTypeOf(arena);
      if (lies == device || (lies == DeviceType::kCPU && t.op && isDeviceCopy(t.op->def()))) return Status::ok();
      return std::move(Status(StatusCode::kUnsupported, "OPC0820",
                              concat("tensor ", quoted(m_.tensors[tensor].name), " lies on ", quoted(arena),
                                     ", and the task is for ", quoted(stream))))
          .withHelp("an op copy on a stream of the device moves tensors between it and the CPU");
    };
    for (const auto *list : {&t.inputs, &t.outputs})
      for (uint32_t tensor : *list) OPC_RETURN_IF_ERROR(check(tensor));
    return t.workspace == kNone ? Status::ok() : check(t.workspace);
  }

  /// One op with its kernel.
  Status single(const plan::Task &p, ModelTask *to) {
    ModelTask &t = *to;
    OPC_RETURN_IF_ERROR(op(p, &t));
    OPC_RETURN_IF_ERROR(inRegisters(t));
    if (p.sharding_size() > 0) {
      OPC_RETURN_IF_ERROR(inferWhole(p, &t));
    } else {
      for (size_t i = 0; i < t.inputs.size(); ++i) t.op->inputDescs()[i] = m_.tensors[t.inputs[i]].desc;
      OPC_RETURN_IF_ERROR(t.op->infer());
      for (size_t i = 0; i < t.outputs.size(); ++i)
        OPC_RETURN_IF_ERROR(sameAsInferred(t, i, m_.tensors[t.outputs[i]].desc));
    }
    t.isView = t.op->def().isView && t.outputs.size() == 1 && !t.inputs.empty() &&
               m_.tensors[t.outputs[0]].reg == m_.tensors[t.inputs[0]].reg &&
               m_.tensors[t.outputs[0]].bytes == m_.tensors[t.inputs[0]].bytes;
    t.mutableInput = mutableInputs(*t.op);
    for (size_t i = 0; i < t.inputs.size(); ++i)
      if (t.mutableInput[i]) m_.registers[m_.tensors[t.inputs[i]].reg].isWritten = true;
    if (t.isView) return Status::ok();
    return controlKind(t.op->def().name) == ControlKind::kNone ? kernel(p, &t) : control(p, &t);
  }

  /// An op that is in no region is computed as one of its own where machine code gains by it.
  Status alone(const plan::Task &p, ModelTask *t) const {
    const bool hasCode = native_ && p.native_size() > 0;
    const auto compiler = native_ ? native_ : compilerOfLoad();
    if (!hasCode && !(compiler && compiler->isWider())) return Status::ok();
    const bool may = !t->isView && !t->ownKernel && deviceTypeOf(m_.streams[t->stream].device) == DeviceType::kCPU;
    const auto region = may ? regionOfOne(*t->op, *t->kernel, !hasCode && compiler->isEager()) : nullptr;
    if (hasCode) OPC_RETURN_IF_ERROR(native_->prepare(p, region));
    if (!region) return Status::ok();
    t->ownKernel = std::make_shared<user_op::KernelDef>(kernelOfOne(region, compiler));
    t->kernel = t->ownKernel.get();
    return Status::ok();
  }

  /// A task whose kernel runs graphs of its own.
  Status control(const plan::Task &p, ModelTask *t) {
    if (p.workspace() || p.sharding_size()) return bad("OPC0826", "a task with graphs has a workspace or shardings");
    if (deviceTypeOf(m_.streams[t->stream].device) != DeviceType::kCPU)
      return Status(StatusCode::kUnsupported, "OPC0820", "tasks with graphs run on the CPU")
          .withHelp("compile the graph for the CPU");
    for (const auto *list : {&t->inputs, &t->outputs})
      for (uint32_t tensor : *list)
        if (m_.registers[m_.tensors[tensor].reg].credits != 1)
          return bad("OPC0826", "tensor ", quoted(m_.tensors[tensor].name), " of a task with graphs has several slots");
    OPC_ASSIGN_OR_RETURN(t->ownKernel, controlKernel(p, *t->op, registry_, native_));
    t->graphBytes = taskGraphBytes(p);
    for (const plan::Plan &graph : p.graph())
      for (const plan::Task &inner : graph.task())
        t->parts.push_back({inner.name(), inner.op_type(), placeOf(inner.location())});
    t->kernel = t->ownKernel.get();
    return Status::ok();
  }

  /// A task of type "opc.fused" that is no region: updates of variables, which run side by side.
  Status batch(const plan::Task &p, uint32_t index) {
    ModelTask &t = m_.tasks[index];
    if (p.workspace() || p.attr_size() || p.sharding_size())
      return bad("OPC0816", "a task of several ops has neither workspace nor attributes nor shardings");
    OPC_RETURN_IF_ERROR(op(p, &t));
    OPC_RETURN_IF_ERROR(inRegisters(t));
    auto batch = std::make_shared<Batch>();
    std::unordered_map<uint32_t, uint32_t> positions; // by tensor
    for (uint32_t tensor : t.inputs) {
      if (!positions.emplace(tensor, static_cast<uint32_t>(batch->inputs.size())).second)
        return bad("OPC0816", "it lists input ", quoted(m_.tensors[tensor].name), " twice");
      batch->inputs.push_back(m_.tensors[tensor].desc);
    }
    if (static_cast<size_t>(p.body_size()) > kMaxBatchSteps)
      return bad("OPC0816", "it has ", p.body_size(), " updates; the limit is ", kMaxBatchSteps);
    partsOf(p, &t);
    for (const plan::Task &b : p.body()) {
      ModelTask step;
      step.stream = t.stream;
      Status s = single(b, &step);
      if (s && (step.workspace != kNone || step.workspaceBytes)) s = bad("OPC0816", "it has a workspace");
      if (!s) return std::move(s).withContext("op " + b.name() + " (" + b.op_type() + ") in its body");
      batch->steps.push_back({std::move(*step.op), step.kernel, {}});
      for (uint32_t tensor : step.inputs)
        batch->steps.back().args.push_back(positions.at(tensor)); // as checkBody() says
    }
    OPC_RETURN_IF_ERROR(checkBatch(*batch, deviceTypeOf(m_.streams[t.stream].device)));
    t.mutableInput = writtenInputs(*batch);
    OPC_RETURN_IF_ERROR(checkWritten(t));
    for (size_t i = 0; i < t.inputs.size(); ++i) t.op->inputDescs()[i] = m_.tensors[t.inputs[i]].desc;
    t.batch = batch;
    t.ownKernel = std::make_shared<user_op::KernelDef>(batchKernel(std::move(batch)));
    t.kernel = t.ownKernel.get();
    return Status::ok();
  }

  /// What a batch writes lies where nothing else of it does: a view of a variable is another tensor.
  Status checkWritten(const ModelTask &t) const {
    std::unordered_map<uint32_t, size_t> first; // by register
    std::vector<size_t> same(t.inputs.size());
    for (size_t i = 0; i < t.inputs.size(); ++i) same[i] = first.emplace(m_.tensors[t.inputs[i]].reg, i).first->second;
    for (size_t i = 0; i < t.inputs.size(); ++i)
      if (same[i] != i && (t.mutableInput[i] || t.mutableInput[same[i]]))
        return bad("OPC0816", "it writes ", quoted(m_.tensors[t.inputs[i]].name), " or ",
                   quoted(m_.tensors[t.inputs[same[i]]].name), ", which share memory");
    return Status::ok();
  }

  /// Where tensor `number` of an argument stands among the tensors of a list of arguments.
  template <class Args>
  static size_t listed(const Args &given, const user_op::ArgDef *arg, const std::string &name, int32_t number,
                       const user_op::OpDef &def, bool isInput) {
    size_t at = 0, found = 0;
    for (const plan::Argument &a : given) { // the last of that name, as in flatten
      const user_op::ArgDef *known = isInput ? def.findInput(a.name()) : def.findOutput(a.name());
      if (a.name() == name || (arg && known == arg)) found = at + static_cast<size_t>(number);
      at += static_cast<size_t>(a.tensor_size());
    }
    return found;
  }

  /// A task on several ranks: its op's rules hold for the whole tensors; its kernel sees this rank's pieces.
  Status inferWhole(const plan::Task &p, ModelTask *t) {
    const size_t inputs = t->inputs.size(), count = inputs + t->outputs.size();
    if (static_cast<size_t>(p.sharding_size()) != count)
      return bad("OPC0715", "it says how ", p.sharding_size(), " tensors are cut and has ", count);
    const user_op::OpDef &def = t->op->def();
    std::vector<TensorSharding> cuts;
    for (size_t i = 0; i < count; ++i) {
      const bool isInput = i < inputs;
      const auto &arg = isInput ? t->op->inputArgs()[i] : t->op->outputArgs()[i - inputs];
      const user_op::ArgDef *argDef = isInput ? def.findInput(arg.first) : def.findOutput(arg.first);
      const size_t at = isInput ? listed(p.input(), argDef, arg.first, arg.second, def, true)
                                : inputs + listed(p.output(), argDef, arg.first, arg.second, def, false);
      if (at >= count) return bad("OPC0715", "it lists an argument twice");
      const uint32_t tensor = isInput ? t->inputs[i] : t->outputs[i - inputs];
      OPC_ASSIGN_OR_RETURN(TensorSharding piece,
                           readPiece(p.sharding(static_cast<int>(at)), tensor,
                                     (isInput ? "input " : "output ") + quoted(arg.first), m_, job_));
      if (piece.placement != p.sharding(0).placement()) return bad("OPC0715", "its tensors are on several placements");
      cuts.push_back(std::move(piece));
    }
    auto whole = [&](size_t i, uint32_t tensor) {
      return user_op::TensorDesc(cuts[i].logical, m_.tensors[tensor].desc.data_type());
    };
    for (size_t i = 0; i < inputs; ++i) t->op->inputDescs()[i] = whole(i, t->inputs[i]);
    OPC_RETURN_IF_ERROR(t->op->infer());
    for (size_t i = 0; i < t->outputs.size(); ++i)
      OPC_RETURN_IF_ERROR(sameAsInferred(*t, i, whole(inputs + i, t->outputs[i])));
    const Placement &placement = job_.placements[p.sharding(0).placement()];
    OPC_RETURN_IF_ERROR(checkSignature(*t->op, cuts, placement));
    std::vector<user_op::TensorShard> shards;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t tensor = i < inputs ? t->inputs[i] : t->outputs[i - inputs];
      shards.push_back({whole(i, tensor), cuts[i].box.begin, cuts[i].states});
      (i < inputs ? t->op->inputDescs()[i] : t->op->outputDescs()[i - inputs]) = m_.tensors[tensor].desc;
    }
    t->op->setShards(std::move(shards), ParallelContext(cuts.empty() ? 0 : cuts[0].position, placement.size()));
    return Status::ok();
  }

  /// What is boxed lies on one device: the CPU, or the one that the stream is for.
  DeviceType whereItBoxes(const ModelTask &t) const {
    const PlanModel::Stream &stream = m_.streams[t.stream];
    const std::vector<uint32_t> &tensors = t.inputs.empty() ? t.outputs : t.inputs;
    if (!stream.isComm()) return deviceTypeOf(stream.device);
    return deviceTypeOf(m_.arenas[m_.registers[m_.tensors[tensors[0]].reg].arena].first);
  }

  /// A stream is one of a device, or the CPU's.
  Status onOneDevice(const ModelTask &t) const {
    for (uint32_t other : m_.streams[t.stream].tasks)
      if (const ModelTask &o = m_.tasks[other]; o.isBoxing() && whereItBoxes(o) != whereItBoxes(t))
        return bad("OPC0716", "it boxes tensors on another device than ", m_.describe(other), " of the same stream");
    return Status::ok();
  }

  Status boxing(const plan::Task &p, uint32_t index) {
    ModelTask &t = m_.tasks[index];
    if (!p.has_boxing()) return bad("OPC0716", "it does not say what it does");
    if (p.workspace() || p.attr_size() || p.sharding_size())
      return bad("OPC0716", "a boxing task has neither workspace nor attributes");
    for (const auto *list : {&p.input(), &p.output()})
      for (const plan::Argument &a : *list)
        for (uint32_t tensor : a.tensor()) {
          if (tensor >= m_.tensors.size())
            return bad("OPC0811", "argument ", quoted(a.name()), " is tensor ", tensor, " of ", m_.tensors.size());
          if (m_.tensors[tensor].reg == kNone)
            return bad("OPC0811", "argument ", quoted(a.name()), " lies in no register");
          (list == &p.input() ? t.inputs : t.outputs).push_back(tensor);
        }
    std::vector<DataType> types;
    for (uint32_t tensor : t.inputs.empty() ? t.outputs : t.inputs)
      types.push_back(m_.tensors[tensor].desc.data_type());
    OPC_ASSIGN_OR_RETURN(t.boxing, readBoxing(p.boxing(), types, job_.placements, m_.rank));
    const size_t count = t.boxing.size();
    for (bool isInput : {true, false}) {
      const std::vector<uint32_t> &tensors = isInput ? t.inputs : t.outputs;
      const std::optional<int64_t> at = (isInput ? t.boxing[0].source : t.boxing[0].target).positionOf(m_.rank);
      if (tensors.size() != (at ? count : 0))
        return bad("OPC0716", "it boxes ", count, " tensors, of which rank ", m_.rank, " has ", at ? "all" : "none",
                   isInput ? " before" : " after", " it, and the task has ", tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string what = concat(isInput ? "input " : "output ", i);
        const auto &cut = isInput ? p.boxing().from(static_cast<int>(i)) : p.boxing().to(static_cast<int>(i));
        if (m_.tensors[tensors[i]].desc.data_type() != types[i])
          return bad("OPC0716", what + " changes its element type");
        OPC_RETURN_IF_ERROR(readPiece(cut, tensors[i], what, m_, job_).status());
      }
    }
    OPC_RETURN_IF_ERROR(makes(t.outputs, index));
    OPC_RETURN_IF_ERROR(inReach(t, whereItBoxes(t)));
    OPC_RETURN_IF_ERROR(onOneDevice(t));
    t.mutableInput.assign(t.inputs.size(), false);
    if (t.boxing[0].step.kind == BoxingKind::kAllReduce)
      for (size_t i = 0; i < t.inputs.size(); ++i) t.inplace.push_back({static_cast<int>(i), static_cast<int>(i)});
    return Status::ok();
  }

  Status kernel(const plan::Task &p, ModelTask *t) {
    OPC_ASSIGN_OR_RETURN(t->kernel, t->op->selectKernel(registry_, deviceTypeOf(m_.streams[t->stream].device)));
    OPC_ASSIGN_OR_RETURN(t->workspaceBytes, t->op->tmpSize(*t->kernel));
    OPC_RETURN_IF_ERROR(workspace(p, t));
    OPC_ASSIGN_OR_RETURN(t->inplace, t->op->inplaceProposal(*t->kernel));
    std::sort(t->inplace.begin(), t->inplace.end());
    return Status::ok();
  }

  const plan::Plan &plan_;
  const TaskPlaces &places_;
  const JobPlan &job_;
};

} // namespace

Result<TensorSharding> readPiece(const plan::Sharding &p, uint32_t tensor, const std::string &what, const PlanModel &m,
                                 const JobPlan &job) {
  const user_op::TensorDesc &desc = m.tensors[tensor].desc;
  Result<TensorSharding> s = readSharding(p, desc.data_type(), job.placements, m.rank, what);
  if (!s) return s;
  if (!s->isHere)
    return bad("OPC0715", what, " is on ", job.placements[s->placement].toString(), ", and this part is for rank ",
               m.rank);
  if (!std::equal(s->box.size.begin(), s->box.size.end(), desc.shape().begin(), desc.shape().end()))
    return bad("OPC0715", what, " is ", desc.toString(), "; of ", s->logical.ToString(), " in ", toString(s->states),
               ", rank ", m.rank, " has ", Shape(DimVector(s->box.size.begin(), s->box.size.end())).ToString());
  return s;
}

Status readTasks(const plan::Plan &plan, const TaskPlaces &places, const Registry &registry, const JobPlan &job,
                 const std::shared_ptr<NativeImages> &native, PlanModel *model) {
  model->tasks.resize(static_cast<size_t>(plan.task_size()));
  TaskReader reader(plan, places, registry, job, native, model);
  for (uint32_t i = 0; i < model->tasks.size(); ++i)
    if (Status s = reader.task(i); !s.isOk()) return std::move(s).withContext(model->describe(i));
  for (ModelTask &t : model->tasks)
    t.isPrepared = !t.isView && std::any_of(t.outputs.begin(), t.outputs.end(), [&](uint32_t out) {
      return model->registers[model->tensors[out].reg].isPrepared();
    });
  return Status::ok();
}

} // namespace opc::runtime
