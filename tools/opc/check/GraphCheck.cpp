// One graph against its lock.
// SPDX-License-Identifier: Apache-2.0
#include "GraphCheck.h"

#include "BesideFiles.h"
#include "CommandLine.h"
#include "ExitCodes.h"
#include "FactNodes.h"
#include "FactsInput.h"
#include "FileBytes.h"
#include "GitFiles.h"
#include "GraphComparison.h"
#include "GraphFiles.h"
#include "GraphInput.h"
#include "GraphLint.h"
#include "Invocation.h"
#include "LockFile.h"
#include "LockedValues.h"
#include "Placement.h"
#include "PythonPlugins.h"
#include "TextParts.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

namespace opc::cli {

namespace {

const std::string kStandardInput = "-";
const std::string kAnyGraph = "GRAPH"; // in the help of what does not know the graph's name
constexpr int64_t kMostDevices = 1024; // of a lock's mesh; --mesh may name more

/// A glob that matches the name alone.
std::string literal(const std::string &name) {
  std::string glob;
  for (const char c : name)
    glob += std::string("*?[\\").find(c) == std::string::npos ? std::string(1, c) : std::string("\\") + c;
  return glob;
}

/// "the mesh 2x4 with x of [4,3]".
std::string targetText(const LockTarget &target) {
  std::string text = target.mesh.empty() ? "one device" : "the mesh " + target.mesh;
  if (target.device != LockTarget().device) text += " (" + target.device + ")";
  for (const auto &[name, dims] : target.shapes)
    text += (&name == &target.shapes.begin()->first ? " with " : ", ") + name + " of [" +
            joined(dims, ",", [](int64_t d) { return std::to_string(d); }) + "]";
  return text;
}

/// What a lock is in place of a file that is read.
std::string whyNotRead(const std::string &lockPath) {
  std::error_code error;
  if (std::filesystem::is_symlink(lockPath, error)) return "a link, and links are not followed";
  const std::string other = otherThanFile(lockPath);
  return other.empty() ? "" : other + ", and a lock is a regular file";
}

/// Against another graph: what the lock is for, where there is one, and nothing else of it.
LockTarget targetOfLock(const std::string &graph) {
  const std::string lockPath = lockPathOf(graph);
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(lockPath, error))) return {};
  const Result<FileBytes> file = FileBytes::open(lockPath);
  if (!file) return {};
  Result<Lock> lock = readLock(file->view(), lockPath);
  return lock && lock->version <= kLockVersion ? std::move(lock->target) : LockTarget();
}

/// What the graph itself says of inputs that the lock gives shapes.
void compareDeclared(CheckedGraph *checked) {
  for (const GraphTensor &in : checked->now.facts.inputs) {
    const auto was = checked->locked->declared.find(in.name), is = checked->now.declared.find(in.name);
    if (was == checked->locked->declared.end() || is == checked->now.declared.end() || was->second == is->second)
      continue;
    GraphFinding f;
    f.rule = "INPUT_TYPE_CHANGED";
    f.message = "the graph says another type: " + was->second + " -> " + is->second;
    f.help = "what is checked is " + tensorTypeText(in) + ", which the lock or --shape says";
    f.subject = ChangeSubject::kInput;
    f.severity = Severity::kError;
    f.op = in.name;
    f.range = in.range;
    f.expected = was->second;
    f.found = is->second;
    checked->report.findings.push_back(std::move(f));
  }
}

const std::string kNoGradient = "OPC0505"; // the compiler's warning, of a graph with a job for training

/// A gradient that is lost is said once: the doubt and the compiler's warning of the same variable say no more.
void dropEchoes(std::vector<GraphFinding> *all) {
  std::set<std::string> lost;
  for (const GraphFinding &f : *all)
    if (f.rule == "GRAD_MISSING" && f.severity == Severity::kError) lost.insert(f.op);
  const auto isEcho = [&](const GraphFinding &f) {
    if (f.rule == "GRAD_MISSING") return f.severity == Severity::kWarning && lost.count(f.op) > 0;
    return f.rule == "WARNING_ADDED" && f.found == kNoGradient && !lost.empty();
  };
  all->erase(std::remove_if(all->begin(), all->end(), isEcho), all->end());
}

