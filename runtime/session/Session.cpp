// Session: load, feed, run, fetch.
// SPDX-License-Identifier: Apache-2.0
#include "Session.h"
#include "CodeLevel.h"
#include "ControlOp.h"

#include "FreeSizes.h"
#include "Initializers.h"
#include "LocalRanks.h"
#include "NativeImages.h"
#include "NearestNames.h"
#include "NumberValues.h"
#include "OpCase.h"
#include "OutputCuts.h"
#include "OutsideJob.h"
#include "PlanAgreement.h"
#include "PlanData.h"
#include "PlanFile.h"
#include "PrintableText.h"
#include "SessionChecks.h"
#include "TextParts.h"
#include "Watchdog.h"
#include "cpu/CpuDevice.h"

#include "opc/Version.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace opc {

using runtime::Communicator;
using runtime::JobPlan;
using runtime::JobPort;
using runtime::RankGraph;
using runtime::RankLink;
using runtime::TaskGraph;

struct Session::Impl : runtime::LocalRanks {
  SessionOptions options;
  std::vector<RankStats> sent; // by rank of this process
  SessionInterface interface;
  runtime::NumberValues numbers;
  std::unordered_map<std::string, size_t> inputIndex, outputIndex, variableIndex;
  std::vector<bool> fed, isSet; // by input, by variable
  /// By input, by variable: an output has its memory, and shows what the last run has left there until the next one.
  std::vector<bool> shownInputs, shownVariables;
  size_t unfed = 0, unset = 0;
  bool lastRunFailed = false, isAgreed = false;
  std::unique_ptr<runtime::FreeSizes> sizes; // of a plan that leaves some open
  bool isResized = false;                    // since the last run: outputs are of other sizes
  uint64_t constantBytes = 0;
  uint64_t nativeImages = 0;                     // in the plan
  std::shared_ptr<runtime::NativeImages> native; // null: none of them runs
  std::unique_ptr<runtime::Watchdog> watchdog;   // of a rank that is a process
  bool hasFreeSizes = false;                     // the plan's
  /// On several ranks, with micro-batches or on a GPU: what was filled in place, until a run takes it. So is what
  /// outputs show already.
  std::vector<HostTensor> stagedInputs, stagedVariables;
  std::vector<HostTensor> gathered; // by output: what outputData shows
  std::vector<int64_t> gatheredAt;
  std::vector<std::optional<runtime::OutputCut>> cuts; // by output: of which only a run knows how much there is

  template <class Ports> static Status unknown(const char *what, const std::string &name, const Ports &ports) {
    return Status(StatusCode::kUsage, "OPC0611", std::string("the graph has no ") + what + " '" + name + "'")
        .withHelp(didYouMeanAmong(name, namesOf(ports), std::string("it has no ") + what + "s"));
  }

  static Result<Session> load(plan::Plan *decoded, const OutsideValues &outside, const Registry &registry,
                              const SessionOptions &options);

  void describeInterface() {
    auto whole = [&](const JobPort &p) {
      Shape shape = p.desc.shape();
      if (p.isBatched) shape.Set(0, shape.At(0) * job.microBatches);
      return user_op::TensorDesc(shape, p.desc.data_type());
    };
    const auto describe = [&](const std::vector<JobPort> &ports, std::vector<PortInfo> *to, auto *index) {
      for (const JobPort &p : ports) {
        index->emplace(p.name, to->size());
        PortInfo &own = to->emplace_back(PortInfo{p.name, whole(p)});
        own.trainable = p.trainable, own.hasInitializer = p.hasInitializer || p.hasValue, own.hasValue = p.hasValue;
      }
    };
    describe(job.inputs, &interface.inputs, &inputIndex);
    describe(job.outputs, &interface.outputs, &outputIndex);
    describe(job.variables, &interface.variables, &variableIndex);
    for (const auto &r : here)
      for (const runtime::ModelPort &v : r->graph().model().variables)
        constantBytes += r->graph().model().tensors[v.tensor].bytes;
    fed.assign(job.inputs.size(), false);
    isSet.assign(job.variables.size(), false);
    unfed = fed.size();
    unset = isSet.size();
    shownInputs = shown(job.inputs.size(), &RankGraph::input);
    shownVariables = shown(job.variables.size(), &RankGraph::variable);
    stagedInputs.resize(fed.size());
    stagedVariables.resize(isSet.size());
    gathered.resize(job.outputs.size());
    gatheredAt.assign(job.outputs.size(), -1);
  }

  /// The plan's machine code, where it may run.
  std::shared_ptr<runtime::NativeImages> nativeOf(const plan::Plan &plan) {
    if (options.allowNative && !native) native = std::make_shared<runtime::NativeImages>(plan);
    return native;
  }

  /// Each part's constants, for all ranks that have the part.
  Status loadConstants(plan::Plan &plan);

