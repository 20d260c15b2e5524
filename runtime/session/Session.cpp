// Session: load, feed, run, fetch.
#include "Session.h"

#include "Initializers.h"
#include "OpCase.h"
#include "PlanFile.h"
#include "TaskGraph.h"
#include "cpu/CpuDevice.h"

#include <google/protobuf/arena.h>

#include <unordered_map>

namespace opc {

using runtime::ModelPort;
using runtime::ModelVariable;
using runtime::PlanModel;
using runtime::TaskGraph;

struct Session::Impl {
  SessionOptions options;
  std::unique_ptr<TaskGraph> graph;
  SessionInterface interface;
  std::unordered_map<std::string, size_t> inputIndex, outputIndex, variableIndex;
  std::vector<bool> fed, isSet; // by input, by variable
  size_t unfed = 0, unset = 0;
  bool lastRunFailed = false;
  uint64_t constantBytes = 0;
  std::vector<uint32_t> outputStride; // by output: how often the task that makes it runs

  const PlanModel &model() const { return graph->model(); }

  template <class Ports> static Status unknown(const char *what, const std::string &name, const Ports &ports) {
    std::vector<std::string> names;
    for (const auto &p : ports) names.push_back(p.name);
    std::string help;
    const auto near = nearestNames(name, names, 1);
    if (!near.empty()) {
      help = "did you mean '" + near[0] + "'?";
    } else {
      for (size_t i = 0; i < names.size() && i < 10; ++i) help += (i ? ", " : std::string("it has ")) + names[i];
      if (names.size() > 10) help += " and " + std::to_string(names.size() - 10) + " more";
      if (names.empty()) help = std::string("it has no ") + what + "s";
    }
    return Status(StatusCode::kUsage, "OPC0611", std::string("the graph has no ") + what + " '" + name + "'")
        .withHelp(help);
  }

  void describeInterface() {
    const PlanModel &m = model();
    auto port = [&](const ModelPort &p) { return PortInfo{p.name, m.tensors[p.tensor].desc}; };
    for (const ModelPort &p : m.inputs) {
      inputIndex.emplace(p.name, interface.inputs.size());
      interface.inputs.push_back(port(p));
    }
    for (const ModelPort &p : m.outputs) {
      outputIndex.emplace(p.name, interface.outputs.size());
      interface.outputs.push_back(port(p));
      uint32_t t = p.tensor; // views follow what they show
      while (m.tensors[t].producer != runtime::kNone && m.tasks[m.tensors[t].producer].isView)
        t = m.tasks[m.tensors[t].producer].inputs[0];
      outputStride.push_back(m.tensors[t].producer == runtime::kNone ? 1 : m.tasks[m.tensors[t].producer].stride);
    }
    for (const ModelVariable &v : m.variables) {
      variableIndex.emplace(v.name, interface.variables.size());
      interface.variables.push_back({v.name, m.tensors[v.tensor].desc, v.trainable, v.hasInitializer});
      constantBytes += m.tensors[v.tensor].bytes;
    }
    fed.assign(m.inputs.size(), false);
    isSet.assign(m.variables.size(), false);
    unfed = fed.size();
    unset = isSet.size();
  }

  Status loadConstants(plan::Plan &plan) {
    for (size_t i = 0; i < model().constants.size(); ++i) {
      const uint32_t tensor = model().constants[i];
      std::string *bytes = plan.mutable_interface()->mutable_constant(static_cast<int>(i))->mutable_data();
      if (model().tensors[tensor].desc.data_type() == kBool)
        for (char &c : *bytes) c = c != 0; // another value would be undefined behaviour in a kernel
      OPC_RETURN_IF_ERROR(graph->copyIn(tensor, bytes->data()));
      constantBytes += bytes->size();
      std::string().swap(*bytes);
    }
    return Status::ok();
  }

  Status initialize(size_t index) {
    const ModelVariable &v = model().variables[index];
    const auto &desc = model().tensors[v.tensor].desc;
    const std::string name = "variable '" + v.name + "'" + (v.where.empty() ? "" : " at " + v.where);
    if (!v.hasInitializer)
      return Status(StatusCode::kUsage, "OPC0612", name + " has neither a value nor an initializer")
          .withHelp("give it with --weights FILE, or write an initializer into its variable_conf");
    Result<HostTensor> t = HostTensor::create(desc.data_type(), desc.shape());
    if (!t) return t.status();
    FillKey key{v.hasSeed ? static_cast<uint64_t>(v.seed) : options.seed, stableHash(v.name)};
    if (Status s = initializeTensor(v.initializer, &*t, key); !s.isOk())
      return std::move(s).withContext("initialising " + name);
    OPC_RETURN_IF_ERROR(graph->copyIn(v.tensor, t->data()));
    isSet[index] = true;
    --unset;
    return Status::ok();
  }
  Status initializeAll() {
    for (size_t i = 0; i < isSet.size(); ++i)
      if (!isSet[i]) OPC_RETURN_IF_ERROR(initialize(i));
    return Status::ok();
  }

