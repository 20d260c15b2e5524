// From a plan message to a PlanModel: references, sizes, operators, shapes, kernels.
// SPDX-License-Identifier: Apache-2.0
#include "PlanModel.h"

#include "AttrWire.h"
#include "Device.h"
#include "MutableInputs.h"

#include <algorithm>
#include <unordered_set>

namespace opc::runtime {
namespace {

constexpr uint32_t kMaxCredits = 1024;
constexpr uint32_t kMaxLag = 1024;
constexpr char kBoxingType[] = "opc.boxing";
// Far above any op, low enough that checks of each against each end soon.
constexpr uint64_t kMaxArguments = 1 << 14;

Status bad(const char *id, std::string message) {
  return Status(StatusCode::kInvalidGraph, id, "invalid plan: " + message).withHelp("compile the graph again");
}
std::string quoted(const std::string &s) { return "'" + s + "'"; }

std::string whereOf(const plan::Location &l) {
  if (l.file().empty()) return "";
  return l.file() + ":" + std::to_string(l.line()) + ":" + std::to_string(l.column());
}

class Builder {
public:
  Builder(const plan::Plan &plan, const Registry &registry, const JobPlan &job, int64_t rank)
      : plan_(plan), registry_(registry), job_(job) {
    m_.rank = rank;
    m_.microBatches = job.microBatches;
  }

  Result<PlanModel> build() {
    m_.graph = plan_.graph();
    OPC_RETURN_IF_ERROR(arenas());
    OPC_RETURN_IF_ERROR(registers());
    OPC_RETURN_IF_ERROR(tensors());
    OPC_RETURN_IF_ERROR(interface());
    OPC_RETURN_IF_ERROR(streams());
    m_.tasks.resize(static_cast<size_t>(plan_.task_size()));
    for (uint32_t i = 0; i < m_.tasks.size(); ++i)
      if (Status s = task(i); !s.isOk()) return std::move(s).withContext(m_.describe(i));
    return std::move(m_);
  }

private:
  Status arenas() {
    for (const plan::Arena &a : plan_.arena()) {
      if (!createDevice(a.device()))
        return Status(StatusCode::kUnsupported, "OPC0820",
                      "the plan is for device " + quoted(a.device()) + ", which is not available")
            .withHelp("available here: " + availableDevices());
      m_.arenas.push_back({a.device(), a.bytes()});
    }
    return Status::ok();
  }

  Status registers() {
    for (int i = 0; i < plan_.register__size(); ++i) {
      const plan::Register &p = plan_.register_(i);
      const std::string name = "register " + std::to_string(i) + " (" + p.name() + ")";
      ModelRegister r;
      r.name = p.name();
      r.arena = p.arena();
      r.offset = p.offset();
      r.bytes = p.bytes();
      r.credits = p.has_credits() ? p.credits() : 1;
      r.stride = p.stride();
      r.kind = p.kind();
      if (r.arena >= m_.arenas.size())
        return bad("OPC0811",
                   name + " lies in arena " + std::to_string(r.arena) + " of " + std::to_string(m_.arenas.size()));
      if (r.credits == 0 || r.credits > kMaxCredits)
        return bad("OPC0813", name + " has " + std::to_string(r.credits) + " credits; 1 to " +
                                  std::to_string(kMaxCredits) + " are possible");
      const bool isBatched = r.kind == plan::Register::INPUT && r.credits == job_.microBatches;
      if (r.isPersistent() && r.credits != 1 && !isBatched)
        return bad("OPC0813", name + " holds an input, variable or constant and has several slots");
      if (r.offset % 64 != 0 || r.stride % 64 != 0) return bad("OPC0813", name + " is not aligned to 64 bytes");
      uint64_t end = 0;
      const bool overflow = __builtin_mul_overflow(uint64_t{r.credits - 1}, r.stride, &end) ||
                            __builtin_add_overflow(end, r.offset, &end) || __builtin_add_overflow(end, r.bytes, &end);
      if (overflow || end > m_.arenas[r.arena].second)
        return bad("OPC0813",
                   name + " ends outside its arena of " + std::to_string(m_.arenas[r.arena].second) + " bytes");
      if (r.credits > 1 && r.stride < r.bytes) return bad("OPC0813", name + " has slots that overlap");
      m_.registers.push_back(std::move(r));
    }
    return Status::ok();
  }