  Status giveVariable(size_t index, const void *whole) {
    for (const auto &r : here) OPC_RETURN_IF_ERROR(r->giveVariable(index, whole));
    if (!isSet[index]) --unset;
    isSet[index] = true;
    return Status::ok();
  }
  /// A value of the plan, which a mapped file may have.
  Status giveValue(const std::string &name, const OutsideValue &value);
  void takeBack(size_t index) const { // a lent input lies in the arena again
    if (isPlain()) graph().lend(here[0]->input(index)->tensor, nullptr);
  }
  void noteFed(size_t index) {
    if (!fed[index]) --unfed;
    fed[index] = true;
  }
  void noteUnfed(size_t index) {
    if (fed[index]) ++unfed;
    fed[index] = false;
  }
  Status giveInput(size_t index, const void *whole) {
    if (sizes) // the graph for these sizes may not be there yet; all of them have the same place for it
      return graph().copyPrefix(here[0]->input(index)->tensor, whole,
                                static_cast<uint64_t>(*tensorBytes(interface.inputs[index].desc)));
    for (const auto &r : here) OPC_RETURN_IF_ERROR(r->giveInput(index, whole));
    return Status::ok();
  }

  /// The whole tensor, whatever piece of it a rank has: the numbers are those of one rank.
  Status initialize(size_t index) {
    const JobPort &v = job.variables[index];
    const std::string name = "variable '" + v.name + "'" + v.where.at();
    if (!v.hasInitializer)
      return Status(StatusCode::kUsage, "OPC0612", name + " has neither a value nor an initializer")
          .withHelp(
              "give it with Session::setVariable (--weights FILE), or write an initializer into its variable_conf");
    OPC_ASSIGN_OR_RETURN(HostTensor t, HostTensor::create(v.desc.data_type(), v.desc.shape()));
    FillKey key{v.hasSeed ? static_cast<uint64_t>(v.seed) : options.seed, stableHash(v.name)};
    if (Status s = initializeTensor(v.initializer, &t, key); !s.isOk())
      return std::move(s).withContext("initialising " + name);
    return giveVariable(index, t.data());
  }
  /// `all`: a run begins, and outputs need not show what they did.
  Status giveStagedVariables(bool all) {
    for (size_t i = 0; i < stagedVariables.size(); ++i) {
      if (!stagedVariables[i].isValid() || (!all && isShowing(shownVariables[i]))) continue;
      OPC_RETURN_IF_ERROR(giveVariable(i, stagedVariables[i].data()));
      stagedVariables[i] = HostTensor();
      markChanged(i);
    }
    return Status::ok();
  }
  bool isShowing(bool isShown) const { return isShown && graph().steps() > 0; }
  /// Kernels that read a variable as a constant are bound anew.
  void markChanged(size_t variable) {
    for (const auto &r : here)
      if (const runtime::ModelPort *v = r->variable(variable)) {
        const uint32_t reg = r->graph().model().tensors[v->tensor].reg;
        r->graph().markChanged(reg);
        if (sizes) sizes->markChanged(reg);
      }
  }
  Status initializeAll() {
    for (size_t i = 0; i < isSet.size(); ++i)
      if (!isSet[i]) OPC_RETURN_IF_ERROR(initialize(i));
    return Status::ok();
  }
  /// Whether whoever fills a tensor writes where the kernels read it.
  template <class Port> bool isInPlace(const Port *port) const {
    return isPlain() && graph().isHostMemory(port->tensor);
  }
  /// Whether a value of the plan is still there when the kernels that read it are made.
  bool mayWait(const runtime::ModelPort &variable, const OutsideValue &value) const {
    const runtime::PlanModel &model = graph().model();
    return options.planBytes && !options.keepPackedVariables && !hasFreeSizes && mappedFileAt(value.bytes.data()) &&
           model.registers[model.tensors[variable.tensor].reg].isConstant();
  }
  /// Memory for a tensor that is filled in place.
  static Result<void *> stage(HostTensor *staged, const user_op::TensorDesc &desc) {
    if (!staged->isValid() || staged->shape() != desc.shape()) { // of other sizes
      OPC_ASSIGN_OR_RETURN(*staged, HostTensor::create(desc.data_type(), desc.shape()));
    }
    return staged->data();
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
        .withHelp("give each with Session::feed (--input NAME=SPEC)");
  }

  Status fetchable(const std::string &name, size_t *index) const {
    auto it = outputIndex.find(name);
    if (it == outputIndex.end()) return unknown("output", name, interface.outputs);
    if (graph().steps() == 0)
      return Status(StatusCode::kUsage, "OPC0613", "output '" + name + "' has not been computed: nothing has been run");
    if (lastRunFailed)
      return Status(StatusCode::kUsage, "OPC0613", "output '" + name + "' is not available: the last run failed")
          .withHelp("run again");
    if (isResized)
      return Status(StatusCode::kUsage, "OPC0613",
                    "output '" + name + "' has not been computed for the sizes that were given since the last run")
          .withHelp("run first");
    const uint32_t stride = job.outputs[it->second].stride;
    if (graph().steps() % stride != 0)
      return Status(StatusCode::kUsage, "OPC0613",
                    "output '" + name + "' was not computed in the last step: it is made every " +
                        std::to_string(stride) + " steps");
    *index = it->second;
    return Status::ok();
  }

