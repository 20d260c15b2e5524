// opc debug first-diff: the first op whose result another way of running the same graph does not give.
// SPDX-License-Identifier: Apache-2.0
#include "FirstDifference.h"

#include "AllowTf32.h"
#include "GitFiles.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "RunComparison.h"
#include "RunSteps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

/// What the run is held against.
struct Reference {
  std::string name; // for messages: "the plain run"
  KeptTensors tensors;
  uint64_t leftOut = 0;            // that took too much memory
  std::vector<ObservedTask> tasks; // that made them; none of a folder
};

class Search {
public:
  Search(Invocation &invocation, FirstDifferenceOptions &options)
      : invocation_(invocation), options_(options), context_{invocation, options.run} {}

  Outcome<int> run() {
    Outcome<PlannedRun> planned = planRun(context_);
    if (!planned) return planned.status();
    planned_ = &*planned;
    OPC_ASSIGN_OR_RETURN(const std::optional<MeshRequest> mesh, options_.mesh.request());
    OPC_RETURN_IF_ERROR(checkPlan(mesh.has_value()));
    Outcome<GivenRun> given = giveValues(context_, *planned);
    if (!given) return given.status();
    Outcome<Reference> reference = makeReference();
    if (!reference) return reference.status();
    OPC_RETURN_IF_ERROR(checkTolerances(*reference));
    RunComparison comparison(reference->tensors, {[this](const std::string &name, const HostTensor &expected) {
                                                    return toleranceOf(name, expected);
                                                  },
                                                  !options_.isChain && !mesh, false});
    if (!mesh) {
      OPC_RETURN_IF_ERROR(compareHere(&comparison));
    } else {
      Outcome<std::string> plan = planned->planner->everyTensorPlan(planned->input, *mesh);
      if (!plan) return plan.status();
      OPC_RETURN_IF_ERROR(compareRanks(*plan, *reference, &comparison));
    }
    return report(*reference, comparison, mesh.has_value());
  }

private:
  // A plan cannot be compiled in another way.
  Status checkPlan(bool onMesh) const {
    const std::string &name = planned_->input.name;
    if (!planned_->input.isPlan) return Status::ok();
    if (onMesh) return usageError("--mesh needs the graph, and " + name + " is a plan", "give the graph itself");
    if (options_.reference == "plain" || options_.reference == "f64")
      return usageError("--reference " + options_.reference + " needs the graph, and " + name + " is a plan",
                        "give the graph itself, or another reference: one-thread, a plan, a folder of tensors");
    return Status::ok();
  }

  /// A tolerance of a tensor that neither run has would change nothing.
  Status checkTolerances(const Reference &reference) const {
    std::vector<std::string> known;
    for (const auto &[name, tensor] : reference.tensors) known.push_back(name);
    for (const ObservedTask &task : planned_->session->tasks()) {
      for (const ObservedTensor &out : task.outputs) known.push_back(out.name);
      for (const ObservedTensor &in : task.inputs)
        if (in.isMutable) known.push_back(updatedName(in.name));
    }
    const std::set<std::string> all(known.begin(), known.end());
    const std::pair<const ToleranceFlags *, const char *> flags[] = {{&options_.rtol, "--rtol"},
                                                                     {&options_.atol, "--atol"}};
    for (const auto &[given, flag] : flags)
      for (const std::string &name : given->names())
        if (!all.count(name))
          return noSuchName("tensor", name, known, flag + (" " + name) + ":X", "opc show GRAPH --what tensors");
    return Status::ok();
  }

  /// Unless told otherwise, what rounding in another order may do.
  Tolerance toleranceOf(const std::string &name, const HostTensor &expected) const {
    const std::optional<double> rtol = options_.rtol.of(name), atol = options_.atol.of(name);
    const Tolerance table = defaultTolerance(expected.dtype());
    if (rtol || atol) return {rtol.value_or(table.rtol), atol.value_or(table.atol)};
    return reorderedTolerance(expected);
  }