  Status tensors() {
    m_.tensors.reserve(static_cast<size_t>(plan_.tensor_size()));
    for (int i = 0; i < plan_.tensor_size(); ++i) {
      const plan::Tensor &p = plan_.tensor(i);
      const std::string name = "tensor " + std::to_string(i) + " (" + p.name() + ")";
      if (p.register_() >= m_.registers.size())
        return bad("OPC0811", name + " lies in register " + std::to_string(p.register_()) + " of " +
                                  std::to_string(m_.registers.size()));
      if (p.dim_size() > kMaxRank)
        return bad("OPC0812",
                   name + " has rank " + std::to_string(p.dim_size()) + "; the limit is " + std::to_string(kMaxRank));
      for (int64_t d : p.dim())
        if (d < 0) return bad("OPC0812", name + " has the dimension " + std::to_string(d));
      ModelTensor t;
      t.name = p.name();
      t.reg = p.register_();
      const ModelRegister &r = m_.registers[t.reg];
      const auto type = static_cast<DataType>(p.data_type());
      // Workspaces are bytes.
      if (!isTensorDataType(type) && !(type == kChar && r.kind == plan::Register::WORKSPACE))
        return bad("OPC0812", name + " has the element type " + dataTypeName(type));
      t.desc = user_op::TensorDesc(Shape(DimVector(p.dim().begin(), p.dim().end())), type);
      Result<int64_t> bytes = tensorBytes(t.desc);
      if (!bytes) return bad("OPC0812", name + ": " + bytes.status().message());
      t.bytes = static_cast<uint64_t>(*bytes);
      if (t.bytes > r.bytes)
        return bad("OPC0814", name + " is " + t.desc.toString() + ", " + std::to_string(t.bytes) +
                                  " bytes; its register has " + std::to_string(r.bytes));
      m_.tensors.push_back(std::move(t));
    }
    return Status::ok();
  }