  /// The memory of an output that one rank here has as it is fetched.
  const void *outputHere(size_t index) const {
    if (job.outputs[index].isBatched) return nullptr; // its slots are not one tensor
    const RankGraph *r = holder(job.outputs[index], [&](const RankGraph &g) { return g.output(index) != nullptr; });
    return r && r->graph().isHostMemory(r->output(index)->tensor)
               ? r->graph().data(r->output(index)->tensor, r->graph().steps() - 1)
               : nullptr;
  }
  Result<HostTensor> fetch(size_t index) {
    const user_op::TensorDesc &desc = interface.outputs[index].desc;
    OPC_ASSIGN_OR_RETURN(HostTensor t, HostTensor::createUninitialized(desc.data_type(), desc.shape()));
    const RankGraph *r = holder(job.outputs[index], [&](const RankGraph &g) { return g.output(index) != nullptr; });
    if (r) {
      const int64_t count = job.outputs[index].isBatched ? job.microBatches : 1;
      const auto bytes = t.bytes() / static_cast<size_t>(count);
      for (int64_t i = 0; i < count; ++i)
        OPC_RETURN_IF_ERROR(r->graph().copyOut(r->output(index)->tensor, r->graph().steps() - count + i,
                                               t.as<char>() + static_cast<size_t>(i) * bytes));
      return t;
    }
    OPC_RETURN_IF_ERROR(
        gather(&t, [&](RankGraph &g, Communicator &comm, void *to) { return g.gatherOutput(index, comm, to); }));
    return t;
  }
  /// Before the first step: every process begins at the same step with the same seed.
  Status agreeOnStart() {
    if (isAgreed || !options.communicator) return Status::ok();
    OPC_RETURN_IF_ERROR(runtime::checkAllHaveTheSame(*options.communicator, "seeds or steps",
                                                     "seed " + std::to_string(options.seed) + ", step " +
                                                         std::to_string(graph().position())));
    isAgreed = true;
    return Status::ok();
  }

  /// After the constants have been loaded.
  void leaveOpen(const plan::Plan &plan, const Registry &registry, int threads) {
    job.constantsTaken = true;
    sizes = std::make_unique<runtime::FreeSizes>(plan, job, registry, threads, options, native);
    sizes->describe(&interface);
  }
  /// The sizes that an input has from now on; nothing for plans of fixed shapes.
  Status giveSizes(size_t input, const Shape &shape) {
    return sizes ? sizes->give(input, shape, &interface) : Status::ok();
  }
  Status selectSizes() {
    if (!sizes) return Status::ok();
    bool isOther = false;
    OPC_RETURN_IF_ERROR(sizes->select(&here[0], &interface, &isOther));
    isResized |= isOther;
    return Status::ok();
  }
  bool isTied() const { return graph().isBound() || (sizes && sizes->hasBound()); }

  Status prepare() {
    OPC_RETURN_IF_ERROR(selectSizes());
    OPC_RETURN_IF_ERROR(giveStagedVariables(false));
    if (unset) OPC_RETURN_IF_ERROR(initializeAll());
    OPC_RETURN_IF_ERROR(agreeOnStart());
    return forAllBefore([this](size_t i) {
      TaskGraph &g = here[i]->graph();
      return g.isBound() ? g.refresh() : g.bind();
    });
  }
  /// While ranks may wait for each other, whatever way that ends.
  struct Armed {
    runtime::Watchdog *watchdog;
    explicit Armed(runtime::Watchdog *w) : watchdog(w) {
      if (watchdog) watchdog->arm();
    }
    ~Armed() {
      if (watchdog) watchdog->disarm();
    }
    Armed(const Armed &) = delete;
    Armed &operator=(const Armed &) = delete;
  };
  Status run(int64_t steps) {
    for (size_t i = 0; i < stagedInputs.size(); ++i)
      if (stagedInputs[i].isValid()) OPC_RETURN_IF_ERROR(giveInput(i, stagedInputs[i].data()));
    // Micro-batches end with the step: what the next one reads has been updated by then.
    const int64_t rounds = job.microBatches > 1 ? steps : 1, each = job.microBatches > 1 ? job.microBatches : steps;
    const Armed armed(watchdog.get());
    Status status = forAll([&](size_t i) {
      Communicator *comm = link(i);
      const runtime::CommCounters before = travelled(i);
      Status s;
      for (int64_t r = 0; s && r < rounds; ++r) s = here[i]->graph().run(each);
      if (!s && comm && s.id() != runtime::kRankGone) comm->abort(s.message()); // where no lane did
      if (comm) {
        const runtime::CommCounters after = travelled(i);
        sent[i].bytesSent += after.bytesSent - before.bytesSent;
        sent[i].bytesReceived += after.bytesReceived - before.bytesReceived;
        sent[i].messages += after.messages - before.messages;
      }
      return s;
    });
    if (steps == 0 && status) return status; // nothing has been computed
    lastRunFailed = !status.isOk();
    isResized = false;
    return status ? status : connectAgain(std::move(status));
  }
};