/// Whether earlier builds have another digest of its IR: with the places of the graphs in ops, and with defaults that
/// initializers say.
bool isOtherIr(const GraphFacts &facts) {
  return hasInnerGraphs(facts) || std::any_of(facts.variables.begin(), facts.variables.end(), saysDefaults);
}

class GraphChecker {
public:
  GraphChecker(const Registry &registry, const CheckSettings &settings, const std::string &path)
      : registry_(registry), settings_(settings), path_(path == kStandardInput ? "<stdin>" : path),
        isStandardInput_(path == kStandardInput) {
    checked_.report.graph = path;
  }

  CheckedGraph run() {
    if (!isStandardInput_)
      settings_.isAgainst ? void(target_ = targetOfLock(path_)) : readLockFile(); // what is piped has nothing beside it
    makeNow();
    if (settings_.isAgainst && checked_.isWhole) makeOlder();
    if (checked_.isWhole && checked_.locked) compare();
    if (checked_.isWhole && isMissing_)
      add("LOCK_MISSING", "there is no " + lockPathOf(path_), command() + " --update");
    finish();
    return std::move(checked_);
  }

private:
  GraphFinding &add(const char *rule, std::string message, std::string help = "") {
    return checked_.report.add(rule, std::move(message), std::move(help));
  }
  std::string command() const { return "opc check " + shellQuoted(path_); }
  void stop(int exitCode) { checked_.report.exitCode = std::max(checked_.report.exitCode, exitCode); }

  void readLockFile() {
    const std::string lockPath = lockPathOf(path_);
    std::error_code error;
    if (const std::string why = whyNotRead(lockPath); !why.empty()) {
      add("LOCK_DAMAGED", lockPath + " is " + why, "remove it, and write the lock: " + command() + " --update");
      stop(kExitInvalid);
      return;
    }
    if (!std::filesystem::exists(lockPath, error)) {
      isMissing_ = true; // a finding for a graph that can have one
      return;
    }
    Result<FileBytes> file = FileBytes::open(lockPath);
    if (!file) {
      add("LOCK_DAMAGED", file.status().message(), file.status().help());
      stop(exitCodeOf(file.status().code()));
      return;
    }
    Result<Lock> lock = readLock(file->view(), lockPath);
    if (!lock) {
      std::string help = lock.status().help();
      if (const size_t at = help.find(kAnyGraph); at != std::string::npos)
        help.replace(at, kAnyGraph.size(), shellQuoted(path_));
      add("LOCK_DAMAGED", lock.status().message(), std::move(help));
      stop(exitCodeOf(lock.status().code()));
      return;
    }
    if (lock->version > kLockVersion) {
      add("LOCK_NEWER_THAN_TOOL",
          lockPath + " is of version " + std::to_string(lock->version) + ", and this opc reads up to " +
              std::to_string(kLockVersion),
          "use the opc that wrote it, or write it anew: " + command() + " --update");
      stop(kExitUnsupported);
      return;
    }
    checked_.locked = *std::move(lock);
    completeAttributes(registry_, &checked_.locked->facts);
    target_ = checked_.locked->target;
  }

  /// Mesh and shapes of the flags, else those of the lock.
  void chooseTarget(LockRequest *request) {
    request->model = settings_.model;
    request->target.shapes =
        settings_.shapes.empty() && settings_.model.dims.empty() ? target_.shapes : settings_.shapes;
    if (settings_.mesh) {
      request->options.mesh = settings_.mesh;
      request->target.mesh = settings_.meshText;
      return;
    }
    if (target_.mesh.empty()) return;
    const auto dims = parseMesh(target_.mesh);
    // Anybody may have written the lock, and a plan for a million devices takes its time.
    if (!dims || Placement::dense(*dims).size() > kMostDevices) {
      add("LOCK_STALE",
          "the lock is for the mesh '" + target_.mesh + "', which is none of at most " + std::to_string(kMostDevices) +
              " devices",
          command() + " --update --mesh 2x4");
      return;
    }
    request->options.mesh.emplace();
    request->options.mesh->dims = *dims;
    request->target.mesh = target_.mesh;
  }