  /// The inputs and variables of `from`, in the types of `to`. Names that only one of them has are left alone.
  static Status copyValues(Session &from, Session &to) {
    for (const PortInfo &p : to.interface().inputs)
      for (const PortInfo &mine : from.interface().inputs) {
        if (mine.name != p.name) continue;
        OPC_ASSIGN_OR_RETURN(HostTensor value,
                             HostTensor::createUninitialized(mine.desc.data_type(), mine.desc.shape()));
        OPC_ASSIGN_OR_RETURN(const void *given, from.inputMemory(mine.name));
        if (value.bytes()) std::memcpy(value.data(), given, value.bytes());
        if (value.dtype() != p.desc.data_type()) {
          OPC_ASSIGN_OR_RETURN(value, castTensor(value, p.desc.data_type()));
        }
        OPC_RETURN_IF_ERROR(to.feed(p.name, value));
      }
    for (const PortInfo &v : to.interface().variables)
      for (const PortInfo &mine : from.interface().variables) {
        if (mine.name != v.name) continue;
        OPC_ASSIGN_OR_RETURN(HostTensor value, from.variable(mine.name));
        if (value.dtype() != v.desc.data_type()) {
          OPC_ASSIGN_OR_RETURN(value, castTensor(value, v.desc.data_type()));
        }
        OPC_RETURN_IF_ERROR(to.setVariable(v.name, value));
      }
    return Status::ok();
  }

  Outcome<Reference> runReference(const std::string &plan, std::string name, SessionOptions options) {
    Reference reference;
    reference.name = std::move(name);
    auto failed = [&](Status s) { return std::move(s).withContext("running " + reference.name); };
    Result<Session> session = Session::load(plan, *planned_->registry, options);
    if (!session) return failed(session.status());
    if (Status s = copyValues(*planned_->session, *session); !s) return failed(s);
    TensorKeeper keeper;
    session->observe(&keeper);
    reference.tasks = session->tasks();
    invocation_.progress().begin("running the reference");
    Status ran = session->run();
    invocation_.progress().clear();
    session->observe(nullptr);
    if (!ran) return failed(ran);
    reference.tensors = std::move(keeper.tensors);
    reference.leftOut = keeper.leftOut;
    return reference;
  }

  Outcome<Reference> makeReference() {
    const std::string &way = options_.reference;
    const SessionOptions sameAs = options_.run.session(invocation_, false);
    SessionOptions alone = sameAs;
    alone.threads = 1;
    if (way == "one-thread") return runReference(planned_->plan, "the run on one thread", alone);
    if (way == "plain" || way == "f64") {
      const bool isDouble = way == "f64";
      Outcome<std::string> plan =
          planned_->planner->referencePlan(planned_->input, isDouble ? kDouble : kInvalidDataType);
      if (!plan) return plan.status();
      const std::string where = options_.run.compile.device == "cpu" ? "" : " on the cpu";
      return runReference(*plan, (isDouble ? "the run in f64" : "the plain run") + where, isDouble ? sameAs : alone);
    }
    std::error_code error;
    if (fs::is_directory(way, error)) return readFolder(way);
    OPC_ASSIGN_OR_RETURN(GraphInput other, readGraphOrRevision(way));
    if (other.isPlan) return runReference(other.bytes.text(), "the plan " + other.name, sameAs);
    Outcome<std::string> plan = planned_->planner->referencePlan(other);
    if (!plan) return plan.status();
    return runReference(*plan, "the graph " + other.name, alone);
  }

  /// Tensors as --capture writes them, FOLDER/OP/OUTPUT.npy, or FOLDER/OP.npy of an op with one output.
  Outcome<Reference> readFolder(const std::string &folder) {
    Reference reference;
    reference.name = "the tensors in " + folder;
    for (const ObservedTask &task : planned_->session->tasks())
      for (const ObservedTensor &out : task.outputs) {
        std::string path = outputPathIn(folder, out.name);
        std::error_code error;
        if (!fs::exists(path, error) && task.outputs.size() == 1) path = outputPathIn(folder, task.name);
        if (!fs::exists(path, error)) continue;
        OPC_ASSIGN_OR_RETURN(reference.tensors[out.name], readTensor(path, out.desc.data_type()));
      }
    return reference;
  }