Status Session::Impl::loadConstants(plan::Plan &plan) {
  for (const plan::NativeCode &code : plan.native()) nativeImages += static_cast<uint64_t>(code.image_size());
  const int parts = std::max(1, plan.part_size());
  for (int p = 0; p < parts; ++p) {
    plan::Plan *part = plan.part_size() ? plan.mutable_part(p) : &plan;
    for (int i = 0; i < part->interface().constant_size(); ++i) {
      std::string *bytes = part->mutable_interface()->mutable_constant(i)->mutable_data();
      bool isFirst = true;
      for (const auto &r : here) {
        if (&runtime::partOf(plan, job, r->rank()) != part) continue;
        const runtime::PlanModel &m = r->graph().model();
        const runtime::ModelTensor &tensor = m.tensors[m.constants[static_cast<size_t>(i)].tensor];
        if (isFirst && tensor.desc.data_type() == kBool) runtime::makeBools(bytes->data(), bytes->size());
        isFirst = false;
        OPC_RETURN_IF_ERROR(r->giveConstant(static_cast<size_t>(i), bytes->data()));
        constantBytes += tensor.bytes;
      }
      std::string().swap(*bytes);
    }
  }
  return Status::ok();
}

Status Session::Impl::giveValue(const std::string &name, const OutsideValue &value) {
  const size_t index = variableIndex.at(name);
  const bool isBool = job.variables[index].desc.data_type() == kBool;
  std::string bools;
  if (isBool) {
    bools = value.bytes;
    runtime::makeBools(bools.data(), bools.size());
  }
  const runtime::ModelPort *variable = here[0]->variable(index);
  if (!isBool && variable && isInPlace(variable)) {
    const auto fill = [value](void *to) { return value.pages->copy(value.bytes, to), Status::ok(); };
    if (mayWait(*variable, value))
      graph().fillLater(variable->tensor, fill, {options.planBytes, value.bytes.data()});
    else
      (void)fill(graph().data(variable->tensor));
    if (!isSet[index]) --unset;
    isSet[index] = true;
    return Status::ok();
  }
  OPC_RETURN_IF_ERROR(giveVariable(index, isBool ? bools.data() : value.bytes.data()));
  value.pages->letGo();
  return Status::ok();
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() {
  // Its threads cannot be joined, nor what they waited for be destroyed.
  if (impl_ && !impl_->checkProcess().isOk()) (void)impl_.release();
}

/// What refuses a plan. Where another version of opc has written it, its ops, kernels and code need not be those that
/// are here: the way out is to compile its graph, and nothing is damaged.
static Status refusal(const plan::Plan &plan, const Status &status) {
  constexpr std::string_view kWriter = "opc ";
  const std::string_view producer = plan.producer();
  const bool isUnfit = status.code() == StatusCode::kInvalidGraph || status.id() == runtime::kUnfitCode;
  if (!isUnfit || producer.substr(0, kWriter.size()) != kWriter ||
      producer.substr(kWriter.size()) == OPC_VERSION_STRING)
    return status;
  Status refused(StatusCode::kUnsupported, "OPC0802",
                 "the plan is of opc version " + printableName(producer.substr(kWriter.size())) +
                     " and does not fit this one, version " OPC_VERSION_STRING " (" + status.id() + ": " +
                     status.message() + "): compile its graph again with `opc compile GRAPH -o PLAN`");
  return status.context().empty() ? refused : std::move(refused).withContext(status.context());
}

/// Before anything is read of the plan.
static Status checkStart(std::string_view planBytes, const SessionOptions &options) {
  OPC_RETURN_IF_ERROR(checkCodeLevel());
  OPC_RETURN_IF_ERROR(runtime::checkOptions(options));
  if (!options.communicator || options.communicator->size() == 1) return Status::ok();
  return runtime::checkAllHaveTheSame(*options.communicator, "plans", planBytes);
}

Result<Session> Session::load(std::string_view planBytes, const Registry &registry, const SessionOptions &options) {
  OPC_RETURN_IF_ERROR(checkStart(planBytes, options));
  google::protobuf::Arena messages; // one block for all of the plan's messages: a third of the loading time
  auto *plan = google::protobuf::Arena::CreateMessage<plan::Plan>(&messages);
  OutsideValues outside;
  OPC_RETURN_IF_ERROR(decodePlan(planBytes, runtime::pagesOfMapping(planBytes), plan, &outside));
  Result<Session> session = Impl::load(plan, outside, registry, options);
  if (!session) return refusal(*plan, session.status());
  return session;
}

Result<Session> Session::Impl::load(plan::Plan *plan, const OutsideValues &outside, const Registry &registry,
                                    const SessionOptions &options) {
  const plan::Plan sizes = runtime::FreeSizes::takeOut(plan);
  constexpr int64_t kMostRanks = 1024; // a file must not be able to start any number of threads
  int64_t ranks = options.communicator ? options.communicator->size() : options.ranks;
  if (ranks == 0) ranks = std::clamp<int64_t>(plan->part_of_rank_size(), 1, kMostRanks);
  Result<JobPlan> job = runtime::readJob(*plan, ranks, outside);
  if (!job) return job.status();
  std::vector<int64_t> mine; // ranks of this process
  if (options.communicator)
    mine.push_back(options.communicator->rank());
  else
    for (int64_t r = 0; r < ranks; ++r) mine.push_back(r);
  const int cores = options.threads > 0 ? options.threads : runtime::availableCores();
  const int threads = std::max(1, cores / static_cast<int>(mine.size()));
  // The cheapest check: what follows may be long.
  OPC_RETURN_IF_ERROR(runtime::checkFits(*plan, *job, mine, threads, options));

  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->hasFreeSizes = hasSizes(sizes);
  impl->processes = options.communicator;
  impl->timeout = std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(options.timeout * 1000)));
  impl->job = std::move(*job);
  impl->hasThreads = cores > 1 || mine.size() > 1 || options.communicator != nullptr;
  RankLink link;
  link.communicator = options.communicator;
  if (options.communicator && options.report)
    link.onFailure = [report = options.report, rank = options.communicator->rank()](const Status &s) {
      report({RankReport::Kind::kFailed, rank, s.id(),
              "rank " + std::to_string(rank) + " has failed: " + s.message() +
                  (s.context().empty() ? "" : ", " + s.context())});
    };
  link.boxing.deterministic = options.deterministic;
  link.hasDevices = runtime::boxesOnDevices(*plan);
  link.exchange.inProcess = options.communicator == nullptr;
  link.exchange.deterministic = options.deterministic;
  link.exchange.timeout = impl->timeout;
  impl->threads = std::make_unique<runtime::RankThreads>(mine.size());
  impl->sent.resize(mine.size());
  for (int64_t r : mine) {
    Result<std::unique_ptr<RankGraph>> rank = RankGraph::load(runtime::partOf(*plan, impl->job, r), impl->job, r,
                                                              registry, threads, link, nullptr, impl->nativeOf(*plan));
    if (!rank) return ranks == 1 ? rank.status() : Status(rank.status()).withContext("for rank " + std::to_string(r));
    impl->here.push_back(std::move(*rank));
    TaskGraph &graph = impl->here.back()->graph();
    graph.setSeed(options.seed);
    if (!options.keepPackedVariables) graph.releasePacked();
  }
  if (!options.communicator && (ranks > 1 || impl->graph().model().hasBoxing())) impl->connect();
  if (options.communicator && ranks > 1) {
    runtime::WatchdogOptions watch;
    watch.timeout = impl->timeout;
    watch.report = options.report;
    impl->watchdog = std::make_unique<runtime::Watchdog>(*options.communicator, std::move(watch));
    impl->graph().setWatchdog(impl->watchdog.get());
  }
  impl->describeInterface();
  OPC_ASSIGN_OR_RETURN(impl->numbers, runtime::NumberValues::read(*plan));
  impl->interface.numbers = impl->numbers.list();
  OPC_ASSIGN_OR_RETURN(impl->cuts, runtime::outputCuts(*plan, impl->job));
  OPC_RETURN_IF_ERROR(impl->loadConstants(*plan));
  OPC_RETURN_IF_ERROR(runtime::giveValues(*plan, outside, [&](const std::string &name, const OutsideValue &value) {
    return impl->giveValue(name, value);
  }));
  if (hasSizes(sizes)) {
    runtime::FreeSizes::putBack(sizes, plan);
    impl->leaveOpen(*plan, registry, threads);
  }
  return Session(std::move(impl));
}