  /// What is run: on which inputs, and what is kept of it.
  void chooseOutputs(LockRequest *request) {
    request->runs = settings_.runs;
    request->output.threads = settings_.threads;
    const bool isLocked = checked_.locked && checked_.locked->sections.count(LockSection::kNumerics);
    if (isLocked) {
      request->inputs = checked_.locked->numerics;
      request->inputs.outputs.clear();
      request->inputs.valuesFile.clear();
      for (const OutputValues &o : checked_.locked->numerics.outputs)
        if (o.isInside) request->output.tensors.push_back(literal(o.name));
    }
    if (settings_.tensors) request->output.tensors = *settings_.tensors;
    if (!request->target.mesh.empty()) request->output.tensors.clear(); // a rank has pieces of them
    // Where both sides are here all values are compared.
    request->output.keepsValues =
        settings_.keepsValues || settings_.isAgainst || (isLocked && !checked_.locked->numerics.valuesFile.empty());
    request->inputs.inputsFile.clear();
    if (isStandardInput_) return;
    const std::string file = inputsPathOf(path_);
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return;
    request->output.inputs = file; // one that cannot be read is an error of the run
    if (const Result<FileBytes> bytes = openBeside(file)) request->inputs.inputsFile = digestOf(bytes->view());
  }
  Result<GraphInput> read() const {
    if (!isStandardInput_ || !settings_.standardInput) return readGraphInput(path_);
    GraphInput input;
    input.name = path_;
    input.bytes = *settings_.standardInput;
    input.isPlan = looksLikePlan(input.bytes);
    return input;
  }

  void makeNow() {
    LockRequest request;
    chooseTarget(&request);
    request.options.maxErrors = 1000;
    chooseOutputs(&request);
    Result<GraphInput> input = read();
    if (!input || input->isPlan) {
      add("GRAPH_INVALID", input ? path_ + " is a plan, and graphs are checked" : input.status().message(),
          input ? "name the graph that the plan was compiled from" : input.status().help());
      stop(input ? kExitInvalid : exitCodeOf(input.status().code()));
      return;
    }
    if (!input->isModel) text_ = input->bytes.text();
    MadeLock made = makeLock(registry_, request, path_, std::move(input->bytes));
    for (GraphFinding &f : made.findings) checked_.report.findings.push_back(std::move(f));
    stop(made.exitCode);
    checked_.isWhole = made.exitCode == kExitOk;
    warnings_ = std::move(made.warnings);
    checked_.plan = std::move(made.plan);
    checked_.inputs = std::move(made.inputs);
    checked_.isModel = made.isModel;
    checked_.values = std::move(made.values);
    checked_.now = std::move(made.lock);
    if (checked_.isWhole)
      for (GraphFinding &f : lintGraph(checked_.now.facts)) checked_.report.findings.push_back(std::move(f));
  }

  /// The graph that it is checked against, compiled and run as this one is. Of a revision the graph's bytes are read,
  /// and of a model the files that hold its tensors: nothing else of it is looked at.
  void makeOlder() {
    std::string name = settings_.againstFile;
    SharedBytes bytes;
    if (settings_.revision.empty()) {
      Result<GraphInput> input = readGraphInput(name);
      if (!input) return olderFails(input.status().message(), exitCodeOf(input.status().code()));
      bytes = input->bytes;
    } else {
      Result<std::optional<std::string>> found = findGitFile(settings_.revision, path_);
      if (!found) return olderFails(found.status().message(), exitCodeOf(found.status().code()));
      if (!*found) {
        add("GRAPH_ADDED", settings_.revision + " does not have it").severity = Severity::kNote;
        return;
      }
      bytes = **std::move(found);
      name = "git:" + settings_.revision + ":" + gitPathOf(path_);
    }
    LockRequest request;
    chooseTarget(&request);
    chooseOutputs(&request);
    if (!settings_.revision.empty()) request.model.beside = gitFilesBeside(settings_.revision, path_);
    MadeLock made = makeLock(registry_, request, name, std::move(bytes));
    older_ = std::move(made.values);
    if (made.exitCode && made.findings.empty()) return olderFails("", made.exitCode);
    if (made.exitCode) return olderFails(made.findings[0].message, made.exitCode, made.findings[0].help);
    checked_.locked = std::move(made.lock);
  }
  void olderFails(const std::string &why, int exitCode, const std::string &help = "") {
    add("GRAPH_INVALID", "the older graph: " + why, help);
    stop(exitCode);
  }