  Status compareHere(RunComparison *comparison) {
    Session &session = *planned_->session;
    session.observe(comparison);
    invocation_.progress().begin("running");
    Status ran = session.run();
    invocation_.progress().clear();
    session.observe(nullptr);
    return ran;
  }

  /// On several ranks a tensor is in pieces, which only outputs put together: every tensor becomes one.
  Status compareRanks(const std::string &plan, const Reference &reference, RunComparison *comparison) {
    SessionOptions options = options_.run.session(invocation_, false);
    options.ranks = 0;
    const AllowTf32 products(options_.run.allowTf32);
    OPC_ASSIGN_OR_RETURN(Session session, Session::load(plan, *planned_->registry, options));
    OPC_RETURN_IF_ERROR(copyValues(*planned_->session, session));
    OPC_RETURN_IF_ERROR(session.run());
    std::set<std::string> outputs;
    for (const PortInfo &p : session.interface().outputs) outputs.insert(p.name);
    const std::vector<ObservedTask> &tasks = reference.tasks.empty() ? planned_->session->tasks() : reference.tasks;
    for (const ObservedTask &task : tasks)
      for (const ObservedTensor &out : task.outputs) {
        if (!outputs.count(out.name)) continue;
        OPC_ASSIGN_OR_RETURN(const HostTensor value, session.fetch(out.name));
        OPC_RETURN_IF_ERROR(comparison->compare(task, out.name, value));
      }
    return Status::ok();
  }

  Outcome<int> report(const Reference &reference, RunComparison &comparison, bool onMesh) {
    const std::vector<TensorDifference> found = comparison.differences();
    if (!comparison.compared())
      return Status(StatusCode::kUsage, "OPC0005",
                    "nothing to compare: " + reference.name + " has none of the tensors of " + planned_->input.name)
          .withHelp("opc show GRAPH --what tensors lists their names");
    const bool isIsolated = !options_.isChain && !onMesh;
    if (invocation_.flags().json) {
      invocation_.terminal().out(jsonText(document(reference, comparison, found, isIsolated)));
      return found.empty() ? kExitOk : kExitNo;
    }
    const std::string compared = countText(comparison.compared(), "tensor") + " compared with " + reference.name +
                                 leftOutText(reference, comparison);
    if (found.empty()) {
      invocation_.note("no difference: " + compared);
      return kExitOk;
    }
    const TensorDifference &first = found[0];
    std::string text = "first difference: " + first.tensor + ", made by op " + first.op + " (" + first.type + ")" +
                       first.where.at() + "\n" + first.text;
    if (!first.unknownInput.empty())
      text +=
          "  its input " + first.unknownInput +
          " is not there in the reference: what made it may be to blame; --no-fuse keeps every op as it is written\n";
    else if (isIsolated)
      text += "  the op had the reference's inputs\n";
    else if (!first.brokenInput.empty())
      text += "  its input " + first.brokenInput + " differs, too\n";
    constexpr size_t kShown = 20;
    for (size_t i = 1; i < found.size() && i < kShown; ++i)
      text += (i == 1 ? "then " : "     ") + found[i].tensor + " by " + found[i].type + found[i].where.at() + ": " +
              countText(static_cast<uint64_t>(found[i].comparison.mismatches)) + " of " +
              countText(static_cast<uint64_t>(found[i].comparison.count)) + " values, by up to " +
              roundedText(found[i].comparison.maxAbs, 3) + "\n";
    if (found.size() > kShown) text += "     and " + countText(found.size() - kShown) + " more\n";
    invocation_.terminal().out(text);
    invocation_.note(countText(found.size()) + (found.size() == 1 ? " differs of " : " differ of ") + compared);
    return kExitNo;
  }

  static std::string leftOutText(const Reference &reference, const RunComparison &comparison) {
    const uint64_t n = comparison.leftOut();
    if (!n) return "";
    return "; " + countText(n) + (n == 1 ? " is" : " are") + " not there under the same name and shape" +
           (reference.leftOut ? ", or took too much memory" : "");
  }