const SessionInterface &Session::interface() const { return impl_->interface; }

Status Session::setInputShape(const std::string &name, const Shape &shape) {
  auto it = impl_->inputIndex.find(name);
  if (it == impl_->inputIndex.end()) return Impl::unknown("input", name, impl_->interface.inputs);
  const user_op::TensorDesc &d = impl_->interface.inputs[it->second].desc;
  if (d.shape() == shape) return impl_->giveSizes(it->second, shape);
  if (impl_->sizes) {
    OPC_RETURN_IF_ERROR(impl_->giveSizes(it->second, shape));
    impl_->noteUnfed(it->second); // what is there is of another shape
    impl_->stagedInputs[it->second] = HostTensor();
    return Status::ok();
  }
  return Status(StatusCode::kUsage, "OPC0704",
                "input '" + name + "' is " + user_op::TensorDesc(shape, d.data_type()).toString() + ", expected " +
                    d.toString() + ": the shapes differ");
}

Status Session::feed(const std::string &name, const HostTensor &tensor) {
  auto it = impl_->inputIndex.find(name);
  if (it == impl_->inputIndex.end()) return Impl::unknown("input", name, impl_->interface.inputs);
  if (tensor.dtype() == impl_->interface.inputs[it->second].desc.data_type())
    OPC_RETURN_IF_ERROR(impl_->giveSizes(it->second, tensor.shape()));
  // The message is made only when it is needed: feeding allocates nothing.
  if (const auto &d = impl_->interface.inputs[it->second].desc;
      tensor.dtype() != d.data_type() || tensor.shape() != d.shape())
    return checkTensor(tensor, d, "input '" + name + "'");
  HostTensor &staged = impl_->stagedInputs[it->second];
  if (impl_->isShowing(impl_->shownInputs[it->second])) {
    OPC_ASSIGN_OR_RETURN(void *const to, Impl::stage(&staged, tensor.desc()));
    if (tensor.bytes()) std::memcpy(to, tensor.data(), tensor.bytes());
  } else {
    impl_->takeBack(it->second);
    OPC_RETURN_IF_ERROR(impl_->giveInput(it->second, tensor.data()));
    staged = HostTensor();
  }
  impl_->noteFed(it->second);
  return Status::ok();
}