  void compare() {
    const Lock &old = *checked_.locked, &now = checked_.now;
    std::set<LockSection> compared;
    for (const LockSection s : lockSections()) {
      if (old.damaged.count(s)) stale(std::string("section ") + lockSectionName(s) + " was edited by hand");
      if (now.sections.count(s) && !old.sections.count(s) &&
          s != LockSection::kConstants) // which earlier builds wrote not
        stale(std::string("the lock has no section ") + lockSectionName(s));
      if (now.sections.count(s) && old.sections.count(s)) compared.insert(s);
    }
    if (old.target != now.target)
      stale("the lock is for " + targetText(old.target) + ", and the graph was compiled for " + targetText(now.target));
    const auto has = [&](LockSection s) { return compared.count(s) > 0; };
    ComparisonOptions options;
    options.interface = has(LockSection::kInterface);
    options.ops = has(LockSection::kOps);
    options.tensors = has(LockSection::kTensors) && options.ops;
    options.pieces = options.tensors && settings_.use >= RuleCategory::kParallel;
    options.grad = has(LockSection::kGrad);
    options.sbp = has(LockSection::kSbp);
    options.boxing = has(LockSection::kBoxing);
    options.tasks = has(LockSection::kTasks);
    options.cost = has(LockSection::kCost) && old.target == now.target;
    const auto growth = [&](size_t cost) {
      const auto found = settings_.growth.find(costNames()[cost]);
      return found == settings_.growth.end() ? 0 : found->second;
    };
    options.peakTolerance = growth(0);
    options.flopsTolerance = growth(1);
    options.commTolerance = growth(2);
    options.taskTolerance = growth(3);
    listRules(compared);
    GraphFacts was = old.facts, is = now.facts;
    if (has(LockSection::kConstants)) {
      was.ops.insert(was.ops.end(), old.constants.begin(), old.constants.end());
      is.ops.insert(is.ops.end(), now.constants.begin(), now.constants.end());
    }
    forgetWhatLockLacks(old.detailed, &was, &is);
    for (GraphFinding &f : compareGraphs(was, is, options).findings) checked_.report.findings.push_back(std::move(f));
    if (has(LockSection::kInterface)) compareDeclared(&checked_);
    if (has(LockSection::kTasks)) {
      compareDigest("SCHEDULE_CHANGED", "kernels run in another order", old.schedule, now.schedule);
      if (old.detailed.count(LockSection::kOps) || !isOtherIr(now.facts))
        compareDigest("IR_HASH_CHANGED", "what was compiled from the graph is something else", old.ir, now.ir);
    }
    if (has(LockSection::kNumerics)) compareValues(settings_, std::move(older_), &checked_);
    if (has(LockSection::kDiagnostics)) compareWarnings();
    dropEchoes(&checked_.report.findings);
  }

  void compareDigest(const char *rule, const char *what, const std::string &was, const std::string &is) {
    if (was.empty() || was == is) return; // a lock of an older version has none
    GraphFinding &f = add(rule, what);
    f.expected = was;
    f.found = is;
  }

  /// What was looked at, for reports that count what has passed.
  void listRules(const std::set<LockSection> &compared) {
    for (const Rule &rule : allRules())
      if (rule.section && compared.count(*rule.section) && rule.category <= settings_.use &&
          !settings_.except.count(rule.name))
        checked_.report.rules.push_back(rule.name);
  }

  void stale(const std::string &why) { add("LOCK_STALE", why, command() + " --update"); }

  void compareWarnings() {
    std::vector<LockedWarning> known = checked_.locked->warnings;
    for (const Diagnostic &d : warnings_) {
      const auto found = std::find(known.begin(), known.end(), LockedWarning{d.code, d.subject});
      if (found != known.end()) {
        known.erase(found);
        continue;
      }
      GraphFinding &f = add("WARNING_ADDED", d.code + ": " + d.message, d.help);
      f.range = d.range;
      f.found = d.subject.empty() && d.code == kNoGradient ? d.code : d.subject;
    }
  }