  static Status released(const std::string &name) {
    return Status(StatusCode::kUsage, "OPC0617",
                  "variable '" + name +
                      "' is no longer accessible: kernels have packed the weights, and the session "
                      "does not keep the originals")
        .withHelp("load the session with keepPackedVariables");
  }

  Status missingInputs() const {
    std::string names;
    for (size_t i = 0; i < fed.size(); ++i)
      if (!fed[i])
        names +=
            (names.empty() ? "" : ", ") + interface.inputs[i].name + " (" + interface.inputs[i].desc.toString() + ")";
    return Status(StatusCode::kUsage, "OPC0610",
                  (unfed == 1 ? "input " : "inputs ") + names + (unfed == 1 ? " has" : " have") + " not been given")
        .withHelp("give each with --input NAME=SPEC");
  }

  Status fetchable(const std::string &name, uint32_t *tensor) const {
    auto it = outputIndex.find(name);
    if (it == outputIndex.end()) return unknown("output", name, interface.outputs);
    if (graph->steps() == 0)
      return Status(StatusCode::kUsage, "OPC0613", "output '" + name + "' has not been computed: nothing has been run");
    if (lastRunFailed)
      return Status(StatusCode::kUsage, "OPC0613", "output '" + name + "' is not available: the last run failed")
          .withHelp("run again");
    if (graph->steps() % outputStride[it->second] != 0)
      return Status(StatusCode::kUsage, "OPC0613",
                    "output '" + name + "' was not computed in the last step: it is made every " +
                        std::to_string(outputStride[it->second]) + " steps");
    *tensor = model().outputs[it->second].tensor;
    return Status::ok();
  }
};

uint64_t defaultMemoryLimit() { return runtime::machineMemory() / 10 * 9; }

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::load(std::string_view planBytes, const Registry &registry, const SessionOptions &options) {
  google::protobuf::Arena messages; // one block for all of the plan's messages: a third of the loading time
  auto *plan = google::protobuf::Arena::CreateMessage<plan::Plan>(&messages);
  OPC_RETURN_IF_ERROR(decodePlan(planBytes, plan));
  // Memory first: it is the cheapest check, and what follows may be long for a plan that cannot run anyway.
  const uint64_t limit = options.maxMemory ? options.maxMemory : defaultMemoryLimit();
  uint64_t wanted = 0;
  for (const plan::Arena &a : plan->arena())
    if (__builtin_add_overflow(wanted, a.bytes(), &wanted)) wanted = UINT64_MAX;
  if (wanted > limit)
    return Status(StatusCode::kUnsupported, "OPC0821",
                  "the plan needs " + std::to_string(wanted) + " bytes of memory; the limit is " +
                      std::to_string(limit))
        .withHelp(options.maxMemory ? "raise --max-memory"
                                    : "nine tenths of this machine's memory; --max-memory sets another limit");
  Result<PlanModel> model = runtime::buildPlanModel(*plan, registry);
  if (!model) return model.status();
  Result<std::vector<runtime::CrossEdge>> edges = runtime::checkDataFlow(*model);
  if (!edges) return edges.status();

  auto impl = std::make_unique<Impl>();
  impl->options = options;
  const int threads = options.threads > 0 ? options.threads : runtime::availableCores();
  Result<std::unique_ptr<TaskGraph>> graph = TaskGraph::create(std::move(*model), std::move(*edges), threads);
  if (!graph) return graph.status();
  impl->graph = std::move(*graph);
  impl->graph->setSeed(options.seed);
  if (!options.keepPackedVariables) impl->graph->releasePacked();
  impl->describeInterface();
  OPC_RETURN_IF_ERROR(impl->loadConstants(*plan));
  return Session(std::move(impl));
}

const SessionInterface &Session::interface() const { return impl_->interface; }

Status Session::feed(const std::string &name, const HostTensor &tensor) {
  auto it = impl_->inputIndex.find(name);
  if (it == impl_->inputIndex.end()) return Impl::unknown("input", name, impl_->interface.inputs);
  // The message is made only when it is needed: feeding allocates nothing.
  if (const auto &d = impl_->interface.inputs[it->second].desc;
      tensor.dtype() != d.data_type() || tensor.shape() != d.shape())
    return checkTensor(tensor, d, "input '" + name + "'");
  OPC_RETURN_IF_ERROR(impl_->graph->copyIn(impl_->model().inputs[it->second].tensor, tensor.data()));
  if (!impl_->fed[it->second]) --impl_->unfed;
  impl_->fed[it->second] = true;
  return Status::ok();
}

void *Session::inputData(const std::string &name) {
  auto it = impl_->inputIndex.find(name);
  if (it == impl_->inputIndex.end()) return nullptr;
  if (!impl_->fed[it->second]) --impl_->unfed;
  impl_->fed[it->second] = true;
  return impl_->graph->data(impl_->model().inputs[it->second].tensor);
}

void *Session::variableData(const std::string &name) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end() || impl_->graph->isBound()) return nullptr;
  if (!impl_->isSet[it->second]) --impl_->unset;
  impl_->isSet[it->second] = true;
  return impl_->graph->data(impl_->model().variables[it->second].tensor);
}