void *Session::inputData(const std::string &name) {
  const Result<void *> memory = inputMemory(name);
  return memory ? *memory : nullptr;
}

Result<void *> Session::inputMemory(const std::string &name) {
  auto it = impl_->inputIndex.find(name);
  if (it == impl_->inputIndex.end()) return Impl::unknown("input", name, impl_->interface.inputs);
  const size_t index = it->second;
  const user_op::TensorDesc &desc = impl_->interface.inputs[index].desc;
  const auto *port = impl_->here[0]->input(index); // null on a rank that does not read it
  impl_->takeBack(index);
  OPC_RETURN_IF_ERROR(impl_->giveSizes(index, desc.shape()));
  void *data = nullptr;
  if (impl_->isInPlace(port) && !impl_->shownInputs[index]) {
    data = impl_->graph().data(port->tensor);
  } else {
    // As in place: who reads it, or fills a part, finds what was given before.
    HostTensor &staged = impl_->stagedInputs[index];
    const bool hasValue = impl_->fed[index] && !staged.isValid();
    OPC_ASSIGN_OR_RETURN(data, Impl::stage(&staged, desc));
    if (Status s = hasValue ? impl_->readInput(index, data, staged.bytes()) : Status(); !s) {
      staged = HostTensor();
      return std::move(s).withContext("reading input " + name + " back");
    }
  }
  impl_->noteFed(index);
  return data;
}

bool Session::lendInput(const std::string &name, const void *data) {
  auto it = impl_->inputIndex.find(name);
  if (it == impl_->inputIndex.end() || !data || !impl_->isPlain() || impl_->sizes || impl_->shownInputs[it->second] ||
      reinterpret_cast<uintptr_t>(data) % 64 != 0 ||
      !impl_->graph().lend(impl_->here[0]->input(it->second)->tensor, data))
    return false;
  impl_->noteFed(it->second);
  return true;
}

void *Session::variableData(const std::string &name) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end() || impl_->isTied()) return nullptr;
  if (const auto *v = impl_->here[0]->variable(it->second)) impl_->graph().fillNever(v->tensor);
  Result<void *> data =
      impl_->isInPlace(impl_->here[0]->variable(it->second))
          ? Result<void *>(impl_->graph().data(impl_->here[0]->variable(it->second)->tensor))
          : Impl::stage(&impl_->stagedVariables[it->second], impl_->interface.variables[it->second].desc);
  if (!data) return nullptr;
  if (!impl_->isSet[it->second]) --impl_->unset;
  impl_->isSet[it->second] = true;
  return *data;
}