  /// Names the graph, gives each finding the weight of its rule, and drops what is not wanted.
  void finish() {
    std::vector<GraphFinding> wanted;
    for (GraphFinding &f : checked_.report.findings) {
      f.graph = path_;
      const Rule *rule = findRule(f.rule);
      // A cost that has fallen is no fault.
      const bool improved = f.severity == Severity::kNote && rule && rule->isRatchet;
      // What is doubtful by itself is a warning, though the rule's change is an error.
      const bool isDoubt = f.severity == Severity::kWarning;
      if (rule && !improved && !isDoubt) f.severity = rule->severity;
      if (improved && f.help.empty() && !settings_.isAgainst) f.help = "lock it in: " + command() + " --update=cost";
      if (isWanted(settings_, f)) wanted.push_back(std::move(f));
    }
    checked_.report.findings = std::move(wanted);
    if (!checked_.report.findings.empty() && text_.find('\0') == std::string::npos)
      checked_.report.text = std::move(text_);
    if (!checked_.report.has(Severity::kError)) checked_.report.exitCode = kExitOk; // what stopped it is left out
  }

  const Registry &registry_;
  const CheckSettings &settings_;
  const std::string path_;
  const bool isStandardInput_;
  std::vector<Diagnostic> warnings_;
  std::vector<NamedOutput> older_; // whole outputs of the lock, or of the older graph
  std::string text_;               // of the graph's file
  bool isMissing_ = false;         // there is no lock
  LockTarget target_;              // of the lock
  CheckedGraph checked_;
};

} // namespace

const std::vector<std::string> &costNames() {
  static const std::vector<std::string> names = {"peak_bytes", "flops", "comm_bytes", "tasks"};
  return names;
}

namespace {

/// How globs below a folder call a file: by its way from there, whatever it was called on the command line.
std::string pathBelow(const std::string &folder, const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path place = placeOfFile(path);
  return place.lexically_relative(fs::weakly_canonical(folder.empty() ? "." : folder, error)).string();
}

} // namespace

bool isIgnored(const CheckSettings &settings, const std::string &glob, const std::string &graph) {
  std::string plain = std::filesystem::path(glob).lexically_normal().string(), folder = settings.ignoreFolder;
  if (graph == kStandardInput || graph == "<stdin>") return matchesGlob(plain, graph);
  if (plain.rfind('/', 0) == 0) return matchesGlob(plain, std::filesystem::absolute(graph).lexically_normal().string());
  while (plain.rfind("../", 0) == 0) plain.erase(0, 3), folder = (folder.empty() ? "." : folder) + "/..";
  return matchesGlob(plain, pathBelow(folder, graph));
}

bool isWanted(const CheckSettings &settings, const GraphFinding &finding) {
  const Rule *rule = findRule(finding.rule);
  if (!rule || settings.except.count(finding.rule)) return !rule;
  for (const IgnoredRule &ignored : settings.ignored)
    if ((ignored.rule == "*" || ignored.rule == finding.rule) && isIgnored(settings, ignored.glob, finding.graph))
      return false;
  return rule->category <= settings.use || rule->category == RuleCategory::kAlways;
}

CheckedGraph checkGraph(const Registry &registry, const CheckSettings &settings, const std::string &path) {
  // A manifest says what operators in Python are, and runs nothing: whoever may be checked may have one.
  static std::mutex loading;
  std::unique_lock<std::mutex> guard(loading);
  const std::vector<std::string> plugins = withPythonOps(settings.plugins, {}, path);
  if (plugins == settings.plugins) {
    guard.unlock();
    return GraphChecker(registry, settings, path).run();
  }
  const Result<Registry> own = loadRegistry(plugins);
  guard.unlock();
  if (own) return GraphChecker(*own, settings, path).run();
  CheckedGraph broken;
  GraphFinding f;
  f.rule = "GRAPH_INVALID";
  f.severity = Severity::kError;
  f.graph = path;
  f.message = own.status().message();
  f.help = own.status().help();
  broken.report.graph = path;
  broken.report.exitCode = exitCodeOf(own.status().code());
  if (isWanted(settings, f)) broken.report.findings.push_back(std::move(f));
  return broken;
}

} // namespace opc::cli