Status Session::setVariable(const std::string &name, const HostTensor &tensor) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end()) return Impl::unknown("variable", name, impl_->interface.variables);
  if (impl_->graph->hasReleased()) return Impl::released(name); // a kernel may read it together with a released one
  OPC_RETURN_IF_ERROR(checkTensor(tensor, impl_->interface.variables[it->second].desc, "variable '" + name + "'"));
  const uint32_t index = impl_->model().variables[it->second].tensor;
  OPC_RETURN_IF_ERROR(impl_->graph->copyIn(index, tensor.data()));
  impl_->graph->markChanged(impl_->model().tensors[index].reg);
  if (!impl_->isSet[it->second]) --impl_->unset;
  impl_->isSet[it->second] = true;
  return Status::ok();
}

Result<HostTensor> Session::variable(const std::string &name) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end()) return Impl::unknown("variable", name, impl_->interface.variables);
  if (!impl_->isSet[it->second]) OPC_RETURN_IF_ERROR(impl_->initialize(it->second));
  if (impl_->graph->isReleased(impl_->model().tensors[impl_->model().variables[it->second].tensor].reg))
    return Impl::released(name);
  const user_op::TensorDesc &desc = impl_->interface.variables[it->second].desc;
  Result<HostTensor> t = HostTensor::createUninitialized(desc.data_type(), desc.shape());
  if (!t) return t;
  OPC_RETURN_IF_ERROR(impl_->graph->copyOut(impl_->model().variables[it->second].tensor, 0, t->data()));
  return t;
}

Status Session::prepare() {
  if (impl_->unset) OPC_RETURN_IF_ERROR(impl_->initializeAll());
  if (!impl_->graph->isBound()) return impl_->graph->bind();
  return impl_->graph->refresh();
}

Status Session::run(int64_t steps) {
  if (impl_->unfed) return impl_->missingInputs();
  OPC_RETURN_IF_ERROR(prepare());
  Status status = impl_->graph->run(steps);
  impl_->lastRunFailed = !status.isOk();
  return status;
}

Result<HostTensor> Session::fetch(const std::string &name) const {
  uint32_t tensor = 0;
  OPC_RETURN_IF_ERROR(impl_->fetchable(name, &tensor));
  const user_op::TensorDesc &desc = impl_->model().tensors[tensor].desc;
  Result<HostTensor> t = HostTensor::createUninitialized(desc.data_type(), desc.shape());
  if (!t) return t;
  OPC_RETURN_IF_ERROR(impl_->graph->copyOut(tensor, impl_->graph->steps() - 1, t->data()));
  return t;
}

const void *Session::outputData(const std::string &name) const {
  uint32_t tensor = 0;
  if (!impl_->fetchable(name, &tensor).isOk()) return nullptr;
  return impl_->graph->data(tensor, impl_->graph->steps() - 1);
}

int64_t Session::step() const { return impl_->graph->position(); }

Status Session::setStep(int64_t step) {
  if (step < 0)
    return Status(StatusCode::kUsage, "OPC0616", "a session cannot go on from step " + std::to_string(step));
  impl_->graph->setPosition(step);
  return Status::ok();
}

void Session::observe(RunObserver *observer) { impl_->graph->observe(observer); }

const std::vector<ObservedTask> &Session::tasks() { return impl_->graph->observedTasks(); }

Result<std::string> Session::taskGraphText(uint32_t index, std::vector<std::string> *inputNames) {
  return runtime::taskGraphText(impl_->graph->observedTasks().at(index), impl_->graph->instance(index), inputNames);
}

SessionStats Session::stats() const {
  SessionStats s;
  s.tasks = impl_->graph->executedTasks();
  s.streams = impl_->model().streams.size();
  s.arenaBytes = impl_->graph->arenaBytes();
  s.constantBytes = impl_->constantBytes;
  s.steps = static_cast<uint64_t>(impl_->graph->steps());
  return s;
}

} // namespace opc