Status Session::setVariableLater(const std::string &name, std::function<Status(void *to)> fill,
                                 std::shared_ptr<const void> lies) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end()) return Impl::unknown("variable", name, impl_->interface.variables);
  const size_t index = it->second;
  const runtime::ModelPort *variable = impl_->here[0]->variable(index);
  if (impl_->isTied() || impl_->sizes || !variable || !impl_->isInPlace(variable)) {
    const user_op::TensorDesc &desc = impl_->interface.variables[index].desc;
    OPC_ASSIGN_OR_RETURN(HostTensor value, HostTensor::createUninitialized(desc.data_type(), desc.shape()));
    OPC_RETURN_IF_ERROR(fill(value.data()));
    return setVariable(name, value);
  }
  impl_->graph().fillLater(variable->tensor, std::move(fill), std::move(lies));
  if (!impl_->isSet[index]) --impl_->unset;
  impl_->isSet[index] = true;
  return Status::ok();
}

Status Session::checkNumber(const std::string &name, const HostTensor &tensor) const {
  return impl_->numbers.check(name, tensor, impl_->variableIndex.count(name) != 0);
}

Status Session::checkNumbers(const TensorArchive &archive) const {
  for (const PortInfo &n : impl_->interface.numbers) {
    if (!archive.contains(n.name)) continue;
    TensorReadOptions as;
    as.voidType = n.desc.data_type();
    OPC_ASSIGN_OR_RETURN(const user_op::TensorDesc found, archive.describe(n.name, as));
    OPC_RETURN_IF_ERROR(checkTensor(found, n.desc, runtime::NumberValues::shown(n.name)));
    OPC_ASSIGN_OR_RETURN(const HostTensor value, archive.read(n.name, as));
    OPC_RETURN_IF_ERROR(checkNumber(n.name, value));
  }
  return Status::ok();
}

Status Session::setVariable(const std::string &name, const HostTensor &tensor) {
  OPC_RETURN_IF_ERROR(checkNumber(name, tensor));
  if (impl_->numbers.has(name) && !impl_->variableIndex.count(name)) return Status::ok();
  return restoreVariable(name, tensor);
}

Status Session::restoreVariable(const std::string &name, const HostTensor &tensor) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end()) return Impl::unknown("variable", name, impl_->interface.variables);
  for (const auto &r : impl_->here) // a kernel may read it together with a released one
    if (r->graph().hasReleased()) return Impl::released(name);
  OPC_RETURN_IF_ERROR(checkTensor(tensor, impl_->interface.variables[it->second].desc, "variable '" + name + "'"));
  HostTensor &staged = impl_->stagedVariables[it->second];
  if (impl_->isShowing(impl_->shownVariables[it->second])) {
    OPC_ASSIGN_OR_RETURN(staged, tensor.clone());
    return Status::ok();
  }
  if (const auto *v = impl_->here[0]->variable(it->second)) impl_->graph().fillNever(v->tensor);
  OPC_RETURN_IF_ERROR(impl_->giveVariable(it->second, tensor.data()));
  staged = HostTensor();
  impl_->markChanged(it->second);
  return Status::ok();
}

Result<HostTensor> Session::variable(const std::string &name) {
  auto it = impl_->variableIndex.find(name);
  if (it == impl_->variableIndex.end()) return Impl::unknown("variable", name, impl_->interface.variables);
  const size_t index = it->second;
  if (impl_->stagedVariables[index].isValid()) return impl_->stagedVariables[index].clone();
  if (!impl_->isSet[index]) OPC_RETURN_IF_ERROR(impl_->initialize(index));
  if (const runtime::ModelPort *v = impl_->here[0]->variable(index))
    OPC_RETURN_IF_ERROR(impl_->graph().fillNow(v->tensor));
  for (const auto &r : impl_->here)
    if (const runtime::ModelPort *v = r->variable(index))
      if (r->graph().isReleased(r->graph().model().tensors[v->tensor].reg)) return Impl::released(name);
  const user_op::TensorDesc &desc = impl_->interface.variables[index].desc;
  OPC_ASSIGN_OR_RETURN(HostTensor t, HostTensor::createUninitialized(desc.data_type(), desc.shape()));
  const RankGraph *holder =
      impl_->holder(impl_->job.variables[index], [&](const RankGraph &g) { return g.variable(index) != nullptr; });
  if (holder) {
    OPC_RETURN_IF_ERROR(holder->graph().copyOut(holder->variable(index)->tensor, 0, t.data()));
    return t;
  }
  OPC_RETURN_IF_ERROR(
      impl_->gather(&t, [&](RankGraph &g, Communicator &comm, void *to) { return g.gatherVariable(index, comm, to); }));
  return t;
}

Status Session::prepare() {
  OPC_RETURN_IF_ERROR(impl_->checkProcess());
  return impl_->prepare();
}

Status Session::run(int64_t steps) {
  OPC_RETURN_IF_ERROR(impl_->checkProcess());
  OPC_RETURN_IF_ERROR(runtime::checkSteps(impl_->graph().position(), steps, impl_->job.microBatches));
  if (impl_->unfed) return impl_->missingInputs();
  if (steps > 0) OPC_RETURN_IF_ERROR(impl_->giveStagedVariables(true));
  OPC_RETURN_IF_ERROR(prepare());
  return impl_->run(steps);
}