  Status source(uint32_t tensor, plan::Register::Kind kind, const std::string &what) {
    if (tensor >= m_.tensors.size())
      return bad("OPC0811", what + " is tensor " + std::to_string(tensor) + " of " + std::to_string(m_.tensors.size()));
    ModelTensor &t = m_.tensors[tensor];
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
  Status unique(std::unordered_set<std::string> *names, const std::string &name, const char *what) {
    if (!names->insert(name).second) return bad("OPC0811", std::string("two ") + what + "s named " + quoted(name));
    return Status::ok();
  }

  Status interface() {
    const plan::Interface &in = plan_.interface();
    std::unordered_set<std::string> inputs, outputs, variables;
    for (const auto &p : in.input()) {
      OPC_RETURN_IF_ERROR(unique(&inputs, p.name(), "input"));
      OPC_RETURN_IF_ERROR(source(p.tensor(), plan::Register::INPUT, "input " + quoted(p.name())));
      m_.inputs.push_back({p.name(), p.tensor(), {}});
      OPC_RETURN_IF_ERROR(cut(p, "input " + quoted(p.name()), &m_.inputs.back().sharding));
    }
    for (const auto &p : in.output()) {
      OPC_RETURN_IF_ERROR(unique(&outputs, p.name(), "output"));
      if (p.tensor() >= m_.tensors.size())
        return bad("OPC0811", "output " + quoted(p.name()) + " is tensor " + std::to_string(p.tensor()) + " of " +
                                  std::to_string(m_.tensors.size()));
      m_.outputs.push_back({p.name(), p.tensor(), {}});
      OPC_RETURN_IF_ERROR(cut(p, "output " + quoted(p.name()), &m_.outputs.back().sharding));
    }
    for (const auto &p : in.variable()) {
      OPC_RETURN_IF_ERROR(unique(&variables, p.name(), "variable"));
      OPC_RETURN_IF_ERROR(source(p.tensor(), plan::Register::VARIABLE, "variable " + quoted(p.name())));
      ModelVariable v;
      v.name = p.name();
      v.tensor = p.tensor();
      v.trainable = p.trainable();
      OPC_RETURN_IF_ERROR(cut(p, "variable " + quoted(p.name()), &v.sharding));
      m_.variables.push_back(std::move(v));
    }
    for (int i = 0; i < in.constant_size(); ++i) {
      const auto &p = in.constant(i);
      const std::string what = "constant " + std::to_string(i);
      OPC_RETURN_IF_ERROR(source(p.tensor(), plan::Register::CONSTANT, what));
      ModelConstant constant;
      constant.tensor = p.tensor();
      OPC_RETURN_IF_ERROR(cut(p, what, &constant.sharding));
      user_op::TensorDesc whole = m_.tensors[p.tensor()].desc;
      if (constant.sharding) whole = user_op::TensorDesc(constant.sharding->logical, whole.data_type());
      Result<int64_t> bytes = tensorBytes(whole);
      if (!bytes || p.data().size() != static_cast<uint64_t>(*bytes))
        return bad("OPC0812", what + " has " + std::to_string(p.data().size()) + " bytes of data, its tensor is " +
                                  whole.toString());
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
    Result<TensorSharding> s = sharding(p.sharding(), p.tensor(), what);
    if (!s) return s.status();
    *out = std::move(*s);
    return Status::ok();
  }
  Result<TensorSharding> sharding(const plan::Sharding &p, uint32_t tensor, const std::string &what) {
    const user_op::TensorDesc &desc = m_.tensors[tensor].desc;
    Result<TensorSharding> s = readSharding(p, desc.data_type(), job_.placements, m_.rank, what);
    if (!s) return s;
    if (!s->isHere)
      return bad("OPC0715", what + " is on " + job_.placements[s->placement].toString() +
                                ", and this part is for rank " + std::to_string(m_.rank));
    if (!std::equal(s->box.size.begin(), s->box.size.end(), desc.shape().begin(), desc.shape().end()))
      return bad("OPC0715", what + " is " + desc.toString() + "; of " + s->logical.ToString() + " in " +
                                toString(s->states) + ", rank " + std::to_string(m_.rank) + " has " +
                                Shape(DimVector(s->box.size.begin(), s->box.size.end())).ToString());
    return s;
  }

  Status streams() {
    streamOf_.assign(static_cast<size_t>(plan_.task_size()), {kNone, 0});
    for (uint32_t s = 0; s < static_cast<uint32_t>(plan_.stream_size()); ++s) {
      const plan::Stream &p = plan_.stream(static_cast<int>(s));
      if (p.device() != kCommDevice && !createDevice(p.device()))
        return Status(StatusCode::kUnsupported, "OPC0820",
                      "stream " + std::to_string(s) + " is for device " + quoted(p.device()) +
                          ", which is not available")
            .withHelp("available here: " + availableDevices());
      PlanModel::Stream stream;
      stream.device = p.device();
      for (uint32_t t : p.task()) {
        if (t >= streamOf_.size())
          return bad("OPC0811", "stream " + std::to_string(s) + " lists task " + std::to_string(t) + " of " +
                                    std::to_string(streamOf_.size()));
        if (streamOf_[t].first != kNone) return bad("OPC0811", "task " + std::to_string(t) + " is listed twice");
        streamOf_[t] = {s, static_cast<uint32_t>(stream.tasks.size())};
        stream.tasks.push_back(t);
      }
      m_.streams.push_back(std::move(stream));
    }
    // Threads are a resource that a file must not be able to exhaust.
    if (m_.streams.size() > 256)
      return bad("OPC0811", std::to_string(m_.streams.size()) + " streams; the limit is 256");
    for (size_t t = 0; t < streamOf_.size(); ++t)
      if (streamOf_[t].first == kNone) return bad("OPC0811", "task " + std::to_string(t) + " is in no stream");
    return Status::ok();
  }

  Status task(uint32_t index) {
    const plan::Task &p = plan_.task(static_cast<int>(index));
    ModelTask &t = m_.tasks[index];
    t.name = p.name();
    t.type = p.op_type();
    t.where = whereOf(p.location());
    t.stream = streamOf_[index].first;
    t.position = streamOf_[index].second;
    t.stride = p.stride() == 0 ? 1 : p.stride();
    t.lag = p.lag();
    if (t.lag > kMaxLag)
      return bad("OPC0811", "it lags by " + std::to_string(t.lag) + " steps; the limit is " + std::to_string(kMaxLag));
    if (p.has_stream() && p.stream() != t.stream)
      return bad("OPC0811", "it names stream " + std::to_string(p.stream()) + " and is listed by stream " +
                                std::to_string(t.stream));
    uint64_t arguments = 0;
    for (const auto *list : {&p.input(), &p.output()})
      for (const plan::Argument &a : *list) arguments += 1 + static_cast<uint64_t>(a.tensor_size());
    if (arguments > kMaxArguments)
      return bad("OPC0811", "it has more than " + std::to_string(kMaxArguments) + " arguments");
    if (p.op_type() == kBoxingType) return boxing(p, index);
    if (p.has_boxing()) return bad("OPC0716", "a boxing task has the type opc.boxing");
    if (m_.streams[t.stream].isComm()) return bad("OPC0716", "a stream for communication holds boxing tasks alone");
    const user_op::OpDef *def = registry_.findOp(p.op_type());
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
    t.op.emplace(*def, std::move(conf));
    // Completion put the arguments into the definition's order: follow it by name.
    OPC_RETURN_IF_ERROR(flatten(p.input(), t.op->inputArgs(), true, *def, &t.inputs));
    OPC_RETURN_IF_ERROR(flatten(p.output(), t.op->outputArgs(), false, *def, &t.outputs));

    if (p.sharding_size() > 0) {
      OPC_RETURN_IF_ERROR(inferWhole(p, &t));
    } else {
      for (size_t i = 0; i < t.inputs.size(); ++i) t.op->inputDescs()[i] = m_.tensors[t.inputs[i]].desc;
      OPC_RETURN_IF_ERROR(t.op->infer());
      for (size_t i = 0; i < t.outputs.size(); ++i)
        OPC_RETURN_IF_ERROR(sameAsInferred(t, i, m_.tensors[t.outputs[i]].desc));
    }
    OPC_RETURN_IF_ERROR(makes(t.outputs, index));
    t.isView = def->isView && t.outputs.size() == 1 && !t.inputs.empty() &&
               m_.tensors[t.outputs[0]].reg == m_.tensors[t.inputs[0]].reg &&
               m_.tensors[t.outputs[0]].bytes == m_.tensors[t.inputs[0]].bytes;
    t.mutableInput = mutableInputs(*t.op);
    for (size_t i = 0; i < t.inputs.size(); ++i)
      if (t.mutableInput[i]) m_.registers[m_.tensors[t.inputs[i]].reg].isWritten = true;
    if (t.isView) return Status::ok();
    return kernel(p, &t);
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
      return bad("OPC0715", "it says how " + std::to_string(p.sharding_size()) + " tensors are cut and has " +
                                std::to_string(count));
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
      Result<TensorSharding> s =
          sharding(p.sharding(static_cast<int>(at)), tensor, (isInput ? "input " : "output ") + quoted(arg.first));
      if (!s) return s.status();
      if (s->placement != p.sharding(0).placement()) return bad("OPC0715", "its tensors are on several placements");
      cuts.push_back(std::move(*s));
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

  Status boxing(const plan::Task &p, uint32_t index) {
    ModelTask &t = m_.tasks[index];
    if (!p.has_boxing()) return bad("OPC0716", "it does not say what it does");
    if (p.workspace() || p.attr_size() || p.sharding_size())
      return bad("OPC0716", "a boxing task has neither workspace nor attributes");
    for (const auto *list : {&p.input(), &p.output()})
      for (const plan::Argument &a : *list)
        for (uint32_t tensor : a.tensor()) {
          if (tensor >= m_.tensors.size())
            return bad("OPC0811", "argument " + quoted(a.name()) + " is tensor " + std::to_string(tensor) + " of " +
                                      std::to_string(m_.tensors.size()));
          (list == &p.input() ? t.inputs : t.outputs).push_back(tensor);
        }
    std::vector<DataType> types;
    for (uint32_t tensor : t.inputs.empty() ? t.outputs : t.inputs)
      types.push_back(m_.tensors[tensor].desc.data_type());
    Result<std::vector<BoxingOp>> ops = readBoxing(p.boxing(), types, job_.placements, m_.rank);
    if (!ops) return ops.status();
    t.boxing = std::move(*ops);
    const size_t count = t.boxing.size();
    for (bool isInput : {true, false}) {
      const std::vector<uint32_t> &tensors = isInput ? t.inputs : t.outputs;
      const std::optional<int64_t> at = (isInput ? t.boxing[0].source : t.boxing[0].target).positionOf(m_.rank);
      if (tensors.size() != (at ? count : 0))
        return bad("OPC0716", "it boxes " + std::to_string(count) + " tensors, of which rank " +
                                  std::to_string(m_.rank) + " has " + (at ? "all" : "none") +
                                  (isInput ? " before" : " after") + " it, and the task has " +
                                  std::to_string(tensors.size()));
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string what = std::string(isInput ? "input " : "output ") + std::to_string(i);
        const auto &cut = isInput ? p.boxing().from(static_cast<int>(i)) : p.boxing().to(static_cast<int>(i));
        if (m_.tensors[tensors[i]].desc.data_type() != types[i])
          return bad("OPC0716", what + " changes its element type");
        if (Result<TensorSharding> s = sharding(cut, tensors[i], what); !s) return s.status();
      }
    }
    OPC_RETURN_IF_ERROR(makes(t.outputs, index));
    t.mutableInput.assign(t.inputs.size(), false);
    if (t.boxing[0].step.kind == BoxingKind::kAllReduce)
      for (size_t i = 0; i < t.inputs.size(); ++i) t.inplace.push_back({static_cast<int>(i), static_cast<int>(i)});
    return Status::ok();
  }

  Status unknownOp(const std::string &type) {
    std::string help;
    for (const std::string &n : registry_.nearest(type)) help += (help.empty() ? "did you mean '" : "' or '") + n;
    if (!help.empty()) help += "'? ";
    std::string plugins;
    for (const PluginInfo &p : registry_.plugins()) plugins += (plugins.empty() ? "" : ", ") + p.path;
    help += plugins.empty() ? "no plugins are loaded; --plugin LIB loads one" : "loaded plugins: " + plugins;
    return Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type " + quoted(type)).withHelp(help);
  }

  template <class Args> Status bind(const Args &args, std::vector<user_op::ArgBinding> *out) {
    for (const plan::Argument &a : args) {
      user_op::ArgBinding binding{a.name(), {}};
      for (uint32_t t : a.tensor()) {
        if (t >= m_.tensors.size())
          return bad("OPC0811", "argument " + quoted(a.name()) + " is tensor " + std::to_string(t) + " of " +
                                    std::to_string(m_.tensors.size()));
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

  Status kernel(const plan::Task &p, ModelTask *t) {
    Result<const user_op::KernelDef *> kernel = t->op->selectKernel(registry_, DeviceType::kCPU);
    if (!kernel) return kernel.status();
    t->kernel = *kernel;
    Result<uint64_t> tmp = t->op->tmpSize(*t->kernel);
    if (!tmp) return tmp.status();
    t->workspaceBytes = *tmp;
    if (p.workspace() != 0) {
      t->workspace = p.workspace() - 1;
      if (t->workspace >= m_.tensors.size())
        return bad("OPC0811", "its workspace is tensor " + std::to_string(t->workspace) + " of " +
                                  std::to_string(m_.tensors.size()));
      const ModelTensor &w = m_.tensors[t->workspace];
      if (m_.registers[w.reg].kind != plan::Register::WORKSPACE)
        return bad("OPC0811", "its workspace lies in a register that is none");
    }
    const uint64_t have = t->workspace == kNone ? 0 : m_.tensors[t->workspace].bytes;
    if (*tmp > have)
      return Status(StatusCode::kInvalidGraph, "OPC0818",
                    "invalid plan: the kernel needs " + std::to_string(*tmp) + " bytes of workspace, the plan gives " +
                        std::to_string(have))
          .withHelp("the plan was made with other kernels: compile the graph again");
    t->inplace = t->op->inplacePairs(*t->kernel);
    std::sort(t->inplace.begin(), t->inplace.end());
    return Status::ok();
  }

  const plan::Plan &plan_;
  const Registry &registry_;
  const JobPlan &job_;
  PlanModel m_;
  std::vector<std::pair<uint32_t, uint32_t>> streamOf_; // stream, position
  std::vector<bool> usedSources_;
};

} // namespace

std::string PlanModel::describe(uint32_t task) const {
  const ModelTask &t = tasks[task];
  return "task " + std::to_string(task) + ", op " + t.name + " (" + t.type + ")" +
         (t.where.empty() ? "" : " at " + t.where);
}

Result<PlanModel> buildPlanModel(const plan::Plan &plan, const Registry &registry, const JobPlan &job, int64_t rank) {
  return Builder(plan, registry, job, rank).build();
}

} // namespace opc::runtime