  Json document(const Reference &reference, const RunComparison &comparison, const std::vector<TensorDifference> &found,
                bool isIsolated) const {
    Json list = Json::array();
    for (const TensorDifference &d : found) {
      const Comparison &c = d.comparison;
      list.push_back({{"tensor", d.tensor},
                      {"op", d.op},
                      {"type", d.type},
                      {"src", d.where.text()},
                      {"count", c.count},
                      {"mismatches", c.mismatches},
                      {"max_abs", realJson(c.maxAbs)},
                      {"max_rel", realJson(c.maxRel)},
                      {"unknown_input", d.unknownInput.empty() ? Json(nullptr) : Json(d.unknownInput)}});
    }
    return {{"schema", 1},
            {"graph", planned_->input.name},
            {"reference", reference.name},
            {"isolated", isIsolated},
            {"compared", comparison.compared()},
            {"left_out", comparison.leftOut()},
            {"differences", std::move(list)}};
  }

  Invocation &invocation_;
  FirstDifferenceOptions &options_;
  RunContext context_;
  PlannedRun *planned_ = nullptr;
};

} // namespace

std::vector<Option> FirstDifferenceOptions::options() {
  const std::set<std::string> ofRuns = {"--input",
                                        "--inputs",
                                        "--weights",
                                        "--partial-weights",
                                        "--fill",
                                        "--seed",
                                        "--cast",
                                        "--until",
                                        "--feed",
                                        "--shape",
                                        "--no-fuse",
                                        "--no-simplify",
                                        "--max-memory",
                                        "--place",
                                        "--allow-cpu-fallback",
                                        "--no-winograd",
                                        "--allow-tf32"};
  std::vector<Option> list;
  for (Option &option : run.options())
    if (ofRuns.count(option.name)) list.push_back(std::move(option));
  list.push_back({"--reference", 0, "WAY",
                  "what the run is held against: plain (nothing merged, fused or in place, one thread; the default), "
                  "one-thread (the same plan), f64, a PLAN or GRAPH, or a folder of tensors: OP/OUTPUT.npy or OP.npy",
                  &reference, true});
  list.push_back({"--chain", 0, "",
                  "each op gets what the run itself has made; else it gets the reference's inputs, and answers for "
                  "itself alone",
                  &isChain, true});
  list.push_back({"--rtol", 0, "[TENSOR:]X", "relative tolerance (default: what another order of sums may do)",
                  &rtolTexts_, true});
  list.push_back({"--atol", 0, "[TENSOR:]X", "absolute tolerance", &atolTexts_, true});
  for (Option &option : mesh.options()) list.push_back(std::move(option));
  return list;
}

Status FirstDifferenceOptions::check(const Invocation &invocation, const std::string &graph) {
  run.values.program = "opc debug first-diff";
  run.keepsGraph = true;
  OPC_RETURN_IF_ERROR(run.check(invocation, graph));
  run.compile.regions = false; // every tensor is looked at
  OPC_ASSIGN_OR_RETURN(const std::optional<MeshRequest> request, mesh.request());
  if (request && run.compile.device != "cpu")
    return Status(StatusCode::kUnsupported, "OPC0006",
                  "--mesh runs on the cpu, and the device is '" + run.compile.device + "'")
        .withHelp("leave one of them out");
  if (!run.compile.sizes.empty())
    return usageError("first-diff looks at one size, not at a range", "give a fixed one: --shape x=8,784");
  std::error_code error;
  if (reference != "plain" && reference != "one-thread" && reference != "f64" && !gitObjectOf(reference) &&
      !fs::exists(reference, error))
    return usageError("--reference takes plain, one-thread, f64, or a plan, graph or folder that exists, not '" +
                      reference + "'");
  OPC_RETURN_IF_ERROR(rtol.parse(rtolTexts_, "--rtol"));
  return atol.parse(atolTexts_, "--atol");
}

Outcome<int> findFirstDifference(Invocation &invocation, FirstDifferenceOptions &options) {
  return Search(invocation, options).run();
}

} // namespace opc::cli