Result<HostTensor> Session::fetch(const std::string &name) const {
  size_t index = 0;
  OPC_RETURN_IF_ERROR(impl_->fetchable(name, &index));
  OPC_ASSIGN_OR_RETURN(HostTensor whole, impl_->fetch(index));
  const std::optional<runtime::OutputCut> &cut = impl_->cuts[index];
  if (!cut) return whole;
  OPC_ASSIGN_OR_RETURN(const HostTensor count, impl_->fetch(cut->count));
  return runtime::cutTo(std::move(whole), count, cut->axis, name);
}

const void *Session::outputData(const std::string &name) const {
  size_t index = 0;
  if (!impl_->fetchable(name, &index).isOk() || impl_->cuts[index]) return nullptr;
  if (const void *data = impl_->outputHere(index)) return data;
  const int64_t step = impl_->graph().steps();
  if (impl_->gatheredAt[index] != step) {
    Result<HostTensor> t = impl_->fetch(index);
    if (!t) return nullptr;
    impl_->gathered[index] = std::move(*t);
    impl_->gatheredAt[index] = step;
  }
  return impl_->gathered[index].data();
}

int64_t Session::step() const { return impl_->graph().position() / impl_->job.microBatches; }

Status Session::setStep(int64_t step) {
  int64_t position = 0;
  if (step < 0 || __builtin_mul_overflow(step, impl_->job.microBatches, &position) || position > runtime::kMostSteps)
    return Status(StatusCode::kUsage, "OPC0616", "a session cannot go on from step " + std::to_string(step))
        .withHelp(runtime::stepsHelp(impl_->job.microBatches));
  for (const auto &r : impl_->here) r->graph().setPosition(position);
  return Status::ok();
}

void Session::observe(RunObserver *observer, bool onAllRanks) {
  for (const auto &r : impl_->here) r->graph().observe(onAllRanks || r == impl_->here.front() ? observer : nullptr);
}

const std::vector<ObservedTask> &Session::tasks() { return impl_->graph().observedTasks(); }

Result<std::string> Session::taskGraphText(uint32_t index, std::vector<std::string> *inputNames) {
  const size_t count = impl_->graph().model().tasks.size();
  if (index >= count)
    return Status(StatusCode::kUsage, "OPC0611",
                  "there is no task " + std::to_string(index) + ": the plan has " + std::to_string(count));
  if (impl_->graph().model().tasks[index].isBoxing())
    return Status(StatusCode::kUsage, "OPC0611",
                  "task " + std::to_string(index) + " moves tensors between ranks: no graph has it");
  return runtime::taskGraphText(impl_->graph().observedTasks().at(index), impl_->graph().instance(index), inputNames);
}

SessionStats Session::stats() const {
  SessionStats s;
  s.tasks = impl_->graph().model().tasks.size();
  for (const runtime::ModelTask &t : impl_->graph().model().tasks) s.views += t.isView, s.prepared += t.isPrepared;
  s.streams = impl_->graph().model().streams.size();
  for (const auto &r : impl_->here) s.arenaBytes += r->graph().arenaBytes();
  s.constantBytes = impl_->constantBytes;
  s.steps = static_cast<uint64_t>(impl_->graph().steps() / impl_->job.microBatches);
  s.nativeImages = impl_->nativeImages;
  if (impl_->native) {
    s.nativeRegions = impl_->native->stats().regions;
    s.nativeBytes = impl_->native->stats().bytes;
  }
  return s;
}

int64_t Session::rank() const { return impl_->here[0]->rank(); }
int64_t Session::ranks() const { return impl_->job.ranks; }
bool Session::hasPeers() const { return impl_->options.communicator && impl_->job.ranks > 1; }

Result<std::vector<RankStats>> Session::rankStats() const {
  std::vector<RankStats> mine = impl_->sent;
  for (size_t i = 0; i < mine.size(); ++i) {
    mine[i].rank = impl_->here[i]->rank();
    mine[i].arenaBytes = impl_->here[i]->graph().arenaBytes();
  }
  if (!hasPeers()) return mine;
  std::vector<RankStats> all(static_cast<size_t>(impl_->job.ranks));
  OPC_RETURN_IF_ERROR(impl_->options.communicator->allGatherBytes(mine.data(), sizeof mine[0], all.data()));
  return all;
}

Result<int64_t> Session::agree(int64_t value) const {
  if (!hasPeers()) return value;
  std::vector<int64_t> all(static_cast<size_t>(impl_->job.ranks));
  const Impl::Armed armed(impl_->watchdog.get()); // a rank may have stopped between two steps
  OPC_RETURN_IF_ERROR(impl_->options.communicator->allGatherBytes(&value, sizeof value, all.data()));
  return *std::max_element(all.begin(), all.end());
}

} // namespace opc
